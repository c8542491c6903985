"""Attempts to get out of a box, or to hurt others from inside, through the public API.

Each must be contained (it fails, or stays in the box) and reported (an ordinary recorded step, no failure of the server).
Most run twice: as the box's user and as root of the box. New attempts are welcome; one function each.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import secrets
import socket
import sys
import tempfile
import textwrap
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))

import sg  # noqa: E402

CANARY = "canary-" + secrets.token_hex(8)
WHO = pytest.mark.parametrize("who", ["gem", "root"])

# What every Python payload may use: raw system calls by number, without help of the C library.
PRELUDE = '''
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r if r >= 0 else -ctypes.get_errno()
def name(r):
    return "OK" if r >= 0 else errno.errorcode.get(-r, str(r))
def attempt(what, f):
    try:
        r = f()
        print(what, "OK" if r is None else r if isinstance(r, str) else name(r))
    except OSError as e:
        print(what, errno.errorcode.get(e.errno, e.errno))
    except Exception as e:
        print(what, type(e).__name__)
def text(s):
    return ctypes.c_char_p(s.encode())
'''


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        pathlib.Path(s.home, CANARY).write_text(CANARY)
        yield s


@pytest.fixture(scope="module")
def canaries(server):
    """Files and sockets of the host that no box may see."""
    made = [pathlib.Path(server.home, CANARY)]
    for place in ("/tmp", "/var/tmp", os.path.expanduser("~"), "/srv", "/opt"):
        with contextlib.suppress(OSError):
            p = pathlib.Path(place, CANARY)
            p.write_text(CANARY)
            made.append(p)
    yield made
    for p in made[1:]:
        p.unlink()


@pytest.fixture(scope="module")
def other(server):
    """A neighbour, with something to lose."""
    with server.box() as b:
        b.out(f"echo {CANARY} > ~/mine; echo {CANARY} > /tmp/mine; echo {CANARY} > /dev/shm/mine; (setsid sleep 9999 >/dev/null 2>&1 &)")
        yield b


@pytest.fixture
def box(server, other, canaries):
    with server.box() as b:
        yield b
        check_host(server, other, canaries, b)


def check_host(server, other, canaries, b):
    """After each attempt: server, neighbour and host are as before; the attempt is in the log."""
    assert server.get("/health")["status"] == "healthy"
    assert other.out("cat ~/mine /tmp/mine /dev/shm/mine; pgrep -c sleep") == f"{CANARY}\n" * 3 + "1\n"
    for p in canaries:
        assert p.read_text() == CANARY
    shown = server.request("GET", f"/sg/v1/boxes/{b.id}")
    if shown.status == 200 and shown["trajectory"]:
        steps = server.steps(shown["trajectory"])
        assert steps and all(s["state"] == "done" and s["outcome"] != "infra_error" for s in steps), steps[-1]


def run(box, code, who="gem", timeout=60):
    """A Python payload; its lines as {what: how it went}."""
    box.tool("file:write", {"path": "/tmp/attempt.py", "content": PRELUDE + textwrap.dedent(code)})
    r = box.run(("sudo " if who == "root" else "") + "/usr/bin/python3 /tmp/attempt.py", timeout)
    assert r["outcome"] in ("ok", "task_error"), r
    assert "Traceback" not in r["data"]["stderr"], r["data"]["stderr"]
    assert CANARY not in json.dumps(r)
    return dict(line.rsplit(" ", 1) for line in r["data"]["stdout"].splitlines() if " " in line)


def refused(results, allowed=()):
    """Every attempt failed, and there were some."""
    assert results
    through = {k: v for k, v in results.items() if v == "OK" and k not in allowed}
    assert not through, through
    return results


def sha(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


# ---- the runtime itself ----

@WHO
def test_runtime_cannot_be_overwritten_through_proc_self_exe(server, box, who):
    """CVE-2019-5736."""
    init, binary = sha(sg.BINARY + "-init"), sha(sg.BINARY)
    refused(run(box, '''
        import glob
        for p in ["/proc/1/exe"] + sorted(glob.glob("/proc/[0-9]*/exe")):
            for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
                attempt(f"{p}:{flags}", lambda: (lambda fd: os.write(fd, b"x"))(os.open(p, flags)))
            def reopen():
                fd = os.open(p, os.O_RDONLY)
                return os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), b"x")
            if p == "/proc/1/exe":
                attempt(p + ":reopen", reopen)
        ''', who), allowed=())
    assert (sha(sg.BINARY + "-init"), sha(sg.BINARY)) == (init, binary)


def test_runtime_survives_an_interpreter_that_is_the_runtime(server, box):
    """CVE-2019-5736, the second half: the program that the server starts is a script whose interpreter is /proc/self/exe."""
    init = sha(sg.BINARY + "-init")
    box.out("sudo cp /bin/bash /usr/bin/bash.real; sudo rm /usr/bin/bash; printf '#!/proc/self/exe\\n' | sudo tee /usr/bin/bash >/dev/null; "
            "sudo chmod +x /usr/bin/bash; echo done")
    job = box.tool("bash:start", {"command": "echo $0"}, status=None)
    assert job["outcome"] in ("ok", "task_error", "infra_error")
    box.tool("bash:run", {"command": "exit"}, status=None, timeout=5)
    box.tool("bash:run", {"command": "true"}, status=None, timeout=5)
    assert sha(sg.BINARY + "-init") == init
    r = box.tool("file:read", {"path": "/etc/hostname"})
    assert r["outcome"] == "ok", "init itself goes on"
    box.tool("bash:list")


@pytest.mark.parametrize("cwd", ["/proc/self/fd/%d", "/proc/1/fd/%d", "/proc/self/cwd/../../../..", "/proc/1/cwd", "/proc/1/root",
                                 "/proc/self/root/../..", "/proc/self/fd/../../1/root"])
def test_working_directory_cannot_be_a_leaked_descriptor(server, box, canaries, cwd):
    """CVE-2024-21626."""
    numbers = range(3, 24) if "%d" in cwd else [0]
    for n in numbers:
        path = cwd % n if "%d" in cwd else cwd
        for tool in ("bash:run", "bash:start"):
            r = box.tool(tool, {"command": "pwd -P; ls ../../../../..; cat ../../../../../root/* ../../../../../tmp/canary*", "cwd": path},
                         status=None, timeout=5)
            assert CANARY not in json.dumps(r), r
            if tool == "bash:start" and r["outcome"] == "ok":
                time.sleep(0.05)
                assert CANARY not in json.dumps(box.tool("bash:output", {"job_id": r["data"]["job_id"], "wait_ms": 200}))


@WHO
def test_no_process_in_a_box_holds_a_descriptor_of_the_host(server, box, who):
    r = run(box, '''
        import glob
        for p in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                target = os.readlink(p)
                st = os.stat(p)
            except OSError:
                continue
            kind = target.split(":")[0] if ":" in target else "path"
            if kind == "path" and not os.path.exists(target) and "(deleted)" not in target:
                print(p, "foreign:" + target.replace(" ", "_"))
            elif kind in ("net", "mnt", "user", "pid", "cgroup"):
                print(p, "namespace:" + kind)
        for p in glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd"):
            try:
                print(p, "leaves" if os.path.samefile(p, "/") and not os.path.exists(p + "/home/gem") else "inside")
            except OSError as e:
                print(p, "closed")
        ''', who)
    assert r and set(r.values()) <= {"inside", "closed"}, {k: v for k, v in r.items() if v not in ("inside", "closed")}


def test_environment_and_command_line_of_init_tell_nothing(box):
    text = box.run("sudo cat /proc/1/environ /proc/1/cmdline /proc/1/maps /proc/1/mountinfo | tr '\\0' '\\n'")["data"]["stdout"]
    assert box.server.home not in text and str(sg.ROOT) not in text and "SANDGLASS_" not in text


# ---- /proc and /sys ----

@WHO
@pytest.mark.parametrize("path", ["kcore", "keys", "timer_list", "sched_debug", "kallsyms", "sysrq-trigger", "kmsg", "kpagecount",
                                  "kpageflags", "vmallocinfo", "slabinfo", "scsi/scsi", "acpi", "latency_stats"])
def test_masked_path_tells_nothing(box, path, who):
    sudo = "sudo " if who == "root" else ""
    r = box.run(f"{sudo}head -c 300 /proc/{path} 2>/dev/null | tr -d '\\0' | head -c 100")
    assert r["data"]["stdout"] == "" or (path == "kallsyms" and re.fullmatch(r"(0+ .*\n?)*.*", r["data"]["stdout"])), r
    assert box.code(f"{sudo}sh -c 'echo b > /proc/{path}' 2>/dev/null && test -c /proc/{path} || exit 1") != 0 or path != "sysrq-trigger"


@WHO
def test_masks_cannot_be_taken_off(box, who):
    refused(run(box, '''
        for p in ("kcore", "keys", "sys", "sysrq-trigger", "timer_list"):
            attempt("umount " + p, lambda: call(166, text("/proc/" + p), 2))
            attempt("umount-lazy " + p, lambda: call(166, text("/proc/" + p), 10))
            attempt("unlink " + p, lambda: os.unlink("/proc/" + p))
            attempt("rename " + p, lambda: os.rename("/proc/" + p, "/proc/x"))
        attempt("second-proc", lambda: call(165, text("proc"), text("/tmp"), text("proc"), 0, 0))
        ''', who))


@WHO
def test_nothing_below_proc_sys_can_be_written(box, who):
    before = {p: sg.read(p) for p in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory",
                                      "/proc/sys/kernel/hostname", "/proc/sys/fs/binfmt_misc/status")}
    r = run(box, '''
        n = 0
        for d, _, names in os.walk("/proc/sys"):
            for x in names:
                p = os.path.join(d, x)
                try:
                    fd = os.open(p, os.O_WRONLY)
                    old = open(p, "rb").read() if os.access(p, os.R_OK) else b""
                    os.write(fd, old or b"0")
                    print(p, "OK")
                except OSError:
                    n += 1
        print("refused", n)
        ''', who)
    assert int(r.pop("refused")) > 100
    refused({**r, "none": "EROFS"})
    assert {p: sg.read(p) for p in before} == before


@WHO
def test_core_pattern_helper_cannot_be_planted(box, who):
    before = sg.read("/proc/sys/kernel/core_pattern")
    box.run(f"{'sudo ' if who == 'root' else ''}sh -c 'echo \"|/tmp/evil\" > /proc/sys/kernel/core_pattern'; "
            "printf '#!/bin/sh\\ntouch /tmp/escaped\\n' > /tmp/evil; chmod +x /tmp/evil; ulimit -c unlimited; sh -c 'kill -SEGV $$'")
    assert sg.read("/proc/sys/kernel/core_pattern") == before and not os.path.exists("/tmp/escaped")
    for f in ("modprobe", "hotplug", "poweroff_cmd", "usermodehelper/bset"):
        assert box.code(f"{'sudo ' if who == 'root' else ''}sh -c 'echo /tmp/evil > /proc/sys/kernel/{f}'") != 0


@WHO
def test_a_crash_in_a_box_starts_no_program_of_the_host(box, who):
    """core(5): a core_pattern that is a pipe starts its program, as root of the host, whatever RLIMIT_CORE is, unless it is 1."""
    limits = box.out(f"{'sudo ' if who == 'root' else ''}cat /proc/self/limits")
    assert re.search(r"^Max core file size +1 +1 +bytes", limits, re.M), limits
    assert box.code("sh -c 'kill -SEGV $$'") == 139 and box.out("ls") == ""


def test_what_the_machine_has_once_is_not_for_boxes(server, box):
    """Contexts of asynchronous I/O, and open files: counted for the whole machine, by nobody else's limit."""
    before = sg.read("/proc/sys/fs/aio-nr")
    run(box, "for n in range(100): call(206, 1000, ctypes.create_string_buffer(8))")
    assert sg.read("/proc/sys/fs/aio-nr") == before
    assert int(sg.read("/proc/sys/fs/file-max")) > 1 << 40


@WHO
def test_control_groups_cannot_be_reached(server, box, who):
    """release_agent (CVE-2022-0492), devices.allow, leaving the group."""
    refused(run(box, '''
        import glob
        for kind in ("cgroup", "cgroup2"):
            attempt("mount " + kind, lambda: call(165, text("x"), text("/tmp"), text(kind), 0, text("memory")))
        attempt("mkdir", lambda: os.mkdir("/sys/fs/cgroup/x"))
        for p in glob.glob("/sys/fs/cgroup/**", recursive=True):
            if os.path.isfile(p):
                attempt("write " + p, lambda: os.close(os.open(p, os.O_WRONLY)))
        ''', who))
    group = {x.split(":", 2)[2] for x in sg.read(f"/proc/{server.init_pid(box.id)}/cgroup").splitlines()}
    assert all(box.id not in x for x in box.run("cat /proc/self/cgroup")["data"]["stdout"].splitlines()), "its own group is the root"
    assert any(box.id in g for g in group)


def test_sys_is_empty(box):
    assert box.out("sudo find /sys -mindepth 1 | head -3") == ""


# ---- mounts and namespaces ----

@WHO
def test_no_mount_of_any_kind(box, canaries, who):
    refused(run(box, '''
        os.makedirs("/tmp/m", exist_ok=True)
        for kind in ("tmpfs", "proc", "sysfs", "overlay", "devtmpfs", "debugfs", "securityfs", "bpf", "fuse", "ext4", "nfs", "9p", "mqueue",
                     "binfmt_misc", "cgroup2", "devpts", "tracefs", "hugetlbfs"):
            attempt("mount " + kind, lambda: call(165, text("none"), text("/tmp/m"), text(kind), 0, 0))
            attempt("fsopen " + kind, lambda: call(430, text(kind), 0))
        attempt("bind", lambda: call(165, text("/"), text("/tmp/m"), 0, 4096, 0))
        attempt("rbind", lambda: call(165, text("/"), text("/tmp/m"), 0, 4096 | 16384, 0))
        attempt("remount-rw /proc/sys", lambda: call(165, 0, text("/proc/sys"), 0, 32 | 4096, 0))
        attempt("make-shared", lambda: call(165, 0, text("/"), 0, 1 << 20, 0))
        attempt("open_tree", lambda: call(428, -100, text("/"), 1 | os.O_CLOEXEC))
        attempt("move_mount", lambda: call(429, -100, text("/proc"), -100, text("/tmp/m"), 0))
        attempt("fspick", lambda: call(433, -100, text("/"), 0))
        attempt("mount_setattr", lambda: call(442, -100, text("/proc/sys"), 0, ctypes.create_string_buffer(32), 32))
        attempt("umount /", lambda: call(166, text("/"), 2))
        attempt("umount /proc/sys", lambda: call(166, text("/proc/sys"), 0))
        attempt("pivot_root", lambda: call(155, text("/tmp/m"), text("/tmp/m")))
        attempt("statmount", lambda: call(457, 0, 0, 0, 0))
        attempt("listmount", lambda: call(458, 0, 0, 0, 0))
        ''', who))


def test_chroot_and_back_stays_inside(box, canaries):
    r = run(box, f'''
        os.makedirs("/tmp/jail", exist_ok=True)
        fd = os.open("/", os.O_RDONLY)
        root = os.stat("/")
        try:
            os.chroot("/tmp/jail")
        except OSError:
            pass
        os.fchdir(fd)
        for _ in range(100):
            os.chdir("..")
        try:
            os.chroot(".")
        except OSError:
            pass
        for p in {[str(c) for c in canaries]!r}:
            attempt("read " + os.path.dirname(p), lambda: os.close(os.open(p, os.O_RDONLY)))
        print("home", "inside" if os.path.exists("/home/gem") else "outside")
        print("root", "same" if os.path.samestat(root, os.stat("/")) else "another")
        ''', "root")
    assert (r.pop("home"), r.pop("root")) == ("inside", "same")
    refused(r)


def test_nothing_of_the_host_lies_below_the_root_of_a_box(server, other):
    """Who could take mounts off, as nobody in a box can, would find what the box itself writes, then an empty directory."""
    libc = ctypes.CDLL(None, use_errno=True)
    with server.box() as b:
        ns = os.open(f"/proc/{server.init_pid(b.id)}/ns/mnt", os.O_RDONLY)
        take, give = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                layers = []
                while libc.setns(ns, 0x20000) == 0 and len(layers) < 3:
                    layers.append((sorted(os.listdir("/")), bool(os.statvfs("/").f_flag & os.ST_RDONLY)))
                    if libc.umount2(b"/", 2) != 0:
                        break
                os.write(give, json.dumps(layers).encode())
            finally:
                os._exit(0)
        os.close(give)
        os.close(ns)
        layers = json.loads(os.read(take, 65536))
        os.close(take)
        os.waitpid(pid, 0)
    assert len(layers) == 3, layers
    assert "home" in layers[0][0] and "usr" in layers[0][0]
    assert {"dev", "lower", "tmp"} < set(layers[1][0]) and "home" not in layers[1][0]
    assert layers[2] == [[], True]  # below it is only what is below the host's own root, too: the kernel's first one


@WHO
def test_no_new_namespace_of_any_kind(box, who):
    flags = {"NEWNS": 0x20000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000, "NEWUSER": 0x10000000, "NEWPID": 0x20000000,
             "NEWNET": 0x40000000, "NEWCGROUP": 0x2000000, "NEWTIME": 0x80}
    refused(run(box, f'''
        for what, flag in {flags!r}.items():
            attempt("unshare " + what, lambda: call(272, flag))
            attempt("unshare NEWUSER+" + what, lambda: call(272, flag | 0x10000000))
            def clone():
                r = call(56, flag | 17, 0, 0, 0, 0)
                if r == 0:
                    os._exit(0)
                return r
            if flag != 0x80:
                attempt("clone " + what, clone)
            def clone3():
                r = call(435, ctypes.create_string_buffer(struct.pack("<11Q", flag, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)), 88)
                if r == 0:
                    os._exit(0)
                return r
            attempt("clone3 " + what, clone3)
        ''', who))


@WHO
def test_no_entry_into_another_namespace(box, who):
    refused(run(box, '''
        import glob
        for p in glob.glob("/proc/[0-9]*/ns/*"):
            attempt("setns " + p, lambda: call(308, os.open(p, os.O_RDONLY), 0))
        pidfd = call(434, 1, 0)
        attempt("setns pidfd", lambda: call(308, pidfd, 0x20000 | 0x10000000) if pidfd >= 0 else pidfd)
        attempt("userns-of", lambda: __import__("fcntl").ioctl(os.open("/proc/self/ns/net", os.O_RDONLY), 0xb701))
        ''', who), allowed={"userns-of"})


# ---- processes ----

def test_init_cannot_be_traced_or_read_by_the_user(box):
    refused(run(box, '''
        attempt("attach", lambda: call(101, 16, 1, 0, 0))
        attempt("seize", lambda: call(101, 0x4206, 1, 0, 0))
        attempt("mem", lambda: os.close(os.open("/proc/1/mem", os.O_RDONLY)))
        attempt("mem-w", lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)))
        iov = ctypes.create_string_buffer(struct.pack("<QQ", ctypes.addressof(ctypes.create_string_buffer(8)), 8))
        attempt("process_vm_readv", lambda: call(310, 1, iov, 1, iov, 1, 0))
        attempt("process_vm_writev", lambda: call(311, 1, iov, 1, iov, 1, 0))
        attempt("pidfd_getfd", lambda: call(438, call(434, 1, 0), 3, 0))
        attempt("kcmp", lambda: call(312, 1, os.getpid(), 0, 0, 0))
        attempt("oom_score_adj of init", lambda: os.write(os.open("/proc/1/oom_score_adj", os.O_WRONLY), b"1000"))
        attempt("own oom_score_adj", lambda: os.write(os.open("/proc/self/oom_score_adj", os.O_WRONLY), b"-1000"))
        attempt("prlimit of init", lambda: call(302, 1, 7, ctypes.create_string_buffer(struct.pack("<QQ", 1, 1)), 0))
        attempt("signal to init", lambda: os.kill(1, 9))
        '''))


@pytest.mark.parametrize("sig", [9, 15, 19, 11, 6, 1, 2])
def test_init_survives_signals_of_root(box, sig):
    box.run(f"sudo kill -{sig} 1")
    assert box.out("echo alive") == "alive\n"


def test_killing_everything_ends_only_what_is_in_the_box(server, box, other):
    for sudo in ("", "sudo "):
        box.run(f"{sudo}python3 -c 'import os; os.kill(-1, 9)'", timeout=10)
        assert box.out("echo alive", timeout=10) == "alive\n"
    box.run(f"for p in {server.guard.pid} {server.role('serve')} {server.init_pid(other.id)}; do sudo kill -9 $p; done")
    assert server.guard.poll() is None and other.out("echo there") == "there\n"


def test_root_that_holds_init_still_loses_only_its_own_box(server, box, other):
    """Root of a box may trace init: then the box is lost, in bounded time, and nothing else."""
    b = sg.Box(server, server.create())
    r = run(b, '''
        r = call(101, 0x4206, 1, 0, 0)
        print("seize", name(r))
        if r >= 0:
            if os.fork() == 0:
                os.setsid()
                call(101, 0x4206, 1, 0, 0)
                os._exit(0)
        ''', "root")
    if r["seize"] == "OK":
        b.tool("file:write", {"path": "/tmp/hold.py", "content": PRELUDE + "import time\ncall(101, 0x4206, 1, 0, 0)\n"
               "call(101, 0x4207, 1, 0, 0)\ntime.sleep(600)\n"})
        b.tool("bash:start", {"command": "sudo python3 /tmp/hold.py"}, status=None, timeout=5)
        time.sleep(0.5)
        begun = time.monotonic()
        answer = server.request("POST", f"/sg/v1/boxes/{b.id}/execute",
                                {"tool": "bash:run", "params": {"command": "echo x"}, "timeout": 1}, timeout=60)
        assert time.monotonic() - begun < 45, answer
    assert other.out("echo quick") == "quick\n"
    assert server.request("DELETE", f"/sg/v1/boxes/{b.id}").status in (200, 404)
    assert server.box_pids(b.id) == []


@WHO
def test_dangerous_system_calls_are_refused(box, who):
    calls = {"keyctl": (250, 0, -3, 0), "add_key": (248, 0, 0, 0, 0, 0), "request_key": (249, 0, 0, 0, 0), "bpf": (321, 5, 0, 0),
             "perf_event_open": (298, 0, 0, -1, -1, 0), "io_uring_setup": (425, 8, 0), "io_uring_enter": (426, -1, 0, 0, 0, 0),
             "io_uring_register": (427, -1, 0, 0, 0), "userfaultfd": (323, 0), "userfaultfd-user": (323, 1), "open_by_handle_at": (304, -100, 0, 0),
             "name_to_handle_at": (303, -100, 0, 0, 0, 0), "fanotify_init": (300, 0, 0), "kexec_load": (246, 0, 0, 0, 0), "kexec_file_load": (320, -1, -1, 0, 0, 0),
             "init_module": (175, 0, 0, 0), "finit_module": (313, -1, 0, 0), "delete_module": (176, 0, 0), "reboot": (169, 0xfee1dead, 672274793, 0x1234567, 0),
             "swapon": (167, 0, 0), "swapoff": (168, 0), "acct": (163, 0), "quotactl": (179, 0, 0, 0, 0), "settimeofday": (164, 0, 0),
             "clock_settime": (227, 0, 0), "adjtimex": (159, 0), "clock_adjtime": (305, 0, 0), "iopl": (172, 3), "ioperm": (173, 0x3f8, 8, 1),
             "modify_ldt": (154, 0, 0, 0), "syslog": (103, 3, 0, 0), "sethostname": (170, 0, 0), "setdomainname": (171, 0, 0), "lookup_dcookie": (212, 0, 0, 0),
             "io_setup": (206, 1, 0), "vhangup": (153,), "uselib": (134, 0), "nfsservctl": (180, 0, 0, 0), "kcmp": (312, 1, 1, 0, 0, 0), "lsm_set_self_attr": (460, 0, 0, 0, 0)}
    r = refused(run(box, f'''
        for what, args in {calls!r}.items():
            attempt(what, lambda: call(*args))
        ''', who))
    assert set(r.values()) <= {"EPERM", "ENOSYS"}, {k: v for k, v in r.items() if v not in ("EPERM", "ENOSYS")}


@WHO
def test_handles_of_files_do_not_open_the_host(box, who):
    """Shocker."""
    refused(run(box, '''
        for inode in (2, 128, 64):
            h = ctypes.create_string_buffer(struct.pack("<IiQ", 8, 1, inode))
            for p in ("/", "/usr", "/etc/hostname", "/tmp", "/home/gem"):
                attempt(f"{p} {inode}", lambda: call(304, os.open(p, os.O_RDONLY), h, 0))
        ''', who))


OTHER_ABI = r'''
#include <stdio.h>
#include <errno.h>
#include <signal.h>
#include <setjmp.h>
#include <unistd.h>
#include <sys/syscall.h>
static sigjmp_buf back;
static void on_signal(int s) { siglongjmp(back, s); }
static long int80(long nr, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return r;
}
static void say(const char *what, long r) { printf("%s %s\n", what, r >= 0 ? "OK" : "refused"); fflush(stdout); }
int main(void) {
    signal(SIGSEGV, on_signal); signal(SIGSYS, on_signal); signal(SIGILL, on_signal);
    /* i386: getpid would be harmless, the rest not */
    long i386[] = { 20, 21 /* mount */, 310 /* unshare */, 346 /* setns */, 357 /* bpf */, 336 /* perf */, 120 /* clone */ };
    for (unsigned i = 0; i < sizeof i386 / sizeof *i386; i++) {
        char name[32];
        sprintf(name, "i386-%ld", i386[i]);
        if (sigsetjmp(back, 1) == 0) say(name, int80(i386[i], 0x10000000, 0, 0));
        else say(name, -1);
    }
    long x32[] = { 39, 165, 272, 308, 321, 56, 520, 521 };
    for (unsigned i = 0; i < sizeof x32 / sizeof *x32; i++) {
        char name[32];
        sprintf(name, "x32-%ld", x32[i]);
        if (sigsetjmp(back, 1) == 0) say(name, syscall(0x40000000 | x32[i], 0x10000000, 0, 0, 0, 0));
        else say(name, -1);
    }
}
'''


@WHO
def test_system_calls_of_other_architectures_are_refused(box, who):
    prog = box.compile(OTHER_ABI)
    r = box.run(("sudo " if who == "root" else "") + prog)
    lines = dict(x.split(" ") for x in r["data"]["stdout"].splitlines())
    # the filter may also end the program at the first such call
    assert "OK" not in lines.values(), lines
    assert len(lines) == 15 or r["data"]["exit_code"] in (159, 31 + 128, 139), r


@WHO
def test_personality_cannot_weaken_the_process(box, who):
    refused(run(box, '''
        for what, p in {"READ_IMPLIES_EXEC": 0x0400000, "MMAP_PAGE_ZERO": 0x0100000, "ADDR_LIMIT_32BIT": 0x0800000, "PER_LINUX32": 8,
                        "ADDR_COMPAT_LAYOUT": 0x0200000, "UNAME26": 0x0020000}.items():
            attempt(what, lambda: call(135, p))
        ''', who))


@WHO
def test_sockets_of_other_families_are_refused(box, who):
    families = {"PACKET": 17, "VSOCK": 40, "ALG": 38, "KEY": 15, "BLUETOOTH": 31, "CAN": 29, "RDS": 21, "TIPC": 30, "XDP": 44, "NFC": 39,
                "IPX": 4, "AX25": 3, "X25": 9, "LLC": 26, "IB": 27, "SMC": 43, "QIPCRTR": 42, "KCM": 41, "PPPOX": 24, "RXRPC": 33}
    netlinks = {"AUDIT": 9, "NETFILTER": 12, "XFRM": 6, "GENERIC": 16, "CRYPTO": 21, "CONNECTOR": 11, "SELINUX": 7, "RDMA": 20}
    refused(run(box, f'''
        for what, f in {families!r}.items():
            for kind in (1, 2, 3, 5):
                attempt(f"{{what}} {{kind}}", lambda: call(41, f, kind, 0))
        for what, p in {netlinks!r}.items():
            attempt("netlink " + what, lambda: call(41, 16, 3, p))
        ''', who))


@WHO
def test_network_of_the_box_cannot_be_changed_or_extended(box, who):
    refused(run(box, '''
        import fcntl
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        attempt("lo down", lambda: fcntl.ioctl(s, 0x8914, struct.pack("16sH14s", b"lo", 0, b"")) and None)
        attempt("address", lambda: fcntl.ioctl(s, 0x8916, struct.pack("16sH2x4s8s", b"lo", 2, bytes([10, 0, 0, 1]), b"")) and None)
        attempt("tun", lambda: os.close(os.open("/dev/net/tun", os.O_RDWR)))
        ''', who))


# ---- devices ----

@WHO
def test_no_device_can_be_made(box, who):
    refused(run(box, '''
        import stat
        for what, kind, dev in (("mem", stat.S_IFCHR, os.makedev(1, 1)), ("kmsg", stat.S_IFCHR, os.makedev(1, 11)), ("sda", stat.S_IFBLK, os.makedev(8, 0)),
                                ("vda", stat.S_IFBLK, os.makedev(254, 0)), ("loop0", stat.S_IFBLK, os.makedev(7, 0)), ("kvm", stat.S_IFCHR, os.makedev(10, 232)),
                                ("fuse", stat.S_IFCHR, os.makedev(10, 229)), ("tun", stat.S_IFCHR, os.makedev(10, 200)), ("null", stat.S_IFCHR, os.makedev(1, 3))):
            for d in ("/tmp", "/dev", "/home/gem", "/dev/shm", "/opt"):
                attempt(f"{d} {what}", lambda: os.mknod(f"{d}/x-{what}", kind | 0o666, dev))
        ''', who))


def test_only_harmless_devices_exist(box):
    found = box.out("sudo find / -xdev \\( -type b -o -type c \\) 2>/dev/null; sudo find /dev \\( -type b -o -type c \\)").split()
    assert {os.path.basename(f) for f in found} <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"} | {str(n) for n in range(10)}
    assert box.code("sudo test -e /dev/mem -o -e /dev/kmsg -o -e /dev/kvm -o -e /dev/fuse -o -e /dev/port -o -e /dev/loop-control") != 0


def test_keystrokes_cannot_be_pushed_into_a_terminal(box):
    r = run(box, '''
        import fcntl, pty, termios
        m, s = pty.openpty()
        attempt("TIOCSTI", lambda: fcntl.ioctl(s, termios.TIOCSTI, b"x") and None)
        attempt("TIOCSTI high bits", lambda: call(16, s, termios.TIOCSTI | 1 << 40, ctypes.create_string_buffer(b"x")))
        attempt("TIOCLINUX", lambda: fcntl.ioctl(s, 0x541c, b"\\3") and None)
        try:
            fd = os.open("/dev/tty", os.O_RDWR)
            attempt("TIOCSTI tty", lambda: fcntl.ioctl(fd, termios.TIOCSTI, b"x") and None)
        except OSError:
            pass
        ''')
    refused(r)


# ---- files of the host ----

@WHO
@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/root/.ssh", "/root/.bash_history",
                                  "/proc/1/root/etc/shadow", "/proc/self/root/../etc/shadow", "/etc/machine-id", "/var/lib/sandglass", "/boot",
                                  "/lost+found", "/var/lib/dpkg/status", "/var/log/syslog", "/run/systemd", "/run/dbus", "/var/run/docker.sock"])
def test_secret_of_the_host_is_not_there(box, path, who):
    if not os.path.exists(path.replace("/proc/1/root", "").replace("/proc/self/root/..", "")):
        pytest.skip("not on this host either")
    r = box.run(f"{'sudo ' if who == 'root' else ''}ls -A {path}")
    assert r["data"]["exit_code"] != 0, r


@WHO
def test_canaries_of_the_host_cannot_be_found(server, box, canaries, who):
    sudo = "sudo " if who == "root" else ""
    assert box.run(f"{sudo}find / -name '{CANARY}' 2>/dev/null", timeout=120)["data"]["stdout"] == ""
    for p in canaries:
        assert box.code(f"{sudo}cat {p}") != 0
    for tool in ("file:read", "file:list"):
        for p in canaries:
            for form in (str(p), f"/proc/1/root{p}", f"../../../..{p}", f"/home/gem/../..{p}"):
                assert CANARY not in json.dumps(box.tool(tool, {"path": form}, status=None)["data"])


@WHO
def test_programs_of_the_host_cannot_be_changed(box, who):
    marks = {p: sha(p) for p in ("/usr/bin/env", "/usr/bin/python3", "/bin/true")}
    sudo = "sudo " if who == "root" else ""
    box.run("; ".join(f"{sudo}sh -c 'echo hacked >> {p}'; {sudo}rm -f {p}; {sudo}chmod 777 {p}; {sudo}truncate -s 0 {p}" for p in marks))
    assert {p: sha(p) for p in marks} == marks
    with box.server.box() as fresh:
        assert fresh.out("/usr/bin/env true; python3 -c 'print(1)'") == "1\n"


def test_hard_link_or_rename_into_the_host_is_impossible(box):
    refused(run(box, '''
        os.makedirs("/tmp/t", exist_ok=True)
        for what in ("/proc/1/exe", "/proc/1/root", "/proc/self/exe"):
            attempt("link " + what, lambda: os.link(what, "/tmp/t/l" + str(len(what)), follow_symlinks=True))
            attempt("rename " + what, lambda: os.rename(what, "/tmp/t/r"))
        ''', "root"))


SWAPPER = r'''
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
int main(int n, char **v) {
    for (;;) syscall(SYS_renameat2, AT_FDCWD, v[1], AT_FDCWD, v[2], 2 /* RENAME_EXCHANGE */);
}
'''


@pytest.mark.parametrize("target", ["/etc", "/proc/1/root/etc", "/proc/self/root/../../etc", "/proc/1/cwd", "/root"])
def test_symlink_race_in_the_file_tools_gains_nothing(server, box, canaries, target):
    """A directory and a link to elsewhere change places as fast as they can, under file:read and file:write."""
    box.compile(SWAPPER, "/tmp/swap")
    passwd = box.out("sudo sha256sum /etc/passwd")
    box.out(f"mkdir -p w/d; ln -s {target} w/l; echo harmless > w/d/passwd; echo harmless > w/d/shadow; echo harmless > w/d/{CANARY}")
    box.tool("bash:start", {"command": "/tmp/swap w/d w/l"})
    time.sleep(0.1)
    for i in range(60):
        name = ["passwd", "shadow", CANARY][i % 3]
        r = box.tool("file:read", {"path": f"w/d/{name}"}, status=None)
        text = (r["data"] or {}).get("content", "")
        assert "$y$" not in text and "$6$" not in text and text != CANARY, r
        box.tool("file:write", {"path": f"w/d/{name}", "content": "harmless\n", "mkdir": False}, status=None)
        box.tool("file:list", {"path": "w/d"}, status=None)
    assert box.out("sudo sha256sum /etc/passwd") == passwd, "not even root's files of the box"
    assert sg.read("/etc/passwd").find("harmless") < 0


# ---- back in time ----

PLACES = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/dev/null", "/dev/pts", "/dev/console", "/dev", "/proc", "/sys", "/run/sandglass/x", "/tmp",
          "/var/tmp", "/srv", "/opt", "/mnt", "/root", "/usr/local", "/dev/shm", "/home/gem",
          "/etc/passwd", "/usr/bin/sudo"]


@pytest.mark.parametrize("target", ["", "/file", "/proc/self/cwd", "/proc/1/root"])
def test_links_that_a_box_leaves_behind_lead_no_fork_to_the_host(server, box, canaries, tmp_path, target):
    """CVE-2025-31133, CVE-2025-52565, CVE-2025-52881, CVE-2026-41579: what mounts and writes are led by is the box's own.
    Of a state, the next box is made; whatever is set up in it meets links in its place."""
    host, secret = tmp_path / "host", secrets.token_hex(16)
    host.mkdir()
    (host / "file").write_text(secret)
    led = target if target.startswith("/proc") else f"{host}{target}"
    box.run(f"sudo sh -c 'for p in {' '.join(PLACES)}; do rm -rf $p; ln -sfnT {led} $p; done'", timeout=60)
    links = box.run(f"for p in {' '.join(PLACES)}; do [ -L $p ] && echo $p; done")["data"]["stdout"].split()
    assert {"/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/var/tmp", "/usr/bin/sudo"} <= set(links), links
    made = server.request("POST", f"/sg/v1/boxes/{box.id}/snapshot", {})
    assert made.status == 201, made
    forked = server.request("POST", f"/sg/v1/boxes/{box.id}/fork", {"n": 2})
    server.request("POST", f"/sg/v1/boxes/{box.id}/restore", {"state": made["state"]})
    boxes = [box.id] + [x["id"] for x in forked.json.get("boxes", [])]
    for b in boxes:
        for tool, params in (("bash:run", {"command": f"cat {host}/* /etc/hostname /tmp/file /home/gem/file; echo x > {host}/new; sudo touch {led}/new"}),
                             ("file:read", {"path": "/home/gem/file"}), ("file:write", {"path": "/tmp/file", "content": "x"})):
            assert secret not in json.dumps(server.tool(b, tool, params, status=None, timeout=10))
    assert [p.name for p in host.iterdir()] == ["file"] and (host / "file").read_text() == secret
    for b in boxes[1:]:
        server.destroy(b)


def test_what_a_box_may_is_the_same_after_a_fork_and_a_restore(server, other):
    """A snapshot is no way to a network, to root or beyond a limit."""
    look = ("grep -c : /proc/net/dev; ulimit -n; df -B1 --output=size / | tail -1; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; "
            "grep -c . /proc/self/mountinfo; command -v sudo; ls /run/sandglass/sudo 2>&1")
    with server.box(network="none", sudo=False, pids=40, memory="128m", disk="48m", open_files=200) as b:
        before, may = b.run(look)["data"]["stdout"], {k: b.show()[k] for k in ("limits", "network", "sudo", "user_namespaces")}
        state = server.post(f"/sg/v1/boxes/{b.id}/snapshot", {}, status=201)["state"]
        copy = sg.Box(server, server.post(f"/sg/v1/boxes/{b.id}/fork", {"n": 1}, status=201)["boxes"][0]["id"])
        server.post(f"/sg/v1/boxes/{b.id}/restore", {"state": state})
        for x in (b, copy):
            assert {k: x.show()[k] for k in may} == may
            assert x.run(look)["data"]["stdout"] == before
            assert x.run("python3 -c 'b = bytearray(200 << 20)'")["outcome"] == "oom"
            assert x.run("for i in $(seq 60); do sleep 20 & done", timeout=60)["outcome"] == "pid_limit"
        server.destroy(copy.id)


# ---- sockets ----

@WHO
def test_abstract_sockets_of_the_host_cannot_be_reached(box, who):
    name = "sg-" + secrets.token_hex(8)
    with socket.socket(socket.AF_UNIX) as s, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as d:
        s.bind("\0" + name)
        s.listen(5)
        d.bind("\0" + name + "d")
        r = run(box, f'''
            attempt("stream", lambda: socket.socket(socket.AF_UNIX).connect("\\0{name}"))
            attempt("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\\0{name}d") and None)
            attempt("names", lambda: "OK" if "{name}" in open("/proc/net/unix").read() else "hidden")
            ''', who)
        refused(r)


@WHO
def test_sockets_of_the_server_cannot_be_reached(server, box, other, who):
    paths = [str(p) for p in pathlib.Path(server.home, "run").glob("**/*.sock")]
    assert len(paths) >= 3
    refused(run(box, f'''
        for p in {paths!r} + ["/proc/1/root" + p for p in {paths!r}]:
            for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
                attempt(p, lambda: socket.socket(socket.AF_UNIX, kind).connect(p))
        ''', who))
    assert box.run("sudo find / -type s 2>/dev/null")["data"]["stdout"].split() in ([], ["/run/sandglass/sudo"])


@WHO
def test_http_port_of_the_server_cannot_be_reached(server, box, who):
    r = run(box, f'''
        addresses = ["127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost", "10.0.2.2", "172.17.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1"]
        for a in addresses:
            def f():
                s = socket.socket(); s.settimeout(1); s.connect((a, {server.port}))
            attempt(a, f)
        def six():
            s = socket.socket(socket.AF_INET6); s.settimeout(1); s.connect(("::1", {server.port}))
        attempt("::1", six)
        ''', who)
    refused(r)


def test_other_boxes_cannot_be_reached_by_any_network(server, box, other):
    job = other.tool("bash:start", {"command": "python3 -m http.server 8765 --bind 0.0.0.0"})["data"]["job_id"]
    sg.wait_for(lambda: other.code("curl -s -o /dev/null 127.0.0.1:8765") == 0)
    addresses = other.out("hostname -I; cat /proc/net/fib_trie | grep -oE '([0-9]+\\.){3}[0-9]+' | sort -u").split()
    r = run(box, f'''
        for a in {addresses!r}:
            def f():
                s = socket.socket(); s.settimeout(0.5); s.connect((a, 8765))
            attempt(a, f)
        ''')
    other.tool("bash:kill", {"job_id": job})
    refused(r)


def test_shared_memory_and_queues_are_the_boxs_own(box, other):
    other.run("ipcmk -M 4096; ipcmk -Q; ipcmk -S 1")
    assert box.out("ipcs -m -q -s | grep -c 0x || true") == "0\n"
    assert other.out("ipcs -m -q -s | grep -c 0x || true") == "3\n"
    other.run("ipcrm -a")


# ---- privileges ----

def test_setuid_programs_give_nothing(box):
    box.out("sudo cp /bin/sh /opt/rootsh; sudo chmod 4755 /opt/rootsh; sudo cp /bin/sh /tmp/rootsh; sudo chmod 4755 /tmp/rootsh; "
            "sudo cp /usr/bin/python3 /opt/rootpy; sudo chmod 6755 /opt/rootpy")
    r = box.run("/opt/rootsh -p -c 'id -u'; /tmp/rootsh -p -c 'id -u'; /opt/rootpy -c 'import os; print(os.geteuid(), os.getegid())'")
    assert r["data"]["stdout"].split() == ["1000", "1000", "1000", "1000"], r
    assert box.run("su -c id -s /bin/sh root </dev/null")["data"]["exit_code"] != 0


def test_file_capabilities_give_nothing(box):
    r = box.run("sudo cp /usr/bin/python3 /opt/cappy; sudo setcap cap_sys_admin,cap_dac_override+ep /opt/cappy 2>/dev/null; "
                "/opt/cappy -c 'print(open(\"/proc/self/status\").read())'")
    caps = {x.split()[0]: int(x.split()[1], 16) for x in r["data"]["stdout"].splitlines() if x.startswith("Cap")}
    assert caps.get("CapEff:", 0) == 0 and caps.get("CapPrm:", 0) == 0


def test_root_of_the_box_is_nobody_outside(server, box):
    box.tool("bash:start", {"command": "sudo sleep 777"})
    pid = sg.wait_for(lambda: [p for p in server.box_pids(box.id) if sg.read(f"/proc/{p}/cmdline").startswith("sleep\x00777")])[0]
    uids = [int(x) for x in [y for y in sg.read(f"/proc/{pid}/status").splitlines() if y.startswith("Uid:")][0].split()[1:]]
    assert min(uids) >= 65536
    caps = int([x for x in sg.read(f"/proc/{pid}/status").splitlines() if x.startswith("CapEff")][0].split()[1], 16)
    for bit, what in {21: "sys_admin", 16: "sys_module", 17: "sys_rawio", 19: "sys_ptrace?", 25: "sys_time", 27: "mknod?", 38: "perfmon", 39: "bpf",
                      34: "syslog", 24: "sys_resource", 22: "sys_boot", 12: "net_admin"}.items():
        if not what.endswith("?"):
            assert not caps & 1 << bit, what


def test_box_without_sudo_has_no_way_to_root(server, other, canaries):
    with server.box(sudo=False) as b:
        assert b.run("sudo id -u")["data"]["stdout"] != "0\n"
        r = run(b, '''
            attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect("/run/sandglass/sudo"))
            attempt("seqpacket", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect("/run/sandglass/sudo"))
            attempt("setuid", lambda: os.setuid(0))
            attempt("setresgid", lambda: os.setresgid(0, 0, 0))
            attempt("setgroups", lambda: os.setgroups([0]))
            attempt("write passwd", lambda: open("/etc/passwd", "a").close())
            attempt("write usr", lambda: open("/usr/bin/x", "w").close())
            ''')
        refused(r)
        check_host(server, other, canaries, b)


def test_limits_cannot_be_raised_from_inside(box):
    refused(run(box, '''
        import resource
        attempt("open files", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)))
        attempt("priority", lambda: os.nice(-5) and None)
        attempt("realtime", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
        ''', "root"))


# ---- floods ----

def flood(box, code, seconds=4):
    """A payload in the background that takes all it can get."""
    box.tool("file:write", {"path": "/tmp/flood.py", "content": PRELUDE + textwrap.dedent(code)})
    return box.tool("bash:start", {"command": f"timeout {seconds} /usr/bin/python3 /tmp/flood.py"})["data"]["job_id"]


PROBE = '''
import time
t = time.monotonic()
r = call(294, 0)
print("inotify", name(r))
if r >= 0:
    print("watch", name(call(254, r, text("/tmp"), 2)))
files = []
attempt("files", lambda: [files.append(os.open("/dev/null", os.O_RDONLY)) for _ in range(500)] and None)
attempt("pipes", lambda: [files.extend(os.pipe()) for _ in range(50)] and None)
attempt("fork", lambda: os.waitpid(os.fork() or os._exit(0), 0) and None)
attempt("memory", lambda: bytearray(64 << 20) and None)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
attempt("socket", lambda: socket.create_connection(listener.getsockname()) and None)
attempt("terminal", lambda: os.openpty() and None)
attempt("timer", lambda: call(222, 1, 0, ctypes.create_string_buffer(8)))
attempt("write", lambda: open("/tmp/probe", "wb").write(b"x" * 1000000) and None)
print("quick", "OK" if time.monotonic() - t < 40 else "slow")
'''

FLOODS = {
    "processes": "while True:\n  try: os.fork()\n  except OSError: pass",
    "inotify": "fds = []\nwhile True:\n  r = call(294, 0)\n  if r >= 0: fds.append(r); call(254, r, text('/tmp'), 0xfff)\n",
    "descriptors": "fds = []\nwhile True:\n  try: fds.append(os.open('/dev/null', 0))\n  except OSError:\n    if os.fork() == 0: fds = []; [os.close(i) for i in range(3, 4000)] if 0 else None\n",
    "pipes": "import fcntl\nfds = []\nwhile True:\n  try:\n    r, w = os.pipe(); fds += [r, w]; fcntl.fcntl(w, 1031, 1 << 20)\n    os.set_blocking(w, False); os.write(w, b'x' * (1 << 20))\n  except OSError: pass",
    "memory": "b = []\nwhile True: b.append(bytearray(1 << 20))",
    "sockets": "s = []\nwhile True:\n  try: a, b = socket.socketpair(); a.setblocking(False); s += [a, b]; a.send(b'x' * 200000)\n  except OSError: pass",
    "files": "i = 0\nwhile True:\n  i += 1\n  try: open(f'/tmp/f{i}', 'w').write('x' * 100)\n  except OSError: pass",
    "directories": "while True:\n  try: os.mkdir('d'); os.chdir('d')\n  except OSError: pass",
    "locks": "import fcntl\nf = open('/tmp/l', 'w')\nn = 0\nwhile True:\n  n += 2\n  try: fcntl.lockf(f, fcntl.LOCK_EX, 1, n)\n  except OSError: pass",
    "cpu": "import threading\nfor _ in range(30): threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()",
    "terminals": "while True:\n  try: os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY)\n  except OSError: pass",
    "timers": "while True: call(222, 1, 0, ctypes.create_string_buffer(8))",
    "signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {40})\nwhile True: call(129, os.getpid(), 40, ctypes.create_string_buffer("
               "struct.pack('<iiiiii', 40, 0, -1, 0, 0, 0) + bytes(104)))",
    "shared memory": "i = 0\nwhile True:\n  i += 1\n  try: open(f'/dev/shm/f{i}', 'wb').write(b'x' * 1000000)\n  except OSError: pass",
}


@pytest.mark.parametrize("what", sorted(FLOODS))
def test_flood_in_one_box_does_not_hurt_another(server, box, other, what):
    with server.box(memory="128m", disk="64m", pids=100, cpu=1) as bad:
        flood(bad, FLOODS[what], 4)
        time.sleep(1.5)
        r = run(box, PROBE)
        assert set(r.values()) == {"OK"}, r
        begun = time.monotonic()
        made = server.create()
        assert sg.Box(server, made).out("echo new") == "new\n" and time.monotonic() - begun < sg.PATIENCE
        server.destroy(made)


# ---- reads that the server does by itself ----

SWAP = '''
import itertools
os.makedirs("/home/gem/swap/d/tmp", exist_ok=True)
open("/home/gem/swap/d/tmp/NAME", "w").write("of the box")
os.chdir("/home/gem/swap")
for name, target in (("l1", "/"), ("l2", "../" * 12), ("l3", "/proc/self/root"), ("l4", "/proc/1/root"), ("l5", "/proc/1/cwd")):
    os.path.lexists(name) or os.symlink(target, name)
for name in itertools.cycle(("l1", "l2", "l3", "l4", "l5")):  # 316: renameat2, 2: exchange
    call(316, -100, text("d"), -100, text(name), 2)
    call(316, -100, text("d"), -100, text(name), 2)
'''


def test_read_while_a_directory_turns_into_a_link_shows_nothing_of_the_host(server, box):
    """file:read of what the box wrote is done outside of it, on a path that the box changes meanwhile."""
    box.tool("file:write", {"path": "/tmp/swap.py", "content": PRELUDE + SWAP.replace("NAME", CANARY)})
    box.run("(setsid /usr/bin/python3 /tmp/swap.py >/dev/null 2>&1 &); sleep 0.5")
    seen = set()
    for _ in range(3000):
        r = box.tool("file:read", {"path": f"swap/d/tmp/{CANARY}"}, status=None)
        seen.add(r["data"]["content"] if r["outcome"] == "ok" else r["outcome"])
    assert "of the box" in seen and seen <= {"of the box", "task_error"}, seen


@pytest.mark.parametrize("path", [f"/../../../../../../../tmp/{CANARY}", f"/tmp/../../../../../../tmp/{CANARY}", f"link/tmp/{CANARY}",
                                  f"/proc/1/root/tmp/{CANARY}", f"/proc/self/root/tmp/{CANARY}", f"/tmp/link/{CANARY}", "/../lower", "/../dev/null",
                                  "/../root.work/work", f"/root/../../lower/tmp/{CANARY}", "/.", "/tmp/.", "//", "/usr/../../dev"])
def test_read_of_a_path_that_leads_out_shows_nothing_of_the_host(server, box, canaries, path):
    box.run("ln -sfn / link; ln -sfn / /tmp/link; ln -sfn /../../../tmp /tmp/link; echo x > f")
    for _ in range(3):  # the first by init, the others perhaps by serve
        box.tool("file:read", {"path": "f"})
        r = box.tool("file:read", {"path": path}, status=None)
        assert r["outcome"] in ("task_error", "invalid_request"), r


# ---- lies ----

def test_box_that_lies_about_its_results_fools_only_itself(server, box, other):
    """The pipes of a shell belong to the box: it can write nonsense into them."""
    box.run("true")
    box.run("(for i in $(seq 300); do for f in /run/sandglass/*/*; do [ -p $f ] && printf '0 /etc\\n999999999999999999999 \\xff\\xff\\n' 1<>$f; done; done) "
            ">/dev/null 2>&1 & sleep 0.5", timeout=10)
    for _ in range(10):
        box.tool("bash:run", {"command": "echo x"}, status=None, timeout=3)
    assert server.get("/health")["status"] == "healthy" and other.out("echo sane") == "sane\n"


def test_names_from_a_box_reach_a_reader_disarmed(server, box):
    """Control sequences in names and output: kept exactly in the log, harmless in a terminal."""
    evil = "\x1b]0;owned\x07\x1b[2J"
    box.tool("file:write", {"path": "/tmp/" + evil.replace("/", ""), "content": evil})
    r = box.run("ls /tmp; printf '\\033]0;owned\\007\\033[2J'")
    import subprocess
    out = subprocess.run([sg.BINARY, "log", r["trajectory_id"], "--url", server.url], capture_output=True, timeout=20).stdout
    assert b"\x1b" not in out and b"\x07" not in out and b"owned" in out
