"""Hosts user-written tools and backends beside a server: `python -m sandbox.server --config FILE MODULE...`.

MODULE (a dotted name, or a file) is imported, so that its @register_api_tool take effect; classes in it that inherit
Backend are made, and so are those that `resources.<name>.backend_class` of the configuration names. The server starts it
(an entry of its `extensions` file), or it connects with `--connect HOME/run/extend.sock`.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from sandglass import extend

from .backends.base import Backend, BackendConfig
from .backends.error_codes import INVALID, get_error_message
from .backends.tools import ApiTool, BaseApiTool, ToolBusinessError, get_all_api_tools

HIDDEN_PARAMETERS = ("self", "session", "session_info", "session_id", "worker_id", "trace_id")


def expand(value: Any) -> Any:
    """${VAR} and ${VAR:-default}, in all strings."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda m: os.environ.get(m[1], m[2] if m[2] is not None else m[0]), value)
    if isinstance(value, Mapping):
        return {k: expand(v) for k, v in value.items() if not k.startswith("_")}
    return [expand(v) for v in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A tool may return an envelope {code, message, data, meta}, or anything."""
    if isinstance(value, Mapping) and "code" in value and "data" in value:
        if value["code"] != 0:
            words = str(value.get("message") or get_error_message(value["code"]))
            raise extend.InvalidParameter(words) if value["code"] in INVALID else extend.Failed(words)
        value = value["data"]
    return value if isinstance(value, Mapping) else {"result": value}


class Session:
    """What a tool is told as session_info."""

    def __init__(self, resource: str, worker: str, config: Mapping[str, Any], data: Any) -> None:
        m = extend.current()
        self.worker, self.began = worker, time.time()
        self.info = {"session_id": m.get("session"), "session_name": (m.get("session") or "").rpartition("_")[0] or None,
                     "worker_id": worker, "resource_type": resource, "config": dict(config), "data": data, "status": "active",
                     "auto_created": bool(m.get("temporary"))}

    def now(self) -> dict[str, Any]:
        self.info.update(created_at=_iso(self.began), last_activity=_iso(time.time()))
        return self.info


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds")


def _guarded(function: Any) -> Any:
    """The function with what AgentFlow adds to its parameters: worker_id, session_id, session_info, if it takes them."""
    api = isinstance(function, BaseApiTool)
    takes = inspect.signature(function.execute if api else function).parameters
    open_end = any(p.kind is p.VAR_KEYWORD for p in takes.values())

    async def call(session: Any = None, **params: Any) -> Any:
        info = session.now() if isinstance(session, Session) else {}
        m = extend.current()
        more = {"worker_id": info.get("worker_id") or m.get("worker") or "",
                "session_id": info.get("session_id") or m.get("session"), "session_info": info, "trace_id": None}
        params.update({k: v for k, v in more.items() if k in takes or (open_end and (api or k == "session_info"))})
        try:
            return _plain(await _value(function, params))
        except ToolBusinessError as e:
            raise (extend.InvalidParameter if e.code in INVALID else extend.Failed)(e.message) from e

    return call


async def _value(function: Any, params: Mapping[str, Any]) -> Any:
    work = function.execute if isinstance(function, BaseApiTool) else function
    if inspect.iscoroutinefunction(work):
        return await function(**params)
    if isinstance(function, BaseApiTool):  # an execute() that is no coroutine: in a thread, with a loop for the rest
        return await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(function(**params)))
    value = await asyncio.get_running_loop().run_in_executor(None, lambda: function(**params))
    return await value if inspect.isawaitable(value) else value


def _tool(name: str, function: Any, description: str | None, schema: Mapping[str, Any] | None, session: bool) -> extend.Tool:
    target = function.execute if isinstance(function, BaseApiTool) else function
    made = extend.Tool(_guarded(function), name,
                       help=description or (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ") or name,
                       parameters=schema or extend.parameters_of(target, HIDDEN_PARAMETERS))
    made.takes_session = session
    return made


class _Hosted(extend.Backend):
    """One of AgentFlow's backends as one of ours."""

    def __init__(self, backend: Backend) -> None:
        self._inner = backend
        self.name, self.description = backend.name, backend.description or backend.config.description
        stateful = type(backend).initialize is not Backend.initialize
        self.kind = "session" if stateful else "shared"

    def tools(self) -> list[extend.Tool]:
        found = []
        for _, member in inspect.getmembers(self._inner, callable):
            m = getattr(member, "_agentflow_tool", None)
            if m:
                name = m["name"].split(":", 1)[-1]
                found.append(_tool(name, member, m["description"], m["schema"], self.kind == "session"))
        return found

    async def warmup(self) -> Any:
        return await self._inner.warmup()

    async def initialize(self, worker: str, config: dict[str, Any]) -> Any:
        whole = {**self._inner.get_default_config(), **config}
        return Session(self.name, worker, whole, await self._inner.initialize(worker, whole))

    async def cleanup(self, worker: str, session: Any) -> Any:
        return await self._inner.cleanup(worker, session.now() if isinstance(session, Session) else {})

    async def shutdown(self) -> Any:
        return await self._inner.shutdown()


class _Api(extend.Backend):
    """The API tools with one prefix."""

    def __init__(self, prefix: str, rows: list[ApiTool], apis: Mapping[str, Any]) -> None:
        self.name, self.description, self._rows = prefix, f"API tools {prefix}:*", rows
        for row in rows:
            if isinstance(row.function, BaseApiTool):
                row.function.set_config(apis.get(row.config_key or ""))

    def tools(self) -> list[extend.Tool]:
        return [_tool(r.name.split(":", 1)[-1], r.function, r.description, None, False) for r in self._rows]


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = pathlib.Path(name).resolve()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name}: no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def backends_of(modules: list[str], config: Mapping[str, Any]) -> list[extend.Backend]:
    """All that the modules and the configuration give."""
    found: dict[str, Backend] = {}
    sys.path.insert(0, os.getcwd())
    for name in modules:
        for _, c in inspect.getmembers(_import(name), inspect.isclass):
            if issubclass(c, Backend) and c is not Backend and c.name:
                found[c.name] = c()
    for name, row in (config.get("resources") or {}).items():
        dotted = row.get("backend_class")
        if dotted and row.get("enabled", True):
            module, _, cls = dotted.rpartition(".")
            made = getattr(_import(module), cls)(BackendConfig(True, dict(row.get("config") or {}), row.get("description") or ""))
            made.name = made.name or name
            found[made.name] = made
    groups: dict[str, list[ApiTool]] = {}
    for tool in get_all_api_tools().values():
        groups.setdefault(tool.name.split(":", 1)[0] if ":" in tool.name else "api", []).append(tool)
    made_all: list[extend.Backend] = [_Hosted(b) for b in found.values()]
    return made_all + [_Api(prefix, rows, config.get("apis") or {}) for prefix, rows in groups.items()]


def options_of(path: str) -> list[str]:
    """Options of our server for a configuration of AgentFlow's: its time to live, and an extension for its own backends."""
    config = expand(json.loads(pathlib.Path(path).read_text()))
    options: list[str] = []
    ttl = (config.get("server") or {}).get("session_ttl")
    if ttl:
        options += ["--session-ttl", f"{int(ttl)}s"]
    if any(r.get("backend_class") and r.get("enabled", True) for r in (config.get("resources") or {}).values()):
        with tempfile.NamedTemporaryFile("w", prefix="sandbox-", suffix=".json", delete=False) as f:
            json.dump({"extensions": {"agentflow": {
                "command": [sys.executable, "-m", "sandbox.server", "--config", str(pathlib.Path(path).resolve())],
                "env": {"PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, sys.path)])}}}}, f)
        os.chmod(f.name, 0o644)
        options += ["--extensions", f.name]
    return options


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m sandbox.server", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config", help="a configuration of AgentFlow's")
    p.add_argument("--connect", help="path of the server's extend.sock; without it: standard input and output")
    p.add_argument("--name", default="agentflow")
    p.add_argument("modules", nargs="*")
    a = p.parse_args()
    config = expand(json.loads(pathlib.Path(a.config).read_text())) if a.config else {}
    backends = backends_of(a.modules, config)
    if not backends:
        p.error("no backend and no tool in what was named")
    extend.run(*backends, name=a.name, connect=a.connect)
