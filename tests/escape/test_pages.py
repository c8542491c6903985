"""A page that a box serves cannot drive our API: tried in a real browser, on every form of the proxy."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import urllib.parse

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import sg  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = """<!doctype html><body><script>
(async () => {
  const base = location.protocol + '//' + (location.hostname.endsWith('.localhost') ? 'localhost' : location.hostname.replace(/^9000-/, '')) + ':' + location.port;
  const order = { method: 'POST', body: JSON.stringify({ command: 'touch /tmp/pwned', id: 'p', create: true }), headers: { 'Content-Type': 'text/plain' } };
  const out = { origin: self.origin };
  const tries = {
    read: async () => (await fetch(base + '/v1/sandbox')).status,
    post: async () => (await fetch(base + '/v1/shell/exec', order)).status,
    blind: async () => (await fetch(base + '/v1/shell/exec', { ...order, mode: 'no-cors' })).type,
    ws: () => new Promise(r => { const w = new WebSocket(base.replace('http', 'ws') + '/v1/shell/ws'); w.onopen = () => r('OPEN'); w.onerror = () => r('refused'); }),
  };
  for (const name in tries) try { out[name] = await tries[name](); } catch (e) { out[name] = 'blocked'; }
  new Image().src = 'result?' + encodeURIComponent(JSON.stringify(out));  // told to its own server, which logs it
})();
</script>"""


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1", "--host-names", "sand.test.example")
    try:
        yield s.start()
    finally:
        s.end()


@pytest.mark.skipif(not BROWSER, reason="no Chromium here; tests/api/test_proxy.py looks at the headers")
def test_a_page_of_a_box_can_neither_read_nor_change_anything_of_ours(server, tmp_path):
    box = server.create()
    for at in (f"/box/{box}", ""):
        server.post(f"{at}/v1/file/write", {"file": "/home/gem/w/index.html", "content": PAGE})
        server.post(f"{at}/v1/bash/exec", {"command": "cd /home/gem/w && exec python3 -m http.server 9000 2>log", "async_mode": True})
        sg.wait_for(lambda: server.request("GET", f"{at}/proxy/9000/").status == 200, 60)

    def told(at):
        log = server.post(f"{at}/v1/file/read", {"file": "/home/gem/w/log"})["data"]["content"]
        return re.findall(r"GET /result\?(\S+)", log)

    pages = ((f"/box/{box}", f"{server.url}/box/{box}/proxy/9000/"), (f"/box/{box}", f"http://9000-{box}.localhost:{server.port}/"),
             ("", f"http://9000-localhost:{server.port}/"), ("", f"http://9000-sand.test.example:{server.port}/"))  # the last is of our site
    for number, (at, page) in enumerate(pages):
        before = len(told(at))
        browser = subprocess.Popen([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                                    "--host-resolver-rules=MAP *-localhost 127.0.0.1, MAP *.test.example 127.0.0.1",
                                    "--remote-debugging-port=0", f"--user-data-dir={tmp_path / str(number)}", page],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            sg.wait_for(lambda: len(told(at)) > before, 120, every=0.5)
        finally:
            os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()
        out = json.loads(urllib.parse.unquote(told(at)[-1]))
        assert (out["read"], out["post"], out["ws"]) == ("blocked", "blocked", "refused"), out
        assert out["origin"] == "null" or out["origin"].startswith("http://9000-"), out
    look = server.post("/v1/bash/exec", {"command": "ls /tmp/pwned"})["data"]  # in the default box, which it asked for
    assert look["exit_code"] == 2, "the blind order was carried out"
