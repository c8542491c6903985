"""AIO's browser groups against pages that a server in the same box has. Every reply is held against the original's OpenAPI
file, if it is there, and every operation is judged by what the page really received."""

import json
import pathlib
import struct

import pytest

import aio_schema
import sg

SPEC = pathlib.Path(__file__).resolve().parents[3] / "shared" / "contracts" / "aio-openapi-1.9.4.json"
SITE = pathlib.Path(__file__).resolve().parent / "data" / "site"
URL = "http://127.0.0.1:8000/"


@pytest.fixture(scope="module")
def spec():
    return json.loads(SPEC.read_text()) if SPEC.exists() else None


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1", "--box-memory", "3g") as s:
        if s.post("/v1/bash/exec", {"command": "test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell"})["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        for f in SITE.iterdir():
            s.post("/v1/file/write", {"file": f"/home/gem/site/{f.name}", "content": f.read_text()})
        s.post("/v1/bash/exec", {"command": "cd /home/gem/site && exec python3 server.py", "async_mode": True})
        sg.wait_for(lambda: s.post("/v1/bash/exec", {"command": "curl -sf 127.0.0.1:8001/plain.html >/dev/null"})["data"]["exit_code"] == 0, 60)
        yield s


class Aio:
    """Calls an operation and checks the shape of its reply."""

    def __init__(self, server, spec):
        self.server, self.spec, self.called = server, spec, set()

    def __call__(self, method, path, body=None, status=200, **query):
        row = path
        if isinstance(body, dict):
            for name in [n for n in body if "{%s}" % n in path]:
                path = path.replace("{%s}" % name, str(body.pop(name)))
        if query:
            path += "?" + "&".join(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in query.items())
        reply = self.server.request(method, "/v1/browser" + path, body or None)
        assert reply.status == status, (method, path, body, reply.status, reply.body[:600])
        self.called.add((method, "/v1/browser" + row))
        if reply.headers.get("content-type", "").split(";")[0] != "application/json":
            return reply
        answer = reply.json
        assert answer["success"] is (status == 200), (path, body, answer)
        if self.spec:
            if status == 200:
                schema = self.spec["paths"]["/v1/browser" + row][method.lower()]["responses"]["200"]["content"]["application/json"]["schema"]
            else:
                schema = {"$ref": "#/components/schemas/HTTPValidationError"} if status == 422 else {}
            problems = aio_schema.errors(self.spec, schema, answer)
            assert not problems, (path, body, problems, answer)
        return answer["data"] if status == 200 else answer

    def go(self, page):
        data = self("POST", "/page/navigate", {"url": URL + page})
        return data

    def js(self, expression):
        return self("POST", "/page/evaluate", {"expression": expression})

    def act(self, action, **given):
        data = self("POST", "/actions", {"action_type": action, **given})
        assert data == {"status": "success", "action_performed": action}


@pytest.fixture(scope="module")
def aio(server, spec):
    return Aio(server, spec)


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_info_screenshot_and_config_are_about_the_same_screen(aio):
    info = aio("GET", "/info")
    assert "Chrome" in info["user_agent"] and info["cdp_url"].startswith("ws://") and info["vnc_url"].endswith("/vnc/index.html")
    picture = aio("GET", "/screenshot")
    assert picture.headers["content-type"] == "image/png"
    assert png_size(picture.body) == (info["viewport"]["width"], info["viewport"]["height"])
    assert (picture.headers["x-screen-width"], picture.headers["x-image-height"]) == (str(info["viewport"]["width"]), str(info["viewport"]["height"]))
    for size in ({"width": 1024, "height": 768}, "1280x720"):
        aio("POST", "/config", {"resolution": size})
        width, height = (size["width"], size["height"]) if isinstance(size, dict) else map(int, size.split("x"))
        assert aio("GET", "/info")["viewport"] == {"width": width, "height": height}
        assert png_size(aio("GET", "/screenshot").body) == (width, height)
    for kind in ("jpg", "jpeg"):
        picture = aio("GET", "/screenshot", format=kind, quality=30)
        assert picture.headers["content-type"] == "image/jpeg" and picture.body[:2] == b"\xff\xd8"
    aio("POST", "/config", {})
    for wrong in ({"width": 3, "height": 4}, "1920*1080", 7):
        assert "resolution" in aio("POST", "/config", {"resolution": wrong}, status=422)["detail"][0]["msg"]
    aio("GET", "/screenshot", status=422, format="bmp")
    aio("GET", "/screenshot", status=422, quality=101)


def test_every_action_reaches_the_page_as_a_persons_would(aio):
    aio.go("input.html")
    seen = lambda: aio.js("const all = window.seen.splice(0); all")  # noqa: E731
    aio.act("MOVE_TO", x=50, y=60)
    aio.act("MOVE_REL", x_offset=10, y_offset=-20)
    assert [e for e in seen() if e[0] == "mousemove"][-1][1:3] == [60, 40]
    aio.act("CLICK", x=100, y=100)
    assert [e[0] for e in seen() if e[0] != "mousemove"] == ["mousedown", "mouseup", "click"]
    aio.act("CLICK", button="middle", num_clicks=1)
    assert ["mousedown", 100, 100, 1, 4] in seen()
    aio.act("DOUBLE_CLICK", x=100, y=100)
    assert [e[0] for e in seen()].count("dblclick") == 1
    aio.act("CLICK", x=100, y=100, num_clicks=3)
    assert [e[0] for e in seen()].count("click") == 3
    aio.act("RIGHT_CLICK", x=110, y=100)
    assert "contextmenu" in [e[0] for e in seen()]
    aio.act("MOUSE_DOWN")
    aio.act("MOVE_TO", x=150, y=150)
    aio.act("MOUSE_UP", button="left")
    assert [(e[0], e[4]) for e in seen()][:3] == [("mousedown", 1), ("mousemove", 1), ("mouseup", 0)]
    aio.act("MOVE_TO", x=200, y=100)
    seen()
    aio.act("DRAG_TO", x=300, y=200)
    aio.act("DRAG_REL", x_offset=-50, y_offset=-50)
    drags = seen()
    assert [e[1:3] for e in drags if e[0] == "mouseup"] == [[300, 200], [250, 150]]
    assert all(e[4] == 1 for e in drags if e[0] == "mousemove")
    aio.act("SCROLL", dy=300, dx=0)
    sg.wait_for(lambda: aio.js("scrollY") == 300, 30)
    aio.act("SCROLL", dy=-300)
    sg.wait_for(lambda: aio.js("scrollY") == 0, 30)
    aio.js("document.querySelector('#text').focus(); window.seen.splice(0); 0")
    aio.act("TYPING", text="Grüße, ")
    aio.act("TYPING", text="a B\n", use_clipboard=False)
    assert aio.js("document.querySelector('#text').value") == "Grüße, a B\n"
    assert [e[1] for e in seen() if e[0] == "keydown"] == ["a", " ", "B", "Enter"]
    aio.act("PRESS", key="backspace")
    aio.act("KEY_DOWN", key="shift")
    aio.act("PRESS", key="left")
    aio.act("KEY_UP", key="shift")
    assert aio.js("const t = document.querySelector('#text'); t.value.slice(t.selectionStart, t.selectionEnd)") == "B"
    assert [e[:2] for e in seen()][-4:] == [["keydown", "Shift"], ["keydown", "ArrowLeft"], ["keyup", "ArrowLeft"], ["keyup", "Shift"]]
    aio.act("HOTKEY", keys=["ctrl", "a"])
    aio.act("PRESS", key="delete")
    assert aio.js("document.querySelector('#text').value") == ""
    before = aio.js("Date.now()")
    aio.act("WAIT", duration=0.3)
    assert aio.js("Date.now()") - before >= 300


def test_wrong_actions_are_refused_by_the_name_of_what_is_wrong(aio):
    for body, field in (({}, "action_type"), ({"action_type": "JUMP"}, "action_type"), ({"action_type": "MOVE_TO", "x": 1}, "y"),
                        ({"action_type": "CLICK", "num_clicks": 4}, "num_clicks"), ({"action_type": "CLICK", "button": "back"}, "button"),
                        ({"action_type": "TYPING", "text": ""}, "text"), ({"action_type": "HOTKEY", "keys": []}, "keys"),
                        ({"action_type": "WAIT", "duration": 0}, "duration"), ({"action_type": "PRESS"}, "key"),
                        ({"action_type": "DRAG_REL", "x_offset": 1}, "y_offset")):
        assert aio("POST", "/actions", body, status=422)["detail"][0]["loc"] == ["body", field], body
    assert "no key" in aio("POST", "/actions", {"action_type": "PRESS", "key": "nokey"}, status=400)["message"]


def asked(aio, path=None):
    rows = json.loads(aio.server.post("/v1/bash/exec", {"command": "curl -s 127.0.0.1:8000/asked"})["data"]["stdout"])
    return [r for r in rows if not path or r["path"].split("?")[0] == path]


def write(aio, path, text):
    aio.server.post("/v1/file/write", {"file": path, "content": text})


def read(aio, path):
    return aio.server.post("/v1/file/read", {"file": path})["data"]["content"]


def test_a_form_arrives_as_it_was_filled(aio):
    assert aio.go("form.html") == {"url": URL + "form.html", "title": "Form", "status": 200}
    aio("POST", "/page/fill", {"selector": "#name", "text": "to be replaced"})
    aio("POST", "/page/fill", {"selector": "#name", "value": "Ada Löwe"})
    index = [e["index"] for e in aio("GET", "/page/elements") if e.get("id") == "mail"][0]
    aio("POST", "/page/fill", {"index": index, "text": "a@b"})
    aio("POST", "/page/check", {"selector": "#agreed"})
    aio("POST", "/page/check", {"selector": "#agree"})
    aio("POST", "/page/check", {"selector": "#r2"})
    for choice in ({"value": "r"}, {"label": "Green"}, {"index": 2}):
        assert aio("POST", "/page/select_option", {"selector": "#colour", **choice})["selected"] == [choice.get("value", "g")]
    aio("POST", "/page/click", {"selector": "#notes"})
    aio("POST", "/page/type", {"text": "Two\nLines", "delay": 1})
    assert aio.js("pressed.slice(-9)") == ["T", "w", "o", "Enter", "L", "i", "n", "e", "s"]
    write(aio, "/home/gem/up.txt", "from the box")
    aio("POST", "/page/upload_file", {"selector": "#file", "files": ["/home/gem/up.txt"]})
    asked(aio)
    aio("POST", "/page/click", {"selector": "#send"})
    post = asked(aio, "/posted")[0]
    for part in ('name="name"\r\n\r\nAda L\u00c3\u00b6we', 'name="mail"\r\n\r\na@b', 'name="agree"\r\n\r\non', 'name="size"\r\n\r\nl',
                 'name="colour"\r\n\r\ng', 'Two\r\nLines', 'filename="up.txt"', "from the box"):
        assert part in post["body"], (part, post["body"])
    assert aio("POST", "/page/back")["title"] == "Form" and aio("POST", "/page/forward")["title"] == "Posted"
    aio.go("form.html")
    assert aio("POST", "/page/reload")["status"] in (200, None)
    items = [{"selector": "#name", "text": "x"}, {"selector": "#agree", "checked": True}, {"selector": "#colour", "value": "g"},
             {"selector": "#r1", "value": True}, {"selector": "#notes", "value": "note"}, {"selector": "#file", "value": "/home/gem/up.txt"}]
    assert aio("POST", "/page/fill_form", {"items": items})["count"] == 6
    assert aio.js("[name_(), agree.checked, colour.value, r1.checked, notes.value, file.files[0].name]; function name_() { return document.forms[0].name.value }") == \
        ["x", True, "g", True, "note", "up.txt"]
    assert aio("POST", "/page/uncheck", {"selector": "#agree"})["checked"] is False and aio.js("agree.checked") is False


def test_mouse_and_keys_by_selector_and_point(aio):
    aio.go("form.html")
    aio("POST", "/page/hover", {"selector": "#hoverme"})
    assert aio.js("document.title") == "hovered"
    aio("POST", "/page/click", {"selector": "#clicks", "click_count": 2})
    assert aio.js("document.title") == "click 2"
    aio("POST", "/page/click", {"selector": "#clicks", "button": "right"})
    assert aio.js("document.title") == "menu"
    x, y = aio.js("const r = clicks.getBoundingClientRect(); [r.x + 5, r.y + 5]")
    aio("POST", "/page/click", {"x": x, "y": y})
    assert aio.js("document.title") == "click 1"
    x, y = aio.js("const r = hoverme.getBoundingClientRect(); [r.x + 5, r.y + 5]")
    aio("POST", "/page/hover", {"x": x, "y": y})
    assert aio.js("document.title") == "hovered"
    aio("POST", "/page/fill", {"selector": "#name", "text": "abc"})
    aio("POST", "/page/hot_key", {"keys": ["Control", "a"]})
    aio("POST", "/page/press_key", {"key": "x"})
    assert aio.js("document.querySelector('#name').value") == "x" and aio.js("pressed.slice(-3)") == ["Control", "a", "x"]


def test_frames_of_any_origin_and_shadow_roots_are_acted_in(aio):
    aio.go("frames.html")
    aio("POST", "/page/wait", {"type": "selector", "selector": "#go-site"})
    for where in ("same", "port", "site"):
        aio("POST", "/page/fill", {"selector": f"#field-{where}", "text": f"hi {where}"})
        aio("POST", "/page/check", {"selector": f"#box-{where}"})
        aio("POST", "/page/click", {"selector": f"#go-{where}"})
        aio("POST", "/page/wait", {"type": "selector", "selector": f"text=went with hi {where}", "timeout": 20})
    names = {e["id"]: e for e in aio("GET", "/page/elements") if e.get("id")}
    assert {"go-same", "go-port", "go-site"} <= set(names), "elements of all frames, each with a number"
    assert len({e["index"] for e in names.values()}) == len(names)
    aio("POST", "/page/fill", {"index": names["field-site"]["index"], "text": "by number"})
    aio("POST", "/page/click", {"index": names["go-site"]["index"]})
    aio("POST", "/page/wait", {"type": "selector", "selector": "text=went with by number"})
    aio("POST", "/page/click", {"ref": names["go-port"]["ref"]})
    found = {f["text"].lower() for f in aio("POST", "/page/find_text", {"keyword": "GO "})}
    assert found == {"go "} and len(aio("POST", "/page/find_text", {"keyword": "went with"})) == 3
    aio.go("shadow.html")
    aio("POST", "/page/fill", {"selector": "#deep", "text": "down there"})
    aio("POST", "/page/click", {"selector": "#press"})
    assert aio.js("document.title") == "pressed down there"


def test_scrolling_infinite_pages_and_pictures_of_them(aio):
    aio.go("infinite.html")
    assert aio("POST", "/page/scroll", {"amount": 500})["y"] == 500
    assert aio("POST", "/page/scroll", {"direction": "up", "amount": 200})["y"] == 300
    assert aio("POST", "/page/scroll", {"amount": -300})["y"] == 0
    assert aio("POST", "/page/scroll_to", {"y": 700})["y"] == 700
    before = aio.js("document.querySelectorAll('p').length")
    for _ in range(3):
        aio("POST", "/page/scroll", {"direction": "bottom"})
    sg.wait_for(lambda: aio.js("document.querySelectorAll('p').length") >= before + 20, 30)
    aio("POST", "/page/scroll_to_element", {"selector": "p:nth-child(3)"})
    top = aio.js("document.querySelector('p:nth-child(3)').getBoundingClientRect().top")
    assert 0 <= top < 800
    full = aio("GET", "/page/screenshot", full_page=True)
    assert png_size(full.body)[1] == aio.js("document.documentElement.scrollHeight")
    assert aio("GET", "/page/screenshot", format="jpeg", quality=20).body[:2] == b"\xff\xd8"
    aio.go("canvas.html")
    aio.act("MOVE_TO", x=50, y=50)
    aio.act("DRAG_TO", x=150, y=100)
    assert aio.js("strokes.length") >= 8 and aio.js("strokes.at(-1)") == [150, 100]
    assert aio.js("[...g.getImageData(150, 100, 1, 1).data]") == [255, 0, 0, 255]
    assert png_size(aio("GET", "/page/screenshot", selector="%23c").body) == (400, 300)


def test_what_a_page_says(aio):
    aio.go("article.html")
    markdown = aio("GET", "/page/markdown")
    assert markdown["title"] == "Article" and markdown["content"] == markdown["markdown"]
    for part in ("# Heading", "Some **bold** and *soft* text with [a link](http://127.0.0.1:8000/plain.html).", "- one\n- two", "```\ncode\n  here\n```", "| a | b |\n| --- | --- |\n| 1 | 2 |"):
        assert part in markdown["markdown"], markdown["markdown"]
    assert "Menu" not in markdown["markdown"] and "Menu" in aio("GET", "/page/text")
    assert aio("GET", "/page/html").startswith("<html>") and aio("GET", "/page/html", outer=True).startswith("<!DOCTYPE html><html>")
    sg.wait_for(lambda: any(m["type"] == "exception" for m in aio("GET", "/page/console")), 30)
    said = {m["type"]: m for m in aio("GET", "/page/console")}
    assert "hello" in said["log"]["text"] and said["warning"]["text"] == "careful" and "oops" in said["exception"]["text"]
    count = aio("POST", "/page/console/export", {"save_path": "/home/gem/out/console.json", "clear": True})["count"]
    assert len(json.loads(read(aio, "/home/gem/out/console.json"))) == count >= 3 and aio("GET", "/page/console", clear=True) == []
    assert aio("POST", "/page/evaluate", {"script": "document.title"}) == "Article" and aio.js("({a: [1, null]})") == {"a": [1, None]}
    assert aio.js("await new Promise(r => setTimeout(() => r(7), 50))") == 7
    found = aio("POST", "/page/find_text", {"keyword": "SOME"})
    assert found[0]["text"] == "Some" and found[0]["tag"] == "p" and found[0]["height"] > 0


def test_waiting_ends_when_it_happens(aio):
    aio.go("spa.html")
    aio("POST", "/page/click", {"selector": "#next"})
    assert aio("POST", "/page/wait", {"type": "url", "url": "**/two"})["found"]
    assert aio("POST", "/page/wait", {"type": "response", "url_pattern": "**/api/data*"})["request"]["status"] == 200
    assert aio("POST", "/page/wait", {"type": "function", "expression": "() => view.textContent === 'second'"})["found"]
    aio("POST", "/page/back")
    assert aio.js("view.textContent") == "first", "the same page, by its history"
    aio.js("setTimeout(() => view.remove(), 300)")
    assert aio("POST", "/page/wait", {"type": "selector", "selector": "#view", "state": "detached", "polling": 0.05})["found"]
    aio.js("setTimeout(() => fetch('/slow?0.2'), 300)")
    assert aio("POST", "/page/wait", {"type": "request", "url_pattern": "/slow"})["request"]["method"] == "GET"
    assert aio("POST", "/page/wait", {"type": "network_idle"})["found"] and aio("POST", "/page/wait", {"type": "load"})["found"]
    assert not aio("POST", "/page/wait", {"type": "timeout", "timeout": 0.2})["found"]
    reply = aio.server.post("/v1/browser/page/wait", {"type": "selector", "selector": "#never", "timeout": 0.3})
    assert reply["success"] is False and "in time" in reply["message"] and reply["hint"] == "timeout"


def test_dialogs_pop_ups_downloads_and_redirects(aio):
    aio.go("talk.html")
    r = aio("POST", "/page/click", {"selector": "#c"})
    assert r["dialogs"] == [{"type": "confirm", "message": "sure?", "accepted": False}] and r["title"] == "confirmed false"
    aio("POST", "/page/click", {"selector": "#pop"})
    sg.wait_for(lambda: len(aio("GET", "/tabs")) == 2, 30)
    tabs = aio("GET", "/tabs")
    assert [t["active"] for t in tabs] == [True, False] and tabs[1]["url"] == URL + "plain.html"
    assert aio("PUT", "/tabs/{index}/activate", {"index": 1})["title"] == "Plain" and aio.js("document.title") == "Plain"
    made = aio("POST", "/tabs", {"url": URL + "form.html"})
    assert made["index"] == 2 and made["tab_id"] and made["title"] == "Form"
    assert aio("POST", "/tabs")["url"] == "about:blank"
    for _ in range(3):
        aio("DELETE", "/tabs/{index}", {"index": 1})
    assert aio.js("document.title") == "confirmed false" and len(aio("GET", "/tabs")) == 1
    aio("POST", "/page/click", {"selector": "#get"})
    r = aio("POST", "/page/wait", {"type": "download", "save_path": "/home/gem/got/it.bin"})
    assert r["path"] == "/home/gem/got/it.bin" and read(aio, r["path"]) == "0123456789" * 100
    assert aio.go("redirect") == {"url": URL + "plain.html?redirected", "title": "Plain", "status": 200}
    rows = aio("GET", "/network/requests", filter="redirect", limit=2)
    assert [r["status"] for r in rows] == [302, 200] and rows[0]["redirected_to"] == URL + "plain.html?redirected"


def test_cookies_and_state_are_what_the_site_sees(aio):
    aio("DELETE", "/cookies")
    aio.go("login")
    cookies = {c["name"]: c for c in aio("GET", "/cookies")}
    assert cookies["sid"]["httpOnly"] and cookies["sid"]["value"] == "s3cret" and not cookies["seen"]["httpOnly"]
    assert aio("POST", "/cookies", {"cookies": [{"name": "mine", "value": "1", "domain": "127.0.0.1", "path": "/"}, {"name": "here", "value": "2"},
                                                {"name": "far", "value": "3", "url": "http://example.org/", "sameSite": "Lax"}]})["count"] == 3
    assert {c["name"] for c in aio("GET", "/cookies", urls="http://example.org/")} == {"far"}
    assert {c["name"] for c in aio("GET", "/cookies", url=URL)} == {"sid", "seen", "mine", "here"}
    asked(aio)
    aio.go("plain.html")
    assert set(asked(aio, "/plain.html")[0]["headers"]["cookie"].split("; ")) == {"sid=s3cret", "seen=yes", "mine=1", "here=2"}
    aio.js("localStorage.setItem('k', 'v \"1\"'); sessionStorage.setItem('s', 'w')")
    saved = aio("POST", "/state/save", {"path": "/home/gem/state.json"})
    assert saved["cookies"] == 5 and saved["origins"] == [URL[:-1]]
    state = json.loads(read(aio, "/home/gem/state.json"))
    assert state["origins"][0]["localStorage"] == [{"name": "k", "value": 'v "1"'}] and {c["name"] for c in state["cookies"]} >= {"sid", "far"}
    aio("DELETE", "/cookies")
    aio.js("localStorage.clear(); sessionStorage.clear()")
    assert aio("GET", "/cookies") == []
    asked(aio)
    aio("POST", "/state/load", {"path": "/home/gem/state.json"})
    assert aio.js("[localStorage.getItem('k'), sessionStorage.getItem('s'), location.href]") == ['v "1"', "w", URL + "plain.html"]
    paths = [r["path"] for r in asked(aio)]
    assert paths.count("/plain.html") == 1 and "/" not in paths, "restoring asks nothing of the site but the page at hand"
    assert {c["name"] for c in aio("GET", "/cookies")} == {"sid", "seen", "mine", "here", "far"} and len(aio("GET", "/tabs")) == 1
    aio("DELETE", "/cookies")


def test_routes_headers_and_the_record_of_requests(aio):
    aio.go("talk.html")
    aio("POST", "/network/route", {"url_pattern": "**/api/data", "response": {"status": 201, "body": '{"mocked": 1}', "content_type": "application/json", "headers": {"X-From": "us"}}})
    asked(aio)
    aio("POST", "/page/click", {"selector": "#ask"})
    aio("POST", "/page/wait", {"type": "function", "expression": "document.title === '{\"mocked\":1}'"})
    aio("POST", "/page/click", {"selector": "#far"})
    aio("POST", "/page/wait", {"type": "function", "expression": "document.title === '{\"mocked\": 1}'"})
    assert asked(aio, "/api/data") == [], "the site was not asked, not even by a preflight"
    rows = [r for r in aio("GET", "/network/requests", filter="**/api/data")[-3:] if r["method"] == "GET"]
    assert len(rows) == 2 and all(r["mocked"] and r["status"] == 201 and {k.lower(): v for k, v in r["response_headers"].items()}["x-from"] == "us" for r in rows), json.dumps(rows)
    aio("DELETE", "/network/route", {"url_pattern": "**/api/data"})
    aio("DELETE", "/network/route", {"url_pattern": "**/api/data"}, status=404)
    aio("POST", "/network/route", {"pattern": "**/api/*", "abort": True})
    aio("POST", "/page/click", {"selector": "#ask"})
    aio("POST", "/page/wait", {"type": "function", "expression": "document.title === 'failed'"})
    aio("DELETE", "/network/route", {"pattern": "**/api/*"})
    aio("POST", "/network/route", {"pattern": "**/api/{data,other}", "response_body": '{"doc": 2}', "response_status": 200})
    aio("POST", "/page/click", {"selector": "#ask"})
    aio("POST", "/page/wait", {"type": "function", "expression": "document.title === '{\"doc\":2}'"})
    aio("DELETE", "/network/route", {"pattern": "**/api/{data,other}"})
    aio("POST", "/network/headers", {"headers": {"X-All": "yes"}})
    aio("POST", "/network/scoped_headers", {"origin": "http://127.0.0.1:8001", "headers": {"X-Some": "also"}})
    asked(aio)
    aio.go("plain.html")
    aio("POST", "/page/navigate", {"url": "http://127.0.0.1:8001/plain.html"})
    one, two = asked(aio, "/plain.html")
    assert one["headers"]["x-all"] == two["headers"]["x-all"] == "yes" and "x-some" not in one["headers"] and two["headers"]["x-some"] == "also"
    aio("POST", "/network/headers", {"headers": {}})
    aio("POST", "/network/scoped_headers", {"origin": "http://127.0.0.1:8001", "headers": {}})
    aio("POST", "/page/navigate", {"url": "http://127.0.0.1:8001/plain.html"})
    assert not {"x-all", "x-some"} & set(asked(aio, "/plain.html")[0]["headers"])


def check_har(har):
    """What HAR 1.2 asks of an archive."""
    log = har["log"]
    assert log["version"] == "1.2" and log["creator"]["name"] and log["creator"]["version"] and log["entries"]
    pages = {p["id"] for p in log["pages"]}
    for p in log["pages"]:
        assert p["startedDateTime"] and p["title"] is not None and {"onContentLoad", "onLoad"} <= set(p["pageTimings"])
    for x in log["entries"]:
        assert x["startedDateTime"][10] == "T" and x["startedDateTime"].endswith("Z") and x["cache"] == {}
        assert x.get("pageref") is None or x["pageref"] in pages
        t = x["timings"]
        assert {"send", "wait", "receive"} <= set(t) and min(t["send"], t["wait"], t["receive"]) >= 0
        assert abs(x["time"] - sum(max(t[k], 0) for k in ("blocked", "dns", "connect", "send", "wait", "receive"))) < 0.01
        q, a = x["request"], x["response"]
        assert {"method", "url", "httpVersion", "cookies", "headers", "queryString", "headersSize", "bodySize"} <= set(q)
        assert {"status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL", "headersSize", "bodySize"} <= set(a)
        assert all({"name", "value"} <= set(n) and isinstance(n["value"], str) for n in q["headers"] + q["queryString"] + q["cookies"] + a["headers"] + a["cookies"])
        assert isinstance(a["content"]["size"], int) and isinstance(a["content"]["mimeType"], str) and isinstance(a["status"], int)
        if "postData" in q:
            assert {"mimeType", "text", "params"} <= set(q["postData"])
    return log["entries"]


def test_the_archive_of_requests_is_one_that_others_can_read(aio):
    aio.go("login?a=1&b=")
    aio.go("plain.html")
    aio.js("await fetch('/posted', {method: 'POST', body: 'some text'}).then(r => r.text())")
    done = aio("POST", "/network/export_har", {"save_path": "/home/gem/out/trace.har"})
    entries = check_har(json.loads(read(aio, done["path"])))
    assert len(entries) == done["entries"]
    last = {x["request"]["url"].split("/", 3)[3].split("?")[0]: x for x in entries}
    assert last["login"]["request"]["queryString"] == [{"name": "a", "value": "1"}, {"name": "b", "value": ""}]
    assert {c["name"]: c["value"] for c in last["login"]["response"]["cookies"]} == {"sid": "s3cret", "seen": "yes"}
    assert {c["name"] for c in last["plain.html"]["request"]["cookies"]} >= {"sid", "seen"}
    assert last["plain.html"]["response"]["content"]["text"].startswith("<!doctype html><title>Plain")
    assert last["posted"]["request"]["postData"]["text"] == "some text" and last["posted"]["response"]["content"]["mimeType"] == "text/html"
    assert any(x["response"]["redirectURL"] for x in entries)
    whole = aio("POST", "/network/export_har")
    assert check_har(json.loads(whole["content"])) and whole["har"]["log"]["version"] == "1.2"
    aio("DELETE", "/cookies")


def test_a_captcha_is_seen(aio):
    aio.go("plain.html")
    assert aio("GET", "/captcha/detect")["detected"] is False
    aio.go("captcha.html")
    seen = aio("GET", "/captcha/detect")
    assert seen["detected"] and seen["type"] == "recaptcha" and seen["captchas"][0]["site_key"] == "key123" and not seen["captchas"][0]["solved"]


def test_a_restarted_browser_is_as_it_was_asked_to_be(aio):
    pac = aio("GET", "/proxy.pac")
    assert pac.headers["content-type"] == "application/x-ns-proxy-autoconfig" and b'return "DIRECT"' in pac.body
    aio.go("plain.html")
    aio("POST", "/network/route", {"url_pattern": "**/plain.html", "response": {"body": "mock", "content_type": "text/html"}})
    aio("POST", "/restart", {"mode": "soft"})
    assert aio.go("plain.html")["title"] == "Plain", "routes are gone, the browser is not"
    aio("POST", "/restart", {"locale": "de-DE", "url_blocklist": ["127.0.0.1"], "url_allowlist": ["127.0.0.1:8000/form.html"], "allow_file_selection_dialogs": False})
    assert aio.js("[navigator.language, location.href]") == ["de-DE", "about:blank"]
    assert "BLOCKED_BY_CLIENT" in aio("POST", "/page/navigate", {"url": URL + "plain.html"}, status=404)["message"]
    assert aio.go("form.html")["title"] == "Form"
    aio("POST", "/restart")
    assert aio.go("plain.html")["title"] == "Plain"


def probe(aio, path):
    out = aio.server.post("/v1/bash/exec", {"command": f"ffprobe -v error -count_frames -show_entries stream=width,height,nb_read_frames,codec_type:format=duration -of json {path}"})
    return json.loads(out["data"]["stdout"])


def test_a_page_is_filmed(aio):
    aio.go("plain.html")
    aio.js("setInterval(() => document.body.style.background = `rgb(${Math.random() * 255},0,0)`, 50)")
    film = aio("POST", "/page/record", {"save_path": "/home/gem/out/once.mp4", "duration": 1.5, "fps": 10, "quality": 40})
    assert film["status"] == "stopped" and film["frames"] >= 2 and film["file_size_bytes"] > 0 and film["duration"] >= 1.5
    seen = probe(aio, "/home/gem/out/once.mp4")
    assert seen["streams"][0]["codec_type"] == "video" and int(seen["streams"][0]["nb_read_frames"]) >= 10, seen
    assert float(seen["format"]["duration"]) >= 1.3
    assert aio("POST", "/page/record", {"action": "status"})["status"] == "idle"
    assert aio("POST", "/page/record", {"action": "start", "fps": 5})["status"] == "recording"
    aio("POST", "/page/record", {"action": "start"}, status=409)
    assert aio("POST", "/page/record", {"action": "pause"})["status"] == "paused"
    paused = aio("POST", "/page/record", {"action": "status"})["duration"]
    aio("POST", "/page/wait", {"type": "timeout", "timeout": 0.5})
    assert aio("POST", "/page/record", {"action": "status"})["duration"] == paused, "its clock stands"
    assert aio("POST", "/page/record", {"action": "resume"})["status"] == "recording"
    sg.wait_for(lambda: aio("POST", "/page/record", {"action": "status"})["frames"] >= 1, 30)
    film = aio("POST", "/page/record", {"action": "stop"})
    assert film["status"] == "stopped" and film["save_path"].startswith("/tmp/recordings/") and probe(aio, film["save_path"])["streams"]
    aio("POST", "/page/record", {"action": "stop"}, status=404)
    aio("POST", "/page/record", {"action": "once", "fps": 0}, status=422)


WRONG = [
    ("POST", "/page/navigate", {}, 422, "url"), ("POST", "/page/navigate", {"url": "x", "wait_until": "ever"}, 422, "wait_until"),
    ("POST", "/page/click", {}, 422, "selector"),
    ("POST", "/page/click", {"selector": "a", "button": "none"}, 422, "button"), ("POST", "/page/fill", {"text": "x"}, 422, "selector"),
    ("POST", "/page/fill", {"selector": "#name"}, 422, "text"), ("POST", "/page/click", {"selector": "a[["}, 400, "selector"),
    ("POST", "/page/click", {"index": 99999}, 404, "index"), ("POST", "/page/click", {"ref": "e99999"}, 404, "ref"), ("POST", "/page/press_key", {"key": "NoKey"}, 400, "key"),
    ("POST", "/page/hot_key", {}, 422, "keys"), ("POST", "/page/hot_key", {"keys": ["Control", "Nope"]}, 400, "Nope"),
    ("POST", "/page/select_option", {"selector": "#colour", "value": "none such"}, 404, "option"), ("POST", "/page/select_option", {"selector": "#colour"}, 422, "values"),
    ("POST", "/page/check", {"selector": "#name"}, 400, "checkbox"), ("POST", "/page/upload_file", {"selector": "#file", "files": ["/none"]}, 404, "/none"),
    ("POST", "/page/fill_form", {"items": [{"selector": "#name"}]}, 422, "items[0]"), ("POST", "/page/fill_form", {"items": {}}, 422, "items"),
    ("POST", "/page/scroll", {"direction": "away"}, 422, "direction"), ("POST", "/page/scroll_to_element", {}, 422, "selector"),
    ("GET", "/page/screenshot?format=bmp", None, 422, "format"), ("POST", "/page/console/export", {}, 422, "save_path"),
    ("POST", "/page/evaluate", {"expression": "nothing.here"}, 400, "ReferenceError"), ("POST", "/page/find_text", {}, 422, "keyword"),
    ("POST", "/page/find_text", {"keyword": ""}, 400, "text"), ("POST", "/page/wait", {"type": "ever"}, 422, "type"),
    ("POST", "/page/wait", {"type": "selector"}, 422, "selector"), ("POST", "/page/wait", {"type": "function", "expression": "(("}, 400, "SyntaxError"),
    ("DELETE", "/tabs/77", None, 404, "index"), ("DELETE", "/tabs/x", None, 422, "index"), ("PUT", "/tabs/77/activate", None, 404, "index"),
    ("POST", "/cookies", {}, 422, "cookies"), ("POST", "/cookies", {"cookies": [{"name": "x"}]}, 422, "value"), ("POST", "/cookies", {"cookies": [1]}, 422, "cookies[0]"),
    ("POST", "/cookies", {"cookies": [{"name": "x", "value": "y", "sameSite": "Sometimes"}]}, 400, "sameSite"),
    ("POST", "/state/save", {}, 422, "path"), ("POST", "/state/load", {"path": "/none"}, 404, "/none"), ("POST", "/state/load", {"path": "/etc/passwd"}, 400, "no state"),
    ("POST", "/state/save", {"path": "/proc/none/x"}, None, ""), ("POST", "/network/headers", {}, 422, "headers"), ("POST", "/network/headers", {"headers": {"a b": "c"}}, 400, "a b"),
    ("POST", "/network/scoped_headers", {"origin": "nowhere", "headers": {"a": "b"}}, 400, "origin"), ("POST", "/network/route", {"url_pattern": "x"}, 422, "response"),
    ("POST", "/network/route", {"url_pattern": "x", "response": {"status": 7}}, 422, "status"), ("POST", "/network/route", {"url_pattern": "x", "response": "y"}, 422, "response"),
    ("GET", "/network/requests?limit=0", None, 422, "limit"), ("POST", "/restart", {"mode": "maybe"}, 422, "mode"), ("POST", "/restart", {"locale": "a b"}, 400, "locale"),
    ("POST", "/page/navigate", {"url": "http://127.0.0.1:8999/"}, 404, "ERR_CONNECTION_REFUSED"),
]


def test_wrong_calls_name_what_is_wrong(aio, spec):
    aio.go("form.html")
    for method, path, body, status, word in WRONG:
        reply = aio.server.request(method, "/v1/browser" + path, body)
        assert (status is None and reply.status in (200, 400, 404)) or reply.status == status, (method, path, body, reply.status, reply.body)
        answer = reply.json
        assert answer["success"] is False and answer["data"] is None and word in json.dumps(answer, ensure_ascii=False), (method, path, body, answer)
        if reply.status == 422 and spec:
            assert not aio_schema.errors(spec, {"$ref": "#/components/schemas/HTTPValidationError"}, answer)


def test_every_operation_of_the_browser_was_called(aio, spec):
    """The last of this file: what the tests above did not call has no test."""
    if not spec:
        pytest.skip("the original's OpenAPI file is not here")
    known = {(m.upper(), p) for p, ops in spec["paths"].items() for m in ops if p.startswith("/v1/browser")}
    assert not {c for c in known - aio.called if c[1] not in ("/v1/browser/captcha/wait",)}
