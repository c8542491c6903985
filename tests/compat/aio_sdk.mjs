// Every operation through the TypeScript SDK: run by Node with the server's URL, and `browser` for the groups that need one, or `forms`
// and the rows of data/aio_forms.json. What counts as every operation is asked of the SDK's own classes: a method that nobody called is
// a failure.
import { SandboxClient } from '@agent-infra/sandbox';
import assert from 'node:assert';
import { readFileSync } from 'node:fs';

const [url, part = 'base', table] = process.argv.slice(2);
const client = new SandboxClient({ environment: url, timeoutInSeconds: 120, maxRetries: 0 });
const groups = {
  base: ['sandbox', 'shell', 'bash', 'file', 'util', 'skills', 'proxy', 'auth', 'mcp', 'jupyter', 'nodejs', 'code'],
  forms: ['sandbox', 'shell', 'bash', 'file', 'util', 'skills', 'proxy'],
  browser: ['browser', 'browserPage', 'browserTabs', 'browserCookies', 'browserNetwork', 'browserState', 'browserCaptcha', 'display'],
}[part];
const uncalled = new Set();
const c = Object.fromEntries(
  ['file', 'bash', ...groups].map((group) => {
    const real = client[group];
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(real)).filter((m) => m !== 'constructor' && !m.startsWith('_'));
    if (groups.includes(group)) methods.forEach((m) => uncalled.add(`${group}.${m}`));
    return [group, Object.fromEntries(methods.map((m) => [m, (...args) => (uncalled.delete(`${group}.${m}`), real[m](...args))]))];
  }),
);

const same = assert.deepStrictEqual;
const ok = async (promise) => {
  const r = await promise;
  assert.ok(r.ok, JSON.stringify(r.error ?? null));
  return r.body;
};
const data = async (promise) => (await ok(promise)).data;
const fails = async (status, promise) => {
  const r = await promise;
  assert.ok(!r.ok, `answered ${JSON.stringify(r.body)}`);
  same(r.error.content?.statusCode ?? r.rawResponse?.status, status);
};
const until = async (what) => {
  for (const end = Date.now() + 60000; !(await what()); await new Promise((go) => setTimeout(go, 100))) assert.ok(Date.now() < end, `${what}`);
};

async function base() {
  const context = await ok(c.sandbox.getContext());
  same(context.home_dir, '/home/gem');
  assert.ok((await data(c.sandbox.getPythonPackages())).some((p) => p.name === 'pip'));
  await ok(c.sandbox.getNodejsPackages());
  await ok(c.sandbox.registerHook({ name: 'h', command: 'true', timeout: 2, priority: 3 }));
  same((await data(c.sandbox.listHooks())).map((h) => h.name), ['h']);
  await ok(c.sandbox.removeHook('h'));
  await fails(404, c.sandbox.removeHook('h'));
  await fails(422, c.sandbox.registerHook({ name: 'no good', command: 'true' }));
  same((await data(c.sandbox.observeStatus())).running, false);
  assert.ok((await data(c.sandbox.observeLive({ top_rows: 3 }))).cgroup.mem_current_bytes > 0);
  const watch = (await data(c.sandbox.observeStart({ interval_seconds: 0.2, include_processes: true }))).session_id;
  same((await data(c.sandbox.observeStop({ session_id: watch }))).stopped, true);
  const report = await data(c.sandbox.observeExport({ reason: 'test' }));
  same((await data(c.sandbox.observeReports())).map((r) => r.report_id), [report.report_id]);
  await ok(c.sandbox.observeReportDownload(report.report_id));
  await ok(c.sandbox.observeReportDelete(report.report_id));
  await fails(404, c.sandbox.observeReportDelete(report.report_id));

  same((await data(c.shell.execCommand({ command: 'echo "Hello World" | tr "a-z" "A-Z"' }))).output, 'HELLO WORLD');
  const s = (await data(c.shell.createSession({ id: 'ts', exec_dir: '/tmp', no_change_timeout: 120 }))).session_id;
  await ok(c.shell.createSession());
  await ok(c.shell.execCommand({ id: s, command: 'cd /usr' }));
  same((await data(c.shell.execCommand({ id: s, command: 'pwd', timeout: 10 }))).output, '/usr');
  assert.ok((await data(c.shell.listSessions())).sessions.ts);
  same((await data(c.shell.execCommand({ id: s, command: 'read x; echo got $x', async_mode: true }))).status, 'running');
  await ok(c.shell.writeToProcess({ id: s, input: '42', press_enter: true }));
  same((await data(c.shell.waitForProcess({ id: s, seconds: 10 }))).status, 'completed');
  assert.ok((await data(c.shell.view({ id: s }))).output.includes('got 42'));
  await ok(c.shell.execCommand({ id: s, command: 'sleep 60', async_mode: true }));
  same((await data(c.shell.killProcess({ id: s }))).status, 'terminated');
  await ok(c.shell.updateSession({ id: s, no_change_timeout: 5 }));
  assert.ok((await data(c.shell.getSessionStats())).total_sessions >= 2);
  assert.ok((await data(c.shell.getTerminalUrl())).includes('/terminal?session_id='));
  await fails(404, c.shell.view({ id: 'none' }));
  await fails(422, c.shell.execCommand({}));
  await ok(c.shell.cleanupSession(s));
  await ok(c.shell.cleanupAllSessions());
  same((await data(c.shell.listSessions())).sessions, {});

  same((await data(c.bash.exec({ command: 'echo $A; exit 2', env: { A: 'b' }, timeout: 10 }))).exit_code, 2);
  const b = (await data(c.bash.createSession({ session_id: 'mine', exec_dir: '/tmp' }))).session_id;
  const run = await data(c.bash.exec({ session_id: b, command: 'cat', async_mode: true }));
  await ok(c.bash.write({ session_id: b, input: 'x\n' }));
  same((await data(c.bash.output({ session_id: b, command_id: run.command_id, wait: true }))).stdout, 'x\n');
  await ok(c.bash.kill({ session_id: b, signal: 'SIGTERM' }));
  same((await data(c.bash.output({ session_id: b, wait: true }))).command.exit_code, -15);
  assert.ok((await data(c.bash.sessions())).some((x) => x.session_id === b));
  await ok(c.bash.closeSession(b));
  await fails(404, c.bash.output({ session_id: b }));
  await fails(422, c.bash.exec({ command: null }));

  const f = '/home/gem/notes.txt';
  same((await data(c.file.writeFile({ file: f, content: 'one\ntwo\n', encoding: 'utf-8' }))).bytes_written, 8);
  await ok(c.file.writeFile({ file: f, content: 'three\n', append: true }));
  same((await data(c.file.readFile({ file: f, start_line: 1, end_line: 2 }))).content, 'two\n');
  same((await data(c.file.readFile({ file: '/none' }))).error_type, 'not_found');
  same((await data(c.file.replaceInFile({ file: f, old_str: 'two', new_str: '2' }))).replaced_count, 1);
  same((await data(c.file.searchInFile({ file: f, regex: '^t' }))).line_numbers, [2]);
  const [match] = (await data(c.file.grepFiles({ path: '/home/gem', pattern: 'THREE', include: ['*.txt'], case_insensitive: true, max_results: 5 }))).matches;
  same([match.line_content, match.line], ['three', 'three']);
  same((await data(c.file.findFiles({ path: '/home/gem', glob: '**/*.txt' }))).files, [f]);
  same((await data(c.file.globFiles({ path: '/home/gem', pattern: '*.txt', include_metadata: true }))).total_count, 1);
  same((await data(c.file.listPath({ path: '/home/gem', include_size: true }))).files.filter((x) => x.name === 'notes.txt').length, 1);
  const edit = (request) => data(c.file.strReplaceEditor(request));
  await edit({ command: 'create', path: '/home/gem/hello.py', file_text: 'Hello\n' });
  await edit({ command: 'str_replace', path: '/home/gem/hello.py', old_str: 'Hello', new_str: 'Hi' });
  assert.ok((await edit({ command: 'view', path: '/home/gem/hello.py' })).output.includes('Hi'));
  await edit({ command: 'undo_edit', path: '/home/gem/hello.py' });
  same((await data(c.file.readFile({ file: '/home/gem/hello.py' }))).content, 'Hello\n');
  const up = await data(c.file.uploadFile({ file: { data: Buffer.from([0, 1, 2]), filename: 'up.bin' }, path: '/tmp/up.bin' }));
  same([up.file_size, up.success], [3, true]);
  same(Buffer.from(await (await ok(c.file.downloadFile({ path: '/tmp/up.bin' }))).arrayBuffer()), Buffer.from([0, 1, 2]));
  await fails(404, c.file.downloadFile({ path: '/none' }));
  const w = (await data(c.file.watchCreate({ path: '/home/gem', recursive: true, exclude: ['*.tmp'] }))).watcher_id;
  await ok(c.file.writeFile({ file: '/home/gem/new', content: 'x' }));
  assert.ok((await ok(c.file.watchPoll(w, { timeout: 5 }))).events.length);
  same((await ok(c.file.watchList())).count, 1);
  await ok(c.file.watchEvents(w));
  same((await ok(c.file.watchWait({ path: '/home/gem/new', event_types: ['create'], timeout: 5 }))).event.type, 'create');
  await ok(c.file.watchStop(w));
  await fails(404, c.file.watchPoll(w));
  await fails(422, c.file.writeFile({ file: f }));

  same(await data(c.util.convertToMarkdown({ uri: 'data:text/html,<h1>x</h1>' })), '# x\n');
  await ok(c.bash.exec({ command: "mkdir -p ~/s && printf -- '---\\nname: s\\n---\\nhi\\n' > ~/s/SKILL.md && cd ~ && python3 -m zipfile -c s.zip s" }));
  const packed = Buffer.from(await (await ok(c.file.downloadFile({ path: '/home/gem/s.zip' }))).arrayBuffer());
  same((await data(c.skills.registerSkills({ file: { data: packed, filename: 's.zip' }, name: 's' }))).count, 1);
  same((await data(c.skills.listMetadata({ names: 's' }))).skills.map((x) => x.name), ['s']);
  assert.ok((await data(c.skills.getContent('s'))).content.includes('hi'));
  await ok(c.skills.deleteSkill('s'));
  await fails(404, c.skills.getContent('s'));
  await ok(c.skills.clearSkills());

  same((await data(c.proxy.addMapping({ source: 'app.example', target: '3000' }))).internal_port, 3000);
  same((await data(c.proxy.listMappings())).length, 1);
  same((await data(c.proxy.diagnose({ url: 'http://app.example/x' }))).route, 'mapping');
  await ok(c.proxy.removeMapping('app.example'));
  await ok(c.proxy.addExclude({ pattern: '10.0.0.0/8' }));
  same(await data(c.proxy.listExcludes()), ['10.0.0.0/8']);
  await ok(c.proxy.removeExclude({ pattern: '10.0.0.0/8' }));
  same((await data(c.proxy.setUpstream({ server: 'u:p@127.0.0.1:9' }))).username, 'u');
  same((await data(c.proxy.getUpstream())).addr, '127.0.0.1:9');
  await ok(c.proxy.removeUpstream());
  await ok(c.proxy.health());
  await fails(404, c.proxy.removeMapping('app.example'));

  assert.ok((await ok(c.auth.createTicket())).ticket);
  await ok(c.auth.authenticate());
  const [server] = await data(c.mcp.listMcpServers());
  const tools = (await data(c.mcp.listMcpTools(server))).tools;
  assert.ok(tools.length > 10);
  const run_code = tools.find((t) => /shell|terminal|bash/.test(t.name) && t.inputSchema.required?.join() === 'command');
  assert.ok(JSON.stringify(await data(c.mcp.executeMcpTool(server, run_code.name, { command: 'echo $((6*7))' }))).includes('42'));
  await fails(404, c.mcp.listMcpTools('none'));

  assert.ok((await data(c.jupyter.getInfo())).available_kernels.length);
  const j = (await data(c.jupyter.createSession({ kernel_name: 'python3' }))).session_id;
  await ok(c.jupyter.executeCode({ session_id: j, code: 'x = 20' }));
  assert.ok(JSON.stringify((await data(c.jupyter.executeCode({ session_id: j, code: 'x + 1', timeout: 60 }))).outputs).includes('21'));
  assert.ok(j in (await data(c.jupyter.listSessions())).sessions);
  await ok(c.jupyter.deleteSession(j));
  await fails(404, c.jupyter.deleteSession(j));
  await ok(c.jupyter.deleteSessions());

  assert.ok((await data(c.nodejs.getInfo())).node_version);
  same((await data(c.nodejs.executeCode({ code: 'console.log(6 * 7)', timeout: 30 }))).stdout, '42\n');
  const n = (await data(c.nodejs.createSession({ session_id: 'n1', cwd: '/tmp' }))).session_id;
  await ok(c.nodejs.executeCode({ code: 'globalThis.x = 5', session_id: n }));
  same((await data(c.nodejs.executeCode({ code: 'console.log(x + process.cwd())', session_id: n }))).stdout, '5/tmp\n');
  same((await data(c.nodejs.getSession(n))).session.session_id, n);
  await ok(c.nodejs.updateSession(n, { max_idle_time: 100 }));
  await ok(c.nodejs.listSessions());
  await ok(c.nodejs.deleteSession(n));
  await fails(404, c.nodejs.getSession(n));

  await ok(c.code.getInfo());
  same((await data(c.code.executeCode({ language: 'python', code: 'print(6 * 7)' }))).stdout, '42\n');
  await fails(422, c.code.executeCode({ language: 'cobol', code: 'x' }));
}

const SITE = 'http://127.0.0.1:8000/';
const PAGE = `<!doctype html><title>Page</title><h1>Head</h1><p>A <b>bold</b> word</p><form><input id=q name=q>
<input type=checkbox id=box><select id=pick><option value=a>A</option><option value=b>B</option></select><input type=file id=file></form>
<button id=go onclick="fetch('/api/data').then(r => r.text()).then(t => document.title = t)">Go</button>
<div style="height:3000px"></div><p id=end>The end</p>
<script>console.log('said'); document.cookie = 'seen=yes'; addEventListener('click', e => { document.body.dataset.at = [e.clientX, e.clientY] })</script>`;

async function browser() {
  await ok(c.file.writeFile({ file: '/home/gem/site/index.html', content: PAGE }));
  await ok(c.bash.exec({ command: 'cd ~/site && exec python3 -m http.server 8000 --bind 127.0.0.1', async_mode: true }));
  await until(async () => (await data(c.bash.exec({ command: 'curl -sf 127.0.0.1:8000/ >/dev/null' }))).exit_code === 0);
  const p = c.browserPage;
  const js = (expression) => data(p.evaluate({ expression }));
  const png = async (promise) => same(Buffer.from(await (await ok(promise)).arrayBuffer()).subarray(1, 4).toString(), 'PNG');

  same((await data(p.navigate({ url: SITE, wait_until: 'load', timeout: 60 }))).title, 'Page');
  assert.ok((await data(c.browser.getInfo())).cdp_url.startsWith('ws'));
  await png(c.browser.screenshot());
  await ok(c.browser.setConfig({ resolution: { width: 1280, height: 720 } }));
  same((await ok(c.browser.executeAction({ action_type: 'CLICK', x: 600, y: 400 }))).action_performed, 'CLICK');
  same(await js('document.body.dataset.at'), '600,400');
  await ok(c.browser.getProxyPac());

  await ok(p.fill({ selector: '#q', text: 'hello' }));
  await ok(p.click({ selector: '#q', click_count: 3 }));
  await ok(p.typeText({ text: 'typed', delay: 0 }));
  same(await js('q.value'), 'typed');
  await ok(p.hotKey({ keys: ['Control', 'a'] }));
  await ok(p.pressKey({ key: 'Backspace' }));
  same(await js('q.value'), '');
  await ok(p.check({ selector: '#box' }));
  same(await js('box.checked'), true);
  await ok(p.uncheck({ selector: '#box' }));
  same(await js('box.checked'), false);
  await ok(p.selectOption({ selector: '#pick', value: 'b' }));
  same(await js('pick.value'), 'b');
  await ok(p.uploadFile({ selector: '#file', files: ['/home/gem/site/index.html'] }));
  same(await js('file.files[0].name'), 'index.html');
  await ok(p.fillForm({ items: [{ selector: '#q', text: 'formed' }] }));
  same(await js('q.value'), 'formed');
  await ok(p.hover({ selector: '#go' }));
  await ok(p.scroll({ direction: 'down', amount: 100 }));
  same(await js('scrollY'), 100);
  await ok(p.scrollTo({ x: 0, y: 0 }));
  await ok(p.scrollToElement({ selector: '#end' }));
  assert.ok((await js('scrollY')) > 1000);
  await png(p.screenshot({ full_page: true }));
  assert.ok((await data(p.getHtml({ outer: true }))).includes('<h1>'));
  assert.ok((await data(p.getText())).includes('Head'));
  assert.ok((await data(p.getMarkdown())).markdown.includes('**bold**'));
  assert.ok((await data(p.getElements())).some((e) => e.id === 'go'));
  assert.ok((await data(p.getConsole())).some((m) => m.text === 'said'));
  await ok(p.exportConsole({ save_path: '/home/gem/console.json', clear: true }));
  same((await data(p.findText({ keyword: 'the END' })))[0].text, 'The end');
  await ok(p.wait({ type: 'selector', selector: '#end', state: 'attached', timeout: 30 }));
  same((await data(p.record({ action: 'status' }))).status, 'idle');
  await ok(p.reload());
  await ok(p.navigate({ url: SITE + '?two' }));
  await ok(p.back());
  same(await js('location.search'), '');
  await ok(p.forward());
  same(await js('location.search'), '?two');
  await fails(404, p.click({ index: 99999 }));
  await fails(422, p.wait({ type: 'never' }));

  same((await data(c.browserTabs.list())).length, 1);
  same((await data(c.browserTabs.create({ url: SITE }))).index, 1);
  await ok(c.browserTabs.activate(0));
  await ok(c.browserTabs.close(1));
  await fails(404, c.browserTabs.close(9));

  await ok(c.browserCookies.setCookies({ cookies: [{ name: 'n', value: 'v', url: SITE }] }));
  same((await data(c.browserCookies.getCookies({ urls: SITE }))).map((k) => k.name).sort(), ['n', 'seen']);
  await ok(c.browserState.save({ path: '/home/gem/state.json' }));
  await ok(c.browserCookies.clearCookies());
  same(await data(c.browserCookies.getCookies()), []);
  await ok(c.browserState.load({ path: '/home/gem/state.json' }));
  assert.ok((await data(c.browserCookies.getCookies())).some((k) => k.name === 'n'));

  const net = c.browserNetwork;
  await ok(net.addRoute({ url_pattern: '**/api/data', response: { status: 200, body: 'mocked', content_type: 'text/plain' } }));
  await ok(p.click({ selector: '#go' }));
  await ok(p.wait({ type: 'function', expression: "document.title === 'mocked'", timeout: 30 }));
  await ok(net.removeRoute({ url_pattern: '**/api/data' }));
  await ok(net.setHeaders({ headers: { 'X-One': '1' } }));
  await ok(net.setScopedHeaders({ origin: 'http://127.0.0.1:8000', headers: { 'X-Two': '2' } }));
  await ok(p.navigate({ url: SITE + '?headers' }));
  const [sent] = await data(net.getRequests({ filter: '?headers', limit: 1 }));
  const headers = Object.fromEntries(Object.entries(sent.request_headers).map(([k, v]) => [k.toLowerCase(), v]));
  same([headers['x-one'], headers['x-two']], ['1', '2']);
  await ok(net.exportHar({ save_path: '/home/gem/t.har' }));
  same((await data(c.browserCaptcha.detect())).detected, false);
  await ok(c.browserCaptcha.wait({ timeout: 2 }));
  await ok(c.display.record({ action: 'status' }));
  await ok(c.browser.restart({ mode: 'hard' }));
  same((await data(p.navigate({ url: SITE }))).title, 'Page');
}

// Each with defaults only, with every parameter set, and wrong.
async function forms() {
  const kept = {};
  const failed = [];
  const value = (v) => (v?.$file ? { data: Buffer.from(v.$file, 'base64'), filename: 'up.bin' } : typeof v === 'string' && v[0] === '$' ? kept[v.slice(1)] : v);
  for (const [form, name, path, given, expected, keep = {}] of JSON.parse(readFileSync(table))) {
    const [group, method] = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase()).split('.');
    const request = Object.fromEntries(Object.entries(given).map(([k, v]) => [k, value(v)]));
    const r = await c[group][method](...path.map(value), ...(Object.keys(given).length ? [request] : []));
    const got = !r.ok ? (r.error.content?.statusCode ?? r.rawResponse?.status) : r.body?.success === false ? 'failed' : 200;
    if (got !== expected) failed.push(`${form} ${name} ${JSON.stringify(given)}: ${got}, not ${expected}: ${JSON.stringify(r.error ?? r.body)}`);
    for (const [key, place] of Object.entries(keep)) kept[key] = place.split('.').reduce((at, part) => at?.[part], r.body);
  }
  same(failed, []);
}

await { base, browser, forms }[part]();
same([...uncalled], []);
console.log(`sdk: all ${part} operations answered`);
