"""What the init of a box promises, tried on the real program without the rest of Sandglass (tests/api/initctl.py)."""
import contextlib
import os
import pathlib
import re
import signal
import time

import pytest

import initctl
import sg

BINARY = os.environ.get("SANDGLASS_INIT") or str(pathlib.Path(__file__).parents[2] / "build" / "sandglass-init")
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists(BINARY),
                                reason="needs root and build/sandglass-init")


@pytest.fixture
def box():
    b = initctl.Box(BINARY)
    yield b
    b.close()


def alive(box, pattern):
    """How many processes of the box have this in their command line (pgrep does not count itself)."""
    return int(box.run(f"pgrep -c -f '{pattern}' || true", session="observer")["stdout"] or 0)


# Shells

def test_output_status_and_directory_come_back(box):
    r = box.run("cd /usr; echo out; echo err >&2; (exit 7)")
    assert (r["outcome"], r["exit_code"], r["return_code"], r["cwd"]) == ("task_error", 7, 7, "/usr")
    assert (r["stdout"], r["stderr"], r["status"]) == ("out\n", "err\n", "completed")


def test_variables_functions_and_last_status_persist(box):
    box.run("x=5; f() { echo f$x; }; set -- a b; false")
    assert box.run("echo $? $# $1; f")["stdout"] == "1 2 a\nf5\n"


def test_sessions_have_separate_shells(box):
    box.run("x=1", session="a")
    assert box.run("echo [$x]", session="b")["stdout"] == "[]\n"
    assert box.run("echo [$x]", session="a")["stdout"] == "[1]\n"


def test_commands_run_as_the_user_without_capabilities(box):
    r = box.run("id -u; id -g; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u; "
                "cat /proc/self/oom_score_adj; ulimit -n; ls /proc/self/fd | wc -l; echo $HOME $USER")
    assert r["stdout"].split("\n") == ["1000", "1000", "0000000000000000", "1000", "4096", "4", "/home/gem gem", ""]


def test_a_background_child_that_holds_stdout_does_not_hang_the_call(box):
    r = box.run("(until [ -e /tmp/go ]; do sleep 0.05; done; echo late; touch /tmp/said) & echo now")
    assert r["stdout"] == "now\n"
    r = box.run("echo next; touch /tmp/go; until [ -e /tmp/said ]; do sleep 0.05; done; rm /tmp/go /tmp/said", timeout=60)
    assert r["stdout"] == "next\n"
    assert r["background"] == "late\n"


def test_a_background_server_survives_the_next_commands(box):
    box.run("sh -c 'while :; do echo tick; sleep 0.05; done' & echo $! > /tmp/pid")
    for _ in range(3):
        assert box.run("sleep 0.1; echo a")["stdout"] == "a\n"
    assert box.run("kill -0 $(cat /tmp/pid)")["exit_code"] == 0


def test_a_timed_out_tree_dies_and_directory_and_variables_persist(box):
    box.run("cd /usr; keep=me")
    begun = time.monotonic()
    r = box.run("echo partial; sh -c 'sleep 977 & sleep 977; echo no'; echo no", timeout=0.3)
    assert time.monotonic() - begun < 60
    assert (r["outcome"], r["exit_code"], r["status"], r["stdout"]) == ("timeout", 124, "timeout", "partial\n")
    assert "0.3 s" in r["message"] and not r["shell_restarted"] and r["cwd"] == "/usr"
    assert alive(box, "sleep 977") == 0
    assert box.run("echo $keep $PWD")["stdout"] == "me /usr\n"


def test_a_double_forked_daemon_is_killed_on_timeout(box):
    r = box.run("setsid sh -c '(setsid sleep 978 >/dev/null 2>&1 </dev/null &) '; sleep 50", timeout=0.3)
    assert r["outcome"] == "timeout"
    assert alive(box, "sleep 978") == 0


def test_a_daemon_of_an_earlier_command_survives_a_timeout(box):
    box.run("setsid sleep 979 >/dev/null 2>&1 </dev/null &")
    assert box.run("sleep 50", timeout=0.2)["outcome"] == "timeout"
    assert alive(box, "sleep 979") == 1


def test_processes_that_ignore_signals_die_on_timeout(box):
    r = box.run("trap '' TERM HUP; sh -c \"trap '' INT TERM HUP; sleep 980; sleep 980\"; echo after", timeout=0.2)
    assert r["outcome"] == "timeout"
    assert alive(box, "sleep 980") == 0
    assert box.run("echo ok")["stdout"] == "ok\n"


def test_a_builtin_endless_loop_times_out_and_the_shell_lives(box):
    box.run("v=1")
    r = box.run("while :; do :; done", timeout=0.2)
    assert (r["outcome"], r["exit_code"], r["shell_restarted"]) == ("timeout", 124, False)
    assert box.run("echo $v")["stdout"] == "1\n"


def test_a_shell_that_ignores_interrupts_gives_up_its_command_too(box):
    r = box.run("cd /usr; v=1; trap '' INT; while :; do :; done", timeout=0.2)
    assert (r["outcome"], r["shell_restarted"], r["cwd"]) == ("timeout", False, "/usr")
    assert box.run("pwd; echo [$v]")["stdout"] == "/usr\n[1]\n"


def test_a_shell_that_does_not_come_back_is_replaced_where_it_was(box):
    r = box.run("cd /usr; v=1; kill -STOP $$", timeout=0.2)
    assert (r["outcome"], r["shell_restarted"], r["cwd"]) == ("timeout", True, "/usr")
    r = box.run("pwd; echo [$v]")
    assert r["stdout"] == "/usr\n[]\n" and not r["shell_restarted"]


def test_a_shell_whose_directory_was_removed_is_replaced(box):
    for what in ("/run/sandglass/[0-9]*", "/run/sandglass"):
        box.run(f"sudo rm -rf {what}", timeout=0.3)
        r = box.run("cd /usr; echo back; v=1")
        assert (r["outcome"], r["stdout"]) == ("ok", "back\n"), r
        assert box.run("pwd; echo $v")["stdout"] == "/usr\n1\n"


def test_a_fork_storm_dies_on_timeout(box):
    r = box.run("f() { sleep 981 & sleep 0.01; }; g() { while :; do f; done; }; g & g & g & wait", timeout=0.4)
    assert r["outcome"] == "timeout"
    assert alive(box, "sleep 981") == 0
    assert box.run("echo ok")["stdout"] == "ok\n"


def test_the_smaller_timeout_wins(box):
    begun = time.monotonic()
    assert box.run("sleep 300", timeout_ms=200, timeout=200)["outcome"] == "timeout"
    assert time.monotonic() - begun < 60


def test_exit_ends_the_shell_and_the_next_call_has_a_fresh_one(box):
    box.run("x=1; cd /usr")
    r = box.run("trap 'echo bye' EXIT; echo a; exit 3; echo no")
    assert (r["exit_code"], r["shell_exited"], r["stdout"], r["stderr"]) == (3, True, "a\nbye\n", "")
    assert box.run("echo [$x] $PWD")["stdout"] == "[] /home/gem\n"


def test_a_shell_that_kills_itself_says_so(box):
    r = box.run("kill -9 $$")
    assert (r["outcome"], r["exit_code"], r["signal"], r["shell_exited"]) == ("task_error", 137, "SIGKILL", True)
    assert box.run("echo ok")["stdout"] == "ok\n"


def test_a_program_killed_by_a_signal_names_it(box):
    r = box.run("sh -c 'kill -SEGV $$'")
    assert (r["exit_code"], r["signal"]) == (139, "SIGSEGV")


def test_syntax_errors_and_open_quotes_do_not_hang(box):
    for command in ("if", "echo 'a", "cat <<X\nq", ")", "echo $("):
        assert box.run(command, wait_s=5)["status"] == "completed"
    assert box.run("echo fine")["stdout"] == "fine\n"


def test_strict_modes_and_traps_do_not_break_the_shell(box):
    assert box.run("set -u; echo $nope; echo no")["outcome"] == "task_error"
    box.run("set +u; set -x")
    assert box.run("echo a")["stdout"] == "a\n"
    box.run("set +x; trap 'echo D' DEBUG; alias printf=false; printf() { false; }; PROMPT_COMMAND='exit 9'")
    assert box.run("trap - DEBUG; echo b")["stdout"].endswith("b\n")


def test_environment_and_directory_of_one_command(box):
    r = box.run("echo \"$A\"; sh -c 'echo \"$A\"'; pwd", env={"A": "it's \"q\" $x\nz"}, cwd="/usr")
    assert r["stdout"] == "it's \"q\" $x\nz\n" * 2 + "/usr\n" and r["cwd"] == "/home/gem"
    assert box.run("echo [$A]; pwd")["stdout"] == "[]\n/home/gem\n"
    r = box.run("echo no", cwd="/nope")
    assert r["outcome"] == "task_error" and "/nope" in r["message"]
    assert box.run("echo no", env={"1x": "a"})["outcome"] == "invalid_request"


def test_the_directory_that_is_reported_is_where_the_shell_is(box):
    assert box.run("mkdir -p $'a\\nb c\\n'; cd $'a\\nb c\\n'")["cwd"] == "/home/gem/a\nb c\n"
    assert box.run("pwd", cwd="/usr")["stdout"] == "/usr\n"
    assert box.run("pwd")["stdout"] == "/home/gem/a\nb c\n\n"
    assert box.run("cd; mkdir -p d; cd d; mv ../d ../e")["cwd"] == "/home/gem/e", "though $PWD has the old name"
    assert (box.run("true", cwd="/usr")["cwd"], box.run("pwd")["stdout"]) == ("/home/gem/e", "/home/gem/e\n"), "and goes back there"
    assert box.run("cd; mkdir -p d; cd d; rmdir ../d")["cwd"] == "/home/gem/d"
    r = box.run("false", cwd="/usr")
    assert (r["exit_code"], r["cwd"]) == (1, box.run("pwd")["stdout"][:-1])
    assert box.run("cd; kill -STOP $$", cwd="/usr", timeout=0.2)["cwd"] == "/usr", "where the shell was before"
    deep = box.run("cd /tmp; for i in {1..50}; do d=$(printf %0150d 0); mkdir $d; cd $d; done; echo ${#PWD}")
    assert int(deep["stdout"]) > 7000 and box.run("cd /tmp")["cwd"] == "/tmp"
    assert box.run("set -u; unset PWD")["outcome"] == "ok" and box.run("cd /usr; set +u")["cwd"] == "/usr"


def test_stdin_is_fed_and_ends(box):
    assert box.run("cat; echo end", stdin="one\ntwo")["stdout"] == "one\ntwoend\n"
    assert box.run("wc -c", stdin="x" * 3000000)["stdout"].strip() == "3000000"
    assert box.run("cat | wc -c", stdin="")["stdout"].strip() == "0"


def test_read_waits_then_input_finishes_it(box):
    r = box.run("echo hello; printf 'name? '; read n; echo hi $n; m=$n")
    assert (r["outcome"], r["status"], r["prompt"]) == ("ok", "waiting_for_input", "name? ")
    assert r["stdout"] == "hello\nname? " and "exit_code" not in r
    busy = box.run("echo x")
    assert busy["outcome"] == "task_error" and busy["error"] == 6 and "bash:input" in busy["message"]
    r = box.call("bash:input", data="bob\n")
    assert (r["status"], r["stdout"], r["exit_code"]) == ("completed", "hi bob\n", 0)
    assert box.run("echo $m")["stdout"] == "bob\n"


def test_a_child_that_reads_is_noticed_and_end_of_input_ends_it(box):
    r = box.run("python3 -c \"print(input('a? ')); print(input('b? '))\"; cat | wc -c")
    assert (r["status"], r["prompt"]) == ("waiting_for_input", "a? ")
    r = box.call("bash:input", data="1\n")
    assert (r["status"], r["prompt"], r["stdout"]) == ("waiting_for_input", "b? ", "1\nb? ")
    r = box.call("bash:input", data="2\n")
    assert r["status"] == "waiting_for_input"
    r = box.call("bash:input", data="abc", eof=True)
    assert (r["status"], r["stdout"]) == ("completed", "3\n")
    assert box.run("cat", timeout=1)["status"] == "waiting_for_input"
    assert box.call("bash:input", eof=True)["status"] == "completed"


def test_a_sudo_program_that_reads_is_noticed(box):
    assert box.run("sudo cat")["status"] == "waiting_for_input"
    assert box.call("bash:input", data="x", eof=True)["stdout"] == "x"


def test_a_quiet_program_is_not_taken_for_waiting(box):
    r = box.run("sleep 0.8; echo done")
    assert (r["status"], r["stdout"]) == ("completed", "done\n")


def test_input_left_unread_does_not_reach_the_next_command(box):
    box.run("read a")
    box.call("bash:input", data="one\ntwo\nthree\n")
    r = box.run("read -t 0.2 b; echo [$b]")
    assert r["stdout"] == "[]\n"


def test_interrupt_and_kill_end_a_running_and_a_waiting_command(box):
    call = box.begin("bash:run", command="echo a; sleep 50; echo no")
    time.sleep(0.15)
    assert box.call("bash:interrupt")["outcome"] == "ok"
    r = box.wait(call)
    assert (r["outcome"], r["exit_code"], r["stdout"]) == ("killed", 130, "a\n")
    call = box.begin("bash:run", command="trap '' INT; sleep 50; sleep 50")
    time.sleep(0.15)
    box.call("bash:kill")
    r = box.wait(call)
    assert (r["outcome"], r["exit_code"]) == ("killed", 137)
    box.run("read x")
    assert box.call("bash:kill")["outcome"] == "killed"
    box.run("true")  # bash leaves a status above 128 as it was
    box.run("read x")
    assert box.call("bash:interrupt")["exit_code"] == 130
    assert box.run("echo ok")["stdout"] == "ok\n"
    assert box.call("bash:kill")["error"] == 4


def test_cancel_kills_the_command(box):
    call = box.begin("bash:run", command="sleep 982")
    time.sleep(0.1)
    box.send(initctl.CANCEL, call)
    assert box.wait(call)["outcome"] == "killed"
    assert alive(box, "sleep 982") == 0


def test_long_output_keeps_head_and_tail_and_says_what_was_dropped(box):
    r = box.run("head -c 1048576 /dev/zero | tr '\\0' x; printf END", head=1000, tail=500)
    assert r["stdout"].startswith("x" * 1000 + "\n[... 1047079 bytes omitted ...]\n")
    assert r["stdout"].endswith("xEND") and r["stdout_bytes"] == 1048579
    assert r["stdout_kept"] and not r["stderr_kept"] and r["dropped_bytes"] == 0
    assert r["fds"] == [b"x" * 1048576 + b"END", b""]


def test_output_past_the_kept_bytes_is_counted_as_dropped(box):
    r = box.run("head -c 1000000 /dev/zero | tr '\\0' e >&2", head=100, tail=100, kept=5000)
    assert r["dropped_bytes"] == 1000000 - 5000 - 100 and r["stderr_bytes"] == 1000000
    assert r["stderr_kept"] and not r["stdout_kept"]
    assert r["fds"][0] == b"" and len(r["fds"][1]) == 5000  # stdout, then stderr


def test_cuts_do_not_split_characters(box):
    r = box.run("for i in $(seq 100); do printf '\\u20ac'; done", head=100, tail=100)
    assert "�" not in r["stdout"] and "\udce2" not in r["stdout"]
    assert r["stdout"].count("€") == 66 and "102 bytes" in r["stdout"]


def test_output_of_a_hundred_megabytes_neither_hangs_nor_swells_init(box):
    r = box.run("head -c 100000000 /dev/zero")
    assert r["stdout_bytes"] == 100000000
    rss = [x for x in open(f"/proc/{box.init_pid()}/status") if x.startswith("VmRSS")]
    assert int(rss[0].split()[1]) < 4096, rss


def test_a_full_disk_is_called_disk_full(box):
    r = box.run("head -c 20000000 /dev/zero > /tmp/big")
    assert (r["outcome"], r["exit_code"]) == ("disk_full", 1)
    r = box.call("file:write", path="/tmp/more", content="x" * 100000)
    assert r["outcome"] == "disk_full"
    assert box.run("rm /tmp/big; echo ok > /tmp/ok")["outcome"] == "ok"


def test_nul_bytes_in_a_command_are_refused(box):
    assert box.run("echo a\0b")["outcome"] == "invalid_request"


def test_a_command_of_a_megabyte_runs(box):
    assert box.run("echo " + "x" * 1000000 + " | wc -c")["stdout"].strip() == "1000001"


def test_shells_are_limited(box):
    for i in range(32):
        assert box.run(":", session=f"s{i}")["outcome"] == "ok"
    r = box.run(":", session="one too many")
    assert r["error"] == 5 and "LIMIT_SHELLS_PER_BOX (32)" in r["message"]
    box.run("exit", session="s5")
    assert box.run("pwd", session="instead of s5")["stdout"] == "/home/gem\n"


def test_interrupts_at_any_moment_never_lose_the_end_of_a_command(box):
    for i in range(60):
        call = box.begin("bash:run", command="for i in 1 2 3 4 5; do :; done; /bin/true; echo x", session="i")
        time.sleep(i / 20000)
        box.call("bash:interrupt", session="i")
        assert box.wait(call, timeout=5)["status"] == "completed"
    assert box.run("echo alive", session="i")["stdout"] == "alive\n"


# Jobs

def test_background_programs_run_beside_the_shell(box):
    j = box.call("bash:start", command="echo one; read x; echo got $x; exit 4")
    r = box.call("bash:output", job_id=j["job_id"], wait_ms=2000)
    assert (r["stdout"], r["status"]) == ("one\n", "running") and "exit_code" not in r
    assert box.run(f"kill -0 {j['pid']}")["exit_code"] == 0
    box.call("bash:input", job_id=j["job_id"], data="z\n")
    out = ""
    for _ in range(3):
        r = box.call("bash:output", job_id=j["job_id"], wait_ms=1000)
        out += r["stdout"]
        if r["status"] == "completed":
            break
    assert (out, r["exit_code"]) == ("got z\n", 4)
    assert box.call("bash:output", job_id=j["job_id"], offset=0)["stdout"] == "one\ngot z\n"
    assert box.call("bash:list")["jobs"][0]["status"] == "completed"
    assert box.call("bash:output", job_id="j99")["outcome"] == "task_error"


def test_killing_a_background_program_kills_its_daemons(box):
    j = box.call("bash:start", command="setsid sh -c '(setsid sleep 983 &)'; sleep 50")
    time.sleep(0.2)
    assert alive(box, "sleep 983") == 1
    r = box.call("bash:kill", job_id=j["job_id"])
    assert (r["status"], r["signal"]) == ("completed", "SIGKILL")
    assert alive(box, "sleep 983") == 0


def test_output_of_a_background_program_is_bounded(box):
    j = box.call("bash:start", command="head -c 30000000 /dev/zero | tr '\\0' y; echo END")
    while box.call("bash:output", job_id=j["job_id"], wait_ms=1000, offset=0)["status"] == "running":
        pass
    r = box.call("bash:output", job_id=j["job_id"], offset=5 << 20)
    assert "bytes omitted" in r["stdout"] and r["stdout_bytes"] == 30000004
    assert box.call("bash:output", job_id=j["job_id"], offset=29999990)["stdout"] == "y" * 10 + "END\n"


# Files

def test_files_are_written_read_and_listed(box):
    r = box.call("file:write", path="a/b.txt", content="one\ntwo\nthree\n")
    assert (r["path"], r["bytes"], r["created"]) == ("/home/gem/a/b.txt", 14, True)
    box.call("file:write", path="a/b.txt", content="four", append=True, mode="640")
    r = box.call("file:read", path="a/b.txt")
    assert (r["content"], r["size"], r["lines"], r["encoding"]) == ("one\ntwo\nthree\nfour", 18, 4, "utf-8")
    r = box.call("file:read", path="a/b.txt", start_line=2, end_line=3)
    assert (r["content"], r["truncated"]) == ("two\nthree\n", True)
    box.call("file:write", path="bin", data=b"\xff\x00")
    assert (box.call("file:read", path="bin")["content"], box.call("file:read", path="bin")["encoding"]) == (
        "/wA=", "base64")
    box.run("ln -s b.txt a/link; mkfifo a/pipe; touch a/.hid")
    rows = {x["name"]: x for x in box.call("file:list", recursive=True)["entries"]}
    assert rows["b.txt"]["mode"] == "0640" and rows["link"]["target"] == "b.txt" and ".hid" not in rows
    assert rows["pipe"]["type"] == "fifo" and rows["a"]["type"] == "directory"


def test_file_errors_are_the_agents_and_name_the_path(box):
    r = box.call("file:read", path="nope")
    assert r["outcome"] == "task_error" and r["error"] == 4 and "/home/gem/nope" in r["message"]
    assert box.call("file:read", path="/root/x")["outcome"] == "task_error"
    assert box.call("file:write", path="/etc/x", content="a")["outcome"] == "task_error"
    box.run("truncate -s 40M /home/gem/big")
    assert "LIMIT_FILE_IO" in box.call("file:read", path="big")["message"]


def test_a_fifo_does_not_block_a_file_call(box):
    box.run("mkfifo p")
    assert "regular" in box.call("file:read", path="p", wait_s=3)["message"]
    assert "regular" in box.call("file:write", path="p", content="x", wait_s=3)["message"]
    assert "regular" in box.call("file:read", path="/dev/zero", wait_s=3)["message"]


def test_big_files_travel_whole(box):
    data = os.urandom(20 << 20)
    assert box.call("file:write", path="big", data=data)["bytes"] == len(data)
    import base64
    assert base64.b64decode(box.call("file:read", path="big")["content"]) == data


def test_many_file_calls_at_once_are_all_answered(box):
    calls = [box.begin("file:write", path=f"f{i}", content=str(i)) for i in range(60)]
    assert all(box.wait(c)["outcome"] == "ok" for c in calls)
    assert len(box.call("file:list")["entries"]) == 60


def hands(box):
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and ppid(p) == box.init_pid() and uid(p) == 1000
            and "bash" not in comm(p)]


@contextlib.contextmanager
def frozen(pid):
    """A process that stands still, and whom SIGCONT does not help. It is to be killed meanwhile."""
    group = pathlib.Path(next(x.split()[4] for x in open("/proc/self/mountinfo") if " - cgroup2 " in x), f"sgt-{pid}")
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        (group / "cgroup.freeze").write_text("1")
        yield
        sg.wait_for(lambda: "populated 0" in (group / "cgroup.events").read_text())
    finally:
        (group / "cgroup.kill").write_text("1")
        sg.wait_for(lambda: "populated 0" in (group / "cgroup.events").read_text())
        group.rmdir()


def test_a_killed_file_worker_is_an_infra_error_and_is_replaced(box):
    assert box.call("probe_session:count")["count"] == 1
    [hand] = hands(box)
    with frozen(hand):
        call = box.begin("probe_session:count")
        time.sleep(0.05)
        os.kill(hand, signal.SIGKILL)
        r = box.wait(call)
    assert r["outcome"] == "infra_error" and r["message"] == "file worker ended by signal 9"
    assert box.call("probe_session:count")["count"] == 2
    os.kill(hands(box)[0], signal.SIGKILL)
    time.sleep(0.05)
    assert box.call("probe_session:count")["count"] == 3


def test_a_file_worker_that_was_stopped_goes_on(box):
    path = "/tmp/stopped"
    assert box.call("file:write", path=path, content="one", encoding="utf-8")["outcome"] == "ok"
    box.run("kill -STOP -1")
    assert box.call("file:write", path=path, content="two", encoding="utf-8", wait_s=5)["outcome"] == "ok"


def test_a_file_call_past_its_time_is_ended_and_the_worker_replaced(box):
    box.call("probe_session:count")
    [hand] = hands(box)
    with frozen(hand):
        r = box.call("probe_session:count", timeout_ms=150)
    assert (r["outcome"], r["message"]) == ("timeout", "timed out after 150 ms")
    assert box.call("probe_session:count")["outcome"] == "ok"


def test_a_cancelled_file_call_is_ended(box):
    box.call("probe_session:count")
    with frozen(hands(box)[0]):
        call = box.begin("probe_session:count")
        box.send(initctl.CANCEL, call)
        assert box.wait(call)["outcome"] == "killed"


@pytest.mark.parametrize("tool, params", [("watch:await", {"path": "/tmp/never"}), ("watch:create", {"path": "/tmp"})])
@pytest.mark.parametrize("pause", [0, 0.3])
def test_a_cancelled_wait_for_a_file_closes_its_watcher(box, tool, params, pause):
    call = box.begin(tool, **params)
    time.sleep(pause)
    box.send(initctl.CANCEL, call)
    r = box.wait(call)
    if r["outcome"] == "ok":  # it was faster
        assert tool == "watch:create"
        box.call("watch:stop", watcher_id=r["watcher_id"])
    else:
        assert r["outcome"] == "killed"
    sg.wait_for(lambda: box.run("pgrep -c -x watcher || true")["stdout"] == "0\n")
    assert box.call("watch:watchers")["count"] == 0


def ppid(p):
    try:
        return int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def uid(p):
    return os.stat(f"/proc/{p}").st_uid if os.path.exists(f"/proc/{p}") else 0


def comm(p):
    return open(f"/proc/{p}/comm").read()


# sudo

def test_sudo_runs_as_root_and_passes_status_input_and_signals(box):
    assert "uid=0(root)" in box.run("sudo id")["stdout"]
    assert box.run("sudo sh -c 'exit 5'")["exit_code"] == 5
    assert box.run("echo hi | sudo -n cat", stdin="")["stdout"] == "hi\n"
    assert box.run("cd /usr; sudo pwd; sudo A=b sh -c 'echo $A $USER $SUDO_USER'")["stdout"] == "/usr\nb root gem\n"
    assert box.run("sudo -u gem id -u; sudo -v; sudo -k; sudo -s echo x")["stdout"] == "1000\nx\n"
    assert box.run("sudo nosuchprogram")["exit_code"] == 127


def test_a_sudo_tree_dies_with_its_command(box):
    r = box.run("sudo sh -c 'sleep 984 & sleep 984'", timeout=0.3)
    assert r["outcome"] == "timeout"
    assert alive(box, "sleep 984") == 0
    r = box.run("sudo sh -c \"trap '' INT TERM; sleep 985; sleep 985\"", timeout=0.3)
    assert r["outcome"] == "timeout"
    assert alive(box, "sleep 985") == 0


def test_sudo_works_only_if_the_box_has_it():
    b = initctl.Box(BINARY, sudo=False)
    try:
        assert b.run("sudo id")["exit_code"] == 1
    finally:
        b.close()


# The conversation

def test_reconnect_after_a_dropped_connection_delivers_the_result_again_until_ack(box):
    call = box.begin("bash:run", command="echo once; echo x >> /tmp/count; sleep 0.3")
    box.sock.close()
    time.sleep(0.1)
    box.connect()
    assert box.known == {call: False}
    assert box.wait(call, ack=False)["stdout"] == "once\n"
    box.sock.close()
    box.connect()
    assert box.known == {call: True}
    assert box.wait(call, ack=False)["stdout"] == "once\n"
    box.send(initctl.ACK, call)
    box.sock.close()
    time.sleep(0.05)
    box.connect()
    assert box.known == {}
    assert box.run("wc -l < /tmp/count")["stdout"] == "1\n"


def test_kept_output_is_handed_over_again_after_a_reconnect(box):
    call = box.begin("bash:run", command="head -c 500000 /dev/zero", head=10, tail=10)
    box.wait(call, ack=False)
    box.sock.close()
    box.connect()
    assert len(box.wait(call)["fds"][0]) == 500000


def test_the_same_call_id_runs_once(box):
    for _ in range(3):
        box.begin("bash:run", command="echo x >> /tmp/twice; sleep 0.2", call=77)
    assert box.wait(77, ack=False)["outcome"] == "ok"
    box.begin("bash:run", command="echo x >> /tmp/twice", call=77)
    assert box.wait(77)["outcome"] == "ok"
    assert box.run("wc -l < /tmp/twice")["stdout"] == "1\n"


def test_a_new_connection_replaces_the_older_one(box):
    old = box.sock
    box.connect()
    assert old.recv(1) == b""
    assert box.run("echo y")["stdout"] == "y\n"


def test_too_many_calls_get_busy(box):
    calls = [box.begin("bash:output", job_id=box_job(box), wait_ms=5000)]
    job = box.results.get("job")
    calls += [box.begin("bash:output", job_id=job, wait_ms=1500) for _ in range(63)]
    extra = box.begin("bash:list")
    r = box.wait(extra)
    assert r["outcome"] == "infra_error" and r["error"] == 6 and "LIMIT_CALLS_PER_BOX" in r["message"]
    for c in calls:
        box.wait(c)


def box_job(box):
    job = box.call("bash:start", command="sleep 50")["job_id"]
    box.results["job"] = job
    return job


def test_garbage_closes_the_connection_but_not_the_box(box):
    box.sock.sendall(b"\xff" * 64)
    with pytest.raises((initctl.Gone, ConnectionError)):
        box.frame()
    box.connect()
    box.send(initctl.CALL, 5, b"\x05abc")
    with pytest.raises((initctl.Gone, ConnectionError)):
        box.frame()
    box.connect()
    assert box.run("echo z")["stdout"] == "z\n"


def test_every_tool_that_needs_a_box_has_code_in_init(box):
    source = "".join(p.read_text() for p in (pathlib.Path(__file__).parents[2] / "src" / "tool").glob("*.c"))
    names = re.findall(r'\.name = "(\w+:\w+)"(?:(?!\.name).)*?TOOL_NEEDS_BOX', source, re.S)
    assert "bash:run" in names and len(names) > 8
    for name in names:  # a refusal comes at once; what takes long has begun, so it has code
        try:
            assert "has no tool" not in box.call(name, wait_s=2, command=":", path="p", job_id="none").get("message", "")
        except TimeoutError:
            pass


def test_an_unknown_tool_is_not_the_agents_fault(box):
    assert box.call("no:such")["outcome"] == "infra_error"


def test_orphans_are_reaped(box):
    box.run("for i in $(seq 20); do (sleep 0.01 &) ; done; exit 0")
    time.sleep(0.2)
    assert box.run("ps -eo stat | grep -c Z || true")["stdout"] == "0\n"


def test_a_box_that_nobody_wants_ends():
    b = initctl.Box(BINARY, orphan_ms=200)
    b.run("sleep 100 & disown")
    b.sock.close()
    assert b.proc.wait(timeout=5) is not None
    b.close()


def test_sigterm_from_outside_ends_the_box(box):
    os.kill(box.init_pid(), signal.SIGTERM)
    assert box.proc.wait(timeout=5) is not None


def test_the_user_cannot_touch_init(box):
    r = box.run("kill -9 1; cat /proc/1/environ; ls /proc/1/fd; rm -rf /run/sandglass; echo x > /run/sandglass/0/cmd")
    assert r["stdout"] == "" and "Operation not permitted" in r["stderr"]
    assert box.run("echo still")["stdout"] == "still\n"


def test_a_warm_shell_was_there_before_it_was_asked():
    b = initctl.Box(BINARY, warm=True)
    try:
        def shells():  # of the box, as the host sees them: init's own children
            return [p for p in children(b.proc.pid) for p in [p, *children(p)] if open(f"/proc/{p}/comm").read() == "bash\n"]

        sg.wait_for(shells)
        uptime = float(open("/proc/uptime").read().split()[0])
        began = int(b.run("cut -d' ' -f22 /proc/$$/stat")["stdout"]) / os.sysconf("SC_CLK_TCK")
        assert began <= uptime
    finally:
        b.close()


def children(pid):
    return [int(p) for p in open(f"/proc/{pid}/task/{pid}/children").read().split()]
