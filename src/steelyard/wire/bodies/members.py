"""The members of a group, their connections and subscriptions, and the running state of a consumer."""

from collections.abc import Mapping
from enum import Enum

from msgspec import field

from steelyard.model import Queue
from steelyard.model.finding import Finding, Severity
from steelyard.wire.bodies.heartbeat import (
    BrokerLatencyReport,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    SubscriptionBody,
)
from steelyard.wire.java_json import Double, Int32, Int64
from steelyard.wire.json_body import ByQueue, JsonBody, always_written


class MemberEntry(JsonBody, frozen=True, kw_only=True):
    """One member, as our broker reports it."""

    id: str
    leaving: bool | None = None
    ours: bool | None = None
    strategy: str | None = None
    topics: tuple[str, ...] | None = None


class FindingEntry(JsonBody, frozen=True, kw_only=True):
    """A finding of our broker."""

    kind: str = always_written("")
    message: str = always_written("")
    next_step: str | None = None
    severity: Severity = Severity.ERROR

    @property
    def finding(self) -> Finding:
        """The finding as a value."""
        return Finding(self.kind, self.message, self.severity, next_step=self.next_step or "")

    @classmethod
    def of(cls, finding: Finding) -> "FindingEntry":
        """Make it from a value; the numbers are in the sentence."""
        return cls(
            kind=finding.kind,
            message=finding.message,
            next_step=finding.next_step or None,
            severity=finding.severity,
        )


class WaitingQueueEntry(JsonBody, frozen=True, kw_only=True):
    """A queue of this broker in which a group makes no progress; in milliseconds before now, as clocks differ."""

    lag: Int64 = always_written(0)
    offset: Int64 = always_written(0)
    oldest_ms: Int64 | None = None
    """The age of the oldest waiting message."""
    queue_id: Int32 = always_written(0)
    still_ms: Int64 = always_written(0)
    """For how long the committed offset has not moved."""
    topic: str = always_written("")


class GroupExtension(JsonBody, frozen=True, kw_only=True):
    """What our broker adds about a group.

    ``owners`` has for each of this broker's queues the index of its owner in the list of ids, -1 for none.
    """

    epoch: Int64 | None = None
    findings: tuple[FindingEntry, ...] | None = None
    """What looks wrong in the group."""
    members: tuple[MemberEntry, ...] | None = None
    owners: Mapping[str, tuple[Int32, ...]] | None = None
    queues: Mapping[str, Int32] | None = None
    settled: bool | None = None
    v: Int32 = always_written(1)
    waiting: tuple[WaitingQueueEntry, ...] | None = None
    """Queues with waiting messages whose committed offset has not moved for long; only for tools."""


class ConsumerIdList(JsonBody, frozen=True, kw_only=True):
    """The ids of a group's members (Java: GetConsumerListByGroupResponseBody)."""

    ids: tuple[str, ...] = always_written((), "consumerIdList")
    steelyard: GroupExtension | None = None


class ClientExtension(JsonBody, frozen=True, kw_only=True):
    """What our broker adds about a client of ours, for tools."""

    ago_ms: Int64 = always_written(0)
    """How long ago the client reported it."""
    broker_latency: tuple[BrokerLatencyReport, ...] | None = field(default=None, name="ledger")
    """The broker latencies of a producer, up to date: a broker may no longer be avoided."""
    v: Int32 = always_written(1)


class ConnectionEntry(JsonBody, frozen=True, kw_only=True):
    """A client's connection to a broker."""

    client_address: str | None = field(default=None, name="clientAddr")
    client_id: str | None = None
    language: str | None = None
    steelyard: ClientExtension | None = None
    version: Int32 = always_written(0)


class ConsumerConnections(JsonBody, frozen=True, kw_only=True):
    """The connections, modes and subscriptions of a group (Java: ConsumerConnection)."""

    connections: tuple[ConnectionEntry, ...] = always_written((), "connectionSet")
    start_from: ConsumeFromWhere | None = field(default=None, name="consumeFromWhere")
    kind: ConsumeType | None = field(default=None, name="consumeType")
    model: MessageModel | None = field(default=None, name="messageModel")
    steelyard: GroupExtension | None = None
    subscriptions: Mapping[str, SubscriptionBody] = always_written({}, "subscriptionTable")


class ProducerConnections(JsonBody, frozen=True, kw_only=True):
    """The connections of a producer group (Java: ProducerConnection)."""

    connections: tuple[ConnectionEntry, ...] = always_written((), "connectionSet")


class ProducerEntry(JsonBody, frozen=True, kw_only=True):
    """A producer of a broker (Java: ProducerInfo)."""

    client_id: str | None = None
    language: str | None = None
    seen_ms: Int64 = always_written(0, "lastUpdateTimestamp")
    remote_ip: str | None = field(default=None, name="remoteIP")
    steelyard: ClientExtension | None = None
    version: Int32 = always_written(0)


class ProducerTable(JsonBody, frozen=True, kw_only=True):
    """All producers of a broker, by group (Java: ProducerTableInfo)."""

    groups: Mapping[str, tuple[ProducerEntry, ...]] = always_written({}, "data")


class GroupSubscription(JsonBody, frozen=True, kw_only=True):
    """A group's subscription to a topic (Java: QuerySubscriptionResponseBody)."""

    group: str | None = None
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")
    topic: str | None = None


class ProcessQueueState(JsonBody, frozen=True, kw_only=True):
    """A queue that a member holds (Java: ProcessQueueInfo). On the wire it is ``droped``."""

    cached_messages: Int32 = always_written(0, "cachedMsgCount")
    cached_max_offset: Int64 = always_written(0, "cachedMsgMaxOffset")
    cached_min_offset: Int64 = always_written(0, "cachedMsgMinOffset")
    cached_mib: Int32 = always_written(0, "cachedMsgSizeInMiB")
    commit_offset: Int64 = always_written(0)
    dropped: bool = always_written(False, "droped")
    consumed_ms: Int64 = always_written(0, "lastConsumeTimestamp")
    locked_ms: Int64 = always_written(0, "lastLockTimestamp")
    pulled_ms: Int64 = always_written(0, "lastPullTimestamp")
    locked: bool = always_written(False)
    transaction_messages: Int32 = always_written(0, "transactionMsgCount")
    transaction_max_offset: Int64 = always_written(0, "transactionMsgMaxOffset")
    transaction_min_offset: Int64 = always_written(0, "transactionMsgMinOffset")
    unlock_tries: Int64 = always_written(0, "tryUnlockTimes")


class PopProcessQueueState(JsonBody, frozen=True, kw_only=True):
    """A queue that a member pops from (Java: PopProcessQueueInfo)."""

    dropped: bool = always_written(False, "droped")
    popped_ms: Int64 = always_written(0, "lastPopTimestamp")
    unacknowledged: Int32 = always_written(0, "waitAckCount")


class ConsumeStatus(JsonBody, frozen=True, kw_only=True):
    """A member's throughput on a topic (Java: ConsumeStatus)."""

    failed_messages: Int64 = always_written(0, "consumeFailedMsgs")
    failed_tps: Double = always_written(0.0, "consumeFailedTPS")
    handled_tps: Double = always_written(0.0, "consumeOKTPS")
    handle_ms: Double = always_written(0.0, "consumeRT")
    pull_ms: Double = always_written(0.0, "pullRT")
    pull_tps: Double = always_written(0.0, "pullTPS")


class RunningHandler(JsonBody, frozen=True, kw_only=True):
    """A handler of our member that runs now.

    >>> queue = Queue("orders", "broker-a", 3)
    >>> str(RunningHandler(handler="bill", message_id="7F01", offset=41, queue=queue, running_ms=90_500, worker="w-0"))
    'w-0: bill has run for 90.5 s with message 7F01 of orders@broker-a:3, offset 41'
    """

    handler: str
    message_id: str
    messages: Int32 = always_written(1)
    """How many it has: of a batch, only the first is named."""
    offset: Int64
    queue: Queue
    running_ms: Int64
    """How long it has had them."""
    stack: str = always_written("")
    """Its Python stack, as a traceback shows it."""
    worker: str
    """Its thread or asyncio task."""

    def __str__(self) -> str:
        which = (
            f"message {self.message_id}" if self.messages == 1 else f"{self.messages} messages from {self.message_id}"
        )
        return (
            f"{self.worker}: {self.handler} has run for {self.running_ms / 1000:.1f} s with {which} of {self.queue}, "
            f"offset {self.offset}"
        )


class RunningStateExtension(JsonBody, frozen=True, kw_only=True):
    """What our member adds about its queues; ``departed`` has the milliseconds since each id was seen.

    ``owned_ms`` has how long it has owned each of ``held``, in the same order; -1 if that is not certain. About other
    members: what those that do not respond last reported (``unresponsive``), and which of the requested queues they may
    hold.
    """

    departed: Mapping[str, Int64] | None = None
    draining: tuple[Queue, ...] | None = None
    held: tuple[Queue, ...] | None = None
    may_hold: Mapping[str, tuple[Queue, ...]] | None = None
    owned_ms: tuple[Int64, ...] | None = None
    running: tuple[RunningHandler, ...] | None = None
    """The handlers that run now, if stacks were requested."""
    still_ms: tuple[Int64, ...] | None = None
    """For how long the first unfinished message of each of ``held`` has been that; -1 where there is none."""
    stopped: tuple[str, ...] | None = None
    """Queues that are stopped by an unreadable message, in sentences."""
    unresponsive: Mapping[str, tuple[Queue, ...]] | None = field(default=None, name="unheard")
    v: Int32 = always_written(1)
    wanted: tuple[Queue, ...] | None = None


class ConsumerRunningState(JsonBody, frozen=True, kw_only=True):
    """A member's settings, queues, throughput and subscriptions (Java: ConsumerRunningInfo)."""

    thread_dump: str | None = field(default=None, name="jstack")
    pop_queues: ByQueue[PopProcessQueueState] | None = field(default=None, name="mqPopTable")
    queues: ByQueue[ProcessQueueState] = always_written(ByQueue(), "mqTable")
    properties: Mapping[str, str] = always_written({})
    topics: Mapping[str, ConsumeStatus] = always_written({}, "statusTable")
    steelyard: RunningStateExtension | None = None
    subscriptions: tuple[SubscriptionBody, ...] = always_written((), "subscriptionSet")
    user_properties: Mapping[str, str] | None = field(default=None, name="userConsumerInfo")


class ConsumeDirectlyOutcome(Enum):
    """The outcome of a message that a member handled on request (Java: CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    RAISED = "CR_THROW_EXCEPTION"
    RETURNED_NOTHING = "CR_RETURN_NULL"


class ConsumeDirectlyResult(JsonBody, frozen=True, kw_only=True):
    """A member's response after it handled one message on request (Java: ConsumeMessageDirectlyResult)."""

    auto_commit: bool = always_written(True)
    outcome: ConsumeDirectlyOutcome | None = field(default=None, name="consumeResult")
    order: bool = always_written(False)
    remark: str | None = None
    spent_ms: Int64 = always_written(0, "spentTimeMills")
