"""The facade: Sandbox."""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import threading
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from sandglass.errors import SandglassError
from sandglass.local import Server, local_url, started

from .client import HTTPClientConfig, HTTPServiceClient
from .errors import (
    HTTPClientError,
    SandboxConnectionError,
    SandboxError,
    SandboxServerStartError,
    SandboxSessionError,
)

__all__ = ["Sandbox", "SandboxConfig", "SandboxConnectionError", "SandboxError", "SandboxServerStartError",
           "SandboxSessionError", "create_sandbox", "get_default_config"]

logger = logging.getLogger("sandbox")
DEFAULT_SERVER_URL = "http://localhost:18890"
DEFAULT_SERVER_CONFIG: dict[str, Any] = {
    "server": {"url": DEFAULT_SERVER_URL, "session_ttl": 300},
    "resources": {"bash": {"enabled": True}, "file": {"enabled": True}, "code": {"enabled": True}},
    "warmup": {"enabled": False, "resources": []},
}
R = TypeVar("R")


@dataclass
class SandboxConfig:
    server_url: str = DEFAULT_SERVER_URL
    worker_id: str = field(default_factory=lambda: "sandbox_" + uuid.uuid4().hex[:8])
    timeout: float = 60.0
    auto_start_server: bool = False
    server_config_path: str | None = None
    server_startup_timeout: float = 30.0
    server_check_interval: float = 0.5
    warmup_resources: Sequence[str] | None = None
    retry_count: int = 3
    log_level: str = "INFO"


class _Loop:
    """One event loop in a thread of its own, for the _sync twins of all sandboxes."""

    _lock = threading.Lock()
    _loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def run(cls, work: Coroutine[Any, Any, R]) -> R:
        with cls._lock:
            if cls._loop is None:
                cls._loop = asyncio.new_event_loop()
                threading.Thread(target=cls._loop.run_forever, name="sandbox-sync", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, cls._loop).result()


_servers: dict[str, Server] = {}


class Sandbox:
    """Sessions and calls of one worker.

    Without a server_url, and with none at the default address, a server of this machine is used, and started if none runs;
    with auto_start_server, one is started at server_url. It ends with this program.
    """

    def __init__(self, server_url: str | None = None, worker_id: str | None = None, config: SandboxConfig | None = None,
                 warmup_resources: Sequence[str] | None = None, **more: Any) -> None:
        self._own_url = server_url is None and config is None
        self.config = config or SandboxConfig(**more)
        if config is not None and more:
            self.config = SandboxConfig(**{**asdict(config), **more})
        if server_url is not None:
            self.config.server_url = server_url
        if worker_id is not None:
            self.config.worker_id = worker_id
        if warmup_resources is not None:
            self.config.warmup_resources = list(warmup_resources)
        if self.config.log_level:
            logger.setLevel(self.config.log_level)
        self._client: HTTPServiceClient | None = None

    def __repr__(self) -> str:
        status = "started" if self.is_started else "disconnected"
        return f"Sandbox(worker_id={self.worker_id}, status={status}, server={self.server_url})"

    # ---- what it is ----

    @property
    def worker_id(self) -> str:
        return self.config.worker_id

    @property
    def server_url(self) -> str:
        return self.config.server_url

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    is_started = is_connected

    @property
    def client(self) -> HTTPServiceClient:
        if self._client is None:
            raise SandboxConnectionError("not connected: call start(), or use 'async with Sandbox(...)'")
        return self._client

    # ---- life ----

    def _new_client(self) -> HTTPServiceClient:
        return HTTPServiceClient(config=HTTPClientConfig(
            base_url=self.config.server_url, timeout=self.config.timeout, max_retries=max(1, self.config.retry_count),
            auto_heartbeat=False, worker_id=self.config.worker_id))

    async def _answers(self) -> bool:
        probe = HTTPServiceClient(config=HTTPClientConfig(base_url=self.config.server_url, timeout=5, max_retries=1,
                                                          auto_heartbeat=False))
        try:
            await probe.connect()
            return True
        except HTTPClientError:
            return False
        finally:
            await probe.close()

    async def start(self, warmup_resources: Sequence[str] | None = None) -> Sandbox:
        if self.is_connected:
            return self
        if not await self._answers():
            if not (self.config.auto_start_server or self._own_url):
                raise SandboxConnectionError(f"no server at {self.config.server_url}; start one with 'sandglass serve', or "
                                             "set auto_start_server")
            await asyncio.get_running_loop().run_in_executor(None, self._start_server)
        client = self._new_client()
        try:
            await client.connect()
        except HTTPClientError as e:
            await client.close()
            raise SandboxConnectionError(str(e)) from e
        self._client = client
        warm = warmup_resources if warmup_resources is not None else self.config.warmup_resources
        if warm:
            try:
                await self.warmup(list(warm))
            except HTTPClientError as e:
                logger.warning("warmup failed: %s", e)
        return self

    def _start_server(self) -> None:
        url = self.config.server_url
        try:
            if not self.config.auto_start_server or url == DEFAULT_SERVER_URL:
                self.config.server_url = local_url(*self._server_options())
                return
            if url not in _servers or not _servers[url].alive:
                server = Server(None, *self._server_options(), listen=url)
                server.wait(max(self.config.server_startup_timeout, 1))
                _servers[url] = server
        except (SandglassError, OSError, ValueError) as e:
            raise SandboxServerStartError(str(e)) from e

    def _server_options(self) -> list[str]:
        """What a configuration file of AgentFlow says, as options of ours; backends of one's own become extensions."""
        if not self.config.server_config_path:
            return []
        from .server.host import options_of

        return options_of(self.config.server_config_path)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Sandbox:
        return await self.start()

    async def __aexit__(self, *why: Any) -> None:
        await self.close()

    def __enter__(self) -> Sandbox:
        return self.start_sync()

    def __exit__(self, *why: Any) -> None:
        self.close_sync()

    # ---- sessions ----

    async def warmup(self, resources: str | Sequence[str] | None = None) -> dict[str, Any]:
        return await self.client.warmup([resources] if isinstance(resources, str) else resources)

    async def get_warmup_status(self) -> dict[str, Any]:
        return await self.client.warmup_status()

    async def create_session(self, resources: str | Sequence[str] | Mapping[str, Mapping[str, Any] | None],
                             config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One name, several, or names with their configurations; `custom_name` in a configuration names the session."""
        began = time.monotonic()
        wanted: dict[str, dict[str, Any]]
        if isinstance(resources, str):
            wanted = {resources: dict(config or {})}
        elif isinstance(resources, Mapping):
            wanted = {name: dict(c or {}) for name, c in resources.items()}
        else:
            wanted = {name: dict(config or {}) for name in resources}
        sessions = {name: await self._create(name, c) for name, c in wanted.items()}
        good = sum(s["status"] == "success" for s in sessions.values())
        return {"status": "success" if good == len(sessions) else "partial" if good else "error",
                "create_time_ms": (time.monotonic() - began) * 1000, "total": len(sessions), "success": good,
                "sessions": sessions}

    async def _create(self, resource: str, config: dict[str, Any]) -> dict[str, Any]:
        name = config.pop("custom_name", None)
        try:
            answer = await self.client.create_session(resource, config, name)
        except HTTPClientError as e:
            return {"status": "error", "session_id": None, "session_name": None, "config_applied": config,
                    "message": str(e), "error": str(e)}
        data = answer.get("data") or {}
        good = answer.get("code") == 0 and data.get("session_status") == "active"
        row = {"status": "success" if good else "error", "session_id": data.get("session_id"),
               "session_name": data.get("session_name"), "config_applied": config,
               "message": data.get("message") or answer.get("message") or ""}
        if not good:
            row["error"] = data.get("error") or answer.get("message")
        return row

    async def destroy_session(self, resources: str | Sequence[str] | None = None) -> dict[str, Any]:
        """One, several, or all."""
        if resources is None:
            names = [s["resource_type"] for s in await self.list_sessions()]
        else:
            names = [resources] if isinstance(resources, str) else list(resources)
        details = {name: await self._destroy(name) for name in names}
        good = sum(d["status"] == "success" for d in details.values())
        return {"status": "success" if good == len(details) else "partial", "total": len(details), "success": good,
                "details": details}

    async def _destroy(self, resource: str) -> dict[str, Any]:
        try:
            data = (await self.client.destroy_session(resource)).get("data") or {}
            return {"status": "success", "session_id": data.get("session_id"), "message": data.get("message") or ""}
        except HTTPClientError as e:
            return {"status": "error", "session_id": None, "message": str(e)}

    async def list_sessions(self) -> list[dict[str, Any]]:
        return await self.client.list_sessions()

    async def refresh_sessions(self, resource_type: str | None = None) -> dict[str, Any]:
        return await self.client.refresh_session(resource_type)

    async def reinitialize(self, resource_type: str, new_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A session ends and another begins, with the new configuration."""
        began = time.monotonic()
        old = await self._destroy(resource_type)
        made = await self._create(resource_type, dict(new_config or {}))
        row = {"status": made["status"], "resource_type": resource_type, "old_session_id": old["session_id"],
               "new_session_id": made["session_id"], "new_session_name": made["session_name"],
               "config_applied": made["config_applied"], "reinit_time_ms": (time.monotonic() - began) * 1000}
        if made["status"] != "success":
            row["error"] = made["error"]
        return row

    # ---- calls ----

    async def execute(self, action: str, params: Mapping[str, Any] | None = None, timeout: float | None = None,
                      **more: Any) -> dict[str, Any]:
        """One call; further arguments are parameters that `params` does not have."""
        merged = {**{k: v for k, v in more.items() if v is not None}, **(params or {})}
        return await self.client.execute(action, merged, timeout)

    async def get_tools(self, include_hidden: bool = False) -> list[dict[str, Any]]:
        return await self.client.list_tools(include_hidden)

    async def get_status(self) -> dict[str, Any]:
        return await self.client.get_status()

    async def shutdown_server(self, force: bool = False, cleanup_sessions: bool = True) -> dict[str, Any]:
        return await self.client.shutdown_server(force, cleanup_sessions)

    # ---- the server ----

    def get_server_log(self, tail_lines: int = 100) -> str | None:
        """The end of the log of a server that was started here; None of any other."""
        server = _servers.get(self.config.server_url) or started(self.config.server_url)
        return server.log_tail(tail_lines) if server else None

    def get_server_config(self) -> dict[str, Any]:
        path = self.config.server_config_path
        return dict(json.loads(pathlib.Path(path).read_text())) if path else get_default_config()

    def save_server_config(self, config: Mapping[str, Any], path: str) -> None:
        pathlib.Path(path).write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")

    @staticmethod
    def create_config_template(path: str) -> None:
        pathlib.Path(path).write_text(json.dumps(get_default_config(), indent=2) + "\n")

    # ---- the same, for who has no event loop ----

    def start_sync(self, warmup_resources: Sequence[str] | None = None) -> Sandbox:
        return _Loop.run(self.start(warmup_resources))

    def close_sync(self) -> None:
        _Loop.run(self.close())

    def warmup_sync(self, resources: str | Sequence[str] | None = None) -> dict[str, Any]:
        return _Loop.run(self.warmup(resources))

    def get_warmup_status_sync(self) -> dict[str, Any]:
        return _Loop.run(self.get_warmup_status())

    def create_session_sync(self, resources: str | Sequence[str] | Mapping[str, Mapping[str, Any] | None],
                            config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _Loop.run(self.create_session(resources, config))

    def destroy_session_sync(self, resources: str | Sequence[str] | None = None) -> dict[str, Any]:
        return _Loop.run(self.destroy_session(resources))

    def list_sessions_sync(self) -> list[dict[str, Any]]:
        return _Loop.run(self.list_sessions())

    def refresh_sessions_sync(self, resource_type: str | None = None) -> dict[str, Any]:
        return _Loop.run(self.refresh_sessions(resource_type))

    def reinitialize_sync(self, resource_type: str, new_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _Loop.run(self.reinitialize(resource_type, new_config))

    def execute_sync(self, action: str, params: Mapping[str, Any] | None = None, timeout: float | None = None,
                     **more: Any) -> dict[str, Any]:
        return _Loop.run(self.execute(action, params, timeout, **more))

    def get_tools_sync(self, include_hidden: bool = False) -> list[dict[str, Any]]:
        return _Loop.run(self.get_tools(include_hidden))

    def get_status_sync(self) -> dict[str, Any]:
        return _Loop.run(self.get_status())

    def shutdown_server_sync(self, force: bool = False, cleanup_sessions: bool = True) -> dict[str, Any]:
        return _Loop.run(self.shutdown_server(force, cleanup_sessions))


def create_sandbox(server_url: str | None = None, **more: Any) -> Sandbox:
    return Sandbox(server_url, **more)


def get_default_config() -> dict[str, Any]:
    return dict(json.loads(json.dumps(DEFAULT_SERVER_CONFIG)))
