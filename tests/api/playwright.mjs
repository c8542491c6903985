// Twenty steps by playwright-core over CDP, each verified; prints what it saw. argv: endpoint, headers as JSON, site.
import { chromium } from 'playwright-core';
import assert from 'node:assert';

const [endpoint, headers, site] = process.argv.slice(2);
const saw = {};
let steps = 0;
const step = async (name, fn) => {
  try { saw[name] = await fn(); } catch (e) { console.error(`step ${steps + 1}, ${name}: ${e.stack}`); process.exit(1); }
  steps++;
};
const browser = await chromium.connectOverCDP(endpoint, { headers: JSON.parse(headers), timeout: 120000 });
const context = browser.contexts()[0];
let page, other;
const patience = { timeout: 60000 };

await step('version', async () => browser.version());
await step('page', async () => { page = await context.newPage(); page.setDefaultTimeout(60000); return page.url(); });
await step('goto', async () => (await page.goto(site + '/form.html', patience)).status());
await step('title', async () => page.title());
await step('fill', async () => { await page.fill('#name', 'Ada'); return page.inputValue('#name'); });
await step('check', async () => { await page.check('#agree'); return page.isChecked('#agree'); });
await step('select', async () => page.selectOption('#colour', 'g'));
await step('keyboard', async () => { await page.focus('#name'); await page.keyboard.press('End'); await page.keyboard.type('!'); return page.inputValue('#name'); });
await step('frame', async () => { await page.frameLocator('#frame').locator('#inside').click(); return page.title(); });
await step('shadow', async () => { await page.locator('#deep').click(); return page.title(); });
await step('screenshot', async () => (await page.screenshot()).length > 1000);
await step('submit', async () => { await page.click('#send'); await page.waitForURL('**/done.html?*', patience); return page.textContent('#query'); });
await step('back', async () => { await page.goBack(patience); return new URL(page.url()).pathname; });
await step('evaluate', async () => page.evaluate(() => [1, 2, 3].reduce((a, b) => a + b)));
await step('dialog', async () => {
  page.once('dialog', d => d.accept());
  return page.evaluate(() => confirm('sure?'));
});
await step('route', async () => {
  await page.route('**/mocked', r => r.fulfill({ body: 'by the client' }));
  return page.evaluate(() => fetch('/mocked').then(r => r.text()));
});
await step('cookies', async () => {
  await context.addCookies([{ name: 'who', value: 'playwright', url: site }]);
  return (await context.cookies(site)).filter(c => c.name === 'who').map(c => c.value);
});
await step('context', async () => {
  other = await browser.newContext();
  const p = await other.newPage();
  await p.goto(site + '/done.html', patience);
  const own = await other.cookies(site);
  return [await p.title(), own.length];
});
await step('waits', async () => {
  await page.goto(site + '/late.html', patience);
  await page.click('#late');
  return new URL(page.url()).search;
});
await step('close', async () => { await other.close(); await page.close(); return context.pages().every(p => p !== page); });
await browser.close();
assert.equal(steps, 20);
console.log(JSON.stringify({ steps, saw }));
process.exit(0);
