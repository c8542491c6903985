"""The desktop of a box: every tool is judged by what a program on the screen really received."""

import base64
import json
import re
import struct
import threading
import zlib

import pytest

import sg

PATIENCE = 60


def png(data):
    """(width, height, rows of RGB bytes) of a PNG without filters, which is what the desktop writes."""
    raw = base64.b64decode(data)
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, size = 8, b"", None
    while at < len(raw):
        n, kind = struct.unpack(">I4s", raw[at:at + 8])
        body = raw[at + 8:at + 8 + n]
        assert zlib.crc32(kind + body) == struct.unpack(">I", raw[at + 8 + n:at + 12 + n])[0]
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
            assert body[8:] == b"\x08\x02\x00\x00\x00"
        packed += body if kind == b"IDAT" else b""
        at += 12 + n
    pixels, line = zlib.decompress(packed), 1 + 3 * size[0]
    assert len(pixels) == line * size[1]
    return size[0], size[1], [pixels[i * line + 1:(i + 1) * line] for i in range(size[1])]


class Desktop:
    def __init__(self, box):
        self.box = box

    def __getattr__(self, tool):
        def call(outcome="ok", status=200, **params):
            r = self.box.tool(f"desktop:{tool}", params, status=status)
            assert r["outcome"] == outcome, r
            return r["data"] if outcome == "ok" else r
        return call

    def window(self, text):
        """The content of the window with this title, once it is there."""
        assert self.wait(title=text, seconds=PATIENCE)["found"], self.windows()
        return [w for w in self.windows()["windows"] if text in w["title"] or text in w["program"]][-1]

    def close(self, window):
        self.windows(action="close", window=window["id"])
        sg.wait_for(lambda: window["id"] not in [w["id"] for w in self.windows()["windows"]], PATIENCE)


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


@pytest.fixture(scope="module")
def desk(server):
    with server.box(memory="1g") as b:
        if b.code("command -v Xtigervnc && command -v jwm && command -v xterm"):
            pytest.skip("Debian's tigervnc-standalone-server, jwm and xterm are not installed")
        yield Desktop(b)


@pytest.fixture
def cat(desk):
    """A terminal whose program writes into a file what it is given, line by line."""
    desk.launch(command="rm -f /tmp/typed; exec xterm -T typewriter -e 'cat > /tmp/typed'")
    w = desk.window("typewriter")
    desk.click(x=w["x"] + w["width"] // 2, y=w["y"] + w["height"] // 2)

    def typed(until):
        return sg.wait_for(lambda: until(desk.box.run("cat /tmp/typed")["data"]["stdout"]), PATIENCE)
    typed.window = w
    yield typed
    desk.close(w)


@pytest.fixture
def events(desk):
    """A window that tells of every event, and what it told."""
    if desk.box.code("command -v xev"):
        pytest.skip("xev is not installed (Debian: x11-utils)")
    desk.launch(command="exec stdbuf -oL xev -name watcher -event mouse -event keyboard > /tmp/events")
    w = desk.window("watcher")
    desk.click(x=w["x"] + 100, y=w["y"] + 100)

    def told(*patterns):
        """Waits until these have been told, in this order."""
        def all_there():
            text = desk.box.run("cat /tmp/events")["data"]["stdout"]
            at = 0
            for p in patterns:
                found = re.compile(p, re.S).search(text, at)
                if not found:
                    return False
                at = found.end()
            return text
        return sg.wait_for(all_there, PATIENCE)
    told.window = w
    yield told
    desk.close(w)


def test_a_screenshot_shows_the_whole_screen_as_it_is(desk):
    shot = desk.screenshot()
    width, height, _ = png(shot["image"])
    assert [width, height] == shot["size"] == [1280, 800] and shot["mime_type"] == "image/png"
    # the colour of the empty desktop, and a bar with a clock
    sg.wait_for(lambda: png(desk.screenshot()["image"])[2][100][300:303] == b"\x2e\x34\x40", PATIENCE)
    sg.wait_for(lambda: len({bytes(r) for r in png(desk.screenshot()["image"])[2]}) > 3, PATIENCE)
    desk.launch(command="exec xterm -T red -bg '#ff0000' -fg '#ff0000' -geometry 40x10+300+200 -e cat")
    w = desk.window("red")
    x, y = w["x"] + w["width"] // 2, w["y"] + w["height"] // 2
    sg.wait_for(lambda: png(desk.screenshot()["image"])[2][y][3 * x:3 * x + 3] == b"\xff\0\0", PATIENCE)
    desk.close(w)
    sg.wait_for(lambda: png(desk.screenshot()["image"])[2][y][3 * x:3 * x + 3] == b"\x2e\x34\x40", PATIENCE)


def test_text_in_any_script_reaches_the_program_as_it_was_typed(desk, cat):
    text = "Plain ASCII: ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./\näöüß é ñ € Ω ж 漢字 かな 😀\n"
    r = desk.type(text=text)
    assert r["typed"] == text and r["length"] == len(text)
    cat(lambda got: got == text)


def test_many_different_characters_in_one_text(desk, cat):
    text = "".join(chr(0x4e00 + i) for i in range(60)) + "\n"
    desk.type(text=text)
    cat(lambda got: got == text)


def test_keys_and_hotkeys_do_what_they_do_on_a_keyboard(desk, cat):
    desk.type(text="abd", interval=0.01)
    desk.key(key="backspace")
    desk.key(key="c")
    desk.key(key="enter")
    desk.key_down(key="shift")
    desk.key(key="a")
    desk.key_up(key="shift")
    desk.key(key="Return")
    cat(lambda got: got == "abc\nA\n")
    assert desk.hotkey(keys=["ctrl", "d"])["keys"] == ["ctrl", "d"]
    sg.wait_for(lambda: not [w for w in desk.windows()["windows"] if w["title"] == "typewriter"], PATIENCE)
    desk.launch(command="exec xterm -T typewriter -e cat")
    cat.window.update(desk.window("typewriter"))
    r = desk.key(key="no such key", outcome="invalid_request", status=400)
    assert "key: there is no key 'no such key'" in r["message"]


def test_the_mouse_presses_the_buttons_where_it_was_told(desk, events):
    w = events.window
    at = (w["x"] + 30, w["y"] + 40)
    assert desk.click(x=at[0], y=at[1])["clicked"] == list(at)
    desk.right_click(x=at[0] + 5, y=at[1])
    assert desk.right_click()["clicked"] is None
    desk.click(x=at[0] + 9, y=at[1], button="middle")
    press = r"ButtonPress event.{0,200}?root:\(%d,%d\).{0,80}?button %d"
    events(press % (*at, 1), press % (at[0] + 5, at[1], 3), press % (at[0] + 5, at[1], 3), press % (at[0] + 9, at[1], 2))
    desk.double_click(x=at[0] + 1, y=at[1])
    text = events(press % (at[0] + 1, at[1], 1), press % (at[0] + 1, at[1], 1))
    times = [int(t) for t in re.findall(r"ButtonPress event.{0,200}?time (\d+), \(31,40\)", text, re.S)]
    assert len(times) >= 2 and times[-1] - times[-2] < 400, "fast enough for a double click"
    desk.move(x=at[0] + 20, y=at[1] + 20)
    desk.mouse_down()
    desk.move(x=at[0] + 40, y=at[1] + 20)
    desk.mouse_up()
    events(r"MotionNotify.{0,200}?root:\(%d,%d\)" % (at[0] + 20, at[1] + 20), press % (at[0] + 20, at[1] + 20, 1),
           r"MotionNotify.{0,200}?root:\(%d,%d\).{0,40}state 0x100" % (at[0] + 40, at[1] + 20),
           r"ButtonRelease.{0,200}?root:\(%d,%d\)" % (at[0] + 40, at[1] + 20))


def test_the_wheel_and_the_keys_with_names(desk, events):
    w = events.window
    at = (w["x"] + 60, w["y"] + 60)
    assert desk.scroll(x=at[0], y=at[1], clicks=2)["position"] == list(at)
    desk.scroll(x=at[0], y=at[1], clicks=-1)
    desk.scroll(x=at[0], y=at[1], clicks=1, horizontal=True)
    press = r"ButtonPress event.{0,300}?button %d"
    events(press % 4, press % 4, press % 5, press % 7)
    for key in ("f5", "pageup", "left", "esc", "tab", "delete", "ctrlleft", "altright", "win", "num7"):
        desk.key(key=key)
    events(*[rf"KeyPress.{{0,200}}?keysym 0x[0-9a-f]+, {name}\)" for name in (
        "F5", "Prior", "Left", "Escape", "Tab", "Delete", "Control_L", "Alt_R", "Super_L", "KP_7")])


def test_a_window_is_dragged_by_its_bar(desk):
    desk.launch(command="exec xterm -T wanderer -geometry 40x10+200+200 -e cat")

    def dragged():
        """Again, if the window manager was still about to place it."""
        w = desk.window("wanderer")
        start = (w["x"] + w["width"] // 3, w["y"] - 10)
        r = desk.drag(start_x=start[0], start_y=start[1], end_x=start[0] + 150, end_y=start[1] + 90)
        assert r["from"] == list(start) and r["to"] == [start[0] + 150, start[1] + 90]
        for _ in range(25):
            now = desk.window("wanderer")
            if (now["x"], now["y"]) == (w["x"] + 150, w["y"] + 90):
                return True
            desk.wait(seconds=0.2)
        desk.windows(action="focus", title="wanderer")
        if now["x"] > 700 or now["y"] > 450:  # there is no room for another way
            desk.drag(start_x=now["x"] + 20, start_y=now["y"] - 10, end_x=220, end_y=200)
        return False
    sg.wait_for(dragged, PATIENCE)
    desk.close(desk.window("wanderer"))


def test_windows_are_listed_and_brought_to_the_front(desk):
    for name in ("first", "second"):
        desk.launch(command=f"exec xterm -T {name} -e cat")
        desk.window(name)
    desk.windows(action="focus", title="first")
    sg.wait_for(lambda: [w["title"] for w in desk.windows()["windows"] if w["active"]] == ["first"], PATIENCE)
    w = desk.window("second")
    assert w["program"] == "XTerm" and w["pid"] > 0 and w["width"] > 100
    for name in ("first", "second"):
        desk.close(desk.window(name))
    r = desk.windows(action="focus", window=12345, outcome="task_error")
    assert "there is no window 12345" in r["message"]


def test_the_clipboard_goes_to_programs_and_comes_from_them(desk, cat):
    text = "pasted: äöü 漢字\nsecond line\n"
    desk.clipboard(action="set", text=text)
    assert desk.clipboard()["text"] == text
    desk.hotkey(keys=["shift", "insert"])
    cat(lambda got: got == text)
    w = cat.window
    desk.type(text="marked\n")
    cat(lambda got: got.endswith("marked\n"))

    def marked():
        desk.double_click(x=w["x"] + 10, y=w["y"] + 8)  # the first word of the terminal
        return desk.clipboard()["text"] == "pasted"
    sg.wait_for(marked, PATIENCE, every=0.5)


def test_the_screen_takes_another_size(desk):
    assert desk.screen(width=1024, height=600) == {"width": 1024, "height": 600, "restarted": False}
    assert desk.screenshot()["size"] == [1024, 600]
    r = desk.click(x=1024, y=10, outcome="invalid_request", status=400)
    assert "x: 1024 is outside of the screen (1024x600)" in r["message"]
    desk.screen(width=1280, height=800)
    assert png(desk.screenshot()["image"])[:2] == (1280, 800)
    r = desk.screen(width=8000, height=8000, outcome="task_error")
    assert "LIMIT_SCREEN_PIXELS" in r["message"]


def test_waiting_ends_with_the_window_or_with_the_time(desk):
    r = desk.wait(seconds=0.2)
    assert r["waited"] >= 0.2 and not r["found"]
    assert not desk.wait(seconds=0.3, title="no such window")["found"]
    r = desk.box.tool("desktop:wait", {"seconds": 60}, timeout=1)
    assert r["outcome"] == "timeout", r
    assert desk.screenshot()["size"] == [1280, 800], "the next call goes on"


def test_programs_of_the_shell_find_the_screen(desk):
    assert desk.box.out("echo $DISPLAY").strip() == ":0"
    desk.box.tool("bash:start", {"command": "exec xterm -T from-the-shell -e cat"})
    desk.close(desk.window("from-the-shell"))


def test_a_screen_that_dies_is_replaced_and_the_call_says_so(server):
    with server.box(memory="1g") as b:
        desk = Desktop(b)
        desk.screenshot()
        b.run("pkill -9 Xtigervnc")

        def back():
            r = b.tool("desktop:screenshot")
            return r if r["outcome"] == "ok" and r["data"]["restarted"] else None
        sg.wait_for(back, PATIENCE)
        assert desk.screenshot()["restarted"] is False


def test_two_boxes_have_two_screens(server, desk):
    with server.box(memory="1g") as b:
        other = Desktop(b)
        other.launch(command="exec xterm -T only-here -e cat")
        other.window("only-here")
        assert "only-here" not in [w["title"] for w in desk.windows()["windows"]]


def test_vm_tools_are_served_by_a_desktop_and_say_so(server):
    session = server.session("vm-worker", "vm", screen_size=[800, 600])
    assert session["resource_type"] == "vm"
    r = server.execute("vm-worker", "vm:screenshot")
    assert r["code"] == 0 and r["data"]["size"] == [800, 600] and r["meta"]["engine"] == "desktop"
    r = server.execute("vm-worker", "vm:click", {"x": 100, "y": 200})
    assert r["data"]["clicked"] == [100, 200] and r["data"]["button"] == "left" and "accessibility_tree" in r["data"]
    r = server.execute("vm-worker", "vm:right_click", {"x": 1}, status=None)
    assert r["code"] != 0 and "x and y, or neither" in r["message"]
    server.disconnect("vm-worker")
    r = server.request("POST", "/api/v1/session/create",
                       {"worker_id": "vm-2", "resource_type": "vm", "session_config": {"screen_size": [1, 2]}})
    assert "screen_size" in r.json["message"] or "screen_size" in str(r.json), r


def test_the_setting_vm_engine_takes_the_vm_tools_away():
    with sg.running("--vm-engine", "none", "--pool-size", "0") as s:
        r = s.execute("w", "vm:screenshot", status=None)
        assert r["code"] == 4002, r


def film(box, path):
    """What ffprobe tells of a file of the box."""
    r = json.loads(box.out(f"ffprobe -v error -count_frames -show_streams -show_format -of json {path}", timeout=60))
    v = r["streams"][0]
    return v["codec_name"], v["width"], v["height"], int(v["nb_read_frames"]), float(r["format"]["duration"])


def test_the_screen_is_filmed_until_it_is_told_to_stop(desk):
    if desk.box.code("command -v ffmpeg && command -v ffprobe"):
        pytest.skip("Debian's ffmpeg is not installed")
    assert desk.record(action="status")["status"] == "idle"
    r = desk.record(action="start", save_path="/home/gem/films/one.mp4", fps=10)
    assert r["status"] == "recording" and r["save_path"] == "/home/gem/films/one.mp4"
    again = desk.box.tool("desktop:record", {"action": "start"}, status=None)
    assert again["outcome"] != "ok" and "under way" in again["message"], again
    sg.wait_for(lambda: desk.record(action="status")["duration"] > 2, PATIENCE)
    r = desk.record(action="stop")
    assert r["status"] == "stopped" and r["duration"] > 2 and r["file_size_bytes"] > 0
    codec, width, height, frames, duration = film(desk.box, "/home/gem/films/one.mp4")
    assert (codec, width, height) == ("h264", 1280, 800) and frames >= 5 and duration > 0.5
    desk.record(action="start", save_path="two.mp4", fps=5, max_duration=1, width=640, height=400)
    sg.wait_for(lambda: desk.record(action="status")["status"] == "stopped", PATIENCE)
    assert film(desk.box, "/home/gem/two.mp4")[:3] == ("h264", 640, 400)
    r = desk.box.tool("desktop:record", {"action": "start", "save_path": "/proc/no.mp4"})
    assert r["outcome"] == "task_error" and "ffmpeg" in r["message"], r


def test_a_handover_ends_when_a_person_says_so_or_in_time(server, desk):
    r = desk.handover(message="nobody will", timeout=0.3)
    assert r["done"] is False and r["waited"] >= 0.3
    answer = []
    t = threading.Thread(target=lambda: answer.append(desk.box.tool("desktop:handover", {"message": "please log in", "timeout": 300}, timeout=320)))
    t.start()
    where = f"/box/{desk.box.id}/vnc/handover"
    sg.wait_for(lambda: [w["message"] for w in server.get(where)["waiting"]] == ["please log in"], PATIENCE)
    assert desk.screenshot()["size"] == [1280, 800], "others go on meanwhile"
    assert server.post(where, {"note": "done, with code 7"})["told"] == 1
    t.join(PATIENCE)
    assert answer and answer[0]["data"]["done"] and answer[0]["data"]["note"] == "done, with code 7", answer
    assert server.get(where)["waiting"] == []


def test_an_agent_cannot_answer_in_the_place_of_the_person_it_asked(server, desk):
    def key(**body):
        return {"Authorization": "Bearer " + server.post("/sg/v1/keys", body, 201)["key"]}

    def ticket(headers):
        return "?ticket=" + server.post("/tickets", {}, headers=headers)["ticket"]
    agent, viewer, operator = key(role="agent", box=desk.box.id), key(role="viewer"), key(role="operator")
    where = f"/box/{desk.box.id}/vnc/handover"
    answer = []

    def asks():
        t = threading.Thread(target=lambda: answer.append(desk.box.tool("desktop:handover", {"message": "please", "timeout": 300}, timeout=320)))
        t.start()
        sg.wait_for(lambda: server.get(where, headers=viewer)["waiting"], PATIENCE)
        return t
    waiting = asks()
    by_ticket = ticket(agent)
    r = server.request("POST", where, {}, headers=agent)
    assert r.status == 403 and "'agent' may not" in str(r.json), r
    assert server.request("POST", where + by_ticket, {}).status == 403
    tools = [("/api/v1/execute", {"worker_id": desk.box.id, "action": "desktop:hand_back", "params": {}}),
             (f"/sg/v1/boxes/{desk.box.id}/execute", {"tool": "desktop:hand_back", "params": {}}),
             (f"/box/{desk.box.id}/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "desktop_hand_back", "arguments": {}}})]
    for path, body in tools:
        for headers in (agent, operator):
            r = server.request("POST", path, body, headers=headers)
            assert r.status >= 400 or r.json.get("outcome", "error") != "ok" and "told" not in str(r.json), (path, r)
    assert server.get(where)["waiting"] and not answer, "it still waits"
    assert server.post(where, {"note": "by a viewer"}, headers=viewer)["told"] == 1
    waiting.join(PATIENCE)
    assert answer.pop()["data"]["note"] == "by a viewer"
    for person in (ticket(viewer), ticket(operator)):
        waiting = asks()
        assert server.request("POST", where + person, {}).json["told"] == 1
        waiting.join(PATIENCE)
        assert answer.pop()["data"]["done"]


def test_the_mcp_profile_desktop_shows_the_tools_and_a_screenshot_is_an_image(server, desk):
    def ask(method, **params):
        r = server.post(f"/box/{desk.box.id}/mcp?profile=desktop", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return r["result"]
    names = {t["name"] for t in ask("tools/list")["tools"]}
    assert {"desktop_screenshot", "desktop_click", "desktop_type", "desktop_windows", "desktop_record", "desktop_handover"} <= names, names
    assert not [n for n in names if n.startswith("bash")]
    content = ask("tools/call", name="desktop_screenshot", arguments={})["content"]
    picture = [c for c in content if c["type"] == "image"]
    assert picture and picture[0]["mimeType"] == "image/png" and png(picture[0]["data"])[:2] == (1280, 800)
