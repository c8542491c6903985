"""Tools: the shell, background programs, files, one test backend of each kind, and the envelope around them."""

import base64
import json
import os
import signal
import threading
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


@pytest.fixture
def box(server):
    with server.box() as b:
        yield b


def alive(box, what):
    """Processes of the box whose command line contains a text."""
    return [p for p in box.server.box_pids(box.id) if what in sg.read(f"/proc/{p}/cmdline").replace("\0", " ")]


# ---- bash:run ----

def test_run_returns_output_and_both_names_of_the_code(box):
    r = box.run("echo out; echo err >&2; (exit 3)")
    d = r["data"]
    assert (d["stdout"], d["stderr"], d["exit_code"], d["return_code"]) == ("out\n", "err\n", 3, 3)
    assert r["outcome"] == "task_error" and r["trainable"] is True and r["retry_safe"] is False
    assert box.run("true")["outcome"] == "ok"


def test_run_keeps_directory_variables_functions_and_aliases(box):
    box.run("cd /usr/share && x='a  b' && f() { echo \"f:$1:$x\"; } && export Y=z && shopt -s nullglob && umask 077")
    r = box.run("pwd; f 1; sh -c 'echo $Y'; echo /nothing*; umask")
    assert r["data"]["stdout"] == "/usr/share\nf:1:a  b\nz\n\n0077\n"
    assert r["data"]["cwd"] == "/usr/share"


@pytest.mark.parametrize("command,code", [("set -e; nosuchcommand", 127), ("exit 126", 126), ("exit 127", 127), ("exec /etc/passwd", 126)])
def test_first_command_of_a_shell_that_ends_it_is_the_agents_doing(server, command, code):
    """These numbers are also what says that there is no bash: that was told, as infra_error."""
    with server.box() as box:
        for _ in range(2):
            r = box.run(command)
            assert r["outcome"] == "task_error" and r["trainable"] and r["data"]["exit_code"] == code, r
        assert box.out("echo next") == "next\n"


@pytest.mark.parametrize("ruin", ["sudo rm /bin/bash", "sudo ln -sf /bin/false /bin/bash", "sudo ln -sf /bin/true /bin/bash",
                                  "sudo rm /lib/x86_64-linux-gnu/libc.so.6"])
def test_box_whose_bash_is_gone_says_so(server, ruin):
    with server.box() as box:
        box.run(ruin + "; exit 1")
        r = box.run("echo hello")
        assert r["outcome"] == "task_error" and r["data"]["exit_code"] == 126, r
        assert "bash cannot be started any more" in r["message"], r
        assert box.tool("file:write", {"path": "still", "content": "here"})["outcome"] == "ok"


@pytest.mark.parametrize("cripple", [
    "builtin() { :; }", "enable -n printf", "enable -n builtin", "enable -n .", "enable -n cd", "enable -n test return", "enable -n . enable", "set -r", "shopt -s extdebug; trap false DEBUG",
    "shopt -s extdebug; trap 'return 2' DEBUG", "ulimit -n 5; false"])
def test_run_that_cripples_its_shell_is_answered_at_once(box, cripple):
    box.run("cd /usr; x=1")
    for params in {}, {"stdin": "given"}:
        begun = time.monotonic()
        r = box.run("echo said; " * (cripple[0] != "u") + cripple, timeout=20, **params)
        assert time.monotonic() - begun < 5, r
        d = r["data"]
        assert (r["outcome"], d["exit_code"], d["shell_restarted"]) == ("task_error", 125, True) and "replaced" in r["message"]
        assert d["stdout"] == "said\n" * (cripple[0] != "u") and d["cwd"] == "/usr"
        assert box.out("pwd; echo ${x-unset}") == "/usr\nunset\n"


def test_run_that_leaves_its_shell_too_few_descriptors(box):
    assert box.run("ulimit -n 5")["outcome"] == "ok"
    r = box.run("echo never")
    assert r["data"]["shell_restarted"] and r["data"]["exit_code"] == 125 and "ulimit -n" in r["message"]
    assert box.out("echo again") == "again\n"


def test_run_that_disables_what_its_shell_needs_unseen(box):
    assert box.run("e=en; $e''able -n . cd")["outcome"] == "ok"
    for params in {}, {"cwd": "/usr"}:
        r = box.run("echo never", **params)
        assert r["data"]["shell_restarted"] and r["data"]["exit_code"] == 125 and "builtin" in r["message"]
        assert box.out("echo again") == "again\n"
        assert box.run("e=en; $e''able -n cd")["outcome"] == "ok"


def test_run_that_disables_what_its_shell_does_not_need(box):
    assert box.run("enable -n kill test echo; cd /usr")["data"]["cwd"] == "/usr"
    d = box.run("enable -n; echo 'x: builtin: y' >&2; (exit 1)", cwd="/var")["data"]
    assert (d["stdout"], d["exit_code"], d["shell_restarted"]) == ("enable -n echo\nenable -n kill\nenable -n test\n", 1, False)
    d = box.run("echo 'x: builtin: y' >&2; false", cwd="/var")["data"]
    assert (d["stderr"], d["exit_code"], d["cwd"], d["shell_restarted"]) == ("x: builtin: y\n", 1, "/usr", False)
    assert box.out("echo $?") == "1\n"


def test_run_that_closes_the_shells_own_descriptors(box):
    r = box.run("exec 10<&- 11<&- 12<&-; (exit 3)")
    assert r["data"]["exit_code"] == 3 and r["data"]["shell_restarted"]
    assert box.out("echo again") == "again\n"


@pytest.mark.parametrize("odd", [
    "printf() { echo no; }", "command() { :; }", "eval() { :; }", "trap() { :; }", "kill() { :; }", "cd() { builtin cd \"$@\"; }",
    ".() { :; }", "source() { :; }", "alias builtin=false", "exec 1>&- 2>&-", "exec 0<&-", "exec {n}>/tmp/x", "exec 10>/tmp/x 11>/tmp/x",
    "trap 'echo debug' DEBUG", "trap false DEBUG", "set -C", "set -o posix", "umask 777", "IFS=0123456789"])
def test_run_leaves_odd_shells_usable(box, odd):
    assert box.run(odd, timeout=10)["outcome"] == "ok"
    for params in {}, {"cwd": "/var"}, {"cwd": "/var", "env": {"A": "b"}}:
        d = box.run("cd /usr/bin; echo hi; sh -c 'echo $A' >&2; (exit 7)", timeout=10, **params)["data"]
        assert (d["stdout"].replace("debug\n", ""), d["exit_code"], d["shell_restarted"]) == ("hi\n", 7, False), d
        assert d["stderr"] == ("b\n" if "env" in params else "\n") and d["cwd"] == "/usr/bin"


def test_run_tells_the_directory_as_it_is(box):
    assert box.run("readonly PWD; cd /usr")["data"]["cwd"] == "/usr"
    box.run("exit 0")
    assert box.run("cd /usr; PWD=/nonsense")["data"]["cwd"] == "/usr"
    assert box.run("ln -s /usr /tmp/link; cd /tmp/link")["data"]["cwd"] == "/tmp/link"
    assert box.run("mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone")["data"]["cwd"] == "/tmp/gone"


def test_run_cwd_and_env_are_for_one_command_only(box):
    box.run("cd /tmp; A=old; export A")
    r = box.run("pwd; echo $A; echo $B", cwd="/usr", env={"A": "new", "B": "it's \"quoted\" $x\n`y`"})
    assert r["data"]["stdout"] == "/usr\nnew\nit's \"quoted\" $x `y`\n"
    assert r["data"]["cwd"] == "/tmp"
    assert box.out("pwd; echo $A; echo ${B-unset}") == "/tmp\nold\nunset\n"


def test_run_env_reaches_programs_exactly(box):
    value = "it's \"quoted\" $x\n`y` \\ é 中"
    assert box.out("python3 -c 'import os; print(repr(os.environ[\"B\"]))'", env={"B": value}) == repr(value) + "\n"


def test_run_variables_set_under_an_env_persist(box):
    box.run("C=$B", env={"B": "kept"})
    assert box.out("echo $C") == "kept\n"


def test_run_stdin_is_given_and_ends(box):
    assert box.out("cat; echo end", stdin="one\ntwo\n") == "one\ntwo\nend\n"
    assert box.out("wc -c", stdin="x" * 1_000_000) == "1000000\n"
    assert box.out("read a; echo $a", stdin="left\nover\n") == "left\n"
    assert box.out("echo still fine") == "still fine\n"


def test_run_stdin_empty_is_end_of_file(box):
    assert box.out("cat; echo end", stdin="") == "end\n"


@pytest.mark.parametrize("command, out", [
    ("echo 'a\nb'", "a\nb\n"), ("cat <<X\nhere $((1+1))\nX", "here 2\n"), ("echo a # comment", "a\n"), ("", ""),
    ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n"), ("echo a;", "a\n"), ("   \n\t\n", ""), ("echo \\\na", "a\n"),
    ("printf 'no newline'", "no newline"), ("echo é中😀", "é中😀\n"), ("echo \"$'\\x27\"", "$'\\x27\n"), ("# only", ""),
    ("! false", ""), ("(cd /; pwd)", "/\n"), ("echo {1..3}", "1 2 3\n"), ("[[ a == a ]] && echo y", "y\n"),
    ("echo ${BASH_VERSION:0:1}", "5\n"), ("set -- a b; echo $#", "2\n")])
def test_run_takes_any_shell_text(box, command, out):
    assert box.out(command) == out


@pytest.mark.parametrize("command", ["if", "echo 'open", "fi", "(", "echo )", "cat <<X\nno end", "${", "done"])
def test_run_syntax_error_is_an_error_and_the_shell_goes_on(box, command):
    box.run("x=kept")
    r = box.run(command, timeout=10)
    assert r["outcome"] in ("ok", "task_error") and r["data"]["status"] == "completed", r
    assert box.out("echo $x") == "kept\n"


def test_run_exit_gives_its_code_and_the_next_call_a_fresh_shell(box):
    box.run("x=1; cd /tmp")
    r = box.run("echo before; exit 5")
    assert (r["data"]["stdout"], r["data"]["exit_code"], r["data"]["shell_exited"]) == ("before\n", 5, True)
    assert box.out("echo ${x-fresh}; pwd") == "fresh\n/home/gem\n"


@pytest.mark.parametrize("command", ["kill -9 $$", "exec false", "exec sleep 0", "set -e; false", "kill -TERM $$; sleep 1",
                                     "exec 0</dev/null 1>/dev/null 2>/dev/null; true"])
def test_run_survives_what_a_command_does_to_its_shell(box, command):
    r = box.run(command, timeout=10)
    assert r["outcome"] in ("ok", "task_error", "killed"), r
    assert box.out("echo alive", timeout=10) == "alive\n"


def test_run_a_signal_is_named(box):
    r = box.run("sh -c 'kill -SEGV $$'")
    assert r["data"]["exit_code"] == 139 and r["data"]["signal"] == "SIGSEGV"


def test_run_output_that_is_not_text_stays_valid_json(box):
    r = box.run("printf '\\xff\\xfe\\x00\\x01ok\\n'")
    assert "ok" in r["data"]["stdout"] and r["data"]["stdout_bytes"] == 7


def test_run_long_command_and_many_lines(box):
    assert box.out("echo " + "x" * 200_000 + " | wc -c") == "200001\n"
    assert box.out("\n".join(f"a{i}={i}" for i in range(5000)) + "\necho $a4999") == "4999\n"


def test_run_output_of_both_streams_may_be_large_at_once(box):
    r = box.run("for i in $(seq 20000); do echo o$i; echo e$i >&2; done", timeout=60)
    assert r["data"]["stdout"].endswith("o20000\n") and r["data"]["stderr"].endswith("e20000\n")


def test_run_many_small_calls_stay_exact(box):
    for i in range(200):
        assert box.out(f"echo {i}") == f"{i}\n"


# ---- what would hang others ----

def test_background_child_that_holds_stdout_does_not_hang_the_call(box):
    t = time.monotonic()
    r = box.run("sleep 300 & echo started")
    assert r["data"]["stdout"] == "started\n" and time.monotonic() - t < sg.PATIENCE
    assert box.out("echo next") == "next\n"
    assert sg.wait_for(lambda: alive(box, "sleep 300"))


def test_background_child_with_subshell_and_pipe_does_not_hang_the_call(box):
    t = time.monotonic()
    box.out("(while :; do sleep 1; done) > /tmp/log 2>&1 & disown; python3 -m http.server 8123 --bind 127.0.0.1 & sleep 0.5")
    assert time.monotonic() - t < sg.PATIENCE
    assert "200" in box.out("until curl -sI 127.0.0.1:8123; do sleep 0.3; done", timeout=sg.PATIENCE)


def test_background_output_is_not_mixed_into_the_next_command(box):
    box.run("(sleep 0.3; echo late; touch /tmp/said) & echo now")
    sg.wait_for(lambda: box.server.request("GET", f"/box/{box.id}/v1/file/download?path=/tmp/said").status == 200)
    r = box.run("echo mine")
    assert r["data"]["stdout"] == "mine\n" and r["data"].get("background") == "late\n"


def test_timeout_kills_the_whole_tree_and_the_session_stays_usable(box):
    box.run("cd /tmp; x=kept")
    t = time.monotonic()
    r = box.run("echo partial; (sleep 777 &); setsid sleep 778 & nohup sleep 779 >/dev/null 2>&1 & sh -c 'sleep 780; true'",
                timeout=1)
    assert 0.9 < time.monotonic() - t < sg.PATIENCE
    assert r["outcome"] == "timeout" and r["trainable"] is True and r["retry_safe"] is False
    assert r["data"]["stdout"] == "partial\n" and r["data"]["status"] == "timeout" and r["data"]["exit_code"] == 124
    sg.wait_for(lambda: not alive(box, "sleep 7"), 3)
    assert box.out("echo $x; pwd") == "kept\n/tmp\n"


@pytest.mark.parametrize("command", [
    "trap '' INT TERM HUP QUIT; while :; do sleep 0.1; done",
    "python3 -c 'import signal, time\nfor s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(60)'",
    "while :; do :; done", "cat /dev/zero > /dev/null", "sleep 60 | sleep 60 | sleep 60", "sudo sleep 60", "wait; sleep 60",
    "yes > /dev/null", "read -t 60 x < <(sleep 60)", "( ( ( (sleep 60) ) ) )", "f() { f & sleep 60; }; sleep 60"])
def test_timeout_ends_even_what_does_not_want_to_end(box, command):
    box.run("x=kept")
    t = time.monotonic()
    r = box.run(command, timeout=1)
    assert r["outcome"] == "timeout" and time.monotonic() - t < sg.PATIENCE, r
    assert box.out("echo back", timeout=sg.PATIENCE) == "back\n"
    sg.wait_for(lambda: not alive(box, "sleep 60"), 3)


DEAF = "python3 -c 'import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)'"
POLITE = "python3 -c 'import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print(\"bye\")'"


@pytest.mark.parametrize("how", ["timeout", "killed"])
@pytest.mark.parametrize("command", [
    f"{DEAF}; touch /tmp/after", f"{POLITE} || true; touch /tmp/after", f"{DEAF} || touch /tmp/after", f"{DEAF} | cat; touch /tmp/after",
    f"f() {{ {POLITE}; touch /tmp/after; }}; f\ntouch /tmp/after", "trap 'echo caught' INT; sleep 60; touch /tmp/after",
    "trap '' INT; sleep 60; touch /tmp/after", f"sudo sh -c 'trap \"\" INT; sleep 60; touch /tmp/after'; touch /tmp/after"])
def test_nothing_that_follows_in_an_ended_command_runs(box, command, how):
    """Bash itself goes on after a program that does not die of SIGINT."""
    box.run("x=kept")
    if how == "timeout":
        r = box.run("touch /tmp/begun; " + command, timeout=0.7)
    else:
        replies = []
        t = threading.Thread(target=lambda: replies.append(box.run("touch /tmp/begun; " + command, timeout=60)))
        t.start()
        sg.wait_for(lambda: box.tool("file:exists", {"path": "/tmp/begun"}, status=None)["data"]["exists"])
        time.sleep(0.2)  # for Python to have its handler
        box.tool("bash:kill")
        t.join()
        r = replies[0]
    assert r["outcome"] == how and r["data"]["shell_restarted"] is False, r
    assert box.out("ls /tmp/after 2>/dev/null || echo $x") == "kept\n"


def test_timeout_of_the_tool_and_of_the_envelope_the_smaller_counts(box):
    for outer, inner in ((1, 300), (300, 1), (None, 1)):
        t = time.monotonic()
        params = {"command": "sleep 300", "timeout": inner}
        assert box.tool("bash:run", params, timeout=outer)["outcome"] == "timeout"
        assert time.monotonic() - t < sg.PATIENCE


def test_timeout_in_the_agentflow_envelope_is_5006(server):
    r = server.execute(sg.unique(), "bash:run", {"command": "echo some; sleep 30"}, status=500, timeout=1)
    assert r["code"] == 5006 and r["message"] == "Tool execution timed out after 1s"
    assert r["data"]["timeout"] == 1 and r["data"]["stdout"] == "some\n"
    assert r["meta"]["outcome"] == "timeout"


def test_pid_1_reaps(box):
    box.run("for i in $(seq 100); do (sleep 0.01 &) ; done; sleep 0.3", timeout=30)
    states = [sg.read(f"/proc/{p}/stat") for p in os.listdir("/proc") if p.isdigit()]
    init = str(box.server.init_pid(box.id))
    assert not [s for s in states if s and s.rsplit(") ", 1)[1].split()[:2] == ["Z", init]]


# ---- input ----

def test_waiting_for_input_is_reported_with_its_prompt(box):
    t = time.monotonic()
    r = box.run("printf 'name? '; read x; echo \"hi $x\"")
    d = r["data"]
    assert d["status"] == "waiting_for_input" and d["prompt"] == "name? " and "exit_code" not in d, r
    assert r["outcome"] == "ok" and time.monotonic() - t < sg.PATIENCE
    r = box.tool("bash:input", {"data": "bob\n"})
    assert r["data"]["stdout"] == "hi bob\n" and r["data"]["exit_code"] == 0 and r["data"]["status"] == "completed"


@pytest.mark.parametrize("read", ["read -p 'name? ' x", "IFS= read -rp\"na$(echo me)? \" x", "read -r -p 'name? ' x",
                                  "ask() { local x; read -p 'name? ' x; y=$x; }; ask; x=$y", "set -eu; read -s -p 'name? ' x; set +eu"])
def test_waiting_for_input_shows_the_prompt_of_read_p(box, read):
    d = box.run(read + "; echo \"hi $x\"")["data"]
    assert (d["status"], d["prompt"], d["stderr"]) == ("waiting_for_input", "name? ", "name? "), d
    d = box.tool("bash:input", {"data": "bob\n"})["data"]
    assert (d["status"], d["stdout"], d["exit_code"]) == ("completed", "hi bob\n", 0), d


def test_a_function_that_was_defined_earlier_still_shows_its_prompt(box):
    box.run("ask() { read -p 'name? ' x; }")
    assert box.run("ask")["data"]["prompt"] == "name? "
    assert box.tool("bash:input", {"data": "bob\n"})["data"]["exit_code"] == 0 and box.out("echo $x") == "bob\n"


def test_read_p_prompts_nobody_where_bash_would_not(box):
    d = box.run("echo a | read -p 'no ' x; read -p 'no ' y < <(echo b); read -u 3 -p 'no ' z 3< <(echo c); echo $y$z; false")["data"]
    assert (d["stdout"], d["stderr"], d["exit_code"]) == ("bc\n", "", 1), d
    assert box.run("read -p 'no ' x; echo $x", stdin="given\n")["data"]["stderr"] == ""


def test_a_read_of_ones_own_is_left_alone(box):
    box.run("read() { echo mine \"$@\"; }")
    assert box.out("read -p x") == "mine -p x\n"


def test_what_was_the_status_before_is_seen_by_a_command_with_read_p(box):
    box.run("(exit 7)")
    assert box.out("echo $?; true || read -p x") == "7\n"


@pytest.mark.parametrize("command", ["python3 -c 'x = input(\"say: \"); print(\"got\", x)'",
                                     "printf 'say: '; head -1 | sed 's/^/got /'", "sh -c 'printf \"say: \"; read x; echo got $x'"])
def test_waiting_for_input_of_programs(box, command):
    r = box.run(command, timeout=20)
    assert r["data"]["status"] == "waiting_for_input", r
    r = box.tool("bash:input", {"data": "word\n"})
    assert "got word" in r["data"]["stdout"] and r["data"]["status"] == "completed", r


NODE = """node -e 'process.stdin.resume(); %s'"""


@pytest.mark.parametrize("command, prompt", [
    ("""node -e 'require("readline").createInterface(process.stdin, process.stdout).question("age? ", () => {})'""", "age? "),
    ("gdb -q", "(gdb) "),
    (NODE % "setTimeout(() => {}, 60000)", ""),
])
def test_waiting_for_input_of_event_loops(box, command, prompt):
    r = box.run(command, timeout=20)["data"]
    assert (r["status"], r["prompt"]) == ("waiting_for_input", prompt)
    box.tool("bash:kill")


ASYNCIO = """python3 -c '
import asyncio, multiprocessing, os, socket, sys, threading, time
async def lines():
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
def got(line):
    print("got", line, flush=True)
    os._exit(0)
async def main():
    loop = asyncio.get_running_loop()
    %s
asyncio.run(main())'"""


@pytest.mark.parametrize("ask", [
    'r = await lines(); print("age? ", end="", flush=True); got((await r.readline()).decode())',
    'loop.add_reader(0, lambda: got(sys.stdin.readline())); print("age? ", end="", flush=True); await asyncio.sleep(60)',
    'got(await asyncio.to_thread(input, "age? "))',
    'loop.run_in_executor(None, lambda: got(sys.stdin.readline())); print("age? ", end="", flush=True); await asyncio.sleep(60)'])
def test_waiting_for_input_of_asyncio(box, ask):
    r = box.run(ASYNCIO % ask, timeout=20)["data"]
    assert (r["status"], r["prompt"]) == ("waiting_for_input", "age? ")
    assert box.tool("bash:input", {"data": "word\n"})["data"]["stdout"].strip() == "got word"


@pytest.mark.parametrize("work", [
    'await (await asyncio.create_subprocess_exec("sleep", "0.7")).wait()',
    'await asyncio.sleep(0.7)',
    # another process has the other end: of a socket, of a pipe
    'a, b = socket.socketpair(); os.fork() or (time.sleep(0.7), b.send(b"x"), os._exit(0)); await loop.sock_recv(a, 1)',
    'a, b = os.pipe(); p = os.fork() or (time.sleep(0.7), os.write(b, b"x"), os._exit(0)); '
    'done = asyncio.Event(); loop.add_reader(a, done.set); await done.wait()',
    'a = await asyncio.start_server(lambda r, w: os._exit(7), "127.0.0.1", 7007); '
    'threading.Timer(0.7, socket.create_connection, [("127.0.0.1", 7007)]).start(); await asyncio.sleep(60)',
])
def test_asyncio_that_is_at_work_does_not_wait_for_input(box, work):
    assert box.run(ASYNCIO % ("await lines(); " + work + "; os._exit(7)"), timeout=20)["data"]["exit_code"] == 7


@pytest.mark.parametrize("work", [
    'require("child_process").exec("sleep 0.7", () => process.exit(7))',
    'require("crypto").pbkdf2("a", "b", 2000000, 64, "sha512", () => process.exit(7))',
    'setTimeout(() => process.exit(7), 700)',
    'require("net").createServer(() => process.exit(7)).listen("/tmp/at-work", () => '
    'setTimeout(() => require("child_process").execFile("curl", ["-s", "--unix-socket", "/tmp/at-work", "http://x"]), 700))',
])
def test_an_event_loop_that_is_at_work_does_not_wait_for_input(box, work):
    assert box.run(NODE % work, timeout=20)["data"]["exit_code"] == 7


def test_input_in_several_parts_with_prompts_between(box):
    assert box.run("for i in 1 2 3; do printf \"q$i: \"; read a; echo \"a$i=$a\"; done")["data"]["prompt"] == "q1: "
    assert box.tool("bash:input", {"data": "x\n"})["data"]["prompt"] == "q2: "
    assert box.tool("bash:input", {"data": "y\n"})["data"]["prompt"] == "q3: "
    r = box.tool("bash:input", {"data": "z\n"})["data"]
    assert r["status"] == "completed" and "a3=z" in r["stdout"]


def test_input_with_end_of_file(box):
    assert box.run("cat; echo end")["data"]["status"] == "waiting_for_input"
    r = box.tool("bash:input", {"data": "text\n", "eof": True})["data"]
    assert r["stdout"] == "text\nend\n" and r["status"] == "completed"


def test_run_while_a_command_waits_is_refused_and_says_what_to_do(box):
    box.run("read x")
    r = box.tool("bash:run", {"command": "echo no"}, status=None)
    assert r["outcome"] != "ok" and r["data"] is None and "bash:input" in r["message"], r
    assert box.tool("bash:input", {"data": "\n"})["data"]["status"] == "completed"
    assert box.out("echo yes") == "yes\n"


def test_input_that_nobody_waits_for_is_refused(box):
    box.run("true")
    r = box.tool("bash:input", {"data": "x\n"}, status=None)
    assert r["outcome"] != "ok" and r["message"], r


def test_waiting_command_can_be_interrupted_or_killed(box):
    for verb in ("bash:interrupt", "bash:kill"):
        box.run("x=kept; read y")
        box.tool(verb, {})
        assert box.out("echo $x", timeout=5) == "kept\n"


def test_interrupt_and_kill_from_another_call(box):
    for verb in ("bash:interrupt", "bash:kill"):
        reply = []
        t = threading.Thread(target=lambda: reply.append(box.run("echo begun; sleep 60")))
        t.start()
        sg.wait_for(lambda: alive(box, "sleep 60"))
        box.tool(verb, {})
        t.join(5)
        assert reply and reply[0]["outcome"] == "killed" and reply[0]["data"]["stdout"] == "begun\n", (verb, reply)
        assert not alive(box, "sleep 60")
        assert box.out("echo on") == "on\n"


# ---- background programs ----

def test_start_output_and_end(box):
    r = box.tool("bash:start", {"command": "echo one; sleep 0.3; echo two; echo bad >&2; exit 4", "cwd": "/tmp",
                                "env": {"A": "b"}})["data"]
    assert r["pid"] > 1
    text, err = "", ""

    def done():
        nonlocal text, err
        d = box.tool("bash:output", {"job_id": r["job_id"], "wait_ms": 1000})["data"]
        text += d["stdout"]
        err += d["stderr"]
        return d if d["status"] == "completed" else None
    d = sg.wait_for(done)
    assert (text, err, d["exit_code"]) == ("one\ntwo\n", "bad\n", 4)
    again = box.tool("bash:output", {"job_id": r["job_id"], "offset": 4})["data"]
    assert again["stdout"] == "two\n" and again["stdout_bytes"] == 8


def test_output_waits_no_longer_than_asked(box):
    job = box.tool("bash:start", {"command": "sleep 300"})["data"]["job_id"]
    t = time.monotonic()
    d = box.tool("bash:output", {"job_id": job, "wait_ms": 300})["data"]
    assert d["status"] == "running" and 0.25 < time.monotonic() - t < sg.PATIENCE


def test_input_to_a_background_program(box):
    job = box.tool("bash:start", {"command": "while read x; do echo \"<$x>\"; done; echo end"})["data"]["job_id"]
    box.tool("bash:input", {"job_id": job, "data": "a\nb\n"})
    box.tool("bash:input", {"job_id": job, "data": "c\n", "eof": True})
    sg.wait_for(lambda: box.tool("bash:output", {"job_id": job, "offset": 0})["data"]["status"] == "completed")
    assert box.tool("bash:output", {"job_id": job, "offset": 0})["data"]["stdout"] == "<a>\n<b>\n<c>\nend\n"


def test_kill_of_a_background_program_takes_its_tree(box):
    job = box.tool("bash:start", {"command": "(setsid sleep 991 &); sleep 992 & sleep 993"})["data"]["job_id"]
    sg.wait_for(lambda: len(alive(box, "sleep 99")) >= 3)
    d = box.tool("bash:kill", {"job_id": job})["data"]
    assert d["status"] == "completed" and d["signal"] == "SIGKILL"
    sg.wait_for(lambda: not alive(box, "sleep 99"))


def test_kill_of_a_completed_background_program_takes_what_it_left(box):
    job = box.tool("bash:start", {"command": "(setsid sleep 981 &); sleep 982 & exit 3"})["data"]["job_id"]
    other = box.tool("bash:start", {"command": "sleep 971 & exit"})["data"]["job_id"]
    for j in (job, other):
        sg.wait_for(lambda: box.tool("bash:output", {"job_id": j})["data"]["status"] == "completed")
    sg.wait_for(lambda: len(alive(box, "sleep 98")) == 2 and alive(box, "sleep 971"))
    d = box.tool("bash:kill", {"job_id": job})["data"]
    assert (d["status"], d["exit_code"]) == ("completed", 3) and "signal" not in d, d
    sg.wait_for(lambda: not alive(box, "sleep 98"))
    assert alive(box, "sleep 971"), "it is another program's"
    box.tool("bash:kill", {"job_id": other})
    sg.wait_for(lambda: not alive(box, "sleep 971"))
    assert box.tool("bash:kill", {"job_id": job})["data"]["exit_code"] == 3  # nothing is left, which is fine


def test_programs_that_left_something_make_room_for_others(box):
    box.tool("bash:start", {"command": "sleep 961 & exit"})
    ids = [box.tool("bash:start", {"command": "exit"})["data"]["job_id"] for _ in range(260)]
    assert box.tool("bash:kill", {"job_id": "j1"}, status=None)["outcome"] != "ok", "forgotten: LIMIT_JOBS_PER_BOX"
    assert alive(box, "sleep 961"), "what it left goes on"
    assert box.tool("bash:output", {"job_id": ids[-1]})["outcome"] == "ok"


def test_interrupt_of_a_background_program(box):
    job = box.tool("bash:start", {"command": "trap 'echo caught; exit 9' INT; while :; do echo ready; sleep 0.05; done"})["data"]["job_id"]
    sg.wait_for(lambda: "ready" in box.tool("bash:output", {"job_id": job, "offset": 0})["data"]["stdout"])
    box.tool("bash:interrupt", {"job_id": job})
    d = sg.wait_for(lambda: (lambda d: d["status"] == "completed" and d)(
        box.tool("bash:output", {"job_id": job, "offset": 0})["data"]))
    assert d["stdout"].endswith("caught\n") and d["exit_code"] == 9


def test_list_names_shells_and_jobs(box):
    box.run("cd /tmp")
    a = box.tool("bash:start", {"command": "sleep 500"})["data"]["job_id"]
    b = box.tool("bash:start", {"command": "exit 3"})["data"]["job_id"]
    sg.wait_for(lambda: box.tool("bash:output", {"job_id": b})["data"]["status"] == "completed")
    d = box.tool("bash:list")["data"]
    jobs = {j["job_id"]: j for j in d["jobs"]}
    assert jobs[a]["status"] == "running" and jobs[a]["command"] == "sleep 500" and "exit_code" not in jobs[a]
    assert jobs[b]["status"] == "completed" and jobs[b]["exit_code"] == 3
    assert d["shells"][0]["cwd"] == "/tmp" and d["shells"][0]["status"] == "idle"


@pytest.mark.parametrize("tool", ["bash:output", "bash:input", "bash:kill", "bash:interrupt"])
def test_unknown_background_program_is_named(box, tool):
    r = box.tool(tool, {"job_id": "j99"}, status=None)
    assert r["outcome"] != "ok" and "j99" in r["message"], r


def test_background_program_runs_beside_the_shell(box):
    job = box.tool("bash:start", {"command": "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"})["data"]["job_id"]
    assert box.out("echo shell") == "shell\n"
    reply = []
    t = threading.Thread(target=lambda: reply.append(box.run("until [ -e /tmp/go ]; do sleep 0.1; done; echo long", timeout=sg.PATIENCE)))
    t.start()
    sg.wait_for(lambda: box.tool("bash:output", {"job_id": job, "wait_ms": 500, "offset": 0})["data"]["stdout"])
    box.tool("file:write", {"path": "/tmp/go", "content": ""})
    t.join()
    assert reply[0]["data"]["stdout"] == "long\n", "bash:output does not wait for bash:run"


# ---- files ----

def test_file_write_read_list(box):
    r = box.tool("file:write", {"path": "a/b/c.txt", "content": "line 1\nline 2\nline 3\n"})
    assert r["data"] == {"path": "/home/gem/a/b/c.txt", "bytes": 21, "created": True}
    d = box.tool("file:read", {"path": "a/b/c.txt"})["data"]
    assert d["content"] == "line 1\nline 2\nline 3\n" and d["size"] == 21 and d["lines"] == 3 and not d["truncated"]
    d = box.tool("file:read", {"path": "/home/gem/a/b/c.txt", "start_line": 2, "end_line": 2})["data"]
    assert d["content"] == "line 2\n" and d["truncated"]
    box.tool("file:write", {"path": "a/b/c.txt", "content": "more\n", "append": True})
    assert box.out("cat a/b/c.txt; stat -c '%U %a' a/b/c.txt") == "line 1\nline 2\nline 3\nmore\ngem 644\n"
    rows = box.tool("file:list", {"path": "a", "recursive": True})["data"]["entries"]
    assert [(x["path"], x["type"]) for x in rows] == [("/home/gem/a/b", "directory"), ("/home/gem/a/b/c.txt", "file")]
    assert rows[1]["size"] == 26 and rows[1]["mode"] == "0644"


def test_file_bytes_travel_as_base64(box):
    data = bytes(range(256)) * 100
    box.tool("file:write", {"path": "bin", "data": base64.b64encode(data).decode()})
    d = box.tool("file:read", {"path": "bin"})["data"]
    assert d["encoding"] == "base64" and base64.b64decode(d["content"]) == data
    assert box.out("sha256sum < bin").split()[0] == __import__("hashlib").sha256(data).hexdigest()


def test_file_text_is_exact(box):
    for text in ("", "no newline", "é中😀\r\n\ttab", "\u0000nul", "\ufeffbom", "line\u2028sep", "x" * 3_000_000):
        box.tool("file:write", {"path": "t", "content": text})
        assert box.tool("file:read", {"path": "t"})["data"]["content"] == text


def test_file_mode_and_links(box):
    box.tool("file:write", {"path": "run.sh", "content": "#!/bin/sh\necho ran\n", "mode": "755"})
    assert box.out("./run.sh") == "ran\n"
    box.out("ln -s run.sh link; mkfifo pipe; ln -s /nowhere dangling")
    rows = {x["name"]: x for x in box.tool("file:list", {"path": "."})["data"]["entries"]}
    assert rows["link"]["type"] == "symlink" and rows["link"]["target"] == "run.sh" and rows["pipe"]["type"] == "fifo"
    assert rows["dangling"]["target"] == "/nowhere"
    assert box.tool("file:read", {"path": "link"})["data"]["content"].startswith("#!/bin/sh")


@pytest.mark.parametrize("tool, params, outcome, says", [
    ("file:read", {"path": "missing"}, "task_error", "missing"),
    ("file:read", {"path": "/"}, "task_error", "/"),
    ("file:read", {"path": "/etc/passwd/x"}, "task_error", "/etc/passwd/x"),
    ("file:read", {"path": "pipe"}, "invalid_request", "pipe"),
    ("file:read", {"path": "/dev/zero"}, "invalid_request", "/dev/zero"),
    ("file:write", {"path": "/usr/x", "content": ""}, "task_error", "/usr/x"),
    ("file:write", {"path": "/proc/sys/kernel/hostname", "content": "x"}, "task_error", "hostname"),
    ("file:write", {"path": "pipe", "content": "x"}, "invalid_request", "pipe"),
    ("file:list", {"path": "missing"}, "task_error", "missing"),
    ("file:list", {"path": "/etc/passwd"}, "task_error", "/etc/passwd"),
    ("file:read", {"path": "a\u0000b"}, "invalid_request", "path"),
    ("file:write", {"path": "x"}, "invalid_request", "content"),
    ("file:write", {"path": "x", "content": "", "mode": "999"}, "invalid_request", "mode")])
def test_file_errors_name_the_path_and_never_hang(box, tool, params, outcome, says):
    box.out("mkfifo pipe")
    r = box.tool(tool, params, status=None, timeout=sg.PATIENCE)
    assert r["outcome"] == outcome and says in r["message"], r


def test_file_calls_run_beside_a_long_command(box):
    reply = []
    t = threading.Thread(target=lambda: reply.append(box.run("until [ -e x ]; do sleep 0.1; done; cat x", timeout=sg.PATIENCE)))
    t.start()
    sg.wait_for(lambda: alive(box, "sleep 0.1"))
    box.tool("file:write", {"path": "x", "content": "y"})  # what the command waits for
    t.join()
    assert reply[0]["data"]["stdout"] == "y", reply


# ---- kinds of backends ----

def test_stateless_tool_has_no_box_and_no_session(server):
    r = server.execute(sg.unique(), "probe:echo", {"text": "hi"})
    assert r["data"] == {"text": "hi"} and r["meta"]["box_id"] is None and r["meta"]["resource_type"] == "probe"


def test_shared_tool_is_warmed_once_for_all(server):
    a = server.execute(sg.unique(), "probe_shared:count")["data"]["count"]
    b = server.execute(sg.unique(), "probe_shared:count")["data"]["count"]
    assert b == a + 1


def test_hybrid_tool_has_shared_and_private_state(server):
    v, w = sg.unique(), sg.unique()
    server.session(v, "probe_hybrid")
    server.session(w, "probe_hybrid", start=10)
    first = server.execute(v, "probe_hybrid:tick")["data"]
    second = server.execute(w, "probe_hybrid:tick")["data"]
    third = server.execute(v, "probe_hybrid:tick")["data"]
    assert (first["own"], second["own"], third["own"]) == (1, 11, 2)
    assert second["count"] == first["count"] + 1 and third["count"] == first["count"] + 2
    for x in (v, w):
        server.disconnect(x)


def test_session_tool_keeps_state_in_a_session_and_none_without(server):
    w = sg.unique()
    assert [server.execute(w, "probe_session:count")["data"]["count"] for _ in range(2)] == [1, 1]
    server.session(w, "probe_session")
    assert [server.execute(w, "probe_session:count")["data"]["count"] for _ in range(3)] == [1, 2, 3]
    server.disconnect(w)


# ---- the envelope ----

@pytest.mark.parametrize("path", ["/api/v1/execute", "/execute", "/agentflow/api/v1/execute", "/agentflow/execute"])
def test_execute_answers_on_all_its_paths(server, path):
    r = server.post(path, {"worker_id": sg.unique(), "action": "bash:run", "params": {"command": "echo hi"}})
    assert r["code"] == 0 and r["message"] == "success" and r["data"]["stdout"] == "hi\n"


def test_envelope_has_the_contracts_keys_and_ours(server):
    r = server.execute(sg.unique(), "bash:run", {"command": "true"})
    assert list(r) == ["code", "message", "data", "meta"]
    assert {"tool", "execution_time_ms", "resource_type", "session_id", "trace_id", "temporary_session", "outcome",
            "retry_safe", "trainable", "trajectory_id", "step", "box_id"} <= set(r["meta"])
    m = r["meta"]
    assert m["tool"] == "bash:run" and m["resource_type"] == "bash" and m["temporary_session"] is True
    assert m["outcome"] == "ok" and m["retry_safe"] is False and m["trainable"] is True and m["step"] == 1
    assert m["execution_time_ms"] > 0 and m["peak_bytes"] > 0 and m["cpu_us"] >= 0 and m["total_us"] >= m["run_us"] > 0


def test_unknown_fields_of_the_envelope_are_ignored_and_named(server):
    r = server.execute(sg.unique(), "probe:echo", {"text": "x"}, colour="red", async_mode=True, message_id="m")
    assert r["code"] == 0 and r["meta"]["ignored"] == ["colour"]


@pytest.mark.parametrize("name", ["bash:run", "bash.run", "bash_run", "bash-run", "run"])
def test_tool_names_are_resolved_as_agentflow_does(server, name):
    assert server.execute(sg.unique(), name, {"command": "echo x"})["meta"]["tool"] == "bash:run"


def test_ambiguous_tool_name_lists_candidates(server):
    r = server.execute(sg.unique(), "list", {}, status=400)
    assert r["code"] == 4002 and {"bash:list", "file:list"} <= set(r["data"]["candidates"])
    assert r["meta"]["outcome"] == "invalid_request"


def test_test_backends_are_hidden_unless_asked_for():
    s = sg.Server("--pool-size", "0", "--no-test-backends")
    try:
        s.start()
        assert not [t for t in s.get("/api/v1/tools?include_hidden=true")["tools"] if t["full_name"].startswith("probe")]
        for name in ("probe:echo", "probe.echo", "echo", "count", "probe_shared:count"):
            r = s.execute("w", name, {}, status=400)
            assert r["code"] == 4002 and r["message"] == "Tool not found: " + name and r["data"] == {"action": name}, r
        s.session("w", "probe_session", status=400)
    finally:
        s.end()


def test_tools_are_described_with_their_parameters(server):
    tools = {t["name"]: t for t in server.get("/sg/v1/tools")["tools"]}
    assert {"bash:run", "bash:start", "bash:output", "bash:input", "bash:interrupt", "bash:kill", "bash:list", "file:read",
            "file:write", "file:list"} <= set(tools)
    assert tools["bash:run"]["parameters"]["required"] == ["command"] and tools["bash:run"]["kind"] == "session"
    assert {t["kind"] for t in tools.values()} == {"session", "shared", "hybrid", "stateless"}


# ---- sessions ----

def test_session_resources_of_a_worker_share_one_box(server):
    w = sg.unique()
    server.session(w, "bash")
    server.session(w, "file")
    a = server.execute(w, "bash:run", {"command": "echo x > shared.txt"})
    b = server.execute(w, "file:read", {"path": "shared.txt"})
    assert b["data"]["content"] == "x\n" and a["meta"]["box_id"] == b["meta"]["box_id"]
    assert "temporary_session" not in a["meta"]
    server.disconnect(w)


def test_session_with_box_own_has_its_own(server):
    w = sg.unique()
    server.session(w, "bash")
    server.session(w, "file", box="own")
    a = server.execute(w, "bash:run", {"command": "echo x > only.txt"})
    b = server.execute(w, "file:read", {"path": "only.txt"}, status=None)
    assert a["meta"]["box_id"] != b["meta"]["box_id"] and b["meta"]["outcome"] == "task_error"
    server.disconnect(w)


def test_session_that_is_made_again_has_a_fresh_shell_in_the_same_box(server):
    w = sg.unique()

    def run(command):
        r = server.execute(w, "bash:run", {"command": command})
        return r["meta"]["box_id"], r["data"]["stdout"]

    def sleeping():
        return [p for p in server.box_pids(box) if "4711" in sg.read(f"/proc/{p}/cmdline")]

    def again():
        server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"})
        return server.session(w, "bash")["session_id"]

    server.session(w, "file")
    server.session(w, "bash")
    box, _ = run("X=old; cd /tmp; touch kept; sleep 4711 & f() { echo old; }; echo $X")
    sg.wait_for(sleeping)
    for n in range(3):
        again()
        assert run("echo \"[$X]\" $PWD $(type -t f) $(ls /tmp/kept); X=old; cd /") == (box, "[] /home/gem /tmp/kept\n")
    assert not sleeping(), "it ended with its shell"
    session = again()
    assert server.execute(w, "bash:list")["data"] == {"shells": [], "jobs": []}
    assert run("Y=1; echo one") == (box, "one\n")
    assert [s["session"] for s in server.execute(w, "bash:list")["data"]["shells"]] == [session]
    server.restart()
    assert run("echo $Y") == (box, "1\n"), "the next server knows whose shell it is"
    again()
    assert run("echo \"[$Y]\"") == (box, "[]\n")
    server.disconnect(w)


def test_session_that_ends_under_a_command_takes_its_shell_with_it(server):
    w = sg.unique()
    server.session(w, "file")
    server.session(w, "bash")
    r = server.execute(w, "bash:run", {"command": "X=old; read -p 'name? ' name"})
    assert r["data"]["status"] == "waiting_for_input", r
    for n in range(40): # more than LIMIT_SHELLS_PER_BOX
        server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"})
        server.session(w, "bash")
        r = server.execute(w, "bash:run", {"command": "echo \"[$X]\"; X=old"})
        assert r["data"]["stdout"] == "[]\n" and not r["data"].get("background"), r
    server.disconnect(w)


@pytest.mark.parametrize("end", ["box", "worker"])
def test_every_call_in_a_box_that_ends_is_answered(server, end):
    w = sg.unique()
    for resource in ("bash", "file", "code"):
        server.session(w, resource)
    box = server.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
    replies = []
    calls = [("bash:run", {"command": "sleep 20"}), ("code:execute", {"code": "import time; time.sleep(20)", "language": "python"})]
    threads = [threading.Thread(target=lambda c=c: replies.append(server.execute(w, *c, status=None, http_timeout=30))) for c in calls]
    for t in threads:
        t.start()
    sg.wait_for(lambda: server.get("/sg/v1/status")["calls"] >= len(calls))
    if end == "box":
        server.request("DELETE", f"/sg/v1/boxes/{box}")
    else:
        server.disconnect(w)
    for t in threads:
        t.join()
    assert [r["meta"]["outcome"] for r in replies] == ["killed"] * len(calls), replies


@pytest.mark.parametrize("end", ["box", "session"])
def test_call_whose_output_is_being_stored_when_its_session_ends_is_answered(server, end):
    w = sg.unique()
    server.session(w, "bash")
    box = server.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
    replies = []
    call = threading.Thread(target=lambda: replies.append(server.execute(w, "bash:run", {"command": "seq 400000; touch /tmp/done"})))
    recorder = server.role("recorder")
    os.kill(recorder, signal.SIGSTOP)
    try:
        call.start()
        time.sleep(1)  # it is over, and recorder is to keep its output
        ended = threading.Thread(target=lambda: server.request("DELETE", f"/sg/v1/boxes/{box}") if end == "box" else
                                 server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"}))
        ended.start()
        time.sleep(0.5)
    finally:
        os.kill(recorder, signal.SIGCONT)
    call.join()
    ended.join()
    r = replies[0]
    assert r["meta"]["outcome"] == "ok" and r["data"]["stdout_kept"], r
    server.disconnect(w)


def test_session_with_box_own_stays_alone_after_a_restart():
    with sg.running("--pool-size", "0") as s:
        w = sg.unique()
        s.session(w, "file", box="own")
        own = s.execute(w, "file:write", {"path": "x", "content": "y"})["meta"]["box_id"]
        s.restart()
        s.session(w, "bash")
        assert s.execute(w, "bash:run", {"command": "ls"})["meta"]["box_id"] != own
        assert s.execute(w, "file:read", {"path": "x"})["meta"]["box_id"] == own


def test_session_keeps_its_ttl_and_its_end_after_a_restart():
    with sg.running("--pool-size", "0") as s:
        w = sg.unique()
        s.session(w, "bash", ttl=3)
        box = s.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
        s.restart()
        assert s.request("GET", f"/sg/v1/boxes/{box}").status == 200
        sg.wait_for(lambda: s.request("GET", f"/sg/v1/boxes/{box}").status == 404, 8)


def test_session_config_sets_limits_of_the_box(server):
    w = sg.unique()
    server.session(w, "bash", pids=77, memory="200m")
    box = server.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
    limits = server.get(f"/sg/v1/boxes/{box}")["limits"]
    assert limits["pids"] == 77 and limits["memory_bytes"] == 200 << 20
    server.disconnect(w)


def test_a_session_for_code_has_the_limits_in_agentflows_words(server):
    w = sg.unique()
    server.session(w, "code", memory_limit="192m", cpu_limit=1)
    box = server.execute(w, "code:execute", {"code": "print(1)"})["meta"]["box_id"]
    limits = server.get(f"/sg/v1/boxes/{box}")["limits"]
    assert limits["memory_bytes"] == 192 << 20 and limits["cpu"] == 1, limits
    server.disconnect(w)


@pytest.mark.parametrize("key, value", [
    ("memory", "300m"), ("disk", "300m"), ("shm", "32m"), ("cpu", 1), ("pids", 78), ("open_files", 100), ("network", "full"),
    ("sudo", False), ("image", "/nowhere"), ("mounts", [{"from": "/tmp", "to": "/x"}]), ("state", "step"), ("labels", {"a": "b"})])
def test_session_config_that_the_shared_box_does_not_fit_is_refused(server, key, value):
    w = sg.unique()
    server.session(w, "bash", memory="200m")
    r = server.request("POST", "/api/v1/session/create",
                       {"worker_id": w, "resource_type": "file", "session_config": {key: value}})
    assert r.status == 400 and r["code"] == 4002, r
    assert r["message"].startswith(f"{key}: ") or f" {key}: " in r["message"], r
    assert '"box": "own"' in r["message"], r
    assert len(server.post("/api/v1/session/list", {"worker_id": w})["data"]["sessions"]) == 1
    server.disconnect(w)


def test_session_config_that_the_shared_box_fits_is_fine(server):
    w = sg.unique()
    same = {"memory": "200m", "pids": 77, "network": "none", "cpu": 1.5, "labels": {"a": "b"}, "disk": None}
    server.session(w, "bash", **same)
    server.session(w, "file", ttl=60, cold=True, box="shared", **{**same, "memory": 200 << 20})
    server.session(w, "code", box="own", memory="300m")
    a, b, c = (server.execute(w, *x)["meta"]["box_id"] for x in (("bash:run", {"command": "true"}), ("file:list", {}),
                                                                 ("code:execute", {"code": "print(1)", "language": "python"})))
    assert a == b != c
    server.restart()
    server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "file"})
    server.session(w, "file", **same)
    assert server.execute(w, "file:list", {})["meta"]["box_id"] == a
    server.disconnect(w)


def test_session_lives_until_destroyed_and_takes_its_box_with_it(server):
    w = sg.unique()
    made = server.session(w, "bash")
    assert made["session_status"] == "active" and made["session_id"].startswith("bash_" + w[:20])
    assert server.session(w, "bash")["status"] == "exists"
    box = server.execute(w, "bash:run", {"command": "x=1"})["meta"]["box_id"]
    assert server.execute(w, "bash:run", {"command": "echo $x"})["data"]["stdout"] == "1\n"
    listed = server.post("/api/v1/session/list", {"worker_id": w})["data"]["sessions"]
    assert [s["session_id"] for s in listed] == [made["session_id"]]
    server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"})
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404)
    assert server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"}, status=404)["code"] == 4007


def test_session_ends_by_its_ttl_and_use_extends_it(server):
    w = sg.unique()
    server.session(w, "bash", ttl=6)
    box = server.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
    for _ in range(4):
        time.sleep(2)
        server.execute(w, "bash:run", {"command": "true"})
    assert server.request("GET", f"/sg/v1/boxes/{box}").status == 200
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404)


def test_session_is_not_taken_away_under_a_long_call(server):
    w = sg.unique()
    server.session(w, "bash", ttl=1)
    r = server.execute(w, "bash:run", {"command": "sleep 2.5; echo done"})
    assert r["data"]["stdout"] == "done\n"
    server.disconnect(w)


def test_temporary_call_leaves_nothing(server):
    w = sg.unique()
    box = server.execute(w, "bash:run", {"command": "(setsid sleep 500 &) ; echo x > /tmp/x"})["meta"]["box_id"]
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404)
    assert server.box_pids(box) == []
    assert server.execute(w, "bash:run", {"command": "ls /tmp"})["data"]["stdout"] == ""


def test_calls_of_one_session_run_in_the_order_of_arrival(server):
    w = sg.unique()
    server.session(w, "bash")
    server.execute(w, "bash:run", {"command": "true"})
    server.post_in_order("/api/v1/execute", [{"worker_id": w, "action": "bash:run", "params": {
        "command": f"echo {i} >> /tmp/order; sleep 0.05"}} for i in range(12)])
    assert server.execute(w, "bash:run", {"command": "cat /tmp/order"})["data"]["stdout"].split() == [str(i) for i in range(12)]
    server.disconnect(w)


def test_sessions_of_different_workers_run_side_by_side(server):
    workers = [sg.unique() for _ in range(6)]
    t = time.monotonic()
    threads = [threading.Thread(target=lambda w=w: server.execute(w, "bash:run", {"command": "sleep 10"})) for w in workers]
    [x.start() for x in threads]
    [x.join() for x in threads]
    assert time.monotonic() - t < 6 * 10, "one after the other"


def test_lost_box_is_said_and_never_silently_replaced(server):
    w = sg.unique()
    server.session(w, "bash")
    box = server.execute(w, "bash:run", {"command": "x=1"})["meta"]["box_id"]
    os.kill(server.init_pid(box), 9)
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404)
    for _ in range(2):
        r = server.execute(w, "bash:run", {"command": "echo $x"}, status=400)
        assert r["code"] == 4007 and r["meta"]["outcome"] == "box_lost" and r["meta"]["retry_safe"] is True, r
        assert r["meta"]["trainable"] is False
    server.post("/api/v1/session/destroy", {"worker_id": w, "resource_type": "bash"})
    server.session(w, "bash")
    assert server.execute(w, "bash:run", {"command": "echo ${x-new}"})["data"]["stdout"] == "new\n"
    server.disconnect(w)


def test_init_that_ends_during_a_call_is_box_lost_and_not_retry_safe(server):
    w = sg.unique()
    server.session(w, "bash")
    box = server.execute(w, "bash:run", {"command": "true"})["meta"]["box_id"]
    reply = []
    t = threading.Thread(target=lambda: reply.append(server.execute(w, "bash:run", {"command": "sleep 30"}, status=None)))
    t.start()
    sg.wait_for(lambda: server.get("/sg/v1/status")["calls"] >= 1)
    os.kill(server.init_pid(box), 9)
    t.join(10)
    assert reply[0]["meta"]["outcome"] == "box_lost" and reply[0]["meta"]["retry_safe"] is False, reply
    assert reply[0]["meta"]["trainable"] is False
    server.disconnect(w)


def test_batch_runs_in_order_and_stops_at_an_error(server):
    w = sg.unique()
    server.session(w, "bash")
    actions = [{"action": "bash:run", "params": {"command": c}} for c in ("x=1", "echo $x", "echo $((x+1))")]
    r = server.post("/api/v1/execute/batch", {"worker_id": w, "actions": actions})
    assert [x["data"]["stdout"] for x in r["data"]["results"]] == ["", "1\n", "2\n"]
    actions.insert(1, {"action": "no:tool", "params": {}})
    r = server.post("/api/v1/execute/batch", {"worker_id": w, "actions": actions}, status=207)
    assert r["data"]["executed"] == 2 and r["data"]["success_count"] == 1
    server.disconnect(w)
