"""Promises of AIO's smaller groups: lists of files, skills, documents, the outbound proxy, hooks, observation."""

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def bash(server, command, **more):
    return server.post("/v1/bash/exec", {"command": command, **more})["data"]


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
