"""A box whose reset did not prove itself: it stands still, every call on it is told so at once, and only a proved reset
or its end brings it out."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import threading
import time

import pytest

import sg
from test_repo import Repo
from test_state import cli, fork, layer_file, restore, root, snapshot


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def tampered(box, name=None):
    """A state of the box whose layer somebody has changed on disk."""
    box.out("mkdir -p /workspace/d; echo good > /workspace/d/payload")
    state = snapshot(box, **({"name": name} if name else {}))["state"]
    root(box.server, state)
    layer_file(box.server, state, "payload").write_text("evil\n")
    return state


def quarantine(box):
    state = tampered(box)
    r = restore(box, "reset", status=403, state=state)
    assert f"box {box.id} is quarantined" in r["error"]["message"] and state in r["error"]["message"], r
    return state


def is_told(message, box, state):
    since = box.show()["quarantine"]["since"]
    assert f"box {box.id} is quarantined since {since}" in message and state in message, message


# ---- what it is ----


def test_a_box_whose_reset_is_not_proved_says_so_wherever_it_is_shown(server):
    with server.box() as box:
        before = time.time()
        state = quarantine(box)
        shown = box.show()
        assert shown["state"] == "quarantined" and shown["quarantine"]["state"] == state
        assert before - 1 < shown["quarantine"]["since_us"] / 1e6 < time.time() + 1
        assert {b["id"]: b["state"] for b in server.get("/sg/v1/boxes")["boxes"]}[box.id] == "quarantined"
        assert any(line.split()[:2] == [box.id, "quarantined"] for line in cli(server, "list")[1].decode().splitlines())
        assert "quarantined" in cli(server, "show", box.id)[1].decode()
        assert 'sandglass_boxes{state="quarantined"} 1\n' in server.request("GET", "/metrics").body.decode()
        listed = subprocess.run([os.path.join(os.path.dirname(sg.BINARY), "knowlyr-sandbox"), "list", "--url", server.url],
                                capture_output=True, text=True, timeout=60).stdout
        assert any(line.split()[:2] == [box.id, "quarantined"] for line in listed.splitlines()), listed
        assert server.get(f"/sg/v1/states/{state}")["quarantined"] is True
        assert [s["quarantined"] for s in server.get(f"/sg/v1/states?box={box.id}")["states"] if s["state"] == state] == [True]
        assert any(x.split()[0] == state and "quarantined" in x for x in cli(server, "states", box.id)[1].decode().splitlines())


def test_every_call_on_it_is_answered_at_once_and_is_nobodys_fault(server):
    with server.box() as box:
        state = quarantine(box)
        for tool, params in (("bash:run", {"command": "echo hi"}), ("file:read", {"path": "/workspace/d/payload"}),
                             ("file:write", {"path": "/tmp/x", "content": "x"}), ("code:execute", {"code": "1"}),
                             ("box:snapshot", {}), ("box:fork", {}), ("box:diff", {"a": "x"})):
            began = time.monotonic()
            r = box.tool(tool, params, status=500)
            assert time.monotonic() - began < 5, tool
            assert (r["outcome"], r["trainable"], r["retry_safe"]) == ("infra_error", False, True), r
            is_told(r["message"], box, state)
        steps = server.steps(box.show()["trajectory"])
        assert [s["outcome"] for s in steps[-7:]] == ["infra_error"] * 7 and not any(s["trainable"] for s in steps[-7:])
        assert {s["box"] for s in steps[-7:]} == {box.id}
        assert "is quarantined since" in cli(server, "log", box.id)[1].decode()
        code, _, err = cli(server, "exec", box.id, "echo hi")
        assert code == 125 and "is quarantined since" in err


def test_other_surfaces_are_told_too(server):
    with server.box() as box:
        state = quarantine(box)
        for method, path, body in (("POST", "v1/shell/exec", {"command": "echo hi"}), ("GET", "v1/sandbox", None),
                                   ("POST", "v1/file/read", {"file": "/etc/hostname"})):
            r = server.request(method, f"/box/{box.id}/{path}", body)
            assert r.status == 503 and r["success"] is False, r
            is_told(r["message"], box, state)
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bash_run", "arguments": {"command": "id"}}}
        r = server.post(f"/box/{box.id}/mcp", call)["result"]
        assert r["isError"] is True
        is_told(r["content"][0]["text"], box, state)


def test_a_workers_session_is_in_error_and_names_why(server):
    worker = sg.unique("w")
    server.session(worker)
    server.execute(worker, "bash:run", {"command": "mkdir -p /workspace/d; echo good > /workspace/d/payload"})
    state = server.execute(worker, "box:snapshot")["data"]["state"]
    root(server, state)
    layer_file(server, state, "payload").write_text("evil\n")
    r = server.execute(worker, "box:reset", {"state": state}, status=None)
    assert r["code"] != 0 and "quarantined" in r["message"]
    [session] = server.post("/api/v1/session/list", {"worker_id": worker})["data"]["sessions"]
    assert (session["status"], session["box_state"], session["quarantine"]["state"]) == ("error", "quarantined", state)
    r = server.execute(worker, "bash:run", {"command": "echo hi"}, status=None)
    assert r["code"] != 0 and "is quarantined since" in r["message"]
    again = server.post("/api/v1/init/resource", {"worker_id": worker, "resource_type": "bash"}, 500)
    assert again["code"] == 4007 and again["data"]["session_id"] == session["session_id"]
    assert again["data"]["session_status"] == "error" and "is quarantined since" in again["data"]["error"]
    told = server.post("/api/v1/lifecycle/status", {"worker_id": worker})["data"]["sessions"]["bash"]
    assert told["status"] == "error"
    assert server.execute(worker, "box:reset")["data"]["proved"] is True
    [session] = server.post("/api/v1/session/list", {"worker_id": worker})["data"]["sessions"]
    assert session["status"] == "active" and "box_state" not in session
    assert server.execute(worker, "bash:run", {"command": "echo hi"})["data"]["stdout"] == "hi\n"
    server.disconnect(worker)


def ticks(pid):
    return sum(int(x) for x in sg.read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:13])


def test_its_processes_stand_still_and_nobody_wakes_them(server):
    with server.box() as box:
        state = tampered(box)
        mark = "5e8d" + sg.unique("busy").replace("-", "")
        box.tool("bash:start", {"command": f"exec -a {mark} bash -c 'while :; do :; done'"})
        [pid] = sg.wait_for(lambda: [p for p in server.box_pids() if mark in sg.read(f"/proc/{p}/cmdline")])
        sg.wait_for(lambda: ticks(pid) > 2)
        restore(box, "reset", status=403, state=state)

        def still():
            before = ticks(pid)
            time.sleep(0.3)
            return ticks(pid) == before

        sg.wait_for(still)
        for verb in ("resume", "pause"):
            r = server.request("POST", f"/sg/v1/boxes/{box.id}/{verb}", {})
            assert r.status == 409 and "is quarantined since" in r["error"]["message"], r
        assert still() and box.show()["state"] == "quarantined"


def test_a_call_that_runs_when_it_happens_ends_and_may_not_be_repeated_blindly(server):
    with server.box() as box:
        state = tampered(box)
        answer = []
        thread = threading.Thread(target=lambda: answer.append(box.tool("bash:run", {"command": "sleep 300"}, status=500)))
        thread.start()
        sg.wait_for(lambda: any("sleep" in sg.read(f"/proc/{p}/cmdline") for p in server.box_pids()))
        restore(box, "reset", status=403, state=state)
        thread.join(20)
        assert (answer[0]["outcome"], answer[0]["retry_safe"]) == ("infra_error", False)
        is_told(answer[0]["message"], box, state)


# ---- out of it ----


def test_a_proved_reset_to_the_image_ends_it(server):
    with server.box() as box:
        quarantine(box)
        r = restore(box, "reset")
        assert r["proved"] is True and r["state"] == "running" and r["restored"] is None and "quarantine" not in r
        assert box.code("test -e /workspace/d") == 1


def test_a_state_that_proves_itself_ends_it_and_a_restore_must_prove_itself_then(server):
    with server.box() as box, server.box() as another:
        another.out("echo 1 > /workspace/f")
        good = snapshot(another)["state"]
        root(server, good)
        for verb in ("reset", "restore"):
            bad = quarantine(box)
            r = restore(box, verb, state=good)
            assert r["proved"] is True and r["state"] == "running"
            assert box.out("cat /workspace/f; ls /workspace") == "1\nf\n"
            assert restore(box, "restore", status=403, state=bad) and box.show()["state"] == "running"
        with server.box() as third:
            third.out("echo 3 > /workspace/f")
            other = snapshot(third)["state"]  # shares no layer with one that is bad
        assert restore(box, "restore", state=other)["proved"] is False  # as always


def test_what_does_not_touch_the_box_goes_on(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        good = snapshot(box)["state"]
        quarantine(box)
        _, (copy,) = fork(box, state=good)
        assert copy.out("cat /workspace/f") == "1\n"
        server.destroy(copy.id)
        assert box.tool("box:states")["outcome"] == "ok"
        for verb in ("snapshot", "fork"):
            r = server.post(f"/sg/v1/boxes/{box.id}/{verb}", {}, 403)
            assert "is quarantined since" in r["error"]["message"]


def test_it_can_be_destroyed(server):
    box = sg.Box(server, server.create())
    quarantine(box)
    server.destroy(box.id)
    assert server.request("GET", f"/sg/v1/boxes/{box.id}").status == 404


def test_a_state_that_was_found_out_before_quarantines_the_next_box_that_is_reset_to_it(server):
    with server.box() as one, server.box() as other:
        state = quarantine(one)
        assert restore(other, "restore", status=403, state=state) and other.out("echo here") == "here\n"
        r = restore(other, "reset", status=403, state=state)
        assert f"box {other.id} is quarantined" in r["error"]["message"]
        assert other.show()["quarantine"]["state"] == state


def test_a_request_that_names_nothing_quarantines_nothing(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        restore(box, "reset", status=404, state="s-0000")
        restore(box, "reset", status=404, state="no such name")
        assert box.out("cat /workspace/f") == "1\n"


def test_a_layer_that_is_gone_is_found_and_the_state_stays_refused(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        state = snapshot(box)
        root(server, state["state"])
        layer = pathlib.Path(server.home, "layers", state["layers"][0])
        layer.rename(layer.with_name("l-" + "z" * 20))
        assert "no layer" in restore(box, "reset", status=403, state=state["state"])["error"]["message"]
        assert box.show()["state"] == "quarantined"
        layer.with_name("l-" + "z" * 20).rename(layer)
        restore(box, "restore", status=403, state=state["state"])


def test_it_survives_a_kill_of_every_role(server):
    with server.box() as box:
        state = quarantine(box)
        since = box.show()["quarantine"]
        for role in ("serve", "supervise", "recorder"):
            server.kill_role(role)
            server.wait_ready(20)
            sg.wait_for(lambda: box.show()["state"] == "quarantined")
            assert box.show()["quarantine"] == since
            r = box.tool("bash:run", {"command": "echo hi"}, status=500)
            assert r["outcome"] == "infra_error" and r["retry_safe"] is True, r
            is_told(r["message"], box, state)
        assert restore(box, "reset")["proved"] is True and box.out("echo hi") == "hi\n"
        server.kill_role("serve")
        server.wait_ready(20)
        assert box.show()["state"] == "running" and box.out("echo hi") == "hi\n"


# ---- what is proved ----


def own_file(path, text):
    """Other servers share the image's files by hard links: this one gets another in its place."""
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("how", ["content", "mode", "added", "removed", "sudo"])
def test_a_reset_proves_the_image_too(how):
    with sg.running("--pool-size", "1") as s, s.box() as box:
        assert restore(box, "reset")["proved"] is True
        good = snapshot(box)["state"]
        assert root(s, good) == restore(box, "reset")["root"]  # of the same files
        box.out("echo 1 > /workspace/f")
        full = snapshot(box)["state"]
        root(s, full)
        assert restore(box, "reset", state=full)["proved"] is True
        [image] = pathlib.Path(s.home, "images").glob("host-*")
        file = image / "root/etc/nsswitch.conf"
        text = file.read_text()
        if how == "content":
            own_file(file, text + "evil\n")
        elif how == "mode":
            own_file(file, text)
            file.chmod(0o666)
        elif how == "added":
            (image / "root/etc/evil").write_text("evil\n")
        elif how == "removed":
            file.unlink()
        else:
            file = image / "usr-sudo/bin/sudo"
            kept = file.rename(s.home + "/kept-sudo")
            file.write_text("evil")
            file.chmod(0o755)
        for body in ({}, {"state": full}):
            r = restore(box, "reset", status=403, **body)
            assert f"box {box.id} is quarantined" in r["error"]["message"] and "not as they were built" in r["error"]["message"], r
        assert box.show()["quarantine"]["state"] is None and "its image" in box.tool("bash:run", {"command": "true"}, status=500)["message"]
        if how != "sudo":
            with s.box(sudo=False) as other:
                restore(other, "reset", status=403)
        assert "quarantined" not in s.get(f"/sg/v1/states/{full}")  # its layers are good
        if how == "added":
            (image / "root/etc/evil").unlink()
        elif how == "sudo":
            file.unlink()
            kept.rename(file)
        else:
            file.unlink(missing_ok=True)
            file.write_text(text)
            file.chmod(0o644)
        assert restore(box, "reset", state=full)["proved"] is True and box.out("cat /workspace/f") == "1\n"


def test_the_images_proof_survives_a_restart():
    with sg.running("--pool-size", "0") as s, s.box() as box:
        s.stop()
        [image] = pathlib.Path(s.home, "images").glob("host-*")
        file = image / "root/etc/nsswitch.conf"
        own_file(file, file.read_text() + "evil\n")
        s.start()
        assert "not as they were built" in restore(box, "reset", status=403)["error"]["message"]


def test_a_state_of_another_generation_of_the_image_is_no_proof_but_is_not_bad_either(monkeypatch):
    place = sg.open_place("generation")
    for name in ("sandglass", "sandglass-init"):
        shutil.copy(os.path.join(os.path.dirname(sg.BINARY), name), place / name)
    monkeypatch.setattr(sg, "BINARY", str(place / "sandglass"))
    with sg.running("--pool-size", "0") as s, s.box() as box:
        box.out("echo 1 > /workspace/f")
        state = snapshot(box)["state"]
        root(s, state)
        assert restore(box, "reset", state=state)["proved"] is True
        s.stop()
        with open(place / "sandglass-init", "ab") as f:  # as an upgrade does
            f.write(b"another")
        s.start()
        r = restore(box, "reset", status=403, state=state)
        assert f"box {box.id} is quarantined" in r["error"]["message"] and "it is of the image's generation" in r["error"]["message"]
        assert "quarantined" not in s.get(f"/sg/v1/states/{state}")
        _, (copy,) = fork(state, server=s)
        assert copy.out("cat /workspace/f") == "1\n"
        s.destroy(copy.id)
        assert restore(box, "reset")["proved"] is True and box.code("test -e /workspace/f") == 1


def test_a_reset_takes_no_seat_in_which_something_was_written():
    def parked():
        return "\nsandglass_seats_ready 1\n" in s.request("GET", "/metrics").body.decode()

    def a_new_one_has_files():
        sg.wait_for(parked)
        time.sleep(2)  # for its browser, which goes on starting
        with s.box() as new:
            return new.show()["warm"] and snapshot(new)["layers"]

    with sg.running("--pool-size", "1", "--browser-warm") as s:
        sg.wait_for(a_new_one_has_files)  # what boxes of this pool begin with
        with s.box() as box:
            for _ in range(3):
                sg.wait_for(parked)
                time.sleep(2)  # for the parked one's browser
                r = restore(box, "reset")
                bare = snapshot(box)
                assert r["proved"] is True and (bare["layers"], bare["changed"]) == ([], False)
                assert root(s, bare["state"]) == r["root"]


# ---- boxes from a repository ----


def test_a_clone_that_does_not_prove_itself_is_set_up_by_nobody_and_knowlyrs_reset_says_so():
    place = sg.open_place("quarantine")
    repo = Repo(str(place / "project"))
    knowlyr = os.path.join(os.path.dirname(sg.BINARY), "knowlyr-sandbox")
    with sg.running("--pool-size", "0", "--mount-roots", str(place)) as s:
        for setup in ([], ["echo was here >> /workspace/log"]):
            with s.box(repo={"url": repo.url, "commit": repo.first}, task={"setup_commands": setup}) as box:
                assert s.post(f"/sg/v1/boxes/{box.id}/reset")["proved"] is True
                base = box.show()["origin"]["state"]
                layer_file(s, base, "main.py").write_text("print('evil')\n")
                before = len(s.get("/sg/v1/states")["states"])
                r = subprocess.run([knowlyr, "reset", box.id, "--url", s.url], capture_output=True, text=True, timeout=60)
                assert r.returncode == 1 and r.stderr.startswith("重置失败: ") and f"box {box.id} is quarantined" in r.stderr, r
                assert len(s.get("/sg/v1/states")["states"]) == before, "no helper may leave a state made of it"
                assert box.show()["quarantine"]["state"] == base
                r = subprocess.run([knowlyr, "exec", box.id, "--tool", "shell", "--params", '{"command": "ls"}', "--url", s.url],
                                   capture_output=True, text=True, timeout=60)
                assert r.returncode == 1 and "is quarantined since" in r.stderr, r
                r = subprocess.run([knowlyr, "reset", box.id, "--url", s.url], capture_output=True, text=True, timeout=60)
                assert r.returncode == 1 and "quarantined" in r.stderr, r  # known by now, and no better
                r = subprocess.run([knowlyr, "destroy", box.id, "--url", s.url], capture_output=True, text=True, timeout=60)
                assert r.returncode == 0, r
    shutil.rmtree(place, ignore_errors=True)


# ---- killed on the way ----


def ask_and_forget(server, box, state):
    with contextlib.suppress(*sg.GONE):
        server.request("POST", f"/sg/v1/boxes/{box.id}/reset", {"state": state})


def test_a_kill_in_the_middle_leaves_the_box_as_it_was_or_in_quarantine(server):
    pause = random.Random(4)
    seen = set()
    for _ in range(12):
        with server.box() as box:
            state = tampered(box)
            box.out("echo here > /workspace/now")
            asked = threading.Thread(target=ask_and_forget, args=(server, box, state))
            asked.start()
            time.sleep(pause.uniform(0, 0.03))
            server.kill_role("serve")
            server.wait_ready(20)
            asked.join(60)
            shown = sg.wait_for(lambda: box.show()["state"])
            seen.add(shown)
            assert shown in ("running", "quarantined")
            if shown == "running":
                assert box.out("cat /workspace/now /workspace/d/payload") == "here\ngood\n"
            last = [s for s in server.steps(box.show()["trajectory"]) if s["tool"] == "box:reset"]
            assert all(s["outcome"] == "infra_error" for s in last)
            assert not last or shown == "running" or "quarantined" in last[-1]["message"], last
            restore(box, "reset", status=403, state=state)
            assert box.show()["state"] == "quarantined"
    assert "quarantined" in seen
