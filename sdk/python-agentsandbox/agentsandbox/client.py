"""The server's HTTP API, by the standard library only."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

DEFAULT_URL = "http://127.0.0.1:8080"


class ServerError(Exception):
    """The server said no, or was not there (status 0)."""

    def __init__(self, status: int, message: str, body: Any = None) -> None:
        super().__init__(message)
        self.status, self.body = status, body


class Client:
    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url = (url or os.environ.get("SANDGLASS_URL") or DEFAULT_URL).rstrip("/")
        self.token = token or os.environ.get("SANDGLASS_API_KEY")
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # no proxy between us and it

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with self._open(request) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as e:
            text = e.read()
            try:
                answer = json.loads(text)
                message = answer["error"]["message"]
            except (ValueError, KeyError, TypeError):
                answer, message = None, text.decode(errors="replace")[:500]
            raise ServerError(e.code, message, answer) from None
        except OSError as e:
            raise ServerError(0, f"no server at {self.url}: {getattr(e, 'reason', e)}; start one with 'sandglass serve', "
                                 "or set SANDGLASS_URL") from None

    def box(self, box: str, after: str = "") -> str:
        return f"/sg/v1/boxes/{urllib.parse.quote(box, safe='')}{after}"
