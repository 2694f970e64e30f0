"""The families that only our servers tell: how balance is kept, and how the servers themselves are.

Times are in milliseconds, as RocketMQ's are.
"""

from steelyard.model.measures import NODE, Kind, Measure

__all__ = [
    "AVOIDED",
    "BUGS",
    "CORRUPT",
    "CUT_OFF",
    "DELAYED",
    "DISK_FAILURES",
    "FENCED",
    "FREE",
    "GAPS",
    "GROUP_QUEUES",
    "HAZARDS",
    "LEFT_OUT",
    "LINES",
    "LINES_CLOSED",
    "LINES_OPENED",
    "LOOP_LAG",
    "LOWERED",
    "MOVES",
    "OWN",
    "PULLS",
    "REACHED",
    "REBALANCES",
    "REBALANCE_TIME",
    "RECEIVED",
    "RECOVERY_TIME",
    "SENT",
    "STARTED",
    "SYNC_TIME",
    "UNANSWERED",
    "UNCLEAN",
    "WAITING_PULLS",
    "WRITABLE",
]

_GROUP = (*NODE, "consumer_group")

REBALANCES = Measure(
    "steelyard_rebalances_total",
    Kind.COUNTER,
    "How often queues of a group changed hands until nothing moved any more.",
    _GROUP,
)
REBALANCE_TIME = Measure(
    "steelyard_rebalance_duration_milliseconds",
    Kind.HISTOGRAM,
    "How long it took, from the first change until no queue was free or moving.",
    _GROUP,
)
MOVES = Measure(
    "steelyard_moves_total",
    Kind.COUNTER,
    "Changes of a queue's owner, by the way in which its last owner let go of it.",
    (*_GROUP, "kind"),
)
GAPS = Measure(
    "steelyard_handover_gap_milliseconds", Kind.HISTOGRAM, "How long a queue had no owner while it moved.", _GROUP
)
GROUP_QUEUES = Measure(
    "steelyard_group_queues",
    Kind.GAUGE,
    "Queues of a group's topics: held by a member, or free; of groups whose members are all ours, others do not tell.",
    (*_GROUP, "state"),
)
HAZARDS = Measure(
    "steelyard_group_hazards",
    Kind.GAUGE,
    "What looks wrong in a group: an id used twice, unequal subscriptions, members that share and that broadcast.",
    (*_GROUP, "hazard"),
)
FENCED = Measure(
    "steelyard_fenced_commits_total",
    Kind.COUNTER,
    "Commits that were refused because another member holds the queue by now.",
    _GROUP,
)
LOWERED = Measure(
    "steelyard_lowered_commits_total", Kind.COUNTER, "Commits that were lower than the one before, and taken.", NODE
)
AVOIDED = Measure(
    "steelyard_duplicates_avoided_total",
    Kind.COUNTER,
    "Messages that were finished and committed before their queue was handed over, and so came only once.",
    _GROUP,
)
PULLS = Measure("steelyard_pulls_total", Kind.COUNTER, "Pulls that found messages, or nothing.", (*NODE, "result"))
WAITING_PULLS = Measure("steelyard_waiting_pulls", Kind.GAUGE, "Pulls that wait for a message.", NODE)
DELAYED = Measure(
    "steelyard_delayed_messages",
    Kind.GAUGE,
    "Messages that wait: for a delay level, or for a time of their own.",
    (*NODE, "kind"),
)
FREE = Measure("steelyard_storage_free_bytes", Kind.GAUGE, "Bytes that the disk still has for the log.", NODE)
WRITABLE = Measure(
    "steelyard_storage_writable", Kind.GAUGE, "1 if the broker stores messages, 0 if its disk failed or is full.", NODE
)
DISK_FAILURES = Measure(
    "steelyard_storage_failures_total", Kind.COUNTER, "Times that the disk refused a write, a sync or a removal.", NODE
)
CORRUPT = Measure(
    "steelyard_corrupt_records_total",
    Kind.COUNTER,
    "Messages that were found to be damaged, as far as known; what a crash left half written is none.",
    NODE,
)
UNCLEAN = Measure(
    "steelyard_recovery_unclean", Kind.GAUGE, "1 if the log had not been closed when the broker started, else 0.", NODE
)
CUT_OFF = Measure(
    "steelyard_recovery_cut_bytes", Kind.GAUGE, "Bytes behind the last whole message that were cut off then.", NODE
)
RECOVERY_TIME = Measure(
    "steelyard_recovery_duration_milliseconds", Kind.GAUGE, "How long it took then to open the log.", NODE
)
SYNC_TIME = Measure("steelyard_fsync_milliseconds", Kind.HISTOGRAM, "How long it took to make the log safe.", NODE)
LOOP_LAG = Measure(
    "steelyard_event_loop_lag_milliseconds",
    Kind.HISTOGRAM,
    "How much later than it was due the server's event loop came to its twenty rounds a second.",
    NODE,
)
LINES = Measure("steelyard_lines", Kind.GAUGE, "Lines that are open.", NODE)
LINES_OPENED = Measure("steelyard_lines_opened_total", Kind.COUNTER, "Lines that were opened.", NODE)
LINES_CLOSED = Measure(
    "steelyard_lines_closed_total", Kind.COUNTER, "Lines that the server closed: idle, too slow, not understood.", NODE
)
RECEIVED = Measure("steelyard_received_bytes_total", Kind.COUNTER, "Bytes that came in.", NODE)
SENT = Measure("steelyard_sent_bytes_total", Kind.COUNTER, "Bytes that went out.", NODE)
BUGS = Measure("steelyard_bugs_total", Kind.COUNTER, "Requests that met a bug of the server; its log says more.", NODE)
STARTED = Measure(
    "steelyard_start_time_seconds",
    Kind.GAUGE,
    "When the server was started, in seconds since 1970.",
    (*NODE, "version"),
)
REACHED = Measure(
    "steelyard_broker_reached",
    Kind.GAUGE,
    "1 if the broker answered, else 0; told by a page that looks at a cluster from outside.",
    NODE,
)
UNANSWERED = Measure(
    "steelyard_questions_unanswered",
    Kind.GAUGE,
    "Questions to a cluster that nobody answered in time: what they were about is missing here.",
    NODE,
)
LEFT_OUT = Measure(
    "steelyard_samples_left_out",
    Kind.GAUGE,
    "Topics, and pairs of group and topic, that are not told since there are too many.",
    NODE,
)

OWN = (
    REBALANCES,
    REBALANCE_TIME,
    MOVES,
    GAPS,
    GROUP_QUEUES,
    HAZARDS,
    FENCED,
    LOWERED,
    AVOIDED,
    PULLS,
    WAITING_PULLS,
    DELAYED,
    FREE,
    WRITABLE,
    DISK_FAILURES,
    CORRUPT,
    UNCLEAN,
    CUT_OFF,
    RECOVERY_TIME,
    SYNC_TIME,
    LOOP_LAG,
    LINES,
    LINES_OPENED,
    LINES_CLOSED,
    RECEIVED,
    SENT,
    BUGS,
    STARTED,
    REACHED,
    UNANSWERED,
    LEFT_OUT,
)
"""All of them."""
