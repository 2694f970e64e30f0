"""Many parts of one buffer as an Arrow column: the one copy that bodies and texts need, made in C++.

Arrow's columns of bytes lie without gaps. A part and the gap behind it, in turns, are such a column over the buffer as
it is; taking every second element of it leaves the gaps out.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["every", "numbers", "parts"]


def parts(
    buffer: pa.Buffer, starts: "NDArray[np.int64]", ends: "NDArray[np.int64]", kind: pa.DataType
) -> pa.Array:
    """Return the parts of a buffer from each start to its end, in order; none may begin before the one before ends."""
    count = len(starts)
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    if not count:
        return pa.array([], kind)
    with_gaps = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    return with_gaps.take(every(2, count))


def numbers(values: "NDArray[np.int32] | NDArray[np.int64]", kind: pa.DataType) -> pa.Array:
    """Return numbers of the machine as a column, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def every(step: int, count: int, first: int = 0) -> pa.Array:
    """Return the numbers of some elements, each so many behind the one before."""
    return _counted(step, first, 1 << max(10, count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=64)
def _counted(step: int, first: int, count: int) -> pa.Array:
    return pa.array(np.arange(first, first + step * count, step))
