"""Measurements: how far queues and groups have come, and how fast brokers are."""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.body import Body, always
from steelyard.wire.maps import ByQueue, QueueRef
from steelyard.wire.numbers import Double, Int32, Int64

__all__ = [
    "BrokerConsumeStats",
    "BrokerStats",
    "ConsumeStats",
    "GroupPlace",
    "IndexEntry",
    "IndexView",
    "QueueEnds",
    "QueueTimes",
    "Rate",
    "TimeSpans",
    "TopicStats",
]


class QueueEnds(Body, frozen=True, kw_only=True):
    """The first offset of a queue and the next one to be written (Java: TopicOffset)."""

    written_ms: Int64 = always(0, "lastUpdateTimestamp")
    max_offset: Int64 = always(0)
    min_offset: Int64 = always(0)


class TopicStats(Body, frozen=True, kw_only=True):
    """The ends of each queue of a topic (Java: TopicStatsTable)."""

    queues: ByQueue[QueueEnds] = always(ByQueue(), "offsetTable")
    put_tps: Double | None = field(default=None, name="topicPutTps")


class GroupPlace(Body, frozen=True, kw_only=True):
    """How far a group has come in a queue (Java: OffsetWrapper)."""

    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    consumed_ms: Int64 = always(0, "lastTimestamp")
    pull_offset: Int64 | None = None


class ConsumeStats(Body, frozen=True, kw_only=True):
    """How far a group has come in each queue."""

    consume_tps: Double = always(0.0)
    queues: ByQueue[GroupPlace] = always(ByQueue(), "offsetTable")


class BrokerConsumeStats(Body, frozen=True, kw_only=True):
    """How far every group of a broker has come (Java: ConsumeStatsList)."""

    broker_address: str | None = field(default=None, name="brokerAddr")
    groups: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...] = always((), "consumeStatsList")
    total_lag: Int64 = always(0, "totalDiff")
    total_in_flight: Int64 | None = field(default=None, name="totalInflightDiff")


class Rate(Body, frozen=True, kw_only=True):
    """What a counter did in one span of time (Java: BrokerStatsItem)."""

    average: Double = always(0.0, "avgpt")
    sum: Int64 = always(0)
    tps: Double = always(0.0)


class BrokerStats(Body, frozen=True, kw_only=True):
    """A counter over the last minute, hour and day (Java: BrokerStatsData)."""

    day: Rate | None = field(default=None, name="statsDay")
    hour: Rate | None = field(default=None, name="statsHour")
    minute: Rate | None = field(default=None, name="statsMinute")


class QueueTimes(Body, frozen=True, kw_only=True):
    """When the first, the last and the last consumed message of a queue were stored (Java: QueueTimeSpan)."""

    consumed_ms: Int64 = always(0, "consumeTimeStamp")
    consumed_text: str | None = field(default=None, name="consumeTimeStampStr")
    delay_ms: Int64 = always(0, "delayTime")
    last_ms: Int64 = always(0, "maxTimeStamp")
    last_text: str | None = field(default=None, name="maxTimeStampStr")
    queue: QueueRef | None = field(default=None, name="messageQueue")
    first_ms: Int64 = always(0, "minTimeStamp")
    first_text: str | None = field(default=None, name="minTimeStampStr")


class TimeSpans(Body, frozen=True, kw_only=True):
    """The times of each queue of a topic (Java: QueryConsumeTimeSpanBody)."""

    queues: tuple[QueueTimes, ...] = always((), "consumeTimeSpanSet")


class IndexEntry(Body, frozen=True, kw_only=True):
    """One entry of a queue's index (Java: ConsumeQueueData)."""

    bit_map: str | None = None
    matches: bool = always(False, "eval")
    extension: str | None = field(default=None, name="extendDataJson")
    remark: str | None = field(default=None, name="msg")
    position: Int64 = always(0, "physicOffset")
    size: Int32 = always(0, "physicSize")
    tags_code: Int64 = always(0)


class IndexView(Body, frozen=True, kw_only=True):
    """A part of a queue's index, and which of it a group would get (Java: QueryConsumeQueueResponseBody)."""

    filter_text: str | None = field(default=None, name="filterData")
    max_index: Int64 = always(0, "maxQueueIndex")
    min_index: Int64 = always(0, "minQueueIndex")
    entries: tuple[IndexEntry, ...] | None = field(default=None, name="queueData")
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")
