"""A log as one would write it first: the yardstick of the store.

Each field is packed by itself, each message is a write of its own, the index is lists in a dict, and what is read is
read message by message. It keeps no sums and recovers nothing, so it has less to do than the store it stands beside.
"""

import os
import struct
from pathlib import Path
from zlib import crc32

from steelyard.model import java_hash
from steelyard.wire.properties import decode_properties
from steelyard.wire.record import decode_records

Index = dict[tuple[bytes, int], list[tuple[int, int, int]]]
"""Position, size and hash of the tag of each message, by topic and queue."""

_MAGIC = -626843481


class PlainLog:
    """One file of records, and where each message lies."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT)
        self._end = 0
        self.index: Index = {}

    def append(
        self, topic: bytes, queue_id: int, body: bytes, properties: bytes, *, born_ms: int, host: bytes, stored_ms: int
    ) -> int:
        """Write a message and return its offset."""
        entries = self.index.setdefault((topic, queue_id), [])
        size = 88 + len(body) + 1 + len(topic) + 2 + len(properties)
        record = b""
        record += struct.pack(">i", size)
        record += struct.pack(">i", _MAGIC)
        record += struct.pack(">i", crc32(body) & 0x7FFFFFFF)
        record += struct.pack(">i", queue_id)
        record += struct.pack(">i", 0)
        record += struct.pack(">q", len(entries))
        record += struct.pack(">q", self._end)
        record += struct.pack(">i", 0)
        record += struct.pack(">q", born_ms)
        record += host
        record += struct.pack(">q", stored_ms)
        record += host
        record += struct.pack(">i", 0)
        record += struct.pack(">q", 0)
        record += struct.pack(">i", len(body))
        record += body
        record += struct.pack(">b", len(topic))
        record += topic
        record += struct.pack(">h", len(properties))
        record += properties
        os.write(self._handle, record)
        entries.append((self._end, size, _tag_hash(properties)))
        self._end += size
        return len(entries) - 1

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        os.fsync(self._handle)

    def read(self, topic: bytes, queue_id: int, offset: int, most: int = 32) -> bytes:
        """Read some messages of a queue, one by one."""
        entries = self.index[topic, queue_id][offset : offset + most]
        return b"".join([os.pread(self._handle, size, position) for position, size, _ in entries])

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._handle)


def index_of(log: bytes) -> Index:
    """Make the index again from records that lie back to back."""
    index: Index = {}
    for record in decode_records(log, check_crc=True):
        entries = index.setdefault((record.topic, record.queue_id), [])
        entries.append((record.position, record.size, _tag_hash(record.properties)))
    return index


def _tag_hash(properties: bytes) -> int:
    tag = decode_properties(properties).get("TAGS")
    return java_hash(tag) if tag else 0
