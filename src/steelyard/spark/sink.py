"""Rows of a DataFrame, or of a stream, into topics: what Spark's write needs of us.

Each task encodes its rows, sends them in batches, and waits for every answer before it says how many there are: so
whatever a commit counts is stored. A task that fails is run again by Spark and sends all of its rows again; a
micro-batch that was not committed is replayed. So rows may be stored more than once, and never less: they have the same
``message_id`` each time (row_ids.py), and readers that must not see a row twice drop repeats by it. Where rows end up
in other tasks when they are sent again, that needs a column ``id``, or those of the rows' source.

Rows can only be added. There is no way to undo what was sent: an abort says how much of it there is.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from steelyard.client.bulk.writing import BulkSender
from steelyard.errors import ConfigurationError, RowRefused
from steelyard.spark.encoding.bundles import bundles_of, pieces_of
from steelyard.spark.encoding.row_columns import RowColumns
from steelyard.spark.encoding.row_ids import RowIds
from steelyard.spark.options.checked import PULL_GROUP, WriteOptions
from steelyard.spark.worker import settle_in

__all__ = ["Stored", "batch_writer", "stream_writer"]

_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"

_log = logging.getLogger("steelyard")


@dataclass(frozen=True)
class Stored(WriterCommitMessage):
    """What one task has stored: how many messages, by topic."""

    partition: int
    messages: Mapping[str, int]


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceArrowWriter:
    """Make the writer of a DataFrame; raises ConfigurationError for what cannot be written."""
    if overwrite:
        raise ConfigurationError(
            "what a topic holds cannot be overwritten", next_step='add to it: write with mode("append")'
        )
    read = WriteOptions.of(options)
    return _BatchWriter(read, RowColumns.of(schema, topic=read.topic), read.write_id or uuid4().hex)


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Make the writer of a stream; raises ConfigurationError for what cannot be written."""
    if overwrite:
        raise ConfigurationError(
            "a topic cannot be written in the mode complete: what it holds cannot be overwritten",
            next_step='use outputMode("append"), or foreachBatch and mode("append") for the rows that changed',
        )
    read = WriteOptions.of(options)
    if read.write_id is not None:
        raise ConfigurationError(
            "writeId is given for a stream", next_step="leave it out: a stream's ids are made of the query's own id"
        )
    return _StreamWriter(read, RowColumns.of(schema, topic=read.topic))


class _BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; made when the write is planned, and carried to every task."""

    def __init__(self, options: WriteOptions, columns: RowColumns, write_id: str) -> None:
        self._options, self._columns, self._write_id = options, columns, write_id

    def write(self, iterator: Iterator[pa.RecordBatch | Row]) -> WriterCommitMessage:
        """Send the rows of a task; every answer is awaited."""
        return _send(iterator, self._options, self._columns, (self._write_id,))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: all is stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Say what was stored before the write failed."""
        _tell_of_abort("the write", messages)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, micro-batch by micro-batch."""

    def __init__(self, options: WriteOptions, columns: RowColumns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[pa.RecordBatch | Row]) -> WriterCommitMessage:
        """Send the rows of a task; every answer is awaited."""
        context = TaskContext.get()
        named = [context.getLocalProperty(name) if context else None for name in (_QUERY_ID, _BATCH_ID)]
        part_of = tuple(filter(None, named))
        if len(part_of) < len(named):  # nobody says which micro-batch it is: then ids are new each time
            part_of = (uuid4().hex,)
        return _send(iterator, self._options, self._columns, part_of)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: all is stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Say what was stored before the micro-batch failed."""
        _tell_of_abort(f"micro-batch {batch_id}", messages)


def _send(
    batches: Iterator[pa.RecordBatch | Row], options: WriteOptions, columns: RowColumns, part_of: tuple[str, ...]
) -> Stored:
    """Send all rows of a task, and return what is stored."""
    settle_in()
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    if not options.deterministic_ids:
        part_of = (uuid4().hex,)
        columns = replace(columns, source=None)
    # What has a source is told from other rows by that, whichever task it is in.
    ids = RowIds() if columns.source is not None else RowIds(*part_of, str(partition))
    first = 0
    with BulkSender(
        options.connect,
        options.group or PULL_GROUP,
        depth=options.send_depth,
        timeout_ms=options.send_timeout_ms,
    ) as sender:
        for batch in batches:
            assert isinstance(batch, pa.RecordBatch)
            for piece in pieces_of(batch):
                try:
                    for bundle in bundles_of(piece, columns, options, ids, sender.queues):
                        sender.send(bundle)
                except RowRefused as error:
                    raise error.behind(first, partition) from None
                first += piece.num_rows
        sender.finish()
        return Stored(partition, dict(sender.stored))


def _tell_of_abort(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    stored: Counter[str] = Counter()
    failed = 0
    for message in messages:
        if isinstance(message, Stored):
            stored.update(message.messages)
        else:
            failed += 1
    counts = ", ".join(f"{count} messages to {topic!r}" for topic, count in sorted(stored.items())) or "nothing"
    _log.warning(
        "%s was aborted: %d of its tasks failed, and the others have stored %s, which stays", what, failed, counts
    )
