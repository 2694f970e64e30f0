"""The demo's side of Spark: starts its process (lake_job.py), listens to it, kills it, and has another go on.

What the process would leave behind when it is killed goes below the demo's directory, and with it. Whether there is a
Spark, and a Java for it, is asked before anything is started: the story can be told without.
"""

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from steelyard.cli.demo.families import kill_family
from steelyard.cli.demo.lake import Archived, Lake, Started, Window, news_of

__all__ = ["QUICK_TO_START", "Archivist", "Table"]

Table = dict[tuple[int, str], int]
"""How many messages were stored in each window, by when it began (milliseconds of the demo) and by broker."""

QUICK_TO_START = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    # In half a minute it does not pay to compile well, nor to check classes that are Spark's own: without that it takes
    # three fifths of the processor's time.
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
    # A file that would stay behind in /tmp, wherever the directory for temporary files is.
    "-XX:-UsePerfData",
)


class Archivist:
    """The process that reads along, and what it has told."""

    def __init__(self, namesrv: str, topic: str, directory: Path, begin_ms: int) -> None:
        """Take note of where to read and to write; windows are counted from ``begin_ms``."""
        self._log = directory / "spark.log"
        temporary = directory / "tmp"
        temporary.mkdir(exist_ok=True)
        java = (os.environ.get("JAVA_TOOL_OPTIONS", ""), f"-Djava.io.tmpdir={temporary}", *QUICK_TO_START)
        self._environment = os.environ | {
            "JAVA_TOOL_OPTIONS": " ".join(java).strip(),
            "SPARK_LOCAL_DIRS": str(temporary),
            "TMPDIR": str(temporary),
            "XDG_CACHE_HOME": str(directory),
        }
        self._commits = directory / "lake.checkpoint" / "query" / "commits"
        self._words = [
            *(sys.executable, "-m", "steelyard.cli.demo.lake_job"),
            *(namesrv, topic, str(directory), str(begin_ms)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._table: Table = {}
        self._archived: list[Archived] = []
        self.up_after_s: float | None = None
        """How long it took Spark to be up, when it is."""
        self.lake: Lake | None = None
        """What it counted at the end."""

    def prepare(self) -> str:
        """Return which Spark and Java will run; raises MissingExtra, or what else is wrong with them."""
        from steelyard.cli.demo.lake_job import MASTER
        from steelyard.spark.local import prepare

        return prepare(dict(self._environment), master=MASTER)

    def start(self) -> None:
        """Start it, or start it again: it goes on where its checkpoints say."""
        self.up_after_s = None
        self._archived = []
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._words,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is for the demo: it ends what it has started itself.
                start_new_session=True,
            )
        self._process = process
        self._thread = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Say that nothing more will come: it reads to the end, counts and ends."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # if it has ended already, why stands in its log
            os.write(self._process.stdin.fileno(), b"end\n")

    def kill(self) -> None:
        """Kill it with all that it started: no goodbye, nothing saved."""
        process, self._process = self._process, None
        if process is None:
            return
        kill_family(process.pid)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if self._thread is not None:
            self._thread.join()

    # -- what it has told ---------------------------------------------------------------------------------------------

    @property
    def archived(self) -> list[Archived]:
        """The batches that are in the files since it was started last."""
        with self._lock:
            return list(self._archived)

    def last_committed(self) -> int:
        """Return the last batch that Spark has committed, as its checkpoint says: it tells of batches a little later.

        Call it once it has written something.
        """
        return max(int(commit.name) for commit in self._commits.iterdir() if commit.name.isdigit())

    def table(self) -> Table:
        """Return the table of windows as it stands."""
        with self._lock:
            return dict(self._table)

    def has_written(self) -> bool:
        """Say whether it has got something into files and table."""
        with self._lock:
            return bool(self._archived and self._table)

    @property
    def doing(self) -> str:
        """What it is busy with, for people who wait for it."""
        if self.up_after_s is None:
            return "Java and Spark are starting"
        if not (batches := self.archived):
            return "Spark is up, and its first batch is under way"
        return f"Spark has written batch {batches[-1].number}"

    @property
    def complaint(self) -> str:
        """The last lines that it said, if it has ended without an answer; else nothing."""
        process, thread = self._process, self._thread
        if process is None or thread is None or thread.is_alive() or process.poll() is None or self.lake is not None:
            return ""
        said = self._log.read_text(errors="replace").splitlines()
        told = [line for line in said if line and not line[0].isspace()]  # what is indented are stacks
        return " ".join(told[-3:]) or f"it said nothing; its exit code is {process.returncode}"

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):  # half a line is the last breath of one that was killed
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            news = news_of(line)
        except msgspec.DecodeError:
            return  # something of Java's or Spark's own
        with self._lock:
            match news:
                case Started(took_s):
                    self.up_after_s = took_s
                case Archived():
                    self._archived.append(news)
                case Window(start_ms, broker, messages):
                    self._table[start_ms, broker] = messages
                case Lake():
                    self.lake = news
