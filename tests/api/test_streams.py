"""Files through the port as streams: any size, in constant memory, each transfer a step; and commands as events."""

import concurrent.futures
import hashlib
import http.client
import io
import json
import socket
import tarfile
import time

import pytest

import sg

MiB = 1024 * 1024


@pytest.fixture(scope="module")
def box(server):
    box = server.create(disk="1G", memory="2G")
    yield box
    server.destroy(box)


def shell(server, box, command):
    r = server.post(f"/box/{box}/v1/bash/exec", {"command": command})["data"]
    assert r["exit_code"] == 0, r
    return r["stdout"]


def call(server, method, path, body=None, headers=None, chunked=False):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    c.request(method, path, body, headers or {}, encode_chunked=chunked)
    r = c.getresponse()
    data = r.read()
    c.close()
    return sg.Reply(r.status, r.headers, data)


def form(fields, boundary="bOuNdArY"):
    out = b""
    for name, filename, data in fields:
        name_line = f'Content-Disposition: form-data; name="{name}"' + (f'; filename="{filename}"' if filename else "")
        out += f"--{boundary}\r\n{name_line}\r\n\r\n".encode() + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def rss_peak(server):
    status = sg.read(f"/proc/{server.role('serve')}/status")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def test_an_upload_of_unknown_length_arrives_whole_and_is_a_step_with_its_hash(server, box):
    data = bytes(range(256)) * 4000

    def pieces():
        for i in range(0, len(data), 70001):
            yield data[i:i + 70001]
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/files?path=/tmp/up/a.bin&mode=640", pieces(),
             {"Transfer-Encoding": "chunked"}, chunked=True)
    assert r.status == 200 and r["bytes"] == len(data) and r["created"]
    assert r["sha256"] == hashlib.sha256(data).hexdigest()
    assert shell(server, box, "sha256sum < /tmp/up/a.bin; stat -c %a /tmp/up/a.bin").split() == [r["sha256"], "-", "640"]
    steps = server.get(f"/sg/v1/boxes/{box}")["trajectory"]
    rows = server.get(f"/sg/v1/trajectories/{steps}/steps")["steps"]
    mine = [s for s in rows if s["tool"] == "file:upload"][-1]
    assert mine["observation"]["sha256"] == r["sha256"] and mine["outcome"] == "ok"


def test_an_upload_to_a_link_goes_to_what_it_names(server, box):
    shell(server, box, "mkdir -p /tmp/ln/real; cd /tmp/ln; touch real/one real/two; chmod 750 real/one; ln -s real/one near; "
                       "ln -s near chain; ln -s /dev/shm/other away; ln -s real/later dangling; ln -s loop loop")
    for link, target in (("near", "real/one"), ("chain", "real/one"), ("away", "/dev/shm/other"), ("dangling", "real/later")):
        r = call(server, "PUT", f"/sg/v1/boxes/{box}/files?path=/tmp/ln/{link}", link.encode())
        assert r.status == 200 and r["path"] == f"/tmp/ln/{link}", r
        assert shell(server, box, f"cd /tmp/ln; test -L {link} && cat {target}") == link
    assert shell(server, box, "stat -c %a /tmp/ln/real/one; ls -A /tmp/ln/real; ls -A /dev/shm").split() == ["750", "later", "one", "two", "other"]
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/files?path=/tmp/ln/loop", b"x")
    assert r.status == 400 and "Too many levels of symbolic links" in r["error"]["message"], r


def test_a_file_that_does_not_know_its_size_comes_down_whole(server, box):
    r = call(server, "GET", f"/box/{box}/v1/file/download?path=/proc/sys/kernel/ostype")
    assert (r.status, r.body, r.headers["Content-Length"]) == (200, b"Linux\n", "6")
    r = call(server, "GET", f"/box/{box}/v1/file/download?path=/proc/sys/kernel/ostype", headers={"Range": "bytes=1-2"})
    assert (r.status, r.body) == (206, b"in")
    assert call(server, "HEAD", f"/box/{box}/v1/file/download?path=/proc/sys/kernel/ostype").headers["Content-Length"] == "6"


def test_a_form_may_say_the_directory_last(server, box):
    shell(server, box, "mkdir /tmp/there")
    for path in ("/tmp/there", "/tmp/there/", "/tmp/not/yet/"):
        for order in (1, -1):
            body, headers = form([("path", None, path.encode()), ("file", "dir/name.txt", b"x")][::order])
            r = call(server, "POST", f"/box/{box}/v1/file/upload", body, headers)
            assert r["data"]["file_path"] == path.rstrip("/") + "/name.txt", (path, order, r)


def test_half_a_gigabyte_goes_down_and_up_through_a_server_that_stays_small(server, box):
    shell(server, box, "truncate -s 512M /tmp/sparse")
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    c.request("GET", f"/sg/v1/boxes/{box}/files?path=/tmp/sparse")
    r = c.getresponse()
    assert int(r.headers["Content-Length"]) == 512 * MiB
    n = 0
    while True:
        data = r.read(MiB)
        if not data:
            break
        n += len(data)
    assert n == 512 * MiB
    zeros = bytes(MiB)
    up = call(server, "PUT", f"/sg/v1/boxes/{box}/files?path=/tmp/up.bin", (zeros for _ in range(256)),
              {"Content-Length": str(256 * MiB)})
    assert up["bytes"] == 256 * MiB
    shell(server, box, "rm /tmp/sparse /tmp/up.bin")
    if not sg.SANITIZED:
        assert rss_peak(server) < 50 * MiB


def test_a_slow_reader_holds_nobody_but_itself(server, box):
    shell(server, box, "truncate -s 200M /tmp/slow")
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(f"GET /sg/v1/boxes/{box}/files?path=/tmp/slow HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    s.recv(1000)  # and then it reads no more
    assert shell(server, box, "echo fine").strip() == "fine"
    if not sg.SANITIZED:
        assert rss_peak(server) < 50 * MiB
    s.close()


def test_a_reader_that_comes_late_gets_all_of_a_file_that_was_sent_long_ago(server, box):
    shell(server, box, "head -c 3000000 /dev/zero > /tmp/late")
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it connects: else the window crawls
    s.connect(("127.0.0.1", server.port))
    s.sendall(f"GET /sg/v1/boxes/{box}/files?path=/tmp/late HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    time.sleep(0.5)  # the tool has ended by now
    got = b""
    while data := s.recv(65536):
        got += data
    assert len(got.split(b"\r\n\r\n", 1)[1]) == 3000000


def test_many_transfers_share_one_connection(server, box):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    data = bytes(range(256)) * 4096
    for i in range(20):
        c.request("PUT", f"/sg/v1/boxes/{box}/files?path=/tmp/many", data[i:])
        assert json.loads(c.getresponse().read())["bytes"] == len(data) - i
        sock = c.sock
        c.request("GET", f"/sg/v1/boxes/{box}/files?path=/tmp/many")
        assert c.getresponse().read() == data[i:] and c.sock is sock


def test_an_upload_that_is_cut_off_leaves_nothing(server, box):
    shell(server, box, "mkdir -p /tmp/cut; echo old > /tmp/cut/f")
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(f"PUT /sg/v1/boxes/{box}/files?path=/tmp/cut/f HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhalf".encode())
    time.sleep(0.2)
    s.close()
    sg.wait_for(lambda: shell(server, box, "ls -A /tmp/cut; cat /tmp/cut/f") == "f\nold\n")


def test_ranges_versions_and_heads_of_a_download(server, box):
    shell(server, box, "printf 0123456789 > '/tmp/zä \".bin'")
    path = f"/box/{box}/v1/file/download?path=/tmp/z%C3%A4%20%22.bin"
    whole = call(server, "GET", path)
    assert (whole.status, whole.body) == (200, b"0123456789")
    assert whole.headers["Content-Disposition"].endswith("filename*=UTF-8''z%C3%A4%20%22.bin")
    assert "sandbox" in whole.headers["Content-Security-Policy"]
    etag = whole.headers["ETag"]
    for asked, status, want, said in (("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
                                      ("bytes=-2", 206, b"89", "bytes 8-9/10"), ("bytes=2-99", 206, b"23456789", "bytes 2-9/10"),
                                      ("bytes=10-", 416, b"", "bytes */10"), ("bytes=a-b", 200, b"0123456789", None),
                                      ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"), ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"),
                                      ("bytes=0-99999999999999999999", 206, b"0123456789", "bytes 0-9/10"),
                                      ("bytes=99999999999999999999-", 416, b"", "bytes */10")):
        r = call(server, "GET", path, headers={"Range": asked})
        assert (r.status, r.body, r.headers["Content-Range"]) == (status, want, said), asked
    for tags in (etag, f"W/{etag}", f'"other" , {etag}', "*"):
        same = call(server, "GET", path, headers={"If-None-Match": tags, "Range": "bytes=0-1"})
        assert (same.status, same.headers["Content-Length"], same.headers["Content-Range"]) == (304, None, None)
    assert call(server, "GET", path, headers={"If-None-Match": '"other", "more"'}).status == 200
    assert call(server, "GET", path, headers={"Range": "bytes=0-1", "If-Range": etag}).status == 206
    assert call(server, "GET", path, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status == 200
    head = call(server, "HEAD", path)
    assert (head.headers["Content-Length"], head.body) == ("10", b"")
    missing = call(server, "GET", f"/box/{box}/v1/file/download?path=/nope")
    assert missing.status == 404 and missing["success"] is False
    assert call(server, "GET", f"/box/{box}/v1/file/download?path=/tmp").status == 400
    assert call(server, "GET", f"/box/{box}/v1/file/download").status == 422


def test_a_file_that_changes_under_its_download_is_a_conflict_if_asked(server, box):
    shell(server, box, "head -c 3000000 /dev/zero > /tmp/busy")
    writer = server.post(f"/box/{box}/v1/bash/exec", {"async_mode": True, "command":
                         "for ((i = 0; i < 200000; i++)); do echo -n x; done | dd of=/tmp/busy bs=1 conv=notrunc seek=3000000"})
    path = f"/box/{box}/v1/file/download?path=/tmp/busy&change_policy="
    assert call(server, "GET", path + "ignore").status == 200
    assert any(call(server, "GET", path + "abort").status == 409 for _ in range(100))
    server.post(f"/box/{box}/v1/bash/kill", {"session_id": writer["data"]["session_id"], "signal": "SIGKILL"})


def test_forms_of_aio_with_the_path_before_after_or_not_at_all(server, box):
    data = b"\r\n--bOuNdAr\r\n" * 30000  # nearly the boundary, again and again
    up = f"/box/{box}/v1/file/upload"
    for fields, where in (((("path", None, b"/tmp/f/one"), ("file", "x.bin", data)), "/tmp/f/one"),
                          ((("file", "x.bin", data), ("path", None, b"/tmp/f/two")), "/tmp/f/two"),
                          ((("file", "../x y.bin", data),), "/tmp/x y.bin"),
                          ((("path", None, b"/tmp/f/"), ("file", "in.bin", data)), "/tmp/f/in.bin")):
        body, headers = form(fields)
        r = call(server, "POST", up, body, headers)
        assert r["data"]["file_path"] == where and r["data"]["file_size"] == len(data) and r["data"]["success"], r
        assert shell(server, box, f"sha256sum < '{where}'").split()[0] == hashlib.sha256(data).hexdigest()
    body, headers = form([("path", None, b"/tmp/f/one")])
    assert call(server, "POST", up, body, headers).status == 422
    assert call(server, "POST", up, b"{}", {"Content-Type": "application/json"}).status == 422
    assert call(server, "POST", up, b"--bOuNdArY nonsense", headers).status == 422
    for fields in ([("path", None, b"/proc/x"), ("file", "a", b"b")], [("file", "a", b"b"), ("path", None, b"/proc/x")]):
        body, headers = form(fields)
        refused = call(server, "POST", up, body, headers)
        assert refused.status == 200 and refused["success"] is False and refused["data"]["error_type"]
        assert refused["data"]["path"] == "/proc/x" and "/proc/x" in refused["message"], refused
    body, headers = form([("file", "a", b"b"), ("path", None, b"/" + b"x" * 70000)])
    assert "LIMIT_PATH" in call(server, "POST", up, body, headers)["detail"][0]["msg"]
    whole = form([("file", "a", b"b"), ("path", None, b"/tmp/f/late")])[0]
    cut = socket.create_connection(("127.0.0.1", server.port))  # and leaves in the middle of the path
    cut.sendall(f"POST {up} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {headers['Content-Type']}\r\nContent-Length: {len(whole)}\r\n\r\n".encode() + whole[:-40])
    sg.wait_for(lambda: "form-" in shell(server, box, "ls -A /tmp"))
    cut.close()
    sg.wait_for(lambda: not shell(server, box, "ls -A /tmp /tmp/f | grep -e upload- -e form- || true"))


def test_many_forms_at_once_are_all_answered(server, box):
    def upload(k):
        for i in range(120):  # of a size at which the socket into the box is just full now and then
            body, headers = form([("file", f"many{k}", b"x" * (400000 + i * 37))])
            assert call(server, "POST", f"/box/{box}/v1/file/upload", body, headers)["data"]["success"]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(upload, range(4)))


@pytest.mark.parametrize("order", [1, -1])
def test_a_form_writes_into_what_is_there_whether_it_says_where_first_or_last(server, box, order):
    shell(server, box, "rm -rf /tmp/there; mkdir /tmp/there; cd /tmp/there; echo old > real; chmod 751 real; ln -s real link; ln -s new dangling")
    for name in ("link", "real", "dangling"):
        body, headers = form([("path", None, f"/tmp/there/{name}".encode()), ("file", "x", name.encode())][::order])
        assert call(server, "POST", f"/box/{box}/v1/file/upload", body, headers)["data"]["file_path"] == f"/tmp/there/{name}"
        assert shell(server, box, "cd /tmp/there; cat real new 2>/dev/null || true; stat -c %a real; readlink link dangling") == {
            "link": "link751\nreal\nnew\n", "real": "real751\nreal\nnew\n", "dangling": "realdangling751\nreal\nnew\n"}[name]


def test_a_form_that_ends_with_a_boundary_only_is_answered(server, box):
    for fields in ([("file", "ends", b"data")], [("path", None, b"/tmp/ends"), ("file", "ends", b"data")]):
        body, headers = form(fields)
        assert call(server, "POST", f"/box/{box}/v1/file/upload", body.removesuffix(b"--\r\n"), headers).status == 200
        assert shell(server, box, "cat /tmp/ends; rm /tmp/ends") == "data"


def make_tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, value in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o640
            if kind == tarfile.REGTYPE:
                info.size = len(value)
                t.addfile(info, io.BytesIO(value))
            else:
                info.linkname = value
                t.addfile(info)
    return out.getvalue()


def test_a_directory_goes_up_and_comes_back_as_a_tar(server, box):
    long = "d/" + "n" * 200
    sent = make_tar(("d", tarfile.DIRTYPE, ""), ("d/a", tarfile.REGTYPE, b"hello"), ("d/l", tarfile.SYMTYPE, "a"),
                    ("d/h", tarfile.LNKTYPE, "d/a"), (long, tarfile.REGTYPE, b"x" * 1000))
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/tree?path=/tmp/tree", sent)
    assert (r["files"], r["symlinks"], r["directories"]) == (3, 1, 1), r
    assert shell(server, box, "cd /tmp/tree/d; cat a h l; stat -c '%a %h' a") == "hello" * 3 + "640 2\n"
    got = call(server, "GET", f"/box/{box}/v1/file/tree?path=/tmp/tree")
    assert got.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(got.body)) as t:
        names = {m.name: m for m in t}
        assert set(names) == {"d", "d/a", "d/l", "d/h", long}
        assert t.extractfile(long).read() == b"x" * 1000 and names["d/l"].linkname == "a"
        assert names["d/a"].islnk() != names["d/h"].islnk()


@pytest.mark.parametrize("entries, says", [
    ([("/etc/x", tarfile.REGTYPE, b"")], "absolute name"),
    ([("a/../../x", tarfile.REGTYPE, b"")], "name with .."),
    ([("l", tarfile.SYMTYPE, "/etc/passwd")], "link out of its tree"),
    ([("d/l", tarfile.SYMTYPE, "../../x")], "link out of its tree"),
    ([("h", tarfile.LNKTYPE, "../x")], "name with .."),
    ([("dev", tarfile.CHRTYPE, "")], "device or fifo"),
    ([("p", tarfile.FIFOTYPE, "")], "device or fifo"),
])
def test_a_tar_that_reaches_out_of_its_directory_is_contained(server, box, entries, says):
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/tree?path=/tmp/bad", make_tar(*entries))
    assert r.status == 403 and says in r["error"]["message"], r
    assert shell(server, box, "rm -rf /tmp/bad; ls /etc/x /tmp/x 2>/dev/null || true") == ""


def test_an_entry_that_cannot_be_made_is_named(server, box):
    body = make_tar(("fine", tarfile.REGTYPE, b"x"), ("n" * 300, tarfile.REGTYPE, b"x"))
    for path, said in ((f"/box/{box}/v1/file/tree?path=/tmp/named", ("data", "message")), (f"/sg/v1/boxes/{box}/tree?path=/tmp/named", ("error", "message"))):
        r = call(server, "PUT", path, body)
        assert "nnn" in r[said[0]][said[1]] and "File name too long" in r[said[0]][said[1]], r


def test_a_tar_is_not_written_through_a_link_that_lies_in_the_way(server, box):
    shell(server, box, "rm -rf /tmp/way /tmp/victim; mkdir /tmp/way /tmp/victim; ln -s /tmp/victim /tmp/way/d; "
                       "echo safe > /tmp/victim/f; ln -s /tmp/victim/f /tmp/way/f")
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/tree?path=/tmp/way", make_tar(("d/f", tarfile.REGTYPE, b"evil")))
    assert r.status == 403 and "link that leads out" in r["error"]["message"], r
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/tree?path=/tmp/way", make_tar(("f", tarfile.REGTYPE, b"new")))
    assert r.status == 200
    assert shell(server, box, "cat /tmp/victim/f /tmp/way/f") == "safe\nnew"


def test_no_tar_is_said_to_be_none(server, box):
    r = call(server, "PUT", f"/sg/v1/boxes/{box}/tree?path=/tmp/none", b"x" * 5000)
    assert r.status == 400 and "no tar" in r["error"]["message"]


def test_a_stream_tool_is_refused_where_there_is_no_stream(server):
    r = server.execute(sg.unique(), "file:upload", {"path": "/tmp/x"}, status=400)
    assert r["code"] != 0 and "byte stream" in r["message"]


# ---- commands as events ----


def events(server, path, body, headers=None):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    c.request("POST", path, json.dumps(body), {"Accept": "text/event-stream", "Content-Type": "application/json", **(headers or {})})
    r = c.getresponse()
    assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", r.read()
    event = {}
    for line in r:
        line = line.decode().rstrip("\n")
        if not line and event:
            yield event["id"], event["event"], json.loads(event["data"])
            event = {}
        elif line and not line.startswith(":"):
            key, value = line.split(": ", 1)
            event[key] = value
    c.close()


@pytest.mark.parametrize("what", ["bash", "shell"])
def test_a_command_is_followed_as_events_and_picked_up_by_id(server, box, what):
    body = {"command": "printf 'a\\303\\251'; echo; sleep 0.3; echo second; exit 3" if what == "bash"
            else "printf 'a\\303\\251'; echo; sleep 0.3; echo second; (exit 3)"}
    got = list(events(server, f"/box/{box}/v1/{what}/exec", body))
    assert got[0][1] == "start" and got[0][2]["command"] == body["command"]
    assert "".join(e[2]["data"] for e in got if e[1] == "stdout") == "aé\nsecond\n"
    assert got[-1][1] == "exit" and got[-1][2] == {"exit_code": 3, "status": "completed"}
    session, first = got[0][2]["session_id"], next(e for e in got if e[1] == "stdout")
    look = ("output", {"session_id": session}) if what == "bash" else ("view", {"id": session})
    again = list(events(server, f"/box/{box}/v1/{what}/{look[0]}", look[1], {"Last-Event-ID": first[0]}))
    assert "".join(e[2]["data"] for e in again if e[1] == "stdout") == "aé\nsecond\n"[len(first[2]["data"]):]
    assert again[-1][1] == "exit"


def test_stderr_has_events_of_its_own(server, box):
    got = list(events(server, f"/box/{box}/v1/bash/exec", {"command": "echo out; echo err >&2"}))
    assert [e[2]["data"] for e in got if e[1] == "stderr"] == ["err\n"]


def test_events_of_bash_end_as_its_output_says(server, box):
    got = list(events(server, f"/box/{box}/v1/bash/exec", {"command": "echo a; sleep 60", "hard_timeout": 0.5}))
    assert got[-1][1:] == ("exit", {"exit_code": -1, "status": "timed_out"})
    following = events(server, f"/box/{box}/v1/bash/exec", {"session_id": "killed", "command": "echo a; sleep 60"})
    assert [next(following)[1], next(following)[1]] == ["start", "stdout"]
    server.post(f"/box/{box}/v1/bash/kill", {"session_id": "killed"})
    assert next(following)[1:] == ("exit", {"exit_code": -15, "status": "killed"})


@pytest.mark.parametrize("what", ["bash", "shell"])
def test_an_id_of_the_future_begins_at_what_there_is(server, box, what):
    name = {"session_id": "future#1"} if what == "bash" else {"id": "future#1"}  # a name may look like one with an id
    look = f"/box/{box}/v1/{what}/" + ("output" if what == "bash" else "view")
    if what == "shell":
        server.post(f"/box/{box}/v1/shell/sessions/create", name)
    following = events(server, f"/box/{box}/v1/{what}/exec", {**name, "command": "echo one; read x; echo got $x"})
    command = next(following)[2]["command_id"]
    assert next(following)[2]["data"] == "one\n"
    late = events(server, look, name, {"Last-Event-ID": f"{command}:99999999999999999999:7"})
    assert next(late)[0] == f"{command}:4:0"
    server.post(f"/box/{box}/v1/{what}/write", {**name, "input": "word\n" if what == "bash" else "word", "press_enter": True})
    rest = list(late)
    assert "got word\n" in "".join(e[2]["data"] for e in rest if e[1] == "stdout") and rest[-1][1] == "exit"
    last = list(following)[-1]
    assert [e[0] for e in events(server, look, name, {"Last-Event-ID": f"{command}:99999:99999"})] == [last[0], last[0]]
    again = list(events(server, look, name, {"Last-Event-ID": "hello"}))  # not ours: from the beginning
    assert again[1][2]["data"].startswith("one\n")


def test_who_keeps_reading_gets_all_of_a_large_output(server, box):
    """More than is kept (LIMIT_OUTPUT_KEPT, 16 MiB), on both streams, written faster than it can be sent."""
    lines = 4_000_000  # about 30 MB
    got = events(server, f"/box/{box}/v1/bash/exec", {"command": f"seq {lines}; seq {lines} >&2"})
    seen, offsets, other = {"stdout": [], "stderr": []}, {"stdout": 0, "stderr": 0}, []
    for number, (_, name, data) in enumerate(got):
        if name in seen:
            seen[name].append(data["data"])
            offsets[name] += len(data["data"])
            assert data["offset"] == offsets[name]
        else:
            other.append(name)
        if number == 3:
            time.sleep(2)  # it may pause
    assert other == ["start", "exit"]
    want = "".join(f"{i}\n" for i in range(1, lines + 1))
    assert "".join(seen["stdout"]) == want and "".join(seen["stderr"]) == want


def test_who_stops_reading_is_told_what_he_missed_and_does_not_hold_up_the_command(server, box):
    size = 40_000_000
    got = events(server, f"/box/{box}/v1/bash/exec", {"session_id": "stopped", "command": f"head -c {size} /dev/zero | tr '\\0' x; touch /tmp/done-writing"})
    assert next(got)[1] == "start" and next(got)[1] == "stdout"
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/file/find", {"path": "/tmp", "glob": "done-writing"})["data"]["files"], 30)
    for stream in (got, events(server, f"/box/{box}/v1/bash/output", {"session_id": "stopped"})):  # who comes later is told as well
        at = gaps = 0
        for id_, name, data in stream:
            if name == "gap":
                gaps += data["bytes"]
                assert data["stream"] == "stdout" and data["offset"] >= data["bytes"] > 0 and id_.endswith(f":{data['offset']}:0")
                at = data["offset"]
            elif name == "stdout":
                assert set(data["data"]) == {"x"}, "nothing that it did not write"
                at = at or data["offset"] - len(data["data"])
                at += len(data["data"])
                assert data["offset"] == at
        assert at == size and 0 < gaps < size and name == "exit"


def test_a_command_that_nobody_follows_is_not_held_up(server, box):
    begun = time.monotonic()
    server.post(f"/box/{box}/v1/bash/exec", {"session_id": "alone", "command": "head -c 40000000 /dev/zero", "async_mode": True})
    sg.wait_for(lambda: server.post(f"/box/{box}/v1/bash/output", {"session_id": "alone", "offset": 39_999_999})["data"]["command"]["status"] == "completed", 20)
    assert time.monotonic() - begun < 4


def test_of_a_command_in_a_shell_the_middle_is_a_gap(server, box):
    server.post(f"/box/{box}/v1/shell/sessions/create", {"id": "large"})
    server.post(f"/box/{box}/v1/shell/exec", {"id": "large", "command": "head -c 3000000 /dev/zero | tr '\\0' x"})
    got = list(events(server, f"/box/{box}/v1/shell/view", {"id": "large"}))
    gap = [e[2] for e in got if e[1] == "gap"]
    assert len(gap) == 1 and gap[0]["bytes"] + sum(len(e[2]["data"]) for e in got if e[1] == "stdout") == 3_000_000


def test_an_id_of_another_command_is_told_and_never_answered_with_what_is_there(server, box):
    of_one = list(events(server, f"/box/{box}/v1/bash/exec", {"session_id": "one", "command": "echo first"}))[0][0]
    list(events(server, f"/box/{box}/v1/bash/exec", {"session_id": "two", "command": "echo second"}))
    server.post(f"/box/{box}/v1/shell/sessions/create", {"id": "three"})
    list(events(server, f"/box/{box}/v1/shell/exec", {"id": "three", "command": "echo third"}))
    for last in (of_one, "j99999:0:0", "x:1:1"):
        r = call(server, "POST", f"/box/{box}/v1/bash/output", json.dumps({"session_id": "two"}),
                 {"Accept": "text/event-stream", "Content-Type": "application/json", "Last-Event-ID": last})
        assert r.status == 404 and last.split(":")[0] in r["message"], r
    for last in ("99:0:0", "x:1:1", of_one):
        got = list(events(server, f"/box/{box}/v1/shell/view", {"id": "three"}, {"Last-Event-ID": last}))
        assert [e[1] for e in got] == ["error"] and last.split(":")[0] in got[0][2]["message"], got


@pytest.mark.parametrize("what", ["bash", "shell"])
def test_an_id_names_no_command_of_a_session_whose_name_begins_alike(server, box, what):
    exec_, look = f"/box/{box}/v1/{what}/exec", f"/box/{box}/v1/{what}/" + ("output" if what == "bash" else "view")
    own, other = [{"session_id" if what == "bash" else "id": name} for name in ("alike", "alike#x")]
    for name, word in (own, "own"), (other, "other"):
        if what == "shell":
            server.post(f"/box/{box}/v1/shell/sessions/create", name)
        name["command_id"] = list(events(server, exec_, {**name, "command": f"echo {word}"}))[0][2]["command_id"]
    for last in f"x#{other['command_id']}:0:0", f"x#{other['command_id']}:1:0":
        got = list(events(server, look, own if what == "bash" else {"id": "alike"}, {"Last-Event-ID": last}))
        assert "other" not in str(got) and "own" in str(got), got


def test_a_follower_of_an_unknown_session_gets_an_answer_not_a_stream(server, box):
    r = call(server, "POST", f"/box/{box}/v1/shell/view", json.dumps({"id": "nobody"}),
             {"Accept": "text/event-stream", "Content-Type": "application/json"})
    assert r.status == 404 and r["success"] is False
