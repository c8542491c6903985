"""An answer of the server as one text for a model. Any answer has one: no tool is unknown, no data is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from sandglass.result import shown

ROWS_SHOWN = 100


def _table(columns: list[Any], rows: list[Any]) -> str:
    lines = [" | ".join(map(str, columns))] if columns else []
    for row in rows[:ROWS_SHOWN]:
        values = [row.get(c) for c in columns] if isinstance(row, Mapping) else row if isinstance(row, (list, tuple)) else [row]
        lines.append(" | ".join("" if v is None else str(v) for v in values))
    if len(rows) > ROWS_SHOWN:
        lines.append(f"[{len(rows) - ROWS_SHOWN} more rows]")
    return "\n".join(lines)


def _text(resource: str, data: Any) -> str:
    if not isinstance(data, Mapping):
        return "" if data is None else data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if resource == "vm" or "accessibility_tree" in data:
        return str(data.get("accessibility_tree") or "[No accessibility tree]")
    if resource in ("text2sql", "sql"):
        inner = data["result"] if isinstance(data.get("result"), Mapping) else data
        if isinstance(inner.get("rows"), list):
            return _table(list(inner.get("columns") or []), inner["rows"])
        if isinstance(inner.get("databases"), list):
            return "\n".join(map(str, inner["databases"]))
    for key in ("context", "result", "schema", "text"):
        if isinstance(data.get(key), str):
            return str(data[key])
    if isinstance(data.get("content"), list):  # MCP
        return "\n".join(str(c.get("text", "")) for c in data["content"] if isinstance(c, Mapping))
    return shown(data, "ok", "")


class ToolResult:
    """An answer that can be told as a text. Inherit, write to_str(), register the class for a tool or a resource."""

    def __init__(self, raw_data: Any, metadata: Mapping[str, Any] | None = None) -> None:
        self.raw_data, self.metadata = raw_data, dict(metadata or {})
        self.success = bool(self.metadata.get("success", True))
        self.execution_time = float(self.metadata.get("execution_time_ms") or 0.0)

    def to_str(self, verbose: bool = False) -> str:
        """verbose adds a line with the tool, its time and its outcome."""
        meta, data = self.metadata, self.raw_data
        tool, code = str(meta.get("tool") or ""), meta.get("code", 0)
        if code != 0:
            text = f"[Error {code}] {meta.get('message') or 'unknown error'}"
            partial = shown(data, "ok", "") if isinstance(data, Mapping) and data.get("stdout") else ""
            text = f"{partial}\n{text}" if partial else text
        else:
            text = _text(str(meta.get("resource_type") or tool.split(":")[0]), data)
            status = data.get("exit_code", data.get("return_code")) if isinstance(data, Mapping) else None
            if isinstance(status, int) and status != 0:
                text = f"{text.rstrip()}\n[Error] exit code {status}".lstrip()
        if verbose:
            text += f"\n[{tool}: {meta.get('outcome', 'ok' if code == 0 else 'error')}, {meta.get('execution_time_ms')} ms]"
        return text

    def to_dict(self) -> Any:
        return self.raw_data

    def get_metadata(self) -> dict[str, Any]:
        return self.metadata


class ResultFormatter:
    """Which class tells which answer."""

    _classes: ClassVar[dict[str, type[ToolResult]]] = {}

    @classmethod
    def register_formatter(cls, tool_type: str, formatter_class: type[ToolResult]) -> None:
        """For a tool (`weather:now`) or all of a resource (`weather`)."""
        cls._classes[tool_type] = formatter_class

    @classmethod
    def format(cls, response: Mapping[str, Any]) -> ToolResult:
        meta, code = response.get("meta") or {}, response.get("code", 0)
        tool = str(meta.get("tool") or "")
        made = cls._classes.get(tool) or cls._classes.get(str(meta.get("resource_type") or tool.split(":")[0])) or ToolResult
        return made(response.get("data"), {**meta, "success": code == 0, "code": code, "message": response.get("message") or ""})

    @classmethod
    def format_to_str(cls, response: Mapping[str, Any], verbose: bool = False) -> str:
        return cls.format(response).to_str(verbose)


def format_tool_result(response: Any, verbose: bool = False) -> str:
    """Any answer as a text for a model."""
    return ResultFormatter.format_to_str(response, verbose) if isinstance(response, Mapping) else str(response)
