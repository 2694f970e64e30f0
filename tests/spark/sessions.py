"""The one Spark session that tests share, small and quiet, and waiting for streams."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.spark.local import session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["small_session"]


@contextmanager
def small_session(directory: "Path", master: str = "local[2,4]", **more: str) -> "Iterator[SparkSession]":
    """Run a session whose files are in a directory; a task may fail three times."""
    conf = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
    }
    running = session("tests", master=master, conf=conf | more)
    try:
        yield running
    finally:
        running.stop()
