"""Statistics: offsets of queues and groups, throughput, replication, and the report of our own brokers.

The report has what Java does not: the disk, flushing, and the last recovery. It is a text of the runtime table under
the name `REPORT_NAME`, and each of its fields may be absent.
"""

from collections.abc import Mapping

from msgspec import field

from steelyard.wire.bodies.heartbeat import SubscriptionBody
from steelyard.wire.java_json import Double, Int32, Int64
from steelyard.wire.json_body import ByQueue, JsonBody, QueueRef, always_written


class TopicOffset(JsonBody, frozen=True, kw_only=True):
    """The first offset of a queue and the next one to write (Java: TopicOffset)."""

    written_ms: Int64 = always_written(0, "lastUpdateTimestamp")
    max_offset: Int64 = always_written(0)
    min_offset: Int64 = always_written(0)


class TopicStats(JsonBody, frozen=True, kw_only=True):
    """The offsets of each queue of a topic (Java: TopicStatsTable)."""

    queues: ByQueue[TopicOffset] = always_written(ByQueue(), "offsetTable")
    put_tps: Double | None = field(default=None, name="topicPutTps")


class ConsumeOffset(JsonBody, frozen=True, kw_only=True):
    """The offsets of a group in a queue (Java: OffsetWrapper)."""

    broker_offset: Int64 = always_written(0)
    consumer_offset: Int64 = always_written(0)
    consumed_ms: Int64 = always_written(0, "lastTimestamp")
    pull_offset: Int64 | None = None


class ConsumeStats(JsonBody, frozen=True, kw_only=True):
    """The offsets of a group in each queue."""

    consume_tps: Double = always_written(0.0)
    queues: ByQueue[ConsumeOffset] = always_written(ByQueue(), "offsetTable")


class BrokerConsumeStats(JsonBody, frozen=True, kw_only=True):
    """The offsets of every group of a broker (Java: ConsumeStatsList)."""

    broker_address: str | None = field(default=None, name="brokerAddr")
    groups: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...] = always_written((), "consumeStatsList")
    total_lag: Int64 = always_written(0, "totalDiff")
    total_in_flight: Int64 | None = field(default=None, name="totalInflightDiff")


class BrokerStatsItem(JsonBody, frozen=True, kw_only=True):
    """A counter over one time span (Java: BrokerStatsItem)."""

    average: Double = always_written(0.0, "avgpt")
    sum: Int64 = always_written(0)
    tps: Double = always_written(0.0)


class BrokerStats(JsonBody, frozen=True, kw_only=True):
    """A counter over the last minute, hour and day (Java: BrokerStatsData)."""

    day: BrokerStatsItem | None = field(default=None, name="statsDay")
    hour: BrokerStatsItem | None = field(default=None, name="statsHour")
    minute: BrokerStatsItem | None = field(default=None, name="statsMinute")


class QueueTimeSpan(JsonBody, frozen=True, kw_only=True):
    """When the first, the last and the last consumed message of a queue were stored (Java: QueueTimeSpan)."""

    consumed_ms: Int64 = always_written(0, "consumeTimeStamp")
    consumed_text: str | None = field(default=None, name="consumeTimeStampStr")
    delay_ms: Int64 = always_written(0, "delayTime")
    last_ms: Int64 = always_written(0, "maxTimeStamp")
    last_text: str | None = field(default=None, name="maxTimeStampStr")
    queue: QueueRef | None = field(default=None, name="messageQueue")
    first_ms: Int64 = always_written(0, "minTimeStamp")
    first_text: str | None = field(default=None, name="minTimeStampStr")


class ConsumeTimeSpans(JsonBody, frozen=True, kw_only=True):
    """The times of each queue of a topic (Java: QueryConsumeTimeSpanBody)."""

    queues: tuple[QueueTimeSpan, ...] = always_written((), "consumeTimeSpanSet")


class ConsumeQueueIndexEntry(JsonBody, frozen=True, kw_only=True):
    """One entry of a consume queue (Java: ConsumeQueueData)."""

    bit_map: str | None = None
    matches: bool = always_written(False, "eval")
    extension: str | None = field(default=None, name="extendDataJson")
    remark: str | None = field(default=None, name="msg")
    position: Int64 = always_written(0, "physicOffset")
    size: Int32 = always_written(0, "physicSize")
    tags_code: Int64 = always_written(0)


class ConsumeQueuePart(JsonBody, frozen=True, kw_only=True):
    """A part of a consume queue, and which of it matches a group (Java: QueryConsumeQueueResponseBody)."""

    filter_text: str | None = field(default=None, name="filterData")
    max_index: Int64 = always_written(0, "maxQueueIndex")
    min_index: Int64 = always_written(0, "minQueueIndex")
    entries: tuple[ConsumeQueueIndexEntry, ...] | None = field(default=None, name="queueData")
    subscription: SubscriptionBody | None = field(default=None, name="subscriptionData")


REPORT_NAME = "steelyard"
"""The name of the report in the table."""


class DamageReport(JsonBody, frozen=True, kw_only=True):
    """Damaged bytes: where, how many, and how many messages as far as known."""

    path: str = always_written("")
    position: Int64 = always_written(0)
    records: Int64 | None = None
    size: Int64 = always_written(0)
    what: str = always_written("")


class RecoveryReport(JsonBody, frozen=True, kw_only=True):
    """What recovery did when the broker started."""

    cut_bytes: Int64 = always_written(0)
    damages: Int64 = always_written(0)
    """The number of damaged places, without the tail that was cut off."""
    found: str = always_written("")
    """``nothing``, ``closed`` or ``unclosed``."""
    read_bytes: Int64 = always_written(0)
    records: Int64 = always_written(0)
    took_ms: Int64 | None = None


class BrokerReport(JsonBody, frozen=True, kw_only=True):
    """The state of one of our brokers, for users."""

    damage: tuple[DamageReport, ...] | None = None
    """The first places that were found damaged, at the start and since."""
    damages: Int64 = always_written(0)
    """The number of all of them."""
    disk_bytes: Int64 | None = None
    """The size of the disk; absent if it has no limit."""
    disk_free_bytes: Int64 | None = None
    flush: str | None = None
    """``sync`` or ``async``."""
    flush_interval_ms: Int64 | None = None
    flush_last_us: Int64 | None = None
    """The duration of the last sync of the log, in microseconds."""
    log_bytes: Int64 | None = None
    log_files: Int64 | None = None
    product: str | None = None
    """Its name and release, such as ``Steelyard 0.1.0``; the version beside it is that of the protocol."""
    recovery: RecoveryReport | None = None
    refusal: str | None = None
    """Why it stores no messages, if it stores none."""
    unflushed_bytes: Int64 | None = None
    """What a loss of power would cost now."""
    v: Int32 = always_written(1)


class ReplicationState(JsonBody, frozen=True, kw_only=True):
    """A broker's part in replication (Java: HARuntimeInfo): ours is a master without replicas."""

    connections: tuple[str, ...] = always_written((), "haConnectionInfo")
    in_sync: Int32 = always_written(0, "inSyncSlaveNums")
    is_master: bool = always_written(False, "master")
    end: Int64 = always_written(0, "masterCommitLogMaxOffset")
