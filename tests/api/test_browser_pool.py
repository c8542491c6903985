"""Warm browsers: a seat of the pool has one that nobody has used, and what one worker does in it no other sees."""

import contextlib
import os
import signal

import pytest

import sg

pytestmark = pytest.mark.skipif(not os.path.exists("/usr/lib/chromium/chromium-headless-shell"), reason="Debian's chromium-headless-shell is not installed")


def browsers(server, box=None):
    """As the host numbers them. A renderer is there when the first page is."""
    lines = {p: sg.read(f"/proc/{p}/cmdline") for p in server.box_pids(box)}
    return [p for p, line in lines.items() if "remote-debugging-pipe" in line and "--type=" not in line], \
        [p for p, line in lines.items() if "--type=renderer" in line]


def parked(server, n):
    sg.wait_for(lambda: [len(x) >= n for x in browsers(server)] == [True, True], 120)


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2", "--browser-warm") as s:
        parked(s, 2)
        yield s


def test_a_box_from_the_pool_has_a_browser_of_its_own_at_once(server):
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(server.box()) for _ in range(2)]
        ours = []
        for b in boxes:
            had = browsers(server, b.id)[0]
            r = b.tool("browser:goto", {"url": "data:text/html,<title>x</title>", "width": 900, "height": 500})
            assert r["outcome"] == "ok" and not r["data"]["restarted"]
            assert had and browsers(server, b.id)[0] == had  # the one that waited
            assert b.tool("browser:evaluate", {"expression": "[innerWidth, innerHeight]"})["data"]["value"] == [900, 500]
            ours += had
        assert len(set(ours)) == 2
        for b in boxes:
            b.tool("file:write", {"path": "/home/gem/x.html", "content": "<title>x</title>"})
            b.tool("bash:start", {"command": "cd /home/gem && exec python3 -m http.server 8000 --bind 127.0.0.1"})
            sg.wait_for(lambda: b.run("curl -sf 127.0.0.1:8000/x.html >/dev/null")["data"]["exit_code"] == 0, 60)
            assert b.tool("browser:goto", {"url": "http://127.0.0.1:8000/x.html"})["outcome"] == "ok"
            seen = b.tool("browser:evaluate", {"expression": "const had = document.cookie + localStorage.length; document.cookie = 'a=1; max-age=9999'; localStorage.b = 2; had"})
            assert seen["data"]["value"] == "0"  # nobody was here before
    parked(server, 2)  # others take their places


def test_a_browser_that_died_in_the_pool_is_replaced_without_a_word(server):
    parked(server, 2)
    for p in browsers(server)[0]:
        os.kill(p, signal.SIGKILL)
    with server.box() as b:
        r = b.tool("browser:screenshot")
        assert r["outcome"] == "ok" and not r["data"]["restarted"]


def test_nothing_is_left_of_a_box_with_a_browser(server):
    with server.box() as b:
        assert b.tool("browser:screenshot")["outcome"] == "ok"
        pids = server.box_pids(b.id)
    sg.wait_for(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 60)
