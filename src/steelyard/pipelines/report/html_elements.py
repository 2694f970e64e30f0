"""HTML tables, tiles and legends, and plots as inline SVG: bars, columns, heat maps and lanes. Values in, text out.

No library and no script: a plot is drawn once, and colours are names of report.css, so that it follows dark mode and
prints on white. Every text is escaped here. What is too long for its place is shortened, and whole in a tooltip; the
numbers are in a table beside every plot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from steelyard.pipelines.report.formatting import format_axis_time, format_number

__all__ = [
    "Bar",
    "LaneSpan",
    "axis_ticks",
    "bar_chart",
    "column_chart",
    "heat_map",
    "lane_chart",
    "legend",
    "line_chart",
    "paragraph",
    "table",
    "tiles",
]


_COLOURS = 8  # the number of colours; beyond, they repeat

_WIDTH = 960
_GUTTER = 176
_RIGHT = 84
_LABEL = 25
_ROW = 18
_MIN_MARK_WIDTH = 11  # the minimum width of a span for its mark


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its label, its length, and the text behind it."""

    label: str
    value: float
    text: str
    colour: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A span of a lane: ``colour`` is a number, or ``gap`` or ``overlap``; pale if uncertain."""

    start_ms: int
    end_ms: int
    colour: int | str
    title: str
    mark: str = ""
    is_pale: bool = False


def bar_chart(rows: Sequence[Bar], *, about: str, mean: float | None = None) -> str:
    """Draw horizontal bars, with a line at the mean.

    >>> bar_chart([Bar("broker-a:0", 3, "3")], about="messages of each queue").count("<rect")
    1
    """
    top = max((row.value for row in rows), default=0) or 1
    room = _WIDTH - _GUTTER - _RIGHT
    head = 16 if mean is not None else 4
    # Bars first, then the line, then texts: nothing covers a number.
    shapes, texts = [], []
    for place, row in enumerate(rows):
        y = head + place * _ROW
        width = max(room * row.value / top, 1.5 if row.value else 0)
        title = _title(row.title or f"{row.label}: {row.text}")
        shapes.append(
            f'<rect class="c{row.colour % _COLOURS}" x="{_GUTTER}" y="{y + 2}" width="{width:.1f}" '
            f'height="{_ROW - 4}" rx="2">{title}</rect>'
        )
        texts.append(
            f"{_label(row.label, y + _ROW / 2)}"
            f'<text class="value" x="{_GUTTER + width + 6:.1f}" y="{y + _ROW / 2:.1f}" dy=".35em">'
            f"{title}{escape(row.text)}</text>"
        )
    height = head + len(rows) * _ROW + 4
    if mean is not None and rows:
        x = _GUTTER + room * min(mean / top, 1)
        shapes.append(
            f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{head - 2}" y2="{height - 2}"/>'
            f'<text class="axis" x="{x:.1f}" y="{head - 6}" text-anchor="middle">'
            f"mean {escape(format_number(mean))}</text>"
        )
    return _svg(height, about, shapes + texts)


def column_chart(
    series: Mapping[str, Mapping[int, float]], *, step_ms: int, start_ms: int, end_ms: int, about: str
) -> str:
    """Draw columns over time, one for each step; several series are stacked."""
    steps = range(start_ms, max(end_ms, start_ms) + 1, step_ms)
    heights = [sum(values.get(at, 0) for values in series.values()) for at in steps]
    scale = axis_ticks(max(heights, default=0))
    left, room, height = 56, _WIDTH - 56 - 8, 180
    wide = room / max(len(steps), 1)
    parts = list(_value_axis(scale, left, height))
    for place, at in enumerate(steps):
        below = 0.0
        for colour, (name, values) in enumerate(series.items()):
            value = values.get(at, 0)
            if not value:
                continue
            y, foot = _y_of(below + value, scale[-1], height), _y_of(below, scale[-1], height)
            below += value
            parts.append(
                f'<rect class="c{colour % _COLOURS}" x="{left + place * wide:.2f}" y="{y:.2f}" '
                f'width="{max(wide - (1 if wide > 3 else 0), 0.5):.2f}" height="{max(foot - y, 0.5):.2f}">'
                f"{_title(f'{format_axis_time(at, 0)} {name}: {format_number(value)}')}</rect>"
            )
    parts += _time_axis(start_ms, start_ms + len(steps) * step_ms, left, room, height + 14)
    return _svg(height + 34, about, parts)


def heat_map(rows: Mapping[str, Mapping[int, float]], *, step_ms: int, start_ms: int, end_ms: int, about: str) -> str:
    """Draw a heat map: a row for each name, a cell for each step of time."""
    steps = range(start_ms, max(end_ms, start_ms) + 1, step_ms)
    top = max((value for values in rows.values() for value in values.values()), default=0) or 1
    tall = 14 if len(rows) > 24 else _ROW
    room = _WIDTH - _GUTTER - 8
    wide = room / max(len(steps), 1)
    parts = []
    for place, (name, values) in enumerate(rows.items()):
        y = 4 + place * tall
        parts.append(_label(name, y + tall / 2))
        for column, at in enumerate(steps):
            if value := values.get(at, 0):
                x = _GUTTER + column * wide
                parts.append(
                    f'<rect class="shade" x="{x:.2f}" y="{y + 1}" width="{max(wide - 0.5, 0.5):.2f}" '
                    f'height="{tall - 2}" fill-opacity="{0.08 + 0.92 * value / top:.3f}">'
                    f"{_title(f'{name} at {format_axis_time(at, 0)}: {format_number(value)}')}</rect>"
                )
    height = 4 + len(rows) * tall
    parts += _time_axis(start_ms, start_ms + len(steps) * step_ms, _GUTTER, room, height + 14)
    return _svg(height + 34, about, parts)


def lane_chart(rows: Mapping[str, Sequence[LaneSpan]], *, start_ms: int, end_ms: int, about: str) -> str:
    """Draw a lane for each name with its spans."""
    tall = 15 if len(rows) > 24 else 22
    room = _WIDTH - _GUTTER - 8
    span_ms = max(end_ms - start_ms, 1)
    parts = []
    for place, (name, spans) in enumerate(rows.items()):
        y = 4 + place * tall
        parts.append(_label(name, y + tall / 2))
        parts.append(f'<rect class="lane" x="{_GUTTER}" y="{y + 1}" width="{room}" height="{tall - 3}"/>')
        for span in spans:
            x = _GUTTER + room * (span.start_ms - start_ms) / span_ms
            width = max(room * (span.end_ms - span.start_ms) / span_ms, 0.75)
            colour = span.colour if isinstance(span.colour, str) else f"c{span.colour % _COLOURS}"
            colour += " pale" if span.is_pale else ""
            parts.append(
                f'<rect class="{colour}" x="{x:.2f}" y="{y + 1}" width="{width:.2f}" height="{tall - 3}">'
                f"{_title(span.title)}</rect>"
            )
            if span.mark and width >= _MIN_MARK_WIDTH:
                parts.append(
                    f'<text class="mark" x="{x + width / 2:.1f}" y="{y + tall / 2 - 0.5:.1f}" dy=".35em" '
                    f'text-anchor="middle">{escape(span.mark)}</text>'
                )
    height = 4 + len(rows) * tall
    parts += _time_axis(start_ms, end_ms, _GUTTER, room, height + 14)
    return _svg(height + 34, about, parts)


def line_chart(points: Sequence[tuple[int, float]], *, about: str) -> str:
    """Draw one value over time."""
    start_ms, end_ms = points[0][0], points[-1][0]
    scale = axis_ticks(max(value for _, value in points))
    left, room, height = 56, _WIDTH - 56 - 8, 140
    parts = list(_value_axis(scale, left, height))
    along = (
        f"{left + room * (at - start_ms) / max(end_ms - start_ms, 1):.1f},{_y_of(value, scale[-1], height):.1f}"
        for at, value in points
    )
    parts.append(f'<polyline class="trail" points="{" ".join(along)}"/>')
    parts += _time_axis(start_ms, end_ms, left, room, height + 14)
    return _svg(height + 34, about, parts)


def axis_ticks(top: float) -> list[float]:
    """Return three to six round values from 0 to the top or just above it.

    >>> axis_ticks(47), axis_ticks(3), axis_ticks(0)
    ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0])
    """
    if top <= 1:  # also what is too small for a logarithm
        return [0.0, 1.0]
    size = 10.0 ** floor(log10(top / 4))
    step = next(size * each for each in (1, 2, 5, 10) if top / (size * each) <= 5)
    # Counts are integers.
    step = max(step, 1.0)
    return [each * step for each in range(ceil(top / step) + 1)]


def _value_axis(scale: Sequence[float], left: int, height: int) -> Iterator[str]:
    for tick in scale:
        y = _y_of(tick, scale[-1], height)
        yield (
            f'<line class="grid" x1="{left}" x2="{_WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{left - 6}" y="{y:.1f}" dy=".35em" text-anchor="end">'
            f"{escape(format_number(tick))}</text>"
        )


def _y_of(value: float, top: float, height: int) -> float:
    return 8 + (height - 8) * (1 - value / top)


def _time_axis(start_ms: int, end_ms: int, left: int, room: float, y: float) -> Iterator[str]:
    """Draw five times under a plot, the first and last aligned to its edges."""
    span_ms = max(end_ms - start_ms, 1)
    for place, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        at = start_ms + span_ms * place // 4
        x = left + room * place / 4
        yield (
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 14:.1f}" y2="{y - 10:.1f}"/>'
            f'<text class="axis" x="{x:.1f}" y="{y:.1f}" dy=".2em" text-anchor="{anchor}">'
            f"{escape(format_axis_time(at, span_ms))}</text>"
        )


def _label(text: str, y: float) -> str:
    """Draw a label left of its row; a long one keeps its start and end."""
    short = text if len(text) <= _LABEL else f"{text[: _LABEL // 2]}…{text[-(_LABEL // 2) :]}"
    title = _title(text) if short != text else ""
    return (
        f'<text class="label" x="{_GUTTER - 8}" y="{y:.1f}" dy=".35em" text-anchor="end">{title}{escape(short)}</text>'
    )


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _svg(height: float, about: str, parts: Iterable[str]) -> str:
    return (
        f'<div class="plot"><svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(about)}">'
        f"{''.join(parts)}</svg></div>"
    )


_OPEN_ROWS = 12  # a longer table is collapsed
_MAX_ROWS = 5_000  # more would make the page too heavy; the Parquet table has all


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str) -> str:
    """Render a table; ``#`` before a heading marks numbers. A long one is collapsed, a very long one is truncated.

    >>> "<td class='number'>&lt;b&gt;</td>" in table(("key", "#messages"), [("x", "<b>")], caption="keys")
    True
    """
    if not rows:
        return ""
    if len(rows) > _MAX_ROWS:
        caption += f" (the first {_MAX_ROWS:,} of {len(rows):,}; the Parquet table has all)"
    heads = "".join(
        f"<th scope='col'{_cell_class(column)}>{escape(column.removeprefix('#'))}</th>" for column in columns
    )
    body = "".join(f"<tr>{''.join(_cells(columns, row))}</tr>" for row in rows[:_MAX_ROWS])
    whole = f"<div class='scroll'><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    return _details(caption, whole, is_open=len(rows) <= _OPEN_ROWS)


def _cells(columns: Sequence[str], row: Sequence[str]) -> Iterable[str]:
    for place, (column, text) in enumerate(zip(columns, row, strict=True)):
        tag, scope = ("th", " scope='row'") if place == 0 else ("td", "")
        yield f"<{tag}{scope}{_cell_class(column)}>{escape(text)}</{tag}>"


def _cell_class(column: str) -> str:
    return " class='number'" if column.startswith("#") else ""


def _details(summary: str, inside: str, *, is_open: bool) -> str:
    """Render something under a summary that opens it."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>{inside}</details>"


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Render figures side by side: each a name and a value."""
    return (
        "<div class='tiles'>"
        + "".join(f"<div class='tile'><b>{escape(much)}</b><span>{escape(what)}</span></div>" for what, much in figures)
        + "</div>"
    )


def legend(entries: Iterable[tuple[int | str, str, str]]) -> str:
    """Render a legend: for each entry a colour, or ``gap``, ``overlap`` or ``pale``; a mark; a name."""
    lines = "".join(
        f"<li class='{f'is-{colour}' if isinstance(colour, str) else f'c{colour % _COLOURS}'}'>"
        f"<i>{escape(mark) or '&nbsp;'}</i>{escape(name)}</li>"
        for colour, mark, name in entries
    )
    return f"<ul class='legend'>{lines}</ul>" if lines else ""


def paragraph(text: str, *, soft: bool = False) -> str:
    """Render a paragraph.

    >>> paragraph("a < b", soft=True)
    "<p class='soft'>a &lt; b</p>"
    """
    kind = " class='soft'" if soft else ""
    return f"<p{kind}>{escape(text)}</p>"
