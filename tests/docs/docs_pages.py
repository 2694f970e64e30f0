"""The pages of the documentation, read as text: which there are, their headings, and the links on them."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.tidy.tree import ROOT, pages

README = "README.md"
TUTORIAL = "docs/tutorial.md"
TYPED = (README, TUTORIAL)
"""Pages that tests type from the top, as a newcomer does."""

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,}).*?^\s*\2\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(?:(?!\n\n).)*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_SOURCE = re.compile(r"<(?:img|source)\b[^>]*?\b(?:src|srcset)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
_GIVEN_ID = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"|\{#([\w-]+)\}")


class Link(NamedTuple):
    """A link on a page: where it stands, and what it says."""

    page: str
    line: int
    to: str


def pages_of_docs() -> list[str]:
    """List every page under docs."""
    return [page for page in pages() if page.startswith("docs/")]


def read(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def needs_spark(page: str) -> bool:
    """Say whether examples of a page run on Spark."""
    return PurePosixPath(page).stem == "spark"


def anchors(text: str) -> set[str]:
    r"""Return what a link may say behind ``#``: one for each heading, counted where two are alike.

    >>> sorted(anchors("# The life of a queue\n## `send`, and more\n## `send`, and more"))
    ['send-and-more', 'send-and-more_1', 'the-life-of-a-queue']
    """
    prose = _FENCE.sub("", text)
    found = {one or other for one, other in _GIVEN_ID.findall(prose)}
    for heading in _HEADING.findall(prose):
        slug = _slug(heading)
        number, unique = 0, slug
        while unique in found:
            number += 1
            unique = f"{slug}_{number}"
        found.add(unique)
    return found


def links(page: str, text: str) -> Iterator[Link]:
    """Find the links of a page; what stands in code is not one."""
    words = prose(text)
    for found in (*_LINK.finditer(words), *_SOURCE.finditer(words)):
        yield Link(page, words.count("\n", 0, found.start()) + 1, found[1])


def prose(text: str) -> str:
    """Return a page without its code, each line where it was."""
    return _CODE.sub(_only_lines, _FENCE.sub(_only_lines, text))


def _only_lines(found: re.Match[str]) -> str:
    """Leave nothing of a text but its lines, so that what follows is where it was."""
    return "\n" * found[0].count("\n")


def target(link: Link) -> tuple[str, str] | None:
    """Return the file and the anchor that a link leads to, from the root of the project; None: it leads elsewhere.

    >>> target(Link("docs/how-to/spark.md", 1, "../spark.md#options"))
    ('docs/spark.md', 'options')
    >>> target(Link("docs/how-to/spark.md", 1, "https://spark.apache.org"))
    """
    if re.match(r"[a-z][a-z+.-]*:", link.to):
        return None
    path, _, anchor = link.to.partition("#")
    if not path:
        return link.page, anchor
    parts: list[str] = []
    for part in (PurePosixPath(link.page).parent / path).parts:
        if part == "..":
            parts = parts[:-1] if parts and parts[-1] != ".." else [*parts, ".."]
        else:
            parts.append(part)
    return "/".join(parts), anchor


def _slug(heading: str) -> str:
    """Return the anchor of a heading as Markdown's table of contents makes it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    words = re.sub(r"[`*]", "", re.sub(r"\{#[\w-]+\}", "", words))
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
