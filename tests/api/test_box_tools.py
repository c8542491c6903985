"""The box through time as tools: they are rows of the table, their calls are steps, and a rewind by the API is one, too."""

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def test_the_tools_are_in_the_table_with_their_parameters(server):
    rows = {t["name"]: t for t in server.get("/sg/v1/tools")["tools"]}
    names = {f"box:{x}" for x in ("snapshot", "restore", "reset", "fork", "diff", "checkout", "states")}
    assert names <= set(rows)
    assert set(rows["box:restore"]["parameters"]["properties"]) == {"state", "step", "trajectory", "box"}
    assert "read_only" in rows["box:states"]["flags"] and "needs_box" in rows["box:fork"]["flags"]


def test_a_box_is_snapshotted_restored_compared_and_forked_by_tools_and_each_is_a_step(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        taken = box.tool("box:snapshot", {"name": sg.unique("t")})
        state = taken["data"]["state"]
        assert taken["outcome"] == "ok" and taken["step"] == 2 and taken["state_id"] == state and taken["box_id"] == box.id
        box.out("echo 2 > /workspace/f; touch /workspace/g")
        d = box.tool("box:diff", {"a": state, "text": True})["data"]
        assert d["a"] == state and (d["added"], d["changed"], d["removed"]) == (1, 1, 0)
        assert "-1\n+2\n" in next(r["text"] for r in d["rows"] if r["path"] == "workspace/f")
        files = box.tool("box:checkout", {"state": state})["data"]
        assert [r["path"] for r in files["rows"] if r["type"] == "file"] == ["workspace/f"]
        assert server.request("GET", files["url"]).status == 200
        back = box.tool("box:restore", {"state": taken["data"]["name"]})["data"]
        assert back == {"restored": state, "root": back["root"], "proved": False, "fidelity": "fs+session"}
        assert box.out("ls /workspace") == "f\n"
        made = box.tool("box:fork", {"n": 2, "state": state})["data"]
        assert made["made"] == 2 and [sg.Box(server, b["id"]).out("cat /workspace/f") for b in made["boxes"]] == ["1\n"] * 2
        proved = box.tool("box:reset", {"state": state})["data"]
        assert proved["proved"] is True and proved["restored"] == state
        bare = box.tool("box:reset")["data"]
        assert bare == {"restored": None, "root": bare["root"], "proved": True, "fidelity": "fs"} and bare["root"] != proved["root"]
        assert box.out("ls -A /workspace") == ""
        listed = box.tool("box:states")["data"]["states"]
        assert [s["state"] for s in listed][-1] == state
        done = [s["tool"] for s in server.steps(box.show()["trajectory"])]
        assert [t for t in done if t.startswith("box:")] == [
            "box:snapshot", "box:diff", "box:checkout", "box:restore", "box:fork", "box:reset", "box:reset", "box:states"]
        for b in made["boxes"]:
            server.destroy(b["id"])


def test_a_workers_box_is_found_and_a_worker_without_one_is_told(server):
    worker = sg.unique()
    r = server.execute(worker, "box:snapshot", {}, status=400)
    assert r["code"] != 0 and "has no box" in r["message"], r
    server.session(worker)
    server.execute(worker, "bash:run", {"command": "echo 1 > /workspace/f"})
    state = server.execute(worker, "box:snapshot", {})["data"]["state"]
    server.execute(worker, "bash:run", {"command": "rm /workspace/f"})
    assert server.execute(worker, "box:restore", {"state": state})["code"] == 0
    assert server.execute(worker, "bash:run", {"command": "cat /workspace/f"})["data"]["stdout"] == "1\n"
    batch = server.post("/api/v1/execute/batch", {"worker_id": worker, "parallel": False, "actions": [
        {"action": "box:snapshot", "params": {}}, {"action": "bash:run", "params": {"command": "ls /workspace"}}]})
    assert batch["code"] == 0, batch
    server.disconnect(worker)


@pytest.mark.parametrize("tool,params,code", [
    ("box:restore", {}, 400), ("box:restore", {"state": "s-none"}, 200), ("box:fork", {"n": 0}, 400), ("box:diff", {}, 400),
    ("box:snapshot", {"box": "b-none"}, 200), ("box:snapshot", {"nope": 1}, 400)])
def test_bad_parameters_are_named_and_recorded(server, tool, params, code):
    with server.box() as box:
        r = server.request("POST", f"/sg/v1/boxes/{box.id}/execute", {"tool": tool, "params": params})
        assert r.status == code and r["outcome"] in ("invalid_request", "task_error") and r["message"]


def test_a_restore_by_the_api_is_a_step_that_a_replay_can_follow(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
        box.out("echo 2 > /workspace/f")
        later = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
        r = server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state})
        step = server.steps(box.show()["trajectory"])[-1]
        assert step["tool"] == "box:restore" and step["params"] == {"state": state} and step["step"] == r["step"]
        assert step["observation"]["restored"] == state and step["outcome"] == "ok"
        assert not step["trainable"] and box.tool("box:restore", {"state": state})["trainable"]  # not the agent's doing
        server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state})
        # what a step's files are follows the box back
        for at, want in ((r["step"], "1\n"), (r["step"] - 1, "2\n")):
            copy = server.post(f"/sg/v1/boxes/{box.id}/fork", {"step": at}, 201)
            assert copy["state"] == (state if want == "1\n" else later)
            server.destroy(copy["boxes"][0]["id"])
        server.post(f"/sg/v1/boxes/{box.id}/reset")
        last = server.steps(box.show()["trajectory"])[-1]
        assert last["tool"] == "box:reset"
        assert "reset to its image" in server.post(f"/sg/v1/boxes/{box.id}/fork", {"step": last["step"]}, 404)["error"]["message"]


def test_a_state_remembers_the_settings_of_its_box(server):
    for sudo in (True, False):
        with server.box(sudo=sudo, memory="300m", pids=77) as box:
            box.out("echo 1 > /workspace/f")
            state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
        copy = server.post(f"/sg/v1/states/{state}/fork", {}, 201)["boxes"][0]["id"]
        shown = sg.Box(server, copy).show()
        assert shown["sudo"] is sudo and shown["limits"]["pids"] == 77 and shown["limits"]["memory_bytes"] == 300 << 20
        with server.box(sudo=not sudo) as other:
            r = server.post(f"/sg/v1/boxes/{other.id}/restore", {"state": state}, 400)
            assert "sudo" in r["error"]["message"]
        server.destroy(copy)


def test_a_tampered_state_stays_refused_and_those_that_share_its_layers_must_prove_themselves(server):
    with server.box() as box:
        box.out("echo good > /workspace/payload")
        first = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
        box.out("echo 1 > /workspace/other")
        second = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
        for s in (first, second):
            sg.wait_for(lambda: server.get(f"/sg/v1/states/{s}")["root"], 20)
        [file] = (sg.pathlib.Path(server.home) / "layers").glob(
            server.get(f"/sg/v1/states/{first}")["layers"][0] + "/**/payload")
        file.write_text("evil\n")
        assert "quarantine" in server.post(f"/sg/v1/boxes/{box.id}/reset", {"state": first}, 403)["error"]["message"]
        assert server.get(f"/sg/v1/states/{first}")["quarantined"] is True
        file.write_text("good\n")  # mended or not: what was found once stays refused
        for path in (f"/sg/v1/boxes/{box.id}/restore", f"/sg/v1/boxes/{box.id}/reset", f"/sg/v1/boxes/{box.id}/fork"):
            assert "quarantine" in server.post(path, {"state": first}, 403)["error"]["message"]
        assert server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": second})["proved"] is True
        made = server.post(f"/sg/v1/states/{second}/fork", {}, 201)
        assert made["proved"] is True
        server.destroy(made["boxes"][0]["id"])
        file.write_text("evil\n")
        assert "quarantine" in server.post(f"/sg/v1/states/{second}/fork", {}, 403)["error"]["message"]
        assert box.out("cat /workspace/payload") != ""
