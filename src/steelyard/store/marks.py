"""The mark of a message in its queue's index: the hash of its tag, so that filters need not read the log.

In the topic where delayed messages wait, the mark is the time at which the message is due instead.
"""

from functools import lru_cache

from steelyard.model import tag_hash
from steelyard.wire.properties import find_property

__all__ = ["DELAY_LEVELS_MS", "SCHEDULE_TOPIC", "mark_of"]

SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"

_TAG_OPENING = b"\x02TAGS\x01"
_SHORT = 64

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
DELAY_LEVELS_MS = (
    *(n * _SECOND for n in (1, 5, 10, 30)),
    *(n * _MINUTE for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2)),
)
"""How long each of the eighteen levels delays; the first level is 1."""

# What senders write may be no level and no time at all, and must still have a mark.
_LEVEL_DIGITS = 9
_NEVER_MS = (1 << 63) - 1


def mark_of(topic: bytes, properties: bytes, stored_ms: int) -> int:
    r"""Return the mark of a message.

    >>> mark_of(b"orders", b"TAGS\x01TagA\x02", 0)
    2598919
    >>> mark_of(SCHEDULE_TOPIC, b"DELAY\x013\x02", 1_000)
    11000
    """
    if topic == SCHEDULE_TOPIC:
        level = find_property(properties, b"DELAY") or b""
        known = len(level) <= _LEVEL_DIGITS and level.isdigit() and 1 <= int(level) <= len(DELAY_LEVELS_MS)
        return min(stored_ms + (DELAY_LEVELS_MS[int(level) - 1] if known else _SECOND), _NEVER_MS)
    # Every message comes by here. A tag that follows another property is cut out in two steps, all else takes longer.
    _, found, rest = properties.rpartition(_TAG_OPENING)
    tag: bytes | None = rest.partition(b"\x02")[0] if found else None
    if not tag and _TAG_OPENING[1:] in properties:
        tag = find_property(properties, b"TAGS")
    if not tag:
        return 0
    return _known_mark(tag) if len(tag) <= _SHORT else _mark(tag)


def _mark(tag: bytes) -> int:
    return tag_hash(tag.decode(errors="replace"))


# Tags repeat; long ones are not remembered, since senders choose them and memory is ours.
_known_mark = lru_cache(maxsize=4096)(_mark)
