"""A Spark cluster of its own: a master and workers as processes, from the same package that the driver uses."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from steelyard.spark.local import prepare

__all__ = ["standalone"]

_CLASS = "org.apache.spark.deploy"
_LONGEST_S = 120.0
_LOOK_S = 0.05


@contextmanager
def standalone(directory: Path, workers: int = 2) -> Iterator[str]:
    """Run a master and workers of one core each, and yield the master's address."""
    prepare()
    with ExitStack() as stack:
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = directory / "master.log"
        stack.enter_context(_server(log, f"{_CLASS}.master.Master", *words))
        master = _find(log, r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            more = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}"))
            stack.enter_context(
                _server(directory / f"worker-{number}.log", f"{_CLASS}.worker.Worker", *words, *more, master)
            )
        for number in range(workers):
            _find(directory / f"worker-{number}.log", r"Successfully registered with master")
        yield master


@contextmanager
def _server(log: Path, *words: str) -> Iterator[None]:
    start = Path(pyspark.__file__).parent / "bin" / "spark-class"
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
