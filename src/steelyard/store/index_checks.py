"""A queue's index held against the log, both ways: entries that point at nothing, and messages that have none.

The entries are a copy made before the log is walked: what a running broker adds meanwhile has messages in the log and
no entry here, which is a note and no damage. A queue that begins again at a lower offset belongs to a topic that was
removed and made anew: what came before has no entry and needs none. Nor does what a broker of ours has forgotten with
its topic (forgotten.py).
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from struct import Struct as Layout

from steelyard.store.findings import Finding, counted
from steelyard.store.index_files import INDEX_FOLDER
from steelyard.store.marks import SCHEDULE_TOPIC, mark_of
from steelyard.store.queues import ENTRY_BYTES, HOLE_SIZE, QueueIndex
from steelyard.store.walk import Found

__all__ = ["IndexCheck"]

_pack_place = Layout(">qi").pack
_read_mark = Layout(">q").unpack_from
_PLACE_BYTES = 12

_UNMET, _MET, _WRONG = 0, 1, 2

# Below any tag's hash: what Apache writes when it keeps more about a message in files of its own.
_ELSEWHERE = -(1 << 31)


class IndexCheck:
    """The index of one queue, and which of its entries the log has confirmed so far."""

    __slots__ = ("_first_missing", "_forgotten_to", "_index", "_met", "_next", "_path", "_seen_to", "missing")

    def __init__(self, topic: bytes, queue_id: int, index: QueueIndex | None, forgotten_to: int = 0) -> None:
        self._path = f"{INDEX_FOLDER}/{topic.decode(errors='backslashreplace')}/{queue_id}"
        self._index = index if index is not None else QueueIndex()
        self._forgotten_to = forgotten_to
        self._index.forget_to(min(forgotten_to, self._index.end))
        self._met = bytearray(self._index.end - self._index.start)
        self.missing = 0
        """How many messages have no entry."""
        self._first_missing = 0
        self._next = -1
        self._seen_to = 0

    def meet(self, found: Found) -> tuple[int, int]:
        """Compare with one message of the log; return how many are missing before it, and since which position.

        Those that have an entry do not count: their entry tells where they were.
        """
        index, offset = self._index, found.offset
        gap, since = offset - self._next if self._next >= 0 else 0, self._seen_to
        missing = gap - self._entries_between(self._next, offset) if gap > 0 else 0
        self._next, self._seen_to = offset + 1, found.position
        at = offset - index.start
        if offset < self._forgotten_to:
            return missing, since
        if not 0 <= at < len(self._met):
            self._first_missing = self._first_missing if self.missing else offset
            self.missing += 1
        elif _is_entry(found, index.entries, at * ENTRY_BYTES):
            if gap < 0:
                self.missing = 0
                self._met[at:] = self._met[at:].replace(bytes((_WRONG,)), bytes((_UNMET,)))
            self._met[at] = _MET
        elif self._met[at] == _UNMET:
            self._met[at] = _WRONG
        return missing, since

    def _entries_between(self, start: int, end: int) -> int:
        start, end = max(start, self._index.start), min(end, self._index.end)
        return sum(size != HOLE_SIZE for _, size, _ in self._index.slice(start, end)) if start < end else 0

    def unmet(self, log_start: int) -> Iterator[int]:
        """Yield the positions of entries that point at no message of theirs, though they should."""
        if _UNMET in self._met:
            for offset, state in enumerate(self._met, self._index.start):
                if state == _UNMET and self._points(offset, log_start):
                    yield self._index.entry(offset).position

    def _points(self, offset: int, log_start: int) -> bool:
        entry = self._index.entry(offset)
        return not entry.is_hole and entry.position >= log_start

    def missing_entries(self) -> Iterator[Finding]:
        """Yield that messages have no entry, if so: damage after a clean close, and usual after a crash."""
        if self.missing:
            said = f"{counted(self.missing, 'message')} without entry, from offset {self._first_missing} on"
            yield self._finding(self._first_missing, self.missing, said)

    def wrong_entries(self, log_start: int, is_told: Callable[[int], bool]) -> Iterator[Finding]:
        """Yield entries that do not fit the log; ``is_told`` says of a position that its loss is told already."""
        if _UNMET not in self._met and _WRONG not in self._met:
            return
        for state, run in groupby(enumerate(self._met, self._index.start), key=lambda pair: pair[1]):
            offsets = [offset for offset, _ in run]
            if state == _UNMET:
                offsets = [
                    offset
                    for offset in offsets
                    if self._points(offset, log_start) and not is_told(self._index.entry(offset).position)
                ]
            if state != _MET and offsets:
                verb = "point elsewhere than at their messages" if state == _WRONG else "point at no message"
                said = f"entries from offset {offsets[0]} on {verb} ({len(offsets)} of them)"
                yield self._finding(offsets[0], len(offsets), said, None if state == _WRONG else len(offsets))

    def _finding(self, offset: int, count: int, what: str, lost: int | None = None) -> Finding:
        return Finding(self._path, offset * ENTRY_BYTES, count * ENTRY_BYTES, what, lost)


def _is_entry(found: Found, entries: bytearray, at: int) -> bool:
    """Say whether the entry at a byte is that of a message."""
    if entries[at : at + _PLACE_BYTES] != _pack_place(found.position, found.size):
        return False
    mark: int = _read_mark(entries, at + _PLACE_BYTES)[0]
    if found.topic == SCHEDULE_TOPIC and mark >= found.stored_ms:
        return True  # how long each level delays is a setting of the broker that wrote it
    # Apache's 4.9 writes the tag's hash for delayed messages too when it repairs an index.
    return mark < _ELSEWHERE or mark == mark_of(b"", found.properties, found.stored_ms)
