"""Backends in Python, by sandglass.extend and in AgentFlow's two ways, hosted beside a real server. Whatever such a backend does,
its caller gets a clear outcome and others notice nothing."""

import json
import os
import pathlib
import shutil
import sys

import pytest
import sandglass

import sg

ROOT = pathlib.Path(__file__).resolve().parents[2]

WILD = '''
import os, sys, time
from sandglass.extend import Backend, Failed, InvalidParameter, run, tool

class Wild(Backend):
    name = "wild"

    @tool
    def echo(self, text: str, times: int = 1) -> dict:
        """Says it again."""
        print("this must not become part of the conversation")
        return {"text": text * times, "pid": os.getpid()}

    @tool
    async def slow(self, s: float) -> dict:
        import asyncio
        await asyncio.sleep(s)
        return {}

    @tool
    def hang(self) -> dict:
        while True: time.sleep(3600)

    @tool
    def flood(self) -> dict:
        while True:
            try: os.write(FD, b"x" * 1000000)
            except BlockingIOError: time.sleep(0.001)

    @tool
    def die(self) -> dict:
        os._exit(3)

    @tool
    def garbage(self) -> dict:
        os.write(FD, b"this is not JSON\\n")
        time.sleep(60)

    @tool
    def big(self) -> dict:
        return {"x": "y" * (40 << 20)}

    @tool
    def nan(self) -> dict:
        return {"x": float("nan")}

    @tool
    def half(self) -> dict:
        return {"x": "\\ud800"}

    @tool
    def keys(self) -> dict:
        return {(1, 2): 3}

    @tool
    def fail(self) -> dict:
        raise Failed("the wind is wrong")

    @tool
    def bug(self) -> dict:
        return 1 // 0

    @tool
    def refuse(self) -> dict:
        raise InvalidParameter("text: too sad")

FD = os.dup(1)
run(Wild())
'''

THEIRS = '''
from sandbox.server.backends.base import Backend
from sandbox.server.backends.tools import register_api_tool
from sandbox.server.backends.error_codes import ErrorCode
from sandbox.server.backends.response_builder import build_success_response
from sandbox.server.backends.tools.base_tool import BaseApiTool, ToolBusinessError
from sandbox.server.core import tool

@register_api_tool("weather:now", description="Says the weather")
async def now(city: str, unit: str = "C"):
    if city == "Atlantis":
        raise ToolBusinessError("no such city")
    return {"city": city, "unit": unit}

class Sum(BaseApiTool):
    async def execute(self, values: list) -> dict:
        return {"code": 0, "message": "success", "data": {"sum": sum(values), "key": self.get_config("key")}, "meta": {}}

register_api_tool("math:sum", config_key="math", description="Adds numbers")(Sum())

class Ping(BaseApiTool):
    def __init__(self):
        super().__init__()

    async def execute(self, message: str, **kwargs):
        if not message:
            raise ToolBusinessError("message: empty", ErrorCode.INVALID_INPUT)
        if message == "dict":
            return {"result": "a dict with a result", "warning": None}
        return f"{self.tool_name} {self.resource_type} {self.config} {kwargs.get('worker_id')}"

ping = register_api_tool(name="math:ping", config_key="math", description="Says something back")(Ping())

@register_api_tool("lookup", description="A tool whose name has no prefix")
def lookup(word: str):
    return build_success_response({"word": word}, tool="lookup")

class Counter(Backend):
    name, description = "tally", "Counts"

    async def warmup(self):
        self.warm = True

    async def initialize(self, worker_id, config):
        return {"count": config.get("start", 0)}

    async def cleanup(self, worker_id, session_info):
        open(LEFT, "a").write(f"{session_info['data']['count']}\\\\n")

    @tool("tally:add", description="Adds to the count")
    async def add(self, n: int = 1, session_info: dict = None, worker_id: str = ""):
        session_info["data"]["count"] += n
        return {"code": 0, "message": "success", "data": {"count": session_info["data"]["count"], "warm": self.warm}, "meta": {}}

    @tool("tally:who", description="What a tool is told of its session")
    async def who(self, session_info: dict, session_id: str, worker_id: str):
        return {"info": session_info, "id": session_id, "worker": worker_id}
'''


@pytest.fixture(scope="module")
def server():
    place = sg.open_place("extend")
    packages = place / "packages"  # the extensions run as an unprivileged user, who need not be able to read the checkout
    for name in ("python/sandglass", "python-agentflow/sandbox"):
        shutil.copytree(ROOT / "sdk" / name, packages / name.split("/")[1])
    left = place / "left"
    left.touch()
    left.chmod(0o666)
    (place / "wild.py").write_text(WILD)
    (place / "theirs.py").write_text(THEIRS.replace("LEFT", repr(str(left))).replace("\\\\n", "\\n"))
    (place / "af.json").write_text(json.dumps({"apis": {"math": {"key": "${NOT_SET:-fallback}"}}}))
    shutil.copy(ROOT / "examples/python/backend.py", place / "todo.py")
    env = {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    python = "/usr/bin/python3"
    (place / "extensions.json").write_text(json.dumps({"extensions": {
        "wild": {"command": [python, str(place / "wild.py")], "env": env},
        "todo": {"command": [python, str(place / "todo.py")], "env": env},
        "agentflow": {"command": [python, "-m", "sandbox.server", "--config", str(place / "af.json"), str(place / "theirs.py")],
                      "env": env}}}))
    with sg.running("--pool-size", "1", "--extensions", str(place / "extensions.json")) as s:
        s.left = left
        with sandglass.Sandglass(s.url) as c:
            wanted = {"wild:echo", "todo:add", "weather:now", "math:sum", "api:lookup", "tally:add"}
            sg.wait_for(lambda: wanted <= {t["name"] for t in c.tool_table(refresh=True)}, 30)
        yield s


@pytest.fixture(scope="module")
def client(server):
    with sandglass.Sandglass(server.url) as c:
        yield c


def test_a_tool_in_python_is_checked_by_its_signature_and_recorded(client):
    r = client.call("wild:echo", text="ab", times=2, worker="w-1")
    assert r.ok and r["text"] == "abab"
    assert [(s.tool, s.params) for s in client.trajectory(r.trajectory_id).steps()] == [("wild:echo", {"text": "ab", "times": 2})]
    for params, says in (({}, "text"), ({"text": 3}, "text"), ({"text": "x", "more": 1}, "more")):
        bad = client.call("wild:echo", params, worker="w-1")
        assert bad.outcome == "invalid_request" and says in bad.message, bad


def test_an_answer_larger_than_any_buffer_arrives_whole(client):
    assert client.call("wild:echo", text="ab" * 512, times=4096, worker="w-1")["text"] == "ab" * 512 * 4096


def test_errors_are_told_as_what_they_are(client):
    for name, outcome, says in (("fail", "task_error", "the wind is wrong"), ("bug", "task_error", "division"),
                                ("refuse", "invalid_request", "too sad"), ("big", "task_error", "bytes"),
                                ("nan", "task_error", "as JSON"), ("half", "task_error", "as JSON"), ("keys", "task_error", "as JSON")):
        r = client.call(f"wild:{name}", worker="w-2")
        assert r.outcome == outcome and says in r.message, r


@pytest.mark.parametrize("what,outcome", [("hang", "timeout"), ("flood", "infra_error"), ("die", "infra_error"), ("garbage", "infra_error")])
def test_a_backend_that_hangs_floods_dies_or_talks_nonsense_harms_only_its_caller(client, what, outcome):
    r = client.call(f"wild:{what}", worker="w-3", timeout=1 if what == "hang" else 20)
    assert r.outcome == outcome and r.message and not r.retry_safe, r
    assert client.call("weather:now", city="Berlin", worker="w-4")["city"] == "Berlin", "others notice nothing"
    if what == "hang":
        assert client.call("wild:echo", text="still here", worker="w-3").ok
    sg.wait_for(lambda: client.call("wild:echo", text="back", worker="w-3").ok, 60, every=0.2)


def test_slow_tools_run_beside_each_other(client):
    import concurrent.futures
    import time

    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(r.ok for r in pool.map(lambda i: client.call("wild:slow", s=3.0, worker=f"s-{i}"), range(8)))
    assert time.monotonic() - began < 20, "one after the other is 24 s"


def test_a_session_keeps_its_state(server, client):
    server.session("w-todo", "todo", items=["one"])
    assert server.execute("w-todo", "todo:add", {"text": "two"})["data"] == {"count": 2}
    assert server.execute("w-todo", "todo:list", {})["data"] == {"items": ["one", "two"]}
    assert client.call("todo:add", text=" ", worker="w-x").outcome == "invalid_request"
    assert client.call("todo:list", worker="w-y")["items"] == [], "without a session, a state for one call"
    server.disconnect("w-todo")


def test_agentflows_two_ways(server, client):
    assert client.call("weather:now", city="Rome")["unit"] == "C"
    bad = client.call("weather:now", city="Atlantis")
    assert bad.outcome == "task_error" and bad.message == "no such city" and bad.trainable
    assert client.call("math:sum", values=[1, 2, 3]).data == {"sum": 6, "key": "fallback"}
    said = client.call("math:ping", message="hi", worker="w-api").data
    assert said == {"result": "math:ping math {'key': 'fallback'} w-api", "inputs": {"message": "hi", "worker_id": "w-api"}}
    said = client.call("math:ping", message="dict", more="x" * 600).data
    assert said["warning"] is None and said["result"] == "a dict with a result" and said["inputs"]["more"] == "x" * 500 + "...[Truncated]"
    wrong = client.call("math:ping", message="")
    assert wrong.outcome == "invalid_request" and wrong.message == "message: empty"
    assert server.execute("w-api", "lookup", {"word": "a"})["data"] == {"word": "a"}, "a name without a prefix"
    from sandbox import Sandbox, format_tool_result

    with Sandbox(server.url) as s:
        assert s.create_session_sync("tally", {"start": 10})["status"] == "success"
        assert s.execute_sync("tally:add", {"n": 5})["data"] == {"count": 15, "warm": True}
        assert s.execute_sync("tally:add")["data"]["count"] == 16
        assert "tally:add" in {t["full_name"] for t in s.get_tools_sync()}
        row, told = s.list_sessions_sync()[0], s.execute_sync("tally:who")["data"]
        assert (told["id"], told["worker"]) == (row["session_id"], s.worker_id)
        assert {k: told["info"][k] for k in ("session_id", "session_name", "resource_type", "worker_id")} == {
            **{k: row[k] for k in ("session_id", "session_name", "resource_type")}, "worker_id": s.worker_id}
        assert told["info"]["config"] == {"start": 10} and told["info"]["data"] == {"count": 16} and told["info"]["created_at"]
        assert s.destroy_session_sync()["success"] == 1
        assert format_tool_result(s.execute_sync("weather:now", city="Oslo")) == '{"city": "Oslo", "unit": "C"}'
    sg.wait_for(lambda: "16" in server.left.read_text())


def test_a_backend_can_connect_by_itself(server, client):
    import subprocess

    program = "import sys; from sandglass.extend import Functions, run\ndef twice(n: int) -> dict:\n    'Doubles.'\n    return {'n': 2 * n}\n" \
              "run(Functions('double', twice), connect=sys.argv[1])"
    p = subprocess.Popen([sys.executable, "-c", program, server.home + "/run/extend.sock"],
                         env={**os.environ, "PYTHONPATH": str(ROOT / "sdk/python")})
    try:
        sg.wait_for(lambda: client.call("double:twice", n=21).get("n") == 42, 20)
    finally:
        p.kill()
        p.wait()
    sg.wait_for(lambda: client.call("double:twice", n=21).outcome != "ok", 20)
