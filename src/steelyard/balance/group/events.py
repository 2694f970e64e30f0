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


class Event(Struct, frozen=True, tag=True, gc=False):
    """Any event."""


class BrokerEvent(Event, frozen=True):
    """An event of one broker."""

    broker: str


class AssignedQueueEvent(Event, frozen=True):
    """An event of one queue that is or was assigned to the member."""

    queue: Queue


class ConnectionOpened(BrokerEvent, frozen=True):
    """A connection to a broker was opened."""


class ConnectionLost(BrokerEvent, frozen=True):
    """The connection to a broker was lost, and with it every response that was still to come."""


class HeartbeatAcknowledged(BrokerEvent, frozen=True):
    """A broker accepted our heartbeat; ``heartbeat_ms`` is the interval that it agreed to, None from Apache."""

    is_steelyard: bool
    heartbeat_ms: int | None = None


class HeartbeatFailed(BrokerEvent, frozen=True):
    """A broker did not accept our heartbeat; ``why`` is its remark, such as that our id is in use."""

    why: str = ""


class UptimeReceived(BrokerEvent, frozen=True):
    """The uptime of a broker; None if it does not report it."""

    uptime_ms: int | None


class RouteReceived(Event, frozen=True):
    """The readable queues of a topic; none: the name server does not know the topic (any more)."""

    topic: str
    queues: tuple[Queue, ...]


class RouteFailed(Event, frozen=True):
    """No name server answered for a topic."""

    topic: str


class MemberFacts(Struct, frozen=True):
    """What a Steelyard broker reports of one member of the group."""

    id: str
    is_steelyard: bool = False
    is_leaving: bool = False
    strategy: str | None = None
    topics: tuple[str, ...] | None = None


class MemberListReceived(BrokerEvent, frozen=True):
    """A broker's list of the group's members, empty if it knows none; all but ``ids`` only from Steelyard brokers."""

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


class MemberListFailed(BrokerEvent, frozen=True):
    """A broker did not list the members of the group."""

    request_id: int = 0


class MembersChanged(BrokerEvent, frozen=True):
    """A broker notified us that the members of the group changed."""


class LocksAnswered(BrokerEvent, frozen=True):
    """The response to `LockQueues` or `RenewLocks`: which locks we hold, with epochs, and who holds the others."""

    granted: Mapping[Queue, int | None]
    """The epoch of each lock, None where the broker has no epochs."""
    denied: Mapping[Queue, str | None]
    """The id of each holder, None where the broker does not report it."""


class LockFailed(BrokerEvent, frozen=True):
    """A `LockQueues` or `RenewLocks` failed: we may or may not hold its locks."""

    queues: tuple[Queue, ...]
    is_forbidden: bool = False
    """The broker refused it for lack of permission; it certainly had no effect."""


class Unlocked(BrokerEvent, frozen=True):
    """The broker executed an `UnlockQueues`."""

    queues: tuple[Queue, ...]


class UnlockFailed(BrokerEvent, frozen=True):
    """An `UnlockQueues` failed."""

    queues: tuple[Queue, ...]


class StartOffsetReceived(AssignedQueueEvent, frozen=True):
    """Where to start in a queue; ``stored``: the group had committed this offset, it was not computed."""

    offset: int
    stored: bool


class StartOffsetFailed(AssignedQueueEvent, frozen=True):
    """The start offset of a queue is not known."""


class OffsetReset(AssignedQueueEvent, frozen=True):
    """An administrator reset the offset of a queue (220)."""

    offset: int


class PullOutcome(Enum):
    """How a pull ended."""

    FOUND = "found"
    NOTHING = "nothing"
    """Nothing new, or nothing that the subscription matches: go on at ``next_offset``."""
    OFFSET_MOVED = "moved"
    """The offset is out of range: ``next_offset`` is the broker's correction."""


class Pulled(AssignedQueueEvent, frozen=True):
    """The response to a `PullMessages`. ``offsets`` and ``messages`` correspond one to one, in order of offsets."""

    generation: int
    outcome: PullOutcome
    next_offset: int
    offsets: Sequence[int] = ()
    messages: Sequence[object] = ()
    body_bytes: int = 0
    """The size of all messages together."""


class PullFailed(AssignedQueueEvent, frozen=True):
    """A `PullMessages` failed; ``is_busy``: the broker asked for a pause."""

    generation: int
    is_busy: bool = False
    why: str = ""
    """What is wrong with a response that cannot be read; the same pull gets the same response again."""


class UnreadableMessage(Struct, frozen=True, gc=False):
    """Why a message cannot be passed to a handler."""

    why: str
    is_local: bool = False
    """Whether only this process cannot read it, because something is not installed; the message is good."""


class Handled(AssignedQueueEvent, frozen=True):
    """A handler has finished messages of one `HandleMessages`; those not named are still being handled."""

    generation: int
    done: Sequence[int]
    failed: Sequence[int] = ()
    delay_level: int = 0
    """When to redeliver the failed ones, as the user chose: 0 lets the broker choose, -1 gives up."""
    skipped: Sequence[int] = ()
    """Offsets that were not started, because `may_start` was false: to be started later, or elsewhere."""
    unreadable: Mapping[int, UnreadableMessage] = {}
    """Offsets whose bodies cannot be read: no handler got them."""
    errors: Mapping[int, str] = {}
    """Why the failed ones failed, by offset."""


class MessagesPolled(AssignedQueueEvent, frozen=True):
    """The user holds ``count`` polled messages, for as long as it likes: they do not count for flow control."""

    generation: int
    count: int


class CommitRequested(AssignedQueueEvent, frozen=True):
    """The user wants the progress of a queue to be committed now."""


class SentBack(AssignedQueueEvent, frozen=True):
    """A broker stored a failed message: it will be redelivered, or is a dead letter."""

    generation: int
    offset: int


class SendBackFailed(AssignedQueueEvent, frozen=True):
    """A failed message could not be sent back."""

    generation: int
    offset: int


class CommitConfirmed(AssignedQueueEvent, frozen=True):
    """The broker stored this offset."""

    offset: int


class CommitRefused(AssignedQueueEvent, frozen=True):
    """The broker does not accept offsets of this queue from us: another member owns it."""

    offset: int


class CommitFailed(AssignedQueueEvent, frozen=True):
    """A commit failed: it may or may not be stored."""

    offset: int


class OwnershipReported(BrokerEvent, frozen=True):
    """Another member answered our probe (307), through a broker: what it holds, gives up and waits for.

    From a foreign member only ``held`` and ``filters`` are known.
    """

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
    filters: Mapping[str, str] = {}
    """Its filter for each subscribed topic, without the retry topic; empty if it does not report them."""


class OwnershipProbeFailed(BrokerEvent, frozen=True):
    """Another member did not answer; ``is_unknown``: the broker does not know it."""

    member: str
    is_unknown: bool = False
    request_id: int = 0
    is_connection_closed: bool = False
    """The connection by which the broker knows it is closed; it may have another one."""


class HandoverRequested(Event, frozen=True):
    """Another member probed us, and named the queues that it waits for, if any."""

    member: str | None
    waiting_for: tuple[Queue, ...] = ()


class LeaveRequested(Event, frozen=True):
    """The user wants to stop: drain, commit, release, unregister. ``drain_ms`` None: without limit."""

    drain_ms: int | None = 30_000


class Tick(Event, frozen=True):
    """Time passed."""
