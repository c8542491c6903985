"""Export and import: every format is what its readers expect, arguments are byte for byte what was sent."""

import json
import os
import pty
import re
import subprocess

import pytest

import sg

FORMATS = ["sandglass", "atif", "openai", "sharegpt", "agentflow", "agentflow-rollout", "knowlyr", "knowlyr-recorder",
           "swe-agent"]
PARAMS = '{ "command" : "echo \\u0068\\u00e4 \\"q\\" | cat",\t"timeout":3.50 }'


def cli(server, *args, rc=0, stdin=None):
    env = dict(os.environ, SANDGLASS_URL=server.url, NO_COLOR="1")
    r = subprocess.run([sg.BINARY, *map(str, args)], capture_output=True, env=env, input=stdin, timeout=120)
    assert rc is None or r.returncode == rc, (r.returncode, r.stdout[-2000:], r.stderr)
    return r


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


@pytest.fixture(scope="module")
def name(server):
    t = sg.unique("t")
    with server.box() as box:
        raw = '{"tool":"bash:run","trajectory_id":"%s","params":%s}' % (t, PARAMS)
        assert server.request("POST", f"/sg/v1/boxes/{box.id}/execute", raw=raw).status == 200
        box.tool("file:write", {"path": "/tmp/ä", "content": "1\n2\n"}, trajectory_id=t)
        box.tool("file:read", {"path": "/tmp/ä"}, trajectory_id=t)
        box.tool("bash:run", {"command": "echo out; echo err >&2; exit 3"}, trajectory_id=t)
        box.tool("no:such", {"a": 1}, trajectory_id=t, status=None)
        box.tool("bash:run", {"command": "seq 1 3000"}, trajectory_id=t)
    return t


def export(server, name, form, *more):
    return json.loads(cli(server, "export", name, "--format", form, *more).stdout)


def check_atif(d):
    """The rules of Harbor's validator, as far as they are published."""
    def only(o, *keys):
        assert set(o) <= set(keys), set(o) - set(keys)
    only(d, "schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics",
         "continued_trajectory_ref", "subagent_trajectories", "extra")
    assert d["schema_version"] == "ATIF-v1.7" and d["session_id"] and d["steps"]
    only(d["agent"], "name", "version", "model_name", "tool_definitions", "extra")
    assert d["agent"]["name"] and d["agent"]["version"]
    assert [s["step_id"] for s in d["steps"]] == list(range(1, len(d["steps"]) + 1))
    for s in d["steps"]:
        only(s, "step_id", "timestamp", "source", "model_name", "reasoning_effort", "message", "reasoning_content",
             "tool_calls", "observation", "metrics", "is_copied_context", "llm_call_count", "extra")
        assert s["source"] in ("system", "user", "agent") and isinstance(s["message"], str)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", s["timestamp"])
        if s["source"] != "agent":
            assert "tool_calls" not in s and "metrics" not in s
        ids = set()
        for c in s.get("tool_calls", []):
            only(c, "tool_call_id", "function_name", "arguments", "extra")
            assert isinstance(c["arguments"], dict) and c["function_name"]
            ids.add(c["tool_call_id"])
        for r in s.get("observation", {}).get("results", []):
            only(r, "source_call_id", "content", "subagent_trajectory_ref", "extra")
            assert r["source_call_id"] in ids and isinstance(r["content"], str)
    only(d["final_metrics"], "total_prompt_tokens", "total_completion_tokens", "total_cached_tokens", "total_cost_usd",
         "total_steps", "extra")
    assert d["final_metrics"]["total_steps"] == len(d["steps"])


def test_atif_is_strict(server, name):
    d = export(server, name, "atif")
    check_atif(d)
    check_atif(export(server, name, "atif", "--bare"))
    results = [s["observation"]["results"][0] for s in d["steps"]]
    assert results[3]["content"] == "out\nerr\n[exit code 3]"
    truth = results[3]["extra"]["sandglass"]
    assert truth["observation"]["stderr"] == "err\n" and truth["outcome"] == "task_error" and truth["state_root"] is None
    assert results[4]["content"].startswith("[invalid_request: ")


def test_openai(server, name):
    d = export(server, name, "openai")
    calls = [m for m in d["messages"] if m["role"] == "assistant"]
    answers = [m for m in d["messages"] if m["role"] == "tool"]
    assert len(calls) == len(answers) == 6
    assert calls[0]["tool_calls"][0]["function"] == {"name": "bash_run", "arguments": PARAMS}
    for c, a in zip(calls, answers):
        assert c["tool_calls"][0]["id"] == a["tool_call_id"]
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", c["tool_calls"][0]["function"]["name"])
    assert answers[0]["content"] == "hä q\n" and answers[2]["content"] == "1\n2\n"
    assert {t["function"]["name"] for t in d["tools"]} == {"bash_run", "file_write", "file_read"}
    assert d["tools"][0]["function"]["parameters"]["type"] == "object"


def test_sharegpt(server, name):
    d = export(server, name, "sharegpt")
    roles = [m["from"] for m in d["conversations"]]
    assert all(r in ("human", "observation") for r in roles[0::2]) and all(r in ("function_call", "gpt") for r in roles[1::2])
    assert len(roles) % 2 == 0 and roles[-1] == "gpt"
    call = d["conversations"][1]["value"]
    assert json.loads(call)["name"] == "bash_run" and PARAMS in call
    assert isinstance(json.loads(d["tools"]), list)


def test_agentflow(server, name):
    d = export(server, name, "agentflow")
    assert d["total_depth"] == 6 and [n["depth"] for n in d["nodes"]] == list(range(1, 7))
    for a, b in zip(d["nodes"], d["nodes"][1:]):
        assert a["children_ids"] == [b["node_id"]] and b["parent_id"] == a["node_id"]
        assert re.fullmatch(r"node_[0-9a-f]{8}", a["node_id"])
    assert d["nodes"][0]["action"]["tool_name"] == "bash:run" and d["nodes"][-1]["children_ids"] == []
    r = export(server, name, "agentflow-rollout")
    assert {"task_id", "question", "predicted_answer", "success", "trajectory"} <= set(r)
    call = r["trajectory"]["tool_calls"][3]
    assert call["result"]["exit_code"] == 3 and not call["success"] and call["execution_time_ms"] > 0
    assert r["trajectory"]["total_turns"] == 6 and r["trajectory"]["execution_time_ms"] > 0


def test_knowlyr(server, name):
    d = export(server, name, "knowlyr")
    assert all(set(s) == {"tool_name", "params", "expected_output"} for s in d["steps"])
    assert [s["tool_name"] for s in d["steps"]] == ["shell", "file_write", "file_read", "shell", "no:such", "shell"]
    assert d["steps"][1]["expected_output"] == "已写入 4 字节到 /tmp/ä" and d["steps"][3]["expected_output"] == "out\n"
    r = export(server, name, "knowlyr-recorder")
    assert set(r) == {"task", "agent", "model", "steps", "outcome", "metadata"}
    assert r["steps"][3]["tool_result"] == {"output": "out\n", "exit_code": 3, "error": "err\n"}
    assert r["outcome"]["total_steps"] == 6 and r["outcome"]["success"] is True


def test_swe_agent(server, name):
    d = export(server, name, "swe-agent")
    assert {"trajectory", "history", "info", "environment", "replay_config"} <= set(d)
    assert all({"action", "observation", "response", "thought", "state", "query"} <= set(s) for s in d["trajectory"])
    assert d["trajectory"][3]["action"] == "echo out; echo err >&2; exit 3"
    assert d["trajectory"][2]["action"].startswith("file:read {")


@pytest.mark.parametrize("form", FORMATS)
def test_arguments_are_byte_exact(server, name, form):
    text = cli(server, "export", name, "--format", form).stdout.decode()
    in_a_string = json.dumps(PARAMS)[1:-1]  # OpenAI and ShareGPT have them inside of a string
    assert (PARAMS if form not in ("openai", "sharegpt") else in_a_string) in text


@pytest.mark.parametrize("form", [f for f in FORMATS if f != "sharegpt"])
def test_what_was_exported_comes_back(server, name, form, tmp_path):
    file = tmp_path / "x.json"
    cli(server, "export", name, "--format", form, "-o", file)
    back = json.loads(cli(server, "import", file).stdout)
    steps = server.steps(name)
    assert back["trajectory"] == name and len(back["steps"]) == len(steps)
    for a, b in zip(back["steps"], steps):
        for key in ("step", "tool", "params", "outcome", "observation", "time", "run_us", "box", "session", "trainable"):
            assert a[key] == b[key], key
        assert a["state_root"] is None
    assert PARAMS in cli(server, "import", file).stdout.decode()


LINES = ["sandglass", "openai", "sharegpt", "agentflow", "agentflow-rollout", "knowlyr-recorder"]
SPREAD = '{\n  "command": "echo \\\\n",\r\n  "env": {\n    "A": "1"\n  }\n}'  # as a program prints it for people


@pytest.fixture(scope="module")
def spread(server):
    t = sg.unique("t")
    with server.box(labels={"a": "b"}) as box:
        raw = '{"tool":"bash:run","trajectory_id":"%s","params":%s}' % (t, SPREAD)
        assert server.request("POST", f"/sg/v1/boxes/{box.id}/execute", raw=raw).status == 200
    server.request("PATCH", f"/sg/v1/trajectories/{t}", raw='{"metadata": {\n "task":\n "a"}}')
    return t


@pytest.mark.parametrize("form", LINES)
def test_a_trajectory_is_one_line_however_its_arguments_were_laid_out(server, spread, form, tmp_path):
    text = cli(server, "export", spread, "--format", form).stdout
    assert text.count(b"\n") == 1 and b"\r" not in text and json.loads(text)
    both = cli(server, "export", spread, spread, "--format", form, "-o", tmp_path / "two").stdout
    assert both == b"" and len([json.loads(line) for line in (tmp_path / "two").read_text().splitlines()]) == 2
    r = json.loads(cli(server, "replay", tmp_path / "two", "--index", 1, "--json").stdout)
    assert r["match"] == 1.0 and r["counts"]["identical"] and r["details"][0]["tool"] == "bash:run"
    if form != "knowlyr-recorder":  # its tool has other arguments
        again, *_ = json.loads(cli(server, "import", tmp_path / "two").stdout.splitlines()[0])["steps"]
        assert again["params"] == json.loads(SPREAD)


@pytest.mark.parametrize("form", ["atif", "knowlyr", "swe-agent"])
def test_documents_are_lines_only_if_there_are_several(server, spread, form):
    assert json.loads(cli(server, "export", spread, "--format", form).stdout)
    assert len([json.loads(d) for d in cli(server, "export", spread, spread, "--format", form).stdout.splitlines()]) == 2


def test_arguments_in_a_string_keep_their_layout(server, spread, tmp_path):
    call = export(server, spread, "openai")["messages"][1]["tool_calls"][0]
    assert call["function"]["arguments"].encode() == SPREAD.encode()
    cli(server, "export", spread, "--format", "openai", "-o", tmp_path / "a")
    again = json.loads(cli(server, "export", tmp_path / "a", "--format", "openai").stdout)["messages"][1]["tool_calls"][0]
    assert again == call


def test_a_file_that_was_laid_out_for_people_is_a_line_when_it_is_imported(server, name, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(export(server, name, "atif"), indent=2))
    assert cli(server, "import", tmp_path / "a.json").stdout.count(b"\n") == 1
    before = json.loads(cli(server, "import", "-", stdin=cli(server, "export", name, "--format", "atif").stdout).stdout)
    after = json.loads(cli(server, "import", tmp_path / "a.json").stdout)
    assert [s["params"] for s in after["steps"]] == [s["params"] for s in before["steps"]]


def test_a_step_of_the_log_is_one_line(server, spread):
    for command in (["log", spread, "--json"], ["annotate", spread, "--tag", "x"], ["annotate", spread, "--tag", "y", "--json"]):
        text = cli(server, *command).stdout
        assert text.count(b"\n") == 1 and json.loads(text)


def test_filters(server, name):
    count = lambda *f: len(export(server, name, "agentflow", *f)["nodes"])
    assert count() == 6
    assert count("--outcome", "ok") == 4 and count("--outcome", "task_error") == 1
    assert count("--tool", "bash:run") == 3 and count("--trainable") == 6
    assert count("--until", "2100-01-01T00:00:00Z") == 6
    middle = server.steps(name)[2]["time"]
    assert count("--since", middle) == 4 and count("--until", middle) == 2
    cli(server, "export", name, "--format", "atif", "--outcome", "nope", rc=2)
    cli(server, "export", name, "--format", "atif", "--since", "yesterday", rc=2)


@pytest.mark.parametrize("form", ["atif", "openai", "sharegpt", "agentflow", "knowlyr", "swe-agent", "sandglass"])
def test_a_trajectory_of_which_the_filters_leave_nothing_is_left_out(server, name, form):
    """ATIF has at least one step; and nobody learns from a conversation without a word."""
    for filters in (["--since", "2100-01-01"], ["--outcome", "timeout"], ["--tool", "file:list"]):
        r = cli(server, "export", name, "--format", form, *filters)
        assert r.stdout == b"" and b"1 trajectories left out" in r.stderr
    r = server.request("GET", f"/sg/v1/trajectories/{name}/export?format={form}&outcome=timeout")
    assert (r.status, r.body) == (200, b"")


def test_filters_of_the_api_are_never_passed_over(server, name):
    server.request("PATCH", f"/sg/v1/trajectories/{name}", {"reward": 0.5})
    get = lambda query: server.request("GET", f"/sg/v1/trajectories/export?format=openai&{query}")
    for key in "min-reward", "min_reward":
        assert name in get(f"{key}=0.4").body.decode() and get(f"{key}=0.6").body == b""
    for query in "minreward=1", "reward=1", "tags=a", "Trainable=1":
        r = get(query)
        assert r.status == 400 and query.split("=")[0] in r["error"]["message"] and "min-reward" in r["error"]["message"]


def test_what_was_shown_and_what_happened(server, name):
    d = export(server, name, "openai", "--shown-max", "1k")
    shown = [m for m in d["messages"] if m["role"] == "tool"][-1]["content"]
    truth = d["metadata"]["sandglass"]["steps"][-1]
    assert len(shown) < 1100 and "bytes left out" in shown
    assert truth["observation"]["stdout"] == "".join(f"{i}\n" for i in range(1, 3001))
    assert truth["truncation"] == {"rule": "head+tail", "shown_max": 1024}
    assert "sandglass" not in export(server, name, "openai", "--bare")["metadata"]


def test_unknown_formats_list_the_known(server, name):
    for form in ("xml", "nope"):
        r = cli(server, "export", name, "--format", form, rc=2)
        for known in FORMATS:
            assert known in r.stderr.decode()
    cli(server, "export", name, rc=2)
    cli(server, "export", "no-such", "--format", "atif", rc=5)


def test_files(server, name, tmp_path):
    file = tmp_path / "t.json"
    assert cli(server, "export", name, "--format", "atif", "-o", file).stdout == b""
    check_atif(json.loads(file.read_text()))
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]
    assert cli(server, "export", name, "--format", "atif", "-o", tmp_path / "no" / "t", rc=1).stderr
    # a file is converted, without a server
    env = dict(os.environ, SANDGLASS_URL="http://127.0.0.1:1")
    r = subprocess.run([sg.BINARY, "export", str(file), "--format", "sharegpt"], capture_output=True, env=env)
    assert r.returncode == 0 and json.loads(r.stdout)["conversations"]
    r = subprocess.run([sg.BINARY, "import", "-"], capture_output=True, env=env, input=file.read_bytes())
    assert r.returncode == 0 and b"atif: 1 trajectories, 6 steps" in r.stderr


def test_a_bar_on_a_terminal_only(server, name, tmp_path):
    assert b"[" not in cli(server, "export", name, "--format", "atif").stderr
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["SANDGLASS_URL"] = server.url
        os.execv(sg.BINARY, [sg.BINARY, "export", name, "--format", "atif", "-o", str(tmp_path / "t.json")])
    seen = b""
    try:
        while True:
            part = os.read(fd, 4096)
            if not part:
                break
            seen += part
    except OSError:
        pass
    os.waitpid(pid, 0)
    assert b"reading [" in seen and seen.endswith(b"\r\x1b[K"), seen


def test_long_trajectories(server, tmp_path):
    t = sg.unique("t")
    with server.box() as box:
        for i in range(450):
            box.tool("probe:echo", {"text": "x"}, trajectory_id=t, status=None)
    d = export(server, t, "atif")
    assert len(d["steps"]) == 450


def test_what_a_replay_did_is_no_episode():
    with sg.running("--pool-size", "1") as s, s.box() as box:
        box.out("echo 1")
        name = box.show()["trajectory"]
        cli(s, "replay", name)
        rows = s.get("/sg/v1/trajectories")["trajectories"]
        made = [t["id"] for t in rows if t["id"] != name]
        assert len(made) == 1 and [t["annotations"] for t in rows if t["id"] == made[0]][0]["metadata"] == {"replay_of": name}

        def exported(*more):
            return sorted(json.loads(x)["id"] for x in cli(s, "export", "--all", "--format", "openai", *more).stdout.splitlines())

        assert exported() == [name] and exported("--replays") == sorted([name, *made])
        text = lambda query: s.request("GET", f"/sg/v1/trajectories/export?format=openai{query}").body.decode()
        assert made[0] not in text("") and name in text("") and made[0] in text("&replays=1")
        assert json.loads(cli(s, "export", made[0], "--format", "openai").stdout)["id"] == made[0]  # named, it comes
        cli(s, "replay", name, "--on", box.id)  # a box of somebody's own
        assert s.get(f"/sg/v1/trajectories/{name}")["annotations"] is None
