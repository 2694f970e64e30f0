"""Committing how far a queue is: at most one commit of a queue is unanswered, since two on one line may swap.

A commit goes out as soon as the low end of the window moved, but not more often than once a second, unless the user
asks for it. On Apache's broker
an unchanged offset is said again each 5 s: there a late commit of a dead line would otherwise be the last word.
"""

from steelyard.balance.actions import Commit
from steelyard.balance.board import Board
from steelyard.balance.events import CommitAsked, CommitConfirmed, CommitFailed, CommitRefused
from steelyard.balance.life import Seen, State
from steelyard.balance.record import Manner, Record
from steelyard.balance.window import Window
from steelyard.model import Queue

__all__ = ["Committing", "has_moved"]

_ANSWERABLE = frozenset({State.OWNED, State.UNSURE, State.DRAINING, State.COMMITTING})


def has_moved(record: Record) -> bool:
    """Say whether the broker does not know how far a queue is."""
    return record.acked is None or record.window.low > record.acked


class Committing:
    """The commits of one member."""

    _out: dict[Queue, tuple[Record, Window]]
    """The unanswered ones: of which life, and of which window in it."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._times = board.times
        self._out = {}

    @property
    def is_idle(self) -> bool:
        """Whether no commit is unanswered."""
        return not self._out

    def is_unanswered(self, queue: Queue) -> bool:
        """Whether a commit of a queue is unanswered, be it one of an earlier life."""
        return queue in self._out

    def commit(self, record: Record) -> None:
        """Commit the low end now."""
        self._out[record.queue] = record, record.window
        record.committed_ms = self._board.now_ms
        self._board.say(Commit(record.queue, record.window.low, record.epoch))

    def note_progress(self, record: Record) -> None:
        """Commit if the low end moved, now or when the last commit was long enough ago.

        After a cut that waits until the log has shown that it is the one we read.
        """
        if record.is_commit_due or not has_moved(record) or record.queue in self._out:
            return
        if record.restart_at is not None:
            return
        due_ms = record.committed_ms + self._times.commit_ms
        if due_ms <= self._board.now_ms:
            self.commit(record)
        else:
            record.is_commit_due = True
            self._board.timers.at(due_ms, self._commit_if_moved, record, record.generation)

    def asked(self, event: CommitAsked) -> None:
        """Commit now what moved, if nothing is in the way."""
        record = self._board.records.get(event.queue)
        if record is None or record.state is not State.OWNED or record.restart_at is not None:
            return
        if has_moved(record) and record.queue not in self._out:
            self.commit(record)

    def _commit_if_moved(self, record: Record, generation: int) -> None:
        if self._board.is_current(record, generation):
            record.is_commit_due = False
            if record.state is State.OWNED:
                self.note_progress(record)

    def repeat(self, record: Record) -> None:
        """Say the offset of a queue again and again, where that is needed."""
        if record.manner in (Manner.ASKED, Manner.KEPT):
            due_ms = self._board.now_ms + self._times.commit_unmoved_ms
            self._board.timers.at(due_ms, self._say_again, record, record.generation)

    def _say_again(self, record: Record, generation: int) -> None:
        if not self._board.is_current(record, generation):
            return
        due_ms = record.committed_ms + self._times.commit_unmoved_ms
        if due_ms <= self._board.now_ms:
            if record.state is State.OWNED and record.restart_at is None and record.queue not in self._out:
                self.commit(record)
            due_ms = self._board.now_ms + self._times.commit_unmoved_ms
        self._board.timers.at(due_ms, self._say_again, record, generation)

    def answered(self, event: CommitConfirmed | CommitRefused | CommitFailed) -> None:
        """Take an answer to the queue it is about, if that is still in the same life."""
        known = self._out.pop(event.queue, None)
        if known is None:
            return
        record, window = known
        current = self._board.records.get(event.queue)
        if current is None:
            return
        if current.state not in _ANSWERABLE:
            return
        if current is not record:
            # One of an earlier life: all that matters is that it stands in nobody's way any more.
            self._board.see(current, Seen.COMMIT_FAILED)
        elif isinstance(event, CommitRefused):
            self._board.see(record, Seen.COMMIT_REFUSED, "lost, since a commit was refused")
        elif isinstance(event, CommitFailed):
            self._board.see(record, Seen.COMMIT_FAILED)
        else:
            # One of an earlier window of the same life says nothing about this one.
            self._board.see(record, Seen.COMMIT_CONFIRMED, event.offset if record.window is window else None)

    def cut(self, broker: str) -> None:
        """Forget what was said on a line that is gone."""
        for queue in [queue for queue in self._out if queue.broker == broker]:
            del self._out[queue]
