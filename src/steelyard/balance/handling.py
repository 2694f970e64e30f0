"""Giving messages to handlers, in turn over all queues, and taking care of those that failed.

At most ``handlers`` chunks are with handlers at a time. A queue stands in line while it has something to start; its
turn gives it one chunk. Where the order matters a queue has one chunk at a time, whose handler stops at the first
message that fails and tells of those behind it as failed or skipped; the failed one is tried again, alone, before
anything behind it. Elsewhere a failed message goes back to its broker, which brings it again later; only if that fails
it is tried again here. Who broadcasts drops it, and says so.

What is with a handler when its queue is lost, or when its time to drain is over, is a *stranger*: it may finish, it
counts as busy until then, and its result changes nothing. So is a message that has been with its handler for so long
that it was given back.

A message whose body cannot be opened was never with the user's code. It goes to the dead letters, or is skipped, or
stops its queue, as the options say; where only this process cannot read it, it stops the queue, since it is good. It is
reported each time, and counts as finished only once its dead letter is stored.

Where there are no retries nothing goes back: a message stays with whoever polled it, for as long as that takes.
"""

from collections import deque
from collections.abc import Sequence
from operator import itemgetter

from steelyard.balance.actions import Handle, Report, SendBack
from steelyard.balance.board import Board
from steelyard.balance.events import Handled, SendBackFailed, SentBack, Unreadable
from steelyard.balance.life import Seen, State
from steelyard.balance.member_options import Mode, OnUnreadable
from steelyard.balance.record import Chunk, Record
from steelyard.balance.retry import DEAD_LETTER, gives_up
from steelyard.balance.taking import Taking
from steelyard.model import Queue

__all__ = ["Handling"]

_OVERDUE_LEVEL = 3
"""How long a message rests that was with its handler for too long: 10 s."""


class Handling:
    """The handlers of one member."""

    _strangers: dict[tuple[Queue, int], dict[int, Chunk]]
    """Who may finish and does not count, by queue and generation."""

    def __init__(self, board: Board, taking: Taking) -> None:
        self._board = board
        self._taking = taking
        self._options = board.options
        self._times = board.times
        self._in_order = board.options.mode is Mode.ORDERLY
        self._line: deque[Record] = deque()
        self._busy: dict[Chunk, None] = {}
        self._strangers = {}
        self._is_watching = False
        self.chunks: dict[str, int] = {}
        """How many messages a handler is given at once, by topic, where that is not what the options say."""

    # -- starting -----------------------------------------------------------------------------------------------------

    def stand_in_line(self, record: Record) -> None:
        """Let a queue have its turn, if it has something to start."""
        if not record.is_queued and self._can_start(record):
            record.is_queued = True
            self._line.append(record)

    def _can_start(self, record: Record) -> bool:
        if record.state is not State.OWNED or record.stopped or not (record.batches or record.again):
            return False
        return not self._in_order or not (record.running or record.is_suspended)

    def start(self) -> None:
        """Give chunks to handlers as long as some are free, each queue in its turn."""
        line, busy, most = self._line, self._busy, self._options.handlers
        while line and len(busy) < most:
            record = line.popleft()
            record.is_queued = False
            if not self._can_start(record):
                continue
            if not self._taking.fence_holds(record):
                self._board.see(record, Seen.PROOF_OLD)
                continue
            self._start_one(record)
            self.stand_in_line(record)

    def _start_one(self, record: Record) -> None:
        offsets, messages, attempt = self._next(record)
        chunk = Chunk(record, offsets, messages, attempt, self._board.now_ms)
        self._busy[chunk] = None
        for offset in offsets:
            record.running[offset] = chunk
        self._board.say(Handle(record.queue, record.generation, offsets, messages, record.epoch, attempt))
        if not self._is_watching:
            self._watch_overdue()

    def _next(self, record: Record) -> tuple[Sequence[int], Sequence[object], int]:
        if record.again:
            (offset, message, attempt), *rest = record.again
            record.again = tuple(rest)
            return (offset,), (message,), attempt
        offsets, messages = record.batches[0]
        at = record.batch_at
        end = at + self.chunks.get(record.queue.topic, self._options.chunk)
        if end < len(offsets):
            record.batch_at = end
        else:
            del record.batches[0]
            record.batch_at = 0
        return offsets[at:end], messages[at:end], 0

    # -- results ------------------------------------------------------------------------------------------------------

    def handled(self, event: Handled) -> None:
        """Take the results of a handler."""
        record = self._board.records.get(event.queue)
        if record is None or record.generation != event.generation:
            self._handled_by_stranger(event)
            return
        running, before = record.running, len(record.running)
        finished = []
        for offset in event.done:
            chunk = running.pop(offset, None)
            if chunk is not None:
                finished.append(offset)
                self._told(chunk)
        if finished:
            record.window.finish(finished)
            if record.state is State.DRAINING:
                record.finishing += finished
        if event.failed or event.skipped or event.unreadable:
            self._take_back(record, event)
        if len(running) < before:
            self._board.see(record, Seen.HANDLED)
        else:
            # It was given back long ago, and the queue may be anywhere in its life by now.
            self._handled_by_stranger(event)

    def _told(self, chunk: Chunk) -> None:
        chunk.left -= 1
        if not chunk.left:
            del self._busy[chunk]

    def _take_back(self, record: Record, event: Handled) -> None:
        again: list[tuple[int, object, int]] = []
        for offset in event.failed:
            chunk = record.running.pop(offset, None)
            if chunk is None:
                continue
            message = chunk.message(offset)
            self._told(chunk)
            if not self._in_order:
                self._failed(record, offset, message, chunk.attempt, event.delay_level)
            elif again or record.is_suspended:
                # It was behind one that failed, and has to wait for it.
                again.append((offset, message, 0))
            else:
                again += self._failed_in_order(record, offset, message, chunk.attempt, event.delay_level)
        for offset in event.skipped:
            chunk = record.running.pop(offset, None)
            if chunk is not None:
                again.append((offset, chunk.message(offset), chunk.attempt))
                self._told(chunk)
        for offset, found in event.unreadable.items():
            chunk = record.running.pop(offset, None)
            if chunk is not None:
                self._told(chunk)
                again += self._unreadable(record, offset, chunk.message(offset), chunk.attempt, found)
        if record.state is State.OWNED or record.state is State.UNSURE:
            # What failed comes before what was behind it, in whichever order they were told of.
            record.again = tuple(sorted((*record.again, *again), key=itemgetter(0)))

    def _handled_by_stranger(self, event: Handled) -> None:
        running = self._strangers.get((event.queue, event.generation))
        if running is None:
            return
        told = [
            chunk
            for offset in (*event.done, *event.failed, *event.skipped, *event.unreadable)
            if (chunk := running.pop(offset, None))
        ]
        for chunk in told:
            self._told(chunk)
        if not running:
            del self._strangers[event.queue, event.generation]
        if told and (event.done or event.failed):
            self._board.report("stranger", "results that came too late do not count", event.queue)

    # -- failures -----------------------------------------------------------------------------------------------------

    def _failed(self, record: Record, offset: int, message: object, attempt: int, level: int) -> None:
        if self._options.mode is Mode.BROADCAST:
            record.window.finish((offset,))
            self._board.report(
                "dropped", "messages that failed are dropped, since nobody else would try them", record.queue
            )
        elif not self._options.has_retries:
            self._try_here(record, offset, message, attempt + 1)
        else:
            self._send_back(record, offset, message, attempt, level)

    def _failed_in_order(
        self, record: Record, offset: int, message: object, attempt: int, level: int
    ) -> list[tuple[int, object, int]]:
        record.is_suspended = True
        if level == DEAD_LETTER or gives_up(attempt + 1, self._options.most_tries):
            self._send_back(record, offset, message, attempt, DEAD_LETTER)
            return []
        self._resume_later(record)
        return [(offset, message, attempt + 1)]

    def _unreadable(
        self, record: Record, offset: int, message: object, attempt: int, found: Unreadable
    ) -> list[tuple[int, object, int]]:
        choice = OnUnreadable.STOP if found.is_here else self._options.on_unreadable
        said = f"{record.queue}, offset {offset}, cannot be read"
        if choice is OnUnreadable.SKIP:
            self._board.say(Report("unreadable", f"{said} and is skipped: {found.why}", (record.queue,)))
            record.window.finish((offset,))
            return []
        if choice is OnUnreadable.DEAD_LETTER:
            self._board.say(Report("unreadable", f"{said} and goes to the dead letters: {found.why}", (record.queue,)))
            record.is_suspended = record.is_suspended or self._in_order
            self._send_back(record, offset, message, attempt, DEAD_LETTER, found.why)
            return []
        self._board.say(Report("unreadable", f"{said}, and the queue stands still there: {found.why}", (record.queue,)))
        if record.stopped is None or offset < record.stopped[0]:
            record.stopped = offset, found.why
        return [(offset, message, attempt)]

    def _resume_later(self, record: Record) -> None:
        due_ms = self._board.now_ms + self._times.suspend_ms
        self._board.timers.at(due_ms, self._resume, record, record.generation)

    def _resume(self, record: Record, generation: int) -> None:
        if self._board.is_current(record, generation):
            record.is_suspended = False
            self.stand_in_line(record)

    def _send_back(
        self, record: Record, offset: int, message: object, attempt: int, level: int, unreadable: str = ""
    ) -> None:
        if record.state is State.UNSURE:
            # Whether we may is to be seen: what is lost is not sent back.
            record.owed += ((offset, message, attempt, level, unreadable),)
        else:
            record.backs[offset] = message, attempt
            self._board.say(SendBack(record.queue, record.generation, offset, message, level, unreadable))

    def pay_debts(self, record: Record) -> None:
        """Send back what failed while a queue was unsure."""
        owed, record.owed = record.owed, ()
        for offset, message, attempt, level, unreadable in owed:
            self._send_back(record, offset, message, attempt, level, unreadable)

    def sent_back(self, event: SentBack | SendBackFailed) -> None:
        """Take the outcome of sending a message back."""
        record = self._board.records.get(event.queue)
        if record is None or record.generation != event.generation or event.offset not in record.backs:
            return
        message, attempt = record.backs.pop(event.offset)
        if isinstance(event, SentBack):
            record.window.finish((event.offset,))
            record.is_suspended = False
        else:
            self._try_here(record, event.offset, message, attempt + 1)
        self._board.see(record, Seen.HANDLED)

    def cut(self, record: Record) -> None:
        """Take note that nobody will tell what became of messages that were sent back."""
        for offset, (message, attempt) in record.backs.items():
            self._try_here(record, offset, message, attempt + 1)
        record.backs.clear()

    def _try_here(self, record: Record, offset: int, message: object, attempt: int) -> None:
        wait_ms = self._times.suspend_ms if self._in_order else self._times.send_back_again_ms
        due_ms = self._board.now_ms + wait_ms
        self._board.timers.at(due_ms, self._again, record, record.generation, (offset, message, attempt))

    def _again(self, record: Record, generation: int, again: tuple[int, object, int]) -> None:
        # A drain forgets it: in the window it stays unfinished, and the next owner meets it.
        if self._board.is_current(record, generation) and record.state in (State.OWNED, State.UNSURE):
            record.again = again, *record.again
            record.is_suspended = False
            self.stand_in_line(record)

    # -- strangers ----------------------------------------------------------------------------------------------------

    def estrange(self, record: Record) -> bool:
        """Let the results of running handlers count no more; say whether there were any."""
        running, record.running = record.running, {}
        record.backs.clear()
        if running:
            self._strangers.setdefault((record.queue, record.generation), {}).update(running)
        return bool(running)

    def _watch_overdue(self) -> None:
        if self._options.mode is Mode.CONCURRENT and self._options.has_retries and self._busy:
            self._is_watching = True
            oldest = next(iter(self._busy))
            self._board.timers.at(oldest.started_ms + self._times.handle_most_ms, self._look)

    def _look(self) -> None:
        """Give back what has been with a handler for too long: it counts as done, and comes again."""
        self._is_watching = False
        limit_ms = self._board.now_ms - self._times.handle_most_ms
        for chunk in [chunk for chunk in self._busy if chunk.started_ms <= limit_ms]:
            # It stays busy; what is still to be looked at is what started later.
            del self._busy[chunk]
            self._busy[chunk] = None
            chunk.started_ms = self._board.now_ms
            record = chunk.record
            late = [offset for offset in chunk.offsets if record.running.get(offset) is chunk]
            for offset in late:
                del record.running[offset]
                self._strangers.setdefault((record.queue, record.generation), {})[offset] = chunk
                self._send_back(record, offset, chunk.message(offset), chunk.attempt, _OVERDUE_LEVEL)
            if late:
                self._board.report("overdue", "given back what was in handlers for too long", record.queue)
        self._watch_overdue()
