"""Events: everything that `MemberStateMachine.step` can process.

An event is in the past tense and says only what is certain. The program that runs a member (a client, the simulator, a
test) guarantees:

- each request is followed by one event with its outcome, or by the `ConnectionLost` of its broker, which is the outcome
  of everything that was unanswered there: what an old connection still delivers is dropped;
- a request that times out or is answered with an error becomes the ``…Failed`` event of its kind;
- `ConnectionOpened` comes before anything else of a connection, and our heartbeat is the first request on it;
- time never goes backwards, and a `Tick` comes at `MemberStateMachine.due_ms`, or soon after.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from steelyard.model import Queue

__all__ = [
    "CommitConfirmed",
    "CommitFailed",
    "CommitRefused",
    "CommitRequested",
    "ConnectionLost",
    "ConnectionOpened",
    "Event",
    "Handled",
    "HandoverRequested",
    "HeartbeatAcknowledged",
    "HeartbeatFailed",
    "LeaveRequested",
    "LockFailed",
    "LocksAnswered",
    "MemberFacts",
    "MemberListFailed",
    "MemberListReceived",
    "MembersChanged",
    "MessagesPolled",
    "OffsetReset",
    "OwnershipProbeFailed",
    "OwnershipReported",
    "PullFailed",
    "PullOutcome",
    "Pulled",
    "RouteFailed",
    "RouteReceived",
    "SendBackFailed",
    "SentBack",
    "StartOffsetFailed",
    "StartOffsetReceived",
    "Tick",
    "UnlockFailed",
    "Unlocked",
    "UnreadableMessage",
    "UptimeReceived",
]


class ConnectionOpened(Struct, frozen=True, tag=True, gc=False):
    """A connection to a broker was opened."""

    broker: str


class ConnectionLost(Struct, frozen=True, tag=True, gc=False):
    """The connection to a broker was lost, and with it every response that was still to come."""

    broker: str


class HeartbeatAcknowledged(Struct, frozen=True, tag=True, gc=False):
    """A broker accepted our heartbeat; ``heartbeat_ms`` is the interval that it agreed to, None from Apache."""

    broker: str
    is_steelyard: bool
    heartbeat_ms: int | None = None


class HeartbeatFailed(Struct, frozen=True, tag=True, gc=False):
    """A broker did not accept our heartbeat; ``why`` is its remark, such as that our id is in use."""

    broker: str
    why: str = ""


class UptimeReceived(Struct, frozen=True, tag=True, gc=False):
    """The uptime of a broker; None if it does not report it."""

    broker: str
    uptime_ms: int | None


class RouteReceived(Struct, frozen=True, tag=True, gc=False):
    """The readable queues of a topic; none: the name server does not know the topic (any more)."""

    topic: str
    queues: tuple[Queue, ...]


class RouteFailed(Struct, frozen=True, tag=True, gc=False):
    """No name server answered for a topic."""

    topic: str


class MemberFacts(Struct, frozen=True):
    """What a Steelyard broker reports of one member of the group."""

    id: str
    is_steelyard: bool = False
    is_leaving: bool = False
    strategy: str | None = None
    topics: tuple[str, ...] | None = None


class MemberListReceived(Struct, frozen=True, tag=True, gc=False):
    """A broker's list of the group's members, empty if it knows none; all but ``ids`` only from Steelyard brokers."""

    broker: str
    ids: tuple[str, ...]
    epoch: int | None = None
    is_settled: bool | None = None
    members: tuple[MemberFacts, ...] | None = None
    owners: Mapping[Queue, str] | None = None
    """The owner of each of this broker's queues that has one."""
    queue_counts: Mapping[str, int] | None = None
    """The readable queues that this broker has of each subscribed topic."""
    warnings: tuple[str, ...] = ()
    """What the broker finds wrong in the group, in sentences."""
    request_id: int = 0
    """That of the `QueryMemberList` that it answers."""


class MemberListFailed(Struct, frozen=True, tag=True, gc=False):
    """A broker did not list the members of the group."""

    broker: str
    request_id: int = 0


class MembersChanged(Struct, frozen=True, tag=True, gc=False):
    """A broker notified us that the members of the group changed."""

    broker: str


class LocksAnswered(Struct, frozen=True, tag=True, gc=False):
    """The response to `LockQueues` or `RenewLocks`: which locks we hold, with epochs, and who holds the others."""

    broker: str
    granted: Mapping[Queue, int | None]
    """The epoch of each lock, None where the broker has no epochs."""
    denied: Mapping[Queue, str | None]
    """The id of each holder, None where the broker does not report it."""


class LockFailed(Struct, frozen=True, tag=True, gc=False):
    """A `LockQueues` or `RenewLocks` failed: we may or may not hold its locks."""

    broker: str
    queues: tuple[Queue, ...]
    is_forbidden: bool = False
    """The broker refused it for lack of permission; it certainly had no effect."""


class Unlocked(Struct, frozen=True, tag=True, gc=False):
    """The broker executed an `UnlockQueues`."""

    broker: str
    queues: tuple[Queue, ...]


class UnlockFailed(Struct, frozen=True, tag=True, gc=False):
    """An `UnlockQueues` failed."""

    broker: str
    queues: tuple[Queue, ...]


class StartOffsetReceived(Struct, frozen=True, tag=True, gc=False):
    """Where to start in a queue; ``stored``: the group had committed this offset, it was not computed."""

    queue: Queue
    offset: int
    stored: bool


class StartOffsetFailed(Struct, frozen=True, tag=True, gc=False):
    """The start offset of a queue is not known."""

    queue: Queue


class OffsetReset(Struct, frozen=True, tag=True, gc=False):
    """An administrator reset the offset of a queue (220)."""

    queue: Queue
    offset: int


class PullOutcome(Enum):
    """How a pull ended."""

    FOUND = "found"
    NOTHING = "nothing"
    """Nothing new, or nothing that the subscription matches: go on at ``next_offset``."""
    OFFSET_MOVED = "moved"
    """The offset is out of range: ``next_offset`` is the broker's correction."""


class Pulled(Struct, frozen=True, tag=True, gc=False):
    """The response to a `PullMessages`. ``offsets`` and ``messages`` correspond one to one, in order of offsets."""

    queue: Queue
    generation: int
    outcome: PullOutcome
    next_offset: int
    offsets: Sequence[int] = ()
    messages: Sequence[object] = ()
    body_bytes: int = 0
    """The size of all messages together."""


class PullFailed(Struct, frozen=True, tag=True, gc=False):
    """A `PullMessages` failed; ``is_busy``: the broker asked for a pause."""

    queue: Queue
    generation: int
    is_busy: bool = False
    why: str = ""
    """What is wrong with a response that cannot be read; the same pull gets the same response again."""


class UnreadableMessage(Struct, frozen=True, gc=False):
    """Why a message cannot be passed to a handler."""

    why: str
    is_local: bool = False
    """Whether only this process cannot read it, because something is not installed; the message is good."""


class Handled(Struct, frozen=True, tag=True, gc=False):
    """A handler has finished messages of one `HandleMessages`; those not named are still being handled."""

    queue: Queue
    generation: int
    done: Sequence[int]
    """Offsets that succeeded."""
    failed: Sequence[int] = ()
    """Offsets that failed."""
    delay_level: int = 0
    """When to redeliver the failed ones, as the user chose: 0 lets the broker choose, -1 gives up."""
    skipped: Sequence[int] = ()
    """Offsets that were not started, because `may_start` was false: to be started later, or elsewhere."""
    unreadable: Mapping[int, UnreadableMessage] = {}
    """Offsets whose bodies cannot be read: no handler got them."""


class MessagesPolled(Struct, frozen=True, tag=True, gc=False):
    """The user holds ``count`` polled messages, for as long as it likes: they do not count for flow control."""

    queue: Queue
    generation: int
    count: int


class CommitRequested(Struct, frozen=True, tag=True, gc=False):
    """The user wants the progress of a queue to be committed now."""

    queue: Queue


class SentBack(Struct, frozen=True, tag=True, gc=False):
    """A broker stored a failed message: it will be redelivered, or is a dead letter."""

    queue: Queue
    generation: int
    offset: int


class SendBackFailed(Struct, frozen=True, tag=True, gc=False):
    """A failed message could not be sent back."""

    queue: Queue
    generation: int
    offset: int


class CommitConfirmed(Struct, frozen=True, tag=True, gc=False):
    """The broker stored this offset."""

    queue: Queue
    offset: int


class CommitRefused(Struct, frozen=True, tag=True, gc=False):
    """The broker does not accept offsets of this queue from us: another member owns it."""

    queue: Queue
    offset: int


class CommitFailed(Struct, frozen=True, tag=True, gc=False):
    """A commit failed: it may or may not be stored."""

    queue: Queue
    offset: int


class OwnershipReported(Struct, frozen=True, tag=True, gc=False):
    """Another member answered our probe (307): what it holds, gives up and waits for.

    From a foreign member only ``held`` and ``filters`` are known.
    """

    broker: str
    """The broker that passed the probe on."""
    member: str
    held: frozenset[Queue]
    """From STARTING to COMMITTING, so draining ones too."""
    acquiring: frozenset[Queue] = frozenset()
    departed: Mapping[str, int] = {}
    """Members that departed, with the milliseconds since it last saw them."""
    request_id: int = 0
    """That of the `ProbeOwnership` that it answers."""
    unresponsive: Mapping[str, tuple[Queue, ...]] = {}
    """Members that do not answer it, with what they held when they last did."""
    may_hold: Mapping[str, tuple[Queue, ...]] = {}
    """Of the queues that were named, those that other members may hold, by all that it knows of them."""
    asked_ms: int = 0
    """When the probe was sent."""
    filters: Mapping[str, str] = {}
    """Its filter for each subscribed topic, without the retry topic; empty if it does not report them."""


class OwnershipProbeFailed(Struct, frozen=True, tag=True, gc=False):
    """Another member did not answer; ``is_unknown``: the broker does not know it."""

    broker: str
    member: str
    is_unknown: bool = False
    request_id: int = 0
    is_connection_closed: bool = False
    """The connection by which the broker knows it is closed; it may have another one."""


class HandoverRequested(Struct, frozen=True, tag=True, gc=False):
    """Another member probed us, and named the queues that it waits for, if any."""

    member: str | None
    waiting_for: tuple[Queue, ...] = ()


class LeaveRequested(Struct, frozen=True, tag=True, gc=False):
    """The user wants to stop: drain, commit, release, unregister. ``drain_ms`` None: without limit."""

    drain_ms: int | None = 30_000


class Tick(Struct, frozen=True, tag=True, gc=False):
    """Time passed."""


Event = (
    ConnectionOpened
    | ConnectionLost
    | HeartbeatAcknowledged
    | HeartbeatFailed
    | UptimeReceived
    | RouteReceived
    | RouteFailed
    | MemberListReceived
    | MemberListFailed
    | MembersChanged
    | LocksAnswered
    | LockFailed
    | Unlocked
    | UnlockFailed
    | StartOffsetReceived
    | StartOffsetFailed
    | OffsetReset
    | Pulled
    | PullFailed
    | Handled
    | MessagesPolled
    | SentBack
    | SendBackFailed
    | CommitRequested
    | CommitConfirmed
    | CommitRefused
    | CommitFailed
    | OwnershipReported
    | OwnershipProbeFailed
    | HandoverRequested
    | LeaveRequested
    | Tick
)
"""Any event."""
