"""The report as one HTML file that needs nothing else: no script, no font and no picture from elsewhere.

It is readable without scripts, on a small screen, in dark mode and on paper. Whatever comes from messages, members or
brokers is text: it is escaped where it is written, and invisible characters are shown as escapes. The style sheet is
report.css.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from statistics import median
from string import ascii_lowercase, ascii_uppercase, digits

from steelyard.client.describe import shorten_ids
from steelyard.model import Queue
from steelyard.model.finding import Finding, Severity
from steelyard.pipelines.report.contents import KeyLoad, QueueLoad, ReportContents, measure_skew
from steelyard.pipelines.report.findings import report_findings, summary_line
from steelyard.pipelines.report.formatting import (
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_ratio,
    format_timestamp,
    printable,
)
from steelyard.pipelines.report.html_elements import (
    Bar,
    LaneSpan,
    bar_chart,
    column_chart,
    heat_map,
    lane_chart,
    legend,
    line_chart,
    paragraph,
    table,
    tiles,
)
from steelyard.pipelines.report.rebalance_history import OwnershipHistory, QueueHolding

__all__ = ["render_page"]


_MAX_BARS = 96  # of more, only the busiest are drawn; the tables have all
_MAX_POINTS = 400


def _busiest_queues(loads: Iterable[QueueLoad]) -> list[QueueLoad]:
    """Return the queues to draw, in order: all, or the busiest."""
    rows = list(loads)
    if len(rows) > _MAX_BARS:
        kept = set(sorted(range(len(rows)), key=lambda place: -rows[place].messages)[:_MAX_BARS])
        rows = [row for place, row in enumerate(rows) if place in kept]
    return rows


def _queues_section(contents: ReportContents) -> str:
    """Show the messages of each queue."""
    traffic = contents.traffic
    weighed = measure_skew({each: each.messages for each in traffic.queues})
    colour = {broker: place for place, broker in enumerate(traffic.brokers)}
    shown = _busiest_queues(traffic.queues)
    lags, owners, names = contents.lags(), contents.owners(), contents.member_names()
    parts = ["<h2>Queues</h2>"]
    if weighed.busiest is not None:
        parts.append(
            paragraph(
                f"Skew {format_ratio(weighed.ratio)}: the busiest of {format_count(weighed.parts, 'queue')} has "
                f"{format_number(weighed.max_load)} messages, the mean is {format_number(weighed.mean)}."
            )
        )
    parts.append(_omission_note(len(shown), len(traffic.queues), "queues"))
    if len(colour) > 1:
        parts.append(legend((place, "", printable(broker)) for broker, place in colour.items()))
    rows = [
        Bar(
            printable(each.name),
            each.messages,
            format_number(each.messages),
            colour[each.queue.broker],
            _queue_title(each),
        )
        for each in shown
    ]
    parts.append(bar_chart(rows, about="messages of each queue", mean=weighed.mean))
    parts.append(
        table(
            ("queue", "#messages", "#over the mean", "#bytes", "heaviest key", "#of the queue", "owner", "#lag"),
            [
                (
                    printable(each.name),
                    format_number(each.messages),
                    format_ratio(each.messages / weighed.mean) if weighed.mean else "",
                    format_bytes(each.body_bytes),
                    printable(each.heaviest.key) if each.heaviest else "",
                    format_percent(each.heaviest.messages, each.messages) if each.heaviest else "",
                    ", ".join(names.get(owner, owner) for owner in owners.get(each.queue, ())),
                    format_number(lags[each.queue]) if each.queue in lags else "",
                )
                for each in traffic.queues
            ],
            caption="All queues",
        )
    )
    return "".join(parts)


def _queue_title(each: QueueLoad) -> str:
    heavy = each.heaviest
    of_key = f"; {format_percent(heavy.messages, each.messages)} of it is key {printable(heavy.key)}" if heavy else ""
    return f"{printable(each.name)}: {format_count(each.messages, 'message')}, {format_bytes(each.body_bytes)}{of_key}"


def _omission_note(shown: int, all_of: int, what: str) -> str:
    return paragraph(f"The {shown} busiest of {all_of:,} {what} are drawn.", soft=True) if shown < all_of else ""


def _time_section(contents: ReportContents) -> str:
    """Show messages over time, by broker and by queue."""
    traffic = contents.traffic
    if not traffic.steps:
        return ""
    start_ms, end_ms = traffic.steps[0].at_ms, traffic.steps[-1].at_ms
    series: dict[str, dict[int, float]] = {printable(broker): {} for broker in traffic.brokers}
    for step in traffic.steps:
        series.setdefault(printable(step.broker), {})[step.at_ms] = step.messages
    every = format_duration(traffic.step_ms)
    parts = [
        "<h2>Over time</h2>",
        paragraph(f"Messages by when they were stored; a column is {every}. Times are UTC."),
        legend((place, "", name) for place, name in enumerate(series)) if len(series) > 1 else "",
        column_chart(series, step_ms=traffic.step_ms, start_ms=start_ms, end_ms=end_ms, about="messages over time"),
    ]
    cells = {printable(each.name): traffic.queue_steps.get(each.queue, {}) for each in _busiest_queues(traffic.queues)}
    if any(cells.values()):
        parts.append(f"<h3>By queue</h3>{paragraph('Darker cells have more messages.', soft=True)}")
        parts.append(
            heat_map(
                cells, step_ms=traffic.step_ms, start_ms=start_ms, end_ms=end_ms, about="messages of queues in time"
            )
        )
    parts.append(
        table(
            ("from, UTC", "broker", "#messages", "#bytes"),
            [
                (
                    format_timestamp(step.at_ms),
                    printable(step.broker),
                    format_number(step.messages),
                    format_bytes(step.body_bytes),
                )
                for step in traffic.steps
            ],
            caption=f"Every {every}",
        )
    )
    return "".join(parts)


def _keys_section(contents: ReportContents) -> str:
    """Show the heaviest keys."""
    traffic = contents.traffic
    parts = ["<h2>Keys</h2>"]
    parts.append(
        paragraph(
            f"{format_count(traffic.distinct_keys, 'key')} in {format_count(traffic.keyed, 'message')}; "
            f"{format_count(traffic.messages - traffic.keyed, 'message')} without one."
        )
    )
    if not traffic.keys:
        return "".join(parts)
    parts.append(
        bar_chart(
            [
                Bar(
                    printable(each.key),
                    each.messages,
                    format_percent(each.messages, traffic.messages),
                    0,
                    _key_title(each),
                )
                for each in traffic.keys
            ],
            about="messages of the heaviest keys",
        )
    )
    parts.append(
        table(
            ("key", "#messages", "#of all", "#bytes", "#queues", "mostly in"),
            [
                (
                    printable(each.key),
                    format_number(each.messages),
                    format_percent(each.messages, traffic.messages),
                    format_bytes(each.body_bytes),
                    format_number(each.queues),
                    _queue(each.mostly_in),
                )
                for each in traffic.keys
            ],
            caption="The heaviest keys",
        )
    )
    return "".join(parts)


def _key_title(each: KeyLoad) -> str:
    where = _queue(each.mostly_in)
    size = f"{format_count(each.messages, 'message')}, {format_bytes(each.body_bytes)}"
    return f"{printable(each.key)}: {size}, mostly in {where}"


def _queue(queue: Queue) -> str:
    return printable(f"{queue.broker}:{queue.queue_id}")


def _members_section(contents: ReportContents) -> str:
    """Show the messages in the queues of each member."""
    members = contents.members()
    if not members:
        return ""
    names = contents.member_names()
    weighed = measure_skew({each.id: each.messages for each in members})
    ordered = sorted(members, key=lambda each: -each.messages)
    strategy = contents.group_view.strategy if contents.group_view is not None else None
    summary = format_count(len(members), "member") + (f", strategy {printable(strategy)}" if strategy else "")
    return "".join(
        [
            "<h2>Members</h2>",
            paragraph(
                f"{summary}. Skew {format_ratio(weighed.ratio)}: a member counts by all messages of its current queues."
            ),
            bar_chart(
                [
                    Bar(names[each.id], each.messages, format_number(each.messages), 0, f"{printable(each.id, 200)}")
                    for each in ordered[:_MAX_BARS]
                ],
                about="messages in the queues of each member",
                mean=weighed.mean,
            ),
            table(
                ("member", "#queues", "#messages", "#over the mean", "#bytes", "#lag", "id"),
                [
                    (
                        names[each.id],
                        format_number(each.queues),
                        format_number(each.messages),
                        format_ratio(each.messages / weighed.mean) if weighed.mean else "",
                        format_bytes(each.body_bytes),
                        format_number(each.lag),
                        printable(each.id, 200),
                    )
                    for each in ordered
                ],
                caption="Members",
            ),
        ]
    )


def _lag_section(contents: ReportContents) -> str:
    """Show the lag, and how it changed while the group was polled."""
    lags = contents.lags()
    if not lags:
        return ""
    total = sum(lags.values())
    parts = [
        "<h2>Lag</h2>",
        paragraph(f"{format_count(total, 'message')} of lag in this topic at the end."),
    ]
    if total:
        heavy = sorted(lags.items(), key=lambda item: -item[1])[:_MAX_BARS]
        chosen = {queue for queue, lag in heavy if lag}
        parts.append(_omission_note(len(heavy), len(lags), "queues"))
        parts.append(
            bar_chart(
                [Bar(_queue(queue), lag, format_number(lag), 1) for queue, lag in lags.items() if queue in chosen],
                about="lag of each queue",
            )
        )
    if len(contents.lag_samples) > 1:
        every = max(1, len(contents.lag_samples) // _MAX_POINTS)
        samples = contents.lag_samples[::every]
        parts.append(
            f"<h3>While it was polled</h3>{line_chart([(each.at_ms, each.messages) for each in samples], about='lag')}"
        )
        parts.append(
            table(
                ("at, UTC", "#lag"),
                [(format_timestamp(each.at_ms), format_number(each.messages)) for each in samples],
                caption="Lag at each poll",
            )
        )
    return "".join(parts)


_MARKS = digits[1:] + ascii_uppercase + ascii_lowercase
_MAX_LANES = 96
_MAX_SPANS = 400  # more spans cannot be distinguished in a lane
_GAP_STEPS_MS = (0, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


def _history_section(contents: ReportContents) -> str:
    """Show ownership over time, moves at each change, and gaps without an owner."""
    history = contents.history
    if history is None:
        return ""
    return (
        _ownership_lanes(contents, history)
        + _change_table(contents, history)
        + _gap_histogram(history)
        + _handover_table(contents, history)
    )


def _ownership_lanes(contents: ReportContents, history: OwnershipHistory) -> str:
    names = contents.member_names()
    place = {member: number for number, member in enumerate(history.members)}
    marks = {member: _MARKS[at % len(_MARKS)] for member, at in place.items()}
    # If there is no room for all, those that moved most are drawn.
    chosen = set(sorted(history.holdings, key=lambda queue: -len(history.holdings[queue]))[:_MAX_LANES])
    spans: dict[Queue, list[LaneSpan]] = {queue: [] for queue in history.holdings if queue in chosen}
    for queue, mine in spans.items():
        held = history.holdings[queue][-_MAX_SPANS:]
        mine += (_holding_span(each, place, marks, names) for each in held)
        mine += (
            _silent_span(each, then.acquired_ms, place, names) for each, then in pairwise(held) if not each.released
        )
    for over in history.handovers:
        if over.gap_ms and over.released_ms is not None and over.queue in chosen:
            spans[over.queue].append(
                LaneSpan(over.released_ms, over.acquired_ms, "gap", f"no owner for {format_duration(over.gap_ms)}")
            )
    for both in history.overlaps:
        if both.queue in chosen:
            title = f"{names[both.before]} and {names[both.after]} for {format_duration(both.span_ms)}"
            spans[both.queue].append(LaneSpan(both.start_ms, both.end_ms, "overlap", title))
    rows = {_queue(queue): mine for queue, mine in spans.items()}
    entries: list[tuple[int | str, str, str]] = [(place[name], marks[name], names[name]) for name in history.members]
    entries += [("gap", "", "no owner"), ("pale", "", "silent"), ("overlap", "", "two owners")]
    overlaps = [
        (
            _queue(each.queue),
            names[each.before],
            names[each.after],
            format_timestamp(each.start_ms),
            format_duration(each.span_ms),
        )
        for each in history.overlaps
    ]
    return "".join(
        [
            "<h2>Queue ownership</h2>",
            paragraph(
                f"From {format_timestamp(history.start_ms)} to {format_timestamp(history.end_ms)} UTC. A lane is a "
                "queue, a colour a member. Where it is pale, the member was silent: when it lost the queue is unknown."
            ),
            paragraph(f"{_MAX_LANES} of {len(history.holdings):,} queues are drawn.", soft=True)
            if len(history.holdings) > _MAX_LANES
            else "",
            legend(entries),
            lane_chart(
                rows, start_ms=history.start_ms, end_ms=history.end_ms, about="the owner of each queue over time"
            ),
            table(
                ("queue", "one", "other", "from, UTC", "#for"),
                overlaps,
                caption="Two owners at once",
            ),
            _holdings_table(history, names),
        ]
    )


def _holding_span(
    each: QueueHolding, place: Mapping[str, int], marks: Mapping[str, str], names: Mapping[str, str]
) -> LaneSpan:
    span = format_duration(each.ended_ms - each.acquired_ms)
    title = f"{names[each.member]} from {format_timestamp(each.acquired_ms)} for {span}"
    return LaneSpan(each.acquired_ms, each.ended_ms, place[each.member], title, marks[each.member])


def _silent_span(each: QueueHolding, until_ms: int, place: Mapping[str, int], names: Mapping[str, str]) -> LaneSpan:
    """Draw the time from a member's last event to the next owner: it lost the queue somewhere in between."""
    title = f"{names[each.member]} was silent after {format_timestamp(each.ended_ms)}"
    return LaneSpan(each.ended_ms, max(until_ms, each.ended_ms), place[each.member], title, is_pale=True)


def _holdings_table(history: OwnershipHistory, names: dict[str, str]) -> str:
    return table(
        ("queue", "member", "from, UTC", "to, UTC", "#for", "why it was acquired"),
        [
            (
                _queue(each.queue),
                names[each.member],
                format_timestamp(each.acquired_ms),
                format_timestamp(each.ended_ms) if each.released else "",
                format_duration(each.ended_ms - each.acquired_ms),
                printable(shorten_ids(each.why, names), 200) if each.why else "",
            )
            for held in history.holdings.values()
            for each in held
        ],
        caption="Owners of each queue",
    )


def _change_table(contents: ReportContents, history: OwnershipHistory) -> str:
    if not history.changes:
        return ""
    names = contents.member_names()
    moved = sum(change.moves for change in history.changes)
    return "".join(
        [
            "<h2>Changes</h2>",
            paragraph(
                f"{format_count(len(history.changes), 'change')}: {format_count(moved, 'queue')} moved, and "
                f"the minimum of plans that keep members within one queue of each other is {history.necessary_moves}."
            ),
            table(
                ("at, UTC", "what happened", "#members", "#moved", "#minimum", "#queues of a member", "#took"),
                [
                    (
                        format_timestamp(change.start_ms),
                        printable(shorten_ids(change.cause, names), 400),
                        format_number(change.members),
                        format_number(change.moves),
                        format_number(change.minimum_moves),
                        _range(change.explanation.fewest, change.explanation.most),
                        format_duration(change.end_ms - change.start_ms),
                    )
                    for change in history.changes
                ],
                caption="Changes of the group",
            ),
        ]
    )


def _gap_histogram(history: OwnershipHistory) -> str:
    gaps = history.gaps_ms
    if not gaps:
        return ""
    rows = []
    for low, high in zip(_GAP_STEPS_MS, (*_GAP_STEPS_MS[1:], None), strict=True):
        inside = sum(low <= gap and (high is None or gap < high) for gap in gaps)
        label = f"{format_duration(low)} and more" if high is None else f"less than {format_duration(high)}"
        rows.append(Bar(label, inside, format_number(inside), 2))
    while len(rows) > 1 and not rows[-1].value:
        rows.pop()
    return "".join(
        [
            "<h2>Hand-over gaps</h2>",
            paragraph(
                f"From the release of a queue to its next owner: median {format_duration(median(gaps))}, maximum "
                f"{format_duration(gaps[-1])}, in {len(gaps):,} hand-overs. Each bar begins where the one above ends."
            ),
            bar_chart(rows, about="hand-overs by gap"),
        ]
    )


def _handover_table(contents: ReportContents, history: OwnershipHistory) -> str:
    names = contents.member_names()
    return table(
        ("at, UTC", "queue", "from", "to", "#gap", "why"),
        [
            (
                format_timestamp(each.acquired_ms),
                _queue(each.queue),
                names[each.before],
                names[each.after] if each.is_move else "the same member",
                "unknown" if each.gap_ms is None else format_duration(each.gap_ms),
                printable(shorten_ids(each.why, names), 200) if each.why else "",
            )
            for each in history.handovers
        ],
        caption="Hand-overs",
    )


def _range(fewest: int, most: int) -> str:
    return f"{most}" if fewest == most else f"{fewest} to {most}"


_SKEW_NOTE = (
    "Skew is the maximum over the mean. 1 is even; 4 means that the busiest has four times the mean, so that work "
    "which ends when the busiest ends takes four times as long as it could. All in one of sixteen queues is 16. Few "
    "messages are uneven by chance alone: that is not called uneven here."
)
_CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


@cache
def _stylesheet() -> str:
    return (files("steelyard.pipelines.report") / "report.css").read_text(encoding="utf-8")


def render_page(contents: ReportContents) -> str:
    """Render the report.

    >>> from steelyard.pipelines.report.contents import TopicTraffic
    >>> contents = ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=()))
    >>> render_page(contents).startswith("<!doctype html>")
    True
    """
    of_group = f" and group {printable(contents.group)}" if contents.group else ""
    title = f"Balance of topic {printable(contents.topic)}{of_group}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        paragraph(f"{_period(contents)} Made at {format_timestamp(contents.at_ms)} UTC.", soft=True),
        paragraph(f"T{summary_line(contents)[1:]}."),
        tiles(_tile_figures(contents)),
        "<h2>Findings</h2>",
        f"<ul class='findings'>{''.join(map(_finding_item, report_findings(contents)))}</ul>",
        _queues_section(contents),
        _time_section(contents),
        _keys_section(contents),
        _members_section(contents),
        _lag_section(contents),
        _history_section(contents),
        "<h2>How to read this</h2>",
        paragraph(_SKEW_NOTE),
        *(paragraph(printable(note, 1_000), soft=True) for note in contents.notes),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_stylesheet()}</style></head>\n<body>{_joined(parts)}</body></html>\n"
    )


def _joined(parts: list[str]) -> str:
    return "\n".join(part for part in parts if part)


def _period(contents: ReportContents) -> str:
    if contents.since_ms is None and contents.until_ms is None:
        return "All messages that the topic holds."
    start = "the first" if contents.since_ms is None else f"{format_timestamp(contents.since_ms)} UTC"
    end = "the last" if contents.until_ms is None else f"{format_timestamp(contents.until_ms)} UTC"
    return f"Messages from {start} to {end}."


_SEVERITY_NAMES = {Severity.OK: "fine", Severity.WARNING: "look", Severity.ERROR: "wrong"}


def _finding_item(finding: Finding) -> str:
    kind = _SEVERITY_NAMES[finding.severity]
    advice = f"<span class='advice'>{escape(finding.next_step)}</span>" if finding.next_step else ""
    return f"<li class='{kind}'><b>{kind}</b><span>{escape(finding.message)}</span>{advice}</li>"


def _tile_figures(contents: ReportContents) -> list[tuple[str, str]]:
    traffic = contents.traffic
    figures = [
        ("messages", format_number(traffic.messages)),
        ("in bodies", format_bytes(traffic.body_bytes)),
        ("skew of queues", format_ratio(measure_skew({each: each.messages for each in traffic.queues}).ratio)),
    ]
    if members := contents.members():
        figures.append(
            ("skew of members", format_ratio(measure_skew({each.id: each.messages for each in members}).ratio))
        )
    if contents.lags():
        figures.append(("lag", format_number(sum(contents.lags().values()))))
    history = contents.history
    if history is not None:
        figures.append(("moves", format_number(len(history.moves))))
        if history.gaps_ms:
            figures.append(("longest gap without an owner", format_duration(history.gaps_ms[-1])))
        figures.append(("times with two owners", format_number(len(history.overlaps))))
    return figures
