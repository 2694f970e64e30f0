"""The families that only our servers have: balancing, and the servers themselves. Times are milliseconds."""

from steelyard.metrics.families import NODE_LABELS, MetricCatalog

__all__ = [
    "BROKER_REACHED",
    "BUGS",
    "CONNECTIONS",
    "CONNECTIONS_CLOSED",
    "CONNECTIONS_OPENED",
    "CORRUPT_RECORDS",
    "DELAYED_MESSAGES",
    "DUPLICATES_AVOIDED",
    "EVENT_LOOP_LAG",
    "FENCED_COMMITS",
    "FSYNC_TIME",
    "GROUP_HAZARDS",
    "GROUP_QUEUES",
    "HANDOVER_GAP",
    "LOWERED_COMMITS",
    "MOVES",
    "PULLS",
    "QUESTIONS_UNANSWERED",
    "REBALANCES",
    "REBALANCE_DURATION",
    "RECEIVED_BYTES",
    "RECOVERY_CUT_BYTES",
    "RECOVERY_DURATION",
    "RECOVERY_UNCLEAN",
    "SAMPLES_LEFT_OUT",
    "SENT_BYTES",
    "START_TIME",
    "STEELYARD_METRICS",
    "STORAGE_FAILURES",
    "STORAGE_FREE",
    "STORAGE_WRITABLE",
    "WAITING_PULLS",
]

_GROUP_LABELS = (*NODE_LABELS, "consumer_group")

_catalog = MetricCatalog()

REBALANCES = _catalog.counter(
    "steelyard_rebalances_total", "Rebalances of a group: queues moved until all were settled.", _GROUP_LABELS
)
REBALANCE_DURATION = _catalog.histogram(
    "steelyard_rebalance_duration_milliseconds",
    "Duration of rebalances, from the first change until no queue was free or moving.",
    _GROUP_LABELS,
)
MOVES = _catalog.counter(
    "steelyard_moves_total",
    "Queues that changed owner, by the way in which the last owner released them.",
    (*_GROUP_LABELS, "kind"),
)
HANDOVER_GAP = _catalog.histogram(
    "steelyard_handover_gap_milliseconds", "Time without an owner while a queue moved.", _GROUP_LABELS
)
GROUP_QUEUES = _catalog.gauge(
    "steelyard_group_queues",
    "Queues of a group's topics, held by a member or free; only of groups whose members all use Steelyard.",
    (*_GROUP_LABELS, "state"),
)
GROUP_HAZARDS = _catalog.gauge(
    "steelyard_group_hazards",
    "Warnings of a group: an id used twice, unequal subscriptions, clustering and broadcasting members.",
    (*_GROUP_LABELS, "hazard"),
)
FENCED_COMMITS = _catalog.counter(
    "steelyard_fenced_commits_total", "Commits refused because another member holds the queue.", _GROUP_LABELS
)
LOWERED_COMMITS = _catalog.counter(
    "steelyard_lowered_commits_total", "Accepted commits that were lower than the one before.", NODE_LABELS
)
DUPLICATES_AVOIDED = _catalog.counter(
    "steelyard_duplicates_avoided_total",
    "Messages handled and committed before their queue moved, and so not redelivered.",
    _GROUP_LABELS,
)
PULLS = _catalog.counter("steelyard_pulls_total", "Pulls, by whether they found messages.", (*NODE_LABELS, "result"))
WAITING_PULLS = _catalog.gauge("steelyard_waiting_pulls", "Held pulls (long polling).", NODE_LABELS)
DELAYED_MESSAGES = _catalog.gauge(
    "steelyard_delayed_messages", "Delayed messages, by delay level or delivery time.", (*NODE_LABELS, "kind")
)
STORAGE_FREE = _catalog.gauge("steelyard_storage_free_bytes", "Free bytes of the disk.", NODE_LABELS)
STORAGE_WRITABLE = _catalog.gauge(
    "steelyard_storage_writable", "1 if the broker stores messages, 0 if its disk failed or is full.", NODE_LABELS
)
STORAGE_FAILURES = _catalog.counter(
    "steelyard_storage_failures_total", "Failed writes, syncs and deletions on the disk.", NODE_LABELS
)
CORRUPT_RECORDS = _catalog.counter(
    "steelyard_corrupt_records_total",
    "Damaged messages found, as far as known; a write cut off by a crash does not count.",
    NODE_LABELS,
)
RECOVERY_UNCLEAN = _catalog.gauge(
    "steelyard_recovery_unclean", "1 if the log was not closed cleanly before the last start, else 0.", NODE_LABELS
)
RECOVERY_CUT_BYTES = _catalog.gauge(
    "steelyard_recovery_cut_bytes",
    "Bytes after the last complete message that were cut off at the last start.",
    NODE_LABELS,
)
RECOVERY_DURATION = _catalog.gauge(
    "steelyard_recovery_duration_milliseconds", "Duration of opening the log at the last start.", NODE_LABELS
)
FSYNC_TIME = _catalog.histogram("steelyard_fsync_milliseconds", "Duration of syncs of the log.", NODE_LABELS)
EVENT_LOOP_LAG = _catalog.histogram(
    "steelyard_event_loop_lag_milliseconds",
    "Delay of the server's event loop, measured by a timer of 50 ms.",
    NODE_LABELS,
)
CONNECTIONS = _catalog.gauge("steelyard_connections", "Open connections.", NODE_LABELS)
CONNECTIONS_OPENED = _catalog.counter("steelyard_connections_opened_total", "Connections opened.", NODE_LABELS)
CONNECTIONS_CLOSED = _catalog.counter(
    "steelyard_connections_closed_total",
    "Connections closed by the server: idle, too slow, protocol errors.",
    NODE_LABELS,
)
RECEIVED_BYTES = _catalog.counter("steelyard_received_bytes_total", "Bytes received.", NODE_LABELS)
SENT_BYTES = _catalog.counter("steelyard_sent_bytes_total", "Bytes sent.", NODE_LABELS)
BUGS = _catalog.counter(
    "steelyard_bugs_total", "Requests that failed by a bug of the server; see its log.", NODE_LABELS
)
START_TIME = _catalog.gauge(
    "steelyard_start_time_seconds", "Start time of the server, in seconds since 1970.", (*NODE_LABELS, "version")
)
BROKER_REACHED = _catalog.gauge(
    "steelyard_broker_reached", "1 if the broker responded, else 0; from a dashboard outside the cluster.", NODE_LABELS
)
QUESTIONS_UNANSWERED = _catalog.gauge(
    "steelyard_questions_unanswered",
    "Requests to a cluster without a response in time: their samples are missing.",
    NODE_LABELS,
)
SAMPLES_LEFT_OUT = _catalog.gauge(
    "steelyard_samples_left_out",
    "Topics, and pairs of group and topic, left out because there are too many.",
    NODE_LABELS,
)

STEELYARD_METRICS = tuple(_catalog.specs)
