"""Deterministic message ids: a row that is resent has the same id, so that readers can drop repeats by ``message_id``.

A failed task is run again, and a micro-batch that was not committed is replayed: their rows are the same then, but not
their order. So nothing depends on the position of a row. Its id is:

- the column ``id`` as it is, if there is one. Its values must be unique;
- else a hash of its contents: body, tags, keys, properties, topic, key and delay. Equal rows are counted within their
  task: it does not matter which of them is the first, since nothing distinguishes them.

Equal rows of another micro-batch, write or task are other rows, so the hash also has a scope. Where a frame has the
columns of its source, topic, broker, queue_id and offset, these are the scope, and an id stays the same however rows
are distributed over tasks and however often they are written.
"""

from hashlib import blake2b
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from steelyard.spark.arrow_buffers import fixed_width_column, offsets_and_bytes

_HASH_BYTES = 16
_COUNT_BYTES = 8


class DeterministicIds:
    """Makes the ids of the rows of one task, each of 32 hexadecimal digits like those of other producers.

    >>> ids = DeterministicIds("a query", "7", "0")
    >>> once, twice, other = ids.next_ids(pa.array([b"paid", b"paid", b"shipped"])).to_pylist()
    >>> replayed = DeterministicIds("a query", "7", "0").next_ids(pa.array([b"paid"])).to_pylist()
    >>> len({once, twice, other}), replayed == [once]
    (3, True)
    """

    def __init__(self, *scope: str) -> None:
        """Set the scope of the rows."""
        self._scope_hash = blake2b(repr(scope).encode(), digest_size=_HASH_BYTES).digest()
        self._seen = _SeenHashes()
        self._counts: dict[bytes, int] = {}  # the number of rows so far of each hash that occurred more than once

    def next_ids(self, contents: pa.Array) -> pa.Array:
        """Return the ids of the next rows by their contents; both are binary columns."""
        ends, raw = offsets_and_bytes(pc.binary_join_element_wise(contents, self._scope_hash, b""))
        view = memoryview(raw.data)
        hashes = [blake2b(view[start:end], digest_size=_HASH_BYTES).digest() for start, end in pairwise(ends.tolist())]
        for row in self._seen.add(np.frombuffer(b"".join(hashes), np.uint64)[:: _HASH_BYTES // 8]):
            hashed = hashes[row]
            count = self._counts.get(hashed, 1)
            self._counts[hashed] = count + 1
            hashes[row] = blake2b(hashed + count.to_bytes(_COUNT_BYTES, "big"), digest_size=_HASH_BYTES).digest()
        digits = np.frombuffer(b"".join(hashes).hex().upper().encode(), np.uint8)
        return fixed_width_column(digits.reshape(-1, 2 * _HASH_BYTES))


class _SeenHashes:
    """The set of numbers so far, in eight bytes each: a task may have millions of rows."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []
        """Sorted, without repeats, each less than half as long as the one before."""

    def add(self, numbers: NDArray[np.uint64]) -> list[int]:
        """Add numbers, and return the indexes of those that occurred before, among them or earlier.

        >>> seen = _SeenHashes()
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
