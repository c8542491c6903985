// JavaScript contexts of a box: one per process, over Node's own REPL evaluator, so that top-level await, the value of
// the last expression and names that last from call to call are Node's. Requests come on descriptor 3, each answered
// once: a line with the number of bytes, then so many bytes of JSON, both ways.
'use strict';
const fs = require('fs');
const net = require('net');
const path = require('path');
const repl = require('repl');
const util = require('util');
const { createRequire } = require('module');
const { PassThrough } = require('stream');

const quiet = new PassThrough();
quiet.resume();
const server = repl.start({
  input: new PassThrough(), output: quiet, prompt: '', terminal: false, useGlobal: true, breakEvalOnSigint: true,
  ignoreUndefined: true,
});
server.removeAllListeners('exit');
// While code runs synchronously the evaluator breaks it by itself, but only if nobody listens.
const onSigint = () => server.emit('SIGINT');
process.on('SIGINT', onSigint);

let busy = null; // ends the run under way with an error that nobody caught
function onUncaught(error) {
  if (busy) busy(error);
  else process.stderr.write(`Uncaught ${util.inspect(error)}\n`);
}
server._domain.removeAllListeners('error'); // where the evaluator puts what code throws
server._domain.on('error', onUncaught);
process.on('uncaughtException', onUncaught);
process.on('unhandledRejection', onUncaught);

class Exit extends Error {}
process.exit = (code) => {
  const e = new Exit('exit');
  e.exitCode = Number(code ?? process.exitCode ?? 0);
  throw e;
};

// The places in a text where a statement of modules (import, export) begins: outside of brackets, strings, templates,
// comments and regular expressions.
const SKIP = { "'": /'(?:[^'\\\n]|\\[^])*'/y, '"': /"(?:[^"\\\n]|\\[^])*"/y, '//': /\/\/.*/y, '/*': /\/\*[^]*?\*\//y,
  '/': /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y, '`': /(?:[^`\\$]|\\[^]|\$(?!\{))*(`|\$\{)/y };
const BEFORE_REGEXP = /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield))$/;
const WORD = /[\w$]+/y;
const past = (kind, code, at) => {
  SKIP[kind].lastIndex = at;
  return SKIP[kind].test(code) ? SKIP[kind].lastIndex : at + 1;
};
function moduleStatements(code) {
  const found = [], open = [];
  let before = ''; // what came last, other than space and comments: tells a regular expression from a division
  for (let i = 0; i < code.length;) {
    const c = code[i], two = code.slice(i, i + 2), from = i;
    WORD.lastIndex = i;
    if (c === '`' || (c === '}' && open.at(-1) === '`')) {
      if (c === '}') open.pop();
      i = past('`', code, i + 1);
      if (code[i - 1] === '{') open.push('`');
    } else if (two === '//' || two === '/*') {
      i = past(two, code, i);
      if (code.slice(from, i).includes('\n')) before += '\n';
      continue;
    } else if (c === "'" || c === '"' || (c === '/' && BEFORE_REGEXP.test(before.trimEnd()))) {
      i = past(c, code, i);
    } else if (WORD.test(code)) {
      i = WORD.lastIndex;
      if (!open.length && /(?:^|[;}\n])\s*$/.test(before) && /^(?:import|export)$/.test(code.slice(from, i)) &&
          !/^\s*[(.]/.test(code.slice(i))) found.push(from);
    } else {
      if ('([{'.includes(c)) open.push(c);
      if (')]}'.includes(c)) open.pop();
      i++;
    }
    before = (before + code.slice(from, i)).slice(-32);
  }
  return found;
}

// `import a, { b as c } from 'm'` is for modules only; here it means the same by `await import('m')`. Nobody imports a
// cell, so `export` is left out.
const IMPORT = /import\s*(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\}|\*\s*as\s+([\w$]+))?\s*(?:from\s*)?((['"])[^'"\n]+\5)(?:\s+(?:with|assert)\s*(\{[^}]*\}))?[ \t]*;?/y;
const EXPORT = /export\s+default\s+|export\s*(?:\{[^}]*\}|\*(?:\s*as\s+[\w$]+)?)(?:\s*from\s*(['"])[^'"\n]+\1)?[ \t]*;?|export\s+/y;
function imports(code) {
  if (!/\b(?:import|export)\b/.test(code)) return code;
  const names = (list) => list.split(',').map((n) => n.trim()).filter(Boolean)
    .map((n) => n.replace(/^(\S+)\s+as\s+(\S+)$/, '$1: $2'));
  let text = '', done = 0;
  for (const at of moduleStatements(code)) {
    const kind = code.startsWith('import', at) ? IMPORT : EXPORT;
    kind.lastIndex = at;
    const m = kind.exec(code);
    if (!m) continue;
    text += code.slice(done, at);
    done = kind.lastIndex;
    if (kind === EXPORT) continue;
    const [, def, list, star, from, , attributes] = m;
    const module = `await import(${from}${attributes ? `, { with: ${attributes} }` : ''})`;
    const parts = [...(def ? [`default: ${def}`] : []), ...names(list ?? '')].join(', ');
    text += star ? `const ${star} = ${module}${def ? `, { ${parts} } = ${star}` : ''};`
      : parts ? `const { ${parts} } = ${module};` : `${module};`;
  }
  return text + code.slice(done);
}

const END = 64 << 10;
function cut(text) { // both ends of a long text, as of a long output
  const more = text.length - 2 * END;
  return more <= 0 ? text : `${text.slice(0, END)}\n[... ${more} characters omitted ...]\n${text.slice(-END)}`;
}

// What was printed is in the pipes before the answer is: else it would be the next call's.
const flushed = (stream) => new Promise((resolve) => {
  if (stream.writableLength === 0 || stream.destroyed) resolve();
  else stream.write('', resolve);
});

let count = 0;
function evaluate(code) {
  return new Promise((resolve) => {
    const done = (error, value) => { busy = null; resolve({ error, value, thrown: error !== null && error !== undefined }); };
    busy = (error) => { busy = null; resolve({ error, thrown: true }); }; // which may be null
    process.removeListener('SIGINT', onSigint);
    try {
      server.eval(imports(code) + '\n', server.context, `cell${count}`, done);
    } finally {
      process.on('SIGINT', onSigint);
    }
  });
}

function stackOf(error) {
  if (!(error instanceof Error)) return [`Uncaught ${util.inspect(error)}`];
  const lines = String(error.stack || error).split('\n');
  const ours = lines.findIndex((l) => /node:repl|node:vm|node:domain|node:internal|REPLServer/.test(l));
  return ours > 0 ? lines.slice(0, ours) : lines;
}

async function run(request) {
  count++;
  if (request.cwd) process.chdir(request.cwd);
  globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'));
  const { error, value, thrown } = await evaluate(request.code);
  const reply = { status: 'ok', exit_code: 0, count, figures: [], memory_bytes: process.resourceUsage().maxRSS * 1024 };
  try {
    reply.cwd = process.cwd();
  } catch {} // somebody has deleted it
  if (!thrown) {
    if (value !== undefined) reply.result = cut(typeof value === 'string' ? value : util.inspect(value, { depth: 4 }));
    return reply;
  }
  if (error instanceof Exit) {
    reply.exit_code = error.exitCode;
    reply.status = error.exitCode ? 'error' : 'ok';
    return reply;
  }
  const inner = error && error.err ? error.err : error; // SyntaxError of an unfinished text: repl.Recoverable
  const stack = stackOf(inner);
  process.stderr.write(stack.join('\n') + '\n');
  const interrupted = inner && inner.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
  return Object.assign(reply, {
    status: interrupted ? 'interrupted' : 'error', exit_code: 1, ename: (inner && inner.name) || 'Error',
    evalue: cut(String((inner && inner.message) ?? inner)), traceback: stack.map(cut),
  });
}

function answer(reply) {
  const text = Buffer.from(JSON.stringify(reply));
  let all = Buffer.concat([Buffer.from(`${text.length}\n`), text]);
  while (all.length) {
    try {
      all = all.subarray(fs.writeSync(3, all));
    } catch (e) {
      if (e.code !== 'EAGAIN') process.reallyExit(1);
    }
  }
}

let pending = Buffer.alloc(0);
let chain = Promise.resolve();
const control = new net.Socket({ fd: 3 });
control.on('data', (chunk) => {
  pending = Buffer.concat([pending, chunk]);
  for (;;) {
    const at = pending.indexOf(10);
    if (at < 0) return;
    const size = Number(pending.subarray(0, at));
    if (pending.length < at + 1 + size) return;
    const request = JSON.parse(pending.subarray(at + 1, at + 1 + size));
    pending = pending.subarray(at + 1 + size);
    chain = chain.then(() => run(request)).catch((e) => ({ status: 'error', exit_code: 1, evalue: String(e) }))
      .then(async (reply) => {
        await flushed(process.stdout);
        await flushed(process.stderr);
        answer(reply);
      });
  }
});
control.on('end', () => process.reallyExit(0));
control.on('error', () => process.reallyExit(0));
