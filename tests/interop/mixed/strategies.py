"""How groups share queues, by Java's names, and which peers' clients can share so with each other.

A strategy is asked for by the same words of every client: {"name": "AVG"}; MACHINE_ROOM has "rooms", CONFIG has
"queues". With MACHINE_ROOM_NEARBY a broker stands in the room before the @ of its name, and a member in the room that
its own name begins with: address@room.name.
"""

from collections.abc import Mapping

import msgspec

from steelyard.balance.assignors import ByConfig, MachineRoom, MachineRoomNearby, Strategy, find_strategy
from steelyard.model import Queue

Words = Mapping[str, object]

ROOMS = ("east", "west")

SHARED_BY_ALL: tuple[Words, ...] = (
    {"name": "AVG"},
    {"name": "AVG_BY_CIRCLE"},
    # Go's takes from the list of all queues what it counted in the list of the allowed ones: allow all rooms.
    {"name": "MACHINE_ROOM", "rooms": ROOMS},
)
"""Java, Go and ours give the same member the same queues. CONFIG is among them, and has a test of its own."""

SHARED_WITH_JAVA: tuple[Words, ...] = ({"name": "CONSISTENT_HASH"}, {"name": "MACHINE_ROOM_NEARBY"})
"""Java and ours alone: Go's ring has another hash, and its room nearby is the average."""


class _Asked(msgspec.Struct, frozen=True):
    name: str
    rooms: frozenset[str] = frozenset()
    queues: tuple[Queue, ...] = ()


def machine_room_of(member: str) -> str:
    """Return the room that the name of a member begins with.

    >>> machine_room_of("10.0.0.7@east.till-1")
    'east'
    """
    return member.partition("@")[2].partition(".")[0]


def strategy_of(words: Words) -> Strategy:
    """Make the strategy that was asked for."""
    asked = msgspec.convert(dict(words), _Asked)
    if asked.name == "MACHINE_ROOM":
        return MachineRoom(asked.rooms)
    if asked.name == "MACHINE_ROOM_NEARBY":
        return MachineRoomNearby(machine_room_of)
    if asked.name == "CONFIG":
        return ByConfig(asked.queues)
    return find_strategy(asked.name)
