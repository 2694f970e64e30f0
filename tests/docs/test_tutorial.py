"""The tutorial typed from the top, in a fresh environment: what a newcomer does, and what a newcomer sees.

The project is built into a wheel and installed by pip with what it needs from the reader's own index, into an
environment that the tutorial makes itself. The part with Spark fetches some hundred megabytes: it is typed with
STEELYARD_SLOW=1, and tests/spark/test_pages.py runs its program with every change.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.typing_along import Saved, Typed, parts_of, type_along
from tests.docs.written import TUTORIAL, read
from tests.tidy.tree import ROOT

_SECONDS = 900
_SPARK = "## Three lines of Spark"
_OFFLINE = ("Could not find a version that satisfies", "Connection", "Temporary failure in name resolution")


@pytest.mark.timeout(_SECONDS)
def test_the_tutorial_typed_from_the_top_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    text = read(TUTORIAL)
    short, spark, _ = text.partition(_SPARK)
    assert spark, f"{TUTORIAL} has no part {_SPARK!r}"
    asked = text if os.environ.get("STEELYARD_SLOW") else short
    here = tmp_path / "tutorial"
    here.mkdir()
    # pip takes what was just built for the name that the reader types.
    constraints = tmp_path / "constraints.txt"
    constraints.write_text(f"steelyard=={wheel.name.split('-')[1]}\n", encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("STEELYARD_", "PYTHON"))},
        "PATH": os.pathsep.join((str(Path(sys.base_prefix) / "bin"), os.environ["PATH"])),
        "PIP_CONSTRAINT": str(constraints),
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "STEELYARD_CONTEXTS": str(tmp_path / "contexts.json"),
        "NO_COLOR": "1",
    }
    environment["PATH"] = f"{here / 'tour' / 'bin'}{os.pathsep}{environment['PATH']}"
    assert type_along(parts_of(TUTORIAL, asked), here, environment)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build the project."""
    made = tmp_path / "wheels"
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and any(word in built.stderr for word in _OFFLINE):
        pytest.skip(f"pip finds no index, so nothing fresh can be made: {built.stderr.strip().splitlines()[-1]}")
    assert not built.returncode, built.stderr
    (found,) = made.iterdir()
    return found


def test_a_page_is_cut_into_what_its_reader_does() -> None:
    file, other = '```python title="a.py"\nx = 1\n```\n', '```console title="Another"\n$ up\nready\n```\n'
    saved, apart, typed = parts_of("page.md", f"{file}{other}```console\n$ go\nwent\n[3]\n```")
    assert saved == Saved("a.py", "x = 1\n")
    assert isinstance(apart, Typed)
    assert apart.is_apart
    assert isinstance(typed, Typed)
    assert [(step.command, step.printed, step.code) for step in typed.steps] == [("go", "went", 3)]


def test_a_page_that_shows_something_else_is_seen(tmp_path: Path) -> None:
    def type_page(text: str) -> int:
        return type_along(parts_of("page.md", f"```console\n{text}\n```"), tmp_path, os.environ)

    assert type_page("$ echo a; false\na\n[1]\n$ sleep 60 &\n$ kill %1") == 3
    with pytest.raises(AssertionError, match="prints\na\nand not\nb"):
        type_page("$ echo a\nb")
    with pytest.raises(AssertionError, match="ends with 1"):
        type_page("$ false")
