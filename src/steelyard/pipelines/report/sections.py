"""The sections of the page about what was written: queues, time, keys; and about the group as it is: members, lag."""

from collections.abc import Iterable

from steelyard.model import Queue
from steelyard.pipelines.report.pieces import Column, legend, paragraph, table
from steelyard.pipelines.report.plots import Bar, bars, columns, shades, trail
from steelyard.pipelines.report.skew import skew
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.traffic import KeyLoad, QueueLoad
from steelyard.pipelines.report.words import count, duration, named, number, share, size, stamp, times

__all__ = ["keys_section", "lag_section", "members_section", "most_of", "queues_section", "time_section"]

_MOST_BARS = 96
"""More than these are not drawn: the busiest are, and the tables have all."""
_MOST_POINTS = 400


def most_of(loads: Iterable[QueueLoad]) -> list[QueueLoad]:
    """Return the queues that are drawn, in their order: all, or the busiest."""
    rows = list(loads)
    if len(rows) > _MOST_BARS:
        kept = set(sorted(range(len(rows)), key=lambda place: -rows[place].messages)[:_MOST_BARS])
        rows = [row for place, row in enumerate(rows) if place in kept]
    return rows


def queues_section(study: Study) -> str:
    """Show what each queue got."""
    traffic = study.traffic
    weighed = skew({each: each.messages for each in traffic.queues})
    colour = {broker: place for place, broker in enumerate(traffic.brokers)}
    shown = most_of(traffic.queues)
    lags, owners, names = study.lags(), study.owners(), study.member_names()
    parts = ["<h2>Queues</h2>"]
    if weighed.busiest is not None:
        parts.append(
            paragraph(
                f"Skew {times(weighed.ratio)}: the busiest of {count(weighed.parts, 'queue')} has "
                f"{number(weighed.most)} messages, the mean is {number(weighed.mean)}."
            )
        )
    parts.append(_not_all(len(shown), len(traffic.queues), "queues"))
    if len(colour) > 1:
        parts.append(legend((place, "", named(broker)) for broker, place in colour.items()))
    rows = [
        Bar(named(each.name), each.messages, number(each.messages), colour[each.queue.broker], _told(each))
        for each in shown
    ]
    parts.append(bars(rows, about="messages of each queue", mean=weighed.mean))
    parts.append(
        table(
            [
                Column("queue"),
                Column("messages", is_number=True),
                Column("over the mean", is_number=True),
                Column("bytes", is_number=True),
                Column("heaviest key"),
                Column("of the queue", is_number=True),
                Column("owner"),
                Column("lag", is_number=True),
            ],
            [
                (
                    named(each.name),
                    number(each.messages),
                    times(each.messages / weighed.mean) if weighed.mean else "",
                    size(each.body_bytes),
                    named(each.heaviest.key) if each.heaviest else "",
                    share(each.heaviest.messages, each.messages) if each.heaviest else "",
                    ", ".join(names.get(owner, owner) for owner in owners.get(each.queue, ())),
                    number(lags[each.queue]) if each.queue in lags else "",
                )
                for each in traffic.queues
            ],
            caption="All queues",
        )
    )
    return "".join(parts)


def _told(each: QueueLoad) -> str:
    heavy = each.heaviest
    of_key = f"; {share(heavy.messages, each.messages)} of it is key {named(heavy.key)}" if heavy else ""
    return f"{named(each.name)}: {count(each.messages, 'message')}, {size(each.body_bytes)}{of_key}"


def _not_all(shown: int, all_of: int, what: str) -> str:
    return paragraph(f"The {shown} busiest of {all_of:,} {what} are drawn.", soft=True) if shown < all_of else ""


def time_section(study: Study) -> str:
    """Show when messages came, to which broker and to which queue."""
    traffic = study.traffic
    if not traffic.steps:
        return ""
    start_ms, end_ms = traffic.steps[0].at_ms, traffic.steps[-1].at_ms
    series: dict[str, dict[int, float]] = {named(broker): {} for broker in traffic.brokers}
    for step in traffic.steps:
        series.setdefault(named(step.broker), {})[step.at_ms] = step.messages
    every = duration(traffic.step_ms)
    parts = [
        "<h2>Over time</h2>",
        paragraph(f"Messages by when they were stored; a column is {every}. Times are UTC."),
        legend((place, "", name) for place, name in enumerate(series)) if len(series) > 1 else "",
        columns(series, step_ms=traffic.step_ms, start_ms=start_ms, end_ms=end_ms, about="messages over time"),
    ]
    cells = {named(each.name): traffic.cells.get(each.queue, {}) for each in most_of(traffic.queues)}
    if any(cells.values()):
        parts.append(f"<h3>By queue</h3>{paragraph('The fuller the colour, the more messages.', soft=True)}")
        parts.append(
            shades(cells, step_ms=traffic.step_ms, start_ms=start_ms, end_ms=end_ms, about="messages of queues in time")
        )
    parts.append(
        table(
            [
                Column("from, UTC"),
                Column("broker"),
                Column("messages", is_number=True),
                Column("bytes", is_number=True),
            ],
            [
                (stamp(step.at_ms), named(step.broker), number(step.messages), size(step.body_bytes))
                for step in traffic.steps
            ],
            caption=f"Every {every}",
        )
    )
    return "".join(parts)


def keys_section(study: Study) -> str:
    """Show the heaviest keys."""
    traffic = study.traffic
    parts = ["<h2>Keys</h2>"]
    parts.append(
        paragraph(
            f"{count(traffic.distinct_keys, 'key')} in {count(traffic.keyed, 'message')}; "
            f"{count(traffic.messages - traffic.keyed, 'message')} without one."
        )
    )
    if not traffic.keys:
        return "".join(parts)
    parts.append(
        bars(
            [
                Bar(
                    named(each.key),
                    each.messages,
                    share(each.messages, traffic.messages),
                    0,
                    _told_key(each),
                )
                for each in traffic.keys
            ],
            about="messages of the heaviest keys",
        )
    )
    parts.append(
        table(
            [
                Column("key"),
                Column("messages", is_number=True),
                Column("of all", is_number=True),
                Column("bytes", is_number=True),
                Column("queues", is_number=True),
                Column("mostly in"),
            ],
            [
                (
                    named(each.key),
                    number(each.messages),
                    share(each.messages, traffic.messages),
                    size(each.body_bytes),
                    number(each.queues),
                    _queue(each.mostly_in),
                )
                for each in traffic.keys
            ],
            caption="The heaviest keys",
        )
    )
    return "".join(parts)


def _told_key(each: KeyLoad) -> str:
    where = _queue(each.mostly_in)
    return f"{named(each.key)}: {count(each.messages, 'message')}, {size(each.body_bytes)}, mostly in {where}"


def _queue(queue: Queue) -> str:
    return named(f"{queue.broker}:{queue.queue_id}")


def members_section(study: Study) -> str:
    """Show what the queues of each member got."""
    members = study.members()
    if not members:
        return ""
    names = study.member_names()
    weighed = skew({each.id: each.messages for each in members})
    ordered = sorted(members, key=lambda each: -each.messages)
    strategy = study.view.strategy if study.view is not None else None
    said = f"{count(len(members), 'member')}" + (f", sharing by {named(strategy)}" if strategy else "")
    return "".join(
        [
            "<h2>Members</h2>",
            paragraph(
                f"{said}. Skew {times(weighed.ratio)}: a member counts by all that was written to the queues that it "
                "has now."
            ),
            bars(
                [
                    Bar(names[each.id], each.messages, number(each.messages), 0, f"{named(each.id, 200)}")
                    for each in ordered[:_MOST_BARS]
                ],
                about="messages in the queues of each member",
                mean=weighed.mean,
            ),
            table(
                [
                    Column("member"),
                    Column("queues", is_number=True),
                    Column("messages", is_number=True),
                    Column("over the mean", is_number=True),
                    Column("bytes", is_number=True),
                    Column("lag", is_number=True),
                    Column("id"),
                ],
                [
                    (
                        names[each.id],
                        number(each.queues),
                        number(each.messages),
                        times(each.messages / weighed.mean) if weighed.mean else "",
                        size(each.body_bytes),
                        number(each.lag),
                        named(each.id, 200),
                    )
                    for each in ordered
                ],
                caption="Members",
            ),
        ]
    )


def lag_section(study: Study) -> str:
    """Show how much waits, and how that went while the group was watched."""
    lags = study.lags()
    if not lags:
        return ""
    total = sum(lags.values())
    parts = ["<h2>Lag</h2>", paragraph(f"{count(total, 'message')} of the topic waited for the group in the end.")]
    if total:
        heavy = sorted(lags.items(), key=lambda item: -item[1])[:_MOST_BARS]
        chosen = {queue for queue, lag in heavy if lag}
        parts.append(_not_all(len(heavy), len(lags), "queues"))
        parts.append(
            bars(
                [Bar(_queue(queue), lag, number(lag), 1) for queue, lag in lags.items() if queue in chosen],
                about="messages that wait in each queue",
            )
        )
    if len(study.waiting) > 1:
        every = max(1, len(study.waiting) // _MOST_POINTS)
        looks = study.waiting[::every]
        parts.append(
            f"<h3>While it was watched</h3>{trail([(each.at_ms, each.messages) for each in looks], about='lag')}"
        )
        parts.append(
            table(
                [Column("at, UTC"), Column("messages that wait", is_number=True)],
                [(stamp(each.at_ms), number(each.messages)) for each in looks],
                caption="Lag at each look",
            )
        )
    return "".join(parts)
