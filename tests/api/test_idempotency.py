"""Idempotency: the same key and the same body share one answer, whatever happens in between."""

import json
import os
import random
import signal
import socket
import threading
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture
def box(server):
    with server.box() as b:
        yield b


def mark(box, name="once"):
    return len(box.out(f"cat /tmp/{name} 2>/dev/null; true").split())


def strip(answer):
    """An answer without what is about this delivery only."""
    a = json.loads(json.dumps(answer))
    for part in (a, a.get("meta", {})):
        for k in ("replayed", "trace_id", "times", "queued_us", "run_us", "total_us", "execution_time_ms", "use", "cpu_us",
                  "peak_bytes", "pids_peak", "disk_used_bytes"):
            part.pop(k, None)
    return a


# ---- the same again ----

def test_same_key_and_body_is_the_same_answer_and_runs_once(box):
    key, params = sg.unique("k"), {"command": "echo x >> /tmp/once; date +%N; exit 3"}
    first = box.tool("bash:run", params, key=key)
    second = box.tool("bash:run", params, key=key)
    assert strip(first) == strip(second) and second["replayed"] is True and "replayed" not in first
    assert mark(box) == 1
    assert [s["step"] for s in box.server.steps(first["trajectory_id"]) if s["key"] == key] == [1]


@pytest.mark.parametrize("how", ["header", "field"])
def test_key_may_be_a_header_or_a_field(server, how):
    w, key = sg.unique(), sg.unique("k")
    ask = lambda: server.execute(w, "probe_shared:count", {}, **({"headers": {"Idempotency-Key": key}} if how == "header"
                                                              else {"idempotency_key": key}))
    first, second = ask(), ask()
    assert first["data"] == second["data"] and second["meta"]["replayed"] is True
    other = "field" if how == "header" else "header"
    third = server.execute(w, "probe_shared:count", {}, **({"headers": {"Idempotency-Key": key}} if other == "header"
                                                           else {"idempotency_key": key}))
    assert third["data"] == first["data"]


def test_calls_without_a_key_are_all_different(server):
    w = sg.unique()
    counts = [server.execute(w, "probe_shared:count", {})["data"]["count"] for _ in range(3)]
    assert len(set(counts)) == 3


@pytest.mark.parametrize("command, more, outcome", [("true", {}, "ok"), ("exit 7", {}, "task_error"), ("sleep 30", {"timeout": 1}, "timeout"),
                                                    ("seq 100000", {}, "ok"), ("kill -9 $$", {}, "task_error")])
def test_every_outcome_is_replayed_whole(box, command, more, outcome):
    key = sg.unique("k")
    first = box.tool("bash:run", {"command": command}, key=key, **more)
    second = box.tool("bash:run", {"command": command}, key=key, **more)
    assert first["outcome"] == outcome and strip(first) == strip(second)


def test_blobs_are_part_of_the_replayed_answer():
    with sg.running("--pool-size", "0", "--output-head", "1k", "--output-tail", "1k") as s, s.box() as b:
        key = sg.unique("k")
        first = b.tool("bash:run", {"command": "seq 100000"}, key=key)
        second = b.tool("bash:run", {"command": "seq 100000"}, key=key)
        assert first["blobs"] == second["blobs"]


def test_agentflow_answer_is_replayed_whole(server):
    w, key = sg.unique(), sg.unique("k")
    for action, params, more in (("bash:run", {"command": "date +%N"}, {}), ("file:read", {"path": "missing"}, {}),
                                 ("bash:run", {"command": "sleep 9"}, {"timeout": 1})):
        k = key + action + str(more)
        first = server.request("POST", "/execute", {"worker_id": w, "action": action, "params": params, "idempotency_key": k, **more})
        second = server.request("POST", "/execute", {"worker_id": w, "action": action, "params": params, "idempotency_key": k, **more})
        assert first.status == second.status and strip(first.json) == strip(second.json), (first, second)


# ---- while it runs ----

def test_same_key_while_it_runs_shares_one_answer(box):
    key, params, out = sg.unique("k"), {"command": "echo x >> /tmp/once; sleep 1; date +%N"}, []
    threads = [threading.Thread(target=lambda: out.append(box.tool("bash:run", params, key=key))) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len({json.dumps(strip(o)) for o in out}) == 1 and len(out) == 8
    assert mark(box) == 1


def test_same_key_at_the_same_moment_runs_once(server):
    """A race on the look-up of the key: many clients, one new key, again and again."""
    with server.box() as b:
        for i in range(15):
            key, out = sg.unique("k"), []
            threads = [threading.Thread(target=lambda: out.append(b.tool("bash:run", {"command": f"echo x >> /tmp/r{i}"}, key=key)))
                       for _ in range(6)]
            [t.start() for t in threads]
            [t.join() for t in threads]
            assert mark(b, f"r{i}") == 1 and len({o["step"] for o in out}) == 1


def test_call_that_waits_in_the_queue_is_shared_too(box):
    key, out = sg.unique("k"), []
    slow = threading.Thread(target=lambda: box.run("sleep 1"))
    slow.start()
    sg.wait_for(lambda: box.server.get("/sg/v1/status")["calls"] >= 1)
    threads = [threading.Thread(target=lambda: out.append(box.tool("bash:run", {"command": "echo x >> /tmp/once"}, key=key)))
               for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    slow.join()
    assert mark(box) == 1 and len({o["step"] for o in out}) == 1


# ---- another body ----

def refused(r):
    assert 400 <= r.status < 500, r
    text = r["error"]["message"] if "error" in r.json else r["message"]
    assert "idempotency_key" in text, r
    return r


@pytest.mark.parametrize("other", [{"tool": "bash:run", "params": {"command": "echo two"}},
                                   {"tool": "bash:run", "params": {"command": "echo one", "cwd": "/tmp"}},
                                   {"tool": "bash:start", "params": {"command": "echo one"}}])
def test_same_key_and_another_body_is_an_error(box, other):
    key = sg.unique("k")
    box.tool("bash:run", {"command": "echo one"}, key=key)
    r = refused(box.server.request("POST", f"/sg/v1/boxes/{box.id}/execute", {**other, "idempotency_key": key}))
    assert r.status == 409 and r["outcome"] == "invalid_request"
    assert r["trainable"] is False  # it is the client that chooses keys, not the agent
    assert box.tool("bash:run", {"command": "echo one"}, key=key)["data"]["stdout"] == "one\n", "the first answer stays"


def test_same_key_and_another_body_while_it_runs_is_an_error(box):
    key, out = sg.unique("k"), []
    t = threading.Thread(target=lambda: out.append(box.tool("bash:run", {"command": "sleep 1; echo one"}, key=key)))
    t.start()
    sg.wait_for(lambda: box.server.get("/sg/v1/status")["calls"] >= 1)
    refused(box.server.request("POST", f"/sg/v1/boxes/{box.id}/execute",
                               {"tool": "bash:run", "params": {"command": "echo two"}, "idempotency_key": key}))
    t.join()
    assert out[0]["data"]["stdout"] == "one\n"


def test_same_key_of_another_worker_is_an_error(server):
    key = sg.unique("k")
    server.execute(sg.unique(), "probe:echo", {"text": "x"}, idempotency_key=key)
    refused(server.request("POST", "/execute", {"worker_id": sg.unique(), "action": "probe:echo", "params": {"text": "x"},
                                                "idempotency_key": key}))


def test_key_of_a_refused_call_is_free_again(server):
    w, key = sg.unique(), sg.unique("k")
    r = server.request("POST", "/execute", {"worker_id": w, "action": "bash:run", "params": {}, "idempotency_key": key})
    assert r.status == 400
    r = server.execute(w, "bash:run", {"command": "echo mended"}, idempotency_key=key)
    assert r["data"]["stdout"] == "mended\n"


def test_call_that_never_reached_a_box_may_be_tried_again_with_its_key():
    with sg.running("--pool-size", "0", "--box-max", "1") as s:
        blocker, w, key = s.create(), sg.unique(), sg.unique("k")
        r = s.execute(w, "bash:run", {"command": "echo ran"}, status=429, idempotency_key=key)
        assert r["meta"]["retry_safe"] is True
        s.destroy(blocker)
        r = s.execute(w, "bash:run", {"command": "echo ran"}, idempotency_key=key)
        assert r["data"]["stdout"] == "ran\n" and "replayed" not in r["meta"]
        assert s.execute(w, "bash:run", {"command": "echo ran"}, idempotency_key=key)["meta"]["replayed"] is True


# ---- clients that leave ----

def post_and_leave(server, path, body, after=0.3):
    data = json.dumps(body).encode()
    c = socket.create_connection(("127.0.0.1", server.port))
    c.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    time.sleep(after)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # leaves with a reset
    c.close()


@pytest.mark.parametrize("after", [0, 0.3])
def test_client_that_hangs_up_does_not_kill_its_call(box, after):
    body = {"tool": "bash:run", "params": {"command": "sleep 1; echo x >> /tmp/once; echo done"}, "idempotency_key": sg.unique("k")}
    if after == 0:
        box.out("true")
    post_and_leave(box.server, f"/sg/v1/boxes/{box.id}/execute", body, after)
    sg.wait_for(lambda: box.server.get("/sg/v1/status")["calls"] >= 1, 5)
    r = box.server.post(f"/sg/v1/boxes/{box.id}/execute", body)
    assert r["data"]["stdout"] == "done\n" and mark(box) == 1


def test_what_was_asked_before_a_reset_is_done_however_late_it_is_read(box):
    box.out("true")
    serve = box.server.role("serve")
    os.kill(serve, signal.SIGSTOP)
    try:
        post_and_leave(box.server, f"/sg/v1/boxes/{box.id}/execute", {"tool": "bash:run", "params": {"command": "echo x >> /tmp/once"}}, after=0)
    finally:
        os.kill(serve, signal.SIGCONT)
    rows = sg.wait_for(lambda: [s for s in box.server.steps(box.show()["trajectory"]) if s["step"] == 2 and s["state"] == "done"])
    assert rows[0]["outcome"] == "ok" and mark(box) == 1


def test_step_of_a_client_that_hung_up_is_in_the_log(box):
    box.out("true")
    post_and_leave(box.server, f"/sg/v1/boxes/{box.id}/execute", {"tool": "bash:run", "params": {"command": "sleep 0.5; echo kept"}})
    rows = sg.wait_for(lambda: [s for s in box.server.steps(box.show()["trajectory"]) if s["step"] == 2 and s["state"] == "done"])
    assert rows[0]["outcome"] == "ok" and rows[0]["observation"]["stdout"] == "kept\n"


def test_temporary_call_of_a_client_that_hung_up_ends_and_its_box_goes(server):
    w = sg.unique()
    post_and_leave(server, "/execute", {"worker_id": w, "action": "bash:run", "params": {"command": "sleep 1; echo kept"}})
    t = sg.wait_for(lambda: server.get(f"/sg/v1/trajectories?worker={w}")["trajectories"])[0]["id"]
    s = sg.wait_for(lambda: [s for s in server.steps(t) if s["state"] == "done"])[0]
    assert s["observation"]["stdout"] == "kept\n"
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{s['box']}").status == 404)


def test_create_of_a_client_that_hung_up_leaves_no_box_that_nobody_knows(server):
    mark_label = sg.unique()
    before = {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}
    post_and_leave(server, "/sg/v1/boxes", {"labels": {"m": mark_label}, "cold": True}, after=0)
    time.sleep(1)
    found = [b for b in server.get(f"/sg/v1/boxes?label=m={mark_label}")["boxes"]]
    assert len(found) <= 1
    for b in found:
        server.destroy(b["id"])
    assert {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]} == before


# ---- boxes ----

@pytest.mark.parametrize("how", ["header", "field"])
def test_same_key_and_body_is_the_same_box_as_long_as_there_is_one(server, how):
    key, made = sg.unique("k"), []

    def create(**spec):
        body = {**spec, "idempotency_key": key} if how == "field" else spec
        return server.request("POST", "/sg/v1/boxes", body, headers={"Idempotency-Key": key} if how == "header" else None)

    threads = [threading.Thread(target=lambda: made.append(create(labels={"k": key}, cold=True))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert {r.status for r in made} == {201} and len({r["id"] for r in made}) == 1, "also while it is being made"
    assert len(server.get(f"/sg/v1/boxes?label=k={key}")["boxes"]) == 1
    r = create(labels={"k": key}, cold=False)
    assert r.status == 409 and r["error"]["code"] == "exists" and key in r["error"]["message"], r
    server.destroy(made[0]["id"])
    again = create(labels={"k": key}, cold=True)
    assert again.status == 201 and again["id"] != made[0]["id"]
    server.destroy(again["id"])


def test_key_of_a_box_that_could_not_be_made_is_free_again(server):
    headers = {"Idempotency-Key": sg.unique("k")}
    assert server.request("POST", "/sg/v1/boxes", {"image": "/nope"}, headers=headers).status == 403
    r = server.request("POST", "/sg/v1/boxes", {}, headers=headers)
    assert r.status == 201
    server.destroy(r["id"])


@pytest.mark.parametrize("key, says", [("x" * 257, "LIMIT_KEY (256)"), (5, "idempotency_key: expected string, got number")])
def test_bad_key_of_a_box_is_refused_by_name(server, key, says):
    r = server.request("POST", "/sg/v1/boxes", {"idempotency_key": key})
    assert r.status == 400 and says in r["error"]["message"], r


def test_box_is_found_by_its_key_after_kill_9_and_after_a_restart():
    with sg.running("--pool-size", "0") as s:
        def create(**spec):
            return s.insist("POST", "/sg/v1/boxes", spec, key="mine")
        box = create(ttl=600)["id"]
        for how in (lambda: s.kill_role("serve"), lambda: s.kill_role("recorder"), s.restart):
            how()
            assert create(ttl=600)["id"] == box and create(ttl=500).status == 409
        s.post(f"/sg/v1/boxes/{box}/restore", {"state": s.post(f"/sg/v1/boxes/{box}/snapshot", {}, status=201)["state"]})
        s.kill_role("serve")
        assert create(ttl=600)["id"] == box, "in its new seat, too"


# ---- crashes ----

def test_answer_is_replayed_after_kill_9_and_after_a_restart():
    with sg.running("--pool-size", "0") as s:
        b = sg.Box(s, s.create())
        key, params = sg.unique("k"), {"command": "echo x >> /tmp/once; date +%N"}
        first = b.tool("bash:run", params, key=key)
        for how in (lambda: s.kill_role("serve"), lambda: s.kill_role("recorder"), s.restart):
            how()
            s.wait_ready()
            r = s.insist("POST", f"/sg/v1/boxes/{b.id}/execute", {"tool": "bash:run", "params": params}, key=key).json
            assert strip(r) == strip(first), how
        assert mark(b) == 1


def test_call_under_way_is_joined_after_kill_9_of_serve():
    with sg.running("--pool-size", "0") as s:
        b = sg.Box(s, s.create())
        b.out("true")
        key, params, out = sg.unique("k"), {"command": "echo x >> /tmp/once; sleep 2; date +%N"}, []
        path, body = f"/sg/v1/boxes/{b.id}/execute", {"tool": "bash:run", "params": params}
        threads = [threading.Thread(target=lambda: out.append(s.insist("POST", path, body, key=key))) for _ in range(3)]
        [t.start() for t in threads]
        sg.wait_for(lambda: s.get("/sg/v1/status")["calls"] == 1)
        time.sleep(0.2)
        s.kill_role("serve")
        [t.join() for t in threads]
        assert {r.status for r in out} == {200} and len({json.dumps(strip(r.json)) for r in out}) == 1, out
        assert mark(b) == 1
        refused(s.request("POST", path, {"tool": "bash:run", "params": {"command": "other"}, "idempotency_key": key}))


def test_other_body_is_still_an_error_after_a_restart():
    with sg.running("--pool-size", "0") as s:
        w, key = sg.unique(), sg.unique("k")
        s.execute(w, "probe:echo", {"text": "one"}, idempotency_key=key)
        s.restart()
        refused(s.request("POST", "/execute", {"worker_id": w, "action": "probe:echo", "params": {"text": "two"}, "idempotency_key": key}))


@pytest.mark.parametrize("key", ["k y", "é中", "'; drop table steps; --", "x" * 256, "a/b?c#d", "\u0001"])
def test_keys_may_be_any_text(server, key):
    w = sg.unique()
    key = (key + w)[-256:] if len(key) > 200 else key + w
    first = server.execute(w, "probe_shared:count", {}, idempotency_key=key)
    assert server.execute(w, "probe_shared:count", {}, idempotency_key=key)["data"] == first["data"]


def test_batch_with_a_key_runs_each_action_once(server):
    w, key = sg.unique(), sg.unique("k")
    server.session(w, "bash")
    body = {"worker_id": w, "idempotency_key": key,
            "actions": [{"action": "bash:run", "params": {"command": "echo x >> /tmp/b; wc -l < /tmp/b"}}] * 3}
    first = server.post("/api/v1/execute/batch", body)
    second = server.post("/api/v1/execute/batch", body)
    outs = lambda r: [x["data"]["stdout"] for x in r["data"]["results"]]
    assert outs(first) == ["1\n", "2\n", "3\n"] == outs(second)
    assert server.execute(w, "bash:run", {"command": "wc -l < /tmp/b"})["data"]["stdout"] == "3\n"
    server.disconnect(w)


@pytest.mark.parametrize("asks", ["idempotency_key", "trajectory_id"])
@pytest.mark.parametrize("tool,params", [("bash:run", {"command": "echo x"}), ("box:snapshot", {})])
def test_box_that_ends_while_the_log_is_asked_about_a_call_is_not_found(server, asks, tool, params):
    box = server.create()
    replies = []
    body = {"tool": tool, "params": params, asks: sg.unique()}
    call = threading.Thread(target=lambda: replies.append(server.request("POST", f"/sg/v1/boxes/{box}/execute", body)))
    recorder = server.role("recorder")
    os.kill(recorder, signal.SIGSTOP)
    try:
        call.start()
        time.sleep(0.3)
        server.destroy(box)
    finally:
        os.kill(recorder, signal.SIGCONT)
    call.join()
    assert replies[0].status == 404 and "does not exist" in replies[0]["message"], replies[0]
