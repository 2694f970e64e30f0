"""The report as one small HTML page that needs nothing else: no script, no font and no picture from elsewhere.

It has what only a pass over all messages can tell, and the moves and the lag of the period; the state of the group is
shown better by the dashboard and ``steelyard group explain``. It is readable on a small screen, in dark mode and on
paper; its plots are bars beside the numbers. Text of messages, members and brokers is escaped where it is written, and
invisible characters are shown as escapes. The style sheet is report.css.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC
from html import escape
from importlib.resources import files
from itertools import groupby, islice, zip_longest
from statistics import median

from steelyard.diagnostics.topic import measure_skew
from steelyard.model.finding import Finding, Severity
from steelyard.model.formatting import (
    format_bytes,
    format_duration,
    format_number,
    format_percent,
    format_ratio,
    format_time,
    pluralize,
    shorten,
    shorten_ids,
)
from steelyard.pipelines.report.contents import (
    ReportContents,
    format_queue,
    report_findings,
    summary_line,
)
from steelyard.pipelines.report.ownership import QueueHolding, to_datetime

_MAX_ROWS = 5_000  # more would make the page too heavy; the Parquet table has all
_SEVERITY_NAMES = {Severity.OK: "fine", Severity.WARNING: "look", Severity.ERROR: "wrong"}
_SKEW_NOTE = (
    "Skew is the maximum over the mean. 1 is even; 4 means that the busiest has four times the mean, so that work "
    "which ends when the busiest ends takes four times as long as it could. All in one of sixteen queues is 16. Few "
    "messages are uneven by chance alone: that is not called uneven here."
)
_CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render_page(contents: ReportContents) -> str:
    """Render the report.

    >>> from steelyard.pipelines.report.contents import TopicTraffic
    >>> contents = ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=()))
    >>> render_page(contents).startswith("<!doctype html>")
    True
    """
    of_group = f" and group {shorten(contents.group)}" if contents.group else ""
    title = f"Balance of topic {shorten(contents.topic)}{of_group}"
    style = (files("steelyard.pipelines.report") / "report.css").read_text(encoding="utf-8")
    parts = [
        f"<h1>{escape(title)}</h1>",
        _paragraph(f"{_period(contents)} Made at {_time_text(contents.at_ms)}.", soft=True),
        _paragraph(f"T{summary_line(contents)[1:]}."),
        "<h2>Findings</h2>",
        f"<ul class='findings'>{''.join(map(_finding_item, report_findings(contents)))}</ul>",
        *_sections(contents),
        *_history_sections(contents),
        "<h2>How to read this</h2>",
        _paragraph(_SKEW_NOTE),
        *(_paragraph(shorten(note, 1_000), soft=True) for note in contents.notes),
    ]
    body = "\n".join(filter(None, parts))
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{style}</style></head>\n<body>{body}</body></html>\n"
    )


def _sections(contents: ReportContents) -> Iterator[str]:
    """Render the sums: by queue, key, member and time, and the lag over time."""
    traffic, names = contents.traffic, contents.member_names()
    lags, owners = contents.lags(), contents.owners()
    mean = measure_skew({each: each.messages for each in traffic.queues}).mean
    yield _table(
        "Queues",
        ("queue", "#messages", "#over the mean", "#bytes", "heaviest key", "#of the queue", "owner", "#lag"),
        [
            (
                shorten(each.name),
                format_number(each.messages),
                format_ratio(each.messages / mean) if mean else "",
                format_bytes(each.body_bytes),
                shorten(each.heaviest.key) if each.heaviest else "",
                format_percent(each.heaviest.messages, each.messages) if each.heaviest else "",
                ", ".join(names.get(owner, owner) for owner in owners.get(each.queue, ())),
                format_number(lags[each.queue]) if each.queue in lags else "",
            )
            for each in traffic.queues
        ],
        bars=[each.messages for each in traffic.queues],
    )
    yield _table(
        f"Keys: {pluralize(traffic.distinct_keys, 'key')} in {pluralize(traffic.keyed, 'message')}, "
        f"{pluralize(traffic.messages - traffic.keyed, 'message')} without one",
        ("key", "#messages", "#of all", "#bytes", "#queues", "mostly in"),
        [
            (
                shorten(each.key),
                format_number(each.messages),
                format_percent(each.messages, traffic.messages),
                format_bytes(each.body_bytes),
                format_number(each.queues),
                format_queue(each.mostly_in),
            )
            for each in traffic.keys
        ],
        bars=[each.messages for each in traffic.keys],
    )
    members = sorted(contents.members(), key=lambda each: -each.messages)
    yield _table(
        "Members: all messages of the queues that they own now",
        ("member", "#queues", "#messages", "#bytes", "#lag", "id"),
        [
            (
                names[each.id],
                format_number(each.queues),
                format_number(each.messages),
                format_bytes(each.body_bytes),
                format_number(each.lag),
                shorten(each.id, 200),
            )
            for each in members
        ],
        bars=[each.messages for each in members],
    )
    samples = contents.lag_samples if len(contents.lag_samples) > 1 else ()
    yield _table(
        "Lag while it was polled",
        ("at", "#lag"),
        [(_time_text(each.at_ms), format_number(each.messages)) for each in samples],
        bars=[each.messages for each in samples],
    )
    steps = [
        (at_ms, *map(sum, zip(*((step.messages, step.body_bytes) for step in same), strict=True)))
        for at_ms, same in groupby(traffic.steps, key=lambda step: step.at_ms)
    ]
    yield _table(
        f"Over time: every {format_duration(traffic.step_ms / 1_000)}, by when messages were stored",
        ("from", "#messages", "#bytes"),
        [(_time_text(at_ms), format_number(messages), format_bytes(size)) for at_ms, messages, size in steps],
        bars=[messages for _, messages, _ in steps],
    )


def _history_sections(contents: ReportContents) -> Iterator[str]:
    """Render changes of the group, hand-overs with their gaps, and times with two owners."""
    history, names = contents.history, contents.member_names()

    def pair(before: QueueHolding, after: QueueHolding) -> tuple[str, ...]:
        queue, at = format_queue(after.queue), _time_text(after.acquired_ms)
        return at, queue, names[before.member], names[after.member]

    yield _table(
        "Two owners at once",
        ("from", "queue", "one", "other", "#for"),
        [(*pair(each.before, each.after), format_duration(each.span_ms / 1_000)) for each in history.overlaps],
    )
    moved = pluralize(sum(len(change.moves) for change in history.changes), "queue")
    yield _table(
        f"Rebalances: {moved} moved, and the minimum of even plans is {history.necessary_moves}",
        ("at", "what happened", "#members", "#moved", "#minimum"),
        [
            (
                _time_text(change.start_ms),
                shorten(shorten_ids(change.cause, names), 400),
                format_number(change.members),
                format_number(len(change.moves)),
                format_number(change.minimum_moves),
            )
            for change in history.changes
        ],
    )
    gaps = history.gaps_ms
    middle, longest = (format_duration(each / 1_000) for each in (median(gaps), gaps[-1])) if gaps else ("", "")
    known = f": median gap {middle}, maximum {longest}" if gaps else ""
    yield _table(
        f"Hand-overs{known}",
        ("at", "queue", "from", "to", "#gap", "why"),
        [
            (
                *pair(each.before, each.after),
                "unknown" if each.gap_ms is None else format_duration(each.gap_ms / 1_000),
                shorten(shorten_ids(each.after.why, names), 200) if each.after.why else "",
            )
            for each in history.handovers
        ],
        bars=[each.gap_ms or 0 for each in history.handovers],
    )


def _time_text(at_ms: int) -> str:
    return format_time(to_datetime(at_ms), UTC, "milliseconds")


def _period(contents: ReportContents) -> str:
    if contents.since_ms is None and contents.until_ms is None:
        return "All messages that the topic holds."
    start = "the first" if contents.since_ms is None else f"{_time_text(contents.since_ms)}"
    end = "the last" if contents.until_ms is None else f"{_time_text(contents.until_ms)}"
    return f"Messages from {start} to {end}."


def _finding_item(finding: Finding) -> str:
    kind = _SEVERITY_NAMES[finding.severity]
    advice = f"<span class='advice'>{escape(finding.next_step)}</span>" if finding.next_step else ""
    return f"<li class='{kind}'><b>{kind}</b><span>{escape(finding.message)}</span>{advice}</li>"


def _table(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, bars: Sequence[float] = ()) -> str:
    """Render a section with a table; ``#`` before a column marks numbers. Of very many rows the first are shown.

    ``bars`` are plotted at the ends of the rows, the largest of them at full length.
    """
    if not rows:
        return ""
    if len(rows) > _MAX_ROWS:
        heading += f" (the first {_MAX_ROWS:,} of {len(rows):,}; the Parquet table has all)"
    kinds = [" class='number'" if column.startswith("#") else "" for column in columns]
    heads = "".join(
        f"<th scope='col'{kind}>{escape(column.removeprefix('#'))}</th>"
        for column, kind in zip(columns, kinds, strict=True)
    )
    most = max(bars, default=0)
    plots = [f"<td><meter max='{most}' value='{each}' aria-hidden='true'></meter></td>" for each in bars if most]
    cells = ("".join(f"<td{kind}>{escape(text)}</td>" for text, kind in zip(row, kinds, strict=True)) for row in rows)
    body = "".join(f"<tr>{row}{plot}</tr>" for row, plot in islice(zip_longest(cells, plots, fillvalue=""), _MAX_ROWS))
    heads += "<td></td>" if most else ""
    return (
        f"<h2>{escape(heading)}</h2><div class='scroll'><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _paragraph(text: str, *, soft: bool = False) -> str:
    kind = " class='soft'" if soft else ""
    return f"<p{kind}>{escape(text)}</p>"
