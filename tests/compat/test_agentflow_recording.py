"""The introduction's loop, trajectory.append({action, observation, metadata}), and the server's own record agree, step for
step; the record has more."""

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


class Loop:
    """What a user of AgentFlow writes, without its client."""

    def __init__(self, server, **more):
        self.server, self.more, self.worker, self.trajectory = server, more, sg.unique("loop"), []

    def execute(self, action, params=None, **more):
        result = self.server.execute(self.worker, action, params, status=None, **self.more, **more)
        self.trajectory.append({"action": action, "observation": result["data"], "metadata": result["meta"]})
        self.trajectory[-1].update(params=params or {}, code=result["code"], message=result["message"])
        return result

    def id(self):
        return self.trajectory[0]["metadata"]["trajectory_id"]


# What the envelope says about a call that gave no result of its own, or whose result was cut short.
ENVELOPE_ONLY = {"timeout", "action", "candidates", "resource_type", "details"}


def check(loop, steps):
    assert len(steps) == len(loop.trajectory)
    for mine, step in zip(loop.trajectory, steps):
        meta = mine["metadata"]
        assert step["action"] in (mine["action"], meta["tool"]), "recorded by its full name"
        assert step["params"] == mine["params"] and step["worker"] == loop.worker
        observation = mine["observation"]
        if meta["outcome"] != "ok" and isinstance(observation, dict):
            observation = {k: v for k, v in observation.items() if k not in ENVELOPE_ONLY} or None
        assert step["observation"] == observation
        assert step["code"] == mine["code"]
        if mine["code"] not in (0, 5006):  # the record's own words say more than "success"
            assert step["message"] == mine["message"]
        for theirs, ours in (("tool", "tool"), ("resource_type", "resource"), ("session_id", "session"), ("box_id", "box"),
                             ("trace_id", "trace"), ("trajectory_id", "trajectory"), ("step", "step"), ("outcome", "outcome"),
                             ("retry_safe", "retry_safe"), ("trainable", "trainable"), ("queued_us", "queued_us"),
                             ("run_us", "run_us"), ("total_us", "total_us")):
            assert meta[theirs] == step[ours], (theirs, mine, step)
        for key in ("cpu_us", "peak_bytes", "pids_peak", "disk_used_bytes", "dropped_bytes"):
            assert meta.get(key, step[key]) == step[key]
        assert meta.get("blobs") == step["blobs"]
        assert meta.get("temporary_session", False) is step["temporary"]
        assert abs(meta["execution_time_ms"] * 1000 - (step["run_us"] or step["total_us"])) < 1
        assert step["time"] and step["time_us"] and step["state"] == "done", "and more: when it was"
    assert [s["step"] for s in steps] == list(range(1, len(steps) + 1))
    assert [s["time_us"] for s in steps] == sorted(s["time_us"] for s in steps)


def test_loop_and_record_agree(server):
    loop = Loop(server)
    server.session(loop.worker, "bash")
    loop.execute("bash:run", {"command": "cd /tmp && echo hi"})
    loop.execute("bash:run", {"command": "pwd; ls nothing"})
    loop.execute("bash:run", {"command": "echo part; sleep 9"}, timeout=1)
    loop.execute("bash-run", {"command": "echo é中😀"})
    loop.execute("file:write", {"path": "a.txt", "content": "one\ntwo\n"})
    loop.execute("file:read", {"path": "a.txt"})
    loop.execute("file:read", {"path": "missing"})
    loop.execute("probe:echo", {"text": "no box"})
    loop.execute("no:tool", {"x": 1})
    loop.execute("count")
    loop.execute("bash:run")
    loop.execute("bash:run", {"command": "x", "nonsense": [1, {"a": None}]})
    loop.execute("bash:run", {"command": "seq 100000"})
    loop.execute("bash:run", {"command": "echo traced"}, trace_id="mine-1")
    server.disconnect(loop.worker)
    steps = server.steps(loop.id())
    check(loop, steps)
    assert steps[-1]["trace"] == "mine-1"
    assert [s["outcome"] for s in steps[:3]] == ["ok", "task_error", "timeout"]
    about = server.get(f"/sg/v1/trajectories/{loop.id()}")
    assert about["steps"] == len(steps) and about["worker"] == loop.worker and sum(about["outcomes"].values()) == len(steps)


def test_loop_over_temporary_sessions_agrees(server):
    loop = Loop(server)
    for i in range(5):
        loop.execute("bash:run", {"command": f"echo {i}"})
    check(loop, server.steps(loop.id()))
    assert len({t["metadata"]["box_id"] for t in loop.trajectory}) == 5


def test_a_batch_is_one_request_and_many_steps(server):
    loop = Loop(server)
    server.session(loop.worker, "bash")
    actions = [{"action": "bash:run", "params": {"command": f"echo {i}"}} for i in range(4)] + [
        {"action": "no:tool", "params": {}}, {"action": "bash:run", "params": {"command": "echo end"}}]
    r = server.post("/api/v1/execute/batch", {"worker_id": loop.worker, "actions": actions, "stop_on_error": False}, status=207)
    for a, result in zip(actions, r["data"]["results"]):
        loop.trajectory.append({**a, "observation": result["data"], "metadata": result["meta"], "code": result["code"],
                                "message": result["message"]})
    server.disconnect(loop.worker)
    check(loop, server.steps(loop.id()))


def test_the_client_may_name_the_episode(server):
    name = sg.unique("episode")
    loop = Loop(server, trajectory_id=name)
    loop.execute("probe:echo", {"text": "1"})
    loop.execute("bash:run", {"command": "echo 2"})
    assert loop.id() == name
    check(loop, server.steps(name))


def test_a_disconnect_ends_the_episode(server):
    first, second = Loop(server), Loop(server)
    second.worker = first.worker
    first.execute("probe:echo", {"text": "1"})
    server.disconnect(first.worker)
    second.execute("probe:echo", {"text": "2"})
    assert first.id() != second.id()
    check(first, server.steps(first.id()))
    check(second, server.steps(second.id()))


def test_a_repeated_key_is_the_same_step_again(server):
    loop = Loop(server)
    one = loop.execute("bash:run", {"command": "date +%N"}, idempotency_key=loop.worker)
    two = server.execute(loop.worker, "bash:run", {"command": "date +%N"}, idempotency_key=loop.worker)
    assert two["data"] == one["data"] and two["meta"]["replayed"] is True and two["meta"]["step"] == one["meta"]["step"]
    check(loop, server.steps(loop.id()))


def test_the_record_outlives_the_server(server):
    loop = Loop(server)
    server.session(loop.worker, "bash")
    loop.execute("bash:run", {"command": "x=kept"})
    server.kill_role("serve")
    server.wait_ready()
    loop.execute("bash:run", {"command": "echo $x"})
    assert loop.trajectory[1]["observation"]["stdout"] == "kept\n"
    server.restart()
    loop.execute("bash:run", {"command": "echo $x again"})
    server.disconnect(loop.worker)
    check(loop, server.steps(loop.id()))
