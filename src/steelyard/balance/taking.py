"""Locks at one broker: one request at a time, each for as many queues as want it; and how long a proof counts.

The rule: of `Lock`, `Renew` and `Unlock` only one is unanswered at a broker, because a broker may execute two in the
other order. Unlocks go first, so that nobody waits for what we do not need, and since they wait for the answer before
them, no renewal can come after the unlock that was meant to end it. Nothing is asked of a broker on a line on which no
heartbeat was answered. An Apache broker that was just started knows nobody: there only those queues are locked that we
had before, until everybody had time to come back.

What an answer means is not decided here: it goes to the queue's life.
"""

from collections.abc import Iterable

from steelyard.balance.actions import Lock, Renew, Unlock
from steelyard.balance.board import Board
from steelyard.balance.desk import Denial, Desk, Grant, Request, lock_retry_ms
from steelyard.balance.events import LockFailed, LocksAnswered, Unlocked, UnlockFailed
from steelyard.balance.life import WORKED_ON, Seen, State
from steelyard.balance.member_options import Mode
from steelyard.balance.record import Manner, Record
from steelyard.model import Queue

__all__ = ["Taking", "first_queues"]

_MOST_QUEUES = 4_096
"""In one request: some hundred kilobytes at most."""

_LETS_GO = frozenset({State.WANTED, State.ASKING, State.UNSURE})
"""Who takes a lock, or is about to, and will let it go by itself."""


class Taking:
    """The desks of one member."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._options = board.options
        self._times = board.times
        self._lines = board.lines
        self.desks: dict[str, Desk] = {}
        self._touched: dict[str, Desk] = {}

    def desk(self, broker: str) -> Desk:
        """Return the desk of a broker."""
        found = self.desks.get(broker)
        if found is None:
            found = self.desks[broker] = Desk(broker)
        return found

    def manner(self, broker: str) -> Manner | None:
        """Return how queues of a broker are held; None if it never told what it is."""
        if self._options.mode is Mode.BROADCAST:
            return Manner.FREE
        ours = self._lines.is_ours(broker)
        if ours is None:
            return None
        if ours:
            return Manner.LEASED
        return Manner.KEPT if self._options.mode is Mode.ORDERLY else Manner.ASKED

    # -- what queues want --------------------------------------------------------------------------------------------

    def want_lock(self, record: Record) -> None:
        """Ask for a queue's lock as soon as may be."""
        desk = self._touch(record.broker)
        # It would be unlocked only to be locked again, and on Apache's a late unlock would free what we are taking.
        desk.to_unlock.pop(record.queue, None)
        desk.to_lock[record.queue] = None

    def want_renewal(self, record: Record) -> None:
        """Ask to keep a queue's lock."""
        self._touch(record.broker).to_renew[record.queue] = None

    def want_unlock(self, queue: Queue, epoch: int | None) -> None:
        """Let a lock go as soon as nothing else is unanswered."""
        desk = self._touch(queue.broker)
        desk.to_lock.pop(queue, None)
        desk.to_renew.pop(queue, None)
        desk.to_unlock[queue] = epoch

    def want_unlock_for(self, broker: str, owner: str, queues: tuple[Queue, ...]) -> None:
        """Let locks go in the name of a member that is gone."""
        self._touch(broker).to_unlock_for[owner] = queues

    def stop_asking(self, record: Record) -> None:
        """Forget that a lock was to be asked for, if it was not yet."""
        desk = self.desk(record.broker)
        desk.to_lock.pop(record.queue, None)
        desk.to_renew.pop(record.queue, None)

    def try_later(self, record: Record) -> None:
        """Let a queue's next try be due after the usual wait; those of a broker come together."""
        board = self._board
        record.attempts += 1
        if record.denied_ms is None:
            record.denied_ms = board.now_ms
        waited_ms = board.now_ms - record.denied_ms
        self.try_at(record, board.now_ms + lock_retry_ms(self._options, record.broker, record.attempts, waited_ms))

    def try_at(self, record: Record, due_ms: int) -> None:
        """Let a queue's next try be due at a time."""
        retries = self.desk(record.broker).retries
        waiting = retries.get(due_ms)
        if waiting is None:
            retries[due_ms] = [record]
            self._board.timers.at(due_ms, self._retry, record.broker, due_ms)
        else:
            waiting.append(record)

    def _retry(self, broker: str, due_ms: int) -> None:
        for record in self.desk(broker).retries.pop(due_ms):
            if (
                self._board.is_current(record)
                and record.state is not State.OWNED
                and record.state is not State.DRAINING
            ):
                self._board.see(record, Seen.RETRY_DUE)

    # -- asking -------------------------------------------------------------------------------------------------------

    def _touch(self, broker: str) -> Desk:
        desk = self._touched[broker] = self.desk(broker)
        return desk

    def flush(self) -> None:
        """Ask whatever can be asked now."""
        while self._touched:
            touched = list(self._touched.values())
            self._touched.clear()
            for desk in touched:
                if desk.out is None and self._lines.is_registered(desk.broker):
                    self._ask(desk)

    def _ask(self, desk: Desk) -> None:
        board, group = self._board, self._options.lock_group
        if desk.to_unlock:
            queues = first_queues(desk.to_unlock)
            epochs = tuple(desk.to_unlock.pop(queue) for queue in queues)
            self._send(desk, Request(Unlock, queues, board.now_ms))
            board.say(Unlock(desk.broker, queues, group, epochs))
        elif desk.to_unlock_for:
            owner = next(iter(desk.to_unlock_for))
            queues = desk.to_unlock_for.pop(owner)
            self._send(desk, Request(Unlock, queues, board.now_ms, owner))
            board.say(Unlock(desk.broker, queues, group, (None,) * len(queues), owner))
        elif desk.to_renew:
            queues = first_queues(desk.to_renew)
            records = self._asked(desk, desk.to_renew, queues)
            if records:
                queues = tuple(record.queue for record in records)
                self._send(desk, Request(Renew, queues, board.now_ms), records)
                board.say(Renew(desk.broker, queues, group, tuple(record.epoch for record in records)))
        elif desk.to_lock:
            self._ask_locks(desk)

    def _ask_locks(self, desk: Desk) -> None:
        board = self._board
        manner = self.manner(desk.broker)
        records = self._asked(desk, desk.to_lock, first_queues(desk.to_lock))
        if manner is Manner.FREE or (manner is Manner.ASKED and desk.is_lockless):
            for record in records:
                board.see(record, Seen.LOCK_GRANTED, Grant(None, board.now_ms, manner, is_real=False))
            return
        if self._lines.settles(desk.broker, board.now_ms, board.views.has_foreign()):
            for record in records:
                if record.state is State.WANTED:
                    self.try_at(record, board.now_ms + self._times.lock_retry_slow_ms)
            records = [record for record in records if record.state is not State.WANTED]
        if records:
            queues = tuple(record.queue for record in records)
            self._send(desk, Request(Lock, queues, board.now_ms), records)
            board.say(Lock(desk.broker, queues, self._options.lock_group))

    def _asked(self, desk: Desk, waiting: dict[Queue, None], queues: Iterable[Queue]) -> list[Record]:
        records = []
        for queue in queues:
            del waiting[queue]
            record = self._board.records.get(queue)
            if record is not None and record.asking is None:
                records.append(record)
        if waiting:
            self._touched[desk.broker] = desk
        return records

    def _send(self, desk: Desk, request: Request, records: Iterable[Record] = ()) -> None:
        desk.out = request
        for record in records:
            record.asking = request

    # -- answers ------------------------------------------------------------------------------------------------------

    def answered(self, event: LocksAnswered) -> None:
        """Take the answer to a lock or a renewal to each of its queues."""
        request = self._take_out(event.broker)
        manner = self.manner(event.broker)
        if request is None or manner is None:
            return
        for queue in request.queues:
            record = self._board.records.get(queue)
            is_asked = record is not None and record.asking is request
            if record is not None and is_asked:
                record.asking = None
            if queue in event.granted:
                epoch = event.granted[queue]
                if record is not None and is_asked:
                    self._board.see(record, Seen.LOCK_GRANTED, Grant(epoch, request.sent_ms, manner))
                elif record is None:
                    self.want_unlock(queue, epoch)
                else:
                    record.maybe_held = True
            elif record is not None and is_asked:
                self._board.see(record, Seen.LOCK_DENIED, Denial(event.denied.get(queue)))

    def failed(self, event: LockFailed) -> None:
        """Take a lock or a renewal of unknown outcome to each of its queues."""
        request = self._take_out(event.broker)
        if request is None:
            return
        manner = self.manner(event.broker)
        if event.forbidden and manner is Manner.ASKED:
            self._go_lockless(event.broker, request)
        for queue in request.queues:
            record = self._board.records.get(queue)
            if record is not None and record.asking is request:
                record.asking = None
                self._board.see(record, Seen.LOCK_FAILED, not event.forbidden)

    def _go_lockless(self, broker: str, request: Request) -> None:
        desk = self.desk(broker)
        if not desk.is_lockless:
            desk.is_lockless = True
            self._board.report(
                "degraded",
                "taken without locks, which the broker forbids: the others are only asked",
                request.queues[0],
            )

    def unlocked(self, event: Unlocked) -> None:
        """Take the answer to an unlock to those queues that wait for it."""
        request = self._take_out(event.broker)
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            record = self._board.records.get(queue)
            if record is None:
                continue
            if record.state is State.RELEASING:
                self._board.see(record, Seen.UNLOCKED)
            elif record.asking is None:
                record.maybe_held = False

    def unlock_failed(self, event: UnlockFailed) -> None:
        """Try an unlock again that had no good answer."""
        request = self._take_out(event.broker)
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            record = self._board.records.get(queue)
            if record is not None and record.state is State.RELEASING:
                self._board.see(record, Seen.UNLOCK_FAILED)
            elif not self._board.is_leaving or record is not None:
                self._board.timers.at(self._board.now_ms + self._times.lock_retry_slow_ms, self._unlock_again, queue)

    def _unlock_again(self, queue: Queue) -> None:
        record = self._board.records.get(queue)
        if record is None or record.state not in _LETS_GO:
            self.want_unlock(queue, None if record is None else record.epoch)

    def _take_out(self, broker: str) -> Request | None:
        desk = self._touch(broker)
        request, desk.out = desk.out, None
        return request

    # -- lines and proofs ---------------------------------------------------------------------------------------------

    def cut(self, broker: str) -> None:
        """Take note that a line is gone: what was asked there may have been done or not."""
        desk = self.desk(broker)
        request, desk.out = desk.out, None
        desk.is_trusted = False
        # Who still wants something says so again.
        desk.to_lock.clear()
        desk.to_renew.clear()
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            record = self._board.records.get(queue)
            if record is not None and record.asking is request:
                record.asking = None
                record.maybe_held = True
            elif record is None and request.kind is Unlock:
                desk.to_unlock.setdefault(queue, None)

    def distrust(self, broker: str) -> None:
        """Take note that a proof was too old: the next answered heartbeat is news."""
        self.desk(broker).is_trusted = False

    def proven(self, broker: str) -> bool:
        """Take note that a heartbeat was answered; say whether that ends a doubt."""
        desk = self._touch(broker)
        was_trusted, desk.is_trusted = desk.is_trusted, self.is_proof_fresh(broker)
        return desk.is_trusted and not was_trusted

    def fence_ms(self, broker: str) -> int:
        """Return how old the last answered heartbeat may be."""
        return self._times.fence_ms if self._lines.is_ours(broker) else self._times.fence_apache_ms

    def is_proof_fresh(self, broker: str) -> bool:
        """Say whether the last answered heartbeat was sent recently enough, and the line is up."""
        proven_ms = self._lines.proven_ms(broker)
        if proven_ms is None or not self._lines.is_registered(broker):
            return False
        return self._board.now_ms - proven_ms < self.fence_ms(broker)

    def fence_holds(self, record: Record) -> bool:
        """Say whether a handler may start: the line is up, and the proof of holding the queue is fresh."""
        if record.manner is Manner.FREE:
            return self._lines.is_open(record.broker)
        if record.manner is Manner.KEPT:
            age_ms = self._board.now_ms - record.proven_ms
            return age_ms < self._times.fence_order_ms and self._lines.is_open(record.broker)
        return self.is_proof_fresh(record.broker)

    def watch(self, record: Record) -> None:
        """See to it that somebody looks when the proof of a queue gets old, and that a kept lock is renewed."""
        if record.manner is Manner.FREE:
            return
        desk = self.desk(record.broker)
        if not desk.is_watched:
            desk.is_watched = True
            self._board.timers.at(self.fence_end_ms(record), self._look, desk)
        if record.manner is Manner.KEPT and not desk.renews:
            desk.renews = True
            self._board.timers.at(self._board.now_ms + self._times.renew_ms, self._renew, desk)

    def fence_end_ms(self, record: Record) -> int:
        """Return when the proof of a queue gets too old, where it needs one."""
        if record.manner is Manner.KEPT:
            return record.proven_ms + self._times.fence_order_ms
        return (self._lines.proven_ms(record.broker) or 0) + self.fence_ms(record.broker)

    def _worked_on(self, desk: Desk) -> list[Record]:
        records = self._board.at_broker.get(desk.broker, {})
        return [record for record in records.values() if record.state in WORKED_ON]

    def _look(self, desk: Desk) -> None:
        desk.is_watched = False
        records = self._worked_on(desk)
        if not records:
            return
        proven = [record for record in records if self.fence_holds(record)]
        if proven:
            desk.is_watched = True
            end_ms = min(map(self.fence_end_ms, proven))
            self._board.timers.at(max(end_ms, self._board.now_ms + 1), self._look, desk)
        if len(proven) < len(records):
            for record in records:
                if not self.fence_holds(record):
                    self._board.see(record, Seen.PROOF_OLD)

    def _renew(self, desk: Desk) -> None:
        records = [record for record in self._worked_on(desk) if record.manner is Manner.KEPT]
        desk.renews = bool(records)
        for record in records:
            self.want_renewal(record)
        if records:
            self._board.timers.at(self._board.now_ms + self._times.renew_ms, self._renew, desk)


def first_queues(waiting: dict[Queue, None] | dict[Queue, int | None]) -> tuple[Queue, ...]:
    """Return as many of these as fit into one request, in order."""
    if len(waiting) <= _MOST_QUEUES:
        return tuple(waiting)
    return tuple(queue for queue, _ in zip(waiting, range(_MOST_QUEUES), strict=False))
