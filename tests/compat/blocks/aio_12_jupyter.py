from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Create a kernel session
session = client.jupyter.create_session(kernel_name="python3")
sid = session.data.session_id

# Execute code (state is shared across calls)
client.jupyter.execute_code(
    code="import pandas as pd\ndf = pd.DataFrame({'x': [1,2,3], 'y': [4,5,6]})",
    session_id=sid,
    kernel_name="python3",
)

result = client.jupyter.execute_code(
    code="print(df.describe())",
    session_id=sid,
    kernel_name="python3",
)
print(result.data.outputs[0].text)

# Install a package mid-session, then import
client.shell.exec_command(command="pip install requests -q")
result = client.jupyter.execute_code(
    code="import requests; print(requests.__version__)",
    session_id=sid,
    kernel_name="python3",
)
print(result.data.outputs[0].text)

# Delete session when done
client.jupyter.delete_session(sid)
