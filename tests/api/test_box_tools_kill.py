"""Tools about a box are calls as others are: their intent is in the log before anything is done, and a kill leaves the step with
an outcome that is true. What they do is in the log by itself; the log is cut there, as if serve had been killed just then."""

import os
import pathlib
import random
import signal
import struct
import threading
import time

import pytest

import sg

HEAD = struct.Struct("<IIHHIQ")
BOX_OPEN, INTENT, RESULT, STATE = 2, 6, 7, 9
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 30)


@pytest.fixture(scope="module")
def one_server():
    with sg.running("--pool-size", "1", "--orphan-timeout", "120s") as s:
        yield s


@pytest.fixture
def server(one_server):
    """Without boxes."""
    for b in boxes_of(one_server):
        one_server.destroy(b)
    return one_server


class Asked(threading.Thread):
    """A call that is sent until it has an answer."""

    def __init__(self, server, box, tool, params, key):
        super().__init__()
        self.args = server, box, {"tool": tool, "params": params}, key
        self.reply = None
        self.start()

    def run(self):
        server, box, body, key = self.args
        self.reply = server.insist("POST", f"/sg/v1/boxes/{box}/execute", body, key=key)


def records(segment):
    """(offset, type, body) of each."""
    data, at = segment.read_bytes(), 8
    while at + HEAD.size <= len(data):
        size, _, kind, _, _, _ = HEAD.unpack_from(data, at)
        if not kind:
            break
        yield at, kind, data[at + HEAD.size:at + HEAD.size + size]
        at += (HEAD.size + size + 7) & ~7


def cut(server, which):
    """Stops the server and takes the first record for which which(type, body) is true off its log, with all after it."""
    server.stop()
    segment = sorted(pathlib.Path(server.home, "log").glob("*.seg"))[-1]
    at = next(at for at, kind, body in records(segment) if which(kind, body))
    os.truncate(segment, at)
    for f in pathlib.Path(server.home).glob("index.sqlite*"):
        f.unlink()
    server.start()


def steps_with(server, trajectory, key):
    return [s for s in server.steps(trajectory) if s["key"] == key]


def prepared(server):
    box = sg.Box(server, server.create())
    box.out("echo 1 > /workspace/f")
    state = box.tool("box:snapshot")["data"]["state"]
    box.out("echo 2 > /workspace/f")
    return box, state, box.show()["trajectory"]


def boxes_of(server):
    return {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}


PARAMS = {"box:snapshot": {}, "box:fork": {"n": 3}, "box:restore": {}, "box:reset": {}}


def params_of(tool, state):
    return {**PARAMS[tool], **({"state": state} if tool in ("box:restore", "box:reset") else {})}


@pytest.mark.parametrize("tool", PARAMS)
def test_the_intent_is_in_the_log_before_what_the_tool_does_and_the_result_after_it(server, tool):
    box, state, trajectory = prepared(server)
    key = sg.unique("k")
    step = Asked(server, box.id, tool, params_of(tool, state), key)
    step.join()
    assert step.reply.status == 200 and step.reply["outcome"] == "ok", step.reply
    segment = sorted(pathlib.Path(server.home, "log").glob("*.seg"))[-1]
    log = [(kind, body) for _, kind, body in records(segment)]
    intent = next(i for i, (kind, body) in enumerate(log) if kind == INTENT and key.encode() in body)
    call = log[intent][1].split(b'"call":')[1].split(b",")[0]
    result = next(i for i, (kind, body) in enumerate(log) if kind == RESULT and b'"call":' + call + b"," in body)
    effects = [i for i, (kind, body) in enumerate(log) if kind in (BOX_OPEN, STATE) and b'"call":' + call + b"," in body]
    assert len(effects) == (3 if tool == "box:fork" else 1) and intent < min(effects) and max(effects) < result


@pytest.mark.parametrize("tool", PARAMS)
def test_what_was_done_before_a_kill_is_the_result_after_it(server, tool):
    box, state, trajectory = prepared(server)
    key = sg.unique("k")
    asked = Asked(server, box.id, tool, params_of(tool, state), key)
    asked.join()
    assert asked.reply["outcome"] == "ok", asked.reply
    cut(server, lambda kind, body: kind == RESULT and body.split(b'"step":')[1].split(b",")[0] == b"%d" % asked.reply["step"]
        and trajectory.encode() in body)
    done = sg.wait_for(lambda: [s for s in steps_with(server, trajectory, key) if s["state"] == "done"], 60)
    again = server.insist("POST", f"/sg/v1/boxes/{box.id}/execute", {"tool": tool, "params": params_of(tool, state)}, key=key)
    assert again["outcome"] == "ok" and again["step"] == asked.reply["step"], again
    before, after = asked.reply["data"], done[0]["observation"]
    if tool == "box:snapshot":
        assert after["state"] == before["state"] and done[0]["state_id"] == before["state"]
    elif tool == "box:fork":
        assert {b["id"] for b in after["boxes"]} == {b["id"] for b in before["boxes"]} == boxes_of(server) - {box.id}
        assert {k: after[k] for k in ("state", "fidelity", "proved", "requested", "made")} == {
            k: before[k] for k in ("state", "fidelity", "proved", "requested", "made")}
    else:
        assert after == before and box.out("cat /workspace/f") == "1\n"
        assert server.get(f"/sg/v1/trajectories/{trajectory}")["steps"] == asked.reply["step"] + 1
        assert sg.Box(server, server.post(f"/sg/v1/boxes/{box.id}/fork", {"step": asked.reply["step"]}, status=201)
                      ["boxes"][0]["id"]).out("cat /workspace/f") == "1\n", "the state of the trajectory after that step"
    assert len(steps_with(server, trajectory, key)) == 1


def test_copies_that_were_not_in_the_log_are_said_to_be_not_made_and_are_gone(server):
    box, state, trajectory = prepared(server)
    key = sg.unique("k")
    asked = Asked(server, box.id, "box:fork", {"n": 4}, key)
    asked.join()
    opened = []
    cut(server, lambda kind, body: kind == BOX_OPEN and b'"done":' in body and
        any(b'"box":"%s"' % b["id"].encode() in body for b in asked.reply["data"]["boxes"]) and
        (opened.append(1) or len(opened) == 3))
    done = sg.wait_for(lambda: [s for s in steps_with(server, trajectory, key) if s["state"] == "done"], 60)[0]
    rows = done["observation"]["boxes"]
    assert done["outcome"] == "ok" and (done["observation"]["requested"], done["observation"]["made"]) == (4, 2) and len(rows) == 4
    assert all("restarted" in r["error"] for r in rows if not r["id"]) and len([r for r in rows if r["id"]]) == 2
    sg.wait_for(lambda: boxes_of(server) == {box.id, *(r["id"] for r in rows if r["id"])}, 60)
    for r in rows:
        assert not r["id"] or sg.Box(server, r["id"]).out("cat /workspace/f") == "2\n"


@pytest.mark.parametrize("tool", [*PARAMS, "box:diff"])
def test_what_was_not_done_before_a_kill_is_said_to_be_not_done_and_a_retry_does_it_once(server, tool):
    box, state, trajectory = prepared(server)
    key = sg.unique("k")
    params = {"a": state} if tool == "box:diff" else params_of(tool, state)
    os.kill(supervise := server.role("supervise"), signal.SIGSTOP)
    try:
        asked = Asked(server, box.id, tool, params, key)
        open_ = sg.wait_for(lambda: steps_with(server, trajectory, key), 60)
        assert [(s["tool"], s["state"]) for s in open_] == [(tool, "open")], open_
        server.kill_role("serve", wait=False)
    finally:
        os.kill(supervise, signal.SIGCONT)
    asked.join(120)
    assert asked.reply["outcome"] == "ok", asked.reply
    rows = steps_with(server, trajectory, key)
    assert [(s["state"], s["outcome"], s["retry_safe"]) for s in rows] == [("done", "infra_error", True), ("done", "ok", False)], rows
    assert "nothing of it was kept" in rows[0]["message"]
    made = {b["id"] for b in asked.reply["data"]["boxes"]} if tool == "box:fork" else set()
    sg.wait_for(lambda: boxes_of(server) == {box.id, *made}, 60)


def test_kills_at_random_moments_leave_each_call_in_the_log_with_what_it_did_once(server):
    rng = random.Random(SEED)
    print(f"CRASH_SEED={SEED}")
    box, state, trajectory = prepared(server)
    kept = {box.id}
    for i in range(12):
        tool = rng.choice(list(PARAMS))
        key = sg.unique("k")
        asked = Asked(server, box.id, tool, params_of(tool, state), key)
        time.sleep(rng.uniform(0, 0.06))
        server.kill_role("serve", wait=False)
        asked.join(120)
        server.wait_ready()
        assert asked.reply.status == 200 and asked.reply["outcome"] == "ok", (tool, asked.reply)
        rows = steps_with(server, trajectory, key)
        final = [s for s in rows if not s["retry_safe"]]
        assert len(final) == 1 and all(s["state"] == "done" for s in rows), rows
        if tool == "box:fork":
            kept |= {b["id"] for b in final[0]["observation"]["boxes"] if b["id"]}
        elif tool == "box:snapshot":
            assert server.get(f"/sg/v1/states/{final[0]['observation']['state']}")["step"] == final[0]["step"]
        else:
            assert box.out("cat /workspace/f") == "1\n"
    sg.wait_for(lambda: boxes_of(server) == kept, 60)
    log = server.steps(trajectory)
    assert [s["step"] for s in log] == list(range(1, len(log) + 1))
