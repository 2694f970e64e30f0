"""A Spark session in one line, with pip alone: Java is found or brought along, and workers run this very Python.

    spark = session("orders to the lake")            # this machine, all of its cores
    spark = session(master="spark://boss:7077")      # a cluster; nothing else changes

What stands in the environment already counts: ``JAVA_HOME`` if it is new enough, ``PYSPARK_PYTHON`` always. On this
machine alone Spark has no page, listens on the loopback only and logs nothing but errors; checkpoints are written the
quick way that is sound on a local disk. Every setting can be given otherwise in ``conf``.

Left out: Spark Connect, and Python on the machines of a cluster: Steelyard with its extra `spark` has to be there.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from steelyard.errors import ConfigurationError, MissingExtra
from steelyard.errors.extras import how_to_install
from steelyard.spark.java import choose_java
from steelyard.spark.python import choose_python

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["OLDEST_SPARK", "check_packages", "is_local", "prepare", "session"]

OLDEST_SPARK = (4, 2)
"""The first whose Python sources may be told how much to take at a time."""

_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_EVERYWHERE = {
    # As every reader of Parquet knows it: the usual one is a relic of other systems.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_HERE = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
    # The usual one starts a process for each file, which is a quarter of a small batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def prepare(environ: MutableMapping[str, str] | None = None, *, master: str | None = None) -> str:
    """Set what Spark looks for in the environment, and return the line that says what was chosen and why.

    It has to be called before the first session of a process; `session` does.
    """
    there = os.environ if environ is None else environ
    version = check_packages()
    java = choose_java(there)
    there["JAVA_HOME"] = str(java.home)
    python = there.get("PYSPARK_PYTHON", sys.executable)
    started = sys.executable
    if is_local(master):
        started = choose_python(there)
        # Otherwise it warns that the machine's name is not the machine's address.
        there.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    # Sources that it finds by itself, as it does ours, are run by what is meant for the driver.
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        there.setdefault(variable, started)
    return f"Spark {version} on Java {java.version} ({java.found}), workers run {python}"


def session(
    name: str = "steelyard", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the running session of this process, or start one; ``conf`` has the last word."""
    master = master or "local[*]"
    prepare(master=master)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = SparkConf().setMaster(master).setAppName(name).setAll(list(_settings(master, conf or {}).items()))
    if SparkContext._gateway is None:
        _start_java(settings)
    with _ctrl_c_as_it_was():
        return SparkSession.builder.config(conf=settings).getOrCreate()


@contextmanager
def _ctrl_c_as_it_was() -> Iterator[None]:
    """Give Ctrl-C back to whoever had taken it: Spark takes it for itself, to cancel jobs, as is right in a shell."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_taken = before not in (signal.default_int_handler, signal.SIG_DFL, None)
    if is_taken and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Hold Ctrl-C back for as long as Java starts: it would run on for ever if Python had left by then.

    Once it is up, it ends with Python. A second Ctrl-C is not held back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def later(number: int, frame: FrameType | None) -> None:
        if came:
            signal.default_int_handler(number, frame)
        came.append(number)

    before = signal.signal(signal.SIGINT, later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(signal.SIGINT, None)


def _start_java(settings: "SparkConf") -> None:
    """Start Spark's Java apart from us, so that Ctrl-C is ours alone: it would end Python's workers within a batch."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., Any] = launch_gateway  # which has no types
    try:
        with _ctrl_c_waits():
            gateway = launch(settings, {"start_new_session": True})
    except PySparkRuntimeError as error:
        raise ConfigurationError(
            f"Java did not start (JAVA_HOME is {os.environ['JAVA_HOME']})", next_step="see what it said above"
        ) from error
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)


def is_local(master: str | None) -> bool:
    """Say whether Spark runs on this machine alone.

    >>> is_local(None), is_local("local[2]"), is_local("spark://boss:7077")
    (True, True, False)
    """
    return (master or "local").startswith("local")


def _settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {**_EVERYWHERE, **(_HERE if is_local(master) else {}), **conf}
    quiet = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('quiet.properties')}"
    if "log4j2.configurationFile" not in settings.get(_JAVA_OPTIONS, ""):
        settings[_JAVA_OPTIONS] = f"{quiet} {settings.get(_JAVA_OPTIONS, '')}".rstrip()
    return settings


def check_packages() -> str:
    """Return the version of PySpark, or say which package is missing or too old."""
    if any(find_spec(package) is None for package in ("pyspark", "pyarrow", "numpy")):
        raise MissingExtra("Spark sessions", extra="spark")
    from pyspark import __version__ as version

    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise ConfigurationError(
            f"PySpark {version} is installed, and {oldest} is the oldest that will do",
            next_step=how_to_install("spark"),
        )
    return version
