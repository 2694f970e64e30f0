"""A Spark session in one line, with pip alone: a Java is found or installed by pip, and workers run this very Python.

    spark = session("orders to the lake")            # this machine, all of its cores
    spark = session(master="spark://boss:7077")      # a cluster; nothing else changes

The environment wins: ``JAVA_HOME`` if it is new enough, ``PYSPARK_PYTHON`` always. On this machine alone Spark has no
web UI, listens on the loopback only and logs nothing but errors; checkpoints are written in the fast way that is safe
on a local disk. ``conf`` overrides every setting.

Left out: Spark Connect, and Python on the machines of a cluster: Steelyard with its extra `spark` must be installed
there.
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

from steelyard.errors import ConfigurationError, MissingExtra, how_to_install
from steelyard.spark.runtimes import find_java, worker_python

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_MIN_SPARK_VERSION = (4, 2)  # the first with admission control for Python sources

_LOOPBACK = "127.0.0.1"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_COMMON_CONF = {
    # What every Parquet reader knows: the default is a relic of other systems.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_CONF = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.ui.enabled": "false",
    # The default starts a process for each file, which is a quarter of a small batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def prepare(environ: MutableMapping[str, str] | None = None, *, master: str | None = None) -> str:
    """Set the environment for Spark, and return a line that says what was chosen and why.

    Must be called before the first session of a process; `session` does.
    """
    env = os.environ if environ is None else environ
    version = check_packages()
    java = find_java(env)
    env["JAVA_HOME"] = str(java.home)
    python = env.get("PYSPARK_PYTHON", sys.executable)
    started = sys.executable
    if is_local(master):
        started = worker_python(env)
        # Otherwise Spark warns that the host name resolves to a loopback address.
        env.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    # Sources that Spark discovers by itself, such as ours, run with the Python of the driver.
    for variable in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        env.setdefault(variable, started)
    return f"Spark {version} on Java {java.version} ({java.source}), workers run {python}"


def session(
    name: str = "steelyard", *, master: str | None = None, conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """Return the running session of this process, or start one; ``conf`` overrides every setting."""
    master = master or "local[*]"
    prepare(master=master)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    settings = SparkConf().setMaster(master).setAppName(name).setAll(list(_spark_conf(master, conf or {}).items()))
    if SparkContext._gateway is None:
        _launch_jvm(settings)
    with _restore_sigint():
        return SparkSession.builder.config(conf=settings).getOrCreate()


@contextmanager
def _restore_sigint() -> Iterator[None]:
    """Restore the SIGINT handler: Spark installs its own, to cancel jobs, which is right only in a shell."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_custom = before not in (signal.default_int_handler, signal.SIG_DFL, None)
    if is_custom and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


@contextmanager
def _defer_sigint() -> Iterator[None]:
    """Defer Ctrl-C while Java starts: Java would run for ever if Python exited meanwhile.

    Once it is up, it ends with Python. A second Ctrl-C is not deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def defer(number: int, frame: FrameType | None) -> None:
        if received:
            signal.default_int_handler(number, frame)
        received.append(number)

    before = signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received and callable(before):
        before(signal.SIGINT, None)


def _launch_jvm(conf: "SparkConf") -> None:
    """Start Java in its own process session: Ctrl-C would kill Python workers within a batch."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    launch: Callable[..., Any] = launch_gateway  # which is untyped
    try:
        with _defer_sigint():
            gateway = launch(conf, {"start_new_session": True})
    except PySparkRuntimeError as error:
        raise ConfigurationError(
            f"Java did not start (JAVA_HOME is {os.environ['JAVA_HOME']})", next_step="see its output above"
        ) from error
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def is_local(master: str | None) -> bool:
    """Say whether Spark runs on this machine alone.

    >>> is_local(None), is_local("local[2]"), is_local("spark://boss:7077")
    (True, True, False)
    """
    return (master or "local").startswith("local")


def _spark_conf(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {**_COMMON_CONF, **(_LOCAL_CONF if is_local(master) else {}), **conf}
    quiet = f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
    if "log4j2.configurationFile" not in settings.get(_JAVA_OPTIONS, ""):
        settings[_JAVA_OPTIONS] = f"{quiet} {settings.get(_JAVA_OPTIONS, '')}".rstrip()
    return settings


def check_packages() -> str:
    """Return the version of PySpark; an error if a package is missing or too old."""
    if any(find_spec(package) is None for package in ("pyspark", "pyarrow", "numpy")):
        raise MissingExtra("Spark sessions", extra="spark")
    from pyspark import __version__ as version

    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _MIN_SPARK_VERSION:
        oldest = ".".join(map(str, _MIN_SPARK_VERSION))
        raise ConfigurationError(
            f"PySpark {version} is installed, and at least {oldest} is needed",
            next_step=how_to_install("spark"),
        )
    return version
