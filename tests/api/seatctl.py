#!/usr/bin/env python3
"""Speaks wire/seat.h with supervise, for tests: as a module (Seats) or as a command.

    seatctl.py HOME create [--cold] [--sudo] [--network full] [--mount FROM:TO[:rw]]...
    seatctl.py HOME destroy ID | freeze ID | thaw ID | list | pool
    seatctl.py HOME bench N          cold create + destroy, microseconds
    seatctl.py HOME leak N           creates and destroys N boxes, compares what the machine holds before and after
"""
import argparse, array, collections, os, re, socket, struct, sys, time

VERSION, BOX_ID_MAX, MOUNTS, GAUGES = 5, 32, 16, 7
CREATE, DESTROY, FREEZE, THAW, LIST, POOL, DEAD = range(1, 8)
MiB = 1 << 20
GAUGE_NAMES = ("cpu", "memory_peak", "memory_events", "pids_events", "memory", "memory_stat", "pids_peak")

LAYERS, LAYER_ID_MAX, STATE_ROOT_MAX = 64, 32, 72
SPEC = struct.Struct("=256s6qI????I" + "256s256s?" * MOUNTS + f"I{LAYERS * LAYER_ID_MAX}s{STATE_ROOT_MAX}s184x")
HEAD = struct.Struct(f"=IIQ{BOX_ID_MAX}s")
REPLY = struct.Struct(f"=IIQi Ii248s {BOX_ID_MAX}sII??xxi?xxxqIII".replace(" ", ""))

DEFAULTS = dict(image="host", memory_bytes=512 * MiB, disk_bytes=256 * MiB, shm_bytes=64 * MiB, cpu_milli=1000,
                pids=256, open_files=4096, network=0, sudo=False, user_namespaces=False, allow_unenforced=False, cold=False, mounts=(), layers=(), parent_root="")


class SeatError(Exception):
    def __init__(self, reply):
        super().__init__(reply["message"])
        self.reply = reply


def pack_spec(**kw):
    s = {**DEFAULTS, **kw}
    mounts = list(s["mounts"])
    flat = []
    for frm, to, rw in mounts + [("", "", False)] * (MOUNTS - len(mounts)):
        flat += [frm.encode(), to.encode(), rw]
    return SPEC.pack(s["image"].encode(), s["memory_bytes"], s["disk_bytes"], s["shm_bytes"], s["cpu_milli"], s["pids"],
                     s["open_files"], s["network"], s["sudo"], s["user_namespaces"], s["allow_unenforced"], s["cold"], len(mounts), *flat, len(s["layers"]),
                     b"".join(x.encode().ljust(LAYER_ID_MAX, b"\0") for x in s["layers"]), s["parent_root"].encode())


def text(b):
    return b.split(b"\0", 1)[0].decode(errors="replace")


class Seats:
    def __init__(self, home):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = os.open(os.path.join(home, "run"), os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{fd}/supervise.sock")
        finally:
            os.close(fd)
        self.seq = 0
        self.dead = []  # SEAT_DEAD messages that came in between

    def close(self):
        self.sock.close()

    def send(self, verb, id="", spec=b""):
        self.seq += 1
        self.sock.send(HEAD.pack(VERSION, verb, self.seq, id.encode()) + spec)
        return self.seq

    def recv(self):
        data, anc, _, _ = self.sock.recvmsg(4096, socket.CMSG_SPACE(4 * GAUGES))
        if not data:
            raise EOFError("supervise closed the connection")
        (_, verb, seq, result, code, sysno, msg, id, gauges, unenforced, warm, frozen, status, oom, setup_us, ready,
         wanted, boxes) = REPLY.unpack_from(data)  # what follows belongs to snapshots
        fds = array.array("i")
        for level, kind, raw in anc:
            fds.frombytes(raw[: len(raw) - len(raw) % 4])
        present = [GAUGE_NAMES[i] for i in range(GAUGES) if gauges & 1 << i]
        return dict(verb=verb, seq=seq, result=result, code=code, errno=sysno, message=text(msg), id=text(id),
                    unenforced=unenforced, warm=warm, frozen=frozen, status=status, oom=oom, setup_us=setup_us,
                    pool=dict(ready=ready, wanted=wanted, boxes=boxes), gauges=dict(zip(present, fds)))

    def wait(self, seq):
        while True:
            r = self.recv()
            if r["verb"] == DEAD:
                self.dead.append(r)
            elif r["seq"] == seq:
                if r["result"] < 0:
                    raise SeatError(r)
                return r

    def create(self, keep_gauges=False, **kw):
        r = self.wait(self.send(CREATE, spec=pack_spec(**kw)))
        if not keep_gauges:
            drop_gauges(r)
        return r

    def destroy(self, id):
        return self.wait(self.send(DESTROY, id))

    def freeze(self, id):
        return self.wait(self.send(FREEZE, id))

    def thaw(self, id):
        return self.wait(self.send(THAW, id))

    def list(self):
        seq, out = self.send(LIST), []
        while True:
            r = self.wait(seq)
            if not r["id"]:
                return out
            drop_gauges(r)
            out.append(r)

    def pool(self):
        return self.wait(self.send(POOL))["pool"]


def drop_gauges(r):
    for fd in r["gauges"].values():
        os.close(fd)
    r["gauges"] = {}


def supervise_pid(seats):
    return struct.unpack("iII", seats.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def inventory(home, pid, cgroup_root):
    """What a leak would leave behind, as a dict of sets or counts."""
    inv = {}
    tree = {pid}
    parents = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(p)] = int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    for p in sorted(parents):  # children have higher numbers, but for a wrap
        if parents[p] in tree:
            tree.add(p)
    namespaces = set()
    for p in tree:
        try:
            namespaces |= {os.readlink(f"/proc/{p}/ns/{ns}") for ns in os.listdir(f"/proc/{p}/ns")}
        except OSError:
            pass
    inv["processes"] = tree
    inv["namespaces"] = namespaces
    inv["descriptors"] = []
    for f in os.listdir(f"/proc/{pid}/fd"):
        try:
            inv["descriptors"].append(re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{f}")))
        except FileNotFoundError:  # closed since it was listed
            pass
    inv["descriptors"].sort()
    inv["mounts"] = open(f"/proc/{pid}/mountinfo").read().count("\n")
    inv["files"] = {os.path.join(d, f) for d, _, fs in os.walk(os.path.join(home, "run")) for f in fs}
    groups = set()
    for line in open("/proc/self/mountinfo"):
        left, right = line.split(" - ")
        if right.split()[0] in ("cgroup", "cgroup2"):
            base = os.path.join(left.split()[4], cgroup_root)
            if os.path.isdir(base):
                groups |= {os.path.join(base, g) for g in os.listdir(base) if os.path.isdir(os.path.join(base, g))}
    inv["cgroups"] = groups
    return inv


def compare(before, after):
    """Names of what differs, with the difference. By number: blank and parked boxes come and go by themselves. Of
    descriptors only what is more: on a slow machine, what came and went may have been open at every look before."""
    out = {}
    for k in before:
        b, a = before[k], after[k]
        if isinstance(b, set):
            if len(b) != len(a):
                out[k] = (sorted(map(str, a - b)), sorted(map(str, b - a)))
        elif k == "descriptors":
            more = list((collections.Counter(a) - collections.Counter(b)).elements())
            if more:
                out[k] = more
        elif b != a:
            out[k] = (b, a)
    return out


def percentile(v, p):
    return sorted(v)[min(len(v) - 1, int(len(v) * p))]


def cpu_us(pid):
    """CPU of a process and its reaped children so far."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) * 1000000 // os.sysconf("SC_CLK_TCK")


def bench(seats, n, **kw):
    make, both = [], []
    for _ in range(n):
        t0 = time.perf_counter()
        r = seats.create(**kw)
        t1 = time.perf_counter()
        seats.destroy(r["id"])
        t2 = time.perf_counter()
        make.append((t1 - t0) * 1e6)
        both.append((t2 - t0) * 1e6)
    return make, both


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("home")
    ap.add_argument("verb")
    ap.add_argument("arg", nargs="?", default="")
    ap.add_argument("--cold", action="store_true")
    ap.add_argument("--sudo", action="store_true")
    ap.add_argument("--image", default="host")
    ap.add_argument("--network", choices=("none", "full"), default="none")
    ap.add_argument("--mount", action="append", default=[])
    ap.add_argument("--cgroup-root", default="sandglass")
    a = ap.parse_args()
    s = Seats(a.home)
    mounts = [(m.split(":")[0], m.split(":")[1], m.endswith(":rw")) for m in a.mount]
    spec = dict(cold=a.cold, sudo=a.sudo, image=a.image, network=int(a.network == "full"), mounts=mounts)
    if a.verb == "create":
        print(s.create(**spec))
    elif a.verb in ("destroy", "freeze", "thaw"):
        print(getattr(s, a.verb)(a.arg))
    elif a.verb in ("list", "pool"):
        print(getattr(s, a.verb)())
    elif a.verb == "bench":
        n, pid = int(a.arg or 200), supervise_pid(s)
        cpu = cpu_us(pid)
        make, both = bench(s, n, **{**spec, "cold": True})
        print(f"cpu per box     {(cpu_us(pid) - cpu) / n:7.0f} us (without kernel threads)")
        for name, v in (("create", make), ("create+destroy", both)):
            print(f"{name:15} p50 {percentile(v, .5):7.0f}  p99 {percentile(v, .99):7.0f}  min {min(v):7.0f} us")
    elif a.verb == "leak":
        pid = supervise_pid(s)
        bench(s, 3, **spec)
        time.sleep(0.3)
        before = inventory(a.home, pid, a.cgroup_root)
        bench(s, int(a.arg or 100), **spec)
        time.sleep(0.3)
        diff = compare(before, inventory(a.home, pid, a.cgroup_root))
        print(diff or "nothing leaked")
        sys.exit(bool(diff))
    else:
        ap.error("unknown verb")


if __name__ == "__main__":
    main()
