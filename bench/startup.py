"""What people wait for: help, a test that does not use the plug-in, a cluster in a test, `steelyard up`.

Each is a process of its own beside one that does all the rest, bare Python or pytest without us, in turns. What is told
is how much more it took, wall time and processor time, by the medians.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.broker_alone import ready_time
from bench.table import Row

_TURNS = 15
_MANY_TESTS = 100
_HELP_MS, _UNUSED_MS, _SESSION_MS, _TEST_MS = 150.0, 60.0, 300.0, 5.0
_TESTS = {
    "empty": "def test_nothing():\n    pass\n",
    "cluster": "def test_it(mq_cluster):\n    assert mq_cluster.address\n",
    "one": "def test_it(mq):\n    assert mq.address\n",
    "many": "import pytest\n@pytest.mark.parametrize('turn', range({many}))\n"
    "def test_it(mq, turn):\n    assert mq.address\n",
    "many_empty": "import pytest\n@pytest.mark.parametrize('turn', range({many}))\ndef test_nothing(turn):\n    pass\n",
}


class ProcessTime(NamedTuple):
    """How long a process took, in milliseconds."""

    wall_ms: float
    cpu_ms: float

    def __sub__(self, other: "ProcessTime") -> "ProcessTime":
        """Return how much longer it took than another one."""
        return ProcessTime(self.wall_ms - other.wall_ms, self.cpu_ms - other.cpu_ms)

    def __str__(self) -> str:
        """Write both."""
        return f"{self.wall_ms:.1f} ms, {self.cpu_ms:.1f} ms of CPU"


def run() -> Iterator[Row]:
    """Measure all of it."""
    with tempfile.TemporaryDirectory(prefix="steelyard-bench-") as name:
        yield from _help(Path(name))
        yield from _pytest(Path(name))
    yield from ready_time()


def _help(directory: Path) -> Iterator[Row]:
    for words in (["--help"], ["topic", "--help"]):
        ours, bare = _time_in_turns([_python("-m", "steelyard", *words), _python("-c", "pass")], directory)
        yield _row(f"steelyard {' '.join(words)}, over Python alone", ours - bare, f"Python alone: {bare}", _HELP_MS)


def _pytest(directory: Path) -> Iterator[Row]:
    for name, text in _TESTS.items():
        (directory / f"test_{name}.py").write_text(text.format(many=_MANY_TESTS), encoding="utf-8")
    with_it, without = _time_in_turns([_tests("empty"), _tests("empty", plugged=False)], directory)
    yield _row("pytest with the plug-in unused", with_it - without, f"without it: {without}", _UNUSED_MS)
    cluster, empty = _time_in_turns([_tests("cluster"), _tests("empty")], directory)
    yield _row("a session with mq_cluster, start and stop", cluster - empty, f"without: {empty}", _SESSION_MS)
    # The first test of a process loads brokers and clients; each one after it is what is asked for.
    one, many, plain, many_plain = _time_in_turns(
        [_tests("one"), _tests("many"), _tests("empty"), _tests("many_empty")], directory
    )
    more = (many - one) - (many_plain - plain)
    each = ProcessTime(*(ms / (_MANY_TESTS - 1) for ms in more))
    yield _row("a test with mq, over one without", each, f"{_MANY_TESTS} tests in one process", _TEST_MS)


def _row(what: str, more: ProcessTime, beside: str, goal_ms: float) -> Row:
    met = more.wall_ms <= goal_ms and more.cpu_ms <= goal_ms
    return Row(what, str(more), beside, "", f"≤ {goal_ms:g} ms, both", met)


def _python(*words: str) -> list[str]:
    return [sys.executable, *words]


def _tests(name: str, *, plugged: bool = True) -> list[str]:
    plug = ("-p", "steelyard.testing.plugin") if plugged else ()
    return _python("-m", "pytest", "-q", "-p", "no:cacheprovider", *plug, f"test_{name}.py")


def _time_in_turns(commands: Sequence[list[str]], directory: Path) -> list[ProcessTime]:
    """Run some commands in turns, and return the medians of each; the first turn compiles what is not yet."""
    turns = [[_time_process(command, directory) for command in commands] for _ in range(1 + _TURNS)][1:]
    return [
        ProcessTime(median(each.wall_ms for each in runs), median(each.cpu_ms for each in runs))
        for runs in zip(*turns, strict=True)
    ]


def _time_process(command: list[str], directory: Path) -> ProcessTime:
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        # Whatever is installed is compiled: here too, whether this tree is or not.
        "PYTHONPYCACHEPREFIX": str(directory / "compiled"),
        # Nobody else's plug-ins: they would only add noise to both sides.
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    began = perf_counter()
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        wall_ms = (perf_counter() - began) * 1000
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output = b"" if process.stderr is None else process.stderr.read()
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {output.decode()[-500:]}")
    return ProcessTime(wall_ms, (used.ru_utime + used.ru_stime) * 1000)
