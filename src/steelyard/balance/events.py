"""What a member of a group has seen: everything that `Member.step` can be told.

An event is in the past tense and says only what is known for sure. Whoever runs a member (a client, the simulator, a
test) keeps four promises:

- each request that an action asks for is followed by one event about its outcome, or by the `LineCut` of its broker,
  which is the outcome of everything that was unanswered there: what an old line still brings is dropped;
- a request that is not answered in time, or is answered with an error, becomes the ``…Failed`` event of its kind;
- `LineOpened` comes before anything else of a line, and the broker hears nothing of us before our first heartbeat;
- time never runs backwards, and a `Tick` comes when `Member.due_ms` says so, or soon after.
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from steelyard.model import Queue

__all__ = [
    "BeatAnswered",
    "BeatFailed",
    "CommitAsked",
    "CommitConfirmed",
    "CommitFailed",
    "CommitRefused",
    "Event",
    "GroupFailed",
    "GroupSeen",
    "Handled",
    "HoldersFailed",
    "HoldersSeen",
    "LeaveAsked",
    "Lent",
    "LineCut",
    "LineOpened",
    "LockFailed",
    "LocksAnswered",
    "MemberFacts",
    "MembersChanged",
    "OffsetFailed",
    "OffsetReset",
    "OffsetSeen",
    "Poked",
    "PullFailed",
    "PullOutcome",
    "Pulled",
    "RouteFailed",
    "RouteSeen",
    "SendBackFailed",
    "SentBack",
    "Tick",
    "UnlockFailed",
    "Unlocked",
    "Unreadable",
    "UptimeSeen",
]


class LineOpened(Struct, frozen=True, tag=True, gc=False):
    """A line to a broker is up, the first one or one after a cut."""

    broker: str


class LineCut(Struct, frozen=True, tag=True, gc=False):
    """The line to a broker is gone, and with it every answer that was still to come."""

    broker: str


class BeatAnswered(Struct, frozen=True, tag=True, gc=False):
    """A broker took our heartbeat; ``heartbeat_ms`` is what it agreed to, None from a broker that is not ours."""

    broker: str
    ours: bool
    heartbeat_ms: int | None = None


class BeatFailed(Struct, frozen=True, tag=True, gc=False):
    """A broker did not take our heartbeat; ``why`` is its remark, such as that our id is taken."""

    broker: str
    why: str = ""


class UptimeSeen(Struct, frozen=True, tag=True, gc=False):
    """A broker told for how long it has been running; None if it does not tell."""

    broker: str
    uptime_ms: int | None


class RouteSeen(Struct, frozen=True, tag=True, gc=False):
    """A topic has these readable queues; none: the name server does not know the topic (any more)."""

    topic: str
    queues: tuple[Queue, ...]


class RouteFailed(Struct, frozen=True, tag=True, gc=False):
    """No name server told of a topic."""

    topic: str


class MemberFacts(Struct, frozen=True):
    """What our broker says of one member of the group."""

    id: str
    ours: bool = False
    leaving: bool = False
    strategy: str | None = None
    topics: tuple[str, ...] | None = None


class GroupSeen(Struct, frozen=True, tag=True, gc=False):
    """A broker's list of the group's members; ``ids`` is empty where it knows nobody. The rest only from ours."""

    broker: str
    ids: tuple[str, ...]
    epoch: int | None = None
    settled: bool | None = None
    members: tuple[MemberFacts, ...] | None = None
    owners: Mapping[Queue, str] | None = None
    """The owner of each of this broker's queues that has one."""
    queues: Mapping[str, int] | None = None
    """How many readable queues this broker has of each topic that the group wants."""
    hazards: tuple[str, ...] = ()
    """What the broker finds wrong in the group, in sentences."""
    ticket: int = 0
    """That of the `AskGroup` it answers."""


class GroupFailed(Struct, frozen=True, tag=True, gc=False):
    """A broker did not tell who is in the group."""

    broker: str
    ticket: int = 0


class MembersChanged(Struct, frozen=True, tag=True, gc=False):
    """A broker gave notice that the group changed."""

    broker: str


class LocksAnswered(Struct, frozen=True, tag=True, gc=False):
    """The answer to `Lock` or `Renew`: which queues are ours now, with their epochs, and who holds the others."""

    broker: str
    granted: Mapping[Queue, int | None]
    """The epoch of each lock, None where the broker has no epochs."""
    denied: Mapping[Queue, str | None]
    """The id of each holder, None where the broker does not tell."""


class LockFailed(Struct, frozen=True, tag=True, gc=False):
    """A `Lock` or `Renew` had no good answer: its queues may or may not be locked for us."""

    broker: str
    queues: tuple[Queue, ...]
    forbidden: bool = False
    """The broker refused it for lack of permission; it surely did nothing."""


class Unlocked(Struct, frozen=True, tag=True, gc=False):
    """The broker took an `Unlock`."""

    broker: str
    queues: tuple[Queue, ...]


class UnlockFailed(Struct, frozen=True, tag=True, gc=False):
    """An `Unlock` had no good answer."""

    broker: str
    queues: tuple[Queue, ...]


class OffsetSeen(Struct, frozen=True, tag=True, gc=False):
    """Where to start in a queue; ``stored`` says whether the group had committed it, or it was worked out."""

    queue: Queue
    offset: int
    stored: bool


class OffsetFailed(Struct, frozen=True, tag=True, gc=False):
    """Where to start in a queue could not be learnt."""

    queue: Queue


class OffsetReset(Struct, frozen=True, tag=True, gc=False):
    """An administrator told us to go on at another offset of a queue (220)."""

    queue: Queue
    offset: int


class PullOutcome(Enum):
    """How a pull ended."""

    FOUND = "found"
    NOTHING = "nothing"
    """Nothing new, or nothing that the subscription wants: go on at ``next_offset``."""
    MOVED = "moved"
    """The offset is out of range: ``next_offset`` is the broker's correction."""


class Pulled(Struct, frozen=True, tag=True, gc=False):
    """The answer to a `Pull`. ``offsets`` and ``messages`` go together, one for one, in order of offsets."""

    queue: Queue
    generation: int
    outcome: PullOutcome
    next_offset: int
    offsets: Sequence[int] = ()
    messages: Sequence[object] = ()
    body_bytes: int = 0
    """What the messages take, all together."""


class PullFailed(Struct, frozen=True, tag=True, gc=False):
    """A `Pull` had no good answer; ``busy`` where the broker asked to be spared for a moment."""

    queue: Queue
    generation: int
    busy: bool = False
    why: str = ""
    """What is wrong with an answer that cannot be read; the same pull is answered the same way again."""


class Unreadable(Struct, frozen=True, gc=False):
    """Why a message cannot be given to the user's code."""

    why: str
    is_here: bool = False
    """Whether only this process cannot read it: something is not installed here, and the message is good."""


class Handled(Struct, frozen=True, tag=True, gc=False):
    """The user's code has finished with messages of one `Handle`; those not named are still being handled."""

    queue: Queue
    generation: int
    done: Sequence[int]
    """Offsets that went well."""
    failed: Sequence[int] = ()
    """Offsets that did not."""
    delay_level: int = 0
    """When the failed ones are to come again, as the user asked: 0 lets the broker choose, -1 gives up."""
    skipped: Sequence[int] = ()
    """Offsets that were not begun, since `Member.may_start` said no: they are to be started later, or elsewhere."""
    unreadable: Mapping[int, Unreadable] = {}
    """Offsets whose bodies cannot be opened: nobody's code saw them."""


class Lent(Struct, frozen=True, tag=True, gc=False):
    """The user's code has ``count`` messages and keeps them for as long as it likes: they hold up no pull."""

    queue: Queue
    generation: int
    count: int


class CommitAsked(Struct, frozen=True, tag=True, gc=False):
    """The user wants what is done of a queue to be stored now."""

    queue: Queue


class SentBack(Struct, frozen=True, tag=True, gc=False):
    """A broker took a failed message back: it will come again, or rests in the dead letters."""

    queue: Queue
    generation: int
    offset: int


class SendBackFailed(Struct, frozen=True, tag=True, gc=False):
    """A failed message could not be given back."""

    queue: Queue
    generation: int
    offset: int


class CommitConfirmed(Struct, frozen=True, tag=True, gc=False):
    """The broker keeps this offset now."""

    queue: Queue
    offset: int


class CommitRefused(Struct, frozen=True, tag=True, gc=False):
    """The broker will not take offsets of this queue from us: somebody else owns it."""

    queue: Queue
    offset: int


class CommitFailed(Struct, frozen=True, tag=True, gc=False):
    """A commit had no good answer: it may or may not count."""

    queue: Queue
    offset: int


class HoldersSeen(Struct, frozen=True, tag=True, gc=False):
    """Another member answered for itself (307): what it holds, gives up and waits for.

    From a member that is not ours only ``held`` and ``filters`` are known.
    """

    broker: str
    """Who passed the question on."""
    member: str
    held: frozenset[Queue]
    """From STARTING to COMMITTING, so draining ones too."""
    wanted: frozenset[Queue] = frozenset()
    departed: Mapping[str, int] = {}
    """Ids that it misses, with the milliseconds since it saw them last."""
    ticket: int = 0
    """That of the `AskHolders` it answers."""
    unheard: Mapping[str, tuple[Queue, ...]] = {}
    """Members that do not answer it, with what they held when they last did."""
    may_hold: Mapping[str, tuple[Queue, ...]] = {}
    """Of the queues that were named, those that other members may hold by all that it knows of them."""
    asked_ms: int = 0
    """When it was asked."""
    filters: Mapping[str, str] = {}
    """What it wants of each topic that it subscribes to, without its group's retries; empty if it does not tell."""


class HoldersFailed(Struct, frozen=True, tag=True, gc=False):
    """Another member did not answer, or ``gone``: the broker does not know it."""

    broker: str
    member: str
    gone: bool = False
    ticket: int = 0
    closed: bool = False
    """The broker knows it by a line that is closed; it may have another one."""


class Poked(Struct, frozen=True, tag=True, gc=False):
    """Another member asked what we hold, and said which queues it waits for, if any."""

    member: str | None
    wanted: tuple[Queue, ...] = ()


class LeaveAsked(Struct, frozen=True, tag=True, gc=False):
    """The user wants to stop: finish, commit, let go, say goodbye. ``drain_ms`` None: however long it takes."""

    drain_ms: int | None = 30_000


class Tick(Struct, frozen=True, tag=True, gc=False):
    """Time passed."""


Event = (
    LineOpened
    | LineCut
    | BeatAnswered
    | BeatFailed
    | UptimeSeen
    | RouteSeen
    | RouteFailed
    | GroupSeen
    | GroupFailed
    | MembersChanged
    | LocksAnswered
    | LockFailed
    | Unlocked
    | UnlockFailed
    | OffsetSeen
    | OffsetFailed
    | OffsetReset
    | Pulled
    | PullFailed
    | Handled
    | Lent
    | SentBack
    | SendBackFailed
    | CommitAsked
    | CommitConfirmed
    | CommitRefused
    | CommitFailed
    | HoldersSeen
    | HoldersFailed
    | Poked
    | LeaveAsked
    | Tick
)
"""Anything that a member can be told."""
