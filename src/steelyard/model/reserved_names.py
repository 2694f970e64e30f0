"""Reserved names of topics, groups and client ids, Apache's and ours.

Left out: which characters a name may have, and its length (broker/validation.py).
"""

RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
"""Prefixes of the topics of a group: its retry topic, and its dead letter topic."""

CLIENT_ID_SUFFIX = "@sy1"
"""The suffix of our client ids, on every broker: an id without it is foreign."""

DEFAULT_TOPIC = "TBW102"
"""The template of topics that are created by their first message."""
HALF_TOPIC, HALF_OP_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
UNRESOLVED_TRANSACTIONS_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""For half messages that were never resolved."""
TIMER_TOPIC = "rmq_sys_wheel_timer"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REBALANCE_HISTORY_TOPIC = "rmq_sys_steelyard_moves"
"""Our brokers record here which queue moved from which member to which, and why."""

NOT_WRITABLE_TOPICS = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        HALF_TOPIC,
        HALF_OP_TOPIC,
        UNRESOLVED_TRANSACTIONS_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics that only the broker itself writes to."""

_SYSTEM_TOPICS = NOT_WRITABLE_TOPICS | {DEFAULT_TOPIC, "BenchmarkTest", TRACE_TOPIC, "CHECKPOINT_TOPIC"}
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
"""Groups of every broker, since Apache's tools use them."""

DEFAULT_PRODUCER_GROUP = "DEFAULT_PRODUCER"

_CLIENT_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        DEFAULT_PRODUCER_GROUP,
        "SCHEDULE_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
    }
)
"""Groups of Apache's clients and tools."""


def is_system_topic(name: str) -> bool:
    """Whether a topic is a server's own: clients can neither create nor delete it.

    >>> is_system_topic("TBW102"), is_system_topic("rmq_sys_wheel_timer"), is_system_topic("%RETRY_PREFIX%billing")
    (True, True, False)
    """
    return name in _SYSTEM_TOPICS or name.startswith(_SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    """Whether a group belongs to the servers or to Apache's tools, and not to users.

    >>> is_system_group("TOOLS_CONSUMER"), is_system_group("CID_RMQ_SYS_TRANS"), is_system_group("billing")
    (True, True, False)
    """
    return name in SYSTEM_GROUPS or name in _CLIENT_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)
