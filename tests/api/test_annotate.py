"""What is said about trajectories after the fact, and trajectories that come from elsewhere: both are in the log."""

import json
import pathlib
import signal

import pytest

import sg
from test_replay import cli, replay

DATA = pathlib.Path(__file__).resolve().parents[1] / "unit" / "data" / "replay"


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


def record(server, *commands):
    t = sg.unique("t")
    with server.box() as b:
        for c in commands:
            server.tool(b.id, "bash:run", {"command": c}, trajectory_id=t)
    return t


def patch(server, path, body, status=200):
    r = server.request("PATCH", f"/sg/v1/trajectories/{path}", body)
    assert r.status == status, r
    return r.json


def test_annotations_are_merged_shown_and_survive_a_new_index(server):
    t = record(server, "echo 1", "echo 2")
    patch(server, t, {"tags": ["a", "b"], "reward": 0.5, "note": "first", "metadata": {"task": "x", "n": {"k": 1}}})
    now = patch(server, t, {"reward": 1, "note": None, "metadata": {"n": {"j": 2}}, "pinned": True})["annotations"]
    want = {"tags": ["a", "b"], "reward": 1, "metadata": {"task": "x", "n": {"k": 1, "j": 2}}, "pinned": True}
    assert now == want
    assert patch(server, f"{t}/steps/2", {"reward": -1, "note": "here"})["annotations"] == {"reward": -1, "note": "here"}
    assert "annotations" not in server.steps(t)[0] and server.steps(t)[1]["annotations"]["reward"] == -1
    pid = server.role("recorder")
    for f in pathlib.Path(server.home).glob("index.sqlite*"):
        f.unlink()
    import os
    os.kill(pid, signal.SIGKILL)
    sg.wait_for(lambda: server.pids().get("recorder", pid) != pid)
    assert sg.wait_for(lambda: server.request("GET", f"/sg/v1/trajectories/{t}").json.get("annotations")) == want


def test_lists_and_exports_choose_by_tag_and_reward(server):
    good, bad, other = record(server, "true"), record(server, "false"), record(server, "echo")
    tag = sg.unique("tag")
    patch(server, good, {"tags": [tag], "reward": 1})
    patch(server, bad, {"tags": [tag, "x"], "reward": -0.5})
    ids = lambda q: {x["id"] for x in server.get(f"/sg/v1/trajectories?{q}")["trajectories"]}
    assert ids(f"tag={tag}") == {good, bad} and ids(f"tag={tag}&min_reward=0") == {good} and bad in ids("max_reward=-0.1")
    assert other not in ids("min_reward=-100")
    rows = cli(server, "export", "--all", "--format", "sandglass", "--tag", tag, "--max-reward", "0", rc=0).stdout.splitlines()
    assert [json.loads(r)["trajectory"] for r in rows] == [bad]
    r = server.request("GET", f"/sg/v1/trajectories/export?format=sandglass&tag={tag}&min-reward=0.5")
    assert [json.loads(x)["trajectory"] for x in r.body.splitlines()] == [good]


@pytest.mark.parametrize("body, word", [({}, "body"), ({"reward": "x"}, "reward"), ({"tags": "a"}, "tags"), ({"tags": [""]}, "tags"),
                                        ({"nonsense": 1}, "nonsense"), ({"metadata": []}, "metadata")])
def test_wrong_annotations_are_refused_by_name(server, body, word):
    t = record(server, "true")
    assert word in patch(server, t, body, 400)["error"]["message"]


def test_annotations_of_nothing_are_refused(server):
    assert patch(server, "t-none", {"reward": 1}, 404)
    t = record(server, "true")
    assert patch(server, f"{t}/steps/9", {"reward": 1}, 404)


def test_command_line_adds_and_removes_tags(server):
    t = record(server, "true")
    cli(server, "annotate", t, "--tag", "a", "--tag", "b", "--reward", "0.25", rc=0)
    out = cli(server, "annotate", t, "--untag", "a", "--tag", "c", "--note", "so", rc=0).stdout
    assert json.loads(out) == {"tags": ["b", "c"], "reward": 0.25, "note": "so"}
    cli(server, "annotate", t, "--step", "1", "--reward", "2", rc=0)
    assert server.steps(t)[0]["annotations"] == {"reward": 2}
    cli(server, "annotate", t, rc=2)
    cli(server, "annotate", "t-none", "--reward", "1", rc=5)


def test_a_reward_that_is_no_number_changes_nothing(server):
    t = record(server, "true")
    cli(server, "annotate", t, "--reward", "0.5")
    for bad in "nan", "inf", "1e999", "", "x":
        r = cli(server, "annotate", t, "--reward", bad, rc=2)
        assert "must be a number" in r.stderr
    assert server.get(f"/sg/v1/trajectories/{t}")["annotations"]["reward"] == 0.5


def test_imported_trajectory_is_one_of_ours_and_replays(server, tmp_path):
    t = record(server, "echo one > f", "cat f; false")
    patch(server, t, {"metadata": {"task": "say one"}})
    for format in ("sandglass", "openai", "atif", "knowlyr"):
        file = tmp_path / f"{format}.json"
        cli(server, "export", t, "--format", format, "-o", file, rc=0)
        name = sg.unique("i")
        cli(server, "import", file, "--store", "--id", name, rc=0)
        rows = server.steps(name)
        assert [r["surface"] for r in rows] == ["import"] * 2 and rows[0]["extra"]["imported"] is True, format
        assert replay(server, name, rc=0)["match"] == 1.0, format
        assert server.get(f"/sg/v1/trajectories/{name}")["annotations"]["metadata"].get("task", "say one") == "say one"
        cli(server, "import", file, "--store", "--id", name, rc=4)  # it is there already


def test_import_over_the_api_takes_any_format(server):
    t = record(server, "echo hi")
    text = cli(server, "export", t, "--format", "swe-agent", "--bare", rc=0).stdout
    r = server.request("POST", "/sg/v1/trajectories/import", raw=text)
    assert r.status == 201 and r["format"] == "swe-agent", r
    name = r["trajectories"][0]["id"]
    row = server.steps(name)[0]
    assert row["tool"] == "bash:run" and row["params"]["command"] == "echo hi" and row["extra"]["text"].strip() == "hi"
    assert replay(server, name, rc=0)["success"]
    assert server.request("POST", "/sg/v1/trajectories/import", raw="no format at all").status == 400


def test_steps_are_not_written_into_what_is_there(server):
    t = record(server, "true")
    r = server.request("POST", f"/sg/v1/trajectories/{t}/steps", {"steps": [{"tool": "bash:run", "params": {}}]})
    assert r.status == 409
    r = server.request("POST", f"/sg/v1/trajectories/{sg.unique('i')}/steps", {"steps": [{"tool": "x", "outcome": "maybe"}]})
    assert r.status == 400 and "outcome" in r["error"]["message"]


def test_prune_forgets_the_old_but_never_what_is_pinned_open_or_tagged():
    with sg.running() as server:
        def forget_later():
            w, t = sg.unique("w"), sg.unique("t")
            server.execute(w, "probe_shared:count", {}, trajectory_id=t)
            server.execute(w, "probe_shared:count", {}, trajectory_id=sg.unique("next"))  # t is nobody's now
            return t
        old = [forget_later() for _ in range(4)]
        patch(server, old[0], {"pinned": True})
        patch(server, old[1], {"tags": ["golden"]})
        open_one = sg.unique("t")
        server.execute(sg.unique("w"), "probe_shared:count", {}, trajectory_id=open_one)
        dry = cli(server, "prune", "--keep", "1", "--keep-tag", "golden", "--dry-run", rc=0).stdout.split()
        assert set(old[2:]) <= set(dry) and not set(old[:2]) & set(dry)
        cli(server, "prune", "--older-than", "1h", rc=0)
        assert server.steps(old[2])
        cli(server, "prune", "--keep", "1", "--keep-tag", "golden", rc=0)
        ids = {x["id"] for x in server.get("/sg/v1/trajectories?limit=500")["trajectories"]}
        assert set(old[:2]) <= ids and not set(old[2:]) & ids and open_one in ids
        assert server.request("GET", f"/sg/v1/trajectories/{old[2]}/steps").status == 404
        assert server.request("DELETE", f"/sg/v1/trajectories/{old[0]}").status == 409  # pinned
        assert server.request("DELETE", f"/sg/v1/trajectories/{open_one}").status == 409
        cli(server, "prune", rc=2)
        again = server.execute(sg.unique("w"), "probe_shared:count", {}, trajectory_id=old[2])
        assert again["meta"]["step"] == 1  # the name is free
        server.restart()
        assert {x["id"] for x in server.get("/sg/v1/trajectories?limit=500")["trajectories"]} == ids | {old[2]}


def test_retention_of_the_configuration_is_kept_by_itself():
    with sg.running("--retention-count", "2", "--retention-keep-tags", "golden") as server:
        for i in range(3):
            server.request("POST", f"/sg/v1/trajectories/i-{i}/steps", {"steps": [{"tool": "bash:run", "params": {}}]})
        patch(server, "i-0", {"tags": ["golden"]})
        server.request("POST", "/sg/v1/trajectories/i-3/steps", {"steps": [{"tool": "bash:run", "params": {}}]})
        server.restart()  # it looks when it begins, and then every hour
        left = lambda: {x["id"] for x in server.get("/sg/v1/trajectories")["trajectories"]}
        sg.wait_for(lambda: left() == {"i-0", "i-2", "i-3"}, 20)
