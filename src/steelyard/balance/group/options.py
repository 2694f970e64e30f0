"""Options of a member, and every time of the balancing protocol with its reason: frozen values, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from steelyard.balance.assignors.average import Average
from steelyard.balance.assignors.sticky import Sticky
from steelyard.balance.assignors.strategy import Strategy, check_member_tables, member_tables_of
from steelyard.balance.group.actions import StartPosition
from steelyard.errors import ConfigurationError
from steelyard.model import Subscription
from steelyard.model.reserved_names import CLIENT_ID_SUFFIX, RETRY_PREFIX

LEASE_SUFFIX = "%LEASE"
"""After the group's name: the locks of members that are not orderly. Apache's retries look at the bare name only."""


def is_steelyard_id(client_id: str) -> bool:
    """Say whether a client id is that of a Steelyard member.

    >>> is_steelyard_id("10.0.0.1@7#12@sy1"), is_steelyard_id("10.0.0.1@7#12")
    (True, False)
    """
    return client_id.endswith(CLIENT_ID_SUFFIX)


class ConsumeMode(Enum):
    """How a group's members share its messages."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"


class UnreadablePolicy(Enum):
    """What happens to a message whose body cannot be read."""

    DEAD_LETTER = "dead-letter"
    """Its bytes go to the group's dead letters, with the reason; then the queue goes on."""
    SKIP = "skip"
    STOP = "stop"
    """Its queue stops until the group's offset is reset."""


@dataclass(frozen=True, slots=True)
class MemberTimings:
    """Every time of the balancing protocol, in milliseconds."""

    lock_retry_ms: tuple[int, ...] = (50, 100, 200)
    """Between requests for a lock that another member holds; the last one repeats. A drain takes milliseconds."""
    lock_retry_slow_ms: int = 400
    """After `lock_retry_fast_ms`: a long drain should not be hammered."""
    lock_retry_fast_ms: int = 2_000
    """How long a lock is requested at the fast rate."""
    handover_request_ms: int = 500
    """How long a lock is denied before its holder is asked to rebalance: longer than a normal handover."""
    handover_request_again_ms: int = 2_000
    """Between two such requests to a holder."""
    rebalance_gap_ms: int = 200
    """Between two rebalances: many notifications lead to a few rebalances."""
    departed_ms: int = 300
    """How long a member must be missing before it counts as gone, without leases: it may reconnect."""
    settle_ms: int = 3_000
    """How long a restarted broker is given to get heartbeats of its members again."""
    settle_foreign_ms: int = 35_000
    """The same with foreign members, whose heartbeats come every 30 s."""
    heartbeat_ms: int = 3_000
    """Between heartbeats to a Steelyard broker."""
    heartbeat_apache_ms: int = 30_000
    """Between heartbeats to an Apache broker."""
    fence_ms: int = 9_000
    """How old the last proof may be before nothing new is started, on a Steelyard broker: 3 s less than it allows."""
    fence_order_ms: int = 30_000
    """The same where a lock is kept: by orderly members on an Apache broker."""
    fence_apache_ms: int = 90_000
    """The same for others on an Apache broker."""
    renew_ms: int = 20_000
    """Between renewals of a kept lock on an Apache broker, whose locks live 60 s: three attempts."""
    drain_ms: int | None = 30_000
    """How long handlers may go on after a queue was assigned to another member; None: without limit."""
    foreign_wait_ms: int = 2_000
    """How long to wait for a foreign member that still holds a queue which is ours by plan."""
    foreign_drain_ms: int = 1_000
    """How long handlers may go on when the queue goes to a foreign member, which does not wait."""
    commit_ms: int = 1_000
    """Between commits of a queue."""
    commit_unmoved_ms: int = 5_000
    """Between commits of an unchanged offset on an Apache broker: a late commit must not be the last one."""
    member_list_ttl_ms: int = 30_000
    """How long the last list of a broker counts that does not answer."""
    query_retry_ms: int = 1_000
    """Before the members are queried again after no broker answered; doubled each time."""
    query_retry_max_ms: int = 5_000
    """The longest of these delays."""
    unlisted_retry_ms: int = 200
    """After a heartbeat to a broker that did not list us, before it is queried again."""
    confirming_read_ms: int = 200
    """Between two equal reads that a plan without leases needs."""
    rebalance_unsettled_interval_ms: int = 5_000
    """Between rebalances until everything has settled, and for `recent_change_ms` after a change."""
    rebalance_interval_ms: int = 20_000
    """Between rebalances when everything has settled."""
    recent_change_ms: int = 60_000
    """How long a change counts as recent."""
    route_unsettled_interval_ms: int = 5_000
    """Between queries for routes until everything has settled."""
    route_interval_ms: int = 30_000
    """Between queries for routes when everything has settled."""
    route_mismatch_retry_ms: int = 50
    """Before a name server is queried again whose route differs from what a broker reports; then longer."""
    leave_grace_ms: int = 3_000
    """After the drain at a stop: for the last commits, unlocks and unregisters. Then everything is dropped."""
    broker_gone_ms: int = 60_000
    """After this time a queue whose broker left the route is given up."""
    ownership_probe_ms: int = 3_000
    """How long a member may take to answer a probe that is waited for."""
    ownership_probe_background_ms: int = 10_000
    """The same for a background probe: as long as an Apache broker waits for it."""
    send_back_retry_ms: int = 5_000
    """Before a failed send-back is retried."""
    pull_retry_ms: int = 1_000
    """After a pull that failed."""
    pull_busy_ms: int = 20
    """After a pull that its broker was too busy for."""
    pull_empty_ms: int = 100
    """After pulls that their broker answered at once with nothing, though it was asked to hold them."""
    stuck_pull_ms: int = 120_000
    """After this time an unanswered pull makes its queue start again."""
    suspend_ms: int = 1_000
    """How long an orderly queue pauses after a failure."""
    consume_timeout_ms: int = 15 * 60_000
    """How long a message may be in a handler before it is sent back (concurrent)."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """One member of one group.

    >>> options = MemberOptions("billing", "10.0.0.1@7#12@sy1", {"orders": Subscription("orders")})
    >>> options.mode.value, options.retry_topic, options.lock_group
    ('concurrent', '%RETRY%billing', 'billing%LEASE')
    """

    group: str
    id: str
    """The client id, which ends with `CLIENT_ID_SUFFIX`."""
    subscriptions: Mapping[str, Subscription]
    """Without the retry topic, which is added if the mode has one."""
    mode: ConsumeMode = ConsumeMode.CONCURRENT
    strategy: Strategy = field(default_factory=Sticky)
    """How queues are assigned if all members run Steelyard."""
    mixed_group_strategy: Strategy = field(default_factory=Average)
    """How they are assigned if one member does not, or the owners cannot be known."""
    start: StartPosition = field(default_factory=StartPosition)
    handler_limit: int = 20
    """How many handlers may run at a time."""
    handler_batch: int = 1
    """How many messages one handler gets at a time."""
    pull_batch: int = 32
    queue_messages: int = 1_000
    """With more unfinished messages than this, a queue is not pulled."""
    queue_bytes: int = 100 << 20
    queue_span: int = 2_000
    """The same for the distance from the first to the last (concurrent)."""
    topic_messages: int | None = None
    """The same for a topic, divided among its owned queues."""
    topic_bytes: int | None = None
    has_retries: bool = True
    """Whether failed messages are redelivered in a topic of their own. A member that polls keeps them instead."""
    max_attempts: int = 16
    """How often an orderly message is tried before it goes to the dead letters; -1: without limit."""
    on_unreadable: UnreadablePolicy = UnreadablePolicy.DEAD_LETTER
    """What happens to an unreadable message. One that only this process cannot read stops its queue."""
    max_sticky_members: int = 32
    """Without leases, larger groups use the Java strategy, because each member would have to be probed."""
    max_member_list_brokers: int = 16
    times: MemberTimings = field(default_factory=MemberTimings)

    def __post_init__(self) -> None:
        if not self.group or not self.id or not self.subscriptions:
            raise ConfigurationError(
                f"a member of group {self.group!r} with id {self.id!r} subscribes to {len(self.subscriptions)} topics",
                next_step="give a group, an id and at least one topic",
            )
        for name in ("handler_limit", "handler_batch", "pull_batch", "queue_messages", "queue_bytes", "queue_span"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", next_step="give 1 or more")
        if self.mode is not ConsumeMode.BROADCAST:
            check_member_tables(member_tables_of(self.strategy, self.mixed_group_strategy), self.id)

    @property
    def retry_topic(self) -> str:
        """The topic in which failed messages of the group are redelivered."""
        return f"{RETRY_PREFIX}{self.group}"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic that is pulled, in order."""
        wanted = sorted(self.subscriptions)
        return (*wanted, self.retry_topic) if self.reads_retries else tuple(wanted)

    @property
    def reads_retries(self) -> bool:
        """Whether the retry topic is pulled; broadcasting has none."""
        return self.has_retries and self.mode is not ConsumeMode.BROADCAST

    @property
    def lock_group(self) -> str:
        """The name under which queues are locked."""
        return self.group if self.mode is ConsumeMode.ORDERLY else self.group + LEASE_SUFFIX
