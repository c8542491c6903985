from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

result = client.file.grep_files(
    path="/home/gem/project",
    pattern="TODO",
    include=["*.py", "*.ts"],
    exclude=["node_modules", "__pycache__"],
    case_insensitive=True,
    recursive=True,
    max_results=50,
)

for match in result.data.matches:
    print(f"{match.file}:{match.line_number} {match.line.strip()}")
