"""Rows that cannot be read with all others at once: compressed bodies, batches stored as one record, odd properties.

They are read one by one, as every consumer reads them: by wire/compression.py and wire/stored.py.
"""

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any

import pyarrow as pa

from steelyard.client.names import Names
from steelyard.errors import LimitExceeded
from steelyard.model.message import KEYS, StoredMessage
from steelyard.wire.compression import decompress
from steelyard.wire.stored import messages, sealed_of

__all__ = ["Opener", "column_of", "sealed_message"]

# What a message takes beside its texts and its body.
_MESSAGE_BYTES = 256

_READ: dict[str, Callable[[StoredMessage], object]] = {
    "broker": attrgetter("queue.broker"),
    "queue_id": attrgetter("queue.queue_id"),
    "keys": lambda message: message.properties.get(KEYS),
    "properties": lambda message: list(message.properties.items()),
}


class Opener:
    """Opens the records of one batch as long as there is room for all of them: a few bytes may become very many."""

    def __init__(self, most_bytes: int) -> None:
        self._limit = self._room = most_bytes

    def body(self, body: bytes, sys_flag: int) -> bytes:
        """Open a compressed body; an empty one is not compressed, whatever its flag says."""
        opened = decompress(body, sys_flag) if body else body
        self._room -= len(opened)
        return opened

    def messages(self, record: bytes, broker: str, start: int, end: int) -> list[StoredMessage]:
        """Return the messages of one record that have offsets from ``start`` to ``end``."""
        found = []
        for message in messages(record, broker):
            if start <= message.offset < end and self._room >= 0:
                texts = sum([len(name) + len(text) for name, text in message.properties.items()])
                self._room -= _MESSAGE_BYTES + len(message.topic) + len(message.body) + texts
                found.append(message)
        return found

    def check_room(self) -> None:
        """Raise `LimitExceeded` if more came out than there is room for."""
        if self._room < 0:
            raise LimitExceeded("what comes out of the records of one batch", where="records", limit=self._limit)


def sealed_message(record: bytes, broker: str) -> StoredMessage:
    """Return the message of a record that cannot be opened, as it is stored."""
    return next(sealed_of(StoredMessage, record, broker))


def column_of(
    opened: Sequence[StoredMessage], field: pa.Field, names: Names, bodiless: Collection[int] = ()
) -> pa.Array:
    """Return one column of messages; some of them have no body that could be read."""
    if field.name == "body":
        bodies = [None if place in bodiless else message.body for place, message in enumerate(opened)]
        return pa.array(bodies, field.type)
    if field.name == "topic":
        return pa.array([names.bare(message.topic) for message in opened], field.type)
    read: Callable[[StoredMessage], Any] = _READ.get(field.name) or attrgetter(field.name)
    return pa.array([read(message) for message in opened], field.type)
