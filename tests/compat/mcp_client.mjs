// The official TypeScript client, over HTTP or stdio, through everything it can do with our server. Prints one JSON object:
// what it saw. Arguments: "http" URL, or "stdio" COMMAND ARGS...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const [how, where, ...args] = process.argv.slice(2);
const transport = how === 'http' ? new StreamableHTTPClientTransport(new URL(where))
    : new StdioClientTransport({ command: where, args, env: process.env, stderr: 'ignore' });
const client = new Client({ name: 'compat', version: '1' });
const saw = {};
await client.connect(transport);
saw.server = client.getServerVersion().name;
const { tools } = await client.listTools(); // from here on the client checks results against their output schemas
saw.tools = tools.map(t => t.name);

const run = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
saw.hello = (await run('bash_run', { command: 'echo hello; pwd' })).structuredContent;
await run('file_write', { path: '/home/gem/a.txt', content: 'one\ntwo\n' });
saw.file = (await run('file_read', { path: 'a.txt', start_line: 2, end_line: 2 })).structuredContent.content;
saw.code = (await run('code_execute', { language: 'python', code: 'print(6*7)' })).structuredContent.stdout;
const failed = await run('file_read', { path: '/none' });
saw.failed = { isError: failed.isError, outcome: failed._meta.outcome };

// Everything else that has landed: each tool that only looks and asks for nothing, then one of each kind that does something.
// The client compares every result with the tool's output schema and throws if it does not fit.
saw.broken = [];
saw.looked = [];
const attempt = async (name, args) => {
    if (!saw.tools.includes(name)) return undefined;
    try {
        const r = await run(name, args, { timeout: 120000 });
        saw.looked.push(name);
        return r;
    } catch (e) { saw.broken.push(`${name}: ${e.message ?? e}`); return undefined; }
};
if (how === 'http') { // the same whatever carries it
    for (const t of tools)
        if (t.annotations?.readOnlyHint && !(t.inputSchema.required ?? []).length && !/^(probe|browser|desktop|vm)_/.test(t.name)) await attempt(t.name, {});
    await attempt('jupyter_execute', { code: '1+1' });
    await attempt('box_snapshot', {});
    await attempt('shell_exec', { command: 'echo from a terminal' });
    await attempt('browser_goto', { url: 'data:text/html,<h1>hello</h1>' });
    await attempt('browser_snapshot', {});
    await attempt('vm_wait', { time: 0.1 });
    saw.screen = ((await attempt('desktop_screenshot', {}))?.content ?? []).map(c => c.type);
    saw.picture = ((await attempt('browser_screenshot', {}))?.content ?? []).map(c => c.type);
}

const updates = [];
client.setNotificationHandler(ResourceUpdatedNotificationSchema, n => { updates.push(n.params.uri); });
await client.subscribeResource({ uri: 'file:///home/gem/a.txt' });
await run('file_write', { path: '/home/gem/a.txt', content: 'three' });
for (let i = 0; i < 100 && !updates.length; i++) await new Promise(r => setTimeout(r, 50));
saw.updates = updates;
saw.resource = (await client.readResource({ uri: 'file:///home/gem/a.txt' })).contents[0].text;

const progress = [];
const slow = await run('bash_run', { command: 'sleep 2.2; echo slept' }, { onprogress: p => progress.push(p.progress) });
saw.slow = slow.structuredContent.stdout;
saw.progress = progress.length;

const stop = new AbortController();
setTimeout(() => stop.abort('enough'), 700);
try { await run('bash_run', { command: 'sleep 60' }, { signal: stop.signal }); } catch (e) { saw.aborted = String(e.message ?? e); }
saw.after = (await run('bash_run', { command: 'echo still here' })).structuredContent.stdout;
await client.close();
console.log(JSON.stringify(saw));
process.exit(0);
