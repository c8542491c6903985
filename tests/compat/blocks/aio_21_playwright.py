import asyncio
import os
from agent_sandbox import Sandbox
from playwright.async_api import async_playwright

sandbox = Sandbox(base_url=os.getenv("SANDBOX_BASE_URL", "http://localhost:8080"))
cdp_url = sandbox.browser.get_info().data.cdp_url

async def main():
    async with async_playwright() as pw:
        # Connect to the sandbox browser over CDP
        browser = await pw.chromium.connect_over_cdp(cdp_url)
        context = await browser.new_context()
        page = await context.new_page()

        await page.goto("https://duckduckgo.com")
        search_box = page.locator('input[name="q"]')
        await search_box.fill("playwright automation")
        await search_box.press("Enter")

        await page.wait_for_selector('[data-testid="result"]', timeout=10000)
        first = page.locator('[data-testid="result"]').first
        title = await first.locator('h2').inner_text()
        link = await first.locator('a').get_attribute('href')
        print(f"Title: {title}\nLink: {link}")

        await page.screenshot(path="results.png")
        await context.close()
        await browser.close()

asyncio.run(main())
