"""Tools and backends of one's own, in AgentFlow's two ways. They run in a process beside the server (host.py), which speaks
the protocol of docs/extend.md."""

from .backends.base import Backend, BackendConfig
from .backends.tools import BaseApiTool, ToolBusinessError, register_api_tool
from .core import tool

__all__ = ["Backend", "BackendConfig", "BaseApiTool", "ToolBusinessError", "register_api_tool", "tool"]
