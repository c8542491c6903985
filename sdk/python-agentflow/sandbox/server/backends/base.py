"""Backend: a resource with sessions of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class BackendConfig:
    enabled: bool = True
    default_config: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


class Backend:
    """All hooks are optional. A tool is a method with @tool; it may take `worker_id` and `session_info`, where
    `session_info["data"]` is what initialize() returned."""

    name = ""
    description = ""
    version = "1.0.0"

    def __init__(self, config: BackendConfig | None = None) -> None:
        self.config = config or BackendConfig()
        self._server: Any = None

    async def warmup(self) -> None:
        """Once, before the first call."""

    async def initialize(self, worker_id: str, config: dict[str, Any]) -> dict[str, Any]:
        """A session begins."""
        return {}

    async def cleanup(self, worker_id: str, session_info: dict[str, Any]) -> None:
        """A session ended."""

    async def shutdown(self) -> None:
        """The server ends."""

    def bind_server(self, server: Any) -> None:
        self._server = server

    def get_default_config(self) -> dict[str, Any]:
        return dict(self.config.default_config)

    def get_info(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "version": self.version, "enabled": self.config.enabled}
