"""Plots as inline SVG: bars, columns over time, a grid of shades, and lanes. Values in, text out.

No library and no script: a plot is drawn once, and colours are names of the page's style (report/style.py), so that it
follows a dark screen and prints on white. Every text that is passed in is escaped here. Whatever is too long for its
place is cut and stands whole in a tooltip; the numbers themselves stand in a table beside every plot.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from steelyard.pipelines.report.words import clock, number

__all__ = ["COLOURS", "Bar", "Span", "bars", "columns", "lanes", "shades", "ticks", "trail"]

COLOURS = 8
"""How many colours there are to tell things apart; beyond, they begin again."""

_WIDTH = 960
_GUTTER = 176
_RIGHT = 84
_LABEL = 25
_ROW = 18
_MARK_FROM = 11
"""A mark is written into a lane's span that is at least so wide."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: what it is, how long, and what is written behind it."""

    label: str
    value: float
    text: str
    colour: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a lane: ``colour`` is a number, or one of the words ``gap`` and ``overlap``; pale if not sure."""

    start_ms: int
    end_ms: int
    colour: int | str
    title: str
    mark: str = ""
    is_pale: bool = False


def bars(rows: Sequence[Bar], *, about: str, mean: float | None = None) -> str:
    """Draw horizontal bars, one under the other, with a line where the mean is.

    >>> bars([Bar("broker-a:0", 3, "3")], about="messages of each queue").count("<rect")
    1
    """
    top = max((row.value for row in rows), default=0) or 1
    room = _WIDTH - _GUTTER - _RIGHT
    head = 16 if mean is not None else 4
    # Bars first, then the line, then what is written: nothing lies over a number.
    drawn, written = [], []
    for place, row in enumerate(rows):
        y = head + place * _ROW
        width = max(room * row.value / top, 1.5 if row.value else 0)
        title = _title(row.title or f"{row.label}: {row.text}")
        drawn.append(
            f'<rect class="c{row.colour % COLOURS}" x="{_GUTTER}" y="{y + 2}" width="{width:.1f}" '
            f'height="{_ROW - 4}" rx="2">{title}</rect>'
        )
        written.append(
            f"{_label(row.label, y + _ROW / 2)}"
            f'<text class="value" x="{_GUTTER + width + 6:.1f}" y="{y + _ROW / 2:.1f}" dy=".35em">'
            f"{title}{escape(row.text)}</text>"
        )
    height = head + len(rows) * _ROW + 4
    if mean is not None and rows:
        x = _GUTTER + room * min(mean / top, 1)
        drawn.append(
            f'<line class="mean" x1="{x:.1f}" x2="{x:.1f}" y1="{head - 2}" y2="{height - 2}"/>'
            f'<text class="axis" x="{x:.1f}" y="{head - 6}" text-anchor="middle">mean {escape(number(mean))}</text>'
        )
    return _svg(height, about, drawn + written)


def columns(series: Mapping[str, Mapping[int, float]], *, step_ms: int, start_ms: int, end_ms: int, about: str) -> str:
    """Draw columns over time, one for each step from start to end; several series stand on top of each other."""
    steps = range(start_ms, max(end_ms, start_ms) + 1, step_ms)
    heights = [sum(values.get(at, 0) for values in series.values()) for at in steps]
    scale = ticks(max(heights, default=0))
    left, room, height = 56, _WIDTH - 56 - 8, 180
    wide = room / max(len(steps), 1)
    parts = []
    for tick in scale:
        y = _down(tick, scale[-1], height)
        parts.append(
            f'<line class="grid" x1="{left}" x2="{_WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{left - 6}" y="{y:.1f}" dy=".35em" text-anchor="end">{escape(number(tick))}</text>'
        )
    for place, at in enumerate(steps):
        below = 0.0
        for colour, (name, values) in enumerate(series.items()):
            value = values.get(at, 0)
            if not value:
                continue
            y, foot = _down(below + value, scale[-1], height), _down(below, scale[-1], height)
            below += value
            parts.append(
                f'<rect class="c{colour % COLOURS}" x="{left + place * wide:.2f}" y="{y:.2f}" '
                f'width="{max(wide - (1 if wide > 3 else 0), 0.5):.2f}" height="{max(foot - y, 0.5):.2f}">'
                f"{_title(f'{clock(at, 0)} {name}: {number(value)}')}</rect>"
            )
    parts += _time_axis(start_ms, start_ms + len(steps) * step_ms, left, room, height + 14)
    return _svg(height + 34, about, parts)


def shades(rows: Mapping[str, Mapping[int, float]], *, step_ms: int, start_ms: int, end_ms: int, about: str) -> str:
    """Draw a grid: a row for each name, a cell for each step of time, the fuller the more."""
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
                    f"{_title(f'{name} at {clock(at, 0)}: {number(value)}')}</rect>"
                )
    height = 4 + len(rows) * tall
    parts += _time_axis(start_ms, start_ms + len(steps) * step_ms, _GUTTER, room, height + 14)
    return _svg(height + 34, about, parts)


def lanes(rows: Mapping[str, Sequence[Span]], *, start_ms: int, end_ms: int, about: str) -> str:
    """Draw a lane for each name with what happened in it, one after the other."""
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
            colour = span.colour if isinstance(span.colour, str) else f"c{span.colour % COLOURS}"
            colour += " pale" if span.is_pale else ""
            parts.append(
                f'<rect class="{colour}" x="{x:.2f}" y="{y + 1}" width="{width:.2f}" height="{tall - 3}">'
                f"{_title(span.title)}</rect>"
            )
            if span.mark and width >= _MARK_FROM:
                parts.append(
                    f'<text class="mark" x="{x + width / 2:.1f}" y="{y + tall / 2 - 0.5:.1f}" dy=".35em" '
                    f'text-anchor="middle">{escape(span.mark)}</text>'
                )
    height = 4 + len(rows) * tall
    parts += _time_axis(start_ms, end_ms, _GUTTER, room, height + 14)
    return _svg(height + 34, about, parts)


def trail(points: Sequence[tuple[int, float]], *, about: str) -> str:
    """Draw how one value went over time, as a line."""
    start_ms, end_ms = points[0][0], points[-1][0]
    scale = ticks(max(value for _, value in points))
    left, room, height = 56, _WIDTH - 56 - 8, 140
    parts = []
    for tick in scale:
        y = _down(tick, scale[-1], height)
        parts.append(
            f'<line class="grid" x1="{left}" x2="{_WIDTH - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="axis" x="{left - 6}" y="{y:.1f}" dy=".35em" text-anchor="end">{escape(number(tick))}</text>'
        )
    along = (
        f"{left + room * (at - start_ms) / max(end_ms - start_ms, 1):.1f},{_down(value, scale[-1], height):.1f}"
        for at, value in points
    )
    parts.append(f'<polyline class="trail" points="{" ".join(along)}"/>')
    parts += _time_axis(start_ms, end_ms, left, room, height + 14)
    return _svg(height + 34, about, parts)


def ticks(top: float) -> list[float]:
    """Return three to six round values from 0 up to the top, or just above it.

    >>> ticks(47), ticks(3), ticks(0)
    ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0], [0.0, 1.0, 2.0, 3.0], [0.0, 1.0])
    """
    if top <= 0:
        return [0.0, 1.0]
    size = 10.0 ** floor(log10(top / 4))
    step = next(size * each for each in (1, 2, 5, 10) if top / (size * each) <= 5)
    # Messages come whole.
    step = max(step, 1.0)
    return [each * step for each in range(ceil(top / step) + 1)]


def _down(value: float, top: float, height: int) -> float:
    return 8 + (height - 8) * (1 - value / top)


def _time_axis(start_ms: int, end_ms: int, left: int, room: float, y: float) -> Iterator[str]:
    """Write five moments under a plot, the first and the last so that they do not stand out."""
    span_ms = max(end_ms - start_ms, 1)
    for place, anchor in enumerate(("start", "middle", "middle", "middle", "end")):
        at = start_ms + span_ms * place // 4
        x = left + room * place / 4
        yield (
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{y - 14:.1f}" y2="{y - 10:.1f}"/>'
            f'<text class="axis" x="{x:.1f}" y="{y:.1f}" dy=".2em" text-anchor="{anchor}">'
            f"{escape(clock(at, span_ms))}</text>"
        )


def _label(text: str, y: float) -> str:
    """Write a name left of its row; a long one keeps its beginning and its end, where the differences are."""
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
