"""What a hostile box does to the AIO surface: contained, and answered with a clear error."""

import time
import urllib.parse

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def bash(server, command, **more):
    return server.post("/v1/bash/exec", {"command": command, **more})["data"]


def file(server, operation, **body):
    return server.post("/v1/file/" + operation, body)


def test_undo_leaves_what_others_wrote(server):
    def editor(command, **body):
        return file(server, "str_replace_editor", command=command, path="/tmp/undo", **body)

    editor("create", file_text="1")
    bash(server, "printf theirs > /tmp/undo")
    r = editor("undo_edit")
    assert (r["success"], r["data"]["error_type"]) == (False, "bad_request") and "Nothing was undone" in r["data"]["message"], r
    assert bash(server, "cat /tmp/undo")["stdout"] == "theirs"


def test_a_race_of_symlinks_never_shows_the_host(server):
    """Paths are resolved by the box's own kernel view: whatever the link points to is the box's, never the host's."""
    mark = "host-only-secret"
    with open("/tmp/" + mark, "w") as f:
        f.write(mark)
    try:
        bash(server, f"cd /tmp; echo inside > real; while :; do ln -sfn /tmp/{mark} l; ln -sfn /tmp/real l; done", session_id="race",
             async_mode=True)
        seen = set()
        for _ in range(150):
            r = file(server, "read", file="/tmp/l")
            seen.add(r["data"].get("content") or r["data"]["error_type"])
            file(server, "write", file="/tmp/l", content="inside\n")
        assert seen <= {"inside\n", "not_found", ""}, seen
        assert open("/tmp/" + mark).read() == mark
    finally:
        bash(server, "true")
        server.post("/v1/bash/sessions/race/close")
        __import__("os").unlink("/tmp/" + mark)


def test_proc_self_is_the_hand_that_reads_and_shows_no_more_than_the_box(server):
    for path in ("/proc/self/environ", "/proc/self/maps", "/proc/self/root/etc/hostname", "/proc/1/environ", "/proc/self/fd/0"):
        r = file(server, "read", file=path)
        text = str(r["data"].get("content") or r["data"].get("message"))
        assert "SANDGLASS_HOME" not in text and "/work/" not in text
    own = bash(server, "hostname")["stdout"].strip()
    assert file(server, "read", file="/proc/self/root/proc/sys/kernel/hostname")["data"]["content"].strip() == own
    assert file(server, "write", file="/proc/self/oom_score_adj", content="-1000")["success"] is False


def test_a_directory_ten_thousand_deep_is_listed_up_to_the_limit_and_removed(server):
    bash(server, "cd /tmp && python3 -c \"\nimport os\nfor i in range(10000):\n    os.mkdir('d'); os.chdir('d')\"")
    r = file(server, "list", path="/tmp/d", recursive=True)["data"]
    assert r["truncated"] is True and 200 < r["total_count"] < 300
    assert file(server, "glob", path="/tmp/d", pattern="**/*", files_only=False)["data"]["truncated"] is True
    server.post("/v1/file/read", {"file": "/tmp/" + "d/" * 3000}, status=422)  # LIMIT_PATH
    assert bash(server, "rm -rf /tmp/d; echo $?")["stdout"] == "0\n"


def test_names_with_newlines_and_invalid_utf8_do_not_break_a_reply(server):
    bash(server, "mkdir -p /tmp/odd; cd /tmp/odd; touch $'new\\nline' $'bad\\xff' ' ' $'quote\"' $'esc\\e[31m' -- -x")
    r = file(server, "list", path="/tmp/odd")["data"]
    names = {f["name"] for f in r["files"]}
    assert r["total_count"] == 6 and {"new\nline", "bad\uefff", " ", 'quote"', "-x"} <= names
    assert len(file(server, "find", path="/tmp/odd", glob="*")["data"]["files"]) == 6
    assert file(server, "write", file="/tmp/odd/new\nline", content="x")["success"]
    assert bash(server, "cat $'/tmp/odd/new\\nline'")["stdout"] == "x"


def test_a_name_of_any_bytes_is_text_and_the_text_is_its_name(server):
    bash(server, "mkdir -p /tmp/raw; cd /tmp/raw; printf one >$'a\\xff.txt'; printf two >$'\\xee\\xbf\\xbf.txt'; mkdir $'d\\xe4'; ln -s $'a\\xff.txt' link")
    one, two = "/tmp/raw/a\uefff.txt", "/tmp/raw/\uefee\uefbf\uefbf.txt"
    paths = {f["path"] for f in file(server, "list", path="/tmp/raw")["data"]["files"]}
    assert paths == {one, two, "/tmp/raw/d\uefe4", "/tmp/raw/link"}
    assert set(file(server, "find", path="/tmp/raw", glob="*.txt")["data"]["files"]) == {one, two}
    assert {f["path"] for f in file(server, "glob", path="/tmp/raw", pattern="**/a\uefff*")["data"]["files"]} == {one}
    assert file(server, "grep", path="/tmp/raw", pattern="one")["data"]["matches"][0]["file"] == one
    for path, text in ((one, "one"), (two, "two")):
        assert file(server, "read", file=path)["data"] == {"content": text, "file": path, "line_count": 1}
        assert server.request("GET", "/v1/file/download?path=" + urllib.parse.quote(path)).body == text.encode()
    assert server.request("GET", "/v1/file/download?path=/tmp/raw/a%FF.txt").body == b"one"  # a URL has bytes anyway
    assert file(server, "replace", file=one, old_str="one", new_str="more")["success"]
    assert file(server, "str_replace_editor", command="str_replace", path=one, old_str="more", new_str="1")["data"]["path"] == one
    assert file(server, "str_replace_editor", command="undo_edit", path=one)["success"]
    made = "/tmp/raw/d\uefe4/new\uef80"
    assert file(server, "write", file=made, content="x")["data"]["file"] == made
    assert server.post("/v1/bash/exec", {"command": "cat new*", "exec_dir": "/tmp/raw/d\uefe4"})["data"]["stdout"] == "x"
    assert bash(server, "cd /tmp/raw; cat $'d\\xe4/new\\x80' $'a\\xff.txt'")["stdout"] == "xmore"
    w = server.post("/v1/file/watch", {"path": "/tmp/raw", "debounce": 50})["watcher_id"]
    bash(server, "touch $'/tmp/raw/w\\xfe'")
    events = server.post(f"/v1/file/watch/{w}/poll", {"timeout": 20})["events"]
    assert {e["path"] for e in events} == {"/tmp/raw/w\ueffe"}
    server.delete(f"/v1/file/watch/{w}")
    form = b'--b\r\nContent-Disposition: form-data; name="file"; filename="up\xf8"\r\n\r\ndata\r\n--b--\r\n'
    r = server.request("POST", "/v1/file/upload", raw=form, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert r["data"]["file_path"] == "/tmp/up\ueff8" and file(server, "read", file="/tmp/up\ueff8")["data"]["content"] == "data"


def test_a_line_of_five_gigabytes_is_refused_by_name_of_the_limit(server):
    bash(server, "truncate -s 5G /tmp/line")
    whole = file(server, "read", file="/tmp/line")["data"]
    assert "LIMIT_FILE_IO" in whole["message"]
    part = file(server, "read", file="/tmp/line", start_line=0, end_line=1)["data"]
    assert "LIMIT_FILE_IO" in part["message"]
    assert "LIMIT_FILE_IO" in file(server, "str_replace_editor", command="view", path="/tmp/line")["data"]["message"]
    assert file(server, "grep", path="/tmp/line", pattern="x")["data"]["match_count"] == 0
    bash(server, "rm /tmp/line")


def test_endless_output_is_bounded_and_the_session_is_usable_afterwards(server):
    server.post("/v1/shell/sessions/create", {"id": "flood"})
    r = server.post("/v1/shell/exec", {"id": "flood", "command": "yes", "hard_timeout": 1})["data"]
    assert r["status"] == "hard_timeout" and len(r["output"]) < 31000 and r["output_bytes"] > 100000
    assert server.post("/v1/shell/exec", {"id": "flood", "command": "echo ok"})["data"]["output"] == "ok"


def test_ten_thousand_watchers_end_at_the_limit_with_a_429(server):
    refused = 0
    for i in range(140):
        r = server.request("POST", "/v1/file/watch", {"path": "/tmp", "debounce": 50 + i})
        if r.status != 200:
            assert r.status == 429 and "LIMIT_WATCHERS (128)" in r["message"], r
            refused += 1
    assert refused >= 12
    for w in server.get("/v1/file/watch")["data"]["watchers"]:
        server.delete(f"/v1/file/watch/{w['watcher_id']}")
    assert server.post("/v1/file/watch", {"path": "/tmp"})["success"]


def test_a_forged_mark_in_the_output_does_not_end_a_command(server):
    r = server.post("/v1/shell/exec", {"command": "printf '\\033]777;0123456789abcdef;D;#1;0;/x\\a'; sleep 0.2; echo real; (exit 7)"})["data"]
    assert (r["exit_code"], r["output"].endswith("real")) == (7, True)


def test_a_document_that_bursts_its_reader_bursts_nothing_else(server):
    convert = lambda base, uri: server.request("POST", base + "/v1/util/convert_to_markdown", {"uri": uri})  # noqa: E731
    file(server, "write", file="/tmp/deep.html", content="<table><tr><td>" * 5000 + "core")
    assert "core" in convert("", "/tmp/deep.html")["data"], "tables in tables do not grow with their depth"
    box = server.create(memory="64m", disk="64m")  # the disk is memory, too
    server.post(f"/box/{box}/v1/bash/exec", {"command": "yes '<i>x</i>' | head -c 30M > /tmp/big.html"})
    r = convert(f"/box/{box}", "/tmp/big.html")
    assert (r.status, r["success"], r["hint"]) == (200, False, "oom") and "more memory than the box may (box.memory)" in r["message"], r
    assert server.post(f"/box/{box}/v1/bash/exec", {"command": "echo ok"})["data"]["stdout"] == "ok\n"
    server.destroy(box)


def test_what_is_typed_before_a_command_has_begun_reaches_it(server):
    """On a busy machine bash is still in its line editor when the input comes; here it is held there."""
    server.post("/v1/shell/sessions/create", {"id": "early"})
    pid = server.post("/v1/shell/exec", {"id": "early", "command": "echo $$"})["data"]["output"]
    bash(server, f"sleep 0.3; kill -STOP {pid}")
    server.post("/v1/shell/exec", {"id": "early", "command": "read x; echo got $x", "async_mode": True})
    server.post("/v1/shell/write", {"id": "early", "input": "42", "press_enter": True})
    bash(server, f"kill -CONT {pid}")
    assert server.post("/v1/shell/wait", {"id": "early", "seconds": 20})["data"]["status"] == "completed"
    assert server.post("/v1/shell/view", {"id": "early"})["data"]["output"].endswith("got 42\n")


def test_the_end_of_input_reaches_a_command_that_has_not_begun(server):
    """In bash's line editor a control-D is a byte like any other, and would be the command's first line."""
    server.post("/v1/shell/sessions/create", {"id": "early-end"})
    pid = server.post("/v1/shell/exec", {"id": "early-end", "command": "echo $$"})["data"]["output"]
    for text in ("", "42\n", "no newline"):
        bash(server, f"sleep 0.3; kill -STOP {pid}")
        server.post("/v1/shell/exec", {"id": "early-end", "command": "cat | od -c", "async_mode": True})
        server.post("/v1/shell/write", {"id": "early-end", "input": text, "press_enter": False, "eof": True})
        bash(server, f"kill -CONT {pid}")
        assert server.post("/v1/shell/wait", {"id": "early-end", "seconds": 20})["data"]["status"] == "completed", text
        assert server.post("/v1/shell/exec", {"id": "early-end", "command": "echo ok"})["data"]["output"] == "ok", "the shell is the same"
        assert server.post("/v1/shell/view", {"id": "early-end"})["data"]["console"][-2]["output"].endswith(f"{len(text):07o}\n")
    assert server.post("/v1/shell/exec", {"id": "early-end", "command": "echo $$"})["data"]["output"] == pid


def test_what_was_typed_for_a_command_that_never_began_is_not_a_command_itself(server):
    server.post("/v1/shell/sessions/create", {"id": "unbegun"})
    pid = server.post("/v1/shell/exec", {"id": "unbegun", "command": "echo $$"})["data"]["output"]
    bash(server, f"sleep 0.3; kill -STOP {pid}")
    server.post("/v1/shell/exec", {"id": "unbegun", "command": "cat", "async_mode": True})
    server.post("/v1/shell/write", {"id": "unbegun", "input": "touch /tmp/typed", "press_enter": True})
    assert server.post("/v1/shell/kill", {"id": "unbegun"})["data"]["status"] == "terminated"
    assert server.post("/v1/shell/exec", {"id": "unbegun", "command": "sleep 0.3; ls /tmp/typed"})["data"]["exit_code"] == 2


def test_the_end_of_input_ends_a_line_that_was_begun(server):
    server.post("/v1/shell/sessions/create", {"id": "end"})
    server.post("/v1/shell/exec", {"id": "end", "command": "cat", "async_mode": True, "timeout": 1})
    bash(server, "until pgrep -x cat; do sleep 0.05; done")
    server.post("/v1/shell/write", {"id": "end", "input": "in two ", "press_enter": False})
    server.post("/v1/shell/write", {"id": "end", "input": "parts", "press_enter": False, "eof": True})
    assert server.post("/v1/shell/wait", {"id": "end", "seconds": 20})["data"]["status"] == "completed"
    assert server.post("/v1/shell/view", {"id": "end"})["data"]["output"].endswith("in two partsin two parts\n")
    server.post("/v1/shell/exec", {"id": "end", "command": "cat; cat", "async_mode": True})
    bash(server, "until pgrep -x cat; do sleep 0.05; done")
    server.post("/v1/shell/write", {"id": "end", "input": "", "press_enter": False, "eof": True})
    assert server.post("/v1/shell/wait", {"id": "end", "seconds": 1})["data"]["status"] == "running", "one end for one reader"
    server.post("/v1/shell/write", {"id": "end", "input": "x", "press_enter": True, "eof": True})
    assert server.post("/v1/shell/wait", {"id": "end", "seconds": 20})["data"]["status"] == "completed"


WATCH = "/v1/file/watch/wait"


def later(server, command):
    """Runs it when the wait that follows has begun: when there is a watcher that is not there now."""
    watchers = bash(server, "pgrep -x watcher")["stdout"]
    bash(server, f"until pgrep -x watcher | grep -qvxF '{watchers.strip() or 'none'}'; do sleep 0.02; done; {command}", async_mode=True)


def test_a_wait_for_a_path_whose_directory_is_not_there_yet_waits(server):
    wait = lambda path, **more: server.request("POST", WATCH, {"path": path, **more})  # noqa: E731
    begin = time.monotonic()
    assert wait("/tmp/nowhere/at/all", timeout=1)["data"]["timed_out"] and time.monotonic() - begin > 0.9
    later(server, "mkdir -p /tmp/made/by/and; sleep 0.3; echo x > /tmp/made/by/and/by")
    assert wait("/tmp/made/by/and/by", timeout=20)["event"]["type"] == "create"
    later(server, "mkdir -p /tmp/at/once && echo x > /tmp/at/once/done")
    assert wait("/tmp/at/once/done", timeout=20)["event"]["path"] == "/tmp/at/once/done"
    later(server, "rm -r /tmp/at; mkdir -p /tmp/at/once; sleep 0.3; echo x > /tmp/at/once/done")
    assert wait("/tmp/at/once/done", timeout=20, event_types=["write"])["event"]["type"] == "write"
    r = wait("/root/x", timeout=5)
    assert r.status == 403 and r["message"] == "watch /root: Permission denied", r


def test_a_wait_misses_nothing_while_it_finds_its_way_to_the_path(server):
    """The directory and the file are made faster than the one can be watched for the other."""
    wait = lambda path, *types: server.request("POST", WATCH, {"path": path, "timeout": 10, "event_types": types})["data"]  # noqa: E731
    for i in range(5):
        later(server, f"mkdir -p /tmp/fast{i}/a/b; echo x > /tmp/fast{i}/a/b/c")
        r = wait(f"/tmp/fast{i}/a/b/c", "write")
        assert not r["timed_out"] and r["event"]["type"] == "write", r
        later(server, f"rm -r /tmp/fast{i}; mkdir -p /tmp/fast{i}/a/b; echo x > /tmp/fast{i}/a/b/c")
        assert not wait(f"/tmp/fast{i}/a/b/c", "write", "remove")["timed_out"]
    bash(server, "mkdir -p /tmp/ready/a; touch -d 2020-01-01 /tmp/ready/a/b")
    later(server, "mv /tmp/ready /tmp/moved; sleep 0.3; echo x > /tmp/moved/a/b")
    begin = time.time()
    assert wait("/tmp/moved/a/b", "write")["event"]["mtime"] >= int(begin), "what came with its directory was not written"


def test_a_wait_for_a_path_whose_directory_comes_and_goes_waits(server):
    bash(server, "while :; do mkdir -p /tmp/flap/a; rmdir /tmp/flap/a /tmp/flap; done", async_mode=True, session_id="flap")
    for _ in range(4):
        r = server.request("POST", WATCH, {"path": "/tmp/flap/a/b", "timeout": 1})
        assert r.status == 200 and r["data"]["timed_out"], r
    server.post("/v1/bash/kill", {"session_id": "flap"})


def test_what_was_moved_out_of_a_watched_tree_is_not_told_any_more(server):
    bash(server, "mkdir -p /tmp/seen/d/e /tmp/unseen")
    w = server.post("/v1/file/watch", {"path": "/tmp/seen", "debounce": 50})["watcher_id"]
    bash(server, "mv /tmp/seen/d /tmp/unseen/d; sleep 0.5; touch /tmp/unseen/d/f /tmp/unseen/d/e/f; sleep 0.2")
    bash(server, "mv /tmp/unseen/d /tmp/seen/d; mv /tmp/seen/d /tmp/unseen/d; mv /tmp/unseen/d /tmp/seen/d; touch /tmp/seen/d/e/g; sleep 0.2; touch /tmp/seen/last")
    events, cursor = [], 0
    while not events or events[-1][1] != "last":
        r = server.post(f"/v1/file/watch/{w}/poll", {"timeout": 20, "cursor": cursor})
        events, cursor = events + [(e["type"], e["relative_path"]) for e in r["events"] if e["type"] != "chmod"], r["cursor"]
    server.delete(f"/v1/file/watch/{w}")
    assert [e for e in events if e[1] == "d"] == [("remove", "d"), ("create", "d"), ("remove", "d"), ("create", "d")]
    assert {e[1] for e in events} == {"d", "d/e/g", "last"}


def test_a_wait_for_an_event_that_does_not_exist_is_refused(server):
    r = server.request("POST", "/v1/file/watch/wait", {"path": "/tmp/x", "event_types": ["create", "crate"]})
    assert r.status == 422 and r["detail"][0]["loc"] == ["body", "event_types"], r
    assert "event_types[1]: \"crate\" is not one of create|write|remove|rename|chmod" in r["detail"][0]["msg"]


@pytest.mark.parametrize("operation, body", [("list", {}), ("glob", {"pattern": "*"})])
def test_an_order_that_there_is_not_is_refused_with_those_that_there_are(server, operation, body):
    r = server.request("POST", "/v1/file/" + operation, {"path": "/tmp", "sort_by": "colour", **body})
    assert r.status == 422 and r["detail"][0]["loc"] == ["body", "sort_by"] and "modified_time" in r["detail"][0]["msg"], r
