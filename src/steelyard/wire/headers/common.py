"""Shared headers, and the fields that Java's 5.x clients add to nearly every request to a broker."""

from msgspec import field

from steelyard.wire.header_codec import Header
from steelyard.wire.java_json import Int32, Int64

BOOL_TEXTS = {True: "true", False: "false", None: ""}
"""Booleans as texts, for headers that are encoded by hand."""

_LENGTHS = tuple(n.to_bytes(4, "big") for n in range(256))


def packed_length(value: bytes) -> bytes:
    """Return a value's length as in a binary header."""
    return _LENGTHS[len(value)] if len(value) < len(_LENGTHS) else len(value).to_bytes(4, "big")


class EmptyHeader(Header, frozen=True):
    """No fields at all."""


class BrokerRequest(Header, frozen=True, kw_only=True):
    """A request to a broker. Any of them may have these fields, which only namespaces and proxies use."""

    broker: str | None = field(default=None, name="bname")
    namespace: str | None = field(default=None, name="ns")
    is_namespaced: bool | None = field(default=None, name="nsd")
    is_oneway: bool | None = field(default=None, name="oway")
    source: str | None = field(default=None, name="ReqT")


class TopicRequest(BrokerRequest, frozen=True, kw_only=True):
    """A request about a topic; ``logical`` marks a queue of a static topic."""

    logical: bool | None = field(default=None, name="lo")


class TopicNameRequest(TopicRequest, frozen=True):
    """A topic: delete it, its statistics, its config, its groups (215, 202, 351, 300)."""

    topic: str


class GroupRequest(BrokerRequest, frozen=True):
    """A group: its members, or notify them that the members changed (38, 40, 203)."""

    consumer_group: str


class QueueRequest(TopicRequest, frozen=True):
    """A queue: its first offset, the time of its oldest message (31, 32)."""

    topic: str
    queue_id: Int32


class OffsetResponse(Header, frozen=True):
    """An offset, in response to 14, 29, 30 and 31."""

    offset: Int64
