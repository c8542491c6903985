"""Boxes from a repository: cloned by a helper that has the network, at exactly the commit, set up, and reset to that."""

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading

import pytest

import sg
from test_replay import cli, replay


def git(where, *words):
    env = {"PATH": os.environ["PATH"], "HOME": where, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t",
           "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t",
           "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"}
    return subprocess.run(["git", "-C", where, *words], env=env, check=True, capture_output=True, text=True).stdout.strip()


class Repo:
    """Two commits on main, a tag on the first, and a third on a branch of its own."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path + "/src")
        git(path, "init", "-q", "-b", "main", ".")
        self.first = self.commit("src/main.py", "print('one')\n")
        git(path, "tag", "v1")
        self.second = self.commit("src/main.py", "print('two')\n")
        git(path, "checkout", "-q", "-b", "side")
        self.third = self.commit("side.txt", "aside\n")
        git(path, "checkout", "-q", "main")

    def commit(self, name, text):
        with open(os.path.join(self.path, name), "w") as f:
            f.write(text)
        git(self.path, "add", "-A")
        git(self.path, "commit", "-q", "-m", name)
        return git(self.path, "rev-parse", "HEAD")

    @property
    def url(self):
        return "file://" + self.path


@pytest.fixture(scope="module")
def place():
    path = tempfile.mkdtemp(prefix="sg-repo-", dir="/tmp")
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def repo(place):
    return Repo(place + "/allowed/project")


@pytest.fixture(scope="module")
def server(place, repo):
    with sg.running("--pool-size", "1", "--mount-roots", place + "/allowed") as s:
        yield s


def make(server, repo, commit, **more):
    return server.box(repo={"url": repo.url, "commit": commit}, **more)


def test_a_box_begins_at_exactly_the_commit_with_its_network_off(server, repo):
    with make(server, repo, repo.first) as box:
        shown = box.show()
        assert shown["origin"]["repo"] == {"url": repo.url, "commit": repo.first, "head": repo.first}
        assert shown["network"] == "none" and shown["origin"]["work_dir"] == "/workspace"
        assert box.tool("knowlyr:file_read", {"path": "src/main.py"})["data"]["output"] == "print('one')\n"
        assert box.tool("knowlyr:git", {"subcommand": "status", "args": "--porcelain"})["data"]["output"] == ""
        assert box.out("pwd; git rev-parse HEAD; ls /mnt | wc -l") == f"/workspace\n{repo.first}\n0\n"
        assert box.out("tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
        assert [b["id"] for b in server.get("/sg/v1/boxes")["boxes"]] == [box.id]  # the helper is gone, or not shown


@pytest.mark.parametrize("name", ["v1", "side", "short"])
def test_a_commit_may_be_a_tag_a_branch_or_a_prefix(server, repo, name):
    want = {"v1": repo.first, "side": repo.third, "short": repo.second}[name]
    with make(server, repo, repo.second[:8] if name == "short" else name) as box:
        assert box.show()["origin"]["repo"]["head"] == want
        assert box.out("git rev-parse HEAD").strip() == want


def test_reset_is_real_and_goes_back_to_the_commit(server, repo):
    with make(server, repo, repo.first) as box:
        box.out("git checkout -q side && rm -rf src && echo junk > /home/gem/junk && echo x > untracked")
        box.out("git -c user.name=a -c user.email=a commit -q --allow-empty -m mine; sleep 900 >/dev/null 2>&1 & true")
        r = server.post(f"/sg/v1/boxes/{box.id}/reset")
        assert r["id"] == box.id and r["proved"] is True
        assert box.out("pwd; git rev-parse HEAD; git status --porcelain; cat src/main.py") == \
            f"/workspace\n{repo.first}\nprint('one')\n"
        assert box.code("ls /home/gem/junk") != 0 and box.code("pgrep sleep") == 1


def test_setup_commands_run_before_the_box_is_ready_and_again_after_a_reset(server, repo):
    task = {"setup_commands": ["date +%N > built; echo '#' >> src/main.py", "exit 7"]}
    with make(server, repo, repo.first, task=task) as box:
        setup = box.show()["origin"]["setup"]
        assert [s["exit_code"] for s in setup] == [0, 7]
        first = box.out("cat built")
        box.out("rm built; git checkout -q -- .")
        server.post(f"/sg/v1/boxes/{box.id}/reset")
        assert box.out("cat built") != first  # it ran again, not only came back
        assert box.out("git rev-parse HEAD; git diff --stat | wc -l") == f"{repo.first}\n2\n"


def test_the_tests_of_the_task_are_a_tool_and_a_step(server, repo):
    with make(server, repo, repo.first, task={"test_command": "python3 src/main.py && exit 5"}) as box:
        r = box.tool("knowlyr:run_tests")
        assert (r["data"]["output"], r["data"]["exit_code"], r["outcome"]) == ("one\n", 5, "task_error")
        assert server.steps(r["trajectory_id"])[0]["tool"] == "knowlyr:run_tests"
    with make(server, repo, repo.first, task={"language": "python"}) as box:
        assert box.show()["origin"]["test_command"] == "python3 -m pytest"


def test_the_timeout_of_the_task_ends_calls_that_say_none(server, repo):
    with make(server, repo, repo.first, task={"timeout": 0.5}) as box:
        assert box.tool("knowlyr:shell", {"command": "sleep 60"})["data"]["exit_code"] == 124
        assert box.run("sleep 60")["outcome"] == "timeout"
        assert box.tool("knowlyr:shell", {"command": "sleep 1", "timeout": 30})["data"]["success"]


def test_the_variables_of_the_task_are_those_of_every_program(server, repo):
    task = {"env": {"MOOD": "it's $fine", "B": "1"}, "setup_commands": ["echo $MOOD > mood"], "test_command": "echo $MOOD"}
    with make(server, repo, repo.first, task=task) as box:
        want = "it's $fine\n"
        assert box.out("echo $MOOD; cat mood") == want * 2
        assert box.tool("knowlyr:run_tests")["data"]["output"] == want
        r = box.tool("knowlyr:shell", {"command": "echo $MOOD $B", "env": {"B": "2"}})
        assert r["data"]["output"] == "it's $fine 2\n"
        box.out("MOOD=changed")
        assert box.out("echo $MOOD") == "changed\n"  # the shell's own, as in any shell
        server.post(f"/sg/v1/boxes/{box.id}/reset")
        assert box.out("echo $MOOD; cat mood") == want * 2


def test_another_work_directory_is_made_and_used(server, repo):
    with make(server, repo, repo.first, task={"work_dir": "/srv/it's here"}) as box:
        assert box.out("pwd").strip() == "/srv/it's here"
        assert box.tool("knowlyr:file_read", {"path": "src/main.py"})["data"]["success"]
        assert box.tool("knowlyr:shell", {"command": "pwd", "work_dir": "src"})["data"]["output"] == "/srv/it's here/src\n"
        assert box.out("stat -c %U .").strip() == "gem"


def test_forks_know_where_they_come_from(server, repo):
    with make(server, repo, repo.first, task={"test_command": "echo tested"}) as box:
        box.out("echo more > more")
        copy = sg.Box(server, server.post(f"/sg/v1/boxes/{box.id}/fork", {}, 201)["boxes"][0]["id"])
        assert copy.tool("knowlyr:run_tests")["data"]["output"] == "tested\n"
        assert copy.tool("knowlyr:shell", {"command": "cat more"})["data"]["output"] == "more\n"
        server.post(f"/sg/v1/boxes/{copy.id}/reset")
        assert copy.out("git rev-parse HEAD; git status --porcelain") == f"{repo.first}\n"
        server.destroy(copy.id)


def test_a_session_of_another_surface_may_ask_for_a_repository(server, repo):
    server.session("w-repo", "bash", repo={"url": repo.url, "commit": repo.second})
    assert server.execute("w-repo", "bash:run", {"command": "cat src/main.py"})["data"]["stdout"] == "print('two')\n"
    server.disconnect("w-repo")
    r = server.request("POST", "/api/v1/session/create", {"worker_id": "w-repo", "resource_type": "bash", "session_config": {
        "repo": {"url": "https://me:hush@h/r", "commit": "x"}}})
    assert "recorded" in r.body.decode() and "hush" not in r.body.decode()


def test_a_repository_may_come_with_the_request(server, place):
    """A client's own, which the server must not read: no directory of the host is mounted for it."""
    private = Repo(place + "/private")
    bundle = subprocess.run(["git", "-C", private.path, "bundle", "create", "-q", "-", "--all", "HEAD"], check=True,
                            capture_output=True, env={**os.environ, "HOME": place}).stdout
    with server.box(repo={"url": private.url, "commit": private.third,
                          "bundle": base64.b64encode(bundle).decode()}) as box:
        assert box.out("git rev-parse HEAD; git remote get-url origin; ls /tmp/.sandglass-bundle 2>&1 | grep -c cannot") \
            == f"{private.third}\n{private.url}\n1\n"


def test_a_shallow_repository_is_cloned_as_it_is(server, place):
    """As CI checks it out. A bundle does not say where the history ends."""
    whole = Repo(place + "/whole")
    git(place, "clone", "-q", "--depth", "1", whole.url, place + "/shallow")
    for commit in ("HEAD", "main", whole.second[:10]):
        made = cli(server, "create", "--repo", place + "/shallow", "--commit", commit, rc=0).stdout.strip()
        out = cli(server, "exec", made, "git rev-parse HEAD; git log --oneline | wc -l; git status -s; cat src/main.py", rc=0).stdout
        assert out == f"{whole.second}\n1\nprint('two')\n", out
        cli(server, "destroy", made, rc=0)
    r = cli(server, "create", "--repo", place + "/shallow", "--commit", whole.first, rc=4)
    assert "repo.commit" in r.stderr, r.stderr


def test_why_a_repository_of_this_machine_is_not_sent_along_is_said(server, place):
    os.makedirs(place + "/empty")
    git(place + "/empty", "init", "-q", ".")
    for path, word in ((place + "/empty", "git bundle"), (place + "/nowhere", "no such directory")):
        r = cli(server, "create", "--repo", path, "--commit", "HEAD", rc=4)
        assert word in r.stderr and "repo.url: " in r.stderr, r.stderr


@pytest.mark.parametrize("url", ["file:///etc", "/root", "file:///tmp/../root", "file://{place}/allowed/../private"])
def test_no_directory_outside_mount_roots_is_cloned(server, place, repo, url):
    r = server.request("POST", "/sg/v1/boxes", {"repo": {"url": url.format(place=place), "commit": "HEAD"}})
    assert r.status in (400, 403) and "mount" in r["error"]["message"], r


def test_a_link_below_mount_roots_leads_nowhere_else(server, place, repo):
    os.symlink("/root", place + "/allowed/link")
    r = server.request("POST", "/sg/v1/boxes", {"repo": {"url": f"file://{place}/allowed/link", "commit": "HEAD"}})
    assert r.status >= 400, r


@pytest.mark.parametrize("bad, word", [
    ({"repo": {"url": "", "commit": "x"}}, "repo.url"),
    ({"repo": {"url": "https://h/r", "commit": ""}}, "repo.commit"),
    ({"repo": {"url": "https://h/r"}}, "commit"),
    ({"repo": {"url": "ext::sh -c id", "commit": "x"}}, "repo.url"),
    ({"repo": {"url": "--upload-pack=id", "commit": "x"}}, "repo.url"),
    ({"repo": {"url": "https://h/r", "commit": "--help"}}, "repo.commit"),
    ({"repo": {"url": "https://h/r", "commit": "x", "depth": 1}}, "depth"),
    ({"repo": "https://h/r"}, "repo"),
    ({"task": {"work_dir": "../x"}}, "task.work_dir"),
    ({"task": {"work_dir": "/proc/1"}}, "task.work_dir"),
    ({"task": {"setup_commands": [""]}}, "task.setup_commands[0]"),
    ({"task": {"tests": "x"}}, "tests"),
    ({"task": {"timeout": -1}}, "timeout"),
    ({"task": {"env": {"A=B": "x"}}}, "task.env"),
])
def test_bad_settings_are_refused_by_name(server, bad, word):
    r = server.request("POST", "/sg/v1/boxes", bad)
    assert r.status == 400 and word in r["error"]["message"], r


def test_a_clone_that_fails_says_what_git_said_and_leaves_nothing(server, place, repo):
    os.makedirs(place + "/allowed/empty", exist_ok=True)
    before = len(server.get("/sg/v1/boxes")["boxes"])
    r = server.request("POST", "/sg/v1/boxes", {"repo": {"url": f"file://{place}/allowed/empty", "commit": "x"}})
    assert r.status == 400 and "git clone failed" in r["error"]["message"], r
    r = server.request("POST", "/sg/v1/boxes", {"repo": {"url": repo.url, "commit": "0" * 40}})
    assert r.status == 400 and "git checkout failed" in r["error"]["message"], r
    assert len(server.get("/sg/v1/boxes")["boxes"]) == before
    sg.wait_for(lambda: server.get("/sg/v1/status")["boxes"] == before)


def test_what_a_client_may_not_see_is_neither_in_the_box_nor_in_the_log(place):
    """The secret of a URL stays with the helper. The server that would take it is asked in vain: there is none."""
    with sg.running("--pool-size", "0", "--repo-timeout", "20s") as server:
        r = server.request("POST", "/sg/v1/boxes", {"repo": {"url": "https://me:hush-hush@127.0.0.1:1/r", "commit": "x"}})
        assert r.status >= 400 and "hush-hush" not in r.body.decode(errors="replace"), r
        for top, _, names in os.walk(server.home + "/log"):
            for name in names:
                assert b"hush-hush" not in open(os.path.join(top, name), "rb").read()


def test_a_restart_in_the_middle_leaves_no_helper(server, repo):
    def ask():
        with contextlib.suppress(*sg.GONE):
            server.request("POST", "/sg/v1/boxes",
                           {"repo": {"url": repo.url, "commit": "v1"}, "task": {"setup_commands": ["sleep 30"]}})

    threading.Thread(target=ask, daemon=True).start()
    before = {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]}
    sg.wait_for(lambda: any("sleep\0" in sg.read(f"/proc/{p}/cmdline") for p in server.box_pids()), 20)
    server.kill_role("serve")
    server.wait_ready()
    sg.wait_for(lambda: server.get("/sg/v1/status")["boxes"] == len(before), 20)


def test_a_box_from_a_repository_survives_a_restart_with_its_task(server, repo):
    with make(server, repo, repo.first, task={"test_command": "echo still"}) as box:
        box.out("rm -rf src")
        server.kill_role("serve")
        server.wait_ready()
        assert box.tool("knowlyr:run_tests")["data"]["output"] == "still\n"
        server.post(f"/sg/v1/boxes/{box.id}/reset")
        assert box.tool("knowlyr:file_read", {"path": "src/main.py"})["data"]["success"]


def test_a_replay_begins_at_the_same_commit_with_the_same_set_up_here_and_elsewhere(server, repo, place, tmp_path):
    private = Repo(place + "/elsewhere")  # not below mount.roots: the command line sends it along
    task = {"setup_commands": ["echo built > built"], "env": {"MOOD": "fine"}}
    with make(server, repo, "main", task=task) as box:
        box.out("pwd; git rev-parse HEAD; cat built src/main.py; echo $MOOD")
        box.tool("knowlyr:shell", {"command": "pwd; ls; echo $MOOD"})
        trajectory = box.show()["trajectory"]
        later = repo.commit("src/main.py", "print('three')\n")  # main has moved on: the commit is meant, not its name
        assert replay(server, trajectory, rc=0)["counts"]["identical"] == 2
        copy = sg.Box(server, server.post(f"/sg/v1/boxes/{box.id}/fork", {}, 201)["boxes"][0]["id"])
        copy.tool("knowlyr:shell", {"command": "pwd; ls; echo $MOOD"})
        copy.out("pwd; echo $MOOD; echo no > built")
        assert replay(server, copy.show()["trajectory"], rc=0)["counts"]["identical"] == 2
        server.destroy(copy.id)
        git(repo.path, "reset", "-q", "--hard", repo.second)
        assert later != repo.second
    with server.box(repo={"url": "file://" + private.path, "commit": private.first,
                          "bundle": base64.b64encode(subprocess.run(
                              ["git", "-c", "safe.directory=*", "-C", private.path, "bundle", "create", "-q", "-", "--all"],
                              check=True, capture_output=True).stdout).decode()}) as box:
        box.out("git rev-parse HEAD; ls")
        trajectory = box.show()["trajectory"]
    assert replay(server, trajectory, rc=0)["counts"]["identical"] == 1  # from the clone that is there
    cli(server, "export", trajectory, "--format", "sandglass", "-o", tmp_path / "t.json", rc=0)
    with sg.running("--pool-size", "0") as other:
        assert replay(other, tmp_path / "t.json", rc=0)["counts"]["identical"] == 1


def test_a_lost_box_from_a_repository_goes_on_in_another_one_with_its_task(server, repo):
    t, w, new = sg.unique("t"), sg.unique("w"), sg.unique("w")
    server.session(w, state="step", repo={"url": repo.url, "commit": repo.first},
                   task={"env": {"MOOD": "fine"}, "setup_commands": ["echo b > built"]})
    commands = ["pwd; ls; echo $MOOD", "echo 1 > n"]
    first = [server.execute(w, "bash:run", {"command": c}, trajectory_id=t) for c in commands]
    box = first[0]["meta"]["box_id"]
    os.kill(server.init_pid(box), signal.SIGKILL)
    sg.wait_for(lambda: box not in {b["id"] for b in server.get("/sg/v1/boxes")["boxes"]})
    again = [server.execute(new, "bash:run", {"command": c}, trajectory_id=t, fast_forward=True) for c in commands]
    assert [r["data"] for r in again] == [r["data"] for r in first]
    r = server.execute(new, "bash:run", {"command": "pwd; cat n built; echo $MOOD"}, trajectory_id=t, fast_forward=True)
    assert r["data"]["stdout"] == "/workspace\n1\nb\nfine\n"
    server.disconnect(new)
    server.disconnect(w)
