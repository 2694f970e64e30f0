"""What a process that Spark started logs is in Spark's log, and a driver's program decides itself."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


def _stderr(main: str) -> str:
    script = (
        "import sys\n"
        "from importlib.machinery import ModuleSpec\n"
        f"sys.modules['__main__'].__spec__ = ModuleSpec({main!r}, None)\n"
        "import logging, steelyard.spark.worker\n"
        "logging.getLogger('steelyard.spark').warning('it is lost and skipped')\n"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stderr


def test_warnings_of_a_worker_are_on_its_stderr() -> None:
    assert _stderr("pyspark.daemon").endswith(" WARNING steelyard.spark: it is lost and skipped\n")


def test_those_of_another_program_are_its_own_affair() -> None:
    assert _stderr("nightly_job") == ""
