"""Facts: what is known to have happened in a simulated world. Checkers and situations are written in these terms.

A fact is recorded where it is certain: sends at the producer, handlers and queue states at the member, commits, locks
and registrations at the broker. A checker never inspects a program; it reads facts as they come, and what is left when
the world is quiet. All times are the world's, in milliseconds since the history began, not those of any process's
clock.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from steelyard.model import Queue


class Fact(Struct, frozen=True, gc=False, kw_only=True):
    """Something that happened, and when."""

    label: ClassVar[str] = "Fact"
    """Its name in digests, traces and findings: a class may be renamed, a digest must stay the same."""
    at_ms: int


# -- sending ----------------------------------------------------------------------------------------------------------


class MessageSent(Fact, frozen=True, gc=False, kw_only=True):
    """A producer began to send a message. ``uid`` is its body, never used twice."""

    label: ClassVar[str] = "Sent"
    producer: str
    uid: str
    topic: str
    key: str | None = None
    number: int = 0
    """Grows with each message of the same producer and key: what order means."""
    due_ms: int | None = None
    """Of a delayed message: not before."""
    transactional: bool = False


class MessageAcked(Fact, frozen=True, gc=False, kw_only=True):
    """The sender knows that its message is stored, and where; a half message counts once it is committed."""

    label: ClassVar[str] = "Acked"
    uid: str
    queue: Queue | None = None
    offset: int | None = None
    durable: bool = True
    """Whether the response promised that it survives what the history does to the broker's disk."""


class SendGivenUp(Fact, frozen=True, gc=False, kw_only=True):
    """The sender gave up: the message may be stored or not, even several times. ``rolled_back``: it must not be."""

    label: ClassVar[str] = "SendFailed"
    uid: str
    rolled_back: bool = False


class MessageLogged(Fact, frozen=True, gc=False, kw_only=True):
    """A message that is in a broker's log at the end: topic and queue as stored, system topics too."""

    label: ClassVar[str] = "Logged"
    queue: Queue
    offset: int
    uid: str
    reconsume_times: int = 0


# -- handling ---------------------------------------------------------------------------------------------------------


class HandlerStarted(Fact, frozen=True, gc=False, kw_only=True):
    """A member's handler was given a message."""

    label: ClassVar[str] = "Started"
    member: str
    group: str
    queue: Queue
    offset: int
    uid: str
    generation: int = 0
    epoch: int | None = None
    attempt: int = 0
    """How often this member tried this record before (orderly), not counting redeliveries."""
    reconsume_times: int = 0


class HandlerEnded(Fact, frozen=True, gc=False, kw_only=True):
    """A handler returned; in a process that dies first it never does."""

    label: ClassVar[str] = "Ended"
    member: str
    group: str
    queue: Queue
    offset: int
    uid: str
    ok: bool
    generation: int = 0


class OffsetCommitted(Fact, frozen=True, gc=False, kw_only=True):
    """A broker stored a commit."""

    label: ClassVar[str] = "Committed"
    group: str
    queue: Queue
    offset: int
    member: str | None
    """The member that is registered on the connection it came on, if any."""
    before: int | None = None
    """The offset that was stored before."""
    epoch: int | None = None


class CommitRejected(Fact, frozen=True, gc=False, kw_only=True):
    """A broker refused a commit."""

    label: ClassVar[str] = "Refused"
    group: str
    queue: Queue
    offset: int
    member: str | None


# -- membership and balance -------------------------------------------------------------------------------------------


class ProcessStarted(Fact, frozen=True, gc=False, kw_only=True):
    """A member's process started. ``kind`` is ``ours`` or ``java``."""

    label: ClassVar[str] = "Joined"
    member: str
    group: str
    kind: str
    mode: str
    strategy: str
    topics: tuple[str, ...]


class ProcessGone(Fact, frozen=True, gc=False, kw_only=True):
    """A process ended.

    ``how``: ``left`` (after a clean shutdown), ``killed`` (its connections closed), ``vanished`` (they did not),
    ``crashed``, ``power``. A server may come back: `ProcessStarted` of kind ``broker`` or ``nameserver`` follows.
    """

    label: ClassVar[str] = "Gone"
    name: str
    how: str


class ProcessPaused(Fact, frozen=True, gc=False, kw_only=True):
    """A process does nothing until it is resumed; the world goes on."""

    label: ClassVar[str] = "Paused"
    name: str


class ProcessResumed(Fact, frozen=True, gc=False, kw_only=True):
    """A paused process goes on."""

    label: ClassVar[str] = "Resumed"
    name: str


class ConnectionDisturbed(Fact, frozen=True, gc=False, kw_only=True):
    """The connections of two processes were cut, jammed, slowed down or went dead one way, as ``how`` says."""

    label: ClassVar[str] = "LineLost"
    one: str
    other: str
    how: str


class FaultsHealed(Fact, frozen=True, gc=False, kw_only=True):
    """No fault happens from now on: jams are released, paused processes resumed, all servers up."""

    label: ClassVar[str] = "Healed"


class MemberRegistered(Fact, frozen=True, gc=False, kw_only=True):
    """A broker added a member to a group."""

    label: ClassVar[str] = "Registered"
    broker: str
    group: str
    member: str


class MemberUnregistered(Fact, frozen=True, gc=False, kw_only=True):
    """A broker removed a member from a group. ``how``: ``goodbye``, ``closed``, ``silent``, ``restart``."""

    label: ClassVar[str] = "Unregistered"
    broker: str
    group: str
    member: str
    how: str


class LockGranted(Fact, frozen=True, gc=False, kw_only=True):
    """A broker granted a lock or a lease, or confirmed it to its holder."""

    label: ClassVar[str] = "Granted"
    broker: str
    lock_group: str
    queue: Queue
    member: str
    epoch: int | None = None
    again: bool = False
    """The member held it already."""


class LockFreed(Fact, frozen=True, gc=False, kw_only=True):
    """A broker freed a lock or lease. ``how``: ``unlocked``, ``gone`` (with its member), ``expired``, ``restart``."""

    label: ClassVar[str] = "Freed"
    broker: str
    lock_group: str
    queue: Queue
    member: str
    how: str


class RebalanceBegan(Fact, frozen=True, gc=False, kw_only=True):
    """A member began a rebalance: it asked who is in the group."""

    label: ClassVar[str] = "RoundBegan"
    member: str
    group: str


class AssignmentPlanned(Fact, frozen=True, gc=False, kw_only=True):
    """A member computed an assignment that differs from its last one."""

    label: ClassVar[str] = "Planned"
    member: str
    group: str
    queues: tuple[Queue, ...]
    strategy: str = ""
    members: tuple[str, ...] = ()
    """The members that it believes to be in the group."""


class QueueStateChanged(Fact, frozen=True, gc=False, kw_only=True):
    """A queue changed its state at one of our members: names of `QueueState`, ``absent`` if it has none."""

    label: ClassVar[str] = "Moved"
    member: str
    group: str
    queue: Queue
    before: str
    after: str


class MemberReported(Fact, frozen=True, gc=False, kw_only=True):
    """A member reported something to its user."""

    label: ClassVar[str] = "Reported"
    member: str
    group: str
    kind: str
    sentence: str
    queues: tuple[Queue, ...] = ()


class Situation(Fact, frozen=True, gc=False, kw_only=True):
    """A situation worth counting came up; a run prints how often each did."""

    label: ClassVar[str] = "Situation"
    name: str
    about: Mapping[str, str] = {}
