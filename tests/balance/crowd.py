"""Members that only look at their group: brokers that list, members that plan, and time that a test moves.

Members hold queues by fiat: `carry_out` moves one queue at a time from who should not have it to who should. What goes
between them takes as long as a seed says, so that lists arrive in any order.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from steelyard.balance.actions import Action, AskGroup, AskHolders, AskRoute, AskUptime, Heartbeat, Report
from steelyard.balance.allocate import Average, Sticky, Strategy
from steelyard.balance.events import (
    BeatAnswered,
    Event,
    GroupFailed,
    GroupSeen,
    HoldersFailed,
    HoldersSeen,
    LineCut,
    LineOpened,
    MemberFacts,
    MembersChanged,
    RouteSeen,
    Tick,
    UptimeSeen,
)
from steelyard.balance.lines import Lines
from steelyard.balance.member_options import MemberOptions, Mode, Times
from steelyard.balance.views import Views
from steelyard.model import Queue, Subscription
from steelyard.sim.chance import Chance

GROUP = "billing"
RETRY = f"%RETRY%{GROUP}"
NAMES = [f"c{number}@sy1" for number in range(8)]
TWO = {"a": {"t": 4, RETRY: 1}, "b": {"t": 3, RETRY: 1}}


class Broker:
    """One broker: its queues, its members, and whether it tells who owns what."""

    def __init__(self, name: str, queues: Mapping[str, int], *, ours: bool) -> None:
        self.name = name
        self.queues = dict(queues)
        self.ours = ours
        self.listed: dict[str, Watcher | None] = {}
        self.is_up = True
        self.is_silent = False
        self.is_settled = True
        self.hazards: tuple[str, ...] = ()
        self.beats: list[tuple[str, Heartbeat]] = []
        self.asked = 0
        self.dead_lines: set[str] = set()
        """Members that are listed a second time, by a line that is closed, on which they are asked."""


class Watcher:
    """One member: its lines, its views, and what it holds."""

    def __init__(self, options: MemberOptions) -> None:
        self.id = options.id
        self.options = options
        self.lines = Lines(options)
        self.views = Views(options, self.lines)
        self.views.held_by_me = lambda: self.held
        self.held: set[Queue] = set()
        self.told: list[Report] = []
        self.is_mute = False
        """It does not answer what it holds."""
        self.slow_ms = 0
        """How long it takes to answer that."""
        self.holders_asked = 0
        self.asked = 0
        """How often it was asked what it holds, answered or not."""

    @property
    def plan(self) -> tuple[Queue, ...]:
        """Return its plan, nothing if it has none."""
        return self.views.plan() or ()

    @property
    def due_ms(self) -> int:
        """Return when it wants to be told that time passed."""
        return min(self.views.due_ms(), self.lines.due_ms())


class Crowd:
    """Brokers and members, and what is under way between them."""

    def __init__(
        self,
        brokers: Mapping[str, Mapping[str, int]],
        *,
        ours: bool = True,
        strategy: Strategy | None = None,
        times: Times | None = None,
        seed: int = 0,
        slowest_ms: int = 20,
    ) -> None:
        self.now_ms = 10_000
        self.brokers = {name: Broker(name, queues, ours=ours) for name, queues in brokers.items()}
        self.members: dict[str, Watcher] = {}
        self.routed: dict[str, Mapping[str, int]] = {name: dict(queues) for name, queues in brokers.items()}
        self.is_nameserver_blank = False
        self._times = times or Times()
        self._strategy = strategy or Sticky()
        self._chance = Chance(seed)
        self._slowest_ms = slowest_ms
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    # -- what a test does ----------------------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *topics: str,
        mode: Mode = Mode.CONCURRENT,
        strategy: Strategy | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> Watcher:
        """Start a member that reads these topics, or all."""
        wanted = topics or tuple(sorted({topic for broker in self.brokers.values() for topic in broker.queues}))
        options = MemberOptions(
            GROUP,
            name,
            {topic: Subscription(topic, (filters or {}).get(topic, "*")) for topic in wanted},
            mode=mode,
            strategy=strategy or self._strategy,
            java_strategy=Average(),
            times=self._times,
        )
        member = self.members[name] = Watcher(options)
        self.hear(member, Tick())
        for broker in self.brokers.values():
            if broker.is_up:
                self.open(member, broker)
        return member

    def crash(self, name: str) -> None:
        """End a member without a word: its lines close, what it held is nobody's."""
        del self.members[name]
        for broker in self.brokers.values():
            self.unlist(broker, name)

    def unlist(self, broker: Broker, name: str, *, notice: bool = True) -> None:
        """Take a member off one broker's list."""
        if name in broker.listed:
            del broker.listed[name]
            if notice:
                self.notify(broker)

    def list_stranger(self, name: str) -> None:
        """Put a member on every list that nobody here runs."""
        for broker in self.brokers.values():
            broker.listed[name] = None
            self.notify(broker)

    def open(self, member: Watcher, broker: Broker) -> None:
        """Give a member a line to a broker."""
        self._tell(member, LineOpened(broker.name))

    def cut(self, member: Watcher, broker: Broker) -> None:
        """Take the line of a member to a broker away; the list is not touched."""
        self.hear(member, LineCut(broker.name))

    def notify(self, broker: Broker) -> None:
        """Tell the members that a broker lists of a change."""
        for member in broker.listed.values():
            if member is not None:
                self._tell(member, MembersChanged(broker.name))

    def hear(self, member: Watcher, event: Event) -> None:
        """Tell a member something now, if it is still there, and do what it wants done."""
        if self.members.get(member.id) is not member:
            return
        actions = member.lines.step(event, self.now_ms)
        actions += member.views.step(event, self.now_ms)
        for action in actions:
            self._do(member, action)

    def run(self, for_ms: int) -> None:
        """Let time pass."""
        end_ms = self.now_ms + for_ms
        while True:
            wakes = [(max(member.due_ms, self.now_ms), name) for name, member in self.members.items()]
            at_ms, name = min(wakes, default=(end_ms + 1, ""))
            if self._coming and self._coming[0][0] <= min(at_ms, end_ms):
                self.now_ms, _, act = heappop(self._coming)
                act()
            elif at_ms <= end_ms:
                self.now_ms = at_ms
                self.hear(self.members[name], Tick())
                assert self.members[name].due_ms > at_ms, "what is due is done"
            else:
                self.now_ms = end_ms
                return

    def carry_out(self, steps: int = 1_000_000) -> int:
        """Move queues one at a time towards the plans, at most so many; return how many moved."""
        done = 0
        for member in self.members.values():
            for queue in sorted(member.held - set(member.plan)):
                if done < steps:
                    member.held.discard(queue)
                    done += 1
        for member in self.members.values():
            for queue in member.plan:
                if done < steps and self.owner(queue) is None:
                    member.held.add(queue)
                    done += 1
        return done

    def settle(self, most: int = 30) -> None:
        """Let members look and carry out until nothing moves any more."""
        for _ in range(most):
            for member in self.members.values():
                member.views.ask_now(self.now_ms)
            self.run(1_000)
            if not self.carry_out():
                return
        raise AssertionError("members do not come to rest")

    # -- what a test looks at ------------------------------------------------------------------------------------------

    def owner(self, queue: Queue) -> str | None:
        """Return who holds a queue."""
        return next((member.id for member in self.members.values() if queue in member.held), None)

    def readable(self) -> set[Queue]:
        """Return all queues that there are."""
        return {
            Queue(topic, broker.name, number)
            for broker in self.brokers.values()
            for topic, count in broker.queues.items()
            for number in range(count)
        }

    def planned(self, by: Iterable[Watcher] | None = None) -> list[Queue]:
        """Return all plans together, sorted: what two members plan is in it twice."""
        return sorted(queue for member in by or self.members.values() for queue in member.plan)

    # -- hands ---------------------------------------------------------------------------------------------------------

    def _later(self, act: Callable[[], None], least_ms: int = 0) -> None:
        self._number += 1
        at_ms = self.now_ms + least_ms + self._chance.randint(0, self._slowest_ms)
        heappush(self._coming, (at_ms, self._number, act))

    def _tell(self, member: Watcher, event: Event, least_ms: int = 0) -> None:
        self._later(lambda: self.hear(member, event), least_ms)

    def _do(self, member: Watcher, action: Action) -> None:
        match action:
            case AskRoute():
                self._tell(member, RouteSeen(action.topic, self._route(action.topic)))
            case Heartbeat():
                self._beat(member, self.brokers[action.broker], action)
            case AskUptime():
                self._tell(member, UptimeSeen(action.broker, 1_000_000))
            case AskGroup():
                self._ask_group(member, self.brokers[action.broker], action)
            case AskHolders():
                self._ask_holders(member, action)
            case Report():
                member.told.append(action)
            case _:
                raise AssertionError(f"a view does not ask for {action}")

    def _route(self, topic: str) -> tuple[Queue, ...]:
        if self.is_nameserver_blank:
            return ()
        found = [Queue(topic, name, n) for name, queues in self.routed.items() for n in range(queues.get(topic, 0))]
        self._chance.shuffle(found)
        return tuple(found)

    def _beat(self, member: Watcher, broker: Broker, beat: Heartbeat) -> None:
        broker.beats.append((member.id, beat))
        if not broker.is_up:
            return
        if member.id not in broker.listed:
            broker.listed[member.id] = member
            self.notify(broker)
        self._tell(member, BeatAnswered(broker.name, broker.ours, 3_000 if broker.ours else None))

    def _ask_group(self, member: Watcher, broker: Broker, ask: AskGroup) -> None:
        assert member.lines.is_registered(broker.name), "a broker is asked after it heard of us"
        broker.asked += 1
        if broker.is_silent or not broker.is_up:
            self._tell(member, GroupFailed(broker.name, ask.ticket), 3_000)
        else:
            # What the broker says is what it knows when the question arrives.
            self._later(lambda: self._tell(member, self._seen(broker, ask.ticket)))

    def _seen(self, broker: Broker, ticket: int) -> GroupSeen:
        ids = [*broker.listed, *sorted(broker.dead_lines)]
        self._chance.shuffle(ids)
        if not broker.ours:
            return GroupSeen(broker.name, tuple(ids), ticket=ticket)
        queues = (queue for queue in sorted(self.readable()) if queue.broker == broker.name)
        return GroupSeen(
            broker.name,
            tuple(ids),
            epoch=1,
            settled=broker.is_settled,
            members=tuple(_facts(name, broker.listed[name]) for name in ids),
            owners={queue: owner for queue in queues if (owner := self.owner(queue))},
            queues=dict(broker.queues),
            hazards=broker.hazards,
            ticket=ticket,
        )

    def _ask_holders(self, member: Watcher, ask: AskHolders) -> None:
        member.holders_asked += 1
        limit_ms = 10_000 if ask.is_patient else 3_000
        peer = self.members.get(ask.member)
        if peer is not None:
            peer.asked += 1
        if peer is None:
            self._tell(member, HoldersFailed(ask.broker, ask.member, gone=True, ticket=ask.ticket))
        elif ask.member in self.brokers[ask.broker].dead_lines:
            self._tell(member, HoldersFailed(ask.broker, ask.member, closed=True, ticket=ask.ticket))
        elif peer.is_mute or peer.slow_ms > limit_ms:
            self._tell(member, HoldersFailed(ask.broker, ask.member, ticket=ask.ticket), limit_ms)
        else:
            filters = {topic: wanted.expression for topic, wanted in peer.options.topics.items()}
            seen = HoldersSeen(
                ask.broker,
                ask.member,
                frozenset(peer.held),
                ticket=ask.ticket,
                unheard=peer.views.unheard_owners(),
                filters=filters,
            )
            self._tell(member, seen, peer.slow_ms)


def _facts(name: str, member: Watcher | None) -> MemberFacts:
    if member is None:
        return MemberFacts(name)
    options = member.options
    topics = tuple(sorted(options.all_topics))
    return MemberFacts(name, ours=True, leaving=member.lines.leaving, strategy=options.strategy.name, topics=topics)


def settled(crowd: Crowd, members: int = 3) -> list[Watcher]:
    """Let members that read topic t join and come to rest."""
    joined = [crowd.join(name, "t") for name in NAMES[:members]]
    crowd.run(1_000)
    crowd.carry_out()
    crowd.settle()
    assert crowd.planned() == sorted(crowd.readable())
    return joined
