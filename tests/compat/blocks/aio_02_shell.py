from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Simple command
result = client.shell.exec_command(command="echo 'Hello World'")
print(result.data.output)  # Hello World

# Piped command
result = client.shell.exec_command(
    command="ls -la /tmp | head -5"
)
print(result.data.output)

# Command in a specific directory
result = client.shell.exec_command(
    command="pwd",
    exec_dir="/home/gem"
)
print(result.data.output)  # /home/gem
