from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Read entire file
result = client.file.read_file(file="/home/gem/notes.txt")
print(result.data.content)  # Hello from AIO Sandbox!\nLine two.\n

# Read a specific line range (0-indexed)
result = client.file.read_file(
    file="/home/gem/notes.txt",
    start_line=0,
    end_line=1,
)
print(result.data.content)
