"""Rows of an Arrow batch to bundles of messages: by topic and, where they have keys, by queue; then cut to size.

What belongs together is laid side by side, in the order of the rows. A bundle is a slice of that. Rows without keys may
go anywhere; those of one queue are several bundles one after the other, and the bundles of different queues take turns,
so that no broker waits for another. A row alone makes a bundle if it has a delay, which no batch can have, or if it is
larger than a batch should be.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.client.bulk.writing import BATCH_MESSAGES, Bundle, is_for_batches
from steelyard.errors import RowRefused
from steelyard.model import Queue
from steelyard.spark.encoding.row_bytes import as_binary, lengths_of, span_of
from steelyard.spark.encoding.row_columns import RowColumns
from steelyard.spark.encoding.row_ids import RowIds
from steelyard.spark.encoding.row_keys import queue_numbers
from steelyard.spark.encoding.rows import encode
from steelyard.spark.options.checked import WriteOptions

__all__ = ["bundles_of", "pieces_of"]

_PIECE_BYTES = 32 << 20
"""How much of an Arrow batch is encoded at a time: a column has room for 2 GiB, and memory is dear."""

_LANES = 1 << 32
"""A lane is a topic and, within it, 0 for any queue or the place of one, from 1 on."""


def pieces_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch that is very large into some that are not."""
    rows = max(1, batch.num_rows * _PIECE_BYTES // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def bundles_of(
    batch: pa.RecordBatch,
    columns: RowColumns,
    options: WriteOptions,
    ids: RowIds,
    queues_of: Callable[[str], Sequence[Queue]],
) -> Iterator[Bundle]:
    """Yield the rows of a batch as messages, those of each topic and queue in their order.

    ``queues_of`` says which queues a topic has.

    Raises RowRefused, whose row counts from the batch's beginning, before it yields anything.
    """
    if not batch.num_rows:
        return
    items = encode(batch, columns, ids, most_bytes=options.max_message_bytes)
    topics, topic_of = _topics(batch, columns, options)
    delays = _delays(batch, columns)
    queues = [queues_of(topic) for topic in topics]
    lanes = topic_of * _LANES + _queue_numbers(batch, columns, queues, topic_of) + 1
    if (lanes != lanes[0]).any():
        order = np.argsort(lanes, kind="stable")
        items, lanes, delays = items.take(order), lanes[order], delays[order]
    ends, raw = span_of(items)
    is_alone = (np.diff(ends) > options.max_batch_bytes) | (delays > 0)
    for number, topic in enumerate(topics):
        if not is_for_batches(topic):
            is_alone |= lanes // _LANES == number
    laid = _Laid(ends, raw, is_alone, delays, options.max_batch_bytes)
    by_lane = []
    for start, stop in pairwise([0, *(np.flatnonzero(np.diff(lanes)) + 1).tolist(), len(lanes)]):
        number, place = divmod(int(lanes[start]), _LANES)
        by_lane.append(laid.bundles(topics[number], queues[number][place - 1] if place else None, start, stop))
    for turn in zip_longest(*by_lane):
        yield from (bundle for bundle in turn if bundle is not None)


class _Laid(NamedTuple):
    """Items side by side: those that go to one place are neighbours."""

    ends: NDArray[np.int64]
    raw: NDArray[np.uint8]
    is_alone: NDArray[np.bool_]
    delays: NDArray[np.int64]
    most_bytes: int

    def bundles(self, topic: str, queue: Queue | None, start: int, stop: int) -> Iterator[Bundle]:
        """Yield some items that go to one place, cut to size."""
        for begin, end in self._cut(start, stop):
            items = self.raw[self.ends[begin] : self.ends[end]].tobytes()
            yield Bundle(topic, items, end - begin, queue, bool(self.is_alone[begin]), int(self.delays[begin]))

    def _cut(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        alone = deque((np.flatnonzero(self.is_alone[start:stop]) + start).tolist())
        while start < stop:
            if alone and alone[0] == start:
                alone.popleft()
                end = start + 1
            else:
                end = int(np.searchsorted(self.ends, self.ends[start] + self.most_bytes, side="right")) - 1
                end = min(end, start + BATCH_MESSAGES, stop, *islice(alone, 1))
            yield start, end
            start = end


def _topics(batch: pa.RecordBatch, columns: RowColumns, options: WriteOptions) -> tuple[list[str], NDArray[np.int64]]:
    """Return the topics that rows go to, and which of them each row does."""
    if options.topic is not None or columns.topic is None:
        return [options.topic or ""], np.zeros(batch.num_rows, np.int64)
    column = as_binary(batch.column(columns.topic))
    encoded = column.dictionary_encode()
    topics = [topic.decode(errors="replace") for topic in encoded.dictionary.to_pylist()]
    if column.null_count or "" in topics:
        is_missing = column.is_null().to_numpy(zero_copy_only=False) | (lengths_of(column) == 0)
        raise RowRefused(
            "there is no topic",
            row=int(np.flatnonzero(is_missing)[0]),
            column="topic",
            next_step="fill it, or give the option 'topic', which counts for all rows",
        )
    return topics, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _queue_numbers(
    batch: pa.RecordBatch, columns: RowColumns, queues: list[Sequence[Queue]], topic_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return which of its topic's queues each row goes to by its key; -1 for any."""
    if columns.key is None:
        return np.full(batch.num_rows, -1, np.int64)
    counts = np.array([len(each) for each in queues], np.int64)
    return queue_numbers(batch.column(columns.key), counts[topic_of])


def _delays(batch: pa.RecordBatch, columns: RowColumns) -> NDArray[np.int64]:
    """Return how many milliseconds each row waits before it is delivered."""
    if columns.delay is None:
        return np.zeros(batch.num_rows, np.int64)
    column = batch.column(columns.delay)
    delays: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if delays.min() < 0:
        row = int(np.argmin(delays))
        raise RowRefused(
            f"the delay is {delays[row]}", row=row, column="delay", next_step="give milliseconds, 0 or more"
        )
    return delays
