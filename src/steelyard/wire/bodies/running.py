"""What a consumer says of itself while it runs, and how it handled a message that it was told to handle."""

from collections.abc import Mapping
from enum import Enum

from msgspec import field

from steelyard.model import Queue
from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.maps import ByQueue
from steelyard.wire.numbers import Double, Int32, Int64

__all__ = [
    "DirectOutcome",
    "DirectResult",
    "PopQueueState",
    "QueueState",
    "RunningState",
    "RunningWord",
    "TopicState",
]


class QueueState(Body, frozen=True, kw_only=True):
    """A queue that a member holds (Java: ProcessQueueInfo). The wire has it ``droped``."""

    cached_messages: Int32 = always(0, "cachedMsgCount")
    cached_max_offset: Int64 = always(0, "cachedMsgMaxOffset")
    cached_min_offset: Int64 = always(0, "cachedMsgMinOffset")
    cached_mib: Int32 = always(0, "cachedMsgSizeInMiB")
    commit_offset: Int64 = always(0)
    dropped: bool = always(False, "droped")
    consumed_ms: Int64 = always(0, "lastConsumeTimestamp")
    locked_ms: Int64 = always(0, "lastLockTimestamp")
    pulled_ms: Int64 = always(0, "lastPullTimestamp")
    locked: bool = always(False)
    transaction_messages: Int32 = always(0, "transactionMsgCount")
    transaction_max_offset: Int64 = always(0, "transactionMsgMaxOffset")
    transaction_min_offset: Int64 = always(0, "transactionMsgMinOffset")
    unlock_tries: Int64 = always(0, "tryUnlockTimes")


class PopQueueState(Body, frozen=True, kw_only=True):
    """A queue that a member pops from (Java: PopProcessQueueInfo)."""

    dropped: bool = always(False, "droped")
    popped_ms: Int64 = always(0, "lastPopTimestamp")
    unacknowledged: Int32 = always(0, "waitAckCount")


class TopicState(Body, frozen=True, kw_only=True):
    """How a member gets on with a topic (Java: ConsumeStatus)."""

    failed_messages: Int64 = always(0, "consumeFailedMsgs")
    failed_tps: Double = always(0.0, "consumeFailedTPS")
    handled_tps: Double = always(0.0, "consumeOKTPS")
    handle_ms: Double = always(0.0, "consumeRT")
    pull_ms: Double = always(0.0, "pullRT")
    pull_tps: Double = always(0.0, "pullTPS")


class RunningWord(Body, frozen=True, kw_only=True):
    """What our member says of its queues beyond Java; ``departed`` has the milliseconds since each id was seen.

    ``owned_ms`` has how long each of ``held`` has been its own, in the same order; -1 for one that is not for certain.
    Of other members it says what they last reported if they do not answer it (``unheard``), and which of the queues in
    question they may hold.
    """

    departed: Mapping[str, Int64] | None = None
    draining: tuple[Queue, ...] | None = None
    held: tuple[Queue, ...] | None = None
    may_hold: Mapping[str, tuple[Queue, ...]] | None = None
    owned_ms: tuple[Int64, ...] | None = None
    stopped: tuple[str, ...] | None = None
    """Queues that stand still since a message cannot be read, in sentences."""
    unheard: Mapping[str, tuple[Queue, ...]] | None = None
    v: Int32 = always(1)
    wanted: tuple[Queue, ...] | None = None


class RunningState(Body, frozen=True, kw_only=True):
    """A member's settings, queues, speeds and subscriptions (Java: ConsumerRunningInfo)."""

    thread_dump: str | None = field(default=None, name="jstack")
    pop_queues: ByQueue[PopQueueState] | None = field(default=None, name="mqPopTable")
    queues: ByQueue[QueueState] = always(ByQueue(), "mqTable")
    properties: Mapping[str, str] = always_map()
    topics: Mapping[str, TopicState] = always_map("statusTable")
    steelyard: RunningWord | None = None
    subscriptions: tuple[SubscriptionBody, ...] = always((), "subscriptionSet")
    user_words: Mapping[str, str] | None = field(default=None, name="userConsumerInfo")


class DirectOutcome(Enum):
    """What became of a message that a member was told to handle (Java: CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    RAISED = "CR_THROW_EXCEPTION"
    RETURNED_NOTHING = "CR_RETURN_NULL"


class DirectResult(Body, frozen=True, kw_only=True):
    """A member's answer after it handled one message at once (Java: ConsumeMessageDirectlyResult)."""

    auto_commit: bool = always(True)
    outcome: DirectOutcome | None = field(default=None, name="consumeResult")
    order: bool = always(False)
    remark: str | None = None
    spent_ms: Int64 = always(0, "spentTimeMills")
