"""ProcessQueue: the state of one queue at one member, from the plan that assigns it until it is absent again.

An incarnation is dropped when the queue is absent, so nothing of it reaches the next one but by a request that is still
unanswered. Such requests are kept by the part that made them (queue_locks.py, start_offset.py, offset_commits.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from steelyard.balance.group.actions import SendBackMessage
from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue


class LockMode(Enum):
    """How a queue is held, which depends on its broker and on the member's mode."""

    LEASE = "lease"
    """Steelyard broker: a lease with an epoch, proven by heartbeats."""
    PROBE = "probe"
    """Apache, concurrent: no lock is kept; the peers are probed, and probe us."""
    LOCK = "lock"
    """Apache, orderly, or acquired while a peer was silent: the lock is kept and renewed."""
    NONE = "none"
    """Broadcasting: every member has every queue."""


class ProofStep(Enum):
    """The progress of an unsure queue in proving ownership."""

    NOT_STARTED = "not started"
    LOCK = "lock"
    PEERS = "peers"
    OFFSET = "offset"


class HandlerBatch:
    """Messages that were given to one handler."""

    __slots__ = ("attempt", "messages", "offsets", "process_queue", "remaining", "started_ms")

    def __init__(
        self,
        process_queue: "ProcessQueue",
        offsets: Sequence[int],
        messages: Sequence[object],
        attempt: int,
        started_ms: int,
    ) -> None:
        self.process_queue = process_queue
        self.offsets = offsets
        self.messages = messages
        self.attempt = attempt
        self.started_ms = started_ms
        self.remaining = len(offsets)
        """Messages without a result."""

    def message(self, offset: int) -> object:
        """Return one of its messages."""
        return self.messages[self.offsets.index(offset)]


@dataclass(slots=True, eq=False)
class ProcessQueue:
    """One queue at one member."""

    queue: Queue
    incarnation: int
    """Unique among all queues that this member ever had."""
    state_since_ms: int
    broker: str = field(init=False)
    state: QueueState = QueueState.ABSENT
    is_planned: bool = True
    # Ownership.
    lock_mode: LockMode = LockMode.NONE
    """Meaningful from the first granted lock on."""
    epoch: int | None = None
    pending_lock_request: object | None = None
    """The lock or renewal that is unanswered."""
    may_hold_lock: bool = False
    """The lock may be held at the broker, though no response said so."""
    proven_ms: int = 0
    """When the last lock was requested that was granted."""
    attempts: int = 0
    denied_since_ms: int | None = None
    """Since when the lock is denied."""
    handover_requested_ms: int | None = None
    peers_to_probe: frozenset[str] | None = None
    """The peers to probe next; None: every listed member."""
    proof_step: ProofStep = ProofStep.NOT_STARTED
    was_draining: bool = False
    # Progress.
    generation: int = 0
    window: InflightWindow = field(default_factory=lambda: InflightWindow(0))
    committed_offset: int | None = None
    """What the broker is known to have committed."""
    commit_sent_ms: int = 0
    progress_ms: int = 0
    """When the low end last moved, or when there was something to do again."""
    is_commit_scheduled: bool = False
    """A timer will commit what there is to commit."""
    reset_offset: int | None = None
    drain_deadline_ms: int | None = None
    # Messages.
    pull_sent_ms: int | None = None
    """When the pull was sent that is unanswered."""
    quick_empty_pulls: int = 0
    """Pulls in a row that were answered at once with nothing."""
    is_flow_controlled: bool = False
    """It would pull, but holds too much."""
    polled: int = 0
    """Unfinished messages that the user holds: they do not count for flow control."""
    last_pulled: tuple[int, object] | None = None
    """The last pulled message with its offset: a log that lost nothing still has it."""
    log_check_offset: int | None = None
    """The next pull starts with the last message once more; if the log has another one there, start from here."""
    # A list and no deque: it is short, and a member with thousands of queues has one for each.
    batches: list[tuple[Sequence[int], Sequence[object]]] = field(default_factory=list)
    """Pulled and not started."""
    batch_position: int = 0
    """How much of the first batch was started."""
    local_retries: tuple[tuple[int, object, int], ...] = ()
    """To be retried here: offset, message, attempt."""
    running: dict[int, HandlerBatch] = field(default_factory=dict)
    """Messages in handlers, by offset."""
    finished_while_draining: list[int] = field(default_factory=list)
    sending_back: dict[int, tuple[object, int]] = field(default_factory=dict)
    """Messages whose send-back is unanswered: message and attempt, by offset."""
    owed_retries: tuple[tuple[SendBackMessage, int], ...] = ()
    """To be sent back once ownership is proven, each with its attempt."""
    is_suspended: bool = False
    """It pauses after a failure, since it is orderly."""
    stopped_at: tuple[int, str] | None = None
    """The unreadable message that it stopped at: offset and reason."""
    is_dispatch_queued: bool = False
    """It waits for a free handler."""

    def __post_init__(self) -> None:
        self.broker = self.queue.broker

    @property
    def has_messages(self) -> bool:
        """Whether a message of it could be started."""
        return bool(self.batches or self.local_retries)

    def reset(self, generation: int, offset: int) -> None:
        """Forget all messages and start from an offset, as a new generation."""
        self.discard_unstarted()
        self.generation = generation
        self.window = InflightWindow(offset)
        self.committed_offset = self.reset_offset = self.last_pulled = self.log_check_offset = None
        self.pull_sent_ms = self.stopped_at = None
        self.polled = 0
        self.running = {}
        self.finished_while_draining = []
        self.sending_back = {}
        self.is_suspended = False

    def finish(self, offsets: Sequence[int], now_ms: int) -> None:
        """Mark messages as finished."""
        low = self.window.low
        self.window.finish(offsets)
        if self.window.low != low:
            self.progress_ms = now_ms

    def waiting_since_ms(self) -> int | None:
        """Return since when the first unfinished message is that; None if there is none.

        A queue that was unsure counts from when it is owned again.
        """
        return max(self.progress_ms, self.state_since_ms) if self.window.low < self.window.next_offset else None

    def discard_unstarted(self) -> None:
        """Forget what no handler has; it stays unfinished in the window, so no commit passes it."""
        self.batches.clear()
        self.batch_position = 0
        self.local_retries = ()
        self.owed_retries = ()

    def status(self) -> "QueueStatus":
        """Return what can be seen of it now."""
        return QueueStatus(
            queue=self.queue,
            state=self.state,
            state_since_ms=self.state_since_ms,
            is_planned=self.is_planned,
            epoch=self.epoch,
            denied_since_ms=self.denied_since_ms,
            low=self.window.low,
            next_offset=self.window.next_offset,
            waiting=max(0, self.window.unfinished - len(self.running)),
            running=len(self.running),
            body_bytes=self.window.body_bytes,
            committed_offset=self.committed_offset,
            generation=self.generation,
            pull_sent_ms=self.pull_sent_ms,
            is_flow_controlled=self.is_flow_controlled,
            is_suspended=self.is_suspended,
            stopped_at=self.stopped_at,
            waiting_since_ms=self.waiting_since_ms(),
        )


class QueueStatus(Struct, frozen=True):
    """A `ProcessQueue` at one moment, for users and tools. Times are of the member's monotonic clock."""

    queue: Queue
    state: QueueState
    state_since_ms: int
    is_planned: bool
    """Whether it is in the plan; if not, it is being given up."""
    epoch: int | None
    """That of the lease or lock, if the broker gave one."""
    denied_since_ms: int | None
    low: int
    """Everything below is finished."""
    next_offset: int
    """Where the next pull starts."""
    waiting: int
    """Messages that no handler has started."""
    running: int
    body_bytes: int
    committed_offset: int | None
    generation: int
    """Changes with each new window; results of an earlier one do not count."""
    pull_sent_ms: int | None
    is_flow_controlled: bool
    is_suspended: bool
    stopped_at: tuple[int, str] | None = None
    waiting_since_ms: int | None = None
    """Since when its first unfinished message is that."""
