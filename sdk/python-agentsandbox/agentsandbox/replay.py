"""Trajectories, and running them again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sandbox import Sandbox


@dataclass
class TrajectoryStep:
    tool_name: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    expected_output: str | None = None


@dataclass
class Trajectory:
    steps: list[TrajectoryStep] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Trajectory:
        return cls([_step(s) for s in data.get("steps", [])], dict(data.get("metadata") or {}))

    def to_dict(self) -> dict[str, Any]:
        return {"steps": [{"tool_name": s.tool_name, "params": s.params, "expected_output": s.expected_output}
                          for s in self.steps], "metadata": self.metadata}


def _step(s: dict[str, Any]) -> TrajectoryStep:
    """All three shapes that knowlyr's packages write: replay's, the recorder's, and the hub's."""
    if "tool_call" in s:
        call, result = s["tool_call"] or {}, s.get("tool_result") or {}
        return TrajectoryStep(call.get("name", ""), dict(call.get("parameters") or {}), result.get("output"))
    if "tool_name" not in s and "tool" in s:
        return TrajectoryStep(s["tool"] or "", dict(s.get("params") or {}), s.get("output"))
    return TrajectoryStep(s.get("tool_name", ""), dict(s.get("params") or {}), s.get("expected_output"))


@dataclass
class ReplayResult:
    success: bool = True
    divergence_step: int = -1  # from 0; -1: none
    details: list[dict[str, Any]] = field(default_factory=list)
    total_steps: int = 0
    completed_steps: int = 0


def replay_trajectory(sandbox: Sandbox, trajectory: Trajectory) -> ReplayResult:
    """Runs every step in the sandbox as it is, and compares what is expected of it. It never stops early.

    For a comparison that knows what may differ (times, pids, temporary names) and says why something did: the command
    'sandglass replay'.
    """
    result = ReplayResult(total_steps=len(trajectory.steps))
    for i, step in enumerate(trajectory.steps):
        got = sandbox.execute_tool(step.tool_name, step.params)
        diverged = step.expected_output is not None and got.output.strip() != step.expected_output.strip()
        result.completed_steps += 1
        if diverged and result.divergence_step < 0:
            result.divergence_step = i
        result.success = result.success and not diverged and got.exit_code == 0
        result.details.append({"step": i, "tool_name": step.tool_name, "exit_code": got.exit_code, "diverged": diverged,
                               "output_preview": got.output[:200]})
    return result
