"""Records of the broker's log as columns of Arrow: what a task of Spark hands on.

A step in Python for each row would cost more than all else together, so rows are read all at once: where records begin
(record_walk.py), what is where in them (record_columns.py), what their properties say (property_columns.py). Rows that
cannot be read so are read again one by one, as a consumer reads them (slow_rows.py), and put in their places. Columns
that are not wanted cost nothing.

The rule: whatever the records are, the columns say what `steelyard.wire.stored.messages` says of them, and damaged ones
raise what it raises, with the name of the queue. Left out: how much is decoded at once is up to the caller; some
thousand messages or some MiB go best.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from steelyard.client.names import Names
from steelyard.errors import ConfigurationError, LimitExceeded, MalformedRecord, ProtocolError
from steelyard.model.message import KEYS, TAGS, UNIQUE_KEY
from steelyard.spark.damage import damage_among, damage_at
from steelyard.spark.property_columns import MAP, Properties
from steelyard.spark.record_columns import MOMENT, Rows
from steelyard.spark.record_walk import record_starts
from steelyard.spark.segments import numbers
from steelyard.spark.slow_rows import OPENED_BYTES, column_of, open_record, size_of
from steelyard.wire.sysflag import COMPRESSED, STORE_IPV6, WRAPPED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from steelyard.client.bulk.reading import Piece
    from steelyard.model.message import StoredMessage

__all__ = ["ARROW_TYPES", "arrow_schema", "decode"]

ARROW_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "broker": pa.string(),
    "queue_id": pa.int32(),
    "offset": pa.int64(),
    "body": pa.binary(),
    "tags": pa.string(),
    "keys": pa.string(),
    "message_id": pa.string(),
    "born_at": MOMENT,
    "stored_at": MOMENT,
    "reconsume_times": pa.int32(),
    "properties": MAP,
}
"""The columns there are, in their order, as Spark wants each from Arrow."""

_OF_PROPERTIES = frozenset({"tags", "keys", "message_id", "properties"})

# Arrow counts the bytes of a column in 31 bits.
_MOST_BYTES = (1 << 31) - 1


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of some columns, in the order given."""
    unknown = [column for column in columns if column not in ARROW_TYPES]
    if unknown:
        raise ConfigurationError(f"there is no column {unknown[0]!r}", next_step=f"there are {', '.join(ARROW_TYPES)}")
    return pa.schema([pa.field(column, ARROW_TYPES[column]) for column in columns])


def decode(pieces: "Sequence[Piece]", columns: Sequence[str], *, namespace: str = "") -> pa.RecordBatch:
    """Return the messages of some pieces, in order, as the columns that are wanted, in the order that is wanted.

    Messages outside the range of their piece are left out. Topics lose the namespace.
    """
    schema = arrow_schema(columns)
    filled = [piece for piece in pieces if len(piece.records)]
    if not filled:
        return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
    return _Batch(filled, Names(namespace)).columns(schema)


class _Batch:
    """The rows of some pieces on their way to columns."""

    def __init__(self, pieces: "Sequence[Piece]", names: Names) -> None:
        self._pieces, self._names = pieces, names
        data = pieces[0].records if len(pieces) == 1 else b"".join([piece.records for piece in pieces])
        if len(data) > _MOST_BYTES:
            raise LimitExceeded("size of the records of one batch", where="batch", limit=_MOST_BYTES, found=len(data))
        self._bounds = np.cumsum([0, *[len(piece.records) for piece in pieces]])
        try:
            starts = record_starts(data)
            self._rows = Rows(data, starts)
        except MalformedRecord as error:
            raise damage_among(pieces) from error
        firsts = np.searchsorted(starts, self._bounds)
        if not np.array_equal(np.append(starts, len(data))[firsts], self._bounds):
            raise damage_among(pieces)
        self._firsts = firsts
        self._odd: set[int] = set()
        self._keep_wanted()

    def _keep_wanted(self) -> None:
        """Leave out the rows that their piece does not want, and note those that have to be read one by one."""
        rows, counts = self._rows, np.diff(self._firsts)
        starts, ends = (np.repeat([piece[i] for piece in self._pieces], counts) for i in (1, 2))
        is_wanted = (rows.offsets >= starts) & (rows.offsets < ends)
        flags = int(np.bitwise_or.reduce(rows.sys_flags))
        if flags & WRAPPED:
            # Which offsets are in a batch that was stored as one record, only opening it tells.
            is_wanted |= rows.sys_flags & WRAPPED == WRAPPED
        if not is_wanted.all():
            self._rows = rows = Rows(rows.data, rows.starts[is_wanted])
            self._firsts = np.searchsorted(rows.starts, self._bounds)
        if flags & WRAPPED == WRAPPED:
            self._odd.update(np.flatnonzero(rows.sys_flags & WRAPPED == WRAPPED).tolist())

    def columns(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return the columns of a schema."""
        names, rows = schema.names, self._rows
        readers = self._readers(names)
        arrays = [readers[name]() for name in names]
        if "body" in names and np.bitwise_or.reduce(rows.sys_flags, initial=0) & COMPRESSED:
            self._odd.update(np.flatnonzero(rows.sys_flags & COMPRESSED).tolist())
        if self._odd:
            arrays = self._with_odd(arrays, schema)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _readers(self, wanted: Sequence[str]) -> dict[str, Callable[[], pa.Array]]:
        rows = self._rows
        readers: dict[str, Callable[[], pa.Array]] = {
            "topic": self._topic,
            "broker": self._broker,
            "queue_id": rows.queue_ids,
            "offset": lambda: numbers(rows.offsets, pa.int64()),
            "body": rows.body,
            "born_at": rows.born_at,
            "stored_at": rows.stored_at,
            "reconsume_times": rows.reconsume_times,
        }
        if len(rows) and not _OF_PROPERTIES.isdisjoint(wanted):
            properties = Properties(rows)
            self._odd.update(properties.not_unicode.tolist())
            if "properties" in wanted:
                self._odd.update(properties.maybe_twice.tolist())
            readers |= {
                "tags": lambda: properties.texts(TAGS),
                "keys": lambda: properties.texts(KEYS),
                "message_id": lambda: self._message_id(properties),
                "properties": properties.map,
            }
        else:
            readers |= {name: lambda name=name: pa.array([], ARROW_TYPES[name]) for name in _OF_PROPERTIES}
        return readers

    def _topic(self) -> pa.Array:
        stored = self._rows.topic().dictionary_encode()
        try:
            bare = [self._names.bare(topic.decode()) for topic in stored.dictionary.to_pylist()]
        except UnicodeDecodeError:
            raise damage_among(self._pieces) from None
        return pa.array(bare, pa.string()).take(stored.indices)

    def _broker(self) -> pa.Array:
        brokers = pa.array([piece.queue.broker for piece in self._pieces], pa.string())
        return brokers.take(np.repeat(np.arange(len(self._pieces)), np.diff(self._firsts)))

    def _message_id(self, properties: Properties) -> pa.Array:
        rows = self._rows
        entries = properties.named(UNIQUE_KEY)
        missing = np.flatnonzero(entries < 0)
        if not len(missing):
            return properties.values(entries)
        self._odd.update(missing[rows.sys_flags[missing] & STORE_IPV6 != 0].tolist())
        given = properties.values(entries[entries >= 0])
        order = np.empty(len(rows), np.int64)
        order[entries >= 0] = np.arange(len(given))
        order[missing] = len(given) + np.arange(len(missing))
        return pa.concat_arrays([given, rows.offset_ids(missing)]).take(order)

    def _with_odd(self, arrays: list[pa.Array], schema: pa.Schema) -> list[pa.Array]:
        """Return columns with the odd rows read one by one; one of them may become several rows, or none."""
        odd = np.array(sorted(self._odd))
        opened: list[StoredMessage] = []
        counts = np.ones(len(self._rows), np.int64)
        room = OPENED_BYTES
        for row in odd.tolist():
            found = self._open(row, room)
            room -= sum(map(size_of, found))
            counts[row] = len(found)
            opened += found
        is_odd = np.zeros(len(self._rows), np.bool_)
        is_odd[odd] = True
        order = np.repeat(np.arange(len(self._rows)), counts)
        order[np.repeat(is_odd, counts)] = len(self._rows) + np.arange(len(opened))
        return [
            pa.concat_arrays([array, column_of(opened, field.name, field.type, self._names)]).take(order)
            for array, field in zip(arrays, schema, strict=True)
        ]

    def _open(self, row: int, room: int) -> "list[StoredMessage]":
        """Read one row as a consumer would."""
        rows = self._rows
        piece = self._pieces[int(np.searchsorted(self._firsts, row, "right")) - 1]
        record = bytes(rows.data[rows.starts[row] : rows.ends[row]])
        try:
            return list(open_record(record, piece.queue.broker, start=piece.start, end=piece.end, room=room))
        except ProtocolError as error:
            raise damage_at(piece.queue, int(rows.offsets[row]), error) from error
