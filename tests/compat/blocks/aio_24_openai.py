import json
from openai import OpenAI
from agent_sandbox import Sandbox

client = OpenAI()
sandbox = Sandbox(base_url="http://localhost:8080")

def run_code(code: str, lang: str = "python") -> str:
    if lang == "python":
        result = sandbox.jupyter.execute_code(code=code).data
    else:
        result = sandbox.nodejs.execute_code(code=code).data
    outputs = getattr(result, "outputs", [])
    return outputs[0].text if outputs else "(no output)"

tools = [{
    "type": "function",
    "function": {
        "name": "run_code",
        "description": "Execute Python or JavaScript code in a sandbox",
        "parameters": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "Code to execute"},
                "lang": {"type": "string", "enum": ["python", "javascript"], "default": "python"},
            },
            "required": ["code"],
        },
    },
}]

response = client.chat.completions.create(
    model="gpt-4o",
    messages=[{"role": "user", "content": "Compute the first 10 Fibonacci numbers and print them."}],
    tools=tools,
)

msg = response.choices[0].message
if msg.tool_calls:
    for call in msg.tool_calls:
        args = json.loads(call.function.arguments)
        output = run_code(**args)
        print(f"Code output:\n{output}")
# Expected: 0 1 1 2 3 5 8 13 21 34
