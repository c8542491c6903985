"""An answer of the server as one text for a model. Any answer has one: no tool is unknown, no data is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


def _text(tool: str, resource: str, data: Any) -> str:
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


def format_tool_result(response: Any, verbose: bool = False) -> str:
    """verbose adds a line with the tool, its time and its outcome."""
    if not isinstance(response, Mapping):
        return str(response)
    meta, data = response.get("meta") or {}, response.get("data")
    tool = str(meta.get("tool") or "")
    resource = str(meta.get("resource_type") or tool.split(":")[0])
    code = response.get("code", 0)
    if code != 0:
        text = f"[Error {code}] {response.get('message') or 'unknown error'}"
        partial = shown(data, "ok", "") if isinstance(data, Mapping) and data.get("stdout") else ""
        text = f"{partial}\n{text}" if partial else text
    else:
        text = _text(tool, resource, data)
        status = data.get("exit_code", data.get("return_code")) if isinstance(data, Mapping) else None
        if isinstance(status, int) and status != 0:
            text = f"{text.rstrip()}\n[Error] exit code {status}".lstrip()
    if verbose:
        text += f"\n[{tool}: {meta.get('outcome', 'ok' if code == 0 else 'error')}, {meta.get('execution_time_ms')} ms]"
    return text
