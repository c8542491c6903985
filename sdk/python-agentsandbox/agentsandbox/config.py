"""What a sandbox is made like, and what it is made for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SandboxConfig:
    image: str = "host"
    timeout: int = 300  # seconds of a tool call that does not say its own
    memory_limit: str = "512m"
    cpu_limit: float = 1.0
    work_dir: str = "/workspace"
    network_enabled: bool = False  # of the agent; the clone and the set-up have the network in any case
    env_vars: dict[str, Any] = field(default_factory=dict)


@dataclass
class TaskConfig:
    repo_url: str = ""
    base_commit: str = ""
    test_command: str = ""
    language: str = "python"
    setup_commands: list[str] = field(default_factory=list)
    description: str = ""
    domain: str = "coding"

    def validate(self) -> list[str]:
        """What is missing, as a list of messages; empty: nothing."""
        if self.domain != "coding":
            return []
        wanted = [("repo_url", self.repo_url), ("base_commit", self.base_commit)]
        return [f"{name} 不能为空" for name, value in wanted if not value]
