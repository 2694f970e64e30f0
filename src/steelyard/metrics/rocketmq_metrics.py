"""The families of RocketMQ 5's brokers that ours have as well, under the same names and with the same labels.

Apache's broker exports them with ``metricsExporterType=PROM``. Its exporter appends the unit to the name and adds the
label ``otel_scope_name``, which is not here. A message counts under the topic where it is stored: a delayed one under
the topic of delayed messages, and so on. Retry and dead letter topics do not count as incoming.

Left out: what a broker without thread pools, timer wheel and POP does not have (``rocketmq_processor_watermark``,
``rocketmq_timer_*``, ``rocketmq_pop_*``); ``rocketmq_message_size`` and ``rocketmq_rpc_latency``, which would cost time
for every message; and ``rocketmq_finish_message_latency``, where Apache counts seconds under a name with milliseconds.
"""

from steelyard.metrics.families import NODE_LABELS, MetricCatalog

_STORAGE_LABELS = ("storage_type", "storage_medium")
_IN_LABELS = ("topic", "message_type", "is_system")
_OUT_LABELS = ("topic", "consumer_group", "is_system")
_LAG_LABELS = ("consumer_group", "topic", "is_retry", "is_system")
_CLIENT_LABELS = ("language", "version", "protocol_type")

_catalog = MetricCatalog(NODE_LABELS)
_counter, _gauge, _histogram = _catalog.counter, _catalog.gauge, _catalog.histogram

BROKER_PERMISSION = _gauge("rocketmq_broker_permission", "Permission of the broker: 4 is read, 2 is write.")
TOPIC_COUNT = _gauge("rocketmq_topic_number", "Topics of the broker, system topics included.")
CONSUMER_GROUP_COUNT = _gauge(
    "rocketmq_consumer_group_number", "Consumer groups of the broker, system groups included."
)
MESSAGES_IN = _counter("rocketmq_messages_in_total", "Messages stored.", _IN_LABELS)
THROUGHPUT_IN = _counter("rocketmq_throughput_in_total", "Bytes of messages stored.", _IN_LABELS)
MESSAGES_OUT = _counter("rocketmq_messages_out_total", "Messages delivered to groups.", _OUT_LABELS)
THROUGHPUT_OUT = _counter("rocketmq_throughput_out_total", "Bytes of messages delivered to groups.", _OUT_LABELS)
PRODUCER_CONNECTIONS = _gauge("rocketmq_producer_connections", "Connections of producers.", _CLIENT_LABELS)
CONSUMER_CONNECTIONS = _gauge(
    "rocketmq_consumer_connections",
    "Connections of members, by group.",
    ("consumer_group", *_CLIENT_LABELS, "consume_mode", "is_system"),
)
CONSUMER_LAG = _gauge("rocketmq_consumer_lag_messages", "Messages that a group has not committed (lag).", _LAG_LABELS)
CONSUMER_LAG_LATENCY = _gauge(
    "rocketmq_consumer_lag_latency_milliseconds",
    "Age of the oldest message that a group has not committed.",
    _LAG_LABELS,
)
CONSUMER_INFLIGHT = _gauge(
    "rocketmq_consumer_inflight_messages", "Messages that a group has pulled and not committed.", _LAG_LABELS
)
CONSUMER_QUEUEING_LATENCY = _gauge(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "Age of the oldest message that a group has not pulled.",
    _LAG_LABELS,
)
CONSUMER_READY = _gauge("rocketmq_consumer_ready_messages", "Messages that a group has not pulled.", _LAG_LABELS)
DEAD_LETTERS = _counter(
    "rocketmq_send_to_dlq_messages_total",
    "Messages that became dead letters of a group, by their original topic.",
    ("consumer_group", "topic", "is_system"),
)
COMMITTED_TRANSACTIONS = _counter("rocketmq_commit_messages_total", "Transactions committed.", ("topic",))
ROLLED_BACK_TRANSACTIONS = _counter("rocketmq_rollback_messages_total", "Transactions rolled back.", ("topic",))
HALF_MESSAGES = _gauge("rocketmq_half_messages", "Open transactions.", ("topic",))
STORAGE_SIZE = _gauge(
    "rocketmq_storage_size_bytes",
    "Used bytes of the disk, by all programs (as Apache counts); of the log, for a broker in memory.",
    _STORAGE_LABELS,
)
FLUSH_BEHIND = _gauge(
    "rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not synced yet.", _STORAGE_LABELS
)
DISPATCH_BEHIND = _gauge(
    "rocketmq_storage_dispatch_behind_bytes",
    "Bytes of the log that are not indexed yet: always 0, since both are written together.",
    _STORAGE_LABELS,
)
MESSAGE_RESERVE_TIME = _gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message in the store.", _STORAGE_LABELS
)

ROCKETMQ_METRICS = tuple(_catalog.specs)
