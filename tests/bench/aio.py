"""p50 of a command through the AIO surface and of the same on the host: aio.py PORT OUT SAMPLES. Prints rows."""

import http.client
import json
import os
import statistics
import sys
import time

port, out, samples = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
connection = http.client.HTTPConnection("127.0.0.1", port)


def post(path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    assert answer["success"], answer
    return answer["data"]


def on_host():
    r, w = os.pipe()
    pid = os.posix_spawn("/bin/bash", ["bash", "-c", "echo hi"], os.environ,
                         file_actions=[(os.POSIX_SPAWN_DUP2, w, 1), (os.POSIX_SPAWN_CLOSE, r)])
    os.close(w)
    while os.read(r, 4096):
        pass
    os.close(r)
    os.waitpid(pid, 0)


def in_bash():
    assert post("/v1/bash/exec", {"command": "echo hi", "session_id": "bench"})["stdout"] == "hi\n"


def in_shell():
    assert post("/v1/shell/exec", {"command": "echo hi", "id": "bench"})["output"] == "hi"


post("/v1/shell/sessions/create", {"id": "bench"})
works = {"host": on_host, "bash": in_bash, "shell": in_shell}
times = {name: [] for name in works}
for i in range(samples + 10):
    for name, work in works.items():
        begin = time.perf_counter()
        work()
        if i >= 10:
            times[name].append((time.perf_counter() - begin) * 1e6)
for name, values in times.items():
    with open(f"{out}/aio_{name}.us", "w") as f:
        f.write("\n".join(f"{v:.1f}" for v in values))
base = statistics.median(times["host"])
for name in ("bash", "shell"):
    ours = statistics.median(times[name])
    verdict = "PASS" if ours <= 2 * base else "MISS"
    print(f"{name}/exec of echo, p50\t{ours:.0f} us\tposix_spawn {base:.0f} us\t{ours / base:.3f}\t<=\t2\t{verdict}")
