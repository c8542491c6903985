"""pip and npm in a box: from an index that listens on the loopback of the box's own network namespace, where nobody else is."""

import pytest

INDEX = r'''
import base64, hashlib, http.server, io, json, sys, tarfile, zipfile
wheel = io.BytesIO()
with zipfile.ZipFile(wheel, "w") as z:
    z.writestr("sgdemo.py", "answer = 42\n")
    z.writestr("sgdemo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sgdemo\nVersion: 1.0\n")
    z.writestr("sgdemo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("sgdemo-1.0.dist-info/RECORD", "sgdemo.py,,\nsgdemo-1.0.dist-info/METADATA,,\nsgdemo-1.0.dist-info/WHEEL,,\nsgdemo-1.0.dist-info/RECORD,,\n")
pack = io.BytesIO()
with tarfile.open(fileobj=pack, mode="w:gz") as t:
    for name, text in (("package/package.json", '{"name": "sgdemo", "version": "1.0.0", "main": "i.js"}'), ("package/i.js", "module.exports = 43;\n")):
        info = tarfile.TarInfo(name); info.size = len(text); t.addfile(info, io.BytesIO(text.encode()))
sha = "sha512-" + base64.b64encode(hashlib.sha512(pack.getvalue()).digest()).decode()
npm = {"name": "sgdemo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "sgdemo", "version": "1.0.0", "main": "i.js",
       "dist": {"tarball": "http://127.0.0.1:8099/sgdemo.tgz", "integrity": sha}}}}
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body, kind = {"/simple/sgdemo/": (b'<a href="/sgdemo-1.0-py3-none-any.whl">sgdemo-1.0-py3-none-any.whl</a>', "text/html"),
                      "/sgdemo-1.0-py3-none-any.whl": (wheel.getvalue(), "application/zip"),
                      "/sgdemo": (json.dumps(npm).encode(), "application/json"),
                      "/sgdemo.tgz": (pack.getvalue(), "application/octet-stream")}.get(self.path, (b"", ""))
        self.send_response(200 if kind else 404); self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8099), H).serve_forever()
'''


@pytest.fixture(scope="module")
def box(server):
    with server.box(memory="1g", disk="256m") as b:
        b.tool("file:write", {"path": "/tmp/index.py", "content": INDEX})
        b.tool("bash:start", {"command": "exec python3 /tmp/index.py"})
        ready = "for i in $(seq 100); do curl -sf http://127.0.0.1:8099/simple/sgdemo/ && exit 0; sleep 0.1; done; exit 1"
        assert b.tool("bash:run", {"command": f"bash -c '{ready}'"}, timeout=60)["data"]["exit_code"] == 0
        yield b


def test_what_pip_and_npm_install_is_there_in_contexts_and_in_a_fork(box, server):
    assert box.tool("code:execute", {"code": "1", "session": "before"}, timeout=60)["outcome"] == "ok"
    r = box.tool("bash:run", {"command": "pip install --quiet --no-cache-dir --disable-pip-version-check "
                                         "--index-url http://127.0.0.1:8099/simple sgdemo"}, timeout=120)
    assert r["data"]["exit_code"] == 0, r
    r = box.tool("bash:run", {"command": "npm install --no-audit --no-fund --registry http://127.0.0.1:8099/ sgdemo"}, timeout=120)
    assert r["data"]["exit_code"] == 0, r
    for session in ("before", "after"):
        r = box.tool("code:execute", {"code": "import sgdemo; sgdemo.answer", "session": session}, timeout=60)
        assert r["data"].get("result") == "42", r
    js = {"code": "require('sgdemo')", "language": "javascript", "session": "js"}
    assert box.tool("code:execute", js, timeout=60)["data"]["result"] == "43"
    listed = box.tool("bash:run", {"command": "pip list --disable-pip-version-check 2>/dev/null | grep sgdemo"}, timeout=60)
    assert "1.0" in listed["data"]["stdout"]
    for language in ("python", "nodejs"):  # a list per box: the next box has nothing of it
        mine = box.tool("system:packages", {"language": language}, timeout=60)["data"]["packages"]
        assert ("sgdemo", "1.0") in [(p["name"], p["version"][:3]) for p in mine], mine
    with server.box() as other:
        assert "sgdemo" not in str(other.tool("system:packages", {"language": "python"}, timeout=60)["data"])
    fork = server.post(f"/sg/v1/boxes/{box.id}/fork", {}, status=201)
    new = fork.get("id") or fork["boxes"][0]["id"]
    try:
        r = server.tool(new, "code:execute", {"code": "import sgdemo; print(sgdemo.answer)"}, timeout=60)
        assert r["data"]["stdout"] == "42\n", r
        assert server.tool(new, "code:execute", js, timeout=60)["data"]["result"] == "43"
    finally:
        server.destroy(new)
