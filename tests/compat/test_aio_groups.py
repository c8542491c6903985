"""Promises of AIO's smaller groups: lists of files, skills, documents, the outbound proxy, hooks, observation."""

import base64
import concurrent.futures
import gzip
import io
import json
import time
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


def test_with_the_last_skill_of_an_archive_goes_all_of_it(server):
    server.delete("/v1/skills")
    before = bash(server, "ls ~/.skills")["stdout"]
    files = {"README.md": "x", "shared/lib.py": "x", "a/SKILL.md": SKILL % ("a", "a"), "b/SKILL.md": SKILL % ("b", "b")}
    assert register(server, zipped(**files), name="pack")["data"]["count"] == 2
    server.delete("/v1/skills/a")
    assert bash(server, "cd ~/.skills/pack; find . -type f | sort")["stdout"].split() == ["./README.md", "./b/SKILL.md", "./shared/lib.py"], "b may use it"
    server.delete("/v1/skills/b")
    assert bash(server, "ls ~/.skills")["stdout"] == before
    register(server, zipped(**files))
    assert server.delete("/v1/skills")["data"] == {"cleared": 2}
    assert bash(server, "ls ~/.skills")["stdout"] == before


def test_a_skills_name_or_path_that_is_too_long_is_a_wrong_field(server):
    for body, field in (({"path": "/tmp", "name": "n" * 129}, "name"), ({"path": "/" + "p" * 5000}, "path")):
        for r in (server.post("/v1/skills/register", body, status=422), register(server, status=422, **body)):
            assert r["detail"][0]["loc"] == ["body", field] and r["detail"][0]["msg"].startswith(field + ": "), r


def test_a_snapshot_that_is_not_there_is_told(server):
    create = lambda path, status: server.post("/v1/bash/sessions/create", {"session_id": "snap", "snapshot_path": path}, status=status)  # noqa: E731
    bash(server, "cd /tmp; echo 'sourced=yes' > env.sh; touch closed; sudo chown root closed; sudo chmod 600 closed; mkdir -p dir")
    r = create("tmp/env.sh", 422)
    assert r["detail"][0]["loc"] == ["body", "snapshot_path"] and "absolute" in r["detail"][0]["msg"]
    assert create("/tmp/none", 400)["message"] == "snapshot_path: File does not exist: /tmp/none"
    assert "directory" in create("/tmp/dir", 400)["message"]
    assert "denied" in create("/tmp/closed", 400)["message"]
    assert "snap" not in [s["session_id"] for s in server.get("/v1/bash/sessions")["data"]], "what is refused makes nothing"
    create("/tmp/env.sh", 200)
    assert server.post("/v1/bash/exec", {"session_id": "snap", "command": "echo $sourced"})["data"]["stdout"] == "yes\n"


def test_skills_that_are_links_go_without_what_they_lead_to(server):
    bash(server, "mkdir -p /tmp/far ~/.skills; ln -sT /tmp/far ~/.skills/far; ln -sT /tmp/far ~/.skills/near")
    server.post("/v1/file/write", {"file": "/tmp/far/SKILL.md", "content": SKILL % ("far", "f")})
    assert "far" in skills(server)
    for _ in range(2): # the links have the same name inside
        server.delete("/v1/skills/far")
    assert "far" not in skills(server)
    assert bash(server, "ls ~/.skills; ls /tmp/far")["stdout"].split()[-1] == "SKILL.md"
    bash(server, "ln -sT /tmp/far ~/.skills/far")
    assert register(server, zipped(**{"SKILL.md": SKILL % ("far", "new")}))["data"]["registered"][0]["path"].endswith("/.skills/far")
    assert "# f\n" in bash(server, "cat /tmp/far/SKILL.md; rm -r /tmp/far")["stdout"]
    server.delete("/v1/skills")


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


ECHO = """import http.server, sys
class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        said = ('%s %s %s\\n' % (sys.argv[1], self.path, self.headers.get('Proxy-Authorization', '-'))).encode()
        self.send_response(200); self.send_header('Content-Length', str(len(said))); self.end_headers(); self.wfile.write(said)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Echo).serve_forever()
"""


@pytest.fixture(scope="module")
def proxied(server):
    """A box with a server on port 3000 and, as an upstream, on 3128: each says its port, the path and the credentials it got."""
    box = "/box/" + server.post("/sg/v1/boxes", {}, status=201)["id"]
    server.post(box + "/v1/file/write", {"file": "/tmp/echo.py", "content": ECHO})
    for port in (3000, 3128):
        server.post(box + "/v1/bash/exec", {"command": f"exec python3 /tmp/echo.py {port}", "async_mode": True, "session_id": f"s{port}"})
    server.post(box + "/v1/bash/exec", {"command": "for p in 3000 3128; do until : < /dev/tcp/127.0.0.1/$p; do sleep 0.1; done; done 2>/dev/null"})
    return box + "/v1"


def through(server, proxied, *urls):
    said = server.post(proxied + "/bash/exec", {"command": "curl -s -m 20 -x http://127.0.0.1:8118 " + " ".join(urls)})["data"]
    return said["stdout"].splitlines()


def test_a_mapping_holds_when_it_is_answered(server, proxied):
    """The forms that the specification shows, the closest one wins, and a target's path stands for the source's."""
    for source, target in (("*.app.test", "3000"), ("api.app.test/v1/*", ":3000/base/"), ("whole.test", "127.0.0.1:3000/all"), ("part.test/x", "3000"), ("*", "1")):
        server.post(proxied + "/proxy/mappings", {"source": source, "target": target})
    assert through(server, proxied, "http://some.app.test/a?b=1", "http://api.app.test/v1/c", "http://api.app.test/v2", "http://whole.test/", "http://part.test/x/y") == [
        "3000 /a?b=1 -", "3000 /base/c -", "3000 /v2 -", "3000 /all/ -", "3000 /x/y -"]
    assert "127.0.0.1:1 for part.test" in through(server, proxied, "http://part.test/xyz")[0], "whom it could not reach"
    assert server.get(proxied + "/proxy/diagnose?url=http://api.app.test/v1/c")["data"]["resolved_target"] == "127.0.0.1:3000/base/c"
    server.delete(proxied + "/proxy/mappings/*")
    server.delete(proxied + "/proxy/mappings/api.app.test%2Fv1%2F*")


def test_each_request_goes_its_own_way_through_an_upstream(server, proxied):
    """A client keeps its connection to the proxy; what it asks for next may be mapped."""
    server.post(proxied + "/proxy/mappings", {"source": "here.test", "target": "3000"})
    up = server.request("PUT", proxied + "/proxy/upstream", {"server": "in:line@127.0.0.1:3128", "auth_cmd": "echo asked:f@r"})["data"]
    assert up == {"addr": "127.0.0.1:3128", "username": "asked", "password": "f@r"}
    assert through(server, proxied, "http://far.test/1", "http://here.test/2", "http://far.test/3") == [
        "3128 http://far.test/1 Basic YXNrZWQ6ZkBy", "3000 /2 -", "3128 http://far.test/3 Basic YXNrZWQ6ZkBy"]
    failed = server.request("PUT", proxied + "/proxy/upstream", {"server": "127.0.0.1:3128", "auth_cmd": "echo why >&2; exit 3"})
    assert failed.status == 400 and "exit code 3" in failed["message"] and "why" in failed["message"]
    assert server.get(proxied + "/proxy/upstream")["data"] == up, "as it was"
    server.delete(proxied + "/proxy/upstream")


def test_mappings_that_are_added_at_once_are_all_there(server, proxied):
    at_once(12, lambda i: server.post(proxied + "/proxy/mappings", {"source": f"m{i}.test", "target": "3000"}))
    assert {f"m{i}.test" for i in range(12)} <= {m["source"] for m in server.get(proxied + "/proxy/mappings")["data"]}


def test_an_excluded_domain_is_left_alone_by_the_proxy_and_by_the_browsers_script(server, proxied):
    server.post(proxied + "/proxy/mappings", {"source": "keeps.it.running", "target": "3000"})
    server.request("PUT", proxied + "/proxy/upstream", {"server": "127.0.0.1:3128"})
    for pattern in (".dots.test", "*.stars.test", "plain.test", "127.0.0.0/8"):
        server.post(proxied + "/proxy/excludes", {"pattern": pattern})
    script = server.request("GET", proxied + "/browser/proxy.pac").body.decode()
    for domain in ("dots.test", "stars.test", "plain.test"):
        assert f'dnsDomainIs(host, "." + "{domain}")' in script
        assert server.get(f"{proxied}/proxy/diagnose?url=http://a.{domain}/")["data"]["route"] == "exclude"
    assert through(server, proxied, "http://127.0.0.1:3000/near", "http://far.test/far") == ["3000 /near -", "3128 http://far.test/far -"]
    for pattern in (".dots.test", "*.stars.test", "plain.test", "127.0.0.0/8"):
        server.delete(proxied + "/proxy/excludes", body={"pattern": pattern})
    server.delete(proxied + "/proxy/upstream")


def test_what_the_proxy_cannot_do_is_refused_by_name(server, proxied):
    wrong = [("POST", "mappings", {"source": s, "target": t}, w) for s, t, w in (
        ("a.test", "0", "target:"), ("a.test", "65536", "target:"), ("a.test", "3000\n", "target:"), ("a.test", "host", "target:"), ("a.test:0", "3000", "source:"),
        ("a.test:99999", "3000", "source:"), ("a.test\n", "3000", "source:"), ("ftp://a.test", "3000", "source:"), ("", "3000", "source:"))]
    wrong += [("POST", "excludes", {"pattern": p}, "pattern:") for p in ("10.0.0.0/99", "300.0.0.0/8", "a b", "", "a.test\n")]
    wrong += [("PUT", "upstream", {"server": s}, "server:") for s in ("h:99999", "h", "", "socks5://h:1", "h:1\n")]
    wrong += [("GET", "diagnose?url=" + u, None, "url:") for u in ("", "nohost", "http://[", "http://a:99999/")]
    before = server.get(proxied + "/proxy/mappings")
    for method, path, body, why in wrong:
        r = server.request(method, f"{proxied}/proxy/{path}", body)
        assert r.status == 400 and r["message"].startswith(why), (path, body, r)
    assert server.get(proxied + "/proxy/mappings") == before and server.get(proxied + "/proxy/excludes")["data"] == []


def test_a_program_that_took_the_proxys_port_is_not_taken_for_it(server):
    box = "/box/" + server.post("/sg/v1/boxes", {}, status=201)["id"] + "/v1"
    server.post(box + "/bash/exec", {"command": "cd /tmp && exec python3 -m http.server 8118 --bind 127.0.0.1", "async_mode": True, "session_id": "mine"})
    server.post(box + "/bash/exec", {"command": "until : < /dev/tcp/127.0.0.1/8118; do sleep 0.1; done 2>/dev/null"})
    assert server.get(box + "/proxy/health")["data"]["healthy"], "nothing is asked of the proxy yet"
    server.post(box + "/proxy/mappings", {"source": "app.local", "target": "3000"})
    health = server.get(box + "/proxy/health")["data"]
    assert not health["healthy"] and not health["gost_alive"] and not health["config_consistent"]
    assert health["inconsistencies"] == ["another program listens on port 8118"]
    server.post(box + "/bash/kill", {"session_id": "mine"})

    def is_well():
        return server.get(box + "/proxy/health")["data"]["healthy"]
    sg.wait_for(is_well, 20)  # it is started when somebody asks and the port is free


def markdown(server, name, content, status=200):
    server.post("/v1/file/write", {"file": name, "content": base64.b64encode(content).decode(), "encoding": "base64"})
    return server.post("/v1/util/convert_to_markdown", {"uri": name}, status=status)["data" if status == 200 else "message"]


def test_a_page_is_read_in_the_character_set_that_it_names(server):
    for charset, text in (("gbk", "\u4f60\u597d"), ("Shift_JIS", "\u3053\u3093"), ("windows-1252", "caf\u00e9 \u2013"), ("utf-8", "\u4f60"), ("no-such-set", "\u4f60")):
        raw = f"<meta charset='{charset}'><p>{text}</p>".encode(charset if charset != "no-such-set" else "utf-8")
        assert markdown(server, "/tmp/page.html", raw) == text + "\n", charset
    by_uri = "data:text/html;charset=gbk;base64," + base64.b64encode("<p>\u4f60\u597d</p>".encode("gbk")).decode()
    assert server.post("/v1/util/convert_to_markdown", {"uri": by_uri})["data"] == "\u4f60\u597d\n"
    assert markdown(server, "/tmp/old.txt", b"caf\xe9 \x96") == "caf\u00e9 \u2013"


def test_rows_of_a_csv_file_keep_their_columns(server):
    """Quotes that come late, lines within cells, empty lines, other separators, long cells."""
    rows = "".join(f"{i},plain\r\n" for i in range(600))
    text = markdown(server, "/tmp/late.csv", f'id,note\r\n{rows}\r\n9,"say ""x"", and\r\ny"\r\n'.encode())
    assert text.endswith('| 599 | plain |\n| 9 | say "x", and y |\n') and text.count("\n") == 603
    assert markdown(server, "/tmp/de.csv", b"a;b\n1,5;2,5\n") == "| a | b |\n| --- | --- |\n| 1,5 | 2,5 |\n"
    assert len(markdown(server, "/tmp/long.csv", b"a,b\n1," + b"x" * 200000 + b"\n")) > 200000


def test_emphasis_goes_round_words_and_headings_are_found_in_any_language(server):
    page = "<p>a<b> bold </b>x <i></i><b></b><em>s<b>b</b></em> <a href='/a b'>l</a></p><b><p>one</p><p>two</p></b><b><ul><li>x</ul></b>"
    assert markdown(server, "/tmp/e.html", page.encode()) == "a **bold** x *s**b*** [l](/a%20b)\n\none\n\ntwo\n\n- x\n"
    w = 'xmlns:w="w"'
    docx = zipped(**{
        "word/document.xml": f'<w:document {w}><w:body>' + "".join(f'<w:p><w:pPr><w:pStyle w:val="{s}"/></w:pPr><w:r><w:t>t</w:t></w:r></w:p>' for s in ("1", "berschrift2", "Mine", "Normal"))
        + "</w:body></w:document>",
        "word/styles.xml": f'<w:styles {w}><w:style w:styleId="1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
        '<w:style w:styleId="Mine"><w:name w:val="My own"/><w:basedOn w:val="berschrift2"/></w:style><w:style w:styleId="Normal"><w:name w:val="Normal"/></w:style></w:styles>'})
    assert markdown(server, "/tmp/h.docx", docx) == "# t\n\n## t\n\n## t\n\nt\n"
    book = {"metadata": {"language_info": {"name": "python"}}, "cells": [
        {"cell_type": "markdown", "source": ["# T\n", "x"]}, {"cell_type": "code", "source": "1+1", "outputs": [{"data": {"text/plain": ["2"]}}]}]}
    assert markdown(server, "/tmp/n.ipynb", json.dumps(book).encode()) == "# T\nx\n\n```python\n1+1\n```\n\n```\n2\n```\n"


def test_a_pdf_without_text_says_so(server):
    pdf = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>endobj\ntrailer<</Root 1 0 R>>\n"
    if bash(server, "command -v pdftotext")["exit_code"]:
        pytest.skip("no pdftotext in the image")
    assert markdown(server, "/tmp/blank.pdf", pdf).strip() == ""
    for path, body in (("util/convert_to_markdown", {"uri": "/tmp/blank.pdf"}), ("file/str_replace_editor", {"command": "view", "path": "/tmp/blank.pdf"})):
        r = server.post("/v1/" + path, body)
        assert r["success"] and "no text" in r["hint"], r
    assert server.post("/v1/util/convert_to_markdown", {"uri": "data:text/html,"})["hint"] is None


def test_what_cannot_be_converted_says_why(server):
    bash(server, "printf '<h1>wild</h1>' > $'/tmp/w\\xff.html'; mkfifo /tmp/fifo")
    for uri in ("/tmp/w\uefff.html", "file:///tmp/w%FF.html"):
        assert server.post("/v1/util/convert_to_markdown", {"uri": uri})["data"] == "# wild\n"
    for uri, why in (("", "uri: is empty"), ("/tmp", "/tmp is a directory"), ("/tmp/fifo", "no regular file"), ("data:x", "comma"), ("data:;base64,@@", "not base64")):
        assert why in server.post("/v1/util/convert_to_markdown", {"uri": uri}, status=400)["message"]
    assert "old Office file" in markdown(server, "/tmp/x.doc", b"\xd0\xcf\x11\xe0" + bytes(600), status=400)
    assert "unpack it" in markdown(server, "/tmp/x.zip", zipped(a="b"), status=400)
    assert "known are" in markdown(server, "/tmp/x.bin", bytes(range(256)), status=400)


def test_hooks_run_in_their_order_before_a_box_is_gone():
    """Lower priorities first, the same one at once, none longer than its timeout; another name of the same is another command."""
    place = sg.open_place("hooks")
    place.chmod(0o777)
    with sg.running("--pool-size", "1", "--mount-roots", str(place)) as server:
        box = server.post("/sg/v1/boxes", {"mounts": [{"from": str(place), "to": "/out", "writable": True}]}, status=201)["id"]
        hooks = f"/box/{box}/v1/sandbox/hooks"
        for name, command, priority, timeout in (("last", "echo last >> /out/log", 300, 5), ("slow", "sleep 20; echo never >> /out/log", 200, 0.5), ("same", "echo never", 1, 5),
                                                 ("a", "sleep 0.6; echo two >> /out/log", 2, 5), ("b", "sleep 0.3; echo two >> /out/log", 2, 5), ("same", "echo one >> /out/log", 1, 5)):
            server.post(hooks, {"name": name, "command": command, "priority": priority, "timeout": timeout})
        assert [h["name"] for h in server.get(hooks)["data"]] == ["same", "a", "b", "slow", "last"]
        for body, field in (({"name": "", "command": "x"}, "name"), ({"name": "n", "command": ""}, "command"), ({"name": "n", "command": "x", "timeout": 0}, "timeout")):
            assert server.post(hooks, body, status=422)["detail"][0]["loc"] == ["body", field]
        begun = time.monotonic()
        server.delete(f"/sg/v1/boxes/{box}")
        sg.wait_for(lambda: not server.request("GET", f"/sg/v1/boxes/{box}").status == 200)
        assert (place / "log").read_text().split() == ["one", "two", "two", "last"] and time.monotonic() - begun < 15


def test_a_capture_has_samples_with_processes_of_its_own_session_only(server):
    box = "/box/" + server.post("/sg/v1/boxes", {}, status=201)["id"] + "/v1/sandbox/observe"

    def sampled(**body):
        started = server.post(box + "/start", {"interval_seconds": 0.1, **body})["data"]["session_id"]
        assert (server.get(box + "/status")["data"]["last_sample_at"] or "~") >= server.get(box + "/status")["data"]["started_at"], "not another session's"
        sg.wait_for(lambda: server.get(box + "/status")["data"]["last_sample_at"])
        assert server.post(box + "/stop", {"session_id": started})["data"]["report_ready"]
        report = server.post(box + "/export", {})["data"]["report_id"]
        return json.loads(gzip.decompress(server.request("GET", f"{box}/reports/{report}").body))

    whole, guard = sampled(), sampled(mode="guardrail")
    assert whole["samples"][0]["top_processes"] and whole["samples"][0]["disk"], "what capture is for"
    assert not guard["samples"][0]["top_processes"] and not sampled(include_processes=False)["samples"][0]["top_processes"]
    assert whole["sample_count"] == len(whole["samples"]) and whole["dropped_samples"] == 0


def test_a_package_is_listed_once_in_the_version_that_is_imported(server):
    user = "$(python3 -m site --user-site)"
    bash(server, f"for v in 1 2; do d={user}/twice_it-$v.dist-info; mkdir -p $d; printf 'Name: Twice.it\\nVersion: %s\\n' $v > $d/METADATA; done")
    names = [p["name"] for p in server.get("/v1/sandbox/packages/python")["data"]]
    assert names.count("Twice.it") == 1 and len({n.lower() for n in names}) == len(names)
