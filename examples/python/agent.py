"""A model loop in ten lines. The model here is a script; an OpenAI client's `chat.completions.create` has the same shape."""

import json

import sandglass

SCRIPT = [("bash_run", {"command": "python3 -c 'print(sum(range(101)))' > answer"}), ("file_read", {"path": "/home/gem/answer"})]


def model(messages, tools):
    turn = sum(m["role"] == "assistant" for m in messages)
    if turn == len(SCRIPT):
        return {"role": "assistant", "content": "The answer is " + messages[-1]["content"].strip()}
    name, arguments = SCRIPT[turn]
    assert name in [t["function"]["name"] for t in tools]
    call = {"id": f"call_{turn}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


with sandglass.local() as sg, sg.create() as box:
    tools = box.tools("openai", only=["bash:run", "file:*"])
    messages = [{"role": "user", "content": "What is the sum of the numbers from 1 to 100?"}]
    while True:
        message = model(messages, tools)
        messages.append(message)
        if not message.get("tool_calls"):
            break
        messages += [box.handle(call) for call in message["tool_calls"]]

print(messages[-1]["content"])
assert messages[-1]["content"] == "The answer is 5050"
