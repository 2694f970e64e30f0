"""Names on which servers, clients and tools agree, Apache's and ours: what a group brings along, and the servers' own.

Left out: which letters a name may have, and how long it may be; a broker knows that (broker/names.py).
"""

__all__ = [
    "DEAD",
    "DEFAULT_PRODUCERS",
    "DEFAULT_TOPIC",
    "HALF_TOPIC",
    "MOVES_TOPIC",
    "NOT_WRITABLE",
    "OP_TOPIC",
    "OUR_MARK",
    "RETRY",
    "SYSTEM_GROUPS",
    "SYSTEM_GROUP_PREFIX",
    "TIMER_GROUP",
    "TIMER_TOPIC",
    "TRACE_TOPIC",
    "TRANSACTION_GROUP",
    "UNRESOLVED_TOPIC",
    "is_system_group",
    "is_system_topic",
]

RETRY, DEAD = "%RETRY%", "%DLQ%"
"""How the topics begin that a group brings along: of messages that come again, and of those that were given up."""

OUR_MARK = "@sy1"
"""How the client ids of our members end, on whatever broker: an id without it is foreign."""

DEFAULT_TOPIC = "TBW102"
"""The pattern of topics that are made by their first message."""
HALF_TOPIC, OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
UNRESOLVED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages go that nobody resolved."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
MOVES_TOPIC = "rmq_sys_steelyard_moves"
"""Where brokers of ours write down which queue went from whom to whom, and why."""

NOT_WRITABLE = frozenset(
    {"SCHEDULE_TOPIC_XXXX", HALF_TOPIC, OP_TOPIC, UNRESOLVED_TOPIC, "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
)
"""Topics that only the broker itself writes to."""

_SYSTEM_TOPICS = NOT_WRITABLE | {DEFAULT_TOPIC, "BenchmarkTest", TRACE_TOPIC, "CHECKPOINT_TOPIC"}
_SYSTEM_TOPIC_PREFIX = "rmq_sys_"

TRANSACTION_GROUP, TIMER_GROUP = "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TIMER"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    TRANSACTION_GROUP,
)
"""Groups that every broker has, since Apache's tools use them."""

DEFAULT_PRODUCERS = "DEFAULT_PRODUCER"
"""The group of producers that were given none."""

_CLIENTS_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        DEFAULT_PRODUCERS,
        "SCHEDULE_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
    }
)
"""Groups that Apache's clients and tools bring along."""


def is_system_topic(name: str) -> bool:
    """Whether a topic is the servers' own: it can be neither made nor deleted by anybody else.

    >>> is_system_topic("TBW102"), is_system_topic("rmq_sys_wheel_timer"), is_system_topic("%RETRY%billing")
    (True, True, False)
    """
    return name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    """Whether a group is of the servers or of Apache's tools, and nobody's who uses them.

    >>> is_system_group("TOOLS_CONSUMER"), is_system_group("CID_RMQ_SYS_TRANS"), is_system_group("billing")
    (True, True, False)
    """
    return name in SYSTEM_GROUPS or name in _CLIENTS_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)
