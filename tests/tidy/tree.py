"""The project's own tree, read as text: what the rules in this directory look at.

Nothing of `steelyard` is imported here, so that a rule can speak about a file that does not even import. A rule is a
function from text to complaints; a complaint names file and line and says what to do. Each rule is shown to bite on a
planted mistake, because a rule that cannot fail guards nothing.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
SIMULATOR = ROOT / "simulator"

_NOT_OURS = {".git", "__pycache__", "dist", "build", "site", "steelyard-data", "node_modules"}
_HIDDEN_BUT_OURS = {".ci", ".github"}


@dataclass(frozen=True)
class Source:
    """A Python file: its path from the root of the project, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of its syntax tree."""
        return tuple(ast.walk(self.tree))

    @property
    def module(self) -> str:
        """Its dotted name, such as ``steelyard.model.queue``; a package's is that of its directory."""
        dotted = self.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @property
    def is_package(self) -> bool:
        """Whether it is the ``__init__`` of a directory."""
        return self.path.endswith("/__init__.py")

    @property
    def package(self) -> str:
        """The package it lies in, such as ``model``; a file beside the packages is one by itself; the top is empty.

        The simulator, which is not part of the wheel, is one package.
        """
        top, _, below = self.module.partition(".")
        return top if top == SIMULATOR.name else below.partition(".")[0]

    def at(self, node: ast.AST) -> str:
        """Say where a node is, as an editor opens it."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page: its language, its text, the line it starts on and the comment directly above it."""

    page: str
    line: int
    language: str
    text: str
    comment: str
    is_closed: bool = True


@cache
def modules() -> tuple[Source, ...]:
    """Read every Python file of the product and of the simulator, once for all rules."""
    return (*product(), *(_source(path) for path in sorted(SIMULATOR.rglob("*.py"))))


@cache
def product() -> tuple[Source, ...]:
    """Read every Python file of the wheel."""
    return tuple(_source(path) for path in sorted(SRC.rglob("*.py")))


def pages() -> list[str]:
    """List every page that people read."""
    return [path.relative_to(ROOT).as_posix() for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]


@cache
def texts() -> tuple[Source, ...]:
    """Read every text file of the project, whatever its kind, once for all rules."""
    found = []
    for path in _walk(ROOT):
        with suppress(UnicodeDecodeError):
            found.append(_source(path))
    return tuple(found)


def fences(page: str, text: str) -> list[Fence]:
    """Cut the fenced blocks out of a page."""
    found: list[Fence] = []
    above, start, language, body, mark = "", 0, "", [""], ""
    for number, line in enumerate(text.splitlines(), start=1):
        opening = re.match(r"\s*(`{3,}|~{3,})\s*([\w+-]*(?: (?:ours|apache)\b)?)", line)
        if not mark and opening:
            start, mark, language, body = number, opening[1], opening[2].lower(), []
        elif mark and line.strip() == mark:
            found.append(Fence(page, start, language, "".join(f"{part}\n" for part in body), above))
            mark, above = "", ""
        elif mark:
            body.append(line)
        elif line.strip():
            comment = re.fullmatch(r"<!--\s*(.*?)\s*-->", line.strip())
            above = comment[1] if comment else ""
    if mark:
        found.append(Fence(page, start, language, "\n".join(body), above, is_closed=False))
    return found


def words(name: str) -> list[str]:
    """Split a CamelCase name into its words.

    >>> words("HTTPServiceNotDatabase2"), words("_QueueData")
    (['HTTP', 'Service', 'Not', 'Database', '2'], ['Queue', 'Data'])
    """
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+", name)


def lines_with(source: Source, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield the numbers of the lines in which a pattern is found, with the match."""
    if pattern.search(source.text):  # a file as a whole is searched much faster than line by line
        for number, line in enumerate(source.text.splitlines(), start=1):
            if found := pattern.search(line):
                yield number, found


def complain(complaints: Iterable[str]) -> None:
    """Fail with the complaints, one a line and nothing else, unless there are none."""
    listed = list(complaints)
    if listed:
        pytest.fail("\n".join(listed), pytrace=False)


def _source(path: Path) -> Source:
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def _walk(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.is_symlink() or path.name in _NOT_OURS:
            continue
        if path.is_file():
            yield path
        elif not path.name.startswith(".") or path.name in _HIDDEN_BUT_OURS:
            yield from _walk(path)
