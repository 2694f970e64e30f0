"""MACHINE_ROOM_NEARBY: queues stay in the room of their broker as long as a member is there.

Each room's queues go to that room's members by an inner strategy; the queues of a room without members are shared by
all members. Rooms come from two functions, because only the user knows where clients run. A broker or a member without
a room is an error, as in Java: guessing would break the agreement between members.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from steelyard.balance.allocate.average import Average
from steelyard.balance.allocate.by_place import place_of, places
from steelyard.balance.allocate.member_tables import LookUp, MemberTable, tables_of
from steelyard.balance.allocate.strategy import Owned, Plan, Remembering, Strategy, remembers, share
from steelyard.errors import AllocationError
from steelyard.model import Queue, names_in_order

__all__ = ["NEARBY", "Nearby", "room_before_at"]

NEARBY = "MACHINE_ROOM_NEARBY"
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
class Nearby:
    """Near queues first, by the inner strategy; rooms that nobody is in are shared, in the order of their names.

    >>> queues = [Queue("orders", broker, n) for broker in ("east@a", "west@b") for n in range(2)]
    >>> rooms = {"c1": "east", "c2": "east"}
    >>> print(*Nearby(rooms.get)("billing", "c2", queues, ["c1", "c2"]))
    orders@east@a:1 orders@west@b:1
    """

    member_room: Callable[[str], str | None]
    """Where a member runs, by its id; a table of rooms is a `LookUp`."""

    broker_room: Callable[[str], str | None] = room_before_at
    """Where a broker stands, by its name."""

    inner: Strategy = field(default_factory=Average)

    @property
    def name(self) -> str:
        """Java's name, which ends in the name of the inner strategy."""
        return f"{NEARBY}-{self.inner.name}"

    @property
    def remembers(self) -> bool:
        """Whether the inner strategy does."""
        return remembers(self.inner)

    @property
    def member_tables(self) -> tuple[MemberTable, ...]:
        """Who has a room, if there is a table of that, which everybody has to be in; and those of the inner one."""
        rooms = self.member_room
        mine = (MemberTable("member_rooms", rooms.table.keys(), is_for_all=True),) if isinstance(rooms, LookUp) else ()
        return (*mine, *tables_of(self.inner))

    def after(self, previous: Owned, /) -> "Nearby":
        """Return the same strategy, with an inner one that knows these owners if it asks for them."""
        return replace(self, inner=self.inner.after(previous)) if isinstance(self.inner, Remembering) else self

    def __call__(self, group: str, member: str, queues: Sequence[Queue], members: Sequence[str], /) -> list[Queue]:
        if place_of(group, member, queues, members) is None:
            return []
        mine: list[Queue] = []
        for near, those in self._rooms(queues, members, first=self.member_room(member)):
            if member in those:
                mine += self.inner(group, member, near, those)
        return mine

    def share(self, group: str, queues: Sequence[Queue], members: Sequence[str], /) -> Plan:
        """Return the plan of the whole group: one inner plan a room."""
        whole: Plan = {member: [] for member in places(group, queues, members)}
        # A member's own room comes first in its list: rooms with members go before the shared ones.
        rooms = self._rooms(queues, members, first=None)
        for near, those in sorted(rooms, key=lambda room: room[1] is members):
            for member, mine in share(self.inner, group, near, those).items():
                whole[member] += mine
        return whole

    def _rooms(
        self, queues: Sequence[Queue], members: Sequence[str], *, first: str | None
    ) -> list[tuple[Sequence[Queue], Sequence[str]]]:
        """Pair each room's queues with those who share them, rooms in name order but ``first`` before all."""
        brokers = {broker: self.broker_room(broker) for broker in {queue.broker for queue in queues}}
        near = _by_room(queues, "queue", lambda queue: brokers[queue.broker])
        there = _by_room(members, "member", self.member_room)
        order = sorted(names_in_order(near), key=lambda room: room != first)
        return [(near[room], there.get(room, members)) for room in order]


def _by_room(
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
