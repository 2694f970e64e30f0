"""A strategy of the user's own: an ordinary callable with a name.

The callable is foreign code, so it gets lists of its own, and its answer is looked at before anything is done with it:
what it raises, and queues that were never on offer, become an `AllocationError` that names the strategy. A queue that
it lists twice counts once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.balance.allocate.by_place import place_of, places
from steelyard.balance.allocate.strategy import Plan, Rule
from steelyard.errors import AllocationError, SteelyardError
from steelyard.model import Queue

__all__ = ["Custom"]


@dataclass(frozen=True, slots=True)
class Custom:
    """A rule ``(group, member, queues, members) -> queues`` under a name.

    >>> def first_takes_all(group, member, queues, members):
    ...     return queues if member == members[0] else []
    >>> greedy = Custom("greedy", first_takes_all)
    >>> print(*greedy("billing", "c1", [Queue("orders", "broker-a", 0)], ["c1", "c2"]))
    orders@broker-a:0
    """

    name: str
    rule: Rule

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if place_of(group, member, queues, members) is None:
            return []
        try:
            mine = list(dict.fromkeys(self.rule(group, member, list(queues), list(members))))
            strange = set(mine).difference(queues)
        except SteelyardError:
            raise
        except (Exception, SystemExit) as error:
            raise AllocationError(
                f"the strategy {self.name!r} failed for member {member!r} of group {group!r}: {error!r}",
                next_step="mend the callable; until then nothing changes hands",
            ) from error
        if strange:
            raise AllocationError(
                f"the strategy {self.name!r} gave member {member!r} of group {group!r} what was not on offer: "
                f"{', '.join(sorted(map(str, strange)))}",
                next_step="return some of the queues that the callable was given",
            )
        return mine

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group; the rule is asked for each member."""
        return {member: self(group, member, queues, members) for member in places(group, queues, members)}
