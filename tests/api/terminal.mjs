// The page /terminal as a person uses it: types, pastes, copies, changes its size, opens further tabs, loses the server. argv: the page's
// address; a line on stdin says that the server has been killed and started again. Prints what was seen.
import { chromium } from 'playwright-core';
import { createInterface } from 'node:readline';

const [url, shots] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: '/usr/lib/chromium/chromium', args: ['--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1000, height: 600 }, permissions: ['clipboard-read', 'clipboard-write'] });
const page = await context.newPage();
const saw = { errors: [] };
page.on('console', (m) => m.type() === 'error' && !m.text().includes('WebSocket') && saw.errors.push(m.text()));
page.on('pageerror', (e) => saw.errors.push(e.message));

const lines = (p = page) => p.evaluate(() => Array.from({ length: term.buffer.active.length }, (_, i) => term.buffer.active.getLine(i).translateToString(true)));
const until = async (what, p = page) => {
  for (const end = Date.now() + 30000; ; await p.waitForTimeout(50)) {
    const all = await lines(p);
    if (all.some((l) => what instanceof RegExp ? what.test(l) : l === what)) return all;
    if (Date.now() > end) throw new Error(`no ${what} in ${JSON.stringify(all.filter(Boolean).slice(-8))}`);
  }
};
const type = (text) => page.keyboard.type(text);
const run = async (command, what) => (await type(command + '\n'), until(what));
const paste = (text) => page.evaluate((t) => {
  const data = new DataTransfer();
  data.setData('text/plain', t);
  document.querySelector('.xterm-helper-textarea').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true }));
}, text);
const shot = (name, p = page) => shots && p.screenshot({ path: `${shots}/${name}.png` });

try {
  await page.goto(url);
  await type('echo early$((1+1))\n'); // perhaps before there is a connection
  await until('early2');
  const address = page.url();
  saw.size = (await run('stty size', /^\d+ \d+$/)).find((l) => /^\d+ \d+$/.test(l));
  await page.setViewportSize({ width: 1300, height: 800 });
  saw.larger = (await run('clear; stty size', /^4\d 1[45]\d$/)).find((l) => /^\d+ \d+$/.test(l));

  await type("clear; printf '漢字👍|\\n'\n"); // programs count two columns for each
  saw.wide = (await until('漢字👍|')).includes('漢字👍|');
  await type("clear; read -s -d R -p $'漢👍\\e[6n' x; echo; echo at${x#*;}\n");
  saw.column = (await until(/^at\d/)).find((l) => l.startsWith('at'));

  await type('clear; seq 200 > numbers; vim -u NONE numbers\n');
  await until(/^200?$|^30$/);
  const second = await context.newPage();
  await second.goto(address);
  await until('30', second);
  await second.waitForTimeout(500); // what it would say to vim
  await shot('vim', second);
  await page.bringToFront();
  await type(':.w! moved\n:q!\n');
  await run('clear; echo line $(cat moved)', 'line 1');
  const third = await context.newPage();
  await third.goto(address); // sees all of it again
  await until('line 1', third);
  await third.waitForTimeout(500);
  saw.typed = (await lines(third)).filter(Boolean).at(-1).replace(/.*\$/, '');
  await page.bringToFront();
  saw.again = (await run('clear; stty size', /^4\d 1[45]\d$/)).find((l) => /^\d+ \d+$/.test(l)); // the tab in use decides
  await type("clear; printf '\\e[6n'; sleep 1; read -t 0.5 -s -d X x; echo ${#x}\n");
  saw.answers = Number((await until(/^(\^\[.*R)?\d+$/)).find((l) => /^(\^\[.*R)?\d+$/.test(l)).replace(/.*R/, ''));
  await second.close();
  await third.close();

  await run('clear; echo go; cat > big; wc -c < big', 'go');
  const text = Array.from({ length: 4000 }, (_, i) => `${i} `.padEnd(49, 'é')).join('\n') + '\n';
  await paste(text);
  await page.waitForTimeout(1000);
  await page.keyboard.press('Control+d');
  saw.pasted = (await until(/^\d{6}$/)).find((l) => /^\d{6}$/.test(l)) === `${Buffer.byteLength(text)}`;
  await type('clear\n');
  await paste('echo one$((1))\necho two$((2))\n');
  await page.keyboard.press('Enter');
  await until('one1');
  saw.lines = (await until('two2')).includes('two2');

  await type('yes flood\n');
  await page.waitForTimeout(500);
  await page.keyboard.press('Control+c');
  await run('clear; echo COPY$((1))', 'COPY1');
  const at = (await lines()).lastIndexOf('COPY1');
  saw.copied = [];
  for (const keys of ['Control+c', 'Control+Shift+c']) {
    await page.evaluate(async (line) => (await navigator.clipboard.writeText(''), term.select(0, line, 5)), at);
    await page.keyboard.press(keys);
    saw.copied.push(await page.evaluate(() => navigator.clipboard.readText()));
  }

  await type('clear; echo before\n');
  await until('before');
  console.log('kill');
  await page.waitForSelector('#state:not(.up)', { timeout: 30000 });
  await type('echo meanwhile$((2+2))\n');
  await new Promise((go) => createInterface({ input: process.stdin }).once('line', go));
  const after = await until('meanwhile4');
  saw.reconnected = [page.url() === address, after.includes('before'), after.filter((l) => l === 'meanwhile4').length];
  await shot('end');
} catch (e) {
  console.error(e.stack, saw);
  await shot('failed');
  process.exit(1);
}
await browser.close();
console.log(JSON.stringify(saw));
process.exit(0);
