"""The messages of a queue that were pulled and not finished: what may be committed, and how much is waiting.

The rule: an offset is committed only when every message below it was finished. The *low end* is the first message that
is not, or, if there is none, where the next pull begins. Messages come in batches, in order; they are finished in any
order, mostly in the order they came, so the low end is a position in one list, and only what is finished ahead of it is
kept aside.

Left out: who handles messages, and what to do with those that failed (handling.py).
"""

from collections.abc import Sequence

__all__ = ["Window"]

_SWEEP = 1_024
"""So many finished offsets are kept before the list is cut: rarely enough that it costs nothing."""


class Window:
    """Offsets between what may be committed and what is pulled next.

    >>> window = Window(10)
    >>> window.add([10, 11, 13], 14, 300)
    >>> window.low, window.next, window.count, window.body_bytes, window.span
    (10, 14, 3, 300, 3)
    >>> window.finish([11])
    >>> window.low, window.count
    (10, 2)
    >>> window.finish([10])
    >>> window.low
    13
    >>> window.finish([13])
    >>> window.low
    14
    """

    __slots__ = ("_ahead", "_batches", "_bytes", "_head", "_offsets", "_unpassed", "low", "next", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        """Where it began."""
        self.low = start
        """What may be committed: everything below it is finished."""
        self.next = start
        """Where the next pull begins."""
        self._offsets: list[int] = []
        self._head = 0
        # Finished, and not passed by the low end yet.
        self._ahead: set[int] = set()
        # The size of each batch that the low end has not passed: its last offset, how many messages, how many bytes.
        self._batches: list[tuple[int, int, int]] = []
        self._bytes = 0
        self._unpassed = 0

    @property
    def count(self) -> int:
        """How many messages are not finished."""
        return len(self._offsets) - self._head - len(self._ahead)

    @property
    def body_bytes(self) -> int:
        """About how many bytes those messages take: within a batch each counts the same."""
        return self._bytes * self.count // self._unpassed if self._unpassed else 0

    @property
    def span(self) -> int:
        """How far the first unfinished message is from the last pulled one."""
        return self._offsets[-1] - self.low if self._head < len(self._offsets) else 0

    def unseen(self, offsets: Sequence[int]) -> int:
        """Return the position of the first of these that is not below ``next``: what came twice is in here already."""
        if not offsets or offsets[0] >= self.next:
            return 0
        return next((at for at, offset in enumerate(offsets) if offset >= self.next), len(offsets))

    def add(self, offsets: Sequence[int], next_offset: int, body_bytes: int) -> None:
        """Take in a batch, in order, none of it below ``next``; it may be empty."""
        if offsets:
            last = offsets[-1]
            self._offsets += offsets
            self._batches.append((last, len(offsets), body_bytes))
            self._bytes += body_bytes
            self._unpassed += len(offsets)
            next_offset = max(next_offset, last + 1)
        if next_offset > self.next:
            self.next = next_offset
        self._settle()

    def finish(self, offsets: Sequence[int]) -> None:
        """Note that messages of this window are finished, each once."""
        head = self._head
        end = head + len(offsets)
        # Mostly they are the very first ones: then nothing is set aside.
        if self._offsets[head:end] == list(offsets):
            self._head = end
        else:
            self._ahead.update(offsets)
        self._settle()

    def _settle(self) -> None:
        known, head = self._offsets, self._head
        end = len(known)
        if self._ahead:
            ahead = self._ahead
            while head < end and known[head] in ahead:
                ahead.remove(known[head])
                head += 1
            self._head = head
        self.low = known[head] if head < end else self.next
        batches = self._batches
        while batches and batches[0][0] < self.low:
            _, count, body_bytes = batches.pop(0)
            self._bytes -= body_bytes
            self._unpassed -= count
        if head > _SWEEP:
            del known[:head]
            self._head = 0
