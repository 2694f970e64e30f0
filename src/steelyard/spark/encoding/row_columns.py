"""The columns a frame may have that is written to topics, checked when the write is planned.

``body`` alone must be there, and ``topic`` unless an option names it. Rows with one ``key`` go to one queue, that of
the client's ``send(key=…)``, and keep their order; others go in turns. A ``delay`` is in milliseconds: such rows travel
one by one, and brokers of 4.9 round up to their next level. An ``id`` becomes the message's id. What is left out of
``properties`` is in row_properties.py.

A frame that was read from topics can be written as it is: its columns that say where a message was (`IGNORED`) are not
sent; those that say which message it was (`SOURCE`) are part of the new one's id, if all of them are there. Any other
column is a mistake, and the sentence says which was meant.
"""

from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError

__all__ = ["COLUMNS", "IGNORED", "SOURCE", "RowColumns"]

_WHOLE = (ByteType, ShortType, IntegerType, LongType)

COLUMNS = {
    "body": "binary or string",
    "topic": "string",
    "tags": "string",
    "keys": "string or array<string>",
    "properties": "map<string,string>",
    "key": "string or a whole number",
    "delay": "a whole number (milliseconds)",
    "id": "string or a whole number",
}
"""What may be written, and as what."""

IGNORED = ("broker", "queue_id", "offset", "message_id", "born_at", "stored_at", "reconsume_times")
"""Columns of a frame that was read from topics which say where a message was: they are not sent."""

SOURCE = {"topic": (StringType,), "broker": (StringType,), "queue_id": _WHOLE, "offset": _WHOLE}
"""Columns of a frame that was read from topics which say, together, which message a row was."""

_ELSEWHERE_CALLED = {"value": "body", "payload": "body", "headers": "properties", "tag": "tags", "delay_ms": "delay"}


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Where each column is that a frame has; None for one that it has not.

    >>> RowColumns.of(StructType().add("body", "string").add("tags", "string"), topic="orders").tags
    1
    >>> RowColumns.of(StructType().add("value", "binary"), topic="orders")
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: a message has no column 'value'; did you mean 'body'? \
Rename or drop it: columns are body, topic, tags, keys, properties, key, delay, id
    """

    body: int
    topic: int | None = None
    tags: int | None = None
    keys: int | None = None
    properties: int | None = None
    key: int | None = None
    delay: int | None = None
    id: int | None = None
    source: tuple[int, ...] | None = None
    """The columns that say which message of a topic a row was."""

    @classmethod
    def of(cls, schema: StructType, *, topic: str | None) -> "RowColumns":
        """Find the columns of a frame, and check them; ``topic`` is the option that counts for all rows."""
        places: dict[str, int] = {}
        for place, field in enumerate(schema.fields):
            name = field.name.lower()
            if name in IGNORED:
                continue
            if name not in COLUMNS:
                raise _unknown(field.name)
            if name in places:
                raise ConfigurationError(f"there are two columns {name!r}", next_step="drop or rename one of them")
            if not _is_right(name, field.dataType):
                raise ConfigurationError(
                    f"the column {name!r} is {field.dataType.simpleString()}",
                    next_step=f"cast it: it must be {COLUMNS[name]}",
                )
            places[name] = place
        if "body" not in places:
            raise ConfigurationError(
                "the rows have no column 'body'", next_step="select what the message is to say AS body"
            )
        if topic is None and "topic" not in places:
            raise ConfigurationError(
                "nothing says which topic the rows go to", next_step="give the option 'topic', or a column 'topic'"
            )
        return cls(**places, source=_source(schema))


def _source(schema: StructType) -> tuple[int, ...] | None:
    places = {field.name.lower(): place for place, field in enumerate(schema.fields)}
    found = tuple(
        places[name]
        for name, kinds in SOURCE.items()
        if name in places and isinstance(schema.fields[places[name]].dataType, kinds)
    )
    return found if len(found) == len(SOURCE) else None


def _is_right(name: str, kind: DataType) -> bool:
    if name == "body":
        return isinstance(kind, BinaryType | StringType)
    if name == "keys":
        return isinstance(kind, StringType) or (
            isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)
        )
    if name == "properties":
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if name in ("key", "id"):
        return isinstance(kind, (StringType, *_WHOLE))
    return isinstance(kind, _WHOLE if name == "delay" else StringType)


def _unknown(name: str) -> ConfigurationError:
    meant = _ELSEWHERE_CALLED.get(name.lower()) or nearest(name, COLUMNS)
    hint = f"did you mean {meant!r}? Rename" if meant else "rename"
    return ConfigurationError(
        f"a message has no column {name!r}", next_step=f"{hint} or drop it: columns are {', '.join(COLUMNS)}"
    )
