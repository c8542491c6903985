"""The Python SDK against a real server: for threads, for asyncio, over TCP and over the unix socket."""

import asyncio
import contextlib
import io
import json
import keyword
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import threading

import pytest
import sandglass
from sandglass import _tar

import sg

ROOT = pathlib.Path(__file__).resolve().parents[2]
SDK = ROOT / "sdk" / "python"


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "4") as s:
        yield s


@pytest.fixture(scope="module")
def client(server):
    with sandglass.Sandglass(server.url) as c:
        yield c


@pytest.fixture
def box(client):
    with client.create(memory="256m") as b:
        yield b


def test_generated_code_is_what_the_server_says(server):
    run = subprocess.run([sys.executable, str(SDK / "generate.py"), "--check", "--url", server.url], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_box_is_destroyed_at_the_end_of_its_block_and_the_trajectory_stays(client):
    with client.create(labels={"a": "b"}) as box:
        assert box.run("echo hi; x=7").stdout == "hi\n" and box.bash.run("echo $x").stdout == "7\n"
        assert [b.id for b in client.boxes("a=b")] == [box.id] and client.get(box.id).info["labels"] == {"a": "b"}
        trajectory = box.trajectory()
    with pytest.raises(sandglass.NotFound):
        client.get(box.id)
    assert [(s.tool, s.params["command"], s.text) for s in trajectory.steps()] == [
        ("bash:run", "echo hi; x=7", "hi\n"), ("bash:run", "echo $x", "7\n")]
    assert trajectory.refresh()["outcomes"] == {"ok": 2}
    assert trajectory.id in [t.id for t in client.trajectories(worker=box.id)]


def test_outcomes_are_values_or_typed_exceptions(client, box):
    bad = box.run("echo out; exit 3")
    assert not bad and bad.outcome == "task_error" and bad.exit_code == 3 and bad.text == "out\n[exit code 3]"
    with pytest.raises(sandglass.TaskError) as e:
        box.run("exit 3", check=True)
    assert e.value.result.exit_code == 3
    with pytest.raises(sandglass.CallTimeout):
        box.run("sleep 60", timeout=1, check=True)
    with client.create(memory="64m", disk="16m") as small, pytest.raises(sandglass.OutOfMemory):
        small.run("head -c 200m /dev/zero | tail", check=True)
    with pytest.raises(sandglass.InvalidCall, match="nonsense"):
        box.call("bash:run", {"command": "true"}, nonsense=1).check()
    with sandglass.Sandglass(client.url, check=True) as strict, pytest.raises(sandglass.TaskError):
        strict.get(box.id).file.read("/nothing")
    with pytest.raises(sandglass.Invalid, match="memory"):
        client.create(memory="much")


def test_every_tool_of_the_table_is_a_method_with_a_docstring(client, box):
    for t in client.tool_table():
        backend, name = t["name"].split(":", 1)
        if t["backend"].split("_")[0] in ("probe", "pipe") or "hidden" in t["flags"]:
            continue
        name += "_" if keyword.iskeyword(name) else ""
        method = getattr(getattr(box, {"box": "own", "trajectory": "recorded"}.get(backend, backend)), name)
        assert t["description"].split()[0] in (method.__doc__ or ""), t["name"]
    assert box.probe.echo(text="later").outcome in ("ok", "invalid_request"), "a backend that the package did not know"


def test_output_streams_while_the_program_runs_and_stopping_kills_it(box):
    seen = []
    for text in box.stream("for i in 1 2 3; do echo $i; read -t 0.1 < <(sleep 1); done; echo err >&2"):
        seen.append(text)
    assert "".join(seen).split() == ["1", "2", "3", "err"] and len(seen) > 1
    program = box.stream("echo a; exit 4")
    assert list(program) == ["a\n"] and program.exit_code == 4
    with pytest.raises(sandglass.TaskError, match="exit status 4"):
        list(box.stream("exit 4", check=True))
    for text in box.stream("while :; do echo x; sleep 0.05; done"):
        break
    sg.wait_for(lambda: not [j for j in box.bash.list()["jobs"] if j.get("status") == "running"])


def test_files_and_directories_go_both_ways(box, tmp_path):
    data = os.urandom(3_000_000)
    box.write("/home/gem/data", data)
    assert box.read("/home/gem/data") == data
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "f.sh").write_text("echo hi")
    (tree / "sub" / "f.sh").chmod(0o755)
    (tree / "link").symlink_to("sub/f.sh")
    for i in range(40):
        (tree / f"n{i}").write_bytes(os.urandom(8192))
    box.upload(tree, "/home/gem/tree")
    assert box.run("tree/sub/f.sh; readlink tree/link").stdout == "hi\nsub/f.sh\n"
    for i in range(10):  # an end of the stream that comes before the call's does not break it
        box.download("/home/gem/tree", tmp_path / f"back{i}")
    back = tmp_path / "back9"
    assert (back / "n7").read_bytes() == (tree / "n7").read_bytes() and os.readlink(back / "link") == "sub/f.sh"
    assert os.access(back / "sub" / "f.sh", os.X_OK)
    box.upload(tree / "sub" / "f.sh", "/home/gem/one.sh")
    box.download("/home/gem/one.sh", tmp_path / "one.sh")
    assert (tmp_path / "one.sh").read_text() == "echo hi"
    box.write("/home/gem/secret", "x", mode=0o600)
    assert box.file.stat("/home/gem/secret")["mode"] == "0600"
    for read in (lambda: box.read("/nothing"), lambda: box.download("/nothing", tmp_path / "none")):
        with pytest.raises(sandglass.NotFound, match="/nothing"):
            read()


@pytest.mark.parametrize("evil", ["../out", "/tmp/out", "link/out"])
def test_a_box_cannot_make_a_download_write_elsewhere(tmp_path, evil):
    spool, out = io.BytesIO(), tmp_path / "in"
    with tarfile.open(fileobj=spool, mode="w") as tar:
        if evil.startswith("link"):
            m = tarfile.TarInfo("link")
            m.type, m.linkname = tarfile.SYMTYPE, ".."
            tar.addfile(m)
        tar.addfile(tarfile.TarInfo(evil), io.BytesIO())
    spool.seek(0)
    with pytest.raises(sandglass.SandglassError, match="refused"):
        _tar.unpack(spool, out)
    assert not (tmp_path / "out").exists()


def test_states_forks_and_the_way_back(client, box):
    box.run("echo one > n")
    before = box.snapshot()
    box.run("echo two > n; echo x > m")
    rows = {r["path"]: r["change"] for r in box.diff(before)["rows"]}
    assert rows == {"home/gem/n": "changed", "home/gem/m": "added"}
    copies = box.fork(2) + client.fork(before)
    assert [c.run("cat n").stdout for c in copies] == ["two\n", "two\n", "one\n"]
    for c in copies:
        c.destroy()
    box.restore(before)
    assert box.run("cat n; ls m").stdout == "one\n"
    assert box.reset(before)["proved"] is True
    assert before in [s["state"] for s in box.states()]


def test_batch_keeps_order_and_can_stop(box):
    calls = [("bash:run", {"command": f"echo {i}; exit {i % 2}"}) for i in range(4)]
    assert [r.stdout for r in box.batch(calls)] == ["0\n", "1\n", "2\n", "3\n"]
    assert len(box.batch(calls, stop_on_error=True)) == 2
    assert [r.stdout for r in box.batch(calls, parallel=True)] == ["0\n", "1\n", "2\n", "3\n"]


def test_map_gives_each_item_a_box_and_the_first_error_ends_it(client, capsys):
    got = client.map(lambda b, i: (b.id, b.run(f"echo {i} >> f; cat f").stdout), range(6), concurrency=3, progress=True)
    assert [t for _, t in got] == [f"{i}\n" for i in range(6)] and len({b for b, _ in got}) == 6
    assert "6/6" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        client.map(lambda b, i: 1 // i, [0, 1], concurrency=1)
    got = client.map(lambda b, i: 1 // i, [1, 0, 2], return_exceptions=True)
    assert got[0] == 1 and isinstance(got[1], ZeroDivisionError) and got[2] == 0
    assert client.boxes() == []


def test_what_is_typed_wrong_is_told_in_words(client, box):
    """Each of these is a mistake of somebody's first hour."""
    for wrong, error, says in (
            (lambda: sandglass.Sandglass("http://127.0.0.1:port"), ValueError, "'http://127.0.0.1:port' is no URL"),
            (lambda: client.create(memroy="1g"), sandglass.Invalid, "memroy: unknown key .known: image, memory"),
            (lambda: box.run("true", timeout="soon"), TypeError, "timeout: expected seconds"),
            (lambda: box.write("/home/gem/f", 3), TypeError, "data: expected bytes or str, got int"),
            (lambda: box.batch(["bash:run"]), TypeError, "pairs of a tool and its parameters"),
            (lambda: box.clsoe(), AttributeError, "no method clsoe"),
            (lambda: box.file.raed("/x"), TypeError, "file:raed: .* must be named"),
            (lambda: box.file.raed(path="/x").check(), sandglass.InvalidCall, "did you mean file:read"),
            (lambda: box.run("echo why >&2; exit 3", check=True), sandglass.TaskError, "exit status 3\nwhy$"),
            (lambda: list(client.trajectory("t-none").steps(outcom="ok")), TypeError, "outcom"),
            (lambda: client.trajectory("t-none").export("openai", shown="8k"), TypeError, "no filter 'shown' .known: outcome")):
        with pytest.raises(error, match=says):
            wrong()
    assert repr(box.run("echo hi")) == "<Result bash:run ok: 'hi\\n'>" and repr(client) == f"<Sandglass {client.url}>"


def test_steps_are_followed_as_they_happen(client, box):
    box.run("echo 1")
    trajectory, seen, ready = box.trajectory(), [], threading.Event()

    def follow():
        for step in trajectory.follow():
            seen.append(step.text)
            ready.set()
            if len(seen) == 3:
                return

    t = threading.Thread(target=follow, daemon=True)
    t.start()
    assert ready.wait(10)
    box.run("echo 2")
    box.run("echo 3")
    t.join(10)
    assert seen == ["1\n", "2\n", "3\n"]


def test_a_call_survives_the_death_of_the_server_and_runs_once(server, client, box):
    box.run("true")
    killer = threading.Timer(0.5, server.kill_role, ["serve"])
    killer.start()
    r = box.run("echo run >> runs; sleep 1.5; cat runs")
    killer.join()
    assert r.ok and r.stdout == "run\n"


class Cutter:
    """A proxy that passes the request on, and cuts the connection before the answer, so many times."""

    def __init__(self, port, cuts):
        self.listener, self.target, self.cuts, self.seen = socket.create_server(("127.0.0.1", 0)), port, cuts, 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.one, args=[client], daemon=True).start()

    def one(self, client):
        cut, answered = threading.Event(), threading.Event()
        with client, socket.create_connection(("127.0.0.1", self.target)) as server:
            def back():
                with contextlib.suppress(OSError):
                    while data := server.recv(65536):
                        answered.set() if cut.is_set() else client.sendall(data)

            threading.Thread(target=back, daemon=True).start()
            while data := client.recv(65536):
                self.seen += 1
                if self.cuts > 0:
                    self.cuts -= 1
                    cut.set()
                server.sendall(data)
                if cut.is_set():
                    answered.wait(30)
                    return


def test_only_what_cannot_happen_twice_is_asked_again(server, client):
    proxy = Cutter(server.port, 2)
    url = f"http://127.0.0.1:{proxy.listener.getsockname()[1]}"
    with client.create() as box, sandglass.Sandglass(url) as cut:
        assert cut.request("GET", f"/sg/v1/boxes/{box.id}")["id"] == box.id and proxy.seen == 3
        proxy.cuts, proxy.seen = 2, 0
        mine = sandglass.Box(cut, box.id, owned=False)
        assert mine.run("echo run >> runs; cat runs").stdout == "run\n" and proxy.seen == 3
        assert len(list(box.trajectory().steps())) == 1
        proxy.cuts, proxy.seen = 1, 0
        with pytest.raises(sandglass.ConnectError):
            mine.snapshot()
        assert proxy.seen == 1, "a snapshot carries no key: it was not repeated"
        proxy.cuts = 1
        mine.write("/home/gem/f", b"whole")
        proxy.cuts = 1
        assert mine.read("/home/gem/f") == b"whole"
        proxy.cuts = 2
        with cut.create(labels={"cut": url[-5:]}) as made:
            assert [b.id for b in client.boxes("cut=" + url[-5:])] == [made.id]


def test_for_models(box):
    for format, get in (("openai", lambda t: t["function"]), ("anthropic", dict), ("mcp", dict)):
        tools = box.tools(format, only=["bash:run", "file:*"])
        assert {"bash_run", "file_read"} <= {get(t)["name"] for t in tools} and len(json.dumps(tools)) > 500
    with pytest.raises(ValueError, match="nothing:*"):
        box.tools(only=["nothing:*"])
    openai = {"id": "c1", "type": "function", "function": {"name": "bash_run", "arguments": '{"command": "echo hi"}'}}
    assert box.handle(openai) == {"role": "tool", "tool_call_id": "c1", "content": "hi\n"}
    openai["function"]["arguments"] = "{oops"
    assert "no JSON" in box.handle(openai)["content"]
    use = {"type": "tool_use", "id": "u1", "name": "bash_run", "input": {"command": "exit 2"}}
    assert box.handle(use) == {"type": "tool_result", "tool_use_id": "u1", "content": "[exit code 2]", "is_error": True}
    got = box.handle({"method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "echo m"}}})
    assert got["structuredContent"]["stdout"] == "m\n" and got["isError"] is False
    assert "not found" in box.handle({**use, "name": "bash_fly"})["content"].lower()


def test_an_environment_goes_back_to_its_beginning_and_rewards(client):
    def reward(env, result):
        done = "42" in result.stdout
        return (1.0 if done else -0.1), done

    with sandglass.Env(client, reward, setup=lambda b: b.write("/home/gem/answer", "42\n"), max_steps=3) as env:
        _, info = env.reset()
        assert env.step("mv answer hidden; ls")[1:4] == (-0.1, False, False)
        text, value, terminated, truncated, _ = env.step(("file:read", {"path": "/home/gem/hidden"}))
        assert (text, value, terminated) == ("42\n", -0.1, False)
        assert env.step("cat hidden")[1:4] == (1.0, True, True)
        with pytest.raises(RuntimeError, match="reset"):
            env.step("ls")
        _, again = env.reset()
        assert again["trajectory"] != info["trajectory"] and env.step("ls")[0] == "answer\n", "the files are as they were"
        assert [s.tool for s in client.trajectory(info["trajectory"]).steps()] == ["bash:run", "file:read", "bash:run"]
        client.get(env.box.id).destroy()  # by somebody else, or its time was over
        _, value, terminated, truncated, info = env.step("ls")
        assert (value, terminated, truncated, info["outcome"]) == (0.0, False, True, "box_lost"), "nothing to learn from"
        env.reset()
        assert env.step("ls")[0] == "answer\n", "the next episode has a box again"


def test_replay_and_export(client):
    with client.create() as box:
        box.run("printf 0123456789%.0s 1 2 3 > f")
        box.run("cat f")
    trajectory = box.trajectory()  # also now that the box is gone
    report = trajectory.replay()
    assert report and report.success and report.counts["identical"] == 2 and report.divergence_step == -1
    row = json.loads(trajectory.export("openai"))
    assert not client.export("openai", min_reward=2, worker=trajectory.id)
    assert [m["role"] for m in row["messages"] if m["role"] == "tool"] == ["tool", "tool"]
    with pytest.raises(sandglass.ApiError, match="format"):
        trajectory.export("xml")
    assert b"bytes left out" in trajectory.export("openai", shown_max="12") and b"bytes left out" not in trajectory.export("openai")
    text, new = trajectory.export(), sg.unique("t")
    assert client.import_trajectories(text.replace(trajectory.id.encode(), new.encode()))["format"] == "sandglass"
    copy = client.trajectory(new)
    assert [s.text for s in copy.steps()] == [s.text for s in trajectory.steps()]
    copy.delete()
    with pytest.raises(sandglass.NotFound):
        list(copy.steps())
    noted = trajectory.annotate(reward=0.5, tags=["good"])
    assert trajectory.id in [t.id for t in client.trajectories(tag="good", min_reward=0.5)]
    assert trajectory.id not in [t.id for t in client.trajectories(tag="good", min_reward=0.6)]
    assert noted["annotations"]["reward"] == 0.5 and trajectory.refresh()["annotations"]["tags"] == ["good"]
    trajectory.annotate(step=1, note="the first")
    assert next(trajectory.steps()).annotations == {"note": "the first"}


def test_the_same_for_asyncio_over_the_unix_socket(server, tmp_path):
    async def main():
        async with sandglass.AsyncSandglass(f"unix:{server.home}/run/api.sock") as c:
            async with await c.create() as box:
                assert (await box.bash.run("echo hi")).stdout == "hi\n"
                assert "".join([t async for t in box.stream("echo 1; echo 2")]) == "1\n2\n"
                await box.write("/home/gem/d/f", b"x" * 1_000_000)
                assert await box.read("/home/gem/d/f") == b"x" * 1_000_000
                await box.download("/home/gem/d", tmp_path / "d")
                assert (tmp_path / "d" / "f").stat().st_size == 1_000_000
                state = await box.snapshot()
                copies = await box.fork(2)
                assert (await box.diff(state))["rows"] == []
                for copy in copies:
                    await copy.destroy()
                async with sandglass.AsyncEnv(c, lambda env, r: 1.0) as env:
                    await env.reset()
                    assert (await env.step("echo 1"))[0] == "1\n"
                return [s.tool async for s in (await box.trajectory()).steps(tool="bash:run")]

    async def mapped():
        async with sandglass.AsyncSandglass(server.url) as c:
            async def one(box, i):
                return (await box.run(f"echo {i}")).stdout
            return await c.map(one, range(5), concurrency=5)

    assert asyncio.run(main()) == ["bash:run"]
    assert asyncio.run(mapped()) == [f"{i}\n" for i in range(5)]


def test_an_async_client_works_in_one_event_loop_after_another(server):
    c = sandglass.AsyncSandglass(server.url)
    assert [asyncio.run(c.status())["boxes"] for _ in range(3)] is not None


def test_keys_are_sent(server):
    with pytest.raises(sandglass.ConnectError):
        sandglass.Sandglass("http://127.0.0.1:9", retries=1).status()
    with sg.running("--auth", "required", env={"BEARER_TOKEN": "sesame"}) as closed:
        with pytest.raises(sandglass.Denied):
            sandglass.Sandglass(closed.url).status()
        assert sandglass.Sandglass(closed.url, api_key="sesame").status()["version"]
        closed.headers = {"Authorization": "Bearer sesame"}


def test_a_private_server_is_started_and_ends_with_its_client(tmp_path):
    home = f"/tmp/sg-{sg.unique('l')[-12:]}"
    os.makedirs(home)
    if sg.Server.images:
        sg.copy_images(sg.Server.images, home + "/images")
    with sandglass.local("--pool-size", "1", home=home) as c:
        process = c.server._process
        assert c.create().run("echo mine").stdout == "mine\n"
    assert process.poll() is not None and not os.path.exists(home + "/local.sock")

    async def main():
        async with sandglass.alocal("--pool-size", "1", home=home) as c:
            async with await c.create() as box:
                return c.server._process, (await box.run("echo mine")).stdout

    process, said = asyncio.run(main())
    assert process.poll() is not None and said == "mine\n"
    program = "import sandglass; c = sandglass.local('--pool-size', '1'); " \
              "import sys; m = sys.modules['sandglass.local']; print(m._started._process.pid if m._started else 0, c.status()['boxes'], flush=True); input()"
    env = {k: v for k, v in os.environ.items() if k != "SANDGLASS_URL"}
    env.update(PYTHONPATH=str(SDK), SANDGLASS_BINARY=sg.BINARY, SANDGLASS_LOCAL_HOME=home)
    p = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    pid = int(p.stdout.readline().split()[0])
    second = subprocess.run([sys.executable, "-c", program], input=b"\n", stdout=subprocess.PIPE, env=env)
    assert second.stdout == b"0 0\n", "another program finds the server that runs"
    third = subprocess.Popen([sys.executable, "-c", program + "; print(c.create().run('echo on').stdout)"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, env=env)
    assert third.stdout.readline() == b"0 0\n"
    p.kill()
    p.wait()
    assert third.communicate(b"\n", timeout=60)[0] == b"on\n\n", "it does not lose the server with the one who started it"
    sg.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), 30)
    subprocess.run(["rm", "-rf", home])
