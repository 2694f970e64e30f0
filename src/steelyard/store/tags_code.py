"""Tags code: the hash of a message's tag in the consume queue, so that filters need not read the log.

In the topic of delayed messages, the code is the time at which the message is due instead.
"""

from functools import lru_cache

from steelyard.model import tag_hash
from steelyard.wire.properties import find_property

SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"

_TAGS_PREFIX = b"\x02TAGS\x01"
_MAX_CACHED_BYTES = 64

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000
DELAY_LEVELS_MS = (
    *(n * _SECOND for n in (1, 5, 10, 30)),
    *(n * _MINUTE for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2)),
)
"""The delay of each of the eighteen levels; the first level is 1."""

# Senders may write anything as a level or a time; such a message still needs a tags code.
_MAX_LEVEL_DIGITS = 9
_MAX_TIME_MS = (1 << 63) - 1


def compute_tags_code(topic: bytes, properties: bytes, stored_ms: int) -> int:
    """Return the tags code of a message."""
    if topic == SCHEDULE_TOPIC:
        level = find_property(properties, b"DELAY") or b""
        known = len(level) <= _MAX_LEVEL_DIGITS and level.isdigit() and 1 <= int(level) <= len(DELAY_LEVELS_MS)
        return min(stored_ms + (DELAY_LEVELS_MS[int(level) - 1] if known else _SECOND), _MAX_TIME_MS)
    # Hot path. A tag that follows another property is cut out in two steps; everything else takes longer.
    _, found, rest = properties.rpartition(_TAGS_PREFIX)
    tag: bytes | None = rest.partition(b"\x02")[0] if found else None
    if not tag and _TAGS_PREFIX[1:] in properties:
        tag = find_property(properties, b"TAGS")
    if not tag:
        return 0
    return _cached_hash_tag(tag) if len(tag) <= _MAX_CACHED_BYTES else _hash_tag(tag)


def _hash_tag(tag: bytes) -> int:
    return tag_hash(tag.decode(errors="replace"))


# Tags repeat. Long ones are not cached: senders choose them, and the memory is ours.
_cached_hash_tag = lru_cache(maxsize=4096)(_hash_tag)
