from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

result = client.file.find_files(path="/home/gem", glob="**/*.py")

for path in result.data.files:
    print(path)
