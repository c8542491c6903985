// Called by browser.sh: browser.mjs PORT OUT. Samples are taken in turns, so that a busy machine is busy for both; the page comes
// from the same small server, once in the box and once beside playwright. Raw milliseconds go to OUT/browser-*.ms.
import { chromium } from 'playwright-core';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';

const [port, out] = process.argv.slice(2);
const n = Number(process.env.BENCH_N || 100);
const shell = '/usr/lib/chromium/chromium-headless-shell';
const program = fs.existsSync(shell) ? shell : '/usr/lib/chromium/chromium';
const rows = Array.from({ length: 40 }, (_, i) => `<tr><td>${i}</td><td>row number ${i}</td><td style="background:hsl(${i * 9},80%,60%)">&nbsp;</td></tr>`);
const PAGE = `<!doctype html><title>Static</title><h1>A static page</h1><p>${'Some words to draw. '.repeat(60)}</p><table>${rows.join('')}</table>`;
const SERVER = `import http.server, os, sys
os.chdir(sys.argv[1])
class H(http.server.SimpleHTTPRequestHandler):
    def log_message(*a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), H)
print(s.server_port, flush=True)
s.serve_forever()
`;
const agent = new http.Agent({ keepAlive: true });

const call = (method, where, body) => new Promise((done, failed) => {
  const r = http.request({ port, method, path: where, agent, headers: { 'Content-Type': 'application/json' } }, a => {
    const parts = [];
    a.on('data', d => parts.push(d));
    a.on('end', () => { const j = JSON.parse(Buffer.concat(parts)); a.statusCode < 300 ? done(j) : failed(new Error(JSON.stringify(j))); });
  });
  r.on('error', failed);
  r.end(body && JSON.stringify(body));
});
const made = await call('POST', '/sg/v1/boxes', { memory: '2g' });
const box = made.id || made.box.id;
const tool = async (name, params) => {
  const r = await call('POST', `/sg/v1/boxes/${box}/execute`, { tool: name, params });
  if (r.outcome !== 'ok') throw new Error(JSON.stringify(r));
  return r.data;
};

await tool('file:write', { path: '/home/gem/w/index.html', content: PAGE });
await tool('file:write', { path: '/home/gem/server.py', content: SERVER });
await tool('bash:start', { command: 'exec python3 /home/gem/server.py /home/gem/w 8000' });
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sgb-'));
fs.writeFileSync(path.join(dir, 'index.html'), PAGE);
fs.writeFileSync(path.join(dir, 'server.py'), SERVER);
const theirs = spawn('/usr/bin/python3', [path.join(dir, 'server.py'), dir, '0'], { stdio: ['ignore', 'pipe', 'ignore'] });
const theirPort = await new Promise(r => theirs.stdout.once('data', d => r(String(d).trim())));

const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
await tool('browser:goto', { url: 'about:blank', width: 1280, height: 800 });

const legs = {
  'sandglass-goto': () => tool('browser:goto', { url: 'http://127.0.0.1:8000/' }),
  'sandglass-screenshot': async () => Buffer.from((await tool('browser:screenshot', {})).image, 'base64'),
  'playwright-goto': () => page.goto(`http://127.0.0.1:${theirPort}/`),
  'playwright-screenshot': () => page.screenshot(),
};
const samples = Object.fromEntries(Object.keys(legs).map(k => [k, []]));
const one = async (who, keep) => {
  for (const what of ['goto', 'screenshot']) {
    const t = process.hrtime.bigint();
    const r = await legs[`${who}-${what}`]();
    if (keep) samples[`${who}-${what}`].push(Number(process.hrtime.bigint() - t) / 1e6);
    if (what === 'screenshot' && (r.length < 5000 || r.readUInt32BE(16) !== 1280)) throw new Error(`${who}: no picture of the page (${r.length} bytes)`);
  }
};
for (let i = 0; i < n + 5; i++)
  for (const who of i % 2 ? ['sandglass', 'playwright'] : ['playwright', 'sandglass']) await one(who, i >= 5);

const median = v => { const s = [...v].sort((a, b) => a - b); return s.length % 2 ? s[(s.length - 1) / 2] : (s[s.length / 2 - 1] + s[s.length / 2]) / 2; };
const both = who => samples[`${who}-goto`].map((v, i) => v + samples[`${who}-screenshot`][i]);
for (const [k, v] of Object.entries(samples)) fs.writeFileSync(path.join(out, `browser-${k}.ms`), v.map(x => x.toFixed(3)).join('\n') + '\n');
const a = median(both('sandglass')), b = median(both('playwright'));
console.log(`browser: navigate + screenshot, recorded\t${a.toFixed(2)} ms\tplaywright-core ${b.toFixed(2)} ms\t${(a / b).toFixed(3)}\t<=\t1.1\t${a <= 1.1 * b ? 'PASS' : 'MISS'}`);
for (const what of ['goto', 'screenshot'])
  console.log(`  ${what}\t${median(samples[`sandglass-${what}`]).toFixed(2)} ms\t${median(samples[`playwright-${what}`]).toFixed(2)} ms\t-\t-\t-\t`);
await browser.close();
theirs.kill();
fs.rmSync(dir, { recursive: true });
await call('DELETE', `/sg/v1/boxes/${box}`);
process.exit(0);
