"""What Java's client keeps of a queue that it has: messages that came, and how far they are handled.

It knows no generation: a queue that is taken away is marked as dropped, and whoever still works on it looks at the
mark. Offsets are committed up to the first message that is not done.
"""

from collections.abc import Sequence

from steelyard.model import Queue, StoredMessage

__all__ = ["LOCK_AGE_MS", "ProcessQueue"]

LOCK_AGE_MS = 30_000
"""How old the answer to a lock may be before nothing is handled in order."""

_PULL_AGE_MS = 120_000
_MOST_MESSAGES, _MOST_SPAN = 1_000, 2_000


class ProcessQueue:
    """A queue that a member has.

    >>> queue = ProcessQueue(Queue("orders", "b", 0), 5, 0)
    >>> queue.put([StoredMessage(queue.queue, offset, b"") for offset in (5, 6, 7)])
    >>> queue.done(6), queue.done(5), queue.done(7)
    (5, 7, 8)
    """

    def __init__(self, queue: Queue, next_offset: int, now_ms: int) -> None:
        self.queue, self.next_offset = queue, next_offset
        self.is_dropped = False
        self.is_locked = False
        self.locked_ms = 0
        self.pulled_ms = self.handled_ms = now_ms
        self.unlock_tries = 0
        self.was_locked = False
        """Whether it was pulled from with the lock before: the first time the offset is asked for again."""
        self.is_busy = False
        """In order: whether a thread works on it."""
        self.is_in_listener = False
        """In order: whether the user's code is at it, which is what a thread that takes it away waits for."""
        self.tries: dict[int, int] = {}
        """How often a message was tried here."""
        self._messages: dict[int, StoredMessage] = {}
        self._taken: dict[int, StoredMessage] = {}
        self._highest = -1

    @property
    def messages(self) -> int:
        """How many messages are not done."""
        return len(self._messages) + len(self._taken)

    @property
    def is_full(self) -> bool:
        """Whether it has enough for now."""
        span = self._highest - next(iter(self._messages)) if self._messages else 0
        return self.messages > _MOST_MESSAGES or span > _MOST_SPAN

    def put(self, messages: Sequence[StoredMessage]) -> None:
        """Add messages that came, which are in order."""
        for message in messages:
            self._messages[message.offset] = message
            self._highest = max(self._highest, message.offset)

    def done(self, offset: int) -> int:
        """Take out a message that is done; return what may be committed."""
        self._messages.pop(offset, None)
        self.tries.pop(offset, None)
        # A message that is tried again keeps its place: nothing is ever added but behind the others.
        return next(iter(self._messages)) if self._messages else self._highest + 1

    def take(self) -> StoredMessage | None:
        """Take the next message in order; it stays with whoever handles it until `commit` or `put_back`."""
        if not self._messages:
            return None
        offset = next(iter(self._messages))
        message = self._taken[offset] = self._messages.pop(offset)
        return message

    def commit(self) -> int:
        """Let go of what was taken; return what may be committed."""
        last = max(self._taken)
        for offset in self._taken:
            self.tries.pop(offset, None)
        self._taken.clear()
        return last + 1

    def put_back(self) -> None:
        """Put back what was taken, to be handled again."""
        self._messages = self._taken | self._messages
        self._taken = {}

    def is_lock_old(self, now_ms: int) -> bool:
        """Whether the lock was last confirmed too long ago."""
        return now_ms - self.locked_ms > LOCK_AGE_MS

    def is_stuck(self, now_ms: int) -> bool:
        """Whether it was not pulled from for so long that it is given up and taken again."""
        return now_ms - self.pulled_ms > _PULL_AGE_MS
