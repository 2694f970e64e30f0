"""A process that puts a broker under load: what it says, what it takes of the machine, and its end.

It ends by its own handle. What it leaves behind, logs above all, lies in a home that goes away with it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

_END_S = 60
_ROOT = Path(__file__).parent.parent


def cpu_s(pid: int) -> float:
    """Return how much of a processor a process has used so far."""
    # The name of the program, in parentheses, may have blanks in it.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """A program while it runs. It may tell what it counts, a line of JSON each time."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output
        self._used_s, self._held_bytes = 0.0, 0

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def output(self) -> str:
        """Return what it has printed so far."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def reported(self) -> dict[str, int]:
        """Return the counts that it has told last; none before it told any."""
        for line in reversed(self.output().split("\n")[:-1]):
            # Libraries print what they like, in the middle of a line, too.
            if line.startswith("{") and line.endswith("}") and line.count("{") == 1:
                counts: dict[str, int] = json.loads(line)
                return counts
        return {}

    @property
    def failed(self) -> int:
        """How many sends failed, as far as it has told."""
        return self.reported().get("failed", 0)

    def cpu_s(self) -> float:
        """Return how much of a processor it has used so far; what was last seen, once it has ended."""
        if self.is_running:
            self._used_s = cpu_s(self._process.pid)
        return self._used_s

    def resident_bytes(self) -> int:
        """Return how much memory it holds; what was last seen, once it has ended."""
        if self.is_running:
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1]
            self._held_bytes = int(pages) * os.sysconf("SC_PAGE_SIZE")
        return self._held_bytes

    def wait(self) -> None:
        """Wait until it ends by itself."""
        self._process.wait(_END_S)

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_Kind = TypeVar("_Kind", bound=Load)


@contextmanager
def running_load(
    kind: type[_Kind], command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[_Kind]:
    """Run a program, in a home of its own that is its directory too, until it is no longer needed."""
    with TemporaryDirectory(prefix="steelyard-load-") as home:
        with (output := Path(home) / "said").open("wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=home,
                env=os.environ | {"HOME": home} | dict(environment or {}),
            )
        load = kind(process, output)
        try:
            yield load
        finally:
            load.stop()


def running_python(module: str, words: Sequence[str], *folders: Path) -> AbstractContextManager[Load]:
    """Run a module of this project as a program; it finds packages in the folders, too."""
    path = os.pathsep.join(map(str, (_ROOT, *folders)))
    return running_load(Load, [sys.executable, "-m", module, *words], {"PYTHONPATH": path})
