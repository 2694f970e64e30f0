"""Facts about each server of a cluster, without a judgement: the rules are in cli/doctor_rules.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from steelyard.client.admin.brokers import BrokerStatus
from steelyard.client.admin.group_description import GroupDescription
from steelyard.client.admin.topics import TopicSummary
from steelyard.model import BrokerAddresses, Queue
from steelyard.net.connection_probe import ConnectOutcome, ConnectProbe

__all__ = [
    "BrokerFacts",
    "ClusterFacts",
    "ConnectOutcome",
    "ConnectProbe",
    "GroupHealthFacts",
    "NameServerFacts",
    "ServerKind",
]


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
    WANTS_CERTIFICATE = "a server that closes TLS connections"
    MUTE = "a server that says nothing"
    HANGS_UP = "a server that hangs up"
    UNKNOWN = "something else"


@dataclass(frozen=True, slots=True)
class NameServerFacts:
    """An address that was given as a name server's; steps that were not reached are None."""

    address: str
    ips: tuple[str, ...] = ()
    no_ip: str = ""
    """Why its host name has no address."""
    dialled: ConnectProbe | None = None
    kind: ServerKind | None = None
    why: str = ""
    """What it sent instead of an answer."""
    took_ms: int = 0
    brokers: Mapping[str, BrokerAddresses] | None = None

    @property
    def works(self) -> bool:
        """Whether it is a name server, and listed its brokers."""
        return self.brokers is not None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker of a name server's list: whether its addresses can be reached from here, and its status."""

    name: str
    dialled: Mapping[str, ConnectProbe]
    """By address, the master's first."""
    state: BrokerStatus | None = None
    """Its own status; None if it was not asked."""
    clock_ahead: timedelta | None = None
    """How far its clock is ahead of ours, within a second or two; None if not known."""
    may_write: bool | None = None
    """Whether its permission allows writes; None if not known."""

    @property
    def is_reachable(self) -> bool:
        """Whether one of its addresses is open."""
        return any(each.outcome is ConnectOutcome.OPEN for each in self.dialled.values())


@dataclass(frozen=True, slots=True)
class GroupHealthFacts:
    """A group: its description, queues that are stalled, and its dead letters."""

    view: GroupDescription
    still: Mapping[Queue, timedelta] = field(default_factory=dict)
    """Queues with an owner that made no progress between two polls, and how long their oldest message waits."""
    dead: int = 0
    """The number of dead letters."""
    died_at: datetime | None = None
    """When the last one was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All facts. ``left_out`` says what could not be collected."""

    name_servers: tuple[NameServerFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    topics: tuple[TopicSummary, ...] | None = None
    groups: tuple[GroupHealthFacts, ...] = ()
    not_there: tuple[tuple[str, str], ...] = ()
    """What was asked for and does not exist: a sentence, and the next step."""
    left_out: tuple[str, ...] = ()
    at: datetime
