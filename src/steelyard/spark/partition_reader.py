"""Reads one Spark task: ranges of some queues, as Arrow batches.

Records of many pulls and many queues are decoded together, since each decode has a fixed cost. The result is checked:
without a filter every offset of a range is there once, in order, or the rest is data loss; with tags, of which a broker
compares only hashes, the tags themselves decide. Connections are shared by the process
(client/bulk/connection_pool.py); a retried task does not reuse idle ones.
"""

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from steelyard.client.bulk.connection_pool import shared_pool
from steelyard.client.bulk.range_reader import RecordChunk, fail_on_loss, filters_messages, read_ranges
from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import ExpressionType, OffsetRange, Subscription
from steelyard.spark.decode import damage_error, decode
from steelyard.spark.options import UnreadableBodyPolicy
from steelyard.spark.worker import prepare_worker
from steelyard.wire.record import MIN_RECORD_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.spark.options import ReadOptions

_DECODE_MESSAGES = 5_000
_DECODE_BYTES = 4 << 20  # how much is decoded together. More would not fit into the CPU caches.

_RETAINED_BYTES = 16 << 20  # a process retains up to twice as much

_SHOWN_RANGES = 3
_OFFSET, _TAGS, _BODY = "offset", "tags", "body"

_log = logging.getLogger("steelyard.spark")


@dataclass(frozen=True)
class OffsetRangePartition(InputPartition):
    """A task: ranges of queues, and the addresses of their brokers as the driver knows them.

    >>> from steelyard.model import Queue
    >>> OffsetRangePartition((OffsetRange(Queue("orders", "broker-a", 0), 10, 25),), {"broker-a": "127.0.0.1:10911"})
    OffsetRangePartition(orders@broker-a:0[10, 25))
    """

    ranges: tuple[OffsetRange, ...]
    addresses: dict[str, str]  # by broker name

    def __repr__(self) -> str:
        shown = [str(each) for each in self.ranges[:_SHOWN_RANGES]]
        if len(self.ranges) > _SHOWN_RANGES:
            shown.append(f"and {len(self.ranges) - _SHOWN_RANGES} more")
        return f"OffsetRangePartition({', '.join(shown)})"


def read_partition(
    partition: InputPartition, options: "ReadOptions", columns: tuple[str, ...]
) -> Generator[pa.RecordBatch, None, None]:
    """Read the messages of a task, as the requested columns.

    Raises MessagesLost if some are deleted, unless the options say to go on: then each lost range is logged.
    """
    if not isinstance(partition, OffsetRangePartition):
        return  # without tasks Spark makes one of its own
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        shared_pool().close()
    prepare_worker()
    _retain_memory()
    decoder = _PieceDecoder(options, columns)
    pieces = read_ranges(
        partition.ranges,
        options.client_config,
        partition.addresses,
        group=options.pull_group,
        wanted=options.message_filter,
        depth=options.pull_depth,
        max_messages=options.pull_messages,
        on_lost=decoder.on_lost,
    )
    with closing(pieces):
        for gathered in _group_pieces(pieces):
            for batch in decoder.decode(gathered):
                if batch.num_rows:
                    yield batch


@cache
def _retain_memory() -> None:
    """Make the allocator retain freed memory.

    Responses of a megabyte come and go. By default glibc returns such memory to the system each time, and page faults
    then cost as much as reading from the socket. Its threshold follows the largest block that was ever freed, so a
    large one is freed here; it is never touched, and elsewhere this does nothing.
    """
    bytes(_RETAINED_BYTES)


def _group_pieces(pieces: Iterator[RecordChunk]) -> Iterator[list[RecordChunk]]:
    """Group pieces that are decoded together."""
    gathered: list[RecordChunk] = []
    count = size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece.records)
        count += min(piece.end - piece.start, len(piece.records) // MIN_RECORD_BYTES)
        if count >= _DECODE_MESSAGES or size >= _DECODE_BYTES:
            yield gathered
            gathered, count, size = [], 0, 0
    if gathered:
        yield gathered


class _PieceDecoder:
    """Decodes pieces, and checks that all requested offsets are there."""

    def __init__(self, options: "ReadOptions", columns: tuple[str, ...]) -> None:
        self._namespace = options.client_config.namespace
        self._columns = columns
        self._wanted_tags = _wanted_tags(options.message_filter)
        self._is_filtered = filters_messages(options.message_filter)
        self._on_unreadable = options.on_unreadable
        self.on_lost = fail_on_loss if options.fail_on_data_loss else _warn_of_loss
        more = (_TAGS if self._wanted_tags is not None else None, None if self._is_filtered else _OFFSET)
        self._decoded = (*columns, *[name for name in more if name is not None and name not in columns])

    def decode(self, pieces: Sequence[RecordChunk]) -> Iterator[pa.RecordBatch]:
        """Decode some pieces; into several batches if decompressed bodies get too large."""
        halves = None
        try:
            whole = self._decode_batch(pieces)
        except LimitExceeded as error:
            halves = _split_in_half(pieces)
            if halves is None:
                raise damage_error(pieces[0].queue, pieces[0].start, error) from error
        if halves is None:
            yield whole
            return
        # Not inside the except block: the error keeps all that was decompressed before it alive.
        for half in halves:
            yield from self.decode(half)

    def _decode_batch(self, pieces: Sequence[RecordChunk]) -> pa.RecordBatch:
        unreadable = self._new_unreadable()
        batch = decode(pieces, self._decoded, namespace=self._namespace, unreadable=unreadable)
        if unreadable:
            _warn_of_unreadable(unreadable, self._on_unreadable)
        if not self._is_filtered:
            self._check_gaps(pieces, batch.column(_OFFSET).to_numpy())
        elif self._wanted_tags is not None:
            # Imported here: the driver, which reads nothing, must not wait for it whenever a stream starts.
            import pyarrow.compute as pc

            # Other tags may have the same hash.
            is_wanted = pc.is_in(batch.column(_TAGS), value_set=self._wanted_tags)
            if is_wanted.false_count:
                batch = batch.filter(is_wanted)
        if unreadable and self._on_unreadable is UnreadableBodyPolicy.SKIP and _BODY in self._decoded:
            batch = batch.filter(batch.column(_BODY).is_valid())
        return batch if self._decoded == self._columns else batch.select(self._columns)

    def _new_unreadable(self) -> dict[OffsetRange, ProtocolError] | None:
        return None if self._on_unreadable is UnreadableBodyPolicy.FAIL else {}

    def _check_gaps(self, pieces: Sequence[RecordChunk], offsets: "NDArray[np.int64]") -> None:
        """Report missing offsets; repeated ones are damage."""
        if np.array_equal(offsets, np.concatenate([np.arange(piece.start, piece.end) for piece in pieces])):
            return
        for piece in pieces:
            found = decode([piece], (_OFFSET,), unreadable=self._new_unreadable()).column(_OFFSET).to_numpy()
            if (np.diff(found) <= 0).any():
                what = (
                    f"the broker returned messages twice, or out of order, among offsets [{piece.start}, {piece.end})"
                )
                raise MalformedRecord(what, where=str(piece.queue), next_step="see the broker's log")
            edges = [piece.start - 1, *found.tolist(), piece.end]
            for at in np.flatnonzero(np.diff(edges) > 1).tolist():
                lost = OffsetRange(piece.queue, edges[at] + 1, edges[at + 1])
                self.on_lost(lost, "the broker skips them: they were removed one by one, or are damaged")


def _wanted_tags(message_filter: tuple[str, str] | None) -> pa.Array | None:
    """Return the tags of a tag filter; None if it is another filter, or accepts all."""
    if message_filter is None or ExpressionType(message_filter[0]) is not ExpressionType.TAG:
        return None
    tags = Subscription("any", message_filter[1]).tags
    return pa.array(tags, pa.string()) if tags else None


def _split_in_half(pieces: Sequence[RecordChunk]) -> tuple[Sequence[RecordChunk], Sequence[RecordChunk]] | None:
    """Split pieces in two; None if there is only one message."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    queue, start, end, records = pieces[0]
    if end - start < 2:
        return None
    cut = (start + end) // 2
    return [RecordChunk(queue, start, cut, records)], [RecordChunk(queue, cut, end, records)]


def _warn_of_unreadable(found: dict[OffsetRange, ProtocolError], policy: UnreadableBodyPolicy) -> None:
    """Log which messages cannot be read: the first with its reason, since there may be many."""
    (first, why), more = next(iter(found.items())), len(found) - 1
    done = "is left out" if policy is UnreadableBodyPolicy.SKIP else "has no body"
    text = f"{first.queue}, offset {first.start}, cannot be read and {done}: {why}"
    _log.warning("%s%s", text, f" (and {more} more of the same batch)" if more else "")


def _warn_of_loss(lost: OffsetRange, why: str) -> None:
    _log.warning("%s is lost and skipped: %s", lost, why)
