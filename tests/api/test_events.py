"""Events: a trajectory as it happens; a client that comes back misses nothing and gets nothing twice."""

import random
import socket
import threading
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


def path(t):
    return f"/sg/v1/trajectories/{t}/events"


def echo(server, worker, n, **more):
    return [server.execute(worker, "probe:echo", {"text": str(i)}, **more)["meta"] for i in range(n)][-1]


def test_stream_begins_with_what_was_and_goes_on_with_what_happens(server):
    w = sg.unique()
    t = echo(server, w, 3)["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        assert e.status == 200 and e.type.startswith("text/event-stream")
        assert [(x.id, x.name) for x in e.take(3)] == [("1", "step"), ("2", "step"), ("3", "step")]
        echo(server, w, 2)
        assert [x.data["step"] for x in e.take(2)] == [4, 5]


def test_event_says_what_the_log_says(server):
    w = sg.unique()
    t = echo(server, w, 1)["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        e.take(1)
        server.execute(w, "bash:run", {"command": "echo out; exit 3"})
        live = e.next().data
    with sg.Events(server, path(t), last=1) as e:
        later = e.next().data
    row = server.steps(t)[1]
    for k in ("trajectory", "step", "tool", "action", "resource", "params", "state", "outcome", "retry_safe", "trainable",
              "code", "observation", "session", "box", "temporary", "worker", "queued_us", "run_us", "total_us", "cpu_us",
              "peak_bytes", "pids_peak", "disk_used_bytes", "dropped_bytes"):
        assert live[k] == later[k] == row[k], k
    assert live["time"].rstrip("Z") == row["time"].rstrip("Z")


def test_live_and_later_events_have_the_same_members(server):
    w = sg.unique()
    t = echo(server, w, 1)["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        e.take(1)
        echo(server, w, 1, idempotency_key=sg.unique("k"), trace_id="tr")
        live = e.next().data
    row = server.steps(t)[1]
    assert set(live) == set(row) and {k: live[k] for k in live} == {k: row[k] for k in row}


@pytest.mark.parametrize("how", ["header", "query"])
def test_stream_is_resumed_after_the_last_event_id(server, how):
    w = sg.unique()
    t = echo(server, w, 5)["trajectory_id"]
    args = (path(t), 3) if how == "header" else (path(t) + "?after=3", None)
    with sg.Events(server, *args) as e:
        assert [x.id for x in e.take(2)] == ["4", "5"]
        echo(server, w, 1)
        assert e.next().id == "6"


def test_resumed_at_the_end_only_new_events_come(server):
    w = sg.unique()
    t = echo(server, w, 4)["trajectory_id"]
    with sg.Events(server, path(t), last=4) as e:
        echo(server, w, 1)
        assert e.next().id == "5"


def test_stream_of_a_trajectory_that_has_not_begun(server):
    w, name = sg.unique(), sg.unique("future")
    with sg.Events(server, path(name)) as e:
        time.sleep(0.2)
        echo(server, w, 2, trajectory_id=name)
        assert [x.id for x in e.take(2)] == ["1", "2"]


def test_params_with_line_breaks_arrive_whole(server):
    w = sg.unique()
    raw = b'{"worker_id":"' + w.encode() + b'","action":"probe:echo","params":{\n\n "text":\r\n "a\\nb"}\n}'
    t = server.request("POST", "/execute", raw=raw)["meta"]["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        e.take(1)
        server.request("POST", "/execute", raw=raw)
        assert e.next().data["params"] == {"text": "a\nb"}


def test_long_history_is_replayed_in_order(server):
    w = sg.unique()
    t = echo(server, w, 450)["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        assert [int(x.id) for x in e.take(450)] == list(range(1, 451))


def test_history_of_large_steps_reaches_a_client_that_reads(server):
    w = sg.unique()
    for i in range(40):
        m = server.execute(w, "probe:echo", {"text": str(i) + "x" * 1_000_000})["meta"]
    with sg.Events(server, path(m["trajectory_id"])) as e:
        assert [int(x.id) for x in e.take(40)] == list(range(1, 41))


def test_step_larger_than_the_buffer_of_a_stream_is_told(server):
    w = sg.unique()
    server.session(w, "file")
    server.execute(w, "file:write", {"path": "big", "content": "x" * 20_000_000})
    m = server.execute(w, "probe:echo", {"text": "after"})["meta"]
    with sg.Events(server, path(m["trajectory_id"])) as e:
        assert [int(x.id) for x in e.take(2)] == [1, 2]
    server.disconnect(w)


def test_parallel_steps_come_in_order_and_completely(server):
    w = sg.unique()
    t = echo(server, w, 1)["trajectory_id"]
    with sg.Events(server, path(t)) as e:
        threads = [threading.Thread(target=lambda i=i: server.execute(
            w, "bash:run" if i % 3 else "probe:echo", {"command": f"sleep 0.{i % 4}"} if i % 3 else {"text": "x"}))
            for i in range(18)]
        [x.start() for x in threads]
        got = [int(x.id) for x in e.take(19)]
        [x.join() for x in threads]
    assert got == list(range(1, 20))


def test_reconnecting_at_random_misses_nothing_and_repeats_nothing(server):
    w, n = sg.unique(), 150
    t = echo(server, w, 1)["trajectory_id"]
    writer = threading.Thread(target=lambda: echo(server, w, n - 1))
    writer.start()
    seen, rng = [], random.Random(7)
    while len(seen) < n:
        with sg.Events(server, path(t), last=seen[-1] if seen else None) as e:
            for x in e.take(min(rng.randint(1, 20), n - len(seen))):
                seen.append(int(x.id))
    writer.join()
    assert seen == list(range(1, n + 1))


def test_follower_goes_on_over_a_restart_and_a_crash():
    with sg.running("--pool-size", "0") as s:
        w, seen = sg.unique(), []
        t = echo(s, w, 3)["trajectory_id"]
        with sg.Events(s, path(t)) as e:
            seen += [int(x.id) for x in e.take(3)]
            s.kill_role("serve")
            with pytest.raises((EOFError, OSError)):
                e.take(1)
        s.wait_ready()
        with sg.Events(s, path(t), last=seen[-1]) as e:
            echo(s, w, 2)
            seen += [int(x.id) for x in e.take(2)]
        s.restart()
        with sg.Events(s, path(t), last=seen[-1]) as e:
            echo(s, w, 2)
            seen += [int(x.id) for x in e.take(2)]
        assert seen == [1, 2, 3, 4, 5, 6, 7]


def test_step_that_began_before_a_crash_is_told_whole():
    with sg.running("--pool-size", "0") as s:
        w = sg.unique()
        s.session(w, "bash")
        t = s.execute(w, "bash:run", {"command": "true"})["meta"]["trajectory_id"]

        def ask():
            try:
                s.execute(w, "bash:run", {"command": "sleep 2; echo over"}, trace_id="tr")
            except sg.GONE:
                pass
        asker = threading.Thread(target=ask)
        asker.start()
        sg.wait_for(lambda: len(s.steps(t)) == 2)
        s.kill_role("serve")
        s.wait_ready()
        with sg.Events(s, path(t), last=1) as e:
            x = e.next()
        asker.join()
        assert x.id == "2" and x.data["observation"]["stdout"] == "over\n", x
        assert x.data == s.steps(t)[1]
        assert x.data["total_us"] >= x.data["run_us"] >= 1_900_000


def test_stream_does_not_hold_up_the_end_of_the_server():
    with sg.running("--pool-size", "0") as s:
        t = echo(s, sg.unique(), 1)["trajectory_id"]
        with sg.Events(s, path(t)) as e:
            e.take(1)
            begun = time.monotonic()
            s.stop()
            assert time.monotonic() - begun < sg.PATIENCE
        s.start()


def test_many_followers_each_get_everything(server):
    w = sg.unique()
    t = echo(server, w, 1)["trajectory_id"]
    streams = [sg.Events(server, path(t)) for _ in range(40)]
    try:
        [e.take(1) for e in streams]
        echo(server, w, 5)
        for e in streams:
            assert [x.id for x in e.take(5)] == ["2", "3", "4", "5", "6"]
    finally:
        [e.close() for e in streams]


def test_follower_that_does_not_read_holds_up_nobody_and_costs_no_memory():
    with sg.running("--pool-size", "0") as s:
        w = sg.unique()
        t = echo(s, w, 1)["trajectory_id"]
        lazy = socket.create_connection(("127.0.0.1", s.port))
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(f"GET {path(t)} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        time.sleep(0.2)

        def resident():
            return int([x for x in sg.read(f"/proc/{s.role('serve')}/status").splitlines() if x.startswith("VmRSS")][0].split()[1])
        before = resident()
        for _ in range(100):
            s.execute(w, "probe:echo", {"text": "x" * 500_000})
        assert s.execute(w, "probe:echo", {"text": "quick"})["meta"]["step"] == 102
        assert resident() - before < (500_000 if sg.SANITIZED else 100_000), "KiB"
        lazy.close()
        with sg.Events(s, path(t), last=101) as e:
            assert e.next().data["params"] == {"text": "quick"}


@pytest.mark.parametrize("last", ["x", "-1", "99999999999999999999999", "1.5", ""])
def test_odd_last_event_ids_do_no_harm(server, last):
    t = echo(server, sg.unique(), 2)["trajectory_id"]
    with sg.Events(server, path(t), last=last) as e:
        assert e.status in (200, 400)
        if e.status == 200 and last in ("x", "", "-1"):
            assert e.next().id == "1"
