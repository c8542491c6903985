"""Servers inside a box from outside, and what keeps their pages apart from our own."""

import http.client
import socket
import urllib.parse

import pytest

import sg
import ws

SERVER = '''
import base64, hashlib, http.server, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(s, body, *headers):
        s.send_response(200)
        for h in headers: s.send_header(*h)
        s.send_header("Content-Length", str(len(body)))
        s.end_headers()
        s.wfile.write(body)
    def do_GET(s):
        if s.headers.get("Upgrade"):
            key = s.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            s.wfile.write(("HTTP/1.1 101 Hi\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n").encode())
            n = s.rfile.read(2)[1] & 127
            mask = s.rfile.read(4)
            data = bytes(b ^ mask[i & 3] for i, b in enumerate(s.rfile.read(n)))
            s.wfile.write(bytes([0x81, n]) + data)
            s.close_connection = True
        elif s.path.startswith("/events"):
            s.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n9\\r\\ndata: 1\\n\\n\\r\\n")
            s.wfile.flush()
            s.rfile.read(1)  # until the client is gone
            open("/tmp/gone", "w").close()
        elif "/away" in s.path:
            s.send_response(302); s.send_header("Location", s.path.partition("?")[2] or "/there"); s.send_header("Content-Length", "0"); s.end_headers()
        elif s.path.startswith("/bad"):
            s.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n")
            s.close_connection = True
        else:
            s.answer((s.path + "\\n" + str(s.headers)).encode(), ("Set-Cookie", "a=b"), ("Set-Cookie", "c=d; Domain=localhost"),
                     ("Access-Control-Allow-Origin", "*"))
    def do_POST(s):
        left, total = int(s.headers.get("Content-Length") or 0), 0
        if s.headers.get("Transfer-Encoding"):
            while (n := int(s.rfile.readline(), 16)):
                total += len(s.rfile.read(n)); s.rfile.readline()
        while total < left: total += len(s.rfile.read(min(65536, left - total)))
        s.answer(str(total).encode())
    def log_message(s, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
'''


@pytest.fixture(scope="module")
def box(server):
    box = server.create()
    server.post(f"/box/{box}/v1/file/write", {"file": "/tmp/server.py", "content": SERVER})
    server.post(f"/box/{box}/v1/bash/exec", {"command": "python3 /tmp/server.py", "async_mode": True})
    sg.wait_for(lambda: server.request("GET", f"/box/{box}/proxy/8000/").status == 200, 20)
    yield box
    server.delete(f"/sg/v1/boxes/{box}")


def call(server, method, path, body=None, headers=None, **more):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    c.request(method, path, body, headers or {}, **more)
    r = c.getresponse()
    data = r.read()
    c.close()
    return sg.Reply(r.status, r.headers, data)


def test_each_form_reaches_the_server_with_its_own_path(server, box):
    host = {"Host": f"8000-{box}.localhost:{server.port}"}
    for path, headers, want in ((f"/box/{box}/proxy/8000/a%20b?x=1", {}, "/a%20b?x=1"),
                                (f"/box/{box}/proxy/8000/_next/%5B...slug%5D.js", {}, "/_next/%5B...slug%5D.js"),
                                (f"/box/{box}/proxy/8000/a//b..c//", {}, "/a//b..c//"),
                                ("/compare/1...2//x", host, "/compare/1...2//x"),
                                (f"/box/{box}/absproxy/8000", {}, "/absproxy/8000"),
                                (f"/box/{box}/absproxy/8000/a", {}, "/absproxy/8000/a"),
                                ("/v1/shell/exec", host, "/v1/shell/exec"),
                                ("/v1/a", {"X-AIO-Proxy-Port": "8000", "X-Sandglass-Box": box}, "/v1/a")):
        r = call(server, "GET", path, headers=headers)
        assert r.status == 200 and r.body.decode().split("\n")[0] == want, (path, r)
    for path in (f"/box/{box}/proxy/8000/../v1/ping", f"/box/{box}/proxy/8000/%2e%2e", f"/box/{box}//v1/ping", "/v1//ping", "//v1/ping"):
        assert call(server, "GET", path).status == 400, "nothing of ours is asked for in two ways: " + path


def test_a_server_is_told_how_it_was_asked_for(server, box):
    for given, want in (({}, "http"), ({"X-Forwarded-Proto": "https"}, "https")):  # as a gateway before us says it
        told = call(server, "GET", f"/box/{box}/proxy/8000/x", headers=given).body.decode().lower().splitlines()
        assert {f"x-forwarded-proto: {want}", f"x-forwarded-host: 127.0.0.1:{server.port}", f"x-forwarded-prefix: /box/{box}/proxy/8000"} <= set(told), told


def test_a_port_without_a_slash_leads_to_the_one_with_it(server, box):
    for method in ("GET", "HEAD"):
        for query in ("", "?x=1&y=%2F"):
            r = call(server, method, f"/box/{box}/proxy/8000{query}")
            assert r.status == 308 and urllib.parse.urljoin(f"/box/{box}/proxy/8000{query}", r.headers["Location"]) == f"/box/{box}/proxy/8000/{query}", r
    assert call(server, "POST", f"/box/{box}/proxy/8000", b"data").body == b"4"  # a body is not sent twice
    c = ws.Client(server.port, f"/box/{box}/proxy/8000")
    c.send("hello")
    assert c.recv() == (1, b"hello")


def test_redirects_of_the_server_stay_behind_the_prefix(server, box):
    header = {"X-AIO-Proxy-Port": "8000"}
    host = {"Host": f"8000-{box}.localhost:{server.port}"}
    for path, headers, to, want in (
            (f"/box/{box}/proxy/8000/away", {}, "/there", f"/box/{box}/proxy/8000/there"),
            (f"/box/{box}/proxy/8000/away", {}, f"/box/{box}/proxy/8000/there", f"/box/{box}/proxy/8000/there"),  # by X-Forwarded-Prefix
            (f"/box/{box}/proxy/8000/away", {}, "http://localhost:8000/there", f"/box/{box}/proxy/8000/there"),
            (f"/box/{box}/proxy/8000/away", {}, "http://localhost:80001/", "http://localhost:80001/"),
            (f"/box/{box}/proxy/8000/away", {}, "there", "there"),
            (f"/box/{box}/proxy/8000/away", {}, "//elsewhere/", "//elsewhere/"),
            (f"/box/{box}/absproxy/8000/away", {}, "/absproxy/8000/there", f"/box/{box}/absproxy/8000/there"),
            (f"/box/{box}/away", header, "/there", f"/box/{box}/there"),
            ("/away", {**header, "X-Sandglass-Box": box}, "/there", "/there"),
            ("/away", host, "/there", "/there"),
            ("/away", host, "http://localhost:8000/there", "/there")):
        r = call(server, "GET", f"{path}?{to}", headers=headers)
        assert (r.status, r.headers["Location"]) == (302, want), (path, to)


def test_bodies_of_known_and_unknown_length_go_through(server, box):
    data = b"x" * 3_000_000
    assert call(server, "POST", f"/box/{box}/proxy/8000/up", data).body == b"3000000"
    pieces = (data[i:i + 100000] for i in range(0, len(data), 100000))
    r = call(server, "POST", f"/box/{box}/proxy/8000/up", pieces, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert r.body == b"3000000"


def test_websockets_and_event_streams_go_through_at_once(server, box):
    c = ws.Client(server.port, f"/box/{box}/proxy/8000/ws")
    c.send("hello")
    assert c.recv() == (1, b"hello")
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    s.sendall(f"GET /box/{box}/proxy/8000/events HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    got = b""
    while b"data: 1" not in got:
        got += s.recv(65536)
    s.close()  # the server in the box hears of it
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/file/find", {"path": "/tmp", "glob": "gone"})["data"]["files"])


def test_by_path_a_page_is_sandboxed_and_cookies_and_credentials_stay_on_their_side(server, box):
    r = call(server, "GET", "/proxy/8000/x?q=1", headers={"Cookie": "sid=1", "X-Sandglass-Box": box})
    text = r.body.decode()
    assert text.startswith("/x?q=1\n") and "sid=1" not in text and "sandglass" not in text.lower()
    assert r.headers["Set-Cookie"] is None and r.headers["Access-Control-Allow-Origin"] is None
    policy = r.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox") and "allow-same-origin" not in policy


def test_a_key_for_us_never_reaches_a_server_in_a_box():
    s = sg.Server("--pool-size", "1")
    try:
        s.start()
        key = s.post("/sg/v1/keys", {"role": "operator"}, 201)["key"]
        s.headers = {"Authorization": f"Bearer {key}"}
        box = s.create()
        s.post(f"/box/{box}/v1/file/write", {"file": "/tmp/server.py", "content": SERVER})
        s.post(f"/box/{box}/v1/bash/exec", {"command": "python3 /tmp/server.py", "async_mode": True})
        sg.wait_for(lambda: s.request("GET", f"/box/{box}/proxy/8000/").status == 200, 20)
        for path, headers in (("x", s.headers), ("x", {"X-AIO-API-Key": key}), (f"x?api_key={key}&q=1", {})):
            r = call(s, "GET", f"/box/{box}/proxy/8000/{path}", headers=headers)
            assert r.status == 200 and key not in r.body.decode(), (path, r)
    finally:
        s.end()


def test_by_host_a_page_has_its_own_origin_on_which_nothing_of_ours_answers(server, box):
    host = {"Host": f"8000-{box}.localhost:{server.port}", "Cookie": "mine=1"}
    r = call(server, "GET", "/sg/v1/boxes", headers=host)
    assert "mine=1" in r.body.decode() and r.headers.get_all("Set-Cookie") == ["a=b"]  # none for all of localhost
    from_there = {"Origin": f"http://8000-{box}.localhost:{server.port}"}
    assert call(server, "POST", "/v1/shell/exec", b"{}", from_there).status == 403
    with pytest.raises(ws.Refused) as e:
        ws.Client(server.port, "/v1/shell/ws", headers=[f"Origin: {from_there['Origin']}"])
    assert e.value.status == 403
    r = call(server, "GET", "/v1/sandbox", headers=from_there)
    assert r.status == 403 and r.headers["Access-Control-Allow-Origin"] is None


def test_pages_of_a_box_go_on_reading_from_their_own_server_and_other_pages_do_not(server, box):
    """Module scripts, fonts and fetches of a page show its Origin: "null" where the page is sandboxed (by path), and its
    name by host, of which a box has one for each port."""
    by_path, own = f"/box/{box}/proxy/8000/x", f"8000-{box}.localhost:{server.port}"
    there = {"Host": own}
    assert call(server, "GET", by_path, headers={"Origin": "null"}).body.decode().startswith("/x\n")
    for origin in (f"http://{own}", f"http://3000-{box}.localhost:{server.port}", f"http://jupyter-{box}.localhost:{server.port}", "null"):
        assert call(server, "GET", "/x", headers={**there, "Origin": origin}).body.decode().startswith("/x\n"), origin
    for origin in ("http://evil.example", f"http://evil.example:{server.port}", f"http://127.0.0.1:{server.port}", "http://8000-b-other.localhost:1",
                   f"http://8000-{box}.evil.example", f"evil{box}.localhost", f"http://x-{box}.localhost:{server.port}", ""):
        r = call(server, "GET", "/x", headers={**there, "Origin": origin})
        assert r.status == 403 and "cors.origins" in r["detail"], origin
    for origin in ("http://evil.example", f"http://{own}", ""):
        assert call(server, "GET", by_path, headers={"Origin": origin}).status == 403, origin
    for path in ("/sg/v1/boxes", f"/box/{box}/json/version", f"/box/{box}/v1/sandbox", "/static/page/login.js"):
        assert call(server, "GET", path, headers={"Origin": "null"}).status == 403, "that is ours, not the box's"


@pytest.fixture(scope="module")
def named():
    """A server with names of its own, in whose default box the server runs."""
    s = sg.Server("--pool-size", "1", "--host-names", "sand.example 80-sand.example")
    try:
        s.start()
        s.post("/v1/file/write", {"file": "/tmp/server.py", "content": SERVER})
        s.post("/v1/bash/exec", {"command": "python3 /tmp/server.py", "async_mode": True})
        sg.wait_for(lambda: s.request("GET", "/proxy/8000/").status == 200, 20)
        yield s
    finally:
        s.end()


def test_a_port_of_the_servers_own_name_is_one_of_the_default_box(named):
    for host in (f"8000-localhost:{named.port}", "8000-localhost", f"8000-sand.example:{named.port}", "8000-Sand.Example", "8000-80-sand.example"):
        for path in ("/x?q=1", "/sg/v1/boxes", "/health", "/v1/shell/exec", "/proxy/8001/", "/box/b-none/proxy/1/", "/cdp/json", "/static/page/login.js"):
            r = call(named, "GET", path, headers={"Host": host, "Cookie": "mine=1", "X-Sandglass-Box": "b-none", "X-AIO-Proxy-Port": "1"})
            text = r.body.decode()
            assert r.status == 200 and text.startswith(path + "\n"), (host, path, text)
            assert "mine=1" in text and f"X-Forwarded-Host: {host}" in text and "sandglass" not in text.lower() and "X-AIO" not in text
            assert r.headers.get_all("Set-Cookie") == ["a=b"] and r.headers["Content-Security-Policy"] is None
    assert call(named, "POST", "/v1/shell/exec", b"x" * 1000, {"Host": "8000-sand.example"}).body == b"1000"
    assert call(named, "GET", "/", headers={"Host": "9-sand.example"}).status == 502
    for host in ("sand.example", "80-sand.example", "80-sand.example:1", "localhost", "x-localhost", "123456-localhost"):
        assert call(named, "GET", "/v1/sandbox", headers={"Host": host}).status == 200, "that is ours: " + host
    for host in ("8000-x.sand.example", "8000-sand.example.evil", "8000-xsand.example", "8000-other.example"):
        assert call(named, "GET", "/x", headers={"Host": host}).status == 421, host


def test_by_the_servers_own_name_sockets_and_events_go_through(named):
    c = ws.Client(named.port, "/any", host="8000-sand.example")
    c.send("hello")
    assert c.recv() == (1, b"hello")
    s = socket.create_connection(("127.0.0.1", named.port), timeout=20)
    s.sendall(b"GET /events HTTP/1.1\r\nHost: 8000-sand.example\r\n\r\n")
    got = b""
    while b"data: 1" not in got:
        got += s.recv(65536)
    s.close()


def test_by_the_servers_own_name_pages_read_of_their_own_server_only(named):
    own = f"sand.example:{named.port}"
    for origin in (f"http://8000-{own}", f"http://3000-{own}"):
        assert call(named, "GET", "/x", headers={"Host": f"8000-{own}", "Origin": origin}).status == 200, origin
    assert call(named, "POST", "/x", b"", {"Host": f"8000-{own}", "Origin": f"http://8000-{own}"}).status == 200
    for origin in ("null", "http://evil.example", f"http://{own}", f"http://80-{own}", "http://3000-sand.example:1", f"http://3000-localhost:{named.port}",
                   f"http://3000-b-x.localhost:{named.port}", ""):
        assert call(named, "GET", "/x", headers={"Host": f"8000-{own}", "Origin": origin}).status == 403, origin
    assert call(named, "POST", "/x", b"", {"Host": f"8000-{own}", "Origin": f"http://3000-{own}"}).status == 403
    for headers in ({"Host": own, "Origin": f"http://8000-{own}"}, {"Origin": f"http://8000-localhost:{named.port}"}):
        r = call(named, "GET", "/v1/sandbox", headers=headers)
        assert r.status == 403 and r.headers["Access-Control-Allow-Origin"] is None
        assert call(named, "POST", "/v1/shell/exec", b"{}", headers).status == 403
        with pytest.raises(ws.Refused) as e:
            ws.Client(named.port, "/v1/shell/ws", headers=[f"Origin: {headers['Origin']}"], host=headers.get("Host"))
        assert e.value.status == 403


def test_by_the_servers_own_name_each_one_gets_to_his_own_box_and_needs_to_be_known():
    s = sg.Server("--pool-size", "1", "--auth", "required", "--host-names", "sand.example", env={"BEARER_TOKEN": "operator-token-1"})
    try:
        s.start()
        s.headers = {"Authorization": "Bearer operator-token-1"}
        box = s.create()
        for at, text in (("", "default"), (f"/box/{box}", "bound")):
            s.post(f"{at}/v1/file/write", {"file": "/home/gem/w/index.html", "content": text})
            s.post(f"{at}/v1/bash/exec", {"command": "cd /home/gem/w && exec python3 -m http.server 8000", "async_mode": True})
            sg.wait_for(lambda: s.request("GET", f"{at}/proxy/8000/").status == 200, 20)
        agent = s.post("/sg/v1/keys", {"role": "agent", "box": box}, 201)["key"]
        viewer = s.post("/sg/v1/keys", {"role": "viewer"}, 201)["key"]
        host = {"Host": "8000-sand.example"}
        assert call(s, "GET", "/", headers=host).status == 401
        assert call(s, "GET", "/health", headers=host).status == 401, "nothing of ours answers there"
        assert call(s, "GET", "/", headers={**host, "X-API-Key": viewer}).status == 403
        assert call(s, "GET", "/", headers={**host, **s.headers}).body == b"default"
        assert call(s, "GET", "/", headers={**host, **s.headers, "X-Sandglass-Box": box}).body == b"default"
        assert call(s, "GET", "/", headers={**host, "X-API-Key": agent}).body == b"bound"
        ticket = s.post("/tickets")["ticket"]
        r = call(s, "GET", f"/?ticket={ticket}", headers={**host, "Accept": "text/html"})
        assert ticket not in r.body.decode() and "refresh" in r.body.decode()
        cookie = r.headers["Set-Cookie"].partition(";")[0]
        assert call(s, "GET", "/", headers={**host, "Cookie": cookie}).body == b"default"
        assert call(s, "GET", "/sg/v1/keys", headers={"Host": "sand.example", "Cookie": cookie}).status == 403, "a page's cookie is for the box"
    finally:
        s.end()


def test_only_ports_of_that_box_are_reached(server, box):
    other = server.create()
    r = call(server, "GET", f"/box/{other}/proxy/8000/")
    assert r.status == 502 and "port 8000" in r["error"]["message"]
    assert call(server, "GET", f"/box/{box}/proxy/{server.port}/health").status == 502  # ours is the host's
    assert call(server, "GET", f"/box/{box}/proxy/99999/").status == 400
    assert call(server, "GET", f"/box/{box}/proxy/x/").status == 404
    assert call(server, "GET", "/box/nobody/proxy/8000/").status == 404
    server.delete(f"/sg/v1/boxes/{other}")


def test_an_answer_that_could_be_read_two_ways_is_refused(server, box):
    r = call(server, "GET", f"/box/{box}/proxy/8000/bad")
    assert r.status == 502 and "two lengths" in r["error"]["message"]
