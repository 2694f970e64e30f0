"""The mark of a message in its queue's index: the hash of its tag, so that filters need not read the log.

In the topic where delayed messages wait, the mark is the time at which the message is due instead.
"""

from steelyard.model import tag_hash
from steelyard.wire.properties import find_property

__all__ = ["DELAY_LEVELS_MS", "SCHEDULE_TOPIC", "mark_of"]

SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
DELAY_LEVELS_MS = (
    *(n * _SECOND for n in (1, 5, 10, 30)),
    *(n * _MINUTE for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2)),
)
"""How long each of the eighteen levels delays; the first level is 1."""


def mark_of(topic: bytes, properties: bytes, stored_ms: int) -> int:
    r"""Return the mark of a message.

    >>> mark_of(b"orders", b"TAGS\x01TagA\x02", 0)
    2598919
    >>> mark_of(SCHEDULE_TOPIC, b"DELAY\x013\x02", 1_000)
    11000
    """
    if topic == SCHEDULE_TOPIC:
        level = find_property(properties, b"DELAY") or b""
        known = level.isdigit() and 1 <= int(level) <= len(DELAY_LEVELS_MS)
        return stored_ms + (DELAY_LEVELS_MS[int(level) - 1] if known else _SECOND)
    tag = find_property(properties, b"TAGS")
    return tag_hash(tag.decode(errors="replace")) if tag else 0
