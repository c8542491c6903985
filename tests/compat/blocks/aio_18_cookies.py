from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Get all cookies for a URL
cookies = client.browser_cookies.get_cookies(url="https://example.com")
for cookie in cookies.data.cookies:
    print(f"{cookie.name}={cookie.value}")

# Set a cookie
client.browser_cookies.set_cookies(cookies=[{
    "name": "session_id",
    "value": "abc123",
    "domain": "example.com",
    "path": "/",
}])

# Clear all cookies
client.browser_cookies.clear_cookies()
