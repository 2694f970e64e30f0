"""What a puller needs of a way to read: that of a member (shared.py), or of certain queues (assigned.py).

Queues and topics are full names here. Messages wait on shelves, which the puller and its reading have in common.
"""

from collections.abc import Mapping
from typing import Protocol

from steelyard.balance.events import Unreadable
from steelyard.client.consuming.explained import Explained
from steelyard.client.consuming.received import Received
from steelyard.client.pulling.shelves import Shelf
from steelyard.errors import SteelyardError
from steelyard.model import Queue

__all__ = ["Reading"]


class Reading(Protocol):
    """One of the two ways to read."""

    trouble: SteelyardError | None
    """Why something cannot be read, for whoever polls next."""

    def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End, in order."""

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are read now."""

    def may_give(self, shelf: Shelf) -> bool:
        """Say whether messages of a shelf may be polled."""

    def unreadable(self, message: Received, found: Unreadable) -> bool:
        """Take note that a message which was to be polled cannot be; say whether its queue stands still for that."""

    def look(self) -> None:
        """Drop what is here of queues that are not read any more."""

    def polled(self) -> None:
        """Take note that messages were polled."""

    def done(self, shelf: Shelf, offsets: list[int]) -> None:
        """Take note that messages are done."""

    def lost(self) -> tuple[Queue, ...]:
        """Return queues that went while messages of them were polled and not done; each is told of once."""

    def explain(self) -> Explained:
        """Return what is read, how far that is, and why."""

    async def position(self, queue: Queue) -> int:
        """Return the offset that is polled next."""

    def seek(self, queue: Queue, offset: int) -> None:
        """Go on at another offset."""

    async def store(self) -> tuple[Queue, ...]:
        """Store how far every queue is done; return those for which that came too late."""

    async def store_at(self, offsets: Mapping[Queue, int]) -> tuple[Queue, ...]:
        """Store these offsets; return the queues for which that came too late."""
