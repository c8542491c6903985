"""The code tools: fresh processes in real boxes, and AgentFlow's file tools under their own names. Numbers are those of the
weaknesses that the contract lists."""

import ast
import os
import time

import pytest

import initctl
import sg

HOME = "/home/gem"


@pytest.fixture(scope="module")
def box(server):
    with server.box() as b:
        yield b


def execute(box, code, language="python", outcome="ok", call_timeout=None, **params):
    r = box.tool("code:execute", {"code": code, "language": language, **params}, timeout=call_timeout)
    assert r["outcome"] == outcome, r
    return r["data"]


def text(box, tool, **params):
    r = box.tool("code:" + tool, params)
    assert r["outcome"] == "ok", r
    return r["data"]["result"]


def error(box, tool, **params):
    r = box.tool("code:" + tool, params)
    assert (r["outcome"], r["data"]) == ("task_error", None), r
    assert r["message"].startswith("Error: "), r
    return r["message"]


def alive(box, what):
    """Processes of the box whose command line contains a text."""
    return [p for p in box.server.box_pids(box.id) if what in sg.read(f"/proc/{p}/cmdline").replace("\0", " ")]


# ---- execute ----

@pytest.mark.parametrize("language, code", [
    ("python", "import sys, os\nprint('out', sys.argv[1:], input(), os.getcwd())\nprint('err', file=sys.stderr)\nsys.exit(3)"),
    ("javascript", "const fs = require('fs'); const a = process.argv.slice(2);\n"
                   "console.log(`out ['${a.join(\"', '\")}'] ${fs.readFileSync(0, 'utf8').trim()} ${process.cwd()}`);\n"
                   "console.error('err'); process.exit(3)"),
    ("bash", "read x; echo \"out ['$1', '$2'] $x $PWD\"; echo err >&2; exit 3"),
])
def test_a_program_has_arguments_input_output_and_a_status(box, language, code):
    d = execute(box, code, language, "task_error", stdin="in\n", args=["a b", "$c"])
    assert (d["stdout"], d["stderr"]) == (f"out ['a b', '$c'] in {HOME}\n", "err\n")
    assert (d["exit_code"], d["return_code"], d["status"], d["language"]) == (3, 3, "completed", language)
    assert (d["stdout_bytes"], d["stderr_bytes"]) == (len(d["stdout"]), 4)
    assert 0 < d["execution_time_ms"] < 20000 and 1 < d["memory_used_mb"] < 500
    assert "signal" not in d


def test_python_is_the_default_and_the_language_is_checked(box):
    r = box.tool("code:execute", {"code": "print(6 * 7)"})
    assert r["data"]["stdout"] == "42\n" and r["outcome"] == "ok"
    r = box.tool("code:execute", {"code": "x", "language": "cobol"}, status=None)
    assert r["outcome"] == "invalid_request" and "language" in r["message"]
    r = box.tool("code:execute", {}, status=None)
    assert r["outcome"] == "invalid_request" and "code" in r["message"]


def test_memory_is_what_the_program_used(box):
    assert execute(box, "x = bytearray(100 << 20)\nx[::4096] = b'1' * len(x[::4096])")["memory_used_mb"] > 100


def test_each_call_is_a_fresh_process_but_files_stay(box):
    execute(box, "x = 1; open('state', 'w').write('kept')")
    d = execute(box, "print(open('state').read()); print(x)", outcome="task_error")
    assert d["stdout"] == "kept\n" and "NameError" in d["stderr"]


def test_modules_are_found_in_the_home_directory(box):
    box.tool("file:write", {"path": "mine.py", "content": "answer = 42\n"})
    box.tool("file:write", {"path": "node_modules/mine/index.js", "content": "exports.answer = 42\n"})
    assert execute(box, "import mine; print(mine.answer)")["stdout"] == "42\n"
    assert execute(box, "console.log(require('mine').answer)", "javascript")["stdout"] == "42\n"


def test_tracebacks_are_the_same_from_call_to_call(box):
    first, second = (execute(box, "raise ValueError('x')", outcome="task_error")["stderr"] for _ in range(2))
    assert first == second and "line 1" in first


def test_no_input_is_an_empty_input(box):
    assert execute(box, "import sys; print(repr(sys.stdin.read()))")["stdout"] == "''\n"


def test_a_signal_is_named(box):
    d = execute(box, "import os; os.kill(os.getpid(), 11)", outcome="task_error")
    assert (d["exit_code"], d["signal"]) == (139, "SIGSEGV")


def test_long_output_keeps_head_and_tail(box):
    r = box.tool("code:execute", {"code": "print('H' * 10 + 'x' * 3000000 + 'T' * 10)"})
    d = r["data"]
    assert d["stdout_bytes"] == 3000021 and len(d["stdout"]) < 140000
    assert d["stdout"].startswith("HHHHHHHHHHx") and d["stdout"].endswith("xTTTTTTTTTT\n")
    assert "bytes omitted ...]" in d["stdout"]
    assert r["dropped_bytes"] == 3000021 - 2 * 65536


def test_output_that_never_ends_does_not_beat_the_clock(box):
    begun = time.monotonic()
    d = execute(box, "yes", "bash", "timeout", timeout=1)
    assert time.monotonic() - begun < sg.PATIENCE and d["stdout_bytes"] > 200000


def test_bytes_that_are_no_text_do_not_break_the_answer(box):
    assert execute(box, "import sys; sys.stdout.buffer.write(b'a\\xff\\x00b')")["stdout"] == "a\ufffd\0b"


def test_snippets_of_many_calls_at_once_do_not_meet(server):
    w = sg.unique("code")
    server.session(w, "code")
    items = [{"action": "code:execute", "params": {"code": f"import time; time.sleep(0.1); print({i})"}} for i in range(8)]
    r = server.post("/api/v1/execute/batch", {"worker_id": w, "actions": items, "parallel": True})
    assert [x["data"]["stdout"] for x in r["data"]["results"]] == [f"{i}\n" for i in range(8)]
    server.disconnect(w)


# ---- its end ----

def test_weakness_03_a_timeout_ends_the_whole_tree_and_returns_what_was_written(box):
    begun = time.monotonic()
    code = ("import subprocess, time, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "subprocess.Popen(['setsid', 'sh', '-c', 'sleep 98765 & sleep 98765'])\nprint('before')\ntime.sleep(98765)")
    r = box.tool("code:execute", {"code": code, "timeout": 3})
    assert 2.8 < time.monotonic() - begun < sg.PATIENCE
    assert r["outcome"] == "timeout" and "timed out after 3 s" in r["message"], r
    assert (r["data"]["stdout"], r["data"]["exit_code"], r["data"]["status"]) == ("before\n", 124, "timeout")
    assert not alive(box, "98765")


def test_the_calls_own_deadline_returns_what_was_written_too(box):
    r = box.tool("code:execute", {"code": "import time; print('before'); time.sleep(60)"}, timeout=3)
    assert r["outcome"] == "timeout" and r["data"]["stdout"] == "before\n", r


def test_agentflow_sees_a_timeout_as_its_contract_says(server):
    w = sg.unique("code")
    r = server.execute(w, "code:execute", {"code": "print('before', flush=True)\nwhile True: pass"}, timeout=1, status=500)
    assert r["code"] == 5006 and r["message"] == "Tool execution timed out after 1s"
    assert (r["data"]["timeout"], r["data"]["stdout"]) == (1, "before\n")


def test_nothing_outlives_its_call(box):
    d = execute(box, "setsid sleep 87654 & (sleep 87654 &) ; echo done", "bash")
    assert d["stdout"] == "done\n" and d["execution_time_ms"] < 5000
    assert not alive(box, "87654")


def test_output_of_a_child_that_ends_soon_is_not_lost(box):
    assert execute(box, "echo one; (sleep 0.03; echo two) &", "bash")["stdout"] == "one\ntwo\n"


def test_a_fork_bomb_ends_with_its_call(server):
    with server.box(pids=64) as b:
        r = b.tool("code:execute", {"code": "f() { f | f & }; f; sleep 99", "language": "bash", "timeout": 2})
        assert r["outcome"] in ("timeout", "pid_limit"), r
        assert execute(b, "print(1)")["stdout"] == "1\n"


def test_out_of_memory_is_not_the_programs_own_error(server):
    with server.box(memory=64 << 20) as b:
        r = b.tool("code:execute", {"code": "x = []\nwhile True: x.append(bytearray(1 << 20))"}, timeout=20)
        assert r["outcome"] == "oom", r
        assert execute(b, "print(1)")["stdout"] == "1\n"


def test_a_full_disk_is_not_the_programs_own_error(server):
    with server.box(disk=16 << 20) as b:
        execute(b, "f = open('fill', 'wb')\nwhile True: f.write(b'x' * (1 << 20))", outcome="disk_full")


def test_a_missing_interpreter_is_named(server):
    with server.box() as b:
        if b.run("sudo -n mv /usr/bin/node /usr/bin/node.away")["data"]["exit_code"] != 0:
            pytest.skip("node cannot be moved away")
        r = b.tool("code:execute", {"code": "1", "language": "javascript"})
        assert r["outcome"] == "task_error" and "node is not installed" in r["message"], r


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_cancelled_call_leaves_no_process():
    b = initctl.Box(os.path.join(os.path.dirname(sg.BINARY), "sandglass-init"))
    try:
        call = b.begin("code:execute", language="bash", code="setsid sleep 76543 & sleep 76543")
        sg.wait_for(lambda: int(b.run("pgrep -cf 'sleep 76543' || true", session="o")["stdout"]) >= 2)
        b.send(initctl.CANCEL, call)
        assert b.wait(call)["outcome"] == "killed"
        assert int(b.run("pgrep -cx sleep || true", session="o")["stdout"]) == 0
    finally:
        b.close()


# ---- what AgentFlow's ds_run_python and host shell did wrong ----

def test_weakness_13_a_failure_is_not_reported_as_success(server):
    w = sg.unique("code")
    r = server.execute(w, "code:execute", {"code": "1/0"})
    assert r["meta"]["outcome"] == "task_error" and r["data"]["exit_code"] == 1 and "ZeroDivisionError" in r["data"]["stderr"]


def test_weakness_20_python_is_whole(box):
    code = ("import math\nbase = 40\nclass A:\n  def f(self): return base\nclass B(A):\n  def f(self): return super().f() + 2\n"
            "def g(): return B().f()\nopen('f20', 'w').write(str(g()))\nprint(open('f20').read(), math.floor(1.5))")
    assert execute(box, code)["stdout"] == "42 1\n"


def test_weakness_20_concurrent_code_does_not_share_directory_or_output(server):
    w = sg.unique("code")
    server.session(w, "code")
    code = "import os, time; os.chdir('/usr' if {0} % 2 else '/etc'); time.sleep(0.05); print({0}, os.getcwd())"
    items = [{"action": "code:execute", "params": {"code": code.format(i)}} for i in range(6)]
    r = server.post("/api/v1/execute/batch", {"worker_id": w, "actions": items, "parallel": True})
    assert [x["data"]["stdout"] for x in r["data"]["results"]] == [f"{i} {'/usr' if i % 2 else '/etc'}\n" for i in range(6)]
    server.disconnect(w)


def test_weakness_25_code_sees_neither_the_servers_processes_nor_its_environment(box, server):
    code = ("import os\nprint(os.getuid(), sorted(os.environ))\n"
            "print([open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])\n"
            f"print(os.path.exists({server.home!r}))")
    out = execute(box, code)["stdout"].splitlines()
    uid, names = out[0].split(" ", 1)
    ours = {"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "HOME", "LC_CTYPE", "LOGNAME", "NODE_PATH", "PATH", "PIP_BREAK_SYSTEM_PACKAGES", "PWD",
            "PYTHONPATH", "PYTHONUNBUFFERED", "SHELL", "TERM", "TZ", "USER"}
    assert uid == "1000" and set(ast.literal_eval(names)) <= ours, out[0]
    assert "sandglass serve" not in out[1].replace("\\x00", " ") and out[2] == "False"


# ---- text tools ----

def test_read_numbers_its_lines(box):
    box.tool("file:write", {"path": "r", "content": "".join(f"l{i}\n" for i in range(1, 2101))})
    whole = text(box, "read", file_path="r")
    assert whole.startswith("   1\u2192l1\n   2\u2192l2\n") and whole.endswith("2000\u2192l2000\n")
    assert text(box, "read", file_path="r", offset=2099, limit=1) == "2099\u2192l2099\n"
    assert "beyond the end" in error(box, "read", file_path="r", offset=5000)
    assert "No such file" in error(box, "read", file_path="none")
    assert "Is a directory" in error(box, "read", file_path=".")


def test_write_edit_and_undo(box):
    assert text(box, "write", file_path="w/a", content="x y x\n") == f"Wrote 6 bytes to {HOME}/w/a"
    assert "old_string found 2 times" in error(box, "edit", file_path="w/a", old_string="x", new_string="z")
    assert "not found" in error(box, "edit", file_path="w/a", old_string="q", new_string="z")
    assert "1 replacement" in text(box, "edit", file_path="w/a", old_string="y", new_string="Y")
    assert "2 replacements" in text(box, "edit", file_path="w/a", old_string="x", new_string="z", replace_all=True)
    assert box.out("cat ~/w/a") == "z Y z\n"
    assert box.tool("file:edit", {"command": "undo_edit", "path": "w/a"})["data"]["content"].endswith("x Y x\n")


def test_glob_and_grep_answer_as_text(box):
    box.out("mkdir -p ~/g/sub; echo 'one needle' > ~/g/a.py; printf 'x\\nneedle two\\n' > ~/g/sub/b.txt; mkfifo ~/g/fifo")
    assert text(box, "glob", pattern="g/**/*.*") == "g/a.py\ng/sub/b.txt"
    assert text(box, "glob", pattern="*.none", path="g") == "No files found"
    assert sorted(text(box, "grep", pattern="needle", path="g").splitlines()) == ["g/a.py:1:one needle", "g/sub/b.txt:2:needle two"]
    assert text(box, "grep", pattern="needle", path="g", glob="*.txt") == "g/sub/b.txt:2:needle two\n"
    assert text(box, "grep", pattern="-v none", path="g") == "No matches found"
    assert "No such file" in error(box, "grep", pattern="x", path="none")
    assert "grep" in error(box, "grep", pattern="[", path="g")


def test_bash_answers_as_text(box):
    assert text(box, "bash", command="echo out") == "out\n"
    assert text(box, "bash", command="true") == "(no output)"
    assert text(box, "bash", command="printf out; echo err >&2") == "out\n[stderr]:\nerr\n"
    r = box.tool("code:bash", {"command": "echo out; exit 4"})
    assert (r["outcome"], r["data"]["result"], r["data"]["exit_code"]) == ("task_error", "out\n", 4)
    r = box.tool("code:bash", {"command": "echo out; sleep 60", "timeout": 0.5})
    assert (r["outcome"], r["data"]["result"], r["data"]["status"]) == ("timeout", "out\n", "timeout")


def test_errors_are_agentflows_business_errors(server):
    r = server.execute(sg.unique("code"), "code:read", {"file_path": "none"}, status=400)
    assert r["code"] == 4001 and r["message"].startswith("Error: ")
