"""The map in ARCHITECTURE.md names every source file, once and with a word about it, and no file that is not there."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.tidy.tree import ROOT, SRC, Source, complain, modules

_MAP_ROW = re.compile(r"^\|\s*`([^`]+\.py)`\s*\|\s*(.*?)\s*\|\s*$", re.MULTILINE)
_FILE_NAMED = re.compile(r"`((?:src/)?(?:steelyard/|tests/|bench/)?[\w/]+/[\w]+\.py)`")


def test_the_map_is_the_tree() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    complain(map_complaints(text, modules()))


def test_no_page_of_the_architecture_names_a_file_that_is_gone() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    complain(
        f"ARCHITECTURE.md names `{name}`, which does not exist: correct the name, or speak of the room instead"
        for name in dict.fromkeys(_FILE_NAMED.findall(text))
        if not any((place / name).is_file() for place in (ROOT, SRC, SRC / "steelyard"))
    )


def test_a_missing_a_gone_and_a_repeated_row_are_seen() -> None:
    here = Source("src/steelyard/model/queue.py", '"""A queue: one part. And more."""')
    row = "| `steelyard/model/queue.py` | a queue |\n"
    assert not list(map_complaints(row, [here]))
    (missing,) = map_complaints("", [here])
    assert "| `steelyard/model/queue.py` | A queue: one part |" in missing
    (gone,) = map_complaints(row + "| `steelyard/model/kew.py` | a kew |\n", [here])
    assert "kew.py" in gone
    (repeated,) = map_complaints(row + row, [here])
    assert "2 times" in repeated
    (silent,) = map_complaints("| `steelyard/model/queue.py` |  |\n", [here])
    assert "says nothing" in silent


def map_complaints(text: str, sources: Iterable[Source]) -> Iterator[str]:
    """Compare the rows of the map with the files."""
    rows = _MAP_ROW.findall(text)
    named = Counter(name for name, _ in rows)
    there = {source.path.removeprefix("src/"): source for source in sources}
    for name, source in there.items():
        if name not in named:
            yield f"src/{name} is not in the map of ARCHITECTURE.md: add the row  | `{name}` | {_first(source)} |"
    for name, times in named.items():
        if name not in there:
            yield f"ARCHITECTURE.md's map names `{name}`, which does not exist: remove the row, or correct the path"
        if times > 1:
            yield f"ARCHITECTURE.md's map names `{name}` {times} times: keep one row"
    for name, word in rows:
        if not word:
            yield f"ARCHITECTURE.md's map says nothing about `{name}`: half a sentence will do"


def _first(source: Source) -> str:
    return (ast.get_docstring(source.tree) or "what it is").split(". ")[0].splitlines()[0].rstrip(".")
