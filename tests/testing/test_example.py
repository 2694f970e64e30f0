"""The sample project's own tests pass, as somebody runs them who has just installed it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROJECT = Path(__file__).parents[2] / "examples" / "shop_tests"


@pytest.mark.process
def test_the_tests_of_the_sample_project_pass() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=_PROJECT,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
