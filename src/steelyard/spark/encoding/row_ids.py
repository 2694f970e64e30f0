"""Message ids of rows: a row that is sent again has the same id, so that readers can drop repeats by ``message_id``.

A task that fails is run again, and a micro-batch that was not committed is replayed: their rows are the same then, but
not their order. So nothing depends on a row's place. Its id is, by what the frame has:

- the column ``id``, as it is (row_properties.py). Whoever fills it sees to it that no two rows share one;
- else a hash of what the row says: body, tags, keys, properties, topic, key and delay. Rows that say the same are
  counted within their task: it does not matter which of them is the first, since nothing tells them apart.

Rows that say the same in another micro-batch, write or task are other rows, so the hash also has what a task is part
of. Where a frame has the columns of its source, topic, broker, queue_id and offset, these tell rows apart instead, and
an id stays the same however rows are distributed over tasks and however often they are written.
"""

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.spark.encoding.row_bytes import span_of, texts_of_width

__all__ = ["RowIds"]

_HASH_BYTES = 16
_COUNT_BYTES = 8


class RowIds:
    """Makes the ids of the rows of one task, each of 32 hexadecimal digits as those of other producers.

    >>> ids = RowIds("a query", "7", "0")
    >>> once, twice, other = ids.of(pa.array([b"paid", b"paid", b"shipped"])).to_pylist()
    >>> len({once, twice, other}), RowIds("a query", "7", "0").of(pa.array([b"paid"])).to_pylist() == [once]
    (3, True)
    """

    def __init__(self, *part_of: str) -> None:
        """Name what the rows are part of; each name counts by itself."""
        self._part_of = blake2b(repr(part_of).encode(), digest_size=_HASH_BYTES).digest()
        self._seen = _Seen()
        self._counts: dict[bytes, int] = {}
        """How many rows there are so far of each hash that came up more than once."""

    def of(self, contents: pa.Array) -> pa.Array:
        """Return the ids of the next rows by what each says; both are binary columns."""
        ends, raw = span_of(pc.binary_join_element_wise(contents, self._part_of, b""))
        view = memoryview(raw.data)
        hashes = [blake2b(view[start:end], digest_size=_HASH_BYTES).digest() for start, end in pairwise(ends.tolist())]
        for row in self._seen.add(np.frombuffer(b"".join(hashes), np.uint64)[:: _HASH_BYTES // 8]):
            hashed = hashes[row]
            count = self._counts.get(hashed, 1)
            self._counts[hashed] = count + 1
            hashes[row] = blake2b(hashed + count.to_bytes(_COUNT_BYTES, "big"), digest_size=_HASH_BYTES).digest()
        digits = np.frombuffer(b"".join(hashes).hex().upper().encode(), np.uint8)
        return texts_of_width(digits.reshape(-1, 2 * _HASH_BYTES))


class _Seen:
    """Which numbers came up so far, in eight bytes each: a task may have millions of rows."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []
        """Sorted, without repeats, each less than half as long as the one before."""

    def add(self, numbers: NDArray[np.uint64]) -> list[int]:
        """Take numbers, and return the places of those that came up before, among them or earlier.

        >>> seen = _Seen()
        >>> seen.add(np.array([7, 8, 7], np.uint64)), seen.add(np.array([9, 8], np.uint64))
        ([2], [1])
        """
        distinct, places = np.unique(numbers, return_index=True)
        is_new = np.ones(len(distinct), np.bool_)
        for run in self._runs:
            is_new &= run[np.minimum(np.searchsorted(run, distinct), len(run) - 1)] != distinct
        is_first = np.zeros(len(numbers), np.bool_)
        is_first[places[is_new]] = True
        run = distinct[is_new]
        while self._runs and 2 * len(run) >= len(self._runs[-1]):
            run = np.concatenate([self._runs.pop(), run])
            run.sort(kind="stable")
        if len(run):
            self._runs.append(run)
        repeated: list[int] = np.flatnonzero(~is_first).tolist()
        return repeated
