"""Connections to a server, kept and used again, for threads."""

from __future__ import annotations

import contextlib
import io
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

from ._wire import HEAD_MAX, RETRY_STATUS, Address, Head, Response, WireError, chunk_size, head
from .errors import ConnectError

IDLE_MAX = 64
PIECE = 256 * 1024

Body = Union[bytes, Iterable[bytes]]


class _Connection:
    def __init__(self, address: Address, timeout: float, tls: ssl.SSLContext | None) -> None:
        self.pid = os.getpid()
        try:
            if address.path:
                self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.sock.settimeout(timeout)
                self.sock.connect(address.path)
            else:
                self.sock = socket.create_connection((address.host, address.port), timeout)
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls:
                self.sock = tls.wrap_socket(self.sock, server_hostname=address.host)
        except OSError as e:
            raise WireError(f"no server at {address.text}: {e}", False) from e
        self.file = io.BufferedReader(socket.SocketIO(self.sock, "rb"), PIECE)

    def usable(self) -> bool:
        """An idle connection that has something to read was closed by the server."""
        if self.pid != os.getpid():
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
            self.sock.close()

    def ask(self, data: bytes, body: Iterable[bytes] | None, timeout: float | None) -> Head:
        self.sock.settimeout(timeout)
        try:
            self.sock.sendall(data)
            if body is not None:
                try:
                    for piece in body:
                        if piece:
                            self.sock.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.sock.sendall(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it may have answered before it had everything
            while True:
                raw, line = b"", b""
                while line != b"\r\n":
                    line = self.file.readline(HEAD_MAX)
                    if not line:
                        raise WireError("the server closed the connection", True)
                    raw += line
                    if len(raw) > HEAD_MAX:
                        raise WireError("the answer's head is too long", True)
                answer = Head(raw)
                if answer.status >= 200:
                    return answer
        except OSError as e:
            raise WireError(str(e) or type(e).__name__, True) from e

    def pieces(self, method: str, answer: Head) -> Iterator[bytes]:
        """The body of an answer, piece by piece."""
        try:
            if answer.chunked and answer.length(method) is None:
                while True:
                    left = chunk_size(self.file.readline(1024))
                    if not left:
                        while self.file.readline(HEAD_MAX) not in (b"\r\n", b""):
                            pass
                        return
                    while left:
                        piece = self.file.read1(min(left, PIECE))
                        if not piece:
                            raise WireError("the answer was cut off", True)
                        left -= len(piece)
                        yield piece
                    self.file.readline(8)
            left_all = answer.length(method)
            while left_all is None or left_all > 0:
                piece = self.file.read1(PIECE if left_all is None else min(left_all, PIECE))
                if not piece:
                    if left_all is None:
                        return
                    raise WireError("the answer was cut off", True)
                if left_all is not None:
                    left_all -= len(piece)
                yield piece
        except OSError as e:
            raise WireError(str(e) or type(e).__name__, True) from e


class Stream:
    """An answer whose body is read piece by piece. A context manager: leaving early drops the connection."""

    def __init__(self, transport: Transport, connection: _Connection, method: str, answer: Head) -> None:
        self.status, self.headers = answer.status, answer.headers
        self._transport, self._connection, self._pieces = transport, connection, connection.pieces(method, answer)
        # A server that streams may still be at it when the last byte is here: such a connection is not used again.
        self._reusable, self._done = method == "PUT" and not answer.closes and answer.length(method) is not None, False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except WireError as e:
            self.close()
            raise ConnectError(str(e)) from e
        self._finish()

    def lines(self) -> Iterator[str]:
        rest = b""
        for piece in self:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode("utf-8", "replace")

    def read(self) -> bytes:
        return b"".join(self)

    def _finish(self) -> None:
        if not self._done:
            self._done = True
            if self._reusable:
                self._transport._give(self._connection)
            else:
                self._connection.close()

    def close(self) -> None:
        if not self._done:
            self._done = True
            self._connection.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()


class Transport:
    def __init__(self, address: Address, headers: Mapping[str, str], timeout: float, retries: int,
                 verify: bool | ssl.SSLContext = True) -> None:
        self.address, self.headers, self.timeout, self.retries = address, dict(headers), timeout, retries
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None
        if address.tls:
            self._tls = verify if isinstance(verify, ssl.SSLContext) else ssl.create_default_context()
            if verify is False:
                self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def _take(self) -> _Connection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return _Connection(self.address, self.timeout, self._tls)
            if connection.usable():
                return connection
            connection.close()

    def _give(self, connection: _Connection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _once(self, method: str, target: str, headers: Mapping[str, str], body: bytes, timeout: float | None) -> Response:
        connection = self._take()
        try:
            data = head(method, target, self.address, {**self.headers, **headers}, len(body)) + body
            answer = connection.ask(data, None, timeout)
            content = b"".join(connection.pieces(method, answer))
        except BaseException:
            connection.close()
            raise
        if answer.closes or (answer.length(method) is None and not answer.chunked):
            connection.close()
        else:
            self._give(connection)
        return Response(answer.status, answer.headers, content)

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, safe: bool,
                timeout: float | None) -> Response:
        """Asks, and asks again if nothing can happen twice by that: the server was not reached, or said that it is busy,
        or `safe` says that the request may be repeated (it only reads, or carries an idempotency key)."""
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                answer = self._once(method, target, headers, body, timeout)
            except WireError as e:
                if last or (e.sent and not safe) or isinstance(e.__cause__, (TimeoutError, socket.timeout)):
                    raise ConnectError(f"{method} {self.address.text}{target}: {e}") from e
                time.sleep(pause(attempt))
                continue
            if last or answer.status not in RETRY_STATUS:
                return answer
            time.sleep(pause(attempt, answer.headers.get("retry-after")))
        raise AssertionError("unreachable")

    def stream(self, method: str, target: str, headers: Mapping[str, str], body: Body = b"",
               timeout: float | None = None) -> Stream:
        """An answer that is read piece by piece. What only reads, and a file that is put whole, is asked for again as by
        request(). The body may be an iterable of pieces: such a one is sent once."""
        safe = isinstance(body, bytes) and method in ("GET", "PUT")
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                stream = self._open(method, target, headers, body, timeout)
            except WireError as e:
                if last or (e.sent and not safe) or isinstance(e.__cause__, (TimeoutError, socket.timeout)):
                    raise ConnectError(f"{method} {self.address.text}{target}: {e}") from e
                time.sleep(pause(attempt))
                continue
            if last or not safe or stream.status not in RETRY_STATUS:
                return stream
            stream.close()
            time.sleep(pause(attempt, stream.headers.get("retry-after")))
        raise AssertionError("unreachable")

    def _open(self, method: str, target: str, headers: Mapping[str, str], body: Body, timeout: float | None) -> Stream:
        connection = self._take()
        try:
            if isinstance(body, bytes):
                data = head(method, target, self.address, {**self.headers, **headers}, len(body)) + body
                answer = connection.ask(data, None, timeout)
            else:
                data = head(method, target, self.address, {**self.headers, **headers}, None)
                answer = connection.ask(data, body, timeout)
            return Stream(self, connection, method, answer)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def pause(attempt: int, retry_after: str | None = None) -> float:
    """Seconds until the next try."""
    wait: float = min(0.05 * 2.0**attempt, 2.0)
    if retry_after and retry_after.isdigit():
        wait = max(wait, min(float(retry_after), 5.0))
    return wait
