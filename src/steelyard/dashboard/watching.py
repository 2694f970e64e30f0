"""Looking again and again, once for all who watch: ten browsers cost a cluster no more than one.

A watch begins with its first watcher and ends some seconds after its last. Everybody gets the newest value: who is slow
misses those in between, and never makes anybody wait.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any, TypeVar

from steelyard.errors import SteelyardError

__all__ = ["Trouble", "Watches"]

T = TypeVar("T")

_LINGER_S = 10.0


class Trouble:
    """A look that failed; watching goes on."""

    def __init__(self, error: SteelyardError) -> None:
        self.error = error


class _Watch:
    """One thing that is looked at while somebody watches."""

    def __init__(self, period_ms: int, look: Callable[[Any], Awaitable[Any]]) -> None:
        self.period_s, self.look = period_ms / 1_000, look
        self.value: Any = None
        self.turn = 0
        """How many times it was looked at."""
        self.news = asyncio.Event()
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        left_at: float | None = None
        while True:
            began = loop.time()
            good = None if isinstance(self.value, Trouble) else self.value
            try:
                self.value = await self.look(good)
            except SteelyardError as error:
                self.value = Trouble(error)
            self.turn += 1
            self.news.set()
            self.news = asyncio.Event()
            left_at = None if self.watchers else left_at or loop.time()
            if left_at is not None and loop.time() - left_at > _LINGER_S:
                return
            # As long as a look took is given back to the cluster, however slow it is.
            took = loop.time() - began
            await asyncio.sleep(max(self.period_s - took, min(took, 5.0), 0.01))

    async def wait(self, news: asyncio.Event) -> None:
        """Wait for news; where there will be none any more, since looking met a bug or was ended, fail as that did."""
        await news.wait()
        if self.task is not None and self.task.done():
            self.task.result()


class Watches:
    """All that is watched, by key."""

    def __init__(self) -> None:
        self._watches: dict[Hashable, _Watch] = {}

    async def watch(
        self, key: Hashable, period_ms: int, look: Callable[[T | None], Awaitable[T]]
    ) -> AsyncIterator[T | Trouble]:
        """Yield the newest value, now if there is one, and then each time it was looked at.

        ``look`` gets the value before, or None; it is called every ``period_ms`` for all watchers of the key together.
        """
        watch = self._started(key, period_ms, look)
        watch.watchers += 1
        seen = 0
        try:
            while True:
                news = watch.news
                if watch.turn > seen:
                    seen = watch.turn
                    yield watch.value
                else:
                    await watch.wait(news)
        finally:
            watch.watchers -= 1

    async def latest(self, key: Hashable, period_ms: int, look: Callable[[T | None], Awaitable[T]]) -> T:
        """Return the newest value, after a first look if there is none; keep looking for a while."""
        watch = self._started(key, period_ms, look)
        while not watch.turn:
            await watch.wait(watch.news)
        value = watch.value
        if isinstance(value, Trouble):
            raise value.error
        found: T = value
        return found

    def _started(self, key: Hashable, period_ms: int, look: Callable[[Any], Awaitable[Any]]) -> _Watch:
        watch = self._watches.get(key)
        if watch is None or watch.task is None or watch.task.done():
            watch = self._watches[key] = _Watch(period_ms, look)
            watch.task = asyncio.get_running_loop().create_task(watch.run())
            watch.task.add_done_callback(lambda _: self._forget(key, watch))
        return watch

    def _forget(self, key: Hashable, watch: _Watch) -> None:
        if self._watches.get(key) is watch:
            del self._watches[key]
        watch.news.set()

    async def close(self) -> None:
        """Stop watching everything."""
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
