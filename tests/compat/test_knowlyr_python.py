"""The agentsandbox package of sdk/python-agentsandbox: knowlyr's Python, as its README has it, over our server."""

import contextlib
import inspect
import io
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "api"))
sys.path.insert(0, str(ROOT / "sdk" / "python-agentsandbox"))
import agentsandbox  # noqa: E402
import sg  # noqa: E402
from agentsandbox import Sandbox, SandboxConfig, ToolResult  # noqa: E402
from agentsandbox.config import TaskConfig  # noqa: E402
from agentsandbox.replay import Trajectory, replay_trajectory  # noqa: E402
from test_repo import Repo  # noqa: E402

# The README's two blocks, with the repository and the commit as the test's variables.
API_BLOCK = '''
from agentsandbox import Sandbox, SandboxConfig
from agentsandbox.config import TaskConfig

# 配置
config = SandboxConfig(
    image="python:3.11-slim",
    timeout=300,
    memory_limit="512m",
)

task = TaskConfig(
    repo_url=repo_url,
    base_commit=base_commit,
    test_command="pytest tests/",
)

# 创建沙箱
sandbox = Sandbox.create(config, task)

# 执行工具
result = sandbox.execute_tool("shell", {"command": "python -m pytest"})
print(f"Exit code: {result.exit_code}")
print(f"Output: {result.output}")

# 快照和重置
snapshot_id = sandbox.snapshot()
sandbox.reset()
'''
REPLAY_BLOCK = '''
from agentsandbox.replay import replay_trajectory, Trajectory

# 从文件加载轨迹
trajectory = Trajectory.from_dict({
    "steps": [
        {"tool_name": "file_read", "params": {"path": "src/main.py"}},
        {"tool_name": "file_write", "params": {"path": "src/main.py", "content": "..."}},
        {"tool_name": "shell", "params": {"command": "pytest"}},
    ],
    "metadata": {"agent": "claude", "model": "claude-opus-4-20250514"}
})

# 重放
result = replay_trajectory(sandbox, trajectory)
print(f"成功: {result.success}")
print(f"偏离步骤: {result.divergence_step}")
'''


@pytest.fixture(scope="module")
def repo():
    path = tempfile.mkdtemp(prefix="sg-kpy-", dir="/tmp")
    yield Repo(path + "/project")
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        os.environ["SANDGLASS_URL"] = s.url
        os.environ["AGENTSANDBOX_IMAGES"] = "node:18-slim=host, python:3.11-slim=host"
        yield s
        del os.environ["SANDGLASS_URL"], os.environ["AGENTSANDBOX_IMAGES"]


@pytest.fixture(scope="module")
def sandbox(server, repo):
    task = TaskConfig(repo.url, repo.first, "python3 src/main.py", setup_commands=["echo $MOOD > .mood"])
    with Sandbox.create(SandboxConfig(timeout=2, env_vars={"MOOD": "fine"}), task) as s:
        yield s
    assert server.get("/sg/v1/boxes")["count"] == 0 and not s.is_running  # nothing leaks


def test_the_readmes_blocks_run_as_they_are(server, repo):
    world, out = {"repo_url": repo.url, "base_commit": repo.first}, io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(API_BLOCK, world)
        exec(REPLAY_BLOCK, world)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("Exit code: ") and lines[1].startswith("Output: ")
    assert lines[-2].startswith("成功: ") and lines[-1] == "偏离步骤: -1"
    assert world["snapshot_id"].startswith("s-") and world["result"].completed_steps == 3
    assert world["sandbox"].execute_tool("file_read", {"path": "src/main.py"}).output == "..."
    world["sandbox"].close()
    assert world["sandbox"].container_id is None and server.get("/sg/v1/boxes")["count"] == 0


def test_the_blocks_are_those_of_the_seed():
    seed = ROOT.parent / "shared" / "seeds" / "knowlyr-readme.txt"
    if not seed.exists():
        pytest.skip("the seed is not beside this checkout")
    text = seed.read_text()
    for line in (API_BLOCK + REPLAY_BLOCK).splitlines():
        assert line in text or line.strip().startswith(("repo_url=", "base_commit=")), line


def test_an_image_that_nobody_named_is_refused(server, repo):
    with pytest.raises(RuntimeError, match="image"):
        Sandbox.create(SandboxConfig(image="ruby:3"), TaskConfig(repo.url, repo.first))


def test_a_clone_that_fails_raises_with_gits_words(server, repo):
    with pytest.raises(RuntimeError, match="git checkout failed"):
        Sandbox.create(SandboxConfig(), TaskConfig(repo.url, "0" * 40))
    assert server.get("/sg/v1/boxes")["count"] == 0


def test_tools_return_results_and_never_raise(sandbox, repo):
    r = sandbox.execute_tool("shell", {"command": "echo out; echo err >&2"})
    assert r == ToolResult("out\n", 0, "err\n") and r.success
    assert sandbox.execute_tool("git", {"subcommand": "rev-parse", "args": "HEAD"}).output.strip() == repo.first
    assert sandbox.execute_tool("shell", {"command": "sleep 60"}).exit_code == 124
    assert sandbox.execute_tool("teleport", {}) == ToolResult(exit_code=1, error="未知工具: teleport")
    bad = sandbox.execute_tool("shell", {"cmd": "true"})
    assert bad.exit_code == 1 and "cmd" in bad.error and not bad.success
    assert Sandbox(SandboxConfig()).execute_tool("shell", {"command": "true"}).error == "沙箱未启动"


def test_tests_set_up_and_variables_are_real(sandbox):
    assert sandbox.run_tests() == ToolResult("one\n", 0, None)
    assert sandbox.execute_tool("file_read", {"path": ".mood"}).output == "fine\n"


def test_every_field_of_a_sandbox_has_its_effect(server, repo):
    config = SandboxConfig(image="node:18-slim", timeout=3, memory_limit="96m", cpu_limit=0.5, work_dir="/srv/task", network_enabled=True,
                           env_vars={"LEVEL": 7})
    task = TaskConfig(repo_url=repo.url, base_commit=repo.second, setup_commands=["echo $LEVEL > made", "false"], test_command="cat made; exit 4",
                      language="python", description="words", domain="coding")
    with Sandbox.create(config, task) as s:
        box = server.get(f"/sg/v1/boxes/{s.container_id}")
        assert box["image"] == "host", "the name stands for it"
        assert box["limits"]["memory_bytes"] == 96 << 20 and box["limits"]["cpu"] == 0.5 and box["network"] == "full", box
        run = lambda command: s.execute_tool("shell", {"command": command})  # noqa: E731
        assert run("pwd; git rev-parse HEAD; echo $LEVEL").output.split() == ["/srv/task", repo.second, "7"]
        assert s.run_tests() == ToolResult("7\n", 4, None) and not s.run_tests().success
        assert run("sleep 60").exit_code == 124, "timeout"
        files = [f for d in server.box_cgroups() if s.container_id in str(d) for f in pathlib.Path(d).glob("memory.*") if f.name in
                 ("memory.max", "memory.limit_in_bytes")]
        assert [int(f.read_text()) for f in files] == [box["limits"]["memory_bytes"] + box["limits"]["disk_bytes"]], "what it writes lies in memory, too"
        assert len(run("tail -n +3 /proc/net/dev").output.splitlines()) > 1, "network_enabled"
    with Sandbox.create(SandboxConfig(image="python:3.11-slim"), TaskConfig(repo.url, repo.first)) as s:
        assert s.execute_tool("shell", {"command": "tail -n +3 /proc/net/dev | cut -d: -f1; pwd"}).output.split() == ["lo", "/workspace"]


@pytest.mark.parametrize("language,command", [
    ("python", "python3 -m pytest"), ("javascript", "npm test"), ("go", "go test ./..."), ("rust", "cargo test")])
def test_the_language_says_how_tests_are_run_when_nobody_did(server, repo, language, command):
    with Sandbox.create(SandboxConfig(timeout=30), TaskConfig(repo.url, repo.first, language=language)) as s:
        program = command.split()[0]  # one that tells how it is called, whatever this machine has of that name
        put = f"printf '#!/bin/sh\\necho called: {program} \"$@\"\\n' > /tmp/p; sudo install -m 755 /tmp/p /usr/local/bin/{program}"
        assert s.execute_tool("shell", {"command": put}).success
        r = s.run_tests()
        assert r.success and r.output == f"called: {command}\n", r


def test_reset_and_restore_bring_back_what_was(sandbox, repo):
    sandbox.execute_tool("file_write", {"path": "kept", "content": "1"})
    kept = sandbox.snapshot()
    sandbox.execute_tool("shell", {"command": "git checkout -q side; rm -rf src kept .mood"})
    sandbox.reset()
    assert sandbox.execute_tool("shell", {"command": "git rev-parse HEAD; ls -A"}).output.split() == [
        repo.first, ".git", ".mood", "src"]
    sandbox.restore(kept)
    assert sandbox.execute_tool("file_read", {"path": "kept"}).output == "1"


def test_replay_takes_all_three_shapes_and_says_where_it_diverged(sandbox):
    for step in ({"tool_name": "shell", "params": {"command": "echo a"}, "expected_output": "a"},
                 {"tool_call": {"name": "shell", "parameters": {"command": "echo a"}}, "tool_result": {"output": "a\n"}},
                 {"tool": "shell", "params": {"command": "echo a"}, "output": "a"}):
        r = replay_trajectory(sandbox, Trajectory.from_dict({"steps": [step, {**step, "expected_output": "a"}]}))
        assert r.success and r.divergence_step == -1 and (r.completed_steps, r.total_steps) == (2, 2)
    t = Trajectory.from_dict({"steps": [{"tool_name": "shell", "params": {"command": "echo b"}, "expected_output": "a"}]})
    r = replay_trajectory(sandbox, t)
    assert not r.success and r.divergence_step == 0 and r.details == [
        {"step": 0, "tool_name": "shell", "exit_code": 0, "diverged": True, "output_preview": "b\n"}]
    assert Trajectory.from_dict(t.to_dict()) == t and replay_trajectory(sandbox, Trajectory()).success


def test_another_process_may_attach(sandbox):
    other = Sandbox.attach(sandbox.container_id)
    assert other.is_running and other.execute_tool("shell", {"command": "pwd"}).output == "/workspace\n"


def test_configs_are_the_originals():
    names = lambda c: list(inspect.signature(c).parameters)  # noqa: E731
    assert names(SandboxConfig) == ["image", "timeout", "memory_limit", "cpu_limit", "work_dir", "network_enabled", "env_vars"]
    assert names(TaskConfig) == ["repo_url", "base_commit", "test_command", "language", "setup_commands", "description", "domain"]
    assert TaskConfig().validate() == ["repo_url 不能为空", "base_commit 不能为空"]
    assert TaskConfig(domain="browser").validate() == []
    assert set(agentsandbox.TOOL_REGISTRY) == {"file_read", "file_write", "shell", "search", "git"}
