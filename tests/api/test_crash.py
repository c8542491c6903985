"""Crashes: kill -9 of every role and of inits, idle and at work. The crash table cell by cell, then a storm.

CRASH_CALLS, CRASH_BOXES and CRASH_ROUNDS set the size of the storm (150, 8, 1 here; `make storm`: 1000, 50 and 3), CRASH_SEED
repeats one.
"""

import collections
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import pytest

import sg

CALLS = int(os.environ.get("CRASH_CALLS", "150"))
BOXES = int(os.environ.get("CRASH_BOXES", "8"))
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "1"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 30)


@pytest.fixture
def server():
    with sg.running("--pool-size", "1", "--orphan-timeout", "30s") as s:
        yield s


def kill_guard(server):
    server.guard.send_signal(signal.SIGKILL)
    server.guard.wait()


class Asked(threading.Thread):
    """One request in the background; what its client saw is in .reply or .error."""

    def __init__(self, server, box, command, key=None, insist=False):
        super().__init__()
        self.server, self.box, self.command, self.key, self.insist = server, box, command, key, insist
        self.reply = self.error = None
        self.start()
        sg.wait_for(lambda: self.begun() or not self.is_alive())

    def begun(self):
        with contextlib.suppress(*sg.GONE, AssertionError):
            return self.server.get("/sg/v1/status")["calls"] >= 1

    def run(self):
        body = {"tool": "bash:run", "params": {"command": self.command}}
        path = f"/sg/v1/boxes/{self.box}/execute"
        try:
            if self.insist:
                self.reply = self.server.insist("POST", path, body, key=self.key)
            else:
                self.reply = self.server.request("POST", path, body, headers={"Idempotency-Key": self.key} if self.key else None)
        except sg.GONE as e:
            self.error = e


def running_call(server, insist=False, seconds=1.5):
    """A box with a call under way that leaves a mark at its end."""
    b = sg.Box(server, server.create())
    b.out("x=kept; cd /tmp")
    key = sg.unique("k")
    a = Asked(server, b.id, f"sleep {seconds}; echo mark >> /tmp/marks; echo done", key, insist)
    time.sleep(0.1)
    return b, a, key


def check_goes_on(server, b):
    assert b.out("echo $x; pwd; cat /tmp/marks") == "kept\n/tmp\nmark\n"


def steps_with(server, b, key):
    return [s for s in server.steps(b.show()["trajectory"]) if s["key"] == key]


# ---- serve ----

def test_serve_idle_comes_back_in_a_moment_with_everything(server):
    b = sg.Box(server, server.create(labels={"a": "b"}))
    b.out("x=kept; cd /tmp; echo mark > marks")
    server.kill_role("serve", wait=False)
    t = time.monotonic()
    r = server.insist("GET", f"/sg/v1/boxes/{b.id}")
    assert r.status == 200 and r["labels"] == {"a": "b"} and time.monotonic() - t < sg.PATIENCE
    check_goes_on(server, b)


def test_serve_running_the_client_is_cut_off_and_the_command_never_noticed(server):
    b, a, key = running_call(server)
    server.kill_role("serve")
    a.join(10)
    assert a.error is not None and a.reply is None
    r = server.insist("POST", f"/sg/v1/boxes/{b.id}/execute", {"tool": "bash:run", "params": {"command": a.command}}, key=key)
    assert r.status == 200 and r["data"]["stdout"] == "done\n" and r["outcome"] == "ok", r
    check_goes_on(server, b)
    assert [(s["state"], s["outcome"]) for s in steps_with(server, b, key)] == [("done", "ok")]


def test_serve_running_the_result_is_in_the_log_though_nobody_asks_again(server):
    b, a, key = running_call(server, seconds=1)
    server.kill_role("serve")
    a.join(10)
    server.wait_ready()
    done = sg.wait_for(lambda: [s for s in steps_with(server, b, key) if s["state"] == "done"])
    assert done[0]["outcome"] == "ok" and done[0]["observation"]["stdout"] == "done\n"


def test_serve_killed_between_result_and_answer_again_and_again(server):
    """Short commands, so that the kill often falls between the end of the command and its answer."""
    b = sg.Box(server, server.create())
    b.out("cd /tmp")
    rng = random.Random(SEED)
    for i in range(12):
        a = Asked.__new__(Asked)
        threading.Thread.__init__(a)
        a.server, a.box, a.command, a.key, a.insist, a.reply, a.error = server, b.id, f"echo {i} >> /tmp/m; echo {i}", f"{b.id}-{i}", True, None, None
        a.start()
        time.sleep(rng.random() * 0.01)
        with contextlib.suppress(OSError):
            os.kill(server.role("serve"), signal.SIGKILL)
        a.join(30)
        assert a.reply is not None and a.reply.status == 200 and a.reply["data"]["stdout"] == f"{i}\n", (i, a.reply, a.error)
    server.wait_ready()
    assert b.out("cat /tmp/m").split() == [str(i) for i in range(12)]


def test_serve_running_calls_of_many_boxes_are_all_taken_over(server):
    boxes = [sg.Box(server, server.create()) for _ in range(20)]
    with concurrent.futures.ThreadPoolExecutor(len(boxes)) as pool:
        def ask(b):
            for key in "k", "again":
                r = server.insist("POST", f"/sg/v1/boxes/{b.id}/execute",
                                  {"tool": "bash:run", "params": {"command": "echo x >> /tmp/m; sleep 2; cat /tmp/m"}},
                                  key=key + b.id)
                if not r["retry_safe"]:  # else it was killed between the log and the box, and says that it never ran
                    return r

        asked = [pool.submit(ask, b) for b in boxes]
        sg.wait_for(lambda: server.get("/sg/v1/status")["calls"] == len(boxes))
        for _ in range(3):
            server.kill_role("serve")
            server.wait_ready()
        replies = [a.result() for a in asked]
    assert [r["data"]["stdout"] for r in replies] == ["x\n"] * len(boxes)


# ---- recorder ----

def test_recorder_idle_is_not_missed(server):
    b = sg.Box(server, server.create())
    b.out("x=kept; cd /tmp; echo mark > marks")
    server.kill_role("recorder", wait=False)
    check_goes_on(server, b)
    assert len(server.steps(b.show()["trajectory"])) == 2


def test_recorder_running_the_client_sees_nothing(server):
    b, a, key = running_call(server)
    server.kill_role("recorder")
    a.join(10)
    assert a.error is None and a.reply.status == 200 and a.reply["data"]["stdout"] == "done\n"
    check_goes_on(server, b)
    assert len(steps_with(server, b, key)) == 1


def test_recorder_running_with_durability_step_callers_wait_and_get_their_answer():
    with sg.running("--pool-size", "0", "--durability", "step") as s:
        b, a, key = running_call(s, seconds=0.5)
        for _ in range(4):
            s.kill_role("recorder")
            time.sleep(0.2)
        a.join(15)
        assert a.error is None and a.reply.status == 200 and a.reply["data"]["stdout"] == "done\n"
        check_goes_on(s, b)


def test_recorder_killed_during_a_blob_the_output_is_kept_or_said_to_be_not(server):
    b = sg.Box(server, server.create())
    a = Asked(server, b.id, "sleep 0.3; seq 1000000", sg.unique("k"))
    for _ in range(5):
        server.kill_role("recorder")
    a.join(15)
    assert a.reply.status == 200 and a.reply["data"]["stdout_bytes"] == 6888896
    if "blobs" in a.reply.json:
        name = a.reply["blobs"]["stdout"]["hash"].removeprefix("sha256:")
        assert pathlib.Path(server.home, "blobs", name[:2], name).stat().st_size == 6888896


# ---- supervise ----

def test_supervise_idle_boxes_answer_all_the_time_and_new_ones_come(server):
    b = sg.Box(server, server.create())
    b.out("x=kept; cd /tmp; echo mark > marks")
    server.kill_role("supervise", wait=False)
    check_goes_on(server, b)
    r = server.insist("POST", "/sg/v1/boxes", {})
    assert r.status == 201, r
    assert {x["id"] for x in server.get("/sg/v1/boxes")["boxes"]} == {b.id, r["id"]}
    server.destroy(b.id)
    server.destroy(r["id"])
    assert server.box_pids(b.id) == [] == server.box_pids(r["id"])


def test_supervise_running_the_call_never_noticed(server):
    b, a, key = running_call(server)
    server.kill_role("supervise")
    a.join(10)
    assert a.error is None and a.reply["data"]["stdout"] == "done\n"
    check_goes_on(server, b)


def test_supervise_killed_while_boxes_are_made_leaves_none_that_nobody_owns(server):
    server.destroy(server.create())
    before = sg.at_rest(server)
    rng = random.Random(SEED)
    for _ in range(6):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.request, "POST", "/sg/v1/boxes", {"cold": True}) for _ in range(4)]
            time.sleep(rng.random() * 0.02)
            server.kill_role("supervise")
            replies = [a.result() for a in asked]
        for r in replies:
            assert r.status in (201, 429, 500, 503), r
            if r.status == 201:
                assert sg.Box(server, r["id"]).out("echo alive") == "alive\n"
                server.destroy(r["id"])
    assert server.get("/sg/v1/boxes")["count"] == 0
    slack = {"descriptors of supervise": 8, "namespaces: user": 8, "descriptors of serve": 2}
    assert sg.settle(server, before, 10, slack) == {}


def test_supervise_killed_before_it_answers_costs_serve_none_of_its_own_descriptors(server):
    first = os.readlink(f"/proc/{server.role('serve')}/fd/0")
    os.kill(server.role("supervise"), signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.request, "POST", "/sg/v1/boxes", {"cold": True})
        time.sleep(0.2)
        os.kill(server.role("supervise"), signal.SIGKILL)
        assert asked.result().status in (500, 503)
    assert os.readlink(f"/proc/{server.role('serve')}/fd/0") == first


def test_supervise_killed_while_a_box_is_destroyed_the_box_is_gone_in_the_end(server):
    for _ in range(5):
        box = server.create()
        sg.Box(server, box).out("sleep 100 & echo x")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            gone = pool.submit(server.request, "DELETE", f"/sg/v1/boxes/{box}")
            server.kill_role("supervise")
            assert gone.result().status == 200
        assert server.box_pids(box) == []


def test_supervise_away_a_temporary_call_waits_or_is_safe_to_retry(server):
    for _ in range(4):
        server.kill_role("supervise", wait=False)
        r = server.execute(sg.unique(), "bash:run", {"command": "echo ran"}, status=None)
        assert r["meta"]["outcome"] == "ok" or (r["meta"]["outcome"] == "infra_error" and r["meta"]["retry_safe"] is True), r


def test_box_that_dies_while_supervise_is_away_is_found(server):
    b = sg.Box(server, server.create())
    b.out("true")
    init = server.init_pid(b.id)
    os.kill(server.role("supervise"), signal.SIGSTOP)
    os.kill(init, signal.SIGKILL)
    time.sleep(0.1)
    os.kill(server.role("supervise"), signal.SIGKILL)
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{b.id}").status == 404, 10)


# ---- init ----

def test_init_idle_the_box_is_gone_and_says_so(server):
    b = sg.Box(server, server.create())
    b.out("sleep 100 & echo x")
    os.kill(server.init_pid(b.id), signal.SIGKILL)
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{b.id}").status == 404)
    r = server.request("POST", f"/sg/v1/boxes/{b.id}/execute", {"tool": "bash:run", "params": {"command": "true"}})
    assert r.status == 404 and server.box_pids(b.id) == []


def test_init_running_the_call_is_box_lost(server):
    b, a, key = running_call(server, seconds=30)
    trajectory = b.show()["trajectory"]
    os.kill(server.init_pid(b.id), signal.SIGKILL)
    a.join(10)
    assert a.reply["outcome"] == "box_lost" and a.reply["retry_safe"] is False and a.reply["trainable"] is False, a.reply
    s = [s for s in server.steps(trajectory) if s["key"] == key]
    assert len(s) == 1 and s[0]["outcome"] == "box_lost"
    sg.wait_for(lambda: not server.box_pids(b.id))


def test_init_and_serve_at_once_the_call_is_box_lost(server):
    b, a, key = running_call(server, seconds=30)
    trajectory = b.show()["trajectory"]
    os.kill(server.role("serve"), signal.SIGSTOP)
    os.kill(server.init_pid(b.id), signal.SIGKILL)
    time.sleep(0.2)
    os.kill(server.role("serve"), signal.SIGKILL)
    a.join(10)
    server.wait_ready()
    done = sg.wait_for(lambda: [s for s in server.steps(trajectory) if s["key"] == key and s["state"] == "done"])
    assert [s["outcome"] for s in done] == ["box_lost"] and done[0]["retry_safe"] is False
    assert server.request("GET", f"/sg/v1/boxes/{b.id}").status == 404


# ---- a tool ----

def test_tool_killed_from_outside_its_exit_is_the_result(server):
    b, a, key = running_call(server, seconds=30)
    victim = sg.wait_for(lambda: [p for p in server.box_pids(b.id) if sg.read(f"/proc/{p}/cmdline").startswith("sleep\0")])
    os.kill(victim[0], signal.SIGKILL)
    a.join(10)
    assert a.reply["data"]["stdout"] == "done\n"
    check_goes_on(server, b)


def test_shell_killed_from_outside_the_session_gets_a_new_one(server):
    b, a, key = running_call(server, seconds=30)
    victim = [p for p in server.box_pids(b.id) if sg.read(f"/proc/{p}/comm").strip() == "bash"]
    os.kill(victim[0], signal.SIGKILL)
    a.join(10)
    assert a.reply.status == 200 and a.reply["outcome"] in ("task_error", "killed") and a.reply["data"]["exit_code"] == 137, a.reply
    assert b.out("echo works") == "works\n"


# ---- guard ----

def test_guard_idle_the_roles_end_and_a_new_server_adopts_the_boxes(server):
    b = sg.Box(server, server.create(labels={"a": "b"}))
    b.out("x=kept; cd /tmp; echo mark > marks")
    w = sg.unique()
    server.session(w, "bash")
    server.execute(w, "bash:run", {"command": "y=too"})
    roles = [p for n, p in server.pids().items() if n != "guard"]
    kill_guard(server)
    sg.wait_for(lambda: not [p for p in roles if "sandglass" in sg.read(f"/proc/{p}/cmdline")], 15)
    assert server.box_pids(b.id), "the box lives"
    server.start()
    assert b.show()["labels"] == {"a": "b"}
    check_goes_on(server, b)
    assert server.execute(w, "bash:run", {"command": "echo $y"})["data"]["stdout"] == "too\n"


def test_guard_running_the_call_is_finished_by_the_next_server(server):
    b, a, key = running_call(server, insist=True, seconds=2)
    kill_guard(server)
    server.start()
    a.join(20)
    assert a.reply.status == 200 and a.reply["data"]["stdout"] == "done\n", (a.reply, a.error)
    check_goes_on(server, b)
    assert len(steps_with(server, b, key)) == 1


def test_guard_gone_for_long_the_boxes_end_themselves_and_the_next_server_says_so():
    with sg.running("--pool-size", "1", "--orphan-timeout", "1s") as s:
        b, a, key = running_call(s, seconds=60)
        trajectory = b.show()["trajectory"]
        kill_guard(s)
        a.join(10)
        sg.wait_for(lambda: not s.box_pids(), 15)
        s.start()
        done = [x for x in s.steps(trajectory) if x["key"] == key]
        assert [x["outcome"] for x in done] == ["box_lost"] and done[0]["retry_safe"] is False
        assert s.request("GET", f"/sg/v1/boxes/{b.id}").status == 404
        sg.wait_for(lambda: not [c for c in s.box_cgroups() if os.path.basename(c) == b.id])
        assert not list(pathlib.Path(s.home, "run", "box").glob(f"{b.id}*"))


def test_everything_killed_at_once(server):
    b, a, key = running_call(server, insist=True, seconds=2)
    pids = server.pids()
    for name in ("guard", "serve", "supervise", "recorder"):
        with contextlib.suppress(OSError):
            os.kill(pids[name], signal.SIGKILL)
    server.guard.wait()
    server.start()
    a.join(20)
    assert a.reply.status == 200 and a.reply["data"]["stdout"] == "done\n"
    check_goes_on(server, b)


def test_second_server_on_the_same_home_is_refused_and_touches_nothing(server):
    b = sg.Box(server, server.create())
    b.out("x=kept; cd /tmp; echo mark > marks")
    sg.at_rest(server)
    before = set(server.box_pids())
    other = subprocess.run(
        [sg.BINARY, "serve", "--listen", "127.0.0.1:0", "--home", server.home, "--cgroup-name", server.name],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=sg.PATIENCE)
    assert other.returncode == 1 and len(other.stderr.splitlines()) == 1, other.stderr
    assert server.home in other.stderr and "--home" in other.stderr
    assert before <= set(server.box_pids())  # parked seats, too
    check_goes_on(server, b)


# ---- the storm ----

class Storm:
    """Clients, each with a box of its own, and somebody who kills."""

    def __init__(self, server, rng):
        self.server, self.rng = server, rng
        self.over = threading.Event()
        self.answers = collections.defaultdict(list)  # box -> (key, marker, tool, answer)
        self.others = collections.defaultdict(list)  # worker -> (key, answer)
        self.lost = set()
        self.kills = collections.Counter()
        self.failures = []

    def create(self, label):
        """There is no key for a box, so a careful client looks for its label before it asks again."""
        for _ in range(200):
            try:
                found = self.server.request("GET", f"/sg/v1/boxes?label=client={label}")
                if found.status == 200 and found["boxes"]:
                    return found["boxes"][0]["id"]
                if found.status == 200:
                    r = self.server.request("POST", "/sg/v1/boxes", {"labels": {"client": label}})
                    if r.status == 201:
                        return r["id"]
            except sg.GONE:
                pass
            time.sleep(0.05)
        raise AssertionError("no box")

    def ask(self, box, tool, params, key, worker=None):
        path = "/sg/v1/execute" if worker else f"/sg/v1/boxes/{box}/execute"
        body = {"tool": tool, "params": params, **({"worker_id": worker} if worker else {})}
        while True:
            r = self.server.insist("POST", path, body, key=key, seconds=90)
            if r.status == 500 and r["outcome"] == "infra_error" and r["retry_safe"]:
                time.sleep(0.05)  # it never reached the box: the same key is good for another try
                continue
            return r

    def client(self, n, calls):
        rng = random.Random(f"{SEED}-{n}")
        try:
            box = self.create(f"c{n}")
            for i in range(calls):
                key, marker = f"{box}-{i}", f"m{n}-{i}"
                pause = rng.choice([0, 0, 0.05, 0.3, 1])
                if i % 5 == 4:
                    tool, params = "file:write", {"path": f"/tmp/f{i}", "content": marker}
                else:
                    tool, params = "bash:run", {"command": f"echo {marker} >> /tmp/marks; sleep {pause}; echo out-{marker}"}
                if i % 6 == 5:  # a box of its own for one call, and a tool without a box, of another worker
                    w = f"w{n}"
                    for name, more in (("bash:run", {"command": f"sleep {pause}; echo out-{marker}"}), ("probe:echo", {"text": marker})):
                        self.others[w].append((f"{key}-{name}", self.ask(None, name, more, f"{key}-{name}", w)))
                r = self.ask(box, tool, params, key)
                self.answers[box].append((key, marker, tool, r))
                if r.status == 404 or (r.status == 200 and r["outcome"] == "box_lost"):
                    self.lost.add(box)
                    return
        except BaseException as e:  # noqa: the test fails with it later
            self.failures.append((n, repr(e)))

    def hands(self):
        """The processes that do file work, of all boxes: children of an init that are no programs, once its shell is one."""
        inits, children = set(), collections.defaultdict(dict)
        for p in self.server.box_pids():
            status = dict(x.split(":\t", 1) for x in sg.read(f"/proc/{p}/status").splitlines() if ":\t" in x)
            children[status.get("PPid")][p] = status.get("Name")
            if status.get("NSpid", "").split()[1:] == ["1"]:
                inits.add((str(p), status["Name"]))
        return [p for pid, name in inits if "bash" in children[pid].values() for p, n in children[pid].items() if n == name]

    def killer(self, victims):
        while not self.over.wait(self.rng.uniform(0.05, 0.9)):
            what = self.rng.choice(["serve", "serve", "supervise", "recorder", "guard", "init", "hand", "both"])
            try:
                if what == "guard":
                    kill_guard(self.server)
                    time.sleep(self.rng.uniform(0, 0.5))
                    self.server.start()
                elif what == "init":
                    if not victims or self.rng.random() < 0.5:
                        continue
                    label = victims.pop()
                    found = self.server.request("GET", f"/sg/v1/boxes?label=client={label}")["boxes"]
                    if found:
                        self.lost.add(found[0]["id"])
                        os.kill(self.server.init_pid(found[0]["id"]), signal.SIGKILL)
                elif what == "hand":
                    os.kill(self.rng.choice(self.hands()), signal.SIGKILL)
                else:
                    for role in (["serve", "supervise"] if what == "both" else [what]):
                        os.kill(self.server.role(role), signal.SIGKILL)
                self.kills[what] += 1
            except (*sg.GONE, AssertionError, KeyError, ValueError, IndexError) as e:
                if what == "guard":
                    self.failures.append(("guard", repr(e)))


def check_storm(server, storm):
    assert not storm.failures, storm.failures[:3]
    for worker, answers in storm.others.items():
        log = [s for t in {r["trajectory_id"] for _, r in answers} for s in server.steps(t)]
        for key, r in answers:
            rows = [s for s in log if s["key"] == key and not s["retry_safe"]]
            assert r.status == 200 and r["outcome"] == "ok", (key, r, rows)
            assert len(rows) == 1 and rows[0]["observation"] == r["data"], (key, rows)
        assert len({r["trajectory_id"] for _, r in answers}) == 1, "one worker, one trajectory"
    for box, answers in storm.answers.items():
        lost = box in storm.lost
        ok = [a for a in answers if a[3].status == 200 and a[3]["outcome"] == "ok"]
        hurt = [a for a in answers if a[2] == "file:write" and a[3].status == 500 and "file worker ended by signal 9" in a[3]["message"]]
        for key, _, _, r in hurt:  # its hand was killed: that is what it says, once
            rows = [s for s in server.steps(r["trajectory_id"]) if s["key"] == key and not s["retry_safe"]]
            assert [s["outcome"] for s in rows] == ["infra_error"], rows
        others = [(a[0], a[3]) for a in answers if a not in ok and a not in hurt]
        assert lost or not others, f"what should go on went on: {others[:2]}"
        assert len(others) <= 1 or not lost, others[:3]
        trajectory = ok[0][3]["trajectory_id"] if ok else None
        if not trajectory:
            continue
        log = server.steps(trajectory)
        assert [s["step"] for s in log] == list(range(1, len(log) + 1)), "numbered without gaps"
        assert all(s["state"] == "done" for s in log), [s for s in log if s["state"] != "done"][:2]
        final = collections.Counter(s["key"] for s in log if not s["retry_safe"])
        for key, marker, tool, r in ok:
            rows = [s for s in log if s["key"] == key and not s["retry_safe"]]
            assert len(rows) == 1, f"{key}: in the log exactly once, not {len(rows)} times"
            assert rows[0]["step"] == r["step"] and rows[0]["outcome"] == "ok" and rows[0]["observation"] == r["data"]
            if tool == "bash:run":
                assert r["data"]["stdout"] == f"out-{marker}\n", r
        assert max(final.values()) == 1, final.most_common(2)
        if not lost:
            marks = sg.Box(server, box).out("cat /tmp/marks").split()
            twice = [m for m, c in collections.Counter(marks).items() if c > 1]
            rows = [s for s in log if twice and f"echo {twice[0]} " in str(s["params"])]
            assert not twice, f"ran twice: {twice} {rows}"
            assert set(marks) == {a[1] for a in ok if a[2] == "bash:run"}
            assert marks == [a[1] for a in ok if a[2] == "bash:run"], "in order"


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_storm_of_kills_loses_nothing_runs_nothing_twice_and_leaks_nothing(round_):
    rng = random.Random(f"{SEED}-{round_}")
    print(f"CRASH_SEED={SEED}")
    with sg.running("--pool-size", "2", "--orphan-timeout", "60s", "--shutdown-grace", "1s") as s:
        warm = [s.create() for _ in range(BOXES)]
        for b in warm:
            sg.Box(s, b).out("true")
            s.destroy(b)
        before = sg.at_rest(s)
        storm = Storm(s, rng)
        victims = [f"c{n}" for n in rng.sample(range(BOXES), max(1, BOXES // 5))]
        clients = [threading.Thread(target=storm.client, args=(n, CALLS // BOXES)) for n in range(BOXES)]
        killer = threading.Thread(target=storm.killer, args=(victims,))
        [t.start() for t in clients]
        killer.start()
        [t.join(300) for t in clients]
        storm.over.set()
        killer.join(60)
        time.sleep(0.2)
        s.wait_ready()
        lives = s.pids()
        try:
            check_storm(s, storm)
        except sg.GONE as e:
            raise AssertionError(f"the server ended by itself: {e!r}; {lives} -> {s.pids()}\n{s.log_tail()}")
        except AssertionError as e:
            named = set(re.findall(r"b-[a-z2-7]{16}", str(e)))
            print("\n".join(x for x in sg.read(s.log_path).splitlines() if any(n in x for n in named)) or s.log_tail(400))
            raise
        print(dict(storm.kills))
        assert sum(storm.kills.values()) >= 5, storm.kills
        for b in s.get("/sg/v1/boxes")["boxes"]:  # those of single calls may be ending by themselves
            assert s.request("DELETE", f"/sg/v1/boxes/{b['id']}").status in (200, 404)
        slack = {"descriptors of supervise": BOXES, "namespaces: user": BOXES, "descriptors of serve": 1, "descriptors of recorder": 2}
        assert sg.settle(s, before, 15, slack) == {}
