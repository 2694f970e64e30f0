"""What the verbs of the Makefile promise, where no run of the suite would show that it is gone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes, leftovers
from tests.tidy.tree import ROOT

_PYTHONS = ROOT / ".ci/pythons"
_MAKE = shutil.which("make")


def _variable(name: str) -> str:
    (text,) = re.findall(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return str(text)


def test_tests_of_one_group_run_in_one_worker() -> None:
    assert re.fullmatch(r"\$\(PY\) -m pytest -n \$\(WORKERS\) --dist loadgroup", _variable("PYTEST"))


def test_the_lanes_know_what_the_verbs_leave_out() -> None:
    assert {_variable("UNIT"), _variable("LOWEST")} == lanes.QUICK


def test_the_lowest_versions_are_resolved_in_one_call() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = text.partition("\nlowest:")[2].partition("\n\n")[0]
    (installs,) = re.findall(r"uv pip install .*", recipe)
    assert "--resolution lowest-direct -e '.[all,pipelines]' --group tools" in installs
    assert "constraints.txt" not in installs


@pytest.mark.process
def test_pythons_that_cannot_be_run_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "python3.12").symlink_to(tmp_path / "gone")
    (tmp_path / "python3.13").mkdir()
    (tmp_path / "python3.14").write_text("no program", encoding="utf-8")
    (tmp_path / "python3.15").write_text("#!/bin/sh\necho nonsense\n", encoding="utf-8")
    (tmp_path / "python3.15").chmod(0o755)
    (tmp_path / "python3").symlink_to(sys.executable)
    code, said = _ends([sys.executable, str(_PYTHONS)], PATH=str(tmp_path), HOME=str(tmp_path))
    assert code == 0
    assert said.splitlines()[-1] == str(tmp_path / "python3") or "/usr/bin/python3" in said
    assert not any(f"{tmp_path}/python3.{minor}" in said for minor in (12, 13, 14, 15))


@pytest.mark.process
@pytest.mark.skipif(_MAKE is None, reason="make is not installed")
def test_where_no_python_is_found_the_verb_fails() -> None:
    code, said = _ends(["make", "PYTHON=/bin/false", "pythons"], PATH=os.environ["PATH"], HOME=os.environ["HOME"])
    assert code != 0
    assert ".ci/pythons found no Python to test with" in said


def _ends(command: list[str], **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=ROOT, env={**environment, **leftovers.mark()}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr
