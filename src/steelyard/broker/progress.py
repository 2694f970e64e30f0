"""How far a job has come, told only once what it wrote is safe.

A job that reads one topic and writes another remembers how far it read. If that number reached the disk and what it
wrote did not, a loss of power would make messages vanish. So a number is noted together with the end of the log at that
time, and given out once the disk has everything before it. What was done since the last number given out is found again
by looking (copies.py).
"""

from collections import deque
from typing import Generic, TypeVar

__all__ = ["Progress"]

T = TypeVar("T")


class Progress(Generic[T]):
    """Values that count from a position of the log on.

    >>> progress = Progress[str]()
    >>> progress.note(100, "a"); progress.note(200, "b")
    >>> progress.safe(150), progress.safe(150), progress.safe(200)
    ('a', None, 'b')
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, T]] = deque()

    def note(self, end: int, value: T) -> None:
        """Remember a value that counts once the log is safe up to a position."""
        self._waiting.append((end, value))

    def safe(self, durable: int) -> T | None:
        """Return the newest value that counts by now; None if that is no news."""
        value = None
        while self._waiting and self._waiting[0][0] <= durable:
            _, value = self._waiting.popleft()
        return value
