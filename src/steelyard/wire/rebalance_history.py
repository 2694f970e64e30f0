"""The rebalance history of our brokers: one JSON record for each group and moment in which queues moved.

    {"version": 1, "group": "billing", "broker": "broker-0", "at_ms": 1700000000500,
     "members": ["c-1", "c-2"],
     "changed": [{"member": "c-2", "what": "joined", "at_ms": 1700000000405}],
     "owners": {"orders": [0, 0, 1, 1]},
     "moves": [{"topic": "orders", "queue": 2, "from": "c-1", "to": "c-2", "gap_ms": 3, "kind": "given up",
                "why": "c-2 joined", "at_ms": 1700000000412}, …],
     "rebalance": null, "left_out": 0}

``owners`` has for each of this broker's queues the index of its owner among the members after the moves, -1 for none:
so each record has the whole assignment at its time. It is empty for a group without locks. ``from`` is the last owner,
even if the queue was free since an earlier record; ``to`` is null if it became free. Names are in snake case, since
only we write this, and users read it with Spark. Decoding never fails: other bodies are None.
"""

import msgspec
from msgspec import Struct, field

from steelyard.wire.java_json import DECODE_ERRORS, Int32, Int64


class MemberChangeEntry(Struct, frozen=True, gc=False):
    """A member that joined, left, or changed its subscriptions."""

    member: str
    what: str
    """``joined``, ``back`` (after a restart of the broker), ``leaving``, ``left``, ``gone`` or ``wants``."""
    at_ms: Int64


class QueueMoveEntry(Struct, frozen=True, gc=False, kw_only=True):
    """A queue that was acquired, or became free."""

    topic: str
    queue: Int32
    before: str | None = field(name="from")
    """The last owner; None if it had none since the broker started."""
    after: str | None = field(name="to")
    """The new owner; None if it has none."""
    gap_ms: Int64 | None
    """How long it had no owner; None if it had none before, or has none yet."""
    kind: str
    """How it became free; ``first`` if it had no owner before."""
    why: str
    at_ms: Int64


class RebalanceEntry(Struct, frozen=True, gc=False, kw_only=True):
    """A rebalance that ended: every queue here has an owner, and nothing changed for a while."""

    began_ms: Int64
    """When the first member joined or left, or the first queue moved."""
    ended_ms: Int64
    """When the last queue moved."""
    moved: Int32
    """How many queues moved from one member to another."""
    least: Int32
    """The minimum for an even assignment of this broker's queues."""


class RebalanceHistoryRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What changed in a group at one moment, and the assignment after it."""

    version: Int32 = 1
    group: str
    broker: str
    at_ms: Int64
    members: tuple[str, ...] = ()
    changed: tuple[MemberChangeEntry, ...] = ()
    owners: dict[str, tuple[Int32, ...]] = {}
    moves: tuple[QueueMoveEntry, ...] = ()
    rebalance: RebalanceEntry | None = None
    left_out: Int32 = 0
    """The number of moves that did not fit."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(RebalanceHistoryRecord)


def encode_history_record(record: RebalanceHistoryRecord) -> bytes:
    """Encode a record."""
    return _encoder.encode(record)


def decode_history_record(body: bytes) -> RebalanceHistoryRecord | None:
    """Decode a record; None if the body is none."""
    try:
        return _decoder.decode(body)
    except DECODE_ERRORS:
        return None
