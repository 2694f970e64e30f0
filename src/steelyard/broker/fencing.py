"""Whether a commit counts: one who lost a queue must not undo what its new owner committed.

A commit to a queue that somebody holds is refused if it names another epoch than the lock's, if its line belongs to
another member than the owner, or if its line is nobody's and it goes backwards. A queue that nobody holds takes what
comes, as with Apache, but for what goes backwards under an epoch: that holder has let go, and its commit is a late one.
What the broker keeps for itself is moved by nobody else. A reset (offsets.py) is stronger than any commit until the
queue's member knows of it.

A commit that comes with a pull is judged the same; the pull itself is served either way, since reading harms nobody.
"""

from enum import Enum

from steelyard.broker.locks import Lock
from steelyard.broker.names import OWN_GROUPS
from steelyard.broker.state import State
from steelyard.wire.peers import Peer

__all__ = ["Verdict", "commit"]


class Verdict(Enum):
    """What became of a commit."""

    TAKEN = "taken"
    RESET = "the queue was reset, and its member has not gone there yet"
    FENCED = "another member holds the queue"


def commit(
    state: State, peer: Peer, group: str, topic: str, queue_id: int, offset: int, epoch: int | None, now_ms: int
) -> Verdict:
    """Take a commit, or say why not; refused ones are counted in ``Offsets.fenced``."""
    offsets = state.offsets
    if group in OWN_GROUPS:
        return Verdict.FENCED
    lock = state.locks.holder(group, topic, queue_id, now_ms)
    if _is_fenced(state, lock, peer, group, topic, queue_id, offset, epoch):
        offsets.fenced += 1
        state.tallies.fenced.add(group)
        return Verdict.FENCED
    if offsets.outlives(group, topic, queue_id, offset):
        return Verdict.RESET
    offsets.put(group, topic, queue_id, offset)
    return Verdict.TAKEN


def _is_fenced(
    state: State, lock: Lock | None, peer: Peer, group: str, topic: str, queue_id: int, offset: int, epoch: int | None
) -> bool:
    if lock is not None:
        if epoch is not None and epoch != lock.epoch:
            return True
        member = state.members.on_line(peer, group)
        if member is not None:
            return member.id != lock.owner
    elif epoch is None:
        return False
    known = state.offsets.get(group, topic, queue_id)
    return known is not None and offset < known
