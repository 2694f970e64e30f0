"""For tests of the sink: rows as an Arrow batch, as Spark hands it over, their schema, and what a topic holds."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from steelyard import Admin
from steelyard.client.bulk.range_reader import read_ranges
from steelyard.client.config import ClientConfig
from steelyard.model import OffsetRange, Queue, StoredMessage
from steelyard.wire.stored_messages import decode_messages
from tests.live.clusters import until

TYPES: dict[str, DataType] = {
    "body": BinaryType(),
    "topic": StringType(),
    "tags": StringType(),
    "keys": StringType(),
    "properties": MapType(StringType(), StringType()),
    "key": StringType(),
    "delay": LongType(),
    "id": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "offset": LongType(),
}
"""Each column as it mostly is."""

_OTHERS: dict[type, DataType] = {list: ArrayType(StringType()), str: StringType(), int: IntegerType()}


def schema(columns: Mapping[str, Sequence[Any]]) -> StructType:
    """Return the schema of some columns; a body of text, keys that are lists and keys that are numbers are seen."""
    fields = []
    for name, values in columns.items():
        kind = type(next((value for value in values if value is not None), None))
        unusual = {"body": str, "keys": list, "key": int, "id": int}.get(name) is kind
        fields.append(StructField(name, _OTHERS[kind] if unusual else TYPES[name]))
    return StructType(fields)


def arrow(columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Return columns as a batch of Arrow."""
    kinds: pa.Schema = to_arrow_schema(schema(columns), timezone="UTC")
    values = [
        pa.array([list(each.items()) if isinstance(each, dict) else each for each in column], kind)
        for column, kind in zip(columns.values(), kinds.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(values, schema=kinds)


def by_queue(namesrv: str, topic: str, at_least: int) -> dict[Queue, list[StoredMessage]]:
    """Read all messages of a topic, once it has so many: Apache's show a while after they are stored."""
    with Admin(namesrv) as admin:
        until(lambda: admin.topics.describe(topic).messages >= at_least, f"{topic} has {at_least} messages")
        ends = admin.topics.describe(topic).queues
    found: dict[Queue, list[StoredMessage]] = {each.queue: [] for each in ends}
    ranges = [OffsetRange(each.queue, each.start, each.end) for each in ends if each.messages]
    for piece in read_ranges(ranges, ClientConfig(namesrv), {}):
        held = decode_messages(piece.records, piece.queue.broker)
        found[piece.queue] += [each for each in held if piece.start <= each.offset < piece.end]
    return found


def stored(namesrv: str, topic: str, at_least: int) -> list[StoredMessage]:
    """Read all messages of a topic, queue by queue, once it has so many."""
    return [message for held in by_queue(namesrv, topic, at_least).values() for message in held]
