"""What one task of Spark reads: some ranges of some queues, as batches of Arrow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from steelyard.client.bulk.reading import read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from steelyard.model import OffsetRange
    from steelyard.spark.options import ReadOptions

__all__ = ["Slice", "read_slice"]


@dataclass(frozen=True)
class Slice(InputPartition):
    """A part of a read: ranges of queues, and where the driver knows their brokers to be."""

    ranges: "tuple[OffsetRange, ...]"
    addresses: dict[str, str]

    def __repr__(self) -> str:
        return f"Slice({', '.join(map(str, self.ranges))})"


def read_slice(part: Slice, options: "ReadOptions", columns: tuple[str, ...]) -> "Iterator[pa.RecordBatch]":
    """Read the messages of a slice."""
    from steelyard.spark.columns import decode

    group = options.group or "steelyard-spark"
    for piece in read_ranges(part.ranges, options.connect, part.addresses, group=group, wanted=options.wanted):
        yield decode([piece], columns, namespace=options.connect.namespace)
