"""What an allocation strategy is, and how a whole group's plan is made from one.

A strategy answers one question, "which of these queues are mine?", from two lists that every member sorts alike. Asked
for each member in turn it gives the plan of the group. A strategy that can make that plan in one go says so with a
method `share`; one that wants to know who owned what before says so with a method `after`.

Left out: when to ask, and what to do with the answer (balance/member.py).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from steelyard.model import Queue, in_order, names_in_order

__all__ = ["Owned", "Plan", "Remembering", "Rule", "Strategy", "WholeGroup", "plan", "remembers", "share"]

Plan: TypeAlias = dict[str, list[Queue]]
"""Each member of a group and its queues; a member without queues has an empty list."""

Owned: TypeAlias = Mapping[str, Collection[Queue]]
"""Each member and the queues it has had so far; members that are gone may be listed too."""

Rule: TypeAlias = Callable[[str, str, Sequence[Queue], Sequence[str]], Iterable[Queue]]
"""A strategy of the user's own: group, member, queues, members → the member's queues."""


@runtime_checkable
class Strategy(Protocol):
    """A named rule. Queues and members arrive in the order that all members agree on."""

    @property
    def name(self) -> str:
        """The name that members compare and people read; Java's own where Java has the strategy."""

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        """Return the queues of one member."""


@runtime_checkable
class WholeGroup(Protocol):
    """A strategy that shares out all queues at once, cheaper than asking it member by member."""

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group; both lists are in the agreed order."""


@runtime_checkable
class Remembering(Protocol):
    """A strategy whose answer depends on who owned what before."""

    @property
    def remembers(self) -> bool:
        """Whether that is so; one that asks another does as that one does."""

    def after(self, previous: Owned, /) -> Strategy:
        """Return the same strategy, knowing these owners."""


def remembers(strategy: Strategy) -> bool:
    """Say whether a strategy's answer depends on who owned what before."""
    return isinstance(strategy, Remembering) and strategy.remembers


def plan(
    strategy: Strategy, group: str, queues: Iterable[Queue], members: Iterable[str], *, previous: Owned | None = None
) -> Plan:
    """Plan who gets which queue. Any order of the two lists gives the same plan; a queue listed twice counts once.

    An id listed twice stays listed twice, as in Java: it takes the part of its first place, and the part of the other
    place goes to nobody (only `Sticky` counts it once).

    >>> from steelyard.balance.allocate import Average
    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> {member: [q.queue_id for q in mine] for member, mine in plan(Average(), "g", queues, ["c2", "c1"]).items()}
    {'c1': [0, 1], 'c2': [2, 3]}
    """
    if previous is not None and isinstance(strategy, Remembering):
        strategy = strategy.after(previous)
    return share(strategy, group, in_order(dict.fromkeys(queues)), names_in_order(members))


def share(strategy: Strategy, group: str, queues: Sequence[Queue], members: Sequence[str]) -> Plan:
    """Plan as `plan` does, from lists that are in the agreed order already."""
    if isinstance(strategy, WholeGroup):
        return strategy.share(group, queues, members)
    return {member: strategy(group, member, queues, members) for member in dict.fromkeys(members)}
