from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Get all captured network requests
requests = client.browser_network.get_requests()
for req in requests.data.requests:
    print(f"{req.method} {req.url} → {req.status}")

# Export HAR archive
har = client.browser_network.export_har()
with open("trace.har", "w") as f:
    f.write(har.data.content)

# Add a request route (intercept/mock)
client.browser_network.add_route(
    pattern="**/api/data",
    response_body='{"mocked": true}',
    response_status=200,
)

# Set custom request headers
client.browser_network.set_headers(headers={"X-Custom-Header": "test"})

# Remove a route
client.browser_network.remove_route(pattern="**/api/data")
