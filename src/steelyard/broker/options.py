"""Broker options: one frozen value, checked once.

Times and switches are Apache's defaults where Apache has them; ours are the grace times and limits of the registry.
"""

from dataclasses import dataclass

from steelyard.broker.validation import check_broker, check_cluster
from steelyard.errors import ConfigurationError

DEFAULT_TOPIC_QUEUES = 8
"""Default number of queues of TBW102."""
MAX_QUEUES = 65_536
"""Read queues and write queues that a topic may have at most."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """A broker's identity, its switches, its limits.

    >>> BrokerOptions().name, BrokerOptions(flush="sync").is_sync
    ('broker-0', True)
    """

    name: str = "broker-0"
    """Its name in routes."""
    cluster: str = "DefaultCluster"
    """The cluster that it belongs to."""
    broker_id: int = 0
    """0 is a master, and ours are masters."""
    host: str = "127.0.0.1"
    """The address in routes and records."""
    port: int = 10911
    """The port in routes and records."""
    region: str = "DefaultRegion"
    """Sent to clients with every response to a send."""
    flush: str = "async"
    """``sync``: a send is acknowledged once it survives a power loss; ``async``: once it is in the log."""

    permission: int = 6
    """6: clients may write and read; 4: they may only read, so that the broker can be taken out of service."""
    auto_create_topics: bool = True
    """Whether the first send to a topic creates it."""
    auto_create_groups: bool = True
    """Whether the first heartbeat of a group creates it."""
    default_topic_queues: int | None = None
    """Queues of TBW102, the limit for topics that a send creates. None: unchanged, 8 at first."""
    trace_topic: bool = True
    """Whether there is a topic for message traces of other clients."""
    keep_rebalance_history: bool = True
    """Whether a topic of the broker records which queue moved from which member to which, and why."""

    max_message_bytes: int = 4 * 1024 * 1024
    """The largest body that is accepted."""
    max_pull_messages: int = 1024
    """The most messages of one pull; Java's clients request 32."""
    max_pull_bytes: int = 4 * 1024 * 1024
    """The most bytes of one pull."""
    default_pull_bytes: int = 256 * 1024
    """The most bytes of a pull that requests none, or as many messages as Java's clients do."""
    max_held_pulls: int = 20_000
    """Pulls that are held for messages at one time; further ones are answered at once with nothing found."""
    property_filter: bool = True
    """Whether consumers may filter by SQL92."""

    max_topics: int = 20_000
    """The most topics."""
    max_groups: int = 20_000
    """The most groups."""
    new_names: int = 4_000
    """Groups and topics that one connection may create at once; a group's retry topic counts as well. An application
    with 200 groups creates 400, and a script that sets up a cluster some thousand."""
    new_names_per_s: int = 100
    """How many more it may create each second after that."""
    max_members: int = 10_000
    """The most members of all groups together."""

    flush_wait_ms: int = 5_000
    """How long an acknowledgement waits for a sync before it is sent as FLUSH_DISK_TIMEOUT."""
    flush_interval_ms: int = 500
    """How often an async broker syncs."""
    offsets_interval_ms: int = 5_000
    """How often committed offsets are saved."""
    client_silence_ms: int = 120_000
    """How long a client other than Steelyard's may be silent before it is removed."""
    connection_grace_ms: int = 300
    """How long a member whose connection closed may take to reconnect before it is removed."""
    order_grace_ms: int = 2_000
    """How long the queues of a crashed orderly member stay locked, so that its handlers can finish."""
    settle_ms: int = 3_000
    """How long after a start queues are reserved for the members that held them before."""
    notices: bool = True
    """Whether members are notified when their group changes; each group has its own switch as well."""
    notification_gap_ms: int = 100
    """The least time between two notifications of one group."""
    announce_gap_ms: int = 25
    """Changes of topics within this time are sent to the name servers together."""
    java_lock_ms: int = 60_000
    """How long a queue lock of a member other than Steelyard's lasts without renewal."""
    transaction_check_ms: int = 30_000
    """How often open transactions are checked with their producers."""
    transaction_timeout_ms: int = 6_000
    """The age of a transaction at its first check."""
    transaction_checks: int = 15
    """Checks of a transaction before it is given up."""
    forward_timeout_ms: int = 10_000
    """How long a member may take to answer a forwarded request."""
    timer_max_ms: int = 3 * 24 * 3_600_000
    """The longest delay."""
    refuse_duplicates: bool = False
    """Whether a member is refused if another live member of the group has its client id."""
    refuse_unequal: bool = False
    """Whether a member is refused if its subscriptions differ from those of its group."""

    def __post_init__(self) -> None:
        check_broker(self.name)
        check_cluster(self.cluster)
        if self.flush not in ("sync", "async"):
            raise ConfigurationError(f"flush is {self.flush!r}", next_step="give sync or async")
        queues = self.default_topic_queues
        if queues is not None and not 1 <= queues <= MAX_QUEUES:
            raise ConfigurationError(f"default_topic_queues is {queues}", next_step=f"give 1 to {MAX_QUEUES}")
        if self.permission not in (4, 6):
            raise ConfigurationError(f"permission is {self.permission!r}", next_step="give 6, or 4 for read-only")

    @property
    def is_writable(self) -> bool:
        """Whether clients may write."""
        return self.permission == 6

    @property
    def is_sync(self) -> bool:
        """Whether acknowledgements wait for a sync."""
        return self.flush == "sync"

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
