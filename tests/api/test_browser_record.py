"""What the log keeps of a browser: pictures as blobs, stored once, named by their step; the answer carries them whole."""

import base64
import glob
import html
import json
import os
import subprocess
import urllib.parse

import pytest

import sg

PAGE = "data:text/html," + urllib.parse.quote("<title>T</title><body style='background:%23fff'><button onclick=\"document.body.style.background='red'\">x</button>")


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1", "--browser-record", "both") as s:
        yield s


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="2g") as b:
        if b.run("test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell")["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        yield b


def step_of(server, answer):
    return server.steps(answer["trajectory_id"], after=answer["step"] - 1, limit=1)[0]


def blob(server, answer, name, status=200):
    r = server.request("GET", f"/sg/v1/trajectories/{answer['trajectory_id']}/steps/{answer['step']}/blobs/{name}")
    assert r.status == status, r
    return r


def test_a_screenshot_is_in_the_answer_and_by_name_in_the_log(server, box):
    box.tool("browser:goto", {"url": PAGE})
    r = box.tool("browser:screenshot")
    png = base64.b64decode(r["data"]["image"])
    step = step_of(server, r)
    assert "image" not in step["observation"] and step["observation"]["mime_type"] == "image/png"
    assert step["blobs"]["image"]["bytes"] == len(png) and step["blobs"]["image"]["type"] == "image/png"
    got = blob(server, r, "image")
    assert got.body == png and got.headers["Content-Type"] == "image/png" and "sandbox" in got.headers["Content-Security-Policy"]
    written = b"".join(open(p, "rb").read() for p in glob.glob(server.home + "/log/*"))
    assert r["data"]["image"].encode()[:200] not in written


def test_the_same_picture_is_stored_once(server, box):
    box.tool("browser:goto", {"url": PAGE})
    first, second = box.tool("browser:screenshot"), box.tool("browser:screenshot")
    names = {step_of(server, r)["blobs"]["image"]["hash"] for r in (first, second)}
    assert len(names) == 1
    assert len(glob.glob(f"{server.home}/blobs/*/{names.pop()[7:]}")) == 1


def test_an_action_keeps_the_page_before_and_after_it_and_what_it_acted_on(server, box):
    box.tool("browser:goto", {"url": PAGE})
    r = box.tool("browser:click", {"selector": "button"})
    step = step_of(server, r)
    assert set(r["blobs"]) == {"before", "after"} and "after" not in r["data"]
    assert step["blobs"] == r["blobs"] and step["blobs"]["before"]["hash"] != step["blobs"]["after"]["hash"]
    assert step["observation"]["element"]["tag"] == "button" and step["observation"]["url"].startswith("data:text/html")
    for name in ("before", "after"):
        assert blob(server, r, name).body[:3] == b"\xff\xd8\xff"
    failed = box.tool("browser:click", {"selector": "#nothing", "timeout": 1})  # how the page was is worth most when it failed
    assert failed["outcome"] != "ok" and "before" in failed["blobs"]
    looked = box.tool("browser:info")
    assert not looked.get("blobs")


def test_the_same_key_gives_the_same_picture_again(server, box):
    box.tool("browser:goto", {"url": PAGE})
    first = box.tool("browser:screenshot", key="picture-1")
    again = box.tool("browser:screenshot", key="picture-1")
    assert again["replayed"] and again["data"] == first["data"] and again["step"] == first["step"]


def test_only_what_a_step_names_can_be_read(server, box):
    r = box.tool("browser:screenshot")
    blob(server, r, "after", 404)
    name = step_of(server, r)["blobs"]["image"]["hash"]
    blob(server, r, name, 404)
    for path in ("..%2F..%2Findex.sqlite", "%00", "image/../image"):
        blob(server, r, path, 400)
    t = r["trajectory_id"]
    for path in (f"{t}/steps/0/blobs/image", f"{t}/steps/x/blobs/image", f"{t}/steps/99999/blobs/image", "none/steps/1/blobs/image"):
        assert server.request("GET", f"/sg/v1/trajectories/{path}").status == 404
    # a step from elsewhere that claims to have it
    server.post("/sg/v1/trajectories/claimed/steps", {"first_step": 1, "worker": "w", "steps": [
        {"tool": "browser:screenshot", "params": {}, "outcome": "ok", "observation": {}, "blobs": {"image": {"hash": name, "bytes": 1}}}]}, status=201)
    assert server.steps("claimed")[0]["blobs"]["image"]["hash"] == name
    assert server.request("GET", "/sg/v1/trajectories/claimed/steps/1/blobs/image").status == 404


def test_whole_outputs_are_served_too(server, box):
    r = box.run("seq 1 100000")
    assert blob(server, r, "stdout").body == "".join(f"{i}\n" for i in range(1, 100001)).encode()


def test_pictures_survive_a_kill_of_serve_and_recorder(server, box):
    r = box.tool("browser:screenshot")
    os.kill(server.role("recorder"), 9)
    server.kill_role("serve")
    server.wait_ready(60)
    assert blob(server, r, "image").body == base64.b64decode(r["data"]["image"])


EVIL = "</pre></style><script>document.title='run'</script><img src=x onerror=\"document.title='run'\"><svg onload=alert(1)>'\"&"


def page_of(server, trajectory, tmp_path):
    file = tmp_path / "log.html"
    subprocess.run([sg.BINARY, "log", trajectory, "--url", server.url, "--html", "-o", file], check=True)
    return file.read_text()


def test_a_log_as_a_page_shows_everything_and_runs_nothing(server, box, tmp_path):
    """All that agents and pages can say is in it: outputs, names of tools and parameters, titles, notes."""
    quoted = EVIL.replace("'", "'\\''")
    box.run(f"echo '{quoted}'; echo '{quoted}' >&2; exit 3")
    box.tool(EVIL, {EVIL: EVIL}, status=None)
    box.tool("bash:run", {"command": "true", EVIL: EVIL}, status=None)
    box.tool("browser:goto", {"url": PAGE})
    box.tool("browser:evaluate", {"expression": f"document.title = {json.dumps(EVIL)}"})
    last = box.tool("browser:screenshot")
    t = last["trajectory_id"]
    server.request("PATCH", f"/sg/v1/trajectories/{t}", {"note": EVIL, "tags": [EVIL]})
    text = page_of(server, t, tmp_path)
    assert text.count("<script") == 0 and EVIL not in text and html.escape(EVIL).replace('&#x27;', '&#39;') in text
    box.tool("file:write", {"path": "/home/gem/log.html", "content": text})
    box.tool("browser:goto", {"url": "file:///home/gem/log.html"})
    seen = box.tool("browser:evaluate", {"expression": """({title: document.title, scripts: document.scripts.length, svg: document.querySelectorAll('svg').length,
        steps: document.querySelectorAll('article').length, pictures: [...document.images].map(i => i.naturalWidth),
        outputs: [...document.querySelectorAll('pre')].map(p => p.textContent)})"""})["data"]["value"]
    assert seen["title"] == t and seen["scripts"] == 0 and seen["svg"] == 0
    assert seen["steps"] == text.count("<article ") == last["step"]
    assert seen["pictures"] and min(seen["pictures"]) > 100  # each of them was really decoded
    assert any(EVIL in o for o in seen["outputs"])  # as text


def test_the_page_of_a_log_goes_to_standard_output_too_and_refuses_what_it_cannot_do(server, box):
    t = box.run("echo on standard output")["trajectory_id"]
    log = [sg.BINARY, "log", t, "--url", server.url]
    out = subprocess.run([*log, "--html"], capture_output=True, text=True, check=True).stdout
    assert out.startswith("<!doctype html>") and out.rstrip().endswith("</html>") and "default-src 'none'" in out
    assert subprocess.run([*log, "--html", "--follow"], capture_output=True).returncode == 2
    assert subprocess.run([*log, "-o", "x"], capture_output=True).returncode == 2
    assert subprocess.run([*log, "--html", "-o", "/no/such/dir/x"], capture_output=True).returncode == 1
    assert subprocess.run([sg.BINARY, "log", "nobody", "--url", server.url, "--html"], capture_output=True).returncode == 5


def test_an_export_hands_on_the_pictures_that_the_model_was_shown(server, box):
    box.tool("browser:goto", {"url": PAGE})
    r = box.tool("browser:screenshot")
    export = [sg.BINARY, "export", r["trajectory_id"], "--url", server.url, "--format"]
    line = json.loads(subprocess.run([*export, "openai", "--images"], capture_output=True, text=True, check=True).stdout)
    shown = [m for m in line["messages"] if isinstance(m["content"], list)]
    assert shown[-1] == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64," + r["data"]["image"]}}]}
    plain = json.loads(subprocess.run([*export, "openai"], capture_output=True, text=True, check=True).stdout)
    assert plain["messages"][-1]["role"] == "tool" and len(plain["messages"][-1]["content"]) < 1000
    read = subprocess.run([sg.BINARY, "import", "-"], input=json.dumps(line), capture_output=True, text=True, check=True).stdout
    assert json.loads(read)["steps"][-1]["tool"] == "browser:screenshot"
    assert subprocess.run([*export, "swe-agent", "--images"], capture_output=True).returncode == 2


def test_a_replay_compares_pictures_that_were_asked_for_and_not_those_that_the_log_took(server):
    with server.box(memory="1500m") as b:
        b.tool("browser:goto", {"url": PAGE})
        b.tool("browser:click", {"selector": "button"})
        t = b.tool("browser:screenshot")["trajectory_id"]
    report = json.loads(subprocess.run([sg.BINARY, "replay", t, "--json", "--url", server.url], capture_output=True, text=True, timeout=300).stdout)
    assert report["counts"]["diverged"] == 0 and report["completed_steps"] == 3 and report["details"][2]["class"] == "identical", report
