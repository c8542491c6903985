import base64
from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")
home_dir = client.sandbox.get_context().home_dir

# Write a text file
result = client.file.write_file(
    file=f"{home_dir}/notes.txt",
    content="Hello from AIO Sandbox!\nLine two.\n",
    encoding="utf-8",
)
print(result.data.bytes_written)  # 34

# Write a binary file (base64-encoded PNG)
with open("image.png", "rb") as f:
    b64 = base64.b64encode(f.read()).decode("utf-8")

client.file.write_file(
    file=f"{home_dir}/image.png",
    content=b64,
    encoding="base64",
)

# Append to an existing file
client.file.write_file(
    file=f"{home_dir}/notes.txt",
    content="Appended line.\n",
    append=True,
)
