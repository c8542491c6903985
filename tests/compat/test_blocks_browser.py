"""The blocks of AIO's documentation that need a browser, and those of its hub and its cloud: against a site in the box. Packages of
others come from an index and are skipped, visibly, where that cannot be reached."""

import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

import sg
import test_blocks

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE.parents[1] / "build" / "pip-blocks"
PACKAGES = ["playwright==1.65.0", "httpx==0.28.1"]
SITE = {
    "index.html": "<title>Example Domain</title><h1>Example Domain</h1><p>For use in <b>examples</b>.</p>"
                  "<button id=submit-button onclick='this.textContent=\"pressed\"'>press</button>"
                  "<form action=/found.html><input name=q></form><p style='height:3000px'>long</p>"
                  "<script>document.cookie='seen=yes'; fetch('/api/data').catch(e => 0)</script>",
    "found.html": "<title>Found</title><article data-testid=result><h2>A result</h2><a href=/there.html>there</a></article>",
}


@pytest.fixture(scope="module")
def server():
    if not os.path.exists("/usr/lib/chromium/chromium") and not os.path.exists("/usr/lib/chromium/chromium-headless-shell"):
        pytest.skip("Debian's chromium is not installed")
    with sg.running("--pool-size", "1") as s:
        for name, text in SITE.items():
            s.post("/v1/file/write", {"file": f"/home/gem/site/{name}", "content": text})
        s.post("/v1/bash/exec", {"command": "cd /home/gem/site && exec python3 -m http.server 8000 --bind 127.0.0.1", "async_mode": True})
        sg.wait_for(lambda: s.request("GET", "/proxy/8000/").status == 200, 60)
        yield s


SITE_URL = {"https://example.com": "http://127.0.0.1:8000/", "https://github.com": "http://127.0.0.1:8000/found.html"}


def block(server, name, changed=None, **more):
    return test_blocks.run(server, name, {**SITE_URL, **(changed or {})}, **more)


def evaluate(server, script):
    return server.post("/v1/browser/page/evaluate", {"expression": script}, timeout=120)["data"]


def is_png(path):
    return pathlib.Path(path).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_browser(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url, viewport = block(server, "aio_15_browser").splitlines()
    assert url.startswith("ws://") and "width" in viewport and is_png("screen.png")
    assert server.get("/v1/browser/info")["data"]["viewport"] == {"width": 1920, "height": 1080}


def test_page(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = block(server, "aio_16_page")
    assert "For use in examples." in out and "# Example Domain" in out and "**examples**" in out and "\nExample Domain\n" in out
    assert is_png("page.png")
    sg.wait_for(lambda: evaluate(server, "location.href") == "http://127.0.0.1:8000/found.html?q=AIO+Sandbox", 60)  # typed, and sent by Enter


def test_tabs(server):
    before = len(server.get("/v1/browser/tabs")["data"])
    lines = block(server, "aio_17_tabs").splitlines()
    assert lines[0] == f"Open tabs: {before}" and lines[1]
    assert len(server.get("/v1/browser/tabs")["data"]) == before, "one came, one went"


def test_cookies(server):
    server.post("/v1/browser/page/navigate", {"url": "http://127.0.0.1:8000/", "wait_until": "networkidle"}, timeout=120)
    assert block(server, "aio_18_cookies") == "seen=yes\n"
    assert block(server, "aio_18_cookies") == "", "they were cleared"


def test_network(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.post("/v1/browser/page/navigate", {"url": "http://127.0.0.1:8000/", "wait_until": "networkidle"}, timeout=120)
    out = block(server, "aio_19_network")
    assert "GET http://127.0.0.1:8000/ → 200" in out and "GET http://127.0.0.1:8000/api/data → 404" in out
    assert json.loads(pathlib.Path("trace.har").read_text())["log"]["entries"]
    text = (HERE / "blocks" / "aio_19_network.py").read_text()
    block(server, "aio_19_network", {text[text.index("# Remove a route"):]: ""})  # so that the route is there
    got = evaluate(server, "fetch('/api/data').then(r => r.text())")
    assert json.loads(got) == {"mocked": True}
    block(server, "aio_19_network")
    assert "mocked" not in str(evaluate(server, "fetch('/api/data').then(r => r.text())"))


def test_state(server):
    server.post("/v1/browser/page/navigate", {"url": "http://127.0.0.1:8000/", "wait_until": "networkidle"}, timeout=120)
    evaluate(server, "localStorage.setItem('kept', 'yes'), 1")
    block(server, "aio_20_state")
    kept = json.loads(server.post("/v1/file/read", {"file": "/home/gem/browser_state.json"})["data"]["content"])
    assert "seen" in json.dumps(kept)


def with_packages(server, name, changed, tmp_path):
    if not (PLACE / "done").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        r = subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--target", PLACE / "lib", *PACKAGES],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
        if r.returncode:
            pytest.skip(f"pip cannot fetch {PACKAGES}: {r.stdout[-300:]}")
        (PLACE / "done").touch()
    text = (HERE / "blocks" / f"{name}.py").read_text()
    for old, new in {"http://localhost:8080": server.url, **SITE_URL, **changed}.items():
        text = text.replace(old, new)
    path = os.pathsep.join(str(p) for p in (PLACE / "lib", HERE.parents[1] / "sdk" / "python", HERE.parents[1] / "sdk" / "python-aio"))
    r = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": path}, cwd=tmp_path, timeout=300, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr[-3000:]
    return r.stdout


def test_playwright(server, tmp_path):
    out = with_packages(server, "aio_21_playwright", {"https://duckduckgo.com": "http://127.0.0.1:8000/", "timeout=10000": "timeout=100000"}, tmp_path)
    assert out == "Title: A result\nLink: /there.html\n" and is_png(tmp_path / "results.png")


def test_mcp_hub(server, tmp_path):
    data, uname = with_packages(server, "aio_22_mcp_hub", {"timeout=30.0": "timeout=300.0"}, tmp_path).splitlines()
    assert "Example Domain" in data and "Linux" in uname


def test_volcengine(server, monkeypatch):
    """Their cloud is an outside service: a scripted one gives out our own server."""
    calls = []

    class Provider:
        def __init__(self, **keys):
            calls.append(sorted(keys))

        def create_application(self, name, gateway_name):
            return "app-1"

        def get_application_readiness(self, id):
            calls.append(id)
            return (True, "f-1") if calls.count(id) > 1 else (False, None)

        def create_sandbox(self, function_id):
            return "sandbox-1"

        def list_sandboxes(self, function_id):
            return ["sandbox-1"]

        def get_sandbox(self, function_id, sandbox_id):
            return {"domains": [{"type": "private", "domain": "http://127.0.0.1:1"}, {"type": "public", "domain": server.url}]}

        def delete_sandbox(self, function_id, sandbox_id):
            calls.append(("deleted", sandbox_id))

    module = types.ModuleType("agent_sandbox.providers")
    module.VolcengineProvider = Provider
    monkeypatch.setitem(sys.modules, "agent_sandbox.providers", module)
    for name in ("ACCESS_KEY", "SECRET_KEY"):
        monkeypatch.setenv(f"VOLCENGINE_{name}", "x")
    out = block(server, "aio_23_volcengine")
    assert "Sandbox created: sandbox-1\nTotal sandboxes: 1\n" in out and "site" in out and calls[-1] == ("deleted", "sandbox-1")
