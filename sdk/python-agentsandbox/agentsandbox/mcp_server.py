"""knowlyr's MCP server on stdin and stdout: the server's own at /mcp, with knowlyr's tools.

    python -m agentsandbox.mcp_server

Requests run beside each other, so that one that takes long can be asked about and cancelled. What the server says by
itself (lists that changed, messages) is passed on, too.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from .client import Client

AT_ONCE = 64
BEGIN_SECONDS = 0.5  # a server that answers by events has begun by then


def _answers(reply: Any) -> Iterator[str]:
    """The messages of an answer: one JSON, or a stream of events."""
    if reply.headers.get("Content-Type", "").startswith("text/event-stream"):
        for line in reply:
            if line.startswith(b"data: {"):
                yield line[6:].decode().strip()
        return
    text = reply.read().decode().strip()
    if text:
        yield text


def _error(key: Any, text: str, code: int = -32603) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": text}})


def _described(message: dict[str, Any]) -> dict[str, str]:
    """Since 2026-07-28 what a request is stands in headers, too; on stdin there are none. Empty: it is an older one."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    version = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
    method = message.get("method")
    if not isinstance(version, str) or not isinstance(method, str):
        return {}
    if not (version + method).isascii() or not (version + method).isprintable():
        return {}
    name = params.get("uri" if method == "resources/read" else "name")
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
    if isinstance(name, str):
        headers["Mcp-Name"] = "=?base64?" + base64.b64encode(name.encode()).decode() + "?="
    return headers


class _Open:
    """A request that has no answer yet."""

    def __init__(self) -> None:
        self.begun, self.cancelled = threading.Event(), False
        self.headers: dict[str, str] = {}
        self.reply: Any = None
        self.listens = False

    def give_up(self) -> None:
        """Without a session, hanging up is what cancels."""
        self.cancelled = True
        if self.headers and self.reply:
            with contextlib.suppress(AttributeError, OSError):
                self.reply.fp.raw._sock.shutdown(socket.SHUT_RDWR)


class _Bridge:
    def __init__(self, out: TextIO, url: str | None) -> None:
        self.client, self.out = Client(url), out
        self.session: str | None = None
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.lock = threading.Lock()  # of out and of open
        self.open: dict[str, _Open] = {}
        self.room = threading.Semaphore(AT_ONCE)
        self.threads: list[threading.Thread] = []

    def put(self, text: str, about: _Open | None = None) -> None:
        """What came of a cancelled request is not told, also if it crossed the cancellation on its way."""
        with self.lock:
            if not about or not about.cancelled:
                print(text, file=self.out, flush=True)

    def ask(self, method: str, line: str | None = None, described: dict[str, str] | None = None) -> Any:
        headers = {"Accept": "application/json, text/event-stream", **(described or {})}
        if line is not None:
            headers["Content-Type"] = "application/json"
        if self.session and not described:
            headers["Mcp-Session-Id"] = self.session
        if self.client.token:
            headers["Authorization"] = "Bearer " + self.client.token
        data = None if line is None else line.encode()
        url = self.client.url + "/mcp?profile=knowlyr"
        return self.opener.open(urllib.request.Request(url, data=data, headers=headers, method=method))

    def deliver(self, message: dict[str, Any], line: str, about: _Open | None = None) -> None:
        text = None
        try:
            with self.ask("POST", line, about.headers if about else None) as reply:
                if about:
                    with self.lock:
                        about.reply = reply
                        if about.cancelled:
                            about.give_up()
                    about.begun.set()
                if message.get("method") == "initialize":
                    self.session = reply.headers.get("Mcp-Session-Id") or self.session
                for answer in _answers(reply):
                    self.put(answer, about)
        except urllib.error.HTTPError as e:
            body = e.read().decode(errors="replace")
            try:
                told = json.loads(body)
                said = told["error"]["message"] if "error" in told else told["message"]
            except (ValueError, KeyError, TypeError):
                said = body.strip()[:1000]
            text = f"the server answered {e.code}: {said}"
        except (OSError, http.client.HTTPException) as e:
            why = getattr(e, "reason", e)
            text = f"no server at {self.client.url}: {why}; start one with 'sandglass serve', or set SANDGLASS_URL"
        if text and "id" in message:
            self.put(_error(message["id"], text), about)

    def request(self, message: dict[str, Any], line: str) -> None:
        key = json.dumps(message["id"])
        about = _Open()
        about.headers, about.listens = _described(message), message["method"] == "subscriptions/listen"
        with self.lock:
            self.open[key] = about

        def run() -> None:
            try:
                self.deliver(message, line, about)
            finally:
                about.begun.set()
                with self.lock:
                    if self.open.get(key) is about:
                        del self.open[key]
                self.room.release()

        self.room.acquire()
        self.start(run)

    def cancel(self, message: dict[str, Any], line: str) -> None:
        """Each message has a connection of its own: a cancellation must not overtake what it cancels."""
        params = message.get("params")
        with self.lock:
            about = self.open.get(json.dumps(params.get("requestId") if isinstance(params, dict) else None))
            if about:
                about.give_up()

        def run() -> None:
            if about:
                about.begun.wait(BEGIN_SECONDS)
                if about.headers:
                    return
            self.deliver(message, line)

        self.start(run)

    def start(self, run: Any) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self.threads = [t for t in self.threads if t.is_alive()] + [thread]
        thread.start()

    def listen(self) -> None:
        with contextlib.suppress(OSError), self.ask("GET") as reply:
            for message in _answers(reply):
                self.put(message)

    def take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError as e:
            self.put(_error(None, str(e), -32700))
            return
        if not isinstance(message, dict):  # a batch of old clients, or nonsense: the server knows
            self.deliver({"id": None}, line)
        elif message.get("method") == "initialize":
            self.deliver(message, line)
            if self.session:
                threading.Thread(target=self.listen, daemon=True).start()
        elif message.get("method") == "notifications/cancelled":
            self.cancel(message, line)
        elif message.get("id") is None or "method" not in message:  # in order with what comes after it
            self.deliver(message, line)
        else:
            self.request(message, line)

    def end(self) -> None:
        with self.lock:
            for about in self.open.values():
                if about.listens:
                    about.give_up()
        for thread in self.threads:
            thread.join()
        if self.session:
            with contextlib.suppress(OSError):
                self.ask("DELETE").close()


def serve(lines: Iterable[str] = sys.stdin, out: TextIO = sys.stdout, url: str | None = None) -> None:
    bridge = _Bridge(out, url)
    for line in lines:
        if line.strip():
            bridge.take(line)
    bridge.end()


if __name__ == "__main__":
    serve()
