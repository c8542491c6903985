"""Every browser operation through the real Python SDK: run by the interpreter that has it, with the server's URL. The site is a
directory of the box that the SDK itself writes and serves."""

import json
import sys
import time

import agent_sandbox as sdk
from agent_sandbox import Sandbox
from agent_sandbox.core.api_error import ApiError

c = Sandbox(base_url=sys.argv[1], timeout=120)
URL = "http://127.0.0.1:8000/"
PAGE = """<!doctype html><title>Page</title><h1>Head</h1><p>A <b>bold</b> word</p><form action=/index.html><input id=q name=q>
<input type=checkbox id=box name=box><select id=pick name=pick><option value=a>A</option><option value=b>B</option></select>
<input type=file id=file></form><button id=go onclick="fetch('/api/data').then(r => r.text()).then(t => document.title = t)">Go</button>
<a id=get href=/data.bin download>get</a><div style="height:3000px"></div><p id=end>The end</p>
<script>console.log('said'); document.cookie = 'seen=yes'; localStorage.setItem('k', 'v');
addEventListener('click', e => { document.body.dataset.at = [e.clientX, e.clientY] })</script>"""


def same(a, b):
    assert a == b, (a, b)


def fails(status, call, **given):
    try:
        call(**given)
    except ApiError as e:
        assert e.status_code == status, (e.status_code, e.body)
        return
    raise AssertionError(f"{call} {given}: no error")


def until(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def js(x):
    return c.browser_page.evaluate(expression=x).data


c.file.write_file(file="/home/gem/site/index.html", content=PAGE)
c.file.write_file(file="/home/gem/site/data.bin", content="0123456789")
c.bash.exec(command="cd ~/site && exec python3 -m http.server 8000 --bind 127.0.0.1", async_mode=True)
until(lambda: c.bash.exec(command="curl -sf 127.0.0.1:8000/ >/dev/null").data.exit_code == 0)

p = c.browser_page
same(p.navigate(url=URL, wait_until="load", timeout=30).data["title"], "Page")
info = c.browser.get_info().data
assert info.cdp_url.startswith("ws") and info.vnc_url and info.viewport.width > 0 and "Chrome" in info.user_agent
assert b"".join(c.browser.screenshot())[:4] == b"\x89PNG"
c.browser.set_config(resolution=sdk.Resolution(width=1280, height=720))
same(c.browser.get_info().data.viewport.height, 720)
same(c.browser.execute_action(request=sdk.Action_Click(x=600, y=400)).action_performed, "CLICK")
same(js("document.body.dataset.at"), "600,400")
c.browser.get_proxy_pac()

p.fill(selector="#q", text="hello")
p.click(selector="#q", click_count=3)
p.type_text(text="typed", delay=0)
same(js("q.value"), "typed")
p.hot_key(keys=["Control", "a"])
p.press_key(key="Backspace")
same(js("q.value"), "")
p.check(selector="#box")
p.uncheck(selector="#box")
same(js("box.checked"), False)
p.select_option(selector="#pick", value="b")
same(js("pick.value"), "b")
c.file.write_file(file="/home/gem/up.txt", content="up")
p.upload_file(selector="#file", files=["/home/gem/up.txt"])
same(js("file.files[0].name"), "up.txt")
p.fill_form(items=[{"selector": "#q", "text": "formed"}, {"selector": "#box", "checked": True}])
same(js("[q.value, box.checked]"), ["formed", True])
p.hover(selector="#go")
p.scroll(direction="down", amount=100)
same(js("scrollY"), 100)
p.scroll_to(x=0, y=0)
p.scroll_to_element(selector="#end")
assert js("scrollY") > 1000
assert b"".join(p.screenshot(full_page=True))[:4] == b"\x89PNG"
assert p.get_html(outer=True).data.startswith("<!DOCTYPE html>") and "Head" in p.get_text().data
assert "A **bold** word" in p.get_markdown().data["markdown"]
assert any(e["id"] == "go" for e in p.get_elements().data if "id" in e)
assert any(m["text"] == "said" for m in p.get_console().data)
p.export_console(save_path="/home/gem/console.json", clear=True)
same(p.get_console(clear=False).data, [])
same(p.find_text(keyword="the END").data[0]["text"], "The end")
p.wait(type="selector", selector="#end", state="attached", timeout=10)
p.wait(type="network_idle", timeout=30)
p.click(selector="#get")
same(p.wait(type="download", save_path="/home/gem/got.bin", timeout=30).data["path"], "/home/gem/got.bin")
p.reload()
p.navigate(url=URL + "?two")
p.back()
same(js("location.search"), "")
p.forward()
same(js("location.search"), "?two")
same(p.record(action="status").data["status"], "idle")
fails(404, p.click, index=99999)
fails(422, p.wait, type="never")

tabs = c.browser_tabs
same(len(tabs.list().data), 1)
same(tabs.create(url=URL).data["index"], 1)
tabs.activate(0)
tabs.close(1)
fails(404, tabs.close, index=9)

cookies = c.browser_cookies
cookies.set_cookies(cookies=[{"name": "n", "value": "v", "url": URL}])
same({k["name"] for k in cookies.get_cookies(urls=URL).data}, {"seen", "n"})
c.browser_state.save(path="/home/gem/state.json")
cookies.clear_cookies()
same(cookies.get_cookies().data, [])
c.browser_state.load(path="/home/gem/state.json")
assert {k["name"] for k in cookies.get_cookies().data} >= {"seen", "n"}
fails(404, c.browser_state.load, path="/none")

n = c.browser_network
n.add_route(url_pattern="**/api/data", response=sdk.RouteResponseModel(status=200, body="mocked", content_type="text/plain"))
p.click(selector="#go")
p.wait(type="function", expression="document.title === 'mocked'", timeout=30)
n.remove_route(url_pattern="**/api/data")
n.set_headers(headers={"X-One": "1"})
n.set_scoped_headers(origin="http://127.0.0.1:8000", headers={"X-Two": "2"})
p.navigate(url=URL + "?headers")
sent = {k.lower(): v for k, v in n.get_requests(filter="?headers", limit=1).data[0]["request_headers"].items()}
same((sent["x-one"], sent["x-two"]), ("1", "2"))
n.export_har(save_path="/home/gem/t.har")
same(json.loads(c.file.read_file(file="/home/gem/t.har").data.content)["log"]["version"], "1.2")
same(c.browser_captcha.detect().data["detected"], False)
c.browser.restart(request=sdk.RestartRequest(mode="hard"))
same(p.navigate(url=URL).data["title"], "Page")
print("sdk: all browser operations answered")
