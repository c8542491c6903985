from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

result = client.file.search_in_file(
    file="/home/gem/app.py",
    regex=r"def \w+",
)

for match in result.data.matches:
    print(f"Line {match.line_number}: {match.line}")
