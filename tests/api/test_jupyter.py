"""Real Jupyter kernels in real boxes. Most tests share one kernel, because a kernel is slow to start on a busy machine."""

import base64
import concurrent.futures
import pathlib
import struct
import time

import pytest

import sg

pytestmark = pytest.mark.skipif(not pathlib.Path("/usr/share/jupyter/kernels/python3").exists(),
                                reason="python3-ipykernel is not installed")


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="768m", disk="64m", pids=200) as b:
        yield b


def cell(box, code, outcome="ok", session="main", call_timeout=60, tool="execute", **params):
    args = {"session": session, **params} if code is None else {"code": code, "session": session, **params}
    r = box.tool("jupyter:" + tool, args, timeout=call_timeout)
    assert r["outcome"] == outcome, r
    return r["data"]


def test_state_stays_over_calls_and_outputs_are_those_of_a_notebook(box):
    d = cell(box, "x = 41\nprint('hello')\nimport sys; print('oops', file=sys.stderr)\nx + 1")
    assert [(o["output_type"], o.get("name")) for o in d["outputs"]] == [
        ("stream", "stdout"), ("stream", "stderr"), ("execute_result", None)]
    assert d["outputs"][2]["data"] == {"text/plain": "42"} and d["status"] == "ok"
    assert d["stdout"] == "hello\n42\n" and d["stderr"] == "oops\n"
    again = cell(box, "x")
    assert again["outputs"][0]["data"]["text/plain"] == "41"
    assert again["execution_count"] == d["execution_count"] + 1 and again["kernel_restarted"] is False


def test_an_exception_is_an_error_with_its_traceback(box):
    d = cell(box, "def f():\n    return 1 / 0\nf()", "task_error")
    assert (d["status"], d["ename"], d["evalue"]) == ("error", "ZeroDivisionError", "division by zero")
    assert d["outputs"][-1]["output_type"] == "error" and len(d["outputs"][-1]["traceback"]) > 2
    assert cell(box, "f.__name__")["stdout"] == "'f'\n"  # what follows is not aborted


def test_displays_are_updated_and_cleared(box):
    d = cell(box, """
from IPython.display import display, HTML, JSON, clear_output
h = display(HTML('<b>1</b>'), display_id=True)
h.update(HTML('<b>2</b>'))
display(JSON({'a': [1, 2]}))
""")
    assert [o["data"].get("text/html") for o in d["outputs"]][:1] == ["<b>2</b>"]
    assert d["outputs"][1]["data"]["application/json"] == {"a": [1, 2]}
    d = cell(box, "h.update(HTML('<b>3</b>'))\nh.update(HTML('<b>4</b>'))")  # a display of an earlier cell, which was told already
    assert [o["data"]["text/html"] for o in d["outputs"]] == ["<b>4</b>"]
    d = cell(box, "print('gone'); clear_output(); print('there')")
    assert d["stdout"] == "there\n"
    d = cell(box, "print('gone'); clear_output(wait=True); print('there')")
    assert d["stdout"] == "there\n"


def test_a_figure_is_a_png_and_a_table_is_html(box):
    d = cell(box, """
import matplotlib.pyplot as plt, pandas as pd
plt.plot([1, 4, 9]); plt.title('squares'); plt.show()
pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})
""", call_timeout=120)
    image = next(o for o in d["outputs"] if o["output_type"] == "display_data")["data"]["image/png"]
    png = base64.b64decode(image)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 100 and height > 100
    html = d["outputs"][-1]["data"]["text/html"]
    assert "<table" in html and "<td>y</td>" in html


def test_a_prompt_is_reported_and_answered(box):
    d = cell(box, "name = input('your name? ')\nprint('hi', name)")
    assert (d["status"], d["prompt"], d["password"]) == ("waiting_for_input", "your name? ", False)
    r = box.tool("jupyter:execute", {"code": "1", "session": "main"})
    assert r["outcome"] == "task_error" and "waits for input" in r["message"]
    d = cell(box, None, tool="input", text="Ada")
    assert d["status"] == "ok" and d["stdout"] == "hi Ada\n"
    assert cell(box, "print(input(), input())", stdin=["a", "b"])["stdout"] == "a b\n"
    cell(box, "input()")
    assert cell(box, None, tool="interrupt")["interrupted"] is True  # a cell that asks can be given up
    assert cell(box, "name")["stdout"] == "'Ada'\n"


def test_a_hundred_megabytes_keep_head_and_tail(box):
    d = cell(box, "print('first')\nfor i in range(100): print('y' * 1048575)\nprint('last')", call_timeout=120)
    assert len(d["outputs"]) == 1
    text = d["outputs"][0]["text"]
    assert len(text) < 200_000 and text.startswith("first\n") and text.endswith("last\n")
    assert "bytes" in text  # says how much is missing


def test_an_endless_loop_times_out_and_variables_stay(box):
    cell(box, "kept = 'yes'")
    d = cell(box, "print('on')\nwhile True: pass", "timeout", timeout=1)
    assert d["status"] == "timeout" and d["stdout"] == "on\n" and d["kernel_died"] is False
    assert cell(box, "kept")["stdout"] == "'yes'\n"


def test_an_endless_loop_is_interrupted_by_another_call(box):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loop = pool.submit(cell, box, "kept = 'still'\nwhile True: pass", "task_error")
        sg.wait_for(lambda: any(s["status"] == "busy" for s in box.tool("jupyter:list", {})["data"]["sessions"]), 20)
        time.sleep(0.2)
        assert cell(box, None, tool="interrupt")["interrupted"] is True
        assert loop.result(60)["status"] == "interrupted"
    assert cell(box, "kept")["stdout"] == "'still'\n"


def test_completion_inspection_and_what_there_is(box):
    cell(box, "def documented(a, b=2):\n    'Says what it does.'")
    r = cell(box, "docum", tool="complete")
    assert "documented" in r["matches"] and (r["cursor_start"], r["cursor_end"]) == (0, 5)
    r = cell(box, "documented", tool="inspect")
    assert r["found"] and "Says what it does." in r["text"] and "\x1b" not in r["text"]
    info = box.tool("jupyter:info", {})["data"]
    assert "python3" in [k["name"] for k in info["kernels"]] and info["active_sessions"] >= 1
    r = box.tool("jupyter:execute", {"code": "1", "session": "other", "kernel_name": "cobol"}, status=400)
    assert r["outcome"] == "invalid_request" and "kernel_name" in r["message"] and "python3" in r["message"]


def test_a_killed_kernel_is_reported_and_replaced(box):
    box.tool("file:write", {"path": "kept.txt", "content": "kept"})
    d = cell(box, "import os, signal; gone = 1; os.kill(os.getpid(), signal.SIGKILL)", "task_error")
    assert d["status"] == "died" and d["kernel_died"] and "SIGKILL" in d["evalue"]
    d = cell(box, "print(open('kept.txt').read(), 'gone' in globals())")
    assert d["stdout"] == "kept False\n" and d["kernel_restarted"] is True
    assert cell(box, "1")["kernel_restarted"] is False


def test_a_memory_bomb_is_oom_and_the_next_cell_runs(box):
    d = cell(box, "b = bytearray(900 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1", "oom")
    assert d["status"] == "died"
    assert cell(box, "2 + 2")["stdout"] == "4\n"


def test_a_fork_bomb_is_pid_limit_and_the_next_cell_runs(box):
    code = "import subprocess\nkids = []\ntry:\n  while True:\n    kids.append(subprocess.Popen(['sleep', '600']))\n" \
           "finally:\n  for k in kids: k.kill()\n  for k in kids: k.wait()"
    cell(box, code, "pid_limit", call_timeout=120)
    assert cell(box, "3 + 3")["stdout"] == "6\n"


def test_a_restart_forgets_variables_and_delete_ends_the_process(box):
    pid = int(cell(box, "v = 1; import os; os.getpid()", session="brief")["stdout"])
    cell(box, None, session="brief", tool="restart")
    assert cell(box, "'v' in globals()", session="brief")["stdout"] == "False\n"
    pid2 = int(cell(box, "import os; os.getpid()", session="brief")["stdout"])
    assert pid2 != pid
    assert box.tool("jupyter:delete", {"session": "brief"})["data"]["deleted"] == 1
    sg.wait_for(lambda: box.tool("bash:run", {"command": f"kill -0 {pid2}"})["data"]["exit_code"] != 0)
    r = box.tool("jupyter:delete", {"session": "brief"})
    assert r["outcome"] == "task_error" and "brief" in r["message"]


def test_a_kernel_that_sends_garbage_is_ended_and_its_driver_lives(box):
    spec = '{"argv": ["python3", "/home/gem/liar.py", "{connection_file}"], "display_name": "Liar", "language": "none"}'
    liar = """
import json, socket, sys, threading, time
c = json.load(open(sys.argv[1]))
def serve(port):
    s = socket.socket(socket.AF_UNIX); s.bind(f"{c['ip']}-{port}"); s.listen()
    while True:
        x, _ = s.accept()
        x.sendall(bytes(range(255, -1, -1)) * 500)
for p in range(1, 6): threading.Thread(target=serve, args=(p,)).start()
"""
    box.tool("file:write", {"path": ".local/share/jupyter/kernels/liar/kernel.json", "content": spec})
    box.tool("file:write", {"path": "liar.py", "content": liar})
    r = box.tool("jupyter:execute", {"code": "1", "session": "lies", "kernel_name": "liar"}, timeout=60)
    assert r["outcome"] == "task_error" and "does not speak the Jupyter protocol" in r["message"], r
    assert "liar" in [k["name"] for k in box.tool("jupyter:info", {})["data"]["kernels"]]
    box.tool("jupyter:delete", {"session": "lies"})
    assert "liar.py" not in box.tool("bash:run", {"command": "ps ax"})["data"]["stdout"]


def test_kernels_survive_a_restart_of_serve(box, server):
    cell(box, "survivor = 7", session="long")
    server.kill_role("serve")
    server.wait_ready()
    assert cell(box, "survivor", session="long")["stdout"] == "7\n"


def test_twenty_kernels_at_once(server):
    with server.box(memory="3g", pids=2000) as b:
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            done = list(pool.map(lambda i: cell(b, f"me = {i}\nprint(me * me)", session=f"k{i}", call_timeout=300),
                                 range(20)))
            assert [d["stdout"] for d in done] == [f"{i * i}\n" for i in range(20)]
            done = list(pool.map(lambda i: cell(b, "me", session=f"k{i}", call_timeout=120), range(20)))
        assert [d["stdout"] for d in done] == [f"{i}\n" for i in range(20)]
        assert len(b.tool("jupyter:list", {})["data"]["sessions"]) == 20
        assert b.tool("jupyter:delete", {"all": True})["data"]["deleted"] == 20
