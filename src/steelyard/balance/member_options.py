"""How a member is set up, and the times of the protocol, each with its reason: frozen values, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from steelyard.balance.actions import Start
from steelyard.balance.allocate.average import Average
from steelyard.balance.allocate.member_tables import check_tables, tables_of
from steelyard.balance.allocate.sticky import Sticky
from steelyard.balance.allocate.strategy import Strategy
from steelyard.errors import ConfigurationError
from steelyard.model import Subscription
from steelyard.model.names import OUR_MARK, RETRY

__all__ = ["LEASE_SUFFIX", "MemberOptions", "Mode", "OnUnreadable", "Times", "is_ours"]

LEASE_SUFFIX = "%LEASE"
"""Behind the group's name: the locks of members that need no order. Apache's retries look at the bare name only."""


def is_ours(client_id: str) -> bool:
    """Say whether a client id is that of a member which speaks as we do.

    >>> is_ours("10.0.0.1@7#12@sy1"), is_ours("10.0.0.1@7#12")
    (True, False)
    """
    return client_id.endswith(OUR_MARK)


class Mode(Enum):
    """How a group's members share its messages."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    BROADCAST = "broadcast"


class OnUnreadable(Enum):
    """What becomes of a message whose body cannot be opened."""

    DEAD_LETTER = "dead-letter"
    """Its bytes go to the group's dead letters, with the reason; then the queue goes on."""
    SKIP = "skip"
    STOP = "stop"
    """Its queue stands still until somebody resets the group's offset."""


@dataclass(frozen=True, slots=True)
class Times:
    """Every time of the balancing protocol, in milliseconds."""

    lock_retry_ms: tuple[int, ...] = (50, 100, 200)
    """Between tries for a lock that somebody holds; the last one repeats. A drain takes milliseconds."""
    lock_retry_slow_ms: int = 400
    """After `lock_retry_fast_ms`: a long drain should not be hammered."""
    lock_retry_fast_ms: int = 2_000
    """How long a lock is tried for at the quick pace."""
    poke_ms: int = 500
    """How long a lock is denied before its holder is asked to look: longer than a normal hand-over."""
    poke_again_ms: int = 2_000
    """Between two times that a holder is asked to look."""
    round_gap_ms: int = 200
    """Between two rounds: a storm of notices becomes a few rounds."""
    departed_ms: int = 300
    """How long an id must be missing before it counts as gone, on a broker without leases: a line may blip."""
    settle_ms: int = 3_000
    """How long a restarted broker is given to hear from its members again."""
    settle_foreign_ms: int = 35_000
    """The same where foreign members were seen, which beat every 30 s."""
    heartbeat_ms: int = 3_000
    """Between heartbeats to our broker."""
    heartbeat_apache_ms: int = 30_000
    """Between heartbeats to Apache's."""
    fence_ms: int = 9_000
    """How old the last proof may be before nothing new is started, on our broker: 3 s less than it allows."""
    fence_order_ms: int = 30_000
    """The same where a lock is kept: by orderly members on Apache's broker."""
    fence_apache_ms: int = 90_000
    """The same for others on Apache's broker."""
    renew_ms: int = 20_000
    """Between renewals of a kept lock on Apache's broker, whose locks live 60 s: three tries."""
    drain_ms: int | None = 30_000
    """How long handlers may go on after a queue was given to somebody else; None: for ever."""
    foreign_wait_ms: int = 2_000
    """How long a foreign member is waited for that still shows a queue which is ours by plan."""
    foreign_drain_ms: int = 1_000
    """How long handlers may go on when the queue goes to a foreign member, which does not wait."""
    commit_ms: int = 1_000
    """Between commits of a queue."""
    commit_unmoved_ms: int = 5_000
    """On Apache's broker an unchanged offset is said again: a late commit of a dead line must not be the last word."""
    group_silence_ms: int = 30_000
    """How long the last list of a broker counts that does not answer."""
    ask_again_ms: int = 1_000
    """Before the list of members is asked for again after nobody answered; doubled each time."""
    ask_again_most_ms: int = 5_000
    """The longest of these pauses."""
    own_id_ms: int = 200
    """After a heartbeat to a broker that did not list us, before it is asked again."""
    second_look_ms: int = 200
    """Between two equal views that a plan without leases needs."""
    round_soon_ms: int = 5_000
    """Between rounds while anything is not settled, and for `unrest_ms` after a change."""
    round_ms: int = 20_000
    """Between rounds while all is settled."""
    unrest_ms: int = 60_000
    """How long a change counts as recent."""
    route_soon_ms: int = 5_000
    """Between questions for routes while anything is not settled."""
    route_ms: int = 30_000
    """Between questions for routes while all is settled."""
    route_doubt_ms: int = 50
    """Before a name server is asked again that does not know yet what a broker says of its queues; then longer."""
    leave_grace_ms: int = 3_000
    """After the time for draining at a stop: for the last commits, unlocks and goodbyes. Then all is dropped."""
    broker_gone_ms: int = 60_000
    """After this a queue whose broker left the route is lost."""
    holders_ms: int = 3_000
    """How long a member may take to say what it holds, where somebody waits for it."""
    holders_patient_ms: int = 10_000
    """The same where nobody waits: as long as Apache's broker waits for it."""
    send_back_again_ms: int = 5_000
    """Before a message that could not be given back is given back again."""
    pull_again_ms: int = 1_000
    """After a pull that failed."""
    pull_busy_ms: int = 20
    """After a pull that its broker was too busy for."""
    pull_empty_ms: int = 100
    """After pulls that their broker answered at once with nothing, though it was asked to hold them."""
    stuck_ms: int = 120_000
    """After this a pull that was never answered makes its queue start anew."""
    suspend_ms: int = 1_000
    """How long an orderly queue rests after a failure."""
    handle_most_ms: int = 15 * 60_000
    """How long a message may be in a handler before it is given back (concurrent)."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """One member of one group.

    >>> options = MemberOptions("billing", "10.0.0.1@7#12@sy1", {"orders": Subscription("orders")})
    >>> options.mode.value, options.retry_topic, options.lock_group
    ('concurrent', '%RETRY%billing', 'billing%LEASE')
    """

    group: str
    id: str
    """The client id; `OUR_MARK` ends it."""
    topics: Mapping[str, Subscription]
    """What is subscribed to, without the topic of retries: that is added where the mode has one."""
    mode: Mode = Mode.CONCURRENT
    strategy: Strategy = field(default_factory=Sticky)
    """How queues are shared among members that are all ours."""
    java_strategy: Strategy = field(default_factory=Average)
    """How they are shared as soon as one member is not, and everywhere that owners cannot be known."""
    start: Start = field(default_factory=Start)
    handlers: int = 20
    """How many messages may be in handlers at a time (or chunks of them)."""
    chunk: int = 1
    """How many messages one handler is given to do one after the other."""
    pull_most: int = 32
    queue_messages: int = 1_000
    """More than these of one queue waiting, and it is not pulled from."""
    queue_bytes: int = 100 << 20
    queue_span: int = 2_000
    """The same for the distance of the first from the last (concurrent)."""
    topic_messages: int | None = None
    """The same for a topic, shared out over the queues owned."""
    topic_bytes: int | None = None
    has_retries: bool = True
    """Whether what fails comes back in a topic of its own. Who polls has none: what is not done stays where it is."""
    most_tries: int = 16
    """How often an orderly message is tried before it goes to the dead letters; -1: for ever."""
    on_unreadable: OnUnreadable = OnUnreadable.DEAD_LETTER
    """What becomes of a message that cannot be read. One that only this process cannot read stops its queue."""
    sticky_most: int = 32
    """On a broker without leases, more members than this use the Java strategy: each is asked what it holds."""
    brokers_asked: int = 16
    times: Times = field(default_factory=Times)

    def __post_init__(self) -> None:
        if not self.group or not self.id or not self.topics:
            raise ConfigurationError(
                f"a member of group {self.group!r} with id {self.id!r} wants {len(self.topics)} topics",
                next_step="give a group, an id and at least one topic",
            )
        for name in ("handlers", "chunk", "pull_most", "queue_messages", "queue_bytes", "queue_span"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}", next_step="give 1 or more")
        if self.mode is not Mode.BROADCAST:
            check_tables(tables_of(self.strategy, self.java_strategy), self.id)

    @property
    def retry_topic(self) -> str:
        """The topic that failed messages of the group come back in."""
        return f"{RETRY}{self.group}"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic that is pulled from, in order."""
        wanted = sorted(self.topics)
        return (*wanted, self.retry_topic) if self.reads_retries else tuple(wanted)

    @property
    def reads_retries(self) -> bool:
        """Whether the topic of retries is pulled from; broadcasting has none."""
        return self.has_retries and self.mode is not Mode.BROADCAST

    @property
    def lock_group(self) -> str:
        """Under which name queues are locked."""
        return self.group if self.mode is Mode.ORDERLY else self.group + LEASE_SUFFIX
