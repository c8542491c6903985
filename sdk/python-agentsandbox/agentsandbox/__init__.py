"""Sandboxes for code agents, as knowlyr-sandbox offers them, made by a Sandglass server."""

from .config import SandboxConfig, TaskConfig
from .replay import ReplayResult, Trajectory, TrajectoryStep, replay_trajectory
from .sandbox import Sandbox, SandboxError
from .tools import TOOL_REGISTRY, ToolResult

__version__ = "0.1.2"

__all__ = [
           "TOOL_REGISTRY",
           "ReplayResult",
           "Sandbox",
           "SandboxConfig",
           "SandboxError",
           "TaskConfig",
           "ToolResult",
           "Trajectory",
           "TrajectoryStep",
           "__version__",
           "replay_trajectory",
]
