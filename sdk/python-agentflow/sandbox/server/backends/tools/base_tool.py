"""API tools as classes."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from ..error_codes import ErrorCode
from ..response_builder import ResponseTimer, build_error_response, build_success_response

NOT_ECHOED = {"config", "api_key", "jina_api_key", "serper_api_key", "openai_api_key", "session_info", "session_id", "trace_id"}
TEXT_MAX, ITEMS_MAX = 500, 10


class ToolBusinessError(Exception):
    """The task failed, not the server: the caller gets the message as the outcome of the step."""

    def __init__(self, message: str, code: int = ErrorCode.EXECUTION_ERROR, data: Any = None) -> None:
        super().__init__(message)
        self.message, self.code, self.data = message, code, data


def _echo(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[:TEXT_MAX] + "...[Truncated]"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_echo(v) for v in value] if len(value) <= ITEMS_MAX else f"List(len={len(value)})"
    if isinstance(value, Mapping):
        return {str(k): _echo(v) for k, v in value.items()} if len(value) <= ITEMS_MAX else f"Dict(len={len(value)})"
    return str(value)


class BaseApiTool:
    """A tool with a configuration: inherit, write execute(**parameters), register an instance. What execute() returns is
    `data["result"]`, beside `data["inputs"]`; a dict that has a `result` of its own is `data` itself."""

    def __init__(self, tool_name: str = "unknown_tool", resource_type: str = "unknown") -> None:
        self.tool_name, self.resource_type = tool_name, resource_type
        self._config: dict[str, Any] = {}

    def set_config(self, config: Mapping[str, Any] | None) -> None:
        self._config = dict(config or {})

    def get_config(self, key: str, default: Any = None) -> Any:
        """From the section `apis` of the configuration, else the environment."""
        value = self._config.get(key)
        return value if value is not None else os.environ.get(key.upper(), default)

    @property
    def config(self) -> dict[str, Any]:
        """A copy of the whole configuration."""
        return dict(self._config)

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no execute()")

    def _sanitize_inputs(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters as the answer repeats them."""
        return {k: _echo(v) for k, v in kwargs.items() if k not in NOT_ECHOED}

    async def __call__(self, **kwargs: Any) -> dict[str, Any]:
        inputs = self._sanitize_inputs(kwargs)
        with ResponseTimer() as timer:
            try:
                value = self.execute(**kwargs)
                result = await value if inspect.isawaitable(value) else value
            except ToolBusinessError as e:
                return build_error_response(e.code, e.message, self.tool_name, {"inputs": inputs, "details": e.data or e.message},
                                            timer.get_elapsed_ms(), self.resource_type)
        if isinstance(result, Mapping) and "code" in result and "data" in result:
            return dict(result)  # an envelope already
        data = {**result, "inputs": inputs} if isinstance(result, Mapping) and "result" in result else \
            {"result": result, "inputs": inputs}
        return build_success_response(data, self.tool_name, timer.get_elapsed_ms(), self.resource_type)
