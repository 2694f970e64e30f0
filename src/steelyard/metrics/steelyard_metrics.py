"""The families that only our servers have: balancing, and the servers themselves. Times are seconds."""

from steelyard.metrics.families import NODE_LABELS, MetricCatalog

_GROUP_LABELS = ("consumer_group",)

_catalog = MetricCatalog(NODE_LABELS)
_counter, _gauge, _histogram = _catalog.counter, _catalog.gauge, _catalog.histogram

REBALANCES = _counter(
    "steelyard_rebalances_total", "Rebalances of a group: queues moved until all were settled.", _GROUP_LABELS
)
REBALANCE_DURATION = _histogram(
    "steelyard_rebalance_duration_seconds",
    "Duration of rebalances, from the first change until no queue was free or moving.",
    _GROUP_LABELS,
)
MOVES = _counter(
    "steelyard_moves_total",
    "Queues that changed owner, by the way in which the last owner released them.",
    (*_GROUP_LABELS, "kind"),
)
HANDOVER_GAP = _histogram("steelyard_handover_gap_seconds", "Time without an owner while a queue moved.", _GROUP_LABELS)
GROUP_QUEUES = _gauge(
    "steelyard_group_queues",
    "Queues of a group's topics, held by a member or free; only of groups whose members all use Steelyard.",
    (*_GROUP_LABELS, "state"),
)
GROUP_WARNINGS = _gauge(
    "steelyard_group_warnings",
    "What looks wrong in a group: duplicate ids, unequal subscriptions, mixed models, unreadable messages.",
    (*_GROUP_LABELS, "warning"),
)
SECONDS_SINCE_PROGRESS = _gauge(
    "steelyard_consumer_seconds_since_progress",
    "Seconds for which a group committed nothing in the queue that is stuck longest, though messages wait in it.",
    (*_GROUP_LABELS, "topic"),
)
FENCED_COMMITS = _counter(
    "steelyard_fenced_commits_total", "Commits refused because another member holds the queue.", _GROUP_LABELS
)
LOWERED_COMMITS = _counter("steelyard_lowered_commits_total", "Accepted commits that were lower than the one before.")
DUPLICATES_AVOIDED = _counter(
    "steelyard_duplicates_avoided_total",
    "Messages handled and committed before their queue moved, and so not redelivered.",
    _GROUP_LABELS,
)
PULLS = _counter("steelyard_pulls_total", "Pulls, by whether they found messages.", ("result",))
WAITING_PULLS = _gauge("steelyard_waiting_pulls", "Held pulls (long polling).")
DELAYED_MESSAGES = _gauge("steelyard_delayed_messages", "Delayed messages, by delay level or delivery time.", ("kind",))
STORAGE_FREE = _gauge("steelyard_storage_free_bytes", "Free bytes of the disk.")
STORAGE_WRITABLE = _gauge(
    "steelyard_storage_writable", "1 if the broker stores messages, 0 if its disk failed or is full."
)
STORAGE_FAILURES = _counter("steelyard_storage_failures_total", "Failed writes, syncs and deletions on the disk.")
CORRUPT_RECORDS = _counter(
    "steelyard_corrupt_records_total",
    "Damaged messages found, as far as known; a write cut off by a crash does not count.",
)
RECOVERY_UNCLEAN = _gauge(
    "steelyard_recovery_unclean", "1 if the log was not closed cleanly before the last start, else 0."
)
RECOVERY_CUT_BYTES = _gauge(
    "steelyard_recovery_cut_bytes", "Bytes after the last complete message that were cut off at the last start."
)
RECOVERY_DURATION = _gauge("steelyard_recovery_duration_seconds", "Duration of opening the log at the last start.")
FSYNC_DURATION = _histogram("steelyard_fsync_duration_seconds", "Duration of syncs of the log.")
EVENT_LOOP_LAG = _histogram(
    "steelyard_event_loop_lag_seconds", "Delay of the server's event loop, measured by a timer of 50 ms."
)
CONNECTIONS = _gauge("steelyard_connections", "Open connections.")
CONNECTIONS_OPENED = _counter("steelyard_connections_opened_total", "Connections opened.")
CONNECTIONS_CLOSED = _counter(
    "steelyard_connections_closed_total", "Connections closed by the server: idle, too slow, protocol errors."
)
RECEIVED_BYTES = _counter("steelyard_received_bytes_total", "Bytes received.")
SENT_BYTES = _counter("steelyard_sent_bytes_total", "Bytes sent.")
BUGS = _counter("steelyard_bugs_total", "Requests that failed by a bug of the server; see its log.")
START_TIME = _gauge("steelyard_start_time_seconds", "Start time of the server, in seconds since 1970.")
BUILD_INFO = _gauge(
    "steelyard_build_info", "1; the labels say the version of the server, and of its Python.", ("version", "python")
)
BROKER_REACHED = _gauge(
    "steelyard_broker_reached", "1 if the broker responded, else 0; from a dashboard outside the cluster."
)
BROKER_ANSWER = _gauge(
    "steelyard_broker_answer_seconds",
    "Seconds until the broker had reported its state; from a dashboard outside the cluster.",
)
QUESTIONS_UNANSWERED = _gauge(
    "steelyard_questions_unanswered", "Requests to a cluster without a response in time: their samples are missing."
)
SAMPLES_LEFT_OUT = _gauge(
    "steelyard_samples_left_out",
    "Topics, groups with members, and pairs of group and topic, left out because there are too many.",
)

STEELYARD_METRICS = tuple(_catalog.specs)
