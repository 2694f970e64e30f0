"""Which records of a segment have which key: sixteen bytes for each key of a record, searched from end to end.

A record has the key that its producer made for it (UNIQ_KEY) and each word of its KEYS. An entry is the hash of topic
and key, then the record's position. A search through the two million entries of a large segment takes milliseconds,
which is little for a question that people ask; in return adding one costs next to nothing. Two keys may have the same
hash, so what is found is a record that *may* have the key: who asked looks at the record itself.

Nothing here is precious: an index that is missing or damaged is fed from the log again, from `indexed_to` on. Only what
is safe in the log may be saved, and an index that says more than the log has is cut: otherwise it would stay silent
about the records that take the places of those that were lost.
"""

from bisect import bisect_left
from functools import partial
from hashlib import blake2b
from struct import Struct as Layout
from zlib import crc32

from steelyard.model.message import KEYS, UNIQUE_KEY
from steelyard.store.disk import Disk
from steelyard.store.log import segment_name
from steelyard.store.replace import replace_file
from steelyard.wire.properties import find_property

__all__ = ["KEYS_FOLDER", "KeyIndex", "keys_path", "record_keys"]

KEYS_FOLDER = "steelyard/keys"

_MAGIC = b"SYKI"
_VERSION = 1
# Magic, version, start of the segment, indexed to, checksum of the entries; then a checksum of all these.
_HEAD = Layout(">4sIqqI")
_SUM = Layout(">I")
_HEAD_BYTES = _HEAD.size + _SUM.size

_ENTRY_BYTES = 16
_HASH_BYTES = 8
# The same in every process, and spread well: eight bytes alike are nearly always the same key.
_hash = partial(blake2b, digest_size=_HASH_BYTES)

_KEYS, _UNIQUE_KEY = KEYS.encode(), UNIQUE_KEY.encode()
_KEYS_OPENING, _UNIQUE_KEY_OPENING = b"\x02" + _KEYS + b"\x01", b"\x02" + _UNIQUE_KEY + b"\x01"


def keys_path(segment_start: int) -> str:
    """Return the path of the key index of a segment."""
    return f"{KEYS_FOLDER}/{segment_name(segment_start)}"


class KeyIndex:
    r"""The keys of one segment.

    >>> index = KeyIndex(0)
    >>> index.add(b"orders", b"KEYS\x01o-1 o-2\x02UNIQ_KEY\x01AC11\x02", 0, 180)
    >>> index.add(b"orders", b"KEYS\x01o-2\x02", 180, 350)
    >>> index.find(b"orders", b"o-2"), index.find(b"orders", b"AC11"), index.indexed_to
    ([0, 180], [0], 350)
    """

    __slots__ = ("_entries", "indexed_to", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.indexed_to = start
        """Every record before this position was fed."""
        self._entries = bytearray()

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY_BYTES

    def add(self, topic: bytes, properties: bytes, position: int, end: int) -> None:
        """Feed the record from ``position`` to ``end``, the next in the log; one that was fed before is passed over."""
        if position < self.indexed_to:
            return
        self.indexed_to = end
        entries, prefix, place = self._entries, topic + b"#", position.to_bytes(8, "big")
        for key in record_keys(properties):
            entries += _hash(prefix + key).digest() + place

    def find(self, topic: bytes, key: bytes) -> list[int]:
        """Return the positions of the records that may have a key, ascending."""
        wanted = _hash(topic + b"#" + key).digest()
        entries = self._entries
        found: list[int] = []
        at = entries.find(wanted)
        while at >= 0:
            # Eight bytes that look like the hash may also lie across two fields.
            if at % _ENTRY_BYTES == 0:
                found.append(self._position(at))
                at += _ENTRY_BYTES - 1
            at = entries.find(wanted, at + 1)
        return list(dict.fromkeys(found))

    def _position(self, at: int) -> int:
        return int.from_bytes(self._entries[at + _HASH_BYTES : at + _ENTRY_BYTES], "big")

    def cut(self, end: int) -> None:
        """Forget the records from a position on, because the log was cut there."""
        if end < self.indexed_to:
            first = bisect_left(range(len(self)), end, key=lambda entry: self._position(entry * _ENTRY_BYTES))
            del self._entries[first * _ENTRY_BYTES :]
            self.indexed_to = max(self.start, end)

    def save(self, disk: Disk) -> None:
        """Write the index in the place of the one before, safe from a loss of power when this returns."""
        head = _HEAD.pack(_MAGIC, _VERSION, self.start, self.indexed_to, crc32(self._entries))
        replace_file(disk, keys_path(self.start), b"".join((head, _SUM.pack(crc32(head)), self._entries)))

    @classmethod
    def load(cls, disk: Disk, start: int) -> "KeyIndex | None":
        """Read the index of a segment; None if it is missing, damaged, or of another segment or release."""
        content = disk.read(keys_path(start)) or b""
        head, entries = content[: _HEAD.size], memoryview(content)[_HEAD_BYTES:]
        if len(content) < _HEAD_BYTES or content[_HEAD.size : _HEAD_BYTES] != _SUM.pack(crc32(head)):
            return None
        magic, version, said, indexed_to, checksum = _HEAD.unpack(head)
        if (magic, version, said, checksum) != (_MAGIC, _VERSION, start, crc32(entries)):
            return None
        index = cls(start)
        index._entries += entries
        index.indexed_to = indexed_to
        return index


def record_keys(properties: bytes) -> list[bytes]:
    r"""Return the keys of a record: each word of its KEYS, and its UNIQ_KEY.

    >>> record_keys(b"KEYS\x01o-1  o-2\x02UNIQ_KEY\x01AC11\x02")
    [b'o-1', b'o-2', b'AC11']
    """
    # Every record comes by here, and nearly every one has both: the short way to the last value of a name, which gives
    # nothing where there is none or where it is empty. What then counts is for find_property to say.
    text = b"\x02" + properties
    words = text.rpartition(_KEYS_OPENING)[2].partition(b"\x02")[0] or find_property(properties, _KEYS)
    unique = text.rpartition(_UNIQUE_KEY_OPENING)[2].partition(b"\x02")[0] or find_property(properties, _UNIQUE_KEY)
    keys = list(filter(None, words.split(b" "))) if words else []
    if unique:
        keys.append(unique)
    return keys
