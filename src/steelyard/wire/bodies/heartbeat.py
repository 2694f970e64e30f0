"""Heartbeats: who a client is, which groups it belongs to, and what each of them wants.

The words of Java's enums are kept as values. ``steelyard`` holds what our own members and brokers tell each other
beyond Java; Java's readers skip it, and every field of it may be absent.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import field

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.model import FilterKind, Subscription
from steelyard.wire import limits
from steelyard.wire.body import Body, always
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "ClientCheck",
    "ConsumeKind",
    "ConsumerBeat",
    "GroupWord",
    "Heartbeat",
    "HeartbeatWord",
    "Held",
    "LedgerLine",
    "MessageModel",
    "ProducerBeat",
    "StartFrom",
    "SubscriptionBody",
]

_SUBSCRIPTION = "body of SubscriptionBody"


class ConsumeKind(Enum):
    """How a group's members get their messages (Java: ConsumeType)."""

    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(Enum):
    """Whether members share the messages or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class StartFrom(Enum):
    """Where a group without an offset starts (Java: ConsumeFromWhere). The last three are old words for the first."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    LAST_OR_MIN_AT_BOOT = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


class SubscriptionBody(Body, frozen=True, kw_only=True):
    """What a group wants of a topic (Java: SubscriptionData).

    >>> body = SubscriptionBody.of(Subscription("orders", "paid || refunded", version=7))
    >>> body.tags, body.hashes
    (('paid', 'refunded'), (3433164, -707924457))
    >>> body.subscription() == Subscription("orders", "paid || refunded", version=7)
    True
    """

    class_filter_mode: bool = always(False)
    hashes: tuple[Int32, ...] = always((), "codeSet")
    kind: str = always(FilterKind.TAG.value, "expressionType")
    expression: str = always("*", "subString")
    version: Int64 = always(0, "subVersion")
    tags: tuple[str, ...] = always((), "tagsSet")
    topic: str

    @classmethod
    def of(cls, wanted: Subscription) -> "SubscriptionBody":
        """Make the body for a subscription."""
        return cls(
            hashes=wanted.hashes,
            kind=wanted.kind.value,
            expression=wanted.expression,
            version=wanted.version,
            tags=wanted.tags,
            topic=wanted.topic,
        )

    def subscription(self) -> Subscription:
        """Return the subscription as the rest of the house knows it; its tags are read from the expression again."""
        # A pull has to carry it in a header's field, so longer ones are of no use; each tag costs memory and a hash.
        if len(self.expression) > limits.VALUE_BYTES:
            raise LimitExceeded(
                "the expression", where=_SUBSCRIPTION, limit=limits.VALUE_BYTES, found=len(self.expression)
            )
        try:
            kind = FilterKind(self.kind or FilterKind.TAG.value)
            return Subscription(self.topic, self.expression, kind, self.version)
        except (ConfigurationError, ValueError) as error:
            raise MalformedBody(str(error), where=_SUBSCRIPTION) from None


class ProducerBeat(Body, frozen=True, kw_only=True):
    """A producer group that a client belongs to (Java: ProducerData)."""

    group: str = field(name="groupName")


class ConsumerBeat(Body, frozen=True, kw_only=True):
    """A consumer group that a client belongs to (Java: ConsumerData)."""

    start_from: StartFrom | None = field(default=None, name="consumeFromWhere")
    kind: ConsumeKind | None = field(default=None, name="consumeType")
    group: str = field(name="groupName")
    model: MessageModel | None = field(default=None, name="messageModel")
    subscriptions: tuple[SubscriptionBody, ...] = always((), "subscriptionDataSet")
    unit_mode: bool = always(False)


class Held(NamedTuple):
    """A queue of the broker that hears it, and the epoch of the lock that holds it."""

    queue_id: Int32
    epoch: Int64


class GroupWord(Body, frozen=True, kw_only=True):
    """What our member says of one of its groups."""

    avoided: Int64 | None = None
    """Messages of the broker that hears it that this member had in hand when their queue was given up, and finished and
    committed before that: in all, since it began. A client of another make would have them handled again."""
    held: Mapping[str, tuple[Held, ...]] | None = None
    """By topic; only in the first heartbeat of a line."""
    stopped: tuple[str, ...] | None = None
    """Queues of the broker that hears it which stand still since a message of theirs cannot be read, in sentences."""
    strategy: str | None = None


class LedgerLine(Body, frozen=True, kw_only=True):
    """What our producer knows of one broker: how quick it is, and whether it is avoided."""

    avoided_ms: Int64 | None = None
    """For how long it will be avoided still; absent if it is not."""
    broker: str
    failures: Int64 = always(0)
    """Attempts that failed, since the producer knows this broker."""
    latency_ms: Int64 = always(0)
    """Of the last attempt; a failure counts as the producer's table says."""
    share: Int32 = always(1_000)
    """The part of its turns that it gets now, in thousandths."""
    usual_ms: Int64 | None = None
    why: str | None = None


class HeartbeatWord(Body, frozen=True, kw_only=True):
    """What our member or producer tells our broker with a heartbeat."""

    groups: Mapping[str, GroupWord] | None = None
    heartbeat_ms: Int64 | None = None
    instance: str | None = None
    leaving: bool | None = None
    ledger: tuple[LedgerLine, ...] | None = None
    """Of a producer that keeps one."""
    v: Int32 = always(1)


class Heartbeat(Body, frozen=True, kw_only=True):
    """A client and all its groups (Java: HeartbeatData)."""

    client_id: str = field(name="clientID")
    consumers: tuple[ConsumerBeat, ...] = always((), "consumerDataSet")
    fingerprint: Int32 | None = field(default=None, name="heartbeatFingerprint")
    producers: tuple[ProducerBeat, ...] = always((), "producerDataSet")
    steelyard: HeartbeatWord | None = None
    without_subscriptions: bool | None = field(default=None, name="withoutSub")


class ClientCheck(Body, frozen=True, kw_only=True):
    """A subscription to be checked before it is used (Java: CheckClientRequestBody)."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")
