"""Arrow columns over buffers of bytes and numbers, and back, with as few copies as possible.

Arrow's binary columns have no gaps, so slices of a buffer must be copied. A slice and the gap behind it, alternating,
are such a column over the buffer as it is; taking every second element leaves the gaps out, in C++.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def unaligned_view(data: Any, dtype: str) -> "NDArray[Any]":
    """Return a view with a value for each byte offset at which one can start."""
    read = np.dtype(dtype)
    return np.ndarray((max(0, len(data) - read.itemsize + 1),), read, data, 0, (1,))


def numeric_column(values: "NDArray[np.int32] | NDArray[np.int64]", kind: pa.DataType) -> pa.Array:
    """Return native numbers as a column, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def binary_slices(
    buffer: pa.Buffer, starts: "NDArray[np.int64]", ends: "NDArray[np.int64]", kind: pa.DataType
) -> pa.Array:
    """Return slices of a buffer; each starts at the end of the one before or later."""
    count = len(starts)
    if not count:
        return pa.array([], kind)
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    with_gaps = pa.Array.from_buffers(kind, 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
    return with_gaps.take(_even_numbers(max(10, count.bit_length())).slice(0, count))


def repeated_texts(texts: Sequence[bytes], times: int) -> pa.Array:
    """Return a column that repeats some texts, which must be UTF-8."""
    turn, count = b"".join(texts), len(texts) * times
    bounds = np.zeros(count + 1, np.int32)
    ends = np.cumsum([len(text) for text in texts])
    bounds[1:].reshape(times, len(texts))[:] = np.arange(times)[:, None] * len(turn) + ends
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(turn * times)])


@lru_cache(maxsize=32)
def _even_numbers(bits: int) -> pa.Array:
    return pa.array(np.arange(0, 2 << bits, 2))


_NO_BYTES = np.zeros(0, np.uint8)


def as_binary(column: pa.Array) -> pa.Array:
    """Return a text or binary column as binary with 32-bit offsets; only large types are copied.

    >>> as_binary(pa.array(["a", None, "bc"])).to_pylist()
    [b'a', None, b'bc']
    """
    if column.type in (pa.large_string(), pa.large_binary()):
        column = column.cast(pa.binary() if column.type == pa.large_binary() else pa.string())
    return column if column.type == pa.binary() else column.view(pa.binary())


def as_text(column: pa.Array) -> pa.Array:
    """Return a text column, or integers in decimal, as binary.

    >>> as_text(pa.array([7, None])).to_pylist()
    [b'7', None]
    """
    return as_binary(column.cast(pa.string()) if is_integer(column.type) else column)


def is_integer(kind: pa.DataType) -> bool:
    """Say whether a column has integers."""
    return kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def offsets_and_bytes(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the offsets of the values of a binary or text column, and its bytes.

    >>> ends, raw = offsets_and_bytes(pa.array([b"a", b"bc"]).slice(1))
    >>> ends.tolist(), raw.tobytes()
    ([0, 2], b'bc')
    """
    _, offsets, values = as_binary(column).buffers()
    if offsets is None or not len(column):
        return np.zeros(len(column) + 1, np.int64), _NO_BYTES
    ends = np.frombuffer(memoryview(offsets), np.int32)[column.offset : column.offset + len(column) + 1].astype(
        np.int64
    )
    raw = _NO_BYTES if values is None else np.frombuffer(memoryview(values), np.uint8)
    return ends - ends[0], raw[ends[0] : ends[-1]]


def byte_lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the byte length of each value; 0 for null.

    >>> byte_lengths(pa.array([b"a", None, b"bcd"])).tolist()
    [1, 0, 3]
    """
    lengths: NDArray[np.int64] = np.diff(offsets_and_bytes(column)[0])
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def binary_column(ends: NDArray[np.int64] | NDArray[np.int32], values: pa.Buffer | None) -> pa.Array:
    """Make a binary column of bytes and offsets.

    >>> binary_column(np.array([0, 1, 3]), pa.py_buffer(b"abc")).to_pylist()
    [b'a', b'bc']
    """
    return pa.Array.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends.astype(np.int32, copy=False)), values]
    )


def fixed_width_column(rows: NDArray[np.uint8]) -> pa.Array:
    """Make a binary column of a 2-D array of bytes: each row is a value.

    >>> fixed_width_column(np.frombuffer(b"abcd", np.uint8).reshape(2, 2)).to_pylist()
    [b'ab', b'cd']
    """
    count, width = rows.shape
    return binary_column(
        np.arange(count + 1, dtype=np.int64) * width, pa.py_buffer(np.ascontiguousarray(rows).reshape(-1))
    )
