"""A RocketMQ as a data source of Spark: ``spark.read.format("rocketmq")`` and its three sisters.

Everything is decided elsewhere: options in options.py, columns in schema.py, reading in batch.py and stream.py, writing
in sink.py. There is no ``pushFilters`` on purpose: Spark 4.3 keeps what was pushed for one query in the next one of the
same DataFrame, and returns too little; the options tags, sql and startingTimestamp leave out messages at the brokers.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from steelyard.spark.options.checked import ReadOptions
from steelyard.spark.schema import COLUMNS, PROPERTIES, columns_of, schema_of

__all__ = ["RocketMQSource"]


class RocketMQSource(DataSource):
    """Topics as DataFrames, and DataFrames into topics."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return all columns, if the user gives no schema."""
        given = {name.lower(): value for name, value in self.options.items()}
        is_out = str(given.get("includeproperties")).strip().lower() == "false"
        return schema_of(tuple(name for name in COLUMNS if not (is_out and name == PROPERTIES)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what is there."""
        from steelyard.spark.batch import BatchReader

        options = ReadOptions.of(self.options, streaming=False)
        return BatchReader(options, columns_of(schema, include_properties=options.include_properties))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read what is there and what comes."""
        from steelyard.spark.stream import StreamReader

        options = ReadOptions.of(self.options, streaming=True)
        return StreamReader(options, columns_of(schema, include_properties=options.include_properties))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write the rows of a DataFrame."""
        from steelyard.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Write the rows of a stream."""
        from steelyard.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
