"""Leaving the group: say so, give everything up, and say goodbye only when nothing is left and nothing unanswered.

Whoever leaves first tells our brokers, so that the others plan without it while it drains. An unregister frees whatever
is still held, so it comes last: a commit or an unlock that is still under way would otherwise come after it. So would a
heartbeat at Apache's broker, whose threads may take it up after the goodbye, even after the line is closed: it would
list us for two minutes more, with a share that nobody reads. If a broker does not come back, or handlers do not end,
there is an end to patience: then what is left is dropped.
"""

from steelyard.balance.actions import Left, Unregister
from steelyard.balance.board import Board
from steelyard.balance.events import LeaveAsked
from steelyard.balance.life import Seen
from steelyard.balance.lives import Lives
from steelyard.balance.timers import sooner

__all__ = ["Leaving"]


class Leaving:
    """How one member leaves."""

    def __init__(self, board: Board, lives: Lives) -> None:
        self._board = board
        self._lives = lives
        self._is_over = False
        self.is_done = False

    def begin(self, event: LeaveAsked) -> None:
        """Begin to leave; to be asked again can only make it sooner."""
        board = self._board
        if event.drain_ms is not None:
            by_ms = board.now_ms + event.drain_ms
            board.leave_by_ms = sooner(board.leave_by_ms, by_ms)
            board.timers.at(by_ms + board.times.leave_grace_ms, self._drop_all)
        if not board.is_leaving:
            board.is_leaving = board.lines.leaving = True
            for broker in board.lines.brokers():
                if board.lines.is_ours(broker):
                    board.actions += board.lines.beat(broker, board.now_ms)
        for record in list(board.records.values()):
            board.see(record, Seen.PLANNED_OUT)

    def _drop_all(self) -> None:
        self._is_over = True
        for record in list(self._board.records.values()):
            self._board.see(record, Seen.GIVEN_UP, "left as they are, since there is no more time")

    def finish_if_done(self) -> None:
        """Say goodbye if nothing is left and nothing unanswered, or if there is no more time."""
        board = self._board
        if not board.is_leaving or self.is_done or board.records:
            return
        if self._is_over or self._is_idle():
            for broker in board.lines.brokers():
                board.say(Unregister(broker, board.lines.avoided_at(broker)))
            board.flush_reports()
            board.say(Left())
            self.is_done = True

    def _is_idle(self) -> bool:
        lives = self._lives
        if not (lives.starting.is_idle and lives.committing.is_idle and lives.asking.is_idle):
            return False
        if any(self._may_be_listed_again(broker) for broker in self._board.lines.brokers()):
            return False
        # What cannot be asked, because there is no line, is not waited for.
        return all(
            desk.is_idle or not self._board.lines.is_registered(desk.broker) for desk in lives.taking.desks.values()
        )

    def _may_be_listed_again(self, broker: str) -> bool:
        lines = self._board.lines
        return lines.is_beating(broker) and not lines.is_ours(broker)
