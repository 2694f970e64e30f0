"""In-flight window of a queue: the messages that were pulled and not finished, and the offset that may be committed.

An offset is committed only when every message below it was finished. The *low end* is the first unfinished message, or
where the next pull starts if there is none. Messages come in batches, in order, and are finished in any order, mostly
that in which they came: so the low end is a position in one list, and only messages finished ahead of it are set aside.
"""

from collections.abc import Sequence

_TRIM_AFTER = 1_024
"""So many finished offsets are kept before the list is trimmed: rarely enough that it costs nothing."""


class InflightWindow:
    """The offsets between the low end and the next pull.

    >>> window = InflightWindow(10)
    >>> window.add([10, 11, 13], 14, 300)
    >>> window.low, window.next_offset, window.usage()
    (10, 14, (3, 300, 3))
    >>> window.finish([11])
    >>> window.low, window.unfinished
    (10, 2)
    >>> window.finish([10])
    >>> window.low
    13
    >>> window.finish([13])
    >>> window.low
    14
    """

    __slots__ = ("_ahead", "_batches", "_bytes", "_head", "_offsets", "_unpassed", "low", "next_offset", "start_offset")

    def __init__(self, start: int) -> None:
        self.start_offset = start
        """Where the window began."""
        self.low = start
        """The low end: everything below it is finished."""
        self.next_offset = start
        """Where the next pull starts."""
        self._offsets: list[int] = []
        self._head = 0
        # Finished ahead of the low end.
        self._ahead: set[int] = set()
        # Each batch that the low end has not passed: its last offset, its messages, its bytes.
        self._batches: list[tuple[int, int, int]] = []
        self._bytes = 0
        self._unpassed = 0

    @property
    def unfinished(self) -> int:
        """The number of messages that are not finished."""
        return len(self._offsets) - self._head - len(self._ahead)

    @property
    def body_bytes(self) -> int:
        """About how many bytes those messages take: within a batch each counts the same."""
        return self.usage()[1]

    def usage(self) -> tuple[int, int, int]:
        """Return `unfinished`, `body_bytes`, and the distance from the first unfinished message to the last pulled."""
        unfinished = len(self._offsets) - self._head - len(self._ahead)
        body_bytes = self._bytes * unfinished // self._unpassed if self._unpassed else 0
        return unfinished, body_bytes, self._offsets[-1] - self.low if self._head < len(self._offsets) else 0

    def first_new_index(self, offsets: Sequence[int]) -> int:
        """Return the index of the first of these offsets that is not in the window yet."""
        if not offsets or offsets[0] >= self.next_offset:
            return 0
        return next((at for at, offset in enumerate(offsets) if offset >= self.next_offset), len(offsets))

    def add(self, offsets: Sequence[int], next_offset: int, body_bytes: int) -> None:
        """Add a batch, in order, none of it below ``next_offset``; it may be empty."""
        if offsets:
            last = offsets[-1]
            self._offsets += offsets
            self._batches.append((last, len(offsets), body_bytes))
            self._bytes += body_bytes
            self._unpassed += len(offsets)
            next_offset = max(next_offset, last + 1)
        if next_offset > self.next_offset:
            self.next_offset = next_offset
        self._advance()

    def finish(self, offsets: Sequence[int]) -> None:
        """Mark messages of this window as finished, each once."""
        head = self._head
        end = head + len(offsets)
        # Mostly they are the very first ones: then nothing is set aside.
        if self._offsets[head:end] == list(offsets):
            self._head = end
        else:
            self._ahead.update(offsets)
        self._advance()

    def _advance(self) -> None:
        known, head = self._offsets, self._head
        end = len(known)
        if self._ahead:
            ahead = self._ahead
            while head < end and known[head] in ahead:
                ahead.remove(known[head])
                head += 1
            self._head = head
        self.low = known[head] if head < end else self.next_offset
        batches = self._batches
        while batches and batches[0][0] < self.low:
            _, count, body_bytes = batches.pop(0)
            self._bytes -= body_bytes
            self._unpassed -= count
        if head > _TRIM_AFTER:
            del known[:head]
            self._head = 0
