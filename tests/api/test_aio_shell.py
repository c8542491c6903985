"""Shell sessions of AIO's API: what a user of one expects who looks closely."""

import time

import pytest

import sg


class Shell:
    def __init__(self, server, box, name):
        self.server, self.at, self.id = server, f"/box/{box}/v1/shell", name

    def ask(self, what, status=200, **body):
        return self.server.post(f"{self.at}/{what}", {"id": self.id, **body}, status=status)["data"]

    def exec(self, command, **more):
        return self.ask("exec", command=command, **more)

    def out(self, command, **more):
        return self.exec(command, **more)["output"]


@pytest.fixture(scope="module")
def box(server):
    return server.create()


@pytest.fixture
def shell(server, box, request):
    s = Shell(server, box, request.node.name)
    s.ask("sessions/create")
    return s


# ---- where something is wrong ----

@pytest.mark.parametrize("more", [{}, {"exec_dir": "/tmp"}, {"env": {"A": "two\nlines"}}, {"exec_dir": "/tmp", "env": {"A": "1"}}])
def test_lines_are_counted_from_the_first_of_the_command(shell, more):
    assert shell.out("echo $LINENO\necho $LINENO", **more) == "1\n2"
    wrong = shell.exec("echo fine\necho (", **more)
    assert wrong["exit_code"] == 2 and wrong["output"].startswith("fine\n") and "line 2: syntax error" in wrong["output"]
    assert shell.out("f() {\ncaller 0; }\n\nf", **more).startswith("4 ")


def test_env_is_for_its_command_only_and_what_the_command_declares_stays(shell):
    assert shell.out('declare kept=$A; echo "$A"', env={"A": "it's\n'me'"}) == "it's\n'me'"
    assert shell.out('echo "[$A] $kept"') == "[] it's\n'me'"
    assert shell.exec("return 3", env={"A": "x"})["exit_code"] == 3
    assert shell.out("echo $?") == "3"


# ---- a shell that ended ----

def test_a_shell_that_is_started_by_a_key_does_nothing_twice(shell):
    assert shell.exec("echo once >>/tmp/log; exit 4")["shell_exited"]
    shell.ask("write", input="echo typed >/tmp/typed", press_enter=True)
    sg.wait_for(lambda: shell.out("cat /tmp/typed /tmp/log", on_busy="queue") == "typed\nonce")


# ---- directories ----

def test_a_session_begins_without_links_in_its_path_unless_they_are_to_be_kept(shell):
    shell.out("mkdir /tmp/real; ln -s real /tmp/link")
    for kept, path in ((False, "/tmp/real"), (True, "/tmp/link")):
        s = Shell(shell.server, shell.at.split("/")[2], f"link-{kept}")
        assert s.ask("sessions/create", exec_dir="/tmp/link", preserve_symlinks=kept)["working_dir"] == path
        assert s.out("pwd") == path
        assert shell.out("pwd", exec_dir="/tmp/link", preserve_symlinks=kept) == path


def test_a_directory_that_the_user_cannot_enter_is_none(server, box, shell):
    shell.out("cd /tmp; mkdir shut; chmod 0 shut; touch file")
    for path in ("/tmp/shut", "/tmp/file", "/root"):
        assert shell.out("pwd", exec_dir=path) == "/tmp"  # as one that is not there
        wrong = server.request("POST", f"{shell.at}/exec", {"id": shell.id, "command": "pwd", "exec_dir": path, "strict": True})
        assert wrong.status == 400 and f"exec_dir: {path}: " in wrong["message"], wrong
        wrong = server.request("POST", f"/box/{box}/v1/bash/exec", {"command": "pwd", "exec_dir": path})
        assert wrong.status == 400 and f"exec_dir: {path}: " in wrong["message"], wrong
        s = Shell(server, box, f"shut-{path}")
        assert s.ask("sessions/create", exec_dir=path)["working_dir"] == "/home/gem"
    assert shell.out("pwd") == "/tmp"


# ---- long outputs ----

def test_long_outputs_are_counted_in_characters_and_cut_between_them(server, box, shell):
    bash = lambda command, **more: server.post(f"/box/{box}/v1/bash/exec", {"command": command, **more})  # noqa: E731
    say = "python3 -c 'print(\"%s\" * %d, end=\"\")'"
    assert shell.out(say % ("ä", 29000)) == "ä" * 29000
    assert shell.out(say % ("ä", 31000)) == "ä" * 15000 + "\n[... 2000 bytes omitted ...]\n" + "ä" * 15000
    assert bash(say % ("😀", 50000))["data"]["stdout"] == "😀" * 50000
    for n, limit in ((50001, 50000), (1001, 1000), (100000, 1000)):
        cut = bash(say % ("😀", n), max_output_length=limit)
        assert cut["data"]["stdout"] == "😀" * (limit // 2) + f"\n[... {4 * (n - limit)} bytes omitted ...]\n" + "😀" * (limit // 2)
        assert "max_output_length" in cut["hint"]
    zeros = bash("head -c 2000 /dev/zero", max_output_length=1000)["data"]["stdout"]
    assert zeros == "\0" * 500 + "\n[... 1000 bytes omitted ...]\n" + "\0" * 500
    r = server.post(f"{shell.at}/exec", {"id": shell.id, "command": say % ("x", 600000), "truncate": False})
    assert "LIMIT_CONSOLE_OUTPUT" in r["hint"] and r["data"]["output_bytes"] == 600000
    assert len(r["data"]["output"]) > 512 * 1024


def test_a_command_does_not_run_elsewhere_if_its_sessions_directory_is_gone(server, box):
    bash = lambda command, status=200, **more: server.post(f"/box/{box}/v1/bash/exec", {"command": command, **more}, status=status)  # noqa: E731
    bash("mkdir /tmp/gone")
    assert bash("pwd", session_id="gone", exec_dir="/tmp/gone")["data"]["stdout"] == "/tmp/gone\n"
    bash("rmdir /tmp/gone")
    assert "the session's directory is gone: /tmp/gone" in bash("pwd", session_id="gone", status=400)["message"]
    assert bash("pwd", session_id="gone", exec_dir="/tmp")["data"]["stdout"] == "/tmp\n"
