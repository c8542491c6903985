#!/usr/bin/env python3
"""What it costs to keep, go back to and copy the state of a box: time.py PORT OUT HOME SAMPLES [--quick]

Called by run.sh. Raw samples in milliseconds go to OUT/<name>.ms, rows of the table to OUT/rows.tsv."""

import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PORT, OUT, HOME, N = int(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
QUICK = "--quick" in sys.argv
MANY = 2000 if QUICK else 10000
BYTES = 20 * 1024 if QUICK else 107374  # of each file in the large box: 10,000 are 1 GiB
COPIES = 20 if QUICK else 100
conn = http.client.HTTPConnection("127.0.0.1", PORT, timeout=600)


def ask(method, path, body=None, status=(200, 201)):
    conn.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
    r = conn.getresponse()
    data = json.loads(r.read() or b"null")
    if r.status not in status:
        raise SystemExit(f"time.py: {method} {path}: {r.status} {data}")
    return data


def create(**spec):
    return ask("POST", "/sg/v1/boxes", spec)["id"]


def destroy(box):
    ask("DELETE", f"/sg/v1/boxes/{box}")


def run(box, command):
    r = ask("POST", f"/sg/v1/boxes/{box}/execute", {"tool": "bash:run", "params": {"command": command}, "timeout": 600})
    if r["outcome"] != "ok":
        raise SystemExit(f"time.py: {command[:60]}: {r}")
    return r


def ms(what):
    begin = time.perf_counter()
    result = what()
    return (time.perf_counter() - begin) * 1e3, result


def keep(name, values):
    (OUT / f"{name}.ms").write_text("".join(f"{v:.3f}\n" for v in values))
    return statistics.median(values)


def show(values_ms):
    return f"{values_ms:.2f} ms" if values_ms < 1000 else f"{values_ms / 1000:.2f} s"


def row(what, ours, against, theirs, target=None):
    ratio = ours / theirs
    verdict = "" if target is None else "PASS" if ratio <= target else "MISS"
    with open(OUT / "rows.tsv", "a") as f:
        f.write(f"{what}\tp50 {show(ours)}\t{against} {show(theirs)}\t{ratio:.3f}\t{'<=' if target else '-'}\t{target or '-'}\t{verdict}\n")


def note(what, text):
    with open(OUT / "rows.tsv", "a") as f:
        f.write(f"  {what}\t{text}\t\t-\t-\t-\t\n")


def fill(box, count):
    """Changes count files, in directories of 100."""
    run(box, f"mkdir -p /workspace/w && cd /workspace/w && for ((i = 0; i < {count}; i++)); do "
             "((i % 100)) || mkdir -p d$((i / 100)); echo $RANDOM$i > d$((i / 100))/f$i; done")


def cp_a(count, samples):
    """The same files from a tmpfs to the disk that the layers are on."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as source, tempfile.TemporaryDirectory(dir=HOME.parent) as target:
        for i in range(count):
            os.makedirs(f"{source}/d{i // 100}", exist_ok=True)
            pathlib.Path(f"{source}/d{i // 100}/f{i}").write_text(f"{i}\n")
        done = []
        for k in range(samples):
            done.append(ms(lambda: subprocess.run(["cp", "-a", source, f"{target}/{k}"], check=True))[0])
            shutil.rmtree(f"{target}/{k}")
    conn.close()  # idle for longer than the server waits; the next request opens another
    return done


def settled(box):
    """The root of the newest state is there: no worker is left."""
    while True:
        states = ask("GET", f"/sg/v1/states?box={box}")["states"]
        if not states or states[0]["root"]:
            return
        time.sleep(0.05)


def snapshots_and_resets():
    resets = {}
    time.sleep(3)  # the image of a new home is read whole by each reset of its first two seconds
    for count in (0, 10, MANY):
        samples = max(3, N // 20) if count == MANY else max(5, N // 5)
        took, back, proved = [], [], []
        box = create(disk="1g")
        for _ in range(samples):
            fill(box, count)
            t, s = ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/snapshot", {}))
            took.append(t)
            settled(box)
            if count:
                proved.append(ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/reset", {"state": s["state"]}))[0])
                fill(box, count)
            back.append(ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/reset", {}))[0])
        destroy(box)
        resets[count] = keep(f"reset-{count}", back)
        if count:
            copied = keep(f"cp-a-{count}", cp_a(count, samples))
            row(f"snapshot, {count} changed files", keep(f"snapshot-{count}", took), "cp -a", copied)
            row(f"reset to a state of {count} files, proved", keep(f"reset-proved-{count}", proved), "cp -a", copied)
            row(f"reset, {count} changed files", resets[count], "reset of an empty box", resets[0], 3)


def disk_use():
    return sum(int(x) for x in subprocess.run(["du", "-sxk", HOME / "layers"], capture_output=True, text=True).stdout.split()[:1])


def forks():
    made = []
    for _ in range(max(10, N // 4)):
        t, box = ms(lambda: create(cold=True))
        made.append(t)
        destroy(box)
    empty = keep("create-empty", made)
    box = create(disk="3g", memory="2g")
    run(box, f"mkdir -p /workspace/w && cd /workspace/w && for ((d = 0; d < {MANY // 100}; d++)); do mkdir d$d; "
             f"head -c {BYTES * 100} /dev/urandom | split -b {BYTES} -a 3 - d$d/f; done; "
             "(while :; do date +%s%N >> /workspace/live; sleep 0.05; done) > /dev/null 2>&1 &")
    first, r = ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/fork", {"n": 1}))
    destroy(r["boxes"][0]["id"])
    settled(box)
    before, one = disk_use(), []
    for i in range(max(10, N // 8)):
        t, r = ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/fork", {"n": 1}))
        one.append(t)
        copy = r["boxes"][0]["id"]
        run(copy, f"echo copy{i} > /workspace/w/d0/faaa; rm /workspace/w/d1/faaa")
        diverged = run(box, f"echo source{i} > /workspace/w/d0/faab; ls /workspace/w/d1/faaa; tail -n1 /workspace/live")["data"]["stdout"]
        other = run(copy, "cat /workspace/w/d0/faaa; head -c 6 /workspace/w/d0/faab")["data"]["stdout"]
        if "d1/faaa" not in diverged or not other.startswith(f"copy{i}\n") or f"source{i}" in other:
            raise SystemExit(f"time.py: the sides of a fork see each other: {diverged!r} {other!r}")
        destroy(copy)
    row(f"fork of a box with {MANY} files, {MANY * BYTES >> 20} MiB, written to", keep("fork-1", one), "creation of an empty box", empty, 3)
    note("the first one", f"seals all of it: {show(first)}; {disk_use() - before} KiB more on disk after {len(one)} forks")
    each = []
    for _ in range(2 if QUICK else 5):
        t, r = ms(lambda: ask("POST", f"/sg/v1/boxes/{box}/fork", {"n": COPIES}, (201, 207)))
        each.append(t / COPIES)
        if r["made"] != COPIES:
            note("copies that were not made", str(COPIES - r["made"]))
        for b in r["boxes"]:
            if b["id"]:
                destroy(b["id"])
    row(f"fork of it, {COPIES} at once, each copy", keep("fork-many", each), "creation of an empty box", empty, 3)
    destroy(box)


def steps():
    for count in (0, 1, 100):
        command = "true" if count == 0 else f"for ((i = 0; i < {count}; i++)); do echo $RANDOM > /workspace/s$i; done"
        p50 = {}
        for kind in ("manual", "step"):
            box = create(state=kind, disk="1g")
            fill(box, 1000)
            p50[kind] = keep(f"step-{count}-{kind}", [ms(lambda: run(box, command))[0] for _ in range(max(20, N // 2))])
            destroy(box)
        row(f"a step with a state, {count} changed files", p50["step"], "without a state", p50["manual"])
        note("overhead", show(p50["step"] - p50["manual"]))
    box = create(state="step")
    run(box, "true")
    done = [ms(lambda i=i: run(box, f"echo {i} > /workspace/f{i % 7}"))[0] for i in range(200)]
    keep("steps-200", done)
    row("the 200th step with a state (of the last 20)", statistics.median(done[-20:]), "the first 20", statistics.median(done[:20]), 1.5)
    newest = ask("GET", f"/sg/v1/states?box={box}")["states"][0]
    note("layers of its state", str(len(newest["layers"])))
    destroy(box)


# What is compared with removes tens of thousands of files, and for minutes after that ext4 may take a millisecond for each
# new one: it comes last.
forks()
steps()
snapshots_and_resets()
