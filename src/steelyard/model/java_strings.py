"""Java's string order and string hash.

Members of a mixed group agree on an assignment only if they sort names and hash keys alike. Java does both on UTF-16
units, Python on code points. They differ only where characters beyond U+FFFF meet those from U+E000 on.
"""

from functools import lru_cache
from operator import mul
from struct import unpack

_CHUNK_LENGTH = 256
_POWERS = tuple(pow(31, n, 1 << 32) for n in reversed(range(_CHUNK_LENGTH)))


def utf16_units(text: str) -> str:
    r"""Return text with one character per UTF-16 unit, so that Python's order of the results is Java's of the texts.

    >>> sorted(["\ue000", "\U0001f600"], key=utf16_units) == ["\U0001f600", "\ue000"]
    True
    """
    if text.isascii() or max(text) < "\U00010000":
        return text
    raw = text.encode("utf-16-be", "surrogatepass")
    return "".join(map(chr, unpack(f">{len(raw) // 2}H", raw)))


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: signed 32 bits.

    >>> java_hash("TagA"), java_hash("order-1")
    (2598919, -1207111310)
    """
    units = text.encode("ascii") if text.isascii() else tuple(map(ord, utf16_units(text)))
    total = 0
    for start in range(0, len(units), _CHUNK_LENGTH):
        part = units[start : start + _CHUNK_LENGTH]
        total = total * pow(31, len(part), 1 << 32) + sum(map(mul, part, _POWERS[_CHUNK_LENGTH - len(part) :]))
    total &= 0xFFFFFFFF
    return total - (1 << 32) if total >> 31 else total


def tag_hash(tag: str | None) -> int:
    """Return the tag hash of a consume queue entry: Java's hash, 0 without a tag.

    >>> tag_hash("TagB"), tag_hash(None), tag_hash("")
    (2598920, 0, 0)
    """
    if not tag:
        return 0
    return _cached_hash(tag) if len(tag) <= _CHUNK_LENGTH else java_hash(tag)


# Tags repeat. Long ones are not cached, since senders choose them and the cache takes memory.
_cached_hash = lru_cache(maxsize=4096)(java_hash)
