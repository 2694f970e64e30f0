"""Apache's key index: ``index/<time>``, kept up for the Java broker that may open the directory next.

Apache indexes only what it has not dispatched yet, and after a clean close by us that is nothing: without these files
it would find no message of ours by its key. Ours never reads them for an answer (keys.py is its own index).

A file is a head, a table of slots and a list of entries. A key's hash leads to a slot, the slot to the newest entry of
its keys, and each entry to the one before. What is new is gathered in memory, from the log, and written at a close:
then the head goes last. Files are believed only if whoever had the directory before closed it in order: after a crash
they may lead to places that hold other messages by now, so they are removed, and made again from the whole log.

Left out: files of another size than Apache's usual one, which are left alone and not kept up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from struct import Struct as Layout

from steelyard.model.java_text import java_hash
from steelyard.store.disk import Disk
from steelyard.store.keys import record_keys
from steelyard.store.log import Log, write_all
from steelyard.store.replace import make_folder
from steelyard.store.walk import Found, SumsBySegment, Walk

__all__ = ["APACHE_KEYS_FOLDER", "ENTRIES", "SLOTS", "ApacheKeys", "remove_apache_keys"]

APACHE_KEYS_FOLDER = "index"
SLOTS, ENTRIES = 5_000_000, 20_000_000
"""What a file has room for, as Apache is set up usually."""

MOST_GATHERED = 4_000_000
"""Entries that are kept in memory until a close; more wait in the log."""

# Time and position of the first message and of the last: first times, then positions. Slots used, entries and one.
_HEAD = Layout(">qqqqii")
_HEAD_ORDER = ("first_ms", "last_ms", "first_position", "last_position", "used_slots", "next_entry")
# Hash, position of the message, seconds since the first one, the entry before in the same slot.
_ENTRY = Layout(">iqii")
_SLOT = Layout(">i")
_MOST_INT = (1 << 31) - 1
_MANY_SLOTS = 50_000
"""From so many on the whole table is written at once."""


@dataclass(frozen=True, slots=True)
class _Head:
    first_ms: int = 0
    last_ms: int = 0
    first_position: int = 0
    last_position: int = -1
    used_slots: int = 0
    next_entry: int = 1

    def packed(self) -> bytes:
        return _HEAD.pack(*(getattr(self, name) for name in _HEAD_ORDER))


def remove_apache_keys(disk: Disk, before: int | None = None) -> None:
    """Remove Apache's key index, or those files of it that only know messages before a position."""
    old = [name for name in _files(disk) if before is None or -1 < _head(disk, name).last_position < before]
    for name in old:
        disk.remove(f"{APACHE_KEYS_FOLDER}/{name}")
    if old:
        disk.sync_folder(APACHE_KEYS_FOLDER)


def _files(disk: Disk) -> list[str]:
    return [name for name in disk.names(APACHE_KEYS_FOLDER) if name.isascii() and name.isdigit()]


def _head(disk: Disk, name: str) -> _Head:
    file = disk.open(f"{APACHE_KEYS_FOLDER}/{name}")
    try:
        if file.size < _HEAD.size:
            return _Head()
        with file.view() as view:
            head = _Head(*_HEAD.unpack_from(view))
    finally:
        file.close()
    # A new file has no entries, but may say where the one before ended.
    return head if head.next_entry > 1 else _Head(last_position=head.last_position or -1)


class _File:
    """One file: what it has, and what is to be added."""

    def __init__(self, name: str = "", head: _Head | None = None, slots: memoryview | None = None) -> None:
        self.name, self.slots = name, slots
        self.head = head or _Head()
        self.first_new = self.head.next_entry
        self.entries = bytearray()
        self.newest: dict[int, int] = {}
        """The newest entry of each slot that was added to."""

    def add(self, keys: list[bytes], found: Found, slot_count: int) -> None:
        """Add the keys of a record."""
        head, newest = self.head, self.newest
        first_ms = head.first_ms or found.stored_ms
        seconds = max(0, min((found.stored_ms - first_ms) // 1000, _MOST_INT))
        number, used = head.next_entry, head.used_slots
        topic = found.topic.decode(errors="replace")
        for key in keys:
            # Java's smallest number has no opposite: it counts as 0.
            value = abs(java_hash(f"{topic}#{key.decode(errors='replace')}")) & _MOST_INT
            slot = value % slot_count
            before = newest.get(slot)
            if before is None:
                before = self._before(slot)
                used += not before
            newest[slot] = number
            self.entries += _ENTRY.pack(value, found.position, seconds, before)
            number += 1
        self.head = _Head(
            first_ms,
            found.stored_ms,
            head.first_position if head.next_entry > 1 else found.position,
            found.position,
            used,
            number,
        )

    def _before(self, slot: int) -> int:
        if self.slots is None:
            return 0
        number: int = _SLOT.unpack_from(self.slots, _HEAD.size + slot * _SLOT.size)[0]
        return number if 0 < number < self.first_new else 0


class ApacheKeys:
    """The index as it is, and what is to be added to it."""

    def __init__(self, disk: Disk, log: Log, sums: SumsBySegment, slots: int = SLOTS, entries: int = ENTRIES) -> None:
        self._disk, self._log, self._sums = disk, log, sums
        self._slot_count, self._most = slots, entries
        self._file_bytes = _HEAD.size + slots * _SLOT.size + entries * _ENTRY.size
        names = _files(disk)
        if names and _head(disk, names[-1]).last_position >= log.end:
            remove_apache_keys(disk)  # it knows more than there is
            names = []
        self._last_name = names[-1] if names else ""
        self.is_foreign = False
        """Whether the files have another size than ours would, and are left alone."""
        self._files = [self._loaded(names[-1]) if names else _File()]
        self.indexed_to = max(log.start, self._files[0].head.last_position)
        """Every record before this position was looked at, or is in the files."""

    def _loaded(self, name: str) -> _File:
        file = self._disk.open(f"{APACHE_KEYS_FOLDER}/{name}")
        try:
            self.is_foreign = file.size != self._file_bytes
            return _File(name, _head(self._disk, name), None if self.is_foreign else file.view())
        finally:
            file.close()

    @property
    def is_complete(self) -> bool:
        """Whether all that is in the log was looked at."""
        return self.is_foreign or self.indexed_to >= self._log.end

    @property
    def is_full(self) -> bool:
        """Whether so much was gathered that nothing more is before the next `save`."""
        return sum(len(file.entries) for file in self._files) >= MOST_GATHERED * _ENTRY.size

    def follow(self, most: int) -> bool:
        """Look at no more than so many records; say whether all that is in the log was looked at."""
        if self.is_complete or self.is_full:
            return self.is_complete
        end, last = self._log.end, self._files[-1].head.last_position
        walk = Walk(self._log.segments_from(self.indexed_to), self._sums, self.indexed_to, end)
        for number, found in enumerate(walk):
            if number == most:
                return False
            if found.position > last:
                self._add(found)
            self.indexed_to = found.position + found.size
        self.indexed_to = end
        return True

    def _add(self, found: Found) -> None:
        keys = record_keys(found.properties)
        if keys:
            if self._files[-1].head.next_entry + len(keys) > self._most:
                self._files.append(_File())
            self._files[-1].add(keys, found, self._slot_count)

    def save(self, now_ms: int) -> None:
        """Write what was gathered; all of it is safe in the log, and the directory is not given back before."""
        if self.is_foreign:
            return
        for file in self._files:
            if file.entries:
                if not file.name:
                    file.name = self._last_name = self._new_name(now_ms)
                self._write(file)
        self._files = [self._loaded(self._last_name) if self._last_name else _File()]
        remove_apache_keys(self._disk, self._log.start)

    def close(self) -> None:
        """Let go of the files."""
        self._files = [_File()]

    def _new_name(self, now_ms: int) -> str:
        """Return a name behind all that are there, and before any that Apache will give, in whatever part of the world.

        Names are times of the clock on the wall.
        """
        earliest = datetime.fromtimestamp(now_ms / 1000, timezone(-timedelta(hours=12)))
        name = f"{earliest:%Y%m%d%H%M%S}{now_ms % 1000:03}"
        return max(name, f"{int(self._last_name or 0) + 1:017}")

    def _write(self, new: _File) -> None:
        path = f"{APACHE_KEYS_FOLDER}/{new.name}"
        make_folder(self._disk, APACHE_KEYS_FOLDER)
        file = self._disk.open(path, create=True)
        try:
            if file.size != self._file_bytes:
                file.truncate(self._file_bytes)
            first = _HEAD.size + self._slot_count * _SLOT.size + new.first_new * _ENTRY.size
            write_all(file, first, bytes(new.entries), path)
            if len(new.newest) > _MANY_SLOTS:
                table = self._table(new)
                write_all(file, _HEAD.size, bytes(table), path)
            else:
                for slot in sorted(new.newest):
                    write_all(file, _HEAD.size + slot * _SLOT.size, _SLOT.pack(new.newest[slot]), path)
            file.sync()
            # The head says how many entries there are. It goes last: until then there are those of before.
            write_all(file, 0, new.head.packed(), path)
            file.sync()
        finally:
            file.close()
        self._disk.sync_folder(APACHE_KEYS_FOLDER)

    def _table(self, new: _File) -> bytearray:
        size = self._slot_count * _SLOT.size
        table = bytearray(size) if new.slots is None else bytearray(new.slots[_HEAD.size : _HEAD.size + size])
        for slot, number in new.newest.items():
            _SLOT.pack_into(table, slot * _SLOT.size, number)
        return table
