"""Members that only rebalance: brokers that list, members that plan, and time that a test moves.

Members hold queues by fiat: `carry_out` moves one queue at a time from a member that should not have it to one that
should. What goes between them takes as long as a seed says, so that lists arrive in any order.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from simulator.world import SeededRandom
from steelyard.balance.assignors import Average, Sticky, Strategy
from steelyard.balance.group.actions import (
    Action,
    MemberReport,
    ProbeOwnership,
    QueryMemberList,
    QueryRoute,
    QueryUptime,
    SendHeartbeat,
)
from steelyard.balance.group.events import (
    ConnectionLost,
    ConnectionOpened,
    Event,
    HeartbeatAcknowledged,
    MemberFacts,
    MemberListFailed,
    MemberListReceived,
    MembersChanged,
    OwnershipProbeFailed,
    OwnershipReported,
    RouteReceived,
    Tick,
    UptimeReceived,
)
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import ConsumeMode, MemberOptions, MemberTimings
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.model import Queue, Subscription

GROUP = "billing"
RETRY = f"%RETRY%{GROUP}"
NAMES = [f"c{number}@sy1" for number in range(8)]
TWO = {"a": {"t": 4, RETRY: 1}, "b": {"t": 3, RETRY: 1}}


class Broker:
    """One broker: its queues, its members, and whether it reports the owners."""

    def __init__(self, name: str, queues: Mapping[str, int], *, ours: bool) -> None:
        self.name = name
        self.queues = dict(queues)
        self.ours = ours
        self.listed: dict[str, PlanningMember | None] = {}
        self.is_up = True
        self.is_silent = False
        self.is_settled = True
        self.warnings: tuple[str, ...] = ()
        self.heartbeats: list[tuple[str, SendHeartbeat]] = []
        self.asked = 0
        self.dead_connections: set[str] = set()
        """Members that are listed a second time, with a closed connection, which is used for probes."""


class PlanningMember:
    """One member: its sessions, its rebalancer, and what it holds."""

    def __init__(self, options: MemberOptions) -> None:
        self.id = options.id
        self.options = options
        self.sessions = BrokerSessions(options)
        self.rebalancer = Rebalancer(options, self.sessions)
        self.rebalancer.assignment.held_queues = lambda: self.held
        self.held: set[Queue] = set()
        self.reports: list[MemberReport] = []
        self.is_mute = False
        """It does not answer what it holds."""
        self.slow_ms = 0
        """How long it takes to answer that."""
        self.owners_probed = 0
        self.asked = 0
        """How often it was asked what it holds, answered or not."""

    @property
    def plan(self) -> tuple[Queue, ...]:
        """Return its plan, nothing if it has none."""
        return self.rebalancer.plan() or ()

    @property
    def due_ms(self) -> int:
        """Return when it needs a tick."""
        return min(self.rebalancer.due_ms(), self.sessions.due_ms())


class GroupHarness:
    """Brokers and members, and what is under way between them."""

    def __init__(
        self,
        brokers: Mapping[str, Mapping[str, int]],
        *,
        ours: bool = True,
        strategy: Strategy | None = None,
        times: MemberTimings | None = None,
        seed: int = 0,
        slowest_ms: int = 20,
    ) -> None:
        self.now_ms = 10_000
        self.brokers = {name: Broker(name, queues, ours=ours) for name, queues in brokers.items()}
        self.members: dict[str, PlanningMember] = {}
        self.routed: dict[str, Mapping[str, int]] = {name: dict(queues) for name, queues in brokers.items()}
        self.is_nameserver_blank = False
        self._times = times or MemberTimings()
        self._strategy = strategy or Sticky()
        self._chance = SeededRandom(seed)
        self._slowest_ms = slowest_ms
        self._coming: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    # -- what a test does ----------------------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        *topics: str,
        mode: ConsumeMode = ConsumeMode.CONCURRENT,
        strategy: Strategy | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> PlanningMember:
        """Start a member that reads these topics, or all."""
        wanted = topics or tuple(sorted({topic for broker in self.brokers.values() for topic in broker.queues}))
        options = MemberOptions(
            GROUP,
            name,
            {topic: Subscription(topic, (filters or {}).get(topic, "*")) for topic in wanted},
            mode=mode,
            strategy=strategy or self._strategy,
            mixed_group_strategy=Average(),
            times=self._times,
        )
        member = self.members[name] = PlanningMember(options)
        self.process_now(member, Tick())
        for broker in self.brokers.values():
            if broker.is_up:
                self.open(member, broker)
        return member

    def crash(self, name: str) -> None:
        """End a member without notice: its connections close, and what it held has no owner."""
        del self.members[name]
        for broker in self.brokers.values():
            self.unlist(broker, name)

    def unlist(self, broker: Broker, name: str, *, notice: bool = True) -> None:
        """Take a member off one broker's list."""
        if name in broker.listed:
            del broker.listed[name]
            if notice:
                self.notify(broker)

    def list_foreign(self, name: str) -> None:
        """Put a member on every list that does not run here."""
        for broker in self.brokers.values():
            broker.listed[name] = None
            self.notify(broker)

    def open(self, member: PlanningMember, broker: Broker) -> None:
        """Connect a member to a broker."""
        self._process(member, ConnectionOpened(broker.name))

    def cut(self, member: PlanningMember, broker: Broker) -> None:
        """Close the connection of a member to a broker; the list is not touched."""
        self.process_now(member, ConnectionLost(broker.name))

    def notify(self, broker: Broker) -> None:
        """Notify the members that a broker lists of a change."""
        for member in broker.listed.values():
            if member is not None:
                self._process(member, MembersChanged(broker.name))

    def process_now(self, member: PlanningMember, event: Event) -> None:
        """Let a member process an event now, if it is still there, and carry out its actions."""
        if self.members.get(member.id) is not member:
            return
        actions = member.sessions.step(event, self.now_ms)
        actions += member.rebalancer.step(event, self.now_ms)
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
                self.process_now(self.members[name], Tick())
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
        """Let members rebalance and carry out their plans until nothing moves any more."""
        for _ in range(most):
            for member in self.members.values():
                member.rebalancer.request_rebalance(self.now_ms)
            self.run(1_000)
            if not self.carry_out():
                return
        raise AssertionError("members do not come to rest")

    # -- what a test looks at ------------------------------------------------------------------------------------------

    def owner(self, queue: Queue) -> str | None:
        """Return the holders of a queue."""
        return next((member.id for member in self.members.values() if queue in member.held), None)

    def readable(self) -> set[Queue]:
        """Return all queues that there are."""
        return {
            Queue(topic, broker.name, number)
            for broker in self.brokers.values()
            for topic, count in broker.queues.items()
            for number in range(count)
        }

    def planned(self, by: Iterable[PlanningMember] | None = None) -> list[Queue]:
        """Return all plans together, sorted: what two members plan is in it twice."""
        return sorted(queue for member in by or self.members.values() for queue in member.plan)

    # -- hands ---------------------------------------------------------------------------------------------------------

    def _later(self, act: Callable[[], None], least_ms: int = 0) -> None:
        self._number += 1
        at_ms = self.now_ms + least_ms + self._chance.randint(0, self._slowest_ms)
        heappush(self._coming, (at_ms, self._number, act))

    def _process(self, member: PlanningMember, event: Event, least_ms: int = 0) -> None:
        self._later(lambda: self.process_now(member, event), least_ms)

    def _do(self, member: PlanningMember, action: Action) -> None:
        match action:
            case QueryRoute():
                self._process(member, RouteReceived(action.topic, self._route(action.topic)))
            case SendHeartbeat():
                self._beat(member, self.brokers[action.broker], action)
            case QueryUptime():
                self._process(member, UptimeReceived(action.broker, 1_000_000))
            case QueryMemberList():
                self._ask_group(member, self.brokers[action.broker], action)
            case ProbeOwnership():
                self._probe_owners(member, action)
            case MemberReport():
                member.reports.append(action)
            case _:
                raise AssertionError(f"a view does not ask for {action}")

    def _route(self, topic: str) -> tuple[Queue, ...]:
        if self.is_nameserver_blank:
            return ()
        found = [Queue(topic, name, n) for name, queues in self.routed.items() for n in range(queues.get(topic, 0))]
        self._chance.shuffle(found)
        return tuple(found)

    def _beat(self, member: PlanningMember, broker: Broker, beat: SendHeartbeat) -> None:
        broker.heartbeats.append((member.id, beat))
        if not broker.is_up:
            return
        if member.id not in broker.listed:
            broker.listed[member.id] = member
            self.notify(broker)
        self._process(member, HeartbeatAcknowledged(broker.name, broker.ours, 3_000 if broker.ours else None))

    def _ask_group(self, member: PlanningMember, broker: Broker, ask: QueryMemberList) -> None:
        assert member.sessions.is_registered(broker.name), "a broker is queried after a heartbeat"
        broker.asked += 1
        if broker.is_silent or not broker.is_up:
            self._process(member, MemberListFailed(broker.name, ask.request_id), 3_000)
        else:
            # The broker answers with what it knows when the request arrives.
            self._later(lambda: self._process(member, self._seen(broker, ask.request_id)))

    def _seen(self, broker: Broker, ticket: int) -> MemberListReceived:
        ids = [*broker.listed, *sorted(broker.dead_connections)]
        self._chance.shuffle(ids)
        if not broker.ours:
            return MemberListReceived(broker.name, tuple(ids), request_id=ticket)
        queues = (queue for queue in sorted(self.readable()) if queue.broker == broker.name)
        return MemberListReceived(
            broker.name,
            tuple(ids),
            epoch=1,
            is_settled=broker.is_settled,
            members=tuple(_facts(name, broker.listed[name]) for name in ids),
            owners={queue: owner for queue in queues if (owner := self.owner(queue))},
            queue_counts=dict(broker.queues),
            warnings=broker.warnings,
            request_id=ticket,
        )

    def _probe_owners(self, member: PlanningMember, ask: ProbeOwnership) -> None:
        member.owners_probed += 1
        limit_ms = 10_000 if ask.is_background else 3_000
        peer = self.members.get(ask.member)
        if peer is not None:
            peer.asked += 1
        if peer is None:
            self._process(
                member, OwnershipProbeFailed(ask.broker, ask.member, is_unknown=True, request_id=ask.request_id)
            )
        elif ask.member in self.brokers[ask.broker].dead_connections:
            self._process(
                member,
                OwnershipProbeFailed(ask.broker, ask.member, is_connection_closed=True, request_id=ask.request_id),
            )
        elif peer.is_mute or peer.slow_ms > limit_ms:
            self._process(member, OwnershipProbeFailed(ask.broker, ask.member, request_id=ask.request_id), limit_ms)
        else:
            filters = {topic: wanted.expression for topic, wanted in peer.options.subscriptions.items()}
            seen = OwnershipReported(
                ask.broker,
                ask.member,
                frozenset(peer.held),
                request_id=ask.request_id,
                unresponsive=peer.rebalancer.peer_claims.unresponsive_owners(),
                filters=filters,
            )
            self._process(member, seen, peer.slow_ms)


def _facts(name: str, member: PlanningMember | None) -> MemberFacts:
    if member is None:
        return MemberFacts(name)
    options = member.options
    topics = tuple(sorted(options.all_topics))
    return MemberFacts(
        name, is_steelyard=True, is_leaving=member.sessions.is_leaving, strategy=options.strategy.name, topics=topics
    )


def settled(group_harness: GroupHarness, members: int = 3) -> list[PlanningMember]:
    """Let members that read topic t join and come to rest."""
    joined = [group_harness.join(name, "t") for name in NAMES[:members]]
    group_harness.run(1_000)
    group_harness.carry_out()
    group_harness.settle()
    assert group_harness.planned() == sorted(group_harness.readable())
    return joined
