"""Writes a DataFrame, or a stream, to topics.

Each task encodes its rows, sends them in batches, and waits for every response before it returns a count: so whatever a
commit counts is stored. Spark runs a failed task again, which sends all of its rows again, and replays a micro-batch
that was not committed. So rows are stored at least once, with the same ``message_id`` each time (deterministic_ids.py),
and readers drop repeats by it. If rows end up in other tasks when they are resent, that needs a column ``id``, or those
of the rows' source. Rows can only be appended, and what was sent cannot be undone: an abort logs how much there is.
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

from steelyard.client.bulk.bulk_sender import BulkSender
from steelyard.errors import ConfigurationError, RowRefused
from steelyard.model.formatting import pluralize
from steelyard.spark.deterministic_ids import DeterministicIds
from steelyard.spark.encode import message_batches, split_batch
from steelyard.spark.options import DEFAULT_PULL_GROUP, WriteOptions
from steelyard.spark.schema import WriteColumns
from steelyard.spark.worker import prepare_worker

_BATCH_ID, _QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"

_log = logging.getLogger("steelyard.spark")


@dataclass(frozen=True)
class TaskCommit(WriterCommitMessage):
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
    return _BatchWriter(read, WriteColumns.of(schema, topic=read.topic), read.write_id or uuid4().hex)


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
    return _StreamWriter(read, WriteColumns.of(schema, topic=read.topic))


class _BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; created when the write is planned, and pickled to every task."""

    def __init__(self, options: WriteOptions, columns: WriteColumns, write_id: str) -> None:
        self._options, self._columns, self._write_id = options, columns, write_id

    def write(self, iterator: Iterator[pa.RecordBatch | Row]) -> WriterCommitMessage:
        """Send the rows of a task, and wait for every response."""
        return _send_rows(iterator, self._options, self._columns, (self._write_id,))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: everything is stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was stored before the write failed."""
        _log_abort("the write", messages)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, micro-batch by micro-batch."""

    def __init__(self, options: WriteOptions, columns: WriteColumns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[pa.RecordBatch | Row]) -> WriterCommitMessage:
        """Send the rows of a task, and wait for every response."""
        context = TaskContext.get()
        ids = [context.getLocalProperty(name) if context else None for name in (_QUERY_ID, _BATCH_ID)]
        id_scope = tuple(filter(None, ids))
        if len(id_scope) < len(ids):  # the micro-batch is unknown: message ids are new each time
            id_scope = (uuid4().hex,)
        return _send_rows(iterator, self._options, self._columns, id_scope)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: everything is stored already."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Log what was stored before the micro-batch failed."""
        _log_abort(f"micro-batch {batch_id}", messages)


def _send_rows(
    batches: Iterator[pa.RecordBatch | Row], options: WriteOptions, columns: WriteColumns, id_scope: tuple[str, ...]
) -> TaskCommit:
    """Send all rows of a task, and return what is stored."""
    prepare_worker()
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    if not options.deterministic_ids:
        id_scope = (uuid4().hex,)
        columns = replace(columns, source=None)
    # Rows with a source are distinct by it, whichever task they are in.
    ids = DeterministicIds() if columns.source is not None else DeterministicIds(*id_scope, str(partition))
    first = 0
    with BulkSender(
        options.client_config,
        options.group or DEFAULT_PULL_GROUP,
        depth=options.send_depth,
        timeout_ms=options.send_timeout_ms,
    ) as sender:
        for batch in batches:
            assert isinstance(batch, pa.RecordBatch)
            for piece in split_batch(batch):
                try:
                    for encoded in message_batches(piece, columns, options, ids, sender.queues):
                        sender.send(encoded)
                except RowRefused as error:
                    raise error.behind(first, partition) from None
                first += piece.num_rows
        sender.finish()
        return TaskCommit(partition, dict(sender.stored))


def _log_abort(aborted: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    stored: Counter[str] = Counter()
    failed = 0
    for message in messages:
        if isinstance(message, TaskCommit):
            stored.update(message.messages)
        else:
            failed += 1
    counts = (
        ", ".join(f"{pluralize(count, 'message')} to {topic!r}" for topic, count in sorted(stored.items())) or "nothing"
    )
    _log.warning(
        "%s was aborted: %d of its tasks failed, and the others have stored %s, which stays", aborted, failed, counts
    )
