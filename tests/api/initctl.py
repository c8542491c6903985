"""Starts sandglass-init without supervise, in namespaces of its own, and speaks wire/frame.h with it.

Root is needed. The box sees the host's file system; /run, /tmp and /home/gem are private tmpfs.
"""
import array
import ctypes
import functools
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HELLO, READY, KNOWN, CALL, RESULT, ACK, CANCEL = range(1, 8)
OUTCOMES = ("ok task_error invalid_request timeout oom disk_full pid_limit egress_denied killed box_lost "
            "infra_error").split()
STR, BYTES, INT, NUM, BOOL, STRS, PAIRS, JSON, ROWS = range(1, 10)
HEAD = struct.Struct("<IHHQ")


def pack(fields):
    """fields: list of (name, type, value); None is absent."""
    out = b""
    for name, kind, value in fields:
        if value is None:
            continue
        if kind == INT:
            data = struct.pack("<q", value)
        elif kind == NUM:
            data = struct.pack("<d", value)
        elif kind == BOOL:
            data = struct.pack("<B", value)
        elif kind == PAIRS:
            data = struct.pack("<I", len(value))
            for key, val in value.items():
                for part in (key.encode(), val.encode()):
                    data += struct.pack("<I", len(part)) + part
        else:
            data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        out += struct.pack("<B", len(name)) + name.encode() + struct.pack("<BI", kind, len(data)) + data
    return out


def unpack(data):
    out, at = {}, 0
    while at < len(data):
        n = data[at]
        name = data[at + 1:at + 1 + n].decode()
        kind, size = struct.unpack_from("<BI", data, at + 1 + n)
        at += 1 + n + 5
        value = data[at:at + size]
        at += size
        if kind == INT:
            value = struct.unpack("<q", value)[0]
        elif kind == NUM:
            value = struct.unpack("<d", value)[0]
        elif kind == BOOL:
            value = bool(value[0])
        elif kind == STR:
            value = value.decode("utf-8", "surrogateescape")
        elif kind == ROWS:
            rows, pos = [], 4
            for _ in range(struct.unpack_from("<I", value)[0]):
                length = struct.unpack_from("<I", value, pos)[0]
                rows.append(unpack(value[pos + 4:pos + 4 + length]))
                pos += 4 + length
            value = rows
        out[name] = value
    return out


KINDS = {"timeout": NUM, "env": PAIRS, "data": BYTES, "wait_ms": INT, "offset": INT, "stderr_offset": INT,
         "start_line": INT, "end_line": INT, "max_entries": INT, "eof": BOOL, "append": BOOL, "mkdir": BOOL,
         "recursive": BOOL, "hidden": BOOL}


def pack_params(tool, params):
    kinds = dict(KINDS)
    if tool == "bash:input":
        kinds["data"] = STR
    return pack([(k, kinds.get(k, STR), v) for k, v in params.items()])


@functools.lru_cache(None)
def boot_layout():
    """Version and size of struct boot, as the compiler sees it; what is behind orphan_ms may be zero."""
    root = pathlib.Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as d:
        text = '#include <stdio.h>\n#include "wire/boot.h"\nint main(void) { printf("%d %zu", BOOT_VERSION, sizeof(struct boot)); }'
        subprocess.run(["cc", "-x", "c", "-", f"-I{root}/src", "-D_GNU_SOURCE", "-o", f"{d}/size"], input=text, text=True, check=True)
        return tuple(map(int, subprocess.run([f"{d}/size"], stdout=subprocess.PIPE, check=True).stdout.split()))


class Gone(Exception):
    pass


class Box:
    def __init__(self, binary, sudo=True, warm=False, orphan_ms=30000, open_files=4096):
        self.dir = tempfile.mkdtemp(prefix="initctl")
        self.path = os.path.join(self.dir, "sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.path)
        listener.listen(8)
        version, size = boot_layout()
        boot = struct.pack("<I?????256s7xqq", version, sudo, warm, False, False, False, b"", open_files, orphan_ms).ljust(size, b"\0")
        boot_r, boot_w = os.pipe()
        os.write(boot_w, boot)
        os.close(boot_w)
        ready_r, ready_w = os.pipe()
        env = dict(os.environ, INITCTL_FDS=f"{boot_r},{listener.fileno()},{ready_w}", INITCTL_INIT=binary)
        begun = time.monotonic()
        self.proc = subprocess.Popen(
            ["unshare", "--pid", "--mount", "--fork", "--propagation", "private", sys.executable, __file__, "--child"],
            env=env, pass_fds=(boot_r, listener.fileno(), ready_w), stdin=subprocess.DEVNULL)
        os.close(boot_r)
        os.close(ready_w)
        listener.close()
        ready = os.read(ready_r, 1)
        self.ready_s = time.monotonic() - begun
        os.close(ready_r)
        assert ready == b"R", "init did not become ready"
        self.next_id = 1
        self.connect()

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)
        self.buffer, self.fds, self.results, self.known = b"", [], {}, {}
        self.send(HELLO, 0, pack([("version", INT, 1), ("build", STR, "test")]))
        kind, _, _, payload = self.frame()
        assert kind == HELLO, kind
        self.hello = unpack(payload)
        while True:
            kind, call, _, payload = self.frame()
            if kind == READY:
                return
            assert kind == KNOWN
            self.known[call] = unpack(payload)["finished"]

    def send(self, kind, call, payload=b""):
        self.sock.sendall(HEAD.pack(len(payload), kind, 0, call) + payload)

    def fill(self, n, timeout):
        while len(self.buffer) < n:
            self.sock.settimeout(timeout)
            data, anc, _, _ = self.sock.recvmsg(1 << 20, socket.CMSG_SPACE(64))
            for _, _, raw in anc:
                a = array.array("i")
                a.frombytes(raw)
                self.fds += list(a)
            if not data:
                raise Gone()
            self.buffer += data

    def frame(self, timeout=20):
        self.fill(HEAD.size, timeout)
        size, kind, fds, call = HEAD.unpack_from(self.buffer)
        self.fill(HEAD.size + size, timeout)
        payload = self.buffer[HEAD.size:HEAD.size + size]
        self.buffer = self.buffer[HEAD.size + size:]
        mine, self.fds = self.fds[:fds], self.fds[fds:]
        return kind, call, mine, payload

    def begin(self, tool, session="", timeout_ms=0, head=65536, tail=65536, kept=16 << 20, call=None, **params):
        if call is None:
            call = self.next_id
            self.next_id += 1
        self.send(CALL, call, pack([
            ("tool", STR, tool), ("session", STR, session), ("timeout_ms", INT, timeout_ms), ("head_bytes", INT, head),
            ("tail_bytes", INT, tail), ("kept_bytes", INT, kept), ("params", BYTES, pack_params(tool, params))]))
        return call

    def wait(self, call, timeout=20, ack=True):
        while call not in self.results:
            kind, got, fds, payload = self.frame(timeout)
            if kind == KNOWN:
                self.known[got] = unpack(payload)["finished"]
            if kind == RESULT:
                r = unpack(payload)
                r["outcome"] = OUTCOMES[r["outcome"]]
                r.update(unpack(r.pop("result", b"")))
                r["fds"] = []
                for fd in fds:
                    r["fds"].append(os.pread(fd, 1 << 26, 0))
                    os.close(fd)
                self.results[got] = r
        if ack:
            self.send(ACK, call)
        return self.results.pop(call)

    def call(self, tool, wait_s=20, **kw):
        return self.wait(self.begin(tool, **kw), timeout=wait_s)

    def run(self, command, **kw):
        return self.call("bash:run", command=command, **kw)

    def init_pid(self):
        children = open(f"/proc/{self.proc.pid}/task/{self.proc.pid}/children").read().split()
        return int(children[0])

    def close(self):
        self.sock.close()
        if self.proc.poll() is None:
            try:
                os.kill(self.init_pid(), signal.SIGKILL)
            except (OSError, IndexError):
                pass
            self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def child():
    """Pid 1 of the new namespaces, about to become init."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(src, dst, kind, data=b""):
        if libc.mount(src, dst, kind, 0, data):
            raise OSError(ctypes.get_errno(), dst.decode())

    fds = [int(x) for x in os.environ.pop("INITCTL_FDS").split(",")]
    init = os.environ.pop("INITCTL_INIT")
    saved = [os.dup(fd) for fd in fds]  # out of the way of 3, 4, 5
    high = [os.dup2(fd, 200 + i) for i, fd in enumerate(saved)]
    data = open(init, "rb").read()
    mount(b"proc", b"/proc", b"proc")
    mount(b"tmpfs", b"/run", b"tmpfs", b"mode=755")
    mount(b"tmpfs", b"/tmp", b"tmpfs", b"mode=1777,size=16m")
    mount(b"tmpfs", b"/home", b"tmpfs", b"mode=755")
    mount(b"tmpfs", b"/mnt", b"tmpfs", b"mode=755")
    os.mkdir("/home/gem")
    os.chown("/home/gem", 1000, 1000)
    os.mkdir("/home/gem/.local")
    os.mkdir("/home/gem/.local/bin")
    for name in ("/mnt/sandglass-init", "/home/gem/.local/bin/sudo"):
        with open(name, "wb") as f:
            f.write(data)
        os.chmod(name, 0o755)
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i)
    os.closerange(6, 300)
    null = os.open("/dev/null", os.O_RDWR)
    for i in range(3):
        if i != 2 or not os.environ.get("INITCTL_LOG"):
            os.dup2(null, i)
    if null > 5:
        os.close(null)
    os.chdir("/")
    os.execv("/mnt/sandglass-init", ["sandglass-init"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        child()
    box = Box(sys.argv[1])
    for line in sys.stdin:
        print(box.run(line.rstrip("\n")))
    box.close()
