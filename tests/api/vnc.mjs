// Opens the page /vnc/index.html as a person would, waits for the picture, and types. argv: the page's address, what to type.
import { chromium } from 'playwright-core';

const [address, text] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: '/usr/lib/chromium/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const saw = { errors: [] };
page.setDefaultTimeout(120000);
page.on('pageerror', e => saw.errors.push(String(e)));
try {
  await page.goto(address);
  await page.waitForSelector('#state.up');
  saw.state = await page.textContent('#state');
  // the colour of the desktop is on the canvas
  await page.waitForFunction(() => {
    const c = document.querySelector('#screen canvas');
    const d = c && c.width > 100 && c.getContext('2d').getImageData(c.width - 50, 60, 1, 1).data;
    return d && d[0] === 0x2e && d[1] === 0x34 && d[2] === 0x40;
  });
  saw.size = await page.evaluate(() => { const c = document.querySelector('#screen canvas'); return [c.width, c.height]; });
  await page.locator('#screen canvas').focus();
  await page.keyboard.type(text, { delay: 20 });
  if (process.env.SHOT) { await page.waitForTimeout(1000); await page.screenshot({ path: process.env.SHOT }); }
} catch (e) {
  console.error(e.stack, page.url(), JSON.stringify(saw));
  process.exit(1);
}
await browser.close();
console.log(JSON.stringify(saw));
process.exit(0);
