"""What comes back: results of calls, steps of trajectories, reports of replays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import OUTCOMES, OutcomeError


def shown(data: Any, outcome: str, message: str) -> str:
    """One text for a model: stdout, then stderr, or a file's content, else the data as JSON; then how it failed."""
    if not isinstance(data, Mapping):
        text = "" if data is None else str(data)
    elif "stdout" in data or "stderr" in data:
        text = str(data.get("stdout") or "") + str(data.get("stderr") or "")
    elif isinstance(data.get("content"), str):
        text = data["content"]
    elif isinstance(data.get("output"), str):
        text = data["output"]
    else:
        text = json.dumps(data, ensure_ascii=False)
    if outcome == "ok":
        return text
    code = data.get("exit_code") if isinstance(data, Mapping) else None
    end = f"[exit code {code}]" if outcome == "task_error" and isinstance(code, int) else f"[{outcome}: {message}]"
    return f"{text.rstrip(chr(10))}\n{end}" if text else end


SHOWN_MAX = 200  # characters of a text in a repr


def clipped(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "...")


@dataclass(repr=False)
class Result:
    """One call: what came back, how it ended, what it used. It is true if it ended as `ok`.

    outcome     ok, task_error, invalid_request, timeout, oom, disk_full, pid_limit, egress_denied, killed, box_lost, infra_error
    data        what the tool returned; `result["name"]` is one of its fields, `stdout`, `stderr`, `exit_code` are the usual ones
    message     why it did not end as `ok`
    retry_safe  it may be asked for again: nothing of it has happened
    trainable   it is the agent's doing, not the sandbox's
    times, use  microseconds queued and run; processor time, memory
    raw         the server's whole answer
    """

    outcome: str
    data: Any = None
    message: str = ""
    tool: str = ""
    retry_safe: bool = False
    trainable: bool = True
    trajectory_id: str | None = None
    step: int = 0
    box_id: str | None = None
    session_id: str | None = None
    state_id: str | None = None
    times: dict[str, int] = field(default_factory=dict)
    use: dict[str, int | None] = field(default_factory=dict)
    dropped_bytes: int = 0
    replayed: bool = False
    raw: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Result {self.tool} {self.outcome}: {clipped(self.text)}>"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Result:
        return cls(
            outcome=body["outcome"],
            data=body.get("data"),
            message=body.get("message") or "",
            tool=body.get("tool") or "",
            retry_safe=bool(body.get("retry_safe")),
            trainable=bool(body.get("trainable")),
            trajectory_id=body.get("trajectory_id"),
            step=body.get("step") or 0,
            box_id=body.get("box_id"),
            session_id=body.get("session_id"),
            state_id=body.get("state_id"),
            times=dict(body.get("times") or {}),
            use=dict(body.get("use") or {}),
            dropped_bytes=body.get("dropped_bytes") or 0,
            replayed=bool(body.get("replayed")),
            raw=dict(body),
        )

    @property
    def ok(self) -> bool:
        """Whether the outcome is `ok`."""
        return self.outcome == "ok"

    def __bool__(self) -> bool:
        return self.ok

    def get(self, name: str, otherwise: Any = None) -> Any:
        """A field of the data."""
        return self.data.get(name, otherwise) if isinstance(self.data, Mapping) else otherwise

    def __getitem__(self, name: str) -> Any:
        if not isinstance(self.data, Mapping):
            raise KeyError(name)
        return self.data[name]

    @property
    def stdout(self) -> str:
        """What a command wrote; empty of other tools."""
        return str(self.get("stdout") or "")

    @property
    def stderr(self) -> str:
        """The same for standard error."""
        return str(self.get("stderr") or "")

    @property
    def exit_code(self) -> int | None:
        """Of a command; None of other tools."""
        code = self.get("exit_code")
        return code if isinstance(code, int) else None

    @property
    def text(self) -> str:
        """What a model would be shown."""
        return shown(self.data, self.outcome, self.message)

    def check(self) -> Result:
        """Itself, or the exception of its outcome."""
        if not self.ok:
            raise OUTCOMES.get(self.outcome, OutcomeError)(self)
        return self


@dataclass(repr=False)
class Step:
    """One recorded call of a trajectory. `raw` is all that the server knows of it."""

    trajectory: str
    step: int
    tool: str
    params: Any
    observation: Any
    outcome: str | None
    message: str
    trainable: bool
    box: str | None
    time: str
    state_id: str | None
    state_root: str | None
    annotations: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Step {self.step} {self.tool} {self.outcome}: {clipped(self.text)}>"

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Step:
        return cls(
            trajectory=body.get("trajectory") or "",
            step=body.get("step") or 0,
            tool=body.get("tool") or body.get("action") or "",
            params=body.get("params"),
            observation=body.get("observation"),
            outcome=body.get("outcome"),
            message=body.get("message") or "",
            trainable=bool(body.get("trainable")),
            box=body.get("box"),
            time=body.get("time") or "",
            state_id=body.get("state_id"),
            state_root=body.get("state_root"),
            annotations=dict(body.get("annotations") or {}),
            raw=dict(body),
        )

    @property
    def text(self) -> str:
        """What a model would be shown."""
        return shown(self.observation, self.outcome or "ok", self.message)


@dataclass
class Report:
    """How a replay went. `success`: no step matters; `divergence_step` counts from 0, -1: none."""

    success: bool
    match: float
    total_steps: int
    completed_steps: int
    divergence_step: int
    counts: dict[str, int]
    details: list[dict[str, Any]] = field(repr=False)
    verified: bool | None
    raw: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Report:
        divergence = body.get("divergence_step")
        return cls(
            success=bool(body.get("success")),
            match=float(body.get("match") or 0),
            total_steps=body.get("total_steps") or 0,
            completed_steps=body.get("completed_steps") or 0,
            divergence_step=-1 if divergence is None else divergence,
            counts=dict(body.get("counts") or {}),
            details=list(body.get("details") or []),
            verified=body.get("verified"),
            raw=dict(body),
        )

    def __bool__(self) -> bool:
        return self.success if self.verified is None else self.verified
