"""One moment of a group's history as a browser gets it: who was there, who had what after it, and what moved.

It comes from a broker's own record, which tells of that broker's queues, or from two looks of the page at the whole
group (seen_moves.py). Each has the whole grid of its brokers, so that any moment is shown without those before it.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from steelyard.model import Queue

__all__ = ["ChangedMember", "HistoryRecord", "MovedQueue", "OwnerRows", "SettledLine", "owner_rows"]

OwnerRows = dict[str, dict[str, list[int | tuple[int, ...]]]]
"""Broker → topic → for each queue the place of its owner in the list of names: -1 for nobody, several if several."""


class ChangedMember(Struct, frozen=True):
    """A member that came, went, or changed what it wants."""

    member: str
    what: str


class MovedQueue(Struct, frozen=True):
    """A queue that changed hands."""

    topic: str
    broker: str
    queue: int
    before: str | None
    after: str | None
    gap_ms: int | None
    """For how long nobody had it; None where that is not known, or nobody had it before."""
    why: str
    at_ms: int


class SettledLine(Struct, frozen=True):
    """A rebalance that came to its end on a broker."""

    began_ms: int
    ended_ms: int
    moved: int
    least: int | None


class HistoryRecord(Struct, frozen=True):
    """What changed in a moment, and who had which queue after it."""

    key: str
    """The same record has the same key, however often it is sent."""
    at_ms: int
    broker: str | None
    """Whose record it is; None if the page saw it itself."""
    members: tuple[str, ...]
    """Who was there."""
    names: tuple[str, ...]
    """Members, and whoever else had a queue: what places in ``owners`` stand for."""
    changed: tuple[ChangedMember, ...]
    owners: OwnerRows
    moves: tuple[MovedQueue, ...]
    moved: int
    """How many queues changed hands, also those that are not listed."""
    rebalance: SettledLine | None = None

    @property
    def cells(self) -> int:
        """How much room it takes: the number of queues and moves in it."""
        return len(self.moves) + sum(len(row) for topics in self.owners.values() for row in topics.values())


def owner_rows(owners: Mapping[Queue, Sequence[str]], members: Iterable[str]) -> tuple[tuple[str, ...], OwnerRows]:
    """Return names, and who has which queue by their places.

    >>> owner_rows({Queue("orders", "a", 0): ["c1"], Queue("orders", "a", 2): []}, ["c1", "c2"])
    (('c1', 'c2'), {'a': {'orders': [0, -1, -1]}})
    """
    places = {name: place for place, name in enumerate(dict.fromkeys(members))}
    rows: OwnerRows = {}
    for queue, names in owners.items():
        row = rows.setdefault(queue.broker, {}).setdefault(queue.topic, [])
        row += [-1] * (queue.queue_id + 1 - len(row))
        found = tuple(places.setdefault(name, len(places)) for name in names)
        row[queue.queue_id] = found if len(found) > 1 else found[0] if found else -1
    return tuple(places), rows
