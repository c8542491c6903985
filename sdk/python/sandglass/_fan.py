"""Many things at once, with a bound and a bar."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Callable, TypeVar

T = TypeVar("T")
R = TypeVar("R")

sleep = time.sleep
asleep = asyncio.sleep


class Bar:
    """A progress bar on standard error. show None: only on a terminal."""

    def __init__(self, total: int, show: bool | None) -> None:
        self._total, self._done, self._failed, self._lock = total, 0, 0, threading.Lock()
        self._show = sys.stderr.isatty() if show is None else show
        self._began = time.monotonic()
        self._draw()

    def tick(self, failed: bool = False) -> None:
        with self._lock:
            self._done += 1
            self._failed += failed
            self._draw()

    def _draw(self) -> None:
        if not self._show or not self._total:
            return
        full = 30 * self._done // self._total
        rate = self._done / max(time.monotonic() - self._began, 1e-9)
        text = f"\r[{'#' * full}{'.' * (30 - full)}] {self._done}/{self._total}, {rate:.1f}/s"
        sys.stderr.write(text + (f", {self._failed} failed" if self._failed else ""))
        sys.stderr.flush()

    def end(self) -> None:
        if self._show and self._total:
            sys.stderr.write("\n")


def fan(function: Callable[[T], R], items: Iterable[T], concurrency: int, progress: bool | None,
        return_exceptions: bool) -> list[R]:
    """function(item) for all items, so many at once, results in order. The first exception ends what has not begun,
    unless it is to be a result."""
    wanted = list(items)
    bar = Bar(len(wanted), progress)

    def one(item: T) -> R:
        try:
            result = function(item)
        except BaseException as e:
            bar.tick(failed=True)
            if return_exceptions and isinstance(e, Exception):
                return e  # type: ignore[return-value]
            raise
        bar.tick()
        return result

    try:
        with ThreadPoolExecutor(max_workers=max(1, concurrency)) as pool:
            futures = [pool.submit(one, item) for item in wanted]
            try:
                for f in wait(futures, return_when=FIRST_EXCEPTION).done:
                    f.result()
                return [f.result() for f in futures]
            finally:  # an exception, control-C included: what has not begun does not
                for f in futures:
                    f.cancel()
    finally:
        bar.end()


async def afan(function: Callable[[T], Awaitable[R]], items: Iterable[T], concurrency: int,
               progress: bool | None, return_exceptions: bool) -> list[R]:
    """The same for coroutines; the first exception cancels the others."""
    wanted = list(items)
    bar, room = Bar(len(wanted), progress), asyncio.Semaphore(max(1, concurrency))

    async def one(item: T) -> R:
        async with room:
            try:
                result = await function(item)
            except BaseException as e:
                bar.tick(failed=True)
                if return_exceptions and isinstance(e, Exception):
                    return e  # type: ignore[return-value]
                raise
            bar.tick()
            return result

    tasks = [asyncio.ensure_future(one(item)) for item in wanted]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    finally:
        bar.end()
