// An extension in Node: a counter for each session. Start it by hand with the socket of the server's home,
//   node counter.js /var/lib/sandglass/run/extend.sock
// or name it in the file that the setting `extensions` points to:
//   {"extensions": {"counter": {"command": ["node", "/path/to/counter.js"]}}}
const net = require('net');
const readline = require('readline');

const socket = process.argv[2] ? net.connect(process.argv[2]) : null;
const input = socket || process.stdin, output = socket || process.stdout;
const say = m => output.write(JSON.stringify(m) + '\n');
const counts = new Map();

say({ hello: 1, name: 'counter', backends: [{
    name: 'counter', kind: 'session', help: 'Counts.',
    tools: [{
        name: 'add', title: 'Add', help: 'Adds to the count of this session and tells it.',
        parameters: { type: 'object', properties: { n: { type: 'integer', default: 1 } }, additionalProperties: false },
        result: { type: 'object', properties: { count: { type: 'integer' } } },
    }],
}] });

readline.createInterface({ input }).on('line', line => {
    const m = JSON.parse(line);
    if (m.open) {
        counts.set(m.session, m.config.start || 0);
        say({ id: m.id, ok: {} });
    } else if (m.close) {
        counts.delete(m.session);
    } else if (m.call === 'counter:add') {
        const count = (m.temporary ? 0 : counts.get(m.session) || 0) + (m.params.n ?? 1);
        if (!m.temporary) counts.set(m.session, count);
        say({ id: m.id, ok: { count } });
    } else if (m.error) {
        console.error(m.error);
        process.exit(1);
    }
}).on('close', () => process.exit(0));
