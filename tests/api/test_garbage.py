"""What is left behind: layers that nobody needs go, what is needed stays, and roots that were cut short come late."""

import concurrent.futures
import os
import pathlib
import signal

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2", "--gc-grace", "0", "--gc-interval", "0") as s:
        yield s


def snapshot(box, **body):
    return box.server.post(f"/sg/v1/boxes/{box.id}/snapshot", body, 201)


def rooted(server, state):
    return sg.wait_for(lambda: server.get(f"/sg/v1/states/{state}")["root"], 30)


def layers(server):
    return {x for x in os.listdir(pathlib.Path(server.home, "layers"))}


def collect(server, **body):
    return server.post("/sg/v1/gc", body)


def test_layers_of_removed_states_go_and_those_of_others_and_of_living_boxes_stay(server):
    with server.box() as box:
        box.out("head -c 300000 /dev/urandom > /workspace/one")
        one = snapshot(box)
        box.out("head -c 300000 /dev/urandom > /workspace/two; rm /workspace/one")
        two = snapshot(box, name=sg.unique("kept"))
        for s in (one, two):
            rooted(server, s["state"])
        copy = sg.Box(server, server.post(f"/sg/v1/states/{one['state']}/fork", {}, 201)["boxes"][0]["id"])
    server.delete(f"/sg/v1/states/{one['state']}")
    server.get(f"/sg/v1/states/{one['state']}", 404)
    collect(server)
    assert set(one["layers"] + two["layers"]) <= layers(server)  # a living box and a state need them
    server.delete(f"/sg/v1/states/{two['name']}")
    copy_root = copy.out("sha256sum /workspace/one")
    collect(server)
    assert copy.out("sha256sum /workspace/one") == copy_root and set(one["layers"]) <= layers(server)
    server.destroy(copy.id)
    dry = collect(server, dry=True)
    assert dry["layers_removed"] == 1 and set(one["layers"]) <= layers(server)
    done = collect(server)
    assert done["layers_removed"] == 1 and done["removed_bytes"] > 300000
    assert not set(one["layers"] + two["layers"]) & layers(server)
    r = sg.subprocess.run([sg.BINARY, "gc", "--url", server.url, "--dry-run"], capture_output=True, text=True, timeout=30)
    assert r.returncode == 0 and r.stdout.startswith("would remove 0 layers"), r


def test_a_removed_states_step_says_so(server):
    with server.box(state="step") as box:
        r = box.run("echo 1 > /workspace/f")
        server.delete(f"/sg/v1/states/{r['state_id']}")
        e = server.post(f"/sg/v1/boxes/{box.id}/fork", {"step": r["step"]}, 404)
        assert "removed" in e["error"]["message"]


def test_a_budget_drops_nameless_states_of_ended_boxes_and_nothing_else():
    with sg.running("--pool-size", "0", "--gc-grace", "0", "--gc-interval", "0", "--state-budget", "3m") as server:
        with server.box() as box:
            states = []
            for i in range(5):
                box.out(f"head -c 1000000 /dev/urandom > /workspace/f; echo {i} > /workspace/i")
                states.append(snapshot(box, **({"name": "named"} if i == 0 else {}))["state"])
            for s in states:
                rooted(server, s)
            assert collect(server)["states_dropped"] == 0  # the box lives
        done = collect(server)
        left = [s["state"] for s in server.get("/sg/v1/states")["states"]]
        assert done["states_dropped"] >= 2 and done["used_bytes"] <= 3 << 20, done
        assert states[0] in left and states[1] in left and states[4] not in left  # a later one stands on the earlier
        copy = sg.Box(server, server.post("/sg/v1/states/named/fork", {}, 201)["boxes"][0]["id"])
        assert copy.out("cat /workspace/i") == "0\n"


def test_garbage_is_removed_while_boxes_are_snapshotted_and_forked():
    with sg.running("--pool-size", "2", "--gc-grace", "3s", "--gc-interval", "1s") as server:
        def work(i):
            for k in range(6):
                with server.box() as box:
                    box.out(f"echo {i} {k} > /workspace/f")
                    state = snapshot(box)["state"]
                    copy = sg.Box(server, server.post(f"/sg/v1/states/{state}/fork", {}, 201)["boxes"][0]["id"])
                    assert copy.out("cat /workspace/f") == f"{i} {k}\n"
                    assert snapshot(copy)["changed"] is False
                    server.destroy(copy.id)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        for s in server.get("/sg/v1/states")["states"]:
            assert set(s["layers"]) <= layers(server)


def test_snapshots_of_one_box_at_the_same_time_are_taken_one_after_the_other(server):
    with server.box() as box:
        box.out("for i in $(seq 300); do echo $i > /workspace/$i; done")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            done = list(pool.map(lambda i: snapshot(box), range(6)))
        assert sum(s["changed"] for s in done) == 1 and len({tuple(s["layers"]) for s in done}) == 1
        assert len({rooted(server, s["state"]) for s in done}) == 1
        assert box.out("echo alive") == "alive\n"


def test_a_state_of_the_bare_image_has_a_root(server):
    with server.box() as a, server.box() as b:
        roots = {rooted(server, snapshot(x)["state"]) for x in (a, b)}
        assert len(roots) == 1 and roots.pop().startswith("sha256:")


def test_a_root_that_was_cut_short_by_a_kill_is_computed_later():
    with sg.running("--pool-size", "0") as server:
        with server.box() as box:
            box.out("head -c 150000000 /dev/urandom > /workspace/large")
            state = snapshot(box)["state"]
            server.kill_role("supervise")
            want = rooted(server, state)
            assert server.post(f"/sg/v1/boxes/{box.id}/reset", {"state": state})["proved"] is True
            box.out("head -c 150000000 /dev/urandom > /workspace/large")
            second = snapshot(box)["state"]
            server.stop(signal.SIGKILL)
            server.start()
            assert rooted(server, second) not in (None, want)


def test_a_box_that_outlived_the_whole_server_can_be_snapshotted():
    with sg.running("--pool-size", "0") as server:
        with server.box() as box:
            box.out("echo 1 > /workspace/f; echo 2 > /tmp/t")
            first = snapshot(box)["state"]
            box.out("echo 3 > /workspace/g")
            server.stop(signal.SIGKILL)
            server.start()
            second = snapshot(box)
            assert second["changed"] and second["parent"] in (first, None)
            copy = sg.Box(server, server.post(f"/sg/v1/states/{second['state']}/fork", {}, 201)["boxes"][0]["id"])
            assert copy.out("cat /workspace/f /tmp/t /workspace/g") == "1\n2\n3\n"
