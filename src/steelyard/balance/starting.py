"""Where to start in a queue: one question at a time, and an answer counts only for what it was asked for.

The answer to a question carries no number. So nobody asks again while one is unanswered; if its queue has gone through
another life meanwhile, the answer is dropped and the question asked anew, since somebody may have committed in between.
"""

from steelyard.balance.actions import AskOffset, Start, StartAt
from steelyard.balance.board import Board
from steelyard.balance.events import OffsetFailed, OffsetSeen
from steelyard.balance.life import Seen, State
from steelyard.balance.record import Record, Step
from steelyard.model import Queue

__all__ = ["Starting", "waits"]


class Starting:
    """The questions of one member."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._out: dict[Queue, int] = {}
        """The unanswered ones, with the life that asked."""

    @property
    def is_idle(self) -> bool:
        """Whether no question is unanswered."""
        return not self._out

    def is_asked(self, record: Record) -> bool:
        """Whether a question for this very purpose is unanswered."""
        return self._out.get(record.queue) == record.life

    def ask(self, record: Record) -> None:
        """Ask where to start; if a question of an earlier life is unanswered, once it is."""
        if record.queue not in self._out:
            self._out[record.queue] = record.life
            self._board.say(AskOffset(record.queue, self._start(record.queue)))

    def seen(self, event: OffsetSeen | OffsetFailed) -> None:
        """Take an answer to the queue that waits for it."""
        if event.queue not in self._out:
            return
        life = self._out.pop(event.queue)
        record = self._board.records.get(event.queue)
        if record is None or not waits(record):
            return
        if life != record.life:
            self.ask(record)
        elif isinstance(event, OffsetSeen):
            self._board.see(record, Seen.OFFSET_SEEN, event)
        else:
            self._board.see(record, Seen.OFFSET_FAILED)

    def cut(self, broker: str) -> None:
        """Forget what was asked on a line that is gone."""
        for queue in [queue for queue in self._out if queue.broker == broker]:
            del self._out[queue]

    def _start(self, queue: Queue) -> Start:
        # A queue that appeared while the group was running is read from its first message: nobody has seen it.
        return Start(StartAt.FIRST) if self._board.views.is_new(queue) else self._board.options.start


def waits(record: Record) -> bool:
    """Say whether a queue cannot go on without its offset."""
    return record.state is State.STARTING or (record.state is State.UNSURE and record.step is Step.OFFSET)
