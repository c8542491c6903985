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
