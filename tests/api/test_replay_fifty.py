"""A run of fifty real steps (a clone, edits, a build, a failing test, a fix), with a state after each, replayed in fresh
boxes: identical, or with a planted difference that is found at its step and called by its name."""

import concurrent.futures
import json
import os

import pytest

import sg
from test_replay import boxes, cli, replay

RUNS = int(os.environ.get("SG_REPLAY_RUNS", "10"))

CALC = """#include "calc.h"

int add(int a, int b)
{
    return a - b;
}

int twice(int a)
{
    return add(a, a);
}
"""
MAIN = """#include <stdio.h>
#include <stdlib.h>
#include "calc.h"

int main(int argc, char **argv)
{
    int sum = 0;
    for (int i = 1; i < argc; i++)
        sum = add(sum, atoi(argv[i]));
    printf("sum %d\\n", sum);
    return 0;
}
"""
MAKE = """calc: main.o calc.o
\tcc -o $@ main.o calc.o
%.o: %.c calc.h
\tcc -O1 -c -o $@ $<
test: calc
\tsh test.sh
clean:
\trm -f calc *.o
"""
TEST = """set -e
[ "$(./calc 1 2 3)" = "sum 6" ] || { echo "FAIL: 1 2 3 gave $(./calc 1 2 3)"; exit 1; }
echo PASS
"""


def write(path, content):
    return "file:write", {"path": f"/home/gem/{path}", "content": content}


FIFTY = [
    # a repository, and a clone of it
    "mkdir origin && cd origin && git init -q -b main . && git config user.name o && git config user.email o@x",
    write("origin/calc.h", "int add(int a, int b);\nint twice(int a);\n"),
    write("origin/calc.c", CALC),
    write("origin/main.c", MAIN),
    write("origin/Makefile", MAKE),
    write("origin/test.sh", TEST),
    "git add -A && git commit -qm 'calc' && git log --oneline | wc -l",
    "cd ~ && git clone -q file:///home/gem/origin work && cd work && git status --short --branch",
    "git config user.name w && git config user.email w@x; git remote -v",
    # looking around
    "ls", ("file:list", {"path": "/home/gem/work"}), "cat Makefile", "wc -l *.c *.h",
    ("file:read", {"path": "/home/gem/work/calc.c"}), "grep -n add *.c",
    ("file:search", {"path": "/home/gem/work/calc.c", "regex": "return"}),
    # build, and a failing test
    "make 2>&1", "ls -1 *.o", "./calc 1 2 3", "make test; echo status $?", "make -s test",
    # the fix
    ("file:read", {"path": "/home/gem/work/calc.c", "start_line": 3, "end_line": 6}),
    "sed -i 's/a - b/a + b/' calc.c", "git diff", "make 2>&1", "make -s test", "./calc 40 2",
    "git commit -qam 'add adds' && git show --stat --format=%s HEAD",
    # a feature, with mistakes on the way
    "cat >> main.c <<'END'\nint unused(void) { return nothing; }\nEND", "make 2>&1 | grep -c error",
    "git checkout -q main.c && git status --short", "printf '\\nint mul(int a, int b)\\n{\\n    return a * b;\\n}\\n' >> calc.c",
    "sed -i '1a int mul(int a, int b);' calc.h && cat calc.h", "make 2>&1 | tail -1", "nm -g calc | grep -c ' T '",
    write("work/test_mul.c", '#include "calc.h"\nint main(void)\n{\n    return mul(6, 7) == 42 ? 0 : 1;\n}\n'),
    "cc -o test_mul test_mul.c calc.o && ./test_mul && echo mul works", "export BUILD=release; echo $BUILD",
    "for i in 1 2 3; do ./calc $i $i; done", "echo $BUILD; pwd",
    # Python beside it
    write("work/check.py", "import subprocess\nout = subprocess.run(['./calc', '2', '2'], capture_output=True, text=True).stdout\n"
                           "assert out == 'sum 4\\n', out\nprint('checked', sorted({'b', 'a'}))\n"),
    "python3 check.py", "python3 -m compileall -q . && ls __pycache__ | wc -l", "python3 -c 'import check'",
    # and it is delivered
    "git add calc.c calc.h check.py test_mul.c && git commit -qm 'mul' && git log --format=%s", "git push -q origin main:review",
    "git -C ../origin branch --list | tr -d ' *'", "make clean && ls", "cat /nonexistent", "date; uptime | wc -l",
]


@pytest.fixture(scope="module")
def server():
    with sg.running() as s:
        yield s


def record(server, steps, prepare=(), **spec):
    name = sg.unique("t")
    with server.box(**spec) as box:
        for command in prepare:
            server.tool(box.id, "bash:run", {"command": command}, trajectory_id=sg.unique("prep"))
        for step in steps:
            tool, params = ("bash:run", {"command": step}) if isinstance(step, str) else step
            server.tool(box.id, tool, params, status=None, trajectory_id=name)
    sg.wait_for(lambda: all(s["state_root"] for s in server.steps(name) if s["state_id"]))
    return name


def odd(r):
    return [(d["number"], d["class"], d.get("cause"), d.get("field"), d.get("diff")) for d in r["details"]
            if d["class"] not in ("identical", "benign")]


def test_fifty_real_steps_are_replayed_identically_down_to_their_files(server):
    assert len(FIFTY) == 50
    name = record(server, FIFTY, state="step")
    assert sum(bool(s["state_root"]) for s in server.steps(name)) >= 35
    before = boxes(server)
    with concurrent.futures.ThreadPoolExecutor(4) as several:  # a busy machine is no reason for an alarm either
        results = list(several.map(lambda _: replay(server, name, "--verify", "--min-match", "1.0", rc=0), range(RUNS)))
    for r in results:
        assert r["success"] and r["match"] == 1.0 and r["completed_steps"] == 50, odd(r)
        same = [d["state_root"] == d["recorded_state_root"] for d in r["details"] if d["recorded_state_root"]]
        assert sum(same) >= 5 and len(same) >= 35  # up to the first commit, which holds the time
    assert boxes(server) == before


PLANTED = {  # at which step, what, and what the report must say
    10: ("date +%N", "nondeterministic", "clock"),
    14: ("echo $RANDOM-$RANDOM", "nondeterministic", "random numbers"),
    20: ("python3 -c 'import dep; print(dep.VERSION)'", "diverged", "changed dependency"),
    25: ("frob calc.c", "diverged", "missing program: frob"),
    31: ("curl -sS -m 3 http://192.0.2.1/", "diverged", "network denied"),
    40: ("shuf -i 1-99", "nondeterministic", "order of lines"),
    45: ("cat ~/list", "diverged", None),
}
PREPARE = ["mkdir -p .local/bin lib; printf '#!/bin/sh\\necho frobbed $1\\n' > .local/bin/frob; chmod +x .local/bin/frob",
           "mkdir -p ~/.local/lib/python3.11/site-packages; echo 'VERSION = \"1.2.3\"' > $(python3 -m site --user-site)/dep.py "
           "|| { mkdir -p $(python3 -m site --user-site); echo 'VERSION = \"1.2.3\"' > $(python3 -m site --user-site)/dep.py; }",
           "printf 'b\\na\\n' > ~/list"]


def test_planted_differences_are_found_at_their_steps_with_their_class(server, tmp_path):
    script = list(FIFTY)
    for at in sorted(PLANTED):
        script.insert(at - 1, PLANTED[at][0])
    name = record(server, script, PREPARE)
    page = json.loads(cli(server, "export", name, "--format", "sandglass", rc=0).stdout)
    page["steps"][30].update(outcome="ok", message="success")  # the network was there
    page["steps"][30]["observation"].update(stdout="<html>\n", stderr="", exit_code=0)
    file = tmp_path / "t.json"
    file.write_text(json.dumps(page))
    r = replay(server, file, rc=1)
    got = {d["number"]: (d["class"], d.get("cause")) for d in r["details"] if d["class"] not in ("identical", "benign")}
    assert set(got) == set(PLANTED), got
    for at, (_, kind, cause) in PLANTED.items():
        assert got[at][0] == kind and (cause is None or got[at][1].startswith(cause)), (at, got[at])
    assert r["divergence_step"] == 19 and r["first_different_step"] == 9


def test_files_that_differ_are_found_though_the_answers_are_the_same(server):
    name = record(server, ["echo a > same", "cp ~/seed out", "cat same"], ["echo recorded > seed"], state="step")
    r = replay(server, name, rc=1)  # the fresh box has no seed: cp fails, and that is seen
    assert r["details"][1]["class"] == "diverged"
    name = record(server, ["echo a > same", "cp ~/seed out 2>/dev/null; true", "cat same", "date +%FT%T.%N > when", "od -An -N8 -tx8 /dev/urandom > dice"],
                  ["echo recorded > seed"], state="step")
    r = replay(server, name, rc=1)
    d = r["details"]
    assert d[1]["class"] == "diverged" and "file /home/gem/" in d[1]["field"] and d[1]["again"] == "run again, it left the same files"
    assert d[2]["class"] == "identical"  # the difference is not its
    assert d[3]["class"] == "benign" and d[3]["rules"] == ["time"]
    assert d[4]["class"] == "nondeterministic" and "dice" in d[4]["field"] and "other files again" in d[4]["again"]
    assert r["divergence_step"] == 0 and "seed" in d[0]["field"]  # which the fresh box never had


def test_what_a_random_step_left_is_not_blamed_on_the_steps_behind_it(server):
    r = replay(server, record(server, ["echo $RANDOM-$RANDOM | tee dice", "true", "echo b > b"], state="step"), rc=0)
    assert [d["class"] for d in r["details"]] == ["nondeterministic", "identical", "identical"], odd(r)
    assert all(d["files_differ"] for d in r["details"])  # said, though it is nobody's fault


def test_files_under_made_up_names_are_the_same_files_if_their_contents_are(server):
    steps = ["date; mktemp", "d=$(mktemp -d); echo x > $d/f; ls $d",
             "python3 -c 'import tempfile; tempfile.NamedTemporaryFile(delete=False).write(b\"a\")'", "echo $RANDOM-$RANDOM > $(mktemp)"]
    r = replay(server, record(server, steps, state="step"), rc=0)
    assert [d["class"] for d in r["details"]] == ["benign", "benign", "benign", "nondeterministic"], odd(r)
    assert r["details"][1]["rules"] == ["temporary"]
    assert r["details"][3]["cause"] == "random numbers" and "/tmp/tmp." in r["details"][3]["field"]
    r = replay(server, r["trajectory"], "--no-rule", "temporary", "--no-rule", "temporary-name", rc=0)
    assert r["details"][1]["class"] == "nondeterministic"


def test_trajectory_that_was_fast_forwarded_is_replayed_in_one_box(server):
    t = sg.unique("t")
    a = server.create(state="step")
    server.tool(a, "bash:run", {"command": "echo a > f"}, trajectory_id=t)
    server.destroy(a)
    with server.box(state="step") as b:
        go = lambda c: server.tool(b.id, "bash:run", {"command": c}, trajectory_id=t, fast_forward=True)
        go("echo a > f")
        assert go("cat f; echo b >> f")["data"]["stdout"] == "a\n"
        assert go("cat f")["data"]["stdout"] == "a\nb\n"
    r = replay(server, t, rc=0)
    assert [d["class"] for d in r["details"]] == ["identical", "unchecked", "identical", "identical"], odd(r)


def test_fork_is_replayed_from_the_state_that_it_began_with(server):
    t = sg.unique("t")
    with server.box() as a:
        a.run("echo from the parent > f")
        b = server.post(f"/sg/v1/boxes/{a.id}/fork", {"n": 1}, status=201)["boxes"][0]["id"]
        server.tool(b, "bash:run", {"command": "cat f"}, trajectory_id=t)
        server.destroy(b)
    assert replay(server, t, rc=0)["counts"]["identical"] == 1
