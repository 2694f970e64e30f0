"""What can be told of one queue at a member: for people who ask what it does, and for tools."""

from msgspec import Struct

from steelyard.balance.life import State
from steelyard.balance.record import Record
from steelyard.model import Queue

__all__ = ["QueueLook", "look_at"]


class QueueLook(Struct, frozen=True):
    """One queue at one moment. Times are those of the member's steady clock."""

    queue: Queue
    state: State
    since_ms: int
    """When the state began."""
    is_planned: bool
    """Whether the plan has it now; one that it does not have is being given up."""
    epoch: int | None
    """That of the lease or lock, where the broker gave one."""
    denied_ms: int | None
    """Since when the lock is denied."""
    low: int
    """Everything below is finished."""
    next: int
    """Where the next pull begins."""
    waiting: int
    """Messages here that no handler has begun."""
    running: int
    """Messages with handlers."""
    body_bytes: int
    acked: int | None
    """What the broker is known to have committed."""
    pulling_ms: int | None
    """When the pull was sent that is unanswered."""
    is_held_back: bool
    """Too much of it is waiting to pull more."""
    is_suspended: bool
    """It rests after a failure, since the order counts."""
    stopped: tuple[int, str] | None = None
    """The message that it stands still at, since it cannot be read: offset and reason."""


def look_at(record: Record) -> QueueLook:
    """Return what can be told of a queue."""
    window = record.window
    return QueueLook(
        queue=record.queue,
        state=record.state,
        since_ms=record.since_ms,
        is_planned=record.wanted,
        epoch=record.epoch,
        denied_ms=record.denied_ms,
        low=window.low,
        next=window.next,
        waiting=max(0, window.count - len(record.running)),
        running=len(record.running),
        body_bytes=window.body_bytes,
        acked=record.acked,
        pulling_ms=record.pulling_ms,
        is_held_back=record.is_held_back,
        is_suspended=record.is_suspended,
        stopped=record.stopped,
    )
