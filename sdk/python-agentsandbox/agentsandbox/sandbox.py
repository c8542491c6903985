"""A sandbox: a box of a Sandglass server, made from a repository at a commit."""

from __future__ import annotations

import base64
import logging
import os
import subprocess
from typing import Any

from .client import Client, ServerError
from .config import SandboxConfig, TaskConfig
from .tools import TOOL_REGISTRY, ToolResult

log = logging.getLogger(__name__)

BUNDLE_MAX = 32 << 20  # the server's LIMIT_REPO_BUNDLE


class SandboxError(RuntimeError):
    pass


def _image(name: str) -> str:
    """What the image is called on the server: AGENTSANDBOX_IMAGES may say that a name stands for another."""
    for pair in os.environ.get("AGENTSANDBOX_IMAGES", "").split(","):
        theirs, _, ours = pair.strip().rpartition("=")
        if theirs and theirs == name:
            return ours
    return name


def _bundle(path: str) -> str | None:
    """A repository of this machine as a bundle, so that the server need not be able to read it; None: it cannot be had."""
    env = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0"}
    try:
        made = subprocess.run(["git", "-C", path, "bundle", "create", "-q", "-", "--all", "HEAD"], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True)
    except OSError:
        return None
    if made.returncode != 0 or not 0 < len(made.stdout) <= BUNDLE_MAX:
        return None
    return base64.b64encode(made.stdout).decode()


def _repo(url: str, commit: str) -> dict[str, str]:
    repo = {"url": url, "commit": commit}
    path = url[len("file://"):] if url.startswith("file://") else url
    if os.path.isdir(path):
        path = os.path.realpath(path)
        repo["url"] = "file://" + path
        bundle = _bundle(path)
        if bundle:
            repo["bundle"] = bundle
    return repo


class Sandbox:
    def __init__(self, config: SandboxConfig, task: TaskConfig | None = None, *, url: str | None = None,
                 token: str | None = None) -> None:
        self.config, self.task = config, task
        self._client = Client(url, token)
        self._box: str | None = None

    @classmethod
    def create(cls, config: SandboxConfig | None = None, task: TaskConfig | None = None, **where: str | None) -> Sandbox:
        """Makes it, clones the task's repository, checks its commit out and runs its set-up commands."""
        sandbox = cls(config or SandboxConfig(), task, **where)
        sandbox._start()
        return sandbox

    @classmethod
    def attach(cls, box: str, config: SandboxConfig | None = None, task: TaskConfig | None = None,
               **where: str | None) -> Sandbox:
        """One that exists already, such as one that the command line made."""
        sandbox = cls(config or SandboxConfig(), task, **where)
        sandbox._ask("GET", "", box=box)
        sandbox._box = box
        return sandbox

    def _ask(self, method: str, after: str, body: Any = None, box: str | None = None) -> Any:
        box = box or self._box
        if not box:
            raise SandboxError("沙箱未启动")
        try:
            return self._client.ask(method, self._client.box(box, after), body)
        except ServerError as e:
            raise SandboxError(str(e)) from e

    def _start(self) -> None:
        c, t = self.config, self.task or TaskConfig(domain="")
        work: dict[str, Any] = {"timeout": c.timeout, "work_dir": c.work_dir, "language": t.language,
                "setup_commands": list(t.setup_commands), "env": {k: str(v) for k, v in c.env_vars.items()}}
        if t.test_command:
            work["test_command"] = t.test_command
        body: dict[str, Any] = {"image": _image(c.image), "memory": c.memory_limit, "cpu": c.cpu_limit, "task": work,
                "network": "full" if c.network_enabled else "none", "labels": {"knowlyr-sandbox": "true"}}
        if t.repo_url:
            body["repo"] = _repo(t.repo_url, t.base_commit or "HEAD")
        try:
            made = self._client.ask("POST", "/sg/v1/boxes", body)
        except ServerError as e:
            raise SandboxError(str(e)) from e
        self._box = made["id"]
        for command, end in zip(work["setup_commands"], made.get("origin", {}).get("setup", [])):
            if end["exit_code"]:
                log.warning("set-up command failed with exit code %s: %s: %s", end["exit_code"], command, end["error"])

    # ---- tools ----

    def execute_tool(self, tool_name: str, params: dict[str, Any] | None = None) -> ToolResult:
        if tool_name not in TOOL_REGISTRY:
            return ToolResult(exit_code=1, error=f"未知工具: {tool_name}")
        return self._run(tool_name, params)

    def run_tests(self, timeout: float | None = None) -> ToolResult:
        """The task's test command, or the one that its language is usually tested with."""
        return self._run("run_tests", {} if timeout is None else {"timeout": timeout})

    def _run(self, tool: str, params: dict[str, Any] | None) -> ToolResult:
        if not self._box:
            return ToolResult(exit_code=1, error="沙箱未启动")
        body = {"tool": "knowlyr:" + tool, "params": dict(params or {})}
        try:
            answer = self._client.ask("POST", self._client.box(self._box, "/execute"), body)
        except ServerError as e:
            return ToolResult(exit_code=1, error=str(e))
        data = answer.get("data")
        if not isinstance(data, dict):  # it never ran, or nobody knows how it ended: the message says why
            return ToolResult(exit_code=1, error=f"{answer.get('outcome')}: {answer.get('message')}")
        return ToolResult(data["output"], data["exit_code"], data["error"])

    # ---- time ----

    def reset(self) -> None:
        """Back to the commit, with the set-up run again. Nothing else is left of what happened."""
        self._ask("POST", "/reset", {})

    def snapshot(self) -> str:
        """Keeps the files as they are; the id is for restore(), and outlives the sandbox."""
        return str(self._ask("POST", "/snapshot", {})["state"])

    def restore(self, snapshot: str) -> None:
        self._ask("POST", "/restore", {"state": snapshot})

    # ---- life ----

    @property
    def container_id(self) -> str | None:
        return self._box

    @property
    def is_running(self) -> bool:
        if not self._box:
            return False
        try:
            return self._ask("GET", "")["state"] in ("running", "paused")
        except SandboxError:
            return False

    def close(self) -> None:
        box, self._box = self._box, None
        if not box:
            return
        try:
            self._client.ask("DELETE", self._client.box(box))
        except ServerError as e:
            if e.status != 404:
                log.warning("sandbox %s was not destroyed: %s", box, e)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()
