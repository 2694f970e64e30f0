"""Arrow's binary columns as numpy sees them: one run of bytes, and where each value ends. Nothing is copied."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["as_binary", "as_text", "cells", "is_whole", "lengths_of", "span_of", "texts_of_width"]

_NO_BYTES = np.zeros(0, np.uint8)


def as_binary(column: pa.Array) -> pa.Array:
    """Return a column of texts or bytes as one of bytes with ends of 32 bits; only large kinds are copied.

    >>> as_binary(pa.array(["a", None, "bc"])).to_pylist()
    [b'a', None, b'bc']
    """
    if column.type in (pa.large_string(), pa.large_binary()):
        column = column.cast(pa.binary() if column.type == pa.large_binary() else pa.string())
    return column if column.type == pa.binary() else column.view(pa.binary())


def as_text(column: pa.Array) -> pa.Array:
    """Return a column of texts, or of whole numbers as they are written, as one of bytes.

    >>> as_text(pa.array([7, None])).to_pylist()
    [b'7', None]
    """
    return as_binary(column.cast(pa.string()) if is_whole(column.type) else column)


def is_whole(kind: pa.DataType) -> bool:
    """Say whether a column has whole numbers."""
    return kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def span_of(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return where the values of a binary or text column begin and end in a run of bytes, and that run.

    >>> ends, raw = span_of(pa.array([b"a", b"bc"]).slice(1))
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


def lengths_of(column: pa.Array) -> NDArray[np.int64]:
    """Return how many bytes each value has; a null has none.

    >>> lengths_of(pa.array([b"a", None, b"bcd"])).tolist()
    [1, 0, 3]
    """
    lengths: NDArray[np.int64] = np.diff(span_of(column)[0])
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def cells(ends: NDArray[np.int64] | NDArray[np.int32], values: pa.Buffer | None) -> pa.Array:
    """Make a binary column of a run of bytes and where its values end, the first of which is where they begin.

    >>> cells(np.array([0, 1, 3]), pa.py_buffer(b"abc")).to_pylist()
    [b'a', b'bc']
    """
    return pa.Array.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends.astype(np.int32, copy=False)), values]
    )


def texts_of_width(rows: NDArray[np.uint8]) -> pa.Array:
    """Make a binary column of a table of bytes: each row is a value.

    >>> texts_of_width(np.frombuffer(b"abcd", np.uint8).reshape(2, 2)).to_pylist()
    [b'ab', b'cd']
    """
    count, width = rows.shape
    return cells(np.arange(count + 1, dtype=np.int64) * width, pa.py_buffer(np.ascontiguousarray(rows).reshape(-1)))
