"""The site that browser tests look at: files, and a few answers that files cannot give. It remembers what it was asked."""
import http.server
import json
import threading
import time
import urllib.parse

asked = []


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind="text/html", status=200, headers=()):
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def end_headers(self):
        if self.command == "GET":
            self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        if at.path == "/asked":  # what came, newest last; asking forgets
            rows, asked[:] = asked[:], []
            return self.answer(json.dumps(rows), "application/json")
        asked.append({"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}})
        if at.path == "/api/data":
            return self.answer('{"real": true}', "application/json", headers=[("Access-Control-Allow-Origin", "*")])
        if at.path == "/slow":
            time.sleep(float(at.query or 1))
            return self.answer("slow")
        if at.path.startswith("/redirect"):
            return self.answer("", status=302, headers=[("Location", "/plain.html?redirected")])
        if at.path == "/login":
            return self.answer("<title>In</title>", headers=[("Set-Cookie", "sid=s3cret; HttpOnly; Path=/"), ("Set-Cookie", "seen=yes; Path=/")])
        if at.path == "/file.bin":
            return self.answer(b"0123456789" * 100, "application/octet-stream", headers=[("Content-Disposition", "attachment; filename=file.bin")])
        return super().do_GET()

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked.append({"method": "POST", "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode("latin-1")})
        self.answer("<title>Posted</title>" + body.decode("latin-1"))

    def log_message(self, *what):
        pass


for port in (8000, 8001):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever).start()
