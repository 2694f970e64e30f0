"""Where each record begins among records that lie back to back, found without a step in Python for each.

A record says how long it is, and only by that is the next one found. Walking so costs more than much of the reading, so
three ways are tried, each of them checked against the sizes themselves:

1. Records of one producer are often equally long: a run of one size is guessed and all its sizes are looked at at once.
2. Every record has its magic behind its size: all bytes are searched for it, and the sizes found there must lead from
   each record to the next.
3. Where a body holds a magic too, or records are so long that a search costs more than a step: step by step.

What a record holds is not looked at: only that its size leads on.
"""

from struct import Struct as Layout
from typing import TYPE_CHECKING

import numpy as np

from steelyard.wire.record_damage import explain_damage
from steelyard.wire.record_layout import SMALLEST_BYTES, V1_MAGIC, V2_MAGIC

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["record_starts", "unaligned"]

_read_size = Layout(">i").unpack_from
_MAGIC_AT = 4

# The byte that every magic begins with.
_MAGIC_BYTE = V1_MAGIC >> 24 & 0xFF

# A run is guessed this long first, then twice as long each time that all of it was right.
_FIRST_RUN = 16

# Runs shorter than this cost more than a search.
_SHORT_RUN = 8

# From this size on a step costs less than a search of the bytes in between.
_LONG_RECORD_BYTES = 1_500


def unaligned(data: bytes | memoryview, kind: str) -> "NDArray[np.void]":
    """Return all values of a kind that can be read out of some bytes, one for each byte that one can begin at."""
    read = np.dtype(kind)
    return np.ndarray((max(0, len(data) - read.itemsize + 1),), read, data, 0, (1,))


def record_starts(data: bytes | memoryview) -> "NDArray[np.int64]":
    """Return where each record begins; `MalformedRecord` where a size does not lead to another record or to the end."""
    runs, at = _equal_runs(data)
    if at < len(data):
        found = _by_magic(data, at) if _size_at(data, at) < _LONG_RECORD_BYTES else None
        runs.append(_by_steps(data, at) if found is None else found)
    return np.concatenate(runs) if len(runs) != 1 else runs[0]


def _equal_runs(data: bytes | memoryview) -> "tuple[list[NDArray[np.int64]], int]":
    """Return the starts in runs of equal sizes as long as there are long ones, and where the last one ends."""
    runs, at, end, guess = [np.empty(0, np.int64)], 0, len(data), _FIRST_RUN
    while at < end:
        size = _size_at(data, at)
        length = min(guess, (end - at) // size)
        is_equal = np.ndarray((length,), ">i4", data, at, (size,)) == size
        run = length if is_equal.all() else int(is_equal.argmin())
        runs.append(np.arange(at, at + run * size, size))
        at += run * size
        if run < _SHORT_RUN:
            break
        guess = guess * 2 if run == guess else _FIRST_RUN
    return runs, at


def _by_magic(data: bytes | memoryview, at: int) -> "NDArray[np.int64] | None":
    """Search for magics from a record on; None where the sizes do not lead from each of them to the next."""
    first_bytes = np.frombuffer(data, np.uint8)[at + _MAGIC_AT :]
    places = np.flatnonzero(first_bytes == _MAGIC_BYTE) + at
    places = places[places <= len(data) - SMALLEST_BYTES]
    magics = unaligned(data, ">i4")[places + _MAGIC_AT]
    starts = places[(magics == V1_MAGIC) | (magics == V2_MAGIC)]
    if not len(starts) or starts[0] != at:
        return None
    ends = starts + unaligned(data, ">i4")[starts]
    leads_on = ends[-1] == len(data) and bool((ends[:-1] == starts[1:]).all())
    return starts if leads_on else None


def _by_steps(data: bytes | memoryview, at: int) -> "NDArray[np.int64]":
    starts, end = [], len(data)
    while at < end:
        starts.append(at)
        at += _size_at(data, at)
    return np.array(starts, np.int64)


def _size_at(data: bytes | memoryview, at: int) -> int:
    left = len(data) - at
    size: int = _read_size(data, at)[0] if left >= SMALLEST_BYTES else 0
    if not SMALLEST_BYTES <= size <= left:
        raise explain_damage(data, at)
    return size
