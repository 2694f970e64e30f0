"""A stored message as people and programs read it: one line, or one JSON object."""

from base64 import b64encode

import msgspec

from steelyard.cli.frame.screen import visible
from steelyard.model import StoredMessage

__all__ = ["as_json_line", "as_line"]

_PREVIEW = 60


def as_line(message: StoredMessage) -> str:
    """Write topic:queue:offset, time, key, tag and the beginning of the body."""
    where = f"{message.topic}:{message.queue.queue_id}:{message.offset}"
    stored_at = message.stored_at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
    words = (where, stored_at, ",".join(message.keys) or "-", message.tags or "-", _preview(message.body))
    return visible(" ".join(words))


def _preview(body: bytes) -> str:
    try:
        # Cut where a character may have been cut: the rest is left out below.
        text = body[: 4 * _PREVIEW].decode(errors="strict" if len(body) <= 4 * _PREVIEW else "ignore")
    except UnicodeDecodeError:
        return f"{body[: _PREVIEW // 4].hex()}{'...' if len(body) > _PREVIEW // 4 else ''} ({len(body)} bytes)"
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}..."


def as_json_line(message: StoredMessage) -> str:
    """Write all of a message; a body that is no text is in base64, and ``body_encoding`` says so."""
    try:
        body, encoding = message.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = b64encode(message.body).decode(), "base64"
    answer = {
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
    return msgspec.json.encode(answer).decode()
