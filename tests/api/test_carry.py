"""The variables of interpreters through states: a fork, a restored box and a fork of a fork have them."""

import concurrent.futures
import pathlib

import pytest

import sg

jupyter = pytest.mark.skipif(not pathlib.Path("/usr/share/jupyter/kernels/python3").exists(),
                             reason="python3-ipykernel is not installed")

DEFINITIONS = """
import collections, dataclasses, enum, functools, math, os, sys, threading, socket
def area(r): return math.pi * r * r
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up
up = counter(); up()
square = lambda x, y=2: x ** y
@dataclasses.dataclass
class Point:
    x: int
    tags: list = dataclasses.field(default_factory=list)
class Far(Point):
    @property
    def far(self): return self.x * 100
class Color(enum.Enum):
    RED = 1
    def low(self): return self.name.lower()
Pair = collections.namedtuple("Pair", "a b")
@functools.lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
p, far, color, pair, shared = Point(3), Far(7), Color.RED, Pair(1, 2), []
both = [shared, shared]
file, lock, sock, gen = open("/dev/null"), threading.Lock(), socket.socket(), (i for i in ())
threading.Thread(target=threading.Event().wait, name="beside", daemon=True).start()
os.chdir("/tmp"); os.environ["MINE"] = "yes"
"""
CHECK = ("[up(), square(3), far.far, p == Point(3), color is Color.RED, color.low(), pair == Pair(1, 2), fib(30), "
         "both[0] is both[1], round(area(1), 2), os.getcwd(), os.environ['MINE']]")
RIGHT = "[2, 9, 700, True, True, 'red', True, 832040, True, 3.14, '/tmp', 'yes']"
LOST = ["file", "gen", "lock", "sock", "thread beside"]


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="768m", disk="64m") as b:
        yield b


def run(server, box, code, outcome="ok", session="a", **params):
    r = server.tool(box, "code:execute", {"code": code, "session": session, **params}, timeout=120)
    assert r["outcome"] == outcome, r
    return r["data"]


def names(lost):
    return sorted(line.split(":")[0] for line in lost)


def row_of(said, session):
    return next(s for s in said["sessions"] if s["session"] == session)


def test_a_fork_has_the_variables_of_a_python_context_and_says_what_it_has_not(box, server):
    run(server, box.id, DEFINITIONS)
    run(server, box.id, "var z = 1", session="js", language="javascript")
    run(server, box.id, "z=1", session="sh", language="bash")
    made = server.post(f"/sg/v1/boxes/{box.id}/fork", {"n": 2}, status=201)
    assert made["fidelity"] == "fs+session"
    row = row_of(made, "a")
    assert row["carried"] is True and names(row["lost"]) == LOST and "socket" in str(row["lost"])
    assert row_of(made, "js")["carried"] is False and row_of(made, "js")["reason"]
    assert row_of(made, "sh")["carried"] is False
    first, second = (b["id"] for b in made["boxes"])
    try:
        listed = server.tool(first, "code:contexts", {})["data"]["sessions"]
        assert [(s["session"], s["language"]) for s in listed] == [("a", "python")]
        d = run(server, first, CHECK)
        assert d["result"] == RIGHT and d["carried"] is True and names(d["lost"]) == LOST and not d["restarted"]
        d = run(server, first, "up()")
        assert d["result"] == "3" and not d["carried"] and "lost" not in d
        # the original and the other copy know nothing of it
        assert run(server, box.id, "up()")["result"] == "2"
        d = run(server, second, "area('x')", "task_error")
        assert d["carried"] is True and "def area(r): return math.pi * r * r" in d["stderr"]  # with its source
    finally:
        server.destroy(first)
        server.destroy(second)


def test_restore_gives_back_the_variables_of_that_state_and_a_fork_of_a_fork_has_them(box, server):
    run(server, box.id, "v = 1", session="r")
    one = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, status=201)
    assert row_of(one, "r")["carried"] is True
    run(server, box.id, "v = 2\nw = 5", session="r")
    two = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, status=201)
    back = server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": one["state"]})
    assert back["fidelity"] == "fs+session"
    assert run(server, box.id, "(v, 'w' in globals())", session="r")["result"] == "(1, False)"
    server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": two["state"]})
    assert run(server, box.id, "(v, w)", session="r")["result"] == "(2, 5)"
    child = server.post("/sg/v1/states/%s/fork" % one["state"], {}, status=201)["boxes"][0]["id"]
    grandchild = None
    try:  # nothing ran in the child: its own child has what it was to begin with
        grandchild = server.post(f"/sg/v1/boxes/{child}/fork", {}, status=201)["boxes"][0]["id"]
        assert run(server, grandchild, "v", session="r")["result"] == "1"
        assert run(server, child, "v", session="r")["result"] == "1"
    finally:
        server.destroy(child)
        if grandchild:
            server.destroy(grandchild)


def test_every_step_has_its_own_variables_where_states_are_kept(server):
    with server.box(memory="512m", disk="64m", state="step") as b:
        for i in (1, 2, 3):
            run(server, b.id, f"n = {i}")
        server.post(f"/sg/v1/boxes/{b.id}/restore", {"step": 2})
        assert run(server, b.id, "n")["result"] == "2"


def test_a_context_that_runs_code_is_not_carried_and_goes_on(box, server):
    run(server, box.id, "q = 1", session="busy")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(server.tool, box.id, "code:execute",
                           {"code": "import time\nwhile q: time.sleep(0.02)", "session": "busy"}, timeout=100)
        try:
            sg.wait_for(lambda: any(s["session"] == "busy" and s["status"] == "busy"
                                    for s in server.tool(box.id, "code:contexts", {})["data"]["sessions"]), 60)
            made = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, status=201)
        finally:
            server.tool(box.id, "code:stop", {"session": "busy"})
        row = row_of(made, "busy")
        assert row["carried"] is False and row["reason"] == "it is running code"
        assert call.result()["data"]["status"] == "interrupted"
    assert run(server, box.id, "q", session="busy")["result"] == "1"


def test_variables_that_are_too_large_or_hostile_are_left_out_and_the_rest_is_carried(box, server):
    run(server, box.id, "class Bad:\n    def __reduce__(self): raise ValueError('no\\nmore')\n"
        "bad, big, small = Bad(), bytes(30 << 20), 7", session="x")
    made = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, status=201)
    row, new = row_of(made, "x"), made["boxes"][0]["id"]
    try:
        assert names(row["lost"]) == ["bad", "big"] and "24 MiB" in str(row["lost"])
        assert run(server, new, "small", session="x")["result"] == "7"
    finally:
        server.destroy(new)


def test_a_fork_gets_its_variables_after_a_restart_of_the_server_too(box, server):
    run(server, box.id, "kept = 'yes'", session="k")
    new = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, status=201)["boxes"][0]["id"]
    try:
        server.kill_role("serve")
        server.wait_ready(60)
        assert run(server, new, "kept", session="k")["result"] == "'yes'"
        server.tool(new, "code:end", {"session": "k"})
        server.kill_role("serve")
        server.wait_ready(60)  # what was ended stays so
        assert run(server, new, "'kept' in globals()", session="k")["result"] == "False"
    finally:
        server.destroy(new)


@jupyter
def test_a_fork_has_the_variables_of_a_jupyter_kernel(box, server):
    def cell(where, code, **params):
        r = server.tool(where, "jupyter:execute", {"code": code, "session": "k", **params}, timeout=180)
        assert r["outcome"] == "ok", r
        return r["data"]

    def value(d):
        return next(o["data"]["text/plain"] for o in d["outputs"] if o["output_type"] == "execute_result")

    cell(box.id, DEFINITIONS)
    made = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, status=201)
    row, new = row_of(made, "k"), made["boxes"][0]["id"]
    try:
        assert row["kind"] == "jupyter" and row["carried"] is True and names(row["lost"]) == LOST
        d = cell(new, CHECK)
        assert value(d).replace("\n", "") == RIGHT and d["carried"] is True and d["execution_count"] == 2
        assert value(cell(new, "In[-1][:4], len(Out)")) == "('In[-', 1)"  # a history of its own
    finally:
        server.destroy(new)
