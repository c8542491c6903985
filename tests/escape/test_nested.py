"""A box whose programs may make user, pid and network namespaces (box.user_namespaces): who has made one has every right in it,
and must get no further than without. Each attempt is made from such a namespace, by the box's user and by root of the box.
"""

import os
import pathlib
import textwrap

import pytest
import test_escape
from test_escape import PRELUDE, WHO, canaries, check_host, other, refused  # noqa: F401 (fixtures)

import sg

# Becomes root of a user namespace of its own, in new pid and network namespaces.
NESTED = '''
def put(path, text):
    with open(path, "w") as f:
        f.write(text)
uid, gid = os.getuid(), os.getgid()
USER, PID, NET = 0x10000000, 0x20000000, 0x40000000
assert call(272, USER | PID | NET) == 0
if uid:  # root of the box may map nobody, for want of SETFCAP; all rights are there without
    put("/proc/self/setgroups", "deny")
    put("/proc/self/uid_map", f"0 {uid} 1")
    put("/proc/self/gid_map", f"0 {gid} 1")
    assert os.getuid() == 0
caps = [x.split()[1] for x in open("/proc/self/status") if x.startswith("CapEff")][0]
assert int(caps, 16) >> 21 & 1, caps
pid = os.fork()
if pid:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
assert os.getpid() == 1
'''


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1", "--box-user-namespaces", "ask") as s:
        pathlib.Path(s.home, test_escape.CANARY).write_text(test_escape.CANARY)
        yield s


@pytest.fixture(scope="module")
def shared(server):
    with server.box(user_namespaces=True) as b:
        yield b


@pytest.fixture
def box(server, shared, other, canaries):  # noqa: F811
    yield shared
    check_host(server, other, canaries, shared)


def run(box, code, who="gem"):
    return test_escape.run(box, NESTED + textwrap.dedent(code), who)


@WHO
def test_nothing_can_be_mounted_or_uncovered(box, who):
    refused(run(box, '''
        os.makedirs("/tmp/m/u", exist_ok=True); os.makedirs("/tmp/m/w", exist_ok=True)
        for kind in ("tmpfs", "proc", "sysfs", "overlay", "ramfs", "devpts", "mqueue", "cgroup", "cgroup2", "bpf", "fuse", "binfmt_misc"):
            for at in ("/tmp/m", "/proc", "/proc/sys", "/sys"):
                opts = text("lowerdir=/etc,upperdir=/tmp/m/u,workdir=/tmp/m/w") if kind == "overlay" else 0
                attempt(f"mount {kind} {at}", lambda: call(165, text("none"), text(at), text(kind), 0, opts))
            attempt("fsopen " + kind, lambda: call(430, text(kind), 0))
        attempt("bind", lambda: call(165, text("/proc"), text("/tmp/m"), 0, 4096 | 16384, 0))
        attempt("remount", lambda: call(165, 0, text("/proc/sys"), 0, 32 | 4096, 0))
        attempt("open_tree", lambda: call(428, -100, text("/proc"), 1 | os.O_CLOEXEC))
        attempt("move_mount", lambda: call(429, -100, text("/proc/sys"), -100, text("/tmp/m"), 0))
        attempt("mount_setattr", lambda: call(442, -100, text("/proc/sys"), 0, ctypes.create_string_buffer(32), 32))
        attempt("pivot_root", lambda: call(155, text("/tmp/m"), text("/tmp/m")))
        for p in ("kcore", "keys", "sys", "sysrq-trigger", "timer_list", "kallsyms"):
            attempt("umount " + p, lambda: call(166, text("/proc/" + p), 2))
        for p in ("kcore", "keys", "timer_list", "sysrq-trigger"):
            attempt("read " + p, lambda: "OK" if os.read(os.open("/proc/" + p, os.O_RDONLY), 100) else "empty")
        attempt("sys", lambda: "OK" if os.listdir("/sys") else "empty")
        ''', who))


@WHO
def test_no_other_kind_of_namespace_and_no_entry_into_one(box, who):
    r = run(box, '''
        for kind, flag in (("mount", 0x20000), ("uts", 0x4000000), ("ipc", 0x8000000), ("cgroup", 0x2000000), ("time", 0x80)):
            attempt("unshare " + kind, lambda: call(272, flag))
            attempt("unshare-with-user " + kind, lambda: call(272, USER | flag))
            if kind != "time":
                attempt("clone " + kind, lambda: call(56, flag | 17, 0, 0, 0, 0))
        args = struct.pack("<8Q", USER | 0x20000, 0, 0, 0, 17, 0, 0, 0)
        attempt("clone3", lambda: call(435, ctypes.c_char_p(args), 64))
        for kind in ("user", "pid", "net", "mnt", "ipc", "uts", "cgroup"):
            for who in ("1", "self"):
                try:
                    fd = os.open(f"/proc/{who}/ns/{kind}", os.O_RDONLY)
                except OSError as e:
                    print("open", who, kind, errno.errorcode[e.errno])
                    continue
                attempt(f"setns {who} {kind}", lambda: call(308, fd, 0))
        fd = call(434, os.getpid(), 0)
        attempt("setns pidfd", lambda: call(308, fd, USER))
        ''', who)
    assert refused(r)["clone3"] == "ENOSYS"


@WHO
def test_rights_over_the_kernel_are_not_among_those(box, who):
    before = {p: sg.read(p) for p in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")}
    refused(run(box, '''
        buf = ctypes.create_string_buffer(512)
        for what, nr, args in (("bpf", 321, (0, buf, 72)), ("perf", 298, (buf, 0, -1, -1, 0)), ("keyctl", 250, (0, -3, 1)),
                               ("add_key", 248, (text("user"), text("x"), text("y"), 1, -3)), ("io_uring", 425, (4, buf)),
                               ("userfaultfd", 323, (0,)), ("fanotify", 300, (0, 0)), ("handle", 304, (-100, buf, 0)),
                               ("syslog", 103, (3, buf, 10)), ("sethostname", 170, (text("x"), 1)), ("quotactl", 179, (0, 0, 0, 0)),
                               ("settimeofday", 164, (buf, 0)), ("init_module", 175, (buf, 4, text(""))), ("reboot", 169, (0, 0, 0, 0)),
                               ("swapon", 167, (text("/x"), 0)), ("acct", 163, (text("/tmp/x"),))):
            attempt(what, lambda: call(nr, *args))
        import stat
        for what, mode, dev in (("mem", stat.S_IFCHR, os.makedev(1, 1)), ("disk", stat.S_IFBLK, os.makedev(8, 0)), ("tun", stat.S_IFCHR, os.makedev(10, 200))):
            attempt("mknod " + what, lambda: os.mknod("/tmp/node-" + what, mode | 0o666, dev))
        n = 0
        for d, _, names in os.walk("/proc/sys"):
            for x in names:
                try:
                    os.write(os.open(os.path.join(d, x), os.O_WRONLY), b"0")
                    print(os.path.join(d, x), "OK")
                except OSError:
                    n += 1
        print("sysctls", n)
        import glob
        attempt("release_agent", lambda: put("/sys/fs/cgroup/release_agent", "/tmp/evil"))
        attempt("oom", lambda: put("/proc/1/oom_score_adj", "-1000"))
        ''', who))
    assert {p: sg.read(p) for p in before} == before


@WHO
def test_a_network_of_ones_own_leads_nowhere(server, box, who):
    """Raw sockets are possible there, and reach nobody; what configures networks is closed."""
    box.tool("bash:start", {"command": "exec python3 -m http.server 8765 --bind 127.0.0.1"})
    sg.wait_for(lambda: box.code("curl -sf 127.0.0.1:8765/ >/dev/null") == 0, 60)
    port = int(server.url.rsplit(":", 1)[1])
    r = run(box, f'''
        def reach(address):
            s = socket.socket()
            s.settimeout(3)
            s.connect(address)
        attempt("box's own server", lambda: reach(("127.0.0.1", 8765)))
        attempt("host", lambda: reach(("127.0.0.1", {port})))
        attempt("outside", lambda: reach(("100.64.0.1", 80)))
        attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) and None)
        attempt("nftables", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) and None)
        attempt("xfrm", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6) and None)
        attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3) and None)
        attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) and None)
        for what, level, option in (("iptables", 0, 64), ("counters", 0, 65), ("arptables", 0, 96), ("ebtables", 0, 128), ("multicast", 0, 200),
                                    ("ip6tables", 41, 64), ("multicast6", 41, 200)):
            s = socket.socket(socket.AF_INET6 if level else socket.AF_INET, socket.SOCK_RAW, 58 if level else 2)
            attempt(what, lambda: s.setsockopt(level, option, bytes(96)))
        links = socket.socket()
        for what, nr in (("bridge", 0x89a0), ("vlan", 0x8983), ("bond", 0x8990), ("tunnel", 0x89f1)):
            attempt(what, lambda: call(16, links.fileno(), nr, ctypes.create_string_buffer(b"x0", 64)))
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        attempt("ping box", lambda: raw.sendto(bytes(64), ("127.0.0.1", 0)))
        print("interfaces", ",".join(n for _, n in [(0, x.split(":")[0].strip()) for x in open("/proc/self/net/dev").read().splitlines()[2:]]))
        ''', who)
    assert r.pop("interfaces").split(",")[0] == "lo"
    refused(r)
    assert {r[x] for x in ("iptables", "bridge", "vlan", "bond", "tunnel")} == {"EPERM"} and r["netlink"] == "EPROTONOSUPPORT", r


# Asks the kernel over rtnetlink; 0, or the errno of its answer.
ASK = PRELUDE + '''
import errno, signal
def ask(s, kind, body, flags=1 | 4):
    s.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
    data = s.recv(65536)
    return -struct.unpack("=i", data[16:20])[0] if struct.unpack("=H", data[4:6])[0] == 2 else 0
def make():
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
LINK = struct.pack("=BxHiII", 0, 0, 1, 0, 1)  # lo, down
QDISC = struct.pack("=BxxxiIII", 0, 1, 0x10000, 0xffffffff, 0) + struct.pack("=HH8s", 12, 1, b"pfifo\\0")
def tries(s, who):
    print(who, "look", ask(s, 18, struct.pack("=BxHiII", 0, 0, 1, 0, 0), 1))
    print(who, "down", errno.errorcode.get(ask(s, 16, LINK), "OK"))
    print(who, "traffic", errno.errorcode.get(ask(s, 36, QDISC, 1 | 4 | 0x400), "OK"))
'''


@WHO
def test_interfaces_of_the_box_can_be_looked_at_and_not_changed(box, who):
    """Also with a socket that somebody got before he became root of a namespace; in a network of one's own there is none."""
    r = test_escape.run(box, ASK + '''
print("names", ",".join(n for _, n in socket.if_nameindex()))
s = make()
print("cloexec", not os.get_inheritable(s.fileno()))
tries(s, "plain")
assert call(272, 0x10000000 | 0x40000000) == 0
tries(s, "kept")
attempt("own", lambda: make() and None)
''', who)
    assert r == {"names": "lo", "cloexec": "True", "plain look": "0", "plain down": "EPERM", "plain traffic": "EPERM", "kept look": "0",
                 "kept down": "EPERM", "kept traffic": "EPERM", "own": "EPROTONOSUPPORT"}


def test_who_asks_for_such_sockets_without_end_or_dies_meanwhile_keeps_nobody(box):
    box.tool("file:write", {"path": "/tmp/flood.py", "content": ASK + '''
import resource
pids = []
for i in range(40):
    pid = os.fork()
    if pid == 0:
        while True:
            make().close()
    pids.append(pid)
for i, pid in enumerate(pids):
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    make().close()
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
kept = []
attempt("too many", lambda: [kept.append(make()) for _ in range(20)] and "OK")
for s in kept:
    s.close()
make().close()
print("fine")
'''})
    assert box.out("python3 /tmp/flood.py") == "too many EMFILE\nfine\n"


def test_the_users_root_is_still_only_the_user(box):
    """Ids that are not one's own cannot be mapped; files and processes of root of the box stay closed."""
    box.out("sudo sh -c 'echo secret > /root-file; chmod 600 /root-file; (setsid sleep 9998 >/dev/null 2>&1 &)'")
    box.tool("file:write", {"path": "/tmp/attempt.py", "content": PRELUDE + '''
for what, map in (("root", "0 0 1"), ("range", "0 1000 2"), ("all", "0 0 65536"), ("foreign", "0 1001 1")):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        assert call(272, 0x10000000) == 0
        attempt("uid " + what, lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), map.encode()))
        attempt("gid " + what, lambda: os.write(os.open("/proc/self/gid_map", os.O_WRONLY), map.encode()))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)
'''})
    r = dict(x.rsplit(" ", 1) for x in box.out("python3 /tmp/attempt.py").splitlines())
    assert len(r) == 8
    refused(r)
    r = run(box, '''
        import glob
        attempt("read", lambda: open("/root-file").read())
        attempt("chown", lambda: os.chown("/root-file", 0, 0))
        attempt("setuid", lambda: os.setuid(1))
        for p in glob.glob("/proc/[0-9]*"):
            try:
                if b"9998" in open(p + "/cmdline", "rb").read() or p == "/proc/1":
                    attempt("mem " + p, lambda: open(p + "/mem", "rb").read(1))
                    attempt("environ " + p, lambda: open(p + "/environ", "rb").read())
                    attempt("root " + p, lambda: str(len(os.listdir(p + "/root"))) and "OK")
            except OSError:
                pass
        ''')
    assert len([k for k in r if k.startswith("mem")]) >= 2, r
    refused(r)


def test_namespaces_are_counted(box):
    """No more than LIMIT_NESTED_NAMESPACES at a time, however deep; they end with their processes."""
    code = PRELUDE + '''
import time
made = 0
r, w = os.pipe()
for i in range(400):
    pid = os.fork()
    if pid == 0:
        n = call(272, 0x10000000 | 0x40000000)
        os.write(w, b"y" if n == 0 else b"n")
        time.sleep(600 if n == 0 else 0)
        os._exit(0)
    made += os.read(r, 1) == b"y"
    if made < i + 1:
        break
print("made", made)
os.killpg(0, 9)
'''
    box.tool("file:write", {"path": "/tmp/many.py", "content": code})
    made = []

    def again():  # the kernel takes its time to let go of those that have ended
        made.append(int(box.out("setsid -w python3 -u /tmp/many.py; true").split()[1]))
        return made[-1] == 128
    for _ in range(2):
        sg.wait_for(again, 120, every=1)
    assert max(made) == 128, made


def test_processes_in_nested_namespaces_end_with_the_box(server):
    mark = "97531.%d" % os.getpid()
    with server.box(user_namespaces=True) as b:
        b.out(f"(setsid unshare -Urpn --fork --kill-child=SIGTERM sh -c 'setsid unshare -Up --fork sleep {mark}' >/dev/null 2>&1 &)")
        sg.wait_for(lambda: sleepers(mark), 60)
    sg.wait_for(lambda: not sleepers(mark), 60)


def sleepers(mark):
    found = []
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                with open(f"/proc/{p}/cmdline", "rb") as f:
                    if f.read() == b"sleep\0" + mark.encode() + b"\0":
                        found.append(p)
            except OSError:
                pass
    return found


def test_other_boxes_of_the_server_still_make_none(server):
    """Also those that get the ids of one that could."""
    for _ in range(3):
        with server.box(user_namespaces=True) as b:
            assert b.out("cat /proc/sys/user/max_user_namespaces").strip() == "128"
            assert server.get(f"/sg/v1/boxes/{b.id}")["user_namespaces"] is True
        with server.box(cold=True) as b:
            assert b.out("cat /proc/sys/user/max_user_namespaces").strip() == "0"
            assert b.code("unshare -U true") != 0 and b.code("unshare -Urn true") != 0
            assert server.get(f"/sg/v1/boxes/{b.id}")["user_namespaces"] is False
