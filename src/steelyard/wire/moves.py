"""What a broker of ours writes down when queues change hands: one JSON text for each group and moment.

    {"version": 1, "group": "billing", "broker": "broker-0", "at_ms": 1700000000500,
     "members": ["c-1", "c-2"],
     "changed": [{"member": "c-2", "what": "joined", "at_ms": 1700000000405}],
     "owners": {"orders": [0, 0, 1, 1]},
     "moves": [{"topic": "orders", "queue": 2, "from": "c-1", "to": "c-2", "gap_ms": 3, "kind": "given up",
                "why": "c-2 joined", "at_ms": 1700000000412}, …],
     "rebalance": null, "left_out": 0}

``owners`` has for each of this broker's queues the place of its owner among the members, -1 for nobody, as they are
after the moves: so each record alone gives the whole grid at its time. A group of which nobody locks queues has none.
``from`` is who had the queue last, be it that it is free since an earlier record; ``to`` is null where it got free and
nobody has it yet. Names are in snake case, since nobody but us writes this, and people read it with Spark.

Reading never fails: what is not such a record is None.
"""

import msgspec
from msgspec import Struct, field

from steelyard.wire.numbers import UNREADABLE, Int32, Int64

__all__ = ["MemberChange", "MoveLine", "MovesRecord", "RebalanceLine", "read_moves", "write_moves"]


class MemberChange(Struct, frozen=True, gc=False):
    """A member that came, went, or changed what it wants."""

    member: str
    what: str
    """``joined``, ``back`` (after the broker was started again), ``leaving``, ``left``, ``gone`` or ``wants``."""
    at_ms: Int64


class MoveLine(Struct, frozen=True, gc=False, kw_only=True):
    """A queue that was taken, or got free."""

    topic: str
    queue: Int32
    before: str | None = field(name="from")
    """Who had it last; None if nobody had it since the broker started."""
    after: str | None = field(name="to")
    """Who has it now; None if nobody has."""
    gap_ms: Int64 | None
    """For how long nobody had it; None if nobody had it before, or nobody has it yet."""
    kind: str
    """How it got free; ``first`` if nobody had it before."""
    why: str
    at_ms: Int64


class RebalanceLine(Struct, frozen=True, gc=False, kw_only=True):
    """A group that came to rest: every queue here is held, and nothing changed for a while."""

    began_ms: Int64
    """When the first member came or went, or the first queue changed hands."""
    ended_ms: Int64
    """When the last queue changed hands."""
    moved: Int32
    """How many queues went from one member to another."""
    least: Int32
    """How many had to, if this broker's queues are to be shared evenly."""


class MovesRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What changed in a group within a moment, and who has which queue after it."""

    version: Int32 = 1
    group: str
    broker: str
    at_ms: Int64
    members: tuple[str, ...] = ()
    changed: tuple[MemberChange, ...] = ()
    owners: dict[str, tuple[Int32, ...]] = {}
    moves: tuple[MoveLine, ...] = ()
    rebalance: RebalanceLine | None = None
    left_out: Int32 = 0
    """Moves that there was no room for."""


_writer = msgspec.json.Encoder()
_reader = msgspec.json.Decoder(MovesRecord)


def write_moves(record: MovesRecord) -> bytes:
    """Write a record.

    >>> write_moves(MovesRecord(group="billing", broker="broker-0", at_ms=5))[:47]
    b'{"version":1,"group":"billing","broker":"broker'
    """
    return _writer.encode(record)


def read_moves(body: bytes) -> MovesRecord | None:
    """Read a record; None if the text is none of ours.

    >>> read_moves(b'{"version":1,"group":"billing","broker":"broker-0","at_ms":5}').group
    'billing'
    >>> read_moves(b"hello") is None
    True
    """
    try:
        return _reader.decode(body)
    except UNREADABLE:
        return None
