"""Leaks: what many boxes, failures and impatient clients leave behind, seen from outside. It must be nothing.

LEAK_BOXES sets how many boxes are made (100 here, 1000 for the long run).
"""

import concurrent.futures
import json
import os
import pathlib
import re
import socket
import time

import pytest

import sg

BOXES = int(os.environ.get("LEAK_BOXES", "100"))
WIDTH = 4


def steps():
    """The steps of making a box, by name and number, as src/isolate/step.h lists them."""
    text = (sg.ROOT / "src" / "isolate" / "step.h").read_text()
    names = re.findall(r"^    STEP_(\w+),?$", re.sub(r"/\*.*?\*/", "", text, flags=re.S), re.M)
    return [(n, i) for i, n in enumerate(names) if n not in ("NONE", "COUNT")]


def at_once(n, what):
    with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
        return list(pool.map(what, range(n)))


def use_box(server, i):
    spec = [{}, {"cold": True}, {"memory": "200m", "pids": 50}, {"sudo": False}, {"shm": "1m", "network": "none"}][i % 5]
    b = sg.Box(server, server.create(**spec))
    b.out("echo x > file; (setsid sleep 100 >/dev/null 2>&1 &) ; sleep 100 & echo done")
    if i % 3 == 0:
        b.tool("bash:start", {"command": "sleep 100"})
        b.tool("file:write", {"path": "a/b", "content": "x" * 1000})
    if i % 10 == 1:
        server.post(f"/sg/v1/boxes/{b.id}/pause")
    server.destroy(b.id)


# supervise keeps one user namespace per range of uids that was ever in use at once: bounded by the most boxes at one
# time, which two rounds of the same do not hit exactly.
KEPT = {"descriptors of supervise": 3 * WIDTH, "namespaces: user": 3 * WIDTH}


@pytest.mark.parametrize("pool", [0, 3])
def test_boxes_leave_nothing(pool):
    with sg.running("--pool-size", str(pool)) as s:
        at_once(3 * WIDTH, lambda i: use_box(s, i))  # what is made once and kept
        before = sg.at_rest(s)
        at_once(BOXES // 2, lambda i: use_box(s, i))
        assert sg.settle(s, before, 15, KEPT) == {}


def test_temporary_calls_leave_nothing():
    with sg.running("--pool-size", "2") as s:
        call = lambda i: s.execute(f"w{i % 7}", "bash:run" if i % 2 else "file:list", {"command": "sleep 50 & echo x"} if i % 2 else {})
        at_once(3 * WIDTH, call)
        before = sg.at_rest(s)
        at_once(BOXES // 2, call)
        assert sg.settle(s, before, 15, KEPT) == {}


def test_sessions_and_workers_leave_nothing():
    with sg.running("--pool-size", "2") as s:
        def life(i):
            w = sg.unique()
            s.session(w, "bash")
            s.execute(w, "bash:run", {"command": "sleep 50 & echo x"})
            s.session(w, "file", box="own")
            s.execute(w, "file:write", {"path": "x", "content": "y"})
            s.disconnect(w)
        at_once(2 * WIDTH, life)
        before = sg.at_rest(s)
        at_once(BOXES // 4, life)
        assert sg.settle(s, before, 15, KEPT) == {}


def test_boxes_that_die_or_expire_leave_nothing():
    with sg.running("--pool-size", "0") as s:
        def life(i):
            b = sg.Box(s, s.create(ttl=1 if i % 2 else 0))
            b.out("sleep 100 & echo x")
            if i % 2 == 0:
                os.kill(s.init_pid(b.id), 9)
            sg.wait_for(lambda: s.request("GET", f"/sg/v1/boxes/{b.id}").status == 404)
        at_once(2 * WIDTH, life)
        before = sg.at_rest(s)
        at_once(BOXES // 4, life)
        assert sg.settle(s, before, 15, KEPT) == {}


def test_clients_that_hang_up_leave_nothing():
    with sg.running("--pool-size", "0") as s:
        def life(i):
            body = json.dumps({"worker_id": f"w{i}", "action": "bash:run", "params": {"command": "sleep 0.3"}}).encode()
            c = socket.create_connection(("127.0.0.1", s.port))
            head = f"POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            c.sendall((head + body)[:[None, -5, 20][i % 3]])
            time.sleep([0, 0.05, 0.1][i // 3 % 3])
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            c.close()
        at_once(6 * WIDTH, life)
        before = sg.at_rest(s)
        at_once(BOXES, life)
        assert sg.settle(s, before, 20, {k: 60 for k in KEPT}) == {}, "calls of those who left run side by side"


def test_event_streams_leave_nothing():
    with sg.running("--pool-size", "0") as s:
        t = s.execute("w", "probe:echo", {"text": "x"})["meta"]["trajectory_id"]

        def life(i):
            with sg.Events(s, f"/sg/v1/trajectories/{t}/events") as e:
                if i % 2:
                    e.next()
        at_once(2 * WIDTH, life)
        s.execute("w", "probe:echo", {"text": "x"})
        before = sg.at_rest(s)
        at_once(BOXES, life)
        s.execute("w", "probe:echo", {"text": "x"})
        assert sg.settle(s, before, 10, KEPT) == {}


def test_memory_of_the_server_does_not_grow_with_what_has_ended():
    with sg.running("--pool-size", "2") as s:
        def resident(role):
            return int([x for x in sg.read(f"/proc/{s.role(role)}/status").splitlines() if x.startswith("VmRSS")][0].split()[1])
        call = lambda i: s.execute(sg.unique(), "bash:run", {"command": f"echo {i}"}, idempotency_key=sg.unique("k"))
        at_once(60, call)
        before = {r: resident(r) for r in ("serve", "supervise")}
        at_once(BOXES, call)
        for r, kib in before.items():
            assert resident(r) - kib < (4 * BOXES + 1000) * (20 if sg.SANITIZED else 1), f"{r}: KiB"


def test_refused_boxes_leave_nothing():
    with sg.running("--pool-size", "0") as s:
        bad = lambda i: s.request("POST", "/sg/v1/boxes", [{"image": "/nowhere"}, {"mounts": [{"from": "/etc", "to": "/x"}]},
                                                            {"memory": 1}][i % 3]).status
        at_once(2 * WIDTH, bad)
        before = sg.at_rest(s)
        assert set(at_once(BOXES // 2, bad)) <= {400, 403}
        assert sg.settle(s, before, 10, KEPT) == {}


# ---- every step of making a box fails in turn ----

@pytest.fixture(scope="module")
def faulty():
    """One home for all steps; each test starts it with its own fault."""
    s = sg.Server("--orphan-timeout", "5s", env={"SANDGLASS_FAULTS": "1"})
    yield s
    s.end()


def start_faulty(s, step, pool):
    s.env["SANDGLASS_FAIL_STEP"] = str(step)
    s.start("--pool-size", str(pool))


@pytest.mark.parametrize("name, step", steps())
def test_failure_at_each_step_is_told_and_leaves_nothing(faulty, name, step):
    start_faulty(faulty, step, 0)
    try:
        def fail(i):
            r = faulty.request("POST", "/sg/v1/boxes", {"cold": bool(i % 2)})
            return r.status, r["error"]["message"] if "error" in r.json else r.json
        fail(0)
        before = sg.at_rest(faulty)
        for status, message in at_once(6, fail):
            assert status == 500 and f"injected failure at step {step}" in message, (name, message)
        r = faulty.execute(sg.unique(), "bash:run", {"command": "true"}, status=None)
        assert r["meta"]["outcome"] == "infra_error" and r["meta"]["retry_safe"] is True and r["meta"]["trainable"] is False
        assert sg.settle(faulty, before, 10, KEPT) == {}
        assert faulty.get("/sg/v1/boxes")["count"] == 0
    finally:
        faulty.stop()
    assert faulty.box_pids() == [] and faulty.box_cgroups() == []
    assert [p.name for p in pathlib.Path(faulty.home, "run", "box").iterdir()] == []


@pytest.mark.parametrize("name, step", [s for s in steps() if s[0] in ("USERNS", "CLONE", "STATE", "OVERLAY", "EXEC", "READY")])
def test_pool_that_cannot_be_filled_leaves_nothing_and_does_not_spin(faulty, name, step):
    start_faulty(faulty, step, 3)
    try:
        time.sleep(1)
        assert faulty.get("/sg/v1/status")["pool"]["ready"] == 0
        cpu = lambda: sum(int(x) for x in sg.read(f"/proc/{faulty.role('supervise')}/stat").rsplit(") ", 1)[1].split()[11:15])
        ticks = cpu()
        time.sleep(1)
        assert cpu() - ticks < 30, "hundredths of a second"
    finally:
        faulty.stop()
    assert faulty.box_pids() == [] and faulty.box_cgroups() == []
    assert [p.name for p in pathlib.Path(faulty.home, "run", "box").iterdir()] == []


def test_without_the_fault_the_same_home_works_again(faulty):
    start_faulty(faulty, 0, 1)
    try:
        with faulty.box() as b:
            assert b.out("echo fine") == "fine\n"
    finally:
        faulty.stop()


def test_faults_are_ignored_unless_the_server_was_started_for_them():
    with sg.running("--pool-size", "0", env={"SANDGLASS_FAIL_STEP": "1"}) as s:
        s.destroy(s.create())


# ---- the server itself ----

def test_stopped_server_leaves_only_its_files_and_its_boxes():
    with sg.running("--pool-size", "2") as s:
        box = s.create()
        s.destroy(s.create())
        mounts = len(sg.read("/proc/self/mountinfo").splitlines())
        s.stop()
        assert [os.path.basename(c) for c in s.box_cgroups()] == [box] * len(s.cgroup_dirs())
        assert sorted(p.name for p in pathlib.Path(s.home, "run", "box").iterdir() if p.is_socket() or p.suffix == ".state") == \
            [f"{box}.sock", f"{box}.state"]
        assert len(sg.read("/proc/self/mountinfo").splitlines()) <= mounts
        s.start()
        s.destroy(box)
        s.stop()
        assert s.box_cgroups() == [] and list(pathlib.Path(s.home, "run", "box").iterdir()) == []
