"""Seats that wait with a Python that has imported already (python.warm), and what their forks share and do not."""

import os

import pytest

import sg

LOOK = "import sys, os, random; ('decimal' in sys.modules, os.getppid(), hash('sand'), random.random())"


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1", "--python-warm", "context", "--python-preload", "decimal,six")
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


def test_contexts_with_preloaded_modules_have_the_hash_seed_of_their_box_and_fresh_ones_their_own(server):
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
