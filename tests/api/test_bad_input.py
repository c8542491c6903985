"""Whatever is wrong with a request is said in the shape of its surface, by a status of the caller's, and names what is wrong. Walks over
the tables themselves, so that what is added is walked, too."""

import http.client
import json
import re
import subprocess

import pytest

import sg

BODIES = {"broken": b'{"a":', "list": b"[1, 2]", "text": b'"x"', "number": b"7", "null": b"null", "no UTF-8": b'{"a": "\xff\xfe"}',
          "deep": b"[" * 5000, "unknown": b'{"no_such_field": 1}', "NUL": b'{"a\\u0000b": 1}', "no JSON": b"hello", "nothing": b""}
# They end the server, wait for something to happen, or never end.
LONG = re.compile(r"shutdown|/events$|observe/live|file/watch|shell/ws|websockify|/wait$|/record$|captcha|\{rest\*\}$")
# They need a browser or an interpreter, and answer as their neighbours do: one of each kind is enough here.
HEAVY = re.compile(r"^/v1/(browser|display)/(?!page/click)|^/v1/jupyter/(?!execute)")
VALUES = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
WRONG = {"string": 7, "integer": "x", "number": "x", "boolean": 2, "array": {}, "object": 7}


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


@pytest.fixture(scope="module")
def ask(server):
    """Over one connection."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)

    def one(method, path, body=None, kind="application/json"):
        c.request(method, path, body=body, headers={"Content-Type": kind} if body is not None else {})
        r = c.getresponse()
        return sg.Reply(r.status, r.headers, r.read())
    yield one
    c.close()


def routes():
    out = subprocess.run([sg.BINARY, "routes"], check=True, capture_output=True, text=True).stdout
    table = [json.loads(line) for line in out.splitlines()]
    return [(r["method"], re.sub(r"\{[^}]*\}", "nope-1", r["path"])) for r in table
            if not LONG.search(r["path"]) and not HEAVY.search(r["path"])]


def complaint(path, reply):
    """The text of an error, by the surface's own envelope."""
    j = reply.json
    if path.endswith("/mcp"):
        return (j[0] if isinstance(j, list) else j)["error"]["message"]
    if path.startswith("/v1/") or path == "/llms.txt":
        assert j["success"] is False and j["data"] is None or "error_type" in j["data"], (path, reply)
        return j["message"]
    if path.startswith("/api/"):
        return j["message"] if "message" in j else j["error"]["message"] if "error" in j else json.dumps(j["detail"])
    return j["error"]["message"]


def test_no_body_makes_a_route_fail_as_if_it_were_the_servers_fault(ask):
    tried = 0
    for method, path in routes():
        for name, body in BODIES.items() if method not in ("GET", "HEAD") else [("nothing", None)]:
            for kind in ("application/json", "text/plain") if name == "broken" else ("application/json",):
                r = ask(method, path, body, kind)
                assert r.status < 500, (method, path, name, r)
                if r.status >= 400 and method != "HEAD":
                    assert complaint(path, r), (method, path, name, r)
                tried += 1
    assert tried > 1000


def test_a_method_that_a_path_does_not_have_is_refused(ask):
    table = set(routes())
    for path in sorted({p for _, p in table if not p.startswith("/static/")}):
        for method in ("PATCH", "BREW"):
            if (method, path) not in table:
                r = ask(method, path, b"{}")
                assert r.status in (400, 404, 405, 501), (method, path, r)


def schemas(server):
    for t in server.get("/api/v1/tools")["tools"]:
        p = t["parameters"]
        if isinstance(p, dict) and "properties" in p:
            yield t["full_name"], p


def filled(schema):
    """What a tool asks for, and no more."""
    out = {}
    for name in schema.get("required", []):
        p = schema["properties"][name]
        kind = p.get("type", "array")
        out[name] = p["enum"][0] if "enum" in p else max(1, p.get("minimum", 1)) if kind in ("integer", "number") else VALUES[kind]
    return out


def mistakes(schema):
    """A parameter, and values that have only that one wrong."""
    base = filled(schema)
    yield "no_such", {**base, "no_such": 1}
    for name in schema.get("required", []):
        yield name, {k: v for k, v in base.items() if k != name}
    for name, p in schema["properties"].items():
        if isinstance(p.get("type"), str):
            yield name, {**base, name: WRONG[p["type"]]}
        if "maximum" in p:
            yield name, {**base, name: p["maximum"] + 1}
        if "minimum" in p:
            yield name, {**base, name: p["minimum"] - 1}
        if p.get("maxLength", 1 << 20) < 1 << 16:
            yield name, {**base, name: "a" * (p["maxLength"] + 1)}
        if "enum" in p:
            yield name, {**base, name: "no such value"}


def test_a_wrong_parameter_of_any_tool_is_refused_by_its_name_on_every_surface(server, ask):
    """Own API: 400. AgentFlow: its code of the caller's mistakes. MCP: an error, not a result that looks fine."""
    tried = 0
    with server.box() as b:
        for tool, schema in schemas(server):
            for i, (name, params) in enumerate(mistakes(schema)):
                r = ask("POST", f"/sg/v1/boxes/{b.id}/execute", json.dumps({"tool": tool, "params": params}))
                assert r.status == 400 and name in r["message"] and r["outcome"] == "invalid_request", (tool, name, params, r)
                tried += 1
                if i > 1:
                    continue  # the binding is one; that the others use it, two of each tool show
                r = ask("POST", "/api/v1/execute", json.dumps({"worker_id": "wrong", "action": tool, "params": params}))
                assert r.status == 400 and r["code"] != 0 and name in r["message"] and r["meta"]["outcome"] == "invalid_request", (tool, name, r)
                call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool.replace(":", "_"), "arguments": params}}
                r = ask("POST", "/mcp", json.dumps(call))
                assert r.status == 200 and ("error" in r.json or r["result"]["isError"]) and name in r.body.decode(), (tool, name, r)
        assert server.tool(b.id, "bash:run", {"command": "echo fine"})["data"]["stdout"] == "fine\n"
    assert tried > 1000


def test_our_own_routes_name_what_they_do_not_know_in_the_url(server, ask):
    own = [(m, p) for m, p in routes() if p.startswith("/sg/v1/") and m != "HEAD"]
    assert len(own) > 30
    for method, path in own:
        r = ask(method, path + "?no_such=1", b"{}" if method not in ("GET", "DELETE") else None)
        assert r.status == 400 and "'no_such'" in complaint(path, r), (method, path, r)


@pytest.mark.parametrize("path, names", [
    ("/sg/v1/trajectories?limit=x", "limit"), ("/sg/v1/trajectories?limit=", "limit"), ("/sg/v1/trajectories?limit=1001", "limit"),
    ("/sg/v1/trajectories?after=-1", "after"), ("/sg/v1/trajectories?after=1e3", "after"), ("/sg/v1/trajectories?after=99999999999999999999", "after"),
    ("/sg/v1/trajectories?min_reward=high", "min_reward"), ("/sg/v1/trajectories?outcome=fine", "outcome"), ("/sg/v1/trajectories?limit=1&limit=2", "limit"),
    ("/sg/v1/trajectories/export?trainable=maybe", "trainable"), ("/sg/v1/trajectories/export?min-reward=x", "min-reward"),
    ("/sg/v1/trajectories/t-1/export?id=t-2", "id"), ("/sg/v1/trajectories/t-1/events?after=x", "after"), ("/sg/v1/states?after=x", "after"),
    ("/sg/v1/diff?a=x&b=y&text=yes", "text"), ("/sg/v1/boxes?label=x", "label"), ("/sg/v1/boxes?label=%3Dx", "label"), ("/sg/v1/boxes?%00=1", "unknown"),
    ("/sg/v1/boxes?&&x", "x"), ("/sg/v1/boxes?label=a%00b%3Dc", "label"), ("/sg/v1/status?Label=a", "Label")])
def test_what_is_wrong_in_a_url_is_named(ask, path, names):
    r = ask("GET", path)
    assert r.status == 400 and names in complaint(path, r), r


def test_who_proves_who_he_is_in_the_url_is_not_refused_for_it(ask):
    for path in ("/sg/v1/boxes?api_key=", "/sg/v1/boxes?&", "/sg/v1/boxes?", "/sg/v1/trajectories?limit=3&min_reward=-1.5e0", "/sg/v1/boxes?label=a%3D"):
        assert ask("GET", path).status == 200, path


@pytest.mark.parametrize("path, body, wrong", [
    ("execute", {}, [("missing", "worker_id"), ("missing", "action")]),
    ("execute", {"worker_id": None, "action": [], "params": 3, "timeout": "x", "async_mode": "maybe"},
     [("string_type", "worker_id"), ("string_type", "action"), ("dict_type", "params"), ("int_parsing", "timeout"),
      ("bool_parsing", "async_mode")]),
    ("execute/batch", {}, [("missing", "worker_id"), ("missing", "actions")]),
    ("execute/batch", {"worker_id": "w", "actions": [3, {"action": 3, "timeout": 0}], "parallel": "often"},
     [("dict_type", "actions", 0), ("string_type", "actions", 1, "action"), ("out_of_range", "actions", 1, "timeout"),
      ("bool_parsing", "parallel")]),
    ("init/resource", {"init_config": 3}, [("missing", "worker_id"), ("missing", "resource_type"), ("dict_type", "init_config")]),
    ("init/batch", {"resource_configs": []}, [("missing", "worker_id"), ("dict_type", "resource_configs")]),
    ("init/from-config", {}, [("missing", "worker_id"), ("missing", "config_path")]),
    ("warmup", {"backends": ["bash", 3]}, [("string_type", "backends", 1)]),
])
def test_agentflow_is_told_every_field_that_is_wrong_as_its_framework_does(server, path, body, wrong):
    r = server.request("POST", "/api/v1/" + path, body)
    assert r.status == 422, r
    assert [(d["type"], *d["loc"][1:]) for d in r["detail"]] == wrong, r


def test_agentflow_lists_no_more_faults_than_somebody_can_read(server):
    r = server.request("POST", "/api/v1/execute/batch", {"worker_id": "w", "actions": [3] * 5000})
    assert r.status == 422 and len(r["detail"]) == 32, r.status


def test_an_unknown_resource_is_answered_with_all_that_there_are(server):
    r = server.request("POST", "/api/v1/session/create", {"worker_id": "w", "resource_type": "nothing"})
    there = server.get("/api/v1/warmup/status")["backends"]
    assert r.status == 400 and r["code"] == 4002
    assert set(re.search(r"known: (.*)\)", r["message"])[1].split(", ")) >= {"bash", "browser", "desktop", "vm"}, r
    assert set(re.search(r"known: (.*)\)", r["message"])[1].split(", ")) <= {*there, "..."}
