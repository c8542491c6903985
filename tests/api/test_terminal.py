"""The terminal: a shell behind a WebSocket that lives in the box, whoever looks at it."""

import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

import initctl
import sg
import ws
from test_cdp import PLACE, playwright  # noqa: F401


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "2")
    try:
        yield s.start()
    finally:
        s.end()


@pytest.fixture(scope="module")
def box(server):
    return server.create()


def connect(server, box, query="", **more):
    c = ws.Client(server.port, f"/box/{box}/v1/shell/ws{query}", **more)
    return c


def greet(c):
    assert c.message()["type"] == "session_id"
    ready = c.message()
    assert ready["type"] == "ready" and ready["data"] == "Terminal ready"
    assert c.message()["type"] == "size"
    c.offset = ready["offset"]
    return ready["session_id"]


def test_frames_are_those_of_the_contract_and_the_shell_is_real(server, box):
    c = connect(server, box)
    session = greet(c)
    c.json(type="input", data="echo $((6*7)) é; tty\n")
    assert "/dev/pts/" in c.until("/dev/pts/")
    c.json(type="resize", data={"cols": 91, "rows": 33})
    c.json(type="input", data="stty size\n")
    c.until("33 91")
    c.json(type="ping")
    while c.message()["type"] != "pong":
        pass
    assert session in server.get(f"/box/{box}/v1/shell/sessions")["data"]["sessions"]
    r = server.post(f"/box/{box}/v1/shell/exec", {"id": session, "command": "echo by call"})["data"]
    assert r["output"].strip() == "by call"  # the same shell
    c.until("by call")
    c.close()


def test_what_was_missed_is_replayed_also_after_a_restart_of_serve(server, box):
    c = connect(server, box)
    session = greet(c)
    c.json(type="input", data="echo one$((1+1)); (sleep 1; echo late$((2+2))) &\n")
    c.until("one2")
    at = c.offset
    c.close()  # without a word
    server.kill_role("serve")
    server.wait_ready()
    c = sg.wait_for(lambda: connect(server, box, f"?session_id={session}&after={at}"))
    assert greet(c) == session
    assert "one2" not in c.until("late4")
    c.close()
    c = connect(server, box, f"?session_id={session}&restore=true")
    assert greet(c) == session
    types = []
    got = ""
    while "late4" not in got:
        m = c.message()
        types.append(m["type"])
        got += m.get("data", "")
    assert set(types) == {"restore_output"} and "one2" in got
    end = c.message()
    assert end["type"] == "relay_resumed"
    c.close()
    c = connect(server, box, f"?session_id={session}&restore=true&after={end['offset'] + 1000}")  # there is no such past
    greet(c)
    assert c.message() == {"type": "relay_resumed", "offset": c.offset} and c.offset == end["offset"]
    c.close()


def test_two_tabs_see_and_type_the_same_and_share_the_size(server, box):
    a = connect(server, box, "?cols=70&rows=20")
    session = greet(a)
    b = connect(server, box, f"?session_id={session}&after=0")
    greet(b)
    b.json(type="input", data="echo from$((1+2))b\n")
    a.until("from3b"), b.until("from3b")
    a.json(type="resize", cols=60, rows=10)
    while True:
        m = b.message()
        if m["type"] == "size":
            assert m["data"] == {"cols": 60, "rows": 10}
            break
    a.close()
    b.json(type="input", data="echo still$((3+3))\n")
    b.until("still6")
    b.close()


def test_the_binary_form_carries_bytes(server, box):
    c = connect(server, box, "?protocol=binary")
    greet(c)
    c.send(b"printf '\\377\\376X\\n'\n")
    got = b""
    while b"\xff\xfeX" not in got:
        opcode, data = c.recv()
        got += data if opcode == 2 else b""
    c.close()


def test_a_flood_does_not_grow_the_server_and_control_c_gets_through(server, box):
    c = connect(server, box)
    greet(c)
    c.json(type="input", data="yes flood\n")
    c.until("flood\r\nflood")
    time.sleep(0.5)  # nobody reads
    c.json(type="input", data="\x03")
    c.json(type="input", data="echo over$((4+4))\n")
    c.until("over8")
    if not sg.SANITIZED:
        assert int(sg.read(f"/proc/{server.role('serve')}/status").split("VmHWM:")[1].split()[0]) < 50 * 1024
    c.close()


def test_who_does_not_read_holds_up_no_other_of_the_box(server, box):
    slow, quick = connect(server, box), connect(server, box)
    greet(slow), greet(quick)
    slow.json(type="input", data="yes flood\n")
    slow.until("flood\r\nflood")
    time.sleep(0.5)  # what may wait for it does
    for i in range(20):
        quick.json(type="input", data=f"echo quick$(({i}+100))\n")
        quick.until(f"quick{i + 100}")
    slow.json(type="input", data="\x03")
    slow.json(type="input", data="echo slow$((1+1))\n")
    slow.until("slow2")
    slow.close(), quick.close()


def test_all_of_a_large_output_arrives_though_the_client_is_late(server, box):
    c = connect(server, box, "?protocol=binary")
    greet(c)
    c.send(b"stty -onlcr; PS1=; clear; head -c 900000 /dev/zero | tr '\\0' z; echo; echo all$((2+2))\n")
    time.sleep(0.5)
    got = b""
    while b"all4" not in got:
        opcode, data = c.recv()
        got += data if opcode == 2 else b""
    assert got.count(b"z") >= 900000
    c.close()


def test_a_large_paste_arrives_whole_and_typing_goes_on(server, box):
    c = connect(server, box, "?protocol=binary")
    greet(c)
    c.send(b"stty raw -echo; echo now; head -c 1000000 | wc -c; stty sane\n")
    got = b""
    while b"now\n" not in got:  # raw: no carriage return
        got += c.recv()[1]
    c.send(b"x" * 1000000)  # more than serve keeps for the box before it holds who types
    c.send(b"echo typed$((3+4))\n")
    while b"typed7" not in got:
        got += c.recv()[1]
    assert b"1000000" in got.split(b"now\n")[1]
    c.close()


def test_who_types_more_than_a_program_reads_is_told_what_is_lost(server, box):
    c = connect(server, box, "?protocol=binary")
    greet(c)
    c.send(b"stty raw -echo; echo now; sleep 1000\n")
    got = b""
    while b"now\n" not in got:
        got += c.recv()[1]
    for _ in range(6):
        c.send(b"x" * 400000)  # nobody reads it, and 1 MiB may wait
    lost = 0
    while lost < 6 * 400000 - (1 << 20) - (1 << 17):  # the kernel keeps some of it, too
        opcode, data = c.recv()
        if opcode == 1 and json.loads(data)["type"] == "error":
            said = json.loads(data)["data"]
            assert "LIMIT_TERMINAL_INPUT (1048576 bytes)" in said
            lost += int(said.split()[0])
    assert lost <= 6 * 400000
    c.close()


def test_places_of_viewers_are_used_again(server, box):
    stays = connect(server, box)
    session = greet(stays)
    for i in range(60):
        c = connect(server, box, f"?session_id={session}&after=0" if i % 3 else "?session_id=nobody")
        if i % 3:
            greet(c)
        else:
            assert c.message()["type"] == "error"
        c.close()
    stays.json(type="input", data="echo stays$((1+1))\n")
    stays.until("stays2")
    stays.close()


def test_a_viewer_may_leave_and_another_come_while_the_session_is_closed(server, box):
    stays, goes = connect(server, box), connect(server, box)
    session, closed = greet(stays), greet(goes)
    init = server.init_pid(box)
    os.kill(init, signal.SIGSTOP)  # so that it hears of all this at once
    try:
        delete = threading.Thread(target=server.delete, args=(f"/box/{box}/v1/shell/sessions/{closed}",))
        delete.start()
        time.sleep(0.3)
        goes.close()
        time.sleep(0.3)
        comes = connect(server, box, f"?session_id={session}")
        time.sleep(0.3)
    finally:
        os.kill(init, signal.SIGCONT)
    delete.join()
    assert greet(comes) == session
    comes.json(type="input", data="echo both$((1+1))\n")
    comes.until("both2"), stays.until("both2")
    comes.close(), stays.close()


def test_a_new_size_is_told_to_others_though_the_program_is_silent(server, box):
    a = connect(server, box)
    session = greet(a)
    b = connect(server, box, f"?session_id={session}&after=0")
    greet(b)
    a.json(type="input", data="stty -echo; echo now$((1+1)); exec sleep 1000\n")
    b.until("now2")
    a.json(type="resize", cols=61, rows=11)
    while (m := b.message())["type"] != "size":
        pass
    assert m["data"] == {"cols": 61, "rows": 11}
    c = connect(server, box, f"?session_id={session}&cols=62&rows=12")
    greet(c)
    while (m := b.message())["type"] != "size":
        pass
    assert m["data"] == {"cols": 62, "rows": 12}
    a.close(), b.close(), c.close()


def test_unknown_sessions_bad_messages_and_other_origins_are_told(server, box):
    c = connect(server, box, "?session_id=nobody")
    assert c.message() == {"type": "error", "data": "Session not found"}
    assert c.recv()[0] == 8
    for query in ("?restore=true", "?durable=true"):
        with pytest.raises(ws.Refused) as e:
            connect(server, box, query)
        assert e.value.status == 400
    with pytest.raises(ws.Refused) as e:
        connect(server, box, headers=["Origin: http://evil.example"])
    assert e.value.status == 403
    with pytest.raises(ws.Refused) as e:
        connect(server, box, headers=["Origin: null"])
    assert e.value.status == 403
    c = connect(server, box)
    greet(c)
    c.json(type="resize", data={"cols": 0, "rows": 5})
    while True:
        m = c.message()
        if m["type"] == "error":
            assert "1 to 1000" in m["data"]
            break
    c.send("x" * 10, opcode=0)  # continues nothing
    while True:
        opcode, data = c.recv()
        if opcode == 8:
            assert int.from_bytes(data[:2], "big") == 1002
            break
    assert server.request("GET", f"/box/{box}/v1/shell/ws").status == 426


def test_closing_the_session_ends_the_viewers(server, box):
    c = connect(server, box)
    session = greet(c)
    server.delete(f"/box/{box}/v1/shell/sessions/{session}")
    while True:
        opcode, data = c.recv()
        if opcode == 8:
            break
        last = json.loads(data)
    assert last["type"] == "exit"


def test_who_does_not_read_is_told_of_the_end_all_the_same(server, box):
    c = connect(server, box)
    session = greet(c)
    c.json(type="input", data="yes flood\n")
    c.until("flood\r\nflood")
    time.sleep(1)  # all waits for it that may
    server.delete(f"/box/{box}/v1/shell/sessions/{session}")
    while (frame := c.recv())[0] != 8:
        last = json.loads(frame[1])
    assert last == {"type": "exit", "data": "the session was closed"}


def test_a_box_that_is_reset_ends_its_viewers_and_has_new_ones(server):
    box = server.create()
    for _ in range(3):
        c, other = connect(server, box), connect(server, box)
        greet(c), greet(other)
        server.tool(box, "box:reset")
        while (frame := c.recv())[0] != 8:
            last = json.loads(frame[1])
        assert last == {"type": "error", "data": "the box or the session ended"}
        other.sock.close()
    c = connect(server, box)
    greet(c)
    c.json(type="input", data="echo new$((1+1))\n")
    c.until("new2")
    c.close()
    server.destroy(box)


def test_the_page_has_all_that_it_needs_here(server):
    page = server.request("GET", "/terminal")
    assert page.status == 200 and "'none'" in page.headers["Content-Security-Policy"]
    text = page.body.decode()
    assert "http://" not in text and "https://" not in text  # nothing from other sites
    for name in ("xterm.js", "xterm.css", "addon-fit.js", "addon-unicode11.js", "terminal.js"):
        assert f"static/terminal/{name}" in text
        part = server.request("GET", f"/static/terminal/{name}")
        assert part.status == 200 or name != "terminal.js"
    assert server.request("GET", "/static/terminal/nope").status == 404


def test_a_person_types_pastes_copies_and_keeps_the_session_in_a_real_browser(server, box, playwright):  # noqa: F811
    if not os.path.exists("/usr/lib/chromium/chromium") or not server.request("GET", "/static/terminal/xterm.js").body:
        pytest.skip("Debian's chromium is not installed, or xterm.js was not built in")
    script = PLACE / "terminal.mjs"
    script.write_text((sg.ROOT / "tests" / "api" / "terminal.mjs").read_text())
    words = ["node", script, f"{server.url}/box/{box}/terminal", *filter(None, [os.environ.get("SHOTS")])]
    with subprocess.Popen(words, cwd=PLACE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        if p.stdout.readline() == "kill\n":
            server.kill_role("serve", wait=False)
            p.stdin.write("done\n")
            p.stdin.flush()
        out, err = p.communicate(timeout=120)
    assert p.returncode == 0, err
    saw = json.loads(out)
    assert saw.pop("size") != saw["larger"] == saw.pop("again"), "the size is that of the tab in use"
    saw.pop("larger")
    assert saw == {"errors": [], "wide": True, "column": "at5", "typed": " ", "answers": 6, "pasted": True, "lines": True,
                   "copied": ["COPY1", "COPY1"], "reconnected": [True, True, 1]}


def test_a_command_that_is_killed_before_it_has_begun_is_terminated_and_the_shell_lives(server, box):
    at = f"/box/{box}/v1/shell"
    server.post(f"{at}/exec", {"id": "early", "create": True, "command": "kept=yes"})
    for _ in range(15):
        server.post(f"{at}/exec", {"id": "early", "command": "sleep 60", "async_mode": True})
        assert server.post(f"{at}/kill", {"id": "early"})["data"]["status"] == "terminated"
    assert server.post(f"{at}/exec", {"id": "early", "command": "echo $kept"})["data"]["output"] == "yes"


class OldInit:
    """Stands between serve and the init of a box, and refuses what an init of an earlier build does not know."""

    def __init__(self, server, box):
        self.path = f"{server.home}/run/box/{box}.sock"
        os.rename(self.path, self.path + ".real")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            serve, init = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
            init.connect(self.path + ".real")
            for a, b in ((serve, init), (init, serve)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        source = a.makefile("rb")
        while head := source.read(initctl.HEAD.size):
            size, kind, fds, call = initctl.HEAD.unpack(head)
            payload, to = source.read(size), b
            if kind == initctl.HELLO:
                payload = initctl.pack([("version", initctl.INT, 1), ("build", initctl.STR, "0ldbu1d")])
            tool = initctl.unpack(payload).get("tool") if kind == initctl.CALL else None
            if kind == 10:  # DIAL
                payload = initctl.pack([("error", initctl.INT, 1), ("message", initctl.STR, "init cannot connect to 'views'")])
                kind, to = 11, a
            elif tool == "file:find":
                payload = initctl.pack([("outcome", initctl.INT, initctl.OUTCOMES.index("infra_error")),
                                        ("error", initctl.INT, 4), ("message", initctl.STR, f"init has no tool '{tool}'")])
                kind, to = initctl.RESULT, a
            to.sendall(initctl.HEAD.pack(len(payload), kind, 0, call) + payload)


def test_a_box_of_an_older_build_says_what_it_lacks_and_why(server):
    box = server.create()
    OldInit(server, box)
    server.kill_role("serve")
    server.wait_ready()
    assert server.tool(box, "bash:run", {"command": "echo lives"})["data"]["stdout"] == "lives\n"
    why = "made by another build of sandglass, whose init does not know this: reset the box, or use a new one"
    c = connect(server, box)
    while (m := c.message())["type"] != "error":
        pass
    assert why in m["data"]
    r = server.tool(box, "file:find", {"path": "/", "name": "*"}, status=None)
    assert r["outcome"] == "infra_error" and why in r["message"], r


def test_an_init_that_hangs_up_again_and_again_is_given_up(server):
    """Root of a box can make its init do that; it must not keep the server busy."""
    box = server.create()
    path = f"{server.home}/run/box/{box}.sock"
    os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o777)
    listener.listen()
    came = []

    def hang_up():
        while True:
            came.append(listener.accept()[0].close())

    threading.Thread(target=hang_up, daemon=True).start()
    server.kill_role("serve")
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404)
    assert len(came) < 100 and server.get("/health")["status"] == "healthy"
