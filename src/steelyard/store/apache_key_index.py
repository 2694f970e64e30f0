"""Apache's key index ``index/<time>``, maintained for a Java broker that may open the directory next.

Without these files that broker would find none of our messages by key; we answer from our own index (key_index.py).

A file is a head, a table of slots and a list of entries. A key's hash leads to a slot, the slot to the newest entry of
its keys, and each entry to the previous one. New entries are buffered in memory, from the log, and written at a close,
the head last. Files are trusted only after a clean close; after a crash they are removed, and rebuilt from the log.
Files of another size than Apache's usual one are left alone and not maintained.
"""

from contextlib import closing
from datetime import datetime, timedelta, timezone
from struct import Struct as Layout
from typing import NamedTuple

from steelyard.model.java_strings import java_hash
from steelyard.store.commit_log import CommitLog
from steelyard.store.disk import Disk, make_folder, write_all
from steelyard.store.key_index import record_keys
from steelyard.store.log_scan import ChecksumsBySegment, LogScan, ScannedRecord

APACHE_KEY_INDEX_FOLDER = "index"
SLOTS_PER_FILE, ENTRIES_PER_FILE = 5_000_000, 20_000_000
"""The capacity of a file with Apache's default settings."""

MAX_BUFFERED_ENTRIES = 4_000_000
"""Entries that are buffered until a close; the rest waits in the log."""

# Times of the first and the last message, their positions, used slots, number of entries plus one.
_HEAD = Layout(">qqqqii")
# Hash, position of the message, seconds since the first one, previous entry of the same slot.
_ENTRY = Layout(">iqii")
_SLOT = Layout(">i")
_MAX_INT = (1 << 31) - 1
_BULK_WRITE_SLOTS = 50_000
"""From this many changed slots on, the whole table is written at once."""


class _Head(NamedTuple):
    first_ms: int = 0
    last_ms: int = 0
    first_position: int = 0
    last_position: int = -1
    used_slots: int = 0
    next_entry: int = 1


def remove_apache_key_index(disk: Disk, before: int | None = None) -> None:
    """Remove Apache's key index, or only its files whose messages all lie before a position."""
    old = [name for name in _file_names(disk) if before is None or -1 < _load_head(disk, name).last_position < before]
    for name in old:
        disk.remove(f"{APACHE_KEY_INDEX_FOLDER}/{name}")
    if old:
        disk.sync_folder(APACHE_KEY_INDEX_FOLDER)


def _file_names(disk: Disk) -> list[str]:
    return [name for name in disk.names(APACHE_KEY_INDEX_FOLDER) if name.isascii() and name.isdigit()]


def _load_head(disk: Disk, name: str) -> _Head:
    with closing(disk.open(f"{APACHE_KEY_INDEX_FOLDER}/{name}")) as file:
        if file.size < _HEAD.size:
            return _Head()
        with file.view() as view:
            head = _Head(*_HEAD.unpack_from(view))
    # A new file has no entries, but may say where the previous one ended.
    return head if head.next_entry > 1 else _Head(last_position=head.last_position or -1)


class _IndexFile:
    """One file: its head, and entries to append."""

    def __init__(self, name: str = "", head: _Head | None = None, slots: memoryview | None = None) -> None:
        self.name, self.slots = name, slots
        self.head = head or _Head()
        self.first_new = self.head.next_entry
        self.entries = bytearray()
        self.newest_by_slot: dict[int, int] = {}
        """The newest entry of each slot that has new entries."""

    def add(self, keys: list[bytes], record: ScannedRecord, slot_count: int) -> None:
        """Add the keys of a record."""
        head, newest = self.head, self.newest_by_slot
        first_ms = head.first_ms or record.stored_ms
        seconds = max(0, min((record.stored_ms - first_ms) // 1000, _MAX_INT))
        number, used = head.next_entry, head.used_slots
        topic = record.topic.decode(errors="replace")
        for key in keys:
            # abs() of Java's smallest int is negative, and Apache uses 0 then.
            value = abs(java_hash(f"{topic}#{key.decode(errors='replace')}")) & _MAX_INT
            slot = value % slot_count
            previous = newest.get(slot)
            if previous is None:
                previous = self._previous_entry(slot)
                used += not previous
            newest[slot] = number
            self.entries += _ENTRY.pack(value, record.position, seconds, previous)
            number += 1
        self.head = _Head(
            first_ms,
            record.stored_ms,
            head.first_position if head.next_entry > 1 else record.position,
            record.position,
            used,
            number,
        )

    def _previous_entry(self, slot: int) -> int:
        if self.slots is None:
            return 0
        number: int = _SLOT.unpack_from(self.slots, _HEAD.size + slot * _SLOT.size)[0]
        return number if 0 < number < self.first_new else 0


class ApacheKeyIndex:
    """The index, and entries to append to it."""

    def __init__(
        self,
        disk: Disk,
        log: CommitLog,
        checksums: ChecksumsBySegment,
        slots: int = SLOTS_PER_FILE,
        entries: int = ENTRIES_PER_FILE,
    ) -> None:
        self._disk, self._log, self._checksums = disk, log, checksums
        self._slot_count, self._max_entries = slots, entries
        self._file_bytes = _HEAD.size + slots * _SLOT.size + entries * _ENTRY.size
        names = _file_names(disk)
        if names and _load_head(disk, names[-1]).last_position >= log.end:
            remove_apache_key_index(disk)  # it reaches behind the end of the log
            names = []
        self._last_name = names[-1] if names else ""
        self.is_foreign = False
        """Whether the files have another size than ours, and are left alone."""
        self._files = [self._load(names[-1]) if names else _IndexFile()]
        self.indexed_to = max(log.start, self._files[0].head.last_position)
        """Every record before this position is indexed."""

    def _load(self, name: str) -> _IndexFile:
        with closing(self._disk.open(f"{APACHE_KEY_INDEX_FOLDER}/{name}")) as file:
            self.is_foreign = file.size != self._file_bytes
            return _IndexFile(name, _load_head(self._disk, name), None if self.is_foreign else file.view())

    @property
    def is_complete(self) -> bool:
        """Whether the whole log is indexed."""
        return self.is_foreign or self.indexed_to >= self._log.end

    @property
    def is_full(self) -> bool:
        """Whether the buffer is full until the next `save`."""
        return sum(len(file.entries) for file in self._files) >= MAX_BUFFERED_ENTRIES * _ENTRY.size

    def build(self, max_keys: int) -> bool:
        """Index records until they have ``max_keys`` keys; return whether the whole log is indexed.

        A record counts as a key, too.
        """
        if self.is_complete or self.is_full:
            return self.is_complete
        end, last = self._log.end, self._files[-1].head.last_position
        scan = LogScan(self._log.segments_from(self.indexed_to), self._checksums, self.indexed_to, end)
        done = 0
        for found in scan:
            if done >= max_keys:
                return False
            done += 1
            if found.position > last:
                done += self._add(found)
            self.indexed_to = found.position + found.size
        self.indexed_to = end
        return True

    def _add(self, record: ScannedRecord) -> int:
        keys = record_keys(record.properties)
        if keys:
            if self._files[-1].head.next_entry + len(keys) > self._max_entries:
                self._files.append(_IndexFile())
            self._files[-1].add(keys, record, self._slot_count)
        return len(keys)

    def save(self, now_ms: int) -> None:
        """Write the buffered entries; their messages are durable in the log, and the directory is still locked."""
        if self.is_foreign:
            return
        for file in self._files:
            if file.entries:
                if not file.name:
                    file.name = self._last_name = self._new_name(now_ms)
                self._write(file)
        self._files = [self._load(self._last_name) if self._last_name else _IndexFile()]
        remove_apache_key_index(self._disk, self._log.start)

    def close(self) -> None:
        """Release the files."""
        self._files = [_IndexFile()]

    def _new_name(self, now_ms: int) -> str:
        """Return a name (a local time) behind all present ones, and before any of Apache's in whatever time zone."""
        earliest = datetime.fromtimestamp(now_ms / 1000, timezone(-timedelta(hours=12)))
        name = f"{earliest:%Y%m%d%H%M%S}{now_ms % 1000:03}"
        return max(name, f"{int(self._last_name or 0) + 1:017}")

    def _write(self, new: _IndexFile) -> None:
        path = f"{APACHE_KEY_INDEX_FOLDER}/{new.name}"
        make_folder(self._disk, APACHE_KEY_INDEX_FOLDER)
        with closing(self._disk.open(path, create=True)) as file:
            if file.size != self._file_bytes:
                file.truncate(self._file_bytes)
            first = _HEAD.size + self._slot_count * _SLOT.size + new.first_new * _ENTRY.size
            write_all(file, first, bytes(new.entries), path)
            if len(new.newest_by_slot) > _BULK_WRITE_SLOTS:
                write_all(file, _HEAD.size, bytes(self._table(new)), path)
            else:
                for slot in sorted(new.newest_by_slot):
                    write_all(file, _HEAD.size + slot * _SLOT.size, _SLOT.pack(new.newest_by_slot[slot]), path)
            file.sync()
            # The head holds the number of entries. Written last, it makes the new ones count.
            write_all(file, 0, _HEAD.pack(*new.head), path)
            file.sync()
        self._disk.sync_folder(APACHE_KEY_INDEX_FOLDER)

    def _table(self, new: _IndexFile) -> bytearray:
        size = self._slot_count * _SLOT.size
        table = bytearray(size) if new.slots is None else bytearray(new.slots[_HEAD.size : _HEAD.size + size])
        for slot, number in new.newest_by_slot.items():
            _SLOT.pack_into(table, slot * _SLOT.size, number)
        return table
