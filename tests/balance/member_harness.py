"""A harness for one member: events go in by hand, its actions are kept, and time passes as the test says.

The plan and the group are set by hand, so that only the states of queues are tested. Heartbeats are answered
automatically unless a test wants silence.
"""

from collections.abc import Iterable
from typing import TypeVar
from unittest.mock import patch

from steelyard.balance.group.actions import (
    Action,
    Commit,
    HandleMessages,
    LockQueues,
    MemberReport,
    PullMessages,
    RenewLocks,
    SendHeartbeat,
    StartPosition,
    UnlockQueues,
)
from steelyard.balance.group.events import (
    CommitConfirmed,
    ConnectionLost,
    ConnectionOpened,
    Event,
    Handled,
    HeartbeatAcknowledged,
    LocksAnswered,
    MemberListReceived,
    OwnershipReported,
    Pulled,
    PullOutcome,
    StartOffsetReceived,
    Tick,
    Unlocked,
    UptimeReceived,
)
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.member import MemberStateMachine
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings, UnreadablePolicy
from steelyard.balance.group.queue_states import QueueState
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.balance.group.timers import NEVER_MS
from steelyard.model import Queue, Subscription

ME, PEER = "me@sy1", "peer@sy1"
Q, Q1 = Queue("t", "b", 0), Queue("t", "b", 1)
START_MS = 1_000_000

A = TypeVar("A", bound=Action)


class FakeRebalancer(Rebalancer):
    """A rebalancer whose plan and group are set by hand."""

    def __init__(self, options: MemberOptions, sessions: BrokerSessions) -> None:
        super().__init__(options, sessions)
        self.fake_plan: tuple[Queue, ...] | None = None
        self.fake_listed: tuple[str, ...] = (ME,)
        self.fake_departed: frozenset[str] = frozenset()
        self.fake_queues: frozenset[Queue] | None = None
        self.new: frozenset[Queue] = frozenset()
        self.foreign = False
        self.rebalances_requested = 0

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Learn nothing."""
        del event, now_ms
        return []

    def due_ms(self) -> int:
        """Never."""
        return NEVER_MS

    def plan(self) -> tuple[Queue, ...] | None:
        """Return what the test set."""
        return self.fake_plan

    def members(self) -> tuple[str, ...]:
        """Return what the test set."""
        return self.fake_listed

    def listed_members(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return what the test set."""
        del broker, now_ms
        return self.fake_listed

    def has_departed(self, member: str, now_ms: int) -> bool:
        """Return what the test set."""
        del now_ms
        return member in self.fake_departed

    def has_foreign(self) -> bool:
        """Return what the test set."""
        return self.foreign

    def readable_queues(self) -> frozenset[Queue]:
        """Return what the test set, or the plan."""
        return frozenset(self.fake_plan or ()) if self.fake_queues is None else self.fake_queues

    def is_new(self, queue: Queue) -> bool:
        """Return what the test set."""
        return queue in self.new

    def request_rebalance(self, now_ms: int) -> None:
        """Count."""
        del now_ms
        self.rebalances_requested += 1


class MemberHarness:
    """One member and its hands."""

    def __init__(
        self,
        *,
        ours: bool = True,
        mode: ConsumeMode = ConsumeMode.CONCURRENT,
        handlers: int = 20,
        chunk: int = 1,
        times: MemberTimings | None = None,
        max_attempts: int = 16,
        topic_messages: int | None = None,
        queue_messages: int = 1_000,
        start: StartPosition | None = None,
        has_retries: bool = True,
        on_unreadable: UnreadablePolicy = UnreadablePolicy.DEAD_LETTER,
    ) -> None:
        self.ours = ours
        self.now_ms = START_MS
        self.answers_heartbeats = True
        self.actions: list[Action] = []
        """Whatever was wanted since the test last looked."""
        self.options = MemberOptions(
            "g",
            ME,
            {"t": Subscription("t")},
            mode=mode,
            handler_limit=handlers,
            handler_batch=chunk,
            times=times or MemberTimings(),
            max_attempts=max_attempts,
            topic_messages=topic_messages,
            queue_messages=queue_messages,
            start=start or StartPosition(),
            has_retries=has_retries,
            on_unreadable=on_unreadable,
        )
        with patch("steelyard.balance.group.member.Rebalancer", FakeRebalancer):
            self.member = MemberStateMachine(self.options, self.now_ms)
        views = self.member.rebalancer
        assert isinstance(views, FakeRebalancer)
        self.rebalancer = views

    # -- telling ------------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> list[Action]:
        """Process an event; return the actions, with heartbeats answered."""
        wanted: list[Action] = []
        events = [event]
        while events:
            new = self.member.step(events.pop(0), self.now_ms)
            wanted += new
            if self.answers_heartbeats:
                events += [
                    HeartbeatAcknowledged(a.broker, self.ours, 3_000) for a in new if isinstance(a, SendHeartbeat)
                ]
        self.actions += wanted
        return wanted

    def wait(self, wait_ms: int) -> list[Action]:
        """Let time pass, with a tick whenever one is due."""
        end_ms = self.now_ms + wait_ms
        wanted: list[Action] = []
        for _ in range(100_000):
            due_ms = self.member.due_ms()
            if due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            wanted += self.step(Tick())
        else:
            raise AssertionError("ticks without end")
        self.now_ms = end_ms
        wanted += self.step(Tick())
        return wanted

    def connect(self, broker: str = "b", uptime_ms: int | None = 10**9) -> list[Action]:
        """Open a connection to a broker that has been running for long."""
        return self.step(ConnectionOpened(broker)) + self.step(UptimeReceived(broker, uptime_ms))

    def disconnect(self, broker: str = "b") -> list[Action]:
        """Lose the connection to a broker."""
        return self.step(ConnectionLost(broker))

    def plan(self, *queues: Queue) -> list[Action]:
        """Set the plan."""
        self.rebalancer.fake_plan = queues
        return self.step(Tick())

    def grant(self, *queues: Queue, epoch: int = 1) -> list[Action]:
        """Grant the lock or renewal of these queues; those of the same request that are not named are denied."""
        asked = [a for a in self.actions if isinstance(a, LockQueues | RenewLocks)][-1]
        epochs = dict.fromkeys(queues, epoch if self.ours else None)
        denied: dict[Queue, str | None] = {q: PEER if self.ours else None for q in asked.queues if q not in epochs}
        return self.step(LocksAnswered(asked.broker, epochs, denied))

    def deny(self, *queues: Queue, holder: str | None = PEER) -> list[Action]:
        """Deny locks."""
        return self.step(LocksAnswered(queues[0].broker, {}, dict.fromkeys(queues, holder if self.ours else None)))

    def unlocked(self, *queues: Queue) -> list[Action]:
        """Answer an unlock."""
        return self.step(Unlocked(queues[0].broker, queues))

    def offset(self, queue: Queue, offset: int = 0, *, stored: bool = True) -> list[Action]:
        """Answer with a start offset."""
        return self.step(StartOffsetReceived(queue, offset, stored))

    def list_group(self, *ids: str, broker: str = "b") -> list[Action]:
        """Answer the sweep's question for the list of members."""
        self.rebalancer.fake_listed = ids
        ticket = self.last_request_id()
        return self.step(MemberListReceived(broker, ids, request_id=ticket))

    def holds(self, member: str, *queues: Queue, wanted: Iterable[Queue] = (), broker: str = "b") -> list[Action]:
        """Let a member answer what it holds."""
        return self.step(
            OwnershipReported(
                broker, member, frozenset(queues), frozenset(wanted), request_id=self.last_request_id(member)
            )
        )

    def last_request_id(self, member: str | None = None) -> int:
        """Return the ticket of the last question, to the broker or to a member."""
        for action in reversed(self.actions):
            ticket = getattr(action, "request_id", None)
            if ticket is not None and getattr(action, "member", None) == member:
                return int(ticket)
        raise AssertionError("nothing was asked")

    def pulled(self, queue: Queue, *offsets: int, next_offset: int | None = None) -> list[Action]:
        """Answer the last pull of a queue."""
        pull = [a for a in self.actions if isinstance(a, PullMessages) and a.queue == queue][-1]
        after = next_offset if next_offset is not None else (offsets[-1] + 1 if offsets else pull.offset)
        outcome = PullOutcome.FOUND if offsets else PullOutcome.NOTHING
        messages = [f"m{offset}" for offset in offsets]
        return self.step(Pulled(queue, pull.generation, outcome, after, list(offsets), messages, 10 * len(offsets)))

    def handled(self, queue: Queue, *offsets: int, failed: tuple[int, ...] = (), level: int = 0) -> list[Action]:
        """Let handlers end."""
        return self.step(Handled(queue, self.generation(queue), offsets, failed, level))

    def confirmed(self, queue: Queue) -> list[Action]:
        """Confirm the last commit of a queue."""
        commit = [a for a in self.actions if isinstance(a, Commit) and a.queue == queue][-1]
        return self.step(CommitConfirmed(queue, commit.offset))

    # -- looking ------------------------------------------------------------------------------------------------------

    def state(self, queue: Queue = Q) -> QueueState:
        """Return the state of a queue."""
        return self.member.states().get(queue, QueueState.ABSENT)

    def generation(self, queue: Queue) -> int:
        """Return the generation of the last message handed out of a queue."""
        return [a for a in self.actions if isinstance(a, HandleMessages) and a.queue == queue][-1].generation

    def emitted(self, kind: type[A]) -> list[A]:
        """Return what of a kind was wanted so far."""
        return [action for action in self.actions if isinstance(action, kind)]

    def reports(self) -> list[str]:
        """Return the kinds of reports so far."""
        return [action.kind for action in self.emitted(MemberReport)]

    # -- scenes -------------------------------------------------------------------------------------------------------

    def own(self, *queues: Queue, offset: int = 0) -> "MemberHarness":
        """Connect, plan queues, and let the member own them; no peer holds them."""
        self.connect()
        self.plan(*queues)
        if self.options.mode is not ConsumeMode.BROADCAST:
            self.grant(*queues)
            if not self.ours and self.options.mode is ConsumeMode.CONCURRENT:
                self.list_group(ME)
                self.unlocked(*queues)
        for queue in queues:
            self.offset(queue, offset)
        assert [self.state(queue) for queue in queues] == [QueueState.OWNED] * len(queues)
        return self


def kinds(actions: Iterable[Action]) -> list[str]:
    """Name the kinds of actions, heartbeats and reports left out."""
    return [type(a).__name__ for a in actions if not isinstance(a, SendHeartbeat | MemberReport)]


def unlocks(actions: Iterable[Action]) -> list[tuple[Queue, ...]]:
    """Return the queues of each unlock."""
    return [a.queues for a in actions if isinstance(a, UnlockQueues)]


def probing(harness: MemberHarness, *listed: str) -> MemberHarness:
    """Let a member have the lock of a queue on an Apache broker, and see the members listed there."""
    harness.connect()
    harness.plan(Q)
    harness.grant(Q)
    harness.list_group(ME, *listed)
    return harness
