"""Offsets: tables of them, resets, and those that members report."""

from collections.abc import Mapping

from msgspec import field

from steelyard.model import Queue
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.java_json import Int32, Int64
from steelyard.wire.json_body import ById, ByQueue, JsonBody, always_written


class ConsumerOffsetTable(JsonBody, frozen=True, kw_only=True):
    """Committed offsets by ``topic@group`` and queue, as in a broker's file (Java: ConsumerOffsetSerializeWrapper)."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    offsets: Mapping[str, ById[Int64]] = always_written({}, "offsetTable")


class DelayOffsetTable(JsonBody, frozen=True, kw_only=True):
    """The next offset of each delay level (Java: DelayOffsetSerializeWrapper)."""

    version: TableVersion | None = field(default=None, name="dataVersion")
    offsets: ById[Int64] = always_written(ById(), "offsetTable")


class ResetOffsets(JsonBody, frozen=True, kw_only=True):
    """The new offset of each queue (Java: ResetOffsetBody)."""

    offsets: ByQueue[Int64] = always_written(ByQueue(), "offsetTable")


class ResetQueue(JsonBody, frozen=True, kw_only=True):
    """One queue of a reset, for a C++ client (Java: MessageQueueForC)."""

    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetsList(JsonBody, frozen=True, kw_only=True):
    """The same reset as a list, the only form for C++ clients (Java: ResetOffsetBodyForC)."""

    offsets: tuple[ResetQueue, ...] = always_written((), "offsetTable")

    @classmethod
    def of(cls, reset: ResetOffsets) -> "ResetOffsetsList":
        """Make the list for a reset."""
        return cls(
            offsets=tuple(
                ResetQueue(broker_name=queue.broker, offset=offset, queue_id=queue.queue_id, topic=queue.topic)
                for queue, offset in reset.offsets.items()
            )
        )

    def to_table(self) -> ResetOffsets:
        """Return the reset in the form for other clients."""
        return ResetOffsets(
            offsets=ByQueue({Queue(each.topic, each.broker_name, each.queue_id): each.offset for each in self.offsets})
        )


class MemberOffsets(JsonBody, frozen=True, kw_only=True):
    """Offsets of members in a topic: of one's own queues, or of each member by id (Java: GetConsumerStatusBody)."""

    members: Mapping[str, ByQueue[Int64]] = always_written({}, "consumerTable")
    queues: ByQueue[Int64] = always_written(ByQueue(), "messageQueueTable")
