"""The states of a queue at one member, and the events that move it from one to another.

A member may be wrong about the plan, but never about what it *holds*. `queue_transitions.TRANSITIONS` is the table of
what each event does in each state; this is the essay on it.

**Acquiring.** A planned queue is WANTED, and its lock is requested. What a granted lock means depends on the broker.
A Steelyard broker grants a lease with an epoch, which lasts as long as the member is registered: the queue is STARTING.
An Apache broker would keep the lock of a dead member for a minute, so no lock is kept there: while the member holds it,
ASKING, it reads the list of members and probes each of them for the queue. If no peer holds it, the queue is STARTING,
and the lock is released. An orderly member keeps and renews Apache's lock, as Java does. A broadcasting member shares
with no one, and counts its locks as granted. STARTING requests the committed offset, and only then is the queue OWNED
and pulled. Nothing that was known before the queue was last ABSENT is used again.

**Giving up.** A queue that is no longer planned is DRAINING: nothing is pulled or started, and handlers finish. Then
the last offset is committed (COMMITTING) and a kept lock is released (RELEASING), each confirmed by the broker. Only
then can another member acquire the queue. A drain is never undone, because the messages that it discarded would leave
holes: a queue that is planned again is given up first and acquired again afterwards. To leave the group is to plan out
every queue.

**Unsure.** When the connection is lost, or the last proof of registration is too old, a held queue is UNSURE: running
handlers go on and none starts. Ownership must be proven again: the lock is renewed (or the peers are probed), then the
stored offset is compared with the window. If it lies within what this member handled, the window goes on. If not,
another member owned the queue meanwhile, and this one starts again from the stored offset. After a lost connection the
next pull shows whether the log is still the one that was read; until then nothing is committed, and a drain waits for
it. An unsure member always gives way: to a denied lock, and to a peer that holds or requests the queue. A queue that is
lost this way is forgotten, without a commit and without sending messages back.

**Responses.** A request that is in flight decides by its response: a member does not cancel an acquisition while the
lock is requested, and an unlock waits for the renewal before it. A failed request has an unknown outcome, as if its
connection had been lost.

A pair of state and event that is not in the table is a bug, and raises `ImpossibleEvent`; so does a transition that
ends in a state which its row does not list.
"""

from enum import Enum


class QueueState(Enum):
    """The state of a queue at this member."""

    ABSENT = "absent"
    """This member has nothing to do with it."""
    WANTED = "wanted"
    """Planned, not held."""
    ASKING = "asking"
    """Apache: the lock is held, and the peers are probed."""
    STARTING = "starting"
    """Held; the start offset is requested."""
    OWNED = "owned"
    UNSURE = "unsure"
    """Ownership has to be proven again; no handler starts."""
    DRAINING = "draining"
    """Handlers finish; what was not started is discarded."""
    COMMITTING = "committing"
    """The last commit is unanswered."""
    RELEASING = "releasing"
    """The unlock is unanswered."""


class QueueEvent(Enum):
    """What can happen to a queue."""

    PLANNED_IN = "planned in"
    PLANNED_OUT = "planned out"
    """By a plan, or because the member leaves."""
    LOCK_GRANTED = "lock granted"
    """Or renewed; or none is needed."""
    LOCK_DENIED = "lock denied"
    LOCK_FAILED = "lock failed"
    NO_PEER_HOLDS = "no peer holds it"
    PEER_HOLDS = "a peer holds it"
    """An unsure queue meets this also if a peer requests it."""
    PEER_SILENT = "a peer is silent"
    """Or the list of peers could not be read."""
    OFFSET_RECEIVED = "offset received"
    OFFSET_FAILED = "offset failed"
    OFFSET_RESET = "offset reset"
    PULLED = "pulled"
    PULL_FAILED = "pull failed"
    PULL_STUCK = "pull stuck"
    HANDLED = "handled"
    """A handler finished, or the send-back of a failed message did."""
    COMMIT_CONFIRMED = "commit confirmed"
    COMMIT_REFUSED = "commit refused"
    COMMIT_FAILED = "commit failed"
    DRAINED = "drained"
    """No handler runs and no commit is unanswered."""
    DRAIN_TIMEOUT = "drain timeout"
    UNLOCKED = "unlocked"
    UNLOCK_FAILED = "unlock failed"
    CONNECTION_LOST = "connection lost"
    REGISTRATION_PROVEN = "registration proven"
    """A heartbeat was answered, on a new connection or after a proof had expired."""
    PROOF_EXPIRED = "proof expired"
    RETRY_DUE = "retry due"
    HANDOVER_REQUESTED = "handover requested"
    """A peer reports that it waits for the queue."""
    GIVEN_UP = "given up"
    """Its broker is gone for good, or there is no time left to leave properly."""


HELD_STATES = frozenset(
    {QueueState.STARTING, QueueState.OWNED, QueueState.UNSURE, QueueState.DRAINING, QueueState.COMMITTING}
)
"""What no other member may start: the answer to an ownership probe."""

ACTIVE_STATES = frozenset({QueueState.OWNED, QueueState.DRAINING, QueueState.COMMITTING})
"""What needs a fresh proof of ownership."""
