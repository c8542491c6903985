"""Who may come in, and what exists for whom."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

import pytest

import jwt
import sg

BOX_BODY = {"tool": "bash:run", "params": {"command": "id -un"}}


def routes():
    out = subprocess.run([sg.BINARY, "routes"], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture(scope="module")
def keys():
    d = sg.open_place("keys")
    return {alg: jwt.Key(d, alg) for alg in ("RS256", "ES256", "EdDSA")}


@pytest.fixture(scope="module")
def server(keys):
    """Every kind of credential at once; nobody comes in without one."""
    text = (json.dumps({"keys": [k.jwk() for k in keys.values()] + [{"kty": "oct", "k": "c2VjcmV0"}]}))
    s = sg.Server("--pool-size", "1", "--auth", "required", "--auth-jwt-skew", "5s", env={"BEARER_TOKEN": "agentscope-token-1"})
    s.jwks = pathlib.Path(s.home, "jwks.json")  # readable for the user as which serve runs
    s.jwks.write_text(text)
    s.flags += ["--auth-jwt-key-file", str(s.jwks)]
    try:
        s.start()
        s.headers = bearer("agentscope-token-1")
        yield s
    finally:
        s.headers = bearer("agentscope-token-1")
        s.end()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def status(server, headers=None, path="/auth", method="GET"):
    """Of a request with these credentials and no others."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        c.request(method, path, headers=headers or {})
        return c.getresponse().status
    finally:
        c.close()


def who(server, headers=None, path="/auth"):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        c.request("GET", path, headers=headers or {})
        r = c.getresponse()
        return json.loads(r.read()) if r.status == 200 else r.status
    finally:
        c.close()


def new_key(server, **body):
    return server.post("/sg/v1/keys", {"role": "operator", **body}, 201)


@contextlib.contextmanager
def acting_as(server, headers):
    before, server.headers = server.headers, headers
    try:
        yield server
    finally:
        server.headers = before


# ---- tokens ----

@pytest.mark.parametrize("alg", ["RS256", "ES256", "EdDSA"])
def test_a_token_with_only_exp_comes_in(server, keys, alg):
    assert who(server, bearer(keys[alg].token()))["role"] == "operator"


def test_claims_say_tenant_role_box_and_subject(server, keys):
    w = who(server, bearer(keys["RS256"].token(tenant="acme", role="agent", box="b-1", sub="joe")))
    assert (w["tenant"], w["role"], w["box"], w["subject"]) == ("acme", "agent", "b-1", "joe")


@pytest.mark.parametrize("role", ["admin", "operator", "viewer"])
def test_a_token_with_a_box_is_for_that_box_whatever_its_role(server, keys, role):
    headers = bearer(keys["EdDSA"].token(tenant="default", role=role, box="b-1"))
    for method, path in (("GET", "/sg/v1/keys"), ("POST", "/sg/v1/keys"), ("POST", "/sg/v1/boxes"), ("GET", "/metrics"), ("POST", "/sg/v1/gc"), ("GET", "/sg/v1/secrets")):
        assert status(server, headers, path, method) == 403, (method, path)


NOW = int(time.time())
BAD_CLAIMS = [
    {}, {"sub": "x"}, {"exp": NOW - 60}, {"exp": str(NOW + 600)}, {"exp": True}, {"exp": -1}, {"exp": 1e300}, {"exp": None},
    {"exp": NOW + 9000, "nbf": NOW + 3600}, {"exp": NOW + 9000, "nbf": "soon"},
    {"exp": NOW + 9000, "role": "root"}, {"exp": NOW + 9000, "role": 3}, {"exp": NOW + 9000, "tenant": "../x"},
    {"exp": NOW + 9000, "tenant": "a\x00b"}, {"exp": NOW + 9000, "tenant": 7}, {"exp": NOW + 9000, "tenant": "x" * 64},
    {"exp": NOW + 9000, "role": "agent"}, {"exp": NOW + 9000, "tenant": ""}, {"exp": NOW + 9000, "role": "agent", "box": ""}, {"exp": NOW + 9000, "box": ""},
    [], "x", None,
]


@pytest.mark.parametrize("claims", BAD_CLAIMS, ids=str)
def test_a_signed_token_with_bad_claims_stays_out(server, keys, claims):
    token = keys["EdDSA"].token(claims if claims is not None else [])
    assert status(server, bearer(token)) in (401, 403)


def test_clocks_may_differ_by_the_skew_and_not_more(server, keys):
    k, now = keys["EdDSA"], int(time.time())
    assert status(server, bearer(k.token({"exp": now - 2}))) == 200
    assert status(server, bearer(k.token({"exp": now + 60, "nbf": now + 3}))) == 200
    assert status(server, bearer(k.token({"exp": now - 30}))) == 401


def test_alg_none_and_hmac_confusion_stay_out(server, keys):
    claims = {"exp": int(time.time()) + 600}
    for alg in ("none", "None", "NONE", "nOnE", "", "HS256"):
        assert status(server, bearer(jwt.unsigned_token(claims, alg))) == 401
        assert status(server, bearer(jwt.unsigned_token(claims, alg, "AAAA"))) == 401
    for alg in ("HS256", "RS256", "ES256"):
        for secret in (keys["RS256"].public.encode(), keys["RS256"].public.strip().encode(), b"", b"secret"):
            assert status(server, bearer(jwt.hmac_token(secret, claims, alg))) == 401


def test_a_header_that_lies_about_its_algorithm_stays_out(server, keys):
    for alg in keys:
        for said in ("RS256", "ES256", "EdDSA", "RS384", "PS256", "RS512"):
            if said != alg:
                assert status(server, bearer(keys[alg].token(header={"alg": said}))) == 401
        assert status(server, bearer(keys[alg].token(header={"crit": ["exp"]}))) == 401


def test_a_changed_or_foreign_token_stays_out(server, keys, tmp_path):
    good = keys["RS256"].token()
    head, body, sig = good.split(".")
    admin = jwt.b64url(json.dumps({"exp": int(time.time()) + 600, "role": "admin"}).encode())
    for bad in (f"{head}.{admin}.{sig}", f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.{sig}.{sig}", f"{head}..{sig}",
                f"{head}.{body}.{sig[:-4]}", f"{head}.{body}.{'A' * len(sig)}", "..", "a.b.c", good + "A", "A" * 9000,
                good.replace(".", ". ")):
        assert status(server, bearer(bad)) == 401, bad
    assert status(server, bearer(jwt.Key(tmp_path, "RS256", "other").token())) == 401
    assert status(server, bearer(good)) == 200


def test_keys_rotate_without_a_restart(server, keys, tmp_path):
    fresh = jwt.Key(tmp_path, "ES256", "fresh")
    old, new = keys["ES256"].token(), fresh.token(header={"kid": "2"})
    assert (status(server, bearer(old)), status(server, bearer(new))) == (200, 401)
    before = server.jwks.read_text()
    try:
        server.jwks.write_text(json.dumps({"keys": [fresh.jwk("2"), keys["RS256"].jwk()]}))
        sg.wait_for(lambda: status(server, bearer(new)) == 200)
        assert status(server, bearer(old)) == 401, "also one that was verified before"
        assert status(server, bearer(fresh.token(header={"kid": "3"}))) == 401
        server.jwks.write_text("{ this is not JSON")
        time.sleep(0.3)
        assert status(server, bearer(fresh.token())) == 200, "a broken file changes nothing"
    finally:
        server.jwks.write_text(before)
    sg.wait_for(lambda: status(server, bearer(old)) == 200)


@pytest.mark.parametrize("form", ["wrapped", "one line", "pem", "jwks"])
def test_jwt_public_key_in_every_form(keys, form):
    k = keys["RS256"]
    pem = k.public.encode()
    value = {"wrapped": base64.encodebytes(pem), "one line": base64.b64encode(pem), "pem": pem,
             "jwks": json.dumps({"keys": [k.jwk()]}).encode()}[form].decode()
    s = sg.Server("--pool-size", "0", env={"JWT_PUBLIC_KEY": value})
    try:
        s.start()
        assert status(s) == 401, "with a key configured, loopback is not enough"
        assert status(s, bearer(k.token())) == 200
        assert status(s, bearer(keys["ES256"].token())) == 401
    finally:
        s.headers = bearer(k.token())
        s.end()


def test_a_bad_jwt_key_does_not_start(keys, tmp_path):
    for value in ("nonsense", keys["RS256"].path.read_text(), jwt.Key(tmp_path, "RS256", "short", 1024).public,
                  jwt.Key(tmp_path, "ES384").public):
        s = sg.Server("--pool-size", "0", env={"JWT_PUBLIC_KEY": value})
        try:
            s.start(wait=False)
            assert s.guard.wait(30) == 2, "as other wrong settings"
            assert "JWT_PUBLIC_KEY" in s.log_tail()
        finally:
            s.end()


def test_audience_and_issuer_are_asked_for_where_they_are_configured(keys):
    k = keys["EdDSA"]
    s = sg.Server("--pool-size", "0", "--auth-jwt-audience", "us", "--auth-jwt-issuer", "idp", "--auth-jwt-role", "viewer",
                  env={"JWT_PUBLIC_KEY": k.public})
    try:
        s.start()
        assert who(s, bearer(k.token(aud="us", iss="idp")))["role"] == "viewer"
        assert status(s, bearer(k.token(aud=["them", "us"], iss="idp"))) == 200
        for claims in ({"aud": "us"}, {"iss": "idp"}, {"aud": "them", "iss": "idp"}, {"aud": ["them"], "iss": "idp"},
                       {"aud": "us", "iss": "other"}, {"aud": 5, "iss": "idp"}):
            assert status(s, bearer(k.token(**claims))) == 401, claims
    finally:
        s.headers = bearer(k.token(aud="us", iss="idp", role="admin"))
        s.end()


# ---- keys ----

def test_keys_are_stored_as_hashes_and_shown_once(server):
    made = new_key(server, name="ci", tenant="acme")
    assert made["key"].startswith("sg_") and made["tenant"] == "acme"
    w = who(server, {"X-API-Key": made["key"]})
    assert (w["tenant"], w["role"], w["subject"], w["how"]) == ("acme", "operator", "ci", "key")
    with open(server.home + "/keys") as f:
        text = f.read()
    assert made["id"] in text and made["key"][20:] not in text
    assert os.stat(server.home + "/keys").st_mode & 0o77 == 0
    assert "key" not in server.get(f"/sg/v1/keys/{made['id']}")


def test_a_key_is_taken_from_every_documented_place(server):
    key = new_key(server)["key"]
    for headers, path in (({"Authorization": f"Bearer {key}"}, "/auth"), ({"Authorization": f"bearer  {key}"}, "/auth"),
                          ({"X-AIO-API-Key": key}, "/auth"), ({"X-API-Key": key}, "/auth"), ({}, f"/auth?api_key={key}")):
        assert who(server, headers, path)["how"] == "key"
    for headers, path in (({"Authorization": key}, "/auth"), ({"Authorization": f"Basic {key}"}, "/auth"),
                          ({"Cookie": f"sandglass_ticket={key}"}, "/auth"), ({}, f"/auth?ticket={key}"),
                          ({}, f"/auth?token={key}")):
        assert status(server, headers, path) == 401


def test_revoked_expired_and_altered_keys_stay_out(server):
    made = new_key(server)
    key = made["key"]
    assert status(server, bearer(key)) == 200
    for bad in (key[:-1], key + "0", key[:-1] + ("0" if key[-1] != "0" else "1"), key.upper(), "sg_", "sg__", key[:16] + "0" * 40):
        assert status(server, bearer(bad)) == 401
    server.delete(f"/sg/v1/keys/{made['id']}")
    assert status(server, bearer(key)) == 401
    short = new_key(server, ttl=1)["key"]
    sg.wait_for(lambda: status(server, bearer(short)) == 401, 10)


def test_the_command_line_makes_lists_and_revokes_keys_under_a_running_server(server):
    run = lambda *words: subprocess.run([sg.BINARY, "key", *words, "--home", server.home], capture_output=True, text=True)
    key = run("create", "--role", "viewer", "--tenant", "acme", "--name", "cli").stdout.strip()
    sg.wait_for(lambda: status(server, bearer(key)) == 200)
    row = next(x for x in run("list").stdout.splitlines() if " cli " in x)
    assert "acme" in row and "viewer" in row and "valid" in row
    shown = lambda **env: subprocess.run([sg.BINARY, "top", "--once", "--url", f"http://127.0.0.1:{server.port}"], capture_output=True, text=True,
                                         env={k: v for k, v in os.environ.items() if k != "SANDGLASS_API_KEY"} | env)
    assert shown(SANDGLASS_API_KEY=key).returncode == 0
    for answer in (shown(), shown(SANDGLASS_API_KEY="sg_wrong"), shown(SANDGLASS_API_KEY="x" * 8000)):
        assert answer.returncode == 4 and "SANDGLASS_API_KEY" in answer.stderr, answer
    for wrong in ("x" * 9000, key + "\n"):
        assert "SANDGLASS_API_KEY" in shown(SANDGLASS_API_KEY=wrong).stderr, "it is not left out quietly"
    assert run("revoke", row.split()[0]).returncode == 0
    sg.wait_for(lambda: status(server, bearer(key)) == 401)
    assert run("revoke", "k-nothing").returncode != 0
    assert run("create", "--role", "king").returncode == 2
    assert run("create", "--role", "agent").returncode == 2


def test_a_line_that_a_crash_cut_short_costs_no_other_key(server):
    before = new_key(server)["key"]
    with open(server.home + "/keys", "a") as f:
        f.write('{"key":"k-torn","hash":"00')
    after = new_key(server)["key"]
    assert status(server, bearer(before)) == status(server, bearer(after)) == 200


def test_keys_survive_a_kill_of_serve(server):
    key = new_key(server)["key"]
    server.kill_role("serve")
    server.wait_ready()
    assert status(server, bearer(key)) == 200


# ---- tickets ----

def ticket_of(server, headers):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    c.request("POST", "/tickets", headers=headers)
    r = c.getresponse()
    body = json.loads(r.read())
    c.close()
    return r.status, body


def test_a_ticket_opens_pages_many_times_until_it_expires(server, keys):
    code, t = ticket_of(server, bearer(keys["RS256"].token(tenant="acme", sub="joe")))
    assert code == 200 and set(t) == {"ticket", "expires_in"} and t["expires_in"] == 30
    for _ in range(3):
        w = who(server, path=f"/auth?ticket={t['ticket']}")
        assert (w["tenant"], w["subject"], w["how"]) == ("acme", "joe", "ticket")
    assert re.fullmatch(r"[A-Za-z0-9._-]+", t["ticket"]), "it needs no escaping, also not inside of another URL"


def test_a_proxy_finds_the_ticket_in_the_original_uri(server, keys):
    _, t = ticket_of(server, bearer(keys["RS256"].token()))
    assert status(server, {"X-Original-URI": f"/vnc/index.html?a=1&ticket={t['ticket']}"}) == 200
    assert status(server, {"X-Original-URI": f"/vnc/?ticket=x{t['ticket']}"}) == 401
    assert status(server, {"X-Original-URI": f"/x?ticket={t['ticket']}"}, "/sg/v1/boxes") == 401, "only where a proxy asks"


def test_a_page_opened_by_ticket_is_remembered_by_a_strict_cookie(server, keys):
    _, t = ticket_of(server, bearer(keys["RS256"].token()))
    r = acting(server, "GET", f"/sg/v1/boxes?ticket={t['ticket']}")
    cookie = r.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    pair = cookie.split(";")[0]
    assert status(server, {"Cookie": f"other=1; {pair}"}, "/sg/v1/boxes") == 200
    host = f"127.0.0.1:{server.port}"
    assert status(server, {"Cookie": pair, "Origin": f"http://{host}"}, "/sg/v1/boxes") == 200
    assert status(server, {"Cookie": pair, "Origin": "http://127.0.0.1:1"}, "/sg/v1/boxes") == 403, \
        "a page of another port has the cookie, too"


def test_behind_a_proxy_with_tls_the_cookie_is_one_that_no_sibling_can_set(server, keys):
    _, t = ticket_of(server, bearer(keys["RS256"].token()))
    tls = {"X-Forwarded-Proto": "https"}
    cookie = acting(server, "GET", f"/sg/v1/boxes?ticket={t['ticket']}", tls).headers["Set-Cookie"]
    assert cookie.startswith("__Host-sandglass_ticket=") and "; Secure" in cookie
    pair = cookie.split(";")[0]
    assert status(server, {"Cookie": pair, **tls}, "/sg/v1/boxes") == 200
    assert status(server, {"Cookie": pair.removeprefix("__Host-"), **tls}, "/sg/v1/boxes") == 401
    assert status(server, {"Cookie": pair.removeprefix("__Host-")}, "/sg/v1/boxes") == 200, "without TLS, browsers take no other"


def acting(server, method, path, headers=None):
    with acting_as(server, headers or {}):
        return server.request(method, path)


def test_tickets_do_not_beget_tickets_and_cannot_be_altered(server, keys):
    _, t = ticket_of(server, bearer(keys["RS256"].token(role="viewer")))
    assert acting(server, "POST", f"/tickets?ticket={t['ticket']}").status == 403
    body, mac = t["ticket"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = jwt.b64url(json.dumps({**claims, "r": 4, "m": 15}).encode())
    for bad in (f"{forged}.{mac}", f"{body}.{mac[:-2]}", f"{body}.", f".{mac}", body, "", f"{body}.{'A' * len(mac)}"):
        assert status(server, path=f"/auth?ticket={bad}") == 401


def test_a_ticket_ends_with_its_time_and_with_its_key(keys):
    s = sg.Server("--pool-size", "0", "--auth", "required", env={"BEARER_TOKEN": "some-token-0123", "TICKET_TTL_SECONDS": "1"})
    try:
        s.start()
        s.headers = bearer("some-token-0123")
        _, t = ticket_of(s, s.headers)
        assert t["expires_in"] == 1 and status(s, path=f"/auth?ticket={t['ticket']}") == 200
        sg.wait_for(lambda: status(s, path=f"/auth?ticket={t['ticket']}") == 401)
        made = new_key(s)
        _, t = ticket_of(s, bearer(made["key"]))
        s.delete(f"/sg/v1/keys/{made['id']}")
        assert status(s, path=f"/auth?ticket={t['ticket']}") == 401
    finally:
        s.end()


# ---- the door ----

def test_agentscopes_bearer_token_and_its_words(server):
    assert who(server, bearer("agentscope-token-1"))["role"] == "admin"
    r = acting(server, "GET", "/sg/v1/boxes")
    assert (r.status, r["detail"], r.headers["WWW-Authenticate"]) == (401, "Authentication required", "Bearer")
    r = acting(server, "GET", "/sg/v1/boxes", bearer("wrong"))
    assert (r.status, r["detail"]) == (401, "Invalid authentication credentials")
    r = acting(server, "GET", "/v1/sandbox")
    assert r.status == 401 and r["success"] is False and r["message"] == "Unauthorized"


PUBLIC = {("GET", "/api/v1/health"), ("GET", "/api/v1/ready")}  # and without the prefix, as all of them


def filled(path, value="x1"):
    return re.sub(r"\{[^}]*\}", value, path.replace("{port}", "8000"))


def test_no_route_answers_without_credentials_but_a_listed_few(server):
    table = routes()
    public = {(r["method"], r["path"]) for r in table if r["access"] == "public"}
    assert len(table) > 50 and {p for p in public if not (p[0] == "GET" and p[1].startswith("/static/"))} == PUBLIC
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for r in table:
        path = filled(r["path"])
        paths = [path, "/box/b-1" + path, path.rstrip("/") + "/"]
        if path.startswith("/api/v1"):
            paths += [path[7:], "/agentflow" + path, "/agentflow" + path[7:]]
        if path.startswith("/v1"):
            paths += ["/aio" + path]
        for p in paths:
            for headers in ({}, bearer("wrong-token-wrong-token"), bearer(jwt.unsigned_token({"exp": 1e10})),
                            {"Cookie": "sandglass_ticket=x"}):
                c.request(r["method"], p, body=b"{}" if r["method"] != "GET" else None, headers=headers)
                got = c.getresponse()
                body = got.read()
                if r["access"] == "public":
                    assert got.status == 200 or "/static/" in p, (p, got.status)
                    assert b"workers" not in body and b"sessions" not in body
                else:
                    assert got.status == 401, (r["method"], p, got.status, body[:200])
    for name in ("8000-b-1", "jupyter-b-1", "code-server-b-1"):
        c.request("GET", "/", headers={"Host": f"{name}.localhost:{server.port}"})
        got = c.getresponse()
        assert (got.status, b"Authentication" in got.read()) == (401, True), name
    for p in ("/", "/nothing", "/sg/v1/", "/v1/docs", "/openapi.json", "/static/../keys"):
        c.request("GET", p)
        got = c.getresponse()
        got.read()
        assert got.status in (400, 401), p
    c.close()


def shown(server, path, headers):
    """What a person's browser is shown."""
    r = acting(server, "GET", path, {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", **headers})
    assert r.headers["Content-Type"].startswith("text/html") and "default-src 'none'" in r.headers["Content-Security-Policy"], r
    return r.status, r.body.decode()


def test_a_person_is_shown_pages_and_a_program_gets_json(server):
    token = bearer("agentscope-token-1")
    code, page = shown(server, "/", token)
    assert code == 200 and 'href="/terminal"' in page and 'href="/v1/docs"' in page
    assert acting(server, "GET", "/", token)["name"] == "sandglass"
    code, page = shown(server, "/box/b-%3Cb%3Ex/vnc/index.html", token)
    assert code == 404 and "no box" in page and "<b>" not in page
    assert shown(server, "/nothing", token)[0] == 404 and acting(server, "GET", "/nothing", token)["error"]["code"] == "not_found"
    for path in ("/", "/terminal", "/v1/docs", "/jupyter", "/proxy/8000/"):
        code, page = shown(server, path, {})
        assert code == 401 and "/static/page/login.js" in page, path
    code, page = shown(server, "/", {"Host": f"jupyter-b-1.localhost:{server.port}"})
    assert code == 401 and "login.js" not in page, "nothing of ours answers there"
    assert b"/tickets" in acting(server, "GET", "/static/page/login.js").body


def first_line(server, head, then=b""):
    """What comes back for a head whose body does not come; whether the server waits for it."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as c:
        c.sendall(head.replace(b"HOST", f"127.0.0.1:{server.port}".encode()))
        got = c.recv(65536)
        with contextlib.suppress(OSError):
            c.sendall(then)
        while (more := c.recv(65536)):
            got += more
        return got


@pytest.mark.parametrize("framing", [b"Content-Length: 60000000", b"Transfer-Encoding: chunked",
                                     b"Content-Length: 60000000\r\nExpect: 100-continue"], ids=["length", "chunked", "expect"])
@pytest.mark.parametrize("path", [b"/api/v1/execute", b"/sg/v1/boxes", b"/v1/shell/exec", b"/mcp", b"/v1/file/upload", b"/nothing"])
def test_whoever_is_not_let_in_is_told_so_before_the_body(server, framing, path):
    head = b"POST " + path + b" HTTP/1.1\r\nHost: HOST\r\n" + framing + b"\r\n\r\n"
    got = first_line(server, head)
    assert got.startswith(b"HTTP/1.1 401 ") and b"100 Continue" not in got, got[:300]
    assert b"HTTP/1.1" not in got[10:], "one answer"


def test_too_little_a_role_and_a_foreign_page_are_refused_by_the_head_too(server):
    viewer = new_key(server, role="viewer")["key"].encode()
    head = b"POST /api/v1/execute HTTP/1.1\r\nHost: HOST\r\nContent-Length: 60000000\r\nAuthorization: Bearer "
    assert first_line(server, head + viewer + b"\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert first_line(server, head + b"agentscope-token-1\r\nOrigin: http://evil.example\r\n\r\n").startswith(b"HTTP/1.1 403 ")


def test_a_late_body_of_someone_who_may_is_waited_for(server):
    body = json.dumps({"worker_id": "late", "action": "bash:run", "params": {"command": "echo hello"}}).encode()
    with socket.create_connection(("127.0.0.1", server.port), 60) as c:
        c.sendall(f"POST /api/v1/execute HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\nExpect: 100-continue\r\n"
                  f"Authorization: Bearer agentscope-token-1\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        assert c.recv(1000).startswith(b"HTTP/1.1 100 ")
        for byte in body:
            c.sendall(bytes([byte]))
        got = b""
        while (more := c.recv(65536)):
            got += more
    assert got.startswith(b"HTTP/1.1 200") and b"hello" in got, got[:500]


def test_roles_may_do_what_they_are_for(server):
    made = {role: bearer(new_key(server, role=role, tenant="roles")["key"]) for role in ("viewer", "operator", "admin")}
    with acting_as(server, made["operator"]):
        box = server.create()
    made["agent"] = bearer(new_key(server, role="agent", tenant="roles", box=box)["key"])
    asks = [("GET", "/sg/v1/boxes", None), ("POST", f"/sg/v1/boxes/{box}/execute", BOX_BODY),
            ("POST", f"/sg/v1/boxes/{box}/snapshot", {}), ("GET", "/sg/v1/keys", None), ("GET", "/sg/v1/status", None)]
    want = {"viewer": [200, 403, 403, 403, 403], "agent": [200, 200, 403, 403, 403],
            "operator": [200, 200, 201, 403, 403], "admin": [200, 200, 201, 200, 403]}
    for role, codes in want.items():
        with acting_as(server, made[role]):
            assert [server.request(*a).status for a in asks] == codes, role
    narrowed = bearer(new_key(server, role="operator", tenant="roles", scopes="read")["key"])
    with acting_as(server, narrowed):
        assert [server.request(*a).status for a in asks] == want["viewer"]


def test_an_agent_has_one_box_whatever_it_asks_for(server):
    op = bearer(new_key(server, tenant="agents")["key"])
    with acting_as(server, op):
        mine, other = server.create(), server.create()
        server.tool(other, "bash:run", {"command": "echo secret > /tmp/s"}, trajectory_id="others")
        state = server.post(f"/sg/v1/boxes/{other}/snapshot", {}, 201)["state"]
    agent = bearer(new_key(server, role="agent", tenant="agents", box=mine)["key"])
    with acting_as(server, agent):
        assert [b["id"] for b in server.get("/sg/v1/boxes")["boxes"]] == [mine]
        assert server.request("GET", f"/sg/v1/boxes/{other}").status == 404
        assert server.request("POST", f"/sg/v1/boxes/{other}/execute", BOX_BODY).status == 404
        assert server.tool(mine, "bash:run", {"command": "hostname"})["box_id"] == mine
        r = server.execute("somebody", "bash:run", {"command": "true"})
        assert r["code"] == 0
        assert server.post("/sg/v1/execute", {"tool": "bash:run", "params": {"command": "true"}, "worker_id": "x"})["box_id"] == mine
        assert server.get("/sg/v1/trajectories/others/steps", 404)
        assert all(t["worker"] == mine for t in server.get("/sg/v1/trajectories")["trajectories"])
        assert server.request("GET", f"/sg/v1/states/{state}").status == 403
        assert server.request("POST", "/api/v1/session/create", {"worker_id": mine, "resource_type": "bash"}).status == 403
        assert server.request("POST", "/sg/v1/boxes", {}).status == 403
        assert server.request("GET", "/v1/sandbox", headers={"X-Sandglass-Box": other}).status == 404
    with acting_as(server, op):
        before = {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}
    narrow = bearer(new_key(server, tenant="agents", scopes="read,execute")["key"])
    for headers in (agent, narrow):  # none of the ways to a box that are no route of their own
        with acting_as(server, headers):
            ask = lambda method, path="/mcp", headers={}, **p: server.request("POST", path, {"jsonrpc": "2.0", "id": 1, "method": method, "params": p}, headers=headers)
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            r = ask("initialize", "/mcp?box=own", **hello)
            session = {"Mcp-Session-Id": r.headers["Mcp-Session-Id"]} if headers is agent else {}
            assert session or "manage" in r["error"]["message"]
            r = ask("tools/call", headers=session, name="bash_run", arguments={"command": "true"})["result"]
            assert r["_meta"]["box_id"] == mine or headers is narrow
            for name, arguments in (("create_sandbox", {"repo_url": "https://127.0.0.1:1/x.git", "base_commit": "main"}), ("box_fork", {"box": mine})):
                r = ask("tools/call", name=name, arguments=arguments)["result"]
                assert r["isError"] and ("manage" in r["content"][0]["text"] or "makes no others" in r["content"][0]["text"]), r
            for uri in ("sandglass://trajectory/others", f"sandglass://state/{state}"):
                assert ("result" in ask("resources/read", uri=uri).json) == (headers is narrow)
    with acting_as(server, op):
        assert len({b["id"] for b in server.get("/sg/v1/boxes")["boxes"]} - before) <= 1, "the default box, for who may use it"
    with acting_as(server, op):
        server.destroy(mine)
    with acting_as(server, agent):
        r = server.request("POST", "/sg/v1/execute", BOX_BODY | {"worker_id": "x"})
        assert r.status == 404 and "does not exist" in r["message"]


# ---- tenants ----

@pytest.fixture(scope="module")
def two(server):
    """Two tenants; the first one has one of everything."""
    a = bearer(new_key(server, role="admin", tenant="alpha")["key"])
    b = bearer(new_key(server, role="admin", tenant="beta")["key"])
    with acting_as(server, a):
        box = server.create(labels={"a": "b"})
        server.tool(box, "bash:run", {"command": "echo alpha-secret"}, trajectory_id="alpha-run", key="alpha-key")
        state = server.post(f"/sg/v1/boxes/{box}/snapshot", {"name": "alpha-state"}, 201)["state"]
        key = new_key(server, tenant="alpha")["id"]
        session = server.session("alpha-worker")
        server.execute("alpha-worker", "bash:run", {"command": "echo alpha-secret > /tmp/f"})
    ids = {"box": box, "state": state, "key": key, "trajectory": "alpha-run", "worker": "alpha-worker",
           "session box": session["session_id"], "state name": "alpha-state"}
    return a, b, ids


def answer(server, method, path, body, timeout=20):
    """Status and body; of a stream, what comes in a moment."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        c.request(method, path, body=None if method == "GET" else json.dumps(body), headers=server.headers)
        r = c.getresponse()
        if r.headers.get("Content-Type", "").startswith("text/event-stream"):
            c.sock.settimeout(0.2)
            with contextlib.suppress(TimeoutError, socket.timeout):
                return r.status, r.read(200)
            return r.status, b""
        return r.status, r.read()
    finally:
        c.close()


def test_every_route_with_an_id_treats_a_foreign_one_as_one_that_does_not_exist(server, two):
    """Not only 404: the answers to a foreign id and to an id that nobody has cannot be told apart."""
    _, b, ids = two
    tried = 0
    with acting_as(server, b):
        for r in routes():
            if "{" not in r["path"] or (r["path"].endswith("/{rest*}") and r["access"] != "public"):
                continue  # what a relay has behind its name is the box's; which box it is, the next test asks
            for kind, foreign in ids.items():
                if "*" in r["path"] and kind != "box":
                    continue
                absent = {"box": "b-" + "2" * 16, "state": "s-" + "0" * 20, "key": "k-" + "0" * 12}.get(kind, "z" * len(foreign))
                absent = (absent + "z" * len(foreign))[:len(foreign)]
                body = {"tool": "bash:run", "params": {"command": "true"}, "n": 1}
                got = answer(server, r["method"], filled(r["path"], foreign), body)
                want = answer(server, r["method"], filled(r["path"], absent), body)
                plain = lambda text, used: re.sub(rb"\d+", b"0", text.replace(used.encode(), b"ID"))  # times and ages differ
                same = plain(got[1], foreign) == plain(want[1], absent)
                assert got[0] == want[0], (r, kind, got, want)
                assert same, (r, kind, got, want)
                assert b"alpha" not in got[1].replace(foreign.encode(), b""), (r, kind, got)
                tried += 1
    assert tried > 50
    with acting_as(server, two[0]):
        assert server.get(f"/sg/v1/boxes/{ids['box']}")["state"] == "running"
        assert server.get(f"/sg/v1/keys/{ids['key']}")["revoked"] is False
        assert len(server.steps("alpha-run")) == 1


def test_every_route_below_a_foreign_box_treats_it_as_one_that_does_not_exist(server, two):
    """The relays into a box (ports, CDP, applications) too, by path, by header and by host name."""
    _, b, ids = two
    absent = "b-" + "2" * (len(ids["box"]) - 2)
    plain = lambda got, used: (got[0], re.sub(rb"\d+", b"0", got[1].replace(used.encode(), b"ID")))
    table = [r for r in routes() if r["access"] != "public" and not r["path"].startswith(("/sg/", "/api/", "/tickets", "/auth"))]
    assert {"/proxy/{port}/{rest*}", "/absproxy/{port}/{rest*}", "/cdp/{rest*}", "/json/{rest*}", "/jupyter/{rest*}",
            "/code-server/{rest*}", "/mcp", "/terminal", "/vnc/index.html", "/websockify"} <= {r["path"] for r in table}
    boxless = {"/", "/v1/openapi.json", "/v1/docs", "/v1/ping", "/metrics"}  # they say nothing of a box
    relays = 0
    with acting_as(server, b):
        for r in table:
            if r["path"] in boxless:
                continue
            path = filled(r["path"])
            got, want = (plain(answer(server, r["method"], f"/box/{id}{path}", {"method": "tools/list"}), id) for id in (ids["box"], absent))
            assert got == want and b"alpha" not in got[1], (r, got, want)
            if r["path"].endswith("{rest*}") and "static" not in r["path"]:
                relays += 1
                assert got[0] == 404, (r, got)
                for name in ("8000", "jupyter", "code-server"):
                    seen = []
                    for id in (ids["box"], absent):
                        with acting_as(server, {**b, "Host": f"{name}-{id}.localhost:{server.port}"}):
                            seen.append(plain(answer(server, r["method"], path, {}), id))
                    assert seen[0] == seen[1] and seen[0][0] == 404, (r, name, seen)
    assert relays >= 30


@pytest.mark.parametrize("ask", [
    ("GET", "/sg/v1/boxes/{box}"), ("DELETE", "/sg/v1/boxes/{box}"), ("POST", "/sg/v1/boxes/{box}/execute"),
    ("POST", "/sg/v1/boxes/{box}/snapshot"), ("POST", "/sg/v1/boxes/{box}/fork"), ("POST", "/sg/v1/boxes/{box}/reset"),
    ("GET", "/sg/v1/trajectories/{trajectory}"), ("GET", "/sg/v1/trajectories/{trajectory}/steps"),
    ("GET", "/sg/v1/states/{state}"), ("GET", "/sg/v1/states/{state name}"), ("POST", "/sg/v1/states/{state}/fork"),
    ("GET", "/sg/v1/states/{state}/files"), ("GET", "/sg/v1/diff?a={state}&b={state}"), ("GET", "/sg/v1/keys/{key}"),
    ("DELETE", "/sg/v1/keys/{key}"), ("GET", "/box/{box}/v1/sandbox"), ("POST", "/box/{box}/mcp")], ids=lambda a: " ".join(a))
def test_what_is_another_tenants_is_not_found(server, two, ask):
    _, b, ids = two
    method, path = ask[0], re.sub(r"\{([^}]*)\}", lambda m: ids[m[1]], ask[1])
    body = BOX_BODY if "execute" in path else {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                               "params": {"name": "bash_run", "arguments": {"command": "id"}}} if "mcp" in path else {}
    with acting_as(server, b):
        status_, text = answer(server, method, path, body)
        assert status_ == 404 or (path.endswith("/mcp") and (b"no box" in text or b"not found" in text.lower())), (status_, text)


def test_ids_in_bodies_and_queries_are_the_tenants_own(server, two):
    a, b, ids = two
    with acting_as(server, b):
        mine = server.create()
        for body in ({"state": ids["state"]}, {"state": "alpha-state"}, {"trajectory": "alpha-run", "step": 1}):
            assert server.request("POST", f"/sg/v1/boxes/{mine}/restore", body).status == 404, body
            assert server.request("POST", f"/sg/v1/boxes/{mine}/fork", body).status == 404, body
        assert server.get(f"/sg/v1/states?box={ids['box']}")["states"] == []
        assert server.get("/sg/v1/states?trajectory=alpha-run")["states"] == []
        for path in ("/sg/v1/states", "/sg/v1/trajectories", "/sg/v1/boxes"):
            text = json.dumps(server.get(path))
            assert "alpha" not in text and ids["box"] not in text and ids["state"] not in text
        assert server.get("/sg/v1/trajectories?worker=alpha-worker")["trajectories"] == []
        assert mine in json.dumps(server.get("/sg/v1/boxes"))
        assert all(k["tenant"] == "beta" for k in server.get("/sg/v1/keys")["keys"])
        listed = server.post("/api/v1/session/list", {"worker_id": "alpha-worker"})
        assert ids["session box"] not in json.dumps(listed)
        assert server.request("POST", "/sg/v1/keys", {"role": "admin", "tenant": "alpha"}).status == 403
        server.destroy(mine)


def test_the_same_names_are_other_things_for_another_tenant(server, two):
    a, b, ids = two
    with acting_as(server, b):
        first = server.execute("alpha-worker", "bash:run", {"command": "cat /tmp/f; echo mine"}, trajectory_id="alpha-run")
        assert "alpha-secret" not in json.dumps(first), "the worker of the same name has another box"
        assert [s["step"] for s in server.steps("alpha-run")] == [1]
        again = server.execute("alpha-worker", "bash:run", {"command": "echo other"}, trajectory_id="alpha-run",
                               idempotency_key="alpha-key")
        assert again["code"] == 0 and "other" in json.dumps(again), "nor is another tenant's idempotency key answered"
        assert len(server.steps("alpha-run")) == 2
    with acting_as(server, a):
        rows = server.steps("alpha-run")
        assert len(rows) == 1 and "alpha-secret" in json.dumps(rows)


def test_tenants_survive_a_restart_of_serve_and_of_the_index(server, two):
    a, b, ids = two
    server.kill_role("serve")
    server.wait_ready()
    with acting_as(server, b):
        assert server.request("GET", f"/sg/v1/boxes/{ids['box']}").status == 404
        assert server.request("GET", f"/sg/v1/states/{ids['state']}").status == 404
    with acting_as(server, a):
        assert server.tool(ids["box"], "bash:run", {"command": "echo back"})["outcome"] == "ok"
        assert "alpha-secret" in json.dumps(server.execute("alpha-worker", "bash:run", {"command": "cat /tmp/f"}))
    with acting_as(server, bearer("agentscope-token-1")):
        assert server.request("GET", f"/sg/v1/boxes/{ids['box']}").status == 404, "not even the default tenant"


# ---- addresses ----

def starts(*flags, env=None, prepare=None):
    """Exit code of a server on an address that others can reach; None if it runs."""
    s = sg.Server("--pool-size", "0", "--listen", f"0.0.0.0:{sg.free_port()}", *flags, env=env)
    try:
        if prepare:
            prepare(s)
        s.start(wait=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return s.guard.wait(1.5), s.log_tail()
        return None, s.log_tail()
    finally:
        s.end()


def test_an_address_for_others_needs_a_door():
    code, text = starts()
    assert code == 1 and "sandglass key create" in text and "open-to-everyone" in text
    code, text = starts("--auth", "required")
    assert code == 1, "required, and nobody could come in"


def test_with_a_key_or_in_words_it_starts():
    make = lambda s: subprocess.run([sg.BINARY, "key", "create", "--home", s.home], check=True, capture_output=True)
    assert starts(prepare=make)[0] is None
    assert starts("--auth", "open-to-everyone")[0] is None
    assert starts(env={"BEARER_TOKEN": "some-token-0123"})[0] is None


def test_loopback_without_configuration_works_at_once_but_not_for_foreign_pages():
    s = sg.Server("--pool-size", "0")
    try:
        s.start()
        assert who(s) == {"status": "ok", "tenant": "default", "role": "admin", "subject": "local", "how": "local"}
        assert status(s, {"Authorization": "Bearer for-another-server"}) == 200
        assert status(s, {"Authorization": "Bearer sg_000000000000_" + "0" * 40}) == 401, "but what claims to be ours must be"
        assert status(s, {"Host": "evil.example.com"}) == 421
        assert status(s, {"Origin": "http://evil.example.com"}, "/sg/v1/boxes", "POST") == 403
        assert status(s, {"Origin": "http://evil.example.com", "Upgrade": "websocket", "Connection": "upgrade"}) == 403
        for origin in ("http://evil.example.com", "null", "https://localhost"):
            for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"):
                assert status(s, {"Origin": origin}, "/sg/v1/boxes", method) == 403, (origin, method)
        # each surface says it in its own way: who, and what would allow it
        foreign = {"Origin": "http://evil.example.com"}
        for path, where in (("/sg/v1/boxes", ("error", "message")), ("/api/v1/tools", ("detail",)), ("/health", ("detail",)),
                            ("/v1/sandbox", ("message",)), ("/mcp", ("error", "message")), ("/metrics", ("error", "message"))):
            r = s.request("GET", path, headers=foreign)
            said = r
            for key in where:
                said = said[key]
            assert r.status == 403 and "http://evil.example.com" in said and "cors.origins" in said, (path, r)
            assert not [h for h in r.headers if h.lower().startswith("access-control")]
        assert s.request("GET", "/mcp", headers=foreign)["jsonrpc"] == "2.0"
        page = s.request("GET", "/", headers={**foreign, "Accept": "text/html"})
        assert page.status == 403 and b"cors.origins" in page.body
        for own in (f"http://127.0.0.1:{s.port}", f"HTTP://127.0.0.1:{s.port}"):
            assert status(s, {"Origin": own}, "/sg/v1/boxes") == 200
        r = s.request("GET", "/health")
        assert r.headers["X-Content-Type-Options"] == "nosniff" and r.headers["Referrer-Policy"] == "no-referrer"
    finally:
        s.end()


def over_socket(server, path, uid=None):
    text = ("import http.client,socket,sys\n"
            "c=http.client.HTTPConnection('x');c.sock=socket.socket(socket.AF_UNIX);c.sock.connect(sys.argv[1])\n"
            "c.request('GET',sys.argv[2]);r=c.getresponse();print(r.status,r.read().decode())")
    return subprocess.run(["/usr/bin/python3", "-c", text, server.home + "/run/api.sock", path], capture_output=True, text=True,
                          preexec_fn=(lambda: os.setuid(uid)) if uid else None).stdout


def test_a_unix_socket_knows_its_peer(server):
    assert over_socket(server, "/auth").startswith("200") and '"peer"' in over_socket(server, "/auth")
    assert over_socket(server, "/auth", 12345).startswith("401")
    assert over_socket(server, "/auth?ticket=expired").startswith("401"), "whoever shows a ticket is not root beside it"


def test_cors_is_what_the_configuration_says():
    s = sg.Server("--pool-size", "0", "--cors-origins", "https://app.example.org http://localhost:3000")
    try:
        s.start()
        ask = {"Origin": "https://app.example.org", "Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "authorization, content-type"}
        r = s.request("OPTIONS", "/sg/v1/boxes", headers=ask)
        assert r.status == 204 and r.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
        assert "authorization" in r.headers["Access-Control-Allow-Headers"] and r.headers["Vary"] == "Origin"
        r = s.request("POST", "/sg/v1/execute", {}, headers={"Origin": "http://localhost:3000"})
        assert r.status == 400 and r.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        r = s.request("OPTIONS", "/sg/v1/boxes", headers={**ask, "Origin": "https://evil.example.org"})
        assert r.status != 204 and "Access-Control-Allow-Origin" not in r.headers
        r = s.request("GET", "/sg/v1/boxes", headers={"Origin": "https://app.example.org"})
        assert r.status == 200 and r.headers["Access-Control-Allow-Origin"] == "https://app.example.org"
        for method in ("GET", "POST"):
            assert status(s, {"Origin": "https://app.example.org.evil.org"}, "/sg/v1/boxes", method) == 403
    finally:
        s.end()
    code = subprocess.run([sg.BINARY, "serve", "--cors-origins", "*", "--home", s.home], capture_output=True, text=True)
    assert code.returncode == 2 and "auth = required" in code.stderr


# ---- the documentation ----

def test_the_documentations_six_steps_end_with_a_url_that_carries_its_nested_ticket():
    s = sg.Server()
    script = sg.ROOT / "tests" / "compat" / "six_steps.sh"
    try:
        r = subprocess.run([script, sg.BINARY, str(s.port), s.home, "--cgroup-name", s.name, "--pool-size", "1", "--shutdown-kill"],
                           capture_output=True, text=True, timeout=300)
        lines = r.stdout.splitlines()
        assert r.returncode == 0 and len(lines) == 4, r
        assert lines[0] == "GET /v1/sandbox: 401 without a token, 200 with it"
        assert lines[1] == "page: 200, without its ticket: 401"
        inside, outside = re.fullmatch(r"its socket: (\d+), without its ticket: (\d+)", lines[2]).groups()
        assert outside == "401" and (inside == "101" if shutil.which("Xtigervnc") and shutil.which("jwm") else inside != "401")
        m = re.fullmatch(r"http://localhost:\d+/vnc/index\.html\?ticket=([\w.-]+)&path=websockify%3Fticket%3D([\w.-]+)", lines[3])
        assert m and m[1] == m[2]
    finally:
        s.end()
