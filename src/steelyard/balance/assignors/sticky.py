"""STICKY, Steelyard's own strategy: as even as possible, and no queue moves without need.

Guaranteed for every input:

- in each topic, its subscribers differ by one queue at most;
- over all topics too, if all members have the same subscriptions; otherwise totals are levelled as far as is easily
  found;
- with equal subscriptions, no plan that is as even moves fewer queues (above 20,000 members times topics a few more may
  move than the minimum);
- the same queues, members and owners give every member the same plan, in whatever order they come;
- a plan that was carried out is planned again; and for one topic, every state on the way gives that plan as well, so
  members that rebalance at different moments agree without a leader.

With weights, even means: every share of a topic and every total is the exact one by weight, rounded down or up. Lags
trade a budget of moves for an even lag of members (lag_balance.py).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from typing import ClassVar

from steelyard.balance.assignors.lag_balance import balance_lag
from steelyard.balance.assignors.sticky_shares import assign_by_shares, even_shares, integer_weights, weighted_shares
from steelyard.balance.assignors.strategy import (
    AssignmentPlan,
    MemberTable,
    OwnedQueues,
    member_entry,
    member_index,
    member_indexes,
)
from steelyard.errors import ConfigurationError
from steelyard.model import Queue


def sticky_plan(
    cut: Sequence[int], members: int, owner: Sequence[int], subs: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """Return the new owner of each queue: the plan itself, in numbers.

    Queues are 0 … Q-1 and members 0 … C-1 in the agreed order; topic t is the queues ``cut[t]`` to ``cut[t + 1] - 1``;
    an owner that is not a member (such as -1) is none; ``subs[t]`` are the subscribers of topic t, in order, and None
    says that all subscribe to all. A topic without subscribers stays unassigned, -1.

    >>> sticky_plan([0, 8], members=3, owner=[0, 0, 0, 0, 1, 1, 1, 1])
    [0, 0, 0, 2, 1, 1, 1, 2]
    """
    if owner and (min(owner) < -1 or max(owner) >= members):
        owner = [member if 0 <= member < members else -1 for member in owner]
    return assign_by_shares(cut, owner, even_shares(cut, members, owner, subs))


@dataclass(frozen=True, slots=True)
class Sticky:
    """The sticky strategy, with the owners that it starts from.

    A queue claimed by two members in ``previous`` counts for the first. A repeated member id counts once.

    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> before = {"c1": queues[:2], "c2": queues[2:]}
    >>> print(*Sticky(before)("billing", "c1", queues, ["c1", "c2", "c3"]))
    orders@broker-a:0 orders@broker-a:1
    """

    previous: OwnedQueues = field(default_factory=dict)
    topics: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The topics of a member; a member not mentioned subscribes to all."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The capacity of a member; one not mentioned has 1."""
    lags: Mapping[Queue, int] = field(default_factory=dict)
    """The lag of a queue; one not mentioned has none."""
    budget: int = 0
    """How many queues may move beyond the minimum to balance lags."""

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
    def uses_owners(self) -> bool:
        """True."""
        return True

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """The members with topics or weights."""
        tables = MemberTable("topics", self.topics.keys()), MemberTable("weights", self.weights.keys())
        return tuple(table for table in tables if table.keys)

    def with_owners(self, previous: OwnedQueues, /) -> "Sticky":
        """Return the same strategy, knowing these owners."""
        return replace(self, previous=previous)

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if member_index(group, member, queues, members) is None:
            return []
        return self._plan(queues, list(dict.fromkeys(members)))[member]

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group."""
        return self._plan(queues, list(member_indexes(group, queues, members)))

    def _plan(self, queues: Sequence[Queue], members: list[str]) -> AssignmentPlan:
        topics, cut = topic_bounds(queues)
        owner = previous_owners(self.previous, queues, members)
        if self.weights:
            new = assign_by_shares(cut, owner, weighted_shares(cut, integer_weights(self.weights, members), owner))
        else:
            new = sticky_plan(cut, len(members), owner, self._subscribers_by_topic(topics, members))
        if self.lags:
            lag = list(map(self.lags.get, queues, repeat(0)))
            new = balance_lag(
                cut, len(members), owner, new, lag, budget=self.budget, fixed_counts=bool(self.weights or self.topics)
            )
        # One list more than members: no owner is -1, and takes the last.
        lists: list[list[Queue]] = [[] for _ in range(len(members) + 1)]
        for queue, member in zip(queues, new, strict=True):
            lists[member].append(queue)
        return dict(zip(members, lists, strict=False))

    def _subscribers_by_topic(self, topics: list[str], members: list[str]) -> list[list[int]] | None:
        wanted = {
            place: mine
            for place, member in enumerate(members)
            if (mine := member_entry(self.topics, member)) is not None
        }
        if all(topic in mine for mine in wanted.values() for topic in topics):
            return None
        every = range(len(members))
        return [[place for place in every if place not in wanted or topic in wanted[place]] for topic in topics]


def topic_bounds(queues: Sequence[Queue]) -> tuple[list[str], list[int]]:
    """Return the topics of queues in order, and where each starts and the last ends.

    >>> topic_bounds([Queue("a", "x", 0), Queue("a", "x", 1), Queue("b", "x", 0)])
    (['a', 'b'], [0, 2, 3])
    """
    sizes = Counter(queue[0] for queue in queues)
    return list(sizes), list(accumulate(sizes.values(), initial=0))


def previous_owners(previous: OwnedQueues, queues: Sequence[Queue], members: Sequence[str]) -> list[int]:
    """Return the index of each queue's owner among the members, -1 where none of them had it.

    >>> a, b = Queue("t", "x", 0), Queue("t", "x", 1)
    >>> previous_owners({"c2": [a], "gone": [b]}, [a, b], ["c1", "c2"])
    [1, -1]
    """
    owner_of: dict[Queue, int] = {}
    for place in reversed(range(len(members))):
        owner_of.update(zip(previous.get(members[place], ()), repeat(place)))
    return list(map(owner_of.get, queues, repeat(-1)))
