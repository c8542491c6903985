from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

result = client.file.list_path(path="/home/gem")
print(f"Total items: {result.data.total_count}")

for f in result.data.files:
    kind = "DIR" if f.is_directory else "FILE"
    print(f"  [{kind}] {f.name} ({f.size} bytes)")

# Recursive listing
result = client.file.list_path(path="/home/gem", recursive=True)
