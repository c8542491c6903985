"""Everyday work of an agent through the AIO surface, each task checked by its effect through another way in: a second
group of the API, or our own."""

import base64
import json
import threading
import time

import pytest

import sg

TASKS = []


def task(f):
    TASKS.append(f)
    return f


class Agent:
    def __init__(self, server):
        self.server, self.box = server, server.create()
        self.base = f"/box/{self.box}"

    def ask(self, method, path, body=None, ok=True, **more):
        r = self.server.request(method, self.base + path, body, **more).json
        assert r["success"] is ok, r
        return r["data"]

    def shell(self, command, **more):
        return self.ask("POST", "/v1/shell/exec", {"command": command, **more})

    def bash(self, command, **more):
        return self.ask("POST", "/v1/bash/exec", {"command": command, **more})

    def file(self, operation, ok=True, **body):
        return self.ask("POST", "/v1/file/" + operation, body, ok)

    def edit(self, command, path, ok=True, **body):
        return self.file("str_replace_editor", ok, command=command, path=path, **body)

    def seen(self, command):
        """What our own API sees in the same box."""
        return self.server.tool(self.box, "bash:run", {"command": command})["data"]["stdout"]


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


@pytest.fixture(scope="module")
def agent(server):
    return Agent(server)


@pytest.mark.parametrize("work", range(46))
def test_task(agent, work):
    if work >= len(TASKS):
        pytest.fail("there are fewer tasks than the range says")
    TASKS[work](agent)


def test_there_are_at_least_forty_and_none_is_left_out():
    assert len(TASKS) == 46


@task
def find_a_bug_by_grep_and_fix_it(a):
    a.file("write", file="/tmp/p/calc.py", content="def add(x, y):\n    return x - y\n")
    hit = a.file("grep", path="/tmp/p", pattern="x - y")["matches"][0]
    a.edit("str_replace", hit["file"], old_str="x - y", new_str="x + y")
    assert a.seen("cd /tmp/p && python3 -c 'import calc; print(calc.add(2, 3))'") == "5\n"


@task
def write_a_script_and_run_it(a):
    a.file("write", file="/tmp/run.sh", content="#!/bin/bash\necho \"$1 and $2\"\n")
    assert a.bash("chmod +x /tmp/run.sh; /tmp/run.sh a b")["stdout"] == "a and b\n"
    assert "x" in a.seen("stat -c %A /tmp/run.sh")


@task
def undo_an_edit(a):
    a.edit("create", "/tmp/u.txt", file_text="first\n")
    a.edit("str_replace", "/tmp/u.txt", old_str="first", new_str="second")
    a.edit("undo_edit", "/tmp/u.txt")
    assert a.seen("cat /tmp/u.txt") == "first\n"


@task
def undo_a_creation(a):
    a.edit("create", "/tmp/u2.txt", file_text="x")
    a.edit("undo_edit", "/tmp/u2.txt")
    assert a.seen("test -e /tmp/u2.txt || echo gone") == "gone\n"


@task
def insert_a_line(a):
    a.file("write", file="/tmp/i.txt", content="a\nc\n")
    a.edit("insert", "/tmp/i.txt", insert_line=1, new_str="b")
    assert a.seen("cat /tmp/i.txt") == "a\nb\nc\n"


@task
def run_a_server_and_ask_it(a):
    a.bash("mkdir -p /tmp/web; echo hello > /tmp/web/index.html; cd /tmp/web; exec python3 -m http.server 8123", session_id="web",
           async_mode=True)
    got = a.bash("for i in $(seq 50); do curl -sf http://127.0.0.1:8123/ && break; sleep 0.1; done")
    assert got["stdout"] == "hello\n"
    assert "8123" in a.server.get(a.base + "/v1/sandbox")["detail"]["system"]["occupied_ports"]
    a.ask("POST", "/v1/bash/kill", {"session_id": "web"})


@task
def a_long_build_in_the_background(a):
    sid = a.ask("POST", "/v1/shell/sessions/create", {"id": "build"})["session_id"]
    assert a.shell("for i in 1 2 3; do echo step $i; sleep 0.1; done; echo built > /tmp/built", id=sid, async_mode=True)["status"] == "running"
    assert a.ask("POST", "/v1/shell/wait", {"id": sid, "seconds": 20})["status"] == "completed"
    assert a.seen("cat /tmp/built") == "built\n"


@task
def state_stays_in_a_shell(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "st"})
    a.shell("cd /usr/share; export N=7; f() { echo f$N; }", id="st")
    assert a.shell("f; pwd", id="st")["output"] == "f7\n/usr/share"
    assert a.ask("GET", "/v1/shell/sessions")["sessions"]["st"]["working_dir"] == "/usr/share"


@task
def state_does_not_stay_in_bash(a):
    a.bash("export N=8; cd /", session_id="nost")
    assert a.bash("echo [$N]; pwd", session_id="nost")["stdout"] == "[]\n/home/gem\n"


@task
def answer_a_prompt(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "q"})
    a.shell("read -p 'name? ' n; echo $n > /tmp/name", id="q", async_mode=True)
    a.ask("POST", "/v1/shell/write", {"id": "q", "input": "Ada", "press_enter": True})
    a.ask("POST", "/v1/shell/wait", {"id": "q", "seconds": 10})
    assert a.seen("cat /tmp/name") == "Ada\n"


@task
def use_an_interpreter(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "py"})
    a.shell("python3 -q", id="py", async_mode=True)
    for line in ("open('/tmp/py', 'w').write(str(6 * 7))", "exit()"):
        a.ask("POST", "/v1/shell/write", {"id": "py", "input": line, "press_enter": True})
    a.ask("POST", "/v1/shell/wait", {"id": "py", "seconds": 20})
    assert a.seen("cat /tmp/py") == "42"


@task
def end_a_hanging_command(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "hang"})
    a.shell("sleep 1234", id="hang", async_mode=True)
    assert a.ask("POST", "/v1/shell/kill", {"id": "hang"})["status"] == "terminated"
    assert a.seen("pgrep -f 'sleep [1]234' || echo none") == "none\n"


@task
def a_hard_timeout_really_ends_it(a):
    assert a.bash("sleep 1235", hard_timeout=0.3)["status"] == "timed_out"
    assert a.seen("pgrep -f 'sleep [1]235' || echo none") == "none\n"


@task
def a_soft_timeout_lets_it_run(a):
    r = a.bash("sleep 0.5; echo done > /tmp/soft", session_id="soft", timeout=0.1)
    assert r["status"] == "running"
    a.ask("POST", "/v1/bash/output", {"session_id": "soft", "wait": True})
    sg.wait_for(lambda: a.seen("cat /tmp/soft 2>/dev/null") == "done\n")


@task
def a_silent_command_does_not_block_its_session(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "silent"})
    assert a.shell("sleep 1236", id="silent", no_change_timeout=1)["status"] == "no_change_timeout"
    assert a.shell("echo usable", id="silent")["output"] == "usable"
    assert a.seen("pgrep -f 'sleep [1]236' || echo none") == "none\n"


@task
def exit_ends_the_shell_and_the_session_goes_on(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "ex"})
    r = a.shell("V=1; exit 3", id="ex")
    assert (r["exit_code"], r["shell_exited"]) == (3, True)
    assert a.shell("echo [$V]", id="ex")["output"] == "[]"


@task
def concurrent_calls_of_one_session_wait(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "cc"})
    got = []
    threads = [threading.Thread(target=lambda i=i: got.append(a.shell(f"echo {i}; sleep 0.1; echo {i}", id="cc")["output"])) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == [f"{i}\n{i}" for i in range(4)]


@task
def a_busy_session_refuses_if_asked(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "busy"})
    a.shell("sleep 20", id="busy", async_mode=True)
    r = a.server.request("POST", a.base + "/v1/shell/exec", {"id": "busy", "command": "true", "on_busy": "reject"})
    assert r.status == 409
    a.ask("DELETE", "/v1/shell/sessions/busy")


@task
def variables_for_one_command(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "env"})
    assert a.shell("echo $X; env | grep -c ^X=", id="env", env={"X": "it's"})["output"] == "it's\n1"
    assert a.shell("echo [$X]", id="env")["output"] == "[]"


@task
def feed_and_end_stdin(a):
    r = a.bash("wc -c > /tmp/count", session_id="in", async_mode=True)
    a.ask("POST", "/v1/bash/write", {"session_id": "in", "command_id": r["command_id"], "input": "12345", "eof": True})
    a.ask("POST", "/v1/bash/output", {"session_id": "in", "wait": True})
    sg.wait_for(lambda: a.seen("cat /tmp/count").strip() == "5")


@task
def follow_output_by_offset(a):
    r = a.bash("echo one; sleep 0.2; echo two", session_id="off", async_mode=True)
    text, at, status = "", 0, "running"
    while status == "running":
        o = a.ask("POST", "/v1/bash/output", {"session_id": "off", "command_id": r["command_id"], "offset": at, "wait": True})
        text, at, status = text + o["stdout"], o["offset"], o["command"]["status"]
    text += a.ask("POST", "/v1/bash/output", {"session_id": "off", "offset": at})["stdout"]
    assert text == "one\ntwo\n"


@task
def separate_stdout_and_stderr(a):
    r = a.bash("echo out; echo err >&2; exit 4")
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("out\n", "err\n", 4)


@task
def write_binary_and_check_its_hash(a):
    data = bytes(range(256)) * 64
    a.file("write", file="/tmp/bin", content=base64.b64encode(data).decode(), encoding="base64")
    import hashlib
    assert a.seen("sha256sum /tmp/bin").split()[0] == hashlib.sha256(data).hexdigest()


@task
def append_a_log(a):
    for i in range(3):
        a.file("write", file="/tmp/log", content=f"line {i}", append=True, trailing_newline=True)
    assert a.seen("wc -l < /tmp/log").strip() == "3"


@task
def page_through_a_file(a):
    a.file("write", file="/tmp/pages", content="".join(f"{i}\n" for i in range(25)))
    at, lines = 0, []
    while (part := a.file("read", file="/tmp/pages", start_line=at, end_line=at + 10)["content"]):
        lines += part.split()
        at += 10
    assert lines == [str(i) for i in range(25)]


@task
def rename_a_word_everywhere(a):
    a.file("write", file="/tmp/r.txt", content="cat dog cat\ncat\n")
    assert a.file("replace", file="/tmp/r.txt", old_str="cat", new_str="cow")["replaced_count"] == 3
    assert a.seen("grep -o cow /tmp/r.txt | wc -l").strip() == "3"


@task
def rename_only_the_first(a):
    a.file("write", file="/tmp/r1.txt", content="x x x")
    a.file("replace", file="/tmp/r1.txt", old_str="x", new_str="y", replace_mode="FIRST")
    assert a.seen("cat /tmp/r1.txt") == "y x x"


@task
def an_ambiguous_edit_changes_nothing(a):
    a.file("write", file="/tmp/am.txt", content="x\nx\n")
    r = a.edit("str_replace", "/tmp/am.txt", ok=False, old_str="x", new_str="y")
    assert "not unique" in r["message"]
    assert a.seen("cat /tmp/am.txt") == "x\nx\n"


@task
def find_files_by_pattern(a):
    a.bash("mkdir -p /tmp/ff/a/b && touch /tmp/ff/1.c /tmp/ff/a/2.c /tmp/ff/a/b/3.c /tmp/ff/a/4.h")
    assert a.file("find", path="/tmp/ff", glob="**/*.c")["files"] == a.seen("find /tmp/ff -name '*.c' | sort").split()


@task
def the_largest_files_first(a):
    a.bash("mkdir -p /tmp/lg && cd /tmp/lg && head -c 30 /dev/zero > c && head -c 10 /dev/zero > a && head -c 20 /dev/zero > b")
    names = [f["name"] for f in a.file("list", path="/tmp/lg", sort_by="size", sort_desc=True)["files"]]
    assert names == a.seen("ls -S /tmp/lg").split()


@task
def search_numbers_lines_from_zero(a):
    a.file("write", file="/tmp/s.py", content="import os\n\ndef f():\n    pass\n")
    assert a.file("search", file="/tmp/s.py", regex=r"def \w+")["line_numbers"] == [2]
    assert a.seen("grep -n 'def ' /tmp/s.py").startswith("3:")


@task
def grep_with_context_and_filters(a):
    a.bash("mkdir -p /tmp/g/node_modules && printf 'a\\nTODO x\\nb\\n' | tee /tmp/g/x.py /tmp/g/node_modules/y.py > /tmp/g/z.txt")
    r = a.file("grep", path="/tmp/g", pattern="todo", include=["*.py"], exclude=["node_modules"], case_insensitive=True,
               context_before=1, context_after=1)
    assert [(m["file"], m["context_before"], m["context_after"]) for m in r["matches"]] == [("/tmp/g/x.py", ["a"], ["b"])]


@task
def watch_a_file(a):
    w = a.ask("POST", "/v1/file/watch", {"path": "/tmp/g", "debounce": 50})["watcher_id"]
    a.bash("echo new > /tmp/g/fresh")
    events = a.ask("POST", f"/v1/file/watch/{w}/poll", {"timeout": 10})["events"]
    assert events[0]["type"] == "create" and events[0]["relative_path"] == "fresh"
    a.ask("DELETE", f"/v1/file/watch/{w}")
    sg.wait_for(lambda: a.seen("pgrep -c watcher || true").strip() == "0")


@task
def wait_for_a_result_file(a):
    a.bash("sleep 0.3; echo ok > /tmp/result", session_id="wf", async_mode=True)
    r = a.ask("POST", "/v1/file/watch/wait", {"path": "/tmp/result", "timeout": 20, "event_types": ["create"]})
    assert r["event"]["path"] == "/tmp/result"


@task
def package_lists(a):
    names = {p["name"].lower() for p in a.ask("GET", "/v1/sandbox/packages/python")}
    assert "pip" in names
    assert a.seen("python3 -c 'import importlib.metadata as m; print(m.version(\"pip\"))'").strip()


@task
def a_hook_runs_before_the_box_ends(a):
    other = Agent(a.server)
    other.ask("POST", "/v1/sandbox/hooks", {"name": "last", "command": "sleep 0.4"})
    begun = time.monotonic()
    a.server.destroy(other.box)
    assert time.monotonic() - begun >= 0.4


@task
def use_sudo_for_a_system_file(a):
    assert a.file("write", ok=False, file="/etc/demo.conf", content="x")["error_type"] == "permission_denied"
    a.file("write", file="/etc/demo.conf", content="x=1\n", sudo=True)
    assert a.seen("stat -c %U /etc/demo.conf; cat /etc/demo.conf") == "root\nx=1\n"


@task
def a_page_becomes_markdown(a):
    a.file("write", file="/tmp/page.html", content="<h1>Title</h1><ul><li>one<li>two</ul><script>bad()</script>")
    text = a.ask("POST", "/v1/util/convert_to_markdown", {"uri": "file:///tmp/page.html"})
    assert "# Title" in text and "- two" in text and "bad" not in text


@task
def a_git_repository(a):
    a.ask("POST", "/v1/shell/sessions/create", {"id": "git"})
    a.shell("git init -q /tmp/repo && cd /tmp/repo && git config user.email a@b && git config user.name A && echo 1 > f && git add f && "
            "git commit -qm first", id="git")
    assert "first" in a.shell("git log --oneline", id="git")["output"]
    assert a.seen("git -C /tmp/repo rev-list --count HEAD").strip() == "1"


@task
def json_by_a_pipeline(a):
    a.file("write", file="/tmp/d.json", content=json.dumps({"items": [{"n": 1}, {"n": 2}]}))
    assert a.shell("python3 -c \"import json;print(sum(i['n'] for i in json.load(open('/tmp/d.json'))['items']))\"")["output"] == "3"


@task
def compile_and_run_c(a):
    a.file("write", file="/tmp/c/m.c", content='#include <stdio.h>\nint main(void) { puts("c"); return 5; }\n')
    r = a.bash("gcc -o m m.c && ./m", exec_dir="/tmp/c")
    assert (r["stdout"], r["exit_code"]) == ("c\n", 5)
    assert "ELF" in a.seen("head -c 4 /tmp/c/m | tail -c 3")


@task
def pack_and_unpack(a):
    a.bash("mkdir -p /tmp/t/in && echo z > /tmp/t/in/f && tar -C /tmp/t -czf /tmp/t.tgz in && mkdir -p /tmp/t/out && tar -C /tmp/t/out -xzf /tmp/t.tgz")
    assert a.file("read", file="/tmp/t/out/in/f")["content"] == "z\n"


@task
def map_a_name_to_a_port(a):
    a.ask("POST", "/v1/proxy/mappings", {"source": "shop.example", "target": "8124"})
    a.bash("mkdir -p /tmp/shop; echo goods > /tmp/shop/x; cd /tmp/shop; exec python3 -m http.server 8124", session_id="shop", async_mode=True)
    got = a.bash("for i in $(seq 60); do curl -sf http://shop.example/x && break; sleep 0.1; done",
                 env={"http_proxy": "http://127.0.0.1:8118"})
    assert got["stdout"] == "goods\n"
    for given in ("http://shop.example/x", "http%3A%2F%2Fshop.example%2Fx"):  # a source may be a URL, and so is what removes it
        a.ask("POST", "/v1/proxy/mappings", {"source": "http://shop.example/x", "target": "8124"})
        a.ask("DELETE", f"/v1/proxy/mappings/{given}")
    assert [m["source"] for m in a.ask("GET", "/v1/proxy/mappings")] == ["shop.example"]
    a.ask("POST", "/v1/bash/sessions/shop/close")


@task
def long_output_is_cut_and_says_so(a):
    out = a.shell("seq 100000")["output"]
    assert len(out) < 31000 and "omitted" in out and out.endswith("100000")
    hint = lambda path, **body: a.server.request("POST", a.base + path, {"command": "seq 100000", **body})["hint"]  # noqa: E731
    assert "30000 characters" in hint("/v1/shell/exec") and "LIMIT_CONSOLE_OUTPUT" in hint("/v1/shell/exec", truncate=False)
    assert "max_output_length" in hint("/v1/bash/exec") and hint("/v1/bash/exec", max_output_length=0) is None
    assert "LIMIT_OUTPUT_KEPT" in hint("/v1/bash/exec", max_output_length=0, command="head -c 20M /dev/zero | tr '\\0' x")


@task
def look_around_in_a_directory(a):
    a.bash("mkdir -p /tmp/look/src/deep /tmp/look/.git; touch /tmp/look/src/a.c /tmp/look/src/deep/b.c /tmp/look/.env")
    text = a.edit("view", "/tmp/look")["output"]
    assert "/tmp/look/src/\n/tmp/look/src/a.c\n" in text and "b.c" not in text
    assert ".env" not in text and "2 hidden files/directories" in text, "what is left out is counted"


@task
def two_boxes_do_not_see_each_other(a):
    other = Agent(a.server)
    a.file("write", file="/tmp/mine", content="x")
    assert other.file("read", ok=False, file="/tmp/mine")["error_type"] == "not_found"
    a.server.destroy(other.box)
