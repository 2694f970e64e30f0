"""The sections of the page about what became of the queues: who had them when, how they moved, how long that took."""

from collections.abc import Mapping
from itertools import pairwise
from statistics import median
from string import ascii_lowercase, ascii_uppercase, digits

from steelyard.client.short_names import shortened
from steelyard.model import Queue
from steelyard.pipelines.report.history import History, Holding
from steelyard.pipelines.report.pieces import Column, legend, paragraph, table
from steelyard.pipelines.report.plots import Bar, Span, bars, lanes
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.words import count, duration, named, number, stamp

__all__ = ["history_section"]

_MARKS = digits[1:] + ascii_uppercase + ascii_lowercase
_MOST_LANES = 96
_MOST_SPANS = 400
"""More spans than these cannot be told apart in a lane."""
_STEPS_MS = (0, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)


def history_section(study: Study) -> str:
    """Show who had each queue when, what moved at each change, and how long queues were without a reader."""
    told = study.history
    if told is None:
        return ""
    return "".join([_lanes(study, told), _changes(study, told), _gaps(told), _hand_overs(study, told)])


def _lanes(study: Study, told: History) -> str:
    names = study.member_names()
    place = {member: number for number, member in enumerate(told.members)}
    marks = {member: _MARKS[at % len(_MARKS)] for member, at in place.items()}
    # Those that changed hands are what one wants to see, if there is no room for all.
    chosen = set(sorted(told.holdings, key=lambda queue: -len(told.holdings[queue]))[:_MOST_LANES])
    spans: dict[Queue, list[Span]] = {queue: [] for queue in told.holdings if queue in chosen}
    for queue, mine in spans.items():
        held = told.holdings[queue][-_MOST_SPANS:]
        mine += (_held(each, place, marks, names) for each in held)
        mine += (_unheard(each, then.taken_ms, place, names) for each, then in pairwise(held) if not each.released)
    for over in told.hand_overs:
        if over.gap_ms and over.released_ms is not None and over.queue in chosen:
            spans[over.queue].append(
                Span(over.released_ms, over.taken_ms, "gap", f"nobody for {duration(over.gap_ms)}")
            )
    for both in told.overlaps:
        if both.queue in chosen:
            title = f"{names[both.before]} and {names[both.after]} for {duration(both.span_ms)}"
            spans[both.queue].append(Span(both.start_ms, both.end_ms, "overlap", title))
    rows = {_queue(queue): mine for queue, mine in spans.items()}
    entries: list[tuple[int | str, str, str]] = [(place[name], marks[name], names[name]) for name in told.members]
    entries.append(("gap", "", "nobody"))
    entries.append(("pale", "", "not heard of again"))
    entries.append(("overlap", "", "two at once"))
    overlaps = [
        (_queue(each.queue), names[each.before], names[each.after], stamp(each.start_ms), duration(each.span_ms))
        for each in told.overlaps
    ]
    return "".join(
        [
            "<h2>Who had which queue</h2>",
            paragraph(
                f"From {stamp(told.start_ms)} to {stamp(told.end_ms)} UTC. A lane is a queue, a colour a member. "
                "Where it is pale, the member was not heard of again: nobody knows when it lost the queue."
            ),
            paragraph(f"{_MOST_LANES} of {len(told.holdings):,} queues are drawn.", soft=True)
            if len(told.holdings) > _MOST_LANES
            else "",
            legend(entries),
            lanes(rows, start_ms=told.start_ms, end_ms=told.end_ms, about="the owner of each queue over time"),
            table(
                [Column("queue"), Column("one"), Column("other"), Column("from, UTC"), Column("for", is_number=True)],
                overlaps,
                caption="Two owners at once",
            ),
            _holdings_table(told, names),
        ]
    )


def _held(each: Holding, place: Mapping[str, int], marks: Mapping[str, str], names: Mapping[str, str]) -> Span:
    title = f"{names[each.member]} from {stamp(each.taken_ms)} for {duration(each.ended_ms - each.taken_ms)}"
    return Span(each.taken_ms, each.ended_ms, place[each.member], title, marks[each.member])


def _unheard(each: Holding, until_ms: int, place: Mapping[str, int], names: Mapping[str, str]) -> Span:
    """Draw the time from a member's last word to where another has its queue: it lost it somewhere in between."""
    title = f"{names[each.member]} was not heard of again after {stamp(each.ended_ms)}"
    return Span(each.ended_ms, max(until_ms, each.ended_ms), place[each.member], title, is_pale=True)


def _holdings_table(told: History, names: dict[str, str]) -> str:
    return table(
        [
            Column("queue"),
            Column("member"),
            Column("from, UTC"),
            Column("to, UTC"),
            Column("for", is_number=True),
            Column("why it took it"),
        ],
        [
            (
                _queue(each.queue),
                names[each.member],
                stamp(each.taken_ms),
                stamp(each.ended_ms) if each.released else "",
                duration(each.ended_ms - each.taken_ms),
                named(shortened(each.why, names), 200) if each.why else "",
            )
            for held in told.holdings.values()
            for each in held
        ],
        caption="Who had which queue, from when to when",
    )


def _changes(study: Study, told: History) -> str:
    if not told.changes:
        return ""
    names = study.member_names()
    moved = sum(change.moves for change in told.changes)
    return "".join(
        [
            "<h2>Changes</h2>",
            paragraph(
                f"{count(len(told.changes), 'change')}: {count(moved, 'queue')} moved, and {told.needed} is the least "
                "possible. The least is counted over all plans that keep members within one queue of each other."
            ),
            table(
                [
                    Column("at, UTC"),
                    Column("what happened"),
                    Column("members", is_number=True),
                    Column("moved", is_number=True),
                    Column("least", is_number=True),
                    Column("queues of a member", is_number=True),
                    Column("took", is_number=True),
                ],
                [
                    (
                        stamp(change.start_ms),
                        named(shortened(change.cause, names), 400),
                        number(change.members),
                        number(change.moves),
                        number(change.least),
                        _range(change.explanation.fewest, change.explanation.most),
                        duration(change.end_ms - change.start_ms),
                    )
                    for change in told.changes
                ],
                caption="Changes of the group",
            ),
        ]
    )


def _gaps(told: History) -> str:
    gaps = told.gaps_ms
    if not gaps:
        return ""
    rows = []
    for low, high in zip(_STEPS_MS, (*_STEPS_MS[1:], None), strict=True):
        inside = sum(low <= gap and (high is None or gap < high) for gap in gaps)
        label = f"{duration(low)} and more" if high is None else f"less than {duration(high)}"
        rows.append(Bar(label, inside, number(inside), 2))
    while len(rows) > 1 and not rows[-1].value:
        rows.pop()
    return "".join(
        [
            "<h2>How long hand-overs took</h2>",
            paragraph(
                f"From where one member gave a queue up to where the next took it: mostly "
                f"{duration(median(gaps))}, at longest {duration(gaps[-1])}, in {len(gaps):,} hand-overs. Each bar "
                "begins where the one above ends."
            ),
            bars(rows, about="hand-overs by how long they took"),
        ]
    )


def _hand_overs(study: Study, told: History) -> str:
    names = study.member_names()
    return table(
        [
            Column("at, UTC"),
            Column("queue"),
            Column("from"),
            Column("to"),
            Column("gap", is_number=True),
            Column("why"),
        ],
        [
            (
                stamp(each.taken_ms),
                _queue(each.queue),
                names[each.before],
                names[each.after] if each.is_move else "back to it",
                "not known" if each.gap_ms is None else duration(each.gap_ms),
                named(shortened(each.why, names), 200) if each.why else "",
            )
            for each in told.hand_overs
        ],
        caption="Hand-overs",
    )


def _range(fewest: int, most: int) -> str:
    return f"{most}" if fewest == most else f"{fewest} to {most}"


def _queue(queue: Queue) -> str:
    return named(f"{queue.broker}:{queue.queue_id}")
