"""CONFIG: a member gets the list that it was configured with, whatever the group looks like.

As in Java, neither the members nor the queues are checked. ``own`` has lists by member (as each Java member has its
own), and ``queues`` is the list of all others. With ``queues`` alone every member owns the same list, as in Java;
`explain` reports the overlap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard.balance.assignors.strategy import MemberTable, member_entry
from steelyard.model import Queue


@dataclass(frozen=True, slots=True)
class ByConfig:
    """Fixed lists, given out as they are.

    >>> fixed = ByConfig(queues_by_member={"c1": [Queue("orders", "broker-a", 3)]})
    >>> print(*fixed("billing", "c1", [], []))
    orders@broker-a:3
    >>> fixed("billing", "c2", [], [])
    []
    """

    queues: Sequence[Queue] = ()
    queues_by_member: Mapping[str, Sequence[Queue]] = field(default_factory=dict)

    name: ClassVar[str] = "CONFIG"

    def __call__(self, _group: str, member: str, _queues: Sequence[Queue], _members: Sequence[str], /) -> list[Queue]:
        own = member_entry(self.queues_by_member, member)
        return list(self.queues if own is None else own)

    def map_queues(self, change: Callable[[Queue], Queue]) -> "ByConfig":
        """Return the same lists with each queue changed."""
        own = {member: [*map(change, queues)] for member, queues in self.queues_by_member.items()}
        return ByConfig([*map(change, self.queues)], own)

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """The members that have a list; without one for the others, every member needs one."""
        table = MemberTable("queues", self.queues_by_member.keys(), is_for_all=not self.queues)
        return (table,) if self.queues_by_member else ()
