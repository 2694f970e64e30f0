"""What a strategy is, and what strategies share: checks, plans of a whole group, tables of members.

A strategy answers one question, "which of these queues are mine?", from two lists that every member sorts alike. Called
for each member in turn it gives the plan of the group; `plan_group` does so at once, and `with_owners` tells it the
owners so far. An empty own id, no queues or no members is an error, so that the rebalance changes nothing; an own id
that is not among the members gets nothing; a repeated id counts at its first place.

Left out: when to plan, and what to do with the plan (balance/group).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from steelyard.errors import AllocationError, ConfigurationError, SteelyardError
from steelyard.model import Queue, sort_names, sort_queues
from steelyard.model.reserved_names import CLIENT_ID_SUFFIX

AssignmentPlan: TypeAlias = dict[str, list[Queue]]
"""Each member of a group and its queues; a member without queues has an empty list."""

OwnedQueues: TypeAlias = Mapping[str, Collection[Queue]]
"""Each member and the queues it has had so far; members that are gone may be listed too."""

StrategyFunction: TypeAlias = Callable[[str, str, Sequence[Queue], Sequence[str]], Iterable[Queue]]
"""A strategy of the user: group, member, queues, members → the member's queues."""


@runtime_checkable
class Strategy(Protocol):
    """A named rule. Queues and members arrive in the order that all members agree on."""

    @property
    def name(self) -> str:
        """The name that members compare; Java's own where Java has the strategy."""

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        """Return the queues of one member."""


@runtime_checkable
class _WholeGroupStrategy(Protocol):
    """A strategy that plans a whole group at once, cheaper than member by member."""

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group; both lists are in the agreed order."""


@runtime_checkable
class OwnerAwareStrategy(Protocol):
    """A strategy whose plan depends on the owners so far."""

    @property
    def uses_owners(self) -> bool:
        """Whether it does; a strategy with an inner one does as that one."""

    def with_owners(self, previous: OwnedQueues, /) -> Strategy:
        """Return the same strategy with these owners."""


def uses_owners(strategy: Strategy) -> bool:
    """Say whether a strategy's plan depends on the owners so far."""
    return isinstance(strategy, OwnerAwareStrategy) and strategy.uses_owners


def plan(
    strategy: Strategy,
    group: str,
    queues: Iterable[Queue],
    members: Iterable[str],
    *,
    previous: OwnedQueues | None = None,
) -> AssignmentPlan:
    """Plan the queues of a group. Any order of the two lists gives the same plan; a repeated queue counts once.

    A repeated id stays repeated, as in Java: it gets the share of its first place, and the share of the other place
    stays unassigned (only `Sticky` counts it once).

    >>> from steelyard.balance.assignors import Average
    >>> queues = [Queue("orders", "broker-a", number) for number in range(4)]
    >>> {member: [q.queue_id for q in mine] for member, mine in plan(Average(), "g", queues, ["c2", "c1"]).items()}
    {'c1': [0, 1], 'c2': [2, 3]}
    """
    if previous is not None and isinstance(strategy, OwnerAwareStrategy):
        strategy = strategy.with_owners(previous)
    return plan_sorted(strategy, group, sort_queues(dict.fromkeys(queues)), sort_names(members))


def plan_sorted(strategy: Strategy, group: str, queues: Sequence[Queue], members: Sequence[str]) -> AssignmentPlan:
    """Plan as `plan` does, from lists that are in the agreed order already."""
    if isinstance(strategy, _WholeGroupStrategy):
        return strategy.plan_group(group, queues, members)
    return {member: strategy(group, member, queues, members) for member in dict.fromkeys(members)}


def member_index(group: str, member: str, queues: Sequence[Queue], members: Sequence[str]) -> int | None:
    """Return the first place of a member among the members, or None if it is not among them.

    >>> member_index("billing", "c2", [Queue("orders", "broker-a", 0)], ["c1", "c2", "c2"])
    1
    """
    if not member:
        raise AllocationError(
            f"a member of group {group!r} has an empty id", next_step="give every member an id of its own"
        )
    _require_queues_and_members(group, queues, members)
    return members.index(member) if member in members else None


def member_indexes(group: str, queues: Sequence[Queue], members: Sequence[str]) -> dict[str, int]:
    """Return the first place of every member, after the same checks.

    >>> member_indexes("billing", [Queue("orders", "broker-a", 0)], ["c1", "c1", "c2"])
    {'c1': 0, 'c2': 2}
    """
    _require_queues_and_members(group, queues, members)
    first: dict[str, int] = {}
    for place, member in enumerate(members):
        first.setdefault(member, place)
    if "" in first:
        member_index(group, "", queues, members)
    return first


def _require_queues_and_members(group: str, queues: Sequence[Queue], members: Sequence[str]) -> None:
    if not queues:
        raise AllocationError(
            f"group {group!r} has no queues to share", next_step="check that the topic exists and can be read"
        )
    if not members:
        raise AllocationError(f"group {group!r} has no members", next_step="start a consumer of the group")


class PositionalStrategy(ABC):
    """A strategy that divides the list of queues by a member's place alone."""

    __slots__ = ()

    @abstractmethod
    def queues_at(self, queues: Sequence[Queue], index: int, count: int) -> list[Queue]:
        """Return the queues of the member at a place, of this many places."""

    def usable_queues(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """Return the queues that may be shared: all, unless a strategy says otherwise."""
        return queues

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        place = member_index(group, member, queues, members)
        return [] if place is None else self.queues_at(self.usable_queues(queues), place, len(members))

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group."""
        at = member_indexes(group, queues, members)
        usable, of = self.usable_queues(queues), len(members)
        return {member: self.queues_at(usable, place, of) for member, place in at.items()}


@dataclass(frozen=True, slots=True)
class CustomStrategy:
    """A rule of the user, ``(group, member, queues, members) -> queues``, under a name.

    The callable is foreign code, so it gets lists of its own, and its answer is checked: what it raises, and queues
    that were not offered, become an `AllocationError` that names the strategy. A repeated queue counts once.

    >>> def first_takes_all(group, member, queues, members):
    ...     return queues if member == members[0] else []
    >>> greedy = CustomStrategy("greedy", first_takes_all)
    >>> print(*greedy("billing", "c1", [Queue("orders", "broker-a", 0)], ["c1", "c2"]))
    orders@broker-a:0
    """

    name: str
    function: StrategyFunction

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if member_index(group, member, queues, members) is None:
            return []
        try:
            mine = list(dict.fromkeys(self.function(group, member, list(queues), list(members))))
            strange = set(mine).difference(queues)
        except SteelyardError:
            raise
        except (Exception, SystemExit) as error:
            raise AllocationError(
                f"the strategy {self.name!r} failed for member {member!r} of group {group!r}: {error!r}",
                next_step="fix the callable; until then assignments do not change",
            ) from error
        if strange:
            raise AllocationError(
                f"the strategy {self.name!r} gave member {member!r} of group {group!r} queues that were not offered: "
                f"{', '.join(sorted(map(str, strange)))}",
                next_step="return some of the queues that the callable was given",
            )
        return mine

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group; the rule is called for each member."""
        return {member: self(group, member, queues, members) for member in member_indexes(group, queues, members)}


T = TypeVar("T")

_NEW_EACH_START = re.compile(r"\d+#\d+(#[0-9a-f]+)?")
"""The process, its start time and, of a Steelyard member, random bits."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class MemberTable:
    """A setting with entries for single members: weights, rooms, fixed lists.

    The key of an entry is a member's name or its whole client id; if there are both, the id counts. A Steelyard client
    id has its name between the address and the parts that change with each start, a Java client has its instanceName
    there. A name that several members have counts for each of them.

    An entry that matches no member has no effect, which is easily overlooked. So a member that must be in a table and
    is not does not start, nor does one with an entry that can match no member (`check_member_tables`); an entry that
    matches no member of a running group is reported by its members (`GroupMonitor`).
    """

    setting: str
    keys: Collection[str]
    is_for_all: bool = False
    """Whether every member needs an entry."""


@runtime_checkable
class _HasMemberTables(Protocol):
    """A strategy with settings for single members."""

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """Its non-empty tables."""


@dataclass(frozen=True, slots=True)
class MemberLookup(Generic[T]):
    """The entry of a table for a member, as a function.

    >>> MemberLookup({"till-1": "east"})("10.0.0.7@till-1#7#1700000000#ab12@sy1")
    'east'
    """

    table: Mapping[str, T]

    def __call__(self, client_id: str) -> T | None:
        return member_entry(self.table, client_id)


def member_name(client_id: str) -> str | None:
    """Return the name in a client id, or None.

    >>> member_name("10.0.0.7@till-1#7#1700000000#ab12@sy1"), member_name("10.0.0.7@7#1700000000#ab12@sy1")
    ('till-1', None)
    >>> member_name("10.0.0.8@blue@unit"), member_name("10.0.0.8@4711#81723648172"), member_name("c1")
    ('blue', None, None)
    """
    instance = client_id.removesuffix(CLIENT_ID_SUFFIX).partition("@")[2]
    if client_id.endswith(CLIENT_ID_SUFFIX):
        name, *rest = instance.rsplit("#", 3)
        return name if len(rest) == 3 else None
    name = instance.partition("@")[0]
    return None if not name or _NEW_EACH_START.fullmatch(name) else name


def member_entry(table: Mapping[str, T], client_id: str) -> T | None:
    """Return the entry of a table for a member: by its id, else by its name; None if there is none."""
    if client_id in table:
        return table[client_id]
    name = member_name(client_id) if table else None
    return None if name is None else table.get(name)


def unmatched_keys(keys: Iterable[str], members: Iterable[str]) -> list[str]:
    """Return the keys of a table, in their order, that match none of these members.

    >>> unmatched_keys(["till-1", "till-2"], ["10.0.0.7@till-1#7#1700000000#ab12@sy1"])
    ['till-2']
    """
    known = {each for member in members for each in (member, member_name(member))}
    return [key for key in keys if key not in known]


def member_tables_of(*strategies: Strategy) -> tuple[MemberTable, ...]:
    """Return the tables of strategies; one that several have counts once."""
    tables = (table for each in strategies if isinstance(each, _HasMemberTables) for table in each.member_tables)
    return tuple({table.setting: table for table in tables}.values())


def check_member_tables(tables: Iterable[MemberTable], client_id: str) -> None:
    """Refuse tables without an entry for a member that needs one, and entries that can match no member."""
    for table in tables:
        for key in table.keys:
            if "@" not in key and not _NAME.fullmatch(key):
                raise ConfigurationError(
                    f"{table.setting} has an entry for {key!r}, which cannot be the name of a member",
                    next_step="give the name of a member (letters, digits, ., - and _) or a whole client id",
                )
        name = member_name(client_id)
        if table.is_for_all and client_id not in table.keys and name not in table.keys:
            whom = "this member, which has no name" if name is None else f"this member, {name}"
            keys = sorted(table.keys)
            some = ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
            raise ConfigurationError(
                f"{table.setting} has no entry for {whom}", next_step=f"give name=, one of {some}, or add an entry"
            )
