"""ARCHITECTURE.md is true: what it names exists, and the functions on its paths are called."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.docs.message_path import follow_join, follow_message
from tests.tidy.tree import ROOT, SRC, complain, modules

_MOST_BYTES = 30_000
_PATH = re.compile(r"<!-- path: (\w+) -->(.*?)<!-- end -->", re.DOTALL)
_FUNCTION = re.compile(r"`([\w/]+\.py):(\w+)`")
_FILE = re.compile(r"`((?:[\w.]+/)+(?:[\w]+\.\w+)?)`")
_CLASS = re.compile(r"`([A-Z][a-z]\w+)`")
_PLACES = (ROOT, SRC, SRC / "steelyard")


def test_it_can_be_read_in_an_evening() -> None:
    assert len(_text().encode()) <= _MOST_BYTES


def test_every_file_and_class_that_it_names_exists() -> None:
    complain(missing(_text()))


@pytest.mark.parametrize(("name", "follow"), [("message", follow_message), ("join", follow_join)])
def test_every_function_on_a_path_is_called(name: str, follow: Callable[[], Counter[str]]) -> None:
    complain(not_called(dict(_PATH.findall(_text()))[name], follow()))


def test_what_is_gone_or_not_called_is_seen() -> None:
    (gone,) = missing("`model/kew.py`")
    assert "model/kew.py" in gone
    (unknown,) = missing("`Kew`")
    assert "Kew" in unknown
    assert not list(missing("`model/queue.py`, `balance/assignors/`, `Queue`"))
    (idle,) = not_called("`a.py:run` and `b.py:stop`", ["a.py:run"])
    assert "b.py:stop" in idle


def missing(text: str) -> Iterator[str]:
    """Name the files and classes that do not exist."""
    for name in dict.fromkeys([*_FILE.findall(text), *(path for path, _ in _FUNCTION.findall(text))]):
        if not any((place / name).exists() for place in _PLACES):
            yield f"ARCHITECTURE.md names `{name}`, which does not exist"
    defined = re.compile(r"^(?:class )?([A-Z]\w+)\b", re.MULTILINE)
    known = {name for source in modules() for name in defined.findall(source.text)}
    for name in dict.fromkeys(_CLASS.findall(text)):
        if name not in known:
            yield f"ARCHITECTURE.md names the class `{name}`, which does not exist"


def not_called(text: str, calls: Iterable[str]) -> Iterator[str]:
    """Name the functions of a path that were not called."""
    called = set(calls)
    for path, function in _FUNCTION.findall(text):
        if f"{path}:{function}" not in called:
            yield f"ARCHITECTURE.md says that `{path}:{function}` is called, and it was not"


def _text() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
