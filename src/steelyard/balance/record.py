"""What a member knows of one queue: where it is in its life, and everything that hangs on it.

A record is made when the queue is first wanted and thrown away when it is absent again, so nothing of one life can leak
into the next but by a request that is still unanswered; those are kept where they were asked (taking.py, starting.py,
committing.py), each with the number of the life it belongs to.
"""

from collections.abc import Sequence
from enum import Enum

from steelyard.balance.life import State
from steelyard.balance.window import Window
from steelyard.model import Queue

__all__ = ["Chunk", "Manner", "Record", "Step"]


class Manner(Enum):
    """How a queue is held, which its broker and the member's mode decide."""

    LEASED = "leased"
    """Ours: a lease with an epoch, proven by heartbeats."""
    ASKED = "asked"
    """Apache, any order: nothing is kept; the others are asked, and we answer for ourselves."""
    KEPT = "kept"
    """Apache, in order, or taken while a member was silent: the lock is kept and renewed."""
    FREE = "free"
    """Broadcasting: everybody has every queue."""


class Step(Enum):
    """How far an unsure queue is in being proven."""

    NOT_BEGUN = "not begun"
    LOCK = "lock"
    HOLDERS = "holders"
    OFFSET = "offset"


class Chunk:
    """Messages that were given to one handler."""

    __slots__ = ("attempt", "left", "messages", "offsets", "record", "started_ms")

    def __init__(
        self, record: "Record", offsets: Sequence[int], messages: Sequence[object], attempt: int, started_ms: int
    ) -> None:
        self.record = record
        self.offsets = offsets
        self.messages = messages
        self.attempt = attempt
        self.started_ms = started_ms
        self.left = len(offsets)
        """How many of them the handler has not told of."""

    def message(self, offset: int) -> object:
        """Return one of its messages."""
        return self.messages[self.offsets.index(offset)]


class Record:
    """One queue at one member."""

    __slots__ = (
        "acked",
        "again",
        "asking",
        "attempts",
        "backs",
        "batch_at",
        "batches",
        "broker",
        "committed_ms",
        "denied_ms",
        "drain_by_ms",
        "epoch",
        "finishing",
        "generation",
        "hasty",
        "holders",
        "is_commit_due",
        "is_held_back",
        "is_queued",
        "is_suspended",
        "last",
        "lent",
        "life",
        "manner",
        "maybe_held",
        "owed",
        "poked_ms",
        "proven_ms",
        "pulling_ms",
        "queue",
        "reset_to",
        "restart_at",
        "running",
        "since_ms",
        "state",
        "step",
        "stopped",
        "wanted",
        "was_draining",
        "window",
    )

    def __init__(self, queue: Queue, life: int, now_ms: int) -> None:
        self.queue = queue
        self.broker = queue.broker
        self.life = life
        """Which record this is, of all that there were at this member."""
        self.state = State.ABSENT
        self.since_ms = now_ms
        """When the state began."""
        self.wanted = True
        """Whether the plan has it now."""
        self.manner = Manner.FREE
        """How it is held; meaningful from the first grant on."""
        # -- holding
        self.epoch: int | None = None
        self.asking: object | None = None
        """The lock or renewal that is unanswered."""
        self.maybe_held = False
        """A lock may be held at the broker, though no answer said so."""
        self.proven_ms = 0
        """When the last lock was asked for that was granted."""
        self.attempts = 0
        self.denied_ms: int | None = None
        """Since when the lock is denied."""
        self.poked_ms: int | None = None
        self.holders: frozenset[str] | None = None
        """Who is asked next; None: everybody on the list."""
        self.step = Step.NOT_BEGUN
        self.was_draining = False
        # -- progress
        self.generation = 0
        self.window = Window(0)
        self.acked: int | None = None
        """What the broker has, as far as it told us."""
        self.committed_ms = 0
        """When the last commit was sent."""
        self.is_commit_due = False
        """A timer will look whether there is something to commit."""
        self.reset_to: int | None = None
        self.drain_by_ms: int | None = None
        # -- messages
        self.pulling_ms: int | None = None
        """When the pull was sent that is unanswered."""
        self.hasty = 0
        """How many pulls in a row were answered at once with nothing."""
        self.is_held_back = False
        """It would pull, but too much is waiting."""
        self.lent = 0
        """How many unfinished messages the user keeps: they do not count as waiting."""
        self.last: tuple[int, object] | None = None
        """The last message that was pulled, with its offset: what a log must still have that lost nothing."""
        self.restart_at: int | None = None
        """The next pull begins with the last message once more; if the log has another one there, start from here."""
        # A list and no deque: it is short, and a member with thousands of queues has one for each.
        self.batches: list[tuple[Sequence[int], Sequence[object]]] = []
        """What was pulled and not started."""
        self.batch_at = 0
        """How much of the first batch was started."""
        self.again: tuple[tuple[int, object, int], ...] = ()
        """What is to be tried again here: offset, message, attempt."""
        self.running: dict[int, Chunk] = {}
        """What handlers have, by offset."""
        self.finishing: list[int] = []
        """What they finished while the queue was being given up."""
        self.backs: dict[int, tuple[object, int]] = {}
        """What is on its way back to the broker: message and attempt by offset."""
        self.owed: tuple[tuple[int, object, int, int, str], ...] = ()
        """What is to be sent back once the queue is proven: offset, message, attempt, delay level, why unreadable."""
        self.is_suspended = False
        self.stopped: tuple[int, str] | None = None
        """The message that it stands still at, since it cannot be read: offset and reason."""
        self.is_queued = False
        """It stands in line for a handler."""

    @property
    def has_messages(self) -> bool:
        """Whether something of it could be started."""
        return bool(self.batches or self.again)

    def begin(self, generation: int, offset: int) -> None:
        """Forget all messages and start from an offset, under a new number."""
        self.forget_unstarted()
        self.generation = generation
        self.window = Window(offset)
        self.acked = self.reset_to = self.last = self.restart_at = None
        self.pulling_ms = None
        self.lent = 0
        self.running = {}
        self.finishing = []
        self.backs = {}
        self.is_suspended = False
        self.stopped = None

    def forget_unstarted(self) -> None:
        """Forget what no handler has; in the window it stays unfinished, so that nobody commits beyond it."""
        self.batches.clear()
        self.batch_at = 0
        self.again = ()
        self.owed = ()
