"""How a broker is set up: one frozen value, checked once.

Times and switches are Apache's defaults where Apache has them; ours are the grace times and limits of the registry.
"""

from dataclasses import dataclass

from steelyard.broker.names import check_broker, check_cluster
from steelyard.errors import ConfigurationError

__all__ = ["DEFAULT_TOPIC_QUEUES", "MOST_QUEUES", "BrokerOptions"]

DEFAULT_TOPIC_QUEUES = 8
"""Queues of TBW102 where nobody says otherwise."""
MOST_QUEUES = 65_536
"""What a topic may have of each kind."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """A broker's identity, its switches, its limits.

    >>> BrokerOptions().name, BrokerOptions(flush="sync").is_sync
    ('broker-0', True)
    """

    name: str = "broker-0"
    """What routes call it."""
    cluster: str = "DefaultCluster"
    """The cluster that it belongs to."""
    broker_id: int = 0
    """0 is a master, and ours are masters."""
    host: str = "127.0.0.1"
    """The address that routes and records have."""
    port: int = 10911
    """The port that routes and records have."""
    region: str = "DefaultRegion"
    """Told to clients with every answer to a send."""
    flush: str = "async"
    """``sync``: a send is answered once it is safe from a loss of power; ``async``: once it is in the log."""

    permission: int = 6
    """6: clients may write and read; 4: they only read, so that it can be taken out of service."""
    auto_create_topics: bool = True
    """Whether the first send to a topic makes it."""
    auto_create_groups: bool = True
    """Whether the first heartbeat of a group makes it."""
    default_topic_queues: int | None = None
    """Queues of TBW102: what a topic that is made by its first send may have at most. None: as it was, 8 at first."""
    trace_topic: bool = True
    """Whether there is a topic for the traces of other clients."""
    keep_moves: bool = True
    """Whether it is written into a topic of the broker's own which queue went from whom to whom, and why."""

    max_message_bytes: int = 4 * 1024 * 1024
    """The largest body that is taken."""
    max_pull_messages: int = 1024
    """What a client gets that asks for so many; Java's ask for 32."""
    max_pull_bytes: int = 4 * 1024 * 1024
    """The most that one pull gets, whatever it asks for."""
    default_pull_bytes: int = 256 * 1024
    """What a client gets that does not ask for bytes, or asks for as many messages as Java's do."""
    parked_pulls: int = 20_000
    """Pulls that may wait for messages at one time; one more is answered at once with nothing found."""
    property_filter: bool = True
    """Whether members may filter by SQL92."""

    max_topics: int = 20_000
    """Topics that it keeps at most."""
    max_groups: int = 20_000
    """Groups that it keeps at most."""
    new_names: int = 4_000
    """Groups and topics that one connection may make at once; a group's topic of retries counts as well. An application
    with 200 groups makes 400, and a script that sets up a cluster some thousand."""
    new_names_per_s: int = 100
    """How many more it may make each second after that."""
    max_members: int = 10_000
    """Members of all groups together."""

    flush_wait_ms: int = 5_000
    """How long an answer waits for the disk before it says: stored, but flush late."""
    flush_interval_ms: int = 500
    """How often an async broker syncs."""
    offsets_interval_ms: int = 5_000
    """How often offsets are written to the disk."""
    client_silence_ms: int = 120_000
    """How long a client of another make may be silent before it counts as gone."""
    line_grace_ms: int = 300
    """How long a member whose line closed may take to come back, before it counts as gone."""
    order_grace_ms: int = 2_000
    """How long the queues of an orderly member that crashed rest, so that its handlers have an end."""
    settle_ms: int = 3_000
    """How long after a start queues are kept for the members that held them before."""
    notices: bool = True
    """Whether members are told when their group changes; each group has a switch of its own besides."""
    notice_gap_ms: int = 100
    """The least time between two notices of changes to the members of one group."""
    announce_gap_ms: int = 25
    """Changes of topics that come so soon one after the other are told to the name servers together."""
    java_lock_ms: int = 60_000
    """How long a lock of a member of another make lasts without being renewed."""
    transaction_check_ms: int = 30_000
    """How often producers are asked about transactions that have no end."""
    transaction_timeout_ms: int = 6_000
    """How old a transaction is before somebody is asked about it."""
    transaction_checks: int = 15
    """How often one is asked about before it is rolled back."""
    relay_ms: int = 10_000
    """How long a member may take to answer a question that was passed on to it."""
    timer_max_ms: int = 3 * 24 * 3_600_000
    """The longest delay."""
    refuse_duplicates: bool = False
    """Whether a member is refused whose client id another live member of the group has."""
    refuse_unequal: bool = False
    """Whether a member is refused whose subscriptions differ from those of its group."""

    def __post_init__(self) -> None:
        check_broker(self.name)
        check_cluster(self.cluster)
        if self.flush not in ("sync", "async"):
            raise ConfigurationError(f"flush is {self.flush!r}", next_step="give sync or async")
        queues = self.default_topic_queues
        if queues is not None and not 1 <= queues <= MOST_QUEUES:
            raise ConfigurationError(f"default_topic_queues is {queues}", next_step=f"give 1 to {MOST_QUEUES}")
        if self.permission not in (4, 6):
            raise ConfigurationError(
                f"permission is {self.permission!r}", next_step="give 6, or 4 to be only read from"
            )

    @property
    def is_writable(self) -> bool:
        """Whether clients may write."""
        return self.permission == 6

    @property
    def is_sync(self) -> bool:
        """Whether answers wait for the disk."""
        return self.flush == "sync"

    @property
    def address(self) -> str:
        """Where clients find this broker."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
