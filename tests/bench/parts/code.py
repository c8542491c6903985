"""Called by run.sh: code.py OUT [--quick]. It starts servers of its own, because what they preload is a setting. Each pair
is measured in turns, so that a busy machine is busy for both."""

import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "api"))
import sg  # noqa: E402

QUICK = "--quick" in sys.argv
N = 5 if QUICK else 15
PYTHON = "/usr/bin/python3"
# Between two: a server makes the next one ready behind its answer, which must not disturb the other side's sample.
PAUSE, PAUSE_LONG = 0.2, 1.5  # LONG: what is made ready imports much
FORK = "--python-fork"


class Client:
    """One connection that is kept, as an SDK has it."""

    def __init__(self, server, box):
        self.c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        self.path = f"/sg/v1/boxes/{box}/execute"

    def __call__(self, tool, **params):
        self.c.request("POST", self.path, json.dumps({"tool": tool, "params": params}), {"Content-Type": "application/json"})
        r = json.loads(self.c.getresponse().read())
        assert r["outcome"] == "ok", r
        return r["data"]


def timed(f):
    t = time.perf_counter()
    f()
    return time.perf_counter() - t


def keep(what, ours, theirs):
    """The raw samples, in milliseconds: ours and theirs in the order in which they were taken."""
    name = "".join(c if c.isalnum() else "_" for c in what)
    with open(pathlib.Path(sys.argv[1]) / f"code_{name}.tsv", "w") as f:
        f.writelines(f"{a * 1e3:.4f}\t{b * 1e3:.4f}\n" for a, b in zip(ours, theirs))


def row(what, ours, theirs, name, target):
    keep(what, ours, theirs)
    a, b = statistics.median(ours), statistics.median(theirs)
    verdict = "PASS" if a <= target * b else "MISS"
    print(f"code: {what}\t{a * 1e3:.2f} ms\t{name} {b * 1e3:.2f} ms\t{a / b:.4f}\t<=\t{target:.4g}\t{verdict}", flush=True)


def new_contexts(preload, cold, what, name, target, code="1", flags=()):
    s = sg.Server("--pool-size", "1", *(["--python-preload", preload] if preload else []), *flags)
    pause = PAUSE_LONG if preload and FORK not in flags else PAUSE
    try:
        s.start()
        with s.box(memory="4g", pids=2000) as b:
            ask = Client(s, b.id)
            ask("code:execute", code="1", session="first")
            ours, theirs = [], []
            for i in range(N):
                time.sleep(pause)
                ours.append(timed(lambda: ask("code:execute", code=code, session=f"c{i}")))
                time.sleep(pause)
                theirs.append(timed(lambda: subprocess.run([PYTHON, "-c", cold], check=True, stdout=subprocess.DEVNULL)))
            row(what, ours, theirs, name, target)
            in_a_row(ask, cold, what, name, code, 0.05 if FORK in flags else 2.5)
            if FORK in flags:
                memory_of_contexts(s, b, ask)
    finally:
        s.end()


def in_a_row(ask, cold, what, name, code, target):
    """No pause between them: all but the first come faster than one can be made ready."""
    ours, theirs = [], []
    for turn in range(1 if QUICK else 3):
        ask("code:end", all=True)
        time.sleep(PAUSE)
        ours.append(timed(lambda: [ask("code:execute", code=code, session=f"r{i}") for i in range(10)]) / 10)
        time.sleep(PAUSE)
        theirs.append(timed(lambda: [subprocess.run([PYTHON, "-c", cold], check=True, stdout=subprocess.DEVNULL)
                                     for i in range(10)]) / 10)
    row(f"{what}, ten in a row, each", ours, theirs, name, target)


def pss(pids):
    total = 0
    for p in pids:
        for line in sg.read(f"/proc/{p}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def memory_of_contexts(s, b, ask):
    ask("code:end", all=True)
    time.sleep(0.5)
    before = pss(s.box_pids(b.id))
    for i in range(20):
        ask("code:execute", code="import pandas as pd\ndf = pd.DataFrame({'a': range(100)})\nint(df.a.sum())", session=f"m{i}")
    ours = pss(s.box_pids(b.id)) - before
    code = "import pandas as pd, sys\ndf = pd.DataFrame({'a': range(100)})\ndf.a.sum()\nprint('ready', flush=True)\nsys.stdin.read()"
    procs = [subprocess.Popen([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(20)]
    for p in procs:
        p.stdout.readline()
    theirs = pss([p.pid for p in procs])
    for p in procs:
        p.stdin.close()
        p.wait()
    verdict = "PASS" if ours <= theirs / 4 else "MISS"
    print(f"code: memory of 20 contexts with pandas (python.fork)\t{ours / 1048576:.0f} MiB\t20 processes {theirs / 1048576:.0f} MiB\t"
          f"{ours / theirs:.4f}\t<=\t0.25\t{verdict}", flush=True)


class Bare:
    """A cold ipykernel, and a client that is nothing but ZeroMQ and JSON."""

    def __init__(self):
        from jupyter_client.session import Session

        self.dir = tempfile.mkdtemp(prefix="sgk")
        self.session = Session(key=b"k")
        conf = {"transport": "ipc", "ip": f"{self.dir}/k", "shell_port": 1, "iopub_port": 2, "stdin_port": 3,
                "control_port": 4, "hb_port": 5, "key": "k", "signature_scheme": "hmac-sha256"}
        pathlib.Path(f"{self.dir}/c.json").write_text(json.dumps(conf))
        self.process = subprocess.Popen([PYTHON, "-m", "ipykernel_launcher", "-f", f"{self.dir}/c.json"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        import zmq

        self.context = zmq.Context()
        self.shell, self.iopub = self.context.socket(zmq.DEALER), self.context.socket(zmq.SUB)
        for s, port in ((self.shell, 1), (self.iopub, 2)):
            s.setsockopt(zmq.RECONNECT_IVL, 5)
            s.setsockopt(zmq.LINGER, 0)
        self.iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self.shell.connect(f"ipc://{self.dir}/k-1")
        self.iopub.connect(f"ipc://{self.dir}/k-2")
        self.session.send(self.shell, "kernel_info_request", {})
        self.session.recv(self.shell, mode=0)

    def run(self, code):
        m = self.session.send(self.shell, "execute_request", {"code": code, "silent": False, "store_history": True,
                              "user_expressions": {}, "allow_stdin": False, "stop_on_error": False})
        self.session.recv(self.shell, mode=0)
        while True:
            _, got = self.session.recv(self.iopub, mode=0)
            if got["parent_header"].get("msg_id") == m["msg_id"] and got["content"].get("execution_state") == "idle":
                return

    def end(self):
        self.process.kill()
        self.process.wait()
        self.context.destroy(0)
        subprocess.run(["rm", "-rf", self.dir])


def kernels(what, pause, flags=()):
    s = sg.Server("--pool-size", "1", *flags)
    try:
        s.start()
        with s.box(memory="4g", pids=2000) as b:
            ask = Client(s, b.id)
            ask("jupyter:create", session="first")
            ours, theirs = [], []
            for i in range(3 if QUICK else 7):
                time.sleep(pause)
                ours.append(timed(lambda: ask("jupyter:create", session=f"k{i}")))
                time.sleep(pause)
                made = []
                theirs.append(timed(lambda: made.append(Bare())))
                made[0].end()
            row(what, ours, theirs, "cold ipykernel", 1 / 3)
            if flags:
                return
            ours, theirs = [], []
            bare = Bare()
            bare.run("1+1")
            ask("jupyter:execute", code="1+1", session="first")
            for _ in range(10 * N):
                ours.append(timed(lambda: ask("jupyter:execute", code="1+1", session="first")))
                theirs.append(timed(lambda: bare.run("1+1")))
            bare.end()
            row("1+1 in a live kernel over HTTP", ours, theirs, "bare ZeroMQ", 1.5)
    finally:
        s.end()


new_contexts("", "print(1)", "a new Python context", "python3 -c 'print(1)'", 1 / 4)
new_contexts("pandas", "import pandas", "a new context with pandas", "import pandas", 1 / 40, "import pandas; 1")
new_contexts("pandas", "import pandas", "a new context with pandas (python.fork)", "import pandas", 1 / 40, "import pandas; 1", [FORK])
kernels("a new Jupyter kernel", PAUSE_LONG)
kernels("a new Jupyter kernel (python.fork)", 0, [FORK])
