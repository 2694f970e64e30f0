"""Pulling messages of owned queues: one pull of a queue at a time, the next one before the messages are handled.

A queue that holds too much pulls again when something of it was finished, not by the clock. A pull that failed is
repeated after a pause, and so is one that the broker answered with nothing again and again instead of holding it until
there is something. One whose answer never comes, though whoever runs us promised it, makes the queue start anew.

After a cut the first pull begins one message early. A broker whose machine lost power has forgotten the end of its
log and gives the same offsets to other messages; who goes on where it was would pass them over. A log is cut at its
end, so if the last message is the one we know, so is everything before it.
"""

from collections.abc import Iterable

from steelyard.balance.actions import Pull
from steelyard.balance.board import Board
from steelyard.balance.events import Lent, Pulled, PullFailed, PullOutcome
from steelyard.balance.life import Seen, State
from steelyard.balance.pace import Pace
from steelyard.balance.record import Record

__all__ = ["Pulling", "is_same_log"]

_MOST_HASTY = 2
"""So many empty answers at once, one after the other, are no chance any more."""


def is_same_log(record: Record, event: Pulled) -> bool:
    """Say whether a pull that began with the last message we know found it; or it went with its age."""
    if record.last is None:
        return True
    offset, message = record.last
    if event.outcome is PullOutcome.MOVED:
        return event.next_offset > offset
    return bool(event.offsets) and (event.offsets[0], event.messages[0]) == (offset, message)


def _first(record: Record) -> int:
    """Return where the next pull begins."""
    return record.window.next if record.restart_at is None or record.last is None else record.last[0]


class Pulling:
    """The pulls of one member."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._times = board.times
        self._most = board.options.pull_most
        self.pace = Pace(board.options)
        self._is_watching = False

    def pull(self, record: Record) -> None:
        """Pull from a queue if it is owned, has no pull under way, and does not hold too much.

        Whether its log is the one we read is found out in any case, also by who gives it up.
        """
        is_asking = record.restart_at is not None
        if record.pulling_ms is not None:
            return
        if record.state is not State.OWNED and not (is_asking and record.state is State.DRAINING):
            return
        record.is_held_back = not self.pace.may_pull(record.queue.topic, record.window, record.lent)
        if not record.is_held_back or is_asking:
            record.pulling_ms = self._board.now_ms
            self._board.say(Pull(record.queue, record.generation, _first(record), self._most, not is_asking))

    def pull_held_back(self, records: Iterable[Record]) -> None:
        """Look again at queues that were held back: their limits changed."""
        for record in records:
            if record.is_held_back:
                self.pull(record)

    def lent(self, event: Lent) -> None:
        """Take note of how many messages the user keeps: there may be room for others now."""
        record = self._board.records.get(event.queue)
        if record is not None and record.generation == event.generation:
            record.lent = event.count
            if record.is_held_back:
                self.pull(record)

    def answered(self, event: Pulled | PullFailed) -> None:
        """Take an answer to its queue; that to an abandoned pull, or of an earlier generation, is dropped."""
        record = self._board.records.get(event.queue)
        if record is None or record.generation != event.generation or record.pulling_ms is None:
            return
        took_ms, record.pulling_ms = self._board.now_ms - record.pulling_ms, None
        if isinstance(event, Pulled):
            is_empty = event.outcome is PullOutcome.NOTHING and event.next_offset <= record.window.next
            record.hasty = record.hasty + 1 if is_empty and took_ms < self._times.pull_empty_ms else 0
            self._board.see(record, Seen.PULLED, event)
        else:
            self._board.see(record, Seen.PULL_FAILED, event)

    def pull_next(self, record: Record) -> None:
        """Pull on after an answer; after a pause where the broker would have us ask without end."""
        if record.hasty < _MOST_HASTY:
            self.pull(record)
        else:
            self._pull_in(record, self._times.pull_empty_ms)

    def pull_later(self, record: Record, busy: bool) -> None:
        """Pull again after a pause."""
        self._pull_in(record, self._times.pull_busy_ms if busy else self._times.pull_again_ms)

    def _pull_in(self, record: Record, wait_ms: int) -> None:
        self._board.timers.at(self._board.now_ms + wait_ms, self._pull_again, record, record.generation)

    def _pull_again(self, record: Record, generation: int) -> None:
        if self._board.is_current(record, generation):
            self.pull(record)

    def watch(self) -> None:
        """See to it that somebody notices a pull that is never answered."""
        if not self._is_watching:
            self._is_watching = True
            self._board.timers.at(self._board.now_ms + self._times.stuck_ms, self._look)

    def _look(self) -> None:
        self._is_watching = False
        oldest_ms = self._board.now_ms
        for record in list(self._board.records.values()):
            sent_ms = record.pulling_ms
            if record.state is not State.OWNED or sent_ms is None:
                continue
            if self._board.now_ms - sent_ms >= self._times.stuck_ms:
                self._board.see(record, Seen.PULL_STUCK)
            else:
                oldest_ms = min(oldest_ms, sent_ms)
        if self._board.records:
            self._is_watching = True
            self._board.timers.at(oldest_ms + self._times.stuck_ms, self._look)
