"""From threads to the loop: what many threads want sent crosses over together, not one by one.

Waking the loop costs more than sending. So what is handed over while a wake-up is on its way goes with it. No lock is
needed: the loop says that it comes before it looks, so whoever still hands over after that look wakes it again.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from steelyard.errors import LineClosed

__all__ = ["Submits"]

T = TypeVar("T")


class Submits(Generic[T]):
    """Things on their way to the loop, in the order given."""

    __slots__ = ("_is_due", "_loop", "_take", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[T], None]) -> None:
        self._loop, self._take = loop, take
        self._waiting: deque[T] = deque()
        self._is_due = False

    def put(self, thing: T) -> None:
        """Hand something over; from any thread. Raises LineClosed if the loop has ended."""
        self._waiting.append(thing)
        if not self._is_due:
            self._is_due = True
            try:
                self._loop.call_soon_threadsafe(self.drain)
            except RuntimeError:
                raise LineClosed("the client was closed meanwhile") from None

    def drain(self) -> None:
        """Take everything that was handed over; on the loop."""
        self._is_due = False
        waiting, take = self._waiting, self._take
        while waiting:
            take(waiting.popleft())
