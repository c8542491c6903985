from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Get browser info including CDP WebSocket URL
info = client.browser.get_info().data
print(info.cdp_url)  # ws://localhost:...
print(info.viewport)  # {"width": 1920, "height": 1080}

# Take a screenshot (returns raw bytes)
screenshot = client.browser.screenshot()
with open("screen.png", "wb") as f:
    f.write(screenshot.data)

# Configure resolution
client.browser.set_config(resolution="1920x1080")
