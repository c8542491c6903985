"""A trivial call of a box through the clients, and as raw HTTP over one socket: sdk.py PORT DIRECTORY SAMPLES. In turns, so that all
see the same machine. Raw HTTP is the least that any Python program could do: it does not even read the answer's JSON."""

import asyncio
import json
import pathlib
import re
import socket
import statistics
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

import sandglass  # noqa: E402

port, out, samples = int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]) * 2
url = f"http://127.0.0.1:{port}"
times = {"raw": [], "sync": [], "async": []}


def raw(sock, box):
    body = json.dumps({"tool": "bash:run", "params": {"command": ":"}, "idempotency_key": uuid.uuid4().hex}).encode()
    sock.sendall(b"POST /sg/v1/boxes/%b/execute HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                 % (box.encode(), len(body)) + body)
    data = b""
    while b"\r\n\r\n" not in data:
        data += sock.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(rest) < length:
        rest += sock.recv(65536)


async def main():
    client, sock = sandglass.AsyncSandglass(url), socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with sandglass.Sandglass(url) as threads, threads.create() as box:
        other = await client.get(box.id)
        for i in range(samples + 20):
            for name in times:
                began = time.perf_counter()
                if name == "raw":
                    raw(sock, box.id)
                elif name == "sync":
                    box.call("bash:run", command=":")
                else:
                    await other.call("bash:run", command=":")
                if i >= 20:
                    times[name].append((time.perf_counter() - began) * 1e6)


asyncio.run(main())
for name, values in times.items():
    (out / f"sdk_{name}.us").write_text("\n".join(f"{v:.1f}" for v in values))
base = statistics.median(times["raw"])
for name in ("sync", "async"):
    ours = statistics.median(times[name])
    print(f"{name} client, a call, p50\t{ours:.0f} us (+{ours - base:.0f} us)\traw HTTP {base:.0f} us\t{ours / base:.3f}\t<=\t2\t{'PASS' if ours <= 2 * base else 'MISS'}")
