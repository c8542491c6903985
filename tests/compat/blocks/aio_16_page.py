from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Navigate to a URL
client.browser_page.navigate(url="https://example.com", wait_until="networkidle")

# Get page text
text = client.browser_page.get_text()
print(text.data.text[:200])

# Get page markdown
md = client.browser_page.get_markdown()
print(md.data.content[:200])

# Evaluate JavaScript on the page
result = client.browser_page.evaluate(script="document.title")
print(result.data.result)  # Example Domain

# Click an element by CSS selector
client.browser_page.click(selector="#submit-button")

# Fill an input
client.browser_page.fill(selector='input[name="q"]', value="AIO Sandbox")

# Press a key
client.browser_page.press_key(key="Enter")

# Scroll the page
client.browser_page.scroll(amount=1000)

# Take a page screenshot
screenshot = client.browser_page.screenshot()
with open("page.png", "wb") as f:
    f.write(screenshot.data)
