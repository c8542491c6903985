"""A real browser in a box, against pages that a server in the same box has: what the page received is what counts."""

import base64
import json
import struct

import pytest

import sg

PAGES = {
    "form.html": """<meta charset=utf-8><title>Form</title><form action=/done.html><input id=name name=name><input type=checkbox id=agree name=agree>
        <select id=colour name=colour multiple><option value=r>Red</option><option value=g>Green</option></select>
        <input type=file id=file onchange="this.files[0].text().then(t => document.title = t)"><button id=send>Send</button></form>
        <iframe src=/inner.html id=frame></iframe><div id=host></div>
        <script>host.attachShadow({mode: 'open'}).innerHTML = '<button id=deep>Deep</button>';
        host.shadowRoot.querySelector('#deep').onclick = () => document.title = 'deep was clicked';
        document.addEventListener('keydown', e => { document.body.dataset.keys = (document.body.dataset.keys || '') + e.key + ','; });</script>""",
    "inner.html": "<button id=inside onclick=\"parent.document.title='inside was clicked'\">Inside</button>",
    "done.html": "<title>Done</title><p id=query></p><script>query.textContent = location.search</script><a href=/form.html>again</a>",
    "talk.html": """<title>Talk</title><button id=a onclick="document.title='alerted '+alert('hey')">a</button>
        <button id=c onclick="document.title='confirmed '+confirm('sure?')">c</button><button id=p onclick="document.title='prompt '+prompt('who?')">p</button>
        <button id=pop onclick="window.open('/done.html')">pop</button><a id=get href=/data.bin download>get</a><script>console.log('loaded', 42)</script>""",
    "late.html": """<title>Late</title><script>setTimeout(() => { const b = document.createElement('button'); b.id = 'late'; b.textContent = 'Late';
        b.onclick = () => history.pushState({}, '', '/late.html?clicked'); document.body.append(b) }, 700);
        addEventListener('scroll', () => { if (scrollY > 500) document.title = 'scrolled' })</script><div style="height:5000px">tall</div>""",
    "outline.html": """<meta charset=utf-8><title>Outline</title><span id=lb>Billing address</span><input aria-labelledby=lb value=here><div>Total: 42 EUR <b>net</b></div>
        <h5>Small head</h5><div role=tab aria-selected=true>First</div><details><summary>More</summary>inside</details><div aria-hidden=true>decoration</div>
        <p>one <a href=/done.html target=_blank>two</a></p><div role=button aria-pressed=true aria-disabled=true>Bold</div><div contenteditable=true title=Note></div>""",
    "cover.html": """<title>Cover</title><body style="margin:0"><button id=under style="position:absolute;left:40px;top:40px" onclick="document.title='reached'">u</button>
        <div id=over style="position:fixed;inset:0" onclick="document.title='stopped'"></div><fieldset id=off disabled style="position:relative;z-index:9;width:90px"><button id=dim onclick="document.title='off'">off</button></fieldset><style>#dim:hover { color: red }</style>""",
    "data.bin": "0123456789" * 100,
    "drag.html": """<title>Drag</title><body style="margin:0"><div id=a draggable=true style="position:absolute;left:20px;top:20px;width:80px;height:80px">a</div>
        <div id=z style="position:absolute;left:300px;top:200px;width:200px;height:200px">z</div><script>
        log = []; const note = x => log.at(-1) == x || log.push(x);
        for (const t of ['dragstart', 'dragend', 'click']) a.addEventListener(t, e => { note(t); if (t == 'dragstart') {
            e.dataTransfer.setData('text/plain', 'hello'); e.dataTransfer.setData('application/x-mine', '42'); e.dataTransfer.effectAllowed = 'move' } });
        for (const t of ['dragenter', 'dragover', 'drop', 'mouseup']) z.addEventListener(t, e => { note(t); e.preventDefault(); if (t == 'drop')
            log.push(e.dataTransfer.getData('text/plain'), e.dataTransfer.getData('application/x-mine'), e.clientX + ',' + e.clientY) });</script>""",
    "workers.html": """<title>Workers</title><script>const w = new Worker('/dedicated.js'); w.onmessage = e => { dedicated = e.data };
        const s = new SharedWorker('/shared.js'); s.port.onmessage = e => { shared = e.data };
        navigator.serviceWorker.register('/service.js').then(() => navigator.serviceWorker.ready).then(() => { service = 'ready' })</script>""",
    "dedicated.js": "console.log('from the dedicated'); importScripts('/imported.js'); fetch('/data.bin?dedicated').then(r => r.text()).then(t => postMessage(t + imported))",
    "imported.js": "imported = 'and more'; new Worker('/nested.js')",
    "nested.js": "fetch('/data.bin?nested'); throw new Error('from the nested')",
    "shared.js": "console.warn('from the shared'); onconnect = e => fetch('/data.bin?shared').then(r => r.text()).then(t => e.ports[0].postMessage(t))",
    "service.js": "console.log('from the service'); oninstall = e => e.waitUntil(fetch('/data.bin?service'))",
}


@pytest.fixture(scope="module")
def box():
    with sg.running("--pool-size", "1") as s, s.box(memory="2g") as b:
        if b.run("test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell")["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        for name, text in PAGES.items():
            b.tool("file:write", {"path": f"/home/gem/site/{name}", "content": text})
        b.tool("bash:start", {"command": "cd /home/gem/site && exec python3 -m http.server 8000 --bind 127.0.0.1"})
        sg.wait_for(lambda: b.run("curl -sf 127.0.0.1:8000/form.html >/dev/null")["data"]["exit_code"] == 0, 20)
        b.server = s
        yield b


class Browser:
    def __init__(self, box):
        self.box = box

    def __getattr__(self, tool):
        def call(outcome="ok", **params):
            r = self.box.tool(f"browser:{tool}", params)
            assert r["outcome"] == outcome, r
            return r["data"] if r["outcome"] == "ok" else r
        return call

    def open(self, page):
        return self.goto(url=f"http://127.0.0.1:8000/{page}")

    def js(self, expression):
        return self.evaluate(expression=expression)["value"]


@pytest.fixture(scope="module")
def web(box):
    return Browser(box)


def test_a_form_is_filled_and_sent_as_a_person_would(web):
    assert web.open("form.html")["status"] == 200
    web.type(selector="#name", text="Ada Löwe")
    web.click(selector="#agree")
    assert web.select(selector="#colour", values=["Green"])["selected"] == ["g"]
    r = web.click(selector="#send")
    assert r["title"] == "Done" and r["element"]["id"] == "send"
    assert web.extract(selector="#query")["content"] == "?name=Ada+L%C3%B6we&agree=on&colour=g"
    assert web.extract(what="links")["links"] == [{"text": "again", "href": "http://127.0.0.1:8000/form.html"}]
    assert web.back()["title"] == "Form" and web.forward()["title"] == "Done" and web.reload()["title"] == "Done"


def test_references_reach_into_shadow_roots_and_frames(web):
    web.open("form.html")
    outline = web.snapshot()["snapshot"]
    ref = {line.split('"')[1]: line.split("ref=")[1].split("]")[0] for line in outline.splitlines() if '"' in line and "ref=" in line}
    assert web.click(ref=ref["Deep"])["title"] == "deep was clicked"
    assert web.click(ref=ref["Inside"])["title"] == "inside was clicked"
    elements = web.elements()["elements"]
    web.type(index=[e["index"] for e in elements if e.get("id") == "name"][0], text="by index")
    assert web.js("document.querySelector('#name').value") == "by index"
    web.open("done.html")
    assert "ref" in web.click("task_error", ref=ref["Deep"], timeout=1)["message"], "that element is gone"


def test_an_outline_tells_what_is_shown_and_how_it_is(web):
    web.open("outline.html")
    told = [line.strip()[2:] for line in web.snapshot()["snapshot"].splitlines()]
    lines = {line.split(" [")[0]: line.split("]", 1)[1] for line in told}
    assert lines['textbox "Billing address"'] == ' value="here"' and lines['text "Billing address"'] == ""
    assert lines['text "Total: 42 EUR"'] == lines['text "net"'] == "" and lines['heading "Small head"'] == " level=5"
    assert lines['tab "First"'] == " selected" and lines['group ""'] == " collapsed" and lines['textbox "Note"'] == ""
    assert lines['button "Bold"'] == " pressed disabled" and lines['link "two"'] == "" and lines['paragraph "one two"'] == ""
    assert not [x for x in lines if "decoration" in x or x in ('text "one"', 'text "inside"')]
    again = [line.strip()[2:] for line in web.snapshot()["snapshot"].splitlines()]
    assert again == told, "references stay"
    tabs = len(web.tabs()["tabs"])
    web.click(selector="text=two")
    assert len(web.tabs()["tabs"]) == tabs + 1
    web.tabs(action="close", index=tabs)


def test_a_click_waits_until_it_reaches_its_element(web):
    """What covers it, or disables it, is told if it stays; nothing else gets the click."""
    web.open("cover.html")
    r = web.click("task_error", selector="#under", timeout=1)
    assert '<div id="over"' in r["message"] and "covered" in r["message"] and web.js("document.title") == "Cover"
    assert "disabled" in web.click("task_error", selector="#dim", timeout=1)["message"]
    web.hover(selector="#dim")
    assert web.js("getComputedStyle(dim).color") == "rgb(255, 0, 0)"
    web.js("setTimeout(() => { over.remove(); off.disabled = false }, 200); 1")
    assert web.click(selector="#under")["title"] == "reached" and web.click(selector="#dim")["title"] == "off"


def test_what_is_no_selector_is_told_at_once(web, box):
    web.open("done.html")
    for bad in ("###", "xpath=//["):
        r = box.tool("browser:click", {"selector": bad}, status=400)
        assert f"'{bad}' is no selector" in r["message"] and r["times"]["run_us"] < 15e6, r


def test_keys_and_uploads_arrive(web, box):
    web.open("form.html")
    web.type(selector="#name", text="abc")
    web.press(key="Control+a")
    web.press(key="x")
    web.press(key="Shift+Tab")
    assert web.js("document.querySelector('#name').value") == "x"
    assert web.js("document.body.dataset.keys").endswith("Control,a,x,Shift,Tab,")
    box.tool("file:write", {"path": "/home/gem/up.txt", "content": "from the box"})
    web.upload(selector="#file", files=["/home/gem/up.txt"])
    assert web.wait(type="function", expression="document.title === 'from the box'")["found"]


def test_dialogs_pop_ups_and_downloads_are_told_not_hung_on(web, box):
    web.open("talk.html")
    said = web.console()["messages"][-1]
    assert (said["type"], said["text"], said["url"]) == ("log", "loaded 42", "http://127.0.0.1:8000/talk.html")
    r = web.click(selector="#a")
    assert r["dialogs"] == [{"type": "alert", "message": "hey", "accepted": True}] and r["title"] == "alerted undefined"
    assert web.click(selector="#c")["title"] == "confirmed false"
    web.dialog(accept=True, text="Bob")
    assert web.click(selector="#p")["title"] == "prompt Bob" and web.click(selector="#c")["title"] == "confirmed true"
    web.dialog(accept=False)
    web.click(selector="#pop")
    sg.wait_for(lambda: len(web.tabs()["tabs"]) == 2, 10)
    tabs = web.tabs()["tabs"]
    other = [t["index"] for t in tabs if not t["active"]][0]
    assert web.tabs(action="switch", index=other)["title"] == "Done"
    assert len(web.tabs(action="close", index=other)["tabs"]) == 1
    web.click(selector="#get")
    sg.wait_for(lambda: box.run("cat /home/gem/Downloads/data.bin")["data"]["stdout"] == PAGES["data.bin"], 10)


def test_waiting_is_for_what_happens(web):
    web.open("late.html")
    assert web.click(selector="#late")["element"]["text"] == "Late", "it came later"
    assert web.wait(type="url", pattern="clicked")["found"]
    web.scroll(direction="top")
    assert web.scroll(direction="down", amount=800)["y"] == 800
    assert web.wait(type="function", expression="document.title === 'scrolled'")["found"]
    r = web.wait("timeout", selector="#never", timeout=0.5)
    assert not r["data"]["found"] and "in time" in r["message"]
    r = web.goto("task_error", url="http://127.0.0.1:8999/")
    assert "ERR_CONNECTION_REFUSED" in r["message"]
    assert web.open("late.html")["title"] == "Late", "and the browser goes on"


@pytest.mark.parametrize("what, params", [
    ("document.body.append(Object.assign(document.createElement('i'), {id: 'n', textContent: 'x'}))", {"selector": "#n"}),
    ("query.style.display = 'none'", {"selector": "#query", "state": "hidden"}),
    ("query.textContent = 'said'", {"type": "function", "expression": "query.textContent === 'said'"}),
    ("history.pushState({}, '', '?moved')", {"type": "url", "pattern": "moved"}),
    ("fetch('/data.bin')", {"type": "response", "pattern": "data.bin"})])
def test_what_happens_is_noticed_when_it_happens(web, what, params):
    """Without looking at it again and again: the next look would be in a minute."""
    web.open("done.html?" + "x" * 20)
    web.js(f"setTimeout(() => {{ {what} }}, 300); 1")
    assert web.wait(**params, polling=60, timeout=30)["found"]


def test_a_screenshot_is_a_picture_of_the_page(web, box):
    web.open("late.html")
    r = web.screenshot()
    png = base64.b64decode(r["image"])
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", png[16:24]) == (r["width"], r["height"]) == (1280, 800)
    full = web.screenshot(full_page=True, format="jpeg")
    assert full["height"] >= 5000 and base64.b64decode(full["image"])[:2] == b"\xff\xd8"
    m = box.server.post(f"/box/{box.id}/mcp", {"method": "tools/call", "params": {"name": "browser_screenshot", "arguments": {}}})
    assert m["content"][1]["type"] == "image" and m["content"][1]["mimeType"] == "image/png" and "image" not in m["structuredContent"]
    web.js("document.body.innerHTML = '<div style=\"width:20000px;height:20000px\">big</div>'")
    assert "100 megapixels" in web.screenshot("task_error", full_page=True)["message"]


def test_the_names_of_aios_documentation_work_over_mcp(web, box):
    def call(name, **arguments):
        r = box.server.post(f"/box/{box.id}/mcp?profile=aio", {"method": "tools/call", "params": {"name": name, "arguments": arguments}})
        assert "error" not in r and not r["isError"], r
        return r
    r = call("browser_navigate", url="http://127.0.0.1:8000/form.html")
    assert "<button>Send</button>" in r["text"] and "form.html" in r["text"]
    number = [int(line.split("]")[0][1:]) for line in call("browser_get_clickable_elements")["text"].splitlines() if ">Send<" in line][0]
    call("browser_form_input_fill", selector="#name", value="Grace")
    call("browser_type", selector="#name", text=" H")
    assert call("browser_evaluate", script="document.querySelector('#name').value")["structuredContent"]["value"] == "Grace H"
    call("browser_click", index=number)
    assert "name=Grace+H" in call("browser_extract")["text"] and "again" in call("browser_get_text")["text"]
    assert call("browser_screenshot")["content"][1]["type"] == "image"
    assert call("browser_read_links")["structuredContent"]["links"][0]["text"] == "again"
    assert "[again](http://127.0.0.1:8000/form.html)" in call("browser_get_markdown")["text"]
    assert call("browser_get_info")["structuredContent"]["width"] > 0
    for name in ("browser_gui_screenshot", "browser_vision_screen_capture"):
        assert call(name)["content"][1]["mimeType"] == "image/png"
    call("browser_go_back")
    x, y = web.js("const r = document.querySelector('#name').getBoundingClientRect(); [r.x + 5, r.y + 5]")
    call("browser_vision_screen_click", x=x, y=y)
    call("browser_gui_execute_action", action={"action_type": "HOTKEY", "keys": ["ctrl", "a"]})
    call("browser_gui_execute_action", action={"action_type": "TYPING", "text": "by hand", "use_clipboard": False})
    assert web.js("document.querySelector('#name').value") == "by hand"
    call("browser_new_tab", url="http://127.0.0.1:8000/talk.html")
    call("browser_click", selector="#get")
    files = sg.wait_for(lambda: [f for f in call("browser_get_download_list")["structuredContent"]["files"] if f["url"].endswith("data.bin") and f["state"] == "completed"], 30)
    assert files[-1]["received"] == files[-1]["total"] == 1000 and box.run(f"wc -c < '{files[-1]['path']}'")["data"]["stdout"].strip() == "1000"
    call("browser_close_tab")
    assert call("browser_tab_list")["structuredContent"]["tabs"][0]["title"] == "Form"
    box.tool("file:write", {"path": "/home/gem/doc.html", "content": "<h1>Head</h1><p>Some <b>text</b></p>"})
    for name in ("markitdown_convert", "markitdown_extract"):
        assert "# Head" in call(name, path="/home/gem/doc.html")["text"]
    assert "# Head" in call("sandbox_convert_to_markdown", uri="file:///home/gem/doc.html")["text"]
    assert call("sandbox_load_skill")["text"].startswith("Skills Count: 0")


def test_values_and_errors_of_scripts(web):
    web.open("done.html")
    assert web.js("[1, {a: null}, 'x']") == [1, {"a": None}, "x"] and web.js("await Promise.resolve(7)") == 7
    assert web.js("return 1 + 1") == 2 and web.js("() => document.title") == "Done"
    r = web.box.tool("browser:evaluate", {"expression": "nothing.here"}, status=400)
    assert "ReferenceError" in r["message"]


def test_a_killed_browser_and_a_crashed_or_hung_page_are_told_and_replaced(web, box):
    web.open("done.html")
    assert box.run("pkill -9 -f remote-debugging-pipe")["data"]["exit_code"] == 0
    sg.wait_for(lambda: box.tool("browser:info", {})["outcome"] == "ok", 30)
    assert web.open("done.html")["title"] == "Done"
    r = box.tool("browser:goto", {"url": "chrome://crash", "timeout": 5})
    assert r["outcome"] != "ok"
    assert web.open("done.html")["title"] == "Done"
    r = web.evaluate("timeout", expression="while (true) {}", timeout=1)
    assert r["outcome"] == "timeout"
    web.tabs(action="new", url="http://127.0.0.1:8000/done.html")
    assert web.js("document.title") == "Done", "another tab answers while one hangs"


def test_agentflows_browser_session_has_its_viewport_and_all_its_tools(box):
    s, worker = box.server, "agentflow-browser"
    r = s.post("/api/v1/session/create", {"worker_id": worker, "resource_type": "browser", "session_config": {"viewport": [900, 700], "headless": True, "memory": "2g"}})
    assert r["code"] == 0, r

    def call(action, **params):
        r = s.execute(worker, f"browser:{action}", params)
        assert r["code"] == 0, (action, r)
        return r["data"]
    page = "data:text/html,<title>T</title><input id=i><select id=s><option>a<option>b</select><button id=b onmouseover=\"document.title='over'\">B</button><input type=file id=f><div style=height:3000px>tall</div>"
    assert call("goto", url=page)["title"] == "T"
    shot = call("screenshot")
    assert (shot["width"], shot["height"]) == (900, 700) and struct.unpack(">II", base64.b64decode(shot["image"])[16:24]) == (900, 700)
    call("click", selector="#i")
    call("type", selector="#i", text="x")
    call("press", key="y")
    assert call("evaluate", script="document.querySelector('#i').value")["value"] == "xy"
    call("select", selector="#s", value="b")
    call("hover", selector="#b")
    assert call("wait", type="function", expression="document.title === 'over'")["found"]
    assert call("scroll", direction="down", amount=100)["y"] == 100
    s.execute(worker, "file:write", {"path": "/home/gem/f.txt", "content": "x"})
    call("upload", selector="#f", files=["/home/gem/f.txt"])
    assert call("extract")["text"].endswith("tall") and "<select" in call("extract", what="html")["html"]
    call("goto", url="data:text/html,<title>U</title>")
    assert call("back")["title"] in ("T", "over") and call("forward")["title"] == "U" and call("reload")["title"] == "U"
    assert len(call("tabs")["tabs"]) == 1
    bad = s.post("/api/v1/session/create", {"worker_id": worker + "2", "resource_type": "browser", "session_config": {"viewport": [1, 2]}}, status=400)
    assert "viewport" in bad["message"]
    s.post("/api/v1/session/destroy", {"worker_id": worker, "resource_type": "browser"})


def test_dragging_what_can_be_dragged_is_a_drag_and_drop_of_the_page(web):
    """HTML5: the page's own events in their order, with what it gave along; in one action, and in pieces."""
    web.open("drag.html")
    web.act(action="move_to", x=60, y=60)
    web.act(action="drag_to", x=400, y=300)
    assert web.js("log") == ["dragstart", "dragenter", "dragover", "drop", "hello", "42", "400,300", "dragend"]
    web.js("log = []")
    for how in ({"action": "move_to", "x": 50, "y": 50}, {"action": "mouse_down"}, {"action": "move_to", "x": 200, "y": 60},
                {"action": "move_to", "x": 350, "y": 250}, {"action": "mouse_up"}):
        web.act(**how)
    assert web.js("log") == ["dragstart", "dragenter", "dragover", "drop", "hello", "42", "350,250", "dragend"]
    web.js("log = []")  # the mouse is free again; and where nothing can be dragged, a drag is the mouse's
    web.click(selector="#a")
    web.act(action="move_to", x=150, y=20)
    web.act(action="drag_to", x=400, y=300)
    assert web.js("log") == ["click", "mouseup"]


def test_requests_of_workers_are_in_the_record_and_in_the_archive(web):
    web.requests(clear=True)
    web.console(clear=True)
    web.open("workers.html")
    sg.wait_for(lambda: web.js("typeof dedicated + typeof shared + typeof service") == "string" * 3, 60)
    wanted = ["workers.html", "dedicated.js", "imported.js", "nested.js", "shared.js", "service.js"] + [
        "data.bin?" + who for who in ("dedicated", "nested", "shared", "service")]

    def seen():
        return {r["url"].rsplit("/", 1)[1]: r for r in web.requests()["requests"] if r["finished"]}
    sg.wait_for(lambda: set(wanted) <= set(seen()), 60)
    urls = [r["url"].rsplit("/", 1)[1] for r in web.requests()["requests"]]
    assert sorted(u for u in urls if u in wanted) == sorted(wanted), "each once"
    assert all(seen()[u]["status"] == 200 for u in wanted) and seen()["data.bin?dedicated"]["size"] == 1000
    har = web.har()["har"]
    entries = {e["request"]["url"].rsplit("/", 1)[1]: e for e in har["log"]["entries"]}
    assert set(wanted) <= set(entries)
    page = entries["workers.html"]["pageref"]
    assert entries["data.bin?dedicated"]["pageref"] == page == entries["data.bin?nested"]["pageref"]
    content = entries["data.bin?dedicated"]["response"]["content"]
    assert content["encoding"] == "base64" and base64.b64decode(content["text"]) == b"0123456789" * 100
    assert [t["title"] for t in web.tabs()["tabs"] if t["active"]] == ["Workers"] and not [t for t in web.tabs()["tabs"] if ".js" in t["url"]]


    def said():
        return {m["text"].split("\n")[0]: (m["type"], m["url"].rsplit("/", 1)[1], m.get("worker")) for m in web.console()["messages"]}
    told = {"from the dedicated": ("log", "dedicated.js", True), "from the shared": ("warning", "shared.js", True),
            "from the service": ("log", "service.js", True), "Error: from the nested": ("exception", "nested.js", True)}
    sg.wait_for(lambda: told.items() <= said().items(), 60)


def test_of_a_page_that_says_much_the_newest_is_kept(web):
    web.open("done.html")
    web.js("for (let i = 0; i < 5000; i++) console.log('line', i, '},{\"type\":\"no', 'ü'.repeat(1001))")
    kept = [m["text"].split()[1] for m in web.console(clear=True)["messages"]]
    assert kept[-1] == "4999" and kept == [str(i) for i in range(5000 - len(kept), 5000)] and len(kept) > 10
    assert web.console()["messages"] == []


def test_routes_and_headers_hold_for_workers(web):
    web.open("done.html")
    web.js("navigator.serviceWorker.getRegistrations().then(l => Promise.all(l.map(r => r.unregister()))).then(() => true)")
    web.requests(clear=True)
    web.route(pattern="**/data.bin?*", body="mocked")
    web.headers(headers={"X-Mine": "1"})
    try:
        web.open("workers.html")
        sg.wait_for(lambda: web.js("[typeof dedicated, typeof shared, typeof service].join()") == "string,string,string", 60)
        assert web.js("[dedicated, shared]") == ["mockedand more", "mocked"]

        def seen():
            return {r["url"].rsplit("?", 1)[1]: r for r in web.requests(filter="**/data.bin?*")["requests"]}
        sg.wait_for(lambda: {"dedicated", "nested", "shared", "service"} <= set(seen()), 60)
        assert all(r["mocked"] and r["request_headers"].get("X-Mine") == "1" for r in seen().values()), seen()
    finally:
        web.route(action="clear")
        web.headers(headers={})


HOME = """
import http.server, time
class Home(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/home": time.sleep(1)
        self.send_response(200); self.send_header("Content-Type", "text/html"); self.end_headers()
        self.wfile.write(b"<title>" + self.path.encode() + b"</title>")
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Home).serve_forever()
"""


def test_the_first_call_finds_the_homepage_and_is_not_overtaken_by_it():
    with sg.running("--browser-homepage", "http://127.0.0.1:8000/home") as s, s.box(memory="1500m") as b:
        if b.run("test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell")["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        b.tool("file:write", {"path": "/home/gem/home.py", "content": HOME})
        b.tool("bash:start", {"command": "exec python3 /home/gem/home.py"})
        sg.wait_for(lambda: b.code("curl -sf 127.0.0.1:8000/x >/dev/null") == 0, 60)
        web = Browser(b)
        assert web.js("[document.title, location.href]") == ["/home", "http://127.0.0.1:8000/home"]
        b.run("pkill -9 -f 'remote-[d]ebugging-pipe'")
        assert web.goto(url="http://127.0.0.1:8000/other")["title"] == "/other"
        assert web.js("[document.title, history.length]") == ["/other", 3], "after the empty page and the homepage"
