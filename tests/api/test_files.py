"""The file tools, through the own API, in real boxes."""

import base64
import threading
import time

import pytest

import sg

HOME = "/home/gem"


@pytest.fixture(scope="module")
def shared(server):
    with server.box() as b:
        yield b


class Files:
    """The file tools of a box: f.read(path=...) is file:read, and must succeed; f.fail is for the others."""

    def __init__(self, box):
        self.box = box

    def __getattr__(self, verb):
        def call(**params):
            r = self.box.tool("file:" + verb, params)
            assert r["outcome"] == "ok", r
            return r["data"]
        return call

    def fail(self, verb, outcome="task_error", **params):
        r = self.box.tool("file:" + verb, params, status=None)
        assert r["outcome"] == outcome, r
        return r["message"]

    def text(self, path):
        return self.read(path=path)["content"]

    def names(self, verb, **params):
        return [m["path"].removeprefix(HOME + "/") for m in getattr(self, verb)(**params)["matches"]]


@pytest.fixture
def f(shared):
    """An empty home directory."""
    shared.out("cd ~ && chmod -R u+rwX . && find . -mindepth 1 -delete; rm -rf /tmp/* /tmp/.sandglass-undo")
    return Files(shared)


# ---- read ----

@pytest.mark.parametrize("first, last, text", [
    (1, 1, "one\n"), (2, 3, "two\nthree"), (2, None, "two\nthree"), (None, 2, "one\ntwo\n"), (3, 99, "three"), (4, 9, ""),
])
def test_read_returns_the_lines_that_were_asked_for(f, first, last, text):
    f.write(path="a", content="one\ntwo\nthree")
    wanted = {k: v for k, v in (("start_line", first), ("end_line", last)) if v}
    r = f.read(path="a", **wanted)
    assert (r["content"], r["size"], r["lines"], r["path"]) == (text, 13, 3, HOME + "/a")
    assert r["truncated"]


def test_read_of_a_whole_file_is_not_truncated(f):
    f.write(path="a", content="")
    assert f.read(path="a") == {"content": "", "encoding": "utf-8", "path": HOME + "/a", "size": 0, "lines": 0,
                                "truncated": False}


def test_read_refuses_a_range_that_ends_before_it_begins(f):
    f.write(path="a", content="x")
    assert "end_line 1 is before start_line 2" in f.fail("read", "invalid_request", path="a", start_line=2, end_line=1)


def test_read_takes_lines_of_a_file_that_is_larger_than_the_limit(f, shared):
    shared.out("seq 1 6000000 > big")
    assert "LIMIT_FILE_IO" in f.fail("read", path="big")
    r = f.read(path="big", start_line=5999999, end_line=5999999)
    assert (r["content"], r["lines"]) == ("5999999\n", 6000000)
    assert "LIMIT_FILE_IO" in f.fail("read", path="big", start_line=2)


def test_bytes_travel_unchanged_both_ways(f):
    data = bytes(range(256)) * 3
    f.write(path="bin", data=base64.b64encode(data).decode())
    r = f.read(path="bin")
    assert (r["encoding"], base64.b64decode(r["content"])) == ("base64", data)
    assert "not UTF-8" in f.fail("read", "invalid_request", path="bin", encoding="utf-8")
    f.write(path="text", content="h\u00e4\u2192\U0001f600")
    assert base64.b64decode(f.read(path="text", encoding="base64")["content"]).decode() == "h\u00e4\u2192\U0001f600"


def test_files_of_proc_have_content_although_their_size_is_0(f):
    assert f.read(path="/proc/self/status")["content"].startswith("Name:")


# ---- write ----

def test_write_replaces_appends_and_makes_parents(f):
    assert f.write(path="d/e/a", content="12345") == {"path": HOME + "/d/e/a", "bytes": 5, "created": True}
    assert f.write(path="d/e/a", content="6", append=True)["created"] is False
    assert f.text("d/e/a") == "123456"
    f.write(path="d/e/a", content="x")
    assert f.text("d/e/a") == "x"
    assert "No such file" in f.fail("write", path="n/m", content="x", mkdir=False)


def test_write_keeps_mode_and_hard_links(f, shared):
    shared.out("echo old > a; chmod 751 a; ln a b")
    f.write(path="a", content="new")
    assert shared.out("stat -c %a a; cat b") == "751\nnew"
    f.write(path="a", content="newer", mode="600")
    assert f.stat(path="b")["mode"] == "0600"
    for mode in ("8", "7z", "77777", "-1"):
        assert "octal" in f.fail("write", "invalid_request", path="a", content="", mode=mode)


def test_write_asks_for_content(f):
    assert "content is missing" in f.fail("write", "invalid_request", path="a")
    assert "not both" in f.fail("write", "invalid_request", path="a", content="x", data="eA==")


def test_a_full_disk_does_not_cost_the_old_content(server):
    with server.box(disk=16 << 20) as b:
        f = Files(b)
        f.write(path="a", content="precious")
        b.run("dd if=/dev/zero of=fill bs=64k; sync")
        f.fail("write", "disk_full", path="a", content="x" * (4 << 20))
        assert f.text("a") == "precious"


# ---- what is no regular file ----

@pytest.mark.parametrize("tool, params", [
    ("read", {}), ("read", {"start_line": 1}), ("write", {"content": "x"}), ("write", {"content": "x", "append": True}),
    ("replace", {"old": "a", "new": "b"}), ("edit", {"command": "view"}), ("edit", {"command": "create", "file_text": "x"}),
    ("edit", {"command": "str_replace", "old_str": "a", "new_str": "b"}), ("grep", {"pattern": "x"}),
])
@pytest.mark.parametrize("path", ["fifo", "/dev/zero", "/dev/full"])
def test_fifos_and_devices_never_block(f, shared, tool, params, path):
    shared.out("mkfifo fifo")
    assert "regular file" in f.fail(tool, "invalid_request", path=path, **params)


def test_a_fifo_in_a_tree_is_walked_by(f, shared):
    shared.out("mkdir d; mkfifo d/fifo; ln -s fifo d/link; echo needle > d/a")
    assert f.grep(pattern="needle")["count"] == 1
    assert f.names("glob", pattern="d/*") == ["d/a", "d/fifo", "d/link"]
    assert f.copy(source="d", destination="e")["files"] == 3
    assert f.stat(path="e/fifo")["type"] == "fifo"
    assert f.stat(path="e/fifo", follow=False)["type"] == "fifo"


@pytest.mark.parametrize("path, words", [
    ("", "empty"), ("a\0b", "NUL"), ("x" * 5000, "LIMIT"),
])
def test_paths_that_are_none(f, path, words):
    r = f.box.tool("file:read", {"path": path}, status=None)
    assert r["outcome"] == "invalid_request" and (words in r["message"] or "4096" in r["message"]), r


def test_paths_may_begin_with_a_tilde_and_dots(f):
    f.write(path="~/a", content="x")
    for path in ("./a", "a", "~/./a", "/home//gem/./a", HOME + "/a"):
        assert f.read(path=path)["path"] == HOME + "/a"
    assert f.list(path="~")["path"] == HOME


def test_the_users_rights_apply(f):
    assert "Permission denied" in f.fail("write", path="/etc/hostname", content="x")
    assert "Is a directory" in f.fail("read", path=".")
    assert "Not a directory" in f.fail("read", path="/etc/hostname/x")


# ---- list, stat, exists ----

def test_list(f, shared):
    shared.out("mkdir -p d/e; echo 123 > d/a; ln -s a d/l; touch d/.h d/e/z; mkfifo d/p")
    rows = f.list(path="d")["entries"]
    assert [(r["name"], r["type"]) for r in rows] == [("a", "file"), ("e", "directory"), ("l", "symlink"), ("p", "fifo")]
    assert (rows[0]["size"], rows[0]["mode"], rows[2]["target"]) == (4, "0644", "a")
    assert [r["path"] for r in f.list(path="d", recursive=True, hidden=True)["entries"]] == [
        f"{HOME}/d/{x}" for x in (".h", "a", "e", "e/z", "l", "p")]
    some = f.list(path="d", max_entries=2)
    assert len(some["entries"]) == 2 and some["truncated"]
    assert "No such file" in f.fail("list", path="none")
    assert "Not a directory" in f.fail("list", path="d/a")


def test_stat_and_exists(f, shared):
    shared.out("echo 123 > a; chmod 4640 a; ln a b; ln -s a l; ln -s nothing dangling; touch -d @1000000000.5 a")
    s = f.stat(path="l")
    assert (s["type"], s["size"], s["mode"], s["links"], s["uid"], s["mtime"], s["target"]) == (
        "file", 4, "4640", 2, 1000, 1000000000.5, "a")
    assert f.stat(path="l", follow=False)["type"] == "symlink"
    assert "No such file" in f.fail("stat", path="dangling")
    assert f.exists(path="a") == {"path": HOME + "/a", "exists": True, "type": "file"}
    for path in ("none", "dangling", "a/b"):
        assert f.exists(path=path)["exists"] is False


# ---- mkdir, move, copy, delete ----

def test_mkdir(f):
    assert f.mkdir(path="x/y/", mode="700") == {"path": HOME + "/x/y", "created": True}
    assert f.stat(path="x/y")["mode"] == "0700"
    assert f.mkdir(path="x/y")["created"] is False
    assert "File exists" in f.fail("mkdir", path="x/y", parents=False)
    assert "No such file" in f.fail("mkdir", path="p/q", parents=False)
    f.write(path="file", content="")
    assert "File exists" in f.fail("mkdir", path="file")


def test_move(f):
    f.write(path="a", content="1")
    assert f.move(source="a", destination="d/b") == {"source": HOME + "/a", "destination": HOME + "/d/b"}
    assert f.text("d/b") == "1" and not f.exists(path="a")["exists"]
    f.write(path="c", content="2")
    assert "exists already" in f.fail("move", source="c", destination="d/b")
    assert f.text("d/b") == "1"
    f.move(source="c", destination="d/b", overwrite=True)
    assert f.text("d/b") == "2"
    assert f.move(**{"from": "d", "to": "new/"})["destination"] == HOME + "/new/d"
    f.mkdir(path="there")
    assert f.move(source="new/d", destination="there")["destination"] == HOME + "/there/d"
    assert "No such file" in f.fail("move", source="none", destination="x")
    assert "Invalid argument" in f.fail("move", source="there", destination="there/d/e")
    assert "same file" in f.fail("move", "invalid_request", source="there/d/b", destination="there/d/b", overwrite=True)


def test_move_between_file_systems(f, shared):
    shared.out("mkdir -p d/e; echo 1 > d/e/a; ln -s e/a d/l; chmod 500 d/e/a")
    f.move(source="d", destination="/tmp/moved")
    assert shared.out("cat /tmp/moved/l; stat -c %a /tmp/moved/e/a; ls") == "1\n500\n"


def test_copy_preserves_modes_times_and_links(f, shared):
    shared.out("mkdir -p d/e; echo 1 > d/a; chmod 751 d/a; touch -d @1000000000 d/a; ln d/a d/e/hard; ln -s ../a d/e/soft; "
               "ln -s /nowhere d/bad; chmod 500 d/e; chmod 711 d; touch -d @1000000001 d")
    assert f.copy(source="d", destination="c") == {
        "source": HOME + "/d", "destination": HOME + "/c", "files": 4, "directories": 2, "bytes": 2, "skipped": 0}
    assert shared.out("cd ~/c; stat -c '%n %a %F %h %Y' . a; stat -c '%n %a' e; readlink e/soft bad; [ a -ef e/hard ] && echo same; "
                      "[ a -ef ../d/a ] || echo other; cd").split("\n") == [
        ". 711 directory 3 1000000001", "a 751 regular file 2 1000000000", "e 500", "../a", "/nowhere", "same", "other", ""]


def test_copy_refuses_what_would_destroy_or_never_end(f, shared):
    shared.out("mkdir -p d/e; echo 1 > d/a; echo 2 > x; ln -s d s")
    assert "exists already" in f.fail("copy", source="d/a", destination="x")
    assert "is inside" in f.fail("copy", "invalid_request", source="d", destination="d/e")
    assert "is inside" in f.fail("copy", "invalid_request", source="d", destination="s/e/new")
    assert "same file" in f.fail("copy", "invalid_request", source="x", destination="./x", overwrite=True)
    assert "set recursive" in f.fail("copy", "invalid_request", source="d", destination="y", recursive=False)
    assert f.copy(source="d/a", destination="x", overwrite=True)["bytes"] == 2
    assert f.text("x") == "1\n"
    assert f.copy(source="x", destination="d/e")["destination"] == HOME + "/d/e/x"
    shared.out("echo new > d/a; mkdir c; cp -r d c/")
    f.copy(source="d", destination="c", overwrite=True)
    assert f.text("c/d/a") == "new\n"


def test_copy_reads_files_without_a_size(f):
    f.copy(source="/proc/self/status", destination="status")
    assert f.text("status").startswith("Name:")


def test_delete(f, shared):
    shared.out("mkdir -p d/e/f keep; touch d/a d/e/b keep/a; ln -s ../keep d/link; ln -s none dangling; mkdir empty")
    assert "set recursive" in f.fail("delete", path="d")
    assert f.delete(path="d", recursive=True)["deleted"] == 6
    assert f.exists(path="keep/a")["exists"]
    assert f.delete(path="dangling")["deleted"] == 1
    assert f.delete(path="empty/")["deleted"] == 1
    assert "No such file" in f.fail("delete", path="d")
    assert f.delete(path="d", missing_ok=True)["deleted"] == 0
    for path in ("/", "//", "/."):
        assert "refused" in f.fail("delete", path=path, recursive=True)
    assert "Permission denied" in f.fail("delete", path="/usr/share/doc", recursive=True)


def test_delete_of_a_tree_that_is_deeper_than_any_path(f, shared):
    shared.python("import os\nfor i in range(1500):\n  os.mkdir('deep'); os.chdir('deep')\nopen('end', 'w')\n")
    assert f.list(path="deep", recursive=True)["truncated"]
    assert "LIMIT_TREE_DEPTH" in f.fail("copy", source="deep", destination="copy")
    assert f.delete(path="deep", recursive=True)["deleted"] == 1501
    assert not f.exists(path="deep")["exists"]


# ---- glob and find ----

@pytest.fixture
def tree(f, shared):
    shared.out("mkdir -p src/a/b src/.git lib; touch top.py src/x.py src/a/y.py src/a/b/z.py src/a/b/z.txt lib/l.c "
               "src/.git/h.py .hidden.py; ln -s ../src lib/loop; touch 'src/[1].py'")
    return f


@pytest.mark.parametrize("pattern, found", [
    ("*.py", ["top.py"]),
    ("**/*.py", ["src/[1].py", "src/a/b/z.py", "src/a/y.py", "src/x.py", "top.py"]),
    ("src/**/*.py", ["src/[1].py", "src/a/b/z.py", "src/a/y.py", "src/x.py"]),
    ("src/**/b/*", ["src/a/b/z.py", "src/a/b/z.txt"]),
    ("src/*/?.py", ["src/a/y.py"]),
    ("**/*.{txt,c}", ["lib/l.c", "src/a/b/z.txt"]),
    ("{src/a,lib}/*.{py,c}", ["lib/l.c", "src/a/y.py"]),
    ("src/[wxy].py", ["src/x.py"]),
    ("src/\\[1\\].py", ["src/[1].py"]),
    ("src/a/**", ["src/a/b", "src/a/b/z.py", "src/a/b/z.txt", "src/a/y.py"]),
    ("**/b/", ["src/a/b"]),
    ("**/**/**/z.py", ["src/a/b/z.py"]),
    ("lib/loop/x.py", ["lib/loop/x.py"]),
    ("lib/*/x.py", ["lib/loop/x.py"]),
    ("./src/../top.py", ["src/../top.py"]),
    (HOME + "/src/x.*", ["src/x.py"]),
    ("~/lib/*.c", ["lib/l.c"]),
    ("none/*", []), ("{a,b", []),
    ("src/.git/*.py", ["src/.git/h.py"]),
])
def test_glob(tree, pattern, found):
    assert tree.names("glob", pattern=pattern) == found


def test_glob_sorts_and_counts(tree, shared):
    shared.out("touch -d @100 top.py; touch -d @300 src/x.py; touch -d @200 src/a/y.py")
    r = tree.glob(pattern="**/[txy]*.py", sort="mtime", max=2)
    assert [m["name"] for m in r["matches"]] == ["x.py", "y.py"] and (r["total"], r["truncated"]) == (3, True)
    assert tree.names("glob", pattern="*.py", hidden=True) == [".hidden.py", "top.py"]
    assert tree.names("glob", pattern="*.py", path="src/a") == ["src/a/y.py"]
    assert "LIMIT_GLOB_BRACES" in tree.fail("glob", pattern="{a,b}" * 7)
    assert "No such file" in tree.fail("glob", pattern="*", path="none")


def test_find(tree, shared):
    shared.out("truncate -s 5000 src/a/y.py; touch -d '1 hour ago' src/x.py")
    assert tree.names("find", name="*.py", path="src") == ["src/[1].py", "src/a/b/z.py", "src/a/y.py", "src/x.py"]
    assert tree.names("find", type="directory") == ["lib", "src", "src/a", "src/a/b"]
    assert tree.names("find", type="symlink") == ["lib/loop"]
    assert tree.names("find", min_size=4000, type="file") == ["src/a/y.py"]
    assert "src/x.py" not in tree.names("find", changed_within=60)
    assert tree.names("find", max_depth=1, type="file", hidden=True) == [".hidden.py", "top.py"]
    assert tree.find(max=1)["truncated"]


# ---- grep ----

@pytest.fixture
def text(f):
    f.write(path="src/a.py", content="import os\ndef f():\n    return os.getcwd()\n\n# the END\n")
    f.write(path="src/b.txt", content="nothing\nimport nothing\n")
    f.write(path="src/.hidden", content="import hidden\n")
    f.write(path="src/od:d 1-2.txt", content="import odd\r\n")
    return f


def rows(r):
    return [(m["path"].removeprefix(HOME + "/"), m["line"], m.get("column"), m["text"], m["context"]) for m in r["matches"]]


def test_grep_returns_rows(text):
    r = text.grep(pattern=r"^import (\w+)")
    assert rows(r) == [("src/a.py", 1, 1, "import os", False), ("src/b.txt", 2, 1, "import nothing", False),
                       ("src/od:d 1-2.txt", 1, 1, "import odd", False)]
    assert (r["count"], r["files"], r["truncated"]) == (3, 3, False)
    assert text.grep(pattern="no such thing")["matches"] == []


def test_grep_options(text):
    assert rows(text.grep(pattern="end", path="src", case_insensitive=True)) == [("src/a.py", 5, 7, "# the END", False)]
    assert rows(text.grep(pattern="getcwd()", fixed_strings=True)) == [("src/a.py", 3, 15, "    return os.getcwd()", False)]
    assert rows(text.grep(pattern="import", glob="*.py")) == [("src/a.py", 1, 1, "import os", False)]
    assert text.grep(pattern="import", glob="!*.py")["count"] == 2
    assert text.grep(pattern="import", include_hidden=True)["count"] == 4
    assert rows(text.grep(pattern="def", path="src/a.py", context=1)) == [
        ("src/a.py", 1, None, "import os", True), ("src/a.py", 2, 1, "def f():", False),
        ("src/a.py", 3, None, "    return os.getcwd()", True)]
    assert [r[1] for r in rows(text.grep(pattern="def", before=1, after=0))] == [1, 2]
    assert [r[1] for r in rows(text.grep(pattern=r"def f.*cwd", multiline=True))] == [2, 3]
    r = text.grep(pattern="import", max_matches=2)
    assert (len(r["matches"]), r["truncated"]) == (2, True)


def test_grep_says_that_nothing_was_found_although_something_cannot_be_read(text):
    text.box.out("echo needle > ~/shut; chmod 0 ~/shut")
    r = text.grep(pattern="no such thing")
    assert r["matches"] == [] and r["searched"] == 3 and "shut: Permission denied" in r["warnings"]
    assert "Permission denied" in text.fail("grep", path="shut", pattern="needle"), "nothing could be searched"


def test_grep_takes_any_pattern_as_one(text):
    assert text.grep(pattern="--files")["count"] == 0
    assert text.grep(pattern="$(touch /tmp/pwned); `id`", fixed_strings=True)["count"] == 0
    assert not text.exists(path="/tmp/pwned")["exists"]
    assert "regex parse error" in text.fail("grep", pattern="(")
    assert "No such file" in text.fail("grep", pattern="x", path="none")


def test_grep_shortens_lines_and_respects_gitignore(f, shared):
    f.write(path="long", content="x" * 100000 + "\n" + "\u00e4" * 5000 + "\n")
    got = f.grep(pattern="x|\u00e4")["matches"]
    assert got[0]["text"] == "x" * 4096 and got[1]["text"] == "\u00e4" * 2048
    shared.out("mkdir .git; echo long > .gitignore")
    assert f.grep(pattern="x")["count"] == 0
    assert f.grep(pattern="x", no_ignore=True)["count"] == 1


def test_grep_ends_early_on_endless_output(f, shared):
    shared.out("yes needle | head -c 30000000 > big")
    r = f.grep(pattern="needle", max_matches=10)
    assert (r["count"], r["truncated"]) == (10, True)
    r = f.grep(pattern="needle", max_matches=100000)
    assert r["truncated"] and r["count"] <= 100000


def test_grep_says_that_ripgrep_is_missing(server):
    with server.box() as b:
        if b.run("sudo -n mv /usr/bin/rg /usr/bin/rg.away")["data"]["exit_code"] != 0:
            pytest.skip("rg cannot be moved away")
        r = b.tool("file:grep", {"pattern": "x"})
        assert r["outcome"] == "task_error" and "ripgrep" in r["message"], r


# ---- replace and edit ----

def test_replace(f):
    f.write(path="a", content="x y x y x")
    r = f.replace(path="a", old="x", new="zz")
    assert (r["replacements"], r["found"], r["size"], f.text("a")) == (3, 3, 12, "zz y zz y zz")
    assert f.replace(path="a", old="zz", new="", all=False)["replacements"] == 1
    assert f.text("a") == " y zz y zz"
    r = f.replace(path="a", old="y", new="Y", count=1)
    assert (r["replacements"], r["found"]) == (1, 2)
    assert f.replace(path="a", old_str="Y", new_str="$& \\1")["replacements"] == 1
    assert f.text("a") == " $& \\1 zz y zz"
    assert "does not occur" in f.fail("replace", path="a", old="none", new="")
    assert "empty" in f.fail("replace", "invalid_request", path="a", old="", new="x")
    assert "No such file" in f.fail("replace", path="none", old="x", new="")


def test_replace_does_not_grow_beyond_the_limit(f):
    f.write(path="a", content="x" * 100000)
    assert "LIMIT_FILE_IO" in f.fail("replace", path="a", old="x", new="y" * 1000)
    assert f.stat(path="a")["size"] == 100000


def test_edit_views_lines_and_directories(f):
    f.write(path="d/a", content="one\ntwo\nthree\n")
    r = f.edit(command="view", path="d/a")
    assert (r["content"], r["start_line"], r["end_line"], r["lines"]) == (
        "     1\tone\n     2\ttwo\n     3\tthree\n", 1, 3, 3)
    assert f.edit(command="view", path="d/a", view_range=[2, 2])["content"] == "     2\ttwo\n"
    assert f.edit(command="view", path="d/a", view_range=[2, -1])["content"] == "     2\ttwo\n     3\tthree\n"
    assert "beyond the end" in f.fail("edit", command="view", path="d/a", view_range=[9, 10])
    for bad in ([2, 1], [0, 1], [1], [1, 2, 3], ["a", 2], 5, [1.5, 2]):
        assert "view_range" in f.fail("edit", "invalid_request", command="view", path="d/a", view_range=bad)
    f.write(path="d/x/y/z", content="")
    assert f.edit(command="view", path="d/")["content"] == f"{HOME}/d/a\n{HOME}/d/x/\n{HOME}/d/x/y/\n"


def test_edit_str_replace_needs_a_unique_text(f):
    f.write(path="a", content="".join(f"line {i}\n" for i in range(1, 21)))
    r = f.edit(command="str_replace", path="a", old_str="line 10\n", new_str="ten\nten and a half\n")
    assert (r["start_line"], r["end_line"], r["lines"]) == (6, 16, 21)
    assert "    10\tten\n    11\tten and a half\n    12\tline 11\n" in r["content"]
    assert "does not occur" in f.fail("edit", command="str_replace", path="a", old_str="none", new_str="x")
    assert "old_str" in f.fail("edit", "invalid_request", command="str_replace", path="a", new_str="x")
    f.edit(command="str_replace", path="a", old_str="line 20\n")
    assert f.text("a").endswith("line 19\n")


def test_edit_says_how_often_a_text_occurs(f):
    f.write(path="a", content="x\nab ab\nab\n")
    assert "occurs 3 times in /home/gem/a, first in line 2" in f.fail(
        "edit", command="str_replace", path="a", old_str="ab", new_str="c")
    assert f.text("a") == "x\nab ab\nab\n"


@pytest.mark.parametrize("before, old, new, after", [
    ("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", "x\r\ny\r\nz\r\nc\r\n"),
    ("a\r\nb\r\nc\r\n", "b\nc\n", "", "a\r\n"),
    ("a\r\nb\r\nc", "a\r\nb\nc", "x\r\ny\n", "x\r\ny\r\n"),
    ("a\nb\r\na\r\nb\r\n", "a\nb", "x\ny", "x\ny\r\na\r\nb\r\n"),
])
def test_a_text_is_found_in_a_file_with_other_line_ends(f, before, old, new, after):
    for change in (lambda: f.edit(command="str_replace", path="a", old_str=old, new_str=new), lambda: f.replace(path="a", old=old, new=new)):
        f.write(path="a", content=before)
        change()
        assert f.text("a") == after


def test_other_line_ends_are_no_excuse(f):
    f.write(path="a", content="a\r\nb\nc\r\na\r\nb\r\n")
    assert "does not occur" in f.fail("edit", command="str_replace", path="a", old_str="a\nb\nc", new_str="x"), "they are mixed"
    f.write(path="a", content="a\r\nb\r\na\r\nb\r\n")
    assert "occurs 2 times" in f.fail("edit", command="str_replace", path="a", old_str="a\nb\n", new_str="x")
    f.write(path="a", content="a\nb\n")
    assert "does not occur" in f.fail("edit", command="str_replace", path="a", old_str="a\r\nb", new_str="x")


@pytest.mark.parametrize("before, line, new, after", [
    ("a\nb\n", 0, "x\n", "x\na\nb\n"), ("a\nb\n", 1, "x", "a\nx\nb\n"), ("a\nb", 2, "x", "a\nb\nx"),
    ("a\nb\n", 2, "x\ny\n", "a\nb\nx\ny\n"), ("", 0, "x", "x"), ("a\nb\n", 2, "x", "a\nb\nx\n"), ("a\nb", 1, "x", "a\nx\nb"),
])
def test_edit_insert(f, before, line, new, after):
    f.write(path="a", content=before)
    f.edit(command="insert", path="a", insert_line=line, new_str=new)
    assert f.text("a") == after


def test_edit_insert_checks_its_line(f):
    f.write(path="a", content="x\n")
    assert "beyond the end" in f.fail("edit", command="insert", path="a", insert_line=2, insert_text="y")
    assert "insert_line" in f.fail("edit", "invalid_request", command="insert", path="a", new_str="y")
    assert "new_str" in f.fail("edit", "invalid_request", command="insert", path="a", insert_line=0)
    assert "command" in f.fail("edit", "invalid_request", command="destroy", path="a")


def test_undo_goes_back_step_by_step_to_before_the_file(f):
    r = f.edit(command="create", path="d/new", file_text="1\n")
    assert r["created"] and r["undo_left"] == 1
    f.edit(command="insert", path="d/new", insert_line=1, new_str="2\n")
    f.replace(path="d/new", old="2", new="3")
    f.edit(command="create", path="d/new", file_text="4\n")
    assert f.edit(command="str_replace", path="d/new", old_str="4", new_str="5")["undo_left"] == 5
    for expected in ("4\n", "1\n3\n", "1\n2\n", "1\n"):
        f.edit(command="undo_edit", path="./d/new")
        assert f.text("d/new") == expected
    r = f.edit(command="undo_edit", path="d/new")
    assert r["deleted"] and r["undo_left"] == 0 and not f.exists(path="d/new")["exists"]
    assert "no earlier version" in f.fail("edit", command="undo_edit", path="d/new")


def test_undo_history_is_bounded(f, shared):
    f.write(path="a", content="0")
    for i in range(25):
        left = f.edit(command="create", path="a", file_text=str(i + 1))["undo_left"]
        assert left == min(i + 1, 20)
    for i in range(20):
        f.edit(command="undo_edit", path="a")
    assert f.text("a") == "5"
    f.fail("edit", command="undo_edit", path="a")
    for i in range(8):
        f.write(path=f"big{i}", content=str(i) * (6 << 20))
        f.replace(path=f"big{i}", old=str(i), new="x", count=1)
    kept = int(shared.out("du -sb --apparent-size /tmp/.sandglass-undo | cut -f1"))
    assert kept <= (32 << 20) + 8192
    f.edit(command="undo_edit", path="big7")
    assert f.read(path="big7", start_line=1)["content"][0] == "7"
    assert "no earlier version" in f.fail("edit", command="undo_edit", path="big0")


@pytest.mark.parametrize("meanwhile", ["echo more >> a", "printf 2 > a", "rm a"])
def test_undo_takes_back_nothing_but_an_edit(f, shared, meanwhile):
    f.edit(command="create", path="a", file_text="1\n")
    f.edit(command="create", path="a", file_text="2\n")
    shared.out(meanwhile)
    before = shared.out("cat a 2>&1; true")
    for contents in (False, True):
        assert "no longer what its last edit left" in f.fail("edit", command="undo_edit", path="a", contents=contents)
        assert shared.out("cat a 2>&1; true") == before
    f.write(path="a", content="2\n")
    for expected in ("1\n", ""):
        f.edit(command="undo_edit", path="a")
        assert shared.out("cat a 2>/dev/null; true") == expected, "the history is still there"


def test_undo_stops_at_what_was_written_between_edits(f):
    f.edit(command="create", path="a", file_text="1")
    f.write(path="a", content="mine")
    f.edit(command="create", path="a", file_text="2")
    f.edit(command="undo_edit", path="a")
    assert "something else has changed it" in f.fail("edit", command="undo_edit", path="a")
    assert f.text("a") == "mine"


def test_undo_after_an_edit_for_which_there_was_no_room(f, shared):
    path = "/dev/shm/a"
    f.edit(command="create", path=path, file_text="1\n")
    f.edit(command="create", path=path, file_text="2\n")
    try:
        if "No space" not in shared.out("head -c 4G /dev/zero 2>&1 > /dev/shm/fill; true"):
            pytest.skip("no end of /dev/shm")
        f.fail("edit", "disk_full", command="create", path=path, file_text="3" * 100000)
        f.fail("edit", "disk_full", command="create", path="/dev/shm/b", file_text="3" * 100000)
    finally:
        shared.out("rm -f /dev/shm/fill")
    assert f.text(path) == "2\n"
    assert f.edit(command="undo_edit", path="/dev/shm/b")["deleted"], "the empty file that was left of it"
    f.edit(command="undo_edit", path=path)
    assert f.text(path) == "1\n"
    f.edit(command="undo_edit", path=path)
    assert not f.exists(path=path)["exists"]


def test_undo_reads_no_history_of_others(f, shared):
    shared.out("mkdir /tmp/evil; rm -rf /tmp/.sandglass-undo; ln -s /tmp/evil /tmp/.sandglass-undo")
    f.write(path="a", content="1")
    assert f.edit(command="create", path="a", file_text="2")["undo_left"] == 0
    assert "no earlier version" in f.fail("edit", command="undo_edit", path="a")
    assert f.text("a") == "2"


# ---- all of them ----

def test_work_of_many_at_once_stays_in_its_own_box(server):
    wrong = []

    def work(n):
        w = sg.unique("files")
        server.session(w, "file")
        for i in range(5):
            mark = f"{n}-{i}"
            server.execute(w, "file:write", {"path": "mark", "content": mark})
            got = server.execute(w, "file:read", {"path": "mark"})["data"]["content"]
            hits = server.execute(w, "file:grep", {"pattern": "."})["data"]["matches"]
            if got != mark or [h["text"] for h in hits] != [mark]:
                wrong.append((mark, got, hits))
        server.disconnect(w)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_every_tool_has_a_schema_and_names_a_wrong_parameter(server):
    tools = [t for t in server.get("/sg/v1/tools")["tools"] if t["backend"] in ("file", "code")]
    assert {t["name"] for t in tools} >= {"file:" + x for x in "read write list stat exists mkdir move copy delete glob find "
                                          "grep replace edit".split()}
    for t in tools:
        assert t["description"] and "properties" in t["parameters"]
        required = t["parameters"].get("required", [])
        if t["name"] in ("file:upload", "file:download", "file:upload_tar", "file:download_tar"):
            required = ["byte stream"]  # they need one, and say so first
        r = server.execute("w-schema", t["name"], {"no_such_parameter": 1}, status=None)
        assert r["code"] in (4002, 4003) and ("no_such_parameter" in r["message"] or any(x in r["message"] for x in required)), r


def test_grep_takes_patterns_of_paths_below_its_directory(f, shared):
    shared.out("mkdir -p ~/tree/src/deep ~/tree/lib; cd ~/tree; for d in . src src/deep lib; do echo word > $d/f.py; done")
    found = lambda **more: [name.removeprefix("tree/") for name in f.names("grep", path="tree", pattern="word", **more)]  # noqa: E731
    assert found() == ["f.py", "lib/f.py", "src/deep/f.py", "src/f.py"]
    assert found(include=["src/*.py"]) == found(glob="src/*.py") == ["src/f.py"]
    assert found(include=["src/**"]) == ["src/deep/f.py", "src/f.py"]
    assert found(exclude=["src/**", "/f.py"]) == ["lib/f.py"]
    assert found(exclude=["src/deep"]) == ["f.py", "lib/f.py", "src/f.py"]
    assert len(f.grep(path="tree/src/f.py", pattern="word")["matches"]) == 1


def test_grep_takes_the_end_of_a_line_with_a_carriage_return_for_one(f, shared):
    shared.out("printf 'one\\r\\ntwo\\r\\n' > ~/crlf; printf 'one\\ntwo\\n' > ~/lf")
    for name in ("crlf", "lf"):
        assert [(r["line"], r["text"]) for r in f.grep(path=name, pattern="^two$")["matches"]] == [(2, "two")]
