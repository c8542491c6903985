// Opens the pages of a box's applications as a person would. argv: the box's address, a ticket, "code" to try VS Code too, and a
// token, for the form that asks whoever has no ticket.
import { chromium } from 'playwright-core';

const [box, ticket, code, token] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: '/usr/lib/chromium/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
const saw = {};
page.setDefaultTimeout(120000);
try {
  const other = await (await browser.newContext()).newPage(); // with cookies of its own
  await other.goto(`${new URL('/', box)}`, { timeout: 120000 });
  await other.fill('#key', 'not-the-token');
  await other.click('button');
  await other.waitForSelector('text=Invalid authentication credentials');
  await other.fill('#key', token);
  await other.click('button');
  await other.waitForSelector('a:has-text("Terminal")');
  await other.click('a:has-text("Operations")'); // the browser remembers
  await other.waitForSelector('text=openapi.json');
  saw.login = true;
  await other.close();
  await page.goto(`${box}/jupyter?ticket=${ticket}`, { timeout: 120000 });
  await page.waitForSelector('text=hello.py');
  saw.jupyter = { url: page.url(), cookie: await page.evaluate(() => document.cookie.split('; ').filter(c => c.includes('ticket')).join()) };
  if (code === 'code') {
    await page.goto(`${box}/code-server/`, { timeout: 120000 }); // the cookie of our own origin is enough
    await page.waitForSelector('.explorer-folders-view');
    await page.waitForSelector('text=hello.py');
    await page.keyboard.press('Control+`');
    await page.waitForSelector('.xterm-helper-textarea', { state: 'attached' });
    for (let i = 0; i < 30 && !await page.locator('.explorer-folders-view >> text=typed.txt').count(); i++) { // its shell may not listen yet
      await page.click('.xterm-screen');
      await page.keyboard.type('echo typed > /home/gem/typed.txt\n');
      await page.waitForSelector('.explorer-folders-view >> text=typed.txt', { timeout: 5000 }).catch(() => 0);
    }
    if (process.env.SHOT) await page.screenshot({ path: process.env.SHOT });
  }
} catch (e) {
  console.error(e.stack, page.url(), (await page.textContent('body').catch(() => '')).slice(0, 1000));
  process.exit(1);
}
await browser.close();
console.log(JSON.stringify(saw));
process.exit(0);
