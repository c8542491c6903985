"""States of boxes: what a snapshot keeps, what a fork carries, what restore and reset bring back, and what they refuse."""

import hashlib
import http.client
import io
import os
import pathlib
import re
import signal
import socket
import subprocess
import tarfile
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


# ---- helpers ----


def snapshot(box, **body):
    return box.server.post(f"/sg/v1/boxes/{box.id}/snapshot", body, 201)


def fork(source, status=201, **body):
    """Copies of a box, or of a state that is named by its id."""
    kind, server = ("boxes", source.server) if isinstance(source, sg.Box) else ("states", body.pop("server"))
    name = source.id if kind == "boxes" else source
    r = server.post(f"/sg/v1/{kind}/{name}/fork", body, status)
    return r, [sg.Box(server, x["id"]) for x in r["boxes"]]


def fork_one(source, **body):
    return fork(source, **body)[1][0]


def restore(box, verb="restore", status=200, **body):
    return box.server.post(f"/sg/v1/boxes/{box.id}/{verb}", body, status)


def root(server, state):
    """A root may follow the state."""
    return sg.wait_for(lambda: server.get(f"/sg/v1/states/{state}")["root"], 20)


def diff(server, a, b, text=False, status=200):
    return server.get(f"/sg/v1/diff?a={a}&b={b}" + ("&text=1" if text else ""), status)


def layer_file(server, state, name):
    """The bytes of a file of a state as they lie on disk."""
    for layer in server.get(f"/sg/v1/states/{state}")["layers"]:
        found = list(pathlib.Path(server.home, "layers", layer).glob(f"**/{name}"))
        if found:
            return found[0]
    raise AssertionError(f"no {name} in the layers of {state}")


def layers(server):
    return sorted(x for x in os.listdir(pathlib.Path(server.home, "layers")))


def as_root(box, script):
    box.tool("file:write", {"path": "/home/gem/t.py", "content": script})
    return box.out("sudo /usr/bin/python3 /home/gem/t.py")


def cli(server, *words):
    r = subprocess.run([sg.BINARY, words[0], "--url", server.url, *words[1:]], capture_output=True, timeout=60)
    return r.returncode, r.stdout, r.stderr.decode()


# ---- what a state keeps ----


def test_a_snapshot_keeps_files_deletions_usr_and_tmp(server):
    with server.box() as box:
        box.out("mkdir -p /workspace/d && echo one > /workspace/d/f && sudo rm /etc/hostname && echo 1 | sudo tee /usr/share/mine"
                " && sudo rm -r /usr/share/doc && echo 2 > /tmp/t && chmod 640 /workspace/d/f")
        state = snapshot(box, name="kept")
        assert state["changed"] and state["layers"] and state["name"] == "kept"
        copy = fork_one(state["state"], server=server)
        with server.box() as fresh:  # the image has what was deleted
            assert fresh.code("test -e /usr/share/doc && test -e /etc/hostname") == 0
        assert copy.out("cat /workspace/d/f /usr/share/mine /tmp/t; stat -c %a /workspace/d/f") == "one\n1\n2\n640\n"
        assert copy.code("test -e /etc/hostname || test -e /usr/share/doc") == 1
        server.destroy(copy.id)


def test_a_fork_has_the_shells_directory_variables_and_functions(server):
    with server.box() as box:
        box.out("cd /workspace && export GREETING='hello  \"w\"' && plain=7 && hi() { echo \"$GREETING $plain\"; }; set -f")
        r, (copy,) = fork(box)
        assert r["fidelity"] == "fs+session"
        assert copy.out("pwd; hi; env | grep ^GREETING; echo $-").splitlines()[:3] == \
            ["/workspace", 'hello  "w" 7', 'GREETING=hello  "w"']
        assert "f" in copy.out("echo $-")
        server.destroy(copy.id)


def test_a_fork_has_all_that_makes_the_shell_what_it_is(server):
    look = ('printf %s "$x" | od -An -tx1; declare -p m arr num ro; f; alias ll; shopt globstar; umask; trap; '
            'echo "$# $1 $2"; num=num+1; echo $num; echo ${#large}')
    with server.box() as box:
        box.out("x=$(printf '\\xff\\xfe\\x01\\t\\n\\x7f'); declare -A m=(['a b']=1 [$'\\n']=2); arr=(1 '' 'x y'); "
                "declare -i num=5; declare -r ro=7; alias ll='ls -l'; shopt -s globstar; umask 027; set -- 'p 1' p2; "
                "f() { cat <<'END'\nhere $x\nEND\n}; trap 'echo bye' EXIT; large=$(head -c 300000 /dev/zero | tr '\\0' a)")
        r, (copy,) = fork(box)
        assert r["fidelity"] == "fs+session"
        assert copy.out(look) == box.out(look) and "0027" in copy.out("umask")
        box.out("huge=$(head -c 700000 /dev/zero | tr '\\0' a)")
        r, (other,) = fork(box)  # more than a state keeps of a shell: it says so
        assert r["fidelity"] == "fs" and other.out("echo $num") == "\n"
        for b in copy, other:
            server.destroy(b.id)


def test_forks_have_random_numbers_and_a_name_of_their_own(server):
    with server.box() as box:
        box.out("cd /tmp; cd /workspace; RANDOM=42")
        _, copies = fork(box, n=3)
        assert [b.out("echo $HOSTNAME") for b in copies] == [b.out("hostname") for b in copies] == [b.id + "\n" for b in copies]
        assert len({b.out("echo $RANDOM $RANDOM $RANDOM") for b in (box, *copies)}) == 4
        assert [b.out("echo $OLDPWD; set -e; echo $-")[:5] for b in (box, *copies)] == ["/tmp\n"] * 4
        grandchild = fork_one(copies[0])
        assert "e" in grandchild.out("echo $-") and grandchild.out("echo $HOSTNAME") == grandchild.id + "\n"
        for b in (grandchild, *copies):
            server.destroy(b.id)


def test_a_fork_of_a_fork_in_which_nothing_ran_has_the_shells_variables(server):
    with server.box() as box:
        box.out("cd /workspace && plain=7")
        child = fork_one(box)
        r, (grandchild,) = fork(child)
        assert r["fidelity"] == "fs+session"
        assert grandchild.out("pwd; echo $plain") == child.out("pwd; echo $plain") == "/workspace\n7\n"
        server.destroy(child.id)
        server.destroy(grandchild.id)


def test_a_fork_and_a_restored_box_have_their_shells_variables_though_serve_was_killed_before_the_first_command(server):
    with server.box() as box:
        box.out("cd /workspace && plain=7 && hi() { echo hi; }")
        state = snapshot(box)["state"]
        _, copies = fork(box, n=2)
        box.out("plain=8; cd /tmp")
        server.tool(copies[1].id, "file:write", {"path": "/tmp/x", "content": "a session without a shell"})
        restore(box, state=state)
        for _ in range(2):  # the second time they have begun, and nothing is taken twice
            server.kill_role("serve")
            server.wait_ready(20)
            assert [b.out("pwd; echo $plain; hi; plain=$((plain + 1))") for b in (box, *copies)] == \
                [f"/workspace\n{7 + _}\nhi\n"] * 3
        one, two = snapshot(box), snapshot(box)
        assert one["fidelity"] == "fs+session" and one["parent"] == state and two["parent"] == one["state"]
        assert root(server, one["state"]) == root(server, two["state"])
        for b in copies:
            server.destroy(b.id)


def test_both_sides_of_a_fork_diverge_without_seeing_each_other(server):
    with server.box() as box:
        box.out("echo base > /workspace/f && mkdir /workspace/d && touch /workspace/d/x")
        copy = fork_one(box)
        box.out("echo source > /workspace/f && echo 1 > /workspace/only-source && rm -r /workspace/d")
        copy.out("echo copy >> /workspace/f && echo 1 > /workspace/only-copy && mv /workspace/d /workspace/e")
        assert box.out("cat /workspace/f; ls /workspace") == "source\nf\nonly-source\n"
        assert copy.out("cat /workspace/f; ls /workspace; ls /workspace/e") == "base\ncopy\ne\nf\nonly-copy\nx\n"
        server.destroy(copy.id)


def test_20_forks_at_once_have_a_result_each(server):
    with server.box() as box:
        box.out("echo same > /workspace/f")
        r, copies = fork(box, n=20)
        assert r["requested"] == r["made"] == len({c.id for c in copies}) == 20
        for i, c in enumerate(copies):
            assert c.out(f"cat /workspace/f; echo {i} > /workspace/f") == "same\n"
        assert [c.out("cat /workspace/f") for c in copies] == [f"{i}\n" for i in range(20)]
        assert box.out("cat /workspace/f") == "same\n"
        for c in copies:
            server.destroy(c.id)


def test_a_fork_of_a_fork_has_both_layers(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/one")
        child = fork_one(box)
        child.out("echo 2 > /workspace/two; rm /workspace/one")
        grandchild = fork_one(child)
        assert grandchild.out("ls /workspace") == "two\n"
        for c in (child, grandchild):
            server.destroy(c.id)


ODD = r"""
import os
os.chdir('/workspace')
os.mkdir('links'); open('links/a', 'w').write('linked')
os.link('links/a', 'links/b'); os.link('links/a', 'c')
with open('sparse', 'wb') as f:
    f.seek(64 << 20); f.write(b'end')
for name in (b'new\nline', b'-rf', b'\xff\xfe', b'tab\t "quote" \'single\' $x', b'.hidden', b'a' * 255, 'ü€'.encode()):
    open(b'/workspace/' + name, 'wb').write(name)
os.symlink('nowhere', 'dangling'); os.mkfifo('fifo')
os.setxattr('c', 'user.note', b'kept')
import shutil
shutil.rmtree('/usr/share/man', ignore_errors=True); os.mkdir('/usr/share/man'); open('/usr/share/man/mine', 'w').write('opaque')
os.rename('/etc/skel', '/etc/skel-renamed')
os.makedirs('deep/er'); open('deep/er/f', 'w').write('deep'); os.rename('deep', 'moved')
"""
LOOK = r"""
import os
os.chdir('/workspace')
a, b, c = (os.stat(x) for x in ('links/a', 'links/b', 'c'))
print('links', a.st_ino == b.st_ino == c.st_ino, a.st_nlink, open('c').read(), os.getxattr('c', 'user.note'))
s = os.stat('sparse'); print('sparse', s.st_size, s.st_blocks < 2048, open('sparse', 'rb').read()[-3:])
print('names', sorted(os.listdir(b'/workspace')))
print('content', all(open(b'/workspace/' + n, 'rb').read() == n for n in os.listdir(b'/workspace')
                     if n not in (b'links', b'c', b'sparse', b'dangling', b'fifo', b'moved')))
print('link', os.readlink('dangling'), os.path.exists('/etc/skel'), sorted(os.listdir('/etc/skel-renamed')))
print('opaque', os.listdir('/usr/share/man'), open('moved/er/f').read(), os.path.exists('deep'))
"""


def test_links_sparse_files_odd_names_opaque_and_renamed_directories_survive(server):
    with server.box() as box:
        as_root(box, ODD)
        before = as_root(box, LOOK)
        assert "links True 3 linked" in before
        state = snapshot(box)
        copy = fork_one(state["state"], server=server)
        assert as_root(copy, LOOK) == before
        box.out("sudo rm -rf /workspace/* && echo gone | sudo tee /usr/share/man/mine")
        restore(box, state=state["state"])
        assert as_root(box, LOOK) == before
        server.destroy(copy.id)


MMAP = r"""
import mmap, os, sys, time
fd = os.open('/workspace/mapped', os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096)
m = mmap.mmap(fd, 4096); os.close(fd)
m[:5] = b'first'; open('/workspace/ready', 'w').close()
while not os.path.exists('/workspace/go'): time.sleep(0.01)
m[:5] = b'later'; os.unlink('/workspace/ready')
time.sleep(600)
"""


@pytest.mark.parametrize("where", ["/workspace", "/tmp"])
def test_writes_through_a_mapping_that_is_still_open_are_in_the_state(server, where):
    with server.box() as box:
        box.tool("file:write", {"path": "/home/gem/m.py", "content": MMAP.replace("/workspace", where)})
        box.out(f"/usr/bin/python3 /home/gem/m.py >/dev/null 2>&1 & while ! test -e {where}/ready; do sleep 0.01; done")
        first = snapshot(box)["state"]
        box.out(f"touch {where}/go; while test -e {where}/ready; do sleep 0.01; done")
        second = snapshot(box)["state"]
        for state, want in ((first, "first"), (second, "later")):
            copy = fork_one(state, server=server)
            assert copy.out(f"head -c 5 {where}/mapped") == want
            server.destroy(copy.id)


NAMELESS = r"""
import mmap, os, time
os.chdir('/workspace')
gone = os.open('gone', os.O_RDWR | os.O_CREAT); os.unlink('gone')
never = os.open('.', os.O_RDWR | os.O_TMPFILE, 0o644); os.write(never, b'unborn')
memory = os.memfd_create('m'); os.write(memory, b'none')
other = os.open('first', os.O_RDWR | os.O_CREAT); os.ftruncate(other, 4096); os.link('first', 'second')
m = mmap.mmap(other, 4096); m[:5] = b'early'; os.unlink('first')
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
os.write(gone, b'lost'); os.pwrite(never, b'linked', 0)
os.link(f'/proc/self/fd/{never}', 'born', src_dir_fd=gone)  # linkat follows
m[:5] = b'later'; os.unlink('ready')
time.sleep(600)
"""


def test_an_open_file_without_a_name_is_in_no_state_until_it_has_one_and_one_with_another_name_is_under_that(server):
    with server.box() as box:
        box.tool("file:write", {"path": "/home/gem/n.py", "content": NAMELESS})
        box.out("/usr/bin/python3 /home/gem/n.py >/dev/null 2>&1 & while ! test -e /workspace/ready; do sleep 0.01; done")
        first = snapshot(box)["state"]
        box.out("touch /workspace/go; while test -e /workspace/ready; do sleep 0.01; done")
        second = snapshot(box)["state"]
        for state, want in ((first, "early"), (second, "later")):
            copy = fork_one(state, server=server)
            assert copy.out("head -c 5 /workspace/second") == want
            assert copy.out("ls /workspace") == ("ready\nsecond\n" if state == first else "born\ngo\nsecond\n")
            if state == second:
                assert copy.out("cat /workspace/born") == "linked"
            server.destroy(copy.id)


def test_the_same_files_reached_on_different_ways_have_the_same_root(server):
    with server.box() as a, server.box() as b:
        a.out("mkdir /workspace/d; echo 1 > /workspace/d/f; echo x > /workspace/d/g; sudo rm /etc/hostname")
        b.out("mkdir /workspace/e; echo wrong > /workspace/e/f; touch /workspace/junk")
        snapshot(b)
        b.out("mv /workspace/e /workspace/d; rm /workspace/junk")
        snapshot(b)
        b.out("echo 1 > /workspace/d/f; echo x > /workspace/d/tmp; mv /workspace/d/tmp /workspace/d/g; sudo rm /etc/hostname")
        one, other = snapshot(a)["state"], snapshot(b)["state"]
        assert one != other and root(server, one) == root(server, other)
        b.out("chmod 600 /workspace/d/f")
        assert root(server, snapshot(b)["state"]) != root(server, one)


def test_a_snapshot_of_a_paused_box_leaves_it_paused(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        server.post(f"/sg/v1/boxes/{box.id}/pause")
        state = snapshot(box)
        assert box.show()["state"] == "paused" and state["layers"]
        server.post(f"/sg/v1/boxes/{box.id}/resume")
        assert box.out("cat /workspace/f") == "1\n"


def test_a_second_snapshot_without_change_makes_no_layer(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        one = snapshot(box)
        two = snapshot(box)
        assert one["changed"] and not two["changed"] and one["layers"] == two["layers"]
        assert root(server, one["state"]) == root(server, two["state"]) and two["parent"] == one["state"]


def test_an_unchanged_state_gets_its_root_though_the_first_is_still_being_hashed(server):
    with server.box() as box:
        box.out("head -c 30000000 /dev/urandom > /workspace/large")
        one, two = snapshot(box), snapshot(box)
        assert not two["changed"] and root(server, one["state"]) == root(server, two["state"])


def test_a_box_that_ends_after_its_snapshot_leaves_a_state_with_a_root(server):
    with server.box() as box:
        box.out("head -c 30000000 /dev/urandom > /workspace/large")
        state = snapshot(box)["state"]
        server.destroy(box.id)
    assert root(server, state)
    copy = fork_one(state, server=server)
    assert copy.out("stat -c %s /workspace/large") == "30000000\n"
    server.destroy(copy.id)


# ---- restore and reset ----


def test_restore_keeps_the_box_and_its_sessions_and_drops_what_came_later(server):
    with server.box(labels={"who": "me"}) as box:
        box.out("cd /workspace && echo 1 > f && v=then")
        before = box.show()
        state = snapshot(box, name=sg.unique("named"))
        box.out("cd / && rm /workspace/f && echo 2 > /workspace/g && v=now; sleep 1000 >/dev/null 2>&1 &")
        answer = restore(box, state=state["name"])
        after = box.show()
        assert answer["restored"] == state["state"] and answer["id"] == box.id == after["id"]
        assert after["sessions"] == before["sessions"] != []
        assert after["labels"] == {"who": "me"} and after["trajectory"] == before["trajectory"]
        assert box.out("pwd; ls /workspace; echo $v") == "/workspace\nf\nthen\n"
        assert box.code("pgrep -x sleep") == 1


def test_restore_can_go_forward_again(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        one = snapshot(box)["state"]
        box.out("echo 2 > /workspace/f")
        two = snapshot(box)["state"]
        for state, want in ((one, "1\n"), (two, "2\n"), (one, "1\n")):
            restore(box, state=state)
            assert box.out("cat /workspace/f") == want
        box.out("echo 3 > /workspace/f")
        copy = fork_one(box)
        assert copy.out("cat /workspace/f") == "3\n"
        server.destroy(copy.id)


def test_reset_goes_back_to_the_bare_image(server):
    with server.box() as box:
        box.out("sudo rm /etc/hostname; echo 1 > /workspace/f; echo 1 > /tmp/f; echo 1 | sudo tee /usr/share/f; cd /workspace")
        snapshot(box)
        r = restore(box, "reset")
        assert r["restored"] is None and r["id"] == box.id
        assert box.code("test -e /workspace/f || test -e /tmp/f || test -e /usr/share/f") == 1
        assert box.code("test -e /etc/hostname") == 0
        with server.box() as fresh:
            assert box.out("pwd") == fresh.out("pwd")


def test_reset_to_a_state_proves_its_root(server):
    with server.box() as box:
        box.out("mkdir /workspace/d; seq 1000 > /workspace/d/f; sudo rm /etc/hostname")
        state = snapshot(box)["state"]
        want = root(server, state)
        box.out("rm -r /workspace/d")
        r = restore(box, "reset", state=state)
        assert r["proved"] is True and r["root"] == want and r["restored"] == state
        assert box.out("wc -l < /workspace/d/f") == "1000\n"


def test_reset_proves_a_state_whose_root_was_still_being_computed(server):
    with server.box() as box:
        box.out("head -c 30000000 /dev/urandom > /workspace/large")
        state = snapshot(box)["state"]
        r = restore(box, "reset", state=state)
        assert box.out("stat -c %s /workspace/large") == "30000000\n"
        assert r["proved"] is True and r["root"] == root(server, state)


@pytest.mark.parametrize("how", ["content", "mode", "added", "removed"])
def test_a_tampered_layer_is_found_and_nothing_is_restored_from_it(server, how):
    with server.box() as box:
        box.out("mkdir /workspace/d; echo good > /workspace/d/payload; echo 1 > /workspace/other")
        state = snapshot(box)["state"]
        root(server, state)
        box.out("echo here > /workspace/now")
        file = layer_file(server, state, "payload")
        if how == "content":
            file.write_text("evil\n")
        elif how == "mode":
            file.chmod(0o4755)
        elif how == "added":
            file.with_name("extra").write_text("evil\n")
        else:
            file.unlink()
        r = server.request("POST", f"/sg/v1/boxes/{box.id}/reset", {"state": state})
        assert r.status == 403 and f"state {state} is quarantined" in r["error"]["message"], r
        assert box.show()["state"] == "quarantined"  # test_quarantine.py: what that means
        assert box.show()["state_id"] == state, "it is as it was"


def test_what_is_not_there_is_an_error_and_changes_nothing(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        restore(box, status=404, state="s-0000")
        restore(box, status=400)
        restore(box, "reset", status=404, state="no such name")
        restore(box, "restore", status=404, step=99999)
        server.post("/sg/v1/states/s-0000/fork", {}, 404)
        server.post("/sg/v1/boxes/b-none/snapshot", {}, 404)
        server.post(f"/sg/v1/boxes/{box.id}/fork", {"n": 0}, 400)
        server.post(f"/sg/v1/boxes/{box.id}/fork", {"unknown": 1}, 400)
        assert box.out("cat /workspace/f") == "1\n"


def test_a_state_is_named_in_one_way_and_a_name_is_no_id(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        name = sg.unique("n")
        snapshot(box, name=name)
        for bad, word in (("s-mine", "'s-'"), ("b-mine", "'b-'"), ("a\nb", "control character"), ("a\0b", "control character"),
                          ("x" * 65, "64 bytes")):
            r = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {"name": bad}, 400)
            assert r["error"]["message"].startswith("name: ") and word in r["error"]["message"], r
        both = {"state": name, "step": 1}
        for path in (f"boxes/{box.id}/restore", f"boxes/{box.id}/reset", f"boxes/{box.id}/fork"):
            assert "state, step: only one" in server.post(f"/sg/v1/{path}", both, 400)["error"]["message"]
        assert "the path says it" in server.post(f"/sg/v1/states/{name}/fork", {"state": name}, 400)["error"]["message"]
        assert server.request("GET", "/sg/v1/states?after=x").status == 400
        assert box.out("cat /workspace/f") == "1\n"


# ---- a state per step ----


def test_each_step_names_a_state_and_a_fork_at_it_sees_exactly_its_files(server):
    with server.box(state="step") as box:
        done = [box.run(f"echo {i} > /workspace/f{i}; rm -f /workspace/f{i - 2}; cd /workspace") for i in range(1, 6)]
        states = [x["state_id"] for x in done]
        assert len(set(states)) == 5
        for i, x in enumerate(done, 1):
            copy = fork_one(box, step=x["step"])
            assert copy.out("pwd; ls /workspace").split() == ["/workspace"] + [f"f{k}" for k in (i - 1, i) if k > 0]
            server.destroy(copy.id)
        assert [s["state"] for s in server.get(f"/sg/v1/states?box={box.id}")["states"]][::-1] == states
        restore(box, step=done[2]["step"])
        assert box.out("ls /workspace").split() == ["f2", "f3"]


def test_any_step_of_a_run_can_be_compared_read_and_forked_when_its_box_is_gone(server):
    box = sg.Box(server, server.create(state="step"))
    for i in (1, 2, 3):
        box.out(f"echo {i} > /workspace/n; v={i}")
    box.tool("file:read", {"path": "/workspace/n"})  # step 4: no state of its own
    trajectory = box.show()["trajectory"]
    server.destroy(box.id)
    for whose in trajectory, box.id:
        r, (copy,) = fork(f"{whose}@2", server=server)
        assert copy.out("cat /workspace/n; echo $v") == "2\n2\n" and r["fidelity"] == "fs+session"
        server.destroy(copy.id)
    copy = fork_one(f"{trajectory}@4", server=server)
    assert copy.out("cat /workspace/n") == "3\n"
    come_from = server.get(f"/sg/v1/trajectories/{copy.show()['trajectory']}")["forked_from"]
    assert (come_from["trajectory"], come_from["step"]) == (trajectory, 4)
    restore(copy, state=f"{trajectory}@1")
    assert copy.out("cat /workspace/n") == "1\n"
    server.destroy(copy.id)
    assert [r["path"] for r in diff(server, f"{trajectory}@1", f"{box.id}@3")["rows"]] == ["workspace/n"]
    run = lambda *a: subprocess.run([sg.BINARY, *a, "--url", server.url], capture_output=True, text=True, timeout=60)
    made = run("fork", box.id, "--at", "1", "-n", "2")
    assert made.returncode == 0 and len(made.stdout.split()) == 2
    for b in made.stdout.split():
        assert sg.Box(server, b).out("cat /workspace/n") == "1\n"
        server.destroy(b)
    none = run("fork", trajectory, "--at", "5")
    assert none.returncode == 5 and "has 4 steps, no step 5" in none.stderr
    assert "no state 'nosuch@1'" in run("checkout", "nosuch@1").stderr


def test_of_a_trajectory_in_two_boxes_each_step_has_the_files_of_its_own_box(server):
    t = sg.unique("t")
    with server.box(state="step") as a, server.box(state="step") as b, server.box() as other:
        for i, box in enumerate((a, b, a, b), 1):
            server.tool(box.id, "bash:run", {"command": f"echo {box.id} {i} > /workspace/n"}, trajectory_id=t)
        server.tool(other.id, "bash:run", {"command": "echo 5 > /workspace/n"}, trajectory_id=t)

        def files(source, **body):
            copy = fork_one(source, **body)
            try:
                return copy.out("cat /workspace/n")
            finally:
                server.destroy(copy.id)

        for step, box in ((1, a), (2, b), (3, a), (4, b)):
            assert files(f"{t}@{step}", server=server) == f"{box.id} {step}\n"
        assert files(a, step=4, trajectory=t) == f"{a.id} 3\n" and files(b, step=3, trajectory=t) == f"{b.id} 2\n"
        # a box that keeps none does not get those of another
        assert "no state was taken" in server.post(f"/sg/v1/states/{t}@5/fork", {}, 404)["error"]["message"]


def test_a_read_only_step_makes_no_state(server):
    with server.box(state="step") as box:
        first = box.run("echo 1 > /workspace/f")["state_id"]
        r = box.tool("file:read", {"path": "/workspace/f"})
        assert "state_id" not in r and box.show()["state_id"] == first


def test_a_step_without_change_makes_no_layer(server):
    with server.box(state="step") as box:
        one = box.run("echo 1 > /workspace/f")["state_id"]
        before = layers(server)
        two = box.run("cat /workspace/f; touch /workspace/new; rm /workspace/new")["state_id"]
        assert layers(server) == before
        a, b = (server.get(f"/sg/v1/states/{x}") for x in (one, two))
        assert a["layers"] == b["layers"] and root(server, one) == root(server, two)


def test_many_steps_keep_the_chain_short_and_the_files_right(server):
    with server.box(state="step") as box:
        done = [box.run(f"echo {i} > /workspace/f; echo {i} >> /workspace/all") for i in range(1, 41)]
        last = server.get(f"/sg/v1/states/{done[-1]['state_id']}")
        assert len(last["layers"]) <= 26
        for i in (1, 24, 25, 26, 40):
            copy = fork_one(done[i - 1]["state_id"], server=server)
            assert copy.out("cat /workspace/f; wc -l < /workspace/all") == f"{i}\n{i}\n"
            server.destroy(copy.id)


# ---- looking into states ----


def rows_of(answer):
    return [(r["change"], r["path"]) for r in answer["rows"]]


def test_diff_tells_what_was_added_changed_and_removed(server):
    with server.box() as box:
        zero = snapshot(box)["state"]
        box.out("cd /workspace && echo 1 > f && echo a > g && mkdir d && echo same > d/same && sudo rm /etc/hostname")
        one = snapshot(box)["state"]
        box.out("cd /workspace && echo 2 >> f && rm g && echo n > d/n && echo back | sudo tee /etc/hostname")
        two = snapshot(box, name=sg.unique("two"))
        r = diff(server, one, two["name"], text=True)
        assert (r["a"], r["b"], r["truncated"]) == (one, two["state"], False)
        assert (r["added"], r["changed"], r["removed"]) == (2, 1, 1)
        assert rows_of(r) == [("added", "etc/hostname"), ("added", "workspace/d/n"), ("changed", "workspace/f"),
                              ("removed", "workspace/g")]
        assert {x["path"]: x["text"] for x in r["rows"]}["workspace/f"] == "@@ -1,1 +1,2 @@\n 1\n+2\n"
        assert not any("text" in x for x in diff(server, one, two["state"])["rows"])
        back = diff(server, two["state"], one)
        assert (back["added"], back["changed"], back["removed"]) == (1, 1, 2)
        assert rows_of(diff(server, two["state"], two["state"])) == []
        assert ("changed", "etc/hostname") in rows_of(diff(server, zero, two["state"]))  # against the bare image
        assert ("added", "etc/hostname") in rows_of(diff(server, one, zero))


def test_diff_works_while_the_root_is_still_being_computed(server):
    with server.box() as box:
        zero = snapshot(box)["state"]
        box.out("head -c 20000000 /dev/urandom > /workspace/large")
        assert rows_of(diff(server, zero, snapshot(box)["state"])) == [("added", "workspace/large")]


def test_diff_between_two_forks(server):
    with server.box() as box:
        box.out("echo base > /workspace/f")
        _, (a, b) = fork(box, n=2)
        a.out("echo a > /workspace/f; touch /workspace/a")
        b.out("touch /workspace/b")
        assert rows_of(diff(server, snapshot(a)["state"], snapshot(b)["state"])) == \
            [("removed", "workspace/a"), ("added", "workspace/b"), ("changed", "workspace/f")]
        for c in (a, b):
            server.destroy(c.id)


def test_diff_and_files_refuse_what_is_not_there(server):
    with server.box() as box:
        state = snapshot(box)["state"]
        diff(server, state, "s-none", status=404)
        diff(server, "s-none", state, status=404)
        server.get(f"/sg/v1/diff?a={state}", 400)
        server.get(f"/sg/v1/diff?a={state}&b={state}&text=yes", 400)
        server.get("/sg/v1/states/s-none/files", 404)


def tar_of(server, state):
    r = server.request("GET", f"/sg/v1/states/{state}/files")
    assert r.status == 200 and r.headers["Content-Type"] == "application/x-tar", r
    return tarfile.open(fileobj=io.BytesIO(r.body))


def test_the_files_of_a_state_come_as_a_tar(server):
    with server.box() as box:
        box.out("cd /workspace && seq 5 > f && ln f hard && ln -s f soft && chmod 4711 f && sudo rm /etc/hostname"
                " && echo t > /tmp/t && head -c 20000000 /dev/zero > zeros")
        state = snapshot(box)["state"]
        box.out("rm -r /workspace/*")
        tar = tar_of(server, state)
        f = tar.getmember("workspace/f")
        assert (f.mode, f.uid, f.gid) == (0o4711, 1000, 1000) and tar.extractfile(f).read() == b"1\n2\n3\n4\n5\n"
        assert tar.getmember("workspace/hard").linkname == "workspace/f" and tar.getmember("workspace/soft").issym()
        assert tar.extractfile("tmp/t").read() == b"t\n" and tar.getmember("workspace/zeros").size == 20000000
        assert tar.extractfile(".sandglass/deleted").read() == b"etc/hostname\0"


def test_a_client_that_leaves_or_is_slow_does_no_harm(server):
    with server.box() as box:
        box.out("head -c 40000000 /dev/urandom > /workspace/large")
        state = snapshot(box)["state"]
        root(server, state)
        before = server.inventory()
        for _ in range(12):  # more than workers are allowed at once: those of clients that left must end
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.sendall(f"GET /sg/v1/states/{state}/files HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                assert s.recv(65536).startswith(b"HTTP/1.1 200")
        slow = socket.create_connection(("127.0.0.1", server.port))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.sendall(f"GET /sg/v1/states/{state}/files HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(0.5)
        assert box.out("echo alive") == "alive\n"
        got = b"".join(iter(lambda: slow.recv(1 << 20), b""))
        slow.close()
        tar = tarfile.open(fileobj=io.BytesIO(got.partition(b"\r\n\r\n")[2]))
        digest = hashlib.sha256(tar.extractfile("workspace/large").read()).hexdigest()
        assert box.out("sha256sum < /workspace/large").split()[0] == digest
        keys = ("descriptors of serve", "descriptors of supervise")
        sg.wait_for(lambda: all(server.inventory()[k] <= before[k] for k in keys), 10)


def test_a_tar_of_a_damaged_state_is_cut_off(server):
    with server.box() as box:
        box.out("mkdir /workspace/d; head -c 3000000 /dev/urandom > /workspace/d/a; echo 1 > /workspace/d/b")
        state = snapshot(box)["state"]
        root(server, state)
        layer_file(server, state, "b").unlink()
        with pytest.raises(http.client.IncompleteRead):
            server.request("GET", f"/sg/v1/states/{state}/files")
        assert cli(server, "checkout", state)[0] == 1


# ---- a restart ----


def test_states_survive_a_restart_of_all_roles():
    with sg.running("--pool-size", "0") as s:
        box = sg.Box(s, s.create())
        box.out("cd /workspace && echo 1 > f && v=7 && sudo rm /etc/hostname")
        state = snapshot(box, name="before")["state"]
        want = root(s, state)
        pids = s.pids()
        for pid in [pids.pop("guard"), *pids.values()]:  # guard first: it would start the others again
            os.kill(pid, signal.SIGKILL)
        s.guard.wait()
        s.start()
        assert s.get(f"/sg/v1/states/{state}")["root"] == want
        copy = fork_one(state, server=s)
        assert copy.out("pwd; cat f; echo $v; ls /etc/hostname 2>&1 | wc -l") == "/workspace\n1\n7\n1\n"
        assert copy.code("test -e /etc/hostname") == 1
        copy.out("rm /workspace/f")
        r = restore(copy, "reset", state="before")
        assert r["proved"] and copy.out("cat /workspace/f") == "1\n"


# ---- the command line ----


def test_the_commands_snapshot_fork_restore_reset_and_states_work(server):
    with server.box() as box:
        box.out("echo 1 > /workspace/f")
        name = sg.unique("cli")
        code, out, err = cli(server, "snapshot", box.id, "--name", name)
        state = out.decode().strip()
        assert code == 0 and re.fullmatch(r"s-[0-9a-f]+", state), err
        box.out("echo 2 > /workspace/f")
        code, out, err = cli(server, "fork", state, "-n", "2")
        copies = [sg.Box(server, x) for x in out.decode().split()]
        assert code == 0 and [c.out("cat /workspace/f") for c in copies] == ["1\n", "1\n"], err
        code, out, err = cli(server, "fork", name)
        copies.append(sg.Box(server, out.decode().strip()))
        assert code == 0 and copies[-1].out("cat /workspace/f") == "1\n", err
        code, out, err = cli(server, "fork", box.id)
        copies.append(sg.Box(server, out.decode().strip()))
        assert code == 0 and copies[-1].out("cat /workspace/f") == "2\n", err
        assert cli(server, "restore", box.id, name)[0] == 0 and box.out("cat /workspace/f") == "1\n"
        assert cli(server, "reset", box.id)[0] == 0 and box.code("test -e /workspace/f") == 1
        assert cli(server, "reset", box.id, state)[0] == 0 and box.out("cat /workspace/f") == "1\n"
        code, out, err = cli(server, "states", box.id)
        assert code == 0 and "STATE" in out.decode(), err
        assert [line.split()[-1] for line in out.decode().splitlines() if line.startswith(state)] == [name]
        code, _, err = cli(server, "restore", box.id, name, "--at", "1")
        assert code == 2 and "not both" in err
        code, _, err = cli(server, "fork", name, "--at", "1")
        assert code == 5 and f"no state '{name}@1'" in err  # a state has no steps
        assert cli(server, "restore", box.id, "s-none")[0] == 5
        assert cli(server, "restore", box.id)[0] == 2
        for command in ("restore", "fork"):
            code, _, err = cli(server, command, box.id, "--at", "9999")
            assert code == 5 and "no step 9999" in err, "a step that has not been yet is no step"
            code, _, err = cli(server, command, box.id, "--at", "x")
            assert code == 2 and "--at 'x': must be a number" in err
        assert cli(server, "fork", box.id, "-n", "0")[0] == 2
        for c in copies:
            server.destroy(c.id)


def test_the_commands_diff_and_checkout_work(server, tmp_path):
    with server.box() as box:
        box.out("echo 1 > /workspace/f; echo 1 > /workspace/g")
        one = snapshot(box)["state"]
        box.out("echo 2 > /workspace/f; rm /workspace/g; touch $'/workspace/new\\nline\\e[31m'")
        two = snapshot(box)["state"]
        code, out, err = cli(server, "diff", one, two)
        assert (code, out) == (0, b"M workspace/f\nD workspace/g\nA workspace/new^Jline^[[31m\n"), err
        code, out, err = cli(server, "diff", one, two, "--text")
        assert code == 0 and out.startswith(b"M workspace/f\n@@ -1,1 +1,1 @@\n-1\n+2\nD workspace/g\n"), out
        assert cli(server, "diff", one, one) == (0, b"", "")
        assert cli(server, "diff", one)[0] == 2 and cli(server, "diff", one, "s-none")[0] == 5
        file = tmp_path / "t.tar"
        assert cli(server, "checkout", one, "-o", str(file)) == (0, b"", "")
        assert tarfile.open(file).extractfile("workspace/g").read() == b"1\n"
        assert os.listdir(tmp_path) == ["t.tar"]
        code, out, err = cli(server, "checkout", two)
        assert code == 0 and "workspace/g" not in tarfile.open(fileobj=io.BytesIO(out)).getnames(), err
        assert cli(server, "checkout", "s-none")[0] == 5


def test_states_that_follow_each_other_at_once_are_hashed_in_their_order(server):
    """Each is worked out from the one before, which had no root yet when it was taken; a reset works it out from the disk."""
    with server.box() as box:
        taken = []
        for i in range(12):
            box.run(f"echo {i} > /workspace/f{i % 3}; rm -f /workspace/f{(i + 1) % 3}")
            taken.append(snapshot(box)["state"])
        roots = [root(server, s) for s in taken]
        assert len(set(roots)) == len(roots)
        for i in (0, 5, 11):
            restore(box, "reset", state=taken[i])
            assert root(server, snapshot(box)["state"]) == roots[i]
