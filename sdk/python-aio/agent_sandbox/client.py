"""Sandbox and AsyncSandbox: the groups of the API as attributes, their operations as methods."""

from __future__ import annotations

import json
import os
import pathlib
import re
import uuid
from collections.abc import Mapping
from typing import Any

from sandglass._atransport import AsyncTransport
from sandglass._transport import Transport
from sandglass._wire import Response, parse_url, query, quote

from .core import ANSWERS, MEMBERS, REQUESTS, Content, Model, error_of, model, named
from .routes import ALIASES, ROUTES


class _Request:
    """One operation with its arguments, as a request."""

    def __init__(self, group: str, name: str, args: tuple[Any, ...], params: dict[str, Any]) -> None:
        name = ALIASES.get(group, {}).get(name, name)
        self.key, self.kind = f"{group}.{name}", ""
        self.method, path, *rest = ROUTES[group][name].split()
        self.kind = rest[0] if rest else ""
        self.timeout = (params.pop("request_options", None) or {}).get("timeout_in_seconds")
        places = re.findall(r"{(\w+)}", path)
        if len(args) > len(places):
            raise TypeError(f"{self.key}() takes at most {len(places)} arguments without a name")
        params = {**dict(zip(places, args)), **{k: v for k, v in params.items() if v is not None}}
        REQUESTS.get(self.key, lambda p: None)(params)
        for place in places:
            if place not in params:
                raise TypeError(f"{self.key}() needs {place}")
            path = path.replace("{" + place + "}", quote(str(params.pop(place))))
        self.headers: dict[str, str] = {}
        self.body = b""
        if self.kind == "form":
            self.body, self.headers["Content-Type"] = _form(params)
        elif self.method in ("GET", "DELETE") and self.kind != "body":
            path = query(path, params)
        elif params or self.method in ("POST", "PUT", "PATCH"):
            self.body = json.dumps(params).encode()
            self.headers["Content-Type"] = "application/json"
        self.path = path

    def answer(self, r: Response) -> Any:
        if r.status >= 400:
            raise error_of(r.status, r.headers, r.json())
        if self.kind == "bytes":
            return Content(r.body)
        value = model(r.json())
        adapt = ANSWERS.get(self.key)
        if adapt and isinstance(value, Model) and isinstance(value.get("data"), Model):
            adapt(value.data)
        if self.key in MEMBERS and isinstance(value, Model) and "data" in value:
            value.data = named(value.data, MEMBERS[self.key])
        return value


def _form(params: Mapping[str, Any]) -> tuple[bytes, str]:
    """multipart/form-data. A file is bytes, an open file, a path, or a tuple of name and one of these."""
    mark, out = uuid.uuid4().hex, bytearray()
    for name, value in params.items():
        filename = None
        if isinstance(value, tuple):
            filename, value = value[0], value[1]
        if hasattr(value, "read"):
            filename = filename or os.path.basename(getattr(value, "name", "file"))
            value = value.read()
        elif isinstance(value, os.PathLike):
            filename = filename or os.path.basename(value)
            value = pathlib.Path(value).read_bytes()
        if isinstance(value, bytes):
            filename = filename or "file"
        else:
            value = value if isinstance(value, str) else json.dumps(value)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="{name}"'
        head += f'; filename="{filename}"\r\nContent-Type: application/octet-stream' if filename else ""
        out += head.encode() + b"\r\n\r\n" + (value.encode() if isinstance(value, str) else value) + b"\r\n"
    return bytes(out + f"--{mark}--\r\n".encode()), f"multipart/form-data; boundary={mark}"


class _Group:
    def __init__(self, ask: Any, name: str) -> None:
        self._ask, self._name = ask, name

    def __getattr__(self, name: str) -> Any:
        known = {*ROUTES[self._name], *ALIASES.get(self._name, {})}
        if name not in known:
            raise AttributeError(f"{self._name} has no {name!r}; it has: {', '.join(sorted(known))}")

        def operation(*args: Any, **params: Any) -> Any:
            return self._ask(_Request(self._name, name, args, params))

        operation.__name__ = name
        operation.__doc__ = ROUTES[self._name][ALIASES.get(self._name, {}).get(name, name)]
        return operation

    def __dir__(self) -> list[str]:
        return sorted({*ROUTES[self._name], *ALIASES.get(self._name, {})})


class _Base:
    """The groups."""

    def _groups(self, ask: Any) -> None:
        for name in ROUTES:
            setattr(self, name, _Group(ask, name))

    sandbox: _Group
    shell: _Group
    bash: _Group
    file: _Group
    jupyter: _Group
    nodejs: _Group
    code: _Group
    mcp: _Group
    browser: _Group
    browser_page: _Group
    browser_tabs: _Group
    browser_cookies: _Group
    browser_state: _Group
    browser_network: _Group
    browser_captcha: _Group
    util: _Group
    skills: _Group
    proxy: _Group
    display: _Group
    auth: _Group


def _headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    key = os.environ.get("SANDGLASS_API_KEY")
    return {**({"Authorization": "Bearer " + key} if key else {}), **(headers or {})}


class Sandbox(_Base):
    """A client. timeout: seconds for an answer."""

    def __init__(self, base_url: str | None = None, *, headers: Mapping[str, str] | None = None,
                 timeout: float | None = 60.0) -> None:
        self._timeout = timeout
        self._transport = Transport(parse_url(base_url), _headers(headers), timeout or 60.0, 2)
        self._groups(self._run)

    def _run(self, r: _Request) -> Any:
        return r.answer(self._transport.request(r.method, r.path, r.headers, r.body, safe=r.method == "GET",
                                                timeout=r.timeout or self._timeout))

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()


class AsyncSandbox(_Base):
    """The same for asyncio: operations are awaited."""

    def __init__(self, base_url: str | None = None, *, headers: Mapping[str, str] | None = None,
                 timeout: float | None = 60.0) -> None:
        self._timeout = timeout
        self._transport = AsyncTransport(parse_url(base_url), _headers(headers), timeout or 60.0, 2)
        self._groups(self._run)

    async def _run(self, r: _Request) -> Any:
        return r.answer(await self._transport.request(r.method, r.path, r.headers, r.body, safe=r.method == "GET",
                                                      timeout=r.timeout or self._timeout))

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.close()
