"""Queue assignments by the broker, for Java clients that request them, and queue locks for orderly consumption."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import field

from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import JsonBody, QueueRef, always_written


class MessageRequestMode(Enum):
    """How the messages of an assigned queue are requested (Java: MessageRequestMode)."""

    PULL = "PULL"
    POP = "POP"


class AssignmentRequest(JsonBody, frozen=True, kw_only=True):
    """A member's request for its queues of a topic (Java: QueryAssignmentRequestBody)."""

    client_id: str
    group: str = field(name="consumerGroup")
    model: MessageModel | None = field(default=None, name="messageModel")
    strategy: str | None = field(default=None, name="strategyName")
    topic: str


class AssignedQueue(JsonBody, frozen=True, kw_only=True):
    """A queue of the member (Java: MessageQueueAssignment)."""

    attachments: Mapping[str, str] | None = None
    queue: QueueRef = field(name="messageQueue")
    mode: MessageRequestMode | None = None


class AssignmentResponse(JsonBody, frozen=True, kw_only=True):
    """The member's queues: None means keep the present ones, an empty list means drop all."""

    queues: tuple[AssignedQueue, ...] | None = field(default=None, name="messageQueueAssignments")


class MessageRequestModeSetting(JsonBody, frozen=True, kw_only=True):
    """How a group requests the messages of a topic (Java: SetMessageRequestModeRequestBody)."""

    group: str | None = field(default=None, name="consumerGroup")
    mode: MessageRequestMode = always_written(MessageRequestMode.PULL)
    pop_share_queues: Int32 = always_written(0, "popShareQueueNum")
    topic: str | None = None


class LockExtension(JsonBody, frozen=True, kw_only=True):
    """What our member adds to a lock or an unlock; ``epochs`` has one per queue, -1 if not known."""

    epochs: tuple[Int64, ...] | None = None
    renew: bool | None = None
    v: Int32 = always_written(1)


class LockRequest(JsonBody, frozen=True, kw_only=True):
    """Queues to lock or to unlock (Java: LockBatchRequestBody, UnlockBatchRequestBody)."""

    client_id: str
    group: str = field(name="consumerGroup")
    queues: tuple[QueueRef, ...] = always_written((), "mqSet")
    only_this_broker: bool | None = None
    steelyard: LockExtension | None = None


class DeniedLock(NamedTuple):
    """A queue that was not locked, and its holder."""

    topic: str
    queue_id: Int32
    holder: str


class LockResponseExtension(JsonBody, frozen=True, kw_only=True):
    """What our broker adds to its response; ``epochs`` has one per granted queue."""

    denied: tuple[DeniedLock, ...] | None = None
    epochs: tuple[Int64, ...] | None = None
    v: Int32 = always_written(1)


class LockResponse(JsonBody, frozen=True, kw_only=True):
    """The queues that the member now holds (Java: LockBatchResponseBody)."""

    granted: tuple[QueueRef, ...] = always_written((), "lockOKMQSet")
    steelyard: LockResponseExtension | None = None
