"""MCP at /mcp: the protocol's own rules, and what a client of ours can rely on. The conformance suite and the official
client run in tests/compat/test_mcp.py."""

import base64
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

import sg

BOTH = {"Accept": "application/json, text/event-stream"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2", "--test-backends=true") as s:
        yield s


class Client:
    """One MCP session, by hand."""

    def __init__(self, server, path="/mcp", version="2025-11-25", **capabilities):
        self.server, self.path, self.last = server, path, 0
        r = server.request("POST", path, {"jsonrpc": "2.0", "id": 0, "method": "initialize",
                                          "params": dict(HELLO, protocolVersion=version, capabilities=capabilities)}, BOTH)
        assert r.status == 200, r
        self.info, self.id = r["result"], r.headers["Mcp-Session-Id"]
        self.headers = dict(BOTH, **{"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.info["protocolVersion"]})
        assert server.request("POST", path, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self.headers).status == 202

    def post(self, method, params=None, **more):
        self.last += 1
        m = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}
        return self.server.request("POST", self.path, m, dict(self.headers, **more))

    def ask(self, method, params=None):
        return answer(self.post(method, params))

    def call(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def close(self):
        assert self.server.request("DELETE", self.path, headers=self.headers).status == 200


def events(body):
    """(id, message) of each event of a stream; a comment or the opening event has no message."""
    for block in body.split("\n\n"):
        lines = [x for x in block.splitlines() if x and not x.startswith(":")]
        got = dict(x.split(": ", 1) if ": " in x else (x.rstrip(":"), "") for x in lines)
        if got:
            yield got.get("id"), json.loads(got["data"]) if got.get("data") else None


def answer(r):
    if r.headers["Content-Type"] == "text/event-stream":
        return [m for _, m in events(r.body.decode()) if m and "id" in m and "method" not in m][-1]
    return r.json


@pytest.fixture
def client(server):
    c = Client(server)
    yield c
    c.close()


def test_a_tool_of_the_table_is_an_mcp_tool_and_its_call_is_a_step(server, client):
    tools = {t["name"]: t for t in client.ask("tools/list")["result"]["tools"]}
    assert {"bash_run", "file_read", "code_execute"} <= set(tools) and all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", n) for n in tools)
    t = tools["file_read"]
    assert t["inputSchema"]["required"] == ["path"] and t["annotations"]["readOnlyHint"] and t["title"] and t["description"]
    assert not tools["bash_run"]["annotations"]["readOnlyHint"] and "exit_code" in tools["bash_run"]["outputSchema"]["properties"]
    r = client.call("bash_run", command="echo from $HOME")
    assert r["structuredContent"]["stdout"] == "from /home/gem\n" and not r["isError"]
    assert json.loads(r["content"][0]["text"]) == r["structuredContent"]
    step = [s for s in server.steps(r["_meta"]["trajectory_id"]) if s["step"] == r["_meta"]["step"]][0]
    assert step["surface"] == "mcp" and step["tool"] == "bash:run" and step["observation"]["stdout"] == "from /home/gem\n"


def test_a_failing_tool_is_a_result_that_says_so_and_a_wrong_call_names_the_field(client):
    r = client.call("file_read", path="/no/such")
    assert r["isError"] and "/no/such" in r["content"][0]["text"] and r["_meta"]["outcome"] == "task_error"
    r = client.call("file_read")
    assert r["isError"] and "path" in r["content"][0]["text"] and r["_meta"]["outcome"] == "invalid_request"
    assert client.ask("tools/call", {"name": "no_such_tool"})["error"]["code"] == -32602
    assert client.ask("no/such")["error"]["code"] == -32601
    assert client.ask("tools/call", {"name": "bash_run", "arguments": [1]})["error"]["code"] == -32602
    assert client.ask("tools/call", {})["error"]["code"] == -32602


def test_bad_messages_get_the_errors_of_json_rpc(server):
    r = server.request("POST", "/mcp", raw=b"{", headers=BOTH)
    assert r.status == 400 and r["error"]["code"] == -32700
    for bad in ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": [1], "method": "ping"},
                {"jsonrpc": "2.0", "id": 1, "method": 7}):
        r = server.request("POST", "/mcp", bad, BOTH)
        assert r["error"]["code"] == -32600, (bad, r)
    assert server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, BOTH)["error"]["code"] == -32602
    assert server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, dict(BOTH, **{"Mcp-Session-Id": "x"})).status == 404
    assert server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"MCP-Protocol-Version": "1999-01-01"}).status == 400
    assert server.request("GET", "/mcp").status == 406 and server.request("GET", "/mcp", headers=BOTH).status == 405


@pytest.mark.parametrize("asked,got", [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
                                       ("2025-11-25", "2025-11-25"), ("2099-01-01", "2025-11-25")])
def test_older_clients_are_answered_in_their_version(server, asked, got):
    c = Client(server, version=asked)
    assert c.info["protocolVersion"] == got and c.ask("ping")["result"] == {}
    c.close()
    assert c.post("ping").status == 404, "a session that ended is gone"


def test_a_bare_call_gets_plain_json_and_a_setting_turns_that_off(server):
    r = server.post("/mcp", {"method": "tools/call", "params": {"name": "file_write", "arguments": {"path": "/tmp/bare", "content": "tale"}}})
    assert not r["isError"]
    r = server.post("/mcp", {"method": "tools/call", "params": {"name": "file_read", "arguments": {"path": "/tmp/bare"}}})
    assert r["text"] == "tale" and r["result"]["structuredContent"]["content"] == "tale" and "error" not in r
    assert server.post("/mcp", {"method": "tools/call", "params": {"name": "nope"}})["error"]["code"] == -32602
    with sg.running("--mcp-bare=false", "--pool-size", "0") as strict:
        assert strict.request("POST", "/mcp", {"method": "tools/list"})["error"]["code"] == -32600


def test_a_batch_is_answered_as_one(server):
    r = server.post("/mcp", [{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/x"},
                             {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "probe_echo", "arguments": {"text": "t"}}}])
    got = {m["id"]: m["result"] for m in r}
    assert got["a"] == {} and got["b"]["structuredContent"]["text"] == "t"
    assert server.request("POST", "/mcp", [{"jsonrpc": "2.0", "method": "notifications/x"}]).status == 202
    assert server.request("POST", "/mcp", []).status == 400 and server.request("POST", "/mcp", [{}] * 101).status == 400


def test_a_long_call_streams_its_progress_and_a_client_that_lost_it_comes_back_for_the_answer(server, client):
    token = "tok-1"
    r = client.post("tools/call", {"name": "bash_run", "arguments": {"command": "sleep 2.5; echo done"}, "_meta": {"progressToken": token}})
    seen = list(events(r.body.decode()))
    progress = [m["params"] for _, m in seen if m and m.get("method") == "notifications/progress"]
    assert progress and all(p["progressToken"] == token for p in progress)
    assert [p["progress"] for p in progress] == sorted({p["progress"] for p in progress})
    assert seen[-1][1]["result"]["structuredContent"]["stdout"] == "done\n"

    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    body = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "sleep 1; echo $((6*7))"}}}
    c.request("POST", "/mcp", json.dumps(body), dict(client.headers, **{"Content-Type": "application/json"}))
    first = c.getresponse().readline().decode()
    c.close()  # the connection breaks while the command runs
    last = re.match(r"id: (\S+)", first).group(1)
    r = server.request("GET", "/mcp", headers=dict(client.headers, **{"Last-Event-ID": last}))
    assert answer(r)["id"] == 77 and answer(r)["result"]["structuredContent"]["stdout"] == "42\n"
    r = server.request("GET", "/mcp", headers=dict(client.headers, **{"Last-Event-ID": last}))
    assert answer(r)["result"]["structuredContent"]["stdout"] == "42\n", "and again, after it was answered"


def cancel(server, client, number=None):
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": client.last if number is None else number, "reason": "enough"}}
    assert server.request("POST", "/mcp", body, client.headers).status == 202


def cancelled_step(server, command):
    """The step of a command that was cancelled, once it is recorded."""
    def find():
        found = [s for t in server.get("/sg/v1/trajectories?tool=bash:run")["trajectories"] for s in server.steps(t["id"])
                 if s.get("params", {}).get("command") == command and s.get("outcome")]
        return found[0] if found else None
    return sg.wait_for(find, 20)


@pytest.mark.parametrize("version,accept", [("2025-11-25", BOTH["Accept"]), ("2025-06-18", BOTH["Accept"]), ("2025-11-25", "application/json")])
@pytest.mark.parametrize("early", [False, True])
def test_a_cancelled_request_is_not_answered_its_command_ends_and_its_step_says_so(server, version, accept, early):
    """early: before the answer has begun (as a stream it begins after 0.3 s)."""
    client, watcher, got = Client(server, version=version), Client(server), []
    mark = f"/tmp/{sg.unique()}"
    command = f"touch {mark}; sleep 100"
    params = {"name": "bash_run", "arguments": {"command": command}, "_meta": {"progressToken": "p"}}
    t = threading.Thread(target=lambda: got.append(client.post("tools/call", params, Accept=accept)))
    t.start()
    sg.wait_for(lambda: watcher.call("file_exists", path=mark)["structuredContent"]["exists"], 20, every=0.02)
    if not early:
        time.sleep(1.5)
    cancel(server, client)
    t.join(10)
    assert not t.is_alive(), "whoever waits is let go"
    r = got[0]
    if "event-stream" in accept:
        seen = list(events(r.body.decode()))
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream"
        assert all(m is None or m.get("method") == "notifications/progress" for _, m in seen), seen
        last = [i for i, _ in seen if i]
        # a client that takes the end of its stream for a broken connection comes back, and hears that there is nothing to come
        if last:
            again = server.request("GET", "/mcp", headers=dict(client.headers, **{"Last-Event-ID": last[-1]}))
            assert (again.status, again.body) == (204, b"")
    else:
        assert (r.status, r.body) == (202, b"")
    assert cancelled_step(server, command)["outcome"] == "killed"
    assert client.call("bash_run", command="pgrep -c sleep || echo none")["structuredContent"]["stdout"].endswith("none\n"), "and the box goes on"
    cancel(server, client)  # of what was answered, of what never was: nothing happens
    cancel(server, client, "nobody")
    assert client.ask("ping")["result"] == {}
    client.close()
    watcher.close()


def test_of_a_batch_only_what_was_not_cancelled_is_answered(server):
    client, got = Client(server, version="2025-03-26"), []
    sleep = {"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "sleep 100"}}}
    for others, want in (([{"jsonrpc": "2.0", "id": "p", "method": "ping"}], [{"jsonrpc": "2.0", "id": "p", "result": {}}]), ([], None)):
        t = threading.Thread(target=lambda: got.append(server.request("POST", "/mcp", [sleep, *others], client.headers)))
        t.start()
        sg.wait_for(lambda: cancel(server, client, "long") or not t.is_alive(), 20)
        r = got.pop()
        assert (r.status, r.json if r.body else None) == (200 if want else 202, want)
    client.close()


def test_a_call_that_is_cancelled_in_the_moment_in_which_it_begins_ends_as_others_do(server):
    """Together in one batch, so that no time is between them. If init does not hear of it, the box is given up for dead."""
    client, command = Client(server, version="2025-03-26"), f"sleep 100; : {sg.unique()}"
    box = client.call("bash_run", command="true")["_meta"]["box_id"]
    both = [{"jsonrpc": "2.0", "id": "l", "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": command}}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "l"}}]
    begin = time.monotonic()
    assert server.request("POST", "/mcp", both, client.headers).status == 202
    r = client.call("bash_run", command="echo next")
    assert r["structuredContent"]["stdout"] == "next\n" and r["_meta"]["box_id"] == box and time.monotonic() - begin < 8
    assert cancelled_step(server, command)["outcome"] == "killed"
    client.close()


def test_a_cancelled_replay_goes_no_further(server):
    client = Client(server)
    box = server.create()
    steps = [{"tool_name": "shell", "params": {"command": "touch /tmp/first; sleep 100"}}, {"tool_name": "shell", "params": {"command": "touch /tmp/second"}}]
    t = threading.Thread(target=lambda: client.post("tools/call", {"name": "replay_trajectory", "arguments": {"sandbox_id": box, "trajectory": {"steps": steps}}}))
    t.start()
    there = lambda name: server.post(f"/box/{box}/v1/bash/exec", {"command": f"test -e /tmp/{name}"})["data"]["exit_code"] == 0  # noqa: E731
    sg.wait_for(lambda: there("first"), 20)
    cancel(server, client)
    t.join(10)
    assert not t.is_alive()
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/exec", {"command": "pgrep -x sleep"})["data"]["exit_code"] == 1, 20)
    assert client.ask("ping")["result"] == {} and not there("second")
    client.close()


def test_resources_are_files_trajectories_and_states(server, client):
    r = client.call("file_write", path="/home/gem/note.txt", content="remember")
    trajectory = r["_meta"]["trajectory_id"]
    client.call("bash_run", command="printf '\\377\\000' > /home/gem/raw.bin")
    assert client.ask("resources/read", {"uri": "file:///home/gem/note.txt"})["result"]["contents"][0]["text"] == "remember"
    assert client.ask("resources/read", {"uri": "file:///home/gem/raw.bin"})["result"]["contents"][0]["blob"] == "/wA="
    state = client.call("box_snapshot")["structuredContent"]["state"]
    listed, page = set(), {}
    while True:
        page = client.ask("resources/list", {"cursor": page["nextCursor"]} if page else {})["result"]
        listed |= {x["uri"] for x in page["resources"]}
        if "nextCursor" not in page:
            break
    assert {f"sandglass://trajectory/{trajectory}", f"sandglass://state/{state}"} <= listed
    assert state in client.ask("resources/read", {"uri": f"sandglass://state/{state}"})["result"]["contents"][0]["text"]
    for method in ("tools/list", "resources/list"):
        for cursor in (5, "", "x", "-1", "s", "s1x", "t-1", [], "s" + "9" * 30):
            assert client.ask(method, {"cursor": cursor})["error"]["code"] == -32602, (method, cursor)
    assert client.ask("resources/read", {"uri": "file:///tmp/a%00b"})["error"]["code"] == -32602
    text = client.ask("resources/read", {"uri": f"sandglass://trajectory/{trajectory}"})["result"]["contents"][0]["text"]
    assert "remember" in text and json.loads(text)["steps"]
    for missing in ("file:///home/gem/nothing", "sandglass://trajectory/t-none", "sandglass://state/s-none", "http://x/", "file://relative"):
        assert client.ask("resources/read", {"uri": missing})["error"]["code"] == -32002, missing
    assert len(client.ask("resources/templates/list")["result"]["resourceTemplates"]) >= 3
    ids = client.ask("completion/complete", {"ref": {"type": "ref/resource", "uri": "sandglass://trajectory/{id}"},
                                             "argument": {"name": "id", "value": trajectory[:5]}})["result"]["completion"]["values"]
    assert trajectory in ids


def test_a_subscriber_hears_that_a_file_may_have_changed_even_if_it_listens_later(server, client):
    uri = "file:///home/gem/watched"
    assert client.ask("resources/subscribe", {"uri": uri})["result"] == {}
    client.call("file_read", path="/etc/passwd")  # changes nothing
    client.call("file_write", path="/home/gem/watched", content="1")
    with Listener(server, client) as live:
        assert live.next()["params"]["uri"] == uri
        client.call("file_write", path="/home/gem/watched", content="2")
        assert live.next()["method"] == "notifications/resources/updated"
        assert client.ask("resources/unsubscribe", {"uri": uri})["result"] == {}
        client.call("file_write", path="/home/gem/watched", content="3")
        client.ask("resources/subscribe", {"uri": uri + "2"})
        client.call("file_write", path="/home/gem/watched2", content="3")
        assert live.next()["params"]["uri"] == uri + "2"


class Listener:
    """The GET stream of a session, from its first event on."""

    def __init__(self, server, client):
        self.c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self.c.request("GET", "/mcp", headers=dict(client.headers, **{"Last-Event-ID": "0-0"}))
        self.r = self.c.getresponse()
        assert self.r.status == 200

    def __enter__(self):
        return self

    def __exit__(self, *a):
        self.c.close()

    def next(self, news=False):
        """The next notification; those of new resources only if they are asked for."""
        while True:
            line = self.r.readline().decode()
            assert line, "the stream ended"
            if line.startswith("data: {") and (news or "list_changed" not in line):
                return json.loads(line[6:])


def test_what_is_new_is_told_to_those_whose_it_is_and_to_nobody_else(server):
    class Session:
        def __init__(self, tenant):
            self.key = server.post("/sg/v1/keys", {"role": "operator", "tenant": tenant}, 201)["key"]
            self.headers = {"Authorization": f"Bearer {self.key}", "Accept": "application/json, text/event-stream"}
            r = self.ask("initialize", HELLO)
            self.headers["Mcp-Session-Id"] = r.headers["Mcp-Session-Id"]

        def ask(self, method, params):
            r = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=self.headers)
            assert "result" in r.json, r
            return r

        def run(self, trajectory):
            body = {"tool": "probe:echo", "params": {}, "worker_id": "w", "trajectory_id": trajectory}
            assert server.request("POST", "/sg/v1/execute", body, headers=self.headers).status != 401
    one, two = Session("news-one"), Session("news-two")
    for s in (one, two):
        s.ask("resources/subscribe", {"uri": "sandglass://trajectory/shared"})
    with Listener(server, one) as first, Listener(server, two) as second:
        one.run("shared")
        assert {first.next(True)["method"] for _ in range(2)} == {"notifications/resources/updated", "notifications/resources/list_changed"}
        two.run("another")
        assert second.next(True)["method"] == "notifications/resources/list_changed", "it heard nothing of the other's"
        two.run("shared")
        assert second.next()["params"]["uri"] == "sandglass://trajectory/shared"


def test_a_session_with_a_box_of_its_own_shares_it_with_nobody_and_takes_it_along(server):
    a, b = Client(server, "/mcp?box=own"), Client(server, "/mcp?box=own")
    x = a.call("bash_run", command="echo a > /tmp/mine")
    y = b.call("bash_run", command="cat /tmp/mine")
    assert y["structuredContent"]["exit_code"] != 0 and x["_meta"]["box_id"] != y["_meta"]["box_id"]
    a.close(), b.close()
    sg.wait_for(lambda: not {x["_meta"]["box_id"], y["_meta"]["box_id"]} & {k["id"] for k in server.get("/sg/v1/boxes")["boxes"]}, 10)
    with server.box() as box:
        c = Client(server, f"/box/{box.id}/mcp")
        assert c.call("bash_run", command="true")["_meta"]["box_id"] == box.id
        c.close()
    assert server.request("POST", "/mcp?box=other", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})["error"]["code"] == -32602


def test_a_profile_chooses_what_is_shown(server):
    def names(profile):
        r = server.post(f"/mcp?profile={profile}", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        return {t["name"] for t in r["result"]["tools"]}
    def of(*backends):
        return {t["name"].replace(":", "_") for t in table if t["name"].split(":")[0] in backends}
    table = [t for t in server.get("/sg/v1/tools")["tools"] if not t["name"].startswith("probe:")]
    seen = {p: {n for n in names(p) if not n.startswith(("probe_", "test_", "json_schema_"))} for p in
            ("all", "code", "browser", "desktop", "aio", "knowlyr")}
    carried = seen["all"]  # a tool with a byte stream has no message
    assert {t["name"].replace(":", "_") for t in table} >= carried and "bash_run" in carried
    seeing = of("browser", "desktop", "vm")
    assert seen["code"] == carried - seeing - of("knowlyr", "agentscope") and {"bash_run", "file_read", "jupyter_execute"} <= seen["code"]
    assert seen["browser"] == carried & of("browser", "file") and {"browser_goto", "file_read"} <= seen["browser"]
    assert seen["desktop"] == carried & of("desktop", "vm")
    assert {"browser_navigate", "browser_click", "browser_type", "browser_screenshot", "browser_extract", "file_read", "file_write", "file_list",
            "file_search", "file_replace", "terminal_execute", "terminal_session", "terminal_kill", "markitdown_convert", "markitdown_extract",
            "sandbox_execute_bash", "sandbox_execute_code", "sandbox_file_operations", "sandbox_str_replace_editor", "sandbox_get_context",
            "sandbox_get_packages"} <= seen["aio"] and "bash_run" not in seen["aio"]
    assert seen["knowlyr"] == {"create_sandbox", "execute_tool", "reset_sandbox", "replay_trajectory", "sandbox_snapshot"}
    for profile, shown in seen.items():
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", n) for n in shown), profile
        header = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers={"X-Sandglass-Profile": profile}).json
        assert {t["name"] for t in header["result"]["tools"]} == names(profile)
    assert "profile" in server.post("/mcp?profile=none", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["error"]["message"]


def test_a_hundred_clients_at_once_each_get_their_own_answer(server):
    wrong = []

    def work(i):
        c = Client(server)
        for k in range(3):
            r = c.call("probe_echo", text=f"{i}.{k}")
            if r["structuredContent"]["text"] != f"{i}.{k}":
                wrong.append((i, k, r))
        c.close()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not wrong and not any(t.is_alive() for t in threads)


def test_the_names_of_aio_work_by_their_effect(server):
    def call(name, **arguments):
        r = server.post("/mcp?profile=aio", {"method": "tools/call", "params": {"name": name, "arguments": arguments}})
        assert "error" not in r, r
        return r
    def said(name, **arguments):
        return json.loads(call(name, **arguments)["content"][0]["text"])
    r = said("sandbox_execute_bash", cmd="cd /tmp && export MARK=7 && echo hi", timeout=10)
    assert r["status"] == "completed" and r["output"].strip() == "hi" and r["exit_code"] == 0 and r["cwd"] == "/tmp"
    assert said("terminal_execute", command="echo $MARK")["output"].strip() == "7", "one shared session"
    assert said("sandbox_execute_bash", cmd="echo [$MARK]", new_session=True)["output"].strip() == "[]"
    assert said("sandbox_execute_code", code="print(2**10)", language="python") == {"status": "ok", "stdout": "1024\n", "stderr": "", "exit_code": 0}
    w = said("sandbox_file_operations", action="write", path="/tmp/f.txt", content="alpha\nbeta\n")
    assert w["success"] and w["bytes_written"] == 11 and w["action"] == "write"
    assert said("sandbox_file_operations", action="read", path="/tmp/f.txt", start_line=1, end_line=2)["content"] == "beta\n"
    assert said("sandbox_file_operations", action="grep", path="/tmp", content="^bet")["matches"][0]["line"] == 2
    assert said("sandbox_file_operations", action="find", path="/tmp", pattern="f.*")["total"] == 1
    r = call("sandbox_file_operations", action="read", path="/tmp/none")
    assert r["isError"] and json.loads(r["text"])["error"]["error_type"] == "not_found"
    assert "gamma" in call("sandbox_str_replace_editor", command="str_replace", path="/tmp/f.txt", old_str="beta", new_str="gamma")["text"]
    call("sandbox_str_replace_editor", command="undo_edit", path="/tmp/f.txt")
    assert call("file_read", path="/tmp/f.txt")["text"] == "alpha\nbeta\n"
    assert json.loads(call("file_search", path="/tmp", query="alpha")["content"][0]["text"])["count"] == 1
    call("file_replace", path="/tmp/f.txt", old_str="alpha", new_str="omega")
    assert said("terminal_execute", command="cat /tmp/f.txt")["output"].split() == ["omega", "beta"]
    assert "/home/gem" in call("sandbox_get_context")["text"]
    text = call("sandbox_get_packages")["text"]
    assert "Python Packages:\n" in text and "  - numpy==" in text and "Node.js Packages:\n" in text
    s = call("terminal_session", session_id="other")["structuredContent"]["session_id"]
    assert s == "other" and said("terminal_execute", command="sleep 60", session_id=s, timeout=0.2)["status"] == "running"
    assert call("terminal_kill", session_id=s)["structuredContent"]["status"] == "terminated"
    shown = {t["name"] for t in server.post("/mcp?profile=aio", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]}
    assert {"sandbox_execute_bash", "sandbox_file_operations", "terminal_execute", "file_read", "file_search"} <= shown and "bash_run" not in shown


def test_the_tools_of_knowlyr_make_use_and_reset_a_sandbox(tmp_path):
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("print('one')\n")
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run(git + args, cwd=repo, check=True)
    with sg.running("--pool-size", "1", "--mount-roots", str(tmp_path)) as server:
        def call(name, **arguments):
            r = server.post("/mcp?profile=knowlyr", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
            return r["result"]["content"][0]["text"], r["result"]["isError"]
        listed = server.post("/mcp?profile=knowlyr", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]
        assert [t["name"] for t in listed][:3] == ["create_sandbox", "execute_tool", "reset_sandbox"]
        assert sorted(listed[0]["inputSchema"]["required"]) == ["base_commit", "repo_url"]
        text, failed = call("create_sandbox", repo_url=f"file://{repo}", base_commit="main")
        assert not failed, text
        made = json.loads(text)
        box = made["sandbox_id"]
        assert made["base_commit"] == "main" and made["image"] == "host"
        text, failed = call("execute_tool", sandbox_id=box, tool_name="shell", params={"command": "python3 a.py; echo x >> a.py; git status --short"})
        assert json.loads(text) == {"output": "one\n M a.py\n", "exit_code": 0, "error": None} and not failed
        text, failed = call("sandbox_snapshot", sandbox_id=box, label="edited")
        assert not failed and "a.py | 1 +" in text and "Python 3" in text
        state = re.search(r"state: (\S+)", text).group(1)
        steps = [{"tool_name": "shell", "params": {"command": "echo a"}, "expected_output": "a"},
                 {"tool_name": "shell", "params": {"command": "echo b"}, "expected_output": "c"}, {"tool_name": "git", "params": {"subcommand": "status"}}]
        text, failed = call("replay_trajectory", sandbox_id=box, trajectory={"steps": steps})
        r = json.loads(text)
        assert (r["success"], r["total_steps"], r["completed_steps"], r["divergence_step"], failed) == (False, 3, 3, 1, False)
        assert [d["diverged"] for d in r["details"]] == [False, True, False]
        assert call("replay_trajectory", sandbox_id=box, trajectory={"steps": [{"tool_name": "nope"}]}) == ("未知工具: nope", True)
        assert call("reset_sandbox", sandbox_id=box) == (f"沙箱已重置: {box}", False)
        assert json.loads(call("execute_tool", sandbox_id=box, tool_name="git", params={"subcommand": "status", "args": "--short"})[0])["output"] == ""
        assert server.get(f"/sg/v1/states/{state}")["name"] == "edited", "a snapshot outlives the reset"
        assert call("execute_tool", sandbox_id="nope", tool_name="shell", params={"command": "true"}) == ("沙箱不存在: nope", True)
        assert call("create_sandbox", repo_url=f"file://{repo}", base_commit="no-such")[0].startswith("创建沙箱失败: ")
        assert call("create_sandbox", repo_url="gopher://x", base_commit="main")[0].startswith("配置错误:\n")


UPSTREAM = r'''
import json, sys, os
many = "MANY" in os.environ
names = [f"t{i}" for i in range(260)] if many else ["add", "crash", "big", "length"]
size = 100 if many else 1  # tools a page
def say(m): print(json.dumps(m), flush=True)
print("a line that is no message", flush=True)
print("to stderr " * 100000, file=sys.stderr)  # more than a pipe holds
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    method, r = m["method"], {}
    if method == "initialize": r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "up", "version": "1"}}
    elif method == "tools/list":
        tool = lambda n: {"name": n, "description": n + " things", "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "text": {"type": "string"}}}}
        page = int(m["params"].get("cursor", 0))
        r = {"tools": [tool(n) for n in names[page:page + size]]}
        if page + size < len(names): r["nextCursor"] = str(page + size)
    elif method == "tools/call":
        p = m["params"]
        if p["name"] == "crash": os._exit(1)
        if p["name"] == "big": r = {"content": [{"type": "text", "text": "x" * (3 << 20)}]}
        if p["name"] == "length": r = {"content": [{"type": "text", "text": str(len(p["arguments"]["text"]))}]}
        if p["name"] == "add":
            if "a" not in p["arguments"]: r = {"content": [{"type": "text", "text": "a is missing" + "!" * 9000}, {"type": "text", "text": "b, too"}], "isError": True}
            else: r = {"content": [{"type": "text", "text": str(p["arguments"]["a"] + p["arguments"]["b"])}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
            if p["arguments"].get("a") == 99 and "late" not in names:
                names.append("late")
                say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    say({"jsonrpc": "2.0", "id": m["id"], "result": r})
'''


def test_mcp_servers_of_others_are_aggregated_from_a_box_and_from_a_url(server):
    place = sg.open_place("up")
    config = {"mcpServers": {"calc": {"command": "python3", "args": ["-c", UPSTREAM], "env": {"K": "v"}},
                             "many": {"command": "python3", "args": ["-c", UPSTREAM], "env": {"MANY": "1"}, "hidden": True},
                             "far": {"url": f"http://127.0.0.1:{server.port}/mcp?profile=code", "hidden": True}}}
    (place / "servers.json").write_text(json.dumps(config))
    (place / "servers.json").chmod(0o644)

    def call(s, name, **arguments):
        return s.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})["result"]

    with sg.running("--pool-size", "1", "--mcp-servers", str(place / "servers.json")) as s:
        def pages():
            cursor = {}
            while cursor is not None:
                r = s.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": cursor})["result"]
                yield {t["name"] for t in r["tools"]}
                cursor = {"cursor": r["nextCursor"]} if "nextCursor" in r else None

        def names():
            return set().union(*pages())
        sg.wait_for(lambda: {"calc_add", "calc_crash", "far_bash_run", "many_t259"} <= names(), 60, every=0.2)
        sizes = [len(p) for p in pages()]
        assert len(sizes) > 1 and max(sizes) < 300 and sum(sizes) == len(names()), "in pages, none twice"
        assert len(call(s, "calc_big")["content"][0]["text"]) == 3 << 20
        assert s.request("PUT", "/sg/v1/secrets/UP", {"value": "twelve bytes"}).status == 200
        assert call(s, "calc_length", text="${secret:UP}")["content"][0]["text"] == "12"
        r = call(s, "calc_add", a=40, b=2)
        assert r["content"][0]["text"] == "42" and r["content"][1]["type"] == "image" and not r["isError"]
        step = s.steps(r["_meta"]["trajectory_id"])[-1]
        assert step["tool"] == "calc:add" and step["observation"]["content"][0]["text"] == "42"
        r = call(s, "calc_add")
        assert r["isError"] and r["_meta"]["outcome"] == "task_error" and s.steps(r["_meta"]["trajectory_id"])[-1]["message"].startswith("a is missing!")
        assert [t["text"] for t in r["content"]] == ["a is missing" + "!" * 9000, "b, too"], "all of what it says"
        assert call(s, "far_bash_run", command="echo from afar")["structuredContent"]["stdout"] == "from afar\n"
        r = call(s, "calc_crash")
        assert r["isError"] and r["_meta"]["outcome"] == "infra_error"
        sg.wait_for(lambda: call(s, "calc_add", a=1, b=2)["content"][0]["text"] == "3", 30, every=0.3)
        told = listen(s, "s", {"toolsListChanged": True})
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
        other = Client(s)
        call(s, "calc_add", a=99, b=0)
        sg.wait_for(lambda: "calc_late" in names(), 20, every=0.2)
        heard = next(told)
        assert heard["method"] == "notifications/tools/list_changed" and heard["params"]["_meta"][SINCE + "subscriptionId"] == "s"
        told.close()
        with Listener(s, other) as live:
            while live.next(news=True)["method"] != "notifications/tools/list_changed":
                pass
        assert s.get("/v1/mcp/servers")["data"] == ["sandglass", "calc"]
        assert set(s.get("/v1/mcp/servers?include_hidden=true")["data"]) == {"sandglass", "calc", "far", "many"}
        assert [t["name"] for t in s.get("/v1/mcp/calc/tools")["data"]["tools"]] == ["calc_add", "calc_crash", "calc_big", "calc_length", "calc_late"]
        assert "bash_run" in {t["name"] for t in s.get("/v1/mcp/sandglass/tools")["data"]["tools"]}
        assert s.post("/v1/mcp/calc/tools/add", {"a": 1, "b": 1})["data"]["content"][0]["text"] == "2"
        assert s.post("/v1/mcp/sandglass/tools/bash_run", {"command": "echo own"})["data"]["structuredContent"]["stdout"] == "own\n"
        assert s.request("GET", "/v1/mcp/none/tools").status == 404 and s.request("POST", "/v1/mcp/calc/tools/none", {}).status == 404


ODD_UPSTREAM = r'''
import json, os, sys
if "EXIT" in os.environ: sys.exit(3)
names = ["x y", "x_y", "x.y", "\u00fcber", "a" * 100, "a" * 101, "dup", "dup", "", "ok", "far/off"]
def say(m): print(json.dumps(m), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    r = {}
    if m["method"] == "initialize": r = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "up", "version": "1"}}
    if "MANY" in os.environ: names = [f"t{i}" for i in range(600)]
    if m["method"] == "tools/list": r = {"tools": [] if "NONE" in os.environ else [{"name": n, "inputSchema": {"type": "object"} if n != "ok" else 7} for n in names]}
    if m["method"] == "tools/call":
        say({"jsonrpc": "2.0", "id": "nonsense", "result": {}})
        say({"jsonrpc": "2.0", "id": m["id"] + 1000, "result": {}})
        print("}{ no message", flush=True)
        r = {"content": [{"type": "text", "text": "called " + m["params"]["name"]}]}
    say({"jsonrpc": "2.0", "id": m["id"], "result": r})
'''


def test_an_odd_mcp_server_costs_nothing_but_its_oddest_tools():
    place = sg.open_place("odd")
    server = lambda **env: {"command": "python3", "args": ["-c", ODD_UPSTREAM], "env": env}
    (place / "servers.json").write_text(json.dumps({"mcpServers": {"odd": server(), "ends": server(EXIT="1"), "bare": server(NONE="1"), "many": server(MANY="1"), "no": {"command": "/no/such"}}}))
    (place / "servers.json").chmod(0o644)
    with sg.running("--pool-size", "1", "--mcp-servers", str(place / "servers.json")) as s:
        ask = lambda method, **p: s.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": p})["result"]
        def theirs():
            found, page = {}, {"nextCursor": None}
            while "nextCursor" in page:
                page = ask("tools/list", **({"cursor": page["nextCursor"]} if page["nextCursor"] else {}))
                found |= {t["name"]: t["title"] for t in page["tools"] if t["name"].startswith("odd_")}
            return found
        sg.wait_for(lambda: theirs(), 30, every=0.2)
        assert sorted(theirs().values()) == sorted(["x y", "x_y", "x.y", "\u00fcber", "a" * 100, "a" * 101, "dup", "ok", "far/off"])
        assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", n) for n in theirs())
        for name, own in theirs().items():
            assert ask("tools/call", name=name, arguments={})["content"][0]["text"] == "called " + own
        log = pathlib.Path(s.log_path).read_text()
        assert log.count("is gone name=odd") == log.count("is gone name=bare") == 0 and log.count("is gone name=ends") < 8, log
        assert "name=bare, without tools" in log
        sg.wait_for(lambda: len(s.get("/v1/mcp/many/tools")["data"]["tools"]) == 512, 30, every=0.2)


@pytest.mark.parametrize("name", ["bash", "x y"])
def test_an_mcp_server_by_a_name_that_it_cannot_have_does_not_start(name):
    place = sg.open_place("name")
    (place / "servers.json").write_text(json.dumps({"mcpServers": {name: {"command": "true"}}}))
    (place / "servers.json").chmod(0o644)
    s = sg.Server("--pool-size", "0", "--mcp-servers", str(place / "servers.json"))
    try:
        s.start(wait=False)
        assert s.guard.wait(30) != 0 and f"mcp.servers: {name[:20]}" in pathlib.Path(s.log_path).read_text()
    finally:
        s.end()


def test_mutated_messages_are_answered_and_harm_nobody(server):
    r = random.Random(7)
    seeds = [{"jsonrpc": "2.0", "id": 1, "method": m, "params": p} for m, p in (
        ("initialize", HELLO), ("tools/list", {"cursor": "0"}), ("tools/call", {"name": "probe_echo", "arguments": {"text": "x"}}),
        ("resources/read", {"uri": "sandglass://trajectory/t"}), ("resources/subscribe", {"uri": "file:///x"}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "u"}, "argument": {"name": "a", "value": "v"}}),
        ("prompts/get", {"name": "test_simple_prompt"}), ("logging/setLevel", {"level": "info"}))]
    odd = [None, True, -1, 1e300, "", "x" * 10000, [], {}, [[]], {"a": {"b": []}}, "\ud83d\ude00", "\u0000"]
    serve = server.role("serve")
    for i in range(400):
        m = json.loads(json.dumps(r.choice(seeds)))
        where = [m]
        while isinstance(where[-1], dict) and where[-1] and r.random() < 0.6:
            where.append(where[-1][r.choice(list(where[-1]))])
        target = next(w for w in reversed(where) if isinstance(w, dict))
        key = r.choice(list(target) or ["new"])
        if r.random() < 0.3:
            target.pop(key, None)
        else:
            target[key] = r.choice(odd)
        raw = json.dumps(m).encode()
        if r.random() < 0.2:
            cut = r.randrange(len(raw))
            raw = raw[:cut] + bytes([r.randrange(256)]) + raw[cut + 1:]
        reply = server.request("POST", "/mcp", raw=raw, headers=BOTH)
        assert reply.status in (200, 202, 400), (raw, reply)
        if reply.body:
            json.loads(reply.body) if reply.headers["Content-Type"] == "application/json" else list(events(reply.body.decode()))
    assert server.role("serve") == serve, "serve is the same process"


def test_knowlyrs_server_on_stdin_and_stdout(server):
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}, {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
             {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "reset_sandbox", "arguments": {"sandbox_id": "none"}}}]
    r = subprocess.run(["/usr/bin/python3", "-m", "agentsandbox.mcp_server"], input="".join(json.dumps(x) + "\n" for x in lines), text=True,
                       stdout=subprocess.PIPE, timeout=60, check=True,
                       env={"PYTHONPATH": str(KNOWLYR), "PATH": "/usr/bin:/bin", "SANDGLASS_URL": f"http://127.0.0.1:{server.port}"})
    got = {m["id"]: m["result"] for m in map(json.loads, r.stdout.splitlines())}
    assert [t["name"] for t in got[2]["tools"]][0] == "create_sandbox" and got[3]["content"][0]["text"] == "沙箱不存在: none"


# ---- since 2026-07-28: every request for itself ----

SINCE = "io.modelcontextprotocol/"
META = {SINCE + "protocolVersion": "2026-07-28", SINCE + "clientCapabilities": {}, SINCE + "clientInfo": {"name": "test", "version": "1"}}


def modern(method, params=None, number=1, meta=None, **headers):
    params = {**(params or {}), "_meta": {**META, **(meta or {})}}
    name = params.get("name", params.get("uri"))
    given = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, **({"Mcp-Name": name} if name else {})}
    given.update({k.replace("_", "-"): v for k, v in headers.items()})
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, {**BOTH, **{k: v for k, v in given.items() if v is not None}}


def ask(server, *words, **more):
    return server.request("POST", "/mcp", *modern(*words, **more))


def listen(server, number, wanted):
    """What somebody hears who has no session."""
    body, headers = modern("subscriptions/listen", {"notifications": wanted}, number=number)
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    c.request("POST", "/mcp", json.dumps(body), headers)
    r = c.getresponse()
    try:
        while line := r.readline().decode():
            if line.startswith("data: {"):
                yield json.loads(line[6:])
    finally:
        r.close()
        c.close()


def test_a_request_without_a_session_says_itself_what_it_is(server):
    r = ask(server, "server/discover")["result"]
    assert r["resultType"] == "complete" and r["supportedVersions"][:2] == ["2026-07-28", "2025-11-25"] and "tools" in r["capabilities"]
    assert r["_meta"][SINCE + "serverInfo"]["name"] == "sandglass" and r["ttlMs"] > 0 and r["cacheScope"] == "private"
    r = ask(server, "tools/list")
    assert "Mcp-Session-Id" not in r.headers and {"bash_run"} <= {t["name"] for t in r["result"]["tools"]} and r["result"]["ttlMs"] > 0
    r = answer(ask(server, "tools/call", {"name": "bash_run", "arguments": {"command": "echo $((6*7))"}}))["result"]
    assert r["resultType"] == "complete" and r["structuredContent"]["stdout"] == "42\n" and r["_meta"]["outcome"] == "ok"
    uri = "file:///home/gem/é.txt"
    ask(server, "tools/call", {"name": "file_write", "arguments": {"path": "/home/gem/é.txt", "content": "x"}})
    encoded = "=?base64?" + base64.b64encode(uri.encode()).decode() + "?="
    r = answer(ask(server, "resources/read", {"uri": uri}, Mcp_Name=encoded))["result"]
    assert r["contents"][0]["text"] == "x" and (r["ttlMs"], r["cacheScope"]) == (0, "private")
    assert answer(ask(server, "resources/read", {"uri": "file:///nothing"}))["error"]["code"] == -32602
    assert ask(server, "tools/list", Mcp_Session_Id="unknown")["result"]["tools"], "it has no session, whatever a header says"


def test_what_a_request_says_twice_must_be_the_same_twice(server):
    call = ("tools/call", {"name": "probe_echo", "arguments": {"text": "x"}})
    for headers in ({"Mcp_Method": "tools/list"}, {"Mcp_Method": None}, {"Mcp_Name": "bash_run"}, {"Mcp_Name": None}, {"Mcp_Name": "=?base64?!?="},
                    {"MCP_Protocol_Version": None}, {"MCP_Protocol_Version": "2025-11-25"}):
        r = ask(server, *call, **headers)
        assert (r.status, r["error"]["code"], r["id"]) == (400, -32020, 1), (headers, r)
    assert answer(ask(server, *call))["result"]["structuredContent"]["text"] == "x"
    r = ask(server, *call, meta={SINCE + "protocolVersion": "2099-01-01"}, MCP_Protocol_Version="2099-01-01")
    assert (r.status, r["error"]["code"]) == (400, -32022) and r["error"]["data"]["requested"] == "2099-01-01" and "2026-07-28" in r["error"]["data"]["supported"]
    r = ask(server, *call, meta={SINCE + "clientCapabilities": None})
    assert (r.status, r["error"]["code"]) == (400, -32602)
    body, headers = modern(*call)
    del body["params"]["_meta"]
    r = server.request("POST", "/mcp", body, headers)
    assert (r.status, r["error"]["code"]) == (400, -32602)
    assert server.request("POST", "/mcp", [body], headers).status == 400
    for method in ("no/such", "ping", "initialize", "logging/setLevel", "resources/subscribe"):
        r = ask(server, method)
        assert (r.status, r["error"]["code"]) == (404, -32601), (method, r)


def test_without_a_session_who_hangs_up_cancels(server):
    mark = f"/tmp/{sg.unique()}"
    command = f"touch {mark}; sleep 100"
    body, headers = modern("tools/call", {"name": "bash_run", "arguments": {"command": command}}, meta={"progressToken": 7})
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    c.request("POST", "/mcp", json.dumps(body), headers)
    r = c.getresponse()
    line = r.readline().decode()
    while "progress" not in line:
        assert "id: " not in line, "there is nothing to come back to"
        line = r.readline().decode()
    c.sock.shutdown(socket.SHUT_RDWR) if c.sock else r.fp.raw._sock.shutdown(socket.SHUT_RDWR)
    c.close()
    assert cancelled_step(server, command)["outcome"] == "killed"


def test_who_listens_without_a_session_hears_what_was_agreed_on(server):
    told = listen(server, "s", {"toolsListChanged": True, "resourceSubscriptions": ["file:///x"]})
    first = next(told)
    assert first["method"] == "notifications/subscriptions/acknowledged" and first["params"]["notifications"] == {"toolsListChanged": True}
    assert first["params"]["_meta"][SINCE + "subscriptionId"] == "s"
    told.close()
    assert ask(server, "subscriptions/listen", {})["error"]["code"] == -32602


@pytest.mark.parametrize("how", ["sandglass", "python"])
def test_requests_without_a_session_go_over_stdin_and_stdout_too(server, how):
    box, command = server.create(), f"touch /tmp/begun; sleep 100; : {sg.unique()}"
    shell = {"name": "execute_tool", "arguments": {"sandbox_id": box, "tool_name": "shell", "params": {"command": command}}, "_meta": META}
    p = over_stdio(how, server)
    p.say({"id": 1, "method": "server/discover", "params": {"_meta": META}}, {"id": 2, "method": "tools/list", "params": {"_meta": META}},
          {"id": 3, "method": "subscriptions/listen", "params": {"_meta": META, "notifications": {}}},
          {"id": "long", "method": "tools/call", "params": shell})
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/exec", {"command": "test -e /tmp/begun"})["data"]["exit_code"] == 0, 20)
    p.say({"method": "notifications/cancelled", "params": {"requestId": "long"}})
    out, _ = p.communicate(timeout=30)
    got = {m.get("id"): m for m in map(json.loads, out.splitlines())}
    assert p.returncode == 0 and got[1]["result"]["supportedVersions"] and got[2]["result"]["tools"] and "long" not in got, out
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/exec", {"command": "pgrep -x sleep"})["data"]["exit_code"] == 1, 20)


KNOWLYR = pathlib.Path(__file__).resolve().parents[2] / "sdk/python-agentsandbox"


def over_stdio(how, server, **env):
    url = f"http://127.0.0.1:{server.port}"
    argv = [sg.BINARY, "mcp", "--url", url] if how == "sandglass" else ["/usr/bin/python3", "-m", "agentsandbox.mcp_server"]
    p = subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={**os.environ, "PYTHONPATH": str(KNOWLYR), "SANDGLASS_URL": url, **env})
    p.say = lambda *m: (p.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **x}) + "\n" for x in m)), p.stdin.flush())
    return p


@pytest.mark.parametrize("how", ["sandglass", "python"])
@pytest.mark.parametrize("late", [True, False])
def test_over_stdin_and_stdout_a_cancelled_request_is_not_answered_and_others_are(server, how, late):
    """late: while the command runs; else at once, so that the cancellation must not overtake what it cancels."""
    box, command = server.create(), f"touch /tmp/begun; sleep 100; : {sg.unique()}"
    shell = {"name": "execute_tool", "arguments": {"sandbox_id": box, "tool_name": "shell", "params": {"command": command}}}
    p = over_stdio(how, server)
    p.say({"id": 0, "method": "initialize", "params": HELLO}, {"method": "notifications/initialized"},
          {"id": "long", "method": "tools/call", "params": shell})
    if late:
        sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/exec", {"command": "test -e /tmp/begun"})["data"]["exit_code"] == 0, 20)
    p.say({"method": "notifications/cancelled", "params": {"requestId": "long"}}, {"id": 2, "method": "ping"})
    out, _ = p.communicate(timeout=30)  # far less than the command would take
    got = [m.get("id") for m in map(json.loads, out.splitlines()) if "method" not in m]
    assert p.returncode == 0 and sorted(got, key=str) == [0, 2], out
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/exec", {"command": "pgrep -x sleep"})["data"]["exit_code"] == 1, 20)
    steps = [s for t in server.get(f"/sg/v1/trajectories?box={box}&tool=knowlyr:shell")["trajectories"] for s in server.steps(t["id"])]
    assert [s["outcome"] for s in steps if s["tool"] == "knowlyr:shell"] == ["killed"]


@pytest.mark.parametrize("how", ["sandglass", "python"])
def test_over_stdin_and_stdout_a_refusal_answers_the_request_that_it_is_for(how):
    with sg.running("--pool-size", "0", env={"BEARER_TOKEN": "a-token-of-this-test"}) as s:
        p = over_stdio(how, s)
        p.say({"id": "i", "method": "initialize", "params": HELLO}, {"id": 7, "method": "ping"}, {"method": "notifications/initialized"})
        out, _ = p.communicate(timeout=30)
        got = {m["id"]: m["error"]["message"] for m in map(json.loads, out.splitlines())}
        assert set(got) == {"i", 7} and all("401" in text for text in got.values()), out


def test_a_hundred_clients_on_stdin_and_stdout_at_once(server):
    def lines(i):
        return "".join(json.dumps(m) + "\n" for m in (
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}, {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "e", "method": "tools/call", "params": {"name": "probe_echo", "arguments": {"text": f"client {i}"}}}))
    clients = [subprocess.Popen([sg.BINARY, "mcp", "--url", f"http://127.0.0.1:{server.port}"], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE) for _ in range(100)]
    for i, c in enumerate(clients):
        c.stdin.write(lines(i))
        c.stdin.flush()
    for i, c in enumerate(clients):
        out, _ = c.communicate(timeout=60)
        got = {m["id"]: m["result"] for m in map(json.loads, out.splitlines()) if "id" in m}  # it may hear of new resources
        assert c.returncode == 0 and got["e"]["structuredContent"]["text"] == f"client {i}"


def test_without_a_server_stdio_starts_one_and_takes_it_along(server):
    """Where nothing listens on the default address: in a network of its own."""
    home = sg.open_place("mcp")
    env = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
    env.update(SANDGLASS_HOME=str(home / "h"), SANDGLASS_CGROUP_NAME=sg.unique("sgt-mcp-"), SANDGLASS_POOL_SIZE="0")
    lines = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}, {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "echo from a server of its own"}}}]
    p = subprocess.Popen(["unshare", "-n", sg.BINARY, "mcp", "--box", "own"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=env)
    out, err = p.communicate("".join(json.dumps(m) + "\n" for m in lines), timeout=240)
    got = {m["id"]: m for m in map(json.loads, out.splitlines()) if "id" in m}
    assert p.returncode == 0 and got[1]["result"]["structuredContent"]["stdout"] == "from a server of its own\n", (out[-500:], err[-2000:])
    assert not list(pathlib.Path("/tmp").glob(f"sandglass-mcp-{p.pid}.sock"))
    sg.wait_for(lambda: not [d for d in os.listdir("/proc") if d.isdigit() and str(home) in sg.read(f"/proc/{d}/cmdline", "")], 60)
    shutil.rmtree(home, ignore_errors=True)


def test_a_relay_shows_our_own_key_to_nobody():
    seen = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(dict(self.headers))
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        p = subprocess.run([sg.BINARY, "mcp", "--relay", f"http://127.0.0.1:{other.server_port}/", "--header", "X-Theirs: 1"],
                           input='{"jsonrpc":"2.0","id":1,"method":"ping"}\n', capture_output=True, text=True, timeout=60,
                           env={**os.environ, "SANDGLASS_API_KEY": "sg_ours", "SANDGLASS_TICKET": "ours"})
        other.shutdown()
    assert '"result"' in p.stdout and seen and seen[0]["X-Theirs"] == "1" and "ours" not in json.dumps(seen), (p, seen)
