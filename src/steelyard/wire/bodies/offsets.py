"""Offsets: tables of them, what a reset says, and what members hold."""

from collections.abc import Mapping

from msgspec import field

from steelyard.model import Queue
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.body import Body, always, always_map
from steelyard.wire.maps import ById, ByQueue
from steelyard.wire.numbers import Int32, Int64

__all__ = [
    "CorrectionOffsets",
    "DelayOffsets",
    "GroupOffsets",
    "MemberOffsets",
    "ResetOffsets",
    "ResetOffsetsList",
    "ResetQueue",
]


class GroupOffsets(Body, frozen=True, kw_only=True):
    """Every committed offset of a broker, by ``topic@group`` and queue (Java: ConsumerOffsetSerializeWrapper).

    A broker's offset file has the same form.
    """

    version: TableVersion | None = field(default=None, name="dataVersion")
    offsets: Mapping[str, ById[Int64]] = always_map("offsetTable")


class DelayOffsets(Body, frozen=True, kw_only=True):
    """How far a broker has come in each delay level (Java: DelayOffsetSerializeWrapper)."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    offsets: ById[Int64] = always(ById(), "offsetTable")


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """The lowest offset that groups have of each queue of a topic (Java: QueryCorrectionOffsetBody)."""

    offsets: ById[Int64] = always(ById(), "correctionOffsets")


class ResetOffsets(Body, frozen=True, kw_only=True):
    """Where each queue was reset to (Java: ResetOffsetBody)."""

    offsets: ByQueue[Int64] = always(ByQueue(), "offsetTable")


class ResetQueue(Body, frozen=True, kw_only=True):
    """One queue of a reset, for a C++ client (Java: MessageQueueForC)."""

    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetsList(Body, frozen=True, kw_only=True):
    """The same reset as a list, which is all that a C++ client reads (Java: ResetOffsetBodyForC).

    >>> reset = ResetOffsets(offsets=ByQueue({Queue("orders", "broker-a", 3): 41}))
    >>> ResetOffsetsList.of(reset).table() == reset
    True
    """

    offsets: tuple[ResetQueue, ...] = always((), "offsetTable")

    @classmethod
    def of(cls, reset: ResetOffsets) -> "ResetOffsetsList":
        """Make the list for a reset."""
        return cls(
            offsets=tuple(
                ResetQueue(broker_name=queue.broker, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
                for queue, offset in reset.offsets.items()
            )
        )

    def table(self) -> ResetOffsets:
        """Return the reset as other clients get it."""
        return ResetOffsets(
            offsets=ByQueue({Queue(each.topic, each.broker_name, each.queue_id): each.offset for each in self.offsets})
        )


class MemberOffsets(Body, frozen=True, kw_only=True):
    """What members hold of a topic: one's own queues, or those of each member by id (Java: GetConsumerStatusBody)."""

    members: Mapping[str, ByQueue[Int64]] = always_map("consumerTable")
    queues: ByQueue[Int64] = always(ByQueue(), "messageQueueTable")
