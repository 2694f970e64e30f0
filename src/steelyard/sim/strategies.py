"""The strategies of groups in a history, by name, with the rooms that two of them need.

A broker whose name begins with a room stands there; else the last digit of its name says which of two rooms it is in,
and the number of a member says the same of it. Left out: a fixed list for each member (CONFIG), since members that are
started again have new ids.
"""

from steelyard.balance.allocate.machine_room import MachineRoom
from steelyard.balance.allocate.names import find_strategy
from steelyard.balance.allocate.nearby import Nearby
from steelyard.balance.allocate.strategy import Strategy

__all__ = ["ROOM", "strategy_of"]

ROOM = "east"
"""The room of brokers that have one in their name, ``east@b1``."""

_NEARBY = "MACHINE_ROOM_NEARBY"


def strategy_of(name: str) -> Strategy:
    """Return the strategy of a name.

    >>> strategy_of("MACHINE_ROOM_NEARBY").name, strategy_of("AVG").name
    ('MACHINE_ROOM_NEARBY-AVG', 'AVG')
    """
    if name == MachineRoom.name:
        return MachineRoom(frozenset({ROOM}))
    if name == _NEARBY:
        return Nearby(_room_of_member, _room_of_broker)
    return find_strategy(name)


def _room_of_broker(name: str) -> str:
    return f"room {int(name[-1]) % 2}"


def _room_of_member(client_id: str) -> str:
    """Return the room of ``10.0.60.3@m2#0``: that of its number."""
    _, _, named = client_id.partition("@m")
    return f"room {int(named.partition('#')[0]) % 2}"
