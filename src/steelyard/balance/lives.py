"""What the table of a queue's life does: one small method for each thing that can happen (life.py names them).

Here is how a queue is taken, doubted and given up; what happens to one that is owned is in flow.py.

Each method gets the record of the queue and what the event brought, changes the record, and tells the parts what to
ask for. The state it leaves behind must be one that its row allows.
"""

from msgspec.structs import replace

from steelyard.balance.board import Board
from steelyard.balance.committing import has_moved
from steelyard.balance.desk import Denial, Grant
from steelyard.balance.events import OffsetReset, OffsetSeen
from steelyard.balance.flow import Flow
from steelyard.balance.life import Seen, State
from steelyard.balance.record import Manner, Record, Step
from steelyard.balance.rounds import BackOff
from steelyard.balance.timers import sooner
from steelyard.model import Queue

__all__ = ["Lives", "safe_start", "window_survives"]

_KEEPS_LOCK = frozenset({Manner.LEASED, Manner.KEPT})


def window_survives(record: Record, seen: OffsetSeen) -> bool:
    """Say whether nobody worked on a queue while we were unsure: what is stored lies within what we did.

    Nothing stored where nothing was ever confirmed says nothing about others. A broker that has nothing any more has
    forgotten it, and so has one that says less under the epoch of our lease, where nobody else can have been. Then it
    may have lost messages too, and the window goes on only where the next pull can tell (pulling.py).
    """
    if record.reset_to is not None:
        return False
    if not seen.stored:
        return record.acked is None or record.last is not None
    known = record.window.start if record.acked is None else record.acked
    if seen.offset < known:
        return record.manner is Manner.LEASED and record.epoch is not None and record.last is not None
    return seen.offset <= record.window.low


def safe_start(record: Record, seen: OffsetSeen) -> int:
    """Return from where on nothing is passed over: what is stored, or the very first if that was forgotten.

    Where nothing was ever confirmed it is where the window began.
    """
    if seen.stored:
        return seen.offset
    return record.window.start if record.acked is None else 0


class Lives(Flow):
    """The lives of all queues of one member."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        board.lives = self

    # -- coming and going ------------------------------------------------------------------------------------------

    def forget(self, record: Record, _about: object) -> None:
        """Have nothing to do with it any more."""
        self.taking.stop_asking(record)
        record.wanted = False
        record.state = State.ABSENT

    def note_planned_in(self, record: Record, _about: object) -> None:
        """Want it again, or still."""
        record.wanted = True

    def note_planned_out(self, record: Record, _about: object) -> None:
        """Want it no more; what is happening to it goes on first."""
        record.wanted = False
        if record.state is State.DRAINING and self._board.is_leaving:
            self._bound(record)

    # -- wanting ------------------------------------------------------------------------------------------------------

    def want(self, record: Record, _about: object) -> None:
        """Begin to want a queue."""
        record.state, record.wanted = State.WANTED, True
        self.taking.want_lock(record)

    def ask_for_lock(self, record: Record, _about: object) -> None:
        """Ask for the lock, unless an answer is to come."""
        if record.asking is None:
            self.taking.want_lock(record)

    def stop_wanting(self, record: Record, _about: object) -> None:
        """Give up a queue that is not held; a lock that is being asked for decides by its answer."""
        record.wanted = False
        if record.asking is None:
            self.taking.stop_asking(record)
            self._give_back(record)

    def hold_or_ask(self, record: Record, about: Grant) -> None:
        """Take a granted lock: the queue is ours, or on Apache's broker the others are asked first."""
        self.note_proof(record, about)
        record.manner, record.maybe_held = about.manner, about.is_real
        record.attempts, record.denied_ms, record.poked_ms, record.holders = 0, None, None, None
        if not record.wanted:
            self._give_back(record)
        elif about.manner is Manner.ASKED:
            record.state = State.ASKING
            self.asking.sweep(record, None)
        else:
            self._start(record)

    def want_later(self, record: Record, about: Denial) -> None:
        """Try again later for a lock that somebody has, or stop if it is not wanted any more."""
        record.maybe_held = False
        if not record.wanted:
            record.state = State.ABSENT
            return
        self.taking.try_later(record)
        self.asking.poke(record, about.holder)

    def doubt_lock(self, record: Record, may_be_held: bool) -> None:
        """Note that a lock may be held, though nobody said so."""
        record.maybe_held = record.maybe_held or may_be_held
        if record.wanted:
            self.taking.try_later(record)
        else:
            self._give_back(record)

    def fall_back(self, record: Record, _about: object) -> None:
        """Begin again after a cut: no window survives, a lock may be held."""
        record.holders, record.attempts, record.denied_ms = None, 0, None
        if record.wanted:
            record.state = State.WANTED
            self.taking.want_lock(record)
        else:
            self._give_back(record)

    def unlock_all_the_same(self, record: Record, _about: object) -> None:
        """Unlock what we do not know to have: a late lock of a dead line may have been granted."""
        if self._board.lines.is_registered(record.broker) and self.taking.manner(record.broker) is not Manner.FREE:
            self.taking.want_unlock(record.queue, None)

    # -- asking the others --------------------------------------------------------------------------------------------

    def ask_again_later(self, record: Record, holders: frozenset[str] | None) -> None:
        """Wait for who holds the queue, and ask those again."""
        record.holders = holders
        self.taking.try_later(record)

    def ask_holders(self, record: Record, _about: object) -> None:
        """Ask those again who held the queue; and keep the lock from running out while we wait."""
        if record.maybe_held and self._board.now_ms - record.proven_ms >= self._times.renew_ms:
            self.ask_for_lock(record, None)
        self.asking.sweep(record, record.holders)

    def take_from_nobody(self, record: Record, keeps_lock: bool) -> None:
        """Take a queue that nobody holds, and let the lock go; one that may have run out proves nothing.

        It is kept where a member was silent that cannot hold the queue: see possible_holders.py.
        """
        if record.maybe_held and self._board.now_ms - record.proven_ms >= self._times.fence_order_ms:
            self.fall_back(record, None)
            return
        if keeps_lock:
            record.manner = Manner.KEPT
            self.taking.want_renewal(record)
        elif record.maybe_held:
            self.taking.want_unlock(record.queue, None)
        self._start(record)

    def stop_asking(self, record: Record, _about: object) -> None:
        """Give the lock back instead of asking on."""
        record.wanted = False
        self._give_back(record)

    def lose_short_lock(self, record: Record, about: Denial) -> None:
        """Begin again: the lock ran out while we asked, and somebody else has it."""
        record.state = State.WANTED
        record.denied_ms, record.attempts = None, 0
        self.want_later(record, about)

    def note_proof(self, record: Record, about: Grant) -> None:
        """Note when a lock was asked for that we have."""
        record.proven_ms = about.sent_ms
        if about.epoch is not None:
            record.epoch = about.epoch

    # -- starting -----------------------------------------------------------------------------------------------------

    def ask_offset(self, record: Record, _about: object) -> None:
        """Ask where to start, again."""
        self.starting.ask(record)

    def stop_starting(self, record: Record, _about: object) -> None:
        """Give up a queue before anything was pulled, once its offset is answered."""
        record.wanted = False
        if not self.starting.is_asked(record):
            self._give_back(record)

    def start_later(self, record: Record, _about: object) -> None:
        """Ask again where to start, after a pause; unless nobody wants it any more."""
        if not record.wanted:
            self._give_back(record)
            return
        pause = BackOff(self._times.own_id_ms, self._times.ask_again_most_ms, record.attempts)
        record.attempts += 1
        self.taking.try_at(record, pause.after(self._board.now_ms))

    def note_reset(self, record: Record, about: OffsetReset) -> None:
        """Remember where an administrator wants it to go on."""
        record.reset_to = about.offset

    def own(self, record: Record, about: OffsetSeen) -> None:
        """Begin to work on a queue: clear window, first pull."""
        if not record.wanted:
            self._give_back(record)
            return
        if not self.taking.fence_holds(record):
            # The answer took so long that somebody else may have taken the queue: begin again.
            record.state, record.holders = State.WANTED, None
            self.taking.try_later(record)
            return
        self._begin(record, about, record.generation)
        self._board.report("taken", "taken", record.queue)

    # -- doubt --------------------------------------------------------------------------------------------------------

    def doubt(self, record: Record, is_cut: bool | None) -> None:
        """Stop starting handlers until the queue is proven again."""
        record.was_draining = record.state is not State.OWNED
        record.state = State.UNSURE
        record.attempts, record.denied_ms = 0, None
        self.taking.distrust(record.broker)
        self.doubt_again(record, is_cut)
        if not is_cut:
            self._board.see(record, Seen.RETRY_DUE)

    def doubt_again(self, record: Record, is_cut: bool | None) -> None:
        """Begin to prove a queue from the beginning."""
        record.step = Step.NOT_BEGUN
        if is_cut:
            record.pulling_ms = None
            if record.last is not None:
                record.restart_at = record.window.start
            self.handling.cut(record)

    def prove(self, record: Record, _about: object) -> None:
        """Prove a queue: by its lock first. It waits for an answered heartbeat, which says so by itself."""
        if record.step is not Step.NOT_BEGUN or not self._board.lines.is_registered(record.broker):
            return
        manner = self.taking.manner(record.broker) or record.manner
        if manner is not Manner.KEPT and not self.taking.is_proof_fresh(record.broker):
            self.taking.distrust(record.broker)
            return
        record.manner = manner
        if manner is Manner.FREE:
            # How far a broadcasting member is nobody but itself knows.
            self._return(record, record.window.start)
            return
        record.step = Step.LOCK
        if manner is Manner.KEPT or (manner is Manner.LEASED and record.epoch is not None):
            self.taking.want_renewal(record)
        else:
            self.taking.want_lock(record)

    def prove_later(self, record: Record, _about: object) -> None:
        """Prove a queue again after a pause, since something went wrong."""
        record.step = Step.NOT_BEGUN
        self.taking.try_later(record)

    def prove_on(self, record: Record, about: Grant) -> None:
        """Go on with the lock: ask the others where that is needed, else the offset."""
        self.note_proof(record, about)
        record.manner, record.maybe_held = about.manner, about.is_real
        if about.manner is Manner.ASKED:
            record.step = Step.HOLDERS
            self.asking.sweep(record, None)
        else:
            self.prove_by_offset(record, None)

    def prove_by_offset(self, record: Record, keeps_lock: bool | None) -> None:
        """Ask what is stored; on Apache's broker the lock has done its work, unless a member was silent."""
        record.step = Step.OFFSET
        if keeps_lock:
            record.manner = Manner.KEPT
        elif record.manner is Manner.ASKED and record.maybe_held:
            self.taking.want_unlock(record.queue, None)
        self.starting.ask(record)

    def settle_doubt(self, record: Record, about: OffsetSeen) -> None:
        """Go on with the window if nobody was here; else start again from what is stored."""
        record.step = Step.NOT_BEGUN
        if not self.taking.fence_holds(record):
            self.taking.distrust(record.broker)
            self.taking.try_later(record)
        elif window_survives(record, about):
            start = safe_start(record, about)
            record.acked = about.offset if about.stored else None
            self._return(record, start)
        elif record.was_draining:
            self.lose(record, "lost, since somebody else worked on it")
        else:
            self.handling.estrange(record)
            self._begin(record, replace(about, offset=safe_start(record, about)), self._board.number())
            self._leave_if_unwanted(record)

    def _return(self, record: Record, start: int) -> None:
        record.step = Step.NOT_BEGUN
        record.state = State.DRAINING if record.was_draining else State.OWNED
        if record.restart_at is not None:
            record.restart_at = start
        self.handling.pay_debts(record)
        if record.was_draining:
            self._bound(record)
            self.pulling.pull(record)
            self._check_drained(record)
            return
        self.committing.note_progress(record)
        self.pulling.pull(record)
        self.handling.stand_in_line(record)
        self._leave_if_unwanted(record)

    def _leave_if_unwanted(self, record: Record) -> None:
        if not record.wanted:
            self._board.see(record, Seen.PLANNED_OUT)

    def lose(self, record: Record, why: object) -> None:
        """Forget a queue that somebody else has or may have: no commit, nothing sent back. Look at the group now."""
        board = self._board
        if isinstance(why, Denial):
            why = "lost, since the lock is denied"
        elif not isinstance(why, str):
            why = "lost to a member that holds it or asks for it"
        self.taking.stop_asking(record)
        if record.manner is Manner.ASKED and record.maybe_held:
            self.taking.want_unlock(record.queue, None)
        record.state = State.ABSENT
        if record.wanted:
            record.wanted = False
            board.timers.at(board.now_ms + self._times.round_gap_ms, self._want_lost, record.queue)
        board.report("lost", why, record.queue)
        board.views.ask_now(board.now_ms)

    def _want_lost(self, queue: Queue) -> None:
        plan = self._board.views.plan()
        if not self._board.is_leaving and plan is not None and queue in plan:
            self.plan_in(queue)

    # -- giving up ----------------------------------------------------------------------------------------------------

    def drain(self, record: Record, _about: object) -> None:
        """Stop pulling and starting; let handlers finish."""
        record.wanted = False
        record.state = State.DRAINING
        record.was_draining = True
        record.forget_unstarted()
        if record.restart_at is None:
            record.pulling_ms = None
        record.is_held_back = False
        self._bound(record)
        self._check_drained(record)

    def _bound(self, record: Record) -> None:
        """Set until when handlers may go on, and see to it that somebody looks then; it can only get sooner."""
        board, times = self._board, self._times
        if board.is_leaving:
            record.drain_by_ms = sooner(record.drain_by_ms, board.leave_by_ms)
        elif times.drain_ms is not None:
            record.drain_by_ms = sooner(record.drain_by_ms, board.now_ms + times.drain_ms)
        if board.views.has_foreign():
            record.drain_by_ms = sooner(record.drain_by_ms, board.now_ms + times.foreign_drain_ms)
        if record.drain_by_ms is not None and record.running:
            board.timers.at(record.drain_by_ms, self._look_at_bound, record)

    def _look_at_bound(self, record: Record) -> None:
        by_ms = record.drain_by_ms
        if not self._board.is_current(record) or record.state is not State.DRAINING or by_ms is None:
            return
        if by_ms <= self._board.now_ms:
            self._board.see(record, Seen.DRAIN_BOUND)

    def estrange(self, record: Record, _about: object) -> None:
        """Wait for handlers no longer: what they still do does not count."""
        if self.handling.estrange(record):
            self._board.report("drain-bound", "given up while handlers still run", record.queue)
        record.generation = self._board.number()
        # What was pulled under the old one is not looked at any more.
        record.pulling_ms = None
        self.pulling.pull(record)
        self._check_drained(record)

    def finish(self, record: Record, _about: object) -> None:
        """Say the last word: always on Apache's broker, on ours if it does not know it yet."""
        if record.manner in (Manner.ASKED, Manner.KEPT) or has_moved(record):
            record.state = State.COMMITTING
            self.commit_last(record, None)
        else:
            self._release_or_go(record)

    def commit_last(self, record: Record, _about: object) -> None:
        """Commit the low end, the last thing that is done with it."""
        if not self.committing.is_unanswered(record.queue):
            self.committing.commit(record)

    def commit_last_later(self, record: Record, _about: object) -> None:
        """Commit again after a pause: nobody knows whether the last one counts."""
        self.taking.try_at(record, self._board.now_ms + self._times.commit_ms)

    def let_go(self, record: Record, acked: int | None) -> None:
        """Let a queue go once its last offset is stored."""
        if acked is None or acked != record.window.low:
            self.commit_last(record, None)
            return
        record.acked = acked
        self._release_or_go(record)

    def _release_or_go(self, record: Record) -> None:
        if record.manner in _KEEPS_LOCK:
            self.release(record, None)
        else:
            self._go(record)

    def release(self, record: Record, _about: object) -> None:
        """Give the lock back, once nothing else is unanswered."""
        record.state = State.RELEASING
        self.unlock(record, None)

    def _give_back(self, record: Record) -> None:
        """Give up a queue that was never worked on."""
        if record.state is State.STARTING and record.manner is Manner.ASKED:
            # Its lock is on its way back already.
            record.state = State.ABSENT
        elif record.maybe_held:
            self.release(record, None)
        else:
            record.state = State.ABSENT

    def unlock(self, record: Record, _about: object) -> None:
        """Unlock it."""
        self.taking.want_unlock(record.queue, record.epoch)

    def unlock_later(self, record: Record, _about: object) -> None:
        """Unlock it again after a pause."""
        self.taking.try_later(record)

    def be_released(self, record: Record, _about: object) -> None:
        """Have nothing to do with it any more, or want it again."""
        self._go(record)

    def _go(self, record: Record) -> None:
        if record.finishing and record.manner is not Manner.FREE:
            # All below the low end is stored now: nobody handles it again.
            avoided = sum(offset < record.window.low for offset in record.finishing)
            self._board.lines.note_avoided(record.broker, avoided)
        record.state = State.ABSENT
        if record.generation:
            self._board.report("released", "released", record.queue)
