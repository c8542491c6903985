"""The public AgentFlow Python client, unchanged, against our server.

AGENTFLOW_CLIENT names a directory that holds its package `sandbox`; nothing of it is in this repository. It needs httpx
and pydantic, and fastapi, because the package imports its server half, too; without fastapi, empty packages take the place
of its two __init__ files. Each check prints one line, "ok NAME" or "BAD NAME"; the exit code says whether all were ok.
"""

import asyncio
import importlib
import json
import logging
import os
import pathlib
import sys
import tempfile
import traceback
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "api"))

import sg  # noqa: E402


def load(directory):
    """The package, or, if what its server half needs is missing, its client half."""
    sys.path.insert(0, directory)
    try:
        importlib.import_module("sandbox")
    except ImportError:
        for name in [m for m in sys.modules if m.split(".")[0] == "sandbox"]:
            del sys.modules[name]
        for name in ("sandbox", "sandbox.server"):
            package = types.ModuleType(name)
            package.__path__ = [os.path.join(directory, *name.split("."))]
            sys.modules[name] = package
    return [importlib.import_module("sandbox." + m) for m in ("client", "sandbox", "result_formatter")]


client_module = facade_module = formatter_module = None
CHECKS = []


def check(f):
    CHECKS.append(f)
    return f


def client(server, **more):
    return client_module.HTTPServiceClient(base_url=server.url, worker_id=sg.unique("client"), **more)


def facade(server, **more):
    return facade_module.Sandbox(server_url=server.url, worker_id=sg.unique("facade"), **more)


async def refused(awaitable):
    """The error that the client raises."""
    try:
        r = await awaitable
    except client_module.HTTPClientError as e:
        return e
    raise AssertionError(f"no error: {r}")


# ---- HTTPServiceClient ----

@check
async def client_sessions(server):
    async with client(server) as c:
        made = await c.create_session("bash", {"cwd": "/tmp", "env": {"WHO": "agent"}}, custom_name="first try!")
        assert made["code"] == 0 and made["data"]["session_status"] == "active"
        assert made["session_name"] == made["data"]["session_name"], "as the client's own examples read it"
        assert made["data"]["session_name"].endswith("_first-try"), made
        r = await c.execute("bash:run", {"command": "pwd; echo $WHO; X=kept"})
        assert r["data"]["stdout"] == "/tmp\nagent\n" and "temporary_session" not in r["meta"]
        assert r["meta"]["session_id"] == made["data"]["session_id"]
        assert (await c.execute("bash:run", {"command": "echo $X"}))["data"]["stdout"] == "kept\n"
        rows = await c.list_sessions()
        assert [(s["resource_type"], s["status"], s["auto_created"]) for s in rows] == [("bash", "active", False)]
        again = await c.create_session("bash")
        assert again["data"]["status"] == "exists" and again["data"]["session_id"] == made["data"]["session_id"]
        gone = await c.destroy_session("bash")
        assert gone["data"]["session_id"] == made["data"]["session_id"] and gone["session_name"]
        e = await refused(c.destroy_session("bash"))
        assert e.status_code == 404 and e.response["code"] == 4007
        assert await c.list_sessions() == []


@check
async def client_temporary(server):
    async with client(server) as c:
        r = await c.execute("bash:run", {"command": "echo one > f; cat f"})
        assert r["code"] == 0 and r["message"] == "success" and r["data"]["stdout"] == "one\n"
        assert r["meta"]["temporary_session"] is True and r["meta"]["tool"] == "bash:run"
        assert (await c.execute("bash-run", {"command": "ls"}))["data"]["stdout"] == ""
        assert await c.list_sessions() == []


@check
async def client_errors_carry_the_envelope(server):
    async with client(server) as c:
        for action, params, status, code in (("no:tool", {}, 400, 4002), ("bash:run", {}, 400, 4003),
                                             ("bash:run", {"command": 3}, 400, 4004), ("list", {}, 400, 4002)):
            e = await refused(c.execute(action, params))
            assert (e.status_code, e.response["code"]) == (status, code), e.response
            assert e.response["message"] in str(e)
        r = await c.execute("bash:run", {"command": "exit 3"})
        assert r["code"] == 0 and r["data"]["return_code"] == r["data"]["exit_code"] == 3


@check
async def client_batch(server):
    def run(*commands):
        return [{"action": "bash:run", "params": {"command": x}} for x in commands]
    async with client(server) as c:
        await c.create_session("bash")
        r = await c.execute_batch(run("x=1", "echo $x", "echo $((x + 1))"))
        assert r["code"] == 0 and [x["data"]["stdout"] for x in r["data"]["results"]] == ["", "1\n", "2\n"]
        r = await c.execute_batch(run("echo a") + [{"action": "no:tool"}] + run("echo c"))
        assert r["code"] == 5010 and (r["data"]["total"], r["data"]["executed"], r["data"]["success_count"]) == (3, 2, 1)
        r = await c.execute_batch(run("echo a") + [{"action": "no:tool"}] + run("echo c"), stop_on_error=False)
        assert r["code"] == 5010 and r["data"]["executed"] == 3
        r = await c.execute_batch([{"action": "bash:run", "params": {"command": "sleep 9"}, "timeout": 0.5}] + run("echo c"),
                                  stop_on_error=False)
        assert r["data"]["results"][0]["code"] == 5006 and r["data"]["results"][1]["code"] == 0
        e = await refused(c.execute_batch([{"action": "no:tool"}]))
        assert e.status_code == 500 and e.response["code"] == 5009
        assert (await c.execute_batch([]))["data"]["results"] == []
        await c.destroy_all_sessions()
        r = await c.execute_batch(run(*[f"echo {i} > f; sleep 0.05; cat f" for i in range(8)]), parallel=True)
        assert [x["data"]["stdout"] for x in r["data"]["results"]] == [f"{i}\n" for i in range(8)]
        assert len({x["meta"]["box_id"] for x in r["data"]["results"]}) == 8, "parallel temporary calls share no box"


@check
async def client_refresh_and_status(server):
    async with client(server) as c:
        await c.create_session("bash")
        await c.create_session("file")
        before = {s["resource_type"]: s["expires_at"] for s in await c.list_sessions()}
        await asyncio.sleep(0.05)
        r = await c.refresh_session("bash")
        assert r["data"]["expires_at"] > before["bash"] and r["data"]["message"] == "Session refreshed for bash"
        r = await c.refresh_session()
        assert r["data"]["refreshed_count"] == 2 and set(r["data"]["details"]) == {"bash", "file"}
        r = await c.get_status()
        assert r["data"]["active_resources"] == ["bash", "file"] and r["data"]["sessions"]["bash"]["status"] == "active"
        assert r["data"]["tools_available"] > 5
        e = await refused(c.refresh_session("vm"))
        assert e.status_code == 404
        r = await c.destroy_all_sessions()
        assert r["data"]["sessions_cleaned"] == 2


@check
async def client_heartbeat(server):
    config = client_module.HTTPClientConfig(base_url=server.url, worker_id=sg.unique("client"), heartbeat_interval=0.1)
    async with client_module.HTTPServiceClient(config=config) as c:
        await c.create_session("bash", {"ttl": 1})
        warned = []
        handler = logging.Handler(logging.WARNING)
        handler.emit = warned.append
        client_module.logger.addHandler(handler)
        await asyncio.sleep(0.5)
        client_module.logger.removeHandler(handler)
        assert not warned, [w.getMessage() for w in warned]
        await asyncio.sleep(0.8)
        assert await c.list_sessions() == [], "a heartbeat does not extend a session, as the original says"


@check
async def client_init(server):
    async with client(server) as c:
        r = await c.init_resource("bash", {"cwd": "/usr"})
        assert r["data"]["session_status"] == "active" and r["data"]["error"] is None
        assert (await c.execute("bash:run", {"command": "pwd"}))["data"]["stdout"] == "/usr\n"
        r = await c.init_batch({"bash": {"content": {"cwd": "/tmp"}}, "file": {}})
        assert r["data"]["success_count"] == 2 and r["data"]["results"]["bash"]["status"] == "success"
        r = await c.init_batch({"file": {}, "vm9": {}})
        assert r["code"] == 5010 and r["data"]["results"]["vm9"]["status"] == "error"
        assert (await c.init_batch({}))["data"] == {"worker_id": c.worker_id, "results": {}, "total": 0, "success_count": 0}
        r = await c.init_from_config("some.json", {"server": {"port": 1}})
        assert r["data"]["config"] == {"server": {"port": 1}, "resources": {"bash": {}}}
        for path in ("/etc/passwd", "../some.json", "none.json"):
            e = await refused(c.init_from_config(path))
            assert e.status_code == 404 and e.response["code"] == 4002
        await c.destroy_all_sessions()


@check
async def client_tools(server):
    async with client(server) as c:
        tools = {t["full_name"]: t for t in await c.list_tools()}
        assert {"name", "full_name", "resource_type", "stateless", "description"} <= set(tools["bash:run"])
        assert "probe:echo" not in tools and "probe:echo" in {t["full_name"] for t in await c.list_tools(include_hidden=True)}
        schema = await c.get_tool_schema("bash:run")
        assert schema["parameters"]["required"] == ["command"] and schema["kind"] == "session"
        e = await refused(c.get_tool_schema("screenshot"))
        assert e.status_code == 404 and "Tool not found: screenshot" in str(e)


@check
async def client_timeout(server):
    """The server's own time-out; HTTP has to wait a little longer, or the client asks three times."""
    async with client(server) as c:
        await c.create_session("bash")
        e = await refused(c._request("POST", "/api/v1/execute", {
            "worker_id": c.worker_id, "action": "bash:run", "params": {"command": "echo x; sleep 9"}, "timeout": 1}, timeout=5))
        assert e.status_code == 500 and e.response["code"] == 5006 and e.response["data"]["timeout"] == 1
        assert (await c.execute("bash:run", {"command": "echo back"}, timeout=30))["data"]["stdout"] == "back\n"
        await c.destroy_all_sessions()


@check
async def client_that_times_out_and_asks_again_runs_its_call_once(server):
    config = client_module.HTTPClientConfig(base_url=server.url, worker_id=sg.unique("client"), timeout=0.8, retry_delay=0.2,
                                            auto_heartbeat=False)
    async with client_module.HTTPServiceClient(config=config) as c:
        await c.create_session("bash")
        r = await c.execute("bash:run", {"command": "echo run >> /tmp/runs; sleep 1.5; cat /tmp/runs"})
        assert r["data"]["stdout"] == "run\n" and r["meta"]["step"] == 1, r
        assert (await c.execute("bash:run", {"command": "cat /tmp/runs"}))["data"]["stdout"] == "run\n"
        await c.destroy_all_sessions()


@check
async def client_helpers(server):
    r = await client_module.quick_execute("bash:run", {"command": "echo quick"}, base_url=server.url)
    assert r["data"]["stdout"] == "quick\n"
    c = client_module.create_client(server.url, worker_id=sg.unique("client"))
    await c.connect()
    await c.create_session("bash")
    await c.close(destroy_sessions=True)
    assert server.post("/api/v1/session/list", {"worker_id": c.worker_id})["data"]["count"] == 0


# ---- Sandbox, the facade ----

@check
async def introduction_workflow(server):
    """The introduction's first code block, with bash in place of vm."""
    trajectory = []
    async with facade(server) as sandbox:
        await sandbox.create_session("bash")

        # Agent decision -> Tool call -> Record trajectory
        result = await sandbox.execute("bash:run", {"command": "echo hi"})
        trajectory.append({
            "action": "bash:run",
            "observation": result["data"],
            "metadata": result["meta"]
        })
        assert trajectory[0]["observation"]["stdout"] == "hi\n" and trajectory[0]["metadata"]["outcome"] == "ok"
        steps = server.steps(trajectory[0]["metadata"]["trajectory_id"])
        assert [s["tool"] for s in steps] == ["bash:run"] and steps[0]["observation"] == trajectory[0]["observation"]


@check
async def introduction_quick_start(server):
    async with facade(server) as sandbox:
        # Create a session
        await sandbox.create_session("bash")

        # Look
        result = await sandbox.execute("bash:run", {"command": "ls /"})
        assert "usr" in result["data"]["stdout"]

        # Act
        await sandbox.execute("bash:run", {"command": "touch clicked"})
        assert (await sandbox.execute("bash:run", {"command": "ls"}))["data"]["stdout"] == "clicked\n"
        await sandbox.destroy_session()


@check
async def introduction_http(server):
    """Its two HTTP examples: unprefixed paths, and `config`."""
    worker = sg.unique("sandbox")
    r = server.post("/session/create", {"worker_id": worker, "resource_type": "bash", "config": {"screen_size": [1920, 1080]}})
    assert r["code"] == 0 and r["data"]["session_status"] == "active"
    r = server.post("/execute", {"worker_id": worker, "action": "bash:run", "params": {"command": "true"}})
    assert r["code"] == 0 and "temporary_session" not in r["meta"]
    server.disconnect(worker)


@check
async def facade_sessions(server):
    async with facade(server, warmup_resources=["bash"]) as s:
        r = await s.create_session({"bash": {"cwd": "/tmp", "custom_name": "mine"}, "file": {}})
        assert r["status"] == "success" and r["total"] == r["success"] == 2, r
        assert r["sessions"]["bash"]["session_name"].endswith("_mine")
        r = await s.create_session(["bash", "file"])
        assert r["status"] == "success", "an existing session is no error"
        r = await s.create_session(["file", "vm9"])
        assert r["status"] == "partial" and "no backend 'vm9'" in r["sessions"]["vm9"]["error"]
        r = await s.execute("bash:run", {"command": "pwd"}, timeout=None, stdin="")
        assert r["data"]["stdout"] == "/tmp\n"
        assert [x["resource_type"] for x in await s.list_sessions()] == ["bash", "file"]
        assert (await s.refresh_sessions())["data"]["refreshed_count"] == 2
        assert (await s.get_status())["data"]["active_resources"] == ["bash", "file"]
        r = await s.destroy_session("bash")
        assert r["status"] == "success" and r["details"]["bash"]["session_id"].startswith("bash_facade-"), r
        r = await s.destroy_session()
        assert r["status"] == "success" and r["total"] == 1
        assert await s.list_sessions() == []


@check
async def facade_reinitialize(server):
    async with facade(server) as s:
        await s.create_session("bash", {"env": {"SEED": "1"}})
        await s.execute("bash:run", {"command": "echo left > file"})
        r = await s.reinitialize("bash", {"env": {"SEED": "2"}, "custom_name": "src_0002"})
        assert r["status"] == "success" and r["new_session_name"].endswith("_src_0002"), r
        assert r["old_session_id"] and r["new_session_id"] and r["old_session_id"] != r["new_session_id"], r
        r = await s.execute("bash:run", {"command": "echo $SEED; ls"})
        assert r["data"]["stdout"] == "2\n", "a new box: nothing of the first seed is there"
        r = await s.reinitialize("file")
        assert r["status"] == "success" and r["old_session_id"] is None
        r = await s.reinitialize("vm9")
        assert r["status"] == "error" and "no backend" in r["error"]
        await s.destroy_session()


@check
async def facade_warmup_and_tools(server):
    async with facade(server) as s:
        r = await s.warmup()
        assert r["status"] == "success" and r["results"]["bash"] is True
        assert (await s.warmup("bash"))["results"] == {"bash": True}
        r = await s.warmup(["bash", "ghost"])
        assert r["status"] == "partial_error" and "Backend not found: ghost" in r["errors"]["ghost"]
        r = await s.get_warmup_status()
        assert r["backends"]["bash"] == {"loaded": True, "warmed_up": True} and r["summary"]["total"] >= 2
        assert "bash:run" in {t["full_name"] for t in await s.get_tools()}


@check
async def facade_formats_our_results(server):
    async with facade(server) as s:
        assert formatter_module.format_tool_result(await s.execute("bash:run", {"command": "echo shown"})).strip() == "shown"


@check
async def facade_without_a_server_says_so(server):
    try:
        await facade_module.Sandbox(server_url=f"http://127.0.0.1:{sg.free_port()}").start()
    except facade_module.SandboxConnectionError:
        return
    raise AssertionError("connected to nothing")


@check
async def facade_many_workers_at_once(server):
    async def one(i):
        async with facade(server) as s:
            await s.create_session("bash")
            for _ in range(3):
                await s.execute("bash:run", {"command": f"echo {i} >> mine"})
            r = await s.execute("bash:run", {"command": "cat mine"})
            await s.destroy_session()
            return r["data"]["stdout"] == f"{i}\n" * 3
    assert all(await asyncio.gather(*[one(i) for i in range(16)]))


@check
async def shutdown(server):
    """The last check: the server ends, and its sessions before it."""
    s = facade(server)
    await s.start()
    await s.create_session("bash")
    held = server.get("/ready")["total_sessions"]
    r = await s.shutdown_server()
    assert r["status"] == "success" and r["sessions_cleaned"] == held > 0 and r["message"] == "Server shutdown initiated"
    sg.wait_for(lambda: server.guard.poll() is not None, 15)
    assert server.guard.returncode == 0
    assert server.box_pids() == []


def main(only):
    global client_module, facade_module, formatter_module
    directory = os.environ.get("AGENTFLOW_CLIENT")
    if not directory:
        print("AGENTFLOW_CLIENT is not set: nothing was checked")
        return 77
    logging.disable(logging.INFO)
    client_module, facade_module, formatter_module = load(directory)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="af-conf-", dir="/tmp") as conf:
        os.chmod(conf, 0o755)
        pathlib.Path(conf, "some.json").write_text(json.dumps({"server": {"port": 2}, "resources": {"bash": {}}}))
        with sg.running("--pool-size", "4", "--agentflow-config-dir", conf) as server:
            for f in CHECKS:
                if only and f.__name__ not in only:
                    continue
                try:
                    asyncio.run(f(server))
                    print(f"ok {f.__name__}", flush=True)
                except Exception:  # noqa: BLE001: whatever the client raised is the finding
                    bad += 1
                    print(f"BAD {f.__name__}\n{traceback.format_exc()}", flush=True)
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
