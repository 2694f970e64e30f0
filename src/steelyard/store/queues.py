"""The index of one queue: where each of its messages lies in the log.

Twenty bytes a message, in memory and in Apache's files: position, size, and a mark (the hash of its tag, or the time it
is due in the topic of delayed messages). Offsets are dense: a message that was lost is a hole, an entry that points at
nothing and that readers step over. Entries of messages that are not yet in the log file are there, but not shown.
"""

from array import array
from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from sys import byteorder
from typing import NamedTuple

__all__ = ["ENTRY_BYTES", "ENTRY_WORDS", "HOLE", "HOLE_SIZE", "Entry", "QueueIndex"]

_ENTRY = Layout(">qiq")
ENTRY_BYTES = _ENTRY.size
ENTRY_WORDS = 5
HOLE_SIZE = 0x7FFFFFFF
"""What stands for the size of a lost message."""

HOLE = _ENTRY.pack(0, HOLE_SIZE, 0)
"""The entry of a lost message, as Apache writes it too."""

_pack = _ENTRY.pack
_IS_TURNED = byteorder == "little"


class Entry(NamedTuple):
    """Where a message lies, how long it is, and its mark."""

    position: int
    size: int
    mark: int

    @property
    def is_hole(self) -> bool:
        """Whether the message was lost."""
        return self.size == HOLE_SIZE


class QueueIndex:
    """The entries of one queue from offset ``start`` on.

    >>> index = QueueIndex()
    >>> index.add(0, 120, 7); index.end, index.shown
    (1, 0)
    >>> index.show(); index.entry(0)
    Entry(position=0, size=120, mark=7)
    """

    __slots__ = ("checked_end", "checked_start", "entries", "is_anew", "safe", "saved", "shown", "start")

    def __init__(self, start: int = 0, entries: bytes = b"") -> None:
        self.start = start
        self.entries = bytearray(entries)
        self.shown = self.end
        """Readers see offsets below this."""
        self.saved = self.start
        """Offsets below this are in the index file."""
        self.safe = self.start
        """Offsets below this are known to be safe there from a loss of power."""
        self.is_anew = False
        """Whether the files hold something else, and have to be written anew."""
        self.checked_start = self.checked_end = start
        """Offsets in between were held against the log."""

    @property
    def end(self) -> int:
        """The next offset to be given."""
        return self.start + len(self.entries) // ENTRY_BYTES

    def add(self, position: int, size: int, mark: int) -> None:
        """Add the entry of the next offset; it is not shown yet."""
        self.entries += _pack(position, size, mark)

    def add_many(self, positions: Iterable[int], sizes: Iterable[int], marks: Iterable[int]) -> None:
        """Add the entries of the next offsets, as many as there are marks."""
        self.entries += b"".join(map(_pack, positions, sizes, marks))

    def add_holes(self, count: int) -> None:
        """Add entries of lost messages."""
        self.entries += HOLE * count

    def make_hole(self, offset: int) -> None:
        """Note that a message was lost."""
        at = (offset - self.start) * ENTRY_BYTES
        self.entries[at : at + ENTRY_BYTES] = HOLE
        self.saved, self.safe = min(self.saved, offset), min(self.safe, offset)

    def show(self) -> None:
        """Show what was added."""
        self.shown = self.end

    def entry(self, offset: int) -> Entry:
        """Return one entry."""
        return Entry._make(_ENTRY.unpack_from(self.entries, (offset - self.start) * ENTRY_BYTES))

    def slice(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield position, size and mark of the offsets from ``start`` to ``end``, as plain tuples."""
        at, stop = (start - self.start) * ENTRY_BYTES, (end - self.start) * ENTRY_BYTES
        return _ENTRY.iter_unpack(self.entries[at:stop])

    def words(self, start: int, end: int) -> "array[int]":
        """Return the entries of the offsets from ``start`` to ``end`` as words of 32 bits, `ENTRY_WORDS` each.

        Two are the position, then the size, two the mark. Taking every fifth is much quicker than taking entries apart.

        >>> index = QueueIndex()
        >>> index.add(5, 120, 7); index.add(125, 90, 8)
        >>> index.words(0, 2)[2::ENTRY_WORDS].tolist()
        [120, 90]
        """
        at, stop = (start - self.start) * ENTRY_BYTES, (end - self.start) * ENTRY_BYTES
        found = array("I", bytes(self.entries[at:stop]))
        if _IS_TURNED:
            found.byteswap()
        return found

    def first_from(self, position: int) -> int:
        """Return the first offset whose message lies at or behind a position of the log; holes before it are passed."""
        low, high = self.start, self.shown
        while low < high:
            middle = (low + high) // 2
            if self._known_position(middle, high) < position:
                low = middle + 1
            else:
                high = middle
        return self._after_holes(low)

    def _after_holes(self, offset: int) -> int:
        while offset < self.shown and self.entry(offset).is_hole:
            offset += 1
        return offset

    def forget_before(self, position: int) -> bool:
        """Forget leading entries that point below a position of the log, and holes among them; say if any were."""
        return self.forget_to(self.first_from(position))

    def forget_holes(self) -> None:
        """Forget leading entries of messages that were lost."""
        self.forget_to(self._after_holes(self.start))

    def forget_to(self, low: int) -> bool:
        """Forget the entries below an offset; say if there were any."""
        if low <= self.start:
            return False
        del self.entries[: (low - self.start) * ENTRY_BYTES]
        self.start = low
        self.saved, self.safe = max(self.saved, low), max(self.safe, low)
        self.checked_start, self.checked_end = max(self.checked_start, low), max(self.checked_end, low)
        return True

    def _known_position(self, offset: int, stop: int) -> int:
        """Return the position of the first message from an offset on that is not lost; beyond all if none is."""
        for position, size, _ in self.slice(offset, stop):
            if size != HOLE_SIZE:
                return int(position)
        return self.entry(stop).position if stop < self.shown and not self.entry(stop).is_hole else 1 << 63
