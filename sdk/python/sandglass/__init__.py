"""Computers for agents, with every call recorded.

    import sandglass

    with sandglass.local() as sg, sg.create(memory="512m") as box:
        print(box.run("echo hello").stdout)
        for step in box.trajectory().steps():
            print(step.tool, step.outcome)
"""

from .aclient import AsyncBox, AsyncOutput, AsyncSandglass, AsyncTrajectory
from .aenv import AsyncEnv
from .client import Box, Output, Sandglass, Trajectory
from .env import Env
from .errors import (
    ApiError,
    BoxLost,
    Busy,
    CallTimeout,
    ConnectError,
    Denied,
    DiskFull,
    EgressDenied,
    InfraError,
    Invalid,
    InvalidCall,
    Killed,
    NotFound,
    OutcomeError,
    OutOfMemory,
    PidLimit,
    SandglassError,
    TaskError,
)
from .local import Server, alocal, local
from .result import Report, Result, Step

__version__ = "0.1.0"

__all__ = [
    "ApiError",
    "AsyncBox",
    "AsyncEnv",
    "AsyncOutput",
    "AsyncSandglass",
    "AsyncTrajectory",
    "Box",
    "BoxLost",
    "Busy",
    "CallTimeout",
    "ConnectError",
    "Denied",
    "DiskFull",
    "EgressDenied",
    "Env",
    "InfraError",
    "Invalid",
    "InvalidCall",
    "Killed",
    "NotFound",
    "OutOfMemory",
    "OutcomeError",
    "Output",
    "PidLimit",
    "Report",
    "Result",
    "Sandglass",
    "SandglassError",
    "Server",
    "Step",
    "TaskError",
    "Trajectory",
    "alocal",
    "local",
]
