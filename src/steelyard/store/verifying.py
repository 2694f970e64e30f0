"""A look at a whole directory, of ours or of Apache's, that changes nothing and takes no lock.

The log is walked from end to end: structure, checksums of bodies, sums. Then everything beside it is held against it:
queue indexes both ways, sums, key indexes, and the JSON documents by their own checksums.

What is behind the last whole message is an unfinished write, and cut by the next start. It is damage only if something
knew of a message there (the last close, an index entry, a sum): otherwise nobody was told that one was stored. What
nobody can tell from the files: messages that a loss of power took before anything else knew of them.

Beside a running broker this says what was true a moment ago; a place that looked broken is looked at again at the end.

Left out: Apache's own key index (``index/``) and its queues of other kinds, which its broker makes again from the log.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from struct import Struct as Layout
from typing import Any
from zlib import crc32

from steelyard.errors import NotAStore
from steelyard.store.disk import Disk
from steelyard.store.findings import Finding, Verdict, counted
from steelyard.store.forgotten import FORGOTTEN, forgotten_ends
from steelyard.store.index_checks import IndexCheck
from steelyard.store.index_files import INDEX_FOLDER, load_indexes
from steelyard.store.keys import KeyIndex, keys_path
from steelyard.store.log import LOG_FOLDER, Segment, segment_name
from steelyard.store.opening import look_at
from steelyard.store.queues import ENTRY_BYTES
from steelyard.store.recovery import Indexes
from steelyard.store.state import (
    CLOSED,
    DELAY_OFFSETS,
    FORMAT,
    GROUP_OFFSETS,
    GROUPS,
    SUBSCRIPTIONS,
    TOPICS,
    Closed,
    Document,
    Loaded,
    load,
)
from steelyard.store.sums import SUM_BYTES, SUMS_FOLDER, Sums, sums_path
from steelyard.store.walk import Damage, Found, Walk, read_whole
from steelyard.wire.record_layout import SMALLEST_BYTES

__all__ = ["Watch", "open_to_look", "verify"]

Watch = Callable[[int, int], None]
"""Told now and then how many bytes of the log are done, and of how many."""

_EVERY = 4096
_SUM = Layout(">q4x4s").iter_unpack
_DOCUMENTS: tuple[Document[Any], ...] = (
    TOPICS,
    GROUPS,
    GROUP_OFFSETS,
    DELAY_OFFSETS,
    SUBSCRIPTIONS,
    FORGOTTEN,
    FORMAT,
    CLOSED,
)
_NOT_QUEUES = b"%LMQ%"
"""Apache's queues of queues: their entries point at messages of other topics."""


@contextmanager
def open_to_look(disk: Disk) -> Iterator[list[Segment]]:
    """Open the log of a directory for as long as it is looked at; `NotAStore` if it holds none."""
    names = disk.names("")
    if LOG_FOLDER not in names and "steelyard" not in names:
        holds = f"holds {', '.join(names[:3])}, which no broker wrote" if names else "is empty, or not there"
        raise NotAStore(f"the directory {holds}", next_step="give one that a broker wrote")
    segments = look_at(disk, 0).segments
    try:
        yield segments
    finally:
        for segment in segments:
            segment.file.close()


def verify(disk: Disk, watch: Watch) -> Verdict:
    """Look at everything in a directory and say what is wrong with it."""
    # The indexes first: while a broker writes, the log is ahead of all that lies beside it, and never behind.
    known = load_indexes(disk)
    with open_to_look(disk) as segments:
        look = _Look(disk, known, segments, is_clean="abort" not in disk.names(""))
        messages = look.walk(watch)
        findings = tuple(look.findings())
    return Verdict(
        look.state(),
        len(segments),
        max(0, look.end - segments[0].start) if segments else 0,
        messages,
        len({topic for topic, _ in look.checks}),
        len(look.checks),
        findings,
    )


@dataclass(slots=True)
class _Look:
    """One look at a directory: what was read before, and what the walk gave."""

    disk: Disk
    known: Indexes
    segments: list[Segment]
    is_clean: bool
    end: int = 0
    checks: dict[tuple[bytes, int], IndexCheck] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    lost: dict[int, int] = field(default_factory=dict)
    """How many messages are lost, as far as known, by the position of the damage."""
    sums: dict[int, bytes] = field(default_factory=dict)
    closed: Loaded[Closed] = field(default_factory=lambda: Loaded(None))
    topics: frozenset[str] | None = None
    forgotten: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """The offset below which a queue was forgotten with its topic."""

    def walk(self, watch: Watch) -> int:
        """Walk the log, comparing on the way; return how many messages there are."""
        disk = self.disk
        self.closed = load(disk, CLOSED)
        table = load(disk, TOPICS).value
        self.topics = None if table is None else frozenset(table.topics)
        # Those of a file that is gone tell of it.
        starts = {each.start for each in self.segments} | _starts(disk, SUMS_FOLDER)
        self.sums = {start: disk.read(sums_path(start)) or b"" for start in sorted(starts)}
        self.forgotten = forgotten_ends(disk)
        self.checks = {
            queue: IndexCheck(*queue, index, self.forgotten.get(queue, 0))
            for queue, index in self.known.items()
            if not queue[0].startswith(_NOT_QUEUES)
        }
        walk = Walk(self.segments, {start: Sums(data) for start, data in self.sums.items() if data})
        first = self.segments[0].start if self.segments else 0
        size = sum(len(segment.view) for segment in self.segments)
        messages = 0
        for found in walk:
            self._meet(found, walk.damages)
            messages += 1
            if messages % _EVERY == 0:
                watch(found.position - first, size)
        watch(size, size)
        self.end = walk.end
        self.damages = [damage for damage in walk.damages if not self._is_whole_now(damage)]
        return messages

    def _meet(self, found: Found, damages: list[Damage]) -> None:
        queue = found.topic, found.queue_id
        check = self.checks.get(queue)
        if check is None:
            check = self.checks[queue] = IndexCheck(*queue, None, self.forgotten.get(queue, 0))
        missing, since = check.meet(found)
        if missing and damages:
            # The queue's numbers tell what was lost: in the first damage since its last message that has room for it.
            for damage in damages:
                if since < damage.position < found.position and missing <= damage.size // SMALLEST_BYTES:
                    self.lost[damage.position] = self.lost.get(damage.position, 0) + missing
                    break

    def _is_whole_now(self, damage: Damage) -> bool:
        """Say whether a place that looked broken is fine by now: a broker was just writing there."""
        segment = next((each for each in self.segments if each.path == damage.path), None)
        position, end = damage.position, damage.position + damage.size
        sums = Sums(self.sums[segment.start]) if segment is not None else None
        while segment is not None and segment.start <= position < end:
            found = read_whole(segment, position - segment.start, sums)
            if found is None:
                return False
            position += found.size
        return position == end

    # -- what was found -----------------------------------------------------------------------------------------------

    def state(self) -> str:
        """Say how the directory was left."""
        if not self.is_clean:
            return "not closed: a broker has it open, or the last one crashed"
        closed = self.closed.value
        is_longer = closed is not None and closed.end < self.end
        return "closed cleanly, and used by another program since" if is_longer else "closed cleanly"

    def findings(self) -> Iterator[Finding]:
        """Yield all that is wrong, the log first."""
        beyond = self._count_known_beyond()
        start = self.segments[0].start if self.segments else 0
        for damage in self.damages:
            what = "is missing" if damage.what == "missing" else "no message"
            yield Finding(damage.path, damage.position, damage.size, what, self.lost.get(damage.position))
        yield from self._of_tail(beyond)
        for segment in self.segments:
            if len(segment.view) != segment.size:
                what = f"the file should have {segment.size} bytes and has {len(segment.view)}"
                yield Finding(segment.path, segment.start, len(segment.view), what, is_damage=self.is_clean)
        yield from self._of_indexes(start)
        yield from self._of_unread_indexes()
        yield from self._of_sums()
        yield from self._of_documents()
        for segment in self.segments:
            content = self.disk.read(keys_path(segment.start))
            if content is not None and KeyIndex.load(self.disk, segment.start) is None:
                what = "the key index is damaged; it is made again from the log"
                yield Finding(keys_path(segment.start), 0, len(content), what, 0)

    def _is_told(self, position: int) -> bool:
        """Say whether what is lost at a position is told with the log."""
        return position >= self.end or self._damage_at(position) is not None

    def _damage_at(self, position: int) -> Damage | None:
        place = bisect_right(self.damages, position, key=lambda damage: damage.position) - 1
        damage = self.damages[place] if place >= 0 else None
        return damage if damage is not None and position < damage.position + damage.size else None

    def _count_known_beyond(self) -> int:
        """Count the messages that something knew behind the end of the log, and those that indexes knew in damage."""
        start = self.segments[0].start if self.segments else 0
        beyond = 0
        for check in self.checks.values():
            for position in check.unmet(start):
                damage = self._damage_at(position)
                if damage is not None:
                    self.lost[damage.position] = self.lost.get(damage.position, 0) + 1
                beyond += position >= self.end
        by_sums = sum(position >= self.end for data in self.sums.values() for position, whole in _sums(data) if whole)
        return max(beyond, by_sums)

    def _of_tail(self, beyond: int) -> Iterator[Finding]:
        closed = self.closed.value
        was_longer = self.is_clean and closed is not None and closed.end > self.end
        reach = [each for each in self.segments if each.end > self.end]
        size = sum(each.trailing_size(max(0, self.end - each.start)) for each in reach)
        path = reach[0].path if reach else f"{LOG_FOLDER}/{segment_name(self._start_of_next(closed))}"
        if was_longer or beyond:
            gone = "messages are gone from the end of the log"
            what = gone if reach else f"is missing: {gone}"
            yield Finding(path, self.end, size, what, beyond or None)
        elif size:
            what = "an unfinished write, which the next start cuts"
            yield Finding(path, self.end, size, what, 0, is_damage=False)

    def _start_of_next(self, closed: Closed | None) -> int:
        """Return where the first log file began that should be behind those that are there."""
        known = [start for start in self.sums if start >= self.end]
        if self.segments or not known:
            return self.end if self.segments or closed is None else closed.end - closed.end % closed.segment_bytes
        return min(known)

    def _of_indexes(self, log_start: int) -> Iterator[Finding]:
        others = frozenset(self.disk.names("batchconsumequeue"))
        missing = queues = 0
        for (topic, queue_id), check in self.checks.items():
            yield from check.wrong_entries(log_start, self._is_told)
            name = topic.decode(errors="backslashreplace")
            has_index = (topic, queue_id) in self.known
            if not has_index and (name in others or (self.topics is not None and name not in self.topics)):
                continue  # of another kind, or removed: its messages go when their log files do
            if self.is_clean:
                yield from check.missing_entries()
            elif check.missing:
                missing, queues = missing + check.missing, queues + 1
        if missing:
            what = (
                f"{counted(missing, 'message')} of {counted(queues, 'queue')} without entry, which the next start adds"
            )
            yield Finding(INDEX_FOLDER, 0, missing * ENTRY_BYTES, what, 0, is_damage=False)

    def _of_unread_indexes(self) -> Iterator[Finding]:
        for topic in self.disk.names(INDEX_FOLDER):
            for queue in self.disk.names(f"{INDEX_FOLDER}/{topic}"):
                path = f"{INDEX_FOLDER}/{topic}/{queue}"
                known = (
                    queue.isascii()
                    and queue.isdigit()
                    and (topic.encode(errors="surrogateescape"), int(queue)) in self.known
                )
                if not known and self.disk.names(path):
                    yield Finding(path, 0, 0, "the files of the index do not fit together")

    def _of_sums(self) -> Iterator[Finding]:
        for start, data in self.sums.items():
            damaged = sum(not whole for _, whole in _sums(data))
            if damaged:
                what = "sums are damaged; the messages are judged by what they carry"
                yield Finding(sums_path(start), 0, damaged * SUM_BYTES, what, 0)
            if rest := len(data) % SUM_BYTES:
                what = "an unfinished sum"
                yield Finding(sums_path(start), len(data) - rest, rest, what, 0, is_damage=self.is_clean)

    def _of_documents(self) -> Iterator[Finding]:
        for document in _DOCUMENTS:
            yield from _of_document(self.disk, document)
            if document.keeps_backup:
                yield from _of_document(self.disk, replace(document, path=document.backup))


def _of_document(disk: Disk, document: Document[Any]) -> Iterator[Finding]:
    note = load(disk, replace(document, keeps_backup=False)).note
    if note is not None:
        size = len(disk.read(document.path) or b"")
        yield Finding(document.path, 0, size, note.removeprefix(f"{document.path} "))


def _starts(disk: Disk, folder: str) -> set[int]:
    """Return the positions that the files of a folder are called after."""
    names = disk.names(folder)
    return {int(name) for name in names if name.isascii() and name.isdigit() and len(name) == 20}


def _sums(data: bytes) -> Iterator[tuple[int, bool]]:
    """Yield position and soundness of each sum; zeros at the end were never written."""
    whole = min(len(data), len(data.rstrip(b"\0")) + SUM_BYTES - 1) // SUM_BYTES * SUM_BYTES
    for place, (position, check) in enumerate(_SUM(data[:whole])):
        at = place * SUM_BYTES
        yield position, crc32(data[at : at + SUM_BYTES - 4]).to_bytes(4, "big") == check
