"""AIO Sandbox's Python package, over a Sandglass server."""

from .client import AsyncSandbox, Sandbox
from .core import ApiError, ConflictError, Content, Model, UnprocessableEntityError

__all__ = ["ApiError", "AsyncSandbox", "ConflictError", "Content", "Model", "Sandbox", "UnprocessableEntityError"]
