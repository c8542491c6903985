from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Replace first occurrence
client.file.replace_in_file(
    file="/home/gem/config.py",
    old_str='DEBUG = False',
    new_str='DEBUG = True',
)
