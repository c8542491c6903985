"""kill -9 of the server's processes while states are taken, copied, merged and removed, at random points, in a loop: every
state that was answered for is whole afterwards, none is half there, and no layer stays that nobody needs.

STATE_KILL_ROUNDS (6) and STATE_KILL_SEED make it longer and other."""

import contextlib
import os
import pathlib
import random
import signal
import threading
import time

import sg

ROUNDS = int(os.environ.get("STATE_KILL_ROUNDS", "6"))
SEED = int(os.environ.get("STATE_KILL_SEED", "1"))


def attempt(server, method, path, body=None):
    """None: the connection broke, or the server says that something of its own is gone."""
    try:
        r = server.request(method, path, body, timeout=30)
    except sg.GONE:
        return None
    return r.json if r.status < 300 else None


def insist(server, method, path, body=None, seconds=30):
    return sg.wait_for(lambda: attempt(server, method, path, body), seconds, 0.05)


def children(server):
    with contextlib.suppress(AssertionError, KeyError):
        pid = server.role("supervise")
        return {int(p) for p in sg.read(f"/proc/{pid}/task/{pid}/children").split()}
    return set()


def kill_one(server, rng, before=()):
    """A role, or a process that supervise has started since: one that seals, hashes, merges, flattens or sweeps."""
    victim = rng.choice(("supervise", "supervise", "serve", "recorder", "worker", "worker"))
    young = sorted(children(server) - set(before))
    if victim != "worker" or not young:
        server.kill_role("supervise" if victim == "worker" else victim)
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(young), signal.SIGKILL)


def layers_needed(server):
    needed, after = set(), None
    while True:
        page = insist(server, "GET", "/sg/v1/states" + (f"?after={after}" if after else ""))
        needed.update(x for s in page["states"] for x in s["layers"])
        after = page["next"]
        if not after:
            return needed


def nothing_is_left(server):
    """Without boxes, and after the grace time, there are the layers that states name and no others."""
    for b in insist(server, "GET", "/sg/v1/boxes")["boxes"]:
        insist(server, "DELETE", f"/sg/v1/boxes/{b['id']}")
    there = lambda: set(os.listdir(pathlib.Path(server.home, "layers")))

    def clean():
        insist(server, "POST", "/sg/v1/gc", {})
        return there() == layers_needed(server)

    sg.wait_for(clean, 60, 0.5)


def worker(server, box, stop, answered, i):
    n = 0
    while not stop.is_set():
        n += 1
        text = f"{i}-{n}"
        if not attempt(server, "POST", f"/sg/v1/boxes/{box}/execute", {
                "tool": "bash:run", "params": {"command": f"echo {text} > /workspace/f; echo {text} > /workspace/g{n % 5}"}}):
            continue
        state = attempt(server, "POST", f"/sg/v1/boxes/{box}/snapshot", {})
        if state:
            answered[state["state"]] = text
        if n % 4 == 0 and state:
            r = attempt(server, "POST", f"/sg/v1/states/{state['state']}/fork", {})
            for b in r["boxes"] if r else ():
                if b["id"]:
                    attempt(server, "DELETE", f"/sg/v1/boxes/{b['id']}")
        if n % 5 == 0:
            attempt(server, "POST", "/sg/v1/gc", {})


def check(server, answered, rng):
    """Every state that was answered for has a root, and its files are those of the moment it was taken."""
    listed, after = {}, None
    while True:
        page = insist(server, "GET", "/sg/v1/states" + (f"?after={after}" if after else ""))
        listed.update({s["state"]: s for s in page["states"]})
        after = page["next"]
        if not after:
            break
    assert set(answered) <= set(listed)
    present = set(os.listdir(pathlib.Path(server.home, "layers")))
    for s in listed.values():
        assert set(s["layers"]) <= present, s
    for state in rng.sample(sorted(answered), min(6, len(answered))):
        root = sg.wait_for(lambda: (attempt(server, "GET", f"/sg/v1/states/{state}") or {}).get("root"), 60, 0.1)
        made = insist(server, "POST", f"/sg/v1/states/{state}/fork", {})
        copy = sg.Box(server, made["boxes"][0]["id"])
        assert copy.out("cat /workspace/f") == answered[state] + "\n"
        r = server.post(f"/sg/v1/boxes/{copy.id}/reset", {"state": state})
        assert r["proved"] is True and r["root"] == root
        server.destroy(copy.id)


def test_no_kill_loses_a_state_or_leaves_a_layer():
    rng = random.Random(SEED)
    with sg.running("--pool-size", "1", "--gc-grace", "2s", "--gc-interval", "0") as server:
        boxes = [server.create() for _ in range(2)]
        answered = {}
        for _ in range(ROUNDS):
            stop = threading.Event()
            threads = [threading.Thread(target=worker, args=(server, b, stop, answered, i)) for i, b in enumerate(boxes)]
            for t in threads:
                t.start()
            parked = children(server)
            for _ in range(2):
                time.sleep(rng.uniform(0.05, 1.2))
                kill_one(server, rng, parked)
            stop.set()
            for t in threads:
                t.join()
            server.wait_ready()
            check(server, answered, rng)
        assert len(answered) > ROUNDS
        nothing_is_left(server)


DEEP = 24  # layers below a box from which on they are made one (FLATTEN_BELOW)


def test_no_kill_during_flattening_loses_a_file_or_leaves_a_layer():
    rng = random.Random(SEED)
    with sg.running("--pool-size", "1", "--gc-grace", "1s", "--gc-interval", "0") as server:
        with server.box() as box:
            for n in range(DEEP):  # each restore puts the layers so far below the box
                box.run(f"mkdir /workspace/d{n}; cd /workspace/d{n}; for i in $(seq 40); do echo {n}-$i > f$i; done")
                state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, status=201)
                server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state["state"]})
        assert len(state["layers"]) == DEEP
        names = "cd /workspace; find . -type f | LC_ALL=C sort | xargs cat | sha256sum"
        flattened, took = 0, 1.0
        for n in range(ROUNDS // 2 + 1):
            made = insist(server, "POST", f"/sg/v1/states/{state['state']}/fork", {})
            copy = sg.Box(server, made["boxes"][0]["id"])
            copy.run(f"rm /workspace/d3/f1; echo {n} > /workspace/mine")
            want, parked, begun = copy.out(names), children(server), time.monotonic()
            taken = server.post(f"/sg/v1/boxes/{copy.id}/snapshot", {}, status=201)  # and behind the answer, one of all
            if n == 0:  # how long it takes when nobody disturbs it
                sg.wait_for(lambda: len(server.post(f"/sg/v1/boxes/{copy.id}/snapshot", {}, status=201)["layers"]) < DEEP, 60, 0.01)
                took = time.monotonic() - begun
            else:
                time.sleep(rng.uniform(0, took))
                kill_one(server, rng, parked)
            server.wait_ready()
            insist(server, "POST", f"/sg/v1/boxes/{copy.id}/execute", {"tool": "bash:run", "params": {"command": "echo more > /workspace/more"}})
            later = insist(server, "POST", f"/sg/v1/boxes/{copy.id}/snapshot", {})
            flattened += len(later["layers"]) < DEEP
            for s, extra in ((taken, ""), (later, "more\n")):
                sg.wait_for(lambda: (attempt(server, "GET", f"/sg/v1/states/{s['state']}") or {}).get("root"), 60, 0.1)
                again = sg.Box(server, insist(server, "POST", f"/sg/v1/states/{s['state']}/fork", {})["boxes"][0]["id"])
                assert again.out("cat /workspace/more 2>/dev/null; rm -f /workspace/more") == extra
                assert again.out(names) == want
                assert server.post(f"/sg/v1/boxes/{again.id}/reset", {"state": s["state"]})["proved"] is True
                server.destroy(again.id)
            insist(server, "DELETE", f"/sg/v1/boxes/{copy.id}")
        assert flattened > 0
        nothing_is_left(server)
