"""HTTP/1.1 as far as a client of one server needs it: where the server is, how a request is written, how a head is read.
Bytes only; the two transports beside this do the input and output."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_URL = "http://127.0.0.1:8080"
HEAD_MAX = 64 * 1024
RETRY_STATUS = (429, 503)


@dataclass(frozen=True)
class Address:
    """Where a server is: host and port, or the path of a unix socket."""

    host: str
    port: int
    tls: bool
    path: str | None
    prefix: str

    @property
    def text(self) -> str:
        return f"unix:{self.path}" if self.path else f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.prefix}"


def parse_url(url: str | None) -> Address:
    """`http://host:port`, `https://...`, `unix:/path/of/socket`; without one $SANDGLASS_URL, else the default."""
    url = url or os.environ.get("SANDGLASS_URL") or DEFAULT_URL
    if url.startswith("unix:"):
        path = url[5:]
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        return Address("localhost", 0, False, path, "")
    u = urllib.parse.urlsplit(url if "://" in url else "http://" + url)
    try:
        port = u.port
    except ValueError:
        port = -1
    if u.scheme not in ("http", "https") or not u.hostname or port == -1:
        raise ValueError(f"{url!r} is no URL such as http://127.0.0.1:8080 or unix:/run/sandglass.sock")
    tls = u.scheme == "https"
    return Address(u.hostname, port or (443 if tls else 80), tls, None, u.path.rstrip("/"))


class WireError(Exception):
    """The connection ended or what came is no HTTP. `sent`: the server may have seen the request."""

    def __init__(self, message: str, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Head:
    """Status line and headers of an answer."""

    __slots__ = ("headers", "status")

    def __init__(self, raw: bytes) -> None:
        lines = raw.split(b"\r\n")
        try:
            version, status = lines[0].split(b" ", 2)[:2]
            if not version.startswith(b"HTTP/1."):
                raise ValueError
            self.status = int(status)
        except ValueError:
            raise WireError(f"no HTTP: {raw[:80]!r}", True) from None
        self.headers: dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if colon:
                self.headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")

    @property
    def chunked(self) -> bool:
        return self.headers.get("transfer-encoding", "").lower() == "chunked"

    def length(self, method: str) -> int | None:
        """Bytes of the body; None: until the connection ends, or chunked."""
        if method == "HEAD" or self.status in (204, 304) or self.status < 200:
            return 0
        if self.chunked:
            return None
        text = self.headers.get("content-length")
        try:
            return None if text is None else int(text)
        except ValueError:
            raise WireError(f"content-length: {text!r}", True) from None

    @property
    def closes(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


def head(method: str, target: str, address: Address, headers: Mapping[str, str], length: int | None) -> bytes:
    """The head of a request. length None: the body is chunked."""
    host = address.host if address.path or address.port in (80, 443) else f"{address.host}:{address.port}"
    lines = [f"{method} {address.prefix}{target} HTTP/1.1", f"Host: {host}"]
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"header {name}: line breaks are not allowed")
        lines.append(f"{name}: {value}")
    if length is None:
        lines.append("Transfer-Encoding: chunked")
    elif length or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk_size(line: bytes) -> int:
    try:
        return int(line.split(b";")[0].strip(), 16)
    except ValueError:
        raise WireError(f"no size of a chunk: {line[:40]!r}", True) from None


class Response:
    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            return self.body.decode("utf-8", "replace")


def query(path: str, params: Mapping[str, Any] | None = None) -> str:
    """A path with those of the parameters that are not None."""
    pairs = [(k, "1" if v is True else str(v)) for k, v in (params or {}).items() if v is not None and v is not False]
    return path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")


def quote(part: str) -> str:
    return urllib.parse.quote(part, safe="")


class EventReader:
    """Server-sent events out of lines."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self._event = "message"
        self._data: list[str] = []

    def feed(self, line: str) -> tuple[str, str] | None:
        """The event that this line ends, if it does."""
        if line == "":
            event, data = self._event, self._data
            self._event, self._data = "message", []
            return (event, "\n".join(data)) if data else None
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self.last_id = value
        return None
