#!/usr/bin/python3
"""200 workers at once, mixed explicit and temporary, for SOAK_SECONDS (300).

Each worker keeps a marker that nobody else knows and checks it with every call: an explicit one finds its own file in its
session again and again, a temporary one finds an empty box each time. Steps are numbered without a gap. Some calls are
wrong on purpose and must be refused as such; no other error may come. The memory of the server's processes must be flat.
"""

import asyncio
import json
import os
import pathlib
import random
import re
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "api"))

import sg  # noqa: E402

WORKERS = int(os.environ.get("SOAK_WORKERS", "200"))
THEIRS = "415-520 us per trivial call before HTTP, at most about 2000 calls/s"
GROWTH_KIB = 8192  # of one process, from the first fifth of the time to the end
CACHE_KIB = 65536  # recorder keeps pages of its index, as far as there are any; this is the most (index.c: cache_size)


class Wrong(Exception):
    pass


class Connection:
    """One kept-alive HTTP connection; the standard library has none for asyncio."""

    def __init__(self, port):
        self.port, self.writer = port, None

    async def post(self, path, body):
        if not self.writer:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(body).encode()
        self.writer.write(f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
                          "\r\n\r\n".encode() + data)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
        return int(head.split(b" ", 2)[1]), json.loads(await self.reader.readexactly(length))

    def close(self):
        if self.writer:
            self.writer.close()


class Figures:
    def __init__(self):
        self.calls, self.requests, self.seen, self.inside, self.errors = 0, 0, {}, {}, []

    def add(self, kind, seconds, replies):
        self.requests += 1
        self.seen.setdefault(kind, []).append(seconds * 1e6)
        for r in replies:
            self.calls += 1
            self.inside.setdefault(kind, []).append(r["meta"]["total_us"])


class Worker:
    def __init__(self, number, port, figures):
        self.id, self.http, self.figures = f"soak-{number}-{sg.unique('x')}", Connection(port), figures
        self.explicit, self.mark, self.step, self.marked = number % 2 == 0, sg.unique("mark"), 0, False
        self.random = random.Random(number)

    async def request(self, path, want=200, **body):
        status, reply = await self.http.post("/api/v1/" + path, {"worker_id": self.id, **body})
        if status != want:
            raise Wrong(f"{self.id} {path} {body}: {status} {json.dumps(reply)[:600]}")
        return reply

    def check_steps(self, replies):
        for r in replies:
            self.step += 1
            if r["meta"]["step"] != self.step:
                raise Wrong(f"{self.id}: step {r['meta']['step']}, not {self.step}: {json.dumps(r)[:400]}")

    async def call(self, kind, action, params, want=200):
        begun = time.monotonic()
        r = await self.request("execute", want, action=action, params=params)
        self.figures.add(kind, time.monotonic() - begun, [r])
        self.check_steps([r])
        return r

    def same(self, got, want):
        if got != want:
            raise Wrong(f"{self.id}: cross-talk or loss: {got!r}, not {want!r}")

    async def begin(self):
        await self.request("session/create", resource_type="bash", session_config={"ttl": 120})
        await self.call("shell", "bash:run", {"command": f"echo {self.mark} > mark; M={self.mark}"})
        self.marked = True

    async def turn_explicit(self, dice):
        if not self.marked:
            await self.begin()
        if dice < 0.60:
            r = await self.call("shell", "bash:run", {"command": "read -r L < mark; echo $L $M *"})
            self.same(r["data"]["stdout"], f"{self.mark} {self.mark} mark\n")
        elif dice < 0.75:
            r = await self.call("file", "file:read", {"path": "mark"})
            self.same(r["data"]["content"], self.mark + "\n")
        elif dice < 0.85:
            begun = time.monotonic()
            r = await self.request("execute/batch", parallel=dice < 0.8, actions=[
                {"action": "bash:run", "params": {"command": f"read -r L < mark; echo {i} $L"}} for i in range(3)])
            replies = r["data"]["results"]
            self.same([x["data"]["stdout"] for x in replies], [f"{i} {self.mark}\n" for i in range(3)])
            self.figures.add("batch of 3", time.monotonic() - begun, replies)
            self.check_steps(sorted(replies, key=lambda x: x["meta"]["step"]))
        elif dice < 0.93:
            await self.request("session/refresh")
            r = await self.request("session/list")
            self.same([s["resource_type"] for s in r["data"]["sessions"]], ["bash"])
            await self.request("lifecycle/heartbeat")
        else:
            await self.request("session/destroy", resource_type="bash")
            self.marked = False

    async def turn_temporary(self, dice):
        if dice < 0.8:
            r = await self.call("temporary", "bash:run", {
                "command": f"shopt -s nullglob; echo * /tmp/*; echo {self.mark} > mark; read -r L < mark; echo $L"})
            self.same(r["data"]["stdout"], f"\n{self.mark}\n")
            if not r["meta"].get("temporary_session"):
                raise Wrong(f"{self.id}: not temporary")
        else:
            r = await self.call("temporary", "file:list", {"path": "."})
            self.same(r["data"]["entries"], [])

    async def turn(self):
        dice = self.random.random()
        if dice < 0.05:
            await self.call("refused", "no:tool", {}, want=400)
        elif dice < 0.08:
            await self.call("refused", "bash:run", {"comand": "true"}, want=400)
        elif dice < 0.18:
            text = sg.unique()
            self.same((await self.call("no box", "probe:echo", {"text": text}))["data"]["text"], text)
        elif self.explicit:
            await self.turn_explicit(self.random.random())
        else:
            await self.turn_temporary(self.random.random())

    async def live(self, until):
        try:
            while time.monotonic() < until and not self.figures.errors:
                await self.turn()
            await self.request("worker/disconnect")
        except (Wrong, OSError, asyncio.IncompleteReadError, KeyError, ValueError) as e:
            self.figures.errors.append(f"{type(e).__name__}: {e}")
        finally:
            self.http.close()


def memory(server):
    """Role -> KiB; and the size of recorder's index."""
    found = {role: int(re.search(r"VmRSS:\s+(\d+)", sg.read(f"/proc/{pid}/status"))[1])
             for role, pid in server.pids().items() if role in sg.ROLES}
    found["index"] = os.path.getsize(os.path.join(server.home, "index.sqlite")) // 1024
    return found


def show(name, kib):
    print(f"{name:<20}" + "".join(f"{role} {kib[role]:>6} KiB   " for role in sg.ROLES) + f"(index {kib['index']} KiB)", flush=True)


def growth(before, after):
    grown = {role: after[role] - before[role] for role in sg.ROLES}
    grown["recorder"] -= min(after["index"] - before["index"], CACHE_KIB)
    lines = [f"{role} grew by {kib} KiB" for role, kib in grown.items() if kib > GROWTH_KIB]
    if after["recorder"] > CACHE_KIB + 16384:
        lines.append(f"recorder has {after['recorder']} KiB, more than its cache")
    return lines


async def watch(server, seconds, samples):
    """Memory at the start, after a fifth, in the middle and at the end."""
    begun = time.monotonic()
    for name, at in (("memory at the start", 0), ("after a fifth", 0.2), ("in the middle", 0.5), ("at the end", 0.98)):
        await asyncio.sleep(max(0, begun + at * seconds - time.monotonic()))
        samples.append(memory(server))
        show(name, samples[-1])


async def drive(server, seconds, figures, samples):
    until = time.monotonic() + seconds
    workers = [Worker(i, server.port, figures) for i in range(WORKERS)]
    await asyncio.gather(watch(server, seconds, samples), *[w.live(until) for w in workers])


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))] if values else 0


def soak(seconds):
    """Problems, as lines of text."""
    figures, samples = Figures(), []
    with sg.running("--pool-size", "32", "--log-level", "warn") as server:
        pids = server.pids()
        begun = time.monotonic()
        asyncio.run(drive(server, seconds, figures, samples))
        took = time.monotonic() - begun
        problems = figures.errors[:20]
        if server.pids() != pids:
            problems.append(f"a process was restarted: {pids} -> {server.pids()}")
        try:
            sg.wait_for(lambda: server.get("/sg/v1/status")["boxes"] == 0, 20)
            sg.wait_for(lambda: server.get("/ready")["total_sessions"] == 0, 5)
        except AssertionError as e:
            problems.append(f"left behind: {e}")
        log = [x for x in server.log_tail(2000).splitlines() if " error " in x or " warn " in x]
        problems += log[:10]
        show("when all have gone", memory(server))
    problems += growth(samples[1], samples[3]) if len(samples) == 4 else []
    print(f"{WORKERS} workers, {took:.0f} s: {figures.calls} calls, {figures.calls / took:.0f} calls/s, errors that are not the "
          f"caller's: {len(figures.errors)}")
    print(f"{'':<12}{'calls':>9}{'inside: p50':>14}{'p99':>10}{'seen: p50':>14}{'p99':>10}   us")
    for kind, inside in sorted(figures.inside.items()):
        seen = figures.seen[kind]
        print(f"{kind:<12}{len(inside):>9}{percentile(inside, .5):>14.0f}{percentile(inside, .99):>10.0f}"
              f"{percentile(seen, .5):>14.0f}{percentile(seen, .99):>10.0f}")
    everything = [x for v in figures.seen.values() for x in v]
    print(f"p99 of all, seen by {WORKERS} clients in one Python process: {percentile(everything, .99) / 1000:.1f} ms")
    print(f"ours before HTTP ('no box', recorded): p50 {percentile(figures.inside.get('no box', []), .5):.0f} us, p99 "
          f"{percentile(figures.inside.get('no box', []), .99):.0f} us; AgentFlow's executor alone: {THEIRS}")
    return problems


if __name__ == "__main__":
    found = soak(float(os.environ.get("SOAK_SECONDS", "300")))
    for line in found:
        print("BAD", line)
    sys.exit(bool(found))
