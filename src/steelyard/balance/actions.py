"""What a member of a group wants done: everything that `Member.step` can return, in the order it wants it.

An action is an order to whoever runs the member, and says nothing about sockets. Actions for one broker leave on one
line in the order given. Each request ends with an event (see events.py).
"""

from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct

from steelyard.model import Queue

__all__ = [
    "MOST_WANTED",
    "Action",
    "AskGroup",
    "AskHolders",
    "AskOffset",
    "AskRoute",
    "AskUptime",
    "Commit",
    "Handle",
    "Heartbeat",
    "Left",
    "Lock",
    "Pull",
    "Renew",
    "Report",
    "SendBack",
    "Start",
    "StartAt",
    "Unlock",
    "Unregister",
]


class StartAt(Enum):
    """Where to start in a queue for which the group has stored nothing."""

    LAST = "last"
    FIRST = "first"
    """At the first message that is still there."""
    TIME = "time"


class Start(Struct, frozen=True):
    """Where to start; ``time_ms`` with TIME: at the first message stored then or later."""

    at: StartAt = StartAt.LAST
    time_ms: int = 0


class AskRoute(Struct, frozen=True, tag=True, gc=False):
    """Ask a name server where a topic is: `RouteSeen` or `RouteFailed`."""

    topic: str


class Heartbeat(Struct, frozen=True, tag=True, gc=False):
    """Tell a broker that we are here: `BeatAnswered` or `BeatFailed`."""

    broker: str
    held: Mapping[Queue, int] | None = None
    """What we hold there, with epochs; only in the first heartbeat of a line."""
    leaving: bool = False
    strategy: str | None = None
    """How we plan, for the others to compare."""
    version: int = 0
    """The version of our subscriptions: grows with each change of what we own."""
    avoided: int = 0
    """Messages of that broker that were in hand when their queue was given up, and were finished and committed."""
    stopped: tuple[str, ...] = ()
    """Queues of that broker that stand still since a message of theirs cannot be read, and why, in sentences."""


class AskUptime(Struct, frozen=True, tag=True, gc=False):
    """Ask a broker for how long it has been running (28): `UptimeSeen`."""

    broker: str


class AskGroup(Struct, frozen=True, tag=True, gc=False):
    """Ask a broker who is in the group (38): `GroupSeen` or `GroupFailed`, with the same ticket."""

    broker: str
    ticket: int = 0
    """Tells a list that was asked for after something happened from one that was under way."""


MOST_WANTED = 200
"""Queues named in a question: its field has to fit into a header."""


class AskHolders(Struct, frozen=True, tag=True, gc=False):
    """Ask another member, through a broker (307), what it holds: `HoldersSeen` or `HoldersFailed`."""

    broker: str
    member: str
    wanted: tuple[Queue, ...] = ()
    """What we wait for: the other one looks at the group again."""
    ticket: int = 0
    is_patient: bool = False
    """Whether a late answer is as good: nobody waits for it."""
    asked_ms: int = 0
    """When this is asked: what is answered was so after it."""


class Lock(Struct, frozen=True, tag=True, gc=False):
    """Lock queues at their broker (41): `LocksAnswered` or `LockFailed`."""

    broker: str
    queues: tuple[Queue, ...]
    lock_group: str
    """The group's own name where the order matters, the name of its leases elsewhere."""


class Renew(Struct, frozen=True, tag=True, gc=False):
    """Keep locks that we have (41): `LocksAnswered` or `LockFailed`. It never takes one."""

    broker: str
    queues: tuple[Queue, ...]
    lock_group: str
    epochs: tuple[int | None, ...] = ()


class Unlock(Struct, frozen=True, tag=True, gc=False):
    """Let locks go (42): `Unlocked` or `UnlockFailed`."""

    broker: str
    queues: tuple[Queue, ...]
    lock_group: str
    epochs: tuple[int | None, ...] = ()
    owner: str | None = None
    """In whose name, if not in ours: only that of a member which died while it took the queue."""


class AskOffset(Struct, frozen=True, tag=True, gc=False):
    """Ask what the group has committed in a queue, else where to start: `OffsetSeen` or `OffsetFailed`."""

    queue: Queue
    start: Start


class Pull(Struct, frozen=True, tag=True, gc=False):
    """Pull messages of a queue: `Pulled` or `PullFailed`."""

    queue: Queue
    generation: int
    offset: int
    most: int = 32
    may_wait: bool = True
    """Whether the broker may keep the answer until there is something."""


class Handle(Struct, frozen=True, tag=True, gc=False):
    """Give messages to the user's code, one after the other: `Handled`, once or in parts."""

    queue: Queue
    generation: int
    offsets: Sequence[int]
    messages: Sequence[object]
    fence: int | None
    """The epoch of the lock under which this happens, for a sink that can compare it."""
    attempt: int = 0
    """How often these messages were tried before by this member, in order."""


class Commit(Struct, frozen=True, tag=True, gc=False):
    """Store an offset (15): `CommitConfirmed`, `CommitRefused` or `CommitFailed`."""

    queue: Queue
    offset: int
    epoch: int | None = None


class SendBack(Struct, frozen=True, tag=True, gc=False):
    """Give a failed message back to its broker (36): `SentBack` or `SendBackFailed`."""

    queue: Queue
    generation: int
    offset: int
    message: object
    delay_level: int = 0
    """0 lets the broker choose by how often it failed; -1 sends it to the dead letters."""
    unreadable: str = ""
    """Why it cannot be read: then it goes to the dead letters, with that as a property."""


class Unregister(Struct, frozen=True, tag=True, gc=False):
    """Say goodbye to a broker (35). Nothing follows from it."""

    broker: str
    avoided: int = 0
    """As in a `Heartbeat`: most of it happens while a member leaves, after its last one."""


class Report(Struct, frozen=True, tag=True, gc=False):
    """Tell the user: queues that came or went, a hazard, a bound that was hit."""

    kind: str
    """``taken``, ``released``, ``lost``, ``drain-bound``, ``stranger``, ``hazard``, ``degraded`` …"""
    sentence: str
    queues: tuple[Queue, ...] = ()
    facts: Mapping[str, object] = {}


class Left(Struct, frozen=True, tag=True, gc=False):
    """All is done and said: whoever runs the member may close its lines."""


Action = (
    AskRoute
    | Heartbeat
    | AskUptime
    | AskGroup
    | AskHolders
    | Lock
    | Renew
    | Unlock
    | AskOffset
    | Pull
    | Handle
    | Commit
    | SendBack
    | Unregister
    | Report
    | Left
)
"""Anything that a member can want."""
