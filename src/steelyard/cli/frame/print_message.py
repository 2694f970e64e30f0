"""A stored message as people and programs read it: one line, or one JSON object."""

from base64 import b64encode
from functools import lru_cache

import msgspec

from steelyard.cli.frame.screen import visible
from steelyard.model import Queue, StoredMessage

__all__ = ["as_json_line", "as_line", "preview", "stored_at", "values_of"]

_PREVIEW = 60
_NOWHERE = Queue("", "", 0)
_SECOND_LETTERS = len("2026-11-01T08:00:00")


def as_line(message: StoredMessage) -> str:
    """Write its queue and offset, time, keys, tag and the beginning of the body."""
    # A directory does not know what its broker was called.
    queue = str(message.queue) if message.queue.broker else f"{message.topic}:{message.queue.queue_id}"
    where = f"{queue}:{message.offset}"
    words = (where, stored_at(message), ",".join(message.keys) or "-", message.tags or "-", preview(message.body))
    return visible(" ".join(words))


def stored_at(message: StoredMessage) -> str:
    """Write when a message was stored, to the millisecond."""
    second, ms = divmod(message.stored_ms, 1000)
    return f"{_second(second)}.{ms:03d}Z"


@lru_cache(maxsize=1024)
def _second(since_1970: int) -> str:
    # Remembered, since many messages are of one second, and this takes longer than all else.
    return StoredMessage(_NOWHERE, 0, b"", stored_ms=since_1970 * 1000).stored_at.isoformat()[:_SECOND_LETTERS]


def preview(body: bytes) -> str:
    """Write the beginning of a body: as text, or its bytes in hexadecimal."""
    try:
        # Cut where a character may have been cut: the rest is left out below.
        text = body[: 4 * _PREVIEW].decode(errors="strict" if len(body) <= 4 * _PREVIEW else "ignore")
    except UnicodeDecodeError:
        return f"{body[: _PREVIEW // 4].hex()}{'...' if len(body) > _PREVIEW // 4 else ''} ({len(body)} bytes)"
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}..."


def as_json_line(message: StoredMessage) -> str:
    """Write all of a message as one JSON object."""
    return msgspec.json.encode(values_of(message)).decode()


def values_of(message: StoredMessage) -> dict[str, object]:
    """Return all of a message; a body that is no text is in base64, and ``body_encoding`` says so."""
    try:
        body, encoding = message.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = b64encode(message.body).decode(), "base64"
    return {
        "topic": message.topic,
        # A directory does not know what its broker was called.
        **({"broker": message.queue.broker} if message.queue.broker else {}),
        "queue_id": message.queue.queue_id,
        "offset": message.offset,
        "position": message.position,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": message.keys,
        "properties": dict(message.properties),
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "body": body,
        "body_encoding": encoding,
    }
