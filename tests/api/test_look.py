"""file:read of what a box itself wrote is answered without asking the box. Nobody may notice, but by the clock: the answer is
what the box sees at that moment, or the box is asked as ever."""

import base64
import os
import signal
import threading

import pytest

import sg

HOME = "/home/gem"


@pytest.fixture(scope="module")
def box(server):
    with server.box() as b:
        begin_to_look(b)
        yield b


def begin_to_look(b):
    """The first read of a box goes to its init; serve asks for the descriptor meanwhile."""
    b.tool("file:write", {"path": "first", "content": "1"})
    sg.wait_for(lambda: reads_without_init(b, "first"))


def init_of(b):
    """As the host numbers it. A box that was restored has another seat, which its cgroups are named after."""
    ns = b.out("readlink /proc/self/ns/pid").strip()
    return next(p for p in b.server.box_pids() if os.readlink(f"/proc/{p}/ns/pid") == ns and
                "\t1\n" in next(x for x in open(f"/proc/{p}/status") if x.startswith("NSpid:")))


def reads_without_init(b, path, **params):
    """What file:read says while init stands still; None: it had to be asked."""
    init = init_of(b)
    os.kill(init, signal.SIGSTOP)
    wake = threading.Timer(0.5, os.kill, (init, signal.SIGCONT))
    wake.start()
    try:
        r = b.tool("file:read", {"path": path, **params}, status=None)
        return r if wake.is_alive() else None
    finally:
        wake.cancel()
        wake.join()
        os.kill(init, signal.SIGCONT)


def read(b, path, **params):
    r = b.tool("file:read", {"path": path, **params}, status=None)
    return r["data"]["content"] if r["outcome"] == "ok" else r["outcome"] + ": " + r["message"]


@pytest.mark.parametrize("path", ["a.txt", "~/a.txt", "./a.txt", f"{HOME}/a.txt", f"/{HOME}/./a.txt", "/tmp/a.txt"])
def test_what_the_box_wrote_is_read_without_its_init(box, path):
    box.out(f"echo 'h\u00e4llo' > {path.replace('~/', '')}")
    r = reads_without_init(box, path)
    assert r, "init was asked"
    assert r["data"] == {"content": "h\u00e4llo\n", "encoding": "utf-8", "size": 7, "lines": 1, "truncated": False,
                         "path": "/tmp/a.txt" if path.startswith("/tmp") else f"{HOME}/a.txt"}


def test_such_a_read_is_a_step_like_any_other(server, box):
    box.tool("file:write", {"path": "s", "content": "step"})
    before = box.tool("file:stat", {"path": "s"})
    r = box.tool("file:read", {"path": "s"})
    assert (r["step"], r["outcome"], r["retry_safe"], r["trainable"]) == (before["step"] + 1, "ok", False, True)
    shown = server.get(f"/sg/v1/boxes/{box.id}")
    s = server.steps(shown["trajectory"])[-1]
    assert (s["step"], s["tool"], s["box"], s["state"], s["outcome"]) == (r["step"], "file:read", box.id, "done", "ok"), s
    assert s["observation"] == r["data"] and s["params"] == {"path": "s"}


def test_bytes_and_encodings(box):
    data = bytes(range(256))
    box.tool("file:write", {"path": "bin", "data": base64.b64encode(data).decode()})
    r = reads_without_init(box, "bin")
    assert base64.b64decode(r["data"]["content"]) == data and r["data"]["encoding"] == "base64"
    assert "not UTF-8" in read(box, "bin", encoding="utf-8")
    box.out(": > empty")
    assert reads_without_init(box, "empty")["data"]["content"] == ""


def test_every_change_is_seen_at_once(box):
    box.out("echo 1 > c")
    for change, seen in (("echo 2 > c", "2\n"), ("echo 3 >> c", "2\n3\n"), ("mv c d; echo 4 > c", "4\n"),
                         ("rm c; ln d c", "2\n3\n"), ("ln -sf d c; echo 5 > d", "5\n"), ("rm c; echo 6 > c", "6\n"),
                         ("""python3 -c 'import mmap; f = open("c", "r+b"); mmap.mmap(f.fileno(), 0)[0:1] = b"7"'""", "7\n"),
                         ("truncate -s 0 c", "")):
        box.out(change)
        assert read(box, "c") == seen, change


def test_directories_that_move_take_their_files_along(box):
    box.out("mkdir -p m/n && echo x > m/n/f")
    assert read(box, "m/n/f") == "x\n"
    box.out("mv m o && mkdir -p m/n && echo y > m/n/f")
    assert (read(box, "m/n/f"), read(box, "o/n/f")) == ("y\n", "x\n")
    box.out("rm -r m && ln -s o m")
    assert (read(box, "m/n/f"), read(box, "m/../o/n/f")) == ("x\n", "x\n")


def test_what_is_no_plain_file_of_the_box_is_told_as_ever(box):
    box.out("rm -rf p; mkfifo p; mkdir -p dir; ln -sf /nowhere gone; ln -sf /etc/hostname link")
    assert "not a regular file" in read(box, "p")
    assert "Is a directory" in read(box, "dir")
    assert "No such file" in read(box, "gone") and "No such file" in read(box, "never") and "Not a directory" in read(box, "first/")
    assert read(box, "link") == read(box, "/etc/hostname") == box.out("cat /etc/hostname")
    assert read(box, "/proc/self/comm") != ""
    assert read(box, "/../etc/hostname") == read(box, "/etc/hostname")


def test_a_file_of_the_image_is_read_before_and_after_it_is_changed(box):
    before = read(box, "/etc/profile")
    box.out("sudo sh -c 'echo \"# mine\" >> /etc/profile; echo u > /usr/share/mine'")
    assert read(box, "/etc/profile") == before + "# mine\n"
    assert reads_without_init(box, "/etc/profile")["data"]["content"] == before + "# mine\n"
    assert reads_without_init(box, "/usr/share/mine")["data"]["content"] == "u\n"
    box.out("sudo rm /etc/profile")
    assert "No such file" in read(box, "/etc/profile")


def test_who_may_not_read_a_file_does_not(box):
    box.out("""echo mine > mode; mkdir -p closed; echo in > closed/f
        sudo sh -c 'echo secret > /root/s; echo secret > hers; chmod 600 hers; echo secret > of_group; chmod 604 of_group; chgrp gem of_group'""")
    assert "denied" in read(box, "hers") and "denied" in read(box, "of_group") and "denied" in read(box, "/root/s")
    assert read(box, "hers", sudo=True) == "secret\n"
    for mode, seen in (("600", "mine\n"), ("004", "denied"), ("044", "denied"), ("644", "mine\n")):
        box.out(f"chmod {mode} mode")
        assert seen in read(box, "mode"), mode
    for mode, seen in (("700", "in\n"), ("000", "denied"), ("055", "denied"), ("755", "in\n")):
        box.out(f"chmod {mode} closed")
        assert seen in read(box, "closed/f"), mode
    box.out("mkdir -p closed/a/b; echo deep > closed/a/b/f; echo top > /tmp/f; chmod 055 closed")
    assert "denied" in read(box, "closed/a/b/f")
    box.out("chmod 755 closed; sudo sh -c 'chgrp gem closed; chown root closed; chmod 705 closed'")
    assert "denied" in read(box, "closed/a/b/f")
    box.out("sudo sh -c 'chgrp gem /tmp; chmod 705 /tmp'")
    assert "denied" in read(box, "/tmp/f")
    box.out("sudo sh -c 'chgrp root /tmp; chmod 1777 /tmp'")
    assert read(box, "/tmp/f") == "top\n"


def test_files_far_down_are_read(box):
    for n in range(1, 21):
        path = "/tmp/" + "d/" * n + "file"
        box.tool("file:write", {"path": path, "content": str(n)})
        assert read(box, path) == str(n)
        assert n > 15 or reads_without_init(box, path)


ACL = """
import os, struct
ANYBODY = 0xffffffff
entries = (1, 6, ANYBODY), (2, 0, 1000), (4, 4, ANYBODY), (16, 4, ANYBODY), (32, 4, ANYBODY)  # all may read, user 1000 may not
os.setxattr("listed", "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries))
"""


def test_who_is_kept_out_by_an_access_list_stays_out(box):
    box.tool("file:write", {"path": "acl.py", "content": ACL})
    box.out("sudo sh -c 'echo listed > listed'")
    assert reads_without_init(box, "listed")["data"]["content"] == "listed\n"
    box.out("sudo /usr/bin/python3 acl.py")
    assert "denied" in read(box, "listed")


def test_a_path_that_is_too_long_for_the_box_is_too_long(box):
    box.out("""(cd /tmp; n=$(printf 'a%.0s' $(seq 255)); for i in $(seq 15); do mkdir $n; cd $n; done
        echo x > $(printf 'b%.0s' $(seq 250)); echo y > $(printf 'b%.0s' $(seq 251)))""")
    way = "/tmp/" + "/".join(["a" * 255] * 15)
    assert read(box, f"{way}/{'b' * 250}") == "x\n"
    assert read(box, f"{way}/{'b' * 251}").startswith("task_error: read /tmp/aaa")


def test_large_files_and_ranges_are_the_boxs_work(box):
    box.out("seq 1 20000 > large")
    assert read(box, "large") == "".join(f"{i}\n" for i in range(1, 20001))
    assert read(box, "large", start_line=3, end_line=4) == "3\n4\n"


def test_a_file_that_is_written_all_the_time_is_never_torn_by_a_rename(box):
    box.out("""(while :; do for x in a b; do printf $x%.0s $(seq 3000) > new; mv new steady; done; done) >/dev/null 2>&1 &
        sleep 0.3; echo""")
    for _ in range(200):
        assert read(box, "steady") in ("a" * 3000, "b" * 3000)
    box.out("kill %1")


def test_a_paused_box_is_not_looked_into(server):
    with server.box() as b:
        begin_to_look(b)
        server.post(f"/sg/v1/boxes/{b.id}/pause")
        r = b.tool("file:read", {"path": "first"}, status=None)
        assert "paused" in r["error"]["message"], r
        server.post(f"/sg/v1/boxes/{b.id}/resume")
        assert reads_without_init(b, "first")["data"]["content"] == "1"


def test_a_box_in_another_state_shows_the_files_of_that_state(server):
    with server.box() as b:
        begin_to_look(b)
        state = b.tool("box:snapshot")["data"]["state"]
        b.out("echo 2 > first; echo x > second")
        assert reads_without_init(b, "first")["data"]["content"] == "2\n"
        b.tool("box:restore", {"state": state})
        assert read(b, "first") == "1" and "No such file" in read(b, "second")
        b.out("echo 3 > second")
        sg.wait_for(lambda: reads_without_init(b, "second"))
        assert (read(b, "first"), read(b, "second")) == ("1", "3\n")
        assert reads_without_init(b, "first") is None  # it lies in a layer, which only the box sees


def test_mounts_hide_what_lies_below_them(tmp_path):
    (tmp_path / "shown").write_text("of the host")
    tmp_path.chmod(0o755)
    with sg.running("--mount-roots", str(tmp_path)) as s:
        with s.box(mounts=[{"from": str(tmp_path), "to": HOME + "/m", "writable": False}]) as b:
            begin_to_look(b)
            assert read(b, "m/shown") == "of the host"
            assert "No such file" in read(b, "m/first")


def test_boxes_outlive_the_server_and_are_looked_into_again(server):
    with server.box() as b:
        begin_to_look(b)
        server.kill_role("serve")
        sg.wait_for(server.is_ready)
        b.out("echo again > first")
        sg.wait_for(lambda: reads_without_init(b, HOME + "/first"))
        assert read(b, HOME + "/first") == read(b, "first") == "again\n"


def test_a_supervise_that_dies_before_it_shows_the_files_is_asked_again():
    with sg.running() as s, s.box() as b:
        b.out("echo x > f")
        os.kill(s.role("supervise"), signal.SIGSTOP)
        assert read(b, "f") == "x\n"  # by init
        s.kill_role("supervise")
        sg.wait_for(lambda: reads_without_init(b, "f"), 10)


def test_relative_paths_begin_in_the_workspace_that_the_box_was_made_with():
    with sg.running("--box-workspace", "/home/gem/one") as s:
        b = sg.Box(s, s.create())
        b.tool("file:write", {"path": "f", "content": "one"})
        b.out("mkdir -p ~/two; echo two > ~/two/f; cat ~/one/f")
        sg.wait_for(lambda: reads_without_init(b, "f"))
        s.restart("--box-workspace", "/home/gem/two")
        for _ in range(5):  # whoever is asked
            assert read(b, "f") == read(b, "/home/gem/one/f") == "one"
        s.destroy(b.id)


def test_relative_paths_begin_at_home_where_the_workspace_is_none():
    with sg.running("--box-workspace", "/home/gem/one") as s, s.box() as b:
        b.out("cd; rm -r one; echo file > one; echo home > f")
        state = b.tool("box:snapshot")["data"]["state"]
        b.tool("box:restore", {"state": state})
        b.out("cd; rm one; mkdir one; echo one > one/f; echo home > f")
        sg.wait_for(lambda: reads_without_init(b, "/home/gem/one/f"))
        assert read(b, "f") == "home\n"


def test_a_serve_that_is_root_asks_the_box():
    with sg.running("--serve-user", "") as s, s.box() as b:
        b.out("echo x > f")
        for _ in range(5):
            assert read(b, "f") == "x\n"
        assert reads_without_init(b, "f") is None
