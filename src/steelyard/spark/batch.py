"""Reading what is there as a batch: where it begins and ends is settled once, when Spark plans it.

A DataFrame is a snapshot: Spark plans it once, so counting it twice gives the same number, whatever has come since.
Another ``load()`` looks again.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange
from steelyard.spark.options.checked import ReadOptions
from steelyard.spark.options.places import AtOffsets
from steelyard.spark.planning.asking import Asking
from steelyard.spark.planning.resolving import resolve_end, resolve_start
from steelyard.spark.planning.slices import first_look, slices
from steelyard.spark.task import Slice, read_slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["BatchReader"]


class BatchReader(DataSourceReader):
    """Made by Spark in a process of the driver, and carried to executors to read there."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; none if there is nothing to read."""
        asking = Asking(self._options)
        try:
            return [*slices(self._ranges(asking), self._options, asking.addresses())]
        finally:
            asking.close()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        # Without tasks Spark makes one of its own, which has nothing to read.
        return read_slice(partition, self._options, self._columns) if isinstance(partition, Slice) else iter(())

    def _ranges(self, asking: Asking) -> list[OffsetRange]:
        options = self._options
        spans = first_look(options, asking)
        starts = resolve_start(options.start, spans, asking, fail_on_loss=options.fail_on_data_loss)
        ends = resolve_end(options.end, spans, asking)
        if isinstance(options.start, AtOffsets) and isinstance(options.end, AtOffsets):
            for queue in options.start.offsets:
                if starts[queue] > ends[queue]:
                    raise ConfigurationError(
                        f"{queue} is to be read from {starts[queue]} to {ends[queue]}",
                        next_step="give an ending offset that is not below the starting one",
                    )
        return [OffsetRange(queue, start, max(start, ends[queue])) for queue, start in starts.items()]
