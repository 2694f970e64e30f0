"""Consume queue: where each message of one queue lies in the log, in memory and in Apache's files.

Twenty bytes a message: position, size and tags code. Offsets are dense: a lost message is a hole, an entry that points
at nothing and that readers skip. Entries of messages that are not in the log file yet exist, but are not visible. Files
are ``consumequeue/<topic>/<queue>/<first byte>``, 300,000 entries each.

Missing or wrong files are rebuilt from the log. But a consume queue may know more than the log does: how many messages
a queue had whose log files are gone. So rebuilt files replace the old ones one by one, the one with the queue's last
offset stays, and only queues without a durable message in the log are synced: to sync all takes minutes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from struct import Struct as Layout
from sys import byteorder
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct, field

from steelyard.errors import DiskFailed
from steelyard.store.commit_log import segment_name, segment_starts
from steelyard.store.disk import Disk, make_folder, write_all
from steelyard.store.json_documents import JsonDocument, load_document, save_document

_ENTRY = Layout(">qiq")
ENTRY_BYTES = _ENTRY.size
ENTRY_WORDS = 5
HOLE_SIZE = 0x7FFFFFFF
"""The size in the entry of a lost message."""

_HOLE = _ENTRY.pack(0, HOLE_SIZE, 0)
"""The entry of a lost message, as Apache writes it."""

_pack = _ENTRY.pack
_NEEDS_BYTESWAP = byteorder == "little"


class ConsumeQueueUnit(NamedTuple):
    """Position, size and tags code of a message."""

    position: int
    size: int
    tags_code: int

    @property
    def is_hole(self) -> bool:
        """Whether the message was lost."""
        return self.size == HOLE_SIZE


class ConsumeQueue:
    """The entries of one queue from offset ``start`` on."""

    __slots__ = (
        "checked_end",
        "checked_start",
        "entries",
        "needs_rewrite",
        "saved_end",
        "start",
        "synced_end",
        "visible_end",
    )

    def __init__(self, start: int = 0, entries: bytes = b"") -> None:
        self.start = start
        self.entries = bytearray(entries)
        self.visible_end = self.end
        """Offsets below this are visible to readers."""
        self.saved_end = self.start
        """Offsets below this are in the files."""
        self.synced_end = self.start
        """Offsets below this are synced there."""
        self.needs_rewrite = False
        """Whether the files hold something else, and have to be rewritten."""
        self.checked_start = self.checked_end = start
        """Offsets in between were checked against the log."""

    @property
    def end(self) -> int:
        """The next offset."""
        return self.start + len(self.entries) // ENTRY_BYTES

    def append(self, position: int, size: int, tags_code: int) -> None:
        """Append the entry of the next offset; it is not visible yet."""
        self.entries += _pack(position, size, tags_code)

    def append_many(self, positions: Iterable[int], sizes: Iterable[int], tags_codes: Iterable[int]) -> None:
        """Append the entries of the next offsets, as many as there are tags codes."""
        self.entries += b"".join(map(_pack, positions, sizes, tags_codes))

    def append_holes(self, count: int) -> None:
        """Append entries of lost messages."""
        self.entries += _HOLE * count

    def mark_lost(self, offset: int) -> None:
        """Replace the entry of a message that turned out to be lost."""
        at = (offset - self.start) * ENTRY_BYTES
        self.entries[at : at + ENTRY_BYTES] = _HOLE
        self.saved_end, self.synced_end = min(self.saved_end, offset), min(self.synced_end, offset)

    def publish(self) -> None:
        """Make all entries visible."""
        self.visible_end = self.end

    def entry(self, offset: int) -> ConsumeQueueUnit:
        """Return one entry."""
        return ConsumeQueueUnit._make(_ENTRY.unpack_from(self.entries, (offset - self.start) * ENTRY_BYTES))

    def iter_entries(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield position, size and tags code of the offsets from ``start`` to ``end``, as plain tuples."""
        at, stop = (start - self.start) * ENTRY_BYTES, (end - self.start) * ENTRY_BYTES
        return _ENTRY.iter_unpack(self.entries[at:stop])

    def entry_words(self, start: int, end: int) -> "array[int]":
        """Return the entries of the offsets from ``start`` to ``end`` as 32-bit words, `ENTRY_WORDS` each.

        Two are the position, one the size, two the tags code. A slice of every fifth is much faster than unpacking.
        """
        at, stop = (start - self.start) * ENTRY_BYTES, (end - self.start) * ENTRY_BYTES
        found = array("I", bytes(self.entries[at:stop]))
        if _NEEDS_BYTESWAP:
            found.byteswap()
        return found

    def first_offset_at(self, position: int) -> int:
        """Return the first offset whose message lies at or behind a log position; holes before it are skipped."""
        low, high = self.start, self.visible_end
        while low < high:
            middle = (low + high) // 2
            if self._first_known_position(middle, high) < position:
                low = middle + 1
            else:
                high = middle
        return self._skip_holes(low)

    def _skip_holes(self, offset: int) -> int:
        while offset < self.visible_end and self.entry(offset).is_hole:
            offset += 1
        return offset

    def drop_before_position(self, position: int) -> bool:
        """Drop leading entries that point below a log position, and holes among them; return whether there were any."""
        return self.drop_below(self.first_offset_at(position))

    def drop_leading_holes(self) -> None:
        """Drop leading entries of lost messages."""
        self.drop_below(self._skip_holes(self.start))

    def drop_below(self, min_offset: int) -> bool:
        """Drop the entries below an offset; return whether there were any."""
        if min_offset <= self.start:
            return False
        del self.entries[: (min_offset - self.start) * ENTRY_BYTES]
        self.start = min_offset
        self.saved_end, self.synced_end = max(self.saved_end, min_offset), max(self.synced_end, min_offset)
        self.checked_start, self.checked_end = max(self.checked_start, min_offset), max(self.checked_end, min_offset)
        return True

    def _first_known_position(self, offset: int, stop: int) -> int:
        """Return the position of the first message from an offset on that is not lost; 2**63 if all are."""
        for position, size, _ in self.iter_entries(offset, stop):
            if size != HOLE_SIZE:
                return int(position)
        return self.entry(stop).position if stop < self.visible_end and not self.entry(stop).is_hole else 1 << 63


ConsumeQueues = dict[tuple[bytes, int], ConsumeQueue]
"""By topic and queue id."""

CONSUME_QUEUE_FOLDER = "consumequeue"
_FILE_BYTES = 300_000 * ENTRY_BYTES
_MAX_NAME_BYTES = 255


def is_valid_folder(topic: bytes) -> bool:
    r"""Return whether a topic can be the name of a folder.

    >>> is_valid_folder(b"orders"), is_valid_folder(b"../orders"), is_valid_folder(b"\xff"), is_valid_folder(b"")
    (True, False, False, False)
    """
    try:
        topic.decode()
    except UnicodeDecodeError:
        return False
    return 0 < len(topic) <= _MAX_NAME_BYTES and not {47, 0} & set(topic) and topic not in (b".", b"..")


def _queue_folder(topic: bytes, queue_id: int) -> str:
    return f"{CONSUME_QUEUE_FOLDER}/{topic.decode()}/{queue_id}"


def consume_queues_crc32(consume_queues: ConsumeQueues) -> int:
    """Return a checksum of all queues, so that the next start knows whether it reads what was written."""
    value = 0
    for (topic, queue_id), queue in sorted(consume_queues.items()):
        if queue.visible_end:
            value = crc32(b"%b %d %d" % (topic, queue_id, queue.start), value)
            value = crc32(queue.entries, value)
    return value


def load_consume_queues(disk: Disk) -> ConsumeQueues:
    """Read all files; if one is missing, a queue consists of what follows."""
    queues: ConsumeQueues = {}
    for topic in disk.names(CONSUME_QUEUE_FOLDER):
        for name in disk.names(f"{CONSUME_QUEUE_FOLDER}/{topic}"):
            if not name.isascii() or not name.isdigit():
                continue
            queue = _load_queue(disk, f"{CONSUME_QUEUE_FOLDER}/{topic}/{name}")
            if queue is not None:
                queues[topic.encode(errors="surrogateescape"), int(name)] = queue
    return queues


def _load_queue(disk: Disk, folder: str) -> ConsumeQueue | None:
    starts = segment_starts(disk, folder)
    if not starts:
        return None
    queue = ConsumeQueue(starts[0] // ENTRY_BYTES)
    for start in starts:
        if start != queue.end * ENTRY_BYTES:
            queue = ConsumeQueue(start // ENTRY_BYTES)  # a file is missing, or one is not full
        with closing(disk.open(f"{folder}/{segment_name(start)}")) as file:
            # Files have their full size from the start: only what was written is read. Zeros may end an entry.
            data = file.read(0, -(-file.zeros_from() // ENTRY_BYTES) * ENTRY_BYTES)
        queue.entries += data[: _written_bytes(data)]
    queue.visible_end = queue.saved_end = queue.end
    queue.drop_leading_holes()  # a queue that begins within a file has holes before its first message
    return queue


def _written_bytes(data: bytes) -> int:
    """Return how many bytes of a file are entries: bytes that were never written are zero, and come last."""
    count = len(data) // ENTRY_BYTES
    places = range(count)
    low = bisect_left(places, 1, key=lambda place: not any(data[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]))
    if data[low * ENTRY_BYTES :] == bytes(len(data) - low * ENTRY_BYTES):
        return low * ENTRY_BYTES
    # Zeros between entries: everything up to the last entry that is not zero counts.
    return min(-(-len(data.rstrip(b"\0")) // ENTRY_BYTES), count) * ENTRY_BYTES


def save_consume_queues(disk: Disk, consume_queues: ConsumeQueues, log_start: int) -> None:
    """Write what was appended since the last save. An error with one queue is raised after the others.

    Synced afterwards is what a log that begins at ``log_start`` cannot tell: the offsets of queues with nothing in it.
    """
    failed: DiskFailed | None = None
    for (topic, queue_id), queue in consume_queues.items():
        try:
            _save_queue(
                disk, _queue_folder(topic, queue_id), queue, sync=queue.first_offset_at(log_start) >= queue.visible_end
            )
        except DiskFailed as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _save_queue(disk: Disk, folder: str, queue: ConsumeQueue, *, sync: bool) -> None:
    """Write one queue, synced or not, and remove files with dropped entries only."""
    end = queue.visible_end
    if queue.needs_rewrite and end:
        first = min(queue.start, end - 1) * ENTRY_BYTES // _FILE_BYTES * _FILE_BYTES
        _write_entries(disk, folder, queue, first, sync=sync)
    elif queue.saved_end < end:
        _write_entries(disk, folder, queue, queue.saved_end * ENTRY_BYTES, sync=sync)
    if sync and queue.synced_end < queue.saved_end:
        # What this process wrote, or the one before.
        for each in segment_starts(disk, folder):
            if each + _FILE_BYTES > queue.synced_end * ENTRY_BYTES:
                with closing(disk.open(f"{folder}/{segment_name(each)}")) as file:
                    file.sync()
        disk.sync_folder(folder)
        make_folder(disk, folder)
    if sync:
        queue.synced_end = end
    # The file of the last offset stays, even if all its entries were dropped.
    start = queue.start * ENTRY_BYTES
    old = [each for each in segment_starts(disk, folder) if each + _FILE_BYTES < start] if start > _FILE_BYTES else []
    for each in old:
        disk.remove(f"{folder}/{segment_name(each)}")
    if old:
        disk.sync_folder(folder)
    queue.saved_end, queue.needs_rewrite = end, False


def _write_entries(disk: Disk, folder: str, queue: ConsumeQueue, at: int, *, sync: bool) -> None:
    """Write entries from a byte of the queue on; those before its first message are holes, as Apache writes them."""
    if sync and not disk.names(folder):
        make_folder(disk, folder)
    else:
        disk.mkdir(folder)
    start, end = queue.start * ENTRY_BYTES, queue.visible_end * ENTRY_BYTES
    files = range(at // _FILE_BYTES * _FILE_BYTES, end, _FILE_BYTES)
    for first in files:
        stop = min(end, first + _FILE_BYTES)
        path = f"{folder}/{segment_name(first)}"
        # A rewritten file replaces the old one as a whole: half of each would know less than either.
        target = f"{path}.tmp" if queue.needs_rewrite else path
        with closing(disk.open(target, create=True)) as file:
            if queue.needs_rewrite and file.size:
                file.truncate(0)
            at = first if not file.size else max(at, first)
            holes = _HOLE * ((min(start, stop) - at) // ENTRY_BYTES)
            entries = bytes(queue.entries[max(0, at - start) : max(0, stop - start)])
            write_all(file, at - first, holes + entries, target)
            if file.size != _FILE_BYTES:
                file.truncate(_FILE_BYTES)
            if sync:
                file.sync()
        if queue.needs_rewrite:
            disk.rename(target, path)
    if queue.needs_rewrite:
        for first in segment_starts(disk, folder):
            if first not in files:
                disk.remove(f"{folder}/{segment_name(first)}")
    if sync:
        disk.sync_folder(folder)


def remove_consume_queue(disk: Disk, topic: bytes, queue_id: int) -> None:
    """Remove the files of a consume queue."""
    folder = f"{CONSUME_QUEUE_FOLDER}/{topic.decode(errors='surrogateescape')}/{queue_id}"
    for name in disk.names(folder):
        disk.remove(f"{folder}/{name}")


# The log holds the messages of a deleted topic until its files expire, and a rebuild after a crash would show them, so
# the ends of deleted queues are saved. A topic that is created again continues behind its old messages: an offset means
# one message for ever.


class _DeletedQueues(Struct, frozen=True):
    """By topic and queue, the offset below which every message is deleted."""

    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


DELETED_QUEUES = JsonDocument("steelyard/forgotten.json", _DeletedQueues)


def delete_topic_queues(disk: Disk, consume_queues: ConsumeQueues, topic: bytes) -> None:
    """Delete all messages of a topic; the deletion is durable when this returns."""
    ends = {
        queue_id: queue.visible_end
        for (name, queue_id), queue in consume_queues.items()
        if name == topic and queue.visible_end
    }
    if not ends:
        return
    saved = load_document(disk, DELETED_QUEUES).value or _DeletedQueues()
    alive = {name.decode(errors="surrogateescape") for name, _ in consume_queues}
    kept = {name: queues for name, queues in saved.topics.items() if name in alive}
    save_document(disk, DELETED_QUEUES, _DeletedQueues({**kept, topic.decode(errors="surrogateescape"): ends}))
    for (name, _), queue in consume_queues.items():
        if name == topic:
            queue.drop_below(queue.visible_end)


def reapply_deletions(disk: Disk, consume_queues: ConsumeQueues) -> None:
    """Delete again what earlier processes deleted, and reuse none of its offsets, even if the log lost some."""
    for key, end in deleted_queue_ends(disk).items():
        queue = consume_queues.setdefault(key, ConsumeQueue(end))
        if queue.end < end:
            queue.append_holes(end - queue.end)
            queue.publish()
        queue.drop_below(end)


def deleted_queue_ends(disk: Disk) -> dict[tuple[bytes, int], int]:
    """Return the offset below which a queue was deleted, by topic and queue id."""
    topics = (load_document(disk, DELETED_QUEUES).value or _DeletedQueues()).topics
    return {
        (topic.encode(errors="surrogateescape"), queue_id): end
        for topic, ends in topics.items()
        for queue_id, end in ends.items()
    }
