"""The minimal number of queues that any even plan has to move: the measure for a plan.

Even means: in each topic no two members differ by more than one queue, nor over all topics. How many queues can stay is
a flow problem. Every member keeps at most the base of each topic; the extras flow from the topics through the members,
one per cell, to a level or one above it, and an extra costs nothing if the member owns more than the base. The cost of
the cheapest full flow is the number of extras that make a queue move.

This is another algorithm than that of the plan (sticky_shares.py), so that each can be checked against the other.
"""

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise

MAX_FLOW_CELLS = 200_000
"""Members times topics up to which the flow is computed; above, each topic is counted by itself."""

_CUT_OFF = 1 << 60


def minimum_moves(
    cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None = None
) -> int:
    """Return the minimal number of queues that change their owner in any even plan.

    Topic t is the queues ``cut[t]`` to ``cut[t + 1] - 1``. An owner from 0 to ``members - 1`` is a member, a higher one
    has left (its queues move in any case), and -1 is no owner (such a queue does not move). With unequal subscriptions,
    or above `MAX_FLOW_CELLS`, no plan moves fewer, but the true minimum may be higher.

    >>> minimum_moves([0, 16], members=3, owner=[0] * 8 + [1] * 8)
    5
    """
    topics = [
        _Topic(owner[start:end], range(members) if subs is None else subs[at])
        for at, (start, end) in enumerate(pairwise(cut))
    ]
    owned = sum(1 for member in owner if member >= 0)
    kept = sum(topic.kept_by_base for topic in topics)
    several = [topic for topic in topics if topic.over]
    if subs is None and 1 < len(several) <= MAX_FLOW_CELLS // max(members, 1):
        return owned - kept - sum(topic.over for topic in several) + _FlowNetwork(several, members).cost()
    return owned - kept - sum(min(topic.over, len(topic.rich)) for topic in several)


class _Topic:
    """The counts of a topic: what its members keep for certain, and which could keep one more."""

    __slots__ = ("kept_by_base", "over", "rich")

    def __init__(self, owners: Sequence[int], subscribers: Sequence[int]) -> None:
        base, self.over = divmod(len(owners), len(subscribers)) if subscribers else (0, 0)
        takers = subscribers if isinstance(subscribers, range) else frozenset(subscribers)
        owned = {member: count for member, count in Counter(owners).items() if member in takers}
        self.kept_by_base = sum(min(count, base) for count in owned.values())
        self.rich = {member for member, count in owned.items() if count > base}


class _FlowNetwork:
    """A network of arcs: arc 2k and its way back 2k + 1, so that ``arc ^ 1`` is the other direction.

    An arc costs the price of the moves it makes, and a step, of which the longest way has fewer than a price is worth.
    So of the cheapest ways the shortest are filled first, all of one length at once, and none can run in a circle.
    """

    __slots__ = ("arcs_from", "costs", "ends", "price", "room", "sink", "source")

    def __init__(self, topics: Sequence[_Topic], members: int) -> None:
        self.source = len(topics) + members
        above, self.sink = self.source + 1, self.source + 2
        self.ends: list[int] = []
        self.room: list[int] = []
        self.costs: list[int] = []
        self.arcs_from: list[list[int]] = [[] for _ in range(self.sink + 1)]
        self.price = len(self.arcs_from)
        level, uppers = divmod(sum(topic.over for topic in topics), members)
        for at, topic in enumerate(topics):
            self._arc(self.source, at, topic.over, 0)
            for member in range(members):
                self._arc(at, len(topics) + member, 1, int(member not in topic.rich))
        for member in range(len(topics), len(topics) + members):
            self._arc(member, self.sink, level, 0)
            self._arc(member, above, 1, 0)
        self._arc(above, self.sink, uppers, 0)

    def _arc(self, start: int, end: int, room: int, moves: int) -> None:
        for place, other, free, more in ((start, end, room, moves), (end, start, 0, -moves)):
            self.arcs_from[place].append(len(self.ends))
            self.ends.append(other)
            self.room.append(free)
            self.costs.append(more * self.price + 1)

    def cost(self) -> int:
        """Return the cost of the cheapest full flow: ways of rising price are filled until none is left."""
        spent = 0
        while (distance := self._prices())[self.sink] < _CUT_OFF:
            next_arc = [0] * len(self.arcs_from)
            while self._fill_one_way(distance, next_arc):
                spent += distance[self.sink] // self.price
        return spent

    def _prices(self) -> list[int]:
        """Return the price of the cheapest way with room to each place, `_CUT_OFF` where there is none."""
        distance = [_CUT_OFF] * len(self.arcs_from)
        distance[self.source] = 0
        waiting = deque([self.source])
        while waiting:
            place = waiting.popleft()
            for arc in self.arcs_from[place]:
                end = self.ends[arc]
                if self.room[arc] and distance[place] + self.costs[arc] < distance[end]:
                    distance[end] = distance[place] + self.costs[arc]
                    waiting.append(end)
        return distance

    def _fill_one_way(self, distance: list[int], next_arc: list[int]) -> bool:
        """Send one unit along a cheapest way that has room; each arc found useless is not tried again."""
        way: list[int] = []
        place = self.source
        while place != self.sink:
            arcs = self.arcs_from[place]
            while next_arc[place] < len(arcs):
                arc = arcs[next_arc[place]]
                end = self.ends[arc]
                if self.room[arc] and distance[end] == distance[place] + self.costs[arc]:
                    break
                next_arc[place] += 1
            else:
                if not way:
                    return False
                place = self.ends[way.pop() ^ 1]
                next_arc[place] += 1
                continue
            way.append(arc)
            place = end
        for arc in way:
            self.room[arc] -= 1
            self.room[arc ^ 1] += 1
        return True
