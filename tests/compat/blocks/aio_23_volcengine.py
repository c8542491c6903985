import time, os
from agent_sandbox import Sandbox
from agent_sandbox.providers import VolcengineProvider

provider = VolcengineProvider(
    access_key=os.environ["VOLCENGINE_ACCESS_KEY"],
    secret_key=os.environ["VOLCENGINE_SECRET_KEY"],
    region=os.getenv("VOLCENGINE_REGION", "cn-beijing"),
)

# Create an application (one-time setup)
app_id = provider.create_application(name="my-sandbox-app", gateway_name="my-gateway")

# Poll until the application is ready
ready, function_id = False, None
while not ready:
    ready, function_id = provider.get_application_readiness(id=app_id)
    if not ready:
        time.sleep(1)

# Create a sandbox instance
sandbox_id = provider.create_sandbox(function_id=function_id)
print(f"Sandbox created: {sandbox_id}")

# List all sandboxes
sandboxes = provider.list_sandboxes(function_id=function_id)
print(f"Total sandboxes: {len(sandboxes)}")

# Get sandbox details and extract public domain
info = provider.get_sandbox(function_id=function_id, sandbox_id=sandbox_id)
public_domain = next(d["domain"] for d in info["domains"] if d["type"] == "public")

# Use the sandbox via its public URL
client = Sandbox(base_url=public_domain)
result = client.file.list_path(path=".")
print(result)

# Delete the sandbox when done
provider.delete_sandbox(function_id=function_id, sandbox_id=sandbox_id)
