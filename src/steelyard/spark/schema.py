"""The columns of topics for reading and writing.

Reading: a user's schema is a projection: any of the columns, in any order, with their own types. Spark prunes no
columns of a Python source by itself, so this is the way to read less, and what is not requested costs nothing. Every
column is nullable, since Arrow batches must match the schema in that, too.

Writing: ``body`` is required, and ``topic`` unless an option names it. Rows with one ``key`` go to one queue, that of
the client's ``send(key=…)``, in order; others are distributed. A ``delay`` is in milliseconds: such rows are sent one
by one, and 4.9 brokers round up to their next level. An ``id`` becomes the message id. A frame that was read from
topics can be written as it is: columns that say where a message was (`IGNORED_COLUMNS`) are not sent; those that
identify it (`SOURCE_COLUMNS`) are part of the new message id. Any other column is an error that suggests a name.
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
    StructField,
    StructType,
    TimestampType,
)

from steelyard.client.suggestions import closest_match
from steelyard.errors import ConfigurationError

PROPERTIES = "properties"

SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("offset", LongType()),
        StructField("body", BinaryType()),
        StructField("tags", StringType()),
        StructField("keys", StringType()),
        StructField("message_id", StringType()),
        StructField("born_at", TimestampType()),
        StructField("stored_at", TimestampType()),
        StructField("reconsume_times", IntegerType()),
        StructField(PROPERTIES, MapType(StringType(), StringType())),
    ]
)
"""All columns, in order."""

COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)  # the names of all columns

_TYPES: dict[str, DataType] = {field.name: field.dataType for field in SCHEMA.fields}


def schema_for(columns: tuple[str, ...] = COLUMNS) -> StructType:
    """Return the schema of some columns, in their order.

    >>> schema_for(("offset", "body")).simpleString()
    'struct<offset:bigint,body:binary>'
    """
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def requested_columns(requested: StructType, *, include_properties: bool = True) -> tuple[str, ...]:
    """Return the names of the columns of a schema; one that does not fit is an error that says why.

    >>> requested_columns(StructType([StructField("ofset", LongType())]))
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the schema has a column 'ofset', and messages have none; did you mean offset?
    """
    if not requested.fields:
        raise ConfigurationError("the schema has no columns", next_step=f"choose from {', '.join(COLUMNS)}")
    for field in requested.fields:
        _check_field(field, include_properties=include_properties)
    names = tuple(requested.names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"the schema has the column {twice!r} twice", next_step="leave one of them out")
    return names


def _check_field(field: StructField, *, include_properties: bool) -> None:
    name, kind = field.name, _TYPES.get(field.name)
    if kind is None:
        meant = closest_match(name, COLUMNS)
        raise ConfigurationError(
            f"the schema has a column {name!r}, and messages have none",
            next_step=f"did you mean {meant}?" if meant else f"choose from {', '.join(COLUMNS)}",
        )
    if name == PROPERTIES and not include_properties:
        raise ConfigurationError(
            "the schema has the column 'properties', and the option includeProperties is false",
            next_step="leave one of them out",
        )
    if field.dataType != kind:
        raise ConfigurationError(
            f"the schema has the column {name!r} as {field.dataType.simpleString()}",
            next_step=f"read it as {kind.simpleString()}, and cast it afterwards",
        )
    if not field.nullable:
        raise ConfigurationError(
            f"the schema has the column {name!r} as NOT NULL",
            next_step="leave NOT NULL out: columns of a Python source are always nullable",
        )


_INTEGER_TYPES = (ByteType, ShortType, IntegerType, LongType)

_WRITABLE_COLUMNS = {
    "body": "binary or string",
    "topic": "string",
    "tags": "string",
    "keys": "string or array<string>",
    "properties": "map<string,string>",
    "key": "string or a whole number",
    "delay": "a whole number (milliseconds)",
    "id": "string or a whole number",
}
"""Columns that may be written, and their types."""

IGNORED_COLUMNS = ("broker", "queue_id", "offset", "message_id", "born_at", "stored_at", "reconsume_times")
"""Columns of a frame that was read from topics that say where a message was: they are not sent."""

SOURCE_COLUMNS = {"topic": (StringType,), "broker": (StringType,), "queue_id": _INTEGER_TYPES, "offset": _INTEGER_TYPES}
"""Columns of a frame that was read from topics that together identify a message."""

_ALIASES = {"value": "body", "payload": "body", "headers": "properties", "tag": "tags", "delay_ms": "delay"}


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """The index of each column in a frame; None if it is missing.

    >>> WriteColumns.of(StructType().add("body", "string").add("tags", "string"), topic="orders").tags
    1
    >>> WriteColumns.of(StructType().add("value", "binary"), topic="orders")
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
    source: tuple[int, ...] | None = None  # the indexes of `SOURCE_COLUMNS`

    @classmethod
    def of(cls, schema: StructType, *, topic: str | None) -> "WriteColumns":
        """Find the columns of a frame, and check them; ``topic`` is the option for all rows."""
        indexes: dict[str, int] = {}
        for index, field in enumerate(schema.fields):
            name = field.name.lower()
            if name in IGNORED_COLUMNS:
                continue
            if name not in _WRITABLE_COLUMNS:
                raise _unknown_column(field.name)
            if name in indexes:
                raise ConfigurationError(f"there are two columns {name!r}", next_step="drop or rename one of them")
            if not _has_valid_type(name, field.dataType):
                raise ConfigurationError(
                    f"the column {name!r} is {field.dataType.simpleString()}",
                    next_step=f"cast it: it must be {_WRITABLE_COLUMNS[name]}",
                )
            indexes[name] = index
        if "body" not in indexes:
            raise ConfigurationError("the rows have no column 'body'", next_step="select a column AS body")
        if topic is None and "topic" not in indexes:
            raise ConfigurationError(
                "nothing says which topic the rows go to", next_step="give the option 'topic', or a column 'topic'"
            )
        return cls(**indexes, source=_source_columns(schema))


def _source_columns(schema: StructType) -> tuple[int, ...] | None:
    indexes = {field.name.lower(): index for index, field in enumerate(schema.fields)}
    found = tuple(
        indexes[name]
        for name, kinds in SOURCE_COLUMNS.items()
        if name in indexes and isinstance(schema.fields[indexes[name]].dataType, kinds)
    )
    return found if len(found) == len(SOURCE_COLUMNS) else None


def _has_valid_type(name: str, kind: DataType) -> bool:
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
        return isinstance(kind, (StringType, *_INTEGER_TYPES))
    return isinstance(kind, _INTEGER_TYPES if name == "delay" else StringType)


def _unknown_column(name: str) -> ConfigurationError:
    meant = _ALIASES.get(name.lower()) or closest_match(name, _WRITABLE_COLUMNS)
    hint = f"did you mean {meant!r}? Rename" if meant else "rename"
    return ConfigurationError(
        f"a message has no column {name!r}", next_step=f"{hint} or drop it: columns are {', '.join(_WRITABLE_COLUMNS)}"
    )
