"""A WebSocket client for tests, by hand: masked frames over a plain socket."""

import base64
import json
import os
import socket
import struct


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status, self.body = status, body


class Client:
    def __init__(self, port, path, headers=(), timeout=20, host=None):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        key = base64.b64encode(os.urandom(16)).decode()
        head = [f"GET {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", "Connection: Upgrade", "Upgrade: websocket",
                "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *headers]
        self.sock.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
        self.buf = b""
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, self.buf = self.buf.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.head = head.decode()
        if self.status != 101:
            raise Refused(self.status, self.buf)

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.buf += data

    def _take(self, n):
        while len(self.buf) < n:
            self._more()
        data, self.buf = self.buf[:n], self.buf[n:]
        return data

    def send(self, data, opcode=None, fin=True):
        opcode = opcode if opcode is not None else (1 if isinstance(data, str) else 2)
        data = data.encode() if isinstance(data, str) else data
        mask = os.urandom(4)
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else b"\xfe" + struct.pack(">H", n) if n < 65536 else b"\xff" + struct.pack(">Q", n)
        body = bytes(b ^ mask[i & 3] for i, b in enumerate(data)) if n < 65536 else data
        if n >= 65536:
            mask = b"\0\0\0\0"
        self.sock.sendall(bytes([(0x80 if fin else 0) | opcode]) + size + mask + body)

    def json(self, **message):
        self.send(json.dumps(message))

    def recv(self):
        """(opcode, data) of the next frame; pings are answered."""
        while True:
            first, second = self._take(2)
            n = second & 127
            if n == 126:
                n = struct.unpack(">H", self._take(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self._take(8))[0]
            data = self._take(n)
            if first & 15 == 9:
                self.send(data, 10)
                continue
            return first & 15, data

    def message(self):
        opcode, data = self.recv()
        assert opcode == 1, (opcode, data)
        return json.loads(data)

    def until(self, text, types=("output", "restore_output")):
        """Gathers output until text is in it."""
        got = ""
        while text not in got:
            m = self.message()
            if m["type"] in types:
                got += m["data"]
                self.offset = m["offset"]
            elif m["type"] in ("error", "exit"):
                raise AssertionError(f"{m} after {got!r}")
        return got

    def close(self):
        self.sock.close()
