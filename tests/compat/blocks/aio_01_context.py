from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

context = client.sandbox.get_context()
print(context.home_dir)  # /home/gem
print(context.version)   # v1.0.0.150

packages = client.sandbox.get_python_packages()
print(packages.data)  # list of installed Python packages
