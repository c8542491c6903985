"""An environment as trainers know it: reset() and step(), with a reward function of yours. The interface is that of Gymnasium,
which is not needed for it."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Mapping
from typing import Any, Callable

from .aclient import AsyncBox, AsyncSandglass
from .errors import NotFound
from .result import Result
from .schema import ToolCall

Reward = Callable[..., Any]


class AsyncEnv:
    """Episodes in one box.

    reward     reward(env, result) after each step: a number, or a pair of number and whether the episode is over
    setup      setup(box), once: what every episode begins with. The state after it is kept; reset() goes back to it
    max_steps  an episode of so many steps is truncated

    An action is a command for the shell, a pair of tool and parameters, or a tool call of a model. An observation is the
    text that a model would be shown. Each episode is a trajectory of its own (`env.trajectory_id`). The remaining arguments
    describe the box, as for create().
    """

    def __init__(self, client: AsyncSandglass, reward: Reward, *, setup: Callable[[AsyncBox], Any] | None = None,
                 max_steps: int = 100, **spec: Any) -> None:
        self.client, self.reward, self.setup, self.max_steps, self.spec = client, reward, setup, max_steps, spec
        self.results: list[Result] = []  # of this episode
        self.trajectory_id: str | None = None
        self._box: AsyncBox | None = None
        self._start: str | None = None
        self._over = True

    @property
    def box(self) -> AsyncBox:
        """Where the episodes happen; there is one from the first reset() on."""
        if self._box is None:
            raise RuntimeError("reset() first")
        return self._box

    async def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """A new episode, from the same files. Returns the first observation (empty) and what is known. A box that was lost
        is replaced, and set up anew."""
        if self._box is not None and not await self._back():
            await self.close()
        if self._box is None:
            self._box = await self.client.create(**self.spec)
            if self.setup is not None:
                self._box.trajectory_id = f"{self._box.id}-setup"
                await _value(self.setup(self._box))
            self._start = await self._box.snapshot()
        self.trajectory_id = self._box.trajectory_id = "e-" + uuid.uuid4().hex[:20]
        self.results, self._over = [], False
        return "", {"box": self._box.id, "trajectory": self.trajectory_id, "state": self._start, "seed": seed}

    async def _back(self) -> bool:
        """Whether the box is there, with the files of the beginning."""
        try:
            return (await self.box.call("box:restore", {"state": self._start}, trajectory=f"{self.box.id}-setup", check=False)).ok
        except NotFound:
            return False

    async def _act(self, action: Any) -> Result:
        box = self.box
        if isinstance(action, str):
            return await box.call("bash:run", {"command": action}, check=False)
        if isinstance(action, tuple):
            return await box.call(action[0], action[1], check=False)
        if isinstance(action, Mapping) and "tool" in action:
            return await box.call(action["tool"], action.get("params") or {}, check=False)
        return await box.answer(ToolCall(action))

    async def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """observation, reward, terminated, truncated, info. `info["result"]` is the Result. A failure of the sandbox (not
        `trainable`) ends the episode as truncated, with reward 0: nothing is to be learned from it."""
        if self._over:
            raise RuntimeError("the episode is over: reset() first")
        try:
            result = await self._act(action)
        except NotFound as e:
            result = Result(outcome="box_lost", message=e.message, trainable=False)
        self.results.append(result)
        value: float = 0.0
        terminated, truncated = False, len(self.results) >= self.max_steps
        if not result.trainable and not result.ok and result.outcome != "invalid_request":
            truncated = True
        else:
            given = await _value(self.reward(self, result))
            value, terminated = (float(given[0]), bool(given[1])) if isinstance(given, tuple) else (float(given), False)
        self._over = terminated or truncated
        info = {"result": result, "outcome": result.outcome, "step": len(self.results), "trajectory": self.trajectory_id}
        return result.text, value, terminated, truncated, info

    async def close(self) -> None:
        """The box goes, the trajectories stay."""
        box, self._box, self._over = self._box, None, True
        if box is not None:
            await box.destroy()

    async def __aenter__(self) -> AsyncEnv:
        return self

    async def __aexit__(self, *why: Any) -> None:
        await self.close()


async def _value(given: Awaitable[Any] | Any) -> Any:
    """What a function of yours returned, whether it is a coroutine or not."""
    return await given if inspect.isawaitable(given) else given
