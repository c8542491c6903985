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

// `import a, { b as c } from 'm'` is for modules only; here it means the same by `await import('m')`.
function imports(code) {
  const names = (list) => list.split(',').map((n) => n.trim()).filter(Boolean)
    .map((n) => n.replace(/^(\S+)\s+as\s+(\S+)$/, '$1: $2')).join(', ');
  return code.replace(
    /^([ \t]*)import\s+(?:([\w$]+)\s*,?\s*)?(?:\{([^}]*)\}|\*\s+as\s+([\w$]+))?\s*(?:from\s*)?(['"])([^'"\n]+)\5[ \t]*;?/gm,
    (all, indent, def, list, star, quote, from) => {
      if (star && !def) return `${indent}const ${star} = await import(${quote}${from}${quote});`;
      const parts = [def && `default: ${def}`, list && names(list)].filter(Boolean).join(', ');
      if (!parts) return `${indent}await import(${quote}${from}${quote});`;
      return `${indent}const { ${parts} } = await import(${quote}${from}${quote});`;
    });
}

let count = 0;
function evaluate(code) {
  return new Promise((resolve) => {
    const done = (error, value) => { busy = null; resolve({ error, value }); };
    busy = (error) => done(error);
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
  const { error, value } = await evaluate(request.code);
  const reply = { status: 'ok', exit_code: 0, count, figures: [], memory_bytes: process.resourceUsage().maxRSS * 1024 };
  if (error === null || error === undefined) {
    if (value !== undefined) reply.result = typeof value === 'string' ? value : util.inspect(value, { depth: 4 });
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
    evalue: String((inner && inner.message) ?? inner), traceback: stack,
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
    chain = chain.then(() => run(request)).catch((e) => ({ status: 'error', exit_code: 1, evalue: String(e) })).then(answer);
  }
});
control.on('end', () => process.reallyExit(0));
control.on('error', () => process.reallyExit(0));
