"""knowlyr's five tools as rows of our table: one shape of result, its work directory, and none of its holes."""

import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture(scope="module")
def box(server):
    with server.box() as b:
        yield b


def call(box, tool, **params):
    return box.tool("knowlyr:" + tool, params)["data"]


def test_every_result_has_output_exit_code_error_and_success(box):
    assert call(box, "shell", command="echo hi") == {"output": "hi\n", "exit_code": 0, "error": None, "success": True}
    bad = call(box, "shell", command="echo out; echo err >&2; exit 3")
    assert bad == {"output": "out\n", "exit_code": 3, "error": "err\n", "success": False}


def test_a_warning_on_stderr_is_no_failure(box):
    r = call(box, "shell", command="echo note >&2")
    assert r["success"] is True and r["error"] == "note\n" and r["exit_code"] == 0


def test_file_write_and_file_read_mean_the_same_relative_path(box):
    assert call(box, "file_write", path="src/a.py", content="x = 'ü'\n")["output"] == "已写入 9 字节到 src/a.py"
    assert call(box, "file_read", path="src/a.py")["output"] == "x = 'ü'\n"
    assert box.out("cat /workspace/src/a.py") == "x = 'ü'\n"


def test_lines_are_counted_from_one_and_the_last_is_included(box):
    call(box, "file_write", path="/tmp/lines", content="".join(f"{i}\n" for i in range(1, 9)))
    assert call(box, "file_read", path="/tmp/lines", start_line=2, end_line=3)["output"] == "2\n3\n"
    assert call(box, "file_read", path="/tmp/lines", start_line=7)["output"] == "7\n8\n"
    assert call(box, "file_read", path="/tmp/lines", end_line=2)["output"] == "1\n2\n"


def test_create_dirs_false_does_not_make_directories(box):
    r = call(box, "file_write", path="not/there/f", content="x", create_dirs=False)
    assert r["exit_code"] == 1 and not r["success"] and "No such file" in r["error"]
    assert box.code("test -e /workspace/not") == 1


def test_a_missing_file_is_a_result_of_the_agent(box):
    r = box.tool("knowlyr:file_read", {"path": "missing"})
    assert r["outcome"] == "task_error" and r["trainable"]
    assert r["data"]["exit_code"] == 1 and "/workspace/missing" in r["data"]["error"]


def test_the_timeout_ends_the_command_and_all_that_it_started(box):
    began = time.monotonic()
    r = box.tool("knowlyr:shell", {"command": "echo begun; sleep 987 & sleep 986", "timeout": 0.5})
    assert time.monotonic() - began < 20
    assert r["outcome"] == "timeout" and r["data"]["exit_code"] == 124 and r["data"]["output"] == "begun\n"
    assert "timed out after 0.5 s" in r["data"]["error"] and r["data"]["success"] is False
    assert box.code("pgrep -f 'sleep 98[67]'") == 1


def test_nothing_that_a_parameter_holds_is_run(box):
    """Each of these ran a command in the original, or broke its quoting."""
    name = "it's $(touch /tmp/owned) `touch /tmp/owned`; touch owned"
    assert call(box, "file_write", path=name, content="needle's eye\n")["success"]
    assert call(box, "file_read", path=name)["output"] == "needle's eye\n"
    assert call(box, "search", pattern="needle's", path=name)["output"] == "1:needle's eye\n"  # as grep -rn
    for params in ({"pattern": "x'; touch /tmp/owned; '"}, {"pattern": "x", "path": ". ; touch /tmp/owned"},
                   {"pattern": "x", "file_pattern": "*'; touch /tmp/owned; '"}, {"pattern": "--version"}):
        call(box, "search", **params)
    for params in ({"subcommand": "status; touch /tmp/owned"}, {"subcommand": "status", "args": "$(touch /tmp/owned)"},
                   {"subcommand": "log", "args": "; touch /tmp/owned"}):
        assert not call(box, "git", **params)["success"]
    assert box.out("ls /tmp/owned /workspace/owned 2>/dev/null | wc -l") == "0\n"


def test_search_is_sorted_and_nothing_found_is_no_failure(box):
    for name in ("z.py", "b/m.py", "a.py"):
        call(box, "file_write", path="/tmp/s/" + name, content="import os\nneedle here\n")
    call(box, "file_write", path="/tmp/s/a.txt", content="needle\n")
    r = call(box, "search", pattern="needle", path=".", file_pattern="*.py", work_dir="/tmp/s")
    assert r["output"] == "./a.py:2:needle here\n./b/m.py:2:needle here\n./z.py:2:needle here\n"
    assert call(box, "search", pattern="nowhere", path="/tmp/s") == {
        "output": "", "exit_code": 0, "error": None, "success": True}
    r = call(box, "search", pattern="x", path="/tmp/none")
    assert r["exit_code"] == 2 and "No such file" in r["error"]


def test_git_takes_words_as_a_shell_groups_them(box):
    box.out("mkdir -p /tmp/g && cd /tmp/g && git init -q . && git config user.name n && git config user.email e")
    r = call(box, "git", subcommand="commit", args="--allow-empty -m 'one \"quoted\" message'", work_dir="/tmp/g")
    assert r["success"], r
    assert call(box, "git", subcommand="log", args="-1 --format=%s", work_dir="/tmp/g")["output"] == \
        'one "quoted" message\n'
    assert "a quote (') is not closed" in call(box, "git", subcommand="log", args="'x", work_dir="/tmp/g")["error"]


def test_the_short_names_of_others_stay_theirs(server, box):
    assert box.tool("file_read", {"path": "/etc/hostname"})["tool"] == "file:read"
    assert box.tool("search", {"pattern": "x"}, status=None)["outcome"] == "invalid_request"
    assert box.tool("knowlyr.shell", {"command": "true"})["tool"] == "knowlyr:shell"


def test_wrong_parameters_are_refused_by_name(box):
    r = box.tool("knowlyr:file_read", {"file": "x"}, status=None)
    assert r["outcome"] == "invalid_request" and "file" in r["message"]
    r = box.tool("knowlyr:run_tests", {}, status=None)
    assert r["outcome"] == "invalid_request" and "test_command" in r["message"]
    assert call(box, "run_tests", test_command="echo 1 passed")["output"] == "1 passed\n"
