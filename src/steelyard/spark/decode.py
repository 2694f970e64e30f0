"""Decodes log records into Arrow columns, for all rows at once: a step in Python per row would cost more than all else.

Records are split (decode_records.py), their fields and properties are read as columns (decode_properties.py), and rows
that do not fit are decoded one by one, as a consumer does, and put in their place: compressed bodies, batches stored as
one record, properties that are not UTF-8. Columns that are not requested cost nothing.

The rule: the columns equal what `steelyard.wire.stored_messages.decode_messages` returns, and damage is an error that
names queue and offset. A message whose body cannot be decompressed may be let through without a body. Some thousand
messages or a few MiB per call are best, since a call costs about half a millisecond. Joined input lies in pooled
memory: fresh memory for every batch would cost as much as filling it, in page faults.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, MapType, StringType, TimestampType

from steelyard.client.namespace import ClientNamespace
from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import OffsetRange
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY, StoredMessage
from steelyard.spark.arrow_buffers import numeric_column, repeated_texts
from steelyard.spark.decode_properties import PROPERTY_MAP, PropertyColumns
from steelyard.spark.decode_records import TIMESTAMP, RecordColumns, record_starts
from steelyard.spark.schema import SCHEMA
from steelyard.wire.compression import decompress
from steelyard.wire.record import decode_records
from steelyard.wire.stored_messages import decode_messages, decode_sealed_messages
from steelyard.wire.sysflag import COMPRESSED, STORE_IPV6, WRAPPED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.client.bulk.range_reader import RecordChunk
    from steelyard.model import Queue

# The overhead of a message beside its texts and body.
_MESSAGE_BYTES = 256

_GETTERS: dict[str, Callable[[StoredMessage], object]] = {
    "broker": attrgetter("queue.broker"),
    "queue_id": attrgetter("queue.queue_id"),
    "keys": lambda message: message.properties.get(KEYS),
    "properties": lambda message: list(message.properties.items()),
}


class _BoundedDecoder:
    """Decodes the records of one batch within a memory budget: a few compressed bytes may become very many."""

    def __init__(self, max_bytes: int) -> None:
        self._limit = self._budget = max_bytes

    def decompress_body(self, body: bytes, sys_flag: int) -> bytes:
        """Decompress a body; an empty one is not compressed, whatever its flag says."""
        decompressed = decompress(body, sys_flag) if body else body
        self._budget -= len(decompressed)
        return decompressed

    def decode_messages(self, record: bytes, broker: str, start: int, end: int) -> list[StoredMessage]:
        """Return the messages of one record that have offsets from ``start`` to ``end``."""
        found = []
        for message in decode_messages(record, broker):
            if start <= message.offset < end and self._budget >= 0:
                texts = sum([len(name) + len(text) for name, text in message.properties.items()])
                self._budget -= _MESSAGE_BYTES + len(message.topic) + len(message.body) + texts
                found.append(message)
        return found

    def check_budget(self) -> None:
        """Raise `LimitExceeded` if the budget is exceeded."""
        if self._budget < 0:
            raise LimitExceeded("decompressed size of one batch", where="records", limit=self._limit)


def _undecoded_message(record: bytes, broker: str) -> StoredMessage:
    """Return the message of a record that cannot be decompressed, as it is stored."""
    return next(decode_sealed_messages(StoredMessage, record, broker))


def message_column(
    decoded: Sequence[StoredMessage], field: pa.Field, names: ClientNamespace, bodiless: Collection[int] = ()
) -> pa.Array:
    """Return one column of messages; those in ``bodiless`` have no readable body."""
    if field.name == "body":
        bodies = [None if place in bodiless else message.body for place, message in enumerate(decoded)]
        return pa.array(bodies, field.type)
    if field.name == "topic":
        return pa.array([names.unwrap(message.topic) for message in decoded], field.type)
    read: Callable[[StoredMessage], Any] = _GETTERS.get(field.name) or attrgetter(field.name)
    return pa.array([read(message) for message in decoded], field.type)


_NEXT_STEP = "the broker returned bytes that no consumer can read: inspect that message, or start behind it"


def damage_error(queue: "Queue", offset: int, error: ProtocolError) -> MalformedRecord:
    """Make the error for a message that cannot be read."""
    return MalformedRecord(str(error), where=f"{queue}, offset {offset}", next_step=_NEXT_STEP)


def _find_damage(pieces: "Sequence[RecordChunk]") -> MalformedRecord:
    """Make the error for the first damaged record of some pieces."""
    for piece in pieces:
        offset = piece.start
        try:
            for record in decode_records(piece.records):
                offset = record.offset + 1
        except MalformedRecord as error:
            return damage_error(piece.queue, offset, error)
    return MalformedRecord("no record is damaged, but they could not be read", where="records")


# Larger ones are freed.
_MAX_POOLED_BYTES = 32 * 1024 * 1024

# A user takes one out and puts it back: two threads never have the same.
_pool: list[bytearray] = []


@contextmanager
def _joined_buffer(pieces: Sequence[bytes]) -> Iterator[bytes | bytearray]:
    """Lend all pieces as one buffer, with garbage behind their end; nothing may refer to it afterwards."""
    if len(pieces) == 1:
        yield bytes(pieces[0])
        return
    size = sum(map(len, pieces))
    try:
        scratch = _pool.pop()
    except IndexError:
        scratch = bytearray()
    if len(scratch) < size:
        scratch = bytearray(size * 5 // 4)
    at = 0
    for piece in pieces:
        scratch[at : at + len(piece)] = piece
        at += len(piece)
    try:
        yield scratch
    finally:
        if len(scratch) <= _MAX_POOLED_BYTES:
            _pool.append(scratch)


_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    MapType: PROPERTY_MAP,
    StringType: pa.string(),
    TimestampType: TIMESTAMP,
}
_ARROW_FIELDS = {field.name: pa.field(field.name, _ARROW_TYPES[type(field.dataType)]) for field in SCHEMA.fields}

_PROPERTY_COLUMNS = frozenset({"tags", "keys", "message_id", "properties"})

# Arrow's offsets have 31 bits; an invalid byte may become four bytes of UTF-8.
_MAX_BATCH_BYTES = 1 << 28

# The decompressed bytes of one batch: they are copied a few times on their way into a column.
_MAX_DECOMPRESSED_BYTES = 64 << 20


@lru_cache(maxsize=256)
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of some columns, in their order."""
    return pa.schema([_ARROW_FIELDS[column] for column in columns])


def decode(
    pieces: "Sequence[RecordChunk]",
    columns: tuple[str, ...],
    *,
    namespace: str = "",
    unreadable: dict[OffsetRange, ProtocolError] | None = None,
) -> pa.RecordBatch:
    """Decode the messages of some pieces, in order, as the requested columns.

    Messages outside the range of their piece are left out. Topics lose the namespace. Raises `LimitExceeded` if one
    batch cannot hold all: fewer pieces can. With ``unreadable``, messages whose bodies cannot be decompressed are added
    to it and have no body; else the first of them is an error.
    """
    schema = arrow_schema(columns)
    filled = [piece for piece in pieces if piece.records]
    size = sum([len(piece.records) for piece in filled])
    if size > _MAX_BATCH_BYTES:
        raise LimitExceeded("size of one batch", where="records", limit=_MAX_BATCH_BYTES, found=size)
    if not filled:
        return _empty_batch(schema)
    with _joined_buffer([piece.records for piece in filled]) as data:
        return _RecordBatchDecoder(filled, data, ClientNamespace(namespace), unreadable).columns(schema)


class _RecordBatchDecoder:
    """Decodes the rows of some pieces to columns."""

    def __init__(
        self,
        pieces: "Sequence[RecordChunk]",
        data: bytes | bytearray,
        names: ClientNamespace,
        unreadable: dict[OffsetRange, ProtocolError] | None,
    ) -> None:
        self._pieces, self._names, self._unreadable = pieces, names, unreadable
        bounds = np.cumsum([0, *[len(piece.records) for piece in pieces]])
        end = int(bounds[-1])
        try:
            starts = record_starts(data, end)
            self._rows = RecordColumns(data, starts)
        except MalformedRecord as error:
            raise _find_damage(pieces) from error
        self._piece_starts = np.searchsorted(starts, bounds)
        if not np.array_equal(np.append(starts, end)[self._piece_starts], bounds):
            # One piece was truncated, and the start of the next one made up for it.
            raise _find_damage(pieces)
        self._slow_rows: set[int] = set()
        self._decoder = _BoundedDecoder(min(_MAX_BATCH_BYTES, _MAX_DECOMPRESSED_BYTES))
        self._keep_requested(bounds)

    def _keep_requested(self, bounds: "NDArray[np.int64]") -> None:
        """Drop rows outside the range of their piece."""
        rows, counts = self._rows, np.diff(self._piece_starts)
        starts = np.repeat([piece.start for piece in self._pieces], counts)
        ends = np.repeat([piece.end for piece in self._pieces], counts)
        # The offsets in a batch that was stored as one record are known only after decoding it.
        is_wanted = (rows.offsets >= starts) & (rows.offsets < ends) | rows.have_flags(WRAPPED)
        if not is_wanted.all():
            self._rows = rows = RecordColumns(rows.data, rows.starts[is_wanted])
            self._piece_starts = np.searchsorted(rows.starts, bounds)
        self._slow_rows.update(np.flatnonzero(rows.have_flags(WRAPPED)).tolist())

    def columns(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of a schema."""
        if not len(self._rows):
            return _empty_batch(schema)
        readers = self._column_readers(schema.names)
        arrays = [readers[name]() for name in schema.names]
        if self._slow_rows:
            arrays = self._with_slow_rows(arrays, schema)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column_readers(self, wanted: Sequence[str]) -> dict[str, Callable[[], pa.Array]]:
        """Return a function for each column."""
        rows = self._rows
        readers: dict[str, Callable[[], pa.Array]] = {
            "topic": self._topic,
            "broker": self._broker,
            "queue_id": rows.queue_id,
            "offset": lambda: numeric_column(rows.offsets, pa.int64()),
            "body": self._body,
            "born_at": rows.born_at,
            "stored_at": rows.stored_at,
            "reconsume_times": rows.reconsume_times,
        }
        if not _PROPERTY_COLUMNS.isdisjoint(wanted):
            properties = PropertyColumns(rows)
            self._slow_rows.update(properties.invalid_utf8_rows().tolist())
            readers |= {
                "tags": lambda: properties.column(TAGS),
                "keys": lambda: properties.column(KEYS),
                "message_id": lambda: self._message_id(properties),
                "properties": properties.map_column,
            }
        return readers

    def _topic(self) -> pa.Array:
        topics, which = self._rows.distinct_topics()
        bare = []
        for number, topic in enumerate(topics):
            try:
                bare.append(self._names.unwrap(topic.decode()))
            except UnicodeDecodeError:
                error = MalformedRecord(f"the topic {topic[:80]!r} is not UTF-8", where="record")
                raise self._damage_error(int((which == number).argmax()), error) from None
        return _take_texts(bare, which)

    def _broker(self) -> pa.Array:
        brokers = list({piece.queue.broker: None for piece in self._pieces})
        numbered = [brokers.index(piece.queue.broker) for piece in self._pieces]
        return _take_texts(brokers, np.repeat(numbered, np.diff(self._piece_starts)))

    def _body(self) -> pa.Array:
        rows = self._rows
        compressed = np.flatnonzero(rows.have_flags(COMPRESSED) & ~rows.have_flags(WRAPPED))
        if not len(compressed):
            return rows.body()
        opened: list[bytes | None] = []
        for row in compressed.tolist():
            try:
                opened.append(self._decoder.decompress_body(rows.body_of(row), int(rows.sys_flags[row])))
            except ProtocolError as error:
                self._record_unreadable(row, error)
                opened.append(None)
            self._decoder.check_budget()
        others = pa.array(opened, pa.binary())
        opened.clear()
        # Mostly all are compressed, or none: then nothing is copied again.
        return others if len(compressed) == len(rows) else _replace_rows(rows.body(), compressed, others)

    def _message_id(self, properties: PropertyColumns) -> pa.Array:
        """Return the message ids of producers, and where there is none, the offset ids."""
        rows, given = self._rows, properties.column(UNIQUE_KEY)
        if not given.null_count:
            return given
        without_id = np.flatnonzero(given.is_null().to_numpy(zero_copy_only=False))
        self._slow_rows.update(without_id[rows.sys_flags[without_id] & STORE_IPV6 != 0].tolist())
        return _replace_rows(given, without_id, rows.offset_ids(without_id))

    def _with_slow_rows(self, arrays: list[pa.Array], schema: pa.Schema) -> list[pa.Array]:
        """Return columns with the slow rows decoded one by one; one of them may become several rows, or none."""
        slow, count = sorted(self._slow_rows), len(self._rows)
        opened: list[StoredMessage] = []
        bodiless: set[int] = set()
        copies, is_slow = np.ones(count, np.int64), np.zeros(count, np.bool_)
        is_slow[slow] = True
        for row in slow:
            found, is_readable = self._decode_slow_row(row)
            if not is_readable:
                bodiless.add(len(opened))
            self._decoder.check_budget()
            copies[row] = len(found)
            opened += found
        order = np.repeat(np.arange(count), copies)
        order[np.repeat(is_slow, copies)] = count + np.arange(len(opened))
        return [
            pa.concat_arrays([array, message_column(opened, field, self._names, bodiless)]).take(pa.array(order))
            for array, field in zip(arrays, schema, strict=True)
        ]

    def _decode_slow_row(self, row: int) -> "tuple[list[StoredMessage], bool]":
        """Return the messages of a slow row, and whether it could be decompressed."""
        piece, record = self._piece_of(row), self._rows.record(row)
        try:
            return self._decoder.decode_messages(record, piece.queue.broker, piece.start, piece.end), True
        except ProtocolError as error:
            self._record_unreadable(row, error)
            if not piece.start <= int(self._rows.offsets[row]) < piece.end:
                # A batch that started before the piece: its missing offsets are reported as lost.
                return [], True
            return [_undecoded_message(record, piece.queue.broker)], False

    def _record_unreadable(self, row: int, error: ProtocolError) -> None:
        if self._unreadable is None:
            raise self._damage_error(row, error) from error
        offset = int(self._rows.offsets[row])
        self._unreadable[OffsetRange(self._piece_of(row).queue, offset, offset + 1)] = error

    def _piece_of(self, row: int) -> "RecordChunk":
        return self._pieces[int(np.searchsorted(self._piece_starts, row, "right")) - 1]

    def _damage_error(self, row: int, error: ProtocolError) -> MalformedRecord:
        return damage_error(self._piece_of(row).queue, int(self._rows.offsets[row]), error)


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def _take_texts(texts: Sequence[str], which: "NDArray[np.int64]") -> pa.Array:
    """Return a column of texts by their indexes."""
    if len(texts) == 1:
        return repeated_texts([texts[0].encode()], len(which))
    return pa.array(texts, pa.string()).take(pa.array(which))


def _replace_rows(column: pa.Array, rows: "NDArray[np.int64]", others: pa.Array) -> pa.Array:
    """Return a column with some rows replaced."""
    order = np.arange(len(column))
    order[rows] = len(column) + np.arange(len(others))
    return pa.concat_arrays([column, others]).take(pa.array(order))
