"""One box, one file system: what the browser downloads, the shell lists, Jupyter opens and the file API reads; and the documentation's
workflow over all of them, by Python's Playwright, against a site in the box. What comes from a package index is skipped, visibly,
where that cannot be reached."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import sg
import test_apps

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE.parents[1] / "build" / "pip-playwright"
PACKAGES = ["playwright==1.65.0", "markdownify==1.2.3"]
SITE = {"index.html": "<title>Things</title><h1>Things</h1><p>Of <b>glass</b> and <a href='/sand.html'>sand</a>.</p><ul><li>one</li><li>two</li></ul>"
                      "<a id=get href=/data.csv download>data</a><script>fetch('/late.txt').then(r => r.text()).then(t => document.body.append(t))</script>",
        "late.txt": "came late", "data.csv": "a,b\n1,2\n3,4\n"}


@pytest.fixture(scope="module")
def server():
    if not os.path.exists("/usr/lib/chromium/chromium") and not os.path.exists("/usr/lib/chromium/chromium-headless-shell"):
        pytest.skip("Debian's chromium is not installed")
    with sg.running("--pool-size", "1") as s:  # everything here is about the default box
        for name, text in SITE.items():
            s.post("/v1/file/write", {"file": f"/home/gem/site/{name}", "content": text})
        s.post("/v1/bash/exec", {"command": "cd /home/gem/site && exec python3 -m http.server 8000 --bind 127.0.0.1", "async_mode": True})
        sg.wait_for(lambda: s.request("GET", "/proxy/8000/").status == 200, 60)
        s.default = sg.Box(s, s.get("/sg/v1/boxes")["boxes"][0]["id"])
        yield s


@pytest.mark.skipif(not os.path.exists("/usr/bin/jupyter-notebook"), reason="Debian's jupyter-notebook is not installed")
def test_a_download_is_one_file_for_browser_shell_jupyter_and_file_api(server):
    box = server.default
    assert box.tool("browser:goto", {"url": "http://127.0.0.1:8000/"})["outcome"] == "ok"
    assert box.tool("browser:click", {"selector": "#get"})["outcome"] == "ok"
    sg.wait_for(lambda: box.run("ls ~/Downloads")["data"]["stdout"] == "data.csv\n", 60)
    listed = server.post("/v1/shell/exec", {"command": "ls /home/gem/Downloads"})["data"]["output"]
    assert "data.csv" in listed
    opened = test_apps.jupyter(server, box, "GET", "api/contents/Downloads/data.csv")
    assert opened["content"] == SITE["data.csv"]
    kernel = test_apps.jupyter(server, box, "POST", "api/kernels", {"name": "python3"}, 201)["id"]
    total = test_apps.cell(server, box, kernel, "import pandas\nprint('rows')\nint(pandas.read_csv('/home/gem/Downloads/data.csv').to_numpy().sum())")
    assert total == ("rows\n", ["10"])
    assert server.post("/v1/file/read", {"file": "/home/gem/Downloads/data.csv"})["data"]["content"] == SITE["data.csv"]
    cell = server.post("/v1/jupyter/execute", {"code": "print(open('/home/gem/Downloads/data.csv').read())"}, timeout=120)
    assert "3,4" in json.dumps(cell["data"]["outputs"])


def test_the_documentations_site_to_markdown_workflow(server, tmp_path):
    if not (PLACE / "done").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
        r = subprocess.run([*pip, "install", "--target", PLACE / "lib", PACKAGES[0]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
        if r.returncode == 0:
            r = subprocess.run([*pip, "download", "--no-deps", "-d", PLACE, PACKAGES[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400)
        if r.returncode:
            pytest.skip(f"pip cannot fetch {PACKAGES}: {r.stdout[-300:]}")
        (PLACE / "done").touch()
    wheel = next(PLACE.glob("markdownify-*.whl"))  # the box has no network: its package comes as a file
    at = f"/sg/v1/boxes/{server.default.id}/files?path=/home/gem/{wheel.name}"
    assert server.request("PUT", at, raw=wheel.read_bytes()).status in (200, 201)
    server.default.out(f"pip install -q --no-index --no-deps --break-system-packages --user ~/{wheel.name} && python3 -c 'import bs4, six'")
    block = (HERE / "blocks" / "aio_26_site_to_markdown.py").read_text()
    script = tmp_path / "block.py"
    script.write_text(block.replace("http://localhost:8080", server.url).replace("https://example.com", "http://127.0.0.1:8000/"))
    path = os.pathsep.join(str(p) for p in (PLACE / "lib", HERE.parents[1] / "sdk" / "python", HERE.parents[1] / "sdk" / "python-aio"))
    r = subprocess.run([sys.executable, script], env={**os.environ, "PYTHONPATH": path}, timeout=400, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.returncode == 0, r.stderr[-3000:]
    assert "/home/gem/site.md" in r.stdout and "Of **glass** and [sand](/sand.html)." in r.stdout
    assert "* one\n* two" in r.stdout and "came late" in r.stdout
