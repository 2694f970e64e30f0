"""Lanes: which tests `make check` runs, and which tests may not run side by side.

What needs Spark is marked `spark`, by where it lies or by its fixtures, and what of that starts Spark also `java`; what
starts a process is marked `process` in its file; what goes through hundreds of histories or failures is marked
`thorough`. `make check` runs what has none of these marks: no package of Spark's has to be there, and the attempt to
start a process fails. Its properties try a quarter of the examples. `make lowest` runs these and, of `spark`, what
needs no Java. Tests that share a session of Spark run in one worker, one after the other: the group `spark`.
Those that start a Spark of their own and have no use for that one run beside it: the group `spark-alone`.
"""

import gc
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

_ROOT = Path(__file__).parents[1]
QUICK = {"not spark and not process and not thorough", "not java and not process and not thorough"}
"""What `make check` and `make lowest` run."""
_JAVA = {"spark", "spark-alone"}
"""The groups of tests that start Spark."""
_SPARK_S = 240
settings.register_profile("whole", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("whole"), max_examples=25)
# What cannot be imported without the packages of the group `spark`, or of the group `browser`.
_SPARK = [_ROOT / place for place in ("src/pyspark_rocketmq", "src/steelyard/spark", "src/steelyard/pipelines")]
_SPARK += [_ROOT / place for place in ("tests/spark", "tests/pipelines", "tests/cli/test_pipeline.py")]
_NEEDS = {"pyspark": _SPARK, "playwright": [_ROOT / "tests/browser"]}


class Lanes:
    """A plug-in of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._absent = {place for package, places in _NEEDS.items() if find_spec(package) is None for place in places}
        is_quick = config.getoption("markexpr") in QUICK
        settings.load_profile("quick" if is_quick else "whole")
        starts_workers = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
        self._refuses_processes = is_quick and not starts_workers

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Begin to refuse processes: what came before was pytest's own, such as the words for the platform."""
        if self._refuses_processes:
            sys.addaudithook(_refuse_processes)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Let the garbage collector rest, and never look at what is there then: the tests are, to the end."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out what the environment has no packages for."""
        return True if collection_path in self._absent else None

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Look for examples in docstrings only where there are any: each worker would look into every file."""
        found = yield
        # What a package passes on may have examples, too.
        has_examples = file_path.name == "__init__.py" or b">>>" in file_path.read_bytes()
        return found if has_examples else [each for each in found if not isinstance(each, DoctestModule)]

    @pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks, and put into groups
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark what needs Spark, put the tests with a session of Spark together, and give them time."""
        needs_spark = tuple(f"{place}/" for place in _SPARK)
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("spark"))
                if item.get_closest_marker("timeout") is None:
                    item.add_marker(pytest.mark.timeout(_SPARK_S))
            if _group(item) in _JAVA:
                item.add_marker(pytest.mark.java)
            if _group(item) == "spark" or f"{item.path}/".startswith(needs_spark):
                item.add_marker(pytest.mark.spark)


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None else ""


def _refuse_processes(event: str, _: tuple[object, ...]) -> None:
    if event in {"subprocess.Popen", "os.posix_spawn", "os.fork"}:
        raise RuntimeError("`make check` starts no process: mark this test with pytest.mark.process")
