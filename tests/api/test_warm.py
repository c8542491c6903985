"""Python that waits with its modules imported: an interpreter for each context and kernel, with seeds of its own, or
(python.fork) forks of one, and what these share and do not."""

import concurrent.futures
import os
import pathlib
import signal
import time

import pytest

import sg

LOOK = "import sys, os, random; ('decimal' in sys.modules, os.getppid(), hash('sand'), random.random())"

jupyter = pytest.mark.skipif(not pathlib.Path("/usr/share/jupyter/kernels/python3").exists(),
                             reason="python3-ipykernel is not installed")


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1", "--python-warm", "context", "--python-preload", "decimal,six", "--python-fork")
    try:
        s.start()
        yield s
    finally:
        s.end()


def fork_servers(server):
    """Fork servers in this server's boxes and seats, as the host numbers them."""
    like = [p for p in server.box_pids() if "python.py\0serve\0context" in sg.read(f"/proc/{p}/cmdline")]
    parent = {p: int((sg.read(f"/proc/{p}/stat").rpartition(")")[2].split() or [0, 0])[1]) for p in like}
    return [p for p in like if parent[p] not in like]  # not the contexts that it forked


def test_named_secrets_reach_a_context_that_waited_without_them(server):
    assert server.request("PUT", "/sg/v1/secrets/WORD", {"value": "open-sesame"}).status == 200
    sg.wait_for(lambda: fork_servers(server), 60)
    with server.box(secrets={"THE_WORD": "WORD"}) as box:
        r = box.tool("code:execute", {"code": "import os; len(os.environ['THE_WORD'])", "session": "a"}, timeout=60)
        assert r["data"]["result"] == "11", r


def test_contexts_that_are_forks_have_the_hash_seed_of_their_box_and_fresh_ones_their_own(server):
    with server.box() as box:
        warm = {look(box, s)[2] for s in ("w1", "w2", "w3")}
        assert box.tool("code:open", {"session": "f", "fresh": True}, timeout=60)["data"]["created"] is True
        assert len(warm) == 1 and look(box, "f")[2] not in warm


def test_after_a_module_has_changed_contexts_are_forks_of_a_server_that_has_the_new_one(server):
    six = "/usr/lib/python3/dist-packages/six.py"
    if not os.path.exists(six):
        pytest.skip("python3-six is not installed")
    ask = "import sys, os; ('decimal' in sys.modules and 'six' in sys.modules, os.getppid(), getattr(sys.modules.get('six'), 'NEW', 0))"
    with server.box() as box:
        run = lambda session: eval(box.tool("code:execute", {"code": ask, "session": session}, timeout=60)["data"]["result"])  # noqa: E731
        before = run("a")
        assert before[0] is True and before[2] == 0
        assert box.run(f"echo NEW = 1 | sudo tee -a {six} >/dev/null")["data"]["exit_code"] == 0
        run("b")  # finds that the server's is the old one
        sg.wait_for(lambda: run(sg.unique())[0] is True, 60)
        after = run("d")
        assert after[0] is True and after[2] == 1 and after[1] != before[1]
        assert run("a")[::2] == before[::2]  # as it was


def look(box, session):
    r = box.tool("code:execute", {"code": LOOK, "session": session}, timeout=60)
    assert r["outcome"] == "ok", r
    return eval(r["data"]["result"])


def test_a_parked_seat_has_its_fork_server_and_contexts_of_the_box_come_from_it(server):
    parked = sg.wait_for(lambda: fork_servers(server), 60)
    with server.box() as box:
        first, second = look(box, "a"), look(box, "b")
        mine = [p for p in fork_servers(server) if p in server.box_pids(box.id)]
        assert len(mine) == 1 and mine[0] in parked  # the one that was there before the box
        assert first[0] and second[0]  # preloaded
        assert first[1] == second[1] > 1  # children of the same server
        assert first[3] != second[3]  # and yet random numbers of their own


def test_hash_seeds_differ_between_boxes_unless_the_determinism_profile_fixes_them(server):
    def seeds(n, **spec):
        found = []
        for _ in range(n):
            sg.wait_for(lambda: fork_servers(server), 60)  # a warm seat is there to be taken, or to be left alone
            with server.box(**spec) as box:
                found.append(look(box, "a")[2])
        return found

    assert len(set(seeds(3))) == 3
    assert len(set(seeds(2, determinism=True))) == 1


@jupyter
def test_kernels_that_are_forks_share_their_birth_and_nothing_else(server):
    def cell(box, code, session, **more):
        return box.tool("jupyter:execute", {"code": code, "session": session, **more}, timeout=120)

    look = "import os, random\nprint((os.getppid(), hash('sand'), random.random(), os.getpid(), 'decimal' in __import__('sys').modules))"
    with server.box(memory="2g") as box, server.box(memory="2g") as other:
        a, b, c = [eval(cell(x, look, s)["data"]["stdout"]) for x, s in ((box, "a"), (box, "b"), (other, "a"))]
        assert a[:2] == b[:2] and a[0] > 1 and a[4] and b[4]  # children of one server that has the modules
        assert a[1] != c[1] and len({a[2], b[2], c[2]}) == 3 and a[3] != b[3]
        d = cell(box, "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])", "a")["data"]
        assert d["outputs"][-1]["data"]["image/png"].startswith("iVBOR")
        r = cell(box, "import os; os.kill(os.getpid(), 9)", "a")
        assert r["outcome"] == "task_error" and r["message"] == "the kernel ended: ended by SIGKILL"
        assert cell(box, "1", "a")["data"]["kernel_restarted"] is True
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            done = list(pool.map(lambda i: cell(box, f"print({i})", f"k{i}")["data"]["stdout"], range(20)))
        assert done == [f"{i}\n" for i in range(20)]


# ---- an interpreter for each ----

SEEDS = "import os, random, numpy; (os.getpid(), 'decimal' in was, hash('x'), random.random(), numpy.random.random())"


@pytest.fixture(scope="module")
def alone():
    s = sg.Server("--pool-size", "1", "--python-warm", "both", "--python-preload", "decimal,numpy")
    try:
        s.start()
        yield s
    finally:
        s.end()


def waiting(server, box, what, used):
    """The interpreter that waits: none of those that are numbered in used, as the box does; as the host numbers it."""
    def find():
        like = [p for p in server.box_pids(box.id) if f"python.py\0{what}\0" in sg.read(f"/proc/{p}/cmdline")]
        return next((p for p in like if inside(p) not in used), None)

    return sg.wait_for(find)


def inside(pid):
    return next((int(line.split()[-1]) for line in sg.read(f"/proc/{pid}/status").splitlines() if line.startswith("NSpid:")), 0)


def seeds(server, box, tool, names):
    """Of contexts or kernels, the later of which waited for their names: whether modules were imported, and what chance gave them."""
    found = []
    for name in names:
        d = box.tool(tool, {"code": "import sys; was = set(sys.modules)\n" + SEEDS, "session": name}, timeout=120)["data"]
        found.append(eval(d["result"] if tool == "code:execute" else d["outputs"][-1]["data"]["text/plain"]))
        waiting(server, box, "context" if tool == "code:execute" else "kernel", [f[0] for f in found])
    return list(zip(*found))[1:]


@pytest.mark.parametrize("tool", ["code:execute", pytest.param("jupyter:execute", marks=jupyter)])
def test_each_context_and_kernel_has_seeds_of_its_own_with_preloaded_modules_too(alone, tool):
    with alone.box(memory="2g") as box:
        preloaded, *columns = seeds(alone, box, tool, ["a", "b", "c"])
        assert preloaded[1:] == (True, True)
        assert all(len(set(column)) == 3 for column in columns), columns


@pytest.mark.parametrize("tool", ["code:execute", pytest.param("jupyter:execute", marks=jupyter)])
def test_a_determinism_profile_fixes_the_hash_seed_of_each_and_leaves_random_numbers(alone, tool):
    with alone.box(memory="2g", determinism={"hash_seed": 7}) as box, alone.box(memory="2g", determinism={"hash_seed": 7}) as other:
        _, hashes, *numbers = seeds(alone, box, tool, ["a", "b"])
        _, more, *_ = seeds(alone, other, tool, ["a"])
        assert len(set(hashes + more)) == 1
        assert all(len(set(column)) == 2 for column in numbers), numbers


def test_a_context_that_waits_has_imported_the_modules_and_is_replaced_when_one_changes(alone):
    def run(code, session):
        r = box.tool("code:execute", {"code": "import os, sys\n" + code, "session": session}, timeout=60)
        assert r["outcome"] == "ok", r
        return eval(r["data"]["result"])

    with alone.box() as box:
        used = [run("os.getpid()", "first")]
        pid = inside(waiting(alone, box, "context", used))
        assert run("('numpy' in sys.modules, os.getpid())", "a") == (True, pid)
        place = run("import numpy; numpy.__file__", "a")
        assert box.run(f"echo NEW = 1 | sudo tee -a {place} >/dev/null")["data"]["exit_code"] == 0  # while the next reads it
        assert run("import numpy; numpy.NEW", "b") == 1
        used += [pid, run("os.getpid()", "b")]
        waits = inside(waiting(alone, box, "context", used))
        assert box.run(f"echo NEW = 2 | sudo tee -a {place} >/dev/null")["data"]["exit_code"] == 0
        assert run("import numpy; (numpy.NEW, os.getpid() != %d)" % waits, "c") == (2, True)


@jupyter
def test_a_kernel_waits_and_is_the_next_new_one_unless_it_died_or_packages_have_changed(alone):
    def cell(code, session, **more):
        d = box.tool("jupyter:execute", {"code": "import os, sys\n" + code, "session": session, **more}, timeout=120)["data"]
        assert d["session"] == session and d["execution_count"] == 1 and not d["kernel_restarted"] and d["status"] == "ok", d
        used.append(int(d["stdout"].split()[0]))
        return d["stdout"].split()

    def wait():
        return waiting(alone, box, "kernel", used)

    used = []
    with alone.box(memory="2g") as box:
        cell("print(os.getpid())", "first")
        pid = wait()
        assert [s["session"] for s in box.tool("jupyter:list", {})["data"]["sessions"]] == ["first"]  # nobody sees it
        look = "print(os.getpid(), 'numpy' in sys.modules, os.getcwd(), os.environ['PWD'])"
        assert cell(look, "a", cwd="/tmp") == [str(inside(pid)), "True", "/tmp", "/tmp"]
        os.kill(wait(), signal.SIGKILL)
        cell("print(os.getpid())", "b")
        _, site = cell("import site; os.makedirs(site.getusersitepackages(), exist_ok=True)\nprint(os.getpid(), site.getusersitepackages())", "c")
        wait()
        box.tool("file:write", {"path": f"{site}/late.pth", "content": "import sys; sys.late = 7\n"})
        assert cell("print(os.getpid(), sys.late)", "d")[1] == "7"
        place = "/home/gem/.ipython/profile_default/startup/mine.py"
        for session, value in (("e", "1"), ("f", "2")):  # where there were no settings, and where there were others
            wait()
            box.tool("file:write", {"path": place, "content": f"mine = {value}\n"})
            assert cell("print(os.getpid(), mine)", session)[1] == value
        names = {r["session"] for r in box.tool("jupyter:list", {})["data"]["sessions"]}
        assert names == {"first", "a", "b", "c", "d", "e", "f"}


@jupyter
def test_no_kernel_is_made_ready_where_half_of_the_memory_is_used(alone):
    run = lambda code, session: box.tool("jupyter:execute", {"code": code, "session": session}, timeout=120)["outcome"]  # noqa: E731
    kernels = lambda: {p for p in alone.box_pids(box.id) if "python.py\0kernel\0" in sg.read(f"/proc/{p}/cmdline")}  # noqa: E731
    with alone.box(memory="1g") as box:
        assert run("1", "a") == "ok"
        sg.wait_for(lambda: len(kernels()) == 2)
        assert run("b = bytearray(b'x') * (600 << 20)", "a") == "ok"
        before = kernels()
        assert run("1", "b") == "ok" and kernels() == before  # the one that waited before
        time.sleep(3)
        assert kernels() == before
        assert run("del b", "a") == "ok" and run("1", "c") == "ok"
        sg.wait_for(lambda: len(kernels()) == 4)
