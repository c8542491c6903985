"""A browser with a window on the box's desktop: the debugging pipe and the screen show the same one."""

import base64
import threading
from xml.etree import ElementTree

import pytest

import sg
from test_browser_safety import refuses_all
from test_desktop import PATIENCE, Desktop, png

PAGE = ("data:text/html,<title>Headed</title><body style='background:rgb(1,200,3);margin:0'><input id=i autofocus style='position:fixed;left:40px;top:40px;"
        "width:300px;height:40px'><script>addEventListener('click',e=>window.at=[e.screenX,e.screenY,e.button])</script>")


@pytest.fixture(scope="module")
def box():
    with sg.running("--pool-size", "1", "--browser-headed", "--browser-args=--force-renderer-accessibility") as s, s.box(memory="3g") as b:
        if b.code("command -v Xtigervnc && command -v jwm && test -x /usr/lib/chromium/chromium"):
            pytest.skip("Debian's chromium, tigervnc-standalone-server and jwm are not installed")
        b.server = s
        r = b.tool("browser:goto", {"url": PAGE, "timeout": 120}, timeout=150)
        assert r["outcome"] == "ok", r
        yield b


def js(box, expression):
    r = box.tool("browser:evaluate", {"expression": expression})
    assert r["outcome"] == "ok", r
    return r["data"]["value"]


def aio(box, method, path, body=None):
    return box.server.request(method, f"/box/{box.id}{path}", body, timeout=150)


def field(box):
    """Where the input is on the screen."""
    at = js(box, "[screenX + (outerWidth - innerWidth) / 2 + 60, screenY + outerHeight - innerHeight + 60]")
    return int(at[0]), int(at[1])


def test_what_is_typed_on_the_screen_is_read_back_over_the_debugging_pipe(box):
    desk = Desktop(box)
    assert desk.window("Headed")["width"] > 600
    x, y = field(box)

    def seen():
        return png(desk.screenshot()["image"])[2][y + 100][3 * x:3 * x + 3] == b"\x01\xc8\x03"
    sg.wait_for(seen, PATIENCE, every=0.3)
    desk.click(x=x, y=y)
    sg.wait_for(lambda: js(box, "document.activeElement.id") == "i", PATIENCE)
    desk.type(text="Grüße vom Schirm")
    sg.wait_for(lambda: js(box, "i.value") == "Grüße vom Schirm", PATIENCE)
    info = box.tool("browser:info")["data"]
    assert info["headed"] and (info["screen_width"], info["screen_height"]) == (1280, 800) and "Headless" not in info["user_agent"]


def test_what_would_open_a_window_and_wait_for_a_person_is_refused_and_told(box):
    box.tool("file:write", {"path": "/home/gem/asks/index.html", "content": "<title>Asks</title>"})
    box.tool("bash:start", {"command": "cd /home/gem/asks && exec python3 -m http.server 8010 --bind 127.0.0.1"})
    sg.wait_for(lambda: box.tool("browser:goto", {"url": "http://localhost:8010/"})["outcome"] == "ok", PATIENCE)
    refuses_all(box, "http://localhost:8010")
    assert [w["title"].startswith("Asks") for w in Desktop(box).windows()["windows"]] == [True]
    box.tool("browser:goto", {"url": PAGE})


def test_aio_sees_and_acts_on_the_screen(box):
    info = aio(box, "GET", "/v1/browser/info").json["data"]
    assert info["viewport"] == {"width": 1280, "height": 800} and info["page_viewport"]["height"] < 800
    assert info["vnc_url"].startswith("http://") and f"/box/{box.id}/vnc/index.html" in info["vnc_url"]
    assert aio(box, "GET", f"/vnc/index.html").status == 200
    r = aio(box, "GET", "/v1/browser/screenshot")
    assert r.status == 200 and r.headers["X-Screen-Width"] == "1280" and png(base64.b64encode(r.body))[:2] == (1280, 800)
    assert aio(box, "GET", "/v1/browser/screenshot?format=jpeg").status == 422
    x, y = field(box)
    js(box, "i.value = ''")

    def act(**action):
        r = aio(box, "POST", "/v1/browser/actions", action)
        assert r.status == 200 and r.json["data"]["status"] == "success", r

    def reached(check, *actions):
        """A browser that is busy with its window may miss what is done meanwhile: then it is done again."""
        for _ in range(4):
            js(box, "i.value = ''")
            for action in actions:
                act(**action)
            try:
                return sg.wait_for(check, PATIENCE / 3)
            except AssertionError:
                continue
        raise AssertionError(f"the page has not received {actions}")
    reached(lambda: js(box, "window.at") == [x, y + 150, 0], {"action_type": "MOVE_TO", "x": x, "y": y + 150},
            {"action_type": "CLICK", "x": x, "y": y + 150})
    click = {"action_type": "CLICK", "x": x, "y": y}
    reached(lambda: js(box, "i.value") == "keys", click, {"action_type": "TYPING", "text": "keys", "use_clipboard": False})
    reached(lambda: js(box, "i.value") == "pasted ✓", click, {"action_type": "TYPING", "text": "old", "use_clipboard": False},
            {"action_type": "HOTKEY", "keys": ["ctrl", "a"]}, {"action_type": "PRESS", "key": "backspace"},
            {"action_type": "TYPING", "text": "pasted ✓"})
    r = aio(box, "POST", "/v1/browser/config", {"resolution": "1024x768"})
    assert r.status == 200, r
    assert aio(box, "GET", "/v1/browser/info").json["data"]["viewport"] == {"width": 1024, "height": 768}
    aio(box, "POST", "/v1/browser/config", {"resolution": "1280x800"})


def test_the_accessibility_tree_tells_what_the_browser_shows(box):
    if box.code("/usr/bin/python3 -c 'import gi' && test -x /usr/libexec/at-spi-bus-launcher"):
        pytest.skip("Debian's python3-gi and at-spi2-core are not installed")

    def told():
        tree = box.tool("desktop:tree", {"max": 2000}, timeout=60)["data"]["accessibility_tree"]
        return tree if tree and "Address and search bar" in tree else None

    def bar():
        tree = ElementTree.fromstring(sg.wait_for(told, PATIENCE, every=0.2))
        assert tree.tag == "desktop" and tree[0].get("role") == "application"
        found = [n for n in tree.iter("node") if n.get("name") == "Address and search bar"][0]
        assert found.get("role") == "entry" and int(found.get("width")) > 100
        return found

    def focused():  # a window that has just come may move away from under a click
        Desktop(box).click(x=int(bar().get("x")) + 30, y=int(bar().get("y")) + 10)
        return "focused" in bar().get("states").split() and [w for w in Desktop(box).windows()["windows"] if w["active"]]
    box.tool("browser:goto", {"url": PAGE})
    sg.wait_for(focused, PATIENCE, every=0.2)
    Desktop(box).hotkey(keys=["ctrl", "a"])
    Desktop(box).type(text="about:version")
    sg.wait_for(lambda: bar().get("text") == "about:version", PATIENCE, every=0.2)
    Desktop(box).key(key="enter")
    assert box.tool("browser:wait", {"type": "url", "pattern": "chrome://version", "timeout": PATIENCE})["outcome"] == "ok"
    few = box.tool("desktop:tree", {"max": 3}, timeout=60)["data"]["accessibility_tree"]
    assert len(list(ElementTree.fromstring(few).iter("node"))) <= 3
    with_picture = Desktop(box).screenshot(accessibility=True)
    assert with_picture["accessibility_tree"].startswith("<desktop>") and with_picture["image"]


def test_a_box_may_have_it_the_other_way(box):
    r = box.tool("browser:restart", {"display": "headless"}, timeout=150)
    assert r["outcome"] == "ok", r
    assert box.tool("browser:info", timeout=120)["data"]["headed"] is False
    desk = Desktop(box)
    sg.wait_for(lambda: not [w for w in desk.windows()["windows"] if "hromium" in w["program"]], PATIENCE)


def test_waiting_for_a_captcha_ends_when_a_person_says_that_it_is_done(box):
    page = "data:text/html,<title>Captcha</title><div class='g-recaptcha' data-sitekey='k'><textarea name='g-recaptcha-response'></textarea></div>"
    box.tool("browser:goto", {"url": page}, timeout=120)
    found = aio(box, "GET", "/v1/browser/captcha/detect").json["data"]
    assert found["detected"], found
    r = aio(box, "POST", "/v1/browser/captcha/wait", {"timeout": 0.5, "poll_interval": 0.2})
    assert r.status == 200 and r.json["data"] == {"resolved": False}, r
    answer = []
    t = threading.Thread(target=lambda: answer.append(aio(box, "POST", "/v1/browser/captcha/wait", {"timeout": 200})))
    t.start()
    where = f"/box/{box.id}/vnc/handover"
    sg.wait_for(lambda: [w["tool"] for w in box.server.get(where)["waiting"]] == ["browser:captcha"], PATIENCE)
    box.server.post(where, {})
    t.join(PATIENCE)
    assert answer and answer[0].json["data"] == {"resolved": True}, answer


def test_aio_films_the_display(box):
    if box.code("command -v ffmpeg && command -v ffprobe"):
        pytest.skip("Debian's ffmpeg is not installed")
    r = aio(box, "POST", "/v1/display/record", {"action": "start", "fps": 10})
    assert r.status == 200 and r.json["data"]["status"] == "recording", r
    sg.wait_for(lambda: aio(box, "POST", "/v1/display/record", {"action": "status"}).json["data"]["duration"] > 1.5, PATIENCE)
    done = aio(box, "POST", "/v1/display/record", {"action": "stop"}).json["data"]
    assert done["status"] == "stopped" and done["save_path"].startswith("/tmp/recordings/recording_")
    assert "h264" in box.out(f"ffprobe -v error -show_streams {done['save_path']}", timeout=60)
    assert aio(box, "POST", "/v1/display/record", {"action": "start", "fps": 99}).status == 422


PLAIN = "data:text/html,<title>Own display</title><body style='background:rgb(7,90,200)'><script>addEventListener('click',e=>window.at=[e.screenX,e.screenY])</script>"


@pytest.fixture(scope="module")
def plain_server():
    with sg.running("--pool-size", "1") as s:
        yield s


def blue(box, x, y):
    """Does AIO's picture of the screen, and what VNC shows, have the page's colour there?"""
    r = aio(box, "GET", "/v1/browser/screenshot")
    assert r.status == 200, r
    return all(png(p)[2][y][3 * x:3 * x + 3] == b"\x07\x5a\xc8" for p in (base64.b64encode(r.body), Desktop(box).screenshot()["image"]))


def test_one_box_is_asked_to_be_headed_where_the_server_is_not(plain_server):
    with plain_server.box(memory="3g", display="headed") as box, plain_server.box(memory="3g") as other:
        box.server = other.server = plain_server
        if box.code("command -v Xtigervnc && command -v jwm && test -x /usr/lib/chromium/chromium"):
            pytest.skip("Debian's chromium, tigervnc-standalone-server and jwm are not installed")
        assert plain_server.get(f"/sg/v1/boxes/{box.id}")["display"] == "headed"
        assert plain_server.get(f"/sg/v1/boxes/{other.id}")["display"] == "headless"
        assert box.tool("browser:goto", {"url": PLAIN, "timeout": 120}, timeout=150)["outcome"] == "ok"
        sg.wait_for(lambda: blue(box, 900, 600), PATIENCE, every=0.3)
        assert box.tool("browser:info")["data"]["headed"] and Desktop(box).window("Own display")["width"] > 600
        r = aio(box, "POST", "/v1/browser/actions", {"action_type": "CLICK", "x": 640, "y": 500})
        assert r.status == 200, r
        sg.wait_for(lambda: js(box, "window.at") == [640, 500], PATIENCE)
        assert aio(box, "GET", "/v1/browser/info").json["data"]["viewport"] == {"width": 1280, "height": 800}
        plain_server.kill_role("serve")

        def again():
            try:
                r = plain_server.request("GET", f"/sg/v1/boxes/{box.id}")
            except OSError:
                return None
            return r if r.status == 200 else None
        assert sg.wait_for(again, PATIENCE).json["display"] == "headed"
        assert blue(box, 900, 600), "a new serve still knows which one has a window"


def test_the_browsers_config_gives_a_box_a_window_and_takes_it_away(plain_server):
    with plain_server.box(memory="3g") as box:
        box.server = plain_server
        if box.code("command -v Xtigervnc && command -v jwm && test -x /usr/lib/chromium/chromium"):
            pytest.skip("Debian's chromium, tigervnc-standalone-server and jwm are not installed")

        def windows():
            return [w for w in Desktop(box).windows()["windows"] if "hromium" in w["program"]]
        r = aio(box, "POST", "/v1/browser/config", {"display": "headed", "resolution": "1024x768"})
        assert r.status == 200, r
        assert plain_server.get(f"/sg/v1/boxes/{box.id}")["display"] == "headed"
        assert aio(box, "GET", "/v1/browser/info").json["data"]["viewport"] == {"width": 1024, "height": 768}
        sg.wait_for(windows, PATIENCE)
        assert aio(box, "POST", "/v1/browser/config", {"display": "headless"}).status == 200
        sg.wait_for(lambda: not windows(), PATIENCE)
        assert plain_server.get(f"/sg/v1/boxes/{box.id}")["display"] == "headless"
        assert aio(box, "GET", "/v1/browser/screenshot?format=jpeg").status == 200, "of the page again"
        assert aio(box, "POST", "/v1/browser/config", {"display": "upside down"}).status == 422
    r = plain_server.request("POST", "/sg/v1/boxes", {"display": "sideways"})
    assert r.status == 400 and "display: 'sideways' is neither headed nor headless" in str(r.json), r
