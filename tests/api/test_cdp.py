"""The box's browser for other people's tools: /cdp, over which playwright-core from npm works unchanged while our own tools drive
the same browser; and what a browser that is none can do to those who ask it."""

import json
import pathlib
import socket
import subprocess

import pytest

import sg
import test_browser
import ws

HERE = pathlib.Path(__file__).resolve().parent
PLACE = HERE.parent.parent / "build" / "npm-playwright"
PACKAGE = "playwright-core@1.65.0"
SITE = "http://127.0.0.1:8000"
WANTED = {"goto": 200, "title": "Form", "fill": "Ada", "check": True, "select": ["g"], "keyboard": "Ada!", "frame": "inside was clicked",
          "shadow": "deep was clicked", "screenshot": True, "submit": "?name=Ada%21&agree=on&colour=g", "back": "/form.html", "evaluate": 6,
          "dialog": True, "route": "by the client", "cookies": ["playwright"], "context": ["Done", 0], "waits": "?clicked", "close": True}


@pytest.fixture(scope="module")
def playwright():
    if not (PLACE / "done").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        (PLACE / "package.json").write_text("{}")
        r = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", PACKAGE], cwd=PLACE, timeout=400,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            pytest.skip(f"npm cannot install {PACKAGE}: {r.stdout[-300:]}")
        (PLACE / "done").touch()
    script = PLACE / "script.mjs"
    script.write_text((HERE / "playwright.mjs").read_text())

    def run(endpoint, headers=None):
        r = subprocess.run(["node", script, endpoint, json.dumps(headers or {}), SITE], cwd=PLACE, timeout=400, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert r.returncode == 0, r.stderr[-3000:]
        return json.loads(r.stdout)
    return run


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="2g") as b:
        if b.run("test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell")["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        for name, text in test_browser.PAGES.items():
            b.tool("file:write", {"path": f"/home/gem/site/{name}", "content": text})
        b.tool("bash:start", {"command": "cd /home/gem/site && exec python3 -m http.server 8000 --bind 127.0.0.1"})
        sg.wait_for(lambda: b.run("curl -sf 127.0.0.1:8000/form.html >/dev/null")["data"]["exit_code"] == 0, 60)
        yield b


def own(box, tool, **params):
    r = box.tool(f"browser:{tool}", params)
    assert r["outcome"] == "ok", r
    return r["data"]


def check(result):
    assert result["steps"] == 20
    assert {k: v for k, v in result["saw"].items() if k in WANTED} == WANTED


def test_the_first_question_starts_the_browser_and_every_address_is_ours(server, box):
    at = f"/box/{box.id}/cdp"
    version = server.request("GET", f"{at}/json/version", timeout=120)
    assert version.status == 200 and "Chrome/" in version["Browser"]
    front = f"ws://127.0.0.1:{server.port}{at}/devtools/"
    assert version["webSocketDebuggerUrl"].startswith(front + "browser/")
    tab = server.request("PUT", f"{at}/json/new?{SITE}/done.html").json
    assert tab["webSocketDebuggerUrl"] == f"{front}page/{tab['id']}"
    assert tab["devtoolsFrontendUrl"].endswith(f"?ws=127.0.0.1:{server.port}{at}/devtools/page/{tab['id']}")
    assert server.request("GET", f"{at}/json/new").status == 405  # as Chromium has it
    assert tab["id"] in [t["id"] for t in server.request("GET", f"{at}/json/list").json]
    assert tab["id"] in [t["id"] for t in server.request("GET", f"/box/{box.id}/json").json]
    assert server.request("GET", f"{at}/json/activate/{tab['id']}").status == 200
    assert {d["domain"] for d in server.request("GET", f"{at}/json/protocol").json["domains"]} >= {"Page", "Target", "DOM"}
    assert server.request("GET", f"{at}/json/close/{tab['id']}").status == 200
    sg.wait_for(lambda: tab["id"] not in [t["id"] for t in server.request("GET", f"{at}/json/list").json], 60)
    assert version["webSocketDebuggerUrl"].endswith(own(box, "info")["cdp_path"])
    for path, headers in ((f"/box/{box.id}", {}), ("", {"X-Sandglass-Box": box.id})):  # AIO's way to ask
        info = server.request("GET", f"{path}/v1/browser/info", headers=headers)
        assert info["data"]["cdp_url"] == version["webSocketDebuggerUrl"]


def test_a_page_of_the_box_is_driven_over_the_relayed_socket(server, box):
    tab = server.request("PUT", f"/box/{box.id}/cdp/json/new?{SITE}/done.html", timeout=120).json
    c = ws.Client(server.port, tab["webSocketDebuggerUrl"].split(str(server.port), 1)[1], timeout=60)
    c.json(id=1, method="Runtime.evaluate", params={"expression": "'x'.repeat(3000000)"})  # a large answer passes as it is
    answer = c.message()
    while answer.get("id") != 1:
        answer = c.message()
    assert len(answer["result"]["result"]["value"]) == 3000000
    c.close()
    server.request("GET", f"/box/{box.id}/cdp/json/close/{tab['id']}")


def test_twenty_steps_of_playwright_beside_our_own_tools(server, box, playwright):
    own(box, "goto", url=f"{SITE}/form.html")
    own(box, "type", selector="#name", text="mine")
    check(playwright(f"{server.url}/box/{box.id}/cdp"))
    assert own(box, "evaluate", expression="document.querySelector('#name').value")["value"] == "mine"


def test_with_credentials_it_works_by_header_and_by_ticket_and_not_without(playwright):
    with sg.running("--pool-size", "1", env={"BEARER_TOKEN": "a-token-of-this-test"}) as s:
        s.headers = {"Authorization": "Bearer a-token-of-this-test"}
        with s.box(memory="2g") as b:
            for name, text in test_browser.PAGES.items():
                b.tool("file:write", {"path": f"/home/gem/site/{name}", "content": text})
            b.tool("bash:start", {"command": "cd /home/gem/site && exec python3 -m http.server 8000 --bind 127.0.0.1"})
            at = f"/box/{b.id}/cdp"
            version = s.request("GET", f"{at}/json/version", timeout=120)
            assert version.status == 200
            check(playwright(f"{s.url}{at}", s.headers))
            ticket = s.request("POST", "/tickets")["ticket"]
            s.headers = {}
            assert s.request("GET", f"{at}/json/version").status == 401
            with pytest.raises(ws.Refused) as e:
                ws.Client(s.port, version["webSocketDebuggerUrl"].split(str(s.port), 1)[1])
            assert e.value.status == 401
            told = s.request("GET", f"{at}/json/version?ticket={ticket}")
            assert told.status == 200 and told["webSocketDebuggerUrl"].endswith(f"?ticket={ticket}")
            c = ws.Client(s.port, told["webSocketDebuggerUrl"].split(str(s.port), 1)[1], timeout=60)
            c.json(id=7, method="Browser.getVersion")
            assert c.message()["id"] == 7
            s.headers = {"Authorization": "Bearer a-token-of-this-test"}  # to end the box


def test_other_sites_and_pages_of_the_same_box_do_not_get_the_browser(server, box):
    version = server.request("GET", f"/box/{box.id}/cdp/json/version", timeout=120).json
    path = version["webSocketDebuggerUrl"].split(str(server.port), 1)[1]
    with pytest.raises(ws.Refused) as e:
        ws.Client(server.port, path, headers=["Origin: http://evil.example"])
    assert e.value.status == 403
    port = box.run("head -1 /run/sandglass/user/browser-browser/DevToolsActivePort")["data"]["stdout"].strip()
    own(box, "goto", url=f"{SITE}/done.html")
    tried = own(box, "evaluate", expression=f"""Promise.all([
        new Promise(r => {{ const w = new WebSocket('ws://127.0.0.1:{port}{path[path.index('/devtools'):]}'); w.onopen = () => r('open'); w.onerror = () => r('refused') }}),
        fetch('http://127.0.0.1:{port}/json/list').then(r => r.text(), () => 'unreadable'),
        fetch('http://127.0.0.1:{port}/json/new?about:blank', {{ method: 'PUT' }}).then(r => 'made', () => 'not made')])""")["value"]
    assert tried == ["refused", "unreadable", "not made"]


FAKE = r'''
import socket, threading, itertools
def one(c):
    head = b""
    while b"\r\n\r\n" not in head:
        got = c.recv(65536)
        if not got: return
        head += got
    path = head.split(b" ")[1].decode()
    say = c.sendall
    if path == "/json/garbage": say(bytes(range(256)) * 100)
    elif path == "/json/away": say(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")
    elif path == "/json/endless":
        say(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in itertools.count(): say(b"ws://localhost/devtools/" * 4000)
    elif path == "/json/large": say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n[")
    elif path == "/json/unasked": say(b"HTTP/1.1 101 Hi\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    elif path == "/json/cut": say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[")
    elif path == "/json/page": say(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: 27\r\n\r\n<script>alert('x')</script>")
    elif path.startswith("/devtools"):
        say(b"HTTP/1.1 101 Hi\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n")
        say(b"\xff" * 1000)
        for _ in itertools.count(): say(b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff" + b"x" * 60000)
    c.close()
s = socket.create_server(("127.0.0.1", 9333))
while True:
    c, _ = s.accept()
    threading.Thread(target=lambda c=c: [one(c)], daemon=True).start()
'''


def test_a_browser_that_is_none_harms_nobody(server):
    with server.box(memory="2g") as b:
        own(b, "info")
        b.tool("file:write", {"path": "/home/gem/fake.py", "content": FAKE})
        b.tool("bash:start", {"command": "exec python3 /home/gem/fake.py 2>/dev/null"})
        b.out("printf '9333\\n/devtools/browser/x' > /run/sandglass/user/browser-browser/DevToolsActivePort")
        at = f"/box/{b.id}/cdp"
        ready = lambda: server.request("GET", f"{at}/json/page").status == 200  # noqa: E731
        sg.wait_for(ready, 60)
        page = server.request("GET", f"{at}/json/page")
        assert page.headers["Content-Type"].startswith("application/json") and page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["Set-Cookie"] is None
        for path in ("garbage", "away", "endless", "unasked", "cut"):
            r = server.request("GET", f"{at}/json/{path}", timeout=120)
            assert r.status == 502 and r.headers["Location"] is None, (path, r)
        with socket.create_connection(("127.0.0.1", server.port), 60) as s:  # hangs, and the client leaves
            s.sendall(f"GET {at}/json/large HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        c = ws.Client(server.port, f"{at}/devtools/browser/x", timeout=60)  # frames without end, to a client that does not read
        serve = server.pids()["serve"]
        assert server.request("GET", "/health").status == 200
        c.close()
        with server.box() as other:
            assert other.run("echo fine")["data"]["stdout"] == "fine\n"
        assert server.pids()["serve"] == serve
        resident = next(int(x.split()[1]) for x in sg.read(f"/proc/{serve}/status").splitlines() if x.startswith("VmRSS"))
        assert resident < 300_000, "it kept what the client did not read"
