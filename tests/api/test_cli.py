"""The command line: against a scripted server, so that every answer and every failure can be had on purpose.

The scripted server speaks /sg/v1. At the end, the same against a real server.
"""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

import sg

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SG_BINARY", str(ROOT / "build" / "sandglass"))

BOX = {
    "id": "b-1", "state": "running", "image": "host", "created": "2026-01-02T03:04:05.000000Z", "warm": True,
    "labels": {"team": "red"}, "limits": {"memory_bytes": 1 << 30}, "network": "none", "ttl_ms": 0,
    "unenforced": [], "sessions": [], "trajectory": "t-1",
}
USE = {"cpu_us": 1000, "memory_peak_bytes": 5 << 20, "oom_kills": 0, "pid_limit_hits": 0}


def step(n, **more):
    row = {"step": n, "time": "2026-01-02T03:04:05.000006Z", "tool": "bash:run", "outcome": "ok", "box": "b-1", "total_us": 4200,
           "params": {"command": f"echo {n}"}, "observation": {"stdout": f"{n}\n", "stderr": "", "exit_code": 0}}
    row.update(more)
    return row


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.answer = None  # (status, object) for POST .../execute
        self.steps = [step(n) for n in range(1, 4)]
        self.streams = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        if self.server.seen and len(self.server.seen) % 2:  # every second answer comes in chunks
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(body), 7):
                part = body[at:at + 7]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def missing(self):
        self.reply(404, {"error": {"code": "not_found", "message": "there is no such thing"}})

    def events(self):
        after = int(self.headers.get("Last-Event-ID", "0"))
        self.server.streams += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        rows = [step(4), step(5)] if self.server.streams == 1 else [step(5), step(6)]
        text = ": hello\n\n"
        for row in rows:
            if row["step"] >= after:  # one step twice on purpose
                text += f"id: {row['step']}\nevent: step\ndata: {json.dumps(row)}\n\n"
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
        self.close_connection = True  # hangs up in the middle: the client must come again

    def do_GET(self):
        self.server.seen.append(("GET", self.path, None))
        path, _, query = self.path.partition("?")
        if path == "/sg/v1/boxes":
            self.reply(200, {"boxes": [dict(BOX, cpu_us=1000, memory_peak_bytes=5 << 20, pids_peak=7, disk_used_bytes=3 << 20)], "count": 1})
        elif path == "/sg/v1/boxes/b-1":
            self.reply(200, dict(BOX, use=USE))
        elif path == "/sg/v1/tools":
            self.reply(200, {"tools": [{
                "name": "bash:run", "title": "Run a command", "description": "Runs it.", "backend": "bash",
                "kind": "session", "flags": [],
                "parameters": {"type": "object", "required": ["command"],
                               "properties": {"command": {"type": "string", "description": "what to run"}}},
                "result": {"type": "object", "properties": {}}}]})
        elif path == "/sg/v1/trajectories":
            known = "worker=agent-7" in query
            self.reply(200, {"trajectories": [{"id": "t-1"}] if known else [], "count": int(known)})
        elif path == "/sg/v1/trajectories/t-1":
            self.reply(200, {"id": "t-1", "worker": "agent-7", "steps": 3})
        elif path == "/sg/v1/trajectories/t-1/steps":
            asked = dict(p.split("=") for p in query.split("&"))
            rows = [s for s in self.server.steps if s["step"] > int(asked["after"])]
            page = rows[:min(int(asked["limit"]), 100)]  # an answer may be shorter than asked, and go on
            self.reply(200, {"steps": page, "next": page[-1]["step"] if len(page) < len(rows) else None})
        elif path == "/sg/v1/trajectories/t-1/events":
            self.events()
        else:
            self.missing()

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")

    def do_POST(self):
        body = self.body()
        self.server.seen.append(("POST", self.path, body))
        if self.path == "/sg/v1/boxes":
            if body.get("network") == "full":
                self.reply(503, {"error": {"code": "busy", "message": "no network today"}})
            else:
                self.reply(201, BOX)
        elif self.path == "/sg/v1/boxes/b-1/execute":
            self.reply(*self.server.answer)
        elif self.path in ("/sg/v1/boxes/b-1/pause", "/sg/v1/boxes/b-1/resume"):
            self.reply(200, BOX)
        else:
            self.missing()

    def do_DELETE(self):
        self.server.seen.append(("DELETE", self.path, None))
        if self.path == "/sg/v1/boxes/b-1":
            self.reply(200, {"id": "b-1", "state": "destroyed"})
        else:
            self.missing()


@pytest.fixture
def server():
    s = Server()
    threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield s
    s.shutdown()
    s.server_close()


def run(*words, server=None, input=None, env=None, timeout=30):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
    environment.update(env or {})
    if server:
        environment["SANDGLASS_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
    return subprocess.run([BINARY, *words], input=input, env=environment, capture_output=True, text=True, timeout=timeout)


def call_answer(outcome="ok", message="success", **data):
    return 200, {"outcome": outcome, "retry_safe": False, "trainable": True, "message": message, "data": data,
                 "trajectory_id": "t-1", "step": 1, "box_id": "b-1", "times": {}}


# ---- usage ----

COMMANDS = "serve doctor tools create exec list show destroy pause resume log top version".split()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command):
    r = run(command, "--help")
    assert r.returncode == 0
    assert "examples:" in r.stdout and f"sandglass {command}" in r.stdout
    assert run("help", command).stdout == r.stdout


def test_help_lists_every_command_and_no_hidden_one():
    r = run("--help")
    assert r.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in r.stdout
    assert "\n  role" not in r.stdout


@pytest.mark.parametrize("words", [[], ["frobnicate"], ["list", "--colour"], ["exec"], ["exec", "b-1"], ["show"],
                                   ["create", "--memory", "much"], ["create", "--label", "x"],
                                   ["create", "--mount", "data:/x"], ["exec", "--timeout", "5", "b-1", "true"],
                                   ["top", "--interval", "1ms"], ["log"], ["destroy"], ["list", "--label"],
                                   ["log", "-f", "--tool", "x", "t-1"], ["serve", "word"], ["version", "word"]])
def test_wrong_usage_is_2_and_says_why(words):
    r = run(*words)
    assert r.returncode == 2
    assert r.stderr and not r.stdout


def test_version():
    assert run("version").stdout.startswith("sandglass ")
    assert set(json.loads(run("version", "--json").stdout)) == {"version", "revision"}


def test_whoever_tells_the_revision_is_compiled_anew_for_another():
    tell = {str(p.relative_to(ROOT)) for p in ROOT.glob("src/*/*.c") if "SANDGLASS_REV" in p.read_text()}
    plan = subprocess.run(["make", "-n", "REV=another", "all"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert tell and {line.split()[-1] for line in plan.splitlines() if "SANDGLASS_REV='\"another\"'" in line} == tell


# ---- configuration ----

def test_serve_refuses_unknown_and_bad_settings(tmp_path):
    conf = tmp_path / "sg.conf"
    conf.write_text("# mine\nbox.memroy = 1g\n")
    r = run("serve", "--config", str(conf))
    assert r.returncode == 2
    assert f"{conf}:2" in r.stderr and "box.memory" in r.stderr
    r = run("serve", "--box-memory", "1q")
    assert r.returncode == 2 and "--box-memory" in r.stderr and "'1q'" in r.stderr
    r = run("serve", env={"SANDGLASS_POOL_SIZE": "many"})
    assert r.returncode == 2 and "SANDGLASS_POOL_SIZE" in r.stderr
    r = run("serve", env={"SANDGLASS_POOLSIZE": "1"})
    assert r.returncode == 2 and "did you mean 'SANDGLASS_POOL_SIZE'" in r.stderr


def test_sample_file_is_valid_when_every_line_is_taken(tmp_path):
    sample = run("serve", "--dump-config").stdout
    conf = tmp_path / "sg.conf"
    conf.write_text("".join(line[1:] + "\n" if line.startswith("#") and not line.startswith("# ") else line + "\n"
                            for line in sample.splitlines()))
    assert "\nbox.memory = 1g\n" in conf.read_text()
    # the only thing wrong must be the flag that follows
    r = run("serve", "--config", str(conf), "--pool-size", "x")
    assert r.returncode == 2 and "flag --pool-size" in r.stderr


def test_configuration_page_is_current():
    assert run("config", "--markdown").stdout == (ROOT / "docs" / "configuration.md").read_text()


# ---- the server is not there, or not ours ----

def test_no_server_is_3():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    r = run("list", "--url", f"http://127.0.0.1:{port}")
    assert r.returncode == 3 and "no server at" in r.stderr
    assert run("exec", "--url", f"127.0.0.1:{port}", "b-1", "true").returncode == 125
    assert run("list", "--url", "https://127.0.0.1").returncode == 3


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:x", "unix:sock"])
def test_an_address_that_is_none_is_2(url):
    for r in run("list", "--url", url), run("list", env={"SANDGLASS_URL": url}), run("exec", "--url", url, "b-1", "true"):
        assert r.returncode == 2 and url in r.stderr and "usage:" in r.stderr


def test_not_found_is_5_and_refused_is_4(server):
    r = run("show", "b-9", server=server)
    assert (r.returncode, r.stderr) == (5, "sandglass: there is no such thing\n")
    r = run("show", "--json", "b-9", server=server)
    assert r.returncode == 5 and json.loads(r.stdout)["error"]["code"] == "not_found"
    r = run("create", "--network", "full", server=server)
    assert r.returncode == 4 and "no network today" in r.stderr
    assert run("log", "nobody", server=server).returncode == 5


# ---- boxes ----

def test_create_sends_what_was_asked(server):
    r = run("create", "--memory", "512m", "--cpu", "0.5", "--ttl", "90s", "--pids", "64", "--no-sudo", "--label", "a=b=c",
            "--mount", "/srv/data:/data", "--mount", "/srv/out:/out:rw", server=server)
    assert (r.returncode, r.stdout) == (0, "b-1\n")
    assert server.seen[-1][2] == {
        "memory": 512 << 20, "cpu": 0.5, "ttl": 90, "pids": 64, "sudo": False, "labels": {"a": "b=c"},
        "mounts": [{"from": "/srv/data", "to": "/data", "writable": False},
                   {"from": "/srv/out", "to": "/out", "writable": True}]}
    assert json.loads(run("create", "--json", server=server).stdout)["id"] == "b-1"
    assert server.seen[-1][2] == {}


def test_list_show_top(server):
    r = run("list", server=server)
    assert r.stdout.splitlines()[0].split() == ["ID", "STATE", "IMAGE", "AGE", "TTL", "LABELS"]
    assert "team=red" in r.stdout.splitlines()[1]
    assert run("list", "--ids", server=server).stdout == "b-1\n"
    run("list", "--label", "team=red", server=server)
    assert server.seen[-1][1] == "/sg/v1/boxes?label=team%3Dred"
    assert "1.0 GiB" in run("show", "b-1", server=server).stdout
    r = run("top", server=server)
    assert r.returncode == 0 and "5.0 MiB / 1.0 GiB" in r.stdout and "\033" not in r.stdout
    assert "7 / " in r.stdout and "3.0 MiB / " in r.stdout, r.stdout
    x = json.loads(run("top", "--json", server=server).stdout)["boxes"][0]
    assert x["memory_peak_bytes"] == 5 << 20 and x["pids_peak"] == 7 and x["disk_used_bytes"] == 3 << 20


def test_destroy_goes_on_after_a_failure(server):
    r = run("destroy", "b-9", "b-1", server=server)
    assert r.returncode == 5
    assert [s[1] for s in server.seen] == ["/sg/v1/boxes/b-9", "/sg/v1/boxes/b-1"]
    assert run("pause", "b-1", server=server).returncode == 0
    assert run("resume", "b-1", server=server).returncode == 0


def test_ids_are_escaped(server):
    run("show", "../x?y", server=server)
    assert server.seen[-1][1] == "/sg/v1/boxes/..%2Fx%3Fy"


def test_tools(server):
    assert "bash:run" in run("tools", server=server).stdout
    assert "(required)" in run("tools", "bash:run", server=server).stdout
    assert run("tools", "no:tool", server=server).returncode == 5


# ---- exec ----

def test_exec_passes_streams_and_exit_code(server):
    server.answer = call_answer("task_error", "exit 7", stdout="out\n", stderr="err\n", exit_code=7)
    r = run("exec", "b-1", "echo out; echo err >&2; exit 7", server=server)
    assert (r.returncode, r.stdout, r.stderr) == (7, "out\n", "err\n")
    assert server.seen[-1][2] == {"tool": "bash:run", "params": {"command": "echo out; echo err >&2; exit 7"}}


@pytest.mark.parametrize("words, command", [
    (["--", "printf", "%s", "a b"], "printf %s 'a b'"),
    (["--", "echo", "it's", "$HOME", ""], "echo 'it'\\''s' '$HOME' ''"),
    (["ls", "-l"], "ls -l"),
    (["ls -l | wc"], "ls -l | wc"),
    (["--", "ls -l"], "'ls -l'"),
])
def test_exec_quotes_arguments_but_not_shell_text(server, words, command):
    server.answer = call_answer(stdout="", stderr="", exit_code=0)
    assert run("exec", "b-1", *words, server=server).returncode == 0
    assert server.seen[-1][2]["params"]["command"] == command


def test_exec_options(server):
    server.answer = call_answer(stdout="", stderr="", exit_code=0)
    r = run("exec", "b-1", "--timeout", "1500ms", "-C", "/tmp", "-e", "A=1", "--key", "k1", "-i", "cat", server=server,
            input="typed\n")
    assert r.returncode == 0
    assert server.seen[-1][2] == {"tool": "bash:run", "timeout": 1.5, "idempotency_key": "k1",
                                  "params": {"command": "cat", "cwd": "/tmp", "env": {"A": "1"}, "stdin": "typed\n"}}


def test_exec_other_tool(server):
    server.answer = call_answer(content="hello")
    r = run("exec", "b-1", "--tool", "file:read", "--params", '{"path":"/x"}', server=server)
    assert (r.returncode, json.loads(r.stdout)) == (0, {"content": "hello"})
    assert server.seen[-1][2] == {"tool": "file:read", "params": {"path": "/x"}}


@pytest.mark.parametrize("outcome, code", [("ok", 0), ("task_error", 1), ("timeout", 124), ("oom", 137), ("killed", 137),
                                           ("disk_full", 1), ("box_lost", 125), ("infra_error", 125),
                                           ("invalid_request", 125), ("something_new", 125)])
def test_exec_outcomes(server, outcome, code):
    server.answer = call_answer(outcome, "why")
    r = run("exec", "b-1", "true", server=server)
    assert r.returncode == code
    assert (outcome == "ok") == (r.stderr == "")


def test_exec_says_that_a_command_has_not_ended_but_waits(server):
    server.answer = call_answer(stdout="", stderr="name? ", status="waiting_for_input", prompt="name? ")
    server.answer[1]["tool"] = "bash:run"
    r = run("exec", "b-1", "read -p 'name? ' x", server=server)
    assert r.returncode == 125 and r.stderr.startswith("name? ")
    assert "waits for input" in r.stderr and "bash:input" in r.stderr and "bash:interrupt" in r.stderr


@pytest.mark.parametrize("option", [("--cwd", "/tmp"), ("--env", "A=1"), ("--stdin",)])
def test_exec_ignores_no_option_beside_params(server, option):
    r = run("exec", "b-1", "--tool", "bash:run", "--params", '{"command": "true"}', *option, server=server, input="x")
    assert r.returncode == 2 and option[0] in r.stderr


def test_help_of_exec_has_its_own_exit_codes():
    text = run("exec", "--help").stdout
    assert "124" in text and "125" in text and "3 no server" not in text


def test_exec_refused_is_125(server):
    assert run("exec", "b-9", "true", server=server).returncode == 125


# ---- log ----

@pytest.mark.parametrize("name", ["t-1", "b-1", "agent-7"])
def test_log_by_trajectory_box_and_worker(server, name):
    r = run("log", name, server=server, env={"TZ": "UTC"})
    assert r.returncode == 0
    assert r.stdout.startswith("#1 03:04:05 bash:run  ok  4.2 ms   b-1\n  $ echo 1\n    1\n#2 ")


def test_log_shortens_and_disarms(server):
    server.steps = [step(1, outcome="task_error", message="exit 3",
                         observation={"stdout": "".join(f"line {i}\n" for i in range(100)), "stderr": "\x1b[2Jboo\x07\n",
                               "exit_code": 3})]
    r = run("log", "t-1", server=server)
    assert "line 7\n    ... 88 lines ...\n    line 96\n" in r.stdout
    assert "\x1b" not in r.stdout and "\x07" not in r.stdout and "^[[2Jboo^G" in r.stdout
    assert "    exit 3\n" in r.stdout
    assert "line 50" in run("log", "--full", "t-1", server=server).stdout


def test_log_pages(server):
    server.steps = [step(n) for n in range(1, 451)]
    r = run("log", "--json", "t-1", server=server)
    assert [json.loads(line)["step"] for line in r.stdout.splitlines()] == list(range(1, 451))


def test_log_follow_resumes_without_repeating(server):
    environment = dict(os.environ, SANDGLASS_URL=f"http://127.0.0.1:{server.server_address[1]}")
    p = subprocess.Popen([BINARY, "log", "--follow", "--json", "t-1"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        got = [json.loads(p.stdout.readline())["step"] for _ in range(6)]
    finally:
        p.kill()
        p.wait()
    assert got == [1, 2, 3, 4, 5, 6]


# ---- serve ----

def test_serve_says_as_json_where_it_listens():
    home = tempfile.mkdtemp(prefix="sg-")
    os.chmod(home, 0o755)
    p = subprocess.Popen([BINARY, "serve", "--json", "--listen", "127.0.0.1:0", "--home", home, "--pool-size", "0"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        said = json.loads(p.stdout.readline())
        assert said["pid"] == p.pid and said["home"] == home
        answer = sg.wait_for(lambda: run("list", "--json", "--url", said["url"]).returncode == 0, 60)
        assert answer and not said["url"].endswith(":0")
    finally:
        p.terminate()
        p.wait(60)
        shutil.rmtree(home)


# ---- doctor ----

def test_doctor_tries_everything_and_names_the_fix():
    r = run("doctor", "--json", timeout=120)
    answer = json.loads(r.stdout)
    assert r.returncode == (0 if answer["boxes"] else 1)
    names = {c["name"] for c in answer["checks"]}
    assert {"bash", "python3", "node", "git", "rg", "python3: numpy"} <= names
    assert not {"qemu", "kvm"} & names  # nothing here has a use for them
    for c in answer["checks"]:
        if not c["ok"]:
            assert c["switches_off"]


# ---- against a real server ----

@pytest.fixture(scope="module")
def real():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    s = sg.Server().start()
    yield s
    s.end()


def real_run(real, *words, **more):
    return run(*words, env={"SANDGLASS_URL": real.url}, **more)


def test_life_of_a_box(real):
    box = real_run(real, "create", "--memory", "256m", "--label", "who=cli").stdout.strip()
    assert box.startswith("b-")
    assert real_run(real, "list", "--ids", "--label", "who=cli").stdout.split() == [box]
    assert real_run(real, "exec", box, "mkdir w; cd w; n=3").returncode == 0
    assert real_run(real, "exec", box, 'seq $n; basename "$PWD"').stdout == "1\n2\n3\nw\n"
    r = real_run(real, "exec", box, "echo no >&2; (exit 9)")
    assert (r.returncode, r.stdout, r.stderr) == (9, "", "no\n")
    r = real_run(real, "exec", box, "--timeout", "300ms", "sleep 20")
    assert r.returncode == 124 and "timed out" in r.stderr
    assert real_run(real, "exec", box, "-i", "cat", input="typed").stdout == "typed"
    assert json.loads(real_run(real, "show", "--json", box).stdout)["limits"]["memory_bytes"] == 256 << 20
    assert real_run(real, "pause", box).returncode == 0
    assert "paused" in real_run(real, "list").stdout
    assert real_run(real, "resume", box).returncode == 0

    text = real_run(real, "log", box).stdout
    assert "  $ seq $n" in text and "    exit 9\n" in text and "timed out" in text
    rows = [json.loads(line) for line in real_run(real, "log", "--json", box).stdout.splitlines()]
    assert [r["outcome"] for r in rows] == ["ok", "ok", "task_error", "timeout", "ok"]
    assert real_run(real, "destroy", box).returncode == 0
    assert real_run(real, "show", box).returncode == 5
    assert real_run(real, "exec", box, "true").returncode == 125
    assert real_run(real, "log", box).stdout == text  # what was recorded stays


def exec_bytes(real, box, *words, **more):
    return subprocess.run([BINARY, "exec", "--url", real.url, box, *words], capture_output=True, timeout=60, **more)


def test_exec_hands_on_what_the_command_wrote(real):
    """Byte by byte, as ssh does: also what is longer than an answer, and what is no text."""
    with real.box() as box:
        assert exec_bytes(real, box.id, r"printf '\xff\x00x\n'").stdout == b"\xff\x00x\n"
        r = exec_bytes(real, box.id, "head -c 1000000 /dev/urandom > u; cat u; tac u >&2; exit 3")
        assert r.returncode == 3 and len(r.stdout) == 1000000
        assert hashlib.sha256(r.stdout).hexdigest() == box.out("sha256sum < u").split()[0]
        assert hashlib.sha256(r.stderr).hexdigest() == box.out("tac u | sha256sum").split()[0]
        r = exec_bytes(real, box.id, "yes | head -c 20000000")
        assert r.returncode == 0 and len(r.stdout) < 200000 and b"stdout had 20000000 bytes" in r.stderr and b"output.kept" in r.stderr


def test_exec_sends_all_or_nothing(real):
    with real.box() as box:
        assert exec_bytes(real, box.id, "-i", "wc -c", input=b"x" * 5000000).stdout == b"5000000\n"
        for data, why in (b"a\xffb", b"not UTF-8"), (b"x" * (33 << 20), b"LIMIT_FILE_IO"), (b"\0" * (12 << 20), b"LIMIT_HTTP_BODY"):
            r = exec_bytes(real, box.id, "-i", "touch ran", input=data)
            assert r.returncode == 125 and why in r.stderr, r
        long = ["x" * 100000] * 12  # more than LIMIT_COMMAND: half of it must not run
        r = exec_bytes(real, box.id, "--", "touch", "ran", *long)
        assert r.returncode == 125 and b"1048576" in r.stderr, r
        assert box.out("ls") == ""


def test_what_cannot_be_printed_is_no_success(real):
    with real.box() as box:
        for words, code in (["list"], 1), (["tools", "--json"], 1), (["version"], 1), (["show", box.id], 1), (["exec", box.id, "seq 3"], 125), \
                           (["exec", box.id, "seq 3; exit 4"], 4):
            with open("/dev/full", "wb") as full:
                r = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                                   env={**os.environ, "SANDGLASS_URL": real.url})
            assert r.returncode == code and "No space left" in r.stderr, (words, r)


@pytest.mark.parametrize("words", [["show", ""], ["destroy", "b-1", ""], ["log", ""], ["pause", ""], ["exec", "", "true"], ["export", ""]])
def test_an_empty_name_is_wrong_usage(server, words):
    r = run(*words, server=server)
    assert r.returncode == 2 and "a name is empty" in r.stderr and server.seen == []


def test_follow_sees_steps_as_they_come(real):
    box = real_run(real, "create").stdout.strip()
    real_run(real, "exec", box, "echo 1")
    p = subprocess.Popen([BINARY, "log", "-f", "--json", "--url", real.url, box], stdout=subprocess.PIPE, text=True)
    try:
        assert json.loads(p.stdout.readline())["step"] == 1
        for n in (2, 3):
            real_run(real, "exec", box, f"echo {n}")
            row = json.loads(p.stdout.readline())
            assert (row["step"], row["observation"]["stdout"]) == (n, f"{n}\n")
    finally:
        p.kill()
        p.wait()
    real_run(real, "destroy", box)


def test_follow_ends_when_nobody_reads(real):
    box = real_run(real, "create").stdout.strip()
    real_run(real, "exec", box, "echo 1")
    p = subprocess.Popen([BINARY, "log", "-f", "--json", "--url", real.url, box], stdout=subprocess.PIPE, text=True)
    try:
        assert json.loads(p.stdout.readline())["step"] == 1
        time.sleep(0.3) # it waits for events
        p.stdout.close()
        assert p.wait(timeout=5) == -signal.SIGPIPE
    finally:
        p.kill()
        p.wait()
    real_run(real, "destroy", box)


def test_run_script_prints_a_line_that_works():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    s = sg.Server()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
    with open(s.log_path, "wb") as log:
        s.guard = subprocess.Popen([str(ROOT / "tools" / "run.sh"), "--listen", f"127.0.0.1:{s.port}", "--home", s.home,
                                    "--cgroup-name", s.name], stdout=log, stderr=log, env=environment,
                                   start_new_session=True)
    try:
        s.wait_ready()
        lines = [x for x in open(s.log_path).read().splitlines() if x.lstrip().startswith("curl ")]
        assert len(lines) == 1 and s.url in lines[0]
        answer = json.loads(subprocess.run(["bash", "-c", lines[0]], capture_output=True, text=True, timeout=30).stdout)
        assert answer["code"] == 0 and answer["data"]["stdout"].startswith("hello from ")
        assert s.stop(signal.SIGINT) == 0
    finally:
        s.end()
