"""Offset commits: at most one commit of a queue is unanswered, since two on one connection may be reordered.

A commit is sent when the low end of the window moved, at most once a second, unless the user requests it. At an Apache
broker an unchanged offset is committed again every 5 s, so that a late commit of a lost connection is not the last one.
"""

from steelyard.balance.group.actions import Commit
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.events import CommitConfirmed, CommitFailed, CommitRefused, CommitRequested
from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.group.process_queue import LockMode, ProcessQueue
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.model import Queue

_COMMIT_STATES = frozenset({QueueState.OWNED, QueueState.UNSURE, QueueState.DRAINING, QueueState.COMMITTING})


def has_uncommitted(process_queue: ProcessQueue) -> bool:
    """Say whether the queue has progress that the broker does not know."""
    return process_queue.committed_offset is None or process_queue.window.low > process_queue.committed_offset


class OffsetCommits:
    """The commits of one member."""

    _pending: dict[Queue, tuple[ProcessQueue, InflightWindow]]
    """Unanswered commits, with the queue and the window that they are of."""

    def __init__(self, context: MemberContext, apply: ApplyEvent) -> None:
        self._context = context
        self._apply = apply
        self._times = context.times
        self._pending = {}

    @property
    def is_idle(self) -> bool:
        """Whether no commit is unanswered."""
        return not self._pending

    def is_pending(self, queue: Queue) -> bool:
        """Whether a commit of a queue is unanswered, be it of an earlier incarnation."""
        return queue in self._pending

    def commit(self, process_queue: ProcessQueue) -> None:
        """Commit the low end of the window now."""
        self._pending[process_queue.queue] = process_queue, process_queue.window
        process_queue.commit_sent_ms = self._context.now_ms
        self._context.emit(Commit(process_queue.queue, process_queue.window.low, process_queue.epoch))

    def commit_if_due(self, process_queue: ProcessQueue) -> None:
        """Commit if the low end moved, now or a second after the last commit.

        After a lost connection this waits until the log is known to be the one that was read.
        """
        if process_queue.is_commit_scheduled or process_queue.log_check_offset is not None:
            return
        if not has_uncommitted(process_queue) or process_queue.queue in self._pending:
            return
        due_ms = process_queue.commit_sent_ms + self._times.commit_ms
        if due_ms <= self._context.now_ms:
            self.commit(process_queue)
        else:
            process_queue.is_commit_scheduled = True
            self._context.timers.call_at(due_ms, self._commit_when_due, process_queue, process_queue.generation)

    def commit_requested(self, event: CommitRequested) -> None:
        """Commit now what moved, unless a commit is unanswered."""
        process_queue = self._context.process_queues.get(event.queue)
        if (
            process_queue is None
            or process_queue.state is not QueueState.OWNED
            or process_queue.log_check_offset is not None
        ):
            return
        if has_uncommitted(process_queue) and process_queue.queue not in self._pending:
            self.commit(process_queue)

    def _commit_when_due(self, process_queue: ProcessQueue, generation: int) -> None:
        if self._context.is_current(process_queue, generation):
            process_queue.is_commit_scheduled = False
            if process_queue.state is QueueState.OWNED:
                self.commit_if_due(process_queue)

    def schedule_repeat(self, process_queue: ProcessQueue) -> None:
        """Commit the offset of a queue again and again, where that is needed."""
        if process_queue.lock_mode in (LockMode.PROBE, LockMode.LOCK):
            due_ms = self._context.now_ms + self._times.commit_unmoved_ms
            self._context.timers.call_at(due_ms, self._repeat_commit, process_queue, process_queue.generation)

    def _repeat_commit(self, process_queue: ProcessQueue, generation: int) -> None:
        if not self._context.is_current(process_queue, generation):
            return
        due_ms = process_queue.commit_sent_ms + self._times.commit_unmoved_ms
        if due_ms <= self._context.now_ms:
            if (
                process_queue.state is QueueState.OWNED
                and process_queue.log_check_offset is None
                and process_queue.queue not in self._pending
            ):
                self.commit(process_queue)
            due_ms = self._context.now_ms + self._times.commit_unmoved_ms
        self._context.timers.call_at(due_ms, self._repeat_commit, process_queue, generation)

    def commit_answered(self, event: CommitConfirmed | CommitRefused | CommitFailed) -> None:
        """Apply a response to its queue, if it is still the same incarnation."""
        known = self._pending.pop(event.queue, None)
        if known is None:
            return
        process_queue, window = known
        current = self._context.process_queues.get(event.queue)
        if current is None or current.state not in _COMMIT_STATES:
            return
        if current is not process_queue:
            # Of an earlier incarnation: it only matters that it no longer blocks a commit.
            self._apply(current, QueueEvent.COMMIT_FAILED)
        elif isinstance(event, CommitRefused):
            self._apply(process_queue, QueueEvent.COMMIT_REFUSED, "lost, because a commit was refused")
        elif isinstance(event, CommitFailed):
            self._apply(process_queue, QueueEvent.COMMIT_FAILED)
        else:
            # A commit of an earlier window says nothing about this one.
            committed = event.offset if process_queue.window is window else None
            self._apply(process_queue, QueueEvent.COMMIT_CONFIRMED, committed)

    def connection_lost(self, broker: str) -> None:
        """Drop the commits of a lost connection."""
        for queue in [queue for queue in self._pending if queue.broker == broker]:
            del self._pending[queue]
