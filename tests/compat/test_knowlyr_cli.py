"""knowlyr-sandbox's command line: its README's texts byte for byte against a scripted server, its exit codes, and each
thing that its original ignores or gets wrong, against a real one."""

import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import sg  # noqa: E402
from test_repo import Repo  # noqa: E402

GOLDEN = pathlib.Path(__file__).parent / "data" / "knowlyr"
KNOWLYR = os.path.join(os.path.dirname(sg.BINARY), "knowlyr-sandbox")


def run(url, *words, program=KNOWLYR, env=None):
    """Exit code, standard output, standard error."""
    p = subprocess.run([program, *words], capture_output=True, text=True, timeout=120,
                       env={**os.environ, "SANDGLASS_URL": url, "TZ": "UTC", "ASAN_OPTIONS": "detect_leaks=0", **(env or {})})
    return p.returncode, p.stdout, p.stderr


# ---- golden files: the README's texts ----


class Scripted(http.server.BaseHTTPRequestHandler):
    boxes = [
        {"id": "sandbox-d4e5f6", "state": "paused", "image": "node:18-slim", "created": "2025-01-15T11:45:00.000000"},
        {"id": "sandbox-a1b2c3", "state": "running", "image": "python:3.11-slim", "created": "2025-01-15T10:30:00.000000",
         "origin": {"work_dir": "/workspace"}},
    ]
    seen = []

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, {"boxes": self.boxes})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(body)
        if self.path.endswith("/execute"):
            self.answer(200, {"outcome": "ok", "data": {"output": "===== 42 passed, 3 failed =====\n", "exit_code": 0,
                                                        "error": None, "success": True}})
        else:
            self.answer(201, self.boxes[1])


@pytest.fixture(scope="module")
def scripted():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def golden(name):
    return (GOLDEN / name).read_text()


def test_create_prints_the_readmes_block(scripted):
    code, out, err = run(scripted, "create", "--repo", "https://github.com/user/repo", "--commit", "abc123",
                         "--image", "python:3.11-slim")
    assert (code, out, err) == (0, golden("create.txt"), "")
    sent = Scripted.seen[-1]
    assert sent["repo"] == {"url": "https://github.com/user/repo", "commit": "abc123"}
    assert sent["memory"] == "512m" and sent["cpu"] == 1 and sent["task"]["timeout"] == 300
    assert sent["task"]["language"] == "python"


def test_exec_prints_the_readmes_block(scripted):
    code, out, err = run(scripted, "exec", "sandbox-a1b2c3", "--tool", "shell", "--params",
                         '{"command": "python -m pytest"}')
    assert (code, out, err) == (0, golden("exec.txt"), "")
    assert Scripted.seen[-1] == {"tool": "knowlyr:shell", "params": {"command": "python -m pytest"}}


def test_list_prints_the_readmes_table_with_paused_and_the_total(scripted):
    assert run(scripted, "list") == (0, golden("list.txt"), "")
    assert run(scripted, "knowlyr", "list", program=sg.BINARY) == (0, golden("list.txt"), "")


def test_version_help_and_usage_have_their_exit_codes(scripted):
    assert run(scripted, "--version") == (0, "knowlyr-sandbox, version 0.1.2\n", "")
    code, out, _ = run(scripted, "--help")
    assert code == 0 and all(word in out for word in ("create", "exec", "reset", "replay", "list"))
    for words in (["nonsense"], [], ["create"], ["create", "--repo", "x"], ["create", "--what"], ["exec", "x"],
                  ["exec", "x", "--tool", "rm", "--params", "{}"], ["exec", "x", "--tool", "shell"], ["reset"],
                  ["replay", "x", "/no/such/file"], ["create", "--repo", "r", "--commit", "c", "--timeout", "soon"]):
        code, out, err = run(scripted, *words)
        assert code == 2 and out == "" and err, words


def test_failures_are_said_in_its_words_with_exit_code_1(scripted):
    assert run(scripted, "create", "--repo", "", "--commit", "") == (
        1, "", "  配置错误: repo_url 不能为空\n  配置错误: base_commit 不能为空\n")
    code, _, err = run(scripted, "exec", "sandbox-a1b2c3", "--tool", "shell", "--params", "{oops")
    assert code == 1 and err.startswith("  参数解析失败: ")
    for words in (["exec", "nope", "--tool", "shell", "--params", "{}"], ["reset", "nope"], ["reset", "sandbox-"]):
        code, _, err = run(scripted, *words)
        assert code == 1 and err == f"沙箱不存在: {words[1]}\n"
    code, _, err = run("http://127.0.0.1:1", "list")
    assert code == 1 and "服务器连接失败" in err and "sandglass serve" in err


# ---- a real server ----


@pytest.fixture(scope="module")
def place():
    path = tempfile.mkdtemp(prefix="sg-know-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def repo(place):
    return Repo(place + "/project")


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture(scope="module")
def box(server, repo):
    code, out, err = run(server.url, "create", "--repo", repo.url, "--commit", repo.first, "--timeout", "2",
                         "--test-command", "python3 src/main.py", "--setup", "echo built > .built")
    assert code == 0, err
    yield out.splitlines()[4].split()[-1]


def call(server, box, tool, **params):
    return run(server.url, "exec", box, "--tool", tool, "--params", json.dumps(params))


def test_without_an_image_it_is_host_and_says_so_and_the_clone_needs_no_network(server, repo):
    """The original clones inside the container, whose network is off, from an image without git: it never works."""
    code, out, err = run(server.url, "create", "--repo", repo.path, "--commit", repo.second[:10])
    lines = out.splitlines()
    assert code == 0 and err == "" and "  镜像: host" in lines and "  工作目录: /workspace" in lines
    made = lines[4].split()[-1]
    assert lines[4] == f"✓ 沙箱创建成功: {made}"
    shown = server.get(f"/sg/v1/boxes/{made}")
    assert shown["network"] == "none" and shown["limits"]["memory_bytes"] == 512 << 20 and shown["limits"]["cpu"] == 1
    assert call(server, made, "git", subcommand="rev-parse", args="HEAD")[1].endswith(f"    {repo.second}\n")
    assert run(server.url, "destroy", made[:12]) == (0, f"沙箱已销毁: {made}\n", "")
    assert server.request("GET", f"/sg/v1/boxes/{made}").status == 404


def test_another_image_is_refused_with_its_name(server, repo):
    code, _, err = run(server.url, "create", "--repo", repo.path, "--commit", "v1", "--image", "python:3.11-slim")
    assert code == 1 and err.startswith("创建失败: ") and "image" in err


def test_a_failing_clone_says_why(server, place):
    code, _, err = run(server.url, "create", "--repo", "file:///no/such/repo", "--commit", "x")
    assert code == 1 and err.startswith("创建失败: ")


def test_the_exit_code_is_the_tools_and_stderr_is_the_error(server, box):
    code, out, err = call(server, box, "shell", command="echo a; echo b >&2; exit 9")
    assert (code, err) == (9, "错误: b\n") and out.endswith("  Exit code: 9\n  Output:\n    a\n")
    code, out, err = call(server, box, "file_read", path="missing")
    assert code == 1 and "missing" in err and out == "执行工具: file_read\n  路径: missing\n  Exit code: 1\n"


def test_the_timeout_of_create_is_kept(server, box):
    code, _, err = call(server, box, "shell", command="sleep 100")
    assert code == 124 and "timed out after 2 s" in err


def test_quotes_and_spaces_in_parameters_are_only_text(server, box):
    name = "a 'b' $(touch /tmp/x); c.txt"
    assert call(server, box, "file_write", path=name, content="it's\n")[0] == 0
    assert call(server, box, "search", pattern="it's", file_pattern="*.txt")[1].count("it's") == 2
    assert call(server, box, "shell", command="ls /tmp/x")[0] == 2


def test_reset_goes_back_to_the_commit_and_sets_up_again(server, box, repo):
    call(server, box, "shell", command="git checkout -q side; rm -rf .built src; touch ~/junk")
    assert run(server.url, "reset", box) == (0, f"沙箱已重置: {box}\n", "")
    code, out, _ = call(server, box, "shell", command="git rev-parse HEAD; cat .built src/main.py; ls ~/junk")
    assert out.splitlines()[4:] == [f"    {repo.first}", "    built", "    print('one')"] and code == 2


def test_a_snapshot_can_be_restored(server, box):
    call(server, box, "file_write", path="kept", content="yes")
    code, out, _ = run(server.url, "snapshot", box)
    assert code == 0 and out.startswith("快照已创建: s-")
    call(server, box, "shell", command="rm kept")
    assert run(server.url, "restore", box, out.split()[-1]) == (0, f"沙箱已恢复: {box}\n", "")
    assert call(server, box, "file_read", path="kept")[0] == 0


def test_paused_is_shown_as_paused(server, box):
    server.post(f"/sg/v1/boxes/{box}/pause")
    try:
        _, out, _ = run(server.url, "list")
        assert [line.split()[1] for line in out.splitlines() if box in line] == ["paused"]
    finally:
        server.post(f"/sg/v1/boxes/{box}/resume")


def test_export_and_replay_make_a_round_trip_without_divergence(server, repo, place):
    code, out, _ = run(server.url, "create", "--repo", repo.path, "--commit", repo.first)
    made = out.splitlines()[4].split()[-1]
    call(server, made, "file_read", path="src/main.py")
    call(server, made, "file_write", path="src/new/mod.py", content="x = 'é'\n")
    call(server, made, "shell", command="mkdir once && python3 src/main.py && pwd && date")
    call(server, made, "search", pattern="print|x", file_pattern="*.py")
    call(server, made, "git", subcommand="status", args="--short")
    path = place + "/t.json"
    p = subprocess.run([sg.BINARY, "export", "--url", server.url, "--format", "knowlyr", "-o", path, made],
                       capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    assert p.returncode == 0, p.stderr
    steps = json.load(open(path))["steps"]
    assert [s["tool_name"] for s in steps] == ["file_read", "file_write", "shell", "search", "git"]
    assert steps[1]["expected_output"] == "已写入 9 字节到 src/new/mod.py"
    code, out, err = run(server.url, "replay", made, path)
    assert (code, out) == (0, "重放轨迹: 5 步\n完成: 5/5 步\n成功: True\n"), err

    # the same file as another program would have written it
    bare = {"steps": [{k: s[k] for k in ("tool_name", "params", "expected_output")} for s in steps], "metadata": {}}
    del bare["steps"][2]  # its date is not told apart without our own words about it
    pathlib.Path(path).write_text(json.dumps(bare))
    code, out, err = run(server.url, "replay", made, path)
    assert (code, out) == (0, "重放轨迹: 4 步\n完成: 4/4 步\n成功: True\n"), err

    bare["steps"][0]["expected_output"] = "something else"
    pathlib.Path(path).write_text(json.dumps(bare))
    code, out, err = run(server.url, "replay", made, path)
    assert (code, out) == (1, "重放轨迹: 4 步\n完成: 4/4 步\n成功: False\n首次偏离: step 0\n"), err
    run(server.url, "destroy", made)


def test_our_own_command_line_makes_boxes_from_a_repository(server, repo):
    code, out, err = run(server.url, "create", "--repo", repo.path, "--commit", "side", "--setup", "false", "--test-command",
                         "cat side.txt", program=sg.BINARY)
    assert code == 0 and "'false' failed with exit code 1" in err
    made = sg.Box(server, out.strip())
    assert made.tool("knowlyr:run_tests")["data"]["output"] == "aside\n"
    assert made.out("git rev-parse HEAD").strip() == repo.third
    server.destroy(made.id)
    assert run(server.url, "create", "--repo", repo.path, program=sg.BINARY)[0] == 2
