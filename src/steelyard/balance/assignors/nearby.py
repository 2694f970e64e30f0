"""MACHINE_ROOM_NEARBY: queues stay in the room of their broker as long as a member is there.

Each room's queues go to its members by an inner strategy; queues of a room without members are shared by all. Rooms
come from two functions, because only the user knows where clients run. A broker or a member without a room is an error,
as in Java: guessing would break the agreement between members.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from steelyard.balance.assignors.average import Average
from steelyard.balance.assignors.strategy import (
    AssignmentPlan,
    MemberLookup,
    MemberTable,
    OwnedQueues,
    OwnerAwareStrategy,
    Strategy,
    member_index,
    member_indexes,
    member_tables_of,
    plan_sorted,
    uses_owners,
)
from steelyard.errors import AllocationError
from steelyard.model import Queue, sort_names

MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
"""Java's name for the strategy, before the name of the inner one."""

_Placed = TypeVar("_Placed", Queue, str)


def room_before_at(name: str) -> str | None:
    """Return the room that a name such as ``room@name`` begins with, or None.

    >>> room_before_at("east@broker-a"), room_before_at("broker-a")
    ('east', None)
    """
    room, at, _ = name.partition("@")
    return room if at else None


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Near queues first, by the inner strategy; queues of rooms without members are shared, in the order of rooms.

    >>> queues = [Queue("orders", broker, n) for broker in ("east@a", "west@b") for n in range(2)]
    >>> rooms = {"c1": "east", "c2": "east"}
    >>> print(*MachineRoomNearby(rooms.get)("billing", "c2", queues, ["c1", "c2"]))
    orders@east@a:1 orders@west@b:1
    """

    member_room: Callable[[str], str | None]
    """Where a member runs, by its id; a table of rooms is a `MemberLookup`."""

    broker_room: Callable[[str], str | None] = room_before_at
    """Where a broker stands, by its name."""

    inner: Strategy = field(default_factory=Average)

    @property
    def name(self) -> str:
        """Java's name, which ends in the name of the inner strategy."""
        return f"{MACHINE_ROOM_NEARBY}-{self.inner.name}"

    @property
    def uses_owners(self) -> bool:
        """Whether the inner strategy does."""
        return uses_owners(self.inner)

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """The table of rooms, if there is one, which every member needs; and the tables of the inner strategy."""
        rooms, inner = self.member_room, member_tables_of(self.inner)
        if not isinstance(rooms, MemberLookup):
            return inner
        return (MemberTable("member_rooms", rooms.table.keys(), is_for_all=True), *inner)

    def with_owners(self, previous: OwnedQueues, /) -> "MachineRoomNearby":
        """Return the same strategy, with these owners for the inner one if it uses them."""
        inner = self.inner
        return replace(self, inner=inner.with_owners(previous)) if isinstance(inner, OwnerAwareStrategy) else self

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if member_index(group, member, queues, members) is None:
            return []
        mine: list[Queue] = []
        for near, those in self._members_by_room(queues, members, first=self.member_room(member)):
            if member in those:
                mine += self.inner(group, member, near, those)
        return mine

    def plan_group(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> AssignmentPlan:
        """Return the plan of the whole group: one inner plan per room."""
        whole: AssignmentPlan = {member: [] for member in member_indexes(group, queues, members)}
        # A member's own room comes first in its list: rooms with members go before the shared ones.
        rooms = self._members_by_room(queues, members, first=None)
        for near, those in sorted(rooms, key=lambda room: room[1] is members):
            for member, mine in plan_sorted(self.inner, group, near, those).items():
                whole[member] += mine
        return whole

    def _members_by_room(
        self, queues: Sequence[Queue], members: Sequence[str], *, first: str | None
    ) -> list[tuple[Sequence[Queue], Sequence[str]]]:
        """Pair each room's queues with the members that share them, rooms in name order but ``first`` before all."""
        brokers = {broker: self.broker_room(broker) for broker in {queue.broker for queue in queues}}
        near = _group_by_room(queues, "queue", lambda queue: brokers[queue.broker])
        there = _group_by_room(members, "member", self.member_room)
        order = sorted(sort_names(near), key=lambda room: room != first)
        return [(near[room], there.get(room, members)) for room in order]


def _group_by_room(
    things: Iterable[_Placed], what: str, room_of: Callable[[_Placed], str | None]
) -> dict[str, list[_Placed]]:
    rooms: dict[str, list[_Placed]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise AllocationError(
                f"{what} {thing} stands in no known room", next_step="give every broker and every member a room"
            )
        rooms.setdefault(room, []).append(thing)
    return rooms
