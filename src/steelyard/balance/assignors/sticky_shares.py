"""Shares of the STICKY strategy: how many queues each member gets of each topic, evenly and with minimal movement.

A topic of Q queues and n subscribers gives every member its *base*, Q // n, and one *extra* to Q mod n of them; only
the extras are a choice. A member is *rich* in a topic if it owns more than the base there: an extra for a rich member
lets one more queue stay, any other extra makes one move. Members are 0 … C-1 in the agreed order, and every tie goes to
the lower number, so that all members find the same shares.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import chain, islice, pairwise, repeat
from math import isfinite, lcm
from typing import NamedTuple

from steelyard.balance.assignors.strategy import member_entry
from steelyard.errors import ConfigurationError

MAX_EXACT_CELLS = 20_000
"""Members times topics with extras up to which exchanges are sought; above, they take too long."""


class _TopicExtras(NamedTuple):
    """The extras of one topic."""

    takers: Collection[int]
    """Members that may have one."""
    rich: set[int]
    """Those of them that keep one more queue by having one."""
    extra: set[int]
    """Those that have one; this changes."""


def _reduce_moves(
    topics: Sequence[_TopicExtras],
    load: list[int],
    lower: Sequence[int] | None = None,
    upper: Sequence[int] | None = None,
) -> None:
    """Change the extras in place until no exchange makes fewer queues move.

    Giving up an extra where a member is rich costs one move, and taking one where it is rich saves one. An exchange is
    a closed walk, member → topic → member …, that takes an extra away on each edge into a topic and gives it on each
    edge out; one more node, the *level*, lets the upper load pass from one member to another. Extras without a closed
    walk of negative cost are the cheapest, and each walk taken lets at least one more queue stay.

    ``load`` is the number of extras of each member, and stays between its ``lower`` and ``upper``: two neighbouring
    numbers that are the same for all, unless they are given.

    >>> first, second, load = {0}, {1}, [1, 1]
    >>> _reduce_moves([_TopicExtras(range(2), {1}, first), _TopicExtras(range(2), {0}, second)], load)
    >>> first, second, load
    ({1}, {0}, [1, 1])
    """
    # No solution is better than every extra with a rich member: most are that good already.
    best = sum(min(len(topic.rich), len(topic.extra)) for topic in topics)
    level = sum(load) // len(load)
    lower = lower or [level] * len(load)
    upper = upper or [level + 1] * len(load)
    while sum(len(topic.rich & topic.extra) for topic in topics) < best:
        walk = _negative_cycle(_residual_edges(topics, load, lower, upper))
        if not walk:
            return
        _apply_cycle(walk, topics, load)


def _residual_edges(
    topics: Sequence[_TopicExtras], load: list[int], lower: Sequence[int], upper: Sequence[int]
) -> list[list[tuple[int, int]]]:
    """List the edges out of each node, as (node, cost): first the members, then the topics, last the level."""
    members = len(load)
    level = members + len(topics)
    arrows: list[list[tuple[int, int]]] = [[] for _ in range(level + 1)]
    for at, (takers, rich, extra) in enumerate(topics, start=members):
        for member in takers:
            if member in extra:
                arrows[member].append((at, int(member in rich)))
            else:
                arrows[at].append((member, -int(member in rich)))
    for member, units in enumerate(load):
        if units < upper[member]:
            arrows[member].append((level, 0))
        if units > lower[member]:
            arrows[level].append((member, 0))
    return arrows


def _negative_cycle(arrows: list[list[tuple[int, int]]]) -> list[int]:
    """Return the nodes of a closed walk with a negative cost, or nothing if there is none."""
    cost = [0] * len(arrows)
    came_from = [-1] * len(arrows)
    active = list(range(len(arrows)))
    while active:
        improved: dict[int, None] = {}
        for place in active:
            so_far = cost[place]
            for to, step in arrows[place]:
                if so_far + step < cost[to]:
                    cost[to] = so_far + step
                    came_from[to] = place
                    improved[to] = None
        # As soon as the predecessors close a circle, that circle is such a walk.
        if circle := _find_cycle(came_from):
            return circle
        active = list(improved)
    return []


def _find_cycle(came_from: list[int]) -> list[int]:
    """Return a circle among the predecessors, in walking order, or nothing."""
    seen_by = [-1] * len(came_from)
    for start in range(len(came_from)):
        place = start
        while place >= 0 and seen_by[place] < 0:
            seen_by[place] = start
            place = came_from[place]
        if place >= 0 and seen_by[place] == start:
            circle = [place]
            while (back := came_from[circle[-1]]) != place:
                circle.append(back)
            return circle[::-1]
    return []


def _apply_cycle(walk: list[int], topics: Sequence[_TopicExtras], load: list[int]) -> None:
    members = len(load)
    for place, to in zip(walk, [*walk[1:], walk[0]], strict=True):
        if place < members <= to < members + len(topics):
            topics[to - members].extra.remove(place)
            load[place] -= 1
        elif to < members <= place < members + len(topics):
            topics[place - members].extra.add(to)
            load[to] += 1


_LEVEL_PASSES = 16
"""Passes over unequal subscriptions; two or three find nearly everything there is."""


def even_shares(
    cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None
) -> Iterator[list[int]]:
    """Yield for each topic how many of its queues each member gets.

    The extras go to the rich, the lightest of them first; then to the lightest of the others, since those queues move
    in any case; then from the heaviest to the lightest member until all loads are within one of each other; then along
    every cheaper exchange, up to `MAX_EXACT_CELLS`. With unequal subscriptions loads can only be levelled where two
    members share a topic: then the topics are gone through a few times, and no exchange is sought.

    >>> list(even_shares([0, 5, 8], members=2, owner=[0, 0, 0, 0, 1, 0, 0, 0], subs=None))
    [[2, 3], [2, 1]]
    """
    extras = _Extras(cut, members, owner, subs)
    for topic in extras.open_topics:
        lightest_first = sorted(sorted(extras.rich[topic]), key=extras.load.__getitem__)
        extras.give(topic, lightest_first[: extras.over[topic]])
    for topic in extras.open_topics:
        extra = extras.extra[topic]
        if missing := extras.over[topic] - len(extra):
            lightest_first = sorted(extras.subscribers(topic), key=extras.load.__getitem__)
            extras.give(topic, list(islice((member for member in lightest_first if member not in extra), missing)))
    if subs is None:
        _level(extras)
        if 1 < len(extras.open_topics) <= MAX_EXACT_CELLS // max(members, 1):
            everybody = range(members)
            chosen = [_TopicExtras(everybody, extras.rich[topic], extras.extra[topic]) for topic in extras.open_topics]
            _reduce_moves(chosen, extras.load)
    else:
        _level_what_is_shared(extras)
    for topic, base in enumerate(extras.base):
        share = [base if subs is None else 0] * members
        for member in () if subs is None else subs[topic]:
            share[member] = base
        for member in extras.extra[topic]:
            share[member] += 1
        yield share


class _Extras:
    """The extras while they are being computed: one entry per topic, and the load of each member."""

    def __init__(
        self, cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None
    ) -> None:
        self.subs = subs
        self.base: list[int] = []
        self.over: list[int] = []
        self.rich: list[set[int]] = []
        self.extra: list[set[int]] = [set() for _ in cut[1:]]
        self.load = [0] * members
        self.open_topics: list[int] = []
        """The topics that have extras."""
        for topic, (start, end) in enumerate(pairwise(cut)):
            takers = self.subscribers(topic)
            base, over = divmod(end - start, len(takers)) if takers else (0, 0)
            rich: set[int] = set()
            if over:
                self.open_topics.append(topic)
                rich = {member for member, owned in Counter(owner[start:end]).items() if owned > base and member >= 0}
            if subs is not None:
                rich.intersection_update(takers)
                # With equal subscriptions every load has the same sum of bases, which then makes no difference.
                for member in takers:
                    self.load[member] += base
            self.base.append(base)
            self.over.append(over)
            self.rich.append(rich)

    def subscribers(self, topic: int) -> Sequence[int]:
        """Return the subscribers of a topic, in order."""
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


def _level(table: _Extras) -> None:
    """Move extras from the heaviest to the lightest member until loads differ by one at most.

    All members subscribe to all topics, so of two members the heavier has an extra in more topics: there is always a
    topic in which it can pass one on. Each step brings one of the two to the level, or one unit closer.
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
    for _ in range(_LEVEL_PASSES):
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


def integer_weights(weights: Mapping[str, float], members: Sequence[str]) -> list[int]:
    """Return the members' weights as whole numbers in the same proportion; a member not mentioned weighs 1.

    >>> integer_weights({"big": 2.5}, ["big", "small"])
    [5, 2]
    """
    exact: list[Fraction] = []
    for member in members:
        found = member_entry(weights, member)
        weight = 1 if found is None else found
        if not isfinite(weight) or weight < 0:
            raise ConfigurationError(f"member {member!r} weighs {weight}", next_step="give a number of 0 or more")
        exact.append(Fraction(weight))
    if not any(exact):
        raise ConfigurationError("every member weighs 0", next_step="give one of them a weight above 0")
    scale = lcm(*(weight.denominator for weight in exact))
    return [int(weight * scale) for weight in exact]


def weighted_shares(cut: Sequence[int], weights: Sequence[int], owner: Sequence[int]) -> Iterator[list[int]]:
    """Yield for each topic how many of its queues each member gets, by weight.

    In each topic a member gets its exact share rounded down, and some of those whose share is not a whole number get an
    extra. A member's total, too, is its exact total rounded down or up: otherwise a hundred topics of one queue would
    all go to the heaviest member. Within these bounds the extras go where the fewest queues move, as in `even_shares`.
    Equal weights give the even shares.

    ``owner`` is the owner of each queue so far, -1 for none.

    >>> list(weighted_shares([0, 4, 5, 6], weights=[2, 1, 1], owner=[-1] * 6))
    [[2, 1, 1], [1, 0, 0], [0, 1, 0]]
    >>> list(weighted_shares([0, 4, 5, 6], weights=[2, 1, 1], owner=[-1, -1, -1, -1, 2, 1]))
    [[2, 1, 1], [0, 0, 1], [1, 0, 0]]
    """
    table = _WeightedExtras(cut, weights, owner)
    _give_extras(table)
    _keep_totals(table)
    several = [topic for topic in table.topics if topic.takers]
    if 1 < len(several) <= MAX_EXACT_CELLS // len(weights):
        _reduce_moves(several, table.load, table.lower, table.upper)
    for base, topic in zip(table.base, table.topics, strict=True):
        yield [units + (member in topic.extra) for member, units in enumerate(base)]


class _WeightedExtras:
    """The extras while they are being computed, and their bounds."""

    def __init__(self, cut: Sequence[int], weights: Sequence[int], owner: Sequence[int]) -> None:
        self.whole = sum(weights)
        """The sum of all weights: what one queue is in the measure of ``due``."""
        self.base: list[list[int]] = []
        """For each topic the whole part of every member's exact share."""
        self.topics: list[_TopicExtras] = []
        self.open_extras: list[int] = []
        """For each topic how many extras it has to give."""
        self.due = [0] * len(weights)
        """What the whole parts and extras so far leave out of each member's exact total, times all weights."""
        self.load = [0] * len(weights)
        for start, end in pairwise(cut):
            exact = [divmod(weight * (end - start), self.whole) for weight in weights]
            base = [units for units, _ in exact]
            takers = [member for member, (_, rest) in enumerate(exact) if rest]
            owned = Counter(owner[start:end])
            rich = {member for member in takers if owned[member] > base[member]}
            self.base.append(base)
            self.topics.append(_TopicExtras(takers, rich, set()))
            self.open_extras.append(end - start - sum(base))
            for member in takers:
                self.due[member] += exact[member][1]
        self.lower = [due // self.whole for due in self.due]
        self.upper = [-(-due // self.whole) for due in self.due]


def _give_extras(table: _WeightedExtras) -> None:
    """Give the extras to members that keep a queue by it, then to others: each time to the one with most due."""
    for to_the_rich in (True, False):
        for topic, count in zip(table.topics, table.open_extras, strict=True):
            missing = count - len(topic.extra)
            if missing:
                candidates = topic.rich if to_the_rich else set(topic.takers) - topic.extra
                for member in sorted(candidates, key=lambda member: (-table.due[member], member))[:missing]:
                    topic.extra.add(member)
                    table.load[member] += 1
                    table.due[member] -= table.whole


def _keep_totals(table: _WeightedExtras) -> None:
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


def _pass_along(table: _WeightedExtras, givers: Iterable[int], takers: Collection[int]) -> bool:
    """Pass one extra from a giver to a taker along the shortest chain of members that share topics, if there is one."""
    got_from: dict[int, tuple[_TopicExtras, int] | None] = dict.fromkeys(givers)
    waiting = deque(got_from)
    topics = [topic for topic in table.topics if topic.extra]
    while waiting:
        giver = waiting.popleft()
        left: list[_TopicExtras] = []
        for topic in topics:
            if giver not in topic.extra:
                left.append(topic)
                continue
            for member in topic.takers:
                if member not in topic.extra and member not in got_from:
                    got_from[member] = topic, giver
                    if member in takers:
                        while (step := got_from[member]) is not None:
                            passed, giver = step
                            passed.extra.remove(giver)
                            passed.extra.add(member)
                            table.load[giver] -= 1
                            table.load[member] += 1
                            member = giver
                        return True
                    waiting.append(member)
        # Every member that a topic leads to has been found.
        topics = left
    return False


def assign_by_shares(cut: Sequence[int], owner: Sequence[int], shares: Iterable[list[int]]) -> list[int]:
    """Return the new owner of each queue; -1 where the shares of a topic leave some unassigned.

    A member keeps its lowest queues of a topic, as many as its share allows; the rest is pooled and goes, in order, to
    those with room, in order. Pool and room are matched from the low end on both sides, so a plan that is partly
    carried out leads to the same plan again: a finished pair is missing at the same place from both.

    >>> assign_by_shares([0, 5], owner=[0, 0, 0, 0, 1], shares=[[2, 2, 1]])
    [0, 0, 1, 2, 1]
    """
    new = [-1] * len(owner)
    for (start, end), share in zip(pairwise(cut), shares, strict=True):
        # No owner is -1, and takes the last index, where nothing is left.
        left = [*share, 0]
        pool: list[int] = []
        for queue in range(start, end):
            member = owner[queue]
            if left[member]:
                left[member] -= 1
                new[queue] = member
            else:
                pool.append(queue)
        if pool:
            for queue, member in zip(pool, chain.from_iterable(map(repeat, range(len(share)), left)), strict=False):
                new[queue] = member
    return new
