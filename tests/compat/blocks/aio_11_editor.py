from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Create a new file
client.file.str_replace_editor(
    command="create",
    path="/home/gem/hello.py",
    file_text="def greet(name):\n    return f'Hello, {name}!'\n",
)

# View the file
result = client.file.str_replace_editor(
    command="view",
    path="/home/gem/hello.py",
)
print(result.data.content)

# Replace a string
client.file.str_replace_editor(
    command="str_replace",
    path="/home/gem/hello.py",
    old_str="Hello, {name}!",
    new_str="Hi, {name}!",
)

# Insert a line after line 1
client.file.str_replace_editor(
    command="insert",
    path="/home/gem/hello.py",
    insert_line=1,
    new_str='    """Greet a user."""\n',
)

# Undo the last edit
client.file.str_replace_editor(
    command="undo_edit",
    path="/home/gem/hello.py",
)
