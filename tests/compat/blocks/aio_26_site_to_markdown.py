import asyncio, base64
from playwright.async_api import async_playwright
from agent_sandbox import Sandbox

async def site_to_markdown(url: str) -> str:
    c = Sandbox(base_url="http://localhost:8080")
    home_dir = c.sandbox.get_context().home_dir

    # 1. Browser: capture HTML and screenshot via CDP
    async with async_playwright() as p:
        cdp_url = c.browser.get_info().data.cdp_url
        browser = await p.chromium.connect_over_cdp(cdp_url)
        page = await (await browser.new_context()).new_page()
        await page.goto(url, wait_until="networkidle")
        html = await page.content()
        screenshot_b64 = base64.b64encode(await page.screenshot()).decode()
        await browser.close()

    # 2. Jupyter: convert HTML → markdown inside the sandbox
    c.jupyter.execute_code(code=f"""
from markdownify import markdownify
html = '''{html}'''
screenshot_b64 = "{screenshot_b64}"
md = f"{{markdownify(html)}}\\n\\n"
with open('{home_dir}/site.md', 'w') as f:
    f.write(md)
print("Conversion complete")
""")

    # 3. Shell: verify the file exists
    listing = c.shell.exec_command(command=f"ls -lh {home_dir}/*.md")
    print(listing.data.output)

    # 4. File: read and return the markdown
    return c.file.read_file(file=f"{home_dir}/site.md").data.content

result = asyncio.run(site_to_markdown("https://example.com"))
print(result[:500])
