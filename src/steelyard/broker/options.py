"""How a broker is set up: one frozen value, checked once.

Times and switches are Apache's defaults where Apache has them; ours are the grace times and limits of the registry.
"""

from dataclasses import dataclass

from steelyard.broker.names import check_broker, check_cluster
from steelyard.errors import ConfigurationError

__all__ = ["BrokerOptions"]


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """A broker's identity, its switches, its limits.

    >>> BrokerOptions().name, BrokerOptions(flush="sync").is_sync
    ('broker-0', True)
    """

    name: str = "broker-0"
    cluster: str = "DefaultCluster"
    broker_id: int = 0
    host: str = "127.0.0.1"
    """The address that routes and records have."""
    port: int = 10911
    region: str = "DefaultRegion"
    flush: str = "async"
    """``sync``: a send is answered once it is safe from a loss of power; ``async``: once it is in the log."""

    auto_create_topics: bool = True
    auto_create_groups: bool = True
    default_topic_queues: int = 8
    """Queues of TBW102: what a topic that is made by its first send may have at most."""
    trace_topic: bool = True

    max_message_bytes: int = 4 * 1024 * 1024
    max_pull_messages: int = 1024
    """What a client gets that asks for so many; Java's ask for 32."""
    max_pull_bytes: int = 4 * 1024 * 1024
    default_pull_bytes: int = 256 * 1024
    """What a client gets that does not ask for bytes, or asks for as many messages as Java's do."""
    parked_pulls: int = 20_000
    """Pulls that may wait for messages at one time; one more is answered at once with nothing found."""
    property_filter: bool = True

    max_topics: int = 20_000
    max_groups: int = 20_000
    max_members: int = 10_000
    """Members of all groups together."""

    flush_wait_ms: int = 5_000
    """How long an answer waits for the disk before it says: stored, but flush late."""
    flush_interval_ms: int = 500
    """How often an async broker syncs."""
    offsets_interval_ms: int = 5_000
    client_silence_ms: int = 120_000
    line_grace_ms: int = 300
    order_grace_ms: int = 2_000
    settle_ms: int = 3_000
    notices: bool = True
    """Whether members are told when their group changes; each group has a switch of its own besides."""
    notice_gap_ms: int = 100
    announce_gap_ms: int = 25
    """Changes of topics that come so soon one after the other are told to the name servers together."""
    java_lock_ms: int = 60_000
    transaction_check_ms: int = 30_000
    transaction_timeout_ms: int = 6_000
    transaction_checks: int = 15
    relay_ms: int = 10_000
    """How long a member may take to answer a question that was passed on to it."""
    timer_max_ms: int = 3 * 24 * 3_600_000
    refuse_duplicates: bool = False
    """Whether a member is refused whose client id another live member of the group has."""
    refuse_unequal: bool = False
    """Whether a member is refused whose subscriptions differ from those of its group."""

    def __post_init__(self) -> None:
        check_broker(self.name)
        check_cluster(self.cluster)
        if self.flush not in ("sync", "async"):
            raise ConfigurationError(f"flush is {self.flush!r}", next_step="give sync or async")

    @property
    def is_sync(self) -> bool:
        """Whether answers wait for the disk."""
        return self.flush == "sync"

    @property
    def address(self) -> str:
        """Where clients find this broker."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
