import uuid
from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Create a persistent session
session = client.shell.create_session(
    id=str(uuid.uuid4()),
    exec_dir="/home/gem",
    no_change_timeout=120,
)
session_id = session.data.session_id

# Run commands in the same session (state is preserved)
client.shell.exec_command(command="export MY_VAR=hello", id=session_id)
result = client.shell.exec_command(command="echo $MY_VAR", id=session_id)
print(result.data.output)  # hello

# List active sessions
sessions = client.shell.list_sessions()
print(sessions.data)

# Cleanup when done
client.shell.cleanup_session(session_id)
