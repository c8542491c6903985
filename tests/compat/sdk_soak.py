#!/usr/bin/python3
"""64 sessions at once through the async client, for SOAK_SECONDS (300): each works in a box of its own and checks what it finds there;
every so often it ends and another begins. No error may come, nothing may be left, and the last fifth's p99 is at most 1.5 times
the first fifth's (with five minutes: the last minute's and the first's)."""

import asyncio
import os
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "api"), str(HERE.parents[1] / "sdk" / "python")]

import sandglass  # noqa: E402

import sg  # noqa: E402

SESSIONS = int(os.environ.get("SOAK_SESSIONS", "64"))
RATIO = 1.5
STEPS = 40  # of one session
PAUSE = 0.1


def p99(times):
    return sorted(times)[int(len(times) * 0.99)] if times else 0.0


async def session(client, number, end, samples, wrong):
    chance = random.Random(number)
    while time.monotonic() < end:
        try:
            async with await client.create(memory="64m", disk="32m") as box:
                for i in range(STEPS):
                    if time.monotonic() >= end:
                        break
                    began = time.monotonic()
                    r = await box.run(f"echo {number}.{i} >> log; tail -1 log; wc -l < log")
                    samples.append((began, time.monotonic() - began))
                    if r.stdout != f"{number}.{i}\n{i + 1}\n" or r.step != i + 1:
                        wrong.append(f"session {number}, step {i + 1}: {r}")
                    await asyncio.sleep(chance.random() * 2 * PAUSE)
        except sandglass.SandglassError as e:
            wrong.append(f"session {number}: {e!r}")


async def drive(url, seconds, samples, wrong):
    end = time.monotonic() + seconds
    async with sandglass.AsyncSandglass(url) as client:
        await asyncio.gather(*[session(client, n, end, samples, wrong) for n in range(SESSIONS)])


def soak(seconds):
    """What was wrong; empty: nothing."""
    samples, wrong = [], []
    with sg.running("--pool-size", "8") as server:
        asyncio.run(drive(server.url, 2, [], wrong))  # caches are warm, processes have their size
        before, files = server.inventory(), len(os.listdir("/proc/self/fd"))
        began = time.monotonic()
        asyncio.run(drive(server.url, seconds, samples, wrong))
        if server.get("/sg/v1/boxes")["boxes"]:
            wrong.append("boxes are left")
        try:
            sg.wait_for(lambda: all(server.inventory().get(k, 0) <= before[k] + 4 for k in before), 30)
        except AssertionError:
            after = server.inventory()
            wrong.append(f"more than before: { {k: (before[k], after.get(k)) for k in before if after.get(k, 0) > before[k] + 4} }")
        if len(os.listdir("/proc/self/fd")) > files + 2:
            wrong.append("this process has more open files than before")
    fifths = [p99([t for at, t in samples if k <= (at - began) / seconds * 5 < k + 1]) for k in range(5)]
    first, last = fifths[0], fifths[4]
    print(f"{SESSIONS} sessions, {seconds:.0f} s, {len(samples)} calls, p99 of the fifths {', '.join(f'{f * 1000:.1f}' for f in fifths)} ms, "
          f"ratio of the last to the first {last / first if first else 0:.2f} (at most {RATIO}); wrong: {len(wrong)}", flush=True)
    return wrong, last / first if first else 0.0


if __name__ == "__main__":
    bad, ratio = soak(float(os.environ.get("SOAK_SECONDS", "300")))
    print("\n".join(bad[:20]))
    sys.exit(1 if bad or ratio > RATIO else 0)
