"""What is known to have happened in a simulated world: the words in which checkers and situations are written.

Facts are told by whoever saw them with certainty: a producer its sends, a member its handlers and the lives of its
queues, a broker what it stored, locked and was told. A checker never looks into a program; it reads facts as they come
(`note`) and what is left when the world stands still (`End`). All times are the world's own, in milliseconds since the
history began, not those of any clock in it.
"""

from collections.abc import Mapping

from msgspec import Struct

from steelyard.model import Queue

__all__ = [
    "Acked",
    "Committed",
    "Ended",
    "Fact",
    "Freed",
    "Gone",
    "Granted",
    "Healed",
    "Joined",
    "LineLost",
    "Logged",
    "Moved",
    "Paused",
    "Planned",
    "Refused",
    "Registered",
    "Reported",
    "Resumed",
    "RoundBegan",
    "SendFailed",
    "Sent",
    "Situation",
    "Started",
    "Unregistered",
]


class Fact(Struct, frozen=True, gc=False, kw_only=True):
    """Something that happened, and when."""

    at_ms: int


# -- sending ----------------------------------------------------------------------------------------------------------


class Sent(Fact, frozen=True, gc=False, kw_only=True):
    """A producer began to send a message. ``uid`` is its body, never used twice."""

    producer: str
    uid: str
    topic: str
    key: str | None = None
    number: int = 0
    """Grows with each message of the same producer and key: what order means."""
    due_ms: int | None = None
    """Of a delayed message: not before."""
    transactional: bool = False


class Acked(Fact, frozen=True, gc=False, kw_only=True):
    """The sender was told that its message is stored, and where; a half message counts once it is committed."""

    uid: str
    queue: Queue | None = None
    offset: int | None = None
    durable: bool = True
    """Whether the answer promised that it survives what the history does to the broker's disk."""


class SendFailed(Fact, frozen=True, gc=False, kw_only=True):
    """The sender gave up: the message may be stored, once or several times, or not. ``rolled_back``: it must not be."""

    uid: str
    rolled_back: bool = False


class Logged(Fact, frozen=True, gc=False, kw_only=True):
    """A message in a broker's log, as the end finds it: ``topic`` and queue as stored, system topics too."""

    queue: Queue
    offset: int
    uid: str
    reconsume_times: int = 0


# -- handling ---------------------------------------------------------------------------------------------------------


class Started(Fact, frozen=True, gc=False, kw_only=True):
    """The user's code of a member was given a message."""

    member: str
    group: str
    queue: Queue
    offset: int
    uid: str
    generation: int = 0
    epoch: int | None = None
    attempt: int = 0
    """How often this member tried this very record before (orderly), not counting retries that came back."""
    reconsume_times: int = 0


class Ended(Fact, frozen=True, gc=False, kw_only=True):
    """The user's code returned; a process that dies first never says so."""

    member: str
    group: str
    queue: Queue
    offset: int
    uid: str
    ok: bool
    generation: int = 0


class Committed(Fact, frozen=True, gc=False, kw_only=True):
    """A broker took a commit."""

    group: str
    queue: Queue
    offset: int
    member: str | None
    """Who is registered on the line it came on, if anybody."""
    before: int | None = None
    """What was stored before."""
    epoch: int | None = None


class Refused(Fact, frozen=True, gc=False, kw_only=True):
    """A broker refused a commit."""

    group: str
    queue: Queue
    offset: int
    member: str | None


# -- membership and balance -------------------------------------------------------------------------------------------


class Joined(Fact, frozen=True, gc=False, kw_only=True):
    """A member's process started. ``kind`` is ``ours`` or ``java``."""

    member: str
    group: str
    kind: str
    mode: str
    strategy: str
    topics: tuple[str, ...]


class Gone(Fact, frozen=True, gc=False, kw_only=True):
    """A process is no more.

    ``how``: ``left`` (all said and done), ``killed`` (its lines closed), ``vanished`` (they did not), ``crashed``,
    ``power``. A server may come back: `Joined` of kind ``broker`` or ``nameserver`` tells of that.
    """

    name: str
    how: str


class Paused(Fact, frozen=True, gc=False, kw_only=True):
    """A process does nothing until it is resumed; the world goes on."""

    name: str


class Resumed(Fact, frozen=True, gc=False, kw_only=True):
    """A paused process goes on, and finds out how late it is."""

    name: str


class LineLost(Fact, frozen=True, gc=False, kw_only=True):
    """A line between two processes was cut, jammed, slowed down or went dead one way: ``how`` tells."""

    one: str
    other: str
    how: str


class Healed(Fact, frozen=True, gc=False, kw_only=True):
    """No fault happens from now on; what was jammed flows, who was paused goes on, every server is up."""


class Registered(Fact, frozen=True, gc=False, kw_only=True):
    """A broker counts a member in from now on."""

    broker: str
    group: str
    member: str


class Unregistered(Fact, frozen=True, gc=False, kw_only=True):
    """A broker does not count a member any more. ``how``: ``goodbye``, ``closed``, ``silent``, ``restart``."""

    broker: str
    group: str
    member: str
    how: str


class Granted(Fact, frozen=True, gc=False, kw_only=True):
    """A broker gave a lock or a lease, or kept it for the one who had it."""

    broker: str
    lock_group: str
    queue: Queue
    member: str
    epoch: int | None = None
    again: bool = False
    """It had it already."""


class Freed(Fact, frozen=True, gc=False, kw_only=True):
    """A broker let a lock or lease go. ``how``: ``unlocked``, ``gone`` (with its member), ``expired``, ``restart``."""

    broker: str
    lock_group: str
    queue: Queue
    member: str
    how: str


class RoundBegan(Fact, frozen=True, gc=False, kw_only=True):
    """A member began to ask who is in the group."""

    member: str
    group: str


class Planned(Fact, frozen=True, gc=False, kw_only=True):
    """A member came to a plan that differs from its last one."""

    member: str
    group: str
    queues: tuple[Queue, ...]
    strategy: str = ""
    members: tuple[str, ...] = ()
    """Whom it believes to be in the group."""


class Moved(Fact, frozen=True, gc=False, kw_only=True):
    """A queue changed its state at one of our members: names of `State`, ``absent`` where it has none."""

    member: str
    group: str
    queue: Queue
    before: str
    after: str


class Reported(Fact, frozen=True, gc=False, kw_only=True):
    """A member told its user something."""

    member: str
    group: str
    kind: str
    sentence: str
    queues: tuple[Queue, ...] = ()


class Situation(Fact, frozen=True, gc=False, kw_only=True):
    """Something worth counting came up: the table of a run says how often each did."""

    name: str
    about: Mapping[str, str] = {}
