"""Spark clusters: a master and workers as processes of their own, or both in the driver's process, which is quicker.

Either has executors as processes of their own. All are from the same package that the driver uses.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from steelyard.spark.spark_session import prepare

_PACKAGE = Path(pyspark.__file__).parent
_CLASS = "org.apache.spark.deploy"
_LONGEST_S = 120.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A cluster for a driver to use."""

    master: str
    workers: list[Path]
    """Where each worker keeps what its executors say."""
    environ: dict[str, str] = field(default_factory=dict)
    """What the driver's environment needs besides."""


def small_cluster(directory: Path) -> SparkCluster:
    """Return a cluster with one executor of two cores, which comes and goes with its driver."""
    home = directory / "home"
    home.mkdir()
    for part in ("bin", "jars"):  # what is in its archives for Python is installed, too, and compiled
        (home / part).symlink_to(_PACKAGE / part)
    # The worker's files go into Spark's home, whatever is set otherwise.
    return SparkCluster("local-cluster[1,2,1024]", [home / "work"], {"SPARK_HOME": str(home)})


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Run a master and workers of one core each."""
    prepare()
    with ExitStack() as stack:
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = directory / "master.log"
        stack.enter_context(_server(log, f"{_CLASS}.master.Master", *words))
        master = _find(log, r"Starting Spark master at (spark://\S+)")
        homes = [directory / f"worker-{number}" for number in range(workers)]
        for number, home in enumerate(homes):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(home))
            stack.enter_context(
                _server(directory / f"worker-{number}.log", f"{_CLASS}.worker.Worker", *words, *more, master)
            )
        for number in range(workers):
            _find(directory / f"worker-{number}.log", r"Successfully registered with master")
        yield SparkCluster(master, homes)


@contextmanager
def _server(log: Path, *words: str) -> Iterator[None]:
    start = _PACKAGE / "bin" / "spark-class"
    environment = os.environ | {"SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m"}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(start), *words], stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _find(log: Path, pattern: str) -> str:
    end_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < end_s:
        found = re.search(pattern, log.read_text(encoding="utf-8", errors="replace"))
        if found:
            return found[found.re.groups]
        time.sleep(_LOOK_S)
    raise AssertionError(f"{log.name} never said {pattern!r}: {log.read_text()[-2000:]}")
