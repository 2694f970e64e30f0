"""A stage for one member: events go in by hand, what it wants done is kept, and time passes as the test says.

The plan and the group are set by hand, so that what is seen is the life of queues and nothing else. Heartbeats are
answered by themselves unless a test wants silence.
"""

from collections.abc import Iterable
from typing import TypeVar
from unittest.mock import patch

from steelyard.balance.actions import Action, Commit, Handle, Heartbeat, Lock, Pull, Renew, Report, Start, Unlock
from steelyard.balance.events import (
    BeatAnswered,
    CommitConfirmed,
    Event,
    GroupSeen,
    Handled,
    HoldersSeen,
    LineCut,
    LineOpened,
    LocksAnswered,
    OffsetSeen,
    Pulled,
    PullOutcome,
    Tick,
    Unlocked,
    UptimeSeen,
)
from steelyard.balance.life import State
from steelyard.balance.lines import Lines
from steelyard.balance.member import Member
from steelyard.balance.member_options import MemberOptions, Mode, OnUnreadable, Times
from steelyard.balance.rounds import NEVER_MS
from steelyard.balance.views import Views
from steelyard.model import Queue, Subscription

__all__ = ["ME", "PEER", "Q1", "HandViews", "Q", "Stage", "asking", "kinds", "unlocks"]

ME, PEER = "me@sy1", "peer@sy1"
Q, Q1 = Queue("t", "b", 0), Queue("t", "b", 1)
START_MS = 1_000_000

A = TypeVar("A", bound=Action)


class HandViews(Views):
    """Views whose plan and group are set by hand."""

    def __init__(self, options: MemberOptions, lines: Lines) -> None:
        super().__init__(options, lines)
        self.hand_plan: tuple[Queue, ...] | None = None
        self.hand_listed: tuple[str, ...] = (ME,)
        self.hand_departed: frozenset[str] = frozenset()
        self.hand_queues: frozenset[Queue] | None = None
        self.new: frozenset[Queue] = frozenset()
        self.foreign = False
        self.asked_now = 0

    def step(self, event: Event, now_ms: int) -> list[Action]:
        """Learn nothing."""
        del event, now_ms
        return []

    def due_ms(self) -> int:
        """Never look."""
        return NEVER_MS

    def plan(self) -> tuple[Queue, ...] | None:
        """Return what the test set."""
        return self.hand_plan

    def members(self) -> tuple[str, ...]:
        """Return what the test set."""
        return self.hand_listed

    def listed(self, broker: str, now_ms: int) -> tuple[str, ...]:
        """Return what the test set."""
        del broker, now_ms
        return self.hand_listed

    def has_departed(self, member: str, now_ms: int) -> bool:
        """Return what the test set."""
        del now_ms
        return member in self.hand_departed

    def has_foreign(self) -> bool:
        """Return what the test set."""
        return self.foreign

    def queues(self) -> frozenset[Queue]:
        """Return what the test set, or the plan."""
        return frozenset(self.hand_plan or ()) if self.hand_queues is None else self.hand_queues

    def is_new(self, queue: Queue) -> bool:
        """Return what the test set."""
        return queue in self.new

    def ask_now(self, now_ms: int) -> None:
        """Count."""
        del now_ms
        self.asked_now += 1


class Stage:
    """One member and its hands."""

    def __init__(
        self,
        *,
        ours: bool = True,
        mode: Mode = Mode.CONCURRENT,
        handlers: int = 20,
        chunk: int = 1,
        times: Times | None = None,
        most_tries: int = 16,
        topic_messages: int | None = None,
        queue_messages: int = 1_000,
        start: Start | None = None,
        has_retries: bool = True,
        on_unreadable: OnUnreadable = OnUnreadable.DEAD_LETTER,
    ) -> None:
        self.ours = ours
        self.now_ms = START_MS
        self.answers_beats = True
        self.actions: list[Action] = []
        """Whatever was wanted since the test last looked."""
        self.options = MemberOptions(
            "g",
            ME,
            {"t": Subscription("t")},
            mode=mode,
            handlers=handlers,
            chunk=chunk,
            times=times or Times(),
            most_tries=most_tries,
            topic_messages=topic_messages,
            queue_messages=queue_messages,
            start=start or Start(),
            has_retries=has_retries,
            on_unreadable=on_unreadable,
        )
        with patch("steelyard.balance.member.Views", HandViews):
            self.member = Member(self.options, self.now_ms)
        views = self.member.views
        assert isinstance(views, HandViews)
        self.views = views

    # -- telling ------------------------------------------------------------------------------------------------------

    def step(self, event: Event) -> list[Action]:
        """Tell an event; return what it made the member want, heartbeats answered."""
        wanted: list[Action] = []
        events = [event]
        while events:
            new = self.member.step(events.pop(0), self.now_ms)
            wanted += new
            if self.answers_beats:
                events += [BeatAnswered(a.broker, self.ours, 3_000) for a in new if isinstance(a, Heartbeat)]
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
        """Open a line to a broker that has been running for long."""
        return self.step(LineOpened(broker)) + self.step(UptimeSeen(broker, uptime_ms))

    def cut(self, broker: str = "b") -> list[Action]:
        """Cut the line to a broker."""
        return self.step(LineCut(broker))

    def plan(self, *queues: Queue) -> list[Action]:
        """Set the plan."""
        self.views.hand_plan = queues
        return self.step(Tick())

    def grant(self, *queues: Queue, epoch: int = 1) -> list[Action]:
        """Grant the lock or renewal of these queues; those of the same request that are not named are denied."""
        asked = [a for a in self.actions if isinstance(a, Lock | Renew)][-1]
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
        """Tell where to start."""
        return self.step(OffsetSeen(queue, offset, stored))

    def list_group(self, *ids: str, broker: str = "b") -> list[Action]:
        """Answer the sweep's question for the list of members."""
        self.views.hand_listed = ids
        ticket = self.last_ticket()
        return self.step(GroupSeen(broker, ids, ticket=ticket))

    def holds(self, member: str, *queues: Queue, wanted: Iterable[Queue] = (), broker: str = "b") -> list[Action]:
        """Let a member answer what it holds."""
        return self.step(
            HoldersSeen(broker, member, frozenset(queues), frozenset(wanted), ticket=self.last_ticket(member))
        )

    def last_ticket(self, member: str | None = None) -> int:
        """Return the ticket of the last question, to the broker or to a member."""
        for action in reversed(self.actions):
            ticket = getattr(action, "ticket", None)
            if ticket is not None and getattr(action, "member", None) == member:
                return int(ticket)
        raise AssertionError("nothing was asked")

    def pulled(self, queue: Queue, *offsets: int, next_offset: int | None = None) -> list[Action]:
        """Answer the last pull of a queue."""
        pull = [a for a in self.actions if isinstance(a, Pull) and a.queue == queue][-1]
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

    def state(self, queue: Queue = Q) -> State:
        """Return where a queue is in its life."""
        return self.member.states().get(queue, State.ABSENT)

    def generation(self, queue: Queue) -> int:
        """Return the generation of the last message handed out of a queue."""
        return [a for a in self.actions if isinstance(a, Handle) and a.queue == queue][-1].generation

    def said(self, kind: type[A]) -> list[A]:
        """Return what of a kind was wanted so far."""
        return [action for action in self.actions if isinstance(action, kind)]

    def reports(self) -> list[str]:
        """Return the kinds of reports so far."""
        return [action.kind for action in self.said(Report)]

    # -- scenes -------------------------------------------------------------------------------------------------------

    def own(self, *queues: Queue, offset: int = 0) -> "Stage":
        """Connect, plan queues, and get them owned; nobody else holds them."""
        self.connect()
        self.plan(*queues)
        if self.options.mode is not Mode.BROADCAST:
            self.grant(*queues)
            if not self.ours and self.options.mode is Mode.CONCURRENT:
                self.list_group(ME)
                self.unlocked(*queues)
        for queue in queues:
            self.offset(queue, offset)
        assert [self.state(queue) for queue in queues] == [State.OWNED] * len(queues)
        return self


def kinds(actions: Iterable[Action]) -> list[str]:
    """Name the kinds of actions, heartbeats and reports left out."""
    return [type(a).__name__ for a in actions if not isinstance(a, Heartbeat | Report)]


def unlocks(actions: Iterable[Action]) -> list[tuple[Queue, ...]]:
    """Return the queues of each unlock."""
    return [a.queues for a in actions if isinstance(a, Unlock)]


def asking(stage: Stage, *listed: str) -> Stage:
    """Let a member have the lock of a queue on Apache's broker, and see who is listed there."""
    stage.connect()
    stage.plan(Q)
    stage.grant(Q)
    stage.list_group(ME, *listed)
    return stage
