"""The decorator of tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def tool(name: str | None = None, *, resource_type: str | None = None, description: str | None = None, hidden: bool = False,
         schema: Mapping[str, Any] | None = None) -> Callable[[F], F]:
    """Marks a method of a Backend: `@tool("counter:add")`. schema: JSON Schema of its parameters; without it, its signature."""

    def mark(function: F) -> F:
        function._agentflow_tool = {  # type: ignore[attr-defined]
            "name": name or function.__name__, "resource_type": resource_type, "description": description,
            "hidden": hidden, "schema": schema}
        return function

    return mark
