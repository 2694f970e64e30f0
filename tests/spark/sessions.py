"""The one Spark session that all tests of a worker share, small, quiet and quick to start.

Nothing of it is left when it is over. It is started for the first test that asks for it, by the fixture `spark`.
"""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Run Spark."""
    with small_session(tmp_path_factory.mktemp("spark")) as started:
        yield started


@contextmanager
def small_session(directory: "Path", master: str = "local[2,4]", **more: str) -> "Iterator[SparkSession]":
    """Run a session whose files are in a directory; a task may fail three times."""
    # Here and not above: every worker imports this file for the fixture, and few start Spark.
    from examples.demo.spark_process import FAST_START_JVM_OPTIONS
    from steelyard.spark.spark_session import session

    quick = " ".join(FAST_START_JVM_OPTIONS)
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
    }
    running = session("tests", master=master, conf=conf | more)
    try:
        yield running
    finally:
        gateway = running.sparkContext._gateway
        running.stop()
        _end_java(gateway)


def _end_java(gateway: Any) -> None:
    """End Java and what serves its calls into Python: a session that is stopped leaves them for the next one."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
