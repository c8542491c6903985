// Runs in pages: finds elements by selector, by reference or by index, through open shadow roots and frames of the same
// origin, and tells where they are. A frame of another origin runs a copy of its own (`foreign`), whose references have a
// prefix and whose indexes begin at `first`. The result of each function is JSON.
(() => {
    if (globalThis.__sandglass) return;
    const refs = new Map();
    let last = 0, listed = [], first = 0, prefix = '';

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
        for (const [k, v] of refs) if (v === e) return k;
        refs.set(prefix + 'e' + ++last, e);
        return prefix + 'e' + last;
    };
    const roleOf = e => e.getAttribute('role') || ({
        A: e.href ? 'link' : '', BUTTON: 'button', SELECT: 'combobox', TEXTAREA: 'textbox', H1: 'heading', H2: 'heading', H3: 'heading',
        H4: 'heading', IMG: 'img', NAV: 'navigation', MAIN: 'main', FORM: 'form', UL: 'list', OL: 'list', LI: 'listitem', TABLE: 'table', TR: 'row',
        TD: 'cell', TH: 'columnheader', OPTION: 'option', LABEL: 'label', P: 'paragraph', DIALOG: 'dialog', SUMMARY: 'button', IFRAME: 'iframe',
        INPUT: { checkbox: 'checkbox', radio: 'radio', submit: 'button', button: 'button', range: 'slider', search: 'searchbox', hidden: '' }[e.type] ?? 'textbox',
    })[e.tagName] || '';
    const nameOf = e => (e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].innerText) || e.getAttribute('alt') ||
        e.getAttribute('title') || e.getAttribute('placeholder') ||
        (['A', 'BUTTON', 'H1', 'H2', 'H3', 'H4', 'LABEL', 'OPTION', 'SUMMARY', 'TD', 'TH', 'P', 'LI'].includes(e.tagName) ? e.innerText : '') || '').trim().replace(/\s+/g, ' ').slice(0, 120);

    const acts = {
        // where it is, after it was brought into view
        locate(how) {
            const e = find(how);
            if (!e) return null;
            e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
            return { ...place(e), element: describe(e), visible: visible(e), disabled: !!e.disabled };
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
            const walk = (e, deep) => {
                if (lines.length > how.max || deep > 200) return;
                if (e.nodeType !== 1 || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD'].includes(e.tagName)) return;
                const role = roleOf(e);
                let next = deep;
                if (role && (visible(e) || role === 'option')) {
                    let line = '  '.repeat(deep) + '- ' + role + ' ' + JSON.stringify(nameOf(e)) + ' [ref=' + refOf(e) + ']';
                    if ('value' in e && e.value && role !== 'button' && e.tagName !== 'LI' && e.type !== 'password') line += ' value=' + JSON.stringify(String(e.value).slice(0, 100));
                    if (e.checked) line += ' checked';
                    if (e.disabled) line += ' disabled';
                    lines.push(line);
                    next++;
                }
                if (e.shadowRoot) for (const k of e.shadowRoot.children) walk(k, next);
                let inner = null;
                if (e.tagName === 'IFRAME') try { inner = e.contentDocument; } catch { /* another origin */ }
                if (inner && inner.body) walk(inner.body, next);
                for (const k of e.children) walk(k, next);
            };
            if (document.body) walk(document.body, 0);
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
            return JSON.stringify(acts[act](how) ?? null);
        },
        configurable: false, enumerable: false,
    });
    globalThis.__sandglass_find = find;
})();
