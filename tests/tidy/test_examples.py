"""Every Python example of README and its neighbours runs as it stands, or says on the line above why it does not.

- ``<!-- not run: REASON -->`` above a fence keeps it from running; the reason is for the reader.
- ``<!-- prints -->`` above the fence that follows it (of any other language) is what it prints, word for word.
- A fence with ``>>>`` runs as a doctest.

Each example runs alone, in a namespace of its own, and line numbers in a failure are those of the page. Pages under
docs have a cluster, and each is one namespace: tests/docs/test_python.py.
"""

import contextlib
import doctest
import io
import runpy
from itertools import pairwise
from pathlib import Path

import pytest
from tests.tidy.tree import ROOT, Fence, complain, fences, pages

_PYTHON = ("python", "py", "python3", "pycon")
_NOT_RUN = "not run"
_PRINTS = "prints"


def test_every_example_runs_or_says_why_not(tmp_path: Path) -> None:
    complain(
        line
        for page in pages()
        if not page.startswith("docs/")
        for line in example_complaints(page, (ROOT / page).read_text(encoding="utf-8"), tmp_path)
    )


def test_a_broken_example_is_seen(tmp_path: Path) -> None:
    def said(text: str) -> list[str]:
        return example_complaints("page.md", text, tmp_path)

    assert not said("```python\nprint(1)\n```\n\n```console\n$ nothing\n```\n```text\nfree\n```")
    assert not said("<!-- not run: needs a server -->\n```python\n1 / 0\n```")
    assert "needs a reason" in said("<!-- not run: -->\n```python\n1 / 0\n```")[0]
    assert "page.md:4" in said("words\n\n```python\n1 / 0\n```")[0]
    assert not said("```python\nprint('a')\n```\n<!-- prints -->\n```text\na\n```")
    assert "prints 'a'" in said("```python\nprint('a')\n```\n<!-- prints -->\n```text\nb\n```")[0]
    assert not said("```python\n>>> 1 + 1\n2\n```")
    assert "page.md:1" in said("```python\n>>> 1 + 1\n3\n```")[0]
    assert "ends the program" in said("```python\nraise SystemExit\n```")[0]
    assert "raises" in said("```Python\n1 / 0\n```")[0]
    assert "page.md:3 is never closed" in said("words\n\n```python\n1 / 0\n")[0]


def test_an_example_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    assert example_complaints("page.md", "```python\nx = 1\n```\n\n```python\nprint(x)\n```", tmp_path)


def example_complaints(page: str, text: str, directory: Path) -> list[str]:
    """Run the examples of a page and say which do not do what they show."""
    complaints: list[str] = []
    found = fences(page, text)
    following = {before: after for before, after in pairwise(found) if after.comment == _PRINTS}
    for fence in found:
        if not fence.is_closed:
            complaints.append(f"{page}:{fence.line} is never closed: the rest of the page is taken for an example")
            continue
        if fence.language not in _PYTHON:
            continue
        if fence.comment.startswith(_NOT_RUN):
            if not fence.comment.removeprefix(_NOT_RUN).strip(": "):
                complaints.append(f"{page}:{fence.line} is not run and needs a reason: <!-- not run: the reason -->")
            continue
        printed, problem = _run(fence, directory)
        if problem:
            complaints.append(f"{problem}: mend the example, or put <!-- not run: the reason --> above it")
        elif fence in following and printed.rstrip() != following[fence].text.rstrip():
            complaints.append(f"{page}:{fence.line} prints {printed.rstrip()!r}, and the page says otherwise")
    return complaints


def _run(fence: Fence, directory: Path) -> tuple[str, str]:
    printed = io.StringIO()
    if ">>> " in fence.text:
        example = doctest.DocTestParser().get_doctest(fence.text, {}, fence.page, fence.page, fence.line)
        failed = doctest.DocTestRunner().run(example, out=printed.write).failed
        return "", f"{fence.page}:{fence.line} does not do what it shows\n{printed.getvalue()}" if failed else ""
    # A file and not a string: a traceback then shows the line. Blank lines put it where the page has it.
    path = directory / f"{fence.page.replace('/', '-')}-{fence.line}.py"
    path.write_text("\n" * fence.line + fence.text, encoding="utf-8")
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__example__")
    except SystemExit:
        return "", f"{fence.page}:{fence.line} ends the program"
    except Exception as error:
        caught = pytest.ExceptionInfo.from_exception(error)
        lines = [entry.lineno + 1 for entry in caught.traceback if Path(entry.path) == path]
        return "", f"{fence.page}:{lines[-1] if lines else fence.line} raises {error!r}"
    return printed.getvalue(), ""
