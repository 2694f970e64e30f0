"""The tutorial typed from the top, in a fresh environment: what a newcomer does, and what a newcomer sees.

With STEELYARD_SLOW=1 it is typed whole: pip builds the project and installs it with what it needs from the reader's own
index, into an environment that the tutorial makes itself. Else no index is asked: the environment gets a wheel of the
tree and what the extras that the page names need, and nothing else. The part with Spark, which fetches some hundred
megabytes, is left out then; tests/spark/test_docs_examples.py runs its program with every change.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from tests import leftovers
from tests.docs.docs_pages import TUTORIAL, read
from tests.docs.shell_session import Saved, Typed, parts_of, type_along
from tests.packaging.building import Built, bare
from tests.tidy.tree import ROOT

_SECONDS = 900
_SPARK = "## Three lines of Spark"
_MAKES = "$ python3 -m venv tour\n"
_INSTALLS = re.compile(r"^\$ pip install --quiet '\.\./steelyard\[([\w,]+)\]'\n", re.MULTILINE)
_INSTALLING = re.compile(r"^\S+ `pip install [^`]+` (?:prints|ends)\b")
_OFFLINE = ("Could not find a version that satisfies", "Connection", "Temporary failure in name resolution")


@pytest.mark.process
@pytest.mark.xdist_group("packaging")
@pytest.mark.timeout(_SECONDS)
def test_the_tutorial_typed_from_the_top_in_a_fresh_environment(tmp_path: Path, built: Built) -> None:
    text = read(TUTORIAL)
    here = tmp_path / "tutorial"
    here.mkdir()
    if not os.environ.get("STEELYARD_SLOW"):
        before, spark, _ = text.partition(_SPARK)
        assert spark, f"{TUTORIAL} has no part {_SPARK!r}"
        installs = _INSTALLS.search(before)
        assert installs is not None, f"{TUTORIAL} does not install the project beside it"
        assert _MAKES in before, f"{TUTORIAL} does not make its environment by {_MAKES!r}"
        bare(here / "tour", built.wheel, *installs[1].split(","))
        text = before.replace(_MAKES, "").replace(installs[0], "")
    (tmp_path / "steelyard").symlink_to(ROOT)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("STEELYARD_", "PYTHON"))},
        **leftovers.mark(),
        "PATH": os.pathsep.join((str(Path(sys.base_prefix) / "bin"), os.environ["PATH"])),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "STEELYARD_CONTEXTS": str(tmp_path / "contexts.json"),
        "NO_COLOR": "1",
    }
    environment["PATH"] = f"{here / 'tour' / 'bin'}{os.pathsep}{environment['PATH']}"
    try:
        assert type_along(parts_of(TUTORIAL, text), here, environment)
    except AssertionError as error:
        if _INSTALLING.search(str(error)) and any(word in str(error) for word in _OFFLINE):
            pytest.skip(f"pip finds no index, so nothing fresh can be made: {error}")
        raise


def test_a_page_is_cut_into_what_its_reader_does() -> None:
    file, other = '```python title="a.py"\nx = 1\n```\n', '```console title="Another"\n$ up\nready\n```\n'
    saved, apart, typed = parts_of("page.md", f"{file}{other}```console\n$ go\nwent\n[3]\n```")
    assert saved == Saved("a.py", "x = 1\n")
    assert isinstance(apart, Typed)
    assert apart.is_apart
    assert isinstance(typed, Typed)
    assert [(step.command, step.printed, step.code) for step in typed.steps] == [("go", "went", 3)]


@pytest.mark.process
def test_a_page_that_shows_something_else_is_seen(tmp_path: Path) -> None:
    def type_page(text: str) -> int:
        return type_along(parts_of("page.md", f"```console\n{text}\n```"), tmp_path, os.environ)

    assert type_page("$ echo a; false\na\n[1]\n$ sleep 60 &\n$ kill %1") == 3
    with pytest.raises(AssertionError, match="prints\na\nand not\nb"):
        type_page("$ echo a\nb")
    with pytest.raises(AssertionError, match="ends with 1"):
        type_page("$ false")
