"""Code in contexts that last, and in compiled languages, in a real box."""

import base64
import os
import shutil
import signal

import pytest

import sg


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="768m", disk="128m") as b:
        yield b


def run(box, code, outcome="ok", session="a", language="python", call_timeout=60, **params):
    r = box.tool("code:execute", {"code": code, "language": language, **({"session": session} if session else {}), **params},
                 timeout=call_timeout, status=None)
    assert r["outcome"] == outcome, r
    return r["data"]


def test_a_python_context_keeps_variables_and_gives_the_value_of_the_last_expression(box):
    d = run(box, "import os, sys\nx = 20\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert (d["stdout"], d["stderr"], d["result"], d["exit_code"]) == ("out\n", "err\n", "21", 0)
    assert run(box, "import asyncio\nawait asyncio.sleep(0)\nx * 2")["result"] == "40"
    assert run(box, "x", "task_error", session="b")["ename"] == "NameError"  # contexts do not share
    d = run(box, "def f():\n    return 1 / 0\nf()", "task_error")
    assert (d["ename"], d["exit_code"], d["return_code"]) == ("ZeroDivisionError", 1, 1)
    assert "return 1 / 0" in d["stderr"] and "python.py" not in d["stderr"]
    assert run(box, "raise SystemExit(3)", "task_error")["exit_code"] == 3
    assert run(box, "print(input())", stdin="line\n")["stdout"] == "line\n"
    assert run(box, "x")["result"] == "20"


def test_figures_are_png(box):
    d = run(box, "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()\nplt.figure(); plt.bar([1], [2]); None",
            call_timeout=120)
    assert len(d["figures"]) == 2
    assert base64.b64decode(d["figures"][0])[:4] == b"\x89PNG" and run(box, "1")["result"] == "1"


def test_a_context_is_interrupted_by_its_timeout_and_lives(box):
    d = run(box, "y = 5\nwhile True: pass", "timeout", timeout=1)
    assert (d["status"], d["exit_code"]) == ("timeout", 124)
    assert run(box, "y")["result"] == "5"
    d = run(box, "let z = 6; while (true);", "timeout", session="js", language="javascript", timeout=2)
    assert d["status"] == "timeout"
    assert run(box, "z", session="js", language="javascript")["result"] == "6"


def test_memory_limits_are_an_exception_and_a_bomb_is_oom(box):
    assert run(box, "b = bytearray(300 << 20)", "task_error", memory_limit_mb=100)["ename"] == "MemoryError"
    d = run(box, "b = bytearray(900 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1", "oom")
    assert d["status"] == "died" and "SIGKILL" in d["evalue"]
    d = run(box, "'x' in globals()")
    assert d["result"] == "False" and d["restarted"] is True
    d = run(box, "while True: pass", "task_error", session=None, cpu_limit=1)
    assert d["signal"] == "SIGXCPU"


def test_javascript_contexts_await_import_and_require(box):
    js = {"session": "js2", "language": "javascript"}
    box.tool("file:write", {"path": "lib.mjs", "content": "export const a = 7; export default 8;"})
    assert run(box, "const v = await new Promise(r => setTimeout(() => r(4), 5)); v + 1", **js)["result"] == "5"
    assert run(box, "import d, { a as b } from '/home/gem/lib.mjs'\nb + d", **js)["result"] == "15"
    assert run(box, "const { basename } = require('path'); basename('/x/y')", **js)["result"] == "y"
    d = run(box, "console.log('hi'); console.error('no'); null.x", "task_error", **js)
    assert d["stdout"] == "hi\n" and d["ename"] == "TypeError" and d["stderr"].startswith("no\n")
    assert run(box, "v", **js)["result"] == "4"


@pytest.mark.parametrize("language, begin, large, thrown, printed", [
    ("python", "kept = 5", "list(range(9000000))", "raise ValueError('x' * (70 << 20))", "print('y' * (8 << 20)); 1"),
    ("javascript", "kept = 5", "'a'.repeat(70 << 20)", "throw new Error('x'.repeat(70 << 20))", "console.log('y'.repeat(8 << 20)); 1"),
], ids=["python", "javascript"])
def test_a_value_an_error_and_an_output_of_any_size_leave_the_context_as_it_is(box, language, begin, large, thrown, printed):
    how = {"session": "large-" + language, "language": language}
    run(box, begin, **how)
    d = run(box, large, **how)
    assert len(d["result"]) < 200_000 and "characters omitted" in d["result"]
    d = run(box, thrown, "task_error", **how)
    assert len(d["evalue"]) < 200_000 and d["evalue"].startswith("xxx") and "characters omitted" in d["evalue"]
    d = run(box, printed, **how)
    assert d["stdout_bytes"] == (8 << 20) + 1 and d["result"] == "1"
    d = run(box, "kept", **how)
    assert (d["result"], d["stdout"], d["restarted"]) == ("5", "", False)  # nor is what was printed there now
    box.tool("code:end", {"session": how["session"]})


def test_figures_are_capped_and_drawing_them_is_interrupted_as_code_is(box):
    run(box, "import matplotlib.pyplot as plt, time\nclass Slow(plt.Figure):\n    def savefig(self, *a, **k): time.sleep(30)\nkept = 6", session="slow",
        call_timeout=120)
    d = run(box, "plt.figure(FigureClass=Slow); None", "timeout", session="slow", timeout=1)
    assert d["status"] == "timeout" and run(box, "kept, plt.get_fignums()", session="slow")["result"] == "(6, [])"
    d = run(box, "for i in range(18): plt.figure(figsize=(0.3, 0.3)).savefig = lambda out, **k: out.write(b'p')", session="slow")
    assert len(d["figures"]) == 16 and "[2 more figures left out]" in d["stderr"]


def test_a_fork_that_leaves_its_cell_ends_and_does_not_answer_in_the_contexts_place(box):
    d = run(box, "import os\npid = os.fork()\nprint('child' if pid == 0 else os.waitpid(pid, 0)[1])\n'parent' if pid else 'child'", session="forks")
    assert (d["stdout"], d["result"]) == ("child\n0\n", "'parent'")
    assert [run(box, code, session="forks")["result"] for code in ("pid > 0", "'next'")] == ["True", "'next'"]


def test_a_context_whose_output_was_closed_has_it_again(box):
    run(box, "import sys; sys.stdout.close()", session="shut")
    assert run(box, "print(8)", session="shut")["stdout"] == "8\n"


def test_javascript_of_modules_runs_in_a_context_and_texts_stay_as_they_are(box):
    js = {"session": "js3", "language": "javascript"}
    module = "\nimport os from 'os'\nexport const kind = os.platform()\n"
    run(box, f"const fs = require('fs'); fs.writeFileSync('/tmp/kind.mjs', `{module}`)", **js)
    assert box.tool("file:read", {"path": "/tmp/kind.mjs"})["data"]["content"] == module
    d = run(box, "// import no from 'no'\nconst r = /['`]/\nimport path, * as all from 'path';\nimport { kind } from './kind.mjs'\n"
                 "export default [r.test('`'), path === all.default, kind]", cwd="/tmp", **js)
    assert d["result"] == "[ true, true, 'linux' ]"
    assert run(box, "export const { length } = 'abc'; export { length as l }\nlength", **js)["result"] == "3"
    fresh = {"session": None, "language": "javascript"}  # whatever the version of Node.js
    d = run(box, "import os from 'os'\nexport const a = await Promise.resolve(os.EOL.length)\nconsole.log(a, import.meta.url)", **fresh)
    assert d["stdout"].startswith("1 file:") and d["stdout"].endswith(".mjs\n")
    assert run(box, "const os = require('os'); console.log(`\nimport os from ${typeof __filename}`)", **fresh)["stdout"] == "\nimport os from string\n"


def test_bash_is_a_language_with_contexts(box):
    sh = {"session": "sh", "language": "bash"}
    run(box, "cd /tmp; v=3", **sh)
    assert run(box, "echo $v $PWD; (exit 4)", "task_error", **sh)["stdout"] == "3 /tmp\n"


@pytest.mark.parametrize("language, program, code", [
    ("c", "gcc", '#include <stdio.h>\nint main(int c, char **v) { int n; scanf("%d", &n); printf("%s %d\\n", v[1], n + 1); return 3; }'),
    ("cpp", "g++", '#include <iostream>\nint main(int, char **v) { int n; std::cin >> n; std::cout << v[1] << " " << n + 1 << "\\n"; return 3; }'),
    ("perl", "perl", 'my $n = <STDIN>; print "$ARGV[0] ", $n + 1, "\\n"; exit 3;'),
    ("java", "java", 'public class Main { public static void main(String[] a) { int n = new java.util.Scanner(System.in).nextInt();'
                     ' System.out.println(a[0] + " " + (n + 1)); System.exit(3); } }'),
], ids=["c", "cpp", "perl", "java"])
def test_compiled_and_other_languages(box, language, program, code):
    found = {x["language"]: x for x in box.tool("code:languages", {})["data"]["languages"]}
    if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin"):
        assert language not in found
        pytest.skip(f"{program} is not installed")
    assert found[language]["version"]
    d = run(box, code, "task_error", session=None, language=language, stdin="41\n", args=["say"], call_timeout=120)
    assert (d["stdout"], d["exit_code"]) == ("say 42\n", 3), d
    r = box.tool("code:execute", {"code": code, "language": language, "session": "s"}, status=None)
    assert language in ("java", "c", "cpp", "perl") and r["outcome"] == "invalid_request" and "session" in r["message"]


def test_limits_are_those_of_the_program_and_not_of_its_compiler(box):
    code = "#include <iostream>\n#include <cstdlib>\nint main(int n, char **) { std::cout << !malloc(30 << 20) << !malloc(10 << 20) << std::endl; while (n > 1); }"
    if not shutil.which("g++", path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip("g++ is not installed")
    d = run(box, code, "task_error", session=None, language="cpp", memory_limit_mb=20, cpu_limit=1, args=["on"], call_timeout=120)
    assert d["stdout"] == "10\n" and d["signal"] == "SIGXCPU" and d["memory_used_mb"] > 20  # the compiler had more


def test_a_limit_of_memory_is_the_heap_of_java(box):
    if not shutil.which("java", path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip("java is not installed")
    java = {"session": None, "language": "java", "memory_limit_mb": 48, "call_timeout": 120}
    code = "class M { public static void main(String[] a) { System.out.println(new byte[%d << 20].length); } }"
    assert run(box, code % 10, **java)["stdout"] == "10485760\n"  # it starts, whatever the machine has
    assert "OutOfMemoryError" in run(box, code % 100, "task_error", **java)["stderr"]


def test_a_language_that_is_not_there_says_so(box):
    if shutil.which("ruby", path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip("ruby is installed")
    r = box.tool("code:execute", {"code": "puts 1", "language": "ruby"}, status=None)
    assert r["outcome"] == "task_error" and "ruby is not installed" in r["message"]


def test_contexts_are_listed_ended_and_stopped(box):
    assert box.tool("code:open", {"session": "o", "language": "javascript", "max_idle": 600})["data"]["created"] is True
    rows = {r["session"]: r for r in box.tool("code:contexts", {})["data"]["sessions"]}
    assert (rows["o"]["language"], rows["o"]["max_idle"], rows["o"]["status"]) == ("javascript", 600, "idle")
    assert box.tool("code:end", {"session": "o"})["data"]["count"] == 1
    assert box.tool("code:end", {"session": "o"})["outcome"] == "task_error"


def test_random_numbers_differ_between_contexts(box):
    """Each kind of them: of random, numpy's old and new generators, uuid, the kernel; also in a copy."""
    code = ("import random, uuid, os, numpy, tempfile\n[random.random(), numpy.random.rand(), numpy.random.default_rng().random(),"
            " str(uuid.uuid4()), os.urandom(8).hex(), next(tempfile._get_candidate_names())]")
    seen = [eval(run(box, code, session=f"r{i}")["result"]) for i in range(3)]
    assert box.tool("code:fork", {"session": "r0", "to": "r9"})["outcome"] == "ok"
    seen += [eval(run(box, code, session=s)["result"]) for s in ("r9", "r0")]
    assert all(len(set(column)) == 5 for column in zip(*seen)), seen
    box.tool("code:end", {"all": True})


def test_hash_seeds_differ_between_contexts(box):
    hashes = [run(box, "hash('sand')", session=f"h{i}")["result"] for i in range(4)]
    assert len(set(hashes)) == 4
    assert box.tool("code:open", {"session": "f1", "fresh": True}, timeout=60)["data"]["created"] is True
    again = box.tool("code:open", {"session": "f1", "fresh": True}, status=None)
    assert again["outcome"] == "invalid_request" and "end it first" in again["message"]
    box.tool("code:end", {"all": True})


def spare(server, box):
    """The interpreter that waits for a name: as the host and as the box number it."""
    taken = [int(run(box, "import os; os.getpid()", session=s["session"])["result"])
             for s in box.tool("code:contexts", {})["data"]["sessions"] if s["language"] == "python"]

    def find():
        for p in server.box_pids(box.id):
            inside = next((int(l.split()[-1]) for l in sg.read(f"/proc/{p}/status").splitlines() if l.startswith("NSpid:")), 0)
            if "python.py\0context" in sg.read(f"/proc/{p}/cmdline") and inside not in taken and \
                    "unix_stream" in sg.read(f"/proc/{p}/wchan"):
                return p, inside
        return None

    return sg.wait_for(find, 20)


def test_a_context_waits_ready_and_is_the_next_new_one(server, box):
    run(box, "1", session="first")
    _, pid = spare(server, box)
    assert [s["session"] for s in box.tool("code:contexts", {})["data"]["sessions"]] == ["first"]  # nobody sees it
    d = run(box, "import os\nprint(os.getpid(), os.getcwd(), os.environ['PWD'])\n_", "task_error", session="next", cwd="/tmp")
    assert d["stdout"] == f"{pid} /tmp /tmp\n" and d["ename"] == "NameError" and d["execution_count"] == 1 and not d["restarted"]
    rows = {r["session"]: r for r in box.tool("code:contexts", {})["data"]["sessions"]}
    assert set(rows) == {"first", "next"} and rows["next"]["cwd"] == "/tmp" and rows["next"]["created_at"] > rows["first"]["created_at"]
    box.tool("code:end", {"all": True})


def test_a_waiting_context_that_dies_or_is_outdated_is_replaced_and_nobody_is_told(server, box):
    run(box, "1", session="first")
    host, _ = spare(server, box)
    os.kill(host, signal.SIGKILL)
    sg.wait_for(lambda: (sg.read(f"/proc/{host}/stat").rpartition(") ")[2] or "X")[0] in "ZX")
    assert run(box, "1", session="after")["restarted"] is False
    _, pid = spare(server, box)
    site = run(box, "import site; print(site.getusersitepackages())", session=None)["stdout"].strip()
    box.tool("file:write", {"path": f"{site}/late.pth", "content": "import sys; sys.late = 7\n"})
    d = run(box, "import os, sys; (sys.late, os.getpid())", session="later")  # as in an interpreter that starts now
    assert eval(d["result"])[0] == 7 and eval(d["result"])[1] != pid and d["restarted"] is False
    box.tool("bash:run", {"command": f"rm {site}/late.pth"})
    box.tool("code:end", {"all": True})


# ---- AgentFlow's data science, AgentScope's two tools ----

def test_data_science_runs_in_the_box(box):
    box.tool("file:write", {"path": "seeds/users.csv", "content": "name,age\nAda,36\nBob,\nBob,\n"})
    said = box.tool("ds:inspect_data", {"seed_path": "seeds"}, timeout=60)["data"]["result"]
    assert "users.csv: 3 rows, 2 columns" in said and "age: 2" in said and "Duplicate rows: 1" in said
    said = box.tool("ds:read_csv", {"seed_path": "seeds", "csv_file": "users.csv", "max_rows": 1}, timeout=60)["data"]["result"]
    assert "Ada,36" in said and "2 more rows of 3" in said
    assert box.tool("ds:read_csv", {"seed_path": "seeds", "csv_file": "../x.csv"}, timeout=60)["data"]["result"].startswith("Error:")
    code = "import pandas as pd\nimport matplotlib.pyplot as plt\nn = len(pd.read_csv('users.csv'))\ndef f(): return n\nprint(f())\n" \
           "plt.plot([1, n])\n1 / 0"
    d = box.tool("ds:run_python", {"seed_path": "/home/gem/seeds", "code": code, "return_vars": ["n", "m"]}, timeout=120)["data"]
    assert "ZeroDivisionError" in d["result"] and "Standard Output:\n3" in d["result"]
    assert "n = 3" in d["result"] and "m is not defined" in d["result"]
    assert base64.b64decode(d["images"][0]["base64"])[:4] == b"\x89PNG"


def test_agentscopes_tools_have_its_results_and_an_exception_is_an_error(box):
    def ask(tool, outcome="ok", **params):
        r = box.tool("agentscope:" + tool, params, timeout=120)
        assert r["outcome"] == outcome, r
        return {c["description"]: c["text"] for c in r["data"]["content"]}, r["data"]["isError"]

    assert ask("run_ipython_cell", code="x = 2\nprint('hi')") == ({"stdout": "hi\n"}, False)
    assert ask("run_ipython_cell", code="x + 1") == ({"stdout": "3\n"}, False)
    said, error = ask("run_ipython_cell", "task_error", code="input()")
    assert error and "input" in said["stderr"]  # nobody could answer
    said, error = ask("run_ipython_cell", "task_error", code="x / 0")
    assert error and "ZeroDivisionError" in said["stderr"] and "\x1b" not in said["stderr"]
    assert ask("run_shell_command", command="echo out; pwd") == ({"stdout": "out\n/home/gem\n", "returncode": "0"}, False)
    said, error = ask("run_shell_command", "task_error", command="echo no >&2; exit 3")
    assert error and said == {"stdout": "", "stderr": "no\n", "returncode": "3"}


def test_a_forked_context_goes_on_where_the_other_is_with_everything_in_it(box):
    run(box, "import os, random\nos.chdir('/tmp')\ndef count():\n    n = 0\n    while True:\n        n += 1\n        yield n\n"
             "gen = count(); next(gen)\nfile = open('/tmp/both', 'w+'); file.write('a'); file.flush()\nbig = bytearray(40 << 20)", session="one")
    d = box.tool("code:fork", {"session": "one", "to": "two"}, timeout=60)
    assert d["outcome"] == "ok" and d["data"].pop("created_at") > 1e9, d
    assert d["data"] == {"session": "two", "language": "python", "cwd": "/tmp", "created": True, "max_idle": 0}
    assert run(box, "next(gen), next(gen)", session="two")["result"] == "(2, 3)"  # a place in running code
    assert run(box, "next(gen)", session="one")["result"] == "2"
    run(box, "file.write('b'); file.flush()", session="two")
    assert run(box, "file.seek(0); file.read()", session="one")["result"] == "'ab'"  # the same open file
    private = run(box, "int(next(l for l in open('/proc/self/smaps_rollup') if l.startswith('Private_Dirty')).split()[1])", session="two")
    assert int(private["result"]) < 20 << 10, private  # KiB: the 40 MiB are shared
    draws = {run(box, "random.random()", session=s)["result"] for s in ("one", "two")}
    assert len(draws) == 2
    assert run(box, "while True: pass", "timeout", session="two", timeout=1)["status"] == "timeout"  # it is interrupted as any
    box.tool("code:end", {"session": "one"})
    d = run(box, "next(gen), print('here')", session="two")
    assert d["result"] == "(4, None)" and d["stdout"] == "here\n" and not d["restarted"]
    d = run(box, "os.kill(os.getpid(), 9)", "task_error", session="two")
    assert d["status"] == "died"
    assert run(box, "'gen' in globals()", session="two")["result"] == "False"


def test_a_fork_that_cannot_be_is_refused_by_name(box):
    run(box, "1", session="busyname")
    run(box, "1", session="jsfork", language="javascript")
    for params, words in (({"session": "nowhere", "to": "t"}, "no session 'nowhere'"),
                          ({"session": "busyname", "to": "busyname"}, "a session 'busyname' already"),
                          ({"session": "jsfork", "to": "t"}, "javascript")):
        r = box.tool("code:fork", params, timeout=60, status=None)
        assert r["outcome"] == "task_error" and words in str(r), r
    assert "t" not in [s["session"] for s in box.tool("code:contexts", {})["data"]["sessions"]]


def test_a_context_can_be_saved_to_a_file_and_loaded_elsewhere(box, server):
    run(box, "import math\nclass A:\n    def __init__(self, n): self.n = n\ndef area(r):\n    return math.pi * r * r\n"
             "a = A(5)\nlist_ = [a, a]\nf = open('/dev/null')", session="carry")
    d = box.tool("code:save", {"session": "carry", "path": "carry.ctx"})["data"]
    assert d["lost"] == ["f: cannot pickle '_io.TextIOWrapper' object"] and d["bytes"] > 100
    lost = d["lost"]
    fork = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, status=201)
    new = fork.get("id") or fork["boxes"][0]["id"]
    try:
        r = server.tool(new, "code:load", {"session": "x", "path": "carry.ctx"}, timeout=60)
        assert r["outcome"] == "ok" and r["data"]["lost"] == lost, r
        r = server.tool(new, "code:execute", {"code": "(a.n, list_[0] is list_[1], round(area(1), 2))", "session": "x"})
        assert r["data"]["result"] == "(5, True, 3.14)", r
    finally:
        server.destroy(new)
