"""CONFIG: a member gets the list it was configured with, whatever the group looks like.

No checks, as in Java: not of the members, not of the queues. In Java each member carries its own list; here ``own``
holds such lists by member (member_tables.py), and ``queues`` is the one that everybody else gets. With nothing but
``queues`` every member owns the same list: that is what Java does with one configuration for all, and
balance/explain.py names the overlap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from steelyard.balance.allocate.member_tables import MemberTable, entry_of
from steelyard.balance.allocate.strategy import Plan
from steelyard.model import Queue

__all__ = ["ByConfig"]


@dataclass(frozen=True, slots=True)
class ByConfig:
    """Fixed lists, given out as they are.

    >>> fixed = ByConfig(own={"c1": [Queue("orders", "broker-a", 3)]})
    >>> print(*fixed("billing", "c1", [], []))
    orders@broker-a:3
    >>> fixed("billing", "c2", [], [])
    []
    """

    queues: Sequence[Queue] = ()
    own: Mapping[str, Sequence[Queue]] = field(default_factory=dict)

    name: ClassVar[str] = "CONFIG"

    def __call__(self, _group: str, member: str, _queues: Sequence[Queue], _members: Sequence[str], /) -> list[Queue]:
        own = entry_of(self.own, member)
        return list(self.queues if own is None else own)

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """Who has a list; without one for the others, everybody needs one."""
        return (MemberTable("queues", self.own.keys(), is_for_all=not self.queues),) if self.own else ()

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return every member's list."""
        return {member: self(group, member, queues, members) for member in members}
