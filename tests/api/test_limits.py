"""Limits: each is enforced, each has its own outcome, the box answers afterwards; and bad input is told what is wrong."""

import contextlib
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1", "--output-kept", "4m", "--output-head", "16k", "--output-tail", "16k",
                    "--call-timeout-max", "1h") as s:
        yield s


def resident_kib(server, role):
    lines = sg.read(f"/proc/{server.role(role)}/status").splitlines()
    return int([x for x in lines if x.startswith("VmRSS")][0].split()[1])


# ---- the server's own memory ----

def stall(server, stack, request):
    c = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.suppress(OSError):  # it may be the one that has to go
        c.sendall(request)


def test_clients_that_stall_hold_a_bounded_part_of_the_servers_memory():
    """LIMIT_HTTP_HELD (1 GiB) of half requests and unread answers, all together; whoever moves is served."""
    with sg.running("--pool-size", "1") as s, s.box() as box:
        with contextlib.ExitStack() as stack:
            half = b"POST /execute HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (60 << 20) + b" " * (59 << 20)
            for _ in range(24):
                stall(s, stack, half)
            assert box.out("echo here") == "here\n"
            assert resident_kib(s, "serve") < 1200 << 10
        closed = s.log_tail(1000).count("LIMIT_HTTP_HELD")
        assert closed > 0
        box.out("seq 1 3000000 > big")
        box.tool("file:read", {"path": "/home/gem/big"})
        page = f"/sg/v1/trajectories/{s.get('/sg/v1/boxes/' + box.id)['trajectory']}/steps"
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                stall(s, stack, f"GET {page} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            sg.wait_for(lambda: s.log_tail(1000).count("LIMIT_HTTP_HELD") > closed, 60)
            assert resident_kib(s, "serve") < 1300 << 10
            assert box.out("echo here") == "here\n"
            assert len(s.get(page)["steps"]) == 4


# ---- memory ----

HOG = "python3 -c 'b = []\nwhile True: b.append(bytearray(4 << 20))'"


def test_memory_beyond_the_limit_is_oom_and_the_box_goes_on(server):
    with server.box(memory="64m", disk="16m") as b:
        b.run("x=kept")
        r = b.run(HOG, timeout=60)
        assert r["outcome"] == "oom" and r["retry_safe"] is False and r["trainable"] is True, r
        assert r["data"]["exit_code"] == 137
        assert r["use"]["peak_bytes"] >= 60 << 20
        assert all(str(n << 20) in r["message"] for n in (80, 64, 16)) and "disk" in r["message"], r["message"]
        assert b.show()["use"]["oom_kills"] >= 1
        assert b.out("echo $x") == "kept\n"
        assert b.run("false")["outcome"] == "task_error", "the next failure is the agent's own again"


def test_memory_limit_holds_for_the_sum_of_all_processes(server):
    with server.box(memory="96m", disk="16m") as b:
        r = b.run("for i in 1 2 3 4; do python3 -c 'b = bytearray(40 << 20); import time; time.sleep(2)' & done; "
                  "for p in $(jobs -p); do wait $p || bad=1; done; exit ${bad-0}", timeout=60)
        assert r["outcome"] == "oom", r
        assert b.out("echo fine") == "fine\n"


def test_memory_of_a_background_program_is_oom_for_nobody_else(server):
    with server.box(memory="64m", disk="16m") as b:
        job = b.tool("bash:start", {"command": HOG})["data"]["job_id"]
        d = sg.wait_for(lambda: (lambda d: d["status"] == "completed" and d)(
            b.tool("bash:output", {"job_id": job})["data"]), 30)
        assert d["exit_code"] == 137
        assert b.run("true")["outcome"] == "ok"


def test_failure_after_a_background_program_was_killed_is_no_oom(server):
    with server.box(memory="64m", disk="16m") as b:
        b.out(f"({HOG}) > /dev/null 2>&1 &")
        sg.wait_for(lambda: b.show()["use"]["oom_kills"] > 0, 30)
        assert b.run("false")["outcome"] == "task_error", "it was killed before this call began"


def test_peak_is_of_the_call_and_not_of_the_boxs_life(server):
    with server.box(memory="512m") as b:
        big = b.run("python3 -c 'bytearray(200 << 20)'")["use"]["peak_bytes"]
        small = b.run("true")["use"]["peak_bytes"]
        assert big > 200 << 20 and small < 100 << 20, (big, small)


def test_peak_of_the_box_is_that_of_all_its_calls(server):
    with server.box(memory="512m") as b:
        b.run("python3 -c 'bytearray(200 << 20)'")
        b.run("true")
        listed = [x for x in server.get("/sg/v1/boxes")["boxes"] if x["id"] == b.id]
        assert b.show()["use"]["memory_peak_bytes"] >= 200 << 20 and listed[0]["memory_peak_bytes"] >= 200 << 20


def test_init_survives_a_memory_hog_that_runs_as_root(server):
    with server.box(memory="64m", disk="16m") as b:
        r = b.run("sudo " + HOG, timeout=60)
        assert r["outcome"] == "oom", r
        assert b.out("echo fine") == "fine\n"


def test_files_in_tmp_and_shm_count_and_do_not_take_the_box_down(server):
    with server.box(memory="64m", disk="64m", shm="48m") as b:
        b.run("head -c 40M /dev/zero > /dev/shm/a; head -c 60M /dev/zero > /tmp/b", timeout=30)
        r = b.run(HOG, timeout=60)
        assert r["outcome"] in ("oom", "disk_full"), r
        assert b.out("rm -f /dev/shm/a /tmp/b; echo fine") == "fine\n"


# ---- pids ----

@pytest.mark.parametrize("bomb", [
    ":(){ :|:& };:; sleep 2", "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'",
    "while :; do sleep 100 & done", "sudo python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'"])
def test_fork_bomb_ends_as_pid_limit_and_the_box_still_answers(server, bomb):
    with server.box(pids=64, cpu=1) as b:
        b.run("x=kept")
        t = time.monotonic()
        r = b.run(bomb, timeout=3)
        assert r["outcome"] == "pid_limit" and time.monotonic() - t < sg.PATIENCE, r
        assert "limit" in r["message"] and "processes" in r["message"], r["message"]
        assert r["retry_safe"] is False and r["trainable"] is True
        assert sg.wait_for(lambda: b.run("echo $x", timeout=10)["data"]["stdout"] == "kept\n" or
                           b.run("echo fresh", timeout=10)["data"]["stdout"] == "fresh\n", 15)
        assert b.show()["use"]["pid_limit_hits"] >= 1


def test_fork_bomb_that_ignores_signals_and_leaves_its_session(server):
    with server.box(pids=64, cpu=1) as b:
        b.run("python3 -c '\nimport os, signal\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n"
              "  except OSError: pass\nwhile True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass'", timeout=3)
        assert sg.wait_for(lambda: b.run("echo back", timeout=10)["data"]["stdout"] == "back\n", 15)


def test_pids_limit_counts_threads(server):
    with server.box(pids=40) as b:
        r = b.python("import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(2,)).start()")
        assert r["outcome"] == "pid_limit" and "can't start new thread" in r["data"]["stderr"], r


@pytest.mark.parametrize("before", ["true", "sleep 1000 & true"])
def test_background_program_that_could_not_be_started_is_none_that_succeeded(server, before):
    """Each has a keeper: what is refused may be the keeper, or its child."""
    with server.box(pids=24) as b:
        b.out(before)
        started = []
        while (r := b.tool("bash:start", {"command": "sleep 1000"}, status=None))["outcome"] == "ok":
            started.append(r["data"]["job_id"])
        assert r["outcome"] == "pid_limit" and len(started) < 24, r
        jobs = b.tool("bash:list")["data"]["jobs"]
        assert {j["job_id"] for j in jobs if j["status"] == "running"} == set(started)
        assert all(j["exit_code"] == 126 for j in jobs if j["status"] == "completed"), jobs


FORKS_TO_THE_LIMIT = """import os, time
time.sleep(0.5)
for _ in range(100):
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError: break
time.sleep(%s)
for _ in range(5):
    try: os.fork() or os._exit(0)
    except OSError: pass
time.sleep(1000)"""


def fill_in_the_background(box, again_s):
    box.tool("bash:start", {"command": f"exec python3 -c '{FORKS_TO_THE_LIMIT % again_s}'"})
    sg.wait_for(lambda: box.show()["use"]["pid_limit_hits"] > 0, 15)


def test_limit_that_was_reached_before_the_call_is_not_told_to_it(server):
    with server.box(pids=48) as b:
        b.run("true")
        fill_in_the_background(b, 1000)
        assert b.run("echo built in")["outcome"] == "ok"


def test_limit_that_others_reach_during_the_call_is_told_as_the_boxs(server):
    """Whose fork was refused is not known; the message says that all of the box count."""
    with server.box(pids=48) as b:
        b.run("true")
        fill_in_the_background(b, 2)
        r = b.run("end=$((SECONDS + 4)); while [ $SECONDS -lt $end ]; do :; done", timeout=15)
        assert r["outcome"] == "pid_limit" and "while this call ran" in r["message"] and "background" in r["message"], r


def test_other_boxes_do_not_feel_a_fork_bomb(server):
    with server.box(pids=200, cpu=0.5) as bad, server.box() as good:
        t = threading.Thread(target=lambda: bad.run(":(){ :|:& };:", timeout=4))
        t.start()
        time.sleep(1)
        for _ in range(10):
            assert good.out("echo quick") == "quick\n"
        t.join()


HAS_PIDS_PEAK = any(pathlib.Path("/sys/fs/cgroup").glob("**/pids.peak"))


def at_once(n):
    """Processes that are alive together; they end before the call does."""
    return f"for i in $(seq {n}); do sleep 0.3 & done; wait"


@pytest.mark.skipif(not HAS_PIDS_PEAK, reason="the kernel has no pids.peak")
def test_peak_of_processes_is_that_of_the_box_so_far(server):
    with server.box(pids=200) as b:
        few, many = (b.run(at_once(n))["use"]["pids_peak"] for n in (5, 60))
        assert 5 < few < 60 <= many <= 200, (few, many)
        r = b.run("true")
        assert r["use"]["pids_peak"] == many, "the kernel does not count it anew"
        assert server.steps(r["trajectory_id"])[-1]["pids_peak"] == many
        assert b.tool("file:read", {"path": "/etc/hostname"})["use"]["pids_peak"] == many, "known without asking"
        listed = [x for x in server.get("/sg/v1/boxes")["boxes"] if x["id"] == b.id]
        assert b.show()["use"]["pids_peak"] == listed[0]["pids_peak"] == many


@pytest.mark.skipif(not HAS_PIDS_PEAK, reason="the kernel has no pids.peak")
def test_peak_of_processes_at_the_limit_is_the_limit(server):
    with server.box(pids=64) as b:
        r = b.run(":(){ :|:& };:; sleep 1", timeout=3)
        assert r["outcome"] == "pid_limit" and r["use"]["pids_peak"] == 64, r


# ---- disk ----

def test_disk_in_use_is_the_greater_of_begin_and_end(server):
    with server.box(disk="64m") as b:
        empty = b.run("true")["use"]["disk_used_bytes"]
        assert 0 <= empty < 4 << 20
        grown = b.run("head -c 20M /dev/zero > ~/a; head -c 10M /dev/zero > /tmp/b")
        assert 30 << 20 <= grown["use"]["disk_used_bytes"] < 36 << 20, grown["use"]
        assert server.steps(grown["trajectory_id"])[-1]["disk_used_bytes"] == grown["use"]["disk_used_bytes"]
        assert b.tool("file:read", {"path": "/etc/hostname"})["use"]["disk_used_bytes"] >= 30 << 20
        assert b.run("rm ~/a /tmp/b")["use"]["disk_used_bytes"] >= 30 << 20, "so much was there when it began"
        assert b.run("true")["use"]["disk_used_bytes"] < 4 << 20
        assert b.tool("file:write", {"path": "c", "content": "x" * (5 << 20)})["use"]["disk_used_bytes"] >= 5 << 20
        assert b.python("open('/tmp/d', 'wb').write(bytes(8 << 20))")["use"]["disk_used_bytes"] >= 13 << 20
        listed = [x for x in server.get("/sg/v1/boxes")["boxes"] if x["id"] == b.id]
        assert b.show()["use"]["disk_used_bytes"] == listed[0]["disk_used_bytes"] >= 13 << 20


def test_peaks_are_in_meta_and_unknown_ones_are_null(server):
    w = sg.unique()
    m = server.execute(w, "bash:run", {"command": "true"})["meta"]
    assert m["disk_used_bytes"] >= 0 and (m["pids_peak"] > 0 if HAS_PIDS_PEAK else m["pids_peak"] is None), m
    with server.box() as b:
        r = b.tool("file:read", {"path": "/etc/hostname"})
        assert r["use"]["disk_used_bytes"] is None, "nobody has looked yet"
        assert server.steps(r["trajectory_id"])[-1]["disk_used_bytes"] is None
    step = server.steps(server.execute(w, "bash:run", {"command": 5}, status=None)["meta"]["trajectory_id"])[-1]
    assert step["outcome"] == "invalid_request" and step["disk_used_bytes"] is None and step["pids_peak"] is None


@pytest.mark.parametrize("place", ["/home/gem", "/tmp", "/var/tmp"])
def test_full_disk_is_disk_full_and_the_box_goes_on(server, place):
    with server.box(disk="16m") as b:
        r = b.run(f"head -c 100M /dev/zero > {place}/big")
        assert r["outcome"] == "disk_full" and r["trainable"] is True and r["retry_safe"] is False, r
        assert str(16 << 20) in r["message"], r
        assert b.out(f"rm {place}/big; echo small > {place}/small; cat {place}/small") == "small\n"


def test_full_dev_shm_is_disk_full_and_its_size_is_told(server):
    with server.box(shm="8m") as b:
        for r in (b.run("head -c 20M /dev/zero > /dev/shm/big"), b.run("echo more | dd of=/dev/shm/small"),
                  b.python("open('/dev/shm/other', 'wb').write(bytes(1 << 20))")):
            assert r["outcome"] == "disk_full" and f"{8 << 20} into /dev/shm" in r["message"], r
        assert b.run("rm /dev/shm/*; echo 'No space left on device' >&2; false")["outcome"] == "task_error"
        assert b.out("echo fine > /dev/shm/a; cat /dev/shm/a") == "fine\n"


def test_disk_that_was_full_but_is_not_any_more_is_the_programs_own_failure(server):
    """What a program says is no proof, and the kernel counts no ENOSPC: docs/operations.md."""
    with server.box(disk="8m") as b:
        assert b.run("head -c 20M /dev/zero > big || { rm big; false; }")["outcome"] == "task_error"


def test_file_write_to_a_full_disk_is_disk_full(server):
    with server.box(disk="8m") as b:
        r = b.tool("file:write", {"path": "big", "content": "x" * (20 << 20)}, status=None)
        assert r["outcome"] == "disk_full", r
        b.out("rm -f big")
        assert b.tool("file:write", {"path": "small", "content": "x"})["outcome"] == "ok"


def test_running_out_of_inodes_is_disk_full(server):
    with server.box(disk="4m") as b:
        r = b.run("mkdir d; cd d; for i in $(seq 100000); do : > $i || exit 1; done", timeout=60)
        assert r["outcome"] == "disk_full", r
        assert b.out("cd; rm -rf d; touch fine; ls") == "fine\n"


def test_disk_limit_holds_over_all_places_together(server):
    with server.box(disk="16m") as b:
        b.run("head -c 10M /dev/zero > /tmp/a; head -c 10M /dev/zero > ~/b; sudo sh -c 'head -c 10M /dev/zero > /opt/c'")
        total = sum(int(x) for x in b.out("stat -c %s /tmp/a ~/b /opt/c").split())
        assert total <= 16 << 20


# ---- cpu ----

def test_cpu_limit_slows_down(server):
    with server.box(cpu=0.25) as b:
        r = b.run("end=$((SECONDS+2)); while [ $SECONDS -lt $end ]; do :; done", timeout=20)
        wall, cpu = r["times"]["run_us"], r["use"]["cpu_us"]
        assert wall > 1_000_000 and cpu < 0.4 * wall, (wall, cpu)


def test_cpu_time_is_reported(server):
    with server.box() as b:
        r = b.run("python3 -c 'sum(range(6000000))'")
        assert r["use"]["cpu_us"] > 50_000


@pytest.mark.parametrize("tool, params", [("browser:screenshot", {}), ("desktop:screenshot", {}), ("code:languages", {}),
                                          ("util:convert", {"uri": "/etc/hosts"}), ("ds:inspect_data", {"seed_path": "/tmp"})])
def test_what_programs_use_that_only_look_is_reported(server, tool, params):
    with server.box() as b:
        use = b.tool(tool, params)["use"]
        assert use["cpu_us"] > 10_000 and use["peak_bytes"] > 1 << 20 and use["pids_peak"] > 2 and use["disk_used_bytes"] is not None, use


# ---- open files ----

def test_open_files_limit(server):
    with server.box(open_files=100) as b:
        assert b.out("ulimit -n; ulimit -Hn").split() == ["100", "100"]
        r = b.python("f = []\ntry:\n  while True: f.append(open('/dev/null'))\nexcept OSError as e: print(e.errno, len(f) < 100)")
        assert r["data"]["stdout"] == "24 True\n"
        assert b.code("ulimit -n 200") != 0
        assert b.out("sudo sh -c 'ulimit -n'") == "100\n"


# ---- time ----

def test_default_time_of_a_call_comes_from_the_configuration():
    with sg.running("--pool-size", "0", "--call-timeout", "1s") as s:
        with s.box() as b:
            t = time.monotonic()
            assert b.run("sleep 300")["outcome"] == "timeout" and time.monotonic() - t < sg.PATIENCE
            assert b.out("sleep 1.5; echo longer", timeout=5) == "longer\n"


def test_file_call_is_ended_at_its_deadline(server):
    with server.box() as b:
        b.out("mkdir slow; cd slow; for i in $(seq 300); do mkdir -p $i/a/b; done", timeout=60)
        r = b.tool("file:list", {"path": "/", "recursive": True, "max_entries": 100000}, timeout=0.01, status=None)
        assert r["outcome"] in ("timeout", "ok"), r
        assert b.tool("file:read", {"path": "/etc/hostname"})["outcome"] == "ok"


# ---- output ----

def test_output_beyond_its_cap_keeps_head_and_tail_and_all_of_it_as_a_blob(server):
    with server.box() as b:
        r = b.run("seq 200000")
        d = r["data"]
        whole = "".join(f"{i}\n" for i in range(1, 200001))
        assert d["stdout_bytes"] == len(whole)
        assert d["stdout"].startswith(whole[:16000]) and d["stdout"].endswith(whole[-16000:]) and len(d["stdout"]) < 34000
        missing = [w for w in d["stdout"][16000:-16000].replace(",", " ").split() if w.isdigit() and int(w) > 1_000_000]
        assert missing and int(missing[0]) == len(whole) - 32768, "the text says how much is missing"
        assert d["stdout_kept"] is True and r["dropped_bytes"] == 0
        blob = r["blobs"]["stdout"]
        name = blob["hash"].removeprefix("sha256:")
        kept = pathlib.Path(server.home, "blobs", name[:2], name).read_bytes()
        assert kept.decode() == whole and blob["bytes"] == len(whole)
        assert hashlib.sha256(kept).hexdigest() == name
        assert server.steps(r["trajectory_id"])[0]["blobs"] == r["blobs"]


def test_output_beyond_the_second_cap_says_how_much_was_dropped(server):
    with server.box() as b:
        r = b.run("head -c 20000000 /dev/zero | tr '\\0' x; echo end")
        assert r["data"]["stdout_bytes"] == 20_000_004 and r["data"]["stdout"].endswith("end\n")
        assert r["blobs"]["stdout"]["bytes"] == 4 << 20
        assert r["dropped_bytes"] == 20_000_004 - (4 << 20) - 16384, "neither in the answer nor in the blob"
        s = server.steps(r["trajectory_id"])[0]
        assert s["dropped_bytes"] == r["dropped_bytes"]


def test_output_of_both_streams_has_two_blobs(server):
    with server.box() as b:
        r = b.run("seq 100000; seq 100000 >&2")
        assert r["blobs"]["stdout"]["hash"] == r["blobs"]["stderr"]["hash"]


def test_output_is_cut_between_characters(server):
    with server.box() as b:
        r = b.run("python3 -c 'print(\"中\" * 100000)'")
        assert "\ufffd" not in r["data"]["stdout"] and "\\u" not in json.dumps(r["data"]["stdout"], ensure_ascii=False)


def test_flood_of_output_costs_the_server_nothing(server):
    with server.box() as b:
        before = resident_kib(server, "serve"), resident_kib(server, "recorder")
        r = b.run("yes | head -c 1000000000", timeout=60)
        assert r["outcome"] == "ok" and r["data"]["stdout_bytes"] == 1_000_000_000
        after = resident_kib(server, "serve"), resident_kib(server, "recorder")
        assert after[0] - before[0] < 30_000 and after[1] - before[1] < 30_000, (before, after)


def test_endless_output_ends_at_the_timeout(server):
    with server.box() as b:
        r = b.run("yes", timeout=2)
        assert r["outcome"] == "timeout" and r["data"]["stdout"].startswith("y\ny\n") and r["data"]["stdout_bytes"] > 1_000_000
        assert b.out("echo fine") == "fine\n"


def test_output_of_a_background_program_is_bounded_too(server):
    with server.box(memory="256m") as b:
        job = b.tool("bash:start", {"command": "head -c 300000000 /dev/zero | tr '\\0' x; echo end"})["data"]["job_id"]
        d = sg.wait_for(lambda: (lambda d: d["status"] == "completed" and d)(
            b.tool("bash:output", {"job_id": job, "offset": 0})["data"]), 60, 0.2)
        assert d["stdout_bytes"] == 300_000_004
        assert b.out("echo fine") == "fine\n"


# ---- admission ----

def test_too_many_boxes_are_refused_with_429_and_when_to_try_again():
    with sg.running("--pool-size", "0", "--box-max", "2") as s:
        boxes = [s.create(), s.create()]
        r = s.request("POST", "/sg/v1/boxes", {})
        assert r.status == 429 and r.headers["Retry-After"] and "box.max" in r["error"]["message"] and "2" in r["error"]["message"]
        r = s.execute(sg.unique(), "bash:run", {"command": "true"}, status=429)
        assert r["meta"]["outcome"] == "infra_error" and r["meta"]["retry_safe"] is True and r["meta"]["trainable"] is False
        assert "box.max" in r["message"]
        s.destroy(boxes[0])
        s.destroy(s.create())


def test_box_max_holds_for_boxes_that_are_being_made():
    with sg.running("--pool-size", "0", "--box-max", "4") as s:
        status = []
        threads = [threading.Thread(target=lambda: status.append(s.request("POST", "/sg/v1/boxes", {}).status)) for _ in range(16)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert status.count(201) == 4 and status.count(429) == 12, status


def test_hundred_calls_wait_for_one_session_and_are_all_answered(server):
    with server.box() as b:
        out = []
        threads = [threading.Thread(target=lambda i=i: out.append(b.out(f"echo {i}"))) for i in range(100)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert sorted(int(x) for x in out) == list(range(100))


# ---- bad input ----

TERA = {1 << 40: "1t", 16 << 40: "16t"}


@pytest.mark.parametrize("key, flag, most", [("memory", "--box-memory", 16 << 40), ("disk", "--box-disk", 16 << 40),
                                             ("shm", "--box-shm", 1 << 40), ("pids", "--box-pids", 4194304),
                                             ("open_files", "--box-open-files", 1048576), ("cpu", "--box-cpu", 1024)])
def test_a_client_may_ask_for_what_the_configuration_may_say(server, key, flag, most):
    r = server.request("POST", "/sg/v1/boxes", {key: most * 2})
    assert r.status == 400 and f"to {TERA.get(most, most)}" in r["error"]["message"], r
    refused = subprocess.run([sg.BINARY, "serve", flag, str(most * 2), "--home", "/nowhere"], capture_output=True, text=True,
                             timeout=10)
    assert refused.returncode != 0 and f"box.{key}" in refused.stderr, "the configuration has the same limit"


def test_a_box_may_have_the_most_memory_and_processes(server):
    with server.box(memory="16t", pids=4194304) as b:
        limits = b.show()["limits"]
        assert limits["memory_bytes"] == 16 << 40 and limits["pids"] == 4194304 and b.out("echo x") == "x\n"


def test_ttl_of_a_box_and_of_a_session_may_be_a_year(server):
    with server.box(ttl=366 * 86400) as b:
        assert b.show()["ttl_ms"] == 366 * 86400_000
    assert "31622400" in server.request("POST", "/sg/v1/boxes", {"ttl": 367 * 86400})["error"]["message"]
    w = sg.unique()
    assert server.session(w, "bash", ttl=366 * 86400)["session_status"] == "active"
    server.disconnect(w)
    server.session(w, "bash", ttl=367 * 86400, status=400)


DEEP = b'{"labels":' * 100 + b"1" + b"}" * 100


@pytest.mark.parametrize("body, says", [
    ({"memory": "much"}, "memory"), ({"memory": -1}, "memory"), ({"memory": 1e30}, "memory"), ({"memory": "1k"}, "16m to 16t"),
    ({"memory": "17t"}, "16m to 16t"), ({"shm": "2t"}, "64k to 1t"),
    ({"memory": True}, "memory"), ({"memory": "99999999999999999999g"}, "memory"), ({"memory": "512q"}, "memory"),
    ({"memory": "nan"}, "memory"), ({"memory": "inf"}, "memory"), ({"memory": []}, "memory"),
    ({"disk": 0}, "disk"), ({"disk": "1e400"}, "disk"), ({"shm": 1}, "shm"),
    ({"cpu": 0}, "cpu"), ({"cpu": -1}, "cpu"), ({"cpu": "2"}, "cpu"), ({"cpu": 1e308}, "cpu"),
    ({"pids": 0}, "pids"), ({"pids": 1e18}, "pids"), ({"pids": "many"}, "pids"), ({"pids": None, "open_files": 1}, "open_files"),
    ({"network": "half"}, "network"), ({"network": 1}, "network"), ({"sudo": "yes"}, "sudo"), ({"ttl": -5}, "ttl"),
    ({"ttl": "soon"}, "ttl"), ({"ttl": 1e300}, "ttl"), ({"image": 7}, "image"), ({"image": "a\0b"}, "image"),
    ({"image": "/" + "x" * 5000}, "image"), ({"labels": []}, "labels"), ({"labels": {"a": 1}}, "labels.a"),
    ({"labels": {str(i): "x" for i in range(33)}}, "LIMIT_LABELS (32)"), ({"labels": {"a": "x" * 300}}, "LIMIT_LABEL (256"),
    ({"mounts": {}}, "mounts"), ({"mounts": [{}]}, "mounts[0]"), ({"mounts": [{"from": "/tmp"}]}, "mounts[0]"),
    ({"mounts": [{"from": 1, "to": "/x"}]}, "mounts[0].from"), ({"mounts": [{"from": "/a\0b", "to": "/x"}]}, "mounts[0].from"),
    ({"mounts": [{"from": "/tmp", "to": "/x", "mode": "rw"}]}, "mounts[0].mode"),
    ({"mounts": [{"from": "/tmp", "to": f"/x{i}"} for i in range(17)]}, "LIMIT_MOUNTS (16)"), ({"mounts": ["x"]}, "mounts[0]"),
    ({"colour": "red"}, "colour"), ({"box": "own"}, "box"), ([], "object"), ("text", "object"), (7, "object"),
    ({"cold": 1}, "cold"), ({"allow_unenforced": "x"}, "allow_unenforced")])
def test_bad_wish_for_a_box_is_refused_by_name(server, body, says):
    before = {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}
    r = server.request("POST", "/sg/v1/boxes", body)
    assert r.status == 400 and says in r["error"]["message"] and r["error"]["code"], r
    assert {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]} <= before  # those of earlier tests may be ending


@pytest.mark.parametrize("raw", [b"{", b"", b"null x", b'{"a":1,}', b"{'a':1}", b'{"a":01}', b'{"a":1e999}', b'{"a":"\x01"}',
                                 b'{"a":"\\ud800"}', b'\xff\xfe{}', b'{"a":"\xc3("}', DEEP, b"[" * 100_000, b'{"a":NaN}',
                                 b'{"a":1,"a":2}', b'{}{}', b'\xef\xbb\xbf{}'], ids=lambda r: repr(r[:16]))
def test_bad_json_is_refused_on_every_surface_and_harms_nobody(server, raw):
    r = server.request("POST", "/sg/v1/execute", raw=raw)
    assert r.status == 400 and r["error"]["message"], r
    r = server.request("POST", "/api/v1/execute", raw=raw)
    assert r.status == 422 and r["detail"], r
    assert server.get("/health")["status"] == "healthy"


@pytest.mark.parametrize("tool, params, says", [
    ("bash:run", {}, "command"), ("bash:run", {"command": 1}, "command"), ("bash:run", {"command": None}, "command"),
    ("bash:run", {"command": ["ls"]}, "command"), ("bash:run", {"command": "x" * (1 << 20) + "x"}, "1048576"),
    ("bash:run", {"command": "a\0b"}, "command"), ("bash:run", {"command": "true", "timeout": -1}, "timeout"),
    ("bash:run", {"command": "true", "timeout": "1"}, "timeout"), ("bash:run", {"command": "true", "timeout": 1e9}, "timeout"),
    ("bash:run", {"command": "true", "env": []}, "env"), ("bash:run", {"command": "true", "env": {"A": 1}}, "env"),
    ("bash:run", {"command": "true", "env": {"1A": "x"}}, "env"), ("bash:run", {"command": "true", "env": {"A=B": "x"}}, "env"),
    ("bash:run", {"command": "true", "env": {"A": "x\0y"}}, "env"), ("bash:run", {"command": "true", "env": {"": "x"}}, "env"),
    ("bash:run", {"command": "true", "cwd": 5}, "cwd"), ("bash:run", {"command": "true", "cwd": "/a\0b"}, "cwd"),
    ("bash:run", {"command": "true", "cwd": "/" + "x" * 5000}, "4096"), ("bash:run", {"command": "true", "stdin": 5}, "stdin"),
    ("bash:run", {"command": "true", "colour": 1}, "colour"), ("bash:output", {}, "job_id"),
    ("bash:output", {"job_id": "j1", "offset": -1}, "offset"), ("bash:output", {"job_id": "j1", "offset": 1.5}, "offset"),
    ("bash:output", {"job_id": "j1", "wait_ms": 10**12}, "wait_ms"), ("bash:output", {"job_id": "j1", "offset": 10**30}, "offset"),
    ("bash:input", {"data": 1}, "data"), ("bash:input", {"data": "x", "eof": "yes"}, "eof"),
    ("file:read", {}, "path"), ("file:read", {"path": ""}, "path"), ("file:read", {"path": "a\0b"}, "path"),
    ("file:read", {"path": "x" * 5000}, "4096"), ("file:read", {"path": "x", "encoding": "latin-9"}, "encoding"),
    ("file:read", {"path": "x", "start_line": 0}, "start_line"), ("file:read", {"path": "x", "end_line": 10**20}, "end_line"),
    ("file:write", {"path": "x", "content": 5}, "content"), ("file:list", {"max_entries": 0}, "max_entries"),
    ("file:list", {"max_entries": 10**9}, "100000"), ("file:list", {"recursive": "true"}, "recursive"),
    ("probe:echo", {"text": {"a": 1}}, "text"), ("no:tool", {}, "no:tool"), ("", {}, "ool"), ("bash:", {}, "bash:"),
    ("x" * 300, {}, "256")])
def test_bad_parameters_are_invalid_requests_that_name_field_and_limit(server, tool, params, says):
    with server.box() as b:
        r = server.request("POST", f"/sg/v1/boxes/{b.id}/execute", {"tool": tool, "params": params})
        assert 400 <= r.status < 500 and says in r["error"]["message"], r
        if "outcome" in r.json:
            assert r["outcome"] == "invalid_request" and r["data"] is None, r


@pytest.mark.parametrize("body, says", [
    ({}, "tool"), ({"tool": 1}, "tool"), ({"tool": "bash:run", "params": []}, "params"), ({"tool": "bash:run", "params": 1}, "params"),
    ({"tool": "bash:run", "timeout": "x"}, "timeout"), ({"tool": "bash:run", "timeout": -1}, "timeout"),
    ({"tool": "bash:run", "params": {"command": "true"}, "timeout": 86400}, "call.timeout_max"),
    ({"tool": "bash:run", "timeout": 1e300}, "timeout"), ({"tool": "bash:run", "colour": 1}, "colour"),
    ({"tool": "bash:run", "idempotency_key": "x" * 257}, "256"), ({"tool": "bash:run", "trajectory_id": "x" * 65}, "64"),
    ({"tool": "bash:run", "trajectory_id": "a/b", "params": {"command": "true"}}, "trajectory_id"),
    ({"tool": "bash:run", "worker_id": "w", "params": {"command": "true"}}, "worker_id")])
def test_bad_envelope_of_the_own_surface_is_refused_by_name(server, body, says):
    with server.box() as b:
        r = server.request("POST", f"/sg/v1/boxes/{b.id}/execute", body)
        assert r.status == 400 and says in r["error"]["message"], r


@pytest.mark.parametrize("body, field", [
    ({"action": "bash:run"}, "worker_id"), ({"worker_id": "w"}, "action"), ({"worker_id": 1, "action": "x"}, "worker_id"),
    ({"worker_id": "w", "action": 1}, "action"), ({"worker_id": "w", "action": "x", "params": []}, "params"),
    ({"worker_id": "w", "action": "x", "timeout": 1.5}, "timeout"), ({"worker_id": "w", "action": "x", "timeout": "x"}, "timeout"),
    ({"worker_id": "w", "action": "x", "timeout": -1}, "timeout"), ({"worker_id": "w", "action": "x", "timeout": 1e30}, "timeout")])
def test_bad_envelope_of_agentflow_is_422_with_the_field(server, body, field):
    r = server.request("POST", "/api/v1/execute", body)
    assert r.status == 422 and r["detail"][0]["loc"] == ["body", field], r


@pytest.mark.parametrize("worker", ["", "x" * 257, "a\0b"])
def test_bad_worker_is_refused_by_name(server, worker):
    r = server.request("POST", "/api/v1/execute", {"worker_id": worker, "action": "probe:echo", "params": {"text": "x"}})
    assert r.status in (400, 500) and "worker_id" in r["message"], r
    assert r["meta"]["outcome"] == "invalid_request"


@pytest.mark.parametrize("worker", ["é中😀", " ", "../../etc/passwd", "a\nb", "'; drop table steps; --", "%s%n%d", "x" * 256])
def test_any_other_worker_is_taken_as_it_is(server, worker):
    m = server.execute(worker, "bash:run", {"command": "echo x"})["meta"]
    assert server.steps(m["trajectory_id"])[0]["worker"] == worker


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/nowhere", 404), ("POST", "/health", 405), ("PUT", "/sg/v1/boxes", 405), ("GET", "/sg/v1/boxes/../../etc/passwd", 400),
    ("GET", "/sg/v1/boxes/", 200), ("GET", "/sg/v1//boxes", 400), ("GET", "/%2e%2e/", 400), ("DELETE", "/sg/v1/boxes/b-none", 404),
    ("GET", "/sg/v1/boxes/b-none%00x", 400), ("GET", "/sg/v1/boxes/" + "x" * 4000, 404)])
def test_odd_paths(server, method, path, status):
    assert server.request(method, path).status == status
    assert server.get("/health")["status"] == "healthy"


def test_body_beyond_the_cap_is_refused_with_its_name(server):
    r = None
    try:
        r = server.request("POST", "/sg/v1/execute", raw=b" " * ((64 << 20) + 1))
    except sg.GONE:
        pass  # it may hang up before all is sent
    assert r is None or r.status == 413, r
    assert server.get("/health")["status"] == "healthy"


def test_session_configuration_is_checked_as_strictly(server):
    r = server.request("POST", "/api/v1/session/create",
                       {"worker_id": sg.unique(), "resource_type": "bash", "session_config": {"memory": "much"}})
    assert r.status == 400 and "memory" in r["message"], r
    r = server.request("POST", "/api/v1/session/create", {"worker_id": sg.unique(), "resource_type": "none"})
    assert "none" in r["message"] + str(r["data"]), r


def test_boxes_together_weigh_as_much_as_a_process_on_each_processor(server):
    """A single process of the host must not get as much of the machine as all boxes together."""
    cpus = min(os.sysconf("SC_NPROCESSORS_ONLN"), 100)
    found = [int((pathlib.Path(d) / f).read_text()) * by for d in server.cgroup_dirs() for f, by in (("cpu.shares", 1), ("cpu.weight", 1024 / 100))
             if (pathlib.Path(d) / f).exists()]
    assert found == [cpus * 1024]


def test_watchers_may_ask_with_head_and_a_405_says_what_is_allowed(server):
    for path in ("/health", "/ready", "/api/v1/health"):
        r = server.request("HEAD", path)
        assert r.status == 200 and r.body == b"" and int(r.headers["Content-Length"]) > 0, r
    for method, path, allowed in ("PUT", "/sg/v1/boxes", {"GET", "POST"}), ("POST", "/health", {"GET"}), ("PUT", "/v1/shell/exec", {"POST"}):
        r = server.request(method, path)
        assert r.status == 405 and set(r.headers["Allow"].split(", ")) == allowed, r
    assert server.request("GET", "/nowhere").headers["Allow"] is None
