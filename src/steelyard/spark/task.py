"""What one task of Spark reads: some ranges of some queues, as batches of Arrow.

Records of many pulls and many queues are decoded together: a decode has a price of its own, whatever it decodes. What
comes out is held against what was asked for: without a filter every offset of a range is there once, in order, or the
rest is told as lost; with tags, whose hashes alone a broker compares, the tags themselves decide.

Lines are those of the process (client/bulk/lines.py). A task that is tried again does not trust the ones that rest.
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

from steelyard.client.bulk.lines import shared_lines
from steelyard.client.bulk.reading import Piece, fail_on_loss, is_filter, read_ranges
from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import FilterKind, OffsetRange, Subscription
from steelyard.spark.decoding.columns import decode
from steelyard.spark.decoding.damage import damage_at
from steelyard.spark.options.checked import OnUnreadable
from steelyard.spark.worker import settle_in
from steelyard.wire.record_layout import SMALLEST_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.spark.options.checked import ReadOptions

__all__ = ["Slice", "read_slice"]

_MESSAGES = 5_000
_BYTES = 4 << 20
"""What is decoded together: so many messages, or so many bytes of records. More would fall out of the caches."""

_KEPT_BYTES = 16 << 20
"""Up to twice as much is kept by a process."""

_SHOWN = 3
_OFFSET, _TAGS, _BODY = "offset", "tags", "body"

_log = logging.getLogger("steelyard")


@dataclass(frozen=True)
class Slice(InputPartition):
    """A part of a read: ranges of queues, and where the driver knows their brokers to be.

    >>> from steelyard.model import Queue
    >>> Slice((OffsetRange(Queue("orders", "broker-a", 0), 10, 25),), {"broker-a": "127.0.0.1:10911"})
    Slice(orders@broker-a:0[10, 25))
    """

    ranges: tuple[OffsetRange, ...]
    addresses: dict[str, str]
    """Of brokers, by name."""

    def __repr__(self) -> str:
        shown = [str(each) for each in self.ranges[:_SHOWN]]
        if len(self.ranges) > _SHOWN:
            shown.append(f"and {len(self.ranges) - _SHOWN} more")
        return f"Slice({', '.join(shown)})"


def read_slice(part: Slice, options: "ReadOptions", columns: tuple[str, ...]) -> Generator[pa.RecordBatch, None, None]:
    """Read the messages of a slice, as the columns that are wanted.

    Raises MessagesLost if some are not there any more, unless the options say to go on: then each range that is lost is
    a line in the log.
    """
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        shared_lines().close()
    settle_in()
    _keep_memory()
    sieve = _Sieve(options, columns)
    pieces = read_ranges(
        part.ranges,
        options.connect,
        part.addresses,
        group=options.pull_group,
        wanted=options.wanted,
        depth=options.pull_depth,
        most=options.pull_messages,
        on_lost=sieve.on_lost,
    )
    with closing(pieces):
        for gathered in _gathered(pieces):
            for batch in sieve.batches(gathered):
                if batch.num_rows:
                    yield batch


@cache
def _keep_memory() -> None:
    """Have this process keep memory that it is done with, once for all.

    Answers of a megabyte come and go. By default the system takes such memory back each time and hands it out page by
    page, which costs as much as reading from the line. What the allocator of glibc keeps depends on the largest block
    it ever let go of, so it is shown a large one; it is never touched, and elsewhere this does nothing.
    """
    bytes(_KEPT_BYTES)


def _gathered(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """Gather pieces that are decoded together."""
    gathered: list[Piece] = []
    count = size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece.records)
        count += min(piece.end - piece.start, len(piece.records) // SMALLEST_BYTES)
        if count >= _MESSAGES or size >= _BYTES:
            yield gathered
            gathered, count, size = [], 0, 0
    if gathered:
        yield gathered


class _Sieve:
    """Makes columns of pieces, and holds them against what was asked for."""

    def __init__(self, options: "ReadOptions", columns: tuple[str, ...]) -> None:
        self._namespace = options.connect.namespace
        self._columns = columns
        self._tags = _tags(options.wanted)
        self._is_filtered = is_filter(options.wanted)
        self._on_unreadable = options.on_unreadable
        self.on_lost = fail_on_loss if options.fail_on_data_loss else _warn
        more = (_TAGS if self._tags is not None else None, None if self._is_filtered else _OFFSET)
        self._decoded = (*columns, *[name for name in more if name is not None and name not in columns])

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Return the columns of some pieces; in several batches where bodies grow too large when they are opened."""
        halves = None
        try:
            whole = self._batch(pieces)
        except LimitExceeded as error:
            halves = _halves(pieces)
            if halves is None:
                raise damage_at(pieces[0].queue, pieces[0].start, error) from error
        if halves is None:
            yield whole
            return
        # Not while the error is handled: it keeps all that was opened before it.
        for half in halves:
            yield from self.batches(half)

    def _batch(self, pieces: Sequence[Piece]) -> pa.RecordBatch:
        unreadable = self._tolerated()
        batch = decode(pieces, self._decoded, namespace=self._namespace, unreadable=unreadable)
        if unreadable:
            _warn_of_unreadable(unreadable, self._on_unreadable)
        if not self._is_filtered:
            self._check(pieces, batch.column(_OFFSET).to_numpy())
        elif self._tags is not None:
            # Here, so that the driver, which reads nothing, does not wait for it whenever a stream starts.
            import pyarrow.compute as pc

            # Other tags may have the same hash.
            is_wanted = pc.is_in(batch.column(_TAGS), value_set=self._tags)
            if is_wanted.false_count:
                batch = batch.filter(is_wanted)
        if unreadable and self._on_unreadable is OnUnreadable.SKIP and _BODY in self._decoded:
            batch = batch.filter(batch.column(_BODY).is_valid())
        return batch if self._decoded == self._columns else batch.select(self._columns)

    def _tolerated(self) -> dict[OffsetRange, ProtocolError] | None:
        return None if self._on_unreadable is OnUnreadable.FAIL else {}

    def _check(self, pieces: Sequence[Piece], offsets: "NDArray[np.int64]") -> None:
        """Tell what is missing; more than there should be is damage."""
        if np.array_equal(offsets, np.concatenate([np.arange(piece.start, piece.end) for piece in pieces])):
            return
        for piece in pieces:
            found = decode([piece], (_OFFSET,), unreadable=self._tolerated()).column(_OFFSET).to_numpy()
            if (np.diff(found) <= 0).any():
                what = f"the broker gave messages twice, or in no order, among offsets [{piece.start}, {piece.end})"
                raise MalformedRecord(what, where=str(piece.queue), next_step="look at the broker's log")
            edges = [piece.start - 1, *found.tolist(), piece.end]
            for at in np.flatnonzero(np.diff(edges) > 1).tolist():
                lost = OffsetRange(piece.queue, edges[at] + 1, edges[at + 1])
                self.on_lost(lost, "the broker steps over them: they were removed one by one, or are damaged")


def _tags(wanted: tuple[str, str] | None) -> pa.Array | None:
    """Return the tags that a filter by tags wants; None if it is another filter, or wants all."""
    if wanted is None or FilterKind(wanted[0]) is not FilterKind.TAG:
        return None
    tags = Subscription("any", wanted[1]).tags
    return pa.array(tags, pa.string()) if tags else None


def _halves(pieces: Sequence[Piece]) -> tuple[Sequence[Piece], Sequence[Piece]] | None:
    """Cut pieces in two; None if that cannot be."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return pieces[:middle], pieces[middle:]
    queue, start, end, records = pieces[0]
    if end - start < 2:
        return None
    cut = (start + end) // 2
    return [Piece(queue, start, cut, records)], [Piece(queue, cut, end, records)]


def _warn_of_unreadable(found: dict[OffsetRange, ProtocolError], choice: OnUnreadable) -> None:
    """Say which messages cannot be read: the first of them with the reason, since there may be very many."""
    (first, why), more = next(iter(found.items())), len(found) - 1
    done = "is left out" if choice is OnUnreadable.SKIP else "has no body"
    said = f"{first.queue}, offset {first.start}, cannot be read and {done}: {why}"
    _log.warning("%s%s", said, f" (and {more} more of the same batch)" if more else "")


def _warn(lost: OffsetRange, why: str) -> None:
    _log.warning("%s is lost and passed over: %s", lost, why)
