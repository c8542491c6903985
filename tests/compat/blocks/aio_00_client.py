from agent_sandbox import Sandbox

# Basic initialization
client = Sandbox(base_url="http://localhost:8080")

# With authentication header and custom timeout
client = Sandbox(
    base_url="http://localhost:8080",
    headers={"Authorization": "Bearer <jwt>"},
    timeout=120,
)

# Retrieve home directory from sandbox context
home_dir = client.sandbox.get_context().home_dir
print(home_dir)  # e.g. /home/gem
