"""Who is in which consumer group, on which line, and what the group wants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from steelyard.wire.bodies.heartbeat import ConsumeKind, MessageModel, StartFrom, SubscriptionBody
from steelyard.wire.peers import Peer

__all__ = ["Member", "MemberGroup", "Members"]


@dataclass(slots=True)
class Member:
    """One member of a group: a client id on its newest line."""

    id: str
    peer: Peer
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True)
class MemberGroup:
    """A group that has, or lately had, members."""

    name: str
    kind: ConsumeKind | None = None
    model: MessageModel | None = None
    start_from: StartFrom | None = None
    members: dict[str, Member] = field(default_factory=dict)
    """By client id."""
    subscriptions: Mapping[str, SubscriptionBody] = field(default_factory=dict)
    """By topic."""


class Members:
    """The registry of consumers."""

    def group(self, name: str) -> MemberGroup | None:
        """Return a group that has members, or None."""
        raise NotImplementedError

    def on_line(self, peer: Peer, group: str) -> Member | None:
        """Return the member of the group that speaks on this line, or None."""
        raise NotImplementedError

    def groups(self) -> list[str]:
        """List the groups that have members."""
        raise NotImplementedError
