"""The AIO operations of jupyter, nodejs and code: each reply is checked against AIO's own description, and the examples of
its documentation run with a scripted model in place of the network."""

import json
import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import sg  # noqa: E402

SPEC = sg.ROOT.parent / "shared" / "contracts" / "aio-openapi-1.9.4.json"
spec = json.loads(SPEC.read_text()) if SPEC.exists() else None


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1")
    try:
        yield s.start()
    finally:
        s.end()


def fits(value, schema, where="reply"):
    """A small part of JSON Schema: as much as the description uses."""
    if "$ref" in schema:
        node = spec
        for part in schema["$ref"].lstrip("#/").split("/"):
            node = node[part]
        return fits(value, node, where)
    if "anyOf" in schema:
        wrong = []
        for s in schema["anyOf"]:
            try:
                return fits(value, s, where)
            except AssertionError as e:
                wrong.append(str(e))
        raise AssertionError(" / ".join(wrong))
    kind = schema.get("type")
    good = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
            "null": type(None)}
    if kind:
        assert isinstance(value, good[kind]) and not (kind in ("integer", "number") and isinstance(value, bool)), \
            f"{where}: {value!r:.80} is no {kind}"
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r:.80} is none of {schema['enum']}"
    if "const" in schema:
        assert value == schema["const"], where
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, f"{where}: {name} is missing"
        for name, s in schema.get("properties", {}).items():
            if name in value:
                fits(value[name], s, f"{where}.{name}")
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            for name in set(value) - set(schema.get("properties", {})):
                fits(value[name], more, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            fits(item, schema["items"], f"{where}[{i}]")


def ask(server, method, path, body=None, pattern=None, status=200):
    r = server.request(method, path, body, timeout=120)
    assert r.status == status, r
    if spec and status == 200:
        described = spec["paths"][pattern or path][method.lower()]["responses"]["200"]["content"]["application/json"]
        fits(r.json, described["schema"])
    return r.json


def test_jupyter(server):
    info = ask(server, "GET", "/v1/jupyter/info")["data"]
    if "python3" not in info["available_kernels"]:
        pytest.skip("python3-ipykernel is not installed")
    made = ask(server, "POST", "/v1/jupyter/sessions/create", {})["data"]
    sid = made["session_id"]
    r = ask(server, "POST", "/v1/jupyter/execute", {"code": "x = 6\nprint('hi')\nx * 7", "session_id": sid})
    assert r["success"] is True and r["data"]["status"] == "ok" and r["data"]["session_id"] == sid
    assert [o["text"] for o in r["data"]["outputs"]] == ["hi\n", "42"]
    assert set(r["data"]["outputs"][0]) == {"output_type", "name", "text", "data", "metadata", "execution_count", "ename",
                                            "evalue", "traceback"}
    r = ask(server, "POST", "/v1/jupyter/execute", {"code": "x / 0", "session_id": sid})
    assert r["success"] is False and r["data"]["status"] == "error"
    assert r["data"]["outputs"][0]["ename"] == "ZeroDivisionError" and "\x1b" not in r["data"]["outputs"][0]["text"]
    r = ask(server, "POST", "/v1/jupyter/execute", {"code": "while True: pass", "session_id": sid, "timeout": 1})
    assert r["success"] is False and r["data"]["status"] == "timeout"
    r = ask(server, "POST", "/v1/jupyter/execute", {"code": "import os; os.getcwd(), x", "session_id": sid, "cwd": "/tmp"})
    assert r["data"]["outputs"][0]["text"] == "('/tmp', 6)"
    sessions = ask(server, "GET", "/v1/jupyter/sessions")["data"]["sessions"]
    assert sessions[sid]["kernel_name"] == "python3"
    r = ask(server, "POST", "/v1/jupyter/execute", {"code": "print(1)"})  # a kernel for this cell only
    assert r["data"]["outputs"][0]["text"] == "1\n" and r["data"]["session_id"] is None
    ask(server, "DELETE", f"/v1/jupyter/sessions/{sid}", pattern="/v1/jupyter/sessions/{session_id}")
    sg.wait_for(lambda: not ask(server, "GET", "/v1/jupyter/sessions")["data"]["sessions"])
    ask(server, "DELETE", "/v1/jupyter/sessions")
    assert "code" in json.dumps(ask(server, "POST", "/v1/jupyter/execute", {}, status=422))
    ask(server, "POST", "/v1/jupyter/execute", {"code": "1", "timeout": 301}, status=422)


def test_nodejs(server):
    info = ask(server, "GET", "/v1/nodejs/info")["data"]
    assert info["node_version"].startswith("v") and info["npm_version"]
    r = ask(server, "POST", "/v1/nodejs/execute", {
        "code": "const fs = require('fs'); console.log(fs.readFileSync(0, 'utf8') + fs.readFileSync('a.txt', 'utf8'))",
        "stdin": "in ", "files": {"a.txt": "file"}})
    assert r["success"] and (r["data"]["stdout"], r["data"]["exit_code"]) == ("in file\n", 0)
    assert r["data"]["outputs"][0]["text"] == "in file\n"
    made = ask(server, "POST", "/v1/nodejs/sessions", {"session_id": "n1", "max_idle_time": 60})["data"]
    assert made["created"] and made["session"]["max_idle_time"] == 60000
    r = ask(server, "POST", "/v1/nodejs/execute", {"code": "const v = await Promise.resolve(5); v", "session_id": "n1"})
    assert r["data"]["outputs"][0]["data"] == {"text/plain": "5"} and r["data"]["session_id"] == "n1"
    r = ask(server, "POST", "/v1/nodejs/execute", {"code": "v + w", "session_id": "n1"})
    assert r["success"] is False and r["data"]["status"] == "error" and r["data"]["exit_code"] == 1
    one = "/v1/nodejs/sessions/{session_id}"
    assert ask(server, "GET", "/v1/nodejs/sessions/n1", pattern=one)["data"]["session"]["state"] == "IDLE"
    changed = ask(server, "PATCH", "/v1/nodejs/sessions/n1", {"max_idle_time": 120}, pattern=one)["data"]
    assert changed["updated"] and changed["session"]["created_at"] == made["session"]["created_at"]
    changed = ask(server, "PATCH", "/v1/nodejs/sessions/n1", {"cwd": "/var"}, pattern=one)["data"]["session"]
    assert (changed["cwd"], changed["max_idle_time"]) == ("/var", 120000)  # what is not named stays
    assert ask(server, "PATCH", "/v1/nodejs/sessions/n1", {}, pattern=one)["data"]["session"]["cwd"] == "/var"
    r = ask(server, "POST", "/v1/nodejs/execute", {"code": "process.cwd()", "session_id": "n1"})
    assert r["data"]["outputs"][0]["text"] == "/var"
    row = ask(server, "GET", "/v1/nodejs/sessions")["data"]["sessions"]["n1"]
    assert (row["max_idle_time"], row["cwd"]) == (120000, "/var")
    ask(server, "PATCH", "/v1/nodejs/sessions/n2", {"max_idle_time": 120}, pattern=one, status=404)
    ask(server, "GET", "/v1/nodejs/sessions/n2", pattern=one, status=404)  # nor was it made
    assert ask(server, "DELETE", "/v1/nodejs/sessions/n1", pattern=one)["data"] == {"deleted": True}
    ask(server, "GET", "/v1/nodejs/sessions/n1", pattern=one, status=404)


def test_another_version_of_node_than_there_is_is_refused(server):
    there = ask(server, "GET", "/v1/nodejs/info")["data"]["current_version"]  # node20
    for version in (there, there[4:]):
        r = ask(server, "POST", "/v1/nodejs/execute", {"code": "console.log(process.version)", "version": version})
        assert r["data"]["stdout"].startswith("v" + there[4:] + ".")
    said = ask(server, "POST", "/v1/nodejs/execute", {"code": "1", "version": "node99"}, status=400)
    assert "v" + there[4:] in said["message"] and "node99" in said["message"]
    ask(server, "POST", "/v1/nodejs/sessions?version=node99", {"session_id": "v"}, pattern="/v1/nodejs/sessions", status=400)
    made = ask(server, "POST", f"/v1/nodejs/sessions?version={there}", {"session_id": "v"}, pattern="/v1/nodejs/sessions")
    assert made["data"]["session_id"] == "v"


def test_a_cell_that_asks_for_input_is_an_error_and_its_session_goes_on(server):
    for path, more in (("/v1/jupyter/execute", {}), ("/v1/code/execute", {"language": "python"})):
        r = ask(server, "POST", path, {"code": "y = 3\ninput('?')", "session_id": "asks", **more})
        assert r["success"] is False and r["data"]["status"] == "error" and "input" in json.dumps(r["data"]["outputs"])
        r = ask(server, "POST", path, {"code": "y", "session_id": "asks", **more})
        assert r["data"]["outputs"][0]["text"] == "3"
        assert ask(server, "POST", path, {"code": "input()", **more})["data"]["status"] == "error"


def test_code(server):
    languages = {x["language"]: x for x in ask(server, "GET", "/v1/code/info")["data"]["languages"]}
    assert set(languages) == {"python", "javascript"}
    r = ask(server, "POST", "/v1/code/execute", {"language": "python", "code": "print('a')\n1 + 1"})
    assert r["success"] and r["data"]["stdout"] == "a\n2\n" and r["data"]["exit_code"] == 0  # the value where models look
    r = ask(server, "POST", "/v1/code/execute", {"language": "javascript", "code": "let q = 1; q + 1", "session_id": "c"})
    assert r["data"]["stdout"] == "2\n" and r["data"]["session_id"] == "c"
    r = ask(server, "POST", "/v1/code/execute", {"language": "python", "code": "raise ValueError('no')"})
    assert r["success"] is False and r["data"]["exit_code"] == 1 and r["data"]["traceback"]
    ask(server, "POST", "/v1/code/execute", {"language": "cobol", "code": "1"}, status=422)


# ---- the examples of the documentation ----

class Sandbox:
    """As much of the SDK as the examples use: groups of operations, answers with attributes."""

    def __init__(self, server):
        self.server = server
        self.jupyter = types.SimpleNamespace(
            execute_code=lambda **b: self.post("/v1/jupyter/execute", b),
            create_session=lambda **b: self.post("/v1/jupyter/sessions/create", b),
            delete_session=lambda sid: self.server.delete(f"/v1/jupyter/sessions/{sid}"))
        self.nodejs = types.SimpleNamespace(execute_code=lambda **b: self.post("/v1/nodejs/execute", b))
        self.shell = types.SimpleNamespace(
            create_session=lambda **b: self.post("/v1/shell/sessions/create", b),
            exec_command=lambda **b: self.post("/v1/shell/exec", b),
            cleanup_session=lambda sid: self.server.delete(f"/v1/shell/sessions/{sid}"))

    def post(self, path, body):
        return json.loads(self.server.request("POST", path, body, timeout=120).body,
                          object_hook=lambda o: types.SimpleNamespace(**o))


def test_the_tool_calling_example_runs_with_a_scripted_model(server):
    sandbox = Sandbox(server)

    def run_code(code, lang="python"):
        if lang == "python":
            result = sandbox.jupyter.execute_code(code=code).data
        else:
            result = sandbox.nodejs.execute_code(code=code).data
        outputs = getattr(result, "outputs", [])
        return outputs[0].text if outputs else "(no output)"

    def model(messages):  # what the network would have said
        if messages[-1]["role"] == "user":
            code = "a, b = 0, 1\nfor _ in range(10):\n    print(a, end=' ')\n    a, b = b, a + b"
            return {"tool_calls": [{"id": "1", "function": {"name": "run_code", "arguments": json.dumps({"code": code})}}]}
        return {"content": "They are " + messages[-1]["content"]}

    messages = [{"role": "user", "content": "Compute the first 10 Fibonacci numbers and print them."}]
    for call in model(messages)["tool_calls"]:
        output = run_code(**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    assert model(messages)["content"] == "They are 0 1 1 2 3 5 8 13 21 34 "
    assert run_code("console.log(6 * 7)", "javascript") == "42\n"


def test_the_multi_agent_example_runs_with_scripted_models(server):
    sandbox = Sandbox(server)
    j_sid = sandbox.jupyter.create_session(kernel_name="python3").data.session_id
    s_sid = sandbox.shell.create_session(id="agents").data.session_id

    def run_python(code):
        result = sandbox.jupyter.execute_code(code=code, session_id=j_sid)
        outputs = getattr(result.data, "outputs", [])
        return "".join(o.text for o in outputs if hasattr(o, "text")) or "OK"

    def run_shell(command):
        result = sandbox.shell.exec_command(command=command, id=s_sid)
        return getattr(result.data, "output", "") or "OK"

    tools = {"run_python": run_python, "run_shell": run_shell}
    script = iter([("run_python", "import csv, io\nrows = [5.1, 4.9, 4.7]\nopen('/tmp/iris.csv', 'w').write('\\n'.join(map(str, rows)))"),
                   ("run_shell", "wc -l < /tmp/iris.csv"),
                   ("run_python", "import statistics\nstatistics.mean(rows)")])
    said = []
    for name, argument in script:  # the coder; the proxy runs what it asks for
        said.append(tools[name](argument))
    assert said[1].strip() == "2" and said[2].strip().startswith("4.9")
    reviewer = "TERMINATE" if "4.9" in said[2] else "again"
    assert reviewer == "TERMINATE"
    sandbox.jupyter.delete_session(j_sid)
    sandbox.shell.cleanup_session(s_sid)
