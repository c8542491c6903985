"""The box's screen for people: RFB over /websockify, who may only look, and the page in a real browser."""

import json
import os
import pathlib
import struct
import subprocess

import pytest

import sg
import ws
from test_cdp import PLACE, playwright  # noqa: F401
from test_desktop import PATIENCE, Desktop

TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1", env={"BEARER_TOKEN": TOKEN, "TICKET_TTL_SECONDS": "900"}) as s:
        s.headers = {"Authorization": f"Bearer {TOKEN}"}
        yield s


@pytest.fixture(scope="module")
def desk(server):
    with server.box(memory="1g") as b:
        if b.code("command -v Xtigervnc && command -v jwm && command -v xterm"):
            pytest.skip("Debian's tigervnc-standalone-server, jwm and xterm are not installed")
        d = Desktop(b)
        d.launch(command="exec xterm -T typewriter -e 'cat > /tmp/typed'")
        w = d.window("typewriter")
        d.click(x=w["x"] + w["width"] // 2, y=w["y"] + w["height"] // 2)
        yield d


class Viewer:
    """As much of an RFB client as it takes to see and to type."""

    def __init__(self, server, box, query="", headers=None):
        auth = headers if headers is not None else [f"Authorization: Bearer {TOKEN}"]
        self.ws = ws.Client(server.port, f"/box/{box}/websockify{query}", auth, timeout=PATIENCE)
        self.buf = b""
        assert self.take(12) == b"RFB 003.008\n"
        self.ws.send(b"RFB 003.008\n")
        assert self.take(2) == b"\x01\x01"
        self.ws.send(b"\x01")
        assert self.take(4) == b"\0\0\0\0"
        self.ws.send(b"\x01")
        self.size = struct.unpack(">HH", self.take(4))
        self.take(16)
        self.name = self.take(struct.unpack(">I", self.take(4))[0])
        self.ws.send(struct.pack(">BxHi", 2, 1, 0))

    def take(self, n):
        while len(self.buf) < n:
            opcode, data = self.ws.recv()
            if opcode == 8:
                raise EOFError(data)
            self.buf += data
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def pixel(self, x, y):
        self.ws.send(struct.pack(">BBHHHH", 3, 0, x, y, 1, 1))
        while True:
            kind = self.take(1)[0]
            if kind == 3:
                self.take(struct.unpack(">I", self.take(7)[3:])[0])
            elif kind == 0:
                rectangles = struct.unpack(">xH", self.take(3))[0]
                for _ in range(rectangles):
                    left, top, width, height, encoding = struct.unpack(">HHHHi", self.take(12))
                    assert encoding == 0
                    data = self.take(4 * width * height)
                if rectangles and (left, top) == (x, y):
                    return data[2::-1]

    def type(self, text):
        for c in text:
            for down in (1, 0):
                self.ws.send(struct.pack(">BBHI", 4, down, 0, 0xff0d if c == "\n" else ord(c)))

    def close(self):
        self.ws.close()


def typed(desk):
    return desk.box.run("cat /tmp/typed")["data"]["stdout"]


def test_several_people_see_one_screen_and_type_on_it(server, desk):
    one, two = Viewer(server, desk.box.id), Viewer(server, desk.box.id)
    assert one.size == two.size == (1280, 800) and one.name == b"sandglass"
    for v in (one, two):
        sg.wait_for(lambda: v.pixel(1200, 300) == b"\x2e\x34\x40", PATIENCE, every=0.2)
    one.type("from one\n")
    sg.wait_for(lambda: "from one\n" in typed(desk), PATIENCE)
    two.type("from two\n")
    sg.wait_for(lambda: "from two\n" in typed(desk), PATIENCE)
    one.close()
    two.close()


def test_who_only_looks_on_sees_all_and_changes_nothing(server, desk):
    before = typed(desk)
    viewer = server.post("/sg/v1/keys", {"role": "viewer", "name": "eyes"}, status=201)
    key = viewer.get("key") or viewer["secret"]
    by_wish = Viewer(server, desk.box.id, "?view_only=true")
    by_right = Viewer(server, desk.box.id, headers=[f"Authorization: Bearer {key}"])
    for v in (by_wish, by_right):
        v.type("not allowed\n")
        v.ws.send(struct.pack(">BBHH", 5, 1, 10, 10))  # a click
        v.ws.send(struct.pack(">BxxxI", 6, 5) + b"paste")
        v.ws.send(struct.pack(">BxHHBx", 251, 640, 480, 1) + struct.pack(">IHHHHI", 0, 0, 0, 640, 480, 0))
        assert len(v.pixel(5, 5)) == 3, "and still sees"
        v.close()
    person = Viewer(server, desk.box.id)
    assert person.size == (1280, 800)
    person.type("allowed\n")
    sg.wait_for(lambda: typed(desk).endswith("\nallowed\n"), PATIENCE)
    assert typed(desk) == before + "allowed\n" and desk.clipboard()["text"] != "paste"
    person.close()


def test_nonsense_of_one_who_looks_on_ends_only_his_own_connection(server, desk):
    v = Viewer(server, desk.box.id, "?view_only=true")
    v.ws.send(b"\x99garbage")
    with pytest.raises((EOFError, ConnectionError)):
        v.take(1 << 30)
    assert Viewer(server, desk.box.id).size == (1280, 800)


def test_the_screen_is_shut_to_strangers(server, desk):
    for path in ("/vnc/index.html", "/websockify", f"/box/{desk.box.id}/vnc/index.html"):
        r = server.request("GET", path, headers={"Authorization": "Bearer wrong"})
        assert r.status == 401, (path, r)
    with pytest.raises(ws.Refused) as e:
        ws.Client(server.port, f"/box/{desk.box.id}/websockify", [])
    assert e.value.status == 401
    ticket = server.request("POST", "/tickets")["ticket"]
    assert Viewer(server, desk.box.id, f"?ticket={ticket}", headers=[]).size == (1280, 800)


def test_the_page_is_seen_in_a_real_browser_and_typing_in_it_reaches_the_program(server, desk, playwright):  # noqa: F811
    if not os.path.exists("/usr/lib/chromium/chromium"):
        pytest.skip("Debian's chromium is not installed")
    if server.request("GET", "/static/vnc/core/rfb.js").status != 200:
        pytest.skip("noVNC was not built in: npm did not reach its registry")
    script = PLACE / "vnc.mjs"
    script.write_text((pathlib.Path(__file__).parent / "vnc.mjs").read_text())
    ticket = server.request("POST", "/tickets")["ticket"]
    # AIO's spelling: the ticket of the page, and nested in path that of its WebSocket
    url = (f"http://localhost:{server.port}/box/{desk.box.id}/vnc/index.html?autoconnect=true&ticket={ticket}"
           f"&path=websockify%3Fticket%3D{ticket}")
    r = subprocess.run(["node", script, url, "typed in the page 123\n"], cwd=PLACE, timeout=400, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    assert r.returncode == 0, r.stderr[-3000:]
    saw = json.loads(r.stdout)
    assert saw["state"] == "connected" and saw["size"] == [1280, 800] and not saw["errors"]
    sg.wait_for(lambda: "typed in the page 123\n" in typed(desk), PATIENCE)
