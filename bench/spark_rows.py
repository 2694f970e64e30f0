"""The rows that everybody writes and reads: a key, a value of so many bytes, and headers where they are wanted.

Values are hexadecimal sums of the row's number, so that they are all different and a file of them does not shrink to
nothing.
"""

from time import monotonic, sleep

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.spark_sides import HEADERS, Side

_SUM_BYTES = 128
_WAIT_S = 30


def make_rows(spark: SparkSession, rows: int, value_bytes: int, *, has_headers: bool = False) -> DataFrame:
    """Return so many rows, in as many parts as Spark has cores."""
    number = f.col("id").cast("string")
    times = -(-value_bytes // _SUM_BYTES)
    value = f.substring(f.repeat(f.sha2(number, 512), times), 1, value_bytes)
    columns = [f.concat(f.lit("order-"), f.lpad(number, 10, "0")).alias("key"), value.cast("binary").alias("value")]
    if has_headers:
        columns.append(f.array(*(_header(place, number) for place in range(HEADERS))).alias("headers"))
    return spark.range(0, rows, 1, spark.sparkContext.defaultParallelism).select(*columns)


def _header(place: int, number: Column) -> Column:
    value = f.concat(f.lit(f"value-{place}-"), number).cast("binary")
    return f.struct(f.lit(f"header-{place}").alias("key"), value.alias("value"))


def wait_for_rows(side: Side, topic: str, rows: int) -> None:
    """Wait until a topic has so many: Apache's broker answers a sender before it has entered what came into queues."""
    end = monotonic() + _WAIT_S
    while (found := side.read(topic).count()) != rows:
        if found > rows or monotonic() > end:
            raise RuntimeError(f"{side.name}: {found:,} rows of {rows:,} in {topic}")
        sleep(0.5)
