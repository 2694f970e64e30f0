"""A range while it is read: cut into stretches that are pulled side by side, and put together again in order.

The end of a range is known, so its parts need not wait for each other. Within a stretch one pull follows the other,
each from where the last one ended; so a broker may give less than was asked for, or, of what matches a filter, from
further on than expected, and nothing is read twice. What is found in the first stretch that is not done leaves at once;
the others hold theirs until it is their turn.

What a broker does not have any more is found like records are, and told in its place: pieces of one loss become one.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from steelyard.model import OffsetRange, Queue

__all__ = ["Lost", "Piece", "RangeReading", "Stretch"]

Lost = Callable[[OffsetRange, str], None]
"""Told of offsets that are not there any more, and why; it may raise."""


class Piece(NamedTuple):
    """Records of a queue, back to back as a broker gave them; those outside ``start`` to ``end`` are not wanted.

    Batches that were stored as one record, and answers that a filter went through, may begin before and end after.
    """

    queue: Queue
    start: int
    end: int
    records: bytes


class _Found(NamedTuple):
    """Something of a stretch in the order of offsets: records, or the reason why there are none."""

    start: int
    end: int
    records: bytes
    why: str


class Stretch:
    """A part of a range: read up to ``at``, wanted up to ``end``."""

    __slots__ = ("asked", "at", "due_ms", "end", "found", "reading", "stuck_ms", "tries")

    def __init__(self, reading: "RangeReading", start: int, end: int) -> None:
        self.reading = reading
        self.at = start
        self.end = end
        self.asked = 0
        """How many messages the pull that is under way asked for."""
        self.found: list[_Found] = []
        self.stuck_ms: int | None = None
        """Since when there was nothing to be had at this offset."""
        self.tries = 0
        """How often it was asked for since then."""
        self.due_ms = 0
        """Not to be asked for before this time."""

    @property
    def is_done(self) -> bool:
        """Whether everything of it was found."""
        return self.at >= self.end

    @property
    def is_head(self) -> bool:
        """Whether what is found in it can leave at once."""
        return self.reading.is_next and self.reading.stretches[0] is self

    def take(self, following: int, records: bytes) -> None:
        """Take what a pull brought, and go on from the offset that it named; without records nothing matched."""
        end = min(following, self.end)
        if records:
            self.found.append(_Found(self.at, end, records, ""))
            self.reading.held_bytes += len(records)
        self._go_on(end)

    def lose(self, end: int, why: str) -> None:
        """Take note that there is nothing up to an offset."""
        end = min(end, self.end)
        self.found.append(_Found(self.at, end, b"", why))
        self._go_on(end)

    def _go_on(self, offset: int) -> None:
        self.at, self.stuck_ms, self.tries, self.due_ms = offset, None, 0, 0


class RangeReading:
    """One range while it is read."""

    __slots__ = ("_lost", "_lost_why", "_on_lost", "end", "frontier", "held_bytes", "is_next", "queue", "stretches")

    def __init__(self, wanted: OffsetRange, on_lost: Lost) -> None:
        self.queue = wanted.queue
        self.frontier = wanted.start
        """Up to here it is cut into stretches."""
        self.end = wanted.end
        self.stretches: deque[Stretch] = deque()
        """Those that are not done, or wait for their turn."""
        self.held_bytes = 0
        self.is_next = False
        """Whether all ranges before it are over: what is found in its first stretch leaves at once."""
        self._on_lost = on_lost
        self._lost: OffsetRange | None = None
        self._lost_why = ""

    @property
    def is_cut(self) -> bool:
        """Whether there is nothing left to be cut."""
        return self.frontier >= self.end

    @property
    def is_over(self) -> bool:
        """Whether all of it was found, and has left."""
        return self.is_cut and not self.stretches

    def cut(self, stride: int) -> Stretch:
        """Cut the next stretch."""
        start, self.frontier = self.frontier, min(self.frontier + stride, self.end)
        stretch = Stretch(self, start, self.frontier)
        self.stretches.append(stretch)
        return stretch

    def uncut(self, stretch: Stretch) -> bool:
        """Give the rest of the last stretch back, to be cut anew; say whether it was the last one."""
        if self.stretches[-1] is not stretch:
            return False
        self.frontier = stretch.end = stretch.at
        return True

    def skip_to(self, offset: int, why: str) -> None:
        """Take note that there is nothing up to an offset, of what is not cut yet."""
        if min(offset, self.end) > self.frontier:
            self.cut(offset - self.frontier).lose(offset, why)

    def ready(self) -> list[Piece]:
        """Return what may leave: all that was found in order. Losses are told on the way."""
        pieces: list[Piece] = []
        stretches = self.stretches
        while stretches:
            head = stretches[0]
            for start, end, records, why in head.found:
                if why:
                    self._note_lost(start, end, why)
                else:
                    self._tell_lost()
                    self.held_bytes -= len(records)
                    pieces.append(Piece(self.queue, start, end, records))
            head.found.clear()
            if not head.is_done:
                break
            stretches.popleft()
        if not stretches and self.is_cut:
            self._tell_lost()
        return pieces

    def _note_lost(self, start: int, end: int, why: str) -> None:
        lost = self._lost
        if lost is not None and lost.end == start:
            self._lost = OffsetRange(self.queue, lost.start, end)
            return
        self._tell_lost()
        self._lost, self._lost_why = OffsetRange(self.queue, start, end), why

    def _tell_lost(self) -> None:
        lost, self._lost = self._lost, None
        if lost:
            self._on_lost(lost, self._lost_why)
