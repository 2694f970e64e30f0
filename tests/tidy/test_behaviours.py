"""The page of behaviours keeps every promise with its id, and a promise kept names the file and the test that show it.

A row is ``| id | sentence | file that does it | test that shows it |``. What has not landed says ``planned``; what has
landed in part says so with a file, a test and ``partly``.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.tidy.tree import ROOT, complain

_GROUPS = {"A": 14, "B": 8, "C": 9, "D": 13, "E": 11, "F": 14, "G": 5}
_IDS = [f"{group}{number}" for group, count in _GROUPS.items() for number in range(1, count + 1)]
_ROW = re.compile(r"^\|\s*([A-Z]\d+)\s*\|(.*)\|\s*$", re.MULTILINE)
_PAGE = "docs/behaviours.md"


def test_every_behaviour_is_on_the_page_and_shown_or_planned() -> None:
    complain(behaviour_complaints((ROOT / _PAGE).read_text(encoding="utf-8")))


def test_a_promise_without_a_test_is_seen() -> None:
    here = "tests/tidy/test_behaviours.py"
    rest = "".join(f"| {name} | It is promised. | planned | planned |\n" for name in _IDS[1:])

    def complaints(row: str) -> list[str]:
        return list(behaviour_complaints(row + "\n" + rest))

    shown = f"`{here}::test_a_promise_without_a_test_is_seen`"
    assert not complaints("| A1 | It is promised. | planned | planned |")
    assert not complaints(f"| A1 | It is promised. | `src/steelyard/errors.py` | {shown} |")
    assert not complaints(f"| A1 | It is promised. | `src/steelyard/errors.py` | partly: {shown} |")
    assert "A1 is missing" in complaints("")[0]
    assert "2 times" in complaints("| A1 | It is. | planned | planned |\n| A1 | It is. | planned | planned |")[0]
    assert "no behaviour" in complaints("| A1 | It is. | planned | planned |\n| H1 | It is. | planned | planned |")[0]
    assert "names no file" in complaints(f"| A1 | It is. |  | {shown} |")[0]
    assert "gone.py" in complaints(f"| A1 | It is. | `src/gone.py` | {shown} |")[0]
    assert "names no test" in complaints("| A1 | It is. | `src/steelyard/errors.py` | see there |")[0]
    assert "test_gone" in complaints(f"| A1 | It is. | `src/steelyard/errors.py` | `{here}::test_gone` |")[0]
    assert "4 cells" in complaints("| A1 | It is. | planned |")[0]


def behaviour_complaints(text: str) -> Iterator[str]:
    """Say what is missing on the page, or named there and gone."""
    rows = [(name, [cell.strip() for cell in cells.split("|")]) for name, cells in _ROW.findall(text)]
    times = Counter(name for name, _ in rows)
    for name in _IDS:
        if times[name] != 1:
            problem = f"is there {times[name]} times" if times[name] else "is missing"
            yield f"{_PAGE}: {name} {problem}: every behaviour has one row"
    for name, cells in rows:
        if name not in _IDS:
            yield f"{_PAGE}: {name} is no behaviour: correct the id, or extend _GROUPS in {Path(__file__).name}"
        elif len(cells) != 3:
            yield f"{_PAGE}: the row of {name} needs 4 cells: id, sentence, file, test"
        else:
            yield from _row_complaints(name, *cells)


def _row_complaints(name: str, sentence: str, where: str, shown: str) -> Iterator[str]:
    if not sentence:
        yield f"{_PAGE}: {name} says nothing"
    if where == shown == "planned":
        return
    files, tests = re.findall(r"`([^`]+)`", where), re.findall(r"`([^`]+)`", shown)
    if not files:
        yield f"{_PAGE}: {name} names no file: name the one that does it in backticks, or write planned in both cells"
    if not tests:
        yield f"{_PAGE}: {name} names no test: name one as `tests/x/test_y.py::test_name`"
    for path in files:
        if not (ROOT / path).exists():
            yield f"{_PAGE}: {name} is done by `{path}`, which does not exist: correct the path, from the root on"
    for test in tests:
        path, _, function = test.partition("::")
        if not (ROOT / path).is_file():
            yield f"{_PAGE}: {name} is shown by `{test}`, and there is no {path}: correct the path, from the root on"
        elif function not in _tests_of(path):
            yield f"{_PAGE}: {name} is shown by `{test}`, and {path} has no such test: name one that it has"


@cache
def _tests_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset(name for name in names if name.startswith("test_"))
