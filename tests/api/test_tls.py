"""HTTPS, seen by clients that are not ours: curl, and Python's ssl."""

import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

import sg


def certificate(directory, name, host="IP:127.0.0.1,DNS:localhost"):
    cert, key = pathlib.Path(directory, f"{name}.crt"), pathlib.Path(directory, f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName={host}", "-keyout", str(key),
                    "-out", str(cert)], check=True, capture_output=True)
    os.chmod(key, 0o644)  # serve is not root
    return cert, key


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1")
    s.certs = {name: certificate(s.home, name) for name in ("one", "two")}
    s.certs["other"] = certificate(s.home, "other", "IP:127.0.0.9,DNS:elsewhere.example")
    s.cert, s.key = pathlib.Path(s.home, "tls.crt"), pathlib.Path(s.home, "tls.key")
    install(s, "one")
    s.flags += ["--tls-cert", str(s.cert), "--tls-key", str(s.key)]
    s.request = lambda *a, **k: over_tls(s, *a, **k)
    try:
        yield s.start()
    finally:
        s.end()


def install(s, name):
    for have, want in zip(s.certs[name], (s.cert, s.key)):
        fresh = want.with_suffix(".new")
        fresh.write_bytes(have.read_bytes())
        os.chmod(fresh, 0o644)
        fresh.rename(want)


def trusting():
    c = ssl.create_default_context()
    c.check_hostname = False
    c.verify_mode = ssl.CERT_NONE
    return c


def over_tls(s, method, path, body=None, headers=None, raw=None, timeout=60):
    c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=timeout, context=trusting())
    try:
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        c.request(method, path, body=data, headers=headers or {})
        r = c.getresponse()
        return sg.Reply(r.status, r.headers, r.read())
    finally:
        c.close()


def shown(s):
    """The name in the certificate that a client sees now."""
    with socket.create_connection(("127.0.0.1", s.port), 10) as raw, trusting().wrap_socket(raw) as c:
        der = c.getpeercert(True)
    return next(n for n, (cert, _) in s.certs.items() if ssl.PEM_cert_to_DER_cert(cert.read_text()) == der)


def test_a_client_that_checks_the_certificate_is_content(server):
    out = subprocess.run(["curl", "-sS", "--cacert", str(server.cert), f"https://127.0.0.1:{server.port}/health"],
                         capture_output=True, text=True)
    assert '"healthy"' in out.stdout, out
    assert over_tls(server, "GET", "/health").headers["Strict-Transport-Security"]


def cli(server, *words, env=None, host="127.0.0.1"):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
    return subprocess.run([sg.BINARY, words[0], "--url", f"https://{host}:{server.port}", *words[1:]], capture_output=True, text=True,
                          env={**clean, **(env or {})}, timeout=120)


def test_the_command_line_speaks_https_and_believes_nobody_whom_nobody_vouches_for(server):
    refused = cli(server, "list")
    assert refused.returncode != 0 and "not to be trusted" in refused.stderr, refused
    other = cli(server, "list", "--ca", str(server.certs["two"][0]))
    assert other.returncode != 0 and "not to be trusted" in other.stderr, other
    missing = cli(server, "list", "--ca", "/nowhere.pem")
    assert missing.returncode != 0 and "--ca" in missing.stderr
    made = cli(server, "create", "--ca", str(server.cert))
    assert made.returncode == 0, made
    box = made.stdout.strip()
    try:
        said = cli(server, "exec", box, "seq 1 200000", env={"SANDGLASS_CA": str(server.cert)}, host="localhost")
        assert said.returncode == 0 and said.stdout.endswith("\n200000\n"), said.stderr
        assert box in cli(server, "list", "--ids", "--insecure").stdout
    finally:
        assert cli(server, "destroy", box, "--ca", str(server.cert)).returncode == 0


def test_the_command_line_asks_for_the_host_of_the_url_not_for_any_certificate(server):
    install(server, "other")
    try:
        sg.wait_for(lambda: shown(server) == "other", 60)
        for host in ("127.0.0.1", "localhost"):
            wrong = cli(server, "list", "--ca", str(server.cert), host=host)
            assert wrong.returncode != 0 and "not to be trusted" in wrong.stderr, wrong
    finally:
        install(server, "one")
        sg.wait_for(lambda: shown(server) == "one", 60)


def test_mcp_over_stdio_reaches_an_https_server(server):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                                     "clientInfo": {"name": "t", "version": "1"}}})
    p = subprocess.run([sg.BINARY, "mcp", "--url", f"https://127.0.0.1:{server.port}", "--ca", str(server.cert)], input=line + "\n",
                       capture_output=True, text=True, timeout=120)
    assert json.loads(p.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "sandglass", p


def replayed(server):
    """By a job of the server's own, which comes back through the server's own door."""
    with server.box() as b:
        server.tool(b.id, "bash:run", {"command": "sleep 2; echo done"}, trajectory_id="again")
    job = server.post("/sg/v1/trajectories/again/replay", {}, 202)
    return sg.wait_for(lambda: (r := server.get(f"/sg/v1/jobs/{job['job']}"))["state"] != "running" and r, 120)


def test_work_of_the_servers_own_passes_its_own_tls(server):
    done = replayed(server)
    assert done["state"] == "done" and done["report"]["match"] == 1.0, json.dumps(done)


def test_work_of_the_servers_own_outlives_a_ticket_and_needs_no_socket(server):
    flags = ["--tls-cert", str(server.cert), "--tls-key", str(server.key), "--no-listen-socket", "--auth", "required",
             "--auth-ticket-ttl", "1s"]
    s = sg.Server("--pool-size", "1", *flags, env={"BEARER_TOKEN": "token-of-the-test"})
    s.request = lambda *a, **k: over_tls(s, *a, **{**k, "headers": {"Authorization": "Bearer token-of-the-test"}})
    try:
        s.start()
        done = replayed(s)
        assert done["state"] == "done" and done["report"]["match"] == 1.0, json.dumps(done)
    finally:
        s.end()


def test_a_ticket_is_kept_in_a_cookie_that_no_sibling_can_set(server):
    flags = ["--tls-cert", str(server.cert), "--tls-key", str(server.key), "--auth", "required"]
    token = {"Authorization": "Bearer token-of-the-test"}
    s = sg.Server("--pool-size", "1", *flags, env={"BEARER_TOKEN": "token-of-the-test"})
    s.request = lambda *a, **k: over_tls(s, *a, **{"headers": token, **k})
    try:
        s.start()
        ticket = s.post("/tickets", {})["ticket"]
        name, _, rest = over_tls(s, "GET", f"/sg/v1/boxes?ticket={ticket}").headers["Set-Cookie"].partition("=")
        assert name == "__Host-sandglass_ticket" and rest.startswith(f"{ticket}; Path=/; ") and "Secure" in rest and "Domain" not in rest
        for cookie, status in (f"__Host-sandglass_ticket={ticket}", 200), (f"sandglass_ticket={ticket}", 401), \
                              (f"sandglass_ticket=x; __Host-sandglass_ticket={ticket}", 200):
            assert over_tls(s, "GET", "/sg/v1/boxes", headers={"Cookie": cookie}).status == status, cookie
    finally:
        s.end()


def test_plain_http_and_old_versions_are_not_answered(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as c:
        c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert b"200" not in c.recv(1000)
    old = trusting()
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)), socket.create_connection(("127.0.0.1", server.port), 10) as raw:
        old.wrap_socket(raw)
    assert over_tls(server, "GET", "/health").status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=str)
def test_large_bodies_both_ways_arrive_whole(server, version):
    text = os.urandom(3 << 20).hex()
    context = trusting()
    context.minimum_version = context.maximum_version = version
    with server.box() as box:
        c = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context)
        for tool, params in (("file:write", {"path": "/tmp/big", "content": text}), ("file:read", {"path": "/tmp/big"})):
            c.request("POST", f"/sg/v1/boxes/{box.id}/execute", json.dumps({"tool": tool, "params": params}))
            r = c.getresponse()
            answer = json.loads(r.read())
            assert r.status == 200 and answer["outcome"] == "ok", str(answer)[:500]
        assert hashlib.sha256(text.encode()).hexdigest() == hashlib.sha256(answer["data"]["content"].encode()).hexdigest()
        assert box.out("sha256sum < /tmp/big").split()[0] == hashlib.sha256(text.encode()).hexdigest()
        c.close()


def test_requests_in_one_record_and_a_request_in_many_records(server):
    one = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw, trusting().wrap_socket(raw) as c:
        c.sendall(one * 300)  # one record holds them all: what is decrypted already must not be forgotten
        got = b""
        while got.count(b'"healthy"') < 300:
            got += c.recv(65536)
        for byte in one[:60]:
            c.sendall(bytes([byte]))
        c.sendall(one[60:] if len(one) > 60 else b"")
        assert b"healthy" in c.recv(65536)


def test_many_clients_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda _: over_tls(server, "GET", "/ready").status, range(100))) == {200}


def test_a_slow_handshake_holds_nobody_up(server):
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for s in idle[:25]:
        s.sendall(b"\x16\x03\x01")
    assert over_tls(server, "GET", "/health", timeout=10).status == 200
    for s in idle:
        s.close()


def test_a_new_certificate_is_taken_without_a_restart(server):
    assert shown(server) == "one"
    pid = server.role("serve")
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw, trusting().wrap_socket(raw) as old:
        install(server, "two")
        sg.wait_for(lambda: shown(server) == "two")
        old.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"healthy" in old.recv(65536), "whoever is connected goes on"
    assert server.role("serve") == pid
    server.cert.write_text("not a certificate")
    server.guard.send_signal(signal.SIGHUP)
    sg.wait_for(lambda: "certificate not taken" in server.log_tail())
    assert shown(server) == "two"
    install(server, "one")
    server.guard.send_signal(signal.SIGHUP)
    sg.wait_for(lambda: shown(server) == "one")
    assert server.role("serve") == pid and server.guard.poll() is None


def test_a_certificate_without_its_key_does_not_start(server):
    one, two = server.certs["one"], server.certs["two"]
    run = lambda *flags: subprocess.run([sg.BINARY, "serve", "--home", server.home + "x", *flags], capture_output=True, text=True)
    assert run("--tls-cert", str(one[0])).returncode == 2
    s = sg.Server("--pool-size", "0", "--tls-cert", str(one[0]), "--tls-key", str(two[1]))
    try:
        s.start(wait=False)
        assert s.guard.wait(30) == 2 and "tls.key" in s.log_tail()
    finally:
        s.end()


def test_a_drain_lets_a_running_call_end_and_answers_it(server):
    with server.box() as box:
        answers = []
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "sleep 1.5; echo streamed"}}}
        streams = []
        work = [threading.Thread(target=lambda: answers.append(box.run("sleep 1; echo done"))),
                threading.Thread(target=lambda: streams.append(server.request("POST", "/mcp", call, headers={"Accept": "application/json, text/event-stream"})))]
        for t in work:
            t.start()
        sg.wait_for(lambda: server.get("/sg/v1/status")["calls"] == 2)
        time.sleep(0.5)  # the second comes as a stream of events by now
        server.guard.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        for t in work:
            t.join(20)
        assert answers and answers[0]["data"]["stdout"] == "done\n"
        assert streams and b"streamed" in streams[0].body and "event-stream" in streams[0].headers["Content-Type"]
        server.guard.wait(20)
        server.start()
