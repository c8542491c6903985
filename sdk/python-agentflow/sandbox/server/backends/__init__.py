from .base import Backend, BackendConfig

__all__ = ["Backend", "BackendConfig"]
