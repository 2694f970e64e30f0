"""How many queues each member gets of each topic, so that all is even and as little as possible moves.

A topic of Q queues and n subscribers gives everyone its *base*, Q // n, and one *extra* to Q mod n of them. The only
choice is who gets the extras. A member is *rich* in a topic if it owns more than the base there: an extra on a rich
member lets one more queue stay where it is, any other extra makes one move. So the extras go

1. to the rich, the lightest of them first, as far as there are extras,
2. then to the lightest of the others, since those queues move in any case,
3. then from the heaviest to the lightest member until all loads are within one of each other, and
4. along every cheaper exchange that is left (exchange.py), if the table is small enough to look for them.

Members are 0 … C-1, in the agreed order; every tie goes to the lower number, so that all members find the same extras.
With unequal subscriptions loads can only be levelled where two members share a topic: step 3 then goes through the
topics a few times and takes what it finds, and step 4 is left out.

Left out: which queues are kept and which move (hand_out.py).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise

from steelyard.balance.allocate.exchange import EXACT_CELLS, TopicExtras, cheapen

__all__ = ["LEVEL_PASSES", "even_shares"]

LEVEL_PASSES = 16
"""How often unequal subscriptions are gone through; two or three passes find nearly everything there is."""


def even_shares(
    cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None
) -> Iterator[list[int]]:
    """Yield for each topic how many of its queues each member gets.

    >>> list(even_shares([0, 5, 8], members=2, owner=[0, 0, 0, 0, 1, 0, 0, 0], subs=None))
    [[2, 3], [2, 1]]
    """
    extras = _count(cut, members, owner, subs)
    _give_to_the_rich(extras)
    _give_to_the_lightest(extras)
    if subs is None:
        _level(extras)
        if 1 < len(extras.open_topics) <= EXACT_CELLS // max(members, 1):
            everybody = range(members)
            chosen = [TopicExtras(everybody, extras.rich[topic], extras.extra[topic]) for topic in extras.open_topics]
            cheapen(chosen, extras.load)
    else:
        _level_what_is_shared(extras)
    return _shares(extras)


@dataclass(slots=True)
class _Extras:
    """The table that is being worked out: one entry per topic, and the load of each member."""

    subs: Sequence[Sequence[int]] | None
    base: list[int]
    over: list[int]
    rich: list[set[int]]
    extra: list[set[int]]
    load: list[int]
    open_topics: list[int]
    """The topics that have extras to give."""

    def subscribers(self, topic: int) -> Sequence[int]:
        """Return the members that take part in a topic, in order."""
        return range(len(self.load)) if self.subs is None else self.subs[topic]

    def give(self, topic: int, takers: list[int]) -> None:
        """Give an extra of a topic to each of these members."""
        self.extra[topic].update(takers)
        for member in takers:
            self.load[member] += 1

    def swap(self, topic: int, heavy: int, light: int) -> None:
        """Take the extra of one member and give it to another."""
        self.extra[topic].remove(heavy)
        self.extra[topic].add(light)
        self.load[heavy] -= 1
        self.load[light] += 1


def _count(cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None) -> _Extras:
    topics = len(cut) - 1
    table = _Extras(subs, [], [], [], [set() for _ in range(topics)], [0] * members, [])
    for topic, (start, end) in enumerate(pairwise(cut)):
        takers = table.subscribers(topic)
        base, over = divmod(end - start, len(takers)) if takers else (0, 0)
        rich: set[int] = set()
        if over:
            table.open_topics.append(topic)
            rich = {member for member, owned in Counter(owner[start:end]).items() if owned > base and member >= 0}
        if subs is not None:
            rich.intersection_update(takers)
            # With equal subscriptions every load has the same sum of bases, which then makes no difference.
            for member in takers:
                table.load[member] += base
        table.base.append(base)
        table.over.append(over)
        table.rich.append(rich)
    return table


def _give_to_the_rich(table: _Extras) -> None:
    for topic in table.open_topics:
        lightest_first = sorted(sorted(table.rich[topic]), key=table.load.__getitem__)
        table.give(topic, lightest_first[: table.over[topic]])


def _give_to_the_lightest(table: _Extras) -> None:
    for topic in table.open_topics:
        extra = table.extra[topic]
        if missing := table.over[topic] - len(extra):
            lightest_first = sorted(table.subscribers(topic), key=table.load.__getitem__)
            table.give(topic, list(islice((member for member in lightest_first if member not in extra), missing)))


def _level(table: _Extras) -> None:
    """Move extras from the heaviest to the lightest member until loads differ by one at most.

    Everybody subscribes to everything, so of two members the heavier has an extra in more topics: there is always a
    topic where it can pass one on. Each step brings one of the two to the level, or one unit closer.
    """
    load = table.load
    if max(load) - min(load) <= 1:
        return
    level = sum(load) // len(load)
    topics_of: list[set[int]] = [set() for _ in load]
    for topic in table.open_topics:
        for member in table.extra[topic]:
            topics_of[member].add(topic)
    heaviest = [(-units, member) for member, units in enumerate(load)]
    lightest = [(units, member) for member, units in enumerate(load)]
    heapify(heaviest)
    heapify(lightest)
    while True:
        while -heaviest[0][0] != load[heaviest[0][1]]:
            heappop(heaviest)
        while lightest[0][0] != load[lightest[0][1]]:
            heappop(lightest)
        heavy, light = heaviest[0][1], lightest[0][1]
        if load[heavy] - load[light] <= 1:
            return
        units = max(1, min(load[heavy] - level - 1, level - load[light]))
        common = topics_of[heavy] - topics_of[light]
        cheapest_first = sorted(sorted(common), key=lambda topic: _cost(table.rich[topic], heavy, light))
        for topic in cheapest_first[:units]:
            table.swap(topic, heavy, light)
            topics_of[heavy].remove(topic)
            topics_of[light].add(topic)
        for member in (heavy, light):
            heappush(heaviest, (-load[member], member))
            heappush(lightest, (load[member], member))


def _cost(rich: set[int], heavy: int, light: int) -> int:
    """Return how many more queues move if the extra goes from one to the other: -1, 0 or 1."""
    return (heavy in rich) - (light in rich)


def _level_what_is_shared(table: _Extras) -> None:
    """Pass extras on within each topic while that makes loads more even; some unevenness may remain."""
    load = table.load
    for _ in range(LEVEL_PASSES):
        before = load.copy()
        for topic in table.open_topics:
            rich, extra = table.rich[topic], table.extra[topic]
            heavy_first = sorted(extra, key=lambda member: (-load[member], member in rich, member))
            others = (member for member in table.subscribers(topic) if member not in extra)
            light_first = sorted(others, key=lambda member: (load[member], member not in rich, member))
            for heavy, light in zip(heavy_first, light_first, strict=False):
                if load[heavy] - load[light] <= 1:
                    break
                table.swap(topic, heavy, light)
        if load == before:
            return


def _shares(table: _Extras) -> Iterator[list[int]]:
    members = len(table.load)
    for topic, base in enumerate(table.base):
        if table.subs is None:
            share = [base] * members
        else:
            share = [0] * members
            for member in table.subs[topic]:
                share[member] = base
        for member in table.extra[topic]:
            share[member] += 1
        yield share
