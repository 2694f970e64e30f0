"""Hands for one member that do anything which the promises of events.py allow, and watch what it wants.

A list of numbers decides what happens next: which unanswered request is answered and how, whether a line is cut, what
the plan is, how long nothing happens. The broker here is a table of stored offsets and a log that never ends; other
members are made up. Whatever the member wants is checked when it says so.
"""

from collections.abc import Callable, Iterator

from steelyard.balance.group.actions import (
    Action,
    Commit,
    HandleMessages,
    LockQueues,
    MemberLeft,
    ProbeOwnership,
    PullMessages,
    QueryMemberList,
    QueryStartOffset,
    QueryUptime,
    RenewLocks,
    SendBackMessage,
    SendHeartbeat,
    UnlockQueues,
    UnregisterMember,
)
from steelyard.balance.group.events import (
    CommitConfirmed,
    CommitFailed,
    CommitRefused,
    ConnectionLost,
    ConnectionOpened,
    Event,
    Handled,
    HandoverRequested,
    HeartbeatAcknowledged,
    HeartbeatFailed,
    LeaveRequested,
    LockFailed,
    LocksAnswered,
    MemberListFailed,
    MemberListReceived,
    OffsetReset,
    OwnershipProbeFailed,
    OwnershipReported,
    Pulled,
    PullFailed,
    PullOutcome,
    SendBackFailed,
    SentBack,
    StartOffsetFailed,
    StartOffsetReceived,
    Tick,
    Unlocked,
    UnlockFailed,
    UptimeReceived,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.balance.group.queue_states import QueueState
from steelyard.model import Queue
from tests.balance.member_harness import ME, PEER, MemberHarness

FOREIGN = "java#1"
BROKERS = ("b", "c")
QUEUES = tuple(Queue("t", broker, number) for broker in BROKERS for number in (0, 1))
BASE = 5

Answer = tuple[Event, ...]


class Chaos:
    """A member among unreliable brokers."""

    def __init__(self, choices: Iterator[int], mode: ConsumeMode, *, ours: bool, chunk: int = 1) -> None:
        self.stage = MemberHarness(ours=ours, mode=mode, handlers=3, chunk=chunk, max_attempts=3, queue_messages=6)
        self.stage.answers_heartbeats = False
        self.member = self.stage.member
        self.mode, self.ours = mode, ours
        self.choices = choices
        self.pending: list[Action] = []
        self.open: set[str] = set()
        self.beats: dict[str, list[int]] = {}
        self.proven_ms: dict[str, int] = {}
        self.handlers: list[tuple[HandleMessages, list[int]]] = []
        self.stored: dict[Queue, int] = {}
        self.epoch = 1
        self.finished: dict[Queue, set[int]] = {queue: set() for queue in QUEUES}
        self.base = dict.fromkeys(QUEUES, BASE)
        self.started: set[tuple[Queue, int, int, int]] = set()
        self.failed: set[tuple[Queue, int, int]] = set()
        self.is_left = False
        self.is_leaving = False
        self.is_kind = False
        """Everything goes well from now on."""

    def choose(self, most: int) -> int:
        """Return a number below ``most``; 0 once there are no choices left."""
        return next(self.choices, 0) % most

    # -- what happens -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Do what the choices say until there are none."""
        steps: tuple[Callable[[], None], ...] = (
            *(self.answer,) * 10,
            *(self.finish_handler,) * 4,
            *(self.pass_time,) * 2,
            self.toggle_connection,
            self.change_plan,
            self.meddle,
        )
        for broker in BROKERS:
            self.open_connection(broker)
        self.change_plan()
        for choice in self.choices:
            steps[choice % len(steps)]()

    def process(self, event: Event) -> None:
        """Process an event and check what follows."""
        for action in self.member.step(event, self.stage.now_ms):
            self.stage.actions.append(action)
            self.check(action)

    def pass_time(self) -> None:
        """Let time pass, a little or much; ticks come when they are due, or once, late."""
        wait_ms = (1, 60, 250, 1_100, 1_100, 3_100, 10_000, 35_000)[self.choose(8)]
        is_paused = self.choose(5) == 4
        end_ms = self.stage.now_ms + wait_ms
        for _ in range(5_000):
            due_ms = self.member.due_ms()
            if is_paused or due_ms > end_ms:
                break
            self.stage.now_ms = max(self.stage.now_ms, due_ms)
            self.process(Tick())
        else:
            raise AssertionError("ticks without end")
        self.stage.now_ms = end_ms
        self.process(Tick())

    def toggle_connection(self) -> None:
        """Lose a connection, or open one."""
        broker = BROKERS[self.choose(2)]
        if broker in self.open:
            self.open.discard(broker)
            self.beats[broker] = []
            lost = [action for action in self.pending if _broker(action) == broker]
            self.pending = [action for action in self.pending if _broker(action) != broker]
            for action in lost:
                # It may have been executed all the same.
                if isinstance(action, Commit) and self.choose(2):
                    self.store(action)
            self.process(ConnectionLost(broker))
        else:
            self.open_connection(broker)

    def open_connection(self, broker: str) -> None:
        """Open a connection."""
        self.open.add(broker)
        self.beats[broker] = []
        self.process(ConnectionOpened(broker))

    def change_plan(self) -> None:
        """Plan other queues."""
        mask = self.choose(1 << len(QUEUES))
        self.stage.rebalancer.fake_plan = tuple(queue for at, queue in enumerate(QUEUES) if mask >> at & 1)
        self.process(Tick())

    def meddle(self) -> None:
        """Do something rare."""
        queue = QUEUES[self.choose(len(QUEUES))]
        match self.choose(8):
            case 0 | 1:
                self.process(HandoverRequested(PEER, (queue,)))
            case 2:
                self.stage.rebalancer.foreign = not self.stage.rebalancer.foreign
            case 3:
                self.stage.rebalancer.fake_listed = ((ME,), (ME, PEER), (ME, PEER, FOREIGN))[self.choose(3)]
            case 4 if self.mode is not ConsumeMode.BROADCAST:
                # Another member was here, and did what there was to do.
                self.stored[queue] = self.base[queue] = self.stored.get(queue, BASE) + 3
            case 5 if self.mode is not ConsumeMode.BROADCAST:
                offset = self.stored[queue] = max(BASE, self.stored.get(queue, BASE) - 2)
                self.process(OffsetReset(queue, offset))
            case 6 if self.choose(3) == 2:
                self.is_leaving = True
                self.process(LeaveRequested((None, 0, 2_000)[self.choose(3)]))
            case _:
                pass

    def finish_handler(self) -> None:
        """Let a handler end, wholly or in part."""
        if not self.handlers:
            return
        at = self.choose(len(self.handlers))
        handle, left = self.handlers[at]
        count = 1 + self.choose(len(left))
        part, rest = left[:count], left[count:]
        how = self.choose(4)
        done, failed, skipped = part, [], []
        if how == 2 and not self.is_kind:
            # In order, messages behind a failure are not started.
            part, rest = (left, []) if self.mode is ConsumeMode.ORDERLY else (part, rest)
            done, failed = part[:-1], part[-1:]
        elif how == 3 and self.chunk_rest(handle, part):
            done, skipped = [], part
            if self.mode is ConsumeMode.ORDERLY:
                skipped, rest = left, []
        if rest:
            self.handlers[at] = handle, rest
        else:
            del self.handlers[at]
        state = self.member.states().get(handle.queue)
        if state is not QueueState.COMMITTING:
            self.finished[handle.queue].update(done)
            if self.mode is ConsumeMode.BROADCAST:
                self.finished[handle.queue].update(failed)
        self.failed.update((handle.queue, handle.generation, offset) for offset in failed)
        for offset in skipped:
            self.started.discard((handle.queue, handle.generation, offset, handle.attempt))
        self.process(Handled(handle.queue, handle.generation, done, failed, skipped=skipped))

    def chunk_rest(self, handle: HandleMessages, part: list[int]) -> bool:
        """Whether these were not begun: they are not the first of their chunk."""
        return len(handle.offsets) > 1 and handle.offsets[0] not in part

    # -- answers ------------------------------------------------------------------------------------------------------

    def answer(self) -> None:
        """Answer one of the unanswered requests."""
        if self.pending:
            action = self.pending.pop(self.choose(len(self.pending)))
            event = self.outcome(action, 0 if self.is_kind else max(0, self.choose(12) - 8))
            if isinstance(event, Unlocked | LocksAnswered | UnlockFailed | LockFailed):
                assert not [a for a in self.pending if _locks(a) and _broker(a) == event.broker]
            self.process(event)

    def outcome(self, action: Action, how: int) -> Event:
        """Make up the outcome of a request: 3 is bad, 0 is as good as can be."""
        if isinstance(action, SendHeartbeat | QueryUptime):
            return self.heartbeat_outcome(action, how)
        if isinstance(action, QueryMemberList | ProbeOwnership):
            return self.outcome_of_question(action, how)
        if isinstance(action, LockQueues | RenewLocks | UnlockQueues):
            return self.outcome_of_lock(action, how)
        return self.outcome_of_queue(action, how)

    def heartbeat_outcome(self, action: SendHeartbeat | QueryUptime, how: int) -> Event:
        """Answer a heartbeat, or for how long the broker has been running."""
        broker = action.broker
        if isinstance(action, QueryUptime):
            return UptimeReceived(broker, 1_000 if how == 3 else 10**9)
        sent_ms = self.beats[broker].pop(0)
        if how == 3:
            return HeartbeatFailed(broker)
        self.proven_ms[broker] = max(sent_ms, self.proven_ms.get(broker, 0))
        return HeartbeatAcknowledged(broker, self.ours, 3_000 if self.ours else None)

    def outcome_of_question(self, action: QueryMemberList | ProbeOwnership, how: int) -> Event:
        """Answer with the members, or with what one of them holds."""
        broker, ticket = action.broker, action.request_id
        if isinstance(action, QueryMemberList):
            ids = self.stage.rebalancer.fake_listed
            return MemberListFailed(broker, ticket) if how == 3 else MemberListReceived(broker, ids, request_id=ticket)
        if how == 3:
            return OwnershipProbeFailed(broker, action.member, is_unknown=self.choose(2) == 1, request_id=ticket)
        held, wanted = (frozenset(action.waiting_for if how == which else ()) for which in (2, 1))
        return OwnershipReported(broker, action.member, held, wanted, request_id=ticket, asked_ms=action.asked_ms)

    def outcome_of_lock(self, action: LockQueues | RenewLocks | UnlockQueues, how: int) -> Event:
        """Grant or deny locks."""
        broker, queues = action.broker, action.queues
        if isinstance(action, UnlockQueues):
            return UnlockFailed(broker, queues) if how == 3 else Unlocked(broker, queues)
        if how == 3:
            return LockFailed(broker, queues, is_forbidden=self.choose(6) == 5)
        self.epoch += isinstance(action, LockQueues)
        granted = [queue for queue in queues if self.is_kind or self.choose(6) < 5]
        epochs = dict.fromkeys(granted, self.epoch if self.ours else None)
        return LocksAnswered(broker, epochs, dict.fromkeys((queue for queue in queues if queue not in epochs), PEER))

    def outcome_of_queue(self, action: Action, how: int) -> Event:
        """Answer what concerns the messages of a queue."""
        match action:
            case QueryStartOffset(queue):
                stored = self.stored.get(queue)
                if how == 3:
                    return StartOffsetFailed(queue)
                return StartOffsetReceived(queue, BASE if stored is None else stored, stored=stored is not None)
            case PullMessages():
                return self.pulled(action, how)
            case Commit():
                return self.committed(action, how)
            case SendBackMessage(queue, generation, offset):
                if how == 3:
                    return SendBackFailed(queue, generation, offset)
                self.finished[queue].add(offset)
                return SentBack(queue, generation, offset)
            case _:
                raise AssertionError(action)

    def committed(self, commit: Commit, how: int) -> Event:
        """Store an offset, or not, or with an unknown outcome."""
        if how < 3:
            self.store(commit)
            return CommitConfirmed(commit.queue, commit.offset)
        if self.choose(3) == 2 and self.ours and self.mode is not ConsumeMode.BROADCAST:
            return CommitRefused(commit.queue, commit.offset)
        if self.choose(2):
            self.store(commit)
        return CommitFailed(commit.queue, commit.offset)

    def pulled(self, pull: PullMessages, how: int) -> Event:
        """Answer a pull: every seventh offset is no message of ours."""
        if how == 3:
            return PullFailed(pull.queue, pull.generation, is_busy=self.choose(2) == 1)
        if pull.is_long_poll and (how == 2 or self.is_kind):
            return Pulled(pull.queue, pull.generation, PullOutcome.NOTHING, pull.offset)
        offsets = [offset for offset in range(pull.offset, pull.offset + 1 + self.choose(5)) if is_message(offset)]
        outcome = PullOutcome.FOUND if offsets else PullOutcome.NOTHING
        after = pull.offset + 1 if not offsets else offsets[-1] + 1
        messages = [f"m{offset}" for offset in offsets]
        return Pulled(pull.queue, pull.generation, outcome, after, offsets, messages, 10 * len(offsets))

    def store(self, commit: Commit) -> None:
        """Let the broker keep an offset."""
        self.stored[commit.queue] = commit.offset

    # -- what is checked ----------------------------------------------------------------------------------------------

    def check(self, action: Action) -> None:
        """See whether the member may want this."""
        assert not self.is_left, f"{action} after it left"
        broker = _broker(action)
        if broker is not None:
            assert broker in self.open, f"{action} without a line"
        match action:
            case SendHeartbeat(sent_to):
                self.beats[sent_to].append(self.stage.now_ms)
            case LockQueues() | RenewLocks() | UnlockQueues():
                others = [each for each in self.pending if _locks(each) and _broker(each) == broker]
                assert not others, f"{action} while {others} is unanswered"
                assert self.mode is not ConsumeMode.BROADCAST
            case Commit(queue):
                assert not [each for each in self.pending if isinstance(each, Commit) and each.queue == queue]
                self.check_commit(action)
            case HandleMessages():
                self.check_handle(action)
            case SendBackMessage(queue, generation, offset):
                assert (queue, generation, offset) in self.failed
                assert self.member.states()[queue] in (QueueState.OWNED, QueueState.DRAINING)
            case UnregisterMember():
                assert not self.member.states()
            case MemberLeft():
                self.is_left = True
            case _:
                pass
        if broker is not None and not isinstance(action, UnregisterMember):
            self.pending.append(action)

    def check_commit(self, commit: Commit) -> None:
        """See that everything below what is committed was finished, by us or before us."""
        below = range(self.base[commit.queue], commit.offset)
        missing = [each for each in below if is_message(each) and each not in self.finished[commit.queue]]
        assert not missing, f"{commit} though {missing} were not finished"

    def check_handle(self, handle: HandleMessages) -> None:
        """See that a message starts once in a generation, in order where that is wanted, and only while it may."""
        queue = handle.queue
        for offset in handle.offsets:
            key = queue, handle.generation, offset, handle.attempt
            assert key not in self.started, f"{key} started twice"
            self.started.add(key)
        self.handlers.append((handle, list(handle.offsets)))
        assert len(self.handlers) <= 3
        if self.mode is ConsumeMode.ORDERLY:
            here = [each for each, _ in self.handlers if (each.queue, each.generation) == (queue, handle.generation)]
            assert len(here) == 1
        elif self.mode is ConsumeMode.CONCURRENT:
            limit_ms = 9_000 if self.ours else 90_000
            assert self.stage.now_ms - self.proven_ms[queue.broker] < limit_ms

    # -- the end ------------------------------------------------------------------------------------------------------

    def be_kind(self) -> None:
        """Let everything go well for a while: the member must come to rest with what is planned, or leave."""
        self.is_kind = True
        self.stage.rebalancer.fake_listed = (ME,)
        self.stage.rebalancer.foreign = False
        if not self.is_left:
            for broker in BROKERS:
                if broker not in self.open:
                    self.open_connection(broker)
            self.stage.rebalancer.fake_plan = QUEUES
        for _ in range(200):
            while not self.is_left and (self.handlers or not all(map(_may_wait, self.pending))):
                self.answer()
                self.finish_handler()
            if self.is_left:
                break
            self.stage.now_ms = max(self.stage.now_ms + 200, min(self.member.due_ms(), self.stage.now_ms + 2_000))
            self.process(Tick())
        if self.is_leaving:
            assert self.is_left, self.member.states()
        else:
            assert self.member.assignment() == QUEUES, self.member.states()


def is_message(offset: int) -> bool:
    """Whether an offset of the log is a message that the group wants."""
    return offset % 7 != 3


def _may_wait(action: Action) -> bool:
    return isinstance(action, PullMessages) and action.is_long_poll


def _locks(action: Action) -> bool:
    return isinstance(action, LockQueues | RenewLocks | UnlockQueues)


def _broker(action: Action) -> str | None:
    if isinstance(action, QueryStartOffset | PullMessages | Commit | SendBackMessage):
        return action.queue.broker
    if isinstance(
        action,
        SendHeartbeat
        | QueryUptime
        | QueryMemberList
        | ProbeOwnership
        | UnregisterMember
        | LockQueues
        | RenewLocks
        | UnlockQueues,
    ):
        return action.broker
    return None
