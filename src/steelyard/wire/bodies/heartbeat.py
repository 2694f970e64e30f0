"""Heartbeats: a client, its groups, and their subscriptions.

Values of enums are Java's names. ``steelyard`` has what our own clients and brokers add; Java ignores it, and each of
its fields may be absent.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import field

from steelyard.errors import ConfigurationError, LimitExceeded, MalformedBody
from steelyard.model import ExpressionType, Subscription
from steelyard.wire import limits
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import JsonBody, always_written

_SUBSCRIPTION = "body of SubscriptionBody"


class ConsumeType(Enum):
    """How a group's members get their messages (Java: ConsumeType)."""

    PULL = "CONSUME_ACTIVELY"
    PUSH = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(Enum):
    """Whether members share the messages or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(Enum):
    """Where a group without an offset starts (Java: ConsumeFromWhere). The last three are old names of the first."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    LAST_OR_MIN_AT_BOOT = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


class SubscriptionBody(JsonBody, frozen=True, kw_only=True):
    """A group's subscription to a topic (Java: SubscriptionData)."""

    class_filter_mode: bool = always_written(False)
    hashes: tuple[Int32, ...] = always_written((), "codeSet")
    kind: str = always_written(ExpressionType.TAG.value, "expressionType")
    expression: str = always_written("*", "subString")
    version: Int64 = always_written(0, "subVersion")
    tags: tuple[str, ...] = always_written((), "tagsSet")
    topic: str

    @classmethod
    def of(cls, subscription: Subscription) -> "SubscriptionBody":
        """Make the body for a subscription."""
        return cls(
            hashes=subscription.tag_hashes,
            kind=subscription.expression_type.value,
            expression=subscription.expression,
            version=subscription.version,
            tags=subscription.tags,
            topic=subscription.topic,
        )

    def subscription(self) -> Subscription:
        """Return the subscription as a value of the model; its tags are parsed from the expression."""
        # A pull carries it in a header field, so longer ones are of no use; each tag costs memory and a hash.
        if len(self.expression) > limits.VALUE_BYTES:
            raise LimitExceeded(
                "the expression", where=_SUBSCRIPTION, limit=limits.VALUE_BYTES, found=len(self.expression)
            )
        try:
            kind = ExpressionType(self.kind or ExpressionType.TAG.value)
            return Subscription(self.topic, self.expression, kind, self.version)
        except (ConfigurationError, ValueError) as error:
            raise MalformedBody(str(error), where=_SUBSCRIPTION) from None


class ProducerHeartbeat(JsonBody, frozen=True, kw_only=True):
    """A producer group of a client (Java: ProducerData)."""

    group: str = field(name="groupName")


class ConsumerHeartbeat(JsonBody, frozen=True, kw_only=True):
    """A consumer group of a client (Java: ConsumerData)."""

    start_from: ConsumeFromWhere | None = field(default=None, name="consumeFromWhere")
    kind: ConsumeType | None = field(default=None, name="consumeType")
    group: str = field(name="groupName")
    model: MessageModel | None = field(default=None, name="messageModel")
    subscriptions: tuple[SubscriptionBody, ...] = always_written((), "subscriptionDataSet")
    unit_mode: bool = always_written(False)


class HeldQueueEpoch(NamedTuple):
    """A queue of the receiving broker, and the epoch of its lock."""

    queue_id: Int32
    epoch: Int64


class HeartbeatGroupExtension(JsonBody, frozen=True, kw_only=True):
    """What our member adds about one of its groups."""

    avoided: Int64 | None = None
    """Messages of the receiving broker that were in flight when their queue was released, and handled and committed
    before that: the total since the start. Other clients would have them redelivered."""
    held: Mapping[str, tuple[HeldQueueEpoch, ...]] | None = None
    """By topic; only in the first heartbeat of a connection."""
    stopped: tuple[str, ...] | None = None
    """Queues of the receiving broker that are stopped by an unreadable message, in sentences."""
    strategy: str | None = None


class BrokerLatencyReport(JsonBody, frozen=True, kw_only=True):
    """A producer's record of one broker: its latency, and whether it is avoided."""

    avoided_ms: Int64 | None = None
    """How long it will still be avoided; absent if it is not."""
    broker: str
    failures: Int64 = always_written(0)
    """Failed attempts, since the producer has known this broker."""
    latency_ms: Int64 = always_written(0)
    """Of the last attempt; a failure counts as in the producer's latency table."""
    share: Int32 = always_written(1_000)
    """Its present share of its turns, in thousandths."""
    typical_ms: Int64 | None = field(default=None, name="usualMs")
    why: str | None = None


class HeartbeatExtension(JsonBody, frozen=True, kw_only=True):
    """What our member or producer adds to a heartbeat."""

    groups: Mapping[str, HeartbeatGroupExtension] | None = None
    heartbeat_ms: Int64 | None = None
    instance: str | None = None
    leaving: bool | None = None
    broker_latency: tuple[BrokerLatencyReport, ...] | None = field(default=None, name="ledger")
    """Of a producer with ``avoid_slow_brokers``."""
    v: Int32 = always_written(1)


class HeartbeatBody(JsonBody, frozen=True, kw_only=True):
    """A client and all its groups (Java: HeartbeatData)."""

    client_id: str = field(name="clientID")
    consumers: tuple[ConsumerHeartbeat, ...] = always_written((), "consumerDataSet")
    fingerprint: Int32 | None = field(default=None, name="heartbeatFingerprint")
    producers: tuple[ProducerHeartbeat, ...] = always_written((), "producerDataSet")
    steelyard: HeartbeatExtension | None = None
    without_subscriptions: bool | None = field(default=None, name="withoutSub")


class CheckClientRequest(JsonBody, frozen=True, kw_only=True):
    """A subscription to validate before it is used (Java: CheckClientRequestBody)."""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")
