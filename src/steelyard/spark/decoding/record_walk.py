"""Where each record begins among records that lie back to back, found without a step in Python for each.

A record says how long it is, and only by that is the next one found. Walking so costs more than much of the reading, so
three ways are tried:

1. Records of one producer are often equally long: a run of one size is guessed and all its sizes are looked at at once.
2. Every record has its magic behind its size: from a magic here and there among the bytes all walk on together, each
   until it comes to where the next one began.
3. Where a body held a magic, too, and the ways did not meet: step by step.

Nothing is believed: a start counts only if the sizes lead to it from the first byte on. What else a record holds is
not looked at.
"""

from struct import Struct as Layout
from typing import TYPE_CHECKING

import numpy as np

from steelyard.spark.decoding.segments import unaligned
from steelyard.wire.record_damage import explain_damage
from steelyard.wire.record_layout import SMALLEST_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["record_starts"]

_read_size = Layout(">i").unpack_from
_MAGIC_AT, _MAGIC_END = 4, 8

# A run is guessed this long first, then twice as long each time that all of it was right.
_FIRST_RUN = 32

# A run that ends before this costs more than walking from many places.
_SHORT_RUN = 128

# How many records there are for each that is searched for, and how many steps are made before it is given up.
_RECORDS_A_WALKER = 16
_MOST_STEPS = 8 * _RECORDS_A_WALKER

# With fewer walkers steps of their own are cheaper.
_FEWEST_WALKERS = 4


def record_starts(data: bytes | bytearray, end: int) -> "NDArray[np.int64]":
    """Return where the records in some bytes begin, of which the last one ends at ``end``.

    `MalformedRecord` where a size does not lead to another record or to the end.
    """
    runs, at = _equal_runs(data, end)
    if at < end:
        met = _by_walkers(data, at, end)
        runs.append(_by_steps(data, at, end) if met is None else met)
    return np.concatenate(runs) if len(runs) > 1 else runs[0]


def _equal_runs(data: bytes | bytearray, end: int) -> "tuple[list[NDArray[np.int64]], int]":
    """Return the starts in runs of equal sizes as long as there are long ones, and where the last one ends."""
    runs, at, guess = [], 0, _FIRST_RUN
    while at < end:
        size = _size_at(data, at, end)
        length = min(guess, (end - at) // size)
        is_equal = np.ndarray((length,), ">i4", data, at, (size,)) == size
        run = length if is_equal.all() else int(is_equal.argmin())
        runs.append(np.arange(at, at + run * size, size))
        at += run * size
        if run < min(length, _SHORT_RUN):
            break
        guess = guess * 2 if run == guess else _FIRST_RUN
    return runs, at


def _by_walkers(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64] | None":
    """Walk from many records at once; None where that does not lead from each to the next."""
    begun = _where_to_begin(data, at, end)
    if len(begun) < _FEWEST_WALKERS:
        return None
    sizes, limits, last_size = unaligned(data, ">i4"), np.append(begun[1:], end), end - SMALLEST_BYTES
    places = begun
    passed: list[NDArray[np.int64]] = []
    while (places < limits).any():
        if len(passed) == _MOST_STEPS:
            return None
        passed.append(places)
        # Who has arrived goes on as well, and sizes are not looked at: all that was passed is checked together below.
        steps = np.maximum(sizes[np.minimum(places, last_size)], SMALLEST_BYTES)
        places = np.minimum(places + steps, end)
    # One column for each walker, of which only what lies before the next one's first counts.
    ways = np.stack(passed)
    starts = ways.T[(ways < limits).T]
    found = sizes[np.minimum(starts, last_size)]
    leads_on = np.array_equal(starts + found, np.append(starts[1:], end)) and found.min() >= SMALLEST_BYTES
    return starts if leads_on else None


def _where_to_begin(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64]":
    """Return the start of a record and of some behind it, as far as their magic is to be trusted."""
    magic, size = data[at + _MAGIC_AT : at + _MAGIC_END], _size_at(data, at, end)
    begun, stride = [at], size * _RECORDS_A_WALKER
    while (found := data.find(magic, begun[-1] + stride, end)) >= 0:
        begun.append(found - _MAGIC_AT)
    return np.array(begun)


def _by_steps(data: bytes | bytearray, at: int, end: int) -> "NDArray[np.int64]":
    starts = []
    while at < end:
        starts.append(at)
        at += _size_at(data, at, end)
    return np.array(starts)


def _size_at(data: bytes | bytearray, at: int, end: int) -> int:
    size: int = _read_size(data, at)[0] if end - at >= SMALLEST_BYTES else 0
    if not SMALLEST_BYTES <= size <= end - at:
        raise explain_damage(memoryview(data)[:end], at)
    return size
