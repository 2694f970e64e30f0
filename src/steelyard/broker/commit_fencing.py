"""Commit fencing: a member that lost a queue must not undo what its new owner committed.

A commit to a held queue is refused if it names another epoch than the lock's, if its connection belongs to another
member than the owner, or if its connection belongs to no member and it goes backwards. A queue without a holder accepts
commits as Apache does, except one that goes backwards under an epoch: that holder has released the queue, and its
commit is late. The broker's own groups accept no commits. A reset (offsets.py) overrides commits until the queue's
member has seen it. A commit that comes with a pull is judged the same; the pull is served either way, since reading
does no harm.
"""

from enum import Enum

from steelyard.broker.queue_locks import QueueLock
from steelyard.broker.state import BrokerCoreState
from steelyard.broker.validation import BROKER_GROUPS
from steelyard.wire.command import Peer


class CommitResult(Enum):
    """The result of a commit."""

    COMMITTED = "taken"
    RESET = "the queue was reset, and its member has not gone there yet"
    FENCED = "another member holds the queue"


def commit_offset(
    state: BrokerCoreState,
    peer: Peer,
    group: str,
    topic: str,
    queue_id: int,
    offset: int,
    epoch: int | None,
    now_ms: int,
) -> CommitResult:
    """Store a commit or refuse it; refused ones are counted in `ConsumerOffsets.fenced_commits`."""
    offsets = state.offsets
    if group in BROKER_GROUPS:
        return CommitResult.FENCED
    lock = state.queue_locks.holder(group, topic, queue_id, now_ms)
    if _is_fenced(state, lock, peer, group, topic, queue_id, offset, epoch):
        offsets.fenced_commits += 1
        state.event_counters.fenced_commits.add(group)
        return CommitResult.FENCED
    if offsets.reset_overrides(group, topic, queue_id, offset):
        return CommitResult.RESET
    offsets.put(group, topic, queue_id, offset, now_ms)
    return CommitResult.COMMITTED


def _is_fenced(
    state: BrokerCoreState,
    lock: QueueLock | None,
    peer: Peer,
    group: str,
    topic: str,
    queue_id: int,
    offset: int,
    epoch: int | None,
) -> bool:
    if lock is not None:
        if epoch is not None and epoch != lock.epoch:
            return True
        member = state.consumers.on_connection(peer, group)
        if member is not None:
            return member.id != lock.owner
    elif epoch is None:
        return False
    known = state.offsets.get(group, topic, queue_id)
    return known is not None and offset < known
