"""Shared polling: a value is polled once for all subscribers, so ten browsers cost a cluster no more than one.

Every subscriber gets the newest value: a slow one misses those in between, and never makes another wait.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any, TypeVar

from steelyard.errors import SteelyardError

T = TypeVar("T")

_LINGER_S = 10.0


class PollFailure:
    """A poll that failed; polling goes on."""

    def __init__(self, error: SteelyardError) -> None:
        self.error = error


class _Poll:
    """One value that is polled while it has subscribers."""

    def __init__(self, period_ms: int, poll: Callable[[Any], Awaitable[Any]]) -> None:
        self.period_s, self.poll = period_ms / 1_000, poll
        self.value: Any = None
        self.version = 0  # how many times it was polled
        self.updated = asyncio.Event()
        self.subscribers = 0
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        left_at: float | None = None
        while True:
            began = loop.time()
            good = None if isinstance(self.value, PollFailure) else self.value
            try:
                self.value = await self.poll(good)
            except SteelyardError as error:
                self.value = PollFailure(error)
            self.version += 1
            self.updated.set()
            self.updated = asyncio.Event()
            left_at = None if self.subscribers else left_at or loop.time()
            if left_at is not None and loop.time() - left_at > _LINGER_S:
                return
            # The cluster rests at least as long as the poll took, however slow it is.
            took = loop.time() - began
            await asyncio.sleep(max(self.period_s - took, min(took, 5.0), 0.01))

    async def wait(self, updated: asyncio.Event) -> None:
        """Wait for the next value; raise what ended the poll, if it has ended."""
        await updated.wait()
        if self.task is not None and self.task.done():
            self.task.result()


class SharedPolls:
    """All polls, by key."""

    def __init__(self) -> None:
        self._polls: dict[Hashable, _Poll] = {}

    async def subscribe(
        self, key: Hashable, period_ms: int, poll: Callable[[T | None], Awaitable[T]]
    ) -> AsyncIterator[T | PollFailure]:
        """Yield the newest value, at once if there is one, and then after each poll.

        ``poll`` gets the previous value, or None; it is called every ``period_ms`` for all subscribers of the key.
        """
        shared = self._start(key, period_ms, poll)
        shared.subscribers += 1
        seen = 0
        try:
            while True:
                updated = shared.updated
                if shared.version > seen:
                    seen = shared.version
                    yield shared.value
                else:
                    await shared.wait(updated)
        finally:
            shared.subscribers -= 1

    async def latest(self, key: Hashable, period_ms: int, poll: Callable[[T | None], Awaitable[T]]) -> T:
        """Return the newest value, after a first poll if there is none; polling goes on for a while."""
        shared = self._start(key, period_ms, poll)
        while not shared.version:
            await shared.wait(shared.updated)
        value = shared.value
        if isinstance(value, PollFailure):
            raise value.error
        found: T = value
        return found

    def _start(self, key: Hashable, period_ms: int, poll: Callable[[Any], Awaitable[Any]]) -> _Poll:
        shared = self._polls.get(key)
        if shared is None or shared.task is None or shared.task.done():
            shared = self._polls[key] = _Poll(period_ms, poll)
            shared.task = asyncio.get_running_loop().create_task(shared.run())
            shared.task.add_done_callback(lambda _: self._forget(key, shared))
        return shared

    def _forget(self, key: Hashable, poll: _Poll) -> None:
        if self._polls.get(key) is poll:
            del self._polls[key]
        poll.updated.set()

    async def close(self) -> None:
        """Cancel all polls."""
        tasks = [shared.task for shared in self._polls.values() if shared.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
