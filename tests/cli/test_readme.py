"""What the README shows of the command line is what the command line prints."""

import shlex
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from tests import forkserver
from tests.tidy.tree import ROOT, fences

_LEFT_OUT = "…"


@pytest.mark.process
def test_the_readme_shows_what_the_command_prints(tmp_path: Path) -> None:
    ran = 0
    for fence in fences("README.md", (ROOT / "README.md").read_text(encoding="utf-8")):
        lines = fence.text.splitlines() if fence.language == "console" else []
        for at, line in enumerate(lines):
            shown = list(takewhile(lambda each: not each.startswith("$ "), lines[at + 1 :]))
            if line.startswith("$ cat "):
                (tmp_path / line.removeprefix("$ cat ")).write_text("\n".join(shown), encoding="utf-8")
            elif line.startswith("$ steelyard up"):
                continue  # it runs until it is stopped: tests/cli/test_up.py
            elif line.startswith("$ steelyard "):
                command = [*forkserver.python(), "-m", *shlex.split(line)[1:]]
                done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True)
                printed = iter(map(str.rstrip, done.stdout.splitlines()))
                for wanted in shown:
                    assert wanted == _LEFT_OUT or wanted in printed, f"README.md: {line} does not print {wanted!r}"
                ran += 1
    assert ran
