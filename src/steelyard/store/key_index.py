"""Key index: which records of a segment have which key, sixteen bytes per key, searched linearly.

A record has the key that its producer made for it (UNIQ_KEY) and each word of its KEYS. An entry is the hash of topic
and key, then the record's position. Two keys may have the same hash, so a hit is a record that *may* have the key: the
caller checks the record itself. A missing or damaged index is rebuilt from the log, from `indexed_to` on. Only what is
durable in the log may be saved, and an index that reaches behind the log's end is truncated: otherwise it would miss
the records that take the positions of those that were lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from struct import Struct as Layout
from zlib import crc32

from steelyard.model.message import KEYS, UNIQUE_KEY
from steelyard.store.commit_log import segment_name
from steelyard.store.disk import Disk, replace_file
from steelyard.wire.properties import find_property

KEY_INDEX_FOLDER = "steelyard/keys"

_MAGIC = b"SYKI"
_VERSION = 1
# Magic, version, start of the segment, indexed to, checksum of the entries; then a checksum of all these.
_HEAD = Layout(">4sIqqI")
_CHECKSUM = Layout(">I")
_HEAD_BYTES = _HEAD.size + _CHECKSUM.size

_ENTRY_BYTES = 16
_HASH_BYTES = 8
_PART_BYTES = 1 << 14  # a multiple of an entry
# The same in every process, and well spread: eight equal bytes are nearly always the same key.
_hash = partial(blake2b, digest_size=_HASH_BYTES)

_KEYS, _UNIQUE_KEY = KEYS.encode(), UNIQUE_KEY.encode()
_KEYS_PREFIX, _UNIQUE_KEY_PREFIX = b"\x02" + _KEYS + b"\x01", b"\x02" + _UNIQUE_KEY + b"\x01"


def key_index_path(segment_start: int) -> str:
    """Return the path of the key index of a segment."""
    return f"{KEY_INDEX_FOLDER}/{segment_name(segment_start)}"


class KeyIndex:
    """The keys of one segment."""

    __slots__ = ("_entries", "indexed_to", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.indexed_to = start
        """Every record before this position is indexed."""
        self._entries = bytearray()

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY_BYTES

    def add(self, topic: bytes, properties: bytes, position: int, end: int) -> int:
        """Index the record from ``position`` to ``end``, the next in the log, and return how many keys it has.

        An indexed one is skipped.
        """
        if position < self.indexed_to:
            return 0
        self.indexed_to = end
        entries, prefix, place = self._entries, topic + b"#", position.to_bytes(8, "big")
        keys = record_keys(properties)
        for key in keys:
            entries += _hash(prefix + key).digest() + place
        return len(keys)

    def find(self, topic: bytes, key: bytes, count: int | None = None) -> Iterator[int]:
        """Yield the positions of the records that may have a key, the newest first; ``count`` entries are searched."""
        digest = _hash(topic + b"#" + key).digest()
        end = len(self._entries) if count is None else count * _ENTRY_BYTES
        last = -1
        # Forwards in parts from the end: most callers want the newest few of what may be a million.
        for start in range(max(0, end - 1) // _PART_BYTES * _PART_BYTES, -1, -_PART_BYTES):
            for at in reversed(self._hits(digest, start, min(end, start + _PART_BYTES))):
                position = self._position(at)
                if position != last:
                    yield position
                last = position

    def _hits(self, digest: bytes, start: int, end: int) -> list[int]:
        entries = self._entries
        found: list[int] = []
        at = entries.find(digest, start, end)
        while at >= 0:
            # Eight bytes that look like the hash may also lie across two fields.
            if at % _ENTRY_BYTES == 0:
                found.append(at)
                at += _ENTRY_BYTES - 1
            at = entries.find(digest, at + 1, end)
        return found

    def count_until(self, end_ms: int, stored_ms: Callable[[int], int]) -> int:
        """Return how many entries are of records stored at or before a time; they have the order of the log."""
        return bisect_right(range(len(self)), end_ms, key=lambda entry: stored_ms(self._position(entry * _ENTRY_BYTES)))

    def _position(self, at: int) -> int:
        return int.from_bytes(self._entries[at + _HASH_BYTES : at + _ENTRY_BYTES], "big")

    def truncate(self, end: int) -> None:
        """Forget the records from a position on, because the log was truncated there."""
        if end < self.indexed_to:
            first = bisect_left(range(len(self)), end, key=lambda entry: self._position(entry * _ENTRY_BYTES))
            del self._entries[first * _ENTRY_BYTES :]
            self.indexed_to = max(self.start, end)

    def save(self, disk: Disk) -> None:
        """Replace the saved index durably."""
        head = _HEAD.pack(_MAGIC, _VERSION, self.start, self.indexed_to, crc32(self._entries))
        replace_file(disk, key_index_path(self.start), b"".join((head, _CHECKSUM.pack(crc32(head)), self._entries)))

    @classmethod
    def load(cls, disk: Disk, start: int) -> "KeyIndex | None":
        """Read the index of a segment; None if it is missing, damaged, or of another segment or release."""
        content = disk.read(key_index_path(start)) or b""
        head, entries = content[: _HEAD.size], memoryview(content)[_HEAD_BYTES:]
        if len(content) < _HEAD_BYTES or content[_HEAD.size : _HEAD_BYTES] != _CHECKSUM.pack(crc32(head)):
            return None
        magic, version, saved_start, indexed_to, checksum = _HEAD.unpack(head)
        if (magic, version, saved_start, checksum) != (_MAGIC, _VERSION, start, crc32(entries)):
            return None
        index = cls(start)
        index._entries += entries
        index.indexed_to = indexed_to
        return index


def record_keys(properties: bytes) -> list[bytes]:
    """Return the keys of a record: each word of its KEYS, and its UNIQ_KEY."""
    # Hot path: nearly every record has both. This is the short way to the last value of a name, and gives nothing if
    # there is none or it is empty; then find_property decides.
    text = b"\x02" + properties
    words = text.rpartition(_KEYS_PREFIX)[2].partition(b"\x02")[0] or find_property(properties, _KEYS)
    unique = text.rpartition(_UNIQUE_KEY_PREFIX)[2].partition(b"\x02")[0] or find_property(properties, _UNIQUE_KEY)
    keys = list(filter(None, words.split(b" "))) if words else []
    if unique:
        keys.append(unique)
    return keys
