"""Shares by weight: a member of weight 2 gets twice as many queues as one of weight 1.

In each topic everybody gets its exact share rounded down, and one *extra* goes to some of those whose share is not a
whole number, so that it is rounded up. Over all topics too, a member's total is its exact total rounded down or up:
without that, a hundred topics of one queue would all go to the heaviest member. Within these bounds the extras go where
the fewest queues move, as in extras.py: to owners of more than their rounded down share first, and then along every
cheaper exchange (exchange.py), if the table is small enough to look for them. Equal weights are the even shares.

Whatever is left open by that is settled by who is owed most, then by the lower number, so that all members find the
same shares.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import isfinite, lcm

from steelyard.balance.allocate.exchange import EXACT_CELLS, TopicExtras, cheapen
from steelyard.balance.allocate.member_tables import entry_of
from steelyard.errors import ConfigurationError

__all__ = ["weighted_shares", "whole_weights"]


def whole_weights(weights: Mapping[str, float], members: Sequence[str]) -> list[int]:
    """Return the members' weights as whole numbers in the same proportion; a member not mentioned weighs 1.

    >>> whole_weights({"big": 2.5}, ["big", "small"])
    [5, 2]
    """
    exact: list[Fraction] = []
    for member in members:
        found = entry_of(weights, member)
        weight = 1 if found is None else found
        if not isfinite(weight) or weight < 0:
            raise ConfigurationError(f"member {member!r} weighs {weight}", next_step="give a number of 0 or more")
        exact.append(Fraction(weight))
    if not any(exact):
        raise ConfigurationError("every member weighs 0", next_step="give one of them a weight above 0")
    scale = lcm(*(weight.denominator for weight in exact))
    return [int(weight * scale) for weight in exact]


def weighted_shares(cut: Sequence[int], weights: Sequence[int], owner: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each topic how many of its queues each member gets.

    ``owner`` is who has each queue so far, -1 for nobody.

    >>> list(weighted_shares([0, 4, 5, 6], weights=[2, 1, 1], owner=[-1] * 6))
    [[2, 1, 1], [1, 0, 0], [0, 1, 0]]
    >>> list(weighted_shares([0, 4, 5, 6], weights=[2, 1, 1], owner=[-1, -1, -1, -1, 2, 1]))
    [[2, 1, 1], [0, 0, 1], [1, 0, 0]]
    """
    table = _lay_out(cut, weights, owner)
    _give(table)
    _keep_totals(table)
    several = [topic for topic in table.topics if topic.takers]
    if 1 < len(several) <= EXACT_CELLS // len(weights):
        cheapen(several, table.load, table.lower, table.upper)
    for base, topic in zip(table.base, table.topics, strict=True):
        yield [units + (member in topic.extra) for member, units in enumerate(base)]


@dataclass(slots=True)
class _Table:
    """The extras that are being worked out, and what they have to keep to."""

    base: list[list[int]]
    """For each topic the whole part of every member's exact share."""
    topics: list[TopicExtras]
    open_extras: list[int]
    """For each topic how many extras it has to give."""
    due: list[int]
    """What the whole parts leave out of each member's exact total and no extra makes up for yet, times all weights."""
    load: list[int]
    """How many extras each member has."""
    lower: list[int]
    upper: list[int]
    whole: int
    """The sum of all weights: what one queue is in the measure of ``due``."""


def _lay_out(cut: Sequence[int], weights: Sequence[int], owner: Sequence[int]) -> _Table:
    whole = sum(weights)
    table = _Table([], [], [], [0] * len(weights), [0] * len(weights), [], [], whole)
    for start, end in pairwise(cut):
        exact = [divmod(weight * (end - start), whole) for weight in weights]
        base = [units for units, _ in exact]
        takers = [member for member, (_, rest) in enumerate(exact) if rest]
        owned = Counter(owner[start:end])
        table.base.append(base)
        table.topics.append(TopicExtras(takers, {member for member in takers if owned[member] > base[member]}, set()))
        table.open_extras.append(end - start - sum(base))
        for member in takers:
            table.due[member] += exact[member][1]
    table.lower = [due // whole for due in table.due]
    table.upper = [-(-due // whole) for due in table.due]
    return table


def _give(table: _Table) -> None:
    """Give the extras to those who keep a queue by it, then to the others: each time to whom most is due."""
    for to_the_rich in (True, False):
        for topic, count in zip(table.topics, table.open_extras, strict=True):
            missing = count - len(topic.extra)
            if missing:
                candidates = topic.rich if to_the_rich else set(topic.takers) - topic.extra
                for member in sorted(candidates, key=lambda member: (-table.due[member], member))[:missing]:
                    topic.extra.add(member)
                    table.load[member] += 1
                    table.due[member] -= table.whole


def _keep_totals(table: _Table) -> None:
    """Pass extras on until the total of every member is its exact one, rounded down or up.

    Such a table always exists (a table of fractions can be rounded so that its sums are rounded too). So from a member
    with too many a chain of topics leads to one that has room, and to one with too few from one that has more.
    """
    load, lower, upper = table.load, table.lower, table.upper
    everybody = range(len(load))
    for heavy in everybody:
        while load[heavy] > upper[heavy]:
            with_room = {member for member in everybody if load[member] < upper[member]}
            if not _pass_along(table, [heavy], with_room):
                break
    for light in everybody:
        while load[light] < lower[light]:
            with_more = [member for member in everybody if load[member] > lower[member]]
            if not _pass_along(table, with_more, {light}):
                break


def _pass_along(table: _Table, givers: Iterable[int], takers: Collection[int]) -> bool:
    """Pass one extra from a giver to a taker along the shortest chain of members that share topics, if there is one."""
    got_from: dict[int, tuple[TopicExtras, int] | None] = dict.fromkeys(givers)
    waiting = deque(got_from)
    topics = [topic for topic in table.topics if topic.extra]
    while waiting:
        giver = waiting.popleft()
        left: list[TopicExtras] = []
        for topic in topics:
            if giver not in topic.extra:
                left.append(topic)
                continue
            for member in topic.takers:
                if member not in topic.extra and member not in got_from:
                    got_from[member] = topic, giver
                    if member in takers:
                        _carry_out(table, got_from, member)
                        return True
                    waiting.append(member)
        # Whoever a topic leads to has been found.
        topics = left
    return False


def _carry_out(table: _Table, got_from: Mapping[int, tuple[TopicExtras, int] | None], taker: int) -> None:
    while (step := got_from[taker]) is not None:
        topic, giver = step
        topic.extra.remove(giver)
        topic.extra.add(taker)
        table.load[giver] -= 1
        table.load[taker] += 1
        taker = giver
