"""What is found when each server is looked at by itself: values without an opinion (cli/doctor/judging has those)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from steelyard.client.admin.cluster import Broker
from steelyard.client.admin.group_view import GroupView
from steelyard.client.admin.topics import Topic
from steelyard.model import BrokerPlace, Queue
from steelyard.net.probing import Dialling, Door

__all__ = ["BrokerSeen", "ClusterSeen", "Dialling", "Door", "GroupSeen", "NameServerSeen", "ServerKind"]


class ServerKind(Enum):
    """What answers at an address that was given as a name server's."""

    NAME_SERVER = "a name server"
    BROKER = "a broker"
    STRANGER = "a server of the protocol"
    """It speaks the protocol and is neither of them."""
    HTTP = "an HTTP server"
    HTTP2 = "an HTTP/2 or gRPC server"
    TLS = "a server that wants TLS"
    PLAIN = "a server without TLS"
    DISTRUSTED = "a server whose certificate is not trusted"
    WANTS_CERTIFICATE = "a server that hangs up on an encrypted line"
    MUTE = "a server that says nothing"
    HANGS_UP = "a server that hangs up"
    UNKNOWN = "something else"


@dataclass(frozen=True, slots=True)
class NameServerSeen:
    """An address that was given as a name server's, step by step; what was not come to is None."""

    address: str
    ips: tuple[str, ...] = ()
    no_ip: str = ""
    """Why its name has no address."""
    dialled: Dialling | None = None
    kind: ServerKind | None = None
    why: str = ""
    """What it said instead of an answer."""
    took_ms: int = 0
    brokers: Mapping[str, BrokerPlace] | None = None

    @property
    def works(self) -> bool:
        """Whether it is a name server and told its brokers."""
        return self.brokers is not None


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A broker that a name server told of: whether its addresses can be reached from here, and how it is."""

    name: str
    dialled: Mapping[str, Dialling]
    """By address, the master's first."""
    state: Broker | None = None
    """How it says that it is; None if it was not asked."""
    clock_ahead: timedelta | None = None
    """How far its clock is ahead of ours, within a second or two; None where it does not tell."""
    may_write: bool | None = None
    """Whether it takes messages at all, by its settings; None where it does not tell."""

    @property
    def is_reachable(self) -> bool:
        """Whether one of its addresses is open."""
        return any(each.door is Door.OPEN for each in self.dialled.values())


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group: how it is, which of its queues stood still between two looks, and what it gave up."""

    view: GroupView
    still: Mapping[Queue, timedelta] = field(default_factory=dict)
    """Queues with an owner whose oldest message waits for so long, and that did not move between the looks."""
    dead: int = 0
    """How many dead letters there are."""
    died_at: datetime | None = None
    """When the last one came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """All that was seen. ``left_out`` says what there was no time for, or what nobody told."""

    name_servers: tuple[NameServerSeen, ...] = ()
    brokers: tuple[BrokerSeen, ...] = ()
    topics: tuple[Topic, ...] | None = None
    groups: tuple[GroupSeen, ...] = ()
    not_there: tuple[tuple[str, str], ...] = ()
    """What was asked for and does not exist: a sentence, and what to do."""
    left_out: tuple[str, ...] = ()
    at: datetime
