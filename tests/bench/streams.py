"""1 MiB up and down, and a 10,000-file tar up and down. Prints rows for the report: streams.py OUR_PORT NODE_PORT SAMPLES."""

import http.client
import io
import json
import os
import statistics
import sys
import tarfile
import time

ours, theirs, samples = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


class Server:
    def __init__(self, port):
        self.c = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, method, path, body=None):
        self.c.request(method, path, body, {"Content-Type": "application/json"} if isinstance(body, str) else {})
        r = self.c.getresponse()
        data = r.read()
        assert r.status in (200, 201), (method, path, r.status, data[:300])
        return data


def seconds(what):
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin


def row(what, mine, other, target, who):
    verdict = "PASS" if mine <= target * other else "MISS"
    print(f"{what}\t{mine * 1e3:.2f} ms\t{who} {other * 1e3:.2f} ms\t{mine / other:.3f}\t<=\t{target}\t{verdict}", flush=True)


def make_tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for i in range(10000):
            info = tarfile.TarInfo(f"d{i // 100}/f{i}")
            info.size = 100
            t.addfile(info, io.BytesIO(b"x" * 100))
    return out.getvalue()


def compare(me, node, box):
    files, tree = f"/sg/v1/boxes/{box}/files?path=/tmp/", f"/sg/v1/boxes/{box}/tree?path=/tmp/"
    data, tar = os.urandom(1024 * 1024), make_tar()
    a, b = {"up": [], "down": []}, {"up": [], "down": []}
    for i in range(samples + 5):  # in turns, and the first few for warmth
        for times, server, path in ((a, me, files), (b, node, "/files?path=/")):
            up = seconds(lambda: server.ask("PUT", path + "m", data))
            down = seconds(lambda: server.ask("GET", path + "m"))
            if i >= 5:
                times["up"].append(up)
                times["down"].append(down)
    for way in ("up", "down"):
        row(f"streams: 1 MiB {way}, p50", statistics.median(a[way]), statistics.median(b[way]), 1.5, "node")
    up, down = [], []
    for i in range(3):
        up.append((seconds(lambda: me.ask("PUT", tree + f"t{i}", tar)), seconds(lambda: node.ask("PUT", f"/tree?path=/t{i}", tar))))
        down.append((seconds(lambda: me.ask("GET", tree + f"t{i}")), seconds(lambda: node.ask("GET", f"/tree?path=/t{i}"))))
    for way, times in (("up", up), ("down", down)):
        row(f"streams: tar of 10,000 files {way}", min(t[0] for t in times), min(t[1] for t in times), 1.5, "node+tar")


def main():
    me, node = Server(ours), Server(theirs)
    box = json.loads(me.ask("POST", "/sg/v1/boxes", json.dumps({"disk": "1G"})))["id"]
    compare(me, node, box)
    me.ask("DELETE", f"/sg/v1/boxes/{box}")


main()
