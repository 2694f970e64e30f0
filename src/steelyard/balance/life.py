"""The life of a queue at one member: its states, what can happen in each, and where that leads. One table.

A member may be wrong about the plan, but never about what it *holds*, and this table is where holding begins and ends.

**Taking.** A queue that is planned is WANTED, and its lock is asked for. What a granted lock means depends on the
broker. One of ours gives a lease with an epoch, which lives as long as we are registered: the queue is ours, and
STARTING. An Apache broker would keep the lock of a dead member for a minute, so there no lock is kept: while ASKING we
have it, read the list of members, and ask each of them whether it holds the queue. If nobody does, we are STARTING, and
the lock goes back. Where the order of messages matters, Apache's lock is kept and renewed, as Java does. Where
everybody gets everything, there is nothing to hold, and the lock counts as granted. STARTING asks how far the group
has come, and only then is the queue OWNED and pulled from. What was known in an earlier life is not used again.

**Giving up.** A queue that is planned no longer is DRAINING: nothing is pulled or started, handlers finish. Then the
last offset is committed (COMMITTING) and, where a lock is kept, unlocked (RELEASING), each with an answer. Only after
that can somebody else take it. A drain is never undone, because what it forgot leaves holes: planned in again, the
queue is given up first and wanted again afterwards. To leave is to plan out everything.

**Doubt.** When the line is cut, or the last proof that we are registered is too old, a held queue is UNSURE: running
handlers go on and none starts. It must be proven again: the lock renewed (or the others asked), then the stored offset
compared with our own. If it lies within what we did, nothing happened, and the window of messages goes on. If not,
somebody was here, and we start again from what is stored. After a cut the next pull shows whether the log itself is
the one we read; until then nothing is committed, and a drain waits for it. Who is unsure always gives way: to a denied
lock, to a peer that holds the queue or asks for it. What is lost that way is forgotten, without a commit and without
sending back.

**Answers.** A request whose answer may still come decides by it: nobody stops wanting a queue while a lock is being
asked for, and an unlock waits for the renewal before it. A request that failed is one of unknown outcome, as if its
line had been cut.

A pair that is not in the table is a bug, and `ImpossibleEvent` names both; so does it a row that led elsewhere.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

__all__ = ["HELD", "LIFE", "WORKED_ON", "Row", "Seen", "State"]


class State(Enum):
    """Where a queue is in its life at this member."""

    ABSENT = "absent"
    """We have nothing to do with it."""
    WANTED = "wanted"
    """Planned, not held."""
    ASKING = "asking"
    """Apache: its lock is held, the others are being asked."""
    STARTING = "starting"
    """Held; where to start is being asked."""
    OWNED = "owned"
    UNSURE = "unsure"
    """To be proven again; nothing starts."""
    DRAINING = "draining"
    """Handlers finish; what was not started is forgotten."""
    COMMITTING = "committing"
    """The last commit is unanswered."""
    RELEASING = "releasing"
    """The unlock is unanswered."""


class Seen(Enum):
    """What can happen to a queue."""

    PLANNED_IN = "planned in"
    PLANNED_OUT = "planned out"
    """By a plan, or because we leave."""
    LOCK_GRANTED = "lock granted"
    """Or renewed; or none is needed."""
    LOCK_DENIED = "lock denied"
    LOCK_FAILED = "lock failed"
    NOBODY_HOLDS = "nobody holds it"
    PEER_HOLDS = "a peer holds it"
    """An unsure queue meets this also if a peer asks for it."""
    PEER_SILENT = "a peer is silent"
    """Or the list of peers could not be read."""
    OFFSET_SEEN = "offset seen"
    OFFSET_FAILED = "offset failed"
    OFFSET_RESET = "offset reset"
    PULLED = "pulled"
    PULL_FAILED = "pull failed"
    PULL_STUCK = "pull stuck"
    HANDLED = "handled"
    """Something of it came to an end: handlers, or the way back of a failed message."""
    COMMIT_CONFIRMED = "commit confirmed"
    COMMIT_REFUSED = "commit refused"
    COMMIT_FAILED = "commit failed"
    DRAINED = "drained"
    """No handler runs and no commit is unanswered."""
    DRAIN_BOUND = "drain bound"
    UNLOCKED = "unlocked"
    UNLOCK_FAILED = "unlock failed"
    LINE_CUT = "line cut"
    LINE_PROVEN = "line proven"
    """A heartbeat was answered, on a new line or after a doubt."""
    PROOF_OLD = "proof too old"
    RETRY_DUE = "retry due"
    POKED = "poked"
    """A peer says that it waits for it."""
    GIVEN_UP = "given up"
    """Its broker is gone for good, or we have no more time to leave properly."""


class Row(NamedTuple):
    """What an event does: a method of `Lives`, and the states that it may lead to."""

    does: str
    leads_to: tuple[State, ...]


HELD = frozenset({State.STARTING, State.OWNED, State.UNSURE, State.DRAINING, State.COMMITTING})
"""What nobody else may start with: our answer to whoever asks."""

WORKED_ON = frozenset({State.OWNED, State.DRAINING, State.COMMITTING})
"""What needs a fresh proof."""

_ABSENT, _WANTED, _ASKING, _STARTING = State.ABSENT, State.WANTED, State.ASKING, State.STARTING
_OWNED, _UNSURE = State.OWNED, State.UNSURE
_DRAINING, _COMMITTING, _RELEASING = State.DRAINING, State.COMMITTING, State.RELEASING

LIFE: Mapping[tuple[State, Seen], Row] = {
    # -- nothing to do with it
    (_ABSENT, Seen.PLANNED_IN): Row("want", (_WANTED,)),
    (_ABSENT, Seen.POKED): Row("unlock_all_the_same", (_ABSENT,)),
    # -- wanted: the lock is asked for
    (_WANTED, Seen.PLANNED_IN): Row("note_planned_in", (_WANTED,)),
    (_WANTED, Seen.PLANNED_OUT): Row("stop_wanting", (_WANTED, _ABSENT, _RELEASING)),
    (_WANTED, Seen.RETRY_DUE): Row("ask_for_lock", (_WANTED,)),
    (_WANTED, Seen.LINE_PROVEN): Row("ask_for_lock", (_WANTED,)),
    (_WANTED, Seen.LOCK_GRANTED): Row("hold_or_ask", (_STARTING, _ASKING, _RELEASING, _ABSENT)),
    (_WANTED, Seen.LOCK_DENIED): Row("want_later", (_WANTED, _ABSENT)),
    (_WANTED, Seen.LOCK_FAILED): Row("doubt_lock", (_WANTED, _ABSENT, _RELEASING)),
    (_WANTED, Seen.LINE_CUT): Row("fall_back", (_WANTED, _ABSENT, _RELEASING)),
    (_WANTED, Seen.POKED): Row("stay", (_WANTED,)),
    (_WANTED, Seen.GIVEN_UP): Row("forget", (_ABSENT,)),
    # -- asking: Apache's lock is held while the others are asked
    (_ASKING, Seen.PLANNED_OUT): Row("stop_asking", (_RELEASING, _ABSENT)),
    (_ASKING, Seen.PEER_HOLDS): Row("ask_again_later", (_ASKING,)),
    (_ASKING, Seen.PEER_SILENT): Row("ask_again_later", (_ASKING,)),
    (_ASKING, Seen.NOBODY_HOLDS): Row("take_from_nobody", (_STARTING, _WANTED)),
    (_ASKING, Seen.RETRY_DUE): Row("ask_holders", (_ASKING,)),
    (_ASKING, Seen.LOCK_GRANTED): Row("note_proof", (_ASKING,)),
    (_ASKING, Seen.LOCK_DENIED): Row("lose_short_lock", (_WANTED,)),
    (_ASKING, Seen.LOCK_FAILED): Row("stay", (_ASKING,)),
    (_ASKING, Seen.LINE_CUT): Row("fall_back", (_WANTED,)),
    (_ASKING, Seen.POKED): Row("stay", (_ASKING,)),
    (_ASKING, Seen.GIVEN_UP): Row("forget", (_ABSENT,)),
    # -- starting: held, where to start is asked
    (_STARTING, Seen.PLANNED_IN): Row("note_planned_in", (_STARTING,)),
    (_STARTING, Seen.PLANNED_OUT): Row("stop_starting", (_STARTING, _RELEASING, _ABSENT)),
    (_STARTING, Seen.OFFSET_SEEN): Row("own", (_OWNED, _WANTED, _RELEASING, _ABSENT)),
    (_STARTING, Seen.OFFSET_FAILED): Row("start_later", (_STARTING, _RELEASING, _ABSENT)),
    (_STARTING, Seen.OFFSET_RESET): Row("note_reset", (_STARTING,)),
    (_STARTING, Seen.RETRY_DUE): Row("ask_offset", (_STARTING,)),
    (_STARTING, Seen.LOCK_GRANTED): Row("note_proof", (_STARTING,)),
    (_STARTING, Seen.LOCK_DENIED): Row("stay", (_STARTING,)),
    (_STARTING, Seen.LOCK_FAILED): Row("stay", (_STARTING,)),
    (_STARTING, Seen.LINE_CUT): Row("fall_back", (_WANTED, _RELEASING, _ABSENT)),
    (_STARTING, Seen.POKED): Row("stay", (_STARTING,)),
    (_STARTING, Seen.GIVEN_UP): Row("forget", (_ABSENT,)),
    # -- owned: messages flow
    (_OWNED, Seen.PLANNED_OUT): Row("drain", (_DRAINING,)),
    (_OWNED, Seen.PULLED): Row("take_messages", (_OWNED,)),
    (_OWNED, Seen.PULL_FAILED): Row("pull_later", (_OWNED,)),
    (_OWNED, Seen.PULL_STUCK): Row("start_anew", (_STARTING,)),
    (_OWNED, Seen.HANDLED): Row("note_progress", (_OWNED,)),
    (_OWNED, Seen.COMMIT_CONFIRMED): Row("note_commit", (_OWNED,)),
    (_OWNED, Seen.COMMIT_FAILED): Row("note_commit", (_OWNED,)),
    (_OWNED, Seen.COMMIT_REFUSED): Row("lose", (_ABSENT,)),
    (_OWNED, Seen.OFFSET_RESET): Row("jump", (_OWNED,)),
    (_OWNED, Seen.LOCK_GRANTED): Row("note_proof", (_OWNED,)),
    (_OWNED, Seen.LOCK_DENIED): Row("lose", (_ABSENT,)),
    (_OWNED, Seen.LOCK_FAILED): Row("stay", (_OWNED,)),
    (_OWNED, Seen.LINE_CUT): Row("doubt", (_UNSURE,)),
    (_OWNED, Seen.PROOF_OLD): Row("doubt", (_UNSURE,)),
    (_OWNED, Seen.POKED): Row("stay", (_OWNED,)),
    # -- unsure: to be proven again
    (_UNSURE, Seen.PLANNED_IN): Row("note_planned_in", (_UNSURE,)),
    (_UNSURE, Seen.PLANNED_OUT): Row("note_planned_out", (_UNSURE,)),
    (_UNSURE, Seen.LINE_PROVEN): Row("prove", (_UNSURE, _OWNED, _DRAINING)),
    (_UNSURE, Seen.RETRY_DUE): Row("prove", (_UNSURE, _OWNED, _DRAINING)),
    (_UNSURE, Seen.LOCK_GRANTED): Row("prove_on", (_UNSURE,)),
    (_UNSURE, Seen.LOCK_DENIED): Row("lose", (_ABSENT,)),
    (_UNSURE, Seen.LOCK_FAILED): Row("prove_later", (_UNSURE,)),
    (_UNSURE, Seen.NOBODY_HOLDS): Row("prove_by_offset", (_UNSURE,)),
    (_UNSURE, Seen.PEER_HOLDS): Row("lose", (_ABSENT,)),
    (_UNSURE, Seen.PEER_SILENT): Row("prove_later", (_UNSURE,)),
    (_UNSURE, Seen.OFFSET_SEEN): Row("settle_doubt", (_OWNED, _DRAINING, _UNSURE, _ABSENT)),
    (_UNSURE, Seen.OFFSET_FAILED): Row("prove_later", (_UNSURE,)),
    (_UNSURE, Seen.OFFSET_RESET): Row("note_reset", (_UNSURE,)),
    (_UNSURE, Seen.PULLED): Row("take_messages", (_UNSURE,)),
    (_UNSURE, Seen.PULL_FAILED): Row("stay", (_UNSURE,)),
    (_UNSURE, Seen.HANDLED): Row("note_progress", (_UNSURE,)),
    (_UNSURE, Seen.COMMIT_CONFIRMED): Row("note_commit", (_UNSURE,)),
    (_UNSURE, Seen.COMMIT_FAILED): Row("note_commit", (_UNSURE,)),
    (_UNSURE, Seen.COMMIT_REFUSED): Row("lose", (_ABSENT,)),
    (_UNSURE, Seen.LINE_CUT): Row("doubt_again", (_UNSURE,)),
    (_UNSURE, Seen.POKED): Row("stay", (_UNSURE,)),
    (_UNSURE, Seen.GIVEN_UP): Row("lose", (_ABSENT,)),
    # -- draining: handlers finish
    (_DRAINING, Seen.PLANNED_IN): Row("note_planned_in", (_DRAINING,)),
    (_DRAINING, Seen.PLANNED_OUT): Row("note_planned_out", (_DRAINING,)),
    (_DRAINING, Seen.PULLED): Row("take_messages", (_DRAINING,)),
    (_DRAINING, Seen.PULL_FAILED): Row("pull_later", (_DRAINING,)),
    (_DRAINING, Seen.HANDLED): Row("note_progress", (_DRAINING,)),
    (_DRAINING, Seen.COMMIT_CONFIRMED): Row("note_commit", (_DRAINING,)),
    (_DRAINING, Seen.COMMIT_FAILED): Row("note_commit", (_DRAINING,)),
    (_DRAINING, Seen.COMMIT_REFUSED): Row("lose", (_ABSENT,)),
    (_DRAINING, Seen.DRAINED): Row("finish", (_COMMITTING, _RELEASING, _ABSENT)),
    (_DRAINING, Seen.DRAIN_BOUND): Row("estrange", (_DRAINING,)),
    (_DRAINING, Seen.OFFSET_RESET): Row("jump", (_DRAINING,)),
    (_DRAINING, Seen.LOCK_GRANTED): Row("note_proof", (_DRAINING,)),
    (_DRAINING, Seen.LOCK_DENIED): Row("lose", (_ABSENT,)),
    (_DRAINING, Seen.LOCK_FAILED): Row("stay", (_DRAINING,)),
    (_DRAINING, Seen.LINE_CUT): Row("doubt", (_UNSURE,)),
    (_DRAINING, Seen.PROOF_OLD): Row("doubt", (_UNSURE,)),
    (_DRAINING, Seen.POKED): Row("stay", (_DRAINING,)),
    (_DRAINING, Seen.GIVEN_UP): Row("lose", (_ABSENT,)),
    # -- committing: the last word
    (_COMMITTING, Seen.PLANNED_IN): Row("note_planned_in", (_COMMITTING,)),
    (_COMMITTING, Seen.PLANNED_OUT): Row("note_planned_out", (_COMMITTING,)),
    (_COMMITTING, Seen.COMMIT_CONFIRMED): Row("let_go", (_COMMITTING, _RELEASING, _ABSENT)),
    (_COMMITTING, Seen.COMMIT_FAILED): Row("commit_last_later", (_COMMITTING,)),
    (_COMMITTING, Seen.COMMIT_REFUSED): Row("lose", (_ABSENT,)),
    (_COMMITTING, Seen.RETRY_DUE): Row("commit_last", (_COMMITTING,)),
    (_COMMITTING, Seen.OFFSET_RESET): Row("jump", (_COMMITTING,)),
    (_COMMITTING, Seen.LOCK_GRANTED): Row("note_proof", (_COMMITTING,)),
    (_COMMITTING, Seen.LOCK_DENIED): Row("lose", (_ABSENT,)),
    (_COMMITTING, Seen.LOCK_FAILED): Row("stay", (_COMMITTING,)),
    (_COMMITTING, Seen.LINE_CUT): Row("doubt", (_UNSURE,)),
    (_COMMITTING, Seen.PROOF_OLD): Row("doubt", (_UNSURE,)),
    (_COMMITTING, Seen.POKED): Row("stay", (_COMMITTING,)),
    (_COMMITTING, Seen.GIVEN_UP): Row("lose", (_ABSENT,)),
    # -- releasing: the lock goes back
    (_RELEASING, Seen.PLANNED_IN): Row("note_planned_in", (_RELEASING,)),
    (_RELEASING, Seen.PLANNED_OUT): Row("note_planned_out", (_RELEASING,)),
    (_RELEASING, Seen.UNLOCKED): Row("be_released", (_ABSENT,)),
    (_RELEASING, Seen.UNLOCK_FAILED): Row("unlock_later", (_RELEASING,)),
    (_RELEASING, Seen.LINE_CUT): Row("stay", (_RELEASING,)),
    (_RELEASING, Seen.LINE_PROVEN): Row("unlock", (_RELEASING,)),
    (_RELEASING, Seen.RETRY_DUE): Row("unlock", (_RELEASING,)),
    (_RELEASING, Seen.LOCK_GRANTED): Row("stay", (_RELEASING,)),
    (_RELEASING, Seen.LOCK_DENIED): Row("stay", (_RELEASING,)),
    (_RELEASING, Seen.LOCK_FAILED): Row("stay", (_RELEASING,)),
    (_RELEASING, Seen.POKED): Row("stay", (_RELEASING,)),
    (_RELEASING, Seen.GIVEN_UP): Row("forget", (_ABSENT,)),
}
"""Every pair that can be, with what it does and where it may lead."""
