"""Backends that live elsewhere: extensions over JSON lines, started by the server or connected to its socket, and plug-ins
in C. Their tools are tools like all others; whatever such a process does, only its own callers notice."""

import json
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

import sg

ROOT = pathlib.Path(__file__).resolve().parents[2]

PLAYER = r'''
import json, os, sys, time
def say(m): sys.stdout.write(json.dumps(m) + "\n"); sys.stdout.flush()
tool = lambda name, **p: {"name": name, "title": name, "help": name + "s", "parameters":
    {"type": "object", "properties": p, "required": list(p)[:1], "additionalProperties": False}}
say({"hello": 1, "name": "player", "backends": [{"name": "player", "kind": "stateless", "help": "plays", "tools": [
    tool("echo", text={"type": "string"}), tool("hang"), tool("flood"), tool("die"), tool("garbage"), tool("fail"), tool("refuse"), tool("slow", s={"type": "number"})]}]})
for line in sys.stdin:
    m = json.loads(line)
    if "welcome" in m or "cancel" in m: continue
    what = m["call"].split(":")[1]
    if what == "echo": say({"id": m["id"], "ok": {"text": m["params"]["text"], "n": len(m["params"]["text"]), "worker": m["worker"], "pid": os.getpid()}})
    elif what == "slow": time.sleep(m["params"]["s"]); say({"id": m["id"], "ok": {}})
    elif what == "hang": pass
    elif what == "flood":
        while True: sys.stdout.write("x" * 1000000)
    elif what == "die": os._exit(3)
    elif what == "garbage": sys.stdout.write("this is not JSON\n"); sys.stdout.flush()
    elif what == "fail": say({"id": m["id"], "error": {"code": "failed", "message": "the wind is wrong"}})
    elif what == "refuse": say({"id": m["id"], "error": {"code": "invalid", "message": "text: too sad"}})
'''


@pytest.fixture(scope="module")
def server():
    place = sg.open_place("extend")
    (place / "player.py").write_text(PLAYER)
    shutil.copy(ROOT / "examples/extend/counter.js", place)
    subprocess.run(["cc", "-shared", "-fPIC", "-I", str(ROOT / "src"), "-D_GNU_SOURCE", "-o", str(place / "dice.so"),
                    str(ROOT / "examples/extend/plugin.c")], check=True)
    (place / "extensions.json").write_text(json.dumps({"extensions": {
        "player": {"command": ["/usr/bin/python3", str(place / "player.py")], "env": {"X": "1"}},
        "counter": {"command": ["node", str(place / "counter.js")]}}}))
    for f in place.iterdir():
        f.chmod(0o644)
    with sg.running("--pool-size", "1", "--extensions", str(place / "extensions.json"), "--plugins", str(place / "dice.so")) as s:
        sg.wait_for(lambda: {"player:echo", "counter:add"} <= names(s), 20)
        yield s


def names(s):
    return {t["name"] for t in s.get("/sg/v1/tools")["tools"]}


def call(s, tool, status=200, worker="w-ext", timeout=20, **params):
    return s.post("/sg/v1/execute", {"tool": tool, "params": params, "worker_id": worker, "timeout": timeout}, status=status)


def test_a_tool_of_an_extension_is_on_every_surface_and_its_call_is_a_step(server):
    r = call(server, "player:echo", text="hi")
    assert r["outcome"] == "ok" and r["data"]["text"] == "hi" and r["data"]["worker"] == "w-ext"
    step = server.steps(r["trajectory_id"])[-1]
    assert step["tool"] == "player:echo" and step["observation"]["text"] == "hi" and step["params"] == {"text": "hi"}
    af = server.execute("w-af", "player:echo", {"text": "af"})
    assert af["code"] == 0 and af["data"]["text"] == "af"
    r = server.post("/mcp", {"method": "tools/call", "params": {"name": "player_echo", "arguments": {"text": "mcp"}}})
    assert r["structuredContent"]["text"] == "mcp"
    mcp = {t["name"]: t for t in server.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]}
    assert mcp["player_echo"]["inputSchema"]["properties"]["text"] == {"type": "string"}


def test_parameters_are_checked_by_the_schema_that_the_extension_gave(server):
    for params, says in (({}, "text: required"), ({"text": 7}, "text: expected"), ({"text": "x", "more": 1}, "more: unknown")):
        r = call(server, "player:echo", status=400, **params)
        assert r["outcome"] == "invalid_request" and says in r["message"], r


def test_an_extension_gets_the_value_of_a_secret_and_the_log_its_name(server):
    value = "for-the-extension-42"
    assert server.request("PUT", "/sg/v1/secrets/EXT", {"value": value, "tools": "player:echo"}).status == 200
    r = call(server, "player:echo", text="<${secret:EXT}>")
    assert r["data"]["n"] == len(value) + 2 and r["data"]["text"] == "<${secret:EXT}>", r
    step = server.steps(r["trajectory_id"])[-1]
    assert step["params"] == {"text": "<${secret:EXT}>"} and value not in json.dumps(step)
    assert call(server, "player:echo", text=value)["data"]["n"] == len(value), "sent as it is, it arrives as it is"
    r = call(server, "counter:add", status=403, n="${secret:EXT}")
    assert "only" in r["message"], "it is for another tool"
    r = call(server, "player:echo", status=404, text="${secret:NOTHING}")
    assert "no secret" in r["message"]


def test_what_an_extension_says_went_wrong_is_told_as_what_it_is(server):
    r = call(server, "player:fail")
    assert r["outcome"] == "task_error" and r["message"] == "the wind is wrong" and r["trainable"]
    r = call(server, "player:refuse", status=400)
    assert r["outcome"] == "invalid_request" and "too sad" in r["message"]


@pytest.mark.parametrize("tool,outcome", [("hang", "timeout"), ("flood", "infra_error"), ("die", "infra_error"), ("garbage", "infra_error")])
def test_an_extension_that_misbehaves_ends_its_call_clearly_and_comes_back(server, tool, outcome):
    r = call(server, f"player:{tool}", status=200 if outcome == "timeout" else 500, timeout=1 if tool == "hang" else 20)
    assert r["outcome"] == outcome and not r["retry_safe"] and r["message"], r
    assert call(server, "counter:add", n=2)["data"] == {"count": 2}, "others notice nothing"
    sg.wait_for(lambda: call_any(server, "player:echo", text="back")["outcome"] == "ok", 60, every=0.3)


def call_any(s, tool, **params):
    return s.request("POST", "/sg/v1/execute", {"tool": tool, "params": params, "worker_id": "w-any"}).json


def test_a_session_of_an_extension_keeps_its_state_and_is_closed(server):
    made = server.session("w-count", "counter", start=10)
    assert made["session_id"], made
    assert server.execute("w-count", "counter:add", {"n": 5})["data"]["count"] == 15
    assert server.execute("w-count", "counter:add", {})["data"]["count"] == 16
    assert server.execute("w-other", "counter:add", {})["data"]["count"] == 1, "without a session: for one call"
    server.disconnect("w-count")
    assert server.execute("w-count", "counter:add", {})["data"]["count"] == 1


def test_an_extension_can_connect_by_itself_and_tools_come_and_go_with_word_to_mcp(server):
    def connect(name):
        s = socket.socket(socket.AF_UNIX)
        s.connect(f"{server.home}/run/extend.sock")
        f = s.makefile("rw")
        f.write(json.dumps({"hello": 1, "name": name, "backends": [{"name": name, "tools": [{"name": "now"}]}]}) + "\n")
        f.flush()
        return s, f, json.loads(f.readline())
    s, f, said = connect("clock")
    assert said["welcome"] == 1 and "clock:now" in names(server)
    got = []
    t = threading.Thread(target=lambda: got.append(call(server, "clock:now")))
    t.start()
    m = json.loads(f.readline())
    f.write(json.dumps({"id": 999999, "ok": {}}) + "\n" + json.dumps({"id": m["id"], "ok": [1, 2]}) + "\n")
    f.flush()
    t.join(10)
    assert got[0]["data"] == {"result": [1, 2]}
    assert "connected already" in connect("clock")[2]["error"]
    assert "already" in connect("bash")[2]["error"], "nobody takes the name of another backend"
    f.close(), s.close()
    sg.wait_for(lambda: call_any(server, "clock:now")["outcome"] == "infra_error", 10)
    r = call_any(server, "clock:now")
    assert r["retry_safe"] and "clock:now" in r["message"]
    s, f, said = connect("clock")
    assert said["welcome"] == 1
    f.close(), s.close()


def test_a_call_that_was_out_when_the_server_died_is_in_the_log_as_lost(server):
    sg.wait_for(lambda: call_any(server, "player:echo", text="x")["outcome"] == "ok", 60, every=0.3)
    def quietly():
        try:
            server.request("POST", "/sg/v1/execute", {"tool": "player:slow", "params": {"s": 30}, "worker_id": "w-lost"})
        except sg.GONE:
            pass
    sent = threading.Thread(target=quietly, daemon=True)
    sent.start()
    time.sleep(0.5)
    server.kill_role("serve")
    sg.wait_for(lambda: server.is_ready(), 20)
    def last():
        t = server.get("/sg/v1/trajectories?worker=w-lost")["trajectories"]
        steps = server.steps(t[0]["id"]) if t else []
        return steps[-1] if steps and steps[-1]["outcome"] else None
    step = sg.wait_for(last, 20)
    assert step["outcome"] == "infra_error" and "restarted" in step["message"] and not step["retry_safe"]
    sg.wait_for(lambda: call_any(server, "player:echo", text="x")["outcome"] == "ok", 60, every=0.3)


def test_a_plug_in_in_c_is_a_backend(server):
    for _ in range(5):
        assert 1 <= call(server, "dice:roll", sides=4)["data"]["value"] <= 4
    assert "sides" in call(server, "dice:roll", status=400, sides=1)["message"]
