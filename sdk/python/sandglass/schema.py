"""Tools as models want them, and calls as models make them."""

from __future__ import annotations

import difflib
import fnmatch
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .result import Result

FORMATS = ("openai", "anthropic", "mcp")


def function_name(tool: str) -> str:
    """`bash:run` as a name that model APIs allow."""
    return tool.replace(":", "_").replace(".", "_")


def choose(tools: Iterable[Mapping[str, Any]], only: Sequence[str] | None) -> list[Mapping[str, Any]]:
    """Those of the tools that one of the patterns names (`bash:run`, `file:*`); None: all that are not hidden."""
    seen = [t for t in tools if "hidden" not in (t.get("flags") or ())]
    if only is None:
        return seen
    for pattern in only:
        if not any(_matches(t["name"], pattern) for t in seen):
            raise ValueError(f"no tool is called {pattern!r}")
    return [t for t in seen if any(_matches(t["name"], p) for p in only)]


def nearest(name: str, tools: Iterable[Mapping[str, Any]]) -> str | None:
    """The tool whose name is most like this one, if one is."""
    near = difflib.get_close_matches(name, [t["name"] for t in tools], 1)
    return near[0] if near else None


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or function_name(name) == pattern


def schemas(tools: Iterable[Mapping[str, Any]], format: str) -> list[dict[str, Any]]:
    """The `tools` of a request to a model."""
    if format not in FORMATS:
        raise ValueError(f"format: {format!r} is not one of {', '.join(FORMATS)}")
    return [_schema(t, format) for t in tools]


def _schema(t: Mapping[str, Any], format: str) -> dict[str, Any]:
    name, help = function_name(t["name"]), t.get("description") or ""
    if format == "openai":
        return {"type": "function", "function": {"name": name, "description": help, "parameters": t["parameters"]}}
    if format == "anthropic":
        return {"name": name, "description": help, "input_schema": t["parameters"]}
    flags = t.get("flags") or ()
    return {
        "name": name,
        "title": t.get("title") or name,
        "description": help,
        "inputSchema": t["parameters"],
        "outputSchema": t.get("result") or {"type": "object"},
        "annotations": {"readOnlyHint": "read_only" in flags, "idempotentHint": "idempotent" in flags},
    }


def _of(value: Any, name: str) -> Any:
    """A member of a mapping, or of an object as the clients of model APIs give them."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


class ToolCall:
    """A call that a model made, whatever the shape."""

    def __init__(self, call: Any) -> None:
        self.format, self.id, self.error = "mcp", _of(call, "id"), ""
        function, arguments = _of(call, "function"), None
        if function is not None:
            self.format, self.name, arguments = "openai", _of(function, "name"), _of(function, "arguments")
        elif _of(call, "type") == "function_call":
            self.format, self.id = "openai-responses", _of(call, "call_id") or self.id
            self.name, arguments = _of(call, "name"), _of(call, "arguments")
        elif _of(call, "type") == "tool_use":
            self.format, self.name, arguments = "anthropic", _of(call, "name"), _of(call, "input")
        else:
            inner = _of(call, "params") if _of(call, "method") == "tools/call" else call
            self.name, arguments = _of(inner, "name"), _of(inner, "arguments")
        if not isinstance(self.name, str):
            raise ValueError(f"no tool call of a known shape: {call!r}")
        if isinstance(arguments, (str, bytes)):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError as e:
                self.error = f"the arguments are no JSON: {e}"
                arguments = {}
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            self.error, arguments = "the arguments are no object", {}
        self.arguments: Mapping[str, Any] = arguments

    def answer(self, result: Result) -> dict[str, Any]:
        """The message that goes back to the model."""
        if self.format == "openai":
            return {"role": "tool", "tool_call_id": self.id, "content": result.text}
        if self.format == "openai-responses":
            return {"type": "function_call_output", "call_id": self.id, "output": result.text}
        if self.format == "anthropic":
            return {"type": "tool_result", "tool_use_id": self.id, "content": result.text, "is_error": not result.ok}
        answer: dict[str, Any] = {"content": [{"type": "text", "text": result.text}], "isError": not result.ok}
        if isinstance(result.data, Mapping):
            answer["structuredContent"] = dict(result.data)
        return answer

    def refuse(self, why: str) -> Result:
        """A call that cannot even be asked for."""
        return Result(outcome="invalid_request", message=why, tool=str(self.name))
