"""The sample project's own tests pass, as somebody runs them who has just installed it, at a tenth of the intervals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PROJECT = _ROOT / "examples" / "shop_tests"


@pytest.mark.process
def test_the_tests_of_the_sample_project_pass() -> None:
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.intervals"],
        cwd=_PROJECT,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
