"""The pieces that the page is made of: tables, tiles, legends. Everything that is passed in is text and is escaped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from steelyard.pipelines.report.plots import COLOURS

__all__ = ["Column", "folded", "legend", "paragraph", "table", "tiles"]

_OPEN_UP_TO = 12
"""A table of so many rows is shown; a longer one is opened by who wants it."""
_MOST_ROWS = 5_000
"""A page with more than this is a burden for who opens it; the Parquet table has all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and whether numbers stand in it."""

    heading: str
    is_number: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, caption: str) -> str:
    """Write a table; a long one is folded away, a very long one is cut and says so.

    >>> "<td>&lt;b&gt;</td>" in table([Column("key"), Column("in")], [("x", "<b>")], caption="keys")
    True
    """
    if not rows:
        return ""
    said = caption
    if len(rows) > _MOST_ROWS:
        said += f" (the first {_MOST_ROWS:,} of {len(rows):,}; the Parquet table has all)"
    heads = "".join(f"<th scope='col'{_kind(column)}>{escape(column.heading)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cells(columns, row))}</tr>" for row in rows[:_MOST_ROWS])
    whole = f"<div class='scroll'><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    return folded(said, whole, is_open=len(rows) <= _OPEN_UP_TO)


def _cells(columns: Sequence[Column], row: Sequence[str]) -> Iterable[str]:
    for place, (column, text) in enumerate(zip(columns, row, strict=True)):
        tag, scope = ("th", " scope='row'") if place == 0 else ("td", "")
        yield f"<{tag}{scope}{_kind(column)}>{escape(text)}</{tag}>"


def _kind(column: Column) -> str:
    return " class='number'" if column.is_number else ""


def folded(summary: str, inside: str, *, is_open: bool) -> str:
    """Put something under a line that opens it."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{inside}</details>"


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Write figures side by side: what it is, and how much."""
    return (
        "<div class='tiles'>"
        + "".join(f"<div class='tile'><b>{escape(much)}</b><span>{escape(what)}</span></div>" for what, much in figures)
        + "</div>"
    )


def legend(entries: Iterable[tuple[int | str, str, str]]) -> str:
    """Say which colour is whose: a colour's number, or ``gap``, ``overlap`` or ``pale``; a mark; a name."""
    lines = "".join(
        f"<li class='{f'is-{colour}' if isinstance(colour, str) else f'c{colour % COLOURS}'}'>"
        f"<i>{escape(mark) or '&nbsp;'}</i>{escape(name)}</li>"
        for colour, mark, name in entries
    )
    return f"<ul class='legend'>{lines}</ul>" if lines else ""


def paragraph(text: str, *, soft: bool = False) -> str:
    """Write a paragraph.

    >>> paragraph("a < b", soft=True)
    "<p class='soft'>a &lt; b</p>"
    """
    kind = " class='soft'" if soft else ""
    return f"<p{kind}>{escape(text)}</p>"
