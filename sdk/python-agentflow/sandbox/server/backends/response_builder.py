"""The envelope of an answer, for tools that make it themselves."""

from __future__ import annotations

import time
import uuid
from typing import Any


def build_error_response(code: int, message: str, tool: str, data: Any = None, execution_time_ms: float | None = None,
                         resource_type: str | None = None, session_id: str | None = None,
                         trace_id: str | None = None) -> dict[str, Any]:
    return {"code": int(code), "message": message, "data": data, "meta": {
        "tool": tool, "execution_time_ms": execution_time_ms, "resource_type": resource_type, "session_id": session_id,
        "trace_id": trace_id or str(uuid.uuid4())}}


def build_success_response(data: Any, tool: str, execution_time_ms: float | None = None, resource_type: str | None = None,
                           session_id: str | None = None, trace_id: str | None = None) -> dict[str, Any]:
    return build_error_response(0, "success", tool, data, execution_time_ms, resource_type, session_id, trace_id)


class ResponseTimer:
    """`with ResponseTimer() as timer: ...; timer.get_elapsed_ms()`."""

    def __init__(self) -> None:
        self.start_time = time.monotonic()
        self.elapsed_ms: float | None = None

    def __enter__(self) -> ResponseTimer:
        self.start_time = time.monotonic()
        return self

    def __exit__(self, *why: Any) -> None:
        self.elapsed_ms = self.get_elapsed_ms()

    def get_elapsed_ms(self) -> float:
        return self.elapsed_ms if self.elapsed_ms is not None else (time.monotonic() - self.start_time) * 1000
