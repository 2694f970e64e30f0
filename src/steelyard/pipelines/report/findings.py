"""The findings of a balance report, as sentences with advice: the same in HTML and on the terminal.

A sentence names its figure and what it is compared with; advice is given only where the figures show the cause. What is
fine is reported too, in one line each.
"""

from collections.abc import Iterator
from math import ceil
from statistics import median

from steelyard.client.describe import shorten_ids
from steelyard.model.finding import Finding, Severity
from steelyard.pipelines.report.contents import QueueLoad, ReportContents, measure_skew
from steelyard.pipelines.report.formatting import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_ratio,
    printable,
)

__all__ = ["report_findings", "summary_line"]

_HEAVY_KEY_SHARE = 0.1  # a key with a larger share of all messages is reported
_MOSTLY_ONE_KEY = 0.5  # a queue is busy because of one key if that key is a larger share of its surplus
_LONG_GAP_MS = 5_000
_SKEWED_LAG_SHARE = 0.5
_MIN_LAG = 1_000
_NAMED = 3


def summary_line(contents: ReportContents) -> str:
    """Summarise the traffic in a sentence.

    >>> from steelyard.pipelines.report.contents import TopicTraffic
    >>> summary_line(ReportContents(topic="orders", at_ms=0, traffic=TopicTraffic(queues=())))
    'topic orders has 0 messages (0 B) in 0 queues on 0 brokers'
    """
    traffic = contents.traffic
    size = f"{format_count(traffic.messages, 'message')} ({format_bytes(traffic.body_bytes)})"
    line = (
        f"topic {printable(contents.topic)} has {size} in {format_count(len(traffic.queues), 'queue')} on "
        f"{format_count(len(traffic.brokers), 'broker')}"
    )
    if contents.group_view is not None:
        view, lag = contents.group_view, sum(contents.lags().values())
        line += (
            f"; group {printable(view.group)} has {format_count(len(view.members), 'member')} "
            f"and a lag of {format_count(lag, 'message')}"
        )
    return line


def report_findings(contents: ReportContents) -> list[Finding]:
    """Return all findings, the worst first."""
    found = [
        *_queue_findings(contents),
        *_key_findings(contents),
        *_broker_findings(contents),
        *_member_findings(contents),
        *_lag_findings(contents),
        *_move_findings(contents),
    ]
    order = list(Severity)[::-1]
    return sorted(found, key=lambda each: order.index(each.severity))


def _queue_findings(contents: ReportContents) -> Iterator[Finding]:
    traffic = contents.traffic
    if not traffic.messages:
        yield _finding(Severity.WARNING, f"{printable(contents.topic)} got no messages in this period")
        return
    weighed = measure_skew({each: each.messages for each in traffic.queues})
    busiest = weighed.busiest
    if len(traffic.queues) < 2 or busiest is None:
        return
    if not weighed.is_uneven:
        yield _finding(
            Severity.OK,
            f"queues are even: the busiest, {busiest.name}, has {format_ratio(weighed.ratio)} the mean",
        )
        return
    sentence = f"queue {busiest.name} has {format_ratio(weighed.ratio)} the mean"
    if busiest.heaviest is not None:
        part = format_percent(busiest.heaviest.messages, busiest.messages)
        sentence += f"; key {printable(busiest.heaviest.key)} alone is {part} of it"
    yield _finding(Severity.WARNING, sentence, _advice_for(busiest, weighed.mean, traffic.keyed / traffic.messages))
    if weighed.empty:
        yield _finding(
            Severity.WARNING,
            f"{weighed.empty} of {format_count(weighed.parts, 'queue')} are empty",
            f"{format_count(traffic.distinct_keys, 'key')} cannot fill {format_count(weighed.parts, 'queue')}"
            if traffic.keyed and traffic.distinct_keys < 3 * weighed.parts
            else "",
        )


def _advice_for(busiest: QueueLoad, mean: float, keyed: float) -> str:
    """Advise on a queue with too much load: it depends on whether one key causes it, or several."""
    if keyed < _MOSTLY_ONE_KEY:
        return "most messages have no key: check how their producer selects queues"
    if busiest.heaviest is not None and busiest.heaviest.messages > _MOSTLY_ONE_KEY * (busiest.messages - mean):
        return "more queues do not help: use a finer key, such as customer and order instead of customer"
    return "several heavy keys share it: use more queues, or a key with more values"


def _key_findings(contents: ReportContents) -> Iterator[Finding]:
    traffic = contents.traffic
    heavy = [each for each in traffic.keys if each.messages > _HEAVY_KEY_SHARE * traffic.messages]
    parts = len(traffic.queues)
    for each in heavy[:_NAMED]:
        # A key that fits into an even queue is no problem.
        if parts > 1 and each.messages * parts > traffic.messages:
            yield _finding(
                Severity.WARNING,
                f"key {printable(each.key)} is {format_percent(each.messages, traffic.messages)} of all messages: "
                f"while it is in one queue, more than {ceil(traffic.messages / each.messages)} queues do not help",
            )
    spread = [each for each in traffic.keys if each.queues > 1]
    if traffic.keys and len(spread) < len(traffic.keys) / 2:
        for each in spread[:_NAMED]:
            yield _finding(
                Severity.WARNING,
                f"key {printable(each.key)} is in {each.queues} queues, while most keys are in one: its messages are "
                "not consumed in order",
                "that happens once when queues are added, and always if producers select queues differently",
            )


def _broker_findings(contents: ReportContents) -> Iterator[Finding]:
    loads = dict.fromkeys(contents.traffic.brokers, 0)
    for each in contents.traffic.queues:
        loads[each.queue.broker] += each.messages
    weighed = measure_skew(loads)
    if weighed.parts > 1 and weighed.is_uneven and weighed.busiest is not None:
        queues = sum(each.queue.broker == weighed.busiest for each in contents.traffic.queues)
        yield _finding(
            Severity.WARNING,
            f"broker {printable(weighed.busiest)} got {format_percent(weighed.max_load, weighed.total)} of all "
            f"messages with {format_percent(queues, len(contents.traffic.queues))} of the queues",
        )


def _member_findings(contents: ReportContents) -> Iterator[Finding]:
    if contents.group_view is None:
        return
    names = contents.member_names()
    yield from (
        _finding(Severity.ERROR, printable(shorten_ids(each.message, names), 1_000))
        for each in contents.group_view.findings
    )
    members = contents.members()
    if not members:
        yield _finding(
            Severity.WARNING,
            f"group {printable(contents.group_view.group)} has no members now, so no queue has an owner",
        )
    elif not contents.group_view.broadcast and not any(each.queues for each in members):
        yield _finding(
            Severity.WARNING,
            f"no member of group {printable(contents.group_view.group)} owns a queue of {printable(contents.topic)}",
        )
    weighed = measure_skew({each.id: each.messages for each in members if each.queues})
    if weighed.parts < 2 or weighed.busiest is None:
        return
    who = names.get(weighed.busiest, weighed.busiest)
    if not weighed.is_uneven:
        yield _finding(
            Severity.OK,
            f"members are even: the queues of the busiest, {who}, got {format_ratio(weighed.ratio)} the mean",
        )
        return
    queues = {each.id: each.queues for each in members}
    is_share = queues[weighed.busiest] > 1 + min(many for many in queues.values() if many)
    yield _finding(
        Severity.WARNING,
        f"the queues of {who} got {format_ratio(weighed.ratio)} the mean of members",
        f"it has {queues[weighed.busiest]} of them, more than its share: check that all members use the same strategy"
        if is_share
        else "it has no more queues than others, but busier ones: balance the queues first",
    )


def _lag_findings(contents: ReportContents) -> Iterator[Finding]:
    lags = contents.lags()
    total = sum(lags.values())
    if not lags:
        return
    if not total:
        yield _finding(Severity.OK, "there is no lag")
        return
    weighed = measure_skew(lags)
    names, owners = contents.member_names(), contents.owners()
    if (
        weighed.parts > 1
        and weighed.busiest is not None
        and weighed.max_load > max(_MIN_LAG, _SKEWED_LAG_SHARE * total)
    ):
        queue = weighed.busiest
        who = " and ".join(names.get(each, each) for each in owners.get(queue, ())) or "no member"
        yield _finding(
            Severity.WARNING,
            f"{format_percent(weighed.max_load, total)} of the lag of {format_count(total, 'message')} is in "
            f"{printable(queue.broker)}:{queue.queue_id}, owned by {who}",
        )
    if len(contents.lag_samples) > 1:
        first, last = contents.lag_samples[0], contents.lag_samples[-1]
        if last.messages > max(first.messages, _MIN_LAG):
            grown = last.messages - first.messages
            took = format_duration(last.at_ms - first.at_ms)
            yield _finding(
                Severity.WARNING,
                f"the lag grew by {format_count(grown, 'message')} in {took}: the group does not keep up",
            )


def _move_findings(contents: ReportContents) -> Iterator[Finding]:
    history = contents.history
    if history is None:
        return
    names = contents.member_names()

    def who(member: str) -> str:
        return names.get(member, printable(member))

    for each in history.overlaps[:_NAMED]:
        yield _finding(
            Severity.ERROR,
            f"{printable(each.queue.broker)}:{each.queue.queue_id} had two owners, {who(each.before)} and "
            f"{who(each.after)}, for {format_duration(each.span_ms)}: messages of that time may be handled twice",
            "if they ran on two machines, first check that their clocks agree",
        )
    if more := history.overlaps[_NAMED:]:
        yield _finding(Severity.ERROR, f"queues had two owners {format_count(len(more), 'time')} more")
    yield from _minimum_move_findings(contents)
    gaps = history.gaps_ms
    if gaps:
        longest = max(
            (each for each in history.handovers if each.gap_ms is not None), key=lambda each: each.gap_ms or 0
        )
        queue = longest.queue
        yield _finding(
            Severity.WARNING if gaps[-1] > _LONG_GAP_MS else Severity.OK,
            f"the median hand-over took {format_duration(median(gaps))}; the longest left {printable(queue.broker)}:"
            f"{queue.queue_id} without an owner for {format_duration(gaps[-1])}, between {who(longest.before)} and "
            f"{who(longest.after)}",
        )
    for member in history.silent[:_NAMED]:
        yield _finding(
            Severity.WARNING,
            f"{who(member)} never released queues that others acquired: it was killed, or its event file ends there",
        )


def _minimum_move_findings(contents: ReportContents) -> Iterator[Finding]:
    history = contents.history
    assert history is not None
    if not history.changes:
        return
    moved, least = sum(change.moves for change in history.changes), history.necessary_moves
    what = f"{format_count(moved, 'queue')} moved in {format_count(len(history.changes), 'change')}"
    if moved <= least:
        yield _finding(Severity.OK, f"{what}, and the minimum is {least}")
        return
    strategy = contents.group_view.strategy if contents.group_view is not None else None
    is_sticky = strategy is not None and "STICKY" in strategy.upper()
    yield _finding(
        Severity.WARNING,
        f"{what}, and the minimum is {least}" + (f"; the group uses {printable(strategy)}" if strategy else ""),
        "" if is_sticky else "strategy='sticky' moves only the minimum",
    )


def _finding(severity: Severity, message: str, next_step: str = "") -> Finding:
    return Finding("", message, severity, next_step=next_step)
