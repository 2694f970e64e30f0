"""Records of the broker's log as columns of Arrow: what a task of Spark hands on.

A step in Python for each row would cost more than all else together, so rows are read all at once: where records begin
(record_walk.py), what is where in them (record_columns.py), what their properties say (property_columns.py). What
cannot be read so is read one by one, as a consumer reads it (slow_rows.py), and put in its place. Columns that are not
wanted cost nothing.

The rule: whatever the records are, the columns say what `steelyard.wire.stored.messages` says of them, and what is
damaged is an error that names the queue. A message whose body alone cannot be opened may be let through, without a
body. How much is decoded at once is up to the caller: some thousand messages or a
few MiB go best, since a call has a price of its own of about half a millisecond.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, MapType, StringType, TimestampType

from steelyard.client.names import Names
from steelyard.errors import LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model import OffsetRange
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY
from steelyard.spark.decoding.damage import damage_among, damage_at
from steelyard.spark.decoding.property_columns import MAP, Properties
from steelyard.spark.decoding.record_columns import MOMENT, Rows
from steelyard.spark.decoding.record_walk import record_starts
from steelyard.spark.decoding.scratch import joined
from steelyard.spark.decoding.segments import numbers, repeated
from steelyard.spark.decoding.slow_rows import Opener, column_of, sealed_message
from steelyard.spark.schema import SCHEMA
from steelyard.wire.sysflag import COMPRESSED, STORE_IPV6, WRAPPED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.client.bulk.reading import Piece
    from steelyard.model.message import StoredMessage

__all__ = ["arrow_schema", "decode"]

_ARROW: dict[type[DataType], pa.DataType] = {
    BinaryType: pa.binary(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    MapType: MAP,
    StringType: pa.string(),
    TimestampType: MOMENT,
}
_FIELDS = {field.name: pa.field(field.name, _ARROW[type(field.dataType)]) for field in SCHEMA.fields}

_OF_PROPERTIES = frozenset({"tags", "keys", "message_id", "properties"})

# Arrow counts the bytes of a column in 31 bits; a letter that is read one by one may become four bytes.
_MOST_BYTES = 1 << 28

# What comes out of compressed bodies in one batch: it is copied a few times on its way into a column.
_OPENED_BYTES = 64 << 20


@lru_cache(maxsize=256)
def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the schema of some columns, in their order, as Spark wants it of Arrow."""
    return pa.schema([_FIELDS[column] for column in columns])


def decode(
    pieces: "Sequence[Piece]",
    columns: tuple[str, ...],
    *,
    namespace: str = "",
    unreadable: dict[OffsetRange, ProtocolError] | None = None,
) -> pa.RecordBatch:
    """Return the messages of some pieces, in order, as the columns that are wanted, in the order that is wanted.

    Messages outside the range of their piece are left out. Topics lose the namespace. `LimitExceeded` where one batch
    cannot hold all: fewer pieces at once can. With ``unreadable`` messages whose bodies cannot be opened are noted
    there and have no body; else the first of them is an error.
    """
    schema = arrow_schema(columns)
    filled = [piece for piece in pieces if piece.records]
    size = sum([len(piece.records) for piece in filled])
    if size > _MOST_BYTES:
        raise LimitExceeded("size of one batch", where="records", limit=_MOST_BYTES, found=size)
    if not filled:
        return _nothing(schema)
    with joined([piece.records for piece in filled]) as data:
        return _Batch(filled, data, Names(namespace), unreadable).columns(schema)


class _Batch:
    """The rows of some pieces on their way to columns."""

    def __init__(
        self,
        pieces: "Sequence[Piece]",
        data: bytes | bytearray,
        names: Names,
        unreadable: dict[OffsetRange, ProtocolError] | None,
    ) -> None:
        self._pieces, self._names, self._unreadable = pieces, names, unreadable
        bounds = np.cumsum([0, *[len(piece.records) for piece in pieces]])
        end = int(bounds[-1])
        try:
            starts = record_starts(data, end)
            self._rows = Rows(data, starts)
        except MalformedRecord as error:
            raise damage_among(pieces) from error
        self._firsts = np.searchsorted(starts, bounds)
        if not np.array_equal(np.append(starts, end)[self._firsts], bounds):
            # One piece was cut, and what the next one begins with made up for it.
            raise damage_among(pieces)
        self._odd: set[int] = set()
        self._opener = Opener(min(_MOST_BYTES, _OPENED_BYTES))
        self._keep_wanted(bounds)

    def _keep_wanted(self, bounds: "NDArray[np.int64]") -> None:
        """Leave out the rows that their piece does not want."""
        rows, counts = self._rows, np.diff(self._firsts)
        starts = np.repeat([piece.start for piece in self._pieces], counts)
        ends = np.repeat([piece.end for piece in self._pieces], counts)
        # Which offsets are in a batch that was stored as one record, only opening it tells.
        is_wanted = (rows.offsets >= starts) & (rows.offsets < ends) | rows.are_flagged(WRAPPED)
        if not is_wanted.all():
            self._rows = rows = Rows(rows.data, rows.starts[is_wanted])
            self._firsts = np.searchsorted(rows.starts, bounds)
        self._odd.update(np.flatnonzero(rows.are_flagged(WRAPPED)).tolist())

    def columns(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of a schema."""
        if not len(self._rows):
            return _nothing(schema)
        readers = self._readers(schema.names)
        arrays = [readers[name]() for name in schema.names]
        if self._odd:
            arrays = self._with_odd(arrays, schema)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _readers(self, wanted: Sequence[str]) -> dict[str, Callable[[], pa.Array]]:
        """Return what makes each column, without having made any."""
        rows = self._rows
        readers: dict[str, Callable[[], pa.Array]] = {
            "topic": self._topic,
            "broker": self._broker,
            "queue_id": rows.queue_id,
            "offset": lambda: numbers(rows.offsets, pa.int64()),
            "body": self._body,
            "born_at": rows.born_at,
            "stored_at": rows.stored_at,
            "reconsume_times": rows.reconsume_times,
        }
        if not _OF_PROPERTIES.isdisjoint(wanted):
            properties = Properties(rows)
            self._odd.update(properties.not_unicode().tolist())
            readers |= {
                "tags": lambda: properties.texts(TAGS),
                "keys": lambda: properties.texts(KEYS),
                "message_id": lambda: self._message_id(properties),
                "properties": properties.map,
            }
        return readers

    def _topic(self) -> pa.Array:
        topics, which = self._rows.topics_seen()
        bare = []
        for number, topic in enumerate(topics):
            try:
                bare.append(self._names.bare(topic.decode()))
            except UnicodeDecodeError:
                error = MalformedRecord(f"the topic {topic[:80]!r} is not UTF-8", where="record")
                raise self._damage(int((which == number).argmax()), error) from None
        return _chosen(bare, which)

    def _broker(self) -> pa.Array:
        brokers = list({piece.queue.broker: None for piece in self._pieces})
        numbered = [brokers.index(piece.queue.broker) for piece in self._pieces]
        return _chosen(brokers, np.repeat(numbered, np.diff(self._firsts)))

    def _body(self) -> pa.Array:
        rows = self._rows
        packed = np.flatnonzero(rows.are_flagged(COMPRESSED) & ~rows.are_flagged(WRAPPED))
        if not len(packed):
            return rows.body()
        opened: list[bytes | None] = []
        for row in packed.tolist():
            try:
                opened.append(self._opener.body(rows.body_of(row), int(rows.sys_flags[row])))
            except ProtocolError as error:
                self._note_unreadable(row, error)
                opened.append(None)
            self._opener.check_room()
        others = pa.array(opened, pa.binary())
        opened.clear()
        # Mostly all are packed, or none: then nothing has to be copied once more.
        return others if len(packed) == len(rows) else _replaced(rows.body(), packed, others)

    def _message_id(self, properties: Properties) -> pa.Array:
        """Return the ids: those that producers gave, and where there is none, those made of the place."""
        rows, given = self._rows, properties.texts(UNIQUE_KEY)
        if not given.null_count:
            return given
        nameless = np.flatnonzero(given.is_null().to_numpy(zero_copy_only=False))
        self._odd.update(nameless[rows.sys_flags[nameless] & STORE_IPV6 != 0].tolist())
        return _replaced(given, nameless, rows.offset_ids(nameless))

    def _with_odd(self, arrays: list[pa.Array], schema: pa.Schema) -> list[pa.Array]:
        """Return columns with the odd rows read one by one; one of them may become several rows, or none."""
        odd, count = sorted(self._odd), len(self._rows)
        opened: list[StoredMessage] = []
        bodiless: set[int] = set()
        copies, is_odd = np.ones(count, np.int64), np.zeros(count, np.bool_)
        is_odd[odd] = True
        for row in odd:
            found, is_readable = self._open(row)
            if not is_readable:
                bodiless.add(len(opened))
            self._opener.check_room()
            copies[row] = len(found)
            opened += found
        order = np.repeat(np.arange(count), copies)
        order[np.repeat(is_odd, copies)] = count + np.arange(len(opened))
        return [
            pa.concat_arrays([array, column_of(opened, field, self._names, bodiless)]).take(pa.array(order))
            for array, field in zip(arrays, schema, strict=True)
        ]

    def _open(self, row: int) -> "tuple[list[StoredMessage], bool]":
        """Return what is in an odd row, and whether it could be opened."""
        piece, record = self._piece_of(row), self._rows.record(row)
        try:
            return self._opener.messages(record, piece.queue.broker, piece.start, piece.end), True
        except ProtocolError as error:
            self._note_unreadable(row, error)
            if not piece.start <= int(self._rows.offsets[row]) < piece.end:
                # A batch that began before the piece: what of it is missing is told as lost.
                return [], True
            return [sealed_message(record, piece.queue.broker)], False

    def _note_unreadable(self, row: int, error: ProtocolError) -> None:
        if self._unreadable is None:
            raise self._damage(row, error) from error
        offset = int(self._rows.offsets[row])
        self._unreadable[OffsetRange(self._piece_of(row).queue, offset, offset + 1)] = error

    def _piece_of(self, row: int) -> "Piece":
        return self._pieces[int(np.searchsorted(self._firsts, row, "right")) - 1]

    def _damage(self, row: int, error: ProtocolError) -> MalformedRecord:
        return damage_at(self._piece_of(row).queue, int(self._rows.offsets[row]), error)


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def _chosen(texts: Sequence[str], which: "NDArray[np.int64]") -> pa.Array:
    """Return a column of the texts that the numbers stand for."""
    if len(texts) == 1:
        return repeated([texts[0].encode()], len(which))
    return pa.array(texts, pa.string()).take(pa.array(which))


def _replaced(column: pa.Array, rows: "NDArray[np.int64]", others: pa.Array) -> pa.Array:
    """Return a column with others in some of its rows."""
    order = np.arange(len(column))
    order[rows] = len(column) + np.arange(len(others))
    return pa.concat_arrays([column, others]).take(pa.array(order))
