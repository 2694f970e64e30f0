"""The families of RocketMQ 5's brokers that ours tell as well, under the same names and with the same labels.

Facts. Apache's broker tells them if it is set up with ``metricsExporterType=PROM``. Its exporter puts the unit behind
the name (``..._milliseconds``, ``..._bytes``) and adds a label ``otel_scope_name``, which says nothing and is not here.
What is stored is counted under the topic where it is stored: a delayed message under the topic where delayed messages
wait, and so on, with the type of message that waits there. Topics of retries and of dead letters are not counted among
what comes in.

Left out: what a broker without thread pools, timer wheel and POP has not (``rocketmq_processor_watermark``,
``rocketmq_timer_*``, ``rocketmq_pop_*``); ``rocketmq_message_size`` and ``rocketmq_rpc_latency``, which would cost
every message something, while the average size is throughput by messages, and how busy the broker is the lag of its
event loop; and ``rocketmq_finish_message_latency``, in which Apache counts seconds under a name that says milliseconds.
"""

from steelyard.model.measures import NODE, Kind, Measure

__all__ = [
    "BROKER_PERMISSION",
    "COMMITTED",
    "CONSUMERS",
    "DEAD_LETTERS",
    "DISPATCH_BEHIND",
    "FLUSH_BEHIND",
    "GROUPS",
    "HALVES",
    "IN_FLIGHT",
    "LAG",
    "LAG_TIME",
    "MESSAGES_IN",
    "MESSAGES_OUT",
    "PRODUCERS",
    "QUEUEING_TIME",
    "READY",
    "RESERVED_TIME",
    "ROCKETMQ",
    "ROLLED_BACK",
    "STORAGE_SIZE",
    "THROUGHPUT_IN",
    "THROUGHPUT_OUT",
    "TOPICS",
]

_STORAGE = (*NODE, "storage_type", "storage_medium")
_IN = (*NODE, "topic", "message_type", "is_system")
_OUT = (*NODE, "topic", "consumer_group", "is_system")
_LAG = (*NODE, "consumer_group", "topic", "is_retry", "is_system")
_CLIENT = ("language", "version", "protocol_type")

BROKER_PERMISSION = Measure(
    "rocketmq_broker_permission", Kind.GAUGE, "What may be done on the broker: 4 is reading, 2 is writing.", NODE
)
TOPICS = Measure("rocketmq_topic_number", Kind.GAUGE, "Topics of the broker, its own among them.", NODE)
GROUPS = Measure(
    "rocketmq_consumer_group_number", Kind.GAUGE, "Consumer groups that the broker knows, its own among them.", NODE
)
MESSAGES_IN = Measure("rocketmq_messages_in_total", Kind.COUNTER, "Messages that were stored.", _IN)
THROUGHPUT_IN = Measure("rocketmq_throughput_in_total", Kind.COUNTER, "Bytes of messages that were stored.", _IN)
MESSAGES_OUT = Measure("rocketmq_messages_out_total", Kind.COUNTER, "Messages that groups got.", _OUT)
THROUGHPUT_OUT = Measure("rocketmq_throughput_out_total", Kind.COUNTER, "Bytes of messages that groups got.", _OUT)
PRODUCERS = Measure("rocketmq_producer_connections", Kind.GAUGE, "Lines of producers.", (*NODE, *_CLIENT))
CONSUMERS = Measure(
    "rocketmq_consumer_connections",
    Kind.GAUGE,
    "Lines of members, by group.",
    (*NODE, "consumer_group", *_CLIENT, "consume_mode", "is_system"),
)
LAG = Measure(
    "rocketmq_consumer_lag_messages", Kind.GAUGE, "Messages that are stored, and that a group has not committed.", _LAG
)
LAG_TIME = Measure(
    "rocketmq_consumer_lag_latency_milliseconds",
    Kind.GAUGE,
    "How long ago the oldest message was stored that a group has not committed.",
    _LAG,
)
IN_FLIGHT = Measure(
    "rocketmq_consumer_inflight_messages", Kind.GAUGE, "Messages that a group has pulled and not committed.", _LAG
)
QUEUEING_TIME = Measure(
    "rocketmq_consumer_queueing_latency_milliseconds",
    Kind.GAUGE,
    "How long ago the oldest message was stored that a group has not pulled.",
    _LAG,
)
READY = Measure(
    "rocketmq_consumer_ready_messages", Kind.GAUGE, "Messages that are stored, and that a group has not pulled.", _LAG
)
DEAD_LETTERS = Measure(
    "rocketmq_send_to_dlq_messages_total",
    Kind.COUNTER,
    "Messages that became dead letters of a group, by the topic they came from.",
    (*NODE, "consumer_group", "topic", "is_system"),
)
COMMITTED = Measure(
    "rocketmq_commit_messages_total", Kind.COUNTER, "Transactions that were committed.", (*NODE, "topic")
)
ROLLED_BACK = Measure(
    "rocketmq_rollback_messages_total", Kind.COUNTER, "Transactions that were rolled back.", (*NODE, "topic")
)
HALVES = Measure("rocketmq_half_messages", Kind.GAUGE, "Transactions that are open.", (*NODE, "topic"))
STORAGE_SIZE = Measure(
    "rocketmq_storage_size_bytes",
    Kind.GAUGE,
    "Bytes of the disk that are taken, by anybody (as Apache counts); of the log, for a broker in memory.",
    _STORAGE,
)
FLUSH_BEHIND = Measure(
    "rocketmq_storage_flush_behind_bytes", Kind.GAUGE, "Bytes of the log that are not safe on the disk yet.", _STORAGE
)
DISPATCH_BEHIND = Measure(
    "rocketmq_storage_dispatch_behind_bytes",
    Kind.GAUGE,
    "Bytes of the log that are in no queue yet: 0, since a message is in its queue when it is in the log.",
    _STORAGE,
)
RESERVED_TIME = Measure(
    "rocketmq_storage_message_reserve_time_milliseconds",
    Kind.GAUGE,
    "How long ago the oldest message was stored that is still there.",
    _STORAGE,
)

ROCKETMQ = (
    BROKER_PERMISSION,
    TOPICS,
    GROUPS,
    MESSAGES_IN,
    THROUGHPUT_IN,
    MESSAGES_OUT,
    THROUGHPUT_OUT,
    PRODUCERS,
    CONSUMERS,
    LAG,
    LAG_TIME,
    IN_FLIGHT,
    QUEUEING_TIME,
    READY,
    DEAD_LETTERS,
    COMMITTED,
    ROLLED_BACK,
    HALVES,
    STORAGE_SIZE,
    FLUSH_BEHIND,
    DISPATCH_BEHIND,
    RESERVED_TIME,
)
"""All of them."""
