"""The columns of a topic, and projections of them.

A user's schema is a projection: any of the columns, in any order, with the types that they have. Spark prunes no
columns of a Python source by itself, so this is the way to read less, and what is not asked for costs nothing.

Every column may be null as far as Spark is told: what Arrow hands over must say the same as the schema, also in that.
"""

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from steelyard.client.nearest import nearest
from steelyard.errors import ConfigurationError

__all__ = ["COLUMNS", "PROPERTIES", "SCHEMA", "columns_of", "schema_of"]

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

COLUMNS: tuple[str, ...] = tuple(SCHEMA.names)
"""Their names."""

_TYPES: dict[str, DataType] = {field.name: field.dataType for field in SCHEMA.fields}


def schema_of(columns: tuple[str, ...] = COLUMNS) -> StructType:
    """Return the schema of some columns, in their order.

    >>> schema_of(("offset", "body")).simpleString()
    'struct<offset:bigint,body:binary>'
    """
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def columns_of(wanted: StructType, *, include_properties: bool = True) -> tuple[str, ...]:
    """Return the names of the columns that a schema wants; one that does not fit is an error that says why.

    >>> columns_of(StructType([StructField("ofset", LongType())]))
    Traceback (most recent call last):
    steelyard.errors.ConfigurationError: the schema has a column 'ofset', and messages have none; did you mean offset?
    """
    if not wanted.fields:
        raise ConfigurationError("the schema has no columns", next_step=f"choose from {', '.join(COLUMNS)}")
    for field in wanted.fields:
        _check(field, include_properties=include_properties)
    names = tuple(wanted.names)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"the schema has the column {twice!r} twice", next_step="leave one of them out")
    return names


def _check(field: StructField, *, include_properties: bool) -> None:
    name, kind = field.name, _TYPES.get(field.name)
    if kind is None:
        meant = nearest(name, COLUMNS)
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
            next_step="leave NOT NULL out: no column of a source in Python can be promised to Spark",
        )
