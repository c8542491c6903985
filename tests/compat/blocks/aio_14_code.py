from agent_sandbox import Sandbox

client = Sandbox(base_url="http://localhost:8080")

# Python
py_result = client.code.execute_code(
    code="import sys, json\nprint(json.dumps({'version': sys.version.split()[0], 'sum': sum(range(100))}))",
    language="python",
)
print(py_result.data.outputs[0].text)
# {"version": "3.12.x", "sum": 4950}
