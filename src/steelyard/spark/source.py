"""RocketMQ as a data source of Spark: ``format("rocketmq")`` for batch and stream, reads and writes.

Options are in options.py, columns in schema.py, reading in batch_reader.py and stream_reader.py, writing in writer.py.
There is no ``pushFilters`` on purpose: Spark 4.3 keeps what was pushed for one query in the next one of the same
DataFrame, and returns too little; the options tags, sql and startingTimestamp leave out messages at the brokers.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from steelyard.spark.options import ReadOptions
from steelyard.spark.schema import COLUMNS, PROPERTIES, requested_columns, schema_for


class RocketMQSource(DataSource):
    """Topics as DataFrames, and DataFrames into topics."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return all columns, if the user gives no schema."""
        given = {name.lower(): value for name, value in self.options.items()}
        is_excluded = str(given.get("includeproperties")).strip().lower() == "false"
        return schema_for(tuple(name for name in COLUMNS if not (is_excluded and name == PROPERTIES)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read topics as a batch."""
        from steelyard.spark.batch_reader import BatchReader

        options = ReadOptions.of(self.options, streaming=False)
        return BatchReader(options, requested_columns(schema, include_properties=options.include_properties))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read topics as a stream."""
        from steelyard.spark.stream_reader import StreamReader

        options = ReadOptions.of(self.options, streaming=True)
        return StreamReader(options, requested_columns(schema, include_properties=options.include_properties))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write the rows of a DataFrame."""
        from steelyard.spark.writer import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Write the rows of a stream."""
        from steelyard.spark.writer import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)
