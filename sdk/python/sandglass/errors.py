"""What can go wrong, as types. A request that the server refused is an ApiError; a call that ran and did not end as `ok` is an
OutcomeError, raised only where you asked for it (`check=True`, `Result.check()`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Result


SAID_MAX = 1000  # characters of what a command wrote last that its exception shows


class SandglassError(Exception):
    """All errors of this package."""


class ConnectError(SandglassError):
    """No server, or it went away and was not back in time."""


class ApiError(SandglassError):
    """The server refused. `status` is HTTP's, `code` the server's own word, `body` its whole answer."""

    def __init__(self, status: int, code: str, message: str, body: Any = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.body = status, code, message, body


class NotFound(ApiError):
    """There is no such box, trajectory, state, tool or file."""


class Denied(ApiError):
    """No credentials, wrong ones, or not enough rights."""


class Busy(ApiError):
    """A limit is reached for the moment; nothing was done."""


class Invalid(ApiError):
    """The request itself is wrong; the message names the field."""


class OutcomeError(SandglassError):
    """A call that did not end as `ok`. `result` is the whole Result."""

    def __init__(self, result: Result) -> None:
        said = (result.stderr or result.stdout).strip()
        tail = f"\n{'... ' if len(said) > SAID_MAX else ''}{said[-SAID_MAX:]}" if said else ""
        super().__init__(f"{result.tool}: {result.outcome}: {result.message}{tail}")
        self.result = result


class TaskError(OutcomeError):
    """It ran and failed: the agent's own doing."""


class InvalidCall(OutcomeError):
    """No such tool, or a parameter that it does not take."""


class CallTimeout(OutcomeError):
    """It took too long and was ended."""


class OutOfMemory(OutcomeError):
    """The box's memory was used up."""


class DiskFull(OutcomeError):
    """The box's disk was used up."""


class PidLimit(OutcomeError):
    """The box has too many processes."""


class EgressDenied(OutcomeError):
    """The network is closed for what it wanted."""


class Killed(OutcomeError):
    """Somebody ended it."""


class BoxLost(OutcomeError):
    """The box is gone."""


class InfraError(OutcomeError):
    """The sandbox failed, not the task; `result.retry_safe` says whether it may be asked again."""


OUTCOMES: dict[str, type[OutcomeError]] = {
    "task_error": TaskError,
    "invalid_request": InvalidCall,
    "timeout": CallTimeout,
    "oom": OutOfMemory,
    "disk_full": DiskFull,
    "pid_limit": PidLimit,
    "egress_denied": EgressDenied,
    "killed": Killed,
    "box_lost": BoxLost,
    "infra_error": InfraError,
}


def api_error(status: int, body: Any) -> ApiError:
    """The error that an answer of the server is."""
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict):
        code, message = str(error.get("code", "")), str(error.get("message", ""))
    else:
        code, message = "", str(body)[:500]
    kind: type[ApiError] = ApiError
    if status in (401, 403):
        kind = Denied
    elif status == 404:
        kind = NotFound
    elif status in (429, 503):
        kind = Busy
    elif status in (400, 409, 413, 415, 422):
        kind = Invalid
    return kind(status, code, message or f"HTTP status {status}", body)
