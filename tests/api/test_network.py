"""Boxes with a network: what they reach and what they do not. The outside is a namespace of this test's own with
addresses that are nobody's (RFC 5737); no packet leaves the machine. Needs root, ip and nft."""

import contextlib
import ipaddress
import os
import random
import shutil
import subprocess
import textwrap
import time
import uuid

import pytest

import sg

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("ip"),
                                reason="needs root, nft and ip")

# Of another test range than 203.0.113.0/24: machines are seen that have their package mirror's name resolve to that one.
SUBNET = f"198.51.100.{random.randrange(0, 256, 8)}"  # runs beside each other seldom meet
GATE, OUTSIDE, PRIVATE = (str(ipaddress.ip_address(SUBNET) + 1), str(ipaddress.ip_address(SUBNET) + 2),
                          f"10.231.{random.randrange(256)}.9")
SERVER = textwrap.dedent("""
    import base64, hashlib, http.server, socket, socketserver, struct, threading, urllib.parse
    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/to/"):
                self.send_response(302); self.send_header("Location", urllib.parse.unquote(self.path[4:])); self.end_headers(); return
            if self.headers.get("Upgrade"):
                key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
                self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade")
                self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()); self.end_headers()
                self.wfile.flush(); self.rfile.read(1); self.close_connection = True; return
            self.send_response(200); self.end_headers()
            self.wfile.write(("hello " + self.client_address[0]).encode())
        def log_message(self, *a): pass
    def answer(q):  # every name is the outside's address
        return q[:2] + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + q[12:q.index(b"\\0", 12) + 5] + (
            b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + socket.inet_aton("%s"))
    def dns():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 53))
        while True:
            q, a = s.recvfrom(4096); s.sendto(answer(q), a)
    def dns_tcp():
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 53)); s.listen()
        while True:
            c, _ = s.accept(); q = c.recv(4096)[2:]; a = answer(q); c.sendall(struct.pack(">H", len(a)) + a); c.close()
    threading.Thread(target=dns, daemon=True).start()
    threading.Thread(target=dns_tcp, daemon=True).start()
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    socketserver.ThreadingTCPServer(("0.0.0.0", 80), Hello).serve_forever()
""" % OUTSIDE)


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True).stdout


@contextlib.contextmanager
def outside():
    tag = uuid.uuid4().hex[:6]
    ns, link = "sgt" + tag, "sgt" + tag + "h"
    ip("netns", "add", ns)
    server = None
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", "e0", "netns", ns)
        ip("addr", "add", GATE + "/29", "dev", link)
        ip("link", "set", link, "up")
        for a in (OUTSIDE + "/29", PRIVATE + "/32"):
            ip("-n", ns, "addr", "add", a, "dev", "e0")
        ip("-n", ns, "link", "set", "e0", "up")
        ip("-n", ns, "link", "set", "lo", "up")
        ip("route", "add", PRIVATE + "/32", "via", OUTSIDE)
        server = subprocess.Popen(["ip", "netns", "exec", ns, "python3", "-c", SERVER])
        sg.wait_for(lambda: subprocess.run(["curl", "-sf", "-m1", f"http://{PRIVATE}/"], capture_output=True).returncode == 0)
        yield
    finally:
        if server:
            server.kill()
            server.wait()
        ip("netns", "del", ns, check=False)
        ip("link", "del", link, check=False)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose host resolves names at the outside."""
    d = tmp_path_factory.mktemp("net")
    (d / "resolv.conf").write_text(f"nameserver {OUTSIDE}\n")
    wrapper = d / "sandglass"
    wrapper.write_text(f"#!/bin/sh\nexec unshare -m sh -c 'mount --bind {d}/resolv.conf /etc/resolv.conf && exec \"$0\" \"$@\"' "
                       f"{sg.BINARY} \"$@\"\n")
    wrapper.chmod(0o755)
    before, sg.BINARY = sg.BINARY, str(wrapper)
    try:
        with outside(), sg.running("--pool-size", "0") as s:
            yield s
    finally:
        sg.BINARY = before


@pytest.fixture(scope="module")
def box(server):
    with server.box(network="full") as b:
        yield b


def test_reaches_the_outside_by_address_and_name(box):
    assert box.out(f"curl -sS -m 4 http://{OUTSIDE}/").strip() == f"hello {GATE}"  # masqueraded
    assert box.out("curl -sS -m 4 http://some.name.example/").strip() == f"hello {GATE}"
    assert box.out("python3 -c 'import socket; print(socket.gethostbyname(socket.gethostname()))'").strip() == "127.0.1.1"


def test_dns_over_tcp(box):
    q = r"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"
    out = box.python(f"import socket,struct\nq=b'{q}'\ng=[l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver')][0]\n"
                     "s=socket.create_connection((g,53),4)\ns.sendall(struct.pack('>H',len(q))+q)\nprint(s.recv(999)[2:4]==q[:2])")
    assert "True" in str(out)


@pytest.mark.parametrize("address", [PRIVATE, GATE, "169.254.169.254", "168.63.129.16", "172.16.0.1", "192.168.1.1",
                                     "100.127.0.1", "127.0.0.2", "224.0.0.1"])
def test_inside_of_networks_is_closed(box, address):
    start = time.monotonic()
    assert box.code(f"curl -sS -m 300 http://{address}/", timeout=200) != 0
    if not address.startswith(("127.", "224.")):
        assert time.monotonic() - start < sg.PATIENCE, "a refusal is answered, not dropped"


def test_host_is_closed_but_for_dns(server, box):
    gateway = box.out("grep nameserver /etc/resolv.conf").split()[1]
    for target in (f"127.0.0.1:{server.port}", f"{gateway}:{server.port}", f"{GATE}:{server.port}", f"{gateway}:22"):
        assert box.code(f"curl -sS -m 3 http://{target}/health") != 0


def test_boxes_do_not_see_each_other(server, box):
    with server.box(network="full") as other:
        address = other.out("ip -4 -o addr show eth0").split()[3].split("/")[0]
        other.run("python3 -m http.server 8000 >/dev/null 2>&1 &")
        sg.wait_for(lambda: other.code(f"curl -sS -m 3 http://{address}:8000/") == 0)
        assert box.code(f"curl -sS -m 3 http://{address}:8000/") != 0


def test_no_ipv6(box):
    assert box.out("cat /proc/net/if_inet6 | grep -v lo || true").strip() == ""


def test_no_network_means_none(server):
    with server.box(network="none") as quiet:
        assert quiet.code(f"curl -sS -m 3 http://{OUTSIDE}/") != 0
        assert quiet.out("ip -o link | wc -l").strip() == "1"


def test_link_goes_with_the_box(server):
    links = lambda: {l for l in os.listdir("/sys/class/net") if l.startswith("sg") and "-" in l}
    before = links()
    boxes = [server.create(network="full") for _ in range(3)]
    assert len(links() - before) == 3
    for b in boxes:
        server.destroy(b)
    sg.wait_for(lambda: links() <= before)


def test_network_survives_supervise(server, box):
    server.kill_role("supervise")
    sg.wait_for(lambda: box.code("curl -sS -m 2 http://name.example/") == 0, 20)


CHROMIUM = pytest.mark.skipif(not os.path.exists("/usr/lib/chromium/chromium-headless-shell"), reason="Debian's chromium-headless-shell is not installed")
REACHES = """(async url => { if (url.startsWith('ws')) return await new Promise(done => { const s = new WebSocket(url); s.onopen = () => done('open'); s.onerror = () => done('no') });
    return await fetch(url, {mode: 'no-cors', signal: AbortSignal.timeout(4000)}).then(() => 'open', () => 'no') })"""


def reaches(box, url):
    r = box.tool("browser:evaluate", {"expression": f"{REACHES}({url!r})", "timeout": 30})
    assert r["outcome"] == "ok", r
    return r["data"]["value"] == "open"


def goes(box, url):
    return box.tool("browser:goto", {"url": url, "timeout": 20}, status=None)["outcome"] == "ok"


@CHROMIUM
def test_the_browser_has_the_network_of_its_box_by_name_by_redirect_and_by_web_socket(server):
    """What is closed for programs is closed for pages, however they go there: host, private addresses, metadata."""
    closed = [f"http://{PRIVATE}/", f"http://{GATE}:{server.port}/health", "http://169.254.169.254/", f"http://127.0.0.1:{server.port}/health"]
    with server.box(network="full", memory="1500m") as b:
        assert goes(b, "http://some.name.example/") and b.tool("browser:extract")["data"]["content"].startswith("hello")
        assert reaches(b, f"http://{OUTSIDE}/") and reaches(b, "ws://some.name.example/")
        for url in closed:
            assert not reaches(b, url) and not reaches(b, url.replace("http", "ws", 1)), url
            assert not reaches(b, f"http://{OUTSIDE}/to/{url}"), url
        for url in closed:  # by themselves, where Chromium's own rules for pages do not stand in front of ours
            assert not goes(b, url) and not goes(b, f"http://{OUTSIDE}/to/{url}"), url
        assert goes(b, f"http://{OUTSIDE}/to/http://other.name.example/")  # a redirect as such is fine


@CHROMIUM
def test_a_browser_in_a_box_without_network_reaches_nothing(server):
    with server.box(network="none", memory="1500m") as b:
        assert not goes(b, f"http://{OUTSIDE}/") and not goes(b, "http://some.name.example/")
        goes(b, "data:text/html,<title>x</title>")
        for url in (f"http://{OUTSIDE}/", f"ws://{OUTSIDE}/", f"http://{PRIVATE}/", f"http://{GATE}:{server.port}/health", f"http://127.0.0.1:{server.port}/health"):
            assert not reaches(b, url), url
        b.tool("bash:start", {"command": "exec python3 -m http.server 8000 --bind 127.0.0.1"})
        sg.wait_for(lambda: b.run("curl -sf 127.0.0.1:8000/ >/dev/null")["data"]["exit_code"] == 0, 60)
        assert goes(b, "http://127.0.0.1:8000/") and reaches(b, "http://127.0.0.1:8000/")  # its own loopback is the box's
