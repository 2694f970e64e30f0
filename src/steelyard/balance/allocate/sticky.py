"""STICKY, Steelyard's own: as even as can be, and no queue moves that need not.

Promised, for every input:

- in each topic, members that subscribe to it differ by one queue at most;
- over all topics too, where all members subscribe to the same topics; otherwise totals are levelled as far as is easily
  found;
- where all subscribe to the same topics, no plan that is so even moves fewer queues (beyond 20,000 members times topics
  a few more may move than the very least);
- the same queues, members and owners give every member the same plan, in whatever order they come;
- the plan of a carried out plan is that plan; and for one topic, every state between the two gives that plan as well,
  so that members which look at different moments agree without a leader.

With weights, even means: every share of a topic and every total is the exact one by weight, rounded down or up. Lags
trade a budget of moves for members that are evenly behind: see lags.py for what is promised then.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from typing import ClassVar

from steelyard.balance.allocate.by_place import place_of, places
from steelyard.balance.allocate.extras import even_shares
from steelyard.balance.allocate.hand_out import hand_out
from steelyard.balance.allocate.lags import even_out
from steelyard.balance.allocate.member_tables import MemberTable, entry_of
from steelyard.balance.allocate.strategy import Owned, Plan
from steelyard.balance.allocate.weights import weighted_shares, whole_weights
from steelyard.errors import ConfigurationError
from steelyard.model import Queue

__all__ = ["Sticky", "cut_by_topic", "owners_before", "sticky"]


def sticky(
    cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """Return the new owner of each queue: the plan itself, in numbers.

    Queues are 0 … Q-1 and members 0 … C-1 in the agreed order; topic t is the queues ``cut[t]`` to ``cut[t + 1] - 1``;
    an owner that is not a member (-1, say) is nobody; ``subs[t]`` are the members that subscribe to topic t, in order,
    and None says that all subscribe to all. A topic without subscribers stays with nobody, -1.

    >>> sticky([0, 8], members=3, owner=[0, 0, 0, 0, 1, 1, 1, 1])
    [0, 0, 0, 2, 1, 1, 1, 2]
    """
    if owner and (min(owner) < -1 or max(owner) >= members):
        owner = [member if 0 <= member < members else -1 for member in owner]
    return hand_out(cut, owner, even_shares(cut, members, owner, subs))


@dataclass(frozen=True, slots=True)
class Sticky:
    """The sticky strategy, with what it is to remember and to weigh.

    A queue claimed by two in ``previous`` counts for the first of them. An id listed twice among the members counts
    once.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> before = {"c1": queues[:2], "c2": queues[2:]}
    >>> print(*Sticky(before)("billing", "c1", queues, ["c1", "c2", "c3"]))
    orders@broker-a:0 orders@broker-a:1
    """

    previous: Owned = field(default_factory=dict)
    """Who has had which queues so far."""

    topics: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The topics that a member subscribes to; a member not mentioned subscribes to all."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """How much a member can carry; one not mentioned weighs 1."""

    lags: Mapping[Queue, int] = field(default_factory=dict)
    """How many messages wait in a queue; none if it is not mentioned."""

    budget: int = 0
    """How many queues may move beyond the least to make lags even."""

    name: ClassVar[str] = "STICKY"

    def __post_init__(self) -> None:
        if self.weights and self.topics:
            raise ConfigurationError(
                "weights and unequal subscriptions exclude each other", next_step="give one of weights and topics"
            )
        if self.budget < 0:
            raise ConfigurationError(f"budget is {self.budget}", next_step="give 0 or more moves")
        for queue, lag in self.lags.items():
            if lag < 0:
                raise ConfigurationError(f"the lag of {queue} is {lag}", next_step="give 0 or more messages")

    @property
    def remembers(self) -> bool:
        """It does."""
        return True

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """Whose topics or weights were given."""
        tables = MemberTable("topics", self.topics.keys()), MemberTable("weights", self.weights.keys())
        return tuple(table for table in tables if table.keys)

    def after(self, previous: Owned, /) -> "Sticky":
        """Return the same strategy, knowing these owners."""
        return replace(self, previous=previous)

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if place_of(group, member, queues, members) is None:
            return []
        return self._plan(queues, list(dict.fromkeys(members)))[member]

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group."""
        return self._plan(queues, list(places(group, queues, members)))

    def _plan(self, queues: Sequence[Queue], members: list[str]) -> Plan:
        topics, cut = cut_by_topic(queues)
        owner = owners_before(self.previous, queues, members)
        if self.weights:
            new = hand_out(cut, owner, weighted_shares(cut, whole_weights(self.weights, members), owner))
        else:
            new = sticky(cut, len(members), owner, self._subs(topics, members))
        if self.lags:
            lag = list(map(self.lags.get, queues, repeat(0)))
            new = even_out(
                cut, len(members), owner, new, lag, budget=self.budget, fixed_counts=bool(self.weights or self.topics)
            )
        # One list more than members: nobody is -1, and finds the last.
        lists: list[list[Queue]] = [[] for _ in range(len(members) + 1)]
        for queue, member in zip(queues, new, strict=True):
            lists[member].append(queue)
        return dict(zip(members, lists, strict=False))

    def _subs(self, topics: list[str], members: list[str]) -> list[list[int]] | None:
        wanted = {
            place: mine for place, member in enumerate(members) if (mine := entry_of(self.topics, member)) is not None
        }
        if all(topic in mine for mine in wanted.values() for topic in topics):
            return None
        every = range(len(members))
        return [[place for place in every if place not in wanted or topic in wanted[place]] for topic in topics]


def cut_by_topic(queues: Sequence[Queue]) -> tuple[list[str], list[int]]:
    """Return the topics of queues in order, and where each begins and the last ends.

    >>> cut_by_topic([Queue("a", "x", 0), Queue("a", "x", 1), Queue("b", "x", 0)])
    (['a', 'b'], [0, 2, 3])
    """
    sizes = Counter(queue[0] for queue in queues)
    return list(sizes), list(accumulate(sizes.values(), initial=0))


def owners_before(previous: Owned, queues: Sequence[Queue], members: Sequence[str]) -> list[int]:
    """Return the place of each queue's owner among the members, -1 where none of them had it.

    >>> a, b = Queue("t", "x", 0), Queue("t", "x", 1)
    >>> owners_before({"c2": [a], "gone": [b]}, [a, b], ["c1", "c2"])
    [1, -1]
    """
    owner_of: dict[Queue, int] = {}
    for place in reversed(range(len(members))):
        owner_of.update(zip(previous.get(members[place], ()), repeat(place)))
    return list(map(owner_of.get, queues, repeat(-1)))
