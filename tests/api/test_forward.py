"""Fast-forward: the same calls, sent again with the trajectory's id, are answered from the log; then the box goes on."""

import os
import signal
import threading

import pytest

import sg


def script(server, call, commands):
    return [call("bash:run", {"command": c}) for c in commands]


def own(server, box, trajectory, **more):
    return lambda tool, params, status=200, **m: server.tool(box, tool, params, status=status, trajectory_id=trajectory,
                                                             **{**more, **m})


COMMANDS = ["echo one >> /tmp/log; date +%N", "cd /tmp; export A=7; f() { echo f$A; }", "cat /tmp/log; false",
            "echo two >> /tmp/log; echo $RANDOM"]


def strip(r):
    return {k: r[k] for k in ("outcome", "data", "tool", "step", "message", "trainable")}


def test_recorded_results_come_back_and_nothing_runs_twice(server):
    with server.box() as b:
        t = sg.unique("t")
        first = script(server, own(server, b.id, t), COMMANDS)
        again = script(server, own(server, b.id, t, fast_forward=True), COMMANDS)
        assert [strip(r) for r in again] == [strip(r) for r in first] and all(r["replayed"] for r in again)
        look = b.tool("file:read", {"path": "/tmp/log"}, trajectory_id=sg.unique("t"))  # ends the fast-forward
        assert look["data"]["content"] == "one\ntwo\n"
        live = own(server, b.id, t, fast_forward="begin")
        script(server, live, COMMANDS[:1])
        more = script(server, own(server, b.id, t, fast_forward=True), COMMANDS[1:] + ["cat /tmp/log; f"])
        assert [r.get("replayed", False) for r in more] == [True, True, True, False]
        assert more[-1]["data"]["stdout"] == "one\ntwo\nf7\n" and more[-1]["step"] == 5
        assert [s["step"] for s in server.steps(t)] == [1, 2, 3, 4, 5]


def test_lost_box_goes_on_in_another_one_restored_from_the_last_state(server):
    t = sg.unique("t")
    a = server.create(state="step")
    first = script(server, own(server, a, t), COMMANDS)
    server.destroy(a)
    with server.box(state="step") as b:
        go = own(server, b.id, t, fast_forward=True)
        assert [strip(r) for r in script(server, go, COMMANDS)] == [strip(r) for r in first]
        last = go("bash:run", {"command": "cat log; f; pwd; echo three >> log"})
        assert last["data"]["stdout"] == "one\ntwo\nf7\n/tmp\n" and "replayed" not in last
        assert server.steps(t)[4]["tool"] == "box:restore" and server.steps(t)[4]["box"] == b.id
    with server.box() as c:  # and once more: the log now has two boxes
        go = own(server, c.id, t, fast_forward=True)
        script(server, go, COMMANDS)
        go("bash:run", {"command": "cat log; f; pwd; echo three >> log"})
        assert go("bash:run", {"command": "cat log"})["data"]["stdout"] == "one\ntwo\nthree\n"


def test_call_that_differs_is_refused_with_the_step_and_leaves_no_trace(server):
    with server.box() as b:
        t = sg.unique("t")
        script(server, own(server, b.id, t), ["echo a", "echo b"])
        go = own(server, b.id, t, fast_forward=True)
        go("bash:run", {"command": "echo a"})
        no = go("bash:run", {"command": "rm -rf /tmp/x"}, status=409)
        assert "step 2" in no["message"] and "echo b" in no["message"] and "rm -rf" in no["message"]
        assert go("bash:run", {"command": "echo b"})["replayed"]
        assert len(server.steps(t)) == 2


def test_difference_branches_off_by_the_clients_choice_in_the_state_of_that_step(server):
    with server.box(state="step") as b:
        t = sg.unique("t")
        script(server, own(server, b.id, t), ["echo a > /tmp/f", "echo b > /tmp/f"])
        go = own(server, b.id, t, fast_forward=True, on_difference="branch")
        go("bash:run", {"command": "echo a > /tmp/f"})
        other = go("bash:run", {"command": "cat /tmp/f"})
        assert other["data"]["stdout"] == "a\n" and other["trajectory_id"] != t
        assert go("bash:run", {"command": "echo c"})["trajectory_id"] == other["trajectory_id"]
        assert len(server.steps(t)) == 2


def test_a_restore_over_the_api_is_forwarded_like_any_other_step(server):
    with server.box(state="step") as b:
        t = sg.unique("t")
        go = own(server, b.id, t)
        go("bash:run", {"command": "echo a > /tmp/f"})
        state = go("bash:run", {"command": "echo b >> /tmp/f"})["state_id"]
        go("bash:run", {"command": "echo c >> /tmp/f"})
        restore = lambda **h: server.post(f"/sg/v1/boxes/{b.id}/restore", {"state": state},
                                          headers={"X-Trajectory-Id": t, **h})
        restore()
        go("bash:run", {"command": "echo d >> /tmp/f"})
        go = own(server, b.id, t, fast_forward=True)
        for c in "a > /tmp/f", "b >> /tmp/f", "c >> /tmp/f":
            assert go("bash:run", {"command": f"echo {c}"})["replayed"]
        assert restore(**{"X-Fast-Forward": "true"})["restored"] == state
        assert go("bash:run", {"command": "echo d >> /tmp/f"})["replayed"]
        assert go("bash:run", {"command": "cat /tmp/f"})["data"]["stdout"] == "a\nb\nd\n"
        assert [s["tool"] for s in server.steps(t)].count("box:restore") == 1


def test_a_batch_that_begins_anew_comes_back_whole(server):
    w, t = sg.unique("w"), sg.unique("t")
    server.session(w)
    body = {"worker_id": w, "trajectory_id": t, "parallel": False,
            "actions": [{"action": "bash:run", "params": {"command": f"echo {i} $RANDOM"}} for i in range(5)]}
    first = server.post("/api/v1/execute/batch", body)
    for _ in range(2):
        again = server.post("/api/v1/execute/batch", {**body, "fast_forward": "begin"})
        assert [r["data"] for r in again["data"]["results"]] == [r["data"] for r in first["data"]["results"]]
    assert len(server.steps(t)) == 5


def test_box_without_a_state_after_its_last_change_is_not_pretended(server):
    t = sg.unique("t")
    a = server.create()
    script(server, own(server, a, t), ["echo a > /tmp/f"])
    server.destroy(a)
    with server.box() as b:
        go = own(server, b.id, t, fast_forward=True)
        assert go("bash:run", {"command": "echo a > /tmp/f"})["replayed"]
        no = go("bash:run", {"command": "cat /tmp/f"}, status=None)
        assert no["outcome"] == "box_lost" and "step 1" in no["message"] and '"step"' in no["message"]
        assert len(server.steps(t)) == 1


def test_agentflow_client_needs_only_its_session_config(server):
    w, t = sg.unique("w"), sg.unique("t")
    server.session(w, state="step")
    first = [server.execute(w, "bash:run", {"command": c}, trajectory_id=t) for c in COMMANDS]
    box = first[0]["meta"]["box_id"]
    os.kill(server.init_pid(box), signal.SIGKILL)
    sg.wait_for(lambda: box not in {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]})  # a call now could be a step of t
    w2 = sg.unique("w")  # the whole client is new
    server.session(w2, state="step", trajectory_id=t, fast_forward=True)
    again = [server.execute(w2, "bash:run", {"command": c}) for c in COMMANDS]
    assert [r["data"] for r in again] == [r["data"] for r in first] and all(r["meta"]["replayed"] for r in again)
    live = server.execute(w2, "bash:run", {"command": "cat log; f"})
    assert live["data"]["stdout"] == "one\ntwo\nf7\n" and live["meta"]["trajectory_id"] == t
    server.disconnect(w2)


def test_call_that_still_runs_is_joined(server):
    with server.box() as b:
        t = sg.unique("t")
        go = own(server, b.id, t)
        slow = {"command": "until [ -e /tmp/go ]; do sleep .01; done; echo x >> /tmp/n; wc -l < /tmp/n"}
        got = []
        one = threading.Thread(target=lambda: got.append(go("bash:run", slow)))
        one.start()
        sg.wait_for(lambda: [s for s in server.steps(t)] if server.request("GET", f"/sg/v1/trajectories/{t}").status == 200
                    else None)
        two = threading.Thread(target=lambda: got.append(go("bash:run", slow, fast_forward=True)))
        two.start()
        b.tool("file:write", {"path": "/tmp/go", "content": ""})
        one.join()
        two.join()
        assert [r["data"]["stdout"] for r in got] == ["1\n", "1\n"] and got[0]["step"] == got[1]["step"] == 1


def test_header_and_wrong_values(server):
    with server.box() as b:
        t = sg.unique("t")
        server.tool(b.id, "bash:run", {"command": "echo $$"}, trajectory_id=t)
        body = {"tool": "bash:run", "params": {"command": "echo $$"}}
        head = {"X-Trajectory-Id": t, "X-Fast-Forward": "true"}
        assert server.post(f"/sg/v1/boxes/{b.id}/execute", body, headers=head)["replayed"]
        assert "fast_forward" in server.tool(b.id, "bash:run", {"command": "x"}, status=400, fast_forward="yes")["error"]["message"]
        assert "on_difference" in server.tool(b.id, "bash:run", {"command": "x"}, status=400,
                                              on_difference="maybe")["error"]["message"]


def test_refused_calls_are_steps_and_come_back_as_they_were(server):
    w, t = sg.unique("w"), sg.unique("t")
    calls = [("bash:run", {}), ("no:such", {"a": 1}), ("probe_shared:count", {})]
    first = [server.execute(w, a, p, status=None, trajectory_id=t) for a, p in calls]
    again = [server.execute(w, a, p, status=None, trajectory_id=t, fast_forward=True) for a, p in calls]
    assert [(r["code"], r["message"]) for r in first] == [(r["code"], r["message"]) for r in again]
    assert len(server.steps(t)) == 3
