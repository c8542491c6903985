"""Named secrets: a box has the value, the log has the name."""

import contextlib
import glob
import http.client
import json
import os
import pathlib
import time

import pytest

import sg
import ws

VALUE = "s3cr3t-Value-0123456789"
ODD = "quo\"te $dollar `tick` back\\slash\nline"


def stored(server):
    """Every byte that the server wrote: log, index, blobs, the files beside them."""
    data = b""
    for path in glob.glob(server.home + "/**/*", recursive=True):
        if os.path.isfile(path) and "/images/" not in path and "/layers/" not in path and "/objects/" not in path:
            data += pathlib.Path(path).read_bytes()
    return data + pathlib.Path(server.log_path).read_bytes()


def put(server, name, value, status=200, **scope):
    return server.request("PUT", f"/sg/v1/secrets/{name}", {"value": value, **scope})


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1")
    try:
        s.start()
        assert put(s, "API_KEY", VALUE).status == 200 and put(s, "odd", ODD).status == 200
        yield s
    finally:
        s.end()


def test_values_are_encrypted_and_never_shown(server):
    listed = server.get("/sg/v1/secrets")["secrets"]
    assert {x["name"] for x in listed} == {"API_KEY", "odd"} and "value" not in json.dumps(listed)
    raw = pathlib.Path(server.home, "secrets").read_text()
    assert VALUE not in raw and "API_KEY" in raw
    for name in ("secrets", "secret.key"):
        assert os.stat(f"{server.home}/{name}").st_mode & 0o77 == 0
    assert server.request("GET", "/sg/v1/secrets/API_KEY").status == 405


def test_a_tool_gets_the_value_and_the_log_the_name(server):
    with server.box() as box:
        r = box.run("test \"${secret:API_KEY}\" = '" + VALUE[:4] + "'\"" + VALUE[4:] + "\" && echo same; echo '${secret:API_KEY}' | wc -c")
        assert r["data"]["stdout"].split() == ["same", str(len(VALUE) + 1)]
        step = server.steps(r["trajectory_id"])[-1]
        assert "${secret:API_KEY}" in step["params"]["command"]
        box.tool("file:write", {"path": "/tmp/odd", "content": "${secret:odd}"})
        r = box.python("import sys; d=open('/tmp/odd').read(); print(len(d), d == " + repr(ODD[:9]) + "+" + repr(ODD[9:]) + ")")
        assert r["data"]["stdout"] == f"{len(ODD)} True\n"


def test_a_value_that_comes_back_is_replaced_by_its_name_in_answer_and_log(server):
    with server.box() as box:
        r = box.run("echo before ${secret:API_KEY} after; echo err-${secret:API_KEY} >&2")
        assert r["data"]["stdout"] == "before ${secret:API_KEY} after\n" and "err-${secret:API_KEY}" in r["data"]["stderr"]
        r = box.run("printf %s 's3cr3t-Value-' 0123456789")
        assert r["data"]["stdout"] == "${secret:API_KEY}", "however it was put together"
        r = box.tool("file:write", {"path": "/tmp/plain", "content": VALUE})
        assert server.steps(r["trajectory_id"])[-1]["params"]["content"] == "${secret:API_KEY}", "a client that sends it as it is"
        r = box.tool("file:read", {"path": "/tmp/odd"} if box.code("test -f /tmp/odd") == 0 else {"path": "/tmp/plain"})
        assert r["data"]["content"] == "${secret:API_KEY}"
        assert box.out("wc -c < /tmp/plain").strip() == str(len(VALUE)), "the box has the value"


def test_it_is_not_in_stored_outputs_either_not_even_on_the_border_of_a_piece(server):
    with server.box() as box:
        program = ("import sys; v='s3cr3t-Value-'+'0123456789'; n=1024*1024; w=sys.stdout.write\n"
                   "w('x'*(n-10)); w(v); w('y'*(n-len(v)+5)); w(v); w('z'*5000); w(v)")
        r = box.python(program)
        assert r["data"]["stdout"].endswith("${secret:API_KEY}") or "s3cr3t" not in r["data"]["stdout"]
        blob = r["blobs"]["stdout"]
        assert blob["bytes"] == 2 * 1024 * 1024 - 10 + 5 + 5000 + 2 * len(VALUE)
        assert box.out("echo ok") == "ok\n"
    assert VALUE.encode() not in stored(server)


def test_a_box_has_it_in_the_environment_of_every_program(server):
    with server.box(secrets={"KEY": "API_KEY", "ODD": "odd"}) as box:
        assert box.show()["secrets"] == {"KEY": "API_KEY", "ODD": "odd"}
        assert box.out("echo ${#KEY} ${#ODD}; bash -c 'echo ${#KEY}'").split() == [str(len(VALUE)), str(len(ODD)), str(len(VALUE))]
        r = box.tool("code:execute", {"code": "import os; print(len(os.environ['KEY']), os.environ['KEY'])", "language": "python"})
        assert f"{len(VALUE)} ${{secret:API_KEY}}" in json.dumps(r["data"])
        state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)
        fork = server.post(f"/sg/v1/boxes/{box.id}/fork", {"n": 1}, 201)["boxes"][0]["id"]
        assert server.tool(fork, "bash:run", {"command": "echo ${#KEY}"})["data"]["stdout"].strip() == str(len(VALUE))
        server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state["state"]})
        assert box.out("echo ${#KEY}").strip() == str(len(VALUE))
        server.destroy(fork)
    assert VALUE.encode() not in stored(server) and ODD.encode() not in stored(server)


def test_a_saved_shell_keeps_the_name_of_a_value_that_was_exported_by_hand(server):
    with server.box() as box:
        box.run("export MINE='${secret:API_KEY}'")
        state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)
        box.run("unset MINE")
        server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state["state"]})
        assert box.out("echo ${#MINE}").strip() == str(len(VALUE))
    assert VALUE.encode() not in stored(server)


def test_a_saved_shell_keeps_the_name_of_a_value_with_lines_and_quotes(server):
    with server.box() as box:
        box.run("export MINE=\"before $(cat <<'EOF'\n${secret:odd}\nEOF\n) after\"")
        state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)
        box.run("unset MINE")
        server.post(f"/sg/v1/boxes/{box.id}/restore", {"state": state["state"]})
        r = box.run("printf %s \"$MINE\" > /tmp/mine; printf %s 'before ' \"$(cat <<'EOF'\n${secret:odd}\nEOF\n)\" ' after' | cmp - /tmp/mine && echo same")
        assert r["data"]["stdout"] == "same\n"
    assert b"$dollar `tick`" not in stored(server)


def typed(term, text):
    term.send(json.dumps({"type": "input", "data": text}))


def shown(term, until):
    """What a terminal shows until this is true of it, and the offset behind that. Offsets never go back."""
    text, offset, end = "", 0, time.monotonic() + 30
    while not until(text):
        assert time.monotonic() < end, text
        m = json.loads(term.recv()[1])
        if m["type"] == "output":
            text += m["data"]
            assert m["offset"] >= offset
            offset = m["offset"]
    return text, offset


@pytest.mark.parametrize("pause", [0.2, 2.5])
def test_a_live_terminal_shows_asterisks_even_where_the_value_comes_in_two_pieces(server, pause):
    with server.box() as box:
        with contextlib.closing(ws.Client(server.port, f"/box/{box.id}/v1/shell/ws", timeout=60)) as term:
            typed(term, "v=s3cr3t-Value-; echo one $v''0123456789 two; printf 's3cr3t-V'; "
                        f"sleep {pause}; printf 'alue-0123456789'; echo; echo e''nd\n")
            text, _ = shown(term, lambda text: "end" in text.split("e''nd")[-1])
        assert "one " + "*" * len(VALUE) + " two" in text, text
        assert VALUE not in text and "alue-0123456789" not in text.split("e''nd")[-1], text
        assert "s3c" + "*" * (len(VALUE) - 3) + "\r\n" in text, "its first three bytes do not wait: somebody may be typing"


def test_output_that_only_begins_like_a_value_comes_when_that_is_decided(server):
    with server.box() as box:
        box.tool("shell:open", {"id": "t"})
        with contextlib.closing(ws.Client(server.port, f"/box/{box.id}/v1/shell/ws?session_id=t", timeout=60)) as term:
            typed(term, "printf '+%s' s3''cr3t-Val; read x; printf '+%s' s3''cr3t-V; read y\n")
            shown(term, lambda text: text.endswith("+s3c"))
            typed(term, "\n")  # its echo is the next byte: no value goes on like that
            shown(term, lambda text: "r3t-Val\r\n" in text and text.endswith("+s3c"))
            box.tool("shell:close", {"id": "t"})  # the end decides it, too
            assert shown(term, lambda text: len(text) >= 5)[0] == "r3t-V"


@pytest.mark.parametrize("resume", ["after", "now"])
def test_whoever_comes_to_a_terminal_while_a_value_is_being_written_does_not_see_its_rest(server, resume):
    with server.box() as box:
        path = f"/box/{box.id}/v1/shell/ws?session_id=t"
        server.tool(box.id, "shell:open", {"id": "t"})
        with contextlib.closing(ws.Client(server.port, path, timeout=60)) as term:
            typed(term, "v=s3''cr3t-V; printf \"+$v\"; read x; echo alue-''0123456789; echo e''nd\n")
            _, offset = shown(term, lambda text: text.endswith("+s3c"))
        with contextlib.closing(ws.Client(server.port, path + (f"&after={offset}" if resume == "after" else ""), timeout=60)) as term:
            typed(term, "\x04")  # the end of its input, which leaves no echo
            text, _ = shown(term, lambda text: "end\r\n" in text)
        want = len(VALUE) - (3 if resume == "after" else len("s3cr3t-V"))
        assert text.startswith("*" * want + "\r\n") and "alue" not in text, text


# --- pieces of an output that is read while it grows ---

HALVES = "printf 's3cr3t-V'; sleep 0.4; printf 'alue-0123456789'; echo; printf 'err:s3cr3t-Value-' >&2; sleep 0.4; echo 0123456789 >&2"
SLOW = HALVES.replace("0.4", "2.2")


def read_all(box, job, wait_ms):
    """What a client puts together that asks for output again and again, and how often it asked."""
    out, err, asked = "", "", 0
    while True:
        d = box.tool("bash:output", {"job_id": job, "wait_ms": wait_ms})["data"]
        out, err, asked = out + d["stdout"], err + d["stderr"], asked + 1
        if d["status"] == "completed" and d["offset"] == d["stdout_bytes"] and d["stderr_offset"] == d["stderr_bytes"]:
            return out, err, asked
        if not wait_ms:
            time.sleep(0.02)


@pytest.mark.parametrize("wait_ms", [0, 5000])
@pytest.mark.parametrize("command", [HALVES, SLOW])
def test_a_value_that_comes_in_two_pieces_is_in_neither_of_two_reads(server, wait_ms, command):
    with server.box() as box:
        job = box.tool("bash:start", {"command": command})["data"]["job_id"]
        out, err, asked = read_all(box, job, wait_ms)
        assert (out, err) == ("${secret:API_KEY}\n", "err:${secret:API_KEY}\n")
        assert not wait_ms or asked < 20, "who waits is not answered for nothing"
    assert VALUE[:-1].encode() not in stored(server)


def test_nothing_of_it_is_lost_or_shown_when_serve_is_killed_between_two_reads(server):
    with server.box() as box:
        job = box.tool("bash:start", {"command": "for i in 1 2 3; do printf 's3cr3t-V'; sleep 0.5; echo alue-0123456789; done"})["data"]["job_id"]
        out, killed = "", 0
        while True:
            d = box.tool("bash:output", {"job_id": job, "wait_ms": 100})["data"]
            out += d["stdout"]
            if d["status"] == "completed" and d["offset"] == d["stdout_bytes"]:
                break
            if killed < 2 and d["offset"] < d["stdout_bytes"]:  # something is held back
                server.kill_role("serve")
                server.wait_ready()
                killed += 1
        assert out == "${secret:API_KEY}\n" * 3 and killed == 2


def test_a_value_on_the_border_of_what_one_read_returns_is_in_neither(server):
    with server.box() as box:
        d = box.tool("bash:output", {"job_id": box.tool("bash:start", {"command": "head -c 3000000 /dev/zero | tr '\\0' x"})["data"]["job_id"],
                                     "wait_ms": 5000})["data"]
        for _ in range(100):  # how much is one read?
            if d["status"] == "completed" and d["stdout_bytes"] == 3000000:
                break
            d = box.tool("bash:output", {"job_id": d["job_id"], "offset": 0, "wait_ms": 100})["data"]
        room = len(d["stdout"])
        assert 1000 < room < 3000000
        program = f"printf %{room - 9}s; printf %s s3cr3t-Value- 0123456789; echo; echo end"
        job = box.tool("bash:start", {"command": program})["data"]["job_id"]
        while box.tool("bash:list", {})["data"]["jobs"][0]["status"] == "running":
            time.sleep(0.02)
        out, _, asked = read_all(box, job, 0)
        assert asked > 1 and out.strip() == "${secret:API_KEY}\nend" and len(out) == room - 9 + len("${secret:API_KEY}\nend\n")


def test_what_may_be_the_last_letters_of_a_prompt_comes_after_a_second_of_silence(server):
    with server.box() as box:
        job = box.tool("bash:start", {"command": "printf 'names'; sleep 1000"})["data"]["job_id"]
        text, asked, begin = "", 0, time.monotonic()
        while text != "names":
            text += box.tool("bash:output", {"job_id": job, "wait_ms": 20000})["data"]["stdout"]
            asked += 1
        assert asked <= 4 and time.monotonic() - begin < 5
        box.tool("bash:kill", {"job_id": job})


@pytest.mark.parametrize("then,want", [("echo", "now s3cr3t-Val\n"), ("exit", "now s3cr3t-Val")])
def test_output_that_only_begins_like_a_value_is_read_when_that_is_decided(server, then, want):
    with server.box() as box:
        job = box.tool("bash:start", {"command": f"printf 'now s3cr3t-Val'; while ! test -e /tmp/go; do sleep 0.1; done; {then}"})["data"]["job_id"]
        text, begin = "", time.monotonic()
        for _ in range(4):
            text += box.tool("bash:output", {"job_id": job, "wait_ms": 700})["data"]["stdout"]
        assert text == "now " and time.monotonic() - begin > 1.4, "who waits is not answered for nothing"
        box.run("touch /tmp/go")
        while text != want:
            text += box.tool("bash:output", {"job_id": job, "wait_ms": 20000})["data"]["stdout"]
        assert not box.tool("bash:output", {"job_id": job})["data"]["stdout"]


def test_a_value_around_a_question_is_in_neither_of_the_two_answers(server):
    with server.box() as box:
        r = box.run("printf 'so s3cr3t-V'; read x; echo \"alue-0123456789 $x\"; printf 's3cr3t-Val' >&2; read y; echo ue")
        assert (r["data"]["status"], r["data"]["stdout"], r["data"]["prompt"], r["data"]["stdout_bytes"]) == ("waiting_for_input", "so ", "so ", 3)
        r = box.tool("bash:input", {"data": "hello\n"})
        assert r["data"]["stdout"] == "${secret:API_KEY} hello\n" and (r["data"]["stderr"], r["data"]["prompt"]) == ("", "")
        r = box.tool("bash:input", {"data": "\n"})
        assert (r["data"]["status"], r["data"]["stdout"], r["data"]["stderr"]) == ("completed", "ue\n", "s3cr3t-Val"), "nothing is lost"
        r = box.run("printf 'Your names'; read x; echo $x")
        assert r["data"]["prompt"] == "Your names", "a prompt is whole, even if it ends as a value begins"
        assert box.tool("bash:input", {"data": "a\n"})["data"]["stdout"] == "a\n"
        trajectory = r["trajectory_id"]
    logged = json.dumps(server.steps(trajectory))
    assert "s3cr3t-V" not in logged.replace("printf 'so s3cr3t-V'", "").replace("printf 's3cr3t-Val'", "").replace('"s3cr3t-Val"', "")
    assert VALUE.encode() not in stored(server)


@pytest.mark.parametrize("command", [HALVES, SLOW])
def test_the_other_surface_reads_by_offset_and_sees_no_half_either(server, command):
    with server.box() as box:
        ask = lambda path, body: json.loads(server.request("POST", f"/box/{box.id}/v1/bash/{path}", body).body)["data"]
        d = ask("exec", {"command": command, "timeout": 0.2})
        assert d["status"] == "running"
        out, err, session = d["stdout"], d["stderr"], d["session_id"]
        while True:
            d = ask("output", {"session_id": session, "offset": d["offset"], "stderr_offset": d["stderr_offset"], "wait": True, "wait_timeout": 5})
            out, err = out + d["stdout"], err + d["stderr"]
            if d["command"]["status"] == "completed":
                break
        assert (out, err) == ("${secret:API_KEY}\n", "err:${secret:API_KEY}\n")


@pytest.mark.parametrize("pause", [0.6, 2.5])
def test_a_terminal_that_is_read_while_it_is_written_shows_no_half_either(server, pause):
    with server.box() as box:
        d = box.tool("shell:exec", {"id": "t", "create": True, "command": f"printf 'so: s3cr3t-V'; sleep {pause}; printf 'alue-0123456789 '; sleep 5", "async_mode": True})["data"]
        seen = []
        while "${secret:API_KEY} " not in d["output"]:
            d = box.tool("shell:view", {"id": "t"})["data"]
            seen.append(json.dumps([d["output"].split("sleep 5")[-1], [row["output"] for row in d["console"] or []]]))
            time.sleep(0.05)
        assert any("so: " in x for x in seen) and not any("s3cr" in x or "alue" in x for x in seen), seen


def test_where_the_middle_of_an_output_is_left_out_no_half_of_a_value_stays(server):
    with server.box() as box:
        whole = box.run("printf %2000000s | tr ' ' x")["data"]["stdout"]
        head, tail = whole.split("[... ")[0].rstrip("\n"), whole.split(" bytes omitted ...]\n")[1]
        for before, after in ((9, 3), (3, 9), (12, 12)):
            program = (f"import sys; v='s3cr3t-Value-'+'0123456789'; w=sys.stdout.write\n"
                       f"w('x'*({len(head)}-{before})); w(v); w('y'*500000); w(v); w('z'*({len(tail)}-{after}))")
            text = box.python(program)["data"]["stdout"]
            a, b = text.split("[... ")[0], text.split(" bytes omitted ...]\n")[1]
            assert a.endswith("x${secret:API_KEY}\n" if before > 3 else "x" + VALUE[:3] + "\n"), a[-60:]
            assert b.startswith("${secret:API_KEY}z" if after > 3 else VALUE[-3:] + "z"), b[:60]


def test_a_value_of_several_lines_is_covered_in_a_terminal_too(server):
    lines = "-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG\n9w0BAQEFAASCAUAw\n-----END KEY-----"
    put(server, "pem", lines)
    with server.box(secrets={"PEM": "pem"}) as box:
        with contextlib.closing(ws.Client(server.port, f"/box/{box.id}/v1/shell/ws", timeout=60)) as term:
            term.send(json.dumps({"type": "input", "data": "echo \"$PEM\"; echo e''nd\n"}))
            text = ""
            while "end" not in text.split("e''nd")[-1]:
                m = json.loads(term.recv()[1])
                text += m["data"] if m["type"] == "output" else ""
        assert "MIIBV" not in text and "ASCAUAw" not in text and "*" * len(lines) in text, text
        r = box.tool("code:execute", {"code": "import os; print(os.environ['PEM'].replace('\\n', '\\r\\n'))"}, timeout=60)
        assert r["data"]["stdout"] == "${secret:pem}\n"
        r = box.tool("code:execute", {"code": "import os, json; print(repr(os.environ['PEM']), json.dumps(os.environ['PEM']))"}, timeout=60)
        assert r["data"]["stdout"] == "'${secret:pem}' \"${secret:pem}\"\n"
    assert server.delete("/sg/v1/secrets/pem")["name"] == "pem"


def test_a_value_that_begins_with_another_is_not_half_shown(server):
    put(server, "short", "abcdefgh-1"), put(server, "long", "abcdefgh-1234567890")
    with server.box() as box:
        assert box.out("printf '%s ' abcdefgh-1''234567890 abcdefgh''-1 xyz").split() == ["${secret:long}", "${secret:short}", "xyz"]
    server.delete("/sg/v1/secrets/short"), server.delete("/sg/v1/secrets/long")


def test_events_of_a_command_show_asterisks(server):
    with server.box() as box:
        r = server.request("POST", f"/box/{box.id}/v1/bash/exec", {"command": "v=s3cr3t-Value-; echo a ${v}0123456789 b; echo ${v}0123456789 >&2"},
                           headers={"Accept": "text/event-stream"})
        text = r.body.decode()
        assert "event: exit" in text and VALUE not in text and text.count("*" * len(VALUE)) == 2, text


def test_events_of_a_command_hide_a_value_with_a_long_pause_in_it_and_from_whoever_comes_back(server):
    command = "for f in '' -2; do printf s3cr3t-V; while ! test -e /tmp/go$f; do sleep 0.1; done; echo alue-0123456789; done"
    with server.box() as box:
        at = f"/box/{box.id}/v1/bash"
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        c.request("POST", at + "/exec", json.dumps({"command": command}), {"Accept": "text/event-stream", "Content-Type": "application/json"})
        live, text, last = c.getresponse(), "", None

        def read(until):
            nonlocal text, last
            while until not in text:
                line = live.readline().decode()
                assert line, text
                last = line[4:].strip() if line.startswith("id: ") else last
                session.update(json.loads(line[6:]) if '"session_id"' in line else {})
                text += json.loads(line[6:]).get("data", "") if line.startswith("data: ") else ""

        session = {}
        read("s3c")
        time.sleep(2)
        box.run("touch /tmp/go")
        read("s3c" + "*" * (len(VALUE) - 3) + "\ns3c")
        assert text.count("s3c") == 2
        c.close()  # in the middle of the second one
        box.run("touch /tmp/go-2")
        r = server.request("POST", at + "/output", {"session_id": session["session_id"]}, headers={"Accept": "text/event-stream", "Last-Event-ID": last})
        rest = "".join(json.loads(x[6:]).get("data", "") for x in r.body.decode().splitlines() if x.startswith("data: "))
        assert rest == "*" * (len(VALUE) - 3) + "\n", r


def test_downloads_have_asterisks_and_their_length(server):
    with server.box() as box:
        program = ("v=b's3cr3t-Value-'+b'0123456789'; n=128*1024\n"
                   "open('/tmp/big','wb').write(b'\\0'*(n-7)+v+b'y'*n+v+v[:9]); open('/tmp/none','wb').write(v[:-1]*3)")
        assert box.python(program)["outcome"] == "ok"
        for path in (f"/sg/v1/boxes/{box.id}/files?path=/tmp/big", f"/box/{box.id}/v1/file/download?path=/tmp/big"):
            r = server.request("GET", path)
            n, k = 128 * 1024, len(VALUE)
            assert r.status == 200 and int(r.headers["Content-Length"]) == len(r.body)
            assert r.body == b"\0" * (n - 7) + b"*" * k + b"y" * n + b"*" * k + VALUE[:9].encode()
        assert server.request("GET", f"/sg/v1/boxes/{box.id}/files?path=/tmp/none").body == VALUE[:-1].encode() * 3, "not one byte too many"
        tar = server.request("GET", f"/sg/v1/boxes/{box.id}/tree?path=/tmp").body
        assert VALUE.encode() not in tar and b"*" * len(VALUE) in tar
        assert box.code("grep -q 's3cr3t-Value-''0123456789' /tmp/big") == 0, "the box has the value"


def test_a_carried_variable_has_stars_in_place_of_the_value(server):
    with server.box(secrets={"KEY": "API_KEY"}) as box:
        box.tool("code:execute", {"code": "import os; key = 'key=' + os.environ['KEY']; n = 7", "session": "a"}, timeout=60)
        fork = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, 201)["boxes"][0]["id"]
        look = f"(n, key == 'key=' + '*' * {len(VALUE)}, len(os.environ['KEY']))"
        r = server.tool(fork, "code:execute", {"code": look, "session": "a"}, timeout=60)
        assert r["data"]["result"] == f"(7, True, {len(VALUE)})"
        server.destroy(fork)
    assert VALUE.encode() not in stored(server)


def test_scopes_are_kept(server):
    with server.box() as box:
        put(server, "only-read", "another-secret-1", tools="file:read,file:write")
        put(server, "only-box", "another-secret-2", box=box.id)
        r = box.tool("bash:run", {"command": "echo ${secret:only-read}"}, status=403)
        assert "only-read" in r["error"]["message"]
        box.tool("file:write", {"path": "/tmp/x", "content": "${secret:only-read}"})
        assert box.out("echo ${secret:only-box} | wc -c").strip() == "17"
        with server.box() as other:
            other.tool("bash:run", {"command": "echo ${secret:only-box}"}, status=403)
        r = box.tool("bash:run", {"command": "echo ${secret:nothing}"}, status=404)
        assert server.request("POST", "/sg/v1/boxes", {"secrets": {"A": "nothing"}}).status == 404
        assert server.request("POST", "/sg/v1/boxes", {"secrets": {"1A": "API_KEY"}}).status == 400
        assert server.request("POST", "/sg/v1/boxes", {"secrets": {"A": "only-read"}}).status == 403
        assert box.out("x=5; echo '${secret:}' ${x:0}").split() == ["${secret:}", "5"], "what is no reference stays"


def test_bad_secrets_are_refused(server):
    for name, value, status in (("short", "1234567", 400), ("x y", VALUE, 400), ("nul", "a\0" + VALUE, 400), ("big", "x" * 9000, 400)):
        assert put(server, name.replace(" ", "%20"), value).status == status


def test_another_tenant_has_other_secrets(server):
    key = server.post("/sg/v1/keys", {"role": "admin", "tenant": "other"}, 201)["key"]
    server.headers = {"Authorization": f"Bearer {key}"}
    try:
        assert server.get("/sg/v1/secrets")["secrets"] == []
        assert server.request("DELETE", "/sg/v1/secrets/API_KEY").status == 404
        with server.box() as box:
            box.tool("bash:run", {"command": "echo ${secret:API_KEY}"}, status=404)
        put(server, "API_KEY", "the-others-own-value")
        with server.box() as box:
            assert box.out("echo ${secret:API_KEY} | wc -c").strip() == "21"
    finally:
        server.headers = {}


def test_secrets_survive_a_kill_and_a_removed_one_is_gone(server):
    put(server, "gone", "will-be-removed")
    assert server.delete("/sg/v1/secrets/gone")["name"] == "gone"
    server.kill_role("serve")
    server.wait_ready()
    with server.box() as box:
        assert box.out("echo ${secret:API_KEY} | wc -c").strip() == str(len(VALUE) + 1)
        box.tool("bash:run", {"command": "echo ${secret:gone}"}, status=404)
