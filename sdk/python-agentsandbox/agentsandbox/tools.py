"""The five tools, and the shape of what they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class ToolResult:
    output: str = ""
    exit_code: int = 0
    error: str | None = None

    @property
    def success(self) -> bool:
        """The exit code decides: a warning on standard error is no failure."""
        return self.exit_code == 0


def _param(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **more}


_PATH = _param("string", "文件路径", required=True)

TOOL_REGISTRY: dict[str, dict[str, Any]] = {
    "file_read": {
        "description": "读取文件",
        "parameters": {"path": _PATH, "start_line": _param("integer", "起始行 (从 1 开始)", default=0),
                       "end_line": _param("integer", "结束行 (包含)", default=0)},
    },
    "file_write": {
        "description": "写入文件",
        "parameters": {"path": _PATH, "content": _param("string", "文件内容", required=True),
                       "create_dirs": _param("boolean", "自动创建目录", default=True)},
    },
    "shell": {
        "description": "执行命令",
        "parameters": {"command": _param("string", "命令", required=True),
                       "timeout": _param("integer", "超时 (秒)", default=300),
                       "work_dir": _param("string", "工作目录", default="")},
    },
    "search": {
        "description": "搜索代码",
        "parameters": {"pattern": _param("string", "正则表达式", required=True),
                       "path": _param("string", "搜索路径", default="."),
                       "file_pattern": _param("string", "文件名模式", default="")},
    },
    "git": {
        "description": "Git 操作",
        "parameters": {"subcommand": _param("string", "子命令", required=True),
                       "args": _param("string", "参数", default="")},
    },
}
