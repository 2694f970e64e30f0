"""Owned queues: messages flow, and what is finished is committed. And the book of which queues there are.

This is the quiet part of a queue's life (life.py): how work begins once it is known where to start, what pulled and
handled messages lead to, and where the work goes on when the offset jumps. How a queue is taken, doubted and given up
is in lives.py.
"""

from steelyard.balance.asking import Asking
from steelyard.balance.board import Board
from steelyard.balance.committing import Committing
from steelyard.balance.events import OffsetReset, OffsetSeen, Pulled, PullFailed, PullOutcome
from steelyard.balance.handling import Handling
from steelyard.balance.life import WORKED_ON, Seen, State
from steelyard.balance.pulling import Pulling, is_same_log
from steelyard.balance.record import Record
from steelyard.balance.starting import Starting
from steelyard.balance.taking import Taking
from steelyard.model import Queue

__all__ = ["Flow"]


class Flow:
    """The parts of a member that its queues need, and the methods of the table for queues that are owned."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._times = board.times
        self.taking = Taking(board)
        self.asking = Asking(board, self.taking)
        self.starting = Starting(board)
        self.pulling = Pulling(board)
        self.handling = Handling(board, self.taking)
        self.committing = Committing(board)
        self.owned = 0
        self.has_changed = False
        """What is owned changed since somebody looked."""
        self.changes = 0
        """How often it changed."""
        self._owned_of: dict[str, int] = {}

    # -- the book -----------------------------------------------------------------------------------------------------

    def plan_in(self, queue: Queue) -> None:
        """Want a queue, if it is not wanted already."""
        board = self._board
        record = board.records.get(queue)
        if record is None:
            record = Record(queue, board.number(), board.now_ms)
        elif record.wanted:
            return
        board.see(record, Seen.PLANNED_IN)

    def moved(self, record: Record, before: State) -> None:
        """Take note of a new state."""
        board, after, queue = self._board, record.state, record.queue
        record.since_ms = board.now_ms
        if before is State.ABSENT:
            board.records[queue] = record
            board.at_broker.setdefault(record.broker, {})[queue] = record
        if after is State.ABSENT:
            del board.records[queue]
            del board.at_broker[record.broker][queue]
            self.handling.estrange(record)
            if record.wanted and not board.is_leaving:
                self.plan_in(queue)
        if after in WORKED_ON:
            self.taking.watch(record)
        if State.OWNED in (before, after):
            step = 1 if after is State.OWNED else -1
            self.owned += step
            self.has_changed = True
            self.changes += 1
            topic = queue.topic
            self._owned_of[topic] = self._owned_of.get(topic, 0) + step
            self.pulling.pace.note_owned(topic, self._owned_of[topic])

    def stay(self, _record: Record, _about: object) -> None:
        """Do nothing: what happened does not matter here."""

    # -- messages -----------------------------------------------------------------------------------------------------

    def _start(self, record: Record) -> None:
        record.state = State.STARTING
        record.generation = self._board.number()
        record.attempts = 0
        record.reset_to = None
        self.starting.ask(record)

    def _begin(self, record: Record, about: OffsetSeen, generation: int) -> None:
        """Start the window at an offset; one that is not stored is committed at once, so that a crash skips nothing."""
        offset, stored = about.offset, about.stored
        if record.reset_to is not None:
            offset, stored = record.reset_to, False
        record.begin(generation, offset)
        record.acked = offset if stored else None
        record.state = State.OWNED
        record.is_commit_due = False
        if not stored and not self.committing.is_unanswered(record.queue):
            self.committing.commit(record)
        self.committing.repeat(record)
        self.pulling.watch()
        self.pulling.pull(record)

    def take_messages(self, record: Record, event: Pulled) -> None:
        """Take pulled messages in, pull the next ones, and let handlers have these."""
        window = record.window
        restart_at, record.restart_at = record.restart_at, None
        if restart_at is not None and not is_same_log(record, event):
            self._board.report("rewound", "read again from what is stored, since the log lost its end", record.queue)
            self._jump_to(record, min(restart_at, event.next_offset))
            return
        if event.outcome is PullOutcome.MOVED and event.next_offset < window.next:
            # The broker has less than we read: go on there, and do not forget what we have and did not finish.
            self._jump_to(record, min(event.next_offset, window.low))
            return
        if record.state is State.DRAINING:
            # All that it was pulled for is known now: the log is the one we read.
            self._check_drained(record)
            return
        offsets, messages = event.offsets, event.messages
        known = window.unseen(offsets)
        if known:
            offsets, messages = offsets[known:], messages[known:]
        window.add(offsets, event.next_offset, event.body_bytes)
        if offsets:
            record.batches.append((offsets, messages))
            record.last = offsets[-1], messages[-1]
        if record.state is State.OWNED:
            self.pulling.pull_next(record)
            self.handling.stand_in_line(record)
            if not offsets or restart_at is not None:
                self.committing.note_progress(record)

    def pull_later(self, record: Record, about: PullFailed) -> None:
        """Pull again after a pause."""
        self.pulling.pull_later(record, about.busy)

    def start_anew(self, record: Record, _about: object) -> None:
        """Start anew, since a pull was never answered."""
        self.handling.estrange(record)
        record.forget_unstarted()
        record.pulling_ms = None
        self._start(record)

    def note_progress(self, record: Record, _about: object) -> None:
        """Go on after something was finished."""
        if record.state is State.OWNED:
            if record.is_held_back:
                self.pulling.pull(record)
            self.committing.note_progress(record)
            self.handling.stand_in_line(record)
        elif record.state is State.DRAINING:
            self._check_drained(record)

    def note_commit(self, record: Record, acked: int | None) -> None:
        """Go on after a commit was answered, or failed."""
        if acked is not None:
            record.acked = acked
        if record.state is State.OWNED:
            self.committing.note_progress(record)
        elif record.state is State.DRAINING:
            self._check_drained(record)

    def jump(self, record: Record, about: OffsetReset) -> None:
        """Go on where an administrator says: also what is being given up is given up there."""
        self._jump_to(record, about.offset)

    def _jump_to(self, record: Record, offset: int) -> None:
        state = record.state
        self.handling.estrange(record)
        record.begin(self._board.number(), offset)
        record.is_commit_due = False
        if state is State.DRAINING:
            self._check_drained(record)
        elif state is State.OWNED:
            self.committing.note_progress(record)
            self.committing.repeat(record)
            self.pulling.watch()
            self.pulling.pull(record)

    def _check_drained(self, record: Record) -> None:
        """Find out whether nothing runs and nothing is unanswered; nor whether the log is the one we read."""
        is_busy = record.running or record.backs or record.restart_at is not None
        if not is_busy and not self.committing.is_unanswered(record.queue):
            self._board.see(record, Seen.DRAINED)
