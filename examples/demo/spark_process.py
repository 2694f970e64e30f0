"""Spark in the demo, seen from outside: starts the process of spark_job.py, reads its events, kills and restarts it.

Its temporary files go below the demo's directory, which is deleted at the end. The process is killed with all that it
started: Spark's Java has a session of its own, and children. Without Spark or Java the demo runs without it.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from examples.demo.spark_job import BatchArchived, ParquetCount, SparkStarted, WindowCount, decode_event

_CHECKOUT = Path(__file__).resolve().parents[2]
_PROC = Path("/proc")
_EXIT_TIMEOUT_S = 5.0
_EXIT_POLL_S = 0.02


def kill_process_tree(pid: int) -> None:
    """Kill -9 a process and all its descendants, and wait until they are gone."""
    tree: set[int] = set()
    more = {pid}
    while more:
        tree |= more
        _signal_all(more, signal.SIGSTOP)  # so that they start no others meanwhile
        more = {child for child, parent in _parent_pids().items() if parent in tree} - tree
    _signal_all(tree, signal.SIGKILL)
    end = time.monotonic() + _EXIT_TIMEOUT_S
    # The process itself stays listed until its parent has waited for it.
    while (tree - {pid}) & _parent_pids().keys() and time.monotonic() < end:
        time.sleep(_EXIT_POLL_S)


def _signal_all(pids: set[int], number: signal.Signals) -> None:
    for member in sorted(pids):
        with suppress(ProcessLookupError):
            os.kill(member, number)


def _parent_pids() -> dict[int, int]:
    """Return the parent of every running process: from /proc, or from ps where there is none (macOS)."""
    if (_PROC / "self" / "stat").exists():
        lines = [_read_stat(directory) for directory in _PROC.iterdir() if directory.name.isdigit()]
    else:
        command = [shutil.which("ps") or "ps", "-A", "-o", "pid=,state=,ppid="]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split() for line in lines if line]
    return {int(child): int(parent) for child, state, parent, *_ in rows if not state.startswith("Z")}


def _read_stat(directory: Path) -> str:
    """Return a process's id, state and parent; empty if it is gone. Its name may contain anything."""
    try:
        text = (directory / "stat").read_text(errors="replace")
    except OSError:
        return ""
    return f"{directory.name} {text.rpartition(')')[2]}"


WindowTable = dict[tuple[int, str], int]
"""Messages stored in each window, by its start (milliseconds of the demo) and broker."""

FAST_START_JVM_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    # In half a minute optimizing compilation and verifying Spark's own classes do not pay off: without them it takes
    # three fifths of the CPU time.
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
    # Otherwise a file stays behind in /tmp, whatever TMPDIR is.
    "-XX:-UsePerfData",
)


class SparkProcess:
    """The process that runs Spark, and the events it reported."""

    def __init__(self, namesrv: str, topic: str, directory: Path, begin_ms: int) -> None:
        self._log = directory / "spark.log"
        temporary = directory / "tmp"
        temporary.mkdir(exist_ok=True)
        java = (os.environ.get("JAVA_TOOL_OPTIONS", ""), f"-Djava.io.tmpdir={temporary}", *FAST_START_JVM_OPTIONS)
        self._environment = os.environ | {
            "JAVA_TOOL_OPTIONS": " ".join(java).strip(),
            "SPARK_LOCAL_DIRS": str(temporary),
            "TMPDIR": str(temporary),
            "XDG_CACHE_HOME": str(directory),
            # `-m examples.demo.spark_job` is found whatever the current directory is.
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_CHECKOUT), os.environ.get("PYTHONPATH")))),
        }
        self._manifests = directory / "lake.checkpoint" / "output" / "sealed"
        self._command = [
            *(sys.executable, "-m", "examples.demo.spark_job"),
            *(namesrv, topic, str(directory), str(begin_ms)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._table: WindowTable = {}
        self._archived: list[BatchArchived] = []
        self.up_after_s: float | None = None
        """How long Spark took to start; None until it has."""
        self.lake: ParquetCount | None = None
        """Its count of the Parquet files, at the end."""

    def prepare(self) -> str:
        """Return which Spark and Java will run; raise MissingExtra or another error if they cannot."""
        from examples.demo.spark_job import MASTER
        from steelyard.spark.spark_session import prepare

        return prepare(dict(self._environment), master=MASTER)

    def start(self) -> None:
        """Start it, or restart it: it resumes from its checkpoints."""
        self.up_after_s = None
        self._archived = []
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is for the demo, which stops its processes itself.
                start_new_session=True,
            )
        self._process = process
        self._thread = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Have it read to the end, count and exit."""
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has exited already; its log says why
            os.write(self._process.stdin.fileno(), b"end\n")

    def kill(self) -> None:
        """Kill it with all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        kill_process_tree(process.pid)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if self._thread is not None:
            self._thread.join()

    @property
    def archived(self) -> list[BatchArchived]:
        """The batches that were written since it was started last."""
        with self._lock:
            return list(self._archived)

    def last_published(self) -> int:
        """Return the last batch whose files were published, from the manifests: its events come a little later.

        Spark may not have committed it: then it replays the batch without reading, and the next is the first with rows.
        Call it once it has written something.
        """
        return max(int(manifest.stem.removeprefix("batch-")) for manifest in self._manifests.glob("batch-*.json"))

    def table(self) -> WindowTable:
        """Return the windowed table."""
        with self._lock:
            return dict(self._table)

    def has_written(self) -> bool:
        """Say whether files and table have content."""
        with self._lock:
            return bool(self._archived and self._table)

    @property
    def activity(self) -> str:
        """What it is doing, for people who wait."""
        if self.up_after_s is None:
            return "Java and Spark are starting"
        if not (batches := self.archived):
            return "Spark is up, and its first batch runs"
        return f"Spark has written batch {batches[-1].number}"

    @property
    def failure(self) -> str:
        """The last lines of its log, if it exited without a result; else empty."""
        process, thread = self._process, self._thread
        if process is None or thread is None or thread.is_alive() or process.poll() is None or self.lake is not None:
            return ""
        lines = self._log.read_text(errors="replace").splitlines()
        messages = [line for line in lines if line and not line[0].isspace()]  # stack traces are indented
        return " ".join(messages[-3:]) or f"no log; its exit code is {process.returncode}"

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):  # a killed process may leave half a line
                    self._handle_line(line)

    def _handle_line(self, line: bytes) -> None:
        try:
            event = decode_event(line)
        except msgspec.DecodeError:
            return  # output of Java or Spark
        with self._lock:
            match event:
                case SparkStarted(took_s):
                    self.up_after_s = took_s
                case BatchArchived():
                    self._archived.append(event)
                case WindowCount(start_ms, broker, messages):
                    self._table[start_ms, broker] = messages
                case ParquetCount():
                    self.lake = event
