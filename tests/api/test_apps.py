"""Applications for people in a box, /jupyter and /code-server/: started by the first request, over sockets that no page of the box
can reach, on an origin of their own; one file system with all other tools."""

import json
import os
import pathlib
import re
import subprocess
import uuid

import pytest

import sg
import ws
from test_cdp import PLACE, playwright  # noqa: F401
from test_proxy import call

PAGE = {"Accept": "text/html,application/xhtml+xml"}
CODE = "/usr/local/lib/code-server/node_modules/code-server/out/node/entry.js"
LAB = os.path.exists("/usr/local/lib/jupyterlab/version")  # make jupyterlab; else /jupyter is Debian's notebook
FRONT = "lab" if LAB else "tree"
has_jupyter = pytest.mark.skipif(not os.path.exists("/usr/bin/jupyter-notebook"), reason="Debian's jupyter-notebook is not installed")
has_code = pytest.mark.skipif(not os.path.exists(CODE), reason="code-server is not installed (make code-server)")


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="2g") as b:
        yield b


def jupyter(server, box, method, path, body=None, status=200):
    r = server.request(method, f"/box/{box.id}/jupyter/{path}", body, timeout=200)
    assert r.status == status, r
    return r.json if r.body else None


def cell(server, box, kernel, code):
    """Runs a cell over the kernel's WebSocket; what it printed and what it was worth."""
    c = ws.Client(server.port, f"/box/{box.id}/jupyter/api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex}", timeout=120)
    id = uuid.uuid4().hex
    c.json(channel="shell", header={"msg_id": id, "msg_type": "execute_request", "username": "", "session": id, "version": "5.3", "date": ""},
           parent_header={}, metadata={}, buffers=[],
           content={"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": False})
    printed, values, replied = "", [], False
    while True:
        m = c.message()
        if m["parent_header"].get("msg_id") != id:
            continue
        if m["msg_type"] == "stream":
            printed += m["content"]["text"]
        elif m["msg_type"] == "execute_result":
            values.append(m["content"]["data"]["text/plain"])
        elif m["msg_type"] == "execute_reply":
            assert m["content"]["status"] == "ok", m
            replied = True
        idle = m["msg_type"] == "status" and m["content"]["execution_state"] == "idle"
        if idle and replied or m["msg_type"] == "execute_reply" and values and printed:
            c.close()
            return printed, values


def listening(box):
    """Ports of the box's loopback on which somebody listens."""
    return set(box.out("cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" {print $2}'").split())


@has_jupyter
def test_a_notebook_is_made_and_its_kernel_runs_a_cell_over_the_relay(server, box):
    before = listening(box)
    made = jupyter(server, box, "POST", "api/contents", {"type": "notebook"}, 201)
    book = jupyter(server, box, "GET", f"api/contents/{made['path']}")["content"]
    book["cells"] = [{"cell_type": "code", "source": "6 * 7", "metadata": {}, "outputs": [], "execution_count": None}]
    jupyter(server, box, "PUT", f"api/contents/{made['path']}", {"type": "notebook", "content": book})
    assert json.loads(box.out(f"cat ~/{made['path']}"))["cells"][0]["source"] in ("6 * 7", ["6 * 7"])
    assert listening(box) == before, "no page of the box's browser may find a port of it"
    kernel = jupyter(server, box, "POST", "api/kernels", {"name": "python3"}, 201)["id"]
    printed, values = cell(server, box, kernel, "print(open('/home/gem/seen.txt', 'w').write('by the kernel'))\n6 * 7")
    assert (printed, values) == ("13\n", ["42"])
    assert box.tool("file:read", {"path": "/home/gem/seen.txt"})["data"]["content"] == "by the kernel"
    jupyter(server, box, "DELETE", f"api/kernels/{kernel}", status=204)


@has_jupyter
def test_it_is_started_once_and_again_after_it_died(server, box):
    first = box.tool("app:start", {"name": "jupyter"}, timeout=200)["data"]
    again = box.tool("app:start", {"name": "jupyter"})["data"]
    assert again["pid"] == first["pid"] and not again.get("started") and again["path"] == "/jupyter/"
    box.out(f"kill -9 {first['pid']}")
    sg.wait_for(lambda: server.request("GET", f"/box/{box.id}/jupyter/api", timeout=200).status == 200, 120)
    assert box.tool("app:start", {"name": "jupyter"})["data"]["pid"] != first["pid"]
    assert box.tool("app:stop", {"name": "jupyter"})["data"]["stopped"] is True
    assert box.tool("app:stop", {"name": "jupyter"})["data"].get("stopped", False) is False
    sg.wait_for(lambda: not box.run("pgrep -f jupyter-")["data"]["stdout"], 60)


@has_jupyter
def test_a_browser_is_led_to_an_origin_of_its_own_and_a_program_is_not(server, box):
    r = call(server, "GET", f"/box/{box.id}/jupyter", headers=PAGE)
    there = f"jupyter-{box.id}.localhost:{server.port}"
    assert r.status == 302 and r.headers["Location"] == f"http://{there}/jupyter/"
    assert call(server, "GET", f"/box/{box.id}/jupyter/{FRONT}?a=1", headers=PAGE).headers["Location"] == f"http://{there}/jupyter/{FRONT}?a=1"
    page = call(server, "GET", f"/jupyter/{FRONT}", headers={**PAGE, "Host": there})
    assert page.status == 200 and b"Jupyter" in page.body
    assert call(server, "GET", "/jupyter/api/contents", headers={"Host": there}).status == 200
    # the relay's path form is for programs; a page that came by it would be sandboxed
    policies = call(server, "GET", f"/box/{box.id}/jupyter/api").headers.get_all("Content-Security-Policy")
    assert any(p.startswith("sandbox") and "allow-same-origin" not in p for p in policies)
    # a page of another box, or of another site, does not use it
    for origin in ("http://jupyter-b-other.localhost:1", f"http://127.0.0.1:{server.port}"):
        assert call(server, "POST", "/jupyter/api/kernels", b"{}", {"Host": there, "Origin": origin}).status == 403


@has_jupyter
def test_with_credentials_a_ticket_for_that_box_goes_into_a_cookie_that_the_box_never_sees():
    echo = "import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(s):\n  b = str(s.headers).encode()\n" \
           "  s.send_response(200); s.send_header('Content-Length', str(len(b))); s.end_headers(); s.wfile.write(b)\n" \
           "http.server.HTTPServer(('127.0.0.1', 8000), H).serve_forever()"
    with sg.running("--pool-size", "1", env={"BEARER_TOKEN": "a-token-of-this-test", "TICKET_TTL_SECONDS": "600"}) as s:
        s.headers = {"Authorization": "Bearer a-token-of-this-test"}
        with s.box(memory="2g") as b, s.box() as other:
            assert call(s, "GET", f"/box/{b.id}/jupyter/", headers=PAGE).status == 401
            to = call(s, "GET", f"/box/{b.id}/jupyter/{FRONT}?q=1", headers={**PAGE, **s.headers}).headers["Location"]
            host, path, ticket = re.fullmatch(r"http://([^/]+)(/jupyter/\w+\?q=1)&ticket=(.+)", to).groups()
            led = call(s, "GET", f"{path}&ticket={ticket}", headers={**PAGE, "Host": host})
            assert led.status == 200 and f"url={path}\"" in led.body.decode().replace("&quot;", '"') and ticket not in led.body.decode()
            cookie = led.headers["Set-Cookie"].split(";")[0]
            assert ticket not in cookie  # a longer one, but for this box, and it gives no other
            assert call(s, "GET", f"/box/{other.id}/jupyter/api", headers={"Cookie": cookie}).status == 404
            assert call(s, "POST", "/tickets", headers={"Cookie": cookie}).status == 403
            again = call(s, "GET", f"{path}&ticket={cookie.split('=', 1)[1]}", headers={**PAGE, "Host": host})
            assert again.headers["Set-Cookie"].split(";")[0] == cookie
            assert "HttpOnly" in led.headers["Set-Cookie"] and "SameSite=Strict" in led.headers["Set-Cookie"]
            page = call(s, "GET", path, headers={**PAGE, "Host": host, "Cookie": cookie})
            assert page.status == 200 and b"Jupyter" in page.body
            assert call(s, "GET", path, headers={**PAGE, "Host": host}).status == 401
            # it opens this box only
            assert call(s, "GET", f"/box/{other.id}/jupyter/api?ticket={ticket}").status == 404
            assert call(s, "GET", f"/sg/v1/boxes/{other.id}?ticket={ticket}").status == 404
            b.tool("file:write", {"path": "/tmp/echo.py", "content": echo})
            b.tool("bash:start", {"command": "exec python3 /tmp/echo.py"})
            at = {"Host": f"8000-{b.id}.localhost:{s.port}", "Cookie": f"a=b; {cookie}; c=d"}
            sg.wait_for(lambda: call(s, "GET", "/", headers=at).status == 200, 60)
            heard = call(s, "GET", f"/?ticket={ticket}", headers=at).body.decode()
            assert "cookie: a=b; c=d\n" in heard.lower() and ticket not in heard
            # elsewhere than on loopback there is such an origin only if a domain is set aside for it, and the page says so
            remote = {**PAGE, **s.headers, "Host": "sandbox.example.org:8443"}
            r = call(s, "GET", f"/box/{b.id}/jupyter/", headers=remote)
            assert r.status == 421 and b"host.boxes" in r.body
            s.restart("--host-boxes", "boxes.example.net")
            to = call(s, "GET", f"/box/{b.id}/jupyter/{FRONT}", headers=remote).headers["Location"]
            host, path = re.fullmatch(r"http://([^/]+)(/jupyter/\w+\?ticket=.+)", to).groups()
            assert host == f"jupyter-{b.id}.boxes.example.net:8443"
            sg.wait_for(lambda: call(s, "GET", path, headers={"Host": host}).status != 429, 60)  # a new serve finds its boxes again
            assert call(s, "GET", path, headers={"Host": host}).status == 200
            assert call(s, "GET", f"/?ticket={ticket}", headers={"Host": f"8000-{b.id}.boxes.example.net"}).status == 200
            assert call(s, "GET", f"/zzz?ticket={ticket}", headers={"Host": f"8000-{b.id}.boxes.example.com"}).status == 404  # ours


def test_where_code_server_is_missing_the_page_says_how_to_get_it(server, box):
    with server.box(memory="1g") as b:
        if os.path.exists(CODE):
            b.out(f"sudo rm {CODE}")
        host = {"Host": f"code-server-{b.id}.localhost:{server.port}"}
        page = call(server, "GET", "/", headers={**PAGE, **host})
        assert page.status == 503 and b"make code-server" in page.body and "text/html" in page.headers["Content-Type"]
        told = server.request("GET", f"/box/{b.id}/code-server/")
        assert told.status == 503 and "make code-server" in told["error"]["message"]


@has_code
def test_code_server_answers_with_its_pages_and_its_socket(server, box):
    assert server.request("GET", f"/box/{box.id}/code-server/healthz", timeout=200).json["status"] in ("alive", "expired")
    host = {"Host": f"code-server-{box.id}.localhost:{server.port}"}
    first = call(server, "GET", "/", headers={**PAGE, **host})
    assert first.status == 302 and "folder=/home/gem" in first.headers["Location"]
    page = call(server, "GET", "/?folder=/home/gem", headers={**PAGE, **host})
    assert page.status == 200 and b"workbench" in page.body
    commit = re.search(r"stable-([0-9a-f]{40})", page.body.decode())[0]
    c = ws.Client(server.port, f"/box/{box.id}/code-server/{commit}?reconnectionToken={uuid.uuid4()}&reconnection=false&skipWebSocketFrames=false",
                  timeout=60)
    assert c.status == 101
    c.close()


@has_jupyter
def test_a_person_with_a_ticket_opens_them_in_a_real_browser(playwright):  # noqa: F811
    """And what is typed into VS Code's terminal is in the box, where that is installed."""
    if not os.path.exists("/usr/lib/chromium/chromium"):
        pytest.skip("Debian's chromium is not installed")
    script = PLACE / "pages.mjs"
    script.write_text((pathlib.Path(__file__).parent / "pages.mjs").read_text())
    with sg.running("--pool-size", "1", env={"BEARER_TOKEN": "a-token-of-this-test", "TICKET_TTL_SECONDS": "600"}) as s:
        s.headers = {"Authorization": "Bearer a-token-of-this-test"}
        with s.box(memory="3g") as b:
            b.tool("file:write", {"path": "/home/gem/hello.py", "content": "print('hello')\n"})
            ticket = s.request("POST", "/tickets")["ticket"]
            code = "code" if os.path.exists(CODE) else "no"
            r = subprocess.run(["node", script, f"http://localhost:{s.port}/box/{b.id}", ticket, code, "a-token-of-this-test"], cwd=PLACE, timeout=400,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert r.returncode == 0, r.stderr[-3000:]
            saw = json.loads(r.stdout)
            assert saw["login"], "who has no ticket is asked for a key, and gets in with it"
            assert saw["jupyter"]["url"].startswith(f"http://jupyter-{b.id}.localhost:{s.port}/jupyter/{FRONT}") and ticket not in saw["jupyter"]["url"]
            assert saw["jupyter"]["cookie"] == "", "a page must not read the ticket"
            if code == "code":
                sg.wait_for(lambda: b.run("cat /home/gem/typed.txt")["data"]["stdout"] == "typed\n", 60)
