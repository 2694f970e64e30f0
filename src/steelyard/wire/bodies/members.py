"""Who is there: the members of a group, the connections behind them, and what a group is subscribed to."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.bodies.heartbeat import ConsumeKind, LedgerLine, MessageModel, StartFrom, SubscriptionBody
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "ClientWord",
    "Connection",
    "ConsumerConnections",
    "ConsumerIds",
    "GroupSubscription",
    "GroupView",
    "MemberView",
    "ProducerConnections",
    "ProducerLine",
    "ProducerTable",
]


class MemberView(Body, frozen=True, kw_only=True):
    """One member as our broker sees it."""

    id: str
    leaving: bool | None = None
    ours: bool | None = None
    strategy: str | None = None
    topics: tuple[str, ...] | None = None


class GroupView(Body, frozen=True, kw_only=True):
    """What our broker tells our members of their group.

    ``owners`` has for each of this broker's queues the place of its owner in the list of ids, -1 for nobody.
    """

    epoch: Int64 | None = None
    hazards: tuple[str, ...] | None = None
    """What looks wrong in the group, in sentences for people."""
    members: tuple[MemberView, ...] | None = None
    owners: Mapping[str, tuple[Int32, ...]] | None = None
    queues: Mapping[str, Int32] | None = None
    settled: bool | None = None
    v: Int32 = always(1)


class ConsumerIds(Body, frozen=True, kw_only=True):
    """The ids of a group's members (Java: GetConsumerListByGroupResponseBody)."""

    ids: tuple[str, ...] = always((), "consumerIdList")
    steelyard: GroupView | None = None


class ClientWord(Body, frozen=True, kw_only=True):
    """What our broker tells our tools of a client of ours, beyond Java."""

    ago_ms: Int64 = always(0)
    """How long ago the client said it."""
    ledger: tuple[LedgerLine, ...] | None = None
    """What a producer knows of brokers, as it is by now: what was avoided may be so no longer."""
    v: Int32 = always(1)


class Connection(Body, frozen=True, kw_only=True):
    """A client's line to a broker."""

    client_address: str | None = field(default=None, name="clientAddr")
    client_id: str | None = None
    language: str | None = None
    steelyard: ClientWord | None = None
    version: Int32 = always(0)


class ConsumerConnections(Body, frozen=True, kw_only=True):
    """A group's lines, its ways and its subscriptions (Java: ConsumerConnection)."""

    connections: tuple[Connection, ...] = always((), "connectionSet")
    start_from: StartFrom | None = field(default=None, name="consumeFromWhere")
    kind: ConsumeKind | None = field(default=None, name="consumeType")
    model: MessageModel | None = field(default=None, name="messageModel")
    steelyard: GroupView | None = None
    subscriptions: Mapping[str, SubscriptionBody] = always_map("subscriptionTable")


class ProducerConnections(Body, frozen=True, kw_only=True):
    """The lines of a producer group (Java: ProducerConnection)."""

    connections: tuple[Connection, ...] = always((), "connectionSet")


class ProducerLine(Body, frozen=True, kw_only=True):
    """A producer that a broker knows (Java: ProducerInfo)."""

    client_id: str | None = None
    language: str | None = None
    seen_ms: Int64 = always(0, "lastUpdateTimestamp")
    remote_ip: str | None = field(default=None, name="remoteIP")
    steelyard: ClientWord | None = None
    version: Int32 = always(0)


class ProducerTable(Body, frozen=True, kw_only=True):
    """Every producer that a broker knows, by group (Java: ProducerTableInfo)."""

    groups: Mapping[str, tuple[ProducerLine, ...]] = always_map("data")


class GroupSubscription(Body, frozen=True, kw_only=True):
    """What a group wants of one topic (Java: QuerySubscriptionResponseBody)."""

    group: str | None = None
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")
    topic: str | None = None
