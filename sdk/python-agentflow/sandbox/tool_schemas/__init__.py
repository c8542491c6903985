"""The tools as AgentFlow's pipelines want them: `{name, description, parameters: [{name, type, description, required}]}`, with
names such as `bash-run`. table.json is written by sdk/python/generate.py from the server's table; a server_url asks a
server for its own, extensions included."""

from __future__ import annotations

import fnmatch
import json
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any


def entry(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the server's table in AgentFlow's form."""
    schema = tool["parameters"]
    parameters = []
    for name, p in (schema.get("properties") or {}).items():
        row = {"name": name, "type": p.get("type") or "string", "description": p.get("description") or "",
               "required": name in (schema.get("required") or [])}
        if row["type"] == "array":
            row["array_type"] = (p.get("items") or {}).get("type") or "string"
        if p.get("enum"):
            row["enum"] = p["enum"]
        parameters.append(row)
    return {"name": tool["name"].replace(":", "-", 1), "description": tool.get("description") or "", "parameters": parameters}


def _table(server_url: str | None) -> list[dict[str, Any]]:
    if server_url is None:
        return list(json.loads((pathlib.Path(__file__).parent / "table.json").read_text()))
    from sandglass import Sandglass

    with Sandglass(server_url) as client:
        return [entry(t) for t in client.tool_table() if "hidden" not in (t.get("flags") or ())]


def _plain(name: str) -> str:
    return re.sub(r"[-:._]", "_", name)


def get_tool_schemas(allowed_tools: Iterable[str] | None = None, server_url: str | None = None) -> list[dict[str, Any]]:
    """Those that are named, with `-`, `_` or `:`, or match `prefix*`; without names, all."""
    wanted = [_plain(a) for a in allowed_tools or ()]
    return [t for t in _table(server_url)
            if not wanted or any(fnmatch.fnmatchcase(_plain(t["name"]), w) for w in wanted)]


def get_all_tool_names(server_url: str | None = None) -> list[str]:
    return [t["name"] for t in _table(server_url)]


def get_tools_by_resource(resource_type: str, server_url: str | None = None) -> list[dict[str, Any]]:
    return [t for t in _table(server_url) if t["name"].split("-", 1)[0] == resource_type]


def to_openai(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The form of OpenAI's functions, with a name that it allows."""
    properties: dict[str, Any] = {}
    for p in schema["parameters"]:
        properties[p["name"]] = {k: p[k] for k in ("type", "description", "enum") if k in p}
        if p.get("array_type"):
            properties[p["name"]]["items"] = {"type": p["array_type"]}
    return {"type": "function", "function": {
        "name": _plain(schema["name"]), "description": schema["description"],
        "parameters": {"type": "object", "properties": properties,
                       "required": [p["name"] for p in schema["parameters"] if p["required"]]}}}
