"""Python examples of a page run as they stand: from the top, in one namespace, with a cluster at their address.

- A page may write ``localhost:9876``: it means the cluster of the test.
- ``<!-- not run: REASON -->`` above a fence keeps it from running; the reason is for the reader.
- ``<!-- prints -->`` above the fence that follows it (of any other language) is what it prints, word for word.
- A fence with ``>>>`` runs as a doctest. One with tests is put into a file, and pytest runs all of a page together.

Left out: what is typed at a shell, see commands.py and typing_along.py.
"""

import code
import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from tests import forkserver
from tests.tidy.tree import Fence, fences

ADDRESS = "localhost:9876"
"""Where pages say that the cluster is."""

_PYTHON = ("python", "py", "python3", "pycon")
_NOT_RUN, _PRINTS = "not run", "prints"
_TEST = re.compile(r"^(async )?def test_", re.MULTILINE)
_SECONDS = 60


def python_fences(page: str, text: str) -> list[Fence]:
    """Return the fences of a page that are Python."""
    return [fence for fence in fences(page, text) if fence.language.partition(" ")[0] in _PYTHON]


def has_tests(page: str, text: str) -> bool:
    """Say whether a page has tests, which a pytest of its own runs."""
    return any(_TEST.search(fence.text) for fence in python_fences(page, text))


def is_run(fence: Fence) -> bool:
    """Say whether an example is to be run."""
    return not fence.comment.startswith(_NOT_RUN)


def page_complaints(
    page: str, text: str, namesrv: str, directory: Path, meant: Mapping[str, str] | None = None
) -> list[str]:
    """Run the examples of a page and say which do not do what they show; ``meant`` is what some words stand for."""
    for written, instead in {ADDRESS: namesrv, **(meant or {})}.items():
        text = text.replace(written, instead)
    found = fences(page, text)
    complaints = [
        f"{page}:{fence.line} is never closed: the rest of the page is taken for an example"
        for fence in found
        if not fence.is_closed
    ]
    following = {before: after for before, after in pairwise(found) if after.comment == _PRINTS}
    reader = _Reader(directory)
    tests: list[Fence] = []
    for fence in python_fences(page, text):
        if not is_run(fence):
            if not fence.comment.removeprefix(_NOT_RUN).strip(": "):
                complaints.append(f"{page}:{fence.line} is not run and needs a reason: <!-- not run: the reason -->")
        elif _TEST.search(fence.text):
            tests.append(fence)
        elif problem := reader.run(fence):
            complaints.append(f"{problem}: mend the example, or put <!-- not run: the reason --> above it")
        elif fence in following and reader.printed.rstrip() != following[fence].text.rstrip():
            complaints.append(f"{page}:{fence.line} prints {reader.printed.rstrip()!r}, and the page says otherwise")
    if tests and (problem := _failing_tests(tests, namesrv, directory)):
        complaints.append(f"{page}: its tests do not pass\n{problem}")
    return complaints


class _Reader(code.InteractiveInterpreter):
    """Somebody who types a page, line by line, into one Python."""

    def __init__(self, directory: Path) -> None:
        super().__init__({"__name__": "__example__"})
        self.printed = ""
        self._directory = directory
        self._problem = ""
        self._path = ""

    def run(self, fence: Fence) -> str:
        """Run an example, and return what is wrong with it."""
        self._problem = ""
        self._path = f"{fence.page}:{fence.line}"
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.chdir(self._directory):
            if ">>> " in fence.text:
                self._doctest(fence, out)
            else:
                # Blank lines put it where the page has it.
                source = "\n" * fence.line + fence.text
                self._compiled(fence, source)
        self.printed = out.getvalue()
        return self._problem

    def _compiled(self, fence: Fence, source: str) -> None:
        try:
            made = compile(source, self._path, "exec")
        except SyntaxError as error:
            self._problem = f"{fence.page}:{error.lineno} is no Python: {error.msg}"
            return
        try:
            self.runcode(made)
        except SystemExit:
            self._problem = f"{self._path} ends the program"

    def _doctest(self, fence: Fence, out: io.StringIO) -> None:
        example = doctest.DocTestParser().get_doctest(fence.text, dict(self.locals), fence.page, fence.page, fence.line)
        runner = doctest.DocTestRunner()
        if runner.run(example, out=out.write, clear_globs=False).failed:
            self._problem = f"{self._path} does not do what it shows\n{out.getvalue()}"
        self.locals.update(example.globs)

    def showtraceback(self) -> None:
        """Note what an example raised, and where on the page."""
        _, error, trace = sys.exc_info()
        lines = [entry.lineno for entry in traceback.extract_tb(trace) if entry.filename == self._path]
        at = f"{self._path.rpartition(':')[0]}:{lines[-1]}" if lines and lines[-1] else self._path
        self._problem = f"{at} raises {error!r}"


def _failing_tests(tests: list[Fence], namesrv: str, directory: Path) -> str:
    """Run the tests of a page as somebody does who has copied them, and return what pytest says if they fail."""
    (directory / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    file = directory / "test_of_the_page.py"
    file.write_text("\n\n".join(fence.text for fence in tests), encoding="utf-8")
    ran = subprocess.run(
        [*forkserver.python(), "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", file.name],
        cwd=directory,
        env={**os.environ, "NAMESRV_ADDR": namesrv},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return ran.stdout + ran.stderr if ran.returncode else ""
