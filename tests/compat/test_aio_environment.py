"""The variables of AIO Sandbox's deployments, as the container's entry point takes them: each by its effect in a box."""

import base64
import subprocess

import jwt
import pytest
import sg

ENTRY = sg.ROOT / "tools" / "docker" / "entrypoint.sh"
ZONE, WORKSPACE = "Asia/Singapore", "/srv/agent/project"
VARIABLES = {
    "TZ": ZONE,
    "WORKSPACE": WORKSPACE,
    "PROXY_SERVER": "someone:secret@127.0.0.1:7890",
    "HOMEPAGE": "data:text/html,<title>Welcome</title>".replace(" ", "%20"),
    "BROWSER_EXTRA_ARGS": "--user-agent='Glass/1 (of two words)'  --lang=de",
    "DNS_OVER_HTTPS_TEMPLATES": "https://127.0.0.1:4443/dns-query{?dns} https://127.0.0.1:4444/",
    "WAIT_PORTS": "8079, 8091",
}
UPSTREAM = """import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ('%s by %s' % (self.path, self.headers['Proxy-Authorization'])).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(text))); self.end_headers(); self.wfile.write(text)
http.server.HTTPServer(('127.0.0.1', 7890), H).serve_forever()
"""


def settings(env, *words, before=()):
    """What the entry point makes of variables: the words and the settings that the program is started with."""
    show = "#!/bin/sh\necho \"$@\"\nenv | grep -E '^(SANDGLASS_|JWT_)' | sort\n"
    script = f"cat >/tmp/show.$$ <<'X'\n{show}X\nchmod +x /tmp/show.$$; SANDGLASS=/tmp/show.$$ {ENTRY} \"$@\"; rm /tmp/show.$$"
    out = subprocess.run([*before, "sh", "-c", script, "sh", *words], env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env},
                         check=True, capture_output=True, text=True).stdout.splitlines()
    return out[0], dict(line.split("=", 1) for line in out[1:])


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def server(project):
    _, env = settings(VARIABLES)
    del env["SANDGLASS_BOX_SHM"]
    env.update(SANDGLASS_POOL_SIZE="1", SANDGLASS_BOX_MOUNTS=str(project), SANDGLASS_MOUNT_ROOTS=str(project))
    s = sg.Server("--box-memory", "2g", env=env)
    try:
        s.start(wait=False)
        sg.wait_for(lambda: health(s), 30)
        yield s
    finally:
        s.end()


def health(s):
    try:
        return s.request("GET", "/health").status == 200
    except sg.GONE:
        return False


def call(s, method, path, body=None):
    r = s.request(method, path, body)
    assert r.status == 200, r
    return r["data"]


def run(s, command):
    return call(s, "POST", "/v1/bash/exec", {"command": command})


def test_ready_waits_until_the_ports_of_wait_ports_answer_in_the_default_box(server):
    first = server.request("GET", "/ready")
    assert first.status == 503 and "8079" in first.body.decode(), first
    call(server, "POST", "/v1/bash/exec", {"command": "python3 -m http.server 8079 --bind 127.0.0.1", "async_mode": True})
    sg.wait_for(lambda: "8091" in server.request("GET", "/ready").body.decode(), 30)
    call(server, "POST", "/v1/bash/exec", {"command": "python3 -m http.server 8091 --bind 127.0.0.1", "async_mode": True})
    sg.wait_for(lambda: server.request("GET", "/ready").status == 200, 30)


def test_tz_is_the_time_zone_of_programs_and_of_the_context(server):
    assert run(server, "date +%z")["stdout"] == "+0800\n"
    system = server.request("GET", "/v1/sandbox")["detail"]["system"]
    assert system["timezone"] == ZONE


def test_workspace_is_made_and_is_where_shells_and_files_begin(server):
    context = server.request("GET", "/v1/sandbox")
    assert context["detail"]["system"]["workspace"] == context["workspace"] == WORKSPACE
    assert run(server, "pwd; stat -c %U .; echo $HOME")["stdout"] == f"{WORKSPACE}\ngem\n/home/gem\n"
    assert WORKSPACE in call(server, "POST", "/v1/shell/exec", {"command": "pwd"})["output"]
    call(server, "POST", "/v1/file/write", {"file": "here.txt", "content": "x"})
    assert run(server, f"cat {WORKSPACE}/here.txt")["stdout"] == "x"
    assert call(server, "POST", "/v1/util/convert_to_markdown", {"uri": "here.txt"}) == "x"
    seen = call(server, "POST", "/v1/code/execute", {"language": "python", "code": "import os; print(os.getcwd())"})
    assert WORKSPACE in str(seen), seen


def test_proxy_server_is_the_upstream_of_the_default_boxs_proxy(server):
    assert call(server, "GET", "/v1/proxy/upstream") == {"addr": "127.0.0.1:7890", "username": "someone", "password": "secret"}
    call(server, "POST", "/v1/file/write", {"file": "/tmp/upstream.py", "content": UPSTREAM})
    call(server, "POST", "/v1/bash/exec", {"command": "exec python3 /tmp/upstream.py", "async_mode": True})
    asked = "curl -s --retry 20 --retry-all-errors --retry-delay 1 -f -x http://127.0.0.1:8118 http://example.test/page"
    by = base64.b64encode(b"someone:secret").decode()
    assert run(server, asked)["stdout"] == f"http://example.test/page by Basic {by}"


def test_homepage_extra_arguments_and_dns_templates_reach_the_browser(server):
    if run(server, "test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell")["exit_code"]:
        pytest.skip("Debian's chromium is not installed")
    box = server.request("GET", "/sg/v1/boxes")["boxes"][0]["id"]
    def seen():  # a browser that has just begun may still be on its way there
        r = server.tool(box, "browser:evaluate", {"expression": "[document.title, navigator.userAgent, location.href].join('|')"})
        return r["outcome"] == "ok" and r["data"]["value"].startswith("Welcome|Glass/1 (of two words)|data:")
    sg.wait_for(seen, every=0.2)
    words = run(server, "tr '\\0' ' ' < /proc/$(pgrep -of remote-debugging-pipe)/cmdline")["stdout"]  # Chromium joins its own words
    assert "--dns-over-https-templates=https://127.0.0.1:4443/dns-query{?dns} https://127.0.0.1:4444/ --" in words
    assert " --lang=de " in words and " --proxy-server=http://127.0.0.1:8118 " in words


@pytest.mark.parametrize("given", ["127.0.0.1:8000/page.html", "localhost:8000"])
def test_a_homepage_needs_no_scheme(given):
    with sg.running("--pool-size", "0", "--browser-homepage", given) as s:
        box = s.create()
        site = "test -e /usr/lib/chromium && mkdir site && cd site && echo '<title>Welcome</title>' | tee index.html > page.html && (python3 -m http.server 8000 &>/dev/null &)"
        if s.tool(box, "bash:run", {"command": site})["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        s.tool(box, "bash:run", {"command": "curl -s --retry 20 --retry-all-errors --retry-delay 1 127.0.0.1:8000"})
        tab = s.tool(box, "browser:tabs", {})["data"]["tabs"][0]
        assert tab["url"].rstrip("/") == "http://" + given, tab


def test_dev_shm_of_a_box_is_as_large_as_the_containers(server):
    small = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=96m none /dev/shm && exec \"$@\"", "sh"]
    _, env = settings({}, before=small)
    assert env == {"SANDGLASS_BOX_SHM": f"{96 * 1024}k"}
    assert settings({"SANDGLASS_BOX_SHM": "32m"}, before=small)[1] == {"SANDGLASS_BOX_SHM": "32m"}


def test_a_volume_below_the_home_directory_is_there_in_the_default_box_and_in_no_other(server, project):
    inside = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /home && mkdir -p /home/gem/project /home/gem/.cache "
              "&& mount -t tmpfs none /home/gem/project && mount -t tmpfs none /home/gem/.cache && exec \"$@\"", "sh"]
    _, env = settings({}, before=inside)
    assert env["SANDGLASS_BOX_MOUNTS"] == env["SANDGLASS_MOUNT_ROOTS"] == "/home/gem/project:/home/gem/.cache"
    assert settings({"SANDGLASS_BOX_MOUNTS": ""}, before=inside)[1]["SANDGLASS_BOX_MOUNTS"] == ""
    (project / "from_host").write_text("seen")
    assert run(server, f"cat {project}/from_host; echo written > {project}/from_box")["stdout"] == "seen"
    assert (project / "from_box").read_text() == "written\n"
    assert (project / "from_box").stat().st_uid == project.stat().st_uid, "what a box writes belongs to the directory's owner"
    other = server.request("POST", "/sg/v1/boxes", {})["id"]
    assert server.tool(other, "bash:run", {"command": f"ls {project}"})["data"]["exit_code"] == 2


def test_jwt_public_key_closes_the_server_for_who_has_no_token(tmp_path):
    key = jwt.Key(tmp_path, "RS256")
    text = base64.b64encode(key.public.encode()).decode()
    words, env = settings({"JWT_PUBLIC_KEY": text}, "--listen", "0.0.0.0:8080")
    assert words == "serve --listen 0.0.0.0:8080" and env.pop("SANDGLASS_BOX_SHM")
    s = sg.Server("--pool-size", "0", env=env)
    try:
        s.start()
        assert s.request("GET", "/v1/sandbox").status == 401
        s.headers = {"Authorization": "Bearer " + key.token()}
        assert s.request("GET", "/v1/sandbox").status == 200
    finally:
        s.end()


def test_empty_variables_change_nothing_and_a_setting_by_its_own_name_wins():
    assert set(settings({name: "" for name in VARIABLES})[1]) == {"SANDGLASS_BOX_SHM"}
    inside = settings({"container": "docker"})[1]
    assert inside["SANDGLASS_LISTEN"] == "0.0.0.0:8080" and inside["SANDGLASS_AUTH"] == "open-to-everyone"
    assert inside["SANDGLASS_CGROUP_NAME"].startswith("sandglass-")
    assert "SANDGLASS_AUTH" not in settings({"container": "docker", "JWT_PUBLIC_KEY": "x"})[1], "with a key, tokens are asked for"
    assert settings({"TZ": ZONE, "SANDGLASS_BOX_TIMEZONE": "UTC"})[1]["SANDGLASS_BOX_TIMEZONE"] == "UTC"


def test_a_value_may_be_quoted_as_the_original_compose_file_does_it():
    """WORKSPACE: ${WORKSPACE:-"/home/gem"} of the documentation arrives with its quotes."""
    env = settings({"WORKSPACE": '"/home/gem"', "TZ": "'UTC'", "BROWSER_EXTRA_ARGS": '--a="b c"'})[1]
    assert (env["SANDGLASS_BOX_WORKSPACE"], env["SANDGLASS_BOX_TIMEZONE"], env["SANDGLASS_BROWSER_ARGS"]) == ("/home/gem", "UTC", '--a="b c"')


def refused(name, value):
    """The message with which a server that gets this variable ends."""
    _, env = settings({name: value})
    r = subprocess.run([sg.BINARY, "serve", "--listen", "127.0.0.1:0"], env={"PATH": "/usr/bin:/bin", name: value, **env},
                       capture_output=True, text=True, timeout=30)
    assert r.returncode, f"{name}={value} was taken"
    return r.stderr


@pytest.mark.parametrize("name, values, said", [
    ("WORKSPACE", ("relative", "~/x", "/a/../b", "/etc/passwd", "/etc/passwd/x", "/proc/x"), "an absolute path"),
    ("WORKSPACE", ("/" + "a" * 300,), "at most 255 bytes"),
    ("WAIT_PORTS", ("80,x", "0", "65536", "80,", "80,,81", "80 81", "3000-3005"), "ports from 1 to 65535"),
    ("TZ", ("Nowhere/City", "asia/singapore", "Asia", "../../etc/passwd", "/etc/passwd", ":UTC8"), "a name below /usr/share/zoneinfo"),
    ("PROXY_SERVER", ("host", "host:", ":80", "host:x", "host:0", "host:65536", "host:80/path", "http://", "https://host:443",
                      "socks5://host:1080", "@host:80", "[::1:80", "[]:80",
                      "user/x:secret@host:80", "user:secret@host", "user:se@cret"), "[http://][user:pass@]host:port"),
    ("HOMEPAGE", ("http://a b", "x" * 600), "a word without blanks"),
    ("BROWSER_EXTRA_ARGS", ("word", "--a word", "--a='b", "--a " * 300), "words that begin with '-'"),
    ("DNS_OVER_HTTPS_TEMPLATES", ("dns.example", "http://dns.example/", "https://a/ http://b/", "https://"), "URLs with https://"),
    ("JWT_PUBLIC_KEY", ("rubbish", " ", "/etc/key.pem", "-----BEGIN PUBLIC KEY-----\\nMIIB\\n-----END PUBLIC KEY-----", '{"keys":[]}'), "JW"),
])
def test_what_cannot_work_ends_the_start_with_the_name_of_the_variable(name, values, said):
    for value in values:
        message = refused(name, value)
        assert said in message and name in message, (value, message)
        assert len(message.splitlines()) == 1 and "cret" not in message, message


@pytest.mark.parametrize("given, addr, username, password", [
    ("127.0.0.1:9", "127.0.0.1:9", None, None), ("http://me:p@ss/word@127.0.0.1:9/", "127.0.0.1:9", "me", "p@ss/word"),
    ("me:p%40ss%25@[::1]:9", "[::1]:9", "me", "p@ss%"), ("me@127.0.0.1:9", "127.0.0.1:9", "me", None)])
def test_proxy_server_may_have_a_scheme_and_any_password(given, addr, username, password):
    with sg.running("--pool-size", "0", "--box-proxy", given) as s:
        assert call(s, "GET", "/v1/proxy/upstream") == {"addr": addr, "username": username, "password": password}


def test_jwt_public_key_survives_what_variables_do_to_line_breaks(tmp_path):
    key = jwt.Key(tmp_path, "RS256")
    pem = key.public.strip()
    body = "".join(pem.splitlines()[1:-1])
    for text in (pem, pem.replace("\n", "\\n"), pem.replace("\n", "\\r\\n") + "\\n", pem.replace("\n", " "), pem.replace("\n", ""), f'"{pem}"',
                 "'" + pem.replace("\n", "\\n") + "'", body, base64.b64encode(pem.replace("\n", "\\n").encode()).decode(),
                 base64.urlsafe_b64encode(pem.encode()).decode()):
        s = sg.Server("--pool-size", "0", env={"JWT_PUBLIC_KEY": text})
        try:
            s.start()
            s.headers = {"Authorization": "Bearer " + key.token()}
            assert s.request("GET", "/sg/v1/boxes").status == 200, text
        finally:
            s.end()
