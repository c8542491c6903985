"""Round trips through the socket of one init, with percentiles, its CPU time per call, and its memory.

usage: tests/bench/init.py [build/sandglass-init] [calls]
"""
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "api"))
import initctl  # noqa: E402


def cpu_ns(pid):
    return int(open(f"/proc/{pid}/schedstat").read().split()[0])


def children(pid):
    return [int(x) for x in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def memory(pid):
    out = {}
    for line in open(f"/proc/{pid}/smaps_rollup"):
        key, _, rest = line.partition(":")
        if key in ("Rss", "Pss", "Private_Dirty", "Private_Clean"):
            out[key] = int(rest.split()[0])
    return out


def measure(box, name, calls, tool, **params):
    payload = initctl.pack([("tool", initctl.STR, tool), ("head_bytes", initctl.INT, 65536),
                            ("tail_bytes", initctl.INT, 65536), ("kept_bytes", initctl.INT, 1 << 24),
                            ("params", initctl.BYTES, initctl.pack_params(tool, params))])
    sock = box.sock
    sock.setblocking(True)
    times = []
    pids = [box.init_pid()]
    for i in range(calls + 50):
        if i == 50:
            pids += children(pids[0])
            before = {p: cpu_ns(p) for p in pids}
        call = box.next_id
        box.next_id += 1
        frame = initctl.HEAD.pack(len(payload), initctl.CALL, 0, call) + payload
        t0 = time.perf_counter_ns()
        sock.send(frame)
        got = sock.recv(65536)
        t1 = time.perf_counter_ns()
        size, kind, _, _ = initctl.HEAD.unpack_from(got)
        assert kind == initctl.RESULT and len(got) == size + initctl.HEAD.size
        sock.send(initctl.HEAD.pack(0, initctl.ACK, 0, call))
        if i >= 50:
            times.append((t1 - t0) / 1000)
    cpu = {p: (cpu_ns(p) - before[p]) / calls / 1000 for p in pids}
    times.sort()
    at = lambda q: times[min(len(times) - 1, int(len(times) * q))]  # noqa: E731
    print(f"{name:22} p50 {at(.5):7.1f}  p90 {at(.9):7.1f}  p99 {at(.99):7.1f}  max {times[-1]:8.1f} us   "
          f"cpu/call init {cpu[pids[0]]:.1f} us, others {sum(v for k, v in cpu.items() if k != pids[0]):.1f} us")


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "sandglass-init")
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    box = initctl.Box(binary)
    print("init, nothing started ", memory(box.init_pid()))
    box.run(":")
    print("bash, idle            ", memory(children(box.init_pid())[0]))
    print("init, one shell       ", memory(box.init_pid()))
    measure(box, "bash:run :", calls, "bash:run", command=":")
    measure(box, "bash:run echo x", calls, "bash:run", command="echo x")
    measure(box, "bash:run /bin/true", calls // 2, "bash:run", command="/bin/true")
    box.close()
    box = initctl.Box(binary)
    box.call("file:write", path="k", content="x" * 1023 + "\n")
    measure(box, "file:read 1 KiB", calls, "file:read", path="k")
    measure(box, "file:write 1 KiB", calls, "file:write", path="k", content="x" * 1024)
    measure(box, "bash:list", calls, "bash:list")
    print("hand, idle            ", memory(children(box.init_pid())[0]))
    box.close()


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    main()
