"""The exceptions of the facade and of the client."""

from __future__ import annotations

from typing import Any


class SandboxError(Exception):
    """All errors of the facade."""


class SandboxConnectionError(SandboxError):
    """No server."""


class SandboxServerStartError(SandboxError):
    """A server should have been started and did not come up."""


class SandboxSessionError(SandboxError):
    """A session could not be made or found."""


class HTTPClientError(Exception):
    """The server refused (`status_code`, `response`: the whole answer), or was not reached (`status_code` None)."""

    def __init__(self, message: str, status_code: int | None = None, response: Any = None) -> None:
        super().__init__(message)
        self.message, self.status_code, self.response = message, status_code, response
