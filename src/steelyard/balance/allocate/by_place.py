"""The checks that strategies share, and the strategies that need nothing but a member's place in the list.

The rule: an empty own id, no queues or no members is an error, so that the round is skipped and nothing changes hands;
an own id that is not among the members gets nothing. An id listed twice counts at its first place.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from steelyard.balance.allocate.strategy import Plan
from steelyard.errors import AllocationError
from steelyard.model import Queue

__all__ = ["ByPlace", "place_of", "places"]


def place_of(group: str, member: str, queues: Sequence[Queue], members: Sequence[str]) -> int | None:
    """Return the first place of a member among the members, or None if it is not among them.

    >>> place_of("billing", "c2", [Queue("orders", "broker-a", 0)], ["c1", "c2", "c2"])
    1
    """
    if not member:
        raise AllocationError(
            f"a member of group {group!r} has an empty id", next_step="give every member an id of its own"
        )
    _require(group, queues, members)
    return members.index(member) if member in members else None


def places(group: str, queues: Sequence[Queue], members: Sequence[str]) -> dict[str, int]:
    """Return the first place of every member, after the same checks.

    >>> places("billing", [Queue("orders", "broker-a", 0)], ["c1", "c1", "c2"])
    {'c1': 0, 'c2': 2}
    """
    _require(group, queues, members)
    first: dict[str, int] = {}
    for place, member in enumerate(members):
        first.setdefault(member, place)
    if "" in first:
        place_of(group, "", queues, members)
    return first


def _require(group: str, queues: Sequence[Queue], members: Sequence[str]) -> None:
    if not queues:
        raise AllocationError(
            f"group {group!r} has no queues to share", next_step="check that the topic exists and can be read"
        )
    if not members:
        raise AllocationError(f"group {group!r} has no members", next_step="start a consumer of the group")


class ByPlace(ABC):
    """A strategy that cuts the list of queues by a member's place alone."""

    __slots__ = ()

    @abstractmethod
    def part(self, queues: Sequence[Queue], place: int, of: int) -> list[Queue]:
        """Return the queues of the member at a place, of so many places."""

    def usable(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """Return the queues that may be shared out: all of them, unless a strategy says otherwise."""
        return queues

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        place = place_of(group, member, queues, members)
        return [] if place is None else self.part(self.usable(queues), place, len(members))

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group."""
        at = places(group, queues, members)
        usable, of = self.usable(queues), len(members)
        return {member: self.part(usable, place, of) for member, place in at.items()}
