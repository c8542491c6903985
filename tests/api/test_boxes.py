"""Boxes: what is in one, what is its own, how it comes and goes."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import pytest

import sg


@pytest.fixture(scope="module")
def roots():
    top = pathlib.Path(tempfile.mkdtemp(prefix="sg-roots-", dir="/tmp"))
    os.chmod(top, 0o755)
    (top / "mounts" / "data").mkdir(parents=True)
    (top / "mounts" / "data" / "hello.txt").write_text("hello from the host\n")
    (top / "mounts" / "shared").mkdir()
    os.chmod(top / "mounts" / "shared", 0o777)
    (top / "outside").mkdir()
    (top / "outside" / "secret").write_text("secret\n")
    (top / "mounts" / "link").symlink_to(top / "outside")
    (top / "images").mkdir()
    yield top
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def server(roots):
    with sg.running("--mount-roots", str(roots / "mounts"), "--image-roots", str(roots / "images"),
                    "--pool-size", "2") as s:
        yield s


@pytest.fixture(scope="module")
def box(server):
    """One box for the tests that only look."""
    with server.box() as b:
        yield b


# ---- contents ----

@pytest.mark.parametrize("module", ["numpy", "pandas", "matplotlib", "requests", "sklearn", "pip"])
def test_python_imports(box, module):
    assert box.out(f"/usr/bin/python3 -c 'import {module}; print({module}.__version__)'", timeout=60)[0].isdigit()


@pytest.mark.parametrize("command, begins", [
    ("python3 --version", "Python 3"), ("pip --version", "pip "), ("npm --version", ""), ("git --version", "git version"),
    ("rg --version", "ripgrep"), ("curl --version", "curl "), ("gcc --version", "gcc"), ("g++ --version", "g++"),
    ("make --version", "GNU Make"), ("tar --version", "tar"), ("perl --version", "\nThis is perl")])
def test_program_runs(box, command, begins):
    assert box.out(command, timeout=60).startswith(begins)


def test_node_is_20_or_newer(box):
    assert int(box.out("node -p 'process.versions.node'").split(".")[0]) >= 20


def test_gcc_and_make_build_a_program(server):
    with server.box() as b:
        b.tool("file:write", {"path": "hello.c", "content": '#include <stdio.h>\nint main(void) { puts("built"); }\n'})
        assert b.out("make -s hello && ./hello", timeout=60) == "built\n"


def test_numpy_works_on_several_threads(box):
    assert box.out("python3 -c 'import numpy as n; a = n.ones((300, 300)); print(int((a @ a)[0, 0]))'", timeout=60) == "300\n"


def test_matplotlib_draws(server):
    with server.box() as b:
        r = b.python("import matplotlib; matplotlib.use('Agg'); import matplotlib.pyplot as p; p.plot([1, 2]);"
                     "p.savefig('/tmp/x.png'); print(open('/tmp/x.png', 'rb').read(4))", timeout=120)
        assert r["outcome"] == "ok" and "PNG" in r["data"]["stdout"], r


def test_git_commits(server):
    with server.box() as b:
        assert "first" in b.out("git init -q r && cd r && git config user.email a@b && git config user.name n && "
                                "echo x > f && git add f && git commit -qm first && git log --oneline")


# ---- who and where ----

def test_user_is_gem(box):
    assert box.out("id -un; id -u; id -gn; echo $HOME; echo $USER") == "gem\n1000\ngem\n/home/gem\ngem\n"


def test_first_directory_is_home_and_belongs_to_gem(server):
    with server.box() as b:
        r = b.run("pwd; stat -c %U:%G . && touch mine && ls")
        assert r["data"]["stdout"] == "/home/gem\ngem:gem\nmine\n"
        assert r["data"]["cwd"] == "/home/gem"


def test_home_of_gem_is_not_open_to_mistakes_of_path_length(server):
    with server.box() as b:
        assert b.out("mkdir -p $(printf 'd/%.0s' {1..200}) && echo done") == "done\n"


def test_sudo_is_root_of_the_box(box):
    assert box.out("sudo id -u") == "0\n"
    assert box.out("sudo sh -c 'echo $HOME; id -un'").split()[-1] == "root"


def test_su_is_for_root_of_the_box(server):
    with server.box() as b:
        assert b.out("sudo su -c 'id -un; pwd'") == "root\n/home/gem\n"
        assert b.out("sudo su - -c 'pwd; echo $HOME'") == "/root\n/root\n"
        assert b.out("sudo useradd -m bob && sudo su - bob -c 'id -un; [ $PWD = ~bob ]' && sudo runuser -u bob -- id -un") == "bob\nbob\n"
        assert b.code("su -c true </dev/null") != 0


def test_sudo_can_install_into_the_box(server):
    with server.box() as b:
        assert b.out("echo 'echo tool' | sudo tee /usr/local/bin/mytool >/dev/null && sudo chmod +x /usr/local/bin/mytool "
                     "&& mytool") == "tool\n"
    assert not os.path.exists("/usr/local/bin/mytool")


def test_sudo_hands_on_exit_code_and_stdin(server):
    with server.box() as b:
        assert b.code("sudo sh -c 'exit 7'") == 7
        assert b.out("echo from-a-pipe | sudo cat") == "from-a-pipe\n"


def test_sudo_is_absent_if_the_profile_says_so(server):
    with server.box(sudo=False) as b:
        r = b.run("sudo id -u")
        assert r["data"]["exit_code"] != 0 and "0\n" != r["data"]["stdout"]


def test_no_new_privileges_and_no_capabilities(box):
    status = dict(line.split(":\t", 1) for line in box.out("cat /proc/self/status").splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert {int(status[c], 16) for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}


# ---- its own ----

@pytest.mark.parametrize("cold", [True, False])
def test_a_box_may_use_every_processor_that_the_server_may(server, cold):
    """While it is made, it is sent away from the processors where others work on it."""
    for _ in range(4):
        with server.box(cold=cold) as b:
            assert b.out("nproc").strip() == str(len(os.sched_getaffinity(0)))


def test_pid_namespace_holds_only_the_box(box):
    pids = [int(p) for p in box.out("ls /proc | grep -E '^[0-9]+$'").split()]
    assert 1 in pids and len(pids) < 15


def test_network_namespace_has_only_loopback(box):
    assert box.out("ls /proc/sys/net/ipv4/conf | grep -vE '^(all|default)$'") == "lo\n"
    assert box.out("python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); "
                   "socket.create_connection(s.getsockname()); print(\"up\")'") == "up\n"


def test_hostname_is_the_boxs_own(server, box):
    assert box.out("hostname").strip() not in ("", os.uname().nodename)
    with server.box() as other:
        assert other.out("hostname") != box.out("hostname") or box.out("hostname") == "box\n"


def test_every_namespace_differs_from_the_host(server, box):
    init = server.init_pid(box.id)
    for kind in ("pid", "mnt", "net", "ipc", "uts", "user", "cgroup"):
        assert os.readlink(f"/proc/{init}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}"), kind


def test_two_boxes_share_no_namespace_and_no_uid(server, box):
    with server.box() as other:
        a, b = server.init_pid(box.id), server.init_pid(other.id)
        for kind in ("pid", "mnt", "net", "ipc", "uts", "user", "cgroup"):
            assert os.readlink(f"/proc/{a}/ns/{kind}") != os.readlink(f"/proc/{b}/ns/{kind}"), kind
        maps = [[int(x) for x in sg.read(f"/proc/{p}/uid_map").split()] for p in (a, b)]
        ranges = [range(m[1], m[1] + m[2]) for m in maps]
        assert all(r.start >= 65536 for r in ranges)
        assert ranges[0].stop <= ranges[1].start or ranges[1].stop <= ranges[0].start


def test_init_cannot_be_replaced_or_written(box):
    assert box.code("echo x > /proc/1/exe") != 0
    assert box.code("sudo sh -c 'echo x > /proc/1/exe'") != 0


def test_environment_of_the_server_stays_outside(server, box):
    names = {line.split("=")[0] for line in box.out("env").splitlines() if "=" in line}
    assert not {n for n in names if n.startswith("SANDGLASS") or "TOKEN" in n or "KEY" in n}
    assert not names & (set(os.environ) - {"HOME", "PATH", "PWD", "USER", "LOGNAME", "SHELL", "SHLVL", "TERM", "LANG", "_",
                                           "LC_ALL", "OLDPWD", "TZ", "HOSTNAME", "LS_COLORS", "LINES", "COLUMNS"})


def test_nothing_inherited_but_stdin_stdout_stderr(box):
    assert box.out("ls /proc/self/fd").split() in (["0", "1", "2", "3"], ["0", "1", "2", "3", "255"])
    r = box.tool("bash:start", {"command": "sleep 0.1; ls /proc/self/fd"})["data"]
    out = sg.wait_for(lambda: box.tool("bash:output", {"job_id": r["job_id"], "wait_ms": 500, "offset": 0})["data"]["stdout"])
    assert out.split() == ["0", "1", "2", "3"]


# ---- the root file system ----

def test_writes_to_usr_stay_in_the_box(server):
    with server.box() as b, server.box() as other:
        b.out("sudo touch /usr/share/only-here /etc/only-here /opt/only-here")
        for p in ("/usr/share/only-here", "/etc/only-here", "/opt/only-here"):
            assert not os.path.exists(p)
            assert other.code(f"test -e {p}") != 0


def test_deleted_image_files_stay_on_the_host(server):
    with server.box() as b:
        b.out("sudo rm -f /usr/bin/rg && ! command -v rg")
    assert shutil.which("rg")
    with server.box() as fresh:
        assert fresh.code("rg --version") == 0


def test_hard_links_share_content_after_copy_up(server):
    with server.box() as b:
        r = b.python("""
import os
os.makedirs("d", exist_ok=True)
open("d/a", "w").write("one")
os.link("d/a", "d/b")
open("d/b", "a").write(" two")
a, b = os.stat("d/a"), os.stat("d/b")
assert open("d/a").read() == "one two"
assert (a.st_ino, a.st_nlink) == (b.st_ino, 2), (a, b)
print("same")
""")
        assert r["data"]["stdout"] == "same\n", r


def test_hard_links_of_the_image_stay_linked_after_copy_up(server):
    with server.box() as b:
        b.tool("file:write", {"path": "/tmp/l.py", "content": """
import os, sys
seen, pair = {}, None
for d, _, names in os.walk("/usr/bin"):
    for n in names:
        p = os.path.join(d, n)
        s = os.lstat(p)
        if s.st_nlink > 1 and not os.path.islink(p):
            if s.st_ino in seen:
                pair = (seen[s.st_ino], p)
            seen[s.st_ino] = p
if not pair:
    print("none"); sys.exit()
a, b = pair
with open(a, "ab") as f: f.write(b"\\n# changed\\n")
assert os.stat(a).st_ino == os.stat(b).st_ino, pair
assert open(b, "rb").read().endswith(b"# changed\\n"), pair
print("linked")
"""})
        out = b.out("sudo /usr/bin/python3 /tmp/l.py")
        if out == "none\n":
            pytest.skip("this host has no hard links in /usr/bin")
        assert out == "linked\n"


def test_directories_of_the_image_can_be_renamed(server):
    """Without redirect_dir this is EXDEV, and npm, dpkg and pip break in odd ways."""
    with server.box() as b:
        b.tool("file:write", {"path": "/tmp/r.py", "content": """
import os
os.rename("/usr/share/doc", "/usr/share/doc-renamed")
assert os.listdir("/usr/share/doc-renamed") and not os.path.exists("/usr/share/doc")
os.rename("/etc/alternatives", "/etc/alternatives-renamed")
print("renamed")
"""})
        assert b.out("sudo /usr/bin/python3 /tmp/r.py") == "renamed\n"
    assert os.path.exists("/usr/share/doc")


def test_tmp_is_private_and_sticky(server, box):
    mark = sg.unique("mark")
    with server.box() as other:
        box.out(f"touch /tmp/{mark}")
        assert not os.path.exists(f"/tmp/{mark}")
        assert other.code(f"test -e /tmp/{mark}") != 0
    assert box.out("stat -c %a /tmp /dev/shm") == "1777\n1777\n"


def test_shm_has_the_size_that_was_asked_for(server):
    with server.box(shm="8m") as b:
        assert b.out("df --output=size -B1 /dev/shm | tail -1").strip() == str(8 << 20)
        assert b.code("head -c 4M /dev/zero > /dev/shm/x") == 0
        assert b.code("head -c 9M /dev/zero > /dev/shm/y") != 0
        assert b.show()["limits"]["shm_bytes"] == 8 << 20


def test_etc_has_nothing_secret(box):
    names = set(box.out("ls -A /etc").split())
    assert not names & {"shadow", "gshadow", "sudoers", "ssh", "machine-id", "krb5.keytab", "sandglass.conf"}
    assert box.out("ls /etc/ssl").split() != [] and box.code("test -e /etc/ssl/private") != 0


def test_mounts_tell_no_path_of_the_host(server, box):
    text = box.out("cat /proc/self/mountinfo")
    assert server.home not in text and "/work" not in text


def test_image_may_be_a_directory_below_the_roots(server, roots):
    image = roots / "images" / "tiny"
    for d in ("bin", "etc", "lib64", "usr"):
        (image / d).mkdir(parents=True, exist_ok=True)
    for program in ("/bin/bash", "/bin/ls", "/bin/cat"):
        shutil.copy(program, image / "bin")
        for word in subprocess.run(["ldd", program], capture_output=True, text=True).stdout.split():
            if word.startswith("/"):
                (image / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, image / word[1:])
    (image / "marker").write_text("tiny image\n")
    with server.box(image=str(image)) as b:
        assert b.out("cat /marker; echo changed > $HOME/new; pwd") == "tiny image\n/home/gem\n"
        assert b.show()["image"] == str(image)
    assert not (image / "home" / "gem" / "new").exists()


@pytest.mark.parametrize("image", ["/etc", "/", "nowhere", "../etc", "{top}/outside", "{top}/images/../outside"])
def test_image_outside_of_the_roots_is_refused(server, roots, image):
    r = server.request("POST", "/sg/v1/boxes", {"image": image.format(top=roots)})
    assert 400 <= r.status < 500, r
    assert "image" in r["error"]["message"]


# ---- mounts ----

def test_mount_read_only_is_the_default(server, roots):
    with server.box(mounts=[{"from": str(roots / "mounts" / "data"), "to": "/data"}]) as b:
        assert b.out("cat /data/hello.txt") == "hello from the host\n"
        assert b.code("touch /data/new") != 0
        assert b.code("sudo touch /data/new") != 0


def test_mount_writable_writes_to_the_host(server, roots):
    with server.box(mounts=[{"from": str(roots / "mounts" / "shared"), "to": "/home/gem/shared", "writable": True}]) as b:
        b.out("echo from the box > shared/out.txt && cat shared/out.txt")
    assert (roots / "mounts" / "shared" / "out.txt").read_text() == "from the box\n"


def test_mount_gives_no_setuid_and_no_devices(server, roots):
    with server.box(mounts=[{"from": str(roots / "mounts" / "shared"), "to": "/shared", "writable": True}]) as b:
        line = [x for x in b.out("cat /proc/self/mountinfo").splitlines() if " /shared " in x][0]
        assert "nosuid" in line and "nodev" in line


@pytest.mark.parametrize("source", ["/etc", "/", "{top}/outside", "{top}/mounts/../outside", "{top}/mounts/link",
                                    "{top}/mounts/data/../../outside", "relative", "", "{top}/mounts/missing"])
def test_mount_outside_of_the_roots_is_refused(server, roots, source):
    r = server.request("POST", "/sg/v1/boxes", {"mounts": [{"from": source.format(top=roots), "to": "/data"}]})
    assert 400 <= r.status < 500, r
    assert "mount" in r["error"]["message"], r


@pytest.mark.parametrize("target", ["relative", "", "/proc", "/proc/sys", "/dev", "/sys", "/", "/../x", "/run/sandglass"])
def test_mount_target_that_would_hide_the_boxs_own_is_refused(server, roots, target):
    r = server.request("POST", "/sg/v1/boxes", {"mounts": [{"from": str(roots / "mounts" / "data"), "to": target}]})
    assert 400 <= r.status < 500, r


@pytest.mark.parametrize("second", ["/data", "/data/new"])
def test_mount_upon_or_into_another_that_it_cannot_be_in_is_refused(server, roots, second):
    both = [{"from": str(roots / "mounts" / "data"), "to": to} for to in ("/data", second)]
    r = server.request("POST", "/sg/v1/boxes", {"mounts": both})
    assert r.status == 400 and "mounts[1].to" in r["error"]["message"], r


def test_mounts_are_refused_where_the_configuration_allows_none():
    with sg.running("--pool-size", "0") as s:
        r = s.request("POST", "/sg/v1/boxes", {"mounts": [{"from": "/tmp", "to": "/data"}]})
        assert 400 <= r.status < 500 and "mount" in r["error"]["message"], r


# ---- network ----

def test_network_none_reaches_neither_host_nor_internet(server, box):
    r = box.python(f"""
import socket
for where in (("127.0.0.1", {server.port}), ("10.0.0.1", 80), ("1.1.1.1", 53), ("169.254.169.254", 80)):
    s = socket.socket(); s.settimeout(2)
    try:
        s.connect(where); print("reached", where)
    except OSError as e:
        print("closed")
try:
    socket.getaddrinfo("example.com", 80); print("resolved")
except OSError:
    print("no name")
""", timeout=30)
    assert r["data"]["stdout"] == "closed\n" * 4 + "no name\n", r


def test_network_full_is_granted_or_refused_but_never_pretended(server):
    r = server.request("POST", "/sg/v1/boxes", {"network": "full"})
    if r.status == 201:
        with_net = sg.Box(server, r["id"])
        try:
            assert with_net.show()["network"] == "full"
            assert with_net.out("ls /sys/class/net /proc/sys/net/ipv4/conf 2>/dev/null | grep -vE 'all|default|lo|:|^$'")
        finally:
            server.destroy(r["id"])
    else:
        assert "network" in r["error"]["message"], r


# ---- life ----

def test_create_answers_with_the_box(server):
    r = server.request("POST", "/sg/v1/boxes", {"labels": {"a": "b"}, "memory": "256m", "pids": 99, "cpu": 0.5, "ttl": 60})
    assert r.status == 201
    b = r.json
    try:
        assert b["state"] == "running" and b["image"] == "host" and b["network"] == "none" and b["sudo"] is True
        assert b["labels"] == {"a": "b"} and b["unenforced"] == [] and b["ttl_ms"] == 60000 and b["expires"]
        assert b["limits"]["memory_bytes"] == 256 << 20 and b["limits"]["pids"] == 99 and b["limits"]["cpu"] == 0.5
        assert not b["id"].isdigit() and b["setup_us"] > 0
        shown = server.get(f"/sg/v1/boxes/{b['id']}")
        assert {k: shown[k] for k in ("id", "labels", "limits", "created")} == {k: b[k] for k in ("id", "labels", "limits", "created")}
    finally:
        server.destroy(b["id"])


def test_create_without_a_body(server):
    r = server.request("POST", "/sg/v1/boxes")
    assert r.status == 201, r
    server.destroy(r["id"])


def test_labels_filter_the_list(server):
    mark = sg.unique()
    with server.box(labels={"team": mark, "n": "1"}) as a, server.box(labels={"team": mark, "n": "2"}) as b:
        ids = lambda q: {x["id"] for x in server.get("/sg/v1/boxes" + q)["boxes"]}
        assert ids(f"?label=team={mark}") == {a.id, b.id}
        assert ids("?label=n=2") & {a.id, b.id} == {b.id}
        assert ids(f"?label=team={mark}x") == set() == ids(f"?label={mark}=team")
        assert {a.id, b.id} <= ids("")


def test_delete_ends_every_process_and_is_final(server):
    box = server.create()
    b = sg.Box(server, box)
    b.tool("bash:start", {"command": "sleep 1000"})
    b.out("(setsid sleep 1000 >/dev/null 2>&1 &)")
    assert len(server.box_pids(box)) >= 3
    assert server.destroy(box) == {"id": box, "state": "destroyed"}
    assert server.box_pids(box) == []
    assert not [d for d in server.box_cgroups() if os.path.basename(d) == box]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/execute"), ("POST", "/pause"), ("POST", "/resume")):
        r = server.request(method, f"/sg/v1/boxes/{box}{path}", {"tool": "bash:run", "params": {"command": "true"}})
        assert r.status == 404 and box in r["error"]["message"], r


def test_delete_twice_at_once_answers_both(server):
    box = server.create()
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(server.request("DELETE", f"/sg/v1/boxes/{box}").status))
               for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert 200 in replies and set(replies) <= {200, 404}


def test_delete_during_a_call_says_killed(server):
    box = server.create()
    reply = []
    t = threading.Thread(target=lambda: reply.append(server.tool(box, "bash:run", {"command": "sleep 60"}, status=None)))
    t.start()
    sg.wait_for(lambda: server.get("/sg/v1/status")["calls"] >= 1)
    time.sleep(0.1)
    server.destroy(box)
    t.join()
    assert reply[0]["outcome"] == "killed" and reply[0]["trainable"] is False, reply
    assert reply[0]["retry_safe"] is False


def test_ttl_ends_the_box(server):
    box = server.create(ttl=1)
    assert server.get(f"/sg/v1/boxes/{box}")["expires"]
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404, 5)
    assert server.box_pids(box) == []


def test_ttl_does_not_cut_a_running_call(server):
    with server.box(ttl=1) as b:
        assert b.out("sleep 2; echo done") == "done\n"


def test_pool_hands_out_warm_boxes_and_says_so(server):
    sg.wait_for(lambda: server.get("/sg/v1/status")["pool"]["ready"] >= 1)
    with server.box() as b:
        assert b.show()["warm"] is True
    with server.box(cold=True) as b:
        assert b.show()["warm"] is False
    sg.wait_for(lambda: server.get("/sg/v1/status")["pool"] == {"ready": 2, "wanted": 2})


def test_boxes_made_at_once_are_all_different(server):
    ids = []
    threads = [threading.Thread(target=lambda: ids.append(server.create())) for _ in range(12)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(set(ids)) == 12
    assert {sg.Box(server, i).out("cat /proc/sys/kernel/hostname") != "" for i in ids} == {True}
    for i in ids:
        server.destroy(i)


# ---- pause ----

def test_pause_stops_everything_and_resume_goes_on(server):
    with server.box() as b:
        b.tool("bash:start", {"command": "while :; do echo x >> /tmp/ticks; sleep 0.02; done"})
        sg.wait_for(lambda: b.run("cat /tmp/ticks")["data"]["stdout"])
        r = server.post(f"/sg/v1/boxes/{b.id}/pause")
        assert r["state"] == "paused"
        state = [sg.read(f"/proc/{p}/stat").rsplit(") ", 1)[1] for p in server.box_pids(b.id)]
        time.sleep(0.3)
        assert [sg.read(f"/proc/{p}/stat").rsplit(") ", 1)[1].split()[11:13] for p in server.box_pids(b.id)] == \
            [s.split()[11:13] for s in state], "no CPU time while paused"
        assert server.get(f"/sg/v1/boxes/{b.id}")["state"] == "paused"
        assert server.post(f"/sg/v1/boxes/{b.id}/resume")["state"] == "running"
        before = len(b.out("cat /tmp/ticks"))
        sg.wait_for(lambda: len(b.out("cat /tmp/ticks")) > before)


def test_call_in_a_paused_box_is_refused_and_says_how_to_go_on(server):
    with server.box() as b:
        server.post(f"/sg/v1/boxes/{b.id}/pause")
        r = server.request("POST", f"/sg/v1/boxes/{b.id}/execute", {"tool": "bash:run", "params": {"command": "true"}})
        assert r.status == 409 and "resume" in r["error"]["message"]
        server.post(f"/sg/v1/boxes/{b.id}/resume")
        assert b.code("true") == 0


def test_pause_and_resume_twice_are_harmless(server):
    with server.box() as b:
        for verb, state in (("pause", "paused"), ("pause", "paused"), ("resume", "running"), ("resume", "running")):
            assert server.post(f"/sg/v1/boxes/{b.id}/{verb}")["state"] == state
        assert b.out("echo ok") == "ok\n"


def test_call_under_way_survives_a_pause(server):
    with server.box() as b:
        reply = []
        t = threading.Thread(target=lambda: reply.append(b.run("echo one; sleep 0.5; echo two")))
        t.start()
        time.sleep(0.2)
        server.post(f"/sg/v1/boxes/{b.id}/pause")
        time.sleep(1)
        assert not reply
        server.post(f"/sg/v1/boxes/{b.id}/resume")
        t.join(10)
        assert reply and reply[0]["data"]["stdout"] == "one\ntwo\n", reply


def timed_out(b, meanwhile):
    reply = []
    t = threading.Thread(target=lambda: reply.append(b.run("sleep 30", timeout=1.5)))
    t.start()
    time.sleep(0.3)
    meanwhile()
    t.join(20)
    assert reply[0]["outcome"] == "timeout", reply
    return reply[0]


def test_a_timeout_is_the_agents_own_unless_its_box_was_paused_meanwhile(server):
    with server.box() as b:
        def pause():
            server.post(f"/sg/v1/boxes/{b.id}/pause")
            time.sleep(1.5)
            server.post(f"/sg/v1/boxes/{b.id}/resume")

        assert timed_out(b, pause)["trainable"] is False
        assert timed_out(b, lambda: None)["trainable"] is True


def test_paused_box_can_be_deleted(server):
    box = server.create()
    server.post(f"/sg/v1/boxes/{box}/pause")
    assert server.request("DELETE", f"/sg/v1/boxes/{box}", timeout=10).status == 200
    assert server.box_pids(box) == []


def test_paused_box_ends_by_its_ttl(server):
    box = server.create(ttl=1)
    server.post(f"/sg/v1/boxes/{box}/pause")
    sg.wait_for(lambda: server.request("GET", f"/sg/v1/boxes/{box}").status == 404, 6)
    assert server.box_pids(box) == []


# ---- restart ----

def test_restart_keeps_boxes_shells_jobs_and_labels():
    with sg.running("--pool-size", "1") as s:
        b = sg.Box(s, s.create(labels={"keep": "me"}, memory="300m", ttl=3600))
        b.out("cd /tmp; x=41; f() { echo $((x + 1)); }; echo data > file")
        job = b.tool("bash:start", {"command": "while :; do date +%N; sleep 0.1; done"})["data"]["job_id"]
        before = b.show()
        init = s.init_pid(b.id)
        s.restart()
        after = b.show()
        for k in ("id", "labels", "limits", "created", "ttl_ms", "expires", "image", "network", "sudo", "trajectory"):
            assert before[k] == after[k], k
        assert s.init_pid(b.id) == init
        assert b.out("pwd; f; cat file") == "/tmp\n42\ndata\n"
        assert b.tool("bash:output", {"job_id": job})["data"]["status"] == "running"
        r = b.run("true")
        assert r["step"] == 5 and r["trajectory_id"] == before["trajectory"]


def test_restart_keeps_a_paused_box_paused():
    with sg.running("--pool-size", "0") as s:
        b = sg.Box(s, s.create())
        b.out("x=5")
        s.post(f"/sg/v1/boxes/{b.id}/pause")
        s.restart()
        assert b.show()["state"] == "paused"
        s.post(f"/sg/v1/boxes/{b.id}/resume")
        assert b.out("echo $x") == "5\n"


def test_restart_waits_for_running_calls_within_the_grace():
    with sg.running("--pool-size", "0", "--shutdown-grace", "10s") as s:
        b = sg.Box(s, s.create())
        reply = []
        t = threading.Thread(target=lambda: reply.append(b.run("sleep 1; echo finished")))
        t.start()
        sg.wait_for(lambda: s.get("/sg/v1/status")["calls"] == 1)
        s.stop()
        t.join(5)
        assert reply and reply[0]["data"]["stdout"] == "finished\n"
        s.start()
        assert b.out("echo there") == "there\n"


@pytest.mark.parametrize("what", ["answer", "stream"])
def test_a_shutdown_waits_for_who_still_reads_an_answer(what):
    size = 12 << 20  # more than sockets hold
    with sg.running("--pool-size", "0", "--shutdown-grace", "30s") as s:
        b = sg.Box(s, s.create())
        b.out(f"head -c {size} /dev/zero | tr '\\0' x > /tmp/big")
        c = socket.socket()
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        c.connect(("127.0.0.1", s.port))
        c.settimeout(60)
        body = json.dumps({"file": "/tmp/big"})
        head = (f"POST /box/{b.id}/v1/file/read HTTP/1.1\r\nContent-Length: {len(body)}\r\n" if what == "answer"
                else f"GET /box/{b.id}/v1/file/download?path=/tmp/big HTTP/1.1\r\n")
        c.sendall((head + "Host: a\r\n\r\n" + (body if what == "answer" else "")).encode())
        got = [c.recv(4096)]  # it has begun
        t = threading.Thread(target=s.stop)
        t.start()
        sg.wait_for(lambda: not listens(s.port))
        while data := c.recv(1 << 20):
            got.append(data)
        t.join()
        head, _, rest = b"".join(got).partition(b"\r\n\r\n")
        assert b"200 OK" in head and rest.count(b"x") >= size, (head, len(rest))
        if what == "answer":
            assert len(json.loads(rest)["data"]["content"]) == size


def listens(port):
    with socket.socket() as c:
        return c.connect_ex(("127.0.0.1", port)) == 0


def test_call_that_outlives_the_grace_is_finished_by_the_next_server():
    with sg.running("--pool-size", "0", "--shutdown-grace", "200ms") as s:
        b = sg.Box(s, s.create())
        key = sg.unique("k")

        def ask():
            try:
                b.tool("bash:run", {"command": "sleep 2; echo finished >> /tmp/once; cat /tmp/once"}, key=key)
            except sg.GONE:
                pass
        t = threading.Thread(target=ask)
        t.start()
        sg.wait_for(lambda: s.get("/sg/v1/status")["calls"] == 1)
        s.restart()
        t.join(5)
        r = s.tool(b.id, "bash:run", {"command": "sleep 2; echo finished >> /tmp/once; cat /tmp/once"}, key=key)
        assert r["outcome"] == "ok" and r["data"]["stdout"] == "finished\n", r
        assert b.out("cat /tmp/once") == "finished\n"


@pytest.mark.parametrize("pool", ["0", "2"])
def test_shutdown_kill_leaves_no_box(pool):
    with sg.running("--pool-size", pool, "--shutdown-grace", "300ms", "--shutdown-kill") as s:
        b = sg.Box(s, s.create())
        s.post(f"/sg/v1/boxes/{s.create()}/pause")
        s.session("w", "bash")
        trajectory = s.execute("w", "bash:run", {"command": "setsid sleep 1000 >/dev/null 2>&1 &"})["meta"]["trajectory_id"]
        reply = []
        t = threading.Thread(target=lambda: reply.append(b.run("trap '' TERM INT; sleep 1000")))
        t.start()
        sg.wait_for(lambda: s.get("/sg/v1/status")["calls"] == 1)
        assert s.box_pids() and s.stop(seconds=10) == 0
        t.join(5)
        assert reply and reply[0]["outcome"] == "killed", "the call was answered"
        assert not s.box_pids() and not s.box_cgroups() and not list(pathlib.Path(s.home, "run/box").iterdir())
        assert not [d for d in s.cgroup_dirs() if os.path.exists(d)], "nor the directories of their cgroups"
        s.start()
        assert s.get("/sg/v1/boxes")["boxes"] == [] and s.get("/sg/v1/status")["sessions"] == 0
        assert [x["outcome"] for x in s.steps(trajectory)] == ["ok"]


def test_shutdown_kill_is_not_for_a_guard_that_dies():
    with sg.running("--pool-size", "0", "--shutdown-kill") as s:
        b = sg.Box(s, s.create())
        roles = [p for name, p in s.pids().items() if name != "guard"]
        s.guard.kill()
        s.guard.wait()
        sg.wait_for(lambda: not [p for p in roles if os.path.exists(f"/proc/{p}") and " Z " not in sg.read(f"/proc/{p}/stat")])
        assert s.init_pid(b.id)
        s.start()
        assert b.out("echo there") == "there\n"


def test_orphaned_boxes_end_themselves():
    with sg.running("--pool-size", "0", "--orphan-timeout", "1s") as s:
        box = s.create()
        sg.Box(s, box).out("sleep 1000 >/dev/null 2>&1 &")
        s.stop()
        sg.wait_for(lambda: not s.box_pids(box), 10)


def test_programs_have_no_capability_and_can_get_none(server):
    with server.box() as box:  # the shell, a hand's program, a context: each is started in a way of its own
        look = "grep ^Cap /proc/self/status | cut -f2 | sort -u"
        none = "0000000000000000\n"
        assert box.out(look) == none
        run = f"import subprocess; print(subprocess.run({look!r}, shell=True, capture_output=True, text=True).stdout, end='')"
        for params in ({}, {"session": "caps"}):
            assert box.tool("code:execute", {"code": run, **params}, timeout=60)["data"]["stdout"] == none


def test_user_namespaces_are_refused_where_the_server_allows_none(server):
    r = server.request("POST", "/sg/v1/boxes", {"user_namespaces": True})
    assert 400 <= r.status < 500 and "box.user_namespaces" in r["error"]["message"], (r.status, r.body)
    r = server.request("POST", "/sg/v1/boxes", {"user_namespaces": "yes"})
    assert r.status == 400 and "user_namespaces" in r["error"]["message"]


def test_a_machine_without_memory_loses_programs_before_inits_and_those_before_the_server(server):
    def score(pid):
        return int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text())

    for cold in (False, True):
        with server.box(cold=cold) as b:
            assert int(b.out("cat /proc/self/oom_score_adj")) == 1000
            assert score(server.init_pid(b.id)) == 500
    assert all(score(pid) < 500 for pid in server.pids().values())


def test_an_init_of_which_programs_were_asked_can_give_none_more_than_the_box_is_to_have(server):
    for cold in (False, True):
        with server.box(cold=cold) as b:
            b.out("true")
            status = pathlib.Path(f"/proc/{server.init_pid(b.id)}/status").read_text()
            bound = int(re.search(r"CapBnd:\s+(\w+)", status)[1], 16)
            assert not bound & (1 << 21 | 1 << 12 | 1 << 27), "SYS_ADMIN, NET_ADMIN, MKNOD"
