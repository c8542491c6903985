"""The public AgentFlow Python client, unchanged. It is not part of this repository: without AGENTFLOW_CLIENT (a directory
with its package `sandbox`) the first test is skipped. AGENTFLOW_PYTHON names a Python that has httpx and pydantic."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import sg

HERE = pathlib.Path(__file__).resolve().parent
DIRECTORY = os.environ.get("AGENTFLOW_CLIENT")

OURS = HERE.parents[1] / "sdk"


@pytest.mark.skipif(not DIRECTORY, reason="AGENTFLOW_CLIENT does not name the public client's directory")
def test_public_client():
    check(os.environ.get("AGENTFLOW_PYTHON", sys.executable), os.environ)


def test_our_package_of_the_same_name_passes_the_same_checks():
    check(sys.executable, {**os.environ, "AGENTFLOW_CLIENT": str(OURS / "python-agentflow"), "PYTHONPATH": str(OURS / "python")})


def check(python, env):
    run = subprocess.run([python, str(HERE / "agentflow_client.py")], env=env,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    print(run.stdout)
    assert run.returncode == 0, run.stdout
    assert run.stdout.count("ok ") >= 20


ALONE = '''
import asyncio, os, sandbox

async def main():
    async with sandbox.Sandbox() as s:                     # the default address, where nobody is
        await s.create_session("bash")
        r = await s.execute("bash:run", {"command": "echo started for it"})
        print(r["data"]["stdout"].strip())
        await s.destroy_session("bash")
asyncio.run(main())

config = sandbox.SandboxConfig(server_url="http://127.0.0.1:18777", auto_start_server=True, server_startup_timeout=120)
with sandbox.Sandbox(config=config) as s:
    s.create_session_sync("bash")
    print(s.execute_sync("bash:run", {"command": "echo at the address that was asked for"})["data"]["stdout"].strip())

try:
    with sandbox.Sandbox(config=sandbox.SandboxConfig(server_url="http://127.0.0.1:18778", auto_start_server=False)) as s:
        print("wrong")
except sandbox.SandboxConnectionError as e:
    print("refused")
'''


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")
def test_without_a_server_one_is_started_where_it_was_asked_for_and_ends_with_the_program():
    home = sg.open_place("af")
    env = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
    env.update(PYTHONPATH=os.pathsep.join([str(OURS / "python"), str(OURS / "python-agentflow")]), SANDGLASS_BINARY=sg.BINARY,
               SANDGLASS_LOCAL_HOME=str(home / "h"))
    run = subprocess.run(["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-c", ALONE], env=env,
                         capture_output=True, text=True, timeout=300)
    lines = run.stdout.splitlines()
    assert run.returncode == 0 and lines[:2] == ["started for it", "at the address that was asked for"] and lines[-1] == "refused", run
    sg.wait_for(lambda: not [d for d in os.listdir("/proc") if d.isdigit() and str(home) in sg.read(f"/proc/{d}/cmdline", "")], 60)
    shutil.rmtree(home, ignore_errors=True)


def test_schemas_for_models_take_all_spellings_of_a_name():
    """What the original's pipelines ask for; there, names with a colon found nothing (contract, 6 and weakness 18)."""
    from sandbox import get_all_tool_names, get_tool_schemas, get_tools_by_resource
    from sandbox.tool_schemas import to_openai

    for spelled in ("bash:run", "bash-run", "bash_run", "bash.run"):
        (row,) = get_tool_schemas(allowed_tools=[spelled])
        assert row["name"] == "bash-run" and row["parameters"][0] == {
            "name": "command", "type": "string", "required": True, "description": row["parameters"][0]["description"]}
    some, every = get_tool_schemas(["vm*", "file-read"]), get_tool_schemas()
    assert {r["name"].split("-")[0] for r in some} == {"vm", "file"} and len(some) < len(every) == len(get_all_tool_names())
    assert {r["name"] for r in get_tools_by_resource("vm")} == {r["name"] for r in some} - {"file-read"}
    assert get_tool_schemas(["no-such"]) == []
    names = [to_openai(r)["function"]["name"] for r in every]
    assert len(set(names)) == len(names) and all(n.replace("_", "").replace("-", "").isalnum() for n in names)


def test_w19_any_result_has_a_text():
    """The original's formatter raises for tools that it does not know, and for errors without data."""
    from sandbox import format_tool_result

    for meta in ({"tool": "mcp:files.read", "resource_type": "mcp"}, {"tool": "web:image_search"}, {"tool": "rag:stats"}, {}, None):
        assert "fine" in format_tool_result({"code": 0, "message": "success", "data": {"result": "fine"}, "meta": meta})
        assert "went wrong" in format_tool_result({"code": 5000, "message": "went wrong", "data": None, "meta": meta})
    assert format_tool_result({"code": 0, "data": {"content": [{"type": "text", "text": "of MCP"}]}, "meta": {"tool": "mcp:x.y"}}) == "of MCP"
    table = {"code": 0, "data": {"result": {"columns": ["a", "b"], "rows": [[1, 2]]}}, "meta": {"tool": "text2sql:execute", "resource_type": "text2sql"}}
    assert format_tool_result(table) == "a | b\n1 | 2"


def test_a_formatter_of_ones_own_tells_the_answers_of_its_tools():
    from sandbox.result_formatter import ResultFormatter, ToolResult, format_tool_result

    class Weather(ToolResult):
        def to_str(self, verbose=False):
            return f"it is {self.raw_data['sky']}" + (f", told in {self.execution_time:.2f} ms" if verbose else "")

    answer = {"code": 0, "message": "success", "data": {"sky": "blue"}, "meta": {"tool": "sky:look", "resource_type": "sky", "execution_time_ms": 1.5}}
    assert format_tool_result(answer) == '{"sky": "blue"}'
    ResultFormatter.register_formatter("sky", Weather)
    assert format_tool_result(answer) == "it is blue" and ResultFormatter.format(answer).to_str(verbose=True) == "it is blue, told in 1.50 ms"
    assert ResultFormatter.format(answer).get_metadata()["success"] is True and ResultFormatter.format(answer).to_dict() == {"sky": "blue"}


def test_a_configuration_that_is_not_there_is_an_error_of_starting(tmp_path):
    from sandbox import Sandbox, SandboxServerStartError

    with pytest.raises(SandboxServerStartError, match="none.json"):
        Sandbox(server_url="http://127.0.0.1:9", auto_start_server=True, server_config_path=str(tmp_path / "none.json")).start_sync()
