"""Columns of Arrow out of bytes and numbers that are there already.

Columns of bytes lie without gaps, so parts of a buffer have to be copied. A part and the gap behind it, in turns, are
such a column over the buffer as it is; taking every second element of it leaves the gaps out, in C++.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["numbers", "parts", "repeated", "unaligned"]


def unaligned(data: Any, kind: str) -> "NDArray[Any]":
    """Return all values of a kind that can be read out of some bytes, one for each byte that one can begin at."""
    read = np.dtype(kind)
    return np.ndarray((max(0, len(data) - read.itemsize + 1),), read, data, 0, (1,))


def numbers(values: "NDArray[np.int32] | NDArray[np.int64]", kind: pa.DataType) -> pa.Array:
    """Return numbers of the machine as a column, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def parts(buffer: pa.Buffer, starts: "NDArray[np.int64]", ends: "NDArray[np.int64]", kind: pa.DataType) -> pa.Array:
    """Return the parts of a buffer from each start to its end; each begins at the end of the one before or later."""
    count = len(starts)
    if not count:
        return pa.array([], kind)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    with_gaps = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
    return with_gaps.take(_even_numbers(max(10, count.bit_length())).slice(0, count))


def repeated(texts: Sequence[bytes], times: int) -> pa.Array:
    """Return a column of some texts in turns, each so many times; they must be UTF-8."""
    turn, count = b"".join(texts), len(texts) * times
    bounds = np.zeros(count + 1, np.int32)
    ends = np.cumsum([len(text) for text in texts])
    bounds[1:].reshape(times, len(texts))[:] = np.arange(times)[:, None] * len(turn) + ends
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(turn * times)])


@lru_cache(maxsize=32)
def _even_numbers(bits: int) -> pa.Array:
    return pa.array(np.arange(0, 2 << bits, 2))
