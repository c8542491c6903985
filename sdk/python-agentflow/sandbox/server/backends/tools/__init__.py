"""@register_api_tool: a function, or an instance of BaseApiTool, as a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ..error_codes import ErrorCode
from .base_tool import BaseApiTool, ToolBusinessError

__all__ = ["BaseApiTool", "ErrorCode", "ToolBusinessError", "get_all_api_tools", "get_api_tool", "list_api_tools",
           "register_api_tool"]

F = TypeVar("F")


@dataclass
class ApiTool:
    name: str
    function: Any
    config_key: str | None
    description: str
    hidden: bool


_registered: dict[str, ApiTool] = {}


def register_api_tool(name: str, *, config_key: str | None = None, description: str = "",
                      hidden: bool = False) -> Callable[[F], F]:
    """`@register_api_tool("weather:now")` on a function; `register_api_tool("weather:now")(Weather())` for an instance."""

    def register(function: F) -> F:
        if isinstance(function, type) and issubclass(function, BaseApiTool):
            instance: Any = function()
        else:
            instance = function
        if isinstance(instance, BaseApiTool):
            if instance.tool_name == "unknown_tool":
                instance.tool_name = name
            if instance.resource_type == "unknown":
                instance.resource_type = config_key or name.split(":", 1)[0]
        _registered[name] = ApiTool(name, instance, config_key, description, hidden)
        return function

    return register


def get_all_api_tools() -> dict[str, ApiTool]:
    return dict(_registered)


def get_api_tool(name: str) -> ApiTool | None:
    return _registered.get(name)


def list_api_tools(include_hidden: bool = False) -> list[str]:
    return [name for name, tool in _registered.items() if include_hidden or not tool.hidden]
