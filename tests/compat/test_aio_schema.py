"""Every operation of the AIO groups, called with defaults only, fully set, and wrong; each reply is held against the
OpenAPI file of the original, and our own file against that one. The original's file lies beside the project; without it
these tests say so."""

import base64
import io
import json
import pathlib
import re
import zipfile

import pytest

import aio_schema
import sg

SPEC = pathlib.Path(__file__).resolve().parents[3] / "shared" / "contracts" / "aio-openapi-1.9.4.json"
GROUPS = ("sandbox", "shell", "bash", "file", "util", "skills", "proxy")
BROWSER = ("browser", "browser.page", "browser.tabs", "browser.cookies", "browser.state", "browser.network", "browser.captcha")  # called in test_aio_browser.py
STREAMS = {"/v1/file/upload", "/v1/file/download", "/v1/file/watch/{watcher_id}/events", "/v1/sandbox/observe/reports/{report_id}"}
SKILLS = {"/v1/skills/register", "/v1/skills/{name}", "/v1/skills/{name}/content"}  # below: they need a form

# path, method: (defaults only, fully set). A callable makes the body from what earlier calls returned.
S, F, B = "/v1/shell", "/v1/file", "/v1/bash"
CALLS = [
    ("GET", "/v1/sandbox", None, None),
    ("GET", "/v1/sandbox/packages/python", None, None),
    ("GET", "/v1/sandbox/packages/nodejs", None, None),
    ("POST", "/v1/sandbox/hooks", {"name": "one", "command": "true"},
     {"name": "two", "command": "true", "event": "shutdown", "timeout": 1.5, "priority": 1}),
    ("GET", "/v1/sandbox/hooks", None, "?event=shutdown"),
    ("DELETE", "/v1/sandbox/hooks/{name}", {"name": "one"}, {"name": "two"}),
    ("GET", "/v1/sandbox/observe/status", None, None),
    ("GET", "/v1/sandbox/observe/live", None, "?top_rows=2"),
    ("POST", "/v1/sandbox/observe/start", None, None),
    ("POST", "/v1/sandbox/observe/stop", None, None),
    ("POST", "/v1/sandbox/observe/start", {"mode": "guardrail", "idempotency_key": "k", "duration_seconds": 60,
                                           "interval_seconds": 0.5, "include_processes": True, "include_disk": False}, None),
    ("POST", "/v1/sandbox/observe/export", None, {"idempotency_key": "e", "reason": "test"}),
    ("GET", "/v1/sandbox/observe/reports", None, None),
    ("POST", S + "/sessions/create", None, {"id": "s1", "exec_dir": "/tmp", "no_change_timeout": 60, "preserve_symlinks": True}),
    ("POST", S + "/exec", {"command": "echo hi"},
     {"id": "s1", "command": "echo $V; pwd; false", "exec_dir": "/usr", "async_mode": False, "timeout": 20, "strict": True,
      "no_change_timeout": 20, "hard_timeout": 20, "preserve_symlinks": False, "truncate": False, "env": {"V": "x"}}),
    ("POST", S + "/view", {"id": "s1"}, None),
    ("POST", S + "/wait", {"id": "s1"}, {"id": "s1", "seconds": 1, "max_wait_seconds": 1}),
    ("POST", S + "/write", {"id": "s1", "input": "", "press_enter": False}, None),
    ("POST", S + "/kill", {"id": "s1"}, None),
    ("POST", S + "/sessions/update", {"id": "s1"}, {"id": "s1", "no_change_timeout": 30}),
    ("GET", S + "/terminal-url", None, None),
    ("GET", S + "/sessions/stats", None, None),
    ("GET", S + "/sessions", None, None),
    ("DELETE", S + "/sessions/{session_id}", {"session_id": "s1"}, None),
    ("DELETE", S + "/sessions", None, None),
    ("POST", B + "/sessions/create", None, {"session_id": "b1", "exec_dir": "/tmp", "snapshot_path": "/dev/null"}),
    ("POST", B + "/exec", {"command": "echo hi"},
     {"session_id": "b1", "command": "cat; echo $V", "exec_dir": "/usr", "env": {"V": "x"}, "async_mode": True,
      "timeout": 9, "hard_timeout": 30, "max_output_length": 100}),
    ("POST", B + "/write", {"session_id": "b1", "input": "x\n"}, {"session_id": "b1", "input": "y\n", "eof": True}),
    ("POST", B + "/output", {"session_id": "b1"},
     {"session_id": "b1", "offset": 1, "stderr_offset": 0, "wait": True, "wait_timeout": 5}),
    ("POST", B + "/kill", {"session_id": "b1"}, {"session_id": "b1", "signal": "SIGKILL"}),
    ("GET", B + "/sessions", None, None),
    ("POST", B + "/sessions/{session_id}/close", {"session_id": "b1"}, None),
    ("POST", F + "/write", {"file": "/tmp/f/a.txt", "content": "one\ntwo\n"},
     {"file": "/tmp/f/b.txt", "content": "dGhyZWU=", "encoding": "base64", "append": True, "leading_newline": False,
      "trailing_newline": False, "sudo": False}),
    ("POST", F + "/read", {"file": "/tmp/f/a.txt"}, {"file": "/tmp/f/a.txt", "start_line": 0, "end_line": 1, "sudo": True}),
    ("POST", F + "/replace", {"file": "/tmp/f/a.txt", "old_str": "two", "new_str": "2"},
     {"file": "/tmp/f/a.txt", "old_str": "2", "new_str": "two", "sudo": False}),
    ("POST", F + "/search", {"file": "/tmp/f/a.txt", "regex": "t.o"}, {"file": "/tmp/f/a.txt", "regex": "^o", "sudo": False}),
    ("POST", F + "/find", {"path": "/tmp/f", "glob": "*.txt"}, None),
    ("POST", F + "/grep", {"path": "/tmp/f", "pattern": "o"},
     {"path": "/tmp/f", "pattern": "O", "include": ["*.txt"], "exclude": ["b*"], "case_insensitive": True,
      "fixed_strings": True, "context_before": 1, "context_after": 1, "max_results": 5, "max_file_size": "2M",
      "multiline": False, "offset": 0, "type": "txt", "recursive": True}),
    ("POST", F + "/glob", {"path": "/tmp/f", "pattern": "**/*"},
     {"path": "/tmp/f", "pattern": "*", "exclude": ["b*"], "include_hidden": True, "files_only": False,
      "include_metadata": False, "max_results": 10, "sort_by": "size", "sort_desc": True}),
    ("POST", F + "/list", {"path": "/tmp/f"},
     {"path": "/tmp", "recursive": True, "show_hidden": False, "file_types": [".txt"], "max_depth": 3,
      "include_size": False, "include_permissions": True, "sort_by": "modified", "sort_desc": True}),
    ("POST", F + "/str_replace_editor", {"command": "view", "path": "/tmp/f/a.txt"},
     {"command": "str_replace", "path": "/tmp/f/a.txt", "old_str": "o", "new_str": "0", "replace_mode": "ALL",
      "view_range": [], "enable_metadata": True}),
    ("POST", F + "/watch", {"path": "/tmp/f"}, {"path": "/tmp/f", "recursive": False, "exclude": [], "debounce": 50,
                                                "include_patterns": ["*.txt"]}),
    ("GET", F + "/watch", None, None),
    ("POST", F + "/watch/wait", {"path": "/tmp/f/a.txt", "timeout": 1, "event_types": ["create"]}, None),
    ("POST", F + "/watch/{watcher_id}/poll", {"watcher_id": "w1"}, {"watcher_id": "w1", "cursor": 0, "limit": 5, "timeout": 0}),
    ("DELETE", F + "/watch/{watcher_id}", {"watcher_id": "w1"}, None),
    ("GET", "/v1/skills/metadatas", None, "?names=none"),
    ("DELETE", "/v1/skills", None, None),
    ("GET", "/v1/proxy/health", None, None),
    ("POST", "/v1/proxy/mappings", {"source": "a.example", "target": "3000"}, {"source": "http://*.b.example:81/x", "target": "127.0.0.1:3001"}),
    ("GET", "/v1/proxy/mappings", None, None),
    ("DELETE", "/v1/proxy/mappings/{source}", {"source": "a.example"}, None),
    ("POST", "/v1/proxy/excludes", {"pattern": "10.0.0.0/8"}, None),
    ("GET", "/v1/proxy/excludes", None, None),
    ("DELETE", "/v1/proxy/excludes", {"pattern": "10.0.0.0/8"}, None),
    ("GET", "/v1/proxy/diagnose", "?url=http://x.b.example:81/x/y", None),
    ("PUT", "/v1/proxy/upstream", {"server": "127.0.0.1:1"}, {"server": "u:p@127.0.0.1:1", "auth_cmd": "echo u:p"}),
    ("GET", "/v1/proxy/upstream", None, None),
    ("DELETE", "/v1/proxy/upstream", None, None),
    ("POST", "/v1/util/convert_to_markdown", {"uri": "data:text/html,<h1>x</h1>"}, {"uri": "file:///tmp/f/a.txt"}),
]

WRONG = [
    ("POST", S + "/exec", None, 422), ("POST", S + "/exec", {"command": 1}, 422), ("POST", S + "/exec", {"command": "x", "id": "none"}, 404),
    ("POST", S + "/view", {"id": "none"}, 404), ("POST", S + "/wait", {}, 422), ("POST", S + "/write", {"id": "x", "input": "y"}, 422),
    ("POST", S + "/kill", {"id": "none"}, 404), ("POST", S + "/sessions/update", {"id": "none"}, 404),
    ("DELETE", S + "/sessions/none", None, 404), ("POST", B + "/exec", {}, 422), ("POST", B + "/output", {"session_id": "none"}, 404),
    ("POST", B + "/write", {"session_id": "none", "input": ""}, 404), ("POST", B + "/kill", {"session_id": "x", "signal": "9"}, 422),
    ("POST", B + "/sessions/none/close", None, 404), ("POST", B + "/exec", {"command": "x", "exec_dir": "/none"}, 400),
    ("POST", F + "/read", {}, 422), ("POST", F + "/write", {"file": "x", "content": "", "encoding": "x"}, 422),
    ("POST", F + "/grep", {"path": "/tmp", "pattern": "x", "context_before": 21}, 422),
    ("POST", F + "/str_replace_editor", {"command": "no", "path": "/"}, 422),
    ("POST", F + "/watch", {"path": "/tmp", "debounce": 1}, 422), ("POST", F + "/watch", {"path": "/none"}, 404),
    ("POST", F + "/watch/none/poll", {}, 404), ("DELETE", F + "/watch/none", None, 404),
    ("POST", "/v1/sandbox/hooks", {"name": "a b", "command": "x"}, 422), ("DELETE", "/v1/sandbox/hooks/none", None, 404),
    ("POST", "/v1/sandbox/observe/start", {"mode": "off"}, 422), ("DELETE", "/v1/sandbox/observe/reports/none", None, 404),
    ("POST", "/v1/util/convert_to_markdown", {"uri": "/none"}, 404), ("POST", "/v1/util/convert_to_markdown", {"uri": "ftp://x/y"}, 400),
    ("POST", "/v1/sandbox/hooks", {"name": "no name", "command": "true"}, 422),
    ("POST", F + "/write", {"file": "/tmp/raw", "content": "\u0100", "encoding": "raw"}, 422),
    ("GET", "/v1/none", None, 404), ("PUT", "/v1/shell/exec", None, 405),
]

FILE_FAILURES = [
    (F + "/read", {"file": "/tmp/none"}, "not_found", "ENOENT"), (F + "/read", {"file": "/tmp"}, "invalid_target", "EISDIR"),
    (F + "/write", {"file": "/proc/version", "content": "x"}, "permission_denied", "EACCES"),
    (F + "/read", {"file": "/bin/true"}, "decode_error", "EILSEQ"), (F + "/list", {"path": "/none"}, "not_found", "ENOENT"),
    (F + "/find", {"path": "/none", "glob": "*"}, "not_found", "ENOENT"), (F + "/search", {"file": "/none", "regex": "x"}, "not_found", "ENOENT"),
    (F + "/search", {"file": "/etc/passwd", "regex": "("}, "bad_request", None),
    (F + "/str_replace_editor", {"command": "view", "path": "/none"}, "not_found", "ENOENT"),
    (F + "/read", {"file": "x" * 300}, "invalid_path", "ENAMETOOLONG"),
    # the file is there: what is not in it is no missing file
    (F + "/str_replace_editor", {"command": "str_replace", "path": "/etc/passwd", "old_str": "not in it", "new_str": "x"}, "bad_request", None),
    (F + "/str_replace_editor", {"command": "insert", "path": "/etc/passwd", "insert_line": 10**6, "new_str": "x"}, "bad_request", None),
    (F + "/str_replace_editor", {"command": "undo_edit", "path": "/etc/passwd"}, "bad_request", None),
]


@pytest.fixture(scope="module")
def spec():
    if not SPEC.exists():
        pytest.skip("the original's OpenAPI file is not here")
    return json.loads(SPEC.read_text())


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


def answer_schema(spec, method, path, status="200"):
    content = spec["paths"][path][method.lower()]["responses"][status].get("content", {})
    return content.get("application/json", {}).get("schema", {})


def operations(spec, groups=GROUPS):
    for path, methods in spec["paths"].items():
        for method, op in methods.items():
            if op.get("x-fern-sdk-group-name") in groups:
                yield method.upper(), path, op


def call(server, method, path, given):
    if isinstance(given, str):
        return server.request(method, path + given)
    body = dict(given) if given is not None else None
    for name in list(body or {}):
        if "{%s}" % name in path:
            path = path.replace("{%s}" % name, body.pop(name))
    return server.request(method, path, body or None)


def test_every_reply_fits_the_original_schema(server, spec):
    called = set()
    for method, path, *variants in CALLS:
        for given in (variants if variants[1] is not None else variants[:1]):
            reply = call(server, method, path, given)
            assert reply.status == 200, (method, path, given, reply.body)
            body = reply.json
            assert body["success"] is True, (path, given, body)
            problems = aio_schema.errors(spec, answer_schema(spec, method, path), body)
            assert not problems, (path, given, problems, body)
        called.add((method, path))
    known = {(m, p) for m, p, op in operations(spec)}
    assert not {c for c in known - called if c[1] not in STREAMS | SKILLS}


def test_wrong_calls_are_answered_in_the_right_shape(server, spec):
    for method, path, body, status in WRONG:
        reply = server.request(method, path, body)
        assert reply.status == status, (method, path, body, reply.status, reply.body)
        answer = reply.json
        assert answer["success"] is False and answer["data"] is None and answer["message"]
        if status == 422:
            schema = {"$ref": "#/components/schemas/HTTPValidationError"}
            assert not aio_schema.errors(spec, schema, answer)
            assert answer["detail"][0]["loc"] == answer["errors"][0]["location"]
            name = answer["detail"][0]["msg"].split(":")[0]
            assert name not in (body or {}) or answer["detail"][0]["loc"][-1] == name, "a message about a field has its place"


def test_file_failures_are_200_with_a_file_operation_error(server, spec):
    for path, body, kind, name in FILE_FAILURES:
        answer = server.post(path, body)
        data = answer["data"]
        assert answer["success"] is False and (data["error_type"], data["errno_name"]) == (kind, name), (path, body, answer)
        assert not aio_schema.errors(spec, {"$ref": "#/components/schemas/FileOperationError"}, data)


def body_schema(op):
    content = op.get("requestBody", {}).get("content", {})
    return next((c["schema"] for c in content.values()), None)


def test_our_openapi_covers_every_operation_of_the_original(server, spec):
    ours = server.get("/v1/openapi.json")
    lacking = []
    for method, path, op in operations(spec, GROUPS + BROWSER + ("display",)):
        mine = ours["paths"].get(path, {}).get(method.lower())
        if not mine:
            lacking.append(f"{method} {path}")
            continue
        assert mine["x-fern-sdk-method-name"] == op["x-fern-sdk-method-name"], path
        theirs = {p["name"]: p for p in op.get("parameters", [])}
        here = {p["name"]: p for p in mine.get("parameters", [])}
        for name, p in theirs.items():
            if name not in here or here[name]["in"] != p["in"]:
                lacking.append(f"{method} {path}: parameter {name}")
        lacking += compare(spec, body_schema(op), ours, body_schema(mine), f"{method} {path} body", request=True)
        lacking += compare(spec, answer_schema(spec, method, path), ours, answer_schema(ours, method, path), f"{method} {path}")
    assert not lacking, "\n".join(lacking)


def compare(spec, theirs, ours, mine, where, request=False, depth=0):
    if theirs is None or depth > 6 or not aio_schema.members(spec, theirs):
        return []
    found = []
    have = aio_schema.members(ours, mine or {})
    for name, schema in aio_schema.members(spec, theirs).items():
        if name not in have:
            found.append(f"{where}.{name}")
            continue
        a, b = aio_schema.kinds(spec, schema), aio_schema.kinds(ours, have[name])
        if "any" not in a | b and not a - {"null"} <= b:
            found.append(f"{where}.{name}: {sorted(a)} against {sorted(b)}")
        found += compare(spec, schema, ours, have[name], f"{where}.{name}", request, depth + 1)
        rows = aio_schema.items(spec, schema)
        if rows is not None:
            found += compare(spec, rows, ours, aio_schema.items(ours, have[name]), f"{where}.{name}[]", request, depth + 1)
    return found


def test_the_page_of_the_api_needs_nothing_from_elsewhere(server):
    page = server.request("GET", "/v1/docs")
    text = page.body.decode()
    assert page.status == 200 and "/v1/shell/exec" in text
    assert "at most 30000 characters of output; unless given true<" in text and "true length of the output<" in text, "defaults of what it takes"
    heads = re.findall("<h2 id=([^>]*)>", text)
    assert len(heads) > 5 and len(heads) == len(set(heads)) and all(f"href=#{h}>" in text for h in heads)
    assert "<script" not in text and "http://" not in text and "https://" not in text


def test_a_skill_is_registered_read_and_removed(server, spec):
    data = base64.b64decode(zipped({"demo/SKILL.md": "---\nname: demo\ndescription: A skill\n---\n# How\n"}))
    form = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="s.zip"\r\n\r\n' + data + b"\r\n--xyz--\r\n"
    reply = server.request("POST", "/v1/skills/register", raw=form, headers={"Content-Type": "multipart/form-data; boundary=xyz"})
    assert reply["data"]["registered"][0]["metadata"]["description"] == "A skill", reply
    assert not aio_schema.errors(spec, answer_schema(spec, "POST", "/v1/skills/register"), reply.json)
    assert "/demo" in server.post("/v1/bash/exec", {"command": "find ~/.skills -name SKILL.md"})["data"]["stdout"]
    content = server.get("/v1/skills/demo/content")
    assert content["data"]["content"].endswith("# How\n")
    assert not aio_schema.errors(spec, answer_schema(spec, "GET", "/v1/skills/{name}/content"), content)
    gone = server.delete("/v1/skills/demo")
    assert not aio_schema.errors(spec, answer_schema(spec, "DELETE", "/v1/skills/{name}"), gone)
    server.get("/v1/skills/demo/content", status=404)
    assert server.get("/v1/skills/metadatas")["data"]["skills"] == []
    link = zipped({"../out/SKILL.md": "x"})
    form = form.replace(data, base64.b64decode(link))
    bad = server.request("POST", "/v1/skills/register", raw=form, headers={"Content-Type": "multipart/form-data; boundary=xyz"})
    assert bad.status == 400 and "leads out of the directory" in bad["message"]


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(name, text)
    return base64.b64encode(out.getvalue()).decode()


def test_documents_become_markdown_in_the_box(server):
    w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    docx = zipped({"word/document.xml": f'<w:document {w}><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Head</w:t>'
                   '</w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:body></w:document>'})
    r = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    xlsx = zipped({"xl/workbook.xml": f'<workbook {r}><sheets><sheet name="One" r:id="r1"/></sheets></workbook>',
                   "xl/_rels/workbook.xml.rels": '<Relationships><Relationship Id="r1" Target="worksheets/s.xml"/></Relationships>',
                   "xl/worksheets/s.xml": '<worksheet><sheetData><row><c r="A1" t="inlineStr"><is><t>a</t></is></c><c r="C1"><v>3</v></c></row>'
                   '<row><c r="A2"><v>1</v></c></row></sheetData></worksheet>'})
    a = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    pptx = zipped({"ppt/presentation.xml": "<p/>",
                   "ppt/slides/slide1.xml": f'<s {a}><a:txBody><a:p><a:r><a:t>Title</a:t></a:r></a:p></a:txBody></s>'})
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + (3).to_bytes(4, "big") + (5).to_bytes(4, "big")).decode()
    pdf = base64.b64encode(make_pdf("Hello PDF")).decode()
    cases = [("docx", docx, ["# Head", "| cell |"]), ("xlsx", xlsx, ["## One", "| a |  | 3 |"]), ("pptx", pptx, ["# Title"]),
             ("png", png, ["3x5"]), ("csv", base64.b64encode(b"x;y\n1;2\n").decode(), ["| x | y |"]), ("pdf", pdf, ["Hello PDF"])]
    for kind, content, wanted in cases:
        server.post("/v1/file/write", {"file": f"/tmp/doc.{kind}", "content": content, "encoding": "base64"})
        text = server.post("/v1/util/convert_to_markdown", {"uri": f"/tmp/doc.{kind}"})["data"]
        for part in wanted:
            assert part in text, (kind, text)
    view = server.post("/v1/file/str_replace_editor", {"command": "view", "path": "/tmp/doc.xlsx", "row_range": [2, 2]})["data"]
    assert "| 1 |" in view["output"] and "| a |" not in view["output"]


PAGE = """<title>not this</title><h1>Head</h1><ul><li>one<ol><li>first<li>second</ol><li><p>two</p><p>more</p></ul>
<pre><code class="language-py">def f():
    return 1</code></pre><blockquote><p>said</p><p>twice</p></blockquote><script>nor this</script>"""
PAGE_MARKDOWN = """# Head

- one
  1. first
  2. second
- two

  more

```py
def f():
    return 1
```

> said
>
> twice
"""


def test_the_shape_of_a_document_survives(server):
    """Indented code, lists in lists, quotes, emphasis, links, counted items, dates, notes: what a reader of the Markdown needs."""
    w = 'xmlns:w="w" xmlns:r="r"'
    docx = zipped({
        "word/document.xml": f'<w:document {w}><w:body><w:p><w:r><w:t xml:space="preserve">all </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>'
        '<w:r><w:rPr><w:b w:val="0"/><w:i/></w:rPr><w:t xml:space="preserve"> slanted</w:t></w:r><w:hyperlink r:id="l"><w:r><w:t>link</w:t></w:r></w:hyperlink></w:p>'
        '<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr></w:pPr><w:r><w:t>a</w:t></w:r></w:p>'
        '<w:p><w:pPr><w:pStyle w:val="Counted"/></w:pPr><w:r><w:t>b</w:t></w:r></w:p>'
        '<w:p><w:pPr><w:pStyle w:val="ListBullet"/></w:pPr><w:r><w:t>c</w:t></w:r></w:p></w:body></w:document>',
        "word/_rels/document.xml.rels": '<R><R Id="l" Type="x/hyperlink" Target="https://e.test/" TargetMode="External"/></R>',
        "word/styles.xml": f'<w:styles {w}><w:style w:styleId="Counted"><w:pPr><w:numPr><w:numId w:val="7"/></w:numPr></w:pPr></w:style></w:styles>',
        "word/numbering.xml": f'<w:numbering {w}><w:abstractNum w:abstractNumId="3"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="7"><w:abstractNumId w:val="3"/></w:num></w:numbering>'})
    xlsx = zipped({
        "xl/workbook.xml": f'<workbook {w}><sheets><sheet name="One" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<R><R Id="r1" Target="/xl/worksheets/s.xml"/></R>',
        "xl/styles.xml": '<s><numFmts><numFmt numFmtId="170" formatCode="yyyy\\-mm"/><numFmt numFmtId="171" formatCode="0.0 &quot;days&quot;"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/><xf numFmtId="171"/></cellXfs></s>',
        "xl/worksheets/s.xml": '<w><sheetData><row><c r="A1" s="1"><v>45293</v></c><c r="B1" s="2"><v>45293.5</v></c><c r="C1" s="3"><v>45293</v></c>'
        '<c r="D1" t="b"><v>1</v></c><c r="E1"><f>A1+1</f></c></row><row><c r="A2"/></row></sheetData></w>'})
    p = 'xmlns:p="p" xmlns:r="r"'
    pptx = zipped({
        "ppt/presentation.xml": f'<p:x {p}><p:sldIdLst><p:sldId r:id="b"/><p:sldId r:id="a"/></p:sldIdLst></p:x>',
        "ppt/_rels/presentation.xml.rels": '<R><R Id="a" Target="slides/slide1.xml"/><R Id="b" Target="slides/slide2.xml"/></R>',
        "ppt/slides/slide1.xml": f'<p:s {p}><p:tbl><p:tr><p:tc><p:txBody><p:p><p:r><p:t>cell</p:t></p:r></p:p></p:txBody></p:tc></p:tr></p:tbl></p:s>',
        "ppt/slides/slide2.xml": f'<p:s {p}><p:sp><p:txBody><p:p><p:t>body</p:t></p:p></p:txBody></p:sp><p:sp><p:ph type="title"/><p:txBody><p:p><p:t>Top</p:t></p:p></p:txBody></p:sp></p:s>',
        "ppt/slides/_rels/slide2.xml.rels": '<R><R Id="n" Type="x/notesSlide" Target="../notesSlides/n.xml"/></R>',
        "ppt/notesSlides/n.xml": f'<p:n {p}><p:sp><p:ph type="body"/><p:txBody><p:p><p:t>say this</p:t></p:p></p:txBody></p:sp></p:n>'})
    webp = base64.b64encode(b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (29).to_bytes(3, "little") + (19).to_bytes(3, "little")).decode()
    whole = {"html": (base64.b64encode(PAGE.encode()).decode(), PAGE_MARKDOWN),
             "docx": (docx, "all **bold** *slanted*[link](https://e.test/)\n\n1. a\n2. b\n- c\n"),
             "xlsx": (xlsx, "## One\n\n| 2024-01-02 | 2024-01-02 12:00:00 | 45293 | TRUE | =A1+1 |\n| --- | --- | --- | --- | --- |\n"),
             "pptx": (pptx, "<!-- Slide number: 1 -->\n\nbody\n\n# Top\n\n### Notes:\n\nsay this\n\n<!-- Slide number: 2 -->\n\n| cell |\n| --- |\n\n"),
             "webp": (webp, "![shape.webp](/tmp/shape.webp)\n\n- Format: WebP\n- Bytes: 30\n- Size: 30x20 pixels\n")}
    for kind, (content, markdown) in whole.items():
        server.post("/v1/file/write", {"file": f"/tmp/shape.{kind}", "content": content, "encoding": "base64"})
        assert server.post("/v1/util/convert_to_markdown", {"uri": f"/tmp/shape.{kind}"})["data"] == markdown, kind


def make_pdf(text):
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
             b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
             b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    stream = b"BT /F 12 Tf 20 50 Td (%s) Tj ET" % text.encode()
    parts[3] = b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream)
    out, places = b"%PDF-1.4\n", []
    for i, part in enumerate(parts, 1):
        places.append(len(out))
        out += b"%d 0 obj%s\nendobj\n" % (i, part)
    table = b"".join(b"%010d 00000 n \n" % p for p in places)
    return out + b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(out))
