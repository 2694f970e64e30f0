"""Rows that cannot be read with all others at once: compressed bodies, batches stored as one record, odd properties.

They are read one by one, as every consumer reads them: by wire/stored.py. Few topics have any.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from steelyard.client.names import Names
from steelyard.errors import LimitExceeded
from steelyard.model.message import KEYS, StoredMessage
from steelyard.wire.stored import messages

__all__ = ["OPENED_BYTES", "column_of", "open_record", "size_of"]

OPENED_BYTES = 1024 * 1024 * 1024
"""What may come out of the compressed records of one batch: half of what one column can hold."""

# What a message takes beside its body and its properties.
_MESSAGE_BYTES = 256

_READ: dict[str, Callable[[StoredMessage], object]] = {
    "queue_id": attrgetter("queue.queue_id"),
    "broker": attrgetter("queue.broker"),
    "keys": lambda message: message.properties.get(KEYS),
    "properties": lambda message: list(message.properties.items()),
}


def size_of(message: StoredMessage) -> int:
    """Return about how much memory a message takes; its properties are not more than its record has."""
    return len(message.body) + _MESSAGE_BYTES


def open_record(record: bytes, broker: str, *, start: int, end: int, room: int) -> Iterator[StoredMessage]:
    """Yield the messages of one record with offsets from ``start`` to ``end``, as long as there is room for them."""
    for message in messages(record, broker):
        if start <= message.offset < end:
            room -= size_of(message)
            if room < 0:
                raise LimitExceeded("what comes out of the records of one batch", where="record", limit=OPENED_BYTES)
            yield message


def column_of(opened: Sequence[StoredMessage], column: str, kind: pa.DataType, names: Names) -> pa.Array:
    """Return one column of messages."""
    if column == "topic":
        return pa.array([names.bare(message.topic) for message in opened], kind)
    read: Callable[[StoredMessage], Any] = _READ.get(column) or attrgetter(column)
    return pa.array([read(message) for message in opened], kind)
