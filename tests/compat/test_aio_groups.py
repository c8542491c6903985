"""Promises of AIO's smaller groups: lists of files, skills, documents, the outbound proxy, hooks, observation."""

import concurrent.futures
import io
import zipfile

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def bash(server, command, **more):
    return server.post("/v1/bash/exec", {"command": command, **more})["data"]


def zipped(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return out.getvalue()


def register(server, archive=None, status=200, **fields):
    parts = [(f'name="{k}"', v.encode()) for k, v in fields.items()] + ([('name="file"; filename="s.zip"', archive)] if archive is not None else [])
    form = b"".join(b"--xyz\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (k.encode(), v) for k, v in parts) + b"--xyz--\r\n"
    return server.post("/v1/skills/register", raw=form, status=status, headers={"Content-Type": "multipart/form-data; boundary=xyz"})


def skills(server):
    return {s["name"]: s for s in server.get("/v1/skills/metadatas")["data"]["skills"]}


def at_once(n, what):
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return list(pool.map(what, range(n)))


def test_a_link_to_a_directory_is_listed_as_the_directory_it_leads_to(server):
    bash(server, "mkdir -p /tmp/l/dir/sub; cd /tmp/l; printf 12345 > file; chmod 600 file; ln -s dir d; ln -s file f; ln -s nowhere n; ln -s . loop")
    found = server.post("/v1/file/list", {"path": "/tmp/l", "recursive": True, "include_permissions": True})["data"]
    rows = {r["path"][len("/tmp/l/"):]: r for r in found["files"]}
    assert set(rows) == {"dir", "dir/sub", "file", "d", "f", "n", "loop"}, "no link is gone into"
    assert {n: r["is_directory"] for n, r in rows.items() if r["link_target"]} == {"d": True, "loop": True, "f": False, "n": False}
    assert rows["f"]["size"] == 5 and rows["f"]["permissions"] == "0600", "what a reader of it will find"
    assert (rows["d"]["link_target"], rows["n"]["link_target"], rows["dir"]["link_target"]) == ("dir", "nowhere", None)
    assert (found["directory_count"], found["file_count"]) == (4, 3)
    globbed = server.post("/v1/file/glob", {"path": "/tmp/l", "pattern": "*"})["data"]["files"]
    assert [f["name"] for f in globbed] == ["f", "file", "n"], "files only"


SKILL = """---
name: %s
description: >-
  Use when: asked
  for it
version: 1.10
enabled: false
allowed-tools: [Bash, "Read"]
metadata:
  author: me # myself
tags:
- a
---
# %s
"""


def test_skills_of_two_archives_do_not_mix(server):
    """Each lies under its own name; registered again it is replaced as a whole; others are left alone."""
    one, two = (register(server, zipped(**{"SKILL.md": SKILL % (n, n), f"{n}.txt": n}))["data"]["registered"][0] for n in ("one", "two"))
    assert (one["path"], two["path"]) == ("/home/gem/.skills/one", "/home/gem/.skills/two")
    assert "# one" in server.get("/v1/skills/one/content")["data"]["content"]
    register(server, zipped(**{"wrapped/SKILL.md": SKILL % ("one", "again")}))
    assert bash(server, "cd ~/.skills; find one two -type f | sort")["stdout"].split() == ["one/SKILL.md", "two/SKILL.md", "two/two.txt"]
    bash(server, "mkdir -p ~/.skills/mine; echo notes > ~/.skills/mine/notes")
    assert register(server, zipped(**{"SKILL.md": SKILL % ("mine", "m")}))["data"]["registered"][0]["path"].endswith("/mine-2")
    assert bash(server, "cat ~/.skills/mine/notes")["stdout"] == "notes\n"
    assert server.delete("/v1/skills")["data"] == {"cleared": 3}
    assert bash(server, "ls ~/.skills")["stdout"] == "mine\n", "what clear forgets is gone, as with delete"


def test_an_archive_that_is_refused_leaves_nothing(server):
    server.delete("/v1/skills")
    good = SKILL % ("s", "s")
    refused = [(zipped(**{"SKILL.md": good}), "..", "name:"), (zipped(**{"SKILL.md": good}), "a/b", "name:"), (zipped(), "x", "file: no SKILL.md"),
               (zipped(README="x"), "", "file: no SKILL.md"), (zipped(**{"SKILL.md": good, "../../evil": "x"}), "", "leads out of the directory"),
               (b"rubbish", "", "file: not a zip"), (zipped(**{"a/SKILL.md": good, "b/SKILL.md": good}), "", "two skills have the name"),
               (zipped(**{"SKILL.md": "x" * (5 << 20)}), "big", "4 MiB")]
    before = bash(server, "find ~ -newer /etc/hostname | sort")["stdout"]
    for archive, name, why in refused:
        assert why in register(server, archive, name=name, status=400)["message"], (name, why)
    assert bash(server, "find ~ -newer /etc/hostname | sort")["stdout"] == before and not skills(server)
    for body, why in (({"path": 5}, "path: expected string"), ([1], "expected object"), ({"file": "x"}, "multipart/form-data")):
        assert why in server.post("/v1/skills/register", body, status=422)["detail"][0]["msg"]


def test_a_skill_is_known_by_what_its_file_says_now(server):
    """The beginning of SKILL.md is YAML; a directory that somebody lays among the skills is one."""
    bash(server, "mkdir -p ~/.skills/hand $'/tmp/wild\\xff'")
    server.post("/v1/file/write", {"file": "/home/gem/.skills/hand/SKILL.md", "content": SKILL % ("hand", "h")})
    assert skills(server)["hand"]["metadata"] == {
        "name": "hand", "description": "Use when: asked for it", "version": "1.10", "enabled": False, "allowed-tools": ["Bash", "Read"],
        "metadata": {"author": "me"}, "tags": ["a"]}
    server.post("/v1/file/write", {"file": "/home/gem/.skills/hand/SKILL.md", "content": "---\nname: hand\nversion: 2\n---\n"})
    assert skills(server)["hand"]["metadata"]["version"] == 2
    server.post("/v1/file/write", {"file": "/tmp/wild\uefff/SKILL.md", "content": "no front\n"})
    assert server.post("/v1/skills/register", {"path": "/tmp/wild\uefff"})["data"]["registered"][0]["path"] == "/tmp/wild\uefff"
    assert server.get("/v1/skills/wild%EE%BF%BF/content")["data"]["content"] == "no front\n"
    script = zipfile.ZipInfo("run.sh")
    script.external_attr = 0o755 << 16
    register(server, zipped(**{"SKILL.md": SKILL % ("tool", "t")}), path="/tmp/under/here")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("SKILL.md", SKILL % ("runs", "r"))
        z.writestr(script, "#!/bin/sh\necho it runs\n")
    register(server, out.getvalue())
    assert bash(server, "~/.skills/runs/run.sh; ls /tmp/under/here")["stdout"] == "it runs\nSKILL.md\n"


def test_skills_that_are_registered_at_once_are_all_there(server):
    bash(server, "for i in 0 1 2 3 4 5 6 7; do mkdir -p /tmp/many/m$i; echo x > /tmp/many/m$i/SKILL.md; done")
    at_once(8, lambda i: server.post("/v1/skills/register", {"path": f"/tmp/many/m{i}"}))
    assert {f"m{i}" for i in range(8)} <= set(skills(server))
