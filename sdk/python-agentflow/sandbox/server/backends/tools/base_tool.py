"""API tools as classes."""

from __future__ import annotations

import os
from typing import Any


class ToolBusinessError(Exception):
    """The task failed, not the server: the caller gets the message as the outcome of the step."""

    def __init__(self, message: str, code: int = 4001, data: Any = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data = message, code, data


class BaseApiTool:
    """A tool with a configuration: inherit, write execute(**parameters), register an instance."""

    def __init__(self, tool_name: str = "", resource_type: str | None = None) -> None:
        self.tool_name, self.resource_type = tool_name, resource_type
        self._config: dict[str, Any] = {}

    def set_config(self, config: dict[str, Any] | None) -> None:
        self._config = dict(config or {})

    def get_config(self, key: str, default: Any = None) -> Any:
        """From the section `apis` of the configuration, else the environment."""
        value = self._config.get(key)
        return value if value is not None else os.environ.get(key.upper(), default)

    async def execute(self, **params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no execute()")

    async def __call__(self, **params: Any) -> Any:
        value = self.execute(**params)
        return await value if hasattr(value, "__await__") else value
