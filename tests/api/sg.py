"""A real server for tests: started on a free loopback port with its own home and its own control group, asked over
HTTP, killed and restarted on purpose, and looked at from outside for what it leaves behind.

Only processes that this module started are ever signalled, by their pid.
"""

import atexit
import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SG_BINARY", str(ROOT / "build" / "sandglass"))
SANITIZED = os.path.exists(BINARY) and b"__asan_init" in pathlib.Path(BINARY).read_bytes()  # needs more memory and time
ROLES = ("serve", "supervise", "recorder")
GONE = (ConnectionError, http.client.HTTPException, socket.timeout, OSError)


def die_with_parent():
    """A test run that is killed leaves no server behind. (The kernel means the parent's thread, so: the main one.)"""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


PATIENCE = 60  # a busy machine may need long for what is short; a wait that is not in vain costs nothing


def wait_for(what, seconds=PATIENCE, every=0.02):
    """The first true value of what(), which is asked again and again."""
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {getattr(what, '__name__', what)}: {value!r}")
        time.sleep(every)


def open_place(name):
    """A directory that unprivileged processes can reach, too; pytest's own are shut again whenever another run begins."""
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"sg-{name}-", dir="/tmp"))
    place.chmod(0o755)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read(path, default=""):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return default


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __getitem__(self, key):
        return self.json[key]

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


def copy_images(source, target):
    """Files of an image are never changed, so the copies share them."""
    subprocess.run(["cp", "-al", source, target], check=True)


class Server:
    images = None  # a copy of the first server's

    def __init__(self, *flags, env=None, keep=False):
        self.home = tempfile.mkdtemp(prefix="sg-", dir="/tmp")
        os.chmod(self.home, 0o755)
        self.name = "sgt-" + uuid.uuid4().hex[:8]
        self.port = free_port()
        self.flags, self.env = list(flags), dict(env or {})
        self.headers = {}  # of every request: credentials
        self.guard = None
        self.log_path = self.home + ".log"
        self.keep = keep
        if Server.images:  # made once per run: most of the time of a first start
            copy_images(Server.images, os.path.join(self.home, "images"))

    # ---- life ----

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self, *more, wait=True):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("SANDGLASS_") and k not in ("JWT_PUBLIC_KEY", "BEARER_TOKEN", "SANDBOX_API_KEY")}
        env.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # what a role holds when it ends is no leak
        env.update(self.env)
        with open(self.log_path, "ab") as log:
            self.guard = subprocess.Popen(
                [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", "--home", self.home, "--cgroup-name", self.name,
                 "--test-backends", *self.flags, *more],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True,
                preexec_fn=die_with_parent if threading.current_thread() is threading.main_thread() else None)
        if wait:
            self.wait_ready()
            self.keep_images()
        return self

    def keep_images(self):
        made = os.path.join(self.home, "images")
        if Server.images or not os.path.isdir(made):
            return
        top = tempfile.mkdtemp(prefix="sg-images-", dir="/tmp")
        atexit.register(shutil.rmtree, top, ignore_errors=True)
        copy_images(made, os.path.join(top, "images"))
        Server.images = os.path.join(top, "images")

    def is_ready(self):
        if self.guard.poll() is not None:
            raise AssertionError(f"the server ended with {self.guard.returncode}:\n{self.log_tail()}")
        try:
            return self.request("GET", "/ready", timeout=2).status == 200
        except GONE:
            return False

    def wait_ready(self, seconds=20):
        try:
            wait_for(self.is_ready, seconds)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log_tail()}") from None

    def stop(self, sig=signal.SIGTERM, seconds=20):
        if self.guard and self.guard.poll() is None:
            self.guard.send_signal(sig)
            try:
                self.guard.wait(seconds)
            except subprocess.TimeoutExpired:
                self.guard.kill()
                self.guard.wait()
                raise AssertionError(f"the server did not stop within {seconds} s:\n{self.log_tail()}")
        return self.guard.returncode if self.guard else None

    def restart(self, *more):
        self.stop()
        return self.start(*more)

    def end(self):
        """Ends the server and every box that it still has."""
        try:
            if self.guard and self.guard.poll() is None:
                with contextlib.suppress(*GONE, AssertionError, ValueError):
                    for box in self.get("/sg/v1/boxes")["boxes"]:
                        self.request("DELETE", f"/sg/v1/boxes/{box['id']}")
                with contextlib.suppress(AssertionError):
                    self.stop()
        finally:
            for pid in self.box_pids():  # they live in this server's own control group: nobody else's
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(AssertionError):
                wait_for(lambda: not self.box_pids(), 5)
            for d in self.cgroup_dirs():
                for sub in sorted(pathlib.Path(d).glob("**/"), reverse=True):
                    with contextlib.suppress(OSError):
                        os.rmdir(sub)
            complaints = [x for x in read(self.log_path).splitlines() if "Sanitizer" in x or "runtime error:" in x]
            if complaints:
                self.keep = True
            if not self.keep:
                shutil.rmtree(self.home, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(self.log_path)
            assert not complaints, f"{self.log_path}: {complaints[:3]}"

    def log_tail(self, lines=60):
        return "\n".join(read(self.log_path).splitlines()[-lines:])

    # ---- from outside ----

    def pids(self):
        """Role name -> pid, of those that live now."""
        found = {}
        if not self.guard or self.guard.poll() is not None:
            return found
        found["guard"] = self.guard.pid
        for pid in read(f"/proc/{self.guard.pid}/task/{self.guard.pid}/children").split():
            words = read(f"/proc/{pid}/cmdline").split("\0")
            if len(words) > 2 and words[1] == "role" and words[2] in ROLES:
                found[words[2]] = int(pid)
        return found

    def role(self, name):
        return wait_for(lambda: self.pids().get(name), 10)

    def kill_role(self, name, wait=True):
        """kill -9 of one role; waits until it is dead (a busy machine takes its time), or until guard has started another."""
        pid = self.role(name)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: re.search(r"^State:\s+[^ZX]", read(f"/proc/{pid}/status"), re.M) is None, 10)
        if wait:
            wait_for(lambda: self.pids().get(name, pid) != pid, 10)
        return pid

    def cgroup_dirs(self):
        """This server's directory in each hierarchy."""
        found = []
        for line in read("/proc/self/mountinfo").splitlines():
            left, _, right = line.partition(" - ")
            if right.split()[0] in ("cgroup", "cgroup2"):
                path = os.path.join(left.split()[4], self.name)
                if os.path.isdir(path):
                    found.append(path)
        return found

    def box_cgroups(self):
        found = []
        for d in self.cgroup_dirs():
            with contextlib.suppress(OSError):
                found += [x.path for x in os.scandir(d) if x.is_dir()]
        return sorted(found)

    def box_pids(self, box=None):
        """All processes in this server's boxes, as the host numbers them."""
        pids = set()
        for d in self.box_cgroups():
            if box is None or os.path.basename(d) == box:
                with contextlib.suppress(OSError):
                    for f in pathlib.Path(d).glob("**/cgroup.procs"):
                        pids.update(int(p) for p in read(f).split())
        return sorted(p for p in pids if os.path.exists(f"/proc/{p}") and " Z " not in read(f"/proc/{p}/stat"))

    def init_pid(self, box):
        """Pid 1 of a box, as the host numbers it."""
        for pid in self.box_pids(box):
            ns = [x.split()[1:] for x in read(f"/proc/{pid}/status").splitlines() if x.startswith("NSpid:")]
            if ns and len(ns[0]) > 1 and ns[0][-1] == "1":
                return pid
        raise AssertionError(f"no init of {box}; processes: {self.box_pids(box)}")

    def inventory(self):
        """What a server holds of the machine. Equal before and after means that nothing leaked."""
        roles = self.pids()
        children = [int(p) for p in read(f"/proc/{self.guard.pid}/task/{self.guard.pid}/children").split()]
        ours = {*roles.values(), *children, *self.box_pids()}
        inv = {
            "processes in boxes": len(self.box_pids()),
            "children of guard": len(children),
            "mounts of the host": len(read("/proc/self/mountinfo").splitlines()),
            "cgroups": len(self.box_cgroups()),
        }
        for p in pathlib.Path(self.home, "run").glob("**/*"):  # names of boxes count only by their number
            name = f"run: {'*' + p.suffix if p.parent.name == 'box' else p.name}"
            inv[name] = inv.get(name, 0) + 1
        for kind in ("net", "mnt", "user", "pid"):
            inv[f"namespaces: {kind}"] = len(namespaces(kind, ours, roles.values()))
        for name, pid in roles.items():
            with contextlib.suppress(OSError):
                inv[f"descriptors of {name}"] = len(os.listdir(f"/proc/{pid}/fd"))
            inv[f"mounts of {name}"] = len(read(f"/proc/{pid}/mountinfo").splitlines())
        return inv

    # ---- HTTP ----

    def request(self, method, path, body=None, headers=None, raw=None, timeout=60):
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if isinstance(data, str):
            data = data.encode()
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            all_headers = {"Connection": "close", **self.headers}
            if data is not None:
                all_headers["Content-Type"] = "application/json"
            all_headers.update(headers or {})
            c.request(method, path, body=data, headers=all_headers)
            r = c.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            c.close()

    def get(self, path, status=200, **more):
        r = self.request("GET", path, **more)
        assert r.status == status, r
        return r.json

    def post(self, path, body=None, status=200, **more):
        r = self.request("POST", path, body, **more)
        assert r.status == status, r
        return r.json

    def post_in_order(self, path, bodies):
        """All sent by one thread before any answer is read: they arrive in this order."""
        asked = []
        for body in bodies:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            c.request("POST", path, json.dumps(body).encode(), {**self.headers, "Content-Type": "application/json"})
            asked.append(c)
            time.sleep(0.02)
        for c in asked:
            r = c.getresponse()
            assert r.status == 200, r.read()
            c.close()

    def delete(self, path, status=200, **more):
        r = self.request("DELETE", path, **more)
        assert r.status == status, r
        return r.json

    def insist(self, method, path, body=None, key=None, seconds=60):
        """As a careful client does: the same request with the same key until somebody answers it for good."""
        end = time.monotonic() + seconds
        headers = {"Idempotency-Key": key} if key else None
        while True:
            try:
                r = self.request(method, path, body, headers=headers, timeout=max(1, end - time.monotonic()))
                if r.status not in (429, 502, 503):
                    return r
                why = r
            except GONE as e:
                why = e
            if time.monotonic() > end:
                raise AssertionError(f"{method} {path}: no answer within {seconds} s: {why!r}\n{self.log_tail()}")
            time.sleep(0.02)

    # ---- boxes ----

    def create(self, **spec):
        r = self.request("POST", "/sg/v1/boxes", spec)
        assert r.status == 201, r
        return r["id"]

    def destroy(self, box):
        return self.delete(f"/sg/v1/boxes/{box}")

    @contextlib.contextmanager
    def box(self, **spec):
        box = self.create(**spec)
        try:
            yield Box(self, box)
        finally:
            with contextlib.suppress(*GONE):
                self.request("DELETE", f"/sg/v1/boxes/{box}")

    def tool(self, box, tool, params=None, status=200, timeout=None, key=None, **more):
        body = {"tool": tool, "params": params or {}}
        if timeout is not None:
            body["timeout"] = timeout
        if key is not None:
            body["idempotency_key"] = key
        body.update(more)
        r = self.request("POST", f"/sg/v1/boxes/{box}/execute", body, timeout=(timeout or 60) + 60)
        assert status is None or r.status == status, r
        return r.json

    # ---- AgentFlow ----

    def execute(self, worker, action, params=None, status=200, headers=None, raw=None, http_timeout=120, **more):
        body = {"worker_id": worker, "action": action, "params": params if params is not None else {}, **more}
        r = self.request("POST", "/api/v1/execute", body, headers=headers, raw=raw, timeout=http_timeout)
        assert status is None or r.status == status, r
        return r.json

    def session(self, worker, resource="bash", status=200, **config):
        return self.post("/api/v1/session/create",
                         {"worker_id": worker, "resource_type": resource, "session_config": config}, status)["data"]

    def disconnect(self, worker):
        return self.post("/api/v1/worker/disconnect", {"worker_id": worker})["data"]

    def steps(self, trajectory, **query):
        """All steps, page by page."""
        rows, after = [], query.pop("after", 0)
        more = "".join(f"&{k}={v}" for k, v in query.items())
        while True:
            page = self.get(f"/sg/v1/trajectories/{trajectory}/steps?after={after}{more}")
            rows += page["steps"]
            if page["next"] is None:
                return rows
            after = page["next"]


class Box:
    """One box through the own API."""

    def __init__(self, server, box):
        self.server, self.id = server, box

    def tool(self, tool, params=None, **more):
        return self.server.tool(self.id, tool, params, **more)

    def run(self, command, timeout=None, **params):
        return self.tool("bash:run", {"command": command, **params}, timeout=timeout)

    def out(self, command, timeout=None, **params):
        """Standard output of a command that must succeed."""
        r = self.run(command, timeout, **params)
        assert r["outcome"] == "ok" and r["data"]["exit_code"] == 0, r
        return r["data"]["stdout"]

    def code(self, command, timeout=None):
        return self.run(command, timeout)["data"]["exit_code"]

    def python(self, text, timeout=None):
        self.tool("file:write", {"path": "/tmp/.t.py", "content": text})
        return self.run("/usr/bin/python3 /tmp/.t.py", timeout)

    def compile(self, text, name="/tmp/t", flags=""):
        """Compiles C in the box with the box's own gcc."""
        self.tool("file:write", {"path": name + ".c", "content": text})
        self.out(f"gcc -O1 -w -pthread -o {name} {name}.c {flags}", timeout=60)
        return name

    def show(self):
        return self.server.get(f"/sg/v1/boxes/{self.id}")


def namespaces(kind, pids, roles):
    """Namespaces that these processes live in, or that a role of ours holds by a descriptor."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    for pid in roles:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    link = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if link.startswith(kind + ":["):
                        found.add(link)
    return found


def differences(before, after, slack=None):
    """What is not as before; slack: numbers that may be lower, or higher by so much."""
    slack = slack or {}
    pairs = {k: (before.get(k, 0), after.get(k, 0)) for k in sorted(before.keys() | after.keys())}
    return {k: (a, b) for k, (a, b) in pairs.items() if (b > a + slack[k] if k in slack else a != b)}


def at_rest(server, seconds=60):
    """The inventory once it has stayed the same for a second: seats and blank boxes of a pool come by themselves."""
    end = time.monotonic() + seconds
    last, since = server.inventory(), time.monotonic()
    while time.monotonic() - since < 1 and time.monotonic() < end:
        time.sleep(0.05)
        now = server.inventory()
        if now != last:
            last, since = now, time.monotonic()
    return last


def settle(server, before, seconds=10, slack=None):
    """Waits until the inventory is as before; the differences that stay are the leak."""
    end = time.monotonic() + seconds
    while True:
        left = differences(before, server.inventory(), slack)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


@contextlib.contextmanager
def running(*flags, env=None, **more):
    s = Server(*flags, env=env, **more)
    try:
        yield s.start()
    finally:
        s.end()


Event = collections.namedtuple("Event", "id name data raw")


class Events:
    """One connection to a stream of server-sent events."""

    def __init__(self, server, path, last=None, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=timeout)
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        if last is not None:
            head += f"Last-Event-ID: {last}\r\n"
        self.socket.sendall((head + "\r\n").encode())
        self.response = http.client.HTTPResponse(self.socket, method="GET")
        self.response.begin()
        self.status = self.response.status
        self.type = self.response.headers.get("Content-Type", "")

    def next(self, seconds=20):
        """The next event; comments are skipped."""
        fields, lines = {}, []
        end = time.monotonic() + seconds
        while True:
            if time.monotonic() > end:
                raise AssertionError(f"no event within {seconds} s")
            line = self.response.readline()
            if not line:
                raise EOFError("the stream ended")
            text = line.rstrip(b"\r\n").decode()
            if text == "":
                if lines:
                    raw = "\n".join(lines)
                    return Event(fields.get("id"), fields.get("event"), json.loads(raw), raw)
                fields = {}
            elif text.startswith("data:"):
                lines.append(text[5:].removeprefix(" "))
            elif not text.startswith(":"):
                name, _, value = text.partition(":")
                fields[name] = value.removeprefix(" ")

    def take(self, n):
        return [self.next() for _ in range(n)]

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()


def unique(prefix="w"):
    return f"{prefix}-{uuid.uuid4().hex[:10]}"
