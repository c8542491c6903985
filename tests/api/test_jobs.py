"""Heavy work over the API: replays are jobs with progress and a report, exports are streams; both run in processes of
their own, which the server bounds and ends."""

import json
import os
import signal
import subprocess
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


def record(server, commands, **spec):
    t = sg.unique("t")
    with server.box(**spec) as b:
        for c in commands:
            server.tool(b.id, "bash:run", {"command": c}, status=None, trajectory_id=t)
    return t


def finished(server, job):
    return sg.wait_for(lambda: (lambda j: j if j["state"] != "running" else None)(server.get(f"/sg/v1/jobs/{job}")), 60)


def test_replay_is_a_job_with_progress_and_a_report(server):
    t = record(server, ["echo a > f", "cat f", "date +%N"])
    j = server.post(f"/sg/v1/trajectories/{t}/replay", {}, status=202)
    assert j["state"] == "running" and j["job"].startswith("j-") and j["report"] is None
    done = finished(server, j["job"])
    assert done["state"] == "done" and done["progress"] == {"done": 3, "total": 3} and done["exit_code"] == 0
    r = done["report"]
    assert r["trajectory"] == t and [d["class"] for d in r["details"]] == ["identical", "identical", "nondeterministic"]
    assert [x["job"] for x in server.get("/sg/v1/jobs")["jobs"]][0] == j["job"]
    strict = server.post(f"/sg/v1/trajectories/{t}/replay", {"verify": True, "min_match": 0.9, "once": True}, status=202)
    done = finished(server, strict["job"])
    assert done["exit_code"] == 1 and done["report"]["verified"] is False and done["state"] == "done"


def test_wrong_requests_are_refused_by_name(server):
    t = record(server, ["true"])
    bad = lambda body, path=t: server.request("POST", f"/sg/v1/trajectories/{path}/replay", body)
    assert "min_match" in bad({"min_match": 2})["error"]["message"]
    assert "nonsense" in bad({"nonsense": 1})["error"]["message"]
    assert bad({}, "--help").status == 404
    assert "t-none" in bad({}, "t-none")["error"]["message"]
    assert server.request("GET", "/sg/v1/jobs/j-none").status == 404
    assert "format" in server.request("GET", f"/sg/v1/trajectories/{t}/export?format=xml")["error"]["message"]
    assert server.request("GET", "/sg/v1/trajectories/t-none/export?format=atif").status == 404


def test_jobs_are_bounded_and_can_be_ended(server):
    t = record(server, ["true"])
    with server.box() as b:
        slow = sg.unique("t")
        server.tool(b.id, "bash:run", {"command": "[ -e once ] && sleep 60; touch once"}, trajectory_id=slow)
        ids = []
        for _ in range(4):
            ids.append(server.post(f"/sg/v1/trajectories/{slow}/replay", {"on": b.id}, status=202)["job"])
        full = server.request("POST", f"/sg/v1/trajectories/{t}/replay", {})
        assert full.status == 429 and "LIMIT_JOBS" in full["error"]["message"]
        for i in ids:
            server.delete(f"/sg/v1/jobs/{i}", status=202)
        server.destroy(b.id)
        for i in ids:
            assert finished(server, i)["state"] in ("failed", "done")
    assert server.post(f"/sg/v1/trajectories/{t}/replay", {}, status=202)


def test_export_streams_one_and_all(server):
    ts = [record(server, [f"echo {i}"]) for i in range(3)]
    one = server.request("GET", f"/sg/v1/trajectories/{ts[0]}/export?format=openai")
    assert one.status == 200 and json.loads(one.body)["messages"]
    same = subprocess.run([sg.BINARY, "export", ts[0], "--format", "openai", "--url", server.url], capture_output=True)
    assert same.stdout == one.body
    rows = [json.loads(x) for x in server.request("GET", "/sg/v1/trajectories/export?format=sandglass").body.splitlines()]
    assert set(ts) <= {r["trajectory"] for r in rows}
    only = server.request("GET", f"/sg/v1/trajectories/export?format=sandglass&id={ts[1]}")
    assert json.loads(only.body)["trajectory"] == ts[1]


def test_killed_export_leaves_no_half_file(server, tmp_path):
    t = record(server, [f"seq {i} 20000" for i in range(12)])
    target = tmp_path / "out.json"
    whole = subprocess.run([sg.BINARY, "export", t, "--format", "sandglass", "--url", server.url], capture_output=True).stdout
    for i in range(12):
        p = subprocess.Popen([sg.BINARY, "export", t, "--format", "sandglass", "--url", server.url, "-o", str(target)])
        time.sleep(0.004 * i)
        p.send_signal(signal.SIGKILL)
        p.wait()
        if target.exists():
            assert target.read_bytes() == whole
            target.unlink()
        left = os.listdir(tmp_path)
        assert all((tmp_path / f).read_bytes() == whole for f in left), left  # under its own name, and complete
        for f in left:
            (tmp_path / f).unlink()
    subprocess.run([sg.BINARY, "export", t, "--format", "sandglass", "--url", server.url, "-o", str(target)], check=True)
    assert target.read_bytes() == whole and os.listdir(tmp_path) == ["out.json"]


def test_replay_export_and_annotate_are_tools(server):
    w, t = sg.unique("w"), record(server, ["echo a", "date +%N"])
    r = server.execute(w, "trajectory:replay", {"trajectory": t, "min_match": 0.4})
    assert r["data"]["report"]["trajectory"] == t and r["data"]["report"]["counts"]["identical"] == 1 and r["code"] == 0
    assert r["data"]["report"]["verified"] is True
    e = server.execute(w, "trajectory:export", {"trajectory": t, "format": "openai"})
    assert json.loads(e["data"]["text"])["messages"] and e["data"]["bytes"] == len(e["data"]["text"].encode())
    n = server.execute(w, "trajectory:annotate", {"trajectory": t, "step": 1, "tags": ["x"], "note": "so"})
    assert n["data"]["annotations"] == {"tags": ["x"], "note": "so"} == server.steps(t)[0]["annotations"]
    own = server.execute(w, "trajectory:annotate", {"metadata": {"k": 1}})
    assert own["data"]["trajectory"] == own["meta"]["trajectory_id"]
    assert "format" in server.execute(w, "trajectory:export", {"trajectory": t, "format": "xml"}, status=None)["message"]
    assert server.execute(w, "trajectory:export", {"trajectory": "t-none", "format": "atif"}, status=None)["code"] == 4001
    assert "max_bytes" in server.execute(w, "trajectory:export", {"trajectory": t, "format": "atif", "max_bytes": 9}, status=None)["message"]
    assert server.execute(w, "trajectory:annotate", {"trajectory": t, "tags": "x"}, status=None)["code"] != 0


def test_a_replay_of_what_is_not_there_is_not_begun(server):
    before = len(server.get("/sg/v1/jobs")["jobs"])
    assert "t-none" in server.post("/sg/v1/trajectories/t-none/replay", {}, status=404)["error"]["message"]
    t = record(server, ["true"])
    assert "b-none" in server.post(f"/sg/v1/trajectories/{t}/replay", {"on": "b-none"}, status=404)["error"]["message"]
    assert len(server.get("/sg/v1/jobs")["jobs"]) == before
