"""What a page asks a person for never hangs anybody: permissions, dialogs, pop-ups, downloads are answered, and told."""

import os
import re
import subprocess

import pytest

import sg

pytestmark = pytest.mark.skipif(not os.path.exists("/usr/lib/chromium/chromium-headless-shell"), reason="Debian's chromium-headless-shell is not installed")

SERVER = """
import http.server, os, time
class Slow(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/slow.bin":
            return super().do_GET()
        self.send_response(200); self.send_header("Content-Type", "application/octet-stream"); self.send_header("Content-Length", "400000"); self.end_headers()
        self.wfile.write(b"a" * 200000); self.wfile.flush()
        while not os.path.exists("/home/gem/go"): time.sleep(0.05)
        self.wfile.write(b"b" * 200000)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Slow).serve_forever()
"""


@pytest.fixture(scope="module")
def box():
    with sg.running("--pool-size", "1") as s, s.box(memory="1500m") as b:
        b.tool("file:write", {"path": "/home/gem/site/index.html", "content": "<title>A</title><a href=/slow.bin download>get</a>"})
        b.tool("file:write", {"path": "/home/gem/serve.py", "content": SERVER})
        b.tool("bash:start", {"command": "cd /home/gem/site && exec python3 ../serve.py"})
        sg.wait_for(lambda: b.run("curl -sf 127.0.0.1:8000/ >/dev/null")["data"]["exit_code"] == 0, 60)
        assert b.tool("browser:goto", {"url": "http://localhost:8000/"})["outcome"] == "ok"
        yield b


ASKS = {
    "notifications": "Notification.requestPermission()",
    "place": "new Promise(done => navigator.geolocation.getCurrentPosition(() => done('granted'), e => done(e.message)))",
    "camera": "navigator.mediaDevices.getUserMedia({video: true}).then(() => 'granted', e => e.name)",
    "screen": "navigator.mediaDevices.getDisplayMedia({video: true}).then(() => 'granted', e => e.name)",
    "clipboard": "navigator.clipboard.readText().then(() => 'granted', e => e.name)",
    "files": "showOpenFilePicker().then(() => 'granted', e => e.name)",
    "keys": "navigator.credentials.get({publicKey: {challenge: new Uint8Array(32)}}).then(() => 'granted', e => e.name)",
    "printer": "print()",
}


TOLD = {"place": "geolocation"}  # else as above


def refuses_all(box, origin):
    for what, expression in ASKS.items():
        r = box.tool("browser:evaluate", {"expression": expression, "timeout": 60})
        assert r["outcome"] == "ok" and r["data"].get("value") != "granted", (what, r)
        assert r["data"]["dialogs"] == [{"type": "permission", "message": f"{TOLD.get(what, what)} ({origin})", "accepted": False}], (what, r)
    assert box.tool("browser:screenshot")["outcome"] == "ok"


def test_what_a_page_wants_to_be_allowed_is_refused_at_once_and_told(box):
    refuses_all(box, "http://localhost:8000")
    frame = "const f = document.createElement('iframe'); document.body.append(f); f.contentWindow.Notification.requestPermission()"
    r = box.tool("browser:evaluate", {"expression": frame})
    assert [d["type"] for d in r["data"]["dialogs"]] == ["permission"], r


def test_a_dialog_before_leaving_does_not_keep_anybody(box):
    box.tool("browser:evaluate", {"expression": "onbeforeunload = e => { e.preventDefault(); return 'stay' }; document.body.click()"})
    assert box.tool("browser:goto", {"url": "http://localhost:8000/?left"})["outcome"] == "ok"


def test_a_download_lands_in_the_box_and_says_how_far_it_is(box):
    news = box.tool("browser:click", {"selector": "a"})["data"].get("downloads") or []

    def more():
        news.extend(box.tool("browser:info")["data"].get("downloads") or [])
        return news
    sg.wait_for(lambda: [d for d in more() if d["state"] == "inProgress" and 0 < d["received"] < d["total"] == 400000], 60)
    assert not [d for d in news if d["state"] == "completed"]
    box.out("touch /home/gem/go")
    sg.wait_for(lambda: [d for d in more() if d["state"] == "completed"], 60)
    assert news[0]["state"] == "started" and news[0]["suggested_filename"] == "slow.bin"
    assert box.out("stat -c %s /home/gem/Downloads/slow.bin").strip() == "400000"


def test_the_browser_says_truly_whether_its_own_sandbox_is_on(box):
    """By what the kernel has around a renderer, looked at from another process."""
    told = box.tool("browser:info")["data"]
    seen = box.out("p=$(pgrep -f 'type=[r]enderer' | head -1); grep -h '^Seccomp_filters\\|^NSpid' /proc/self/status /proc/$p/status | awk '{print $1, NF, $2 * ($1 ~ /filters/)}'").split("\n")
    assert told["sandboxed"] is False and seen[0:2] == seen[2:4] and "user_namespaces" in told["sandbox_why"], (told, seen)
    shown = box.server.get(f"/sg/v1/boxes/{box.id}")["browser"]
    assert shown == {"sandboxed": False, "why": told["sandbox_why"]}


def look(box):
    """What is around a renderer and around a shell, as the kernel has it: pid namespaces, filters, the map of the user namespace."""
    return [x.split("|") for x in box.out(
        "p=$(pgrep -f 'type=[r]enderer' | head -1); for p in self $p; do echo $(grep ^NSpid /proc/$p/status | wc -w)'|'"
        "$(awk '/^Seccomp_filters/ {print $2}' /proc/$p/status)'|'$(tr -s ' ' < /proc/$p/uid_map); done").splitlines()]


def test_in_a_box_with_user_namespaces_chromiums_own_sandbox_is_on_and_the_box_says_so():
    with sg.running("--box-user-namespaces", "ask") as s:
        with s.box(memory="1500m", user_namespaces=True) as b:
            assert "browser" not in s.get(f"/sg/v1/boxes/{b.id}"), "nobody has looked yet"
            page = b.tool("browser:goto", {"url": "data:text/html,<title>In</title><h1>Fenced</h1>"})
            assert page["outcome"] == "ok" and page["data"]["title"] == "In"
            assert s.get(f"/sg/v1/boxes/{b.id}")["browser"] == {"sandboxed": True}
            said = subprocess.run([sg.BINARY, "show", b.id, "--url", s.url], capture_output=True, text=True, timeout=60)
            assert re.search(r"^browser\n  sandboxed +true$", said.stdout, re.M), said
            ours, theirs = look(b)
            assert int(theirs[0]) > int(ours[0]) and int(theirs[1]) > int(ours[1]) and theirs[2] != ours[2], (ours, theirs)
            assert "--no-sandbox" not in b.out("tr '\\0' ' ' < /proc/$(pgrep -of 'chromium.*remote-debugging-pipe')/cmdline")
            info = b.tool("browser:info")["data"]
            assert info["sandboxed"] is True and info["sandbox_why"] == ""
            assert b.tool("browser:screenshot")["data"]["width"] > 0
            assert b.tool("browser:extract")["data"]["text"].strip() == "Fenced"
            # a server that begins anew asks its boxes
            s.kill_role("serve")
            sg.wait_for(lambda: s.request("GET", f"/sg/v1/boxes/{b.id}").status == 200, 60)
            sg.wait_for(lambda: s.get(f"/sg/v1/boxes/{b.id}").get("browser") == {"sandboxed": True}, 60)
