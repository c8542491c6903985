"""Replaying trajectories against a real server: no false alarms, planted divergences found and classified."""

import json
import os
import pathlib
import subprocess

import pytest

import sg

DATA = pathlib.Path(__file__).resolve().parents[1] / "unit" / "data" / "replay"


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


def cli(server, *args, rc=None, stdin=None):
    env = dict(os.environ, SANDGLASS_URL=server.url, NO_COLOR="1")
    r = subprocess.run([sg.BINARY, *map(str, args)], capture_output=True, text=True, env=env, input=stdin, timeout=300)
    assert rc is None or r.returncode == rc, (r.returncode, r.stdout, r.stderr)
    return r


def replay(server, *args, rc=None):
    """The result as JSON: one object per trajectory, here the only one."""
    return json.loads(cli(server, "replay", "--json", *args, rc=rc).stdout)


def record(server, commands, prepare=(), **spec):
    """Runs commands in a new box; what `prepare` does is in the box, but not in the trajectory."""
    name = sg.unique("t")
    with server.box(**spec) as box:
        for command in prepare:
            server.tool(box.id, "bash:run", {"command": command}, trajectory_id=sg.unique("prep"))
        for step in commands:
            tool, params = ("bash:run", {"command": step}) if isinstance(step, str) else step
            server.tool(box.id, tool, params, status=None, trajectory_id=name)
    return name


def boxes(server):
    return {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}


SCRIPT = [
    "mkdir -p work && cd work && git init -q repo && cd repo && git config user.name a && git config user.email a@b",
    ("file:write", {"path": "/home/gem/work/repo/main.c", "content": "int main(void)\n{\n    return retrun;\n}\n"}),
    "git add -A && git commit -m first",
    "gcc -o main main.c; echo status $?",
    ("file:read", {"path": "/home/gem/work/repo/main.c", "start_line": 3, "end_line": 3}),
    "sed -i s/retrun/0/ main.c && git diff",
    "gcc -o main main.c && ./main && echo fine",
    "git commit -qam second && git log --oneline",
    "date; date +%s; mktemp; mktemp -d",
    "sleep 0.2 & echo started $!; wait",
    "python3 -c 'print(object())'",
    "python3 -c 'print({str(i) for i in range(9)})'",
    "python3 -c 'import time, uuid; print(uuid.uuid4()); print(\"took %.4f seconds\" % time.perf_counter())'",
    "time true",
    "ls -la --time-style=full-iso . | tail -n +2",
    "cat /nonexistent",
    ("file:list", {"path": "/home/gem/work/repo"}),
    "export COLOUR=blue; cd /tmp; echo $$",
    "echo $COLOUR; pwd; false",
    ("file:read", {"path": "/nope"}),
    ("no:such", {}),
    "seq 1 50000 | sha256sum; seq 1 50000",
    "ls -la /; uptime; free; cat /proc/loadavg; head -5 /proc/meminfo",
    ("code:execute", {"code": "print(1)", "language": "python"}),
    ("jupyter:execute", {"code": "1 + 1"}),
    ("jupyter:list", {}),
]


def test_ten_runs_without_a_false_alarm(server):
    name = record(server, SCRIPT)
    before = boxes(server)
    for _ in range(10):
        r = replay(server, name, "--verify", "--min-match", "1.0")
        assert r["success"] and r["verified"] and r["match"] == 1.0, [d for d in r["details"] if d["class"] not in ("identical", "benign")]
        assert r["divergence_step"] == -1 and r["total_steps"] == r["completed_steps"] == len(SCRIPT)
        assert r["counts"]["benign"] >= 5 and r["counts"]["unchecked"] == 0
    assert boxes(server) == before


def only_step(r, at=-1):
    return r["details"][at]


@pytest.mark.parametrize("command, cause", [
    ("date +%N", "clock"),
    ("python3 -c 'import time; print(time.monotonic_ns() % 10**8)'", "clock"),
    ("echo $RANDOM-$RANDOM", "random numbers"),
    ("python3 -c 'import random; print(random.random())'", "random numbers"),
    ("shuf -i 1-200", "order of lines"),
])
def test_what_is_never_the_same_is_nondeterministic(server, command, cause):
    name = record(server, ["true", command, "true"])
    r = replay(server, name, rc=0)
    d = r["details"][1]
    assert d["class"] == "nondeterministic" and d["cause"] == cause, d
    assert r["first_different_step"] == 1 and r["divergence_step"] == -1
    assert "something else again" in d["again"]
    assert replay(server, name, "--verify", "--min-match", "0.9", rc=1)["match"] == pytest.approx(2 / 3)
    replay(server, name, "--verify", "--min-match", "0.6", rc=0)


@pytest.mark.parametrize("prepare, command, cause", [
    (["mkdir -p .local/bin; printf '#!/bin/sh\necho frobbed\n' > .local/bin/frob; chmod +x .local/bin/frob"],
     "frob", "missing program: frob"),
    (["printf 'print(1)\n' > dep.py"], "python3 -c 'import dep'", "changed dependency: ModuleNotFoundError: No module named 'dep'"),
])
def test_what_is_missing_is_named(server, prepare, command, cause):
    name = record(server, ["echo before", command, "echo after"], prepare)
    r = replay(server, name, rc=1)
    d = r["details"][1]
    assert not r["success"] and r["divergence_step"] == 1
    assert d["class"] == "diverged" and d["diverged"] and d["cause"] == cause
    assert d["again"] == "run again, it gave the same difference"
    assert [x["class"] for x in r["details"]] == ["identical", "diverged", "identical"]
    text = cli(server, "replay", name, rc=1).stdout
    assert "first step that matters: #2 bash:run" in text and cause in text
    assert "--- recorded\n    +++ replayed" in text


@pytest.mark.parametrize("then, now, cause", [
    ("alpha\nbeta\ngamma", "gamma\nalpha\nbeta", "order of lines"),
    ("libfoo 1.2.3", "libfoo 1.3.0", "changed dependency: another version"),
    ("old words", "new words", None),
])
def test_another_state_is_a_divergence(server, then, now, cause):
    name = record(server, ["cat list"], [f"printf '%s\\n' '{then}' > list"])
    with server.box() as other:
        other.out(f"printf '%s\\n' '{now}' > list")
        d = only_step(replay(server, name, "--on", other.id, rc=1))
        assert d["class"] == "diverged" and d["cause"] == cause and d["field"] == "stdout"
        assert d["again"] == "run again, it gave the same difference"  # cat only reads, so it was run again
        if cause == "order of lines":
            r = replay(server, name, "--on", other.id, "--rule", "line-order", rc=0)
            assert only_step(r)["class"] == "benign" and only_step(r)["rules"] == ["line-order"]


def test_denied_network_is_named(server, tmp_path):
    name = record(server, ["curl -sS -m 3 http://192.0.2.1/"])
    page = json.loads(cli(server, "export", name, "--format", "sandglass", rc=0).stdout)
    page["steps"][0].update(outcome="ok", message="success")
    page["steps"][0]["observation"].update(stdout="<html>\n", stderr="", exit_code=0)
    file = tmp_path / "t.json"
    file.write_text(json.dumps(page))
    d = only_step(replay(server, file, rc=1))
    assert d["class"] == "diverged" and d["cause"] == "network denied" and d["recorded_exit_code"] == 0


def test_sessions_that_the_server_named_are_followed(server):
    name = sg.unique("t")
    with server.box() as box:
        def call(tool, **params):
            return server.tool(box.id, tool, params, trajectory_id=name)["data"]
        terminal = call("shell:exec", command="cd /tmp; colour=blue")["session_id"]
        other = call("shell:exec", command="colour=red")["session_id"]
        call("shell:exec", id=terminal, command="echo $colour; pwd")
        call("shell:exec", id=other, command="echo $colour; pwd")
        call("shell:view", id=terminal)
        call("shell:sessions")
        command = call("command:launch", command="echo out")
        call("command:follow", session_id=command["session_id"], command_id=command["command_id"])
    r = replay(server, name, rc=0)
    assert r["match"] == 1.0, [d for d in r["details"] if d["class"] not in ("identical", "benign")]


def test_in_a_given_box_nothing_is_run_twice_that_changes_it(server):
    name = record(server, ["echo $RANDOM >> log; tail -1 log", "echo $RANDOM"])
    with server.box() as other:
        r = replay(server, name, "--on", other.id, rc=1)
        assert [d["class"] for d in r["details"]] == ["diverged", "nondeterministic"]
        assert "was not run again" in r["details"][0]["again"]
        assert other.out("wc -l < log").strip() == "1"


def test_rules_can_be_switched_and_added(server):
    name = record(server, ["date --rfc-3339=ns", "echo build $RANDOM"])
    assert [d["class"] for d in replay(server, name, rc=0)["details"]] == ["benign", "nondeterministic"]
    r = replay(server, name, "--no-rule", "time", "--ignore", "build [0-9]+", rc=0)
    assert [d["class"] for d in r["details"]] == ["nondeterministic", "benign"]
    assert r["details"][0]["cause"] == "clock" and r["details"][1]["rules"] == ["--ignore"]
    rules = {x["name"]: x["on"] for x in json.loads(cli(server, "replay", "--rules", "--json", rc=0).stdout)}
    assert rules["time"] and rules["pid"] and rules["uuid"] and not rules["line-order"]
    assert "temporary" in cli(server, "replay", "--rules", rc=0).stdout
    assert "no rule 'nope'" in cli(server, "replay", name, "--no-rule", "nope", rc=2).stderr
    assert "regular expression" in cli(server, "replay", name, "--ignore", "(", rc=2).stderr


def test_usage_and_exit_codes(server, tmp_path):
    cli(server, "replay", rc=2)
    cli(server, "replay", "no-such-trajectory", rc=5)
    cli(server, "replay", tmp_path / "missing.json", rc=5)
    bad = tmp_path / "bad.json"
    bad.write_text('{"steps": [')
    assert "not JSON" in cli(server, "replay", bad, rc=2).stderr
    name = record(server, ["true"])
    cli(server, "replay", name, "--min-match", "7", rc=2)
    cli(server, "replay", name, "--on", "b-nosuch", rc=5)
    env = dict(os.environ, SANDGLASS_URL="http://127.0.0.1:1")
    assert subprocess.run([sg.BINARY, "replay", name], capture_output=True, env=env).returncode == 3


def test_keep_leaves_the_box(server):
    name = record(server, ["echo kept > here"])
    r = replay(server, name, "--keep", rc=0)
    assert server.tool(r["boxes"][0], "bash:run", {"command": "cat here"})["data"]["stdout"] == "kept\n"
    server.destroy(r["boxes"][0])


def test_settings_of_a_living_box_are_taken_over(server):
    box = server.create(memory=128 << 20, pids=77)
    try:
        server.tool(box, "bash:run", {"command": "true"})
        r = replay(server, box, "--keep", rc=0)
        new = server.get(f"/sg/v1/boxes/{r['boxes'][0]}")
        assert new["limits"]["memory_bytes"] == 128 << 20 and new["limits"]["pids"] == 77
        server.destroy(r["boxes"][0])
    finally:
        server.destroy(box)


def test_a_worker_with_temporary_boxes(server):
    worker = sg.unique()
    for i in range(3):
        server.execute(worker, "bash:run", {"command": f"echo {i} >> log; cat log"})
    server.session(worker)
    for i in range(2):
        server.execute(worker, "bash:run", {"command": f"echo {i} >> log; cat log"})
    server.disconnect(worker)
    before = boxes(server)
    r = replay(server, worker, rc=0)
    assert r["counts"]["identical"] == 5, r
    assert boxes(server) <= before


def test_a_timeout_is_repeated(server):
    name = sg.unique("t")
    with server.box() as box:
        server.tool(box.id, "bash:run", {"command": "sleep 60"}, timeout=0.5, trajectory_id=name)
    r = replay(server, name, rc=0)
    assert r["details"][0]["class"] in ("identical", "benign") and r["details"][0]["outcome"] == "timeout"


def test_swe_agent_file(server):
    r = replay(server, DATA / "swe.traj", "--keep")
    try:
        by = [d["class"] for d in r["details"]]
        assert by == ["identical", "unchecked", "unchecked", "unchecked", "diverged", "unchecked"], r["details"]
        assert "no counterpart" in r["details"][4]["cause"]
        out = server.tool(r["boxes"][0], "bash:run", {"command": "cat /tmp/t.py"})["data"]["stdout"]
        assert out == "repr(\"it's\")\n"
    finally:
        for box in r["boxes"]:
            server.destroy(box)


def test_editing_tools_of_swe_agent(server, tmp_path):
    """Inserting, replacing and their failures have the effect that the editor has."""
    def call(name, **args):
        return {"role": "assistant", "content": "", "tool_calls": [
            {"id": name, "type": "function", "function": {"name": "str_replace_editor", "arguments": json.dumps(args)}}]}
    special = "a'b\"c $HOME `x` \\ & * ? [z]\n"
    file = tmp_path / "m.jsonl"
    file.write_text(json.dumps({"messages": [
        {"role": "user", "content": "edit"},
        call("1", command="create", path="/tmp/e", file_text="one\n" + special + "two\n\n"),
        call("2", command="str_replace", path="/tmp/e", old_str=special, new_str="& \\1 $x\n"),
        call("3", command="insert", path="/tmp/e", insert_line=1, new_str="inserted"),
        call("4", command="str_replace", path="/tmp/e", old_str="nowhere", new_str="x"),
    ]}))
    r = replay(server, file, "--keep")
    out = server.tool(r["boxes"][0], "file:read", {"path": "/tmp/e"})["data"]["content"]
    server.destroy(r["boxes"][0])
    assert out == "one\ninserted\n& \\1 $x\ntwo\n\n"
    assert [d["exit_code"] for d in r["details"]] == [0, 0, 0, 1]


def test_knowlyr_file_and_order_of_words(server, tmp_path):
    r = replay(server, DATA / "knowlyr.json", rc=1)
    assert [d["class"] for d in r["details"]] == ["identical", "identical", "identical", "unchecked", "unchecked", "diverged"]
    assert r["details"][5]["cause"] == "no such tool: teleport" and r["divergence_step"] == 5
    assert set(r) >= {"success", "total_steps", "completed_steps", "divergence_step", "details"}
    assert set(r["details"][0]) >= {"step", "tool_name", "exit_code", "diverged", "output_preview"}
    name = record(server, ["cd /tmp; echo 1 > a", ("file:read", {"path": "/tmp/a"}), "cat a"])
    file = tmp_path / "t.json"
    cli(server, "export", name, "--format", "knowlyr", "-o", file, rc=0)
    with server.box() as box:
        r = json.loads(cli(server, "replay", box.id, file, "--json", rc=0).stdout)
        assert r["success"] and r["all_exit_zero"] and r["counts"]["identical"] == 3 and r["boxes"] == [box.id]


def test_many_trajectories_in_one_file(server):
    r = cli(server, "replay", "--json", DATA / "agentflow.jsonl", rc=1)
    lines = [json.loads(x) for x in r.stdout.splitlines()]
    assert len(lines) == 2 and all(x["details"][0]["class"] == "identical" for x in lines)
    assert lines[0]["details"][1]["cause"] == "no such tool: rag_search"
    assert len(cli(server, "replay", "--json", "--index", "2", DATA / "agentflow.jsonl", rc=1).stdout.splitlines()) == 1
    cli(server, "replay", "--json", "--index", "3", DATA / "agentflow.jsonl", rc=5)
    for name in ("atif.json", "rollout.jsonl"):
        assert replay(server, DATA / name, rc=0)["success"]


def test_what_goes_back_in_time_goes_back_in_the_replay_and_leaves_nothing(server, tmp_path):
    with server.box() as box, server.box() as other:
        def tool(action, **params):
            r = server.tool(box.id, action, params)
            assert r["outcome"] == "ok", r
            return r["data"]

        def states():
            return [(s["state"], s["name"]) for s in server.get("/sg/v1/states")["states"]]

        box.out("cd /workspace; echo 1 > f")
        server.post(f"/sg/v1/boxes/{box.id}/snapshot", {"name": "by-api"}, 201)  # no step: it changes nothing
        box.out("echo 2 > f")
        tool("box:snapshot", name="by-tool")
        box.out("echo 3 > f; v=3")
        server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": "by-api"})
        assert box.out("cat f; echo 4 > f; v=4") == "1\n"
        tool("box:restore", state="by-tool")
        assert box.out("cat f; echo $v") == "2\n\n"
        tool("box:diff", a="by-api", b="by-tool")
        copy = tool("box:fork", state="by-tool", n=1)["boxes"][0]["id"]
        tool("box:restore", state="by-api", box=other.id)
        server.tool(other.id, "bash:run", {"command": "cat /workspace/f"}, trajectory_id=box.show()["trajectory"])
        before = boxes(server), states(), other.out("cat /workspace/f; echo mine > /workspace/f")
        r = replay(server, box.show()["trajectory"], rc=0)
        assert r["success"] and r["counts"]["diverged"] == r["counts"]["nondeterministic"] == 0, r
        assert (boxes(server), states()) == before[:2] and other.out("cat /workspace/f") == "mine\n"
        # the counterparts are meant: what differs before a snapshot differs behind the restore
        text = cli(server, "export", "--format", "sandglass", box.show()["trajectory"]).stdout
        changed = tmp_path / "changed.jsonl"
        changed.write_text(text.replace("echo 1 > f", "echo 7 > f"))
        r = replay(server, changed, rc=1)
        assert [d["output_preview"] for d in r["details"] if d["tool"] == "bash:run"][3] == "7\n"
        server.destroy(copy)


def test_a_reader_that_goes_away_leaves_no_box(server):
    name = record(server, [f"echo {i}" for i in range(40)])
    before = boxes(server)
    p = subprocess.Popen([sg.BINARY, "replay", name, "--url", server.url], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdout.readline()
    p.stdout.close()
    assert p.wait(60) == 1 and boxes(server) == before
