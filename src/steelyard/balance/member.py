"""One member of a consumer group, as a pure machine: what happened goes in, what to do comes out.

`Member.step` is told an event and the time, and returns actions in the order they are wanted. Nothing here waits, and
nothing is remembered outside. An event goes to the lines first (what is known of each broker), then to the views (who
is in the group, and what the plan is), then, if the plan changed, queues are planned in and out, and at last the event
reaches the queues it is about. What became due meanwhile is done before that, so that a process which was stopped for a
while finds out what it must not do any more before it does anything.
"""

from collections.abc import Callable, Mapping, Sequence

from steelyard.balance.actions import Action
from steelyard.balance.allocate.strategy import Owned
from steelyard.balance.board import Board
from steelyard.balance.events import (
    BeatAnswered,
    CommitAsked,
    CommitConfirmed,
    CommitFailed,
    CommitRefused,
    Event,
    GroupFailed,
    GroupSeen,
    Handled,
    HoldersFailed,
    HoldersSeen,
    LeaveAsked,
    Lent,
    LineCut,
    LockFailed,
    LocksAnswered,
    OffsetFailed,
    OffsetReset,
    OffsetSeen,
    Poked,
    Pulled,
    PullFailed,
    SendBackFailed,
    SentBack,
    Unlocked,
    UnlockFailed,
)
from steelyard.balance.hazards import Hazard
from steelyard.balance.holdings import Holdings
from steelyard.balance.leaving import Leaving
from steelyard.balance.life import HELD, Seen, State
from steelyard.balance.lines import Lines
from steelyard.balance.lives import Lives
from steelyard.balance.looks import QueueLook, look_at
from steelyard.balance.member_options import MemberOptions, Mode
from steelyard.balance.progress import Progress
from steelyard.balance.record import Manner, Record
from steelyard.balance.rounds import NEVER_MS
from steelyard.balance.stalls import Stalls
from steelyard.balance.views import Views
from steelyard.model import Queue, in_order

__all__ = ["Member"]

_OF_ONE_QUEUE: frozenset[type] = frozenset(
    {
        CommitAsked,
        CommitConfirmed,
        CommitFailed,
        CommitRefused,
        Handled,
        Lent,
        OffsetFailed,
        OffsetReset,
        OffsetSeen,
        PullFailed,
        Pulled,
        SendBackFailed,
        SentBack,
    }
)
"""Lines and views have nothing to learn from these, which are most of all."""

_PROVABLE = frozenset({State.WANTED, State.UNSURE, State.RELEASING})


class Member:
    """One member. ``now_ms`` is always its own steady clock, which never goes back."""

    _take: Mapping[type, Callable[..., None]]
    """Who takes an event, by its kind."""

    def __init__(self, options: MemberOptions, now_ms: int) -> None:
        self.options = options
        self.lines = Lines(options)
        """What is known of each broker."""
        self.views = Views(options, self.lines)
        """Whom it believes to be in the group, and what is to be shared."""
        self._board = Board(options, self.lines, self.views, now_ms)
        self._lives = Lives(self._board)
        self._leaving = Leaving(self._board, self._lives)
        self._stalls = Stalls(self._board)
        self._plan: tuple[Queue, ...] | None = None
        self._abandoned: dict[Queue, None] = {}
        """Given up with their broker, though they were planned."""
        self._told_ms: int | None = None
        self._is_telling = False
        self.lines.claims = self._claims
        self.lines.stopped = self._stopped
        self.views.held_by_me = self._held
        lives = self._lives
        self._take = {
            BeatAnswered: self._beat_answered,
            GroupSeen: lives.asking.listed,
            GroupFailed: lives.asking.listed,
            HoldersSeen: lives.asking.answered,
            HoldersFailed: lives.asking.answered,
            LocksAnswered: lives.taking.answered,
            LockFailed: lives.taking.failed,
            Unlocked: lives.taking.unlocked,
            UnlockFailed: lives.taking.unlock_failed,
            OffsetSeen: lives.starting.seen,
            OffsetFailed: lives.starting.seen,
            OffsetReset: self._offset_reset,
            Pulled: lives.pulling.answered,
            PullFailed: lives.pulling.answered,
            Handled: lives.handling.handled,
            Lent: lives.pulling.lent,
            SentBack: lives.handling.sent_back,
            SendBackFailed: lives.handling.sent_back,
            CommitAsked: lives.committing.asked,
            CommitConfirmed: lives.committing.answered,
            CommitRefused: lives.committing.answered,
            CommitFailed: lives.committing.answered,
            Poked: self._poked,
            LeaveAsked: self._leaving.begin,
        }

    # -- stepping -----------------------------------------------------------------------------------------------------

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Take note of what happened, and return what to do about it, in order."""
        if self.is_done:
            return []
        board, lives = self._board, self._lives
        board.now_ms = now_ms
        if type(event) not in _OF_ONE_QUEUE:
            board.actions += self.lines.step(event, now_ms)
            board.actions += self.views.step(event, now_ms)
            if isinstance(event, LineCut):
                # Before anything that is planned or due: there is nobody left to ask.
                self._line_cut(event)
            self._follow_plan()
        if board.timers.due_ms() <= now_ms:
            board.timers.run(now_ms)
        take = self._take.get(type(event))
        if take is not None:
            take(event)
        self._ask_and_start()
        if lives.has_changed:
            self._tell_change()
        self._leaving.finish_if_done()
        self.views.restless = lives.owned < len(board.records) or board.is_leaving
        return board.close()

    def _ask_and_start(self) -> None:
        # A handler that finds its proof too old makes its queue ask for a new one; so starting comes first.
        self._lives.handling.start()
        self._lives.taking.flush()
        self._lives.asking.flush()
        self._lives.taking.flush()

    def due_ms(self) -> int:
        """Return when a `Tick` is due; far in the future if nothing is."""
        if self.is_done:
            return NEVER_MS
        return min(self._board.timers.due_ms(), self.lines.due_ms(), self.views.due_ms())

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether it has left: nothing happens any more."""
        return self._leaving.is_done

    @property
    def members(self) -> tuple[str, ...]:
        """Whom it believes to be in the group."""
        return self.views.members()

    @property
    def plan(self) -> tuple[Queue, ...] | None:
        """Which queues are its own by its last plan; None: it has none yet."""
        return self.views.plan()

    @property
    def rounds(self) -> int:
        """How often it looked at the group."""
        return self.views.rounds

    @property
    def strategy_name(self) -> str:
        """How it planned last."""
        return self.views.strategy_name

    def states(self) -> dict[Queue, State]:
        """Return where each queue is in its life; those that are absent are not in it."""
        return {queue: record.state for queue, record in self._board.records.items()}

    @property
    def changes(self) -> int:
        """How often what it owns has changed: who keeps messages of its queues looks again."""
        return self._lives.changes

    def progress(self, queue: Queue) -> Progress | None:
        """Return how far it is in a queue; None for one that it has nothing to do with."""
        record = self._board.records.get(queue)
        if record is None:
            return None
        window = record.window
        return Progress(record.state, record.generation, window.low, window.next, record.acked)

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are owned, in order."""
        return tuple(self._in(frozenset({State.OWNED})))

    def looks(self) -> list[QueueLook]:
        """Return what can be told of each queue that is in its life here, in order."""
        records = self._board.records
        return [look_at(records[queue]) for queue in in_order(records)]

    def hazards(self) -> tuple[Hazard, ...]:
        """Return what looks wrong now, in the group and with its own queues."""
        stopped = [sentence for broker in self._board.at_broker for sentence in self._stopped(broker)]
        return self.views.hazards + self._stalls.hazards + tuple(Hazard("unreadable", each) for each in stopped)

    def owned(self) -> Owned | None:
        """Return what each member had when this one last planned; None: that is not known."""
        return self.views.owned

    @property
    def avoided(self) -> int:
        """How many messages were in hand when their queue was given up, and were finished and committed before that."""
        return self.lines.avoided

    def set_chunk(self, topic: str, messages: int) -> None:
        """Give handlers so many messages of a topic at once from now on."""
        self._lives.handling.chunks[topic] = messages

    def holdings(self, now_ms: int, about: Sequence[Queue] = ()) -> Holdings:
        """Return what to answer a member that asks what we hold, and names queues that it is about to take."""
        self._board.now_ms = max(self._board.now_ms, now_ms)
        return Holdings(
            held=tuple(self._in(HELD)),
            draining=tuple(self._in(frozenset({State.DRAINING, State.COMMITTING}))),
            # Who only waits for a lock takes nothing before it has it: nobody has to give way to that.
            wanted=tuple(self._in(frozenset({State.ASKING}))),
            departed=self._lives.asking.departed(),
            unheard=self.views.unheard_owners(),
            may_hold=self._lives.asking.possible_holders(about),
            stopped=tuple(sentence for broker in self._board.at_broker for sentence in self._stopped(broker)),
        )

    def may_start(self, queue: Queue, generation: int, now_ms: int) -> bool:
        """Say whether one more message of a chunk may be begun; if not, tell of it as skipped.

        Where messages are handled side by side a queue that is given away finishes the chunks that it began: what is
        behind them is done, and whoever takes the queue after a message that was skipped would handle it again. Who
        polls takes them in order, and gives back what it did not come to.

        It changes nothing, and may be asked from any thread.
        """
        record = self._board.records.get(queue)
        if record is None or record.generation != generation or record.is_suspended or record.stopped:
            return False
        is_side_by_side = self.options.mode is not Mode.ORDERLY and self.options.has_retries
        is_finishing = record.state is State.DRAINING and is_side_by_side
        if record.state is not State.OWNED and not is_finishing:
            return False
        taking = self._lives.taking
        if not taking.fence_holds(record):
            return False
        return record.manner is Manner.FREE or now_ms < taking.fence_end_ms(record)

    def _in(self, states: frozenset[State]) -> list[Queue]:
        return in_order(queue for queue, record in self._board.records.items() if record.state in states)

    def _held(self) -> list[Queue]:
        return [queue for queue, record in self._board.records.items() if record.state in HELD]

    def _claims(self, broker: str) -> dict[Queue, int]:
        """Return what we work on at a broker, under which epochs: what it is to believe after a restart."""
        records = self._board.at_broker.get(broker, {})
        return {
            queue: record.epoch
            for queue, record in records.items()
            if record.epoch is not None and record.state in HELD and record.manner is Manner.LEASED
        }

    def _stopped(self, broker: str) -> tuple[str, ...]:
        """Return which queues of a broker stand still at what cannot be read, in sentences."""
        return tuple(
            f"{queue} stands still at offset {record.stopped[0]}, which cannot be read: {record.stopped[1]}"
            for queue, record in self._board.at_broker.get(broker, {}).items()
            if record.stopped is not None
        )

    # -- what is not of one queue -------------------------------------------------------------------------------------

    def _follow_plan(self) -> None:
        plan = self.views.plan()
        if plan is None or self._board.is_leaving:
            return
        if self._abandoned:
            self._want_abandoned(plan)
        if plan is self._plan:
            return
        if plan == self._plan:
            self._plan = plan
            return
        self._plan = plan
        planned = frozenset(plan)
        gone = [record for queue, record in self._board.records.items() if record.wanted and queue not in planned]
        for record in gone:
            self._board.see(record, Seen.PLANNED_OUT)
        for queue in plan:
            self._lives.plan_in(queue)

    def _want_abandoned(self, plan: tuple[Queue, ...]) -> None:
        """Want what came back with its broker before any plan was made without it."""
        readable = self.views.queues()
        back = [queue for queue in self._abandoned if queue in readable]
        for queue in back:
            del self._abandoned[queue]
            if queue in plan:
                self._lives.plan_in(queue)

    def _line_cut(self, event: LineCut) -> None:
        broker, lives = event.broker, self._lives
        lives.starting.cut(broker)
        lives.committing.cut(broker)
        lives.asking.cut(broker)
        lives.taking.cut(broker)
        for record in list(self._board.at_broker.get(broker, {}).values()):
            self._board.see(record, Seen.LINE_CUT, True)
        self._watch_gone(broker)

    def _watch_gone(self, broker: str) -> None:
        due_ms = self._board.now_ms + self.options.times.broker_gone_ms
        self._board.timers.at(due_ms, self._look_for_broker, broker, self._board.now_ms)

    def _look_for_broker(self, broker: str, cut_ms: int) -> None:
        """Give up what a broker has that is neither reachable nor in any route for long."""
        records = self._board.at_broker.get(broker)
        if not records or self.lines.is_open(broker):
            return
        if self._board.now_ms - cut_ms < self.options.times.broker_gone_ms:
            return
        readable = self.views.queues()
        for record in list(records.values()):
            if record.queue not in readable:
                record.wanted = False
                self._abandoned[record.queue] = None
                self._board.see(record, Seen.GIVEN_UP, "given up, since their broker is gone")
        self._watch_gone(broker)

    def _beat_answered(self, event: BeatAnswered) -> None:
        if not self._lives.taking.proven(event.broker):
            return
        for record in list(self._board.at_broker.get(event.broker, {}).values()):
            if record.state in _PROVABLE:
                self._board.see(record, Seen.LINE_PROVEN)

    def _offset_reset(self, event: OffsetReset) -> None:
        record = self._board.records.get(event.queue)
        if record is not None and record.state in HELD:
            self._board.see(record, Seen.OFFSET_RESET, event)

    def _poked(self, event: Poked) -> None:
        self._lives.asking.poked(event)
        for queue in event.wanted:
            record = self._board.records.get(queue)
            self._board.see(record or Record(queue, 0, self._board.now_ms), Seen.POKED)

    def _tell_change(self) -> None:
        """Tell all brokers that what we own changed; a storm of changes is told of a few times."""
        self._lives.has_changed = False
        self._stalls.begin()
        if self.options.topic_messages is not None or self.options.topic_bytes is not None:
            self._lives.pulling.pull_held_back(self._board.records.values())
        if self._is_telling:
            return
        gap_ms = self.options.times.round_gap_ms
        due_ms = self._board.now_ms if self._told_ms is None else max(self._told_ms + gap_ms, self._board.now_ms)
        if due_ms <= self._board.now_ms:
            self._tell()
        else:
            self._is_telling = True
            self._board.timers.at(due_ms, self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        self._told_ms = self._board.now_ms
        self._board.actions += self.lines.beat(None, self._board.now_ms)
