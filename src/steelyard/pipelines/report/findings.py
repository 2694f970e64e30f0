"""What a report found, in sentences, with what to do about it: the same on the page and on the terminal.

A sentence names its figure and what it is measured against; advice is given only where the figures say which of the
possible causes it is. What is fine is said too, in one line each, so that nobody wonders whether it was looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import ceil
from statistics import median

from steelyard.client.short_names import shortened
from steelyard.pipelines.report.skew import skew
from steelyard.pipelines.report.study import Study
from steelyard.pipelines.report.traffic import QueueLoad
from steelyard.pipelines.report.words import count, duration, named, share, size, times

__all__ = ["Finding", "Kind", "findings", "opening"]

_HEAVY_KEY = 0.1
"""A key with more than this part of all messages is worth a word."""
_MOSTLY_ONE_KEY = 0.5
"""A queue whose heaviest key is more than this part of what it has too much is busy because of that key."""
_LONG_GAP_MS = 5_000
_MUCH_LAG = 0.5
_SOME_LAG = 1_000
_NAMED = 3


class Kind(Enum):
    """How a finding is meant."""

    FINE = "fine"
    LOOK = "look"
    """Worth a look; nothing is lost by it but time."""
    WRONG = "wrong"
    """Not as the group's owner thinks it is."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    kind: Kind
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence}; {self.advice}" if self.advice else self.sentence


def opening(study: Study) -> str:
    """Say in a sentence what was looked at.

    >>> from steelyard.pipelines.report.traffic import Traffic
    >>> opening(Study(topic="orders", at_ms=0, traffic=Traffic(queues=())))
    'topic orders has 0 messages (0 B) in 0 queues on 0 brokers'
    """
    traffic = study.traffic
    told = (
        f"topic {named(study.topic)} has {count(traffic.messages, 'message')} ({size(traffic.body_bytes)}) in "
        f"{count(len(traffic.queues), 'queue')} on {count(len(traffic.brokers), 'broker')}"
    )
    if study.view is not None:
        waiting = sum(study.lags().values())
        told += (
            f"; group {named(study.view.group)} has {count(len(study.view.members), 'member')} "
            f"and {count(waiting, 'message')} to go"
        )
    return told


def findings(study: Study) -> list[Finding]:
    """Find what there is to say, what is wrong first."""
    found = [*_queues(study), *_keys(study), *_brokers(study), *_members(study), *_lag(study), *_moves(study)]
    order = list(Kind)[::-1]
    return sorted(found, key=lambda each: order.index(each.kind))


def _queues(study: Study) -> Iterator[Finding]:
    traffic = study.traffic
    if not traffic.messages:
        yield Finding(Kind.LOOK, f"nothing was written to {named(study.topic)} in this time")
        return
    weighed = skew({each: each.messages for each in traffic.queues})
    busiest = weighed.busiest
    if len(traffic.queues) < 2 or busiest is None:
        return
    if not weighed.is_uneven:
        yield Finding(Kind.FINE, f"queues are even: the busiest, {busiest.name}, has {times(weighed.ratio)} the mean")
        return
    sentence = f"queue {busiest.name} has {times(weighed.ratio)} the mean"
    if busiest.heaviest is not None:
        part = share(busiest.heaviest.messages, busiest.messages)
        sentence += f"; key {named(busiest.heaviest.key)} alone is {part} of it"
    yield Finding(Kind.LOOK, sentence, _advice_for(busiest, weighed.mean, traffic.keyed / traffic.messages))
    if weighed.empty:
        yield Finding(
            Kind.LOOK,
            f"{weighed.empty} of {count(weighed.parts, 'queue')} got nothing",
            f"{count(traffic.distinct_keys, 'key')} cannot fill {count(weighed.parts, 'queue')}"
            if traffic.keyed and traffic.distinct_keys < 3 * weighed.parts
            else "",
        )


def _advice_for(busiest: QueueLoad, mean: float, keyed: float) -> str:
    """Say what to do about a queue that has too much: it depends on whether one key makes it, or several."""
    if keyed < _MOSTLY_ONE_KEY:
        return "most messages have no key: see how their sender picks a queue"
    if busiest.heaviest is not None and busiest.heaviest.messages > _MOSTLY_ONE_KEY * (busiest.messages - mean):
        return "more queues do not help: spread that key over several, such as customer and order instead of customer"
    return "several heavy keys share it: more queues part them, or a key that has more values"


def _keys(study: Study) -> Iterator[Finding]:
    traffic = study.traffic
    heavy = [each for each in traffic.keys if each.messages > _HEAVY_KEY * traffic.messages]
    parts = len(traffic.queues)
    for each in heavy[:_NAMED]:
        # A key that has no more than an even queue's part is in nobody's way.
        if parts > 1 and each.messages * parts > traffic.messages:
            yield Finding(
                Kind.LOOK,
                f"key {named(each.key)} is {share(each.messages, traffic.messages)} of all messages: as long as it "
                f"stays in one queue, more than {ceil(traffic.messages / each.messages)} queues bring nothing",
            )
    spread = [each for each in traffic.keys if each.queues > 1]
    if traffic.keys and len(spread) < len(traffic.keys) / 2:
        for each in spread[:_NAMED]:
            yield Finding(
                Kind.LOOK,
                f"key {named(each.key)} is in {each.queues} queues, where most keys are in one: its messages are not "
                "read in order",
                "that happens once when queues are added, and always if not all senders pick alike",
            )


def _brokers(study: Study) -> Iterator[Finding]:
    loads = dict.fromkeys(study.traffic.brokers, 0)
    for each in study.traffic.queues:
        loads[each.queue.broker] += each.messages
    weighed = skew(loads)
    if weighed.parts > 1 and weighed.is_uneven and weighed.busiest is not None:
        queues = sum(each.queue.broker == weighed.busiest for each in study.traffic.queues)
        yield Finding(
            Kind.LOOK,
            f"broker {named(weighed.busiest)} got {share(weighed.most, weighed.total)} of all messages with "
            f"{share(queues, len(study.traffic.queues))} of the queues",
        )


def _members(study: Study) -> Iterator[Finding]:
    if study.view is None:
        return
    names = study.member_names()
    yield from (Finding(Kind.WRONG, named(shortened(each.sentence, names), 1_000)) for each in study.view.hazards)
    members = study.members()
    if not members:
        yield Finding(Kind.LOOK, f"nobody is in group {named(study.view.group)} now, so nobody owns a queue")
    elif not study.view.broadcast and not any(each.queues for each in members):
        yield Finding(Kind.LOOK, f"no member of group {named(study.view.group)} owns a queue of {named(study.topic)}")
    weighed = skew({each.id: each.messages for each in members if each.queues})
    if weighed.parts < 2 or weighed.busiest is None:
        return
    who = names.get(weighed.busiest, weighed.busiest)
    if not weighed.is_uneven:
        yield Finding(
            Kind.FINE, f"members are even: the queues of the busiest, {who}, got {times(weighed.ratio)} the mean"
        )
        return
    queues = {each.id: each.queues for each in members}
    is_share = queues[weighed.busiest] > 1 + min(many for many in queues.values() if many)
    yield Finding(
        Kind.LOOK,
        f"the queues of {who} got {times(weighed.ratio)} the mean of members",
        f"it has {queues[weighed.busiest]} of them, more than its share: see whether all members share by one strategy"
        if is_share
        else "it has no more of them than others, they are busier: even out the queues first",
    )


def _lag(study: Study) -> Iterator[Finding]:
    lags = study.lags()
    total = sum(lags.values())
    if not lags:
        return
    if not total:
        yield Finding(Kind.FINE, "no message waits")
        return
    weighed = skew(lags)
    names, owners = study.member_names(), study.owners()
    if weighed.parts > 1 and weighed.busiest is not None and weighed.most > max(_SOME_LAG, _MUCH_LAG * total):
        queue = weighed.busiest
        who = " and ".join(names.get(each, each) for each in owners.get(queue, ())) or "nobody"
        yield Finding(
            Kind.LOOK,
            f"{share(weighed.most, total)} of the {count(total, 'message')} that wait are in "
            f"{named(queue.broker)}:{queue.queue_id}, which {who} reads",
        )
    if len(study.waiting) > 1:
        first, last = study.waiting[0], study.waiting[-1]
        if last.messages > max(first.messages, _SOME_LAG):
            grown = last.messages - first.messages
            took = duration(last.at_ms - first.at_ms)
            yield Finding(Kind.LOOK, f"{count(grown, 'message')} more wait than {took} ago: the group does not keep up")


def _moves(study: Study) -> Iterator[Finding]:
    told = study.history
    if told is None:
        return
    names = study.member_names()

    def who(member: str) -> str:
        return names.get(member, named(member))

    for each in told.overlaps[:_NAMED]:
        yield Finding(
            Kind.WRONG,
            f"{named(each.queue.broker)}:{each.queue.queue_id} had two owners, {who(each.before)} and "
            f"{who(each.after)}, for {duration(each.span_ms)}: its messages of that time may be handled twice",
            "if they ran on two machines, see first whether their clocks agree",
        )
    if more := told.overlaps[_NAMED:]:
        yield Finding(Kind.WRONG, f"queues had two owners {count(len(more), 'time')} more")
    yield from _least(study)
    gaps = told.gaps_ms
    if gaps:
        longest = max((each for each in told.hand_overs if each.gap_ms is not None), key=lambda each: each.gap_ms or 0)
        queue = longest.queue
        yield Finding(
            Kind.LOOK if gaps[-1] > _LONG_GAP_MS else Kind.FINE,
            f"a hand-over mostly took {duration(median(gaps))}; the longest left {named(queue.broker)}:"
            f"{queue.queue_id} without a reader for {duration(gaps[-1])}, between {who(longest.before)} and "
            f"{who(longest.after)}",
        )
    for member in told.silent[:_NAMED]:
        yield Finding(
            Kind.LOOK,
            f"{who(member)} never said that it gave up what others took: it was killed, or its record ends there",
        )


def _least(study: Study) -> Iterator[Finding]:
    told = study.history
    assert told is not None
    if not told.changes:
        return
    moved, least = sum(change.moves for change in told.changes), told.needed
    what = f"{count(moved, 'queue')} moved in {count(len(told.changes), 'change')}"
    if moved <= least:
        yield Finding(Kind.FINE, f"{what}, and {least} is the least possible")
        return
    strategy = study.view.strategy if study.view is not None else None
    is_sticky = strategy is not None and "STICKY" in strategy.upper()
    yield Finding(
        Kind.LOOK,
        f"{what}, and {least} is the least possible" + (f"; the group shares by {named(strategy)}" if strategy else ""),
        "" if is_sticky else "with allocate='sticky' only what has to moves",
    )
