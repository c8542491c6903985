"""Connections to a server, kept and used again, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import Any, Union

from ._transport import IDLE_MAX, PIECE, pause
from ._wire import HEAD_MAX, RETRY_STATUS, Address, Head, Response, WireError, chunk_size, head
from .errors import ConnectError

Body = Union[bytes, Iterable[bytes], AsyncIterable[bytes]]


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer, self.loop = reader, writer, asyncio.get_running_loop()

    def usable(self) -> bool:
        return not (self.writer.is_closing() or self.reader.at_eof())

    def close(self) -> None:
        with contextlib.suppress(Exception):  # its loop may be over
            self.writer.close()

    async def ask(self, data: bytes, body: Body | None) -> Head:
        try:
            self.writer.write(data)
            if body is not None:
                try:
                    if isinstance(body, AsyncIterable):
                        async for piece in body:
                            await self._piece(piece)
                    elif not isinstance(body, bytes):
                        for part in body:
                            await self._piece(part)
                    self.writer.write(b"0\r\n\r\n")
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it may have answered before it had everything
            while True:
                answer = Head(await self.reader.readuntil(b"\r\n\r\n"))
                if answer.status >= 200:
                    return answer
        except asyncio.IncompleteReadError as e:
            raise WireError("the server closed the connection", True) from e
        except asyncio.LimitOverrunError as e:
            raise WireError("the answer's head is too long", True) from e
        except OSError as e:
            raise WireError(str(e) or type(e).__name__, True) from e

    async def _piece(self, piece: bytes) -> None:
        if piece:
            self.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await self.writer.drain()

    async def whole(self, method: str, answer: Head) -> bytes:
        length = answer.length(method)
        if length == 0:
            return b""
        if length is None:
            return b"".join([piece async for piece in self.pieces(method, answer)])
        try:
            return await self.reader.readexactly(length)
        except asyncio.IncompleteReadError as e:
            raise WireError("the answer was cut off", True) from e
        except OSError as e:
            raise WireError(str(e) or type(e).__name__, True) from e

    async def pieces(self, method: str, answer: Head) -> AsyncIterator[bytes]:
        """The body of an answer, piece by piece."""
        try:
            length = answer.length(method)
            if answer.chunked and length is None:
                while True:
                    left = chunk_size(await self.reader.readline())
                    if not left:
                        while await self.reader.readline() not in (b"\r\n", b""):
                            pass
                        return
                    while left:
                        piece = await self.reader.read(min(left, PIECE))
                        if not piece:
                            raise WireError("the answer was cut off", True)
                        left -= len(piece)
                        yield piece
                    await self.reader.readline()
            while length is None or length > 0:
                piece = await self.reader.read(PIECE if length is None else min(length, PIECE))
                if not piece:
                    if length is None:
                        return
                    raise WireError("the answer was cut off", True)
                if length is not None:
                    length -= len(piece)
                yield piece
        except OSError as e:
            raise WireError(str(e) or type(e).__name__, True) from e


class AsyncStream:
    """An answer whose body is read piece by piece. A context manager: leaving early drops the connection."""

    def __init__(self, transport: AsyncTransport, connection: _Connection, method: str, answer: Head) -> None:
        self.status, self.headers = answer.status, answer.headers
        self._transport, self._connection, self._pieces = transport, connection, connection.pieces(method, answer)
        # A server that streams may still be at it when the last byte is here: such a connection is not used again.
        self._reusable, self._done = method == "PUT" and not answer.closes and answer.length(method) is not None, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._pieces:
                yield piece
        except WireError as e:
            await self.close()
            raise ConnectError(str(e)) from e
        self._finish()

    async def lines(self) -> AsyncIterator[str]:
        rest = b""
        async for piece in self:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode("utf-8", "replace")

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self])

    def _finish(self) -> None:
        if not self._done:
            self._done = True
            if self._reusable:
                self._transport._give(self._connection)
            else:
                self._connection.close()

    async def close(self) -> None:
        if not self._done:
            self._done = True
            self._connection.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.close()


class AsyncTransport:
    def __init__(self, address: Address, headers: Mapping[str, str], timeout: float, retries: int,
                 verify: bool | ssl.SSLContext = True) -> None:
        self.address, self.headers, self.timeout, self.retries = address, dict(headers), timeout, retries
        self._idle: list[_Connection] = []
        self._tls: ssl.SSLContext | None = None
        if address.tls:
            self._tls = verify if isinstance(verify, ssl.SSLContext) else ssl.create_default_context()
            if verify is False:
                self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    async def _take(self) -> _Connection:
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is loop and connection.usable():
                return connection
            connection.close()  # closed by the server, or of an event loop that is over
        a = self.address
        try:
            if a.path:
                opening = asyncio.open_unix_connection(a.path, limit=HEAD_MAX * 4)
            else:
                opening = asyncio.open_connection(a.host, a.port, ssl=self._tls, limit=HEAD_MAX * 4)
            return _Connection(*await asyncio.wait_for(opening, self.timeout))
        except (OSError, asyncio.TimeoutError) as e:
            raise WireError(f"no server at {a.text}: {e or type(e).__name__}", False) from e

    def _give(self, connection: _Connection) -> None:
        if len(self._idle) < IDLE_MAX and connection.usable():
            self._idle.append(connection)
        else:
            connection.close()

    async def _once(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Response:
        connection = await self._take()
        try:
            data = head(method, target, self.address, {**self.headers, **headers}, len(body)) + body
            answer = await connection.ask(data, None)
            content = await connection.whole(method, answer)
        except BaseException:
            connection.close()
            raise
        if answer.closes or (answer.length(method) is None and not answer.chunked):
            connection.close()
        else:
            self._give(connection)
        return Response(answer.status, answer.headers, content)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes, *, safe: bool,
                      timeout: float | None) -> Response:
        """As in the transport for threads: nothing is asked twice that might happen twice."""
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                once = self._once(method, target, headers, body)
                answer = await (once if timeout is None else asyncio.wait_for(once, timeout))
            except asyncio.TimeoutError as e:
                raise ConnectError(f"{method} {self.address.text}{target}: no answer within {timeout} s") from e
            except WireError as e:
                if last or (e.sent and not safe):
                    raise ConnectError(f"{method} {self.address.text}{target}: {e}") from e
                await asyncio.sleep(pause(attempt))
                continue
            if last or answer.status not in RETRY_STATUS:
                return answer
            await asyncio.sleep(pause(attempt, answer.headers.get("retry-after")))
        raise AssertionError("unreachable")

    async def stream(self, method: str, target: str, headers: Mapping[str, str], body: Body = b"",
                     timeout: float | None = None) -> AsyncStream:
        """As in the transport for threads. The body may be an iterable of pieces, asynchronous or not."""
        safe = isinstance(body, bytes) and method in ("GET", "PUT")
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                stream = await self._open(method, target, headers, body)
            except WireError as e:
                if last or (e.sent and not safe):
                    raise ConnectError(f"{method} {self.address.text}{target}: {e}") from e
                await asyncio.sleep(pause(attempt))
                continue
            if last or not safe or stream.status not in RETRY_STATUS:
                return stream
            await stream.close()
            await asyncio.sleep(pause(attempt, stream.headers.get("retry-after")))
        raise AssertionError("unreachable")

    async def _open(self, method: str, target: str, headers: Mapping[str, str], body: Body) -> AsyncStream:
        connection = await self._take()
        try:
            if isinstance(body, bytes):
                data = head(method, target, self.address, {**self.headers, **headers}, len(body)) + body
                answer = await connection.ask(data, None)
            else:
                data = head(method, target, self.address, {**self.headers, **headers}, None)
                answer = await connection.ask(data, body)
            return AsyncStream(self, connection, method, answer)
        except BaseException:
            connection.close()
            raise

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
