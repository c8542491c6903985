"""Tools of your own, in Python: docs/extend.md says what they are, this speaks its protocol.

    from sandglass.extend import Backend, run, tool

    class Counter(Backend):
        name, kind = "counter", "session"

        async def initialize(self, worker, config):
            return {"count": config.get("start", 0)}

        @tool
        def add(self, session, n: int = 1) -> dict:
            "Adds to the count."
            session["count"] += n
            return {"count": session["count"]}

    if __name__ == "__main__":
        run(Counter())

`run` talks over standard input and output if the server started the program, else over the server's socket (`connect`).
What a tool prints goes to standard error. Tools that are no coroutines run in threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import json
import os
import re
import select
import sys
import traceback
import typing
from collections.abc import Mapping
from typing import Any, Callable

KINDS = ("stateless", "shared", "session", "hybrid")
LINE_MAX = 32 << 20
THREADS = 64
_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", tuple: "array", dict: "object"}


_message: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar("sandglass_extend_message")


def current() -> Mapping[str, Any]:
    """What the server sent to have this done: `worker`, `session`, `temporary`, `timeout`, and for a session that begins
    `config`. Empty outside of a call."""
    return _message.get({})


class Failed(Exception):
    """A tool raises it: the task failed. The caller sees `task_error` and the message."""


class InvalidParameter(Exception):
    """A tool raises it: what was asked is wrong. The caller sees `invalid_request` and the message."""


def _schema_of(annotation: Any) -> dict[str, Any]:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union or type(annotation).__name__ == "UnionType":
        inner = [a for a in args if a is not type(None)]
        return _schema_of(inner[0]) if len(inner) == 1 else {}
    if getattr(typing, "Literal", None) and origin is typing.Literal:
        return {"enum": list(args)}
    kind = _JSON.get(origin or annotation)
    if kind is None and isinstance(origin, type) and issubclass(origin, Mapping):
        kind = "object"
    if kind == "array":
        return {"type": "array", "items": _schema_of(args[0]) if args and args[0] is not Ellipsis else {}}
    return {"type": kind} if kind else {}


def parameters_of(function: Callable[..., Any], skip: tuple[str, ...] = ("self", "session")) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, from its signature and the `name: text` lines of its docstring."""
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # names that only a type checker sees
        hints = {}
    told = dict(re.findall(r"^\s*:?(?:param )?(\w+):\s*(\S.*)$", inspect.getdoc(function) or "", re.M))
    properties: dict[str, Any] = {}
    required, open_end = [], False
    for name, p in inspect.signature(function).parameters.items():
        if name in skip or p.kind is p.VAR_POSITIONAL:
            continue
        if p.kind is p.VAR_KEYWORD:
            open_end = True
            continue
        properties[name] = _schema_of(hints.get(name, Any))
        if name in told:
            properties[name]["description"] = told[name].strip()
        if p.default is p.empty:
            required.append(name)
        elif p.default is None or isinstance(p.default, (str, int, float, bool)):
            if p.default is None:
                properties[name].pop("type", None)
            else:
                properties[name]["default"] = p.default
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": open_end}


class Tool:
    """A function as a tool."""

    def __init__(self, function: Callable[..., Any], name: str, *, title: str = "", help: str = "",
                 parameters: Mapping[str, Any] | None = None, read_only: bool = False, idempotent: bool = False) -> None:
        doc = inspect.getdoc(function) or ""
        self.function, self.name = function, name
        self.help = help or doc.split("\n\n")[0].replace("\n", " ") or name
        self.title = title or name.replace("_", " ").capitalize()
        self.parameters = dict(parameters) if parameters else parameters_of(function)
        self.read_only, self.idempotent = read_only, idempotent
        signature = inspect.signature(function).parameters
        self.takes_session = "session" in signature and "session" not in self.parameters["properties"]

    def row(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title[:200], "help": self.help, "parameters": self.parameters,
                "result": {"type": "object"}, "read_only": self.read_only, "idempotent": self.idempotent}


def tool(function: Callable[..., Any] | None = None, *, name: str | None = None, title: str = "", help: str = "",
         parameters: Mapping[str, Any] | None = None, read_only: bool = False, idempotent: bool = False) -> Any:
    """Marks a method of a Backend as a tool. Its parameters are those of the method; `session` is what initialize()
    returned for the caller's session."""

    def mark(f: Callable[..., Any]) -> Callable[..., Any]:
        f._sandglass_tool = {"name": name or f.__name__, "title": title, "help": help,  # type: ignore[attr-defined]
                             "parameters": parameters, "read_only": read_only, "idempotent": idempotent}
        return f

    return mark(function) if function is not None else mark


class Backend:
    """A group of tools. All hooks are optional and may be coroutines."""

    name = ""
    kind = "stateless"
    description = ""

    def warmup(self) -> Any:
        """Once, before the first call."""

    def initialize(self, worker: str, config: dict[str, Any]) -> Any:
        """A session begins; what it returns is the session's state."""
        return {}

    def cleanup(self, worker: str, session: Any) -> Any:
        """A session ended."""

    def shutdown(self) -> Any:
        """The program ends."""

    def tools(self) -> list[Tool]:
        found = []
        for _, member in inspect.getmembers(self, callable):
            marked = getattr(member, "_sandglass_tool", None)
            if marked:
                found.append(Tool(member, **marked))
        return found


class Functions(Backend):
    """Plain functions as a backend without state."""

    def __init__(self, name: str, *functions: Callable[..., Any], description: str = "") -> None:
        self.name, self.description = name, description
        self._functions = functions

    def tools(self) -> list[Tool]:
        return [Tool(f, **getattr(f, "_sandglass_tool", {"name": f.__name__})) for f in self._functions]


class Runner:
    """Serves backends over one conversation."""

    def __init__(self, *backends: Backend, name: str | None = None) -> None:
        self.backends = {b.name: b for b in backends}
        self.name = name or backends[0].name
        for b in backends:
            if b.kind not in KINDS:
                raise ValueError(f"{b.name}: kind {b.kind!r} is not one of {', '.join(KINDS)}")
        self.tools = {f"{b.name}:{t.name}": (b, t) for b in backends for t in b.tools()}
        self.sessions: dict[str, Any] = {}
        self.running: dict[int, asyncio.Task[None]] = {}
        self.pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        self.ready: asyncio.Future[None] | None = None
        self._write: Callable[[bytes], Any] = lambda data: None

    def hello(self) -> dict[str, Any]:
        rows = []
        for b in self.backends.values():
            tools = [t.row() for _, (owner, t) in self.tools.items() if owner is b]
            rows.append({"name": b.name, "kind": b.kind, "help": b.description or inspect.getdoc(b) or b.name, "tools": tools})
        return {"hello": 1, "name": self.name, "backends": rows}

    def say(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=False, default=str, allow_nan=False).encode() + b"\n"
        if len(data) > LINE_MAX:
            why = f"the result has {len(data)} bytes; at most {LINE_MAX} can be sent"
            data = json.dumps({"id": message.get("id"), "error": {"code": "failed", "message": why}}).encode() + b"\n"
        self._write(data)

    async def _value(self, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(*args, **more)
        context = contextvars.copy_context()
        value = await asyncio.get_running_loop().run_in_executor(self.pool, lambda: context.run(function, *args, **more))
        return await value if inspect.isawaitable(value) else value

    async def _call(self, m: Mapping[str, Any]) -> Any:
        if self.ready is not None:
            await self.ready
        if "open" in m:
            backend = self.backends[m["open"]]
            self.sessions[m["session"]] = await self._value(backend.initialize, m["worker"], dict(m.get("config") or {}))
            return {}
        backend, tool = self.tools[m["call"]]
        params = dict(m.get("params") or {})
        if backend.kind not in ("session", "hybrid"):
            return await self._value(tool.function, **params)
        fresh = m.get("temporary") or m.get("session") not in self.sessions
        state = await self._value(backend.initialize, m["worker"], {}) if fresh else self.sessions[m["session"]]
        try:
            if tool.takes_session:
                params["session"] = state
            return await self._value(tool.function, **params)
        finally:
            if fresh:
                await self._value(backend.cleanup, m["worker"], state)

    async def _answer(self, m: Mapping[str, Any]) -> None:
        _message.set(m)  # of this task alone
        try:
            value = await self._call(m)
            try:
                self.say({"id": m["id"], "ok": value if isinstance(value, Mapping) else {"result": value}})
            except (TypeError, ValueError) as e:
                raise Failed(f"the result cannot be written as JSON: {e}") from e
        except asyncio.CancelledError:
            raise
        except InvalidParameter as e:
            self.say({"id": m["id"], "error": {"code": "invalid", "message": str(e)}})
        except Exception as e:
            if not isinstance(e, Failed):
                traceback.print_exc(file=sys.stderr)
            self.say({"id": m["id"], "error": {"code": "failed", "message": str(e) or type(e).__name__}})
        finally:
            self.running.pop(m["id"], None)

    async def _close(self, m: Mapping[str, Any]) -> None:
        _message.set(m)
        state = self.sessions.pop(m["session"], None)
        try:
            await self._value(self.backends[m["close"]].cleanup, m["worker"], state)
        except Exception:
            traceback.print_exc(file=sys.stderr)

    async def _warm(self, ready: asyncio.Future[None]) -> None:
        for b in self.backends.values():
            try:
                await self._value(b.warmup)
            except Exception:
                traceback.print_exc(file=sys.stderr)
        ready.set_result(None)

    async def serve(self, reader: asyncio.StreamReader, write: Callable[[bytes], Any]) -> None:
        """Until the conversation ends."""
        self._write = write
        self.ready = asyncio.get_running_loop().create_future()
        keep = {asyncio.ensure_future(self._warm(self.ready))}
        self.say(self.hello())
        while True:
            line = await reader.readline()
            if not line:
                break
            m = json.loads(line)
            if "error" in m and "id" not in m:
                raise RuntimeError(f"the server refused: {m['error']}")
            if "id" in m:
                self.running[m["id"]] = asyncio.ensure_future(self._answer(m))
            elif "cancel" in m:
                task = self.running.get(m["cancel"])
                if task:
                    task.cancel()
            elif "close" in m:
                task = asyncio.ensure_future(self._close(m))
                keep.add(task)
                task.add_done_callback(keep.discard)
        for b in self.backends.values():
            await self._value(b.shutdown)

    async def _stdio(self) -> None:
        loop = asyncio.get_running_loop()
        out = os.dup(1)
        os.dup2(2, 1)  # what a tool prints must not become part of the conversation
        sys.stdout = sys.stderr
        reader = asyncio.StreamReader(limit=LINE_MAX + 1024)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb"))

        def write(data: bytes) -> None:
            while data:
                try:
                    data = data[os.write(out, data):]
                except BlockingIOError:  # input and output are one socket, and reading made it non-blocking
                    select.select([], [out], [])

        await self.serve(reader, write)

    async def _connect(self, path: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE_MAX + 1024)
        try:
            await self.serve(reader, writer.write)
        finally:
            writer.close()

    def run(self, connect: str | None = None) -> None:
        """connect: path of the server's extend.sock; without it, the conversation is on standard input and output."""
        code = 0
        try:
            asyncio.run(self._connect(connect) if connect else self._stdio())
        except KeyboardInterrupt:
            pass
        except Exception:
            traceback.print_exc(file=sys.stderr)
            code = 1
        sys.stderr.flush()
        os._exit(code)  # threads that hang in a tool must not keep us


def run(*backends: Backend, name: str | None = None, connect: str | None = None) -> None:
    """Serves these backends for as long as the server wants them."""
    Runner(*backends, name=name).run(connect)
