"""Plans made by the broker, for Java clients that ask it for their queues."""

from collections.abc import Mapping
from enum import Enum

from msgspec import field

from steelyard.wire.bodies.heartbeat import MessageModel
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.maps import QueueRef
from steelyard.wire.numbers import Int32

__all__ = [
    "AssignedQueue",
    "AssignmentAnswer",
    "AssignmentRequest",
    "RequestMode",
    "RequestModeSetting",
    "RequestModes",
]


class RequestMode(Enum):
    """How the messages of an assigned queue are asked for (Java: MessageRequestMode)."""

    PULL = "PULL"
    POP = "POP"


class AssignmentRequest(Body, frozen=True, kw_only=True):
    """A member asks for its queues of a topic (Java: QueryAssignmentRequestBody)."""

    client_id: str
    group: str = field(name="consumerGroup")
    model: MessageModel | None = field(default=None, name="messageModel")
    strategy: str | None = field(default=None, name="strategyName")
    topic: str


class AssignedQueue(Body, frozen=True, kw_only=True):
    """A queue that the member now has (Java: MessageQueueAssignment)."""

    attachments: Mapping[str, str] | None = None
    queue: QueueRef = field(name="messageQueue")
    mode: RequestMode | None = None


class AssignmentAnswer(Body, frozen=True, kw_only=True):
    """The member's queues: None means keep what you have, none at all means drop everything."""

    queues: tuple[AssignedQueue, ...] | None = field(default=None, name="messageQueueAssignments")


class RequestModeSetting(Body, frozen=True, kw_only=True):
    """How a group asks for the messages of a topic (Java: SetMessageRequestModeRequestBody)."""

    group: str | None = field(default=None, name="consumerGroup")
    mode: RequestMode = always(RequestMode.PULL)
    pop_share_queues: Int32 = always(0, "popShareQueueNum")
    topic: str | None = None


class RequestModes(Body, frozen=True, kw_only=True):
    """Every such setting of a broker, by topic and group (Java: MessageRequestModeSerializeWrapper)."""

    modes: Mapping[str, Mapping[str, RequestModeSetting]] = always_map("messageRequestModeMap")
