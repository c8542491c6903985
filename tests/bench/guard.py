"""guard.py PORT DIR [quick]: rows of the table, one for each attack: p99 of a well-behaved client beside it, against alone.

The attackers run at the lowest priority: they share the machine with the server, and what is measured is what the server
does about them, not who gets a processor. Alone and attacked take turns, so that other work on the machine meets both."""

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time

ROUNDS, CALLS = 4, 1500


def call(c):
    c.request("POST", "/api/v1/execute", BODY, {"Content-Type": "application/json"})
    r = c.getresponse()
    r.read()
    if r.status != 200:
        sys.exit(f"guard.py: the well-behaved client got {r.status}")


BODY = json.dumps({"worker_id": "bench-guard", "action": "probe:echo", "params": {"text": "x"}})


def measure(port, calls):
    c = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(50):
        call(c)
    times = []
    for _ in range(calls):
        t = time.perf_counter()
        call(c)
        times.append(time.perf_counter() - t)
    c.close()
    return times


# ---- attacks: each is a process of its own, ready when it prints a line ----

def connect(port):
    s = socket.create_connection(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def attack_slow_loris(port):
    """Heads that arrive byte by byte."""
    held = [connect(port) for _ in range(500)]
    for s in held:
        s.sendall(b"POST /api/v1/execute HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    print("ready", flush=True)
    while True:
        for i, s in enumerate(held):
            try:
                s.sendall(b"a")
            except OSError:
                held[i] = connect(port)
            if i % 50 == 0:
                time.sleep(0.05)


def attack_idle(port):
    """10,000 connections that say nothing."""
    held = []
    while len(held) < 10000:
        held.append(connect(port))
    print("ready", flush=True)
    while True:
        time.sleep(1)


def attack_head_bomb(port):
    """Heads without an end."""
    bomb = b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"a" * 1000) for i in range(200))
    print("ready", flush=True)
    while True:
        s = connect(port)
        try:
            s.sendall(bomb)
            s.recv(4096)
        except OSError:
            pass
        s.close()
        time.sleep(0.02)


def attack_body_bomb(port):
    """Bodies without an end, announced and not, and JSON that is all brackets."""
    piece = b"10000\r\n" + b"[" * 65536 + b"\r\n"
    heads = (b"POST /api/v1/execute HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
             b"POST /api/v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
             b"POST /api/v1/execute HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"[" * 1000000)
    print("ready", flush=True)
    n = 0
    while True:
        s = connect(port)
        try:
            s.settimeout(1)
            s.sendall(heads[n % 3])
            for _ in range(64 if n % 3 == 0 else 1):
                s.sendall(piece)
                time.sleep(0.002)
            s.recv(4096)
        except OSError:
            pass
        s.close()
        n += 1
        time.sleep(0.02)


def p99(times):
    times = sorted(times)
    return times[int(len(times) * 0.99)]


def main():
    port, out = int(sys.argv[1]), sys.argv[2]
    rounds, calls = (2, 500) if sys.argv[3:] == ["quick"] else (ROUNDS, CALLS)
    for name in ("slow_loris", "idle", "head_bomb", "body_bomb"):
        alone, beside = [], []
        for _ in range(rounds):
            alone += measure(port, calls)
            child = subprocess.Popen([sys.executable, "-B", __file__, str(port), "attack", name], stdout=subprocess.PIPE, text=True)
            try:
                if child.stdout.readline() != "ready\n":
                    sys.exit(f"guard.py: the attack {name} did not begin")
                time.sleep(0.3)
                beside += measure(port, calls)
            finally:
                child.kill()
                child.wait()
            time.sleep(0.5)
        with open(f"{out}/guard-{name}.txt", "w") as f:
            f.writelines(f"{kind} {t * 1e6:.1f}\n" for kind, ts in (("alone", alone), ("beside", beside)) for t in ts)
        a, b = p99(beside), p99(alone)
        verdict = "PASS" if a <= 2 * b else "MISS"
        print(f"guard: p99 beside {name.replace('_', ' ')}\t{a * 1e3:.3f} ms\talone {b * 1e3:.3f} ms\t{a / b:.3f}\t<=\t2\t{verdict}")


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if len(sys.argv) > 3 and sys.argv[2] == "attack":
        os.nice(19)
        globals()["attack_" + sys.argv[3]](int(sys.argv[1]))
    else:
        main()
