"""HTTPServiceClient: AgentFlow's HTTP API, method by method."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandglass._atransport import AsyncTransport
from sandglass._wire import WireError, parse_url, query, quote
from sandglass.errors import ConnectError

from .errors import HTTPClientError

logger = logging.getLogger("sandbox.client")
GRACE = 30.0  # seconds by which HTTP waits longer than the call may take


@dataclass
class HTTPClientConfig:
    base_url: str = "http://localhost:8080"
    timeout: float = 60.0
    max_retries: int = 3
    retry_delay: float = 1.0
    auto_heartbeat: bool = True
    heartbeat_interval: float = 30.0
    worker_id: str = field(default_factory=lambda: "worker_" + uuid.uuid4().hex[:8])


class HTTPServiceClient:
    """A client for one worker. Asynchronous; a context manager."""

    def __init__(self, base_url: str = "http://localhost:8080", worker_id: str | None = None, timeout: float = 60.0,
                 config: HTTPClientConfig | None = None) -> None:
        self.config = config or HTTPClientConfig(base_url=base_url, timeout=timeout)
        if worker_id:
            self.config.worker_id = worker_id
        key = os.environ.get("SANDGLASS_API_KEY")
        headers = {"Accept": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
        self._transport = AsyncTransport(parse_url(self.config.base_url), headers, min(self.config.timeout, 10.0), 0)
        self._heart: asyncio.Task[None] | None = None
        self._connected = False

    @property
    def worker_id(self) -> str:
        return self.config.worker_id

    @property
    def base_url(self) -> str:
        return self.config.base_url

    @property
    def is_connected(self) -> bool:
        return self._connected

    # ---- requests ----

    async def _request(self, method: str, path: str, data: Mapping[str, Any] | None = None, timeout: float | None = None,
                       params: Mapping[str, Any] | None = None, safe: bool | None = None) -> Any:
        """Asks again only what cannot happen twice: what reads, what carries an idempotency key, what never left."""
        body = b"" if data is None else json.dumps(data).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        if safe is None:
            safe = method == "GET" or bool(data and data.get("idempotency_key"))
        for attempt in range(1, self.config.max_retries + 1):
            try:
                answer = await self._transport.request(method, query(path, params), headers, body, safe=False,
                                                       timeout=timeout or self.config.timeout)
            except ConnectError as e:
                unsent = isinstance(e.__cause__, WireError) and not e.__cause__.sent
                if attempt == self.config.max_retries or not (safe or unsent):
                    raise HTTPClientError(f"Request failed after {attempt} attempts: {e}") from e
                await asyncio.sleep(self.config.retry_delay * attempt)
                continue
            value = answer.json()
            if answer.status >= 400:
                raise HTTPClientError(f"HTTP {answer.status}: {_why(value)}", answer.status, value)
            return value
        raise AssertionError("unreachable")

    async def _worker(self, path: str, safe: bool = False, **fields: Any) -> Any:
        return await self._request("POST", "/api/v1/" + path, {"worker_id": self.worker_id, **fields}, safe=safe)

    # ---- life ----

    async def connect(self) -> None:
        await self._request("GET", "/health")
        self._connected = True
        if self.config.auto_heartbeat and self._heart is None:
            self._heart = asyncio.ensure_future(self._beat())

    async def close(self, destroy_sessions: bool = False) -> None:
        heart, self._heart = self._heart, None
        if heart:
            heart.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heart
        if destroy_sessions and self._connected:
            with contextlib.suppress(HTTPClientError):
                await self.destroy_all_sessions()
        self._connected = False
        await self._transport.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.config.heartbeat_interval)
            try:
                await self._worker("lifecycle/heartbeat", safe=True)
            except HTTPClientError as e:
                logger.warning("heartbeat failed: %s", e)

    async def __aenter__(self) -> HTTPServiceClient:
        await self.connect()
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.close()

    # ---- calls ----

    async def execute(self, action: str, params: Mapping[str, Any] | None = None, timeout: float | None = None) -> dict[str, Any]:
        """One call. `timeout` is the tool's; HTTP waits a little longer. Asked again, it still runs once."""
        body: dict[str, Any] = {"worker_id": self.worker_id, "action": action, "params": dict(params or {}),
                                "idempotency_key": uuid.uuid4().hex}
        if timeout is not None:
            body["timeout"] = timeout
        return dict(await self._request("POST", "/api/v1/execute", body, timeout + GRACE if timeout else None))

    async def execute_batch(self, actions: Sequence[Mapping[str, Any]], parallel: bool = False,
                            stop_on_error: bool = True) -> dict[str, Any]:
        body = {"worker_id": self.worker_id, "actions": [dict(a) for a in actions], "parallel": parallel,
                "stop_on_error": stop_on_error}
        wait = sum(float(a.get("timeout") or self.config.timeout) for a in actions) + GRACE
        return dict(await self._request("POST", "/api/v1/execute/batch", body, wait))

    async def get_status(self) -> dict[str, Any]:
        return dict(await self._worker("lifecycle/status", safe=True))

    # ---- sessions ----

    async def create_session(self, resource_type: str, session_config: Mapping[str, Any] | None = None,
                             custom_name: str | None = None) -> dict[str, Any]:
        fields: dict[str, Any] = {"resource_type": resource_type, "session_config": dict(session_config or {})}
        if custom_name:
            fields["custom_name"] = custom_name
        return dict(await self._worker("session/create", **fields))

    async def destroy_session(self, resource_type: str) -> dict[str, Any]:
        return dict(await self._worker("session/destroy", resource_type=resource_type))

    async def list_sessions(self) -> list[dict[str, Any]]:
        answer = await self._worker("session/list", safe=True)
        return list((answer.get("data") or {}).get("sessions") or [])

    async def destroy_all_sessions(self) -> dict[str, Any]:
        return dict(await self._worker("worker/disconnect", safe=True))

    async def refresh_session(self, resource_type: str | None = None) -> dict[str, Any]:
        fields = {"resource_type": resource_type} if resource_type else {}
        return dict(await self._worker("session/refresh", safe=True, **fields))

    # ---- initialisation ----

    async def init_resource(self, resource_type: str, init_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return dict(await self._worker("init/resource", resource_type=resource_type, init_config=dict(init_config or {})))

    async def init_batch(self, resource_configs: Mapping[str, Any]) -> dict[str, Any]:
        return dict(await self._worker("init/batch", resource_configs=dict(resource_configs)))

    async def init_from_config(self, config_path: str, override_params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return dict(await self._worker("init/from-config", config_path=config_path, override_params=dict(override_params or {})))

    # ---- the server ----

    async def list_tools(self, include_hidden: bool = False) -> list[dict[str, Any]]:
        answer = await self._request("GET", "/api/v1/tools", params={"include_hidden": "true" if include_hidden else None})
        return list(answer.get("tools") or [])

    async def get_tool_schema(self, tool_name: str) -> dict[str, Any]:
        return dict(await self._request("GET", f"/api/v1/tools/{quote(tool_name)}/schema"))

    async def warmup(self, backends: Sequence[str] | None = None) -> dict[str, Any]:
        body = {} if backends is None else {"backends": list(backends)}
        return dict(await self._request("POST", "/api/v1/warmup", body, safe=True))

    async def warmup_status(self) -> dict[str, Any]:
        return dict(await self._request("GET", "/api/v1/warmup/status"))

    async def shutdown_server(self, force: bool = False, cleanup_sessions: bool = True) -> dict[str, Any]:
        body = {"force": force, "cleanup_sessions": cleanup_sessions}
        return dict(await self._request("POST", "/api/v1/server/shutdown", body))


def _why(value: Any) -> str:
    if isinstance(value, dict):
        error = value.get("error")
        why = value.get("message") or value.get("detail") or (error.get("message") if isinstance(error, dict) else error)
        if why:
            return why if isinstance(why, str) else json.dumps(why)
    return str(value)[:500]


async def quick_execute(action: str, params: Mapping[str, Any] | None = None, base_url: str = "http://localhost:8080",
                        **more: Any) -> dict[str, Any]:
    """One call with a client of its own."""
    async with HTTPServiceClient(base_url, **more) as client:
        return await client.execute(action, params)


def create_client(base_url: str = "http://localhost:8080", **more: Any) -> HTTPServiceClient:
    return HTTPServiceClient(base_url, **more)
