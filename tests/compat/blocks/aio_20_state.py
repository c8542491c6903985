from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Save current browser state to a file in the sandbox
client.browser_state.save(path="/home/gem/browser_state.json")

# Later: restore from saved state
client.browser_state.load(path="/home/gem/browser_state.json")
