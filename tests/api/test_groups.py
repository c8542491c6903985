"""Exports that put several trajectories side by side (preference pairs, groups, tables), and what reads them back."""

import json
import os
import subprocess
import sys

import pytest

import sg
from test_replay import cli

READER = """
import json, sys
import pyarrow.parquet as pq
t = pq.read_table(sys.argv[1])
print(json.dumps({"types": [str(f.type) for f in t.schema], "rows": t.to_pylist(), "groups": pq.ParquetFile(sys.argv[1]).num_row_groups}))
"""


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


@pytest.fixture(scope="module")
def family(server):
    """One trajectory of three steps, and three forks of its second one, with different rewards."""
    parent = sg.unique("t")
    kids = []
    with server.box(state="step") as b:
        for tool, params in (("bash:run", {"command": "echo plan > f"}), ("file:read", {"path": "f"}),
                             ("bash:run", {"command": "echo parent >> f"})):
            server.tool(b.id, tool, params, trajectory_id=parent)
        forks = server.post(f"/sg/v1/boxes/{b.id}/fork", {"n": 3, "step": 2, "trajectory": parent}, status=201)["boxes"]
        for i, box in enumerate(forks):
            t = sg.unique("t")
            server.tool(box["id"], "bash:run", {"command": f"echo attempt {i}; cat f"}, trajectory_id=t)
            server.request("PATCH", f"/sg/v1/trajectories/{t}", {"reward": [1, 0, 0][i], "tags": ["kid"]})
            kids.append(t)
            server.destroy(box["id"])
    server.request("PATCH", f"/sg/v1/trajectories/{parent}", {"metadata": {"task": "improve f"}, "reward": 0.5})
    return parent, kids


def test_forks_know_where_they_come_from(server, family):
    parent, kids = family
    assert server.get(f"/sg/v1/trajectories/{kids[0]}")["forked_from"]["trajectory"] == parent
    assert server.get(f"/sg/v1/trajectories/{kids[0]}")["forked_from"]["step"] == 2  # though `file:read` made no state
    assert server.get(f"/sg/v1/trajectories/{parent}")["forked_from"] is None


def test_pairs_of_sibling_forks(server, family):
    parent, kids = family
    out = cli(server, "export", parent, *kids, "--format", "preferences", rc=0).stdout
    rows = [json.loads(x) for x in out.splitlines()]
    got = {(r["chosen_id"], r["rejected_id"]) for r in rows}
    assert got == {(kids[0], parent), (kids[0], kids[1]), (kids[0], kids[2]), (parent, kids[1]), (parent, kids[2])}
    r = next(r for r in rows if r["rejected_id"] == kids[1] and r["chosen_id"] == kids[0])
    assert r["prompt"][0] == {"role": "user", "content": "improve f"} and r["prompt"][1]["tool_calls"]
    assert r["chosen_reward"] == 1 and r["rejected_reward"] == 0 and r["tools"][0]["function"]["name"] == "bash_run"
    call = r["chosen"][0]["tool_calls"][0]["function"]
    assert json.loads(call["arguments"])["command"].startswith("echo attempt 0") and "attempt 0" in r["chosen"][1]["content"]
    for r in rows:
        asked = [c for m in r["prompt"] for c in m.get("tool_calls", ())]
        assert [c["function"]["name"] for c in asked] == ["bash_run", "file_read"]  # what all of them had seen
        assert {t["function"]["name"] for t in r["tools"]} == {"bash_run", "file_read"}
        for side in r["chosen"], r["rejected"]:
            ids = [c["id"] for c in asked] + [c["id"] for m in side for c in m.get("tool_calls", ())]
            assert len(set(ids)) == len(ids)
    own = next(r for r in rows if r["rejected_id"] == parent)
    assert "parent" in json.dumps(own["rejected"]) and "parent" not in json.dumps(own["prompt"])


def test_groups_have_advantages(server, family):
    parent, kids = family
    rows = [json.loads(x) for x in cli(server, "export", parent, *kids, "--format", "grpo", rc=0).stdout.splitlines()]
    assert len(rows) == 1 and {c["id"] for c in rows[0]["completions"]} == {parent, *kids}
    adv = {c["id"]: c["advantage"] for c in rows[0]["completions"]}
    assert abs(sum(adv.values())) < 1e-9 and adv[kids[0]] == max(adv.values()) and rows[0]["reward_mean"] == 0.375
    alone = cli(server, "export", parent, "--format", "grpo", rc=0).stdout
    none = cli(server, "export", parent, "--format", "preferences", rc=0)
    assert not none.stdout and "no two attempts" in none.stderr
    assert alone == ""


def test_groups_by_metadata(server):
    ts = []
    for i in range(2):
        t = sg.unique("t")
        with server.box() as b:
            server.tool(b.id, "bash:run", {"command": f"echo {i}"}, trajectory_id=t)
        server.request("PATCH", f"/sg/v1/trajectories/{t}", {"reward": i, "metadata": {"group": "g", "task": "count"}})
        ts.append(t)
    r = json.loads(cli(server, "export", *ts, "--format", "preferences", rc=0).stdout)
    assert (r["chosen_id"], r["rejected_id"]) == (ts[1], ts[0]) and r["prompt"] == [{"role": "user", "content": "count"}]


def test_sharegpt_reads_back_byte_for_byte(server, family, tmp_path):
    parent, _ = family
    file = tmp_path / "s.jsonl"
    cli(server, "export", parent, "--format", "sharegpt", "-o", file, rc=0)
    back = json.loads(cli(server, "import", file, "--json", rc=0).stdout)
    own = json.loads(cli(server, "export", parent, "--format", "sandglass", rc=0).stdout)
    assert [s["params"] for s in back["steps"]] == [s["params"] for s in own["steps"]]
    assert [s["observation"] for s in back["steps"]] == [s["observation"] for s in own["steps"]]
    bare = tmp_path / "b.jsonl"
    cli(server, "export", parent, "--format", "sharegpt", "--bare", "-o", bare, rc=0)
    foreign = json.loads(cli(server, "import", bare, "--json", rc=0).stdout)
    assert [s["tool"] for s in foreign["steps"]] == ["bash:run", "file:read", "bash:run"] and foreign["steps"][1]["text"].strip() == "plan"


def test_parquet_begins_and_ends_as_it_must(server, family, tmp_path):
    file = tmp_path / "t.parquet"
    cli(server, "export", *family[1], "--format", "parquet", "-o", file, rc=0)
    data = file.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    assert data[:4] == data[-4:] == b"PAR1" and 0 < size < len(data) - 12 and b"sandglass" in data[-8 - size:]


def arrow():
    """An interpreter that has pyarrow: ours, or the one that SG_PYARROW names."""
    for python in (os.environ.get("SG_PYARROW"), sys.executable):
        if python and subprocess.run([python, "-c", "import pyarrow.parquet"], capture_output=True).returncode == 0:
            return python
    return None


@pytest.mark.skipif(not arrow(), reason="pyarrow is not installed (SG_PYARROW may name a python that has it)")
def test_parquet_is_read_by_arrow(server, family, tmp_path):
    parent, kids = family
    many = tmp_path / "many.jsonl"
    one = json.loads(cli(server, "export", kids[0], "--format", "sandglass", rc=0).stdout)
    many.write_text("".join(json.dumps({**one, "trajectory": f"m-{i}"}) + "\n" for i in range(300)))
    file = tmp_path / "t.parquet"
    cli(server, "export", parent, *kids, many, "--format", "parquet", "-o", file, rc=0)
    out = json.loads(subprocess.run([arrow(), "-c", READER, file], capture_output=True, check=True, text=True).stdout)
    rows = out["rows"]
    assert len(rows) == 304 and out["groups"] == 3 and [r["id"] for r in rows[:2]] == [parent, kids[0]]
    assert rows[0]["reward"] == 0.5 and rows[1]["reward"] == 1 and rows[300]["reward"] is None
    assert rows[0]["task"] == "improve f" and rows[1]["task"] is None and rows[0]["steps"] == 3 and rows[0]["success"] is True
    assert json.loads(rows[1]["tags"]) == ["kid"] and json.loads(rows[0]["messages"])[0]["content"] == "improve f"
    assert json.loads(rows[303]["metadata"])["sandglass"]["steps"][0]["tool"] == "bash:run"
