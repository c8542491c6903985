"""AgentFlow Sandbox's Python package, over a Sandglass server."""

from .client import HTTPClientConfig, HTTPServiceClient, create_client, quick_execute
from .errors import HTTPClientError, SandboxConnectionError, SandboxError, SandboxServerStartError, SandboxSessionError
from .result_formatter import ResultFormatter, ToolResult, format_tool_result
from .sandbox import Sandbox, SandboxConfig, create_sandbox, get_default_config
from .server import Backend, BackendConfig, BaseApiTool, ToolBusinessError, register_api_tool, tool
from .tool_schemas import get_all_tool_names, get_tool_schemas, get_tools_by_resource

__all__ = [
    "Backend",
    "BackendConfig",
    "BaseApiTool",
    "HTTPClientConfig",
    "HTTPClientError",
    "HTTPServiceClient",
    "ResultFormatter",
    "Sandbox",
    "SandboxConfig",
    "SandboxConnectionError",
    "SandboxError",
    "SandboxServerStartError",
    "SandboxSessionError",
    "ToolBusinessError",
    "ToolResult",
    "create_client",
    "create_sandbox",
    "format_tool_result",
    "get_all_tool_names",
    "get_default_config",
    "get_tool_schemas",
    "get_tools_by_resource",
    "quick_execute",
    "register_api_tool",
    "tool",
]
