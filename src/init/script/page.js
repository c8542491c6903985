// Runs in pages: finds elements by selector, by reference or by index, through open shadow roots and frames of the same
// origin, and tells where they are. A frame of another origin runs a copy of its own (`foreign`), whose references have a
// prefix and whose indexes begin at `first`. The result of each function is JSON.
(() => {
    if (globalThis.__sandglass) return;
    const refs = new Map(), named = new WeakMap();
    let last = 0, listed = [], first = 0, prefix = '', watching = null;

    const roots = function* (root) {
        yield root;
        for (const e of root.querySelectorAll('*')) {
            if (e.shadowRoot) yield* roots(e.shadowRoot);
            if (e.tagName === 'IFRAME' || e.tagName === 'FRAME') {
                let inner = null;
                try { inner = e.contentDocument; } catch { /* another origin */ }
                if (inner) yield* roots(inner);
            }
        }
    };
    const visible = e => {
        const r = e.getBoundingClientRect(), s = e.ownerDocument.defaultView.getComputedStyle(e);
        return r.width > 0 && r.height > 0 && s.visibility !== 'hidden' && s.display !== 'none';
    };
    // Tells the driver, once, that something in the page changed: whoever looks in vain then looks again.
    const EVENTS = ['load', 'transitionend', 'animationstart', 'animationend', 'toggle', 'input', 'change'];
    const watch = () => {
        if (watching || typeof __sandglass_stir !== 'function') return;
        const o = watching = new MutationObserver(() => told());
        const told = () => {
            o.disconnect();
            for (const t of EVENTS) removeEventListener(t, told, true);
            watching = null;
            __sandglass_stir('');
        };
        for (const root of roots(document)) o.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
        for (const t of EVENTS) addEventListener(t, told, true);
    };
    // Why the mouse would not reach it; what is disabled can be pointed at.
    const hindrance = (e, press) => {
        if (press && e.matches(':disabled')) return 'disabled';
        const r = e.getBoundingClientRect(), root = e.getRootNode();
        const hit = root.elementFromPoint ? root.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2) : null;
        if (!hit || e.contains(hit) || [...(e.labels || [])].some(l => l.contains(hit)) || (hit.closest('label') || {}).control === e) return undefined;
        for (let a = e; a; a = a.parentNode || a.host) if (a === hit) return undefined;
        return 'covered by ' + hit.outerHTML.slice(0, hit.outerHTML.indexOf('>') + 1).slice(0, 80);
    };
    const find = how => {
        if (how.ref) {
            const e = refs.get(how.ref);
            return e && e.isConnected ? e : null;
        }
        if (how.index !== undefined) {
            const e = listed[how.index - first];
            return e && e.isConnected ? e : null;
        }
        let selector = how.selector, text = null, xpath = null;
        if (selector.startsWith('text=')) text = selector.slice(5);
        else if (selector.startsWith('xpath=')) xpath = selector.slice(6);
        else if (selector.startsWith('//')) xpath = selector;
        else if (selector.startsWith('css=')) selector = selector.slice(4);
        for (const root of roots(document)) {
            let e = null;
            if (xpath) e = root.nodeType === 9 ? root.evaluate(xpath, root, null, 9, null).singleNodeValue : null;
            else if (text !== null) e = [...root.querySelectorAll('a,button,input,label,option,summary,h1,h2,h3,li,td,p,span,div')]
                .filter(x => (x.innerText || x.value || '').trim() === text || (x.innerText || '').trim().includes(text))
                .sort((a, b) => (a.innerText || '').length - (b.innerText || '').length)[0] || null;
            else e = root.querySelector(selector);
            if (e) return e;
        }
        return null;
    };
    const place = e => {
        let r = e.getBoundingClientRect(), x = r.left, y = r.top;
        for (let w = e.ownerDocument.defaultView; w !== window && w.frameElement; w = w.parent) {
            const f = w.frameElement.getBoundingClientRect();
            x += f.left + w.frameElement.clientLeft;
            y += f.top + w.frameElement.clientTop;
        }
        return { x, y, width: r.width, height: r.height };
    };
    const describe = e => ({
        tag: e.tagName.toLowerCase(), id: e.id || undefined, name: e.getAttribute('name') || undefined,
        type: e.getAttribute('type') || undefined, text: (e.innerText || e.value || e.getAttribute('aria-label') || '').trim().slice(0, 100),
    });
    const refOf = e => {
        if (!named.has(e)) {
            named.set(e, prefix + 'e' + ++last);
            refs.set(prefix + 'e' + last, e);
        }
        return named.get(e);
    };
    const ROLES = {
        BUTTON: 'button', SELECT: 'combobox', TEXTAREA: 'textbox', IMG: 'img', NAV: 'navigation', MAIN: 'main', FORM: 'form', UL: 'list', OL: 'list',
        LI: 'listitem', TABLE: 'table', TR: 'row', TD: 'cell', TH: 'columnheader', OPTION: 'option', LABEL: 'label', P: 'paragraph', DIALOG: 'dialog',
        SUMMARY: 'button', IFRAME: 'iframe', ARTICLE: 'article', ASIDE: 'complementary', FIELDSET: 'group', DETAILS: 'group', PROGRESS: 'progressbar',
        METER: 'meter', OUTPUT: 'status', VIDEO: 'video', AUDIO: 'audio', CANVAS: 'canvas', HR: 'separator', BLOCKQUOTE: 'blockquote', CAPTION: 'caption',
    };
    const INPUTS = { checkbox: 'checkbox', radio: 'radio', submit: 'button', button: 'button', reset: 'button', image: 'button', range: 'slider', number: 'spinbutton', search: 'searchbox', hidden: '' };
    const roleOf = e => {
        const own = (e.getAttribute('role') || '').split(' ')[0];
        if (own) return own === 'none' || own === 'presentation' ? '' : own;
        if (e.tagName === 'INPUT') return INPUTS[e.type] ?? 'textbox';
        if (e.tagName === 'A') return e.href ? 'link' : '';
        return ROLES[e.tagName] || (/^H[1-6]$/.test(e.tagName) ? 'heading' : e.getAttribute('contenteditable') === 'true' ? 'textbox' : '');
    };
    const line = (text, most) => (text || '').trim().replace(/\s+/g, ' ').slice(0, most);
    // Whose name is what they show.
    const SHOWN = ['link', 'button', 'heading', 'label', 'option', 'cell', 'columnheader', 'rowheader', 'gridcell', 'paragraph', 'listitem', 'tab', 'menuitem', 'treeitem', 'switch', 'caption', 'status', 'alert', 'tooltip'];
    const byId = e => (e.getAttribute('aria-labelledby') || '').split(/\s+/).map(id => id && e.getRootNode().getElementById(id)).filter(x => x).map(x => x.innerText).join(' ');
    const nameOf = (e, role) => line(byId(e) || e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].innerText) || e.getAttribute('alt') ||
        (e.tagName === 'INPUT' && role === 'button' && e.value) || (SHOWN.includes(role) && e.innerText) ||
        e.getAttribute('title') || e.getAttribute('placeholder'), role === 'paragraph' ? 500 : 120);
    const stateOf = (e, role) => {
        let s = '';
        if (role === 'heading') s += ' level=' + (e.getAttribute('aria-level') || e.tagName[1]);
        if ('value' in e && e.value && role !== 'button' && e.tagName !== 'LI' && e.type !== 'password') s += ' value=' + JSON.stringify(String(e.value).slice(0, 100));
        if (e.checked || e.getAttribute('aria-checked') === 'true') s += ' checked';
        if ((e.tagName === 'OPTION' && e.selected) || e.getAttribute('aria-selected') === 'true') s += ' selected';
        if (e.getAttribute('aria-pressed') === 'true') s += ' pressed';
        const open = e.tagName === 'DETAILS' || e.tagName === 'DIALOG' ? String(e.open) : e.getAttribute('aria-expanded');
        if (open === 'true') s += ' expanded';
        else if (open === 'false' && e.tagName !== 'DIALOG') s += ' collapsed';
        if (e.disabled || e.getAttribute('aria-disabled') === 'true') s += ' disabled';
        if (e === e.ownerDocument.activeElement && e.tagName !== 'BODY') s += ' focused';
        return s;
    };

    const acts = {
        watch() { return null; },
        // where it is, after it was brought into view
        locate(how) {
            const e = find(how);
            if (!e) return null;
            e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
            return { ...place(e), element: describe(e), visible: visible(e), not: how.hit && visible(e) ? hindrance(e, how.press) : undefined };
        },
        exists(how) { const e = find(how); return e ? { exists: true, visible: visible(e) } : null; },
        focus(how) {
            const e = find(how);
            if (!e) return null;
            e.scrollIntoView({ block: 'center', behavior: 'instant' });
            e.focus();
            if (how.clear && 'value' in e) {
                const set = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(e), 'value');
                set && set.set ? set.set.call(e, '') : e.value = '';
                e.dispatchEvent(new Event('input', { bubbles: true }));
            } else if (how.clear && e.isContentEditable) e.textContent = '';
            return { element: describe(e) };
        },
        select(how) {
            const e = find(how);
            if (!e || e.tagName !== 'SELECT') return null;
            const o = [...e.options], want = how.values || [];
            const chosen = o.filter((x, i) => want.includes(x.value) || want.includes(x.label) || want.includes(x.text.trim()) || how.option === i);
            if (!chosen.length) return { selected: [] };
            if (e.multiple) o.forEach(x => { x.selected = chosen.includes(x); });
            else e.value = chosen[0].value;
            e.dispatchEvent(new Event('input', { bubbles: true }));
            e.dispatchEvent(new Event('change', { bubbles: true }));
            return { selected: [...e.selectedOptions].map(x => x.value), element: describe(e) };
        },
        // a checkbox, a radio button, or what plays one
        check(how) {
            const e = find(how);
            if (!e) return null;
            const box = e.tagName === 'LABEL' && e.control ? e.control : e, role = box.getAttribute('role');
            const has = box.type === 'checkbox' || box.type === 'radio' || ['checkbox', 'radio', 'switch', 'menuitemcheckbox'].includes(role);
            if (has && how.scroll) e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
            return { has, checked: 'checked' in box ? !!box.checked : box.getAttribute('aria-checked') === 'true', ...place(visible(box) ? box : e), element: describe(e), visible: visible(box) || visible(e) };
        },
        scroll(how) {
            const e = how.selector ? find(how) : null;
            if (how.selector && !e) return null;
            const t = e || window;
            if (how.to) t.scrollTo({ left: how.x, top: how.y, behavior: 'instant' });
            else t.scrollBy({ left: how.x, top: how.y, behavior: 'instant' });
            return { x: e ? e.scrollLeft : scrollX, y: e ? e.scrollTop : scrollY, height: (e || document.documentElement).scrollHeight };
        },
        extract(how) {
            const e = how.selector ? find(how) : document.documentElement;
            if (!e) return null;
            const body = how.selector ? e : document.body || e;
            if (how.what === 'html') {
                const type = document.doctype && how.outer && !how.selector ? new XMLSerializer().serializeToString(document.doctype) : '';
                return { content: how.outer || !how.selector ? type + e.outerHTML : e.innerHTML };
            }
            if (how.what === 'links') return { links: [...body.querySelectorAll('a[href]')].map(a => ({ text: a.innerText.trim(), href: a.href })) };
            if (how.what === 'attribute') return { content: e.getAttribute(how.attribute) };
            if (how.what === 'value') return { content: 'value' in e ? String(e.value) : '' };
            return { content: body.innerText };
        },
        // where a text is, without regard to case
        find(how) {
            const found = [], wanted = how.text.toLowerCase();
            for (const root of roots(document)) {
                const walk = (root.ownerDocument || root).createTreeWalker(root.body || root, NodeFilter.SHOW_TEXT);
                for (let n = walk.nextNode(); n && found.length < 1000; n = walk.nextNode()) {
                    const e = n.parentElement;
                    if (!e || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE'].includes(e.tagName) || !visible(e)) continue;
                    const text = n.data, low = text.toLowerCase();
                    for (let i = low.indexOf(wanted); i >= 0 && found.length < 1000; i = low.indexOf(wanted, i + wanted.length))
                        found.push({ text: text.slice(i, i + wanted.length), context: text.slice(Math.max(0, i - 50), i + wanted.length + 50).trim(), tag: e.tagName.toLowerCase(), ref: refOf(e), ...place(e) });
                }
            }
            return { found };
        },
        markdown(how) {
            const pick = how.selector ? find(how) : document.querySelector('article') || document.querySelector('main,[role=main]') || document.body;
            if (!pick) return null;
            const skip = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'IFRAME', 'SVG', 'HEAD', 'BUTTON', 'SELECT', 'INPUT', 'TEXTAREA']);
            const blocks = new Set(['P', 'DIV', 'SECTION', 'ARTICLE', 'MAIN', 'HEADER', 'FOOTER', 'ASIDE', 'NAV', 'FIGURE', 'FIGCAPTION', 'FORM', 'FIELDSET', 'DETAILS', 'SUMMARY', 'DL', 'DT', 'DD', 'ADDRESS']);
            const line = s => s.replace(/\s+/g, ' ');
            const inside = e => [...(e.shadowRoot || e).childNodes].map(node).join('');
            const item = (li, mark) => mark + inside(li).trim().replace(/\n{2,}/g, '\n').replace(/\n/g, '\n' + ' '.repeat(mark.length));
            const cell = c => line(inside(c)).trim().replace(/\|/g, '\\|');
            const table = t => {
                const rows = [...t.rows].map(r => [...r.cells].map(cell)), width = Math.max(0, ...rows.map(r => r.length));
                if (!width) return '';
                const show = r => '| ' + [...r, ...Array(width - r.length).fill('')].join(' | ') + ' |';
                return [show(rows[0]), show(Array(width).fill('---')), ...rows.slice(1).map(show)].join('\n');
            };
            const node = n => {
                if (n.nodeType === 3) return line(n.data);
                if (n.nodeType !== 1 || skip.has(n.tagName.toUpperCase())) return '';
                const t = n.tagName, style = getComputedStyle(n);
                if (style.display === 'none' || style.visibility === 'hidden') return '';
                if (/^H[1-6]$/.test(t)) return '\n\n' + '#'.repeat(+t[1]) + ' ' + line(inside(n)).trim() + '\n\n';
                if (t === 'BR') return '  \n';
                if (t === 'HR') return '\n\n---\n\n';
                if (t === 'PRE') return '\n\n```\n' + n.innerText.replace(/\n$/, '') + '\n```\n\n';
                if (t === 'CODE' || t === 'KBD') return '`' + n.innerText + '`';
                if (t === 'IMG') return n.src ? '![' + line(n.alt || '') + '](' + n.src + ')' : '';
                if (t === 'TABLE') return '\n\n' + table(n) + '\n\n';
                if (t === 'UL') return '\n\n' + [...n.children].map(k => item(k, '- ')).join('\n') + '\n\n';
                if (t === 'OL') return '\n\n' + [...n.children].map((k, i) => item(k, (n.start || 1) + i + '. ')).join('\n') + '\n\n';
                const text = inside(n), bare = line(text).trim();
                if (t === 'A' && n.href && bare) return '[' + bare + '](' + n.href + ')';
                if ((t === 'STRONG' || t === 'B') && bare) return '**' + bare + '**';
                if ((t === 'EM' || t === 'I') && bare) return '*' + bare + '*';
                if (t === 'BLOCKQUOTE') return '\n\n' + text.trim().split('\n').map(l => '> ' + l).join('\n') + '\n\n';
                return blocks.has(t) ? '\n\n' + text.trim() + '\n\n' : text;
            };
            const markdown = node(pick).replace(/[ \t]+\n(?!\S)/g, '\n').replace(/\n{3,}/g, '\n\n').replace(/^ (?=\S)/gm, "").trim();
            return { markdown, title: document.title, url: location.href };
        },
        // tests that tell people from programs, by what they are made of
        captcha() {
            const kinds = {
                recaptcha: '.g-recaptcha,iframe[src*="recaptcha"],#recaptcha', hcaptcha: '.h-captcha,iframe[src*="hcaptcha.com"]',
                turnstile: '.cf-turnstile,iframe[src*="challenges.cloudflare.com"]', cloudflare: '#challenge-running,#challenge-form,#cf-challenge-running',
                funcaptcha: '#FunCaptcha,iframe[src*="arkoselabs"],iframe[src*="funcaptcha"]', geetest: '.geetest_holder,.geetest_captcha,.geetest_panel',
                datadome: 'iframe[src*="captcha-delivery.com"]', aliyun: '#nc_1_wrapper,#aliyunCaptcha-window-popup', tencent: '#tcaptcha_iframe,iframe[src*="captcha.qq.com"]',
                image: 'img[src*="captcha" i],img[alt*="captcha" i],input[name*="captcha" i],input[id*="captcha" i]',
            };
            const found = [];
            for (const root of roots(document))
                for (const type in kinds)
                    for (const e of root.querySelectorAll(kinds[type]))
                        if (visible(e) && !found.some(f => f.type === type)) {
                            const key = e.getAttribute('data-sitekey') || (e.src && (/[?&](?:k|sitekey)=([^&]+)/.exec(e.src) || [])[1]) || null;
                            const answer = document.querySelector('[name="g-recaptcha-response"],[name="h-captcha-response"],[name="cf-turnstile-response"]');
                            found.push({ type, site_key: key, solved: !!(answer && answer.value), ref: refOf(e), ...place(e) });
                        }
            return { captchas: found };
        },
        // what one can act on, by number
        elements(how) {
            first = how.first || 0;
            listed = [];
            for (const root of roots(document))
                for (const e of root.querySelectorAll('a[href],button,input:not([type=hidden]),select,textarea,summary,[role=button],[role=link],[role=checkbox],[role=tab],[onclick],[contenteditable=true]'))
                    if (visible(e)) listed.push(e);
            return { elements: listed.slice(0, 1000).map((e, i) => ({ index: first + i, ref: refOf(e), role: roleOf(e), ...describe(e), ...place(e) })) };
        },
        // an outline with references that stay valid while the elements live
        snapshot(how) {
            const lines = [];
            // said: the name of something around it has its text already
            const walk = (e, deep, said) => {
                if (lines.length > how.max || deep > 200 || e.nodeType !== 1) return;
                if (['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD'].includes(e.tagName) || e.getAttribute('aria-hidden') === 'true') return;
                const role = roleOf(e), shown = visible(e) || role === 'option';
                const text = role || said || !shown ? '' : line([...e.childNodes].map(n => n.nodeType === 3 ? n.data : '').join(' '), 500);
                let next = deep;
                if (role && shown) {
                    lines.push('  '.repeat(deep) + '- ' + role + ' ' + JSON.stringify(nameOf(e, role)) + ' [ref=' + refOf(e) + ']' + stateOf(e, role));
                    next++;
                    said = said || SHOWN.includes(role);
                } else if (text) lines.push('  '.repeat(deep) + '- text ' + JSON.stringify(text) + ' [ref=' + refOf(e) + ']');
                if (e.shadowRoot) for (const k of e.shadowRoot.children) walk(k, next, said);
                let inner = null;
                if (e.tagName === 'IFRAME') try { inner = e.contentDocument; } catch { /* another origin */ }
                if (inner && inner.body) walk(inner.body, next, false);
                for (const k of e.children) walk(k, next, said);
            };
            if (document.body) walk(document.body, 0, false);
            return { snapshot: lines.slice(0, how.max).join('\n'), truncated: lines.length > how.max, url: location.href, title: document.title };
        },
    };
    // Can the page around this one reach into it? Then it has done so.
    const reached = () => {
        try { return window === top || !!window.frameElement; } catch { return false; }
    };
    Object.defineProperty(globalThis, '__sandglass', {
        value: (act, how) => {
            if (how.foreign && reached()) return 'null';
            prefix = how.prefix || '';
            const r = acts[act](how) ?? null;
            if (how.watch && (!r || r.exists || r.visible === false || r.not)) watch(); // it may be looked for again
            return JSON.stringify(r);
        },
        configurable: false, enumerable: false,
    });
    globalThis.__sandglass_find = find;
})();
