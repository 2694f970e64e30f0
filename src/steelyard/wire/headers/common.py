"""What many headers share: the fields that Java's 5.x clients add to nearly every request to a broker."""

from msgspec import field

from steelyard.wire.fields import Header
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "TRUTH",
    "BrokerRequest",
    "Empty",
    "Group",
    "OffsetAnswer",
    "QueueRequest",
    "TopicName",
    "TopicRequest",
    "length",
]

TRUTH = {True: "true", False: "false", None: ""}
"""How a truth is written, for headers that write their texts out by hand."""

_LENGTHS = tuple(n.to_bytes(4, "big") for n in range(256))


def length(value: bytes) -> bytes:
    """Return a value's length as a binary header has it."""
    return _LENGTHS[len(value)] if len(value) < len(_LENGTHS) else len(value).to_bytes(4, "big")


class Empty(Header, frozen=True):
    """No fields at all."""


class BrokerRequest(Header, frozen=True, kw_only=True):
    """A request to a broker. These fields may come with any of them, and matter only to namespaces and proxies."""

    broker: str | None = field(default=None, name="bname")
    namespace: str | None = field(default=None, name="ns")
    is_namespaced: bool | None = field(default=None, name="nsd")
    is_oneway: bool | None = field(default=None, name="oway")
    source: str | None = field(default=None, name="ReqT")


class TopicRequest(BrokerRequest, frozen=True, kw_only=True):
    """A request about a topic; ``logical`` tells a static topic's queue."""

    logical: bool | None = field(default=None, name="lo")


class TopicName(TopicRequest, frozen=True):
    """Just a topic: delete it, count it, tell its settings, who consumes it."""

    topic: str


class Group(BrokerRequest, frozen=True):
    """Just a group: who is in it, or tell its members that this changed (38, 40, 203, 352)."""

    consumer_group: str


class QueueRequest(TopicRequest, frozen=True):
    """One queue of a topic: its first offset, its oldest message's time (31, 32)."""

    topic: str
    queue_id: Int32


class OffsetAnswer(Header, frozen=True):
    """An offset, in answer to 14, 29, 30 and 31."""

    offset: Int64
