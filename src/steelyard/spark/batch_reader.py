"""Batch reads: the start and end offsets are resolved once, when Spark plans the read.

A DataFrame is a snapshot: Spark plans it once, so counting it twice gives the same number, whatever arrives in between.
Another ``load()`` plans again.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange
from steelyard.spark.cluster_client import ClusterClient
from steelyard.spark.offset_spec import ExplicitOffsets
from steelyard.spark.options import ReadOptions
from steelyard.spark.partition_reader import read_partition
from steelyard.spark.planning import discover_queues, make_partitions, resolve_end, resolve_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Created in a process of the driver, and pickled to executors to read there."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Return the tasks; none if there is nothing to read."""
        client = ClusterClient(self._options)
        try:
            return [*make_partitions(self._offset_ranges(client), self._options, client.broker_addresses())]
        finally:
            client.close()

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Read one task, on an executor."""
        return read_partition(partition, self._options, self._columns)

    def _offset_ranges(self, client: ClusterClient) -> list[OffsetRange]:
        options = self._options
        bounds = discover_queues(options, client)
        starts = resolve_start(options.starting, bounds, client, fail_on_loss=options.fail_on_data_loss)
        ends = resolve_end(options.ending, bounds, client)
        if isinstance(options.starting, ExplicitOffsets) and isinstance(options.ending, ExplicitOffsets):
            for queue in options.starting.offsets:
                if starts[queue] > ends[queue]:
                    raise ConfigurationError(
                        f"{queue} is to be read from {starts[queue]} to {ends[queue]}",
                        next_step="give an ending offset that is not below the starting one",
                    )
        return [OffsetRange(queue, start, max(start, ends[queue])) for queue, start in starts.items()]
