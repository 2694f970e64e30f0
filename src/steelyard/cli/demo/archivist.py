"""Spark in the demo: a process that archives the topic while all else happens, and is killed in the middle of it.

It is `steelyard pipeline run archive`, every second, and dies with its JVM and its workers. Who goes on with its
checkpoint afterwards (lake.py) has to find each message, and each once.
"""

import os
import subprocess
import sys
from pathlib import Path

from steelyard.cli.demo.families import kill_family

__all__ = ["Archivist"]


class Archivist:
    """The process, and what it has written."""

    def __init__(self, namesrv: str, topic: str, directory: Path) -> None:
        self.lake = directory / topic
        self._log = directory / "archive.log"
        self._environment = os.environ | {"XDG_CACHE_HOME": str(directory)}
        self._words = [
            *(sys.executable, "-m", "steelyard", "pipeline", "run", "archive", "--namesrv", namesrv),
            *("--topic", topic, "--to", str(self.lake), "--trigger", "1s", "--master", "local[2]"),
            # Who is killed tidies nothing up: what Spark would leave elsewhere goes with the demo's directory.
            *("--conf", f"spark.local.dir={directory}"),
            *("--conf", f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={directory}"),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it writes its first file when Spark is up."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def has_written(self) -> bool:
        """Say whether there is a file."""
        return any(self.lake.rglob("*.parquet"))

    @property
    def complaint(self) -> str:
        """The last lines it said, if it has ended of its own accord; else nothing."""
        if self._process is None or self._process.poll() is None:
            return ""
        return " ".join(self._log.read_text(errors="replace").splitlines()[-3:])

    def kill(self) -> None:
        """Kill it with all that it started: no goodbye, nothing saved."""
        process, self._process = self._process, None
        if process is not None:
            kill_family(process.pid)
            process.wait()
