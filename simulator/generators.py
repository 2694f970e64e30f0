"""Scenario generators: one small function for each kind of history, so that each has its own seeds.

Everything is drawn from ``SeededRandom(f"{kind}-{seed}")``: the same kind and seed give the same scenario in every
process. A part gets its short name when it is added, so names follow the order of drawing. A seed alone determines the
history: its kind is its position in `SCENARIO_KINDS`, unless one kind is requested. So the order of that table matters.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from simulator.scenario import (
    MACHINE_ROOM,
    FaultKind,
    Scenario,
    ScenarioBroker,
    ScenarioFault,
    ScenarioGroup,
    ScenarioHandler,
    ScenarioMember,
    ScenarioProducer,
    ScenarioTopic,
)
from simulator.world import SeededRandom
from steelyard.errors import ConfigurationError

_T = TypeVar("_T")

_QUIET_MS = 2_000
"""Between the last planned event and healing."""


class _ScenarioDraft:
    """Collects the parts of one scenario.

    >>> draft = _ScenarioDraft("churn", 7)
    >>> draft.add_brokers(steelyard=True, max_count=1)
    >>> draft.add_topic(queues=4), draft.add_group("t1"), draft.add_member("g1", joins_ms=200)
    ('t1', 'g1', 'm1')
    >>> [str(part) for part in draft.build().members]
    ['m1: member of g1, joins at 0.2 s']
    """

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        self.random = SeededRandom(f"{kind}-{seed}")
        self.name_servers = 1
        self.late_deliveries_percent = self.random.choice((0, 1, 1, 5))
        self.lost_notifications_percent = 0
        self._brokers: list[ScenarioBroker] = []
        self._topics: list[ScenarioTopic] = []
        self._groups: list[ScenarioGroup] = []
        self._members: list[ScenarioMember] = []
        self._producers: list[ScenarioProducer] = []
        self._faults: list[ScenarioFault] = []
        self._last_ms = 0

    def chance(self, percent: int) -> bool:
        """Return True with this probability."""
        return self.random.chance(percent)

    def draw_between(self, low: int, high: int) -> int:
        """Return a whole number, both ends included."""
        return self.random.randint(low, high)

    def draw_one(self, choices: Sequence[_T]) -> _T:
        """Return one of these."""
        return self.random.choice(choices)

    def add_brokers(self, *, steelyard: bool | None = None, max_count: int = 2, sync_flush: bool | None = None) -> None:
        """Add one or more brokers: ours or Apache's, drawn if None."""
        is_ours = self.chance(60) if steelyard is None else steelyard
        version = self.draw_one(("4.9", "5.x"))
        is_sync = self.chance(25) if sync_flush is None else sync_flush
        # Only Apache's brokers may have a room in their name: ours have a topic of their name, which allows no @.
        machine_room = f"{MACHINE_ROOM}@" if not is_ours and self.chance(20) else ""
        for number in range(1, self.draw_between(1, max_count) + 1):
            self._brokers.append(ScenarioBroker(f"{machine_room}b{number}", is_ours, version, is_ours and is_sync))

    @property
    def broker_names(self) -> list[str]:
        """The brokers drawn so far."""
        return [broker.name for broker in self._brokers]

    @property
    def is_steelyard(self) -> bool:
        """Whether the brokers are ours."""
        return self._brokers[0].is_steelyard

    def add_topic(self, *, queues: int | None = None) -> str:
        """Add a topic that every broker has."""
        name = f"t{len(self._topics) + 1}"
        count = self.draw_between(1, 4) * (1 if len(self._brokers) > 1 else 2) if queues is None else queues
        self._topics.append(ScenarioTopic(name, count, tuple(self.broker_names)))
        return name

    def add_group(
        self,
        *topics: str,
        mode: str = "concurrent",
        sticky: bool | None = None,
        drain_ms: int | None = 30_000,
        max_attempts: int = 16,
        from_first: bool = True,
    ) -> str:
        """Add a group."""
        name = f"g{len(self._groups) + 1}"
        is_sticky = self.chance(75) if sticky is None else sticky
        self._groups.append(
            ScenarioGroup(
                name,
                topics,
                mode=mode,
                sticky=is_sticky,
                java_strategy=self._java_strategy(),
                drain_ms=drain_ms,
                handlers=self.draw_one((1, 4, 8, 20)),
                chunk=self.draw_one((1, 1, 1, 4)),
                max_attempts=max_attempts,
                from_first=from_first,
            )
        )
        return name

    def _java_strategy(self) -> str:
        if self._brokers[0].name.startswith(MACHINE_ROOM) and self.chance(50):
            return "MACHINE_ROOM"
        return self.draw_one(("AVG", "AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY"))

    def draw_handler(self, *, failing_percent: int = 0, failures: int = 1) -> ScenarioHandler:
        """Draw a handler: mostly quick, now and then slow."""
        return ScenarioHandler(
            max_ms=self.draw_one((5, 20, 60)),
            slow_percent=self.draw_one((0, 0, 3, 10)),
            slow_ms=self.draw_one((200, 800, 2_000)),
            failing_percent=failing_percent,
            failures=failures,
        )

    def add_member(
        self,
        group: str,
        *,
        joins_ms: int,
        leaves_ms: int | None = None,
        is_steelyard: bool = True,
        handler: ScenarioHandler | None = None,
    ) -> str:
        """Add a member."""
        name = f"m{len(self._members) + 1}"
        self._members.append(
            ScenarioMember(
                name,
                group,
                joins_ms,
                leaves_ms,
                is_steelyard,
                self.draw_handler() if handler is None else handler,
                version="5.x" if is_steelyard else self.draw_one(("4.9", "5.x")),
            )
        )
        self._extend_to(joins_ms if leaves_ms is None else leaves_ms)
        return name

    def add_members(
        self, group: str, min_count: int, max_count: int, *, by_ms: int = 2_000, handler: ScenarioHandler | None = None
    ) -> list[str]:
        """Add members that join early and do not leave."""
        joins = [self.draw_between(100, by_ms) for _ in range(self.draw_between(min_count, max_count))]
        return [self.add_member(group, joins_ms=at_ms, handler=handler) for at_ms in joins]

    def add_producer(
        self,
        topic: str,
        *,
        messages: int,
        starts_ms: int = 1_000,
        ends_ms: int = 10_000,
        style: str = "plain",
        rollback_percent: int = 0,
    ) -> str:
        """Add a producer that spreads its messages evenly between two times."""
        name = f"p{len(self._producers) + 1}"
        self._producers.append(
            ScenarioProducer(
                name,
                topic,
                messages,
                starts_ms,
                max(1, (ends_ms - starts_ms) // max(1, messages)),
                style,
                keys=self.draw_between(2, 6),
                delay_level=self.draw_between(1, 3),
                rollback_percent=rollback_percent,
                avoids_slow_brokers=self.chance(30),
            )
        )
        self._extend_to(ends_ms)
        return name

    def add_traffic(self, topic: str, *, ends_ms: int = 10_000, style: str | None = None, messages: int = 40) -> None:
        """Add one or two producers with the usual number of messages."""
        for _ in range(self.draw_between(1, 2)):
            styles = ("plain", "plain", "plain", "keyed", "delayed")
            self.add_producer(
                topic,
                messages=self.draw_between(messages // 2, 2 * messages),
                ends_ms=ends_ms,
                style=self.draw_one(styles) if style is None else style,
            )

    def add_fault(
        self, kind: FaultKind, target: str, *, at_ms: int, other: str = "", for_ms: int = 0, amount: int = 0
    ) -> None:
        """Add a fault."""
        self._faults.append(ScenarioFault(f"f{len(self._faults) + 1}", at_ms, kind, target, other, for_ms, amount))
        self._extend_to(at_ms + for_ms)

    def last_until(self, until_ms: int) -> None:
        """Heal no earlier than this, so that the program has to notice the fault by itself."""
        self._extend_to(until_ms)

    def _extend_to(self, at_ms: int) -> None:
        self._last_ms = max(self._last_ms, at_ms)

    def build(self) -> Scenario:
        """Return the scenario."""
        return Scenario(
            seed=self.seed,
            kind=self.kind,
            heals_ms=self._last_ms + _QUIET_MS,
            brokers=tuple(self._brokers),
            topics=tuple(self._topics),
            groups=tuple(self._groups),
            members=tuple(self._members),
            producers=tuple(self._producers),
            faults=tuple(self._faults),
            name_servers=self.name_servers,
            late_deliveries_percent=self.late_deliveries_percent,
            lost_notifications_percent=self.lost_notifications_percent,
        )


_NOTICED_MS = 23_000
"""Until our broker has expired a silent member, and others own its queues."""


# Members join and leave: as planned, by crashes, by hanging, in storms.


def _churn(draft: _ScenarioDraft) -> None:
    """Draw joins and leaves alone: nothing fails, so nothing may be handled twice."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic)
    draft.add_members(group, 1, 3)
    for _ in range(draft.draw_between(1, 4)):
        joins_ms = draft.draw_between(1_000, 8_000)
        stays_ms = draft.draw_between(50, 5_000)
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=joins_ms + stays_ms if draft.chance(70) else None)
    draft.add_traffic(topic)


def _crash(draft: _ScenarioDraft) -> None:
    """Draw members that are killed, some of which are started again."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 2, 5)
    for member in draft.random.sample(members, draft.draw_between(1, len(members))):
        for_ms = draft.draw_one((0, 0, 50, 1_000, 3_000))
        draft.add_fault(FaultKind.KILL, member, at_ms=draft.draw_between(2_000, 8_000), for_ms=for_ms)
    draft.add_traffic(topic)


def _hung(draft: _ScenarioDraft) -> None:
    """Draw members that hang for a while, or whose machine vanishes."""
    draft.add_brokers(steelyard=draft.chance(85), max_count=1)
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 2, 4)
    for member in draft.random.sample(members, draft.draw_between(1, len(members) - 1)):
        at_ms = draft.draw_between(2_000, 8_000)
        if draft.chance(30):
            draft.add_fault(FaultKind.VANISH, member, at_ms=at_ms)
            draft.last_until(at_ms + _NOTICED_MS)
        else:
            draft.add_fault(
                FaultKind.PAUSE, member, at_ms=at_ms, for_ms=draft.draw_one((500, 2_000, 8_000, 14_000, 20_000))
            )
    draft.add_traffic(topic)


def _storm(draft: _ScenarioDraft) -> None:
    """Draw many joins and leaves at once, with lost notifications."""
    draft.add_brokers()
    topic = draft.add_topic(queues=draft.draw_between(4, 12))
    group = draft.add_group(topic)
    draft.lost_notifications_percent = draft.draw_one((0, 20, 50, 100))
    draft.add_members(group, 1, 2, by_ms=500)
    at_ms = draft.draw_between(2_000, 4_000)
    for _ in range(draft.draw_between(4, 8)):
        joins_ms = at_ms + draft.draw_between(0, 300)
        leaves_ms = draft.draw_one(
            (None, at_ms + draft.draw_between(3_000, 3_300), joins_ms + draft.draw_between(1, 1_000))
        )
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=leaves_ms)
    draft.add_traffic(topic, ends_ms=8_000)


# Servers fail: restarts, power losses, disk errors, routes that change.


def _restart(draft: _ScenarioDraft) -> None:
    """Draw servers that are killed and restarted; a member may be killed meanwhile."""
    draft.add_brokers()
    draft.name_servers = draft.draw_between(1, 2)
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 1, 4)
    if len(members) > 1 and draft.chance(40):
        for_ms = draft.draw_one((0, 500))
        draft.add_fault(FaultKind.KILL, draft.draw_one(members), at_ms=draft.draw_between(2_000, 9_000), for_ms=for_ms)
    for _ in range(draft.draw_between(1, 3)):
        for_ms = draft.draw_one((20, 300, 1_500, 4_000))
        draft.add_fault(
            FaultKind.KILL, draft.draw_one(draft.broker_names), at_ms=draft.draw_between(2_000, 9_000), for_ms=for_ms
        )
    if draft.chance(40):
        draft.add_fault(
            FaultKind.KILL, "ns1", at_ms=draft.draw_between(1_000, 6_000), for_ms=draft.draw_between(500, 5_000)
        )
    draft.add_traffic(topic)


def _power(draft: _ScenarioDraft) -> None:
    """Draw brokers of ours that lose power; what a sync flush acknowledged must survive."""
    draft.add_brokers(steelyard=True, sync_flush=draft.chance(60))
    topic = draft.add_topic()
    group = draft.add_group(topic)
    draft.add_members(group, 1, 3)
    for _ in range(draft.draw_between(1, 3)):
        for_ms = draft.draw_one((50, 500, 3_000))
        # Offsets are saved every 5 s, and an async broker syncs its log later: in between, they are ahead of the log.
        at_ms = draft.draw_between(4_950, 5_450) if draft.chance(40) else draft.draw_between(2_000, 9_000)
        draft.add_fault(FaultKind.POWER, draft.draw_one(draft.broker_names), at_ms=at_ms, for_ms=for_ms)
    draft.add_traffic(topic, messages=60)
    if draft.chance(40):
        draft.add_producer(topic, messages=draft.draw_between(20, 60), style="delayed")
    if draft.chance(40):
        # A late group reads what is left: it also needs what others handled before the power loss.
        draft.add_member(draft.add_group(topic), joins_ms=draft.draw_between(6_000, 10_000))


def _disk(draft: _ScenarioDraft) -> None:
    """Draw disks that fail or are full for a while; a power loss may take what a failed sync did not write."""
    draft.add_brokers(steelyard=True, sync_flush=draft.chance(50))
    topic = draft.add_topic()
    group = draft.add_group(topic)
    draft.add_members(group, 1, 3)
    at_ms = for_ms = 0
    for _ in range(draft.draw_between(1, 3)):
        kind = draft.draw_one((FaultKind.DISK_ERROR, FaultKind.DISK_ERROR, FaultKind.DISK_FULL))
        at_ms, for_ms = draft.draw_between(1_500, 8_000), draft.draw_one((50, 500, 2_000))
        draft.add_fault(kind, draft.draw_one(draft.broker_names), at_ms=at_ms, for_ms=for_ms)
    if draft.chance(50):
        kind = draft.draw_one((FaultKind.KILL, FaultKind.POWER))
        # Mostly a broker dies while its disk fails, or soon after.
        at_ms = draft.draw_one((draft.draw_between(3_000, 9_000), at_ms + draft.draw_between(0, for_ms + 300)))
        draft.add_fault(kind, draft.draw_one(draft.broker_names), at_ms=at_ms, for_ms=200)
    draft.add_traffic(topic, messages=60)


def _routes(draft: _ScenarioDraft) -> None:
    """Draw topics that grow, and name servers that are down meanwhile."""
    draft.add_brokers(steelyard=draft.chance(75))
    draft.name_servers = draft.draw_between(1, 2)
    topic = draft.add_topic(queues=draft.draw_between(1, 3))
    group = draft.add_group(topic)
    draft.add_members(group, 1, 3)
    queues = 3
    for _ in range(draft.draw_between(1, 3)):
        queues += draft.draw_between(1, 3)
        at_ms = draft.draw_between(2_000, 8_000)
        for broker in draft.broker_names:
            draft.add_fault(
                FaultKind.QUEUES, topic, other=broker, at_ms=at_ms + draft.draw_between(0, 500), amount=queues
            )
    if draft.chance(50):
        draft.add_fault(
            FaultKind.KILL, "ns1", at_ms=draft.draw_between(1_500, 8_000), for_ms=draft.draw_between(200, 4_000)
        )
    joins_ms = draft.draw_between(2_000, 8_000)
    draft.add_member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.draw_between(500, 4_000))
    draft.add_traffic(topic)


_CONNECTION_FAULTS = (
    FaultKind.CUT,
    FaultKind.CUT,
    FaultKind.ONE_WAY,
    FaultKind.HALF_OPEN,
    FaultKind.STUCK,
    FaultKind.STUCK,
    FaultKind.JAM,
    FaultKind.SLOW,
)


# Connections and clocks fail.


def _network(draft: _ScenarioDraft) -> None:
    """Draw connections that are cut, stuck, jammed, slow or dead one way, now and then during a rebalance."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 2, 4)
    for _ in range(draft.draw_one((0, 0, 1, 3))):
        joins_ms = draft.draw_between(2_000, 8_000)
        members.append(draft.add_member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.draw_between(100, 4_000)))
    draft.add_traffic(topic)
    for _ in range(draft.draw_between(1, 5)):
        kind = draft.draw_one(_CONNECTION_FAULTS)
        one, other = draft.draw_one((*members, *members, "p1")), draft.draw_one(draft.broker_names)
        if kind is FaultKind.ONE_WAY and draft.chance(50):
            one, other = other, one
        for_ms = draft.draw_one((0, 50, 250, 1_000, 4_000)) if kind is FaultKind.CUT else draft.draw_between(50, 4_000)
        amount = draft.draw_between(20, 800) if kind is FaultKind.SLOW else 0
        draft.add_fault(kind, one, other=other, at_ms=draft.draw_between(1_500, 9_000), for_ms=for_ms, amount=amount)


def _clock(draft: _ScenarioDraft) -> None:
    """Draw clocks that jump, and clocks that run fast or slow."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 2, 4)
    draft.add_traffic(topic)
    for name in (*members, *draft.broker_names):
        if draft.chance(50):
            # Quartz is good to 100 parts in a million; a thousand is a broken clock.
            draft.add_fault(FaultKind.CLOCK_SKEW, name, at_ms=100, amount=draft.draw_between(-1_000, 1_000))
    for _ in range(draft.draw_between(1, 3)):
        target = draft.draw_one((*members, *draft.broker_names))
        # Apache's broker measures everything by the wall clock: after a jump back of an hour, its timers are an hour
        # late.
        most_ms = 3_600_000 if draft.is_steelyard or target in members else 20_000
        amount = draft.draw_one((-most_ms, -20_000, -2_000, 2_000, 20_000, most_ms))
        draft.add_fault(FaultKind.CLOCK_JUMP, target, at_ms=draft.draw_between(1_500, 9_000), amount=amount)


_WILD_FAULTS = (
    FaultKind.KILL,
    FaultKind.PAUSE,
    FaultKind.CUT,
    FaultKind.STUCK,
    FaultKind.JAM,
    FaultKind.CLOCK_JUMP,
)


# Other ways to send and to receive: in order, broadcast, retries, transactions, beside Java.


def _order(draft: _ScenarioDraft) -> None:
    """Draw orderly groups with keyed messages, joins, leaves and now and then a crash."""
    draft.add_brokers()
    topic = draft.add_topic()
    # With one attempt, a message that fails twice becomes a dead letter.
    group = draft.add_group(topic, mode="orderly", max_attempts=draft.draw_one((1, 2, 16, 16)))
    handler = draft.draw_handler(failing_percent=draft.draw_one((0, 0, 5)), failures=draft.draw_between(1, 2))
    members = draft.add_members(group, 1, 3, handler=handler)
    for _ in range(draft.draw_between(0, 3)):
        joins_ms = draft.draw_between(1_000, 8_000)
        leaves_ms = joins_ms + draft.draw_between(100, 5_000) if draft.chance(60) else None
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=leaves_ms, handler=handler)
    if draft.chance(40):
        draft.add_fault(FaultKind.KILL, draft.draw_one(members), at_ms=draft.draw_between(2_000, 8_000), for_ms=1_000)
    if draft.chance(30):
        broker = draft.draw_one(draft.broker_names)
        draft.add_fault(
            FaultKind.CUT, draft.draw_one(members), other=broker, at_ms=draft.draw_between(2_000, 8_000), for_ms=250
        )
    draft.add_traffic(topic, style="keyed")


def _broadcast(draft: _ScenarioDraft) -> None:
    """Draw broadcast groups: every member gets every message."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic, mode="broadcast")
    members = draft.add_members(group, 1, 3, by_ms=900)
    draft.add_traffic(topic, messages=30)
    if draft.chance(50):
        broker = draft.draw_one(draft.broker_names)
        draft.add_fault(
            FaultKind.CUT, draft.draw_one(members), other=broker, at_ms=draft.draw_between(2_000, 8_000), for_ms=500
        )


def _retry(draft: _ScenarioDraft) -> None:
    """Draw handlers that fail, so that messages are redelivered; now and then a member dies."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic)
    handler = draft.draw_handler(failing_percent=draft.draw_between(5, 40), failures=draft.draw_between(1, 2))
    members = draft.add_members(group, 1, 3, handler=handler)
    draft.add_traffic(topic, ends_ms=6_000, messages=30)
    if draft.chance(30):
        draft.add_fault(FaultKind.KILL, draft.draw_one(members), at_ms=draft.draw_between(2_000, 7_000), for_ms=500)
    if draft.chance(30):
        broker = draft.draw_one(draft.broker_names)
        draft.add_fault(
            FaultKind.CUT, draft.draw_one(members), other=broker, at_ms=draft.draw_between(2_000, 7_000), for_ms=200
        )


def _transaction(draft: _ScenarioDraft) -> None:
    """Draw transactional messages; connections of the producer and brokers fail between the two steps."""
    draft.add_brokers(steelyard=True)
    topic = draft.add_topic()
    group = draft.add_group(topic)
    draft.add_members(group, 1, 3)
    for _ in range(draft.draw_between(1, 2)):
        draft.add_producer(
            topic,
            messages=draft.draw_between(15, 50),
            ends_ms=8_000,
            style="transactional",
            rollback_percent=draft.draw_one((0, 20, 50)),
        )
    if draft.chance(40):
        at_ms = draft.draw_between(2_000, 7_000)
        draft.add_fault(FaultKind.CUT, "p1", other=draft.draw_one(draft.broker_names), at_ms=at_ms, for_ms=500)
    if draft.chance(40):
        draft.add_fault(
            FaultKind.KILL, draft.draw_one(draft.broker_names), at_ms=draft.draw_between(2_000, 8_000), for_ms=300
        )


def _mixed(draft: _ScenarioDraft) -> None:
    """Draw groups with members of ours and Java's."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic, mode=draft.draw_one(("concurrent", "concurrent", "orderly")))
    for number in range(draft.draw_between(2, 5)):
        joins_ms = draft.draw_between(100, 6_000)
        leaves_ms = draft.draw_between(7_000, 9_000) if number > 1 and draft.chance(50) else None
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=leaves_ms, is_steelyard=number != 1 and draft.chance(60))
    draft.add_traffic(topic)


def _wild(draft: _ScenarioDraft) -> None:
    """Draw a bit of everything at once."""
    draft.add_brokers()
    draft.name_servers = draft.draw_between(1, 2)
    topic = draft.add_topic()
    group = draft.add_group(topic)
    members = draft.add_members(group, 2, 4)
    for _ in range(draft.draw_between(0, 2)):
        joins_ms = draft.draw_between(2_000, 8_000)
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.draw_between(100, 4_000))
    draft.add_traffic(topic)
    for _ in range(draft.draw_between(2, 6)):
        at_ms = draft.draw_between(1_500, 9_000)
        member, broker = draft.draw_one(members), draft.draw_one(draft.broker_names)
        for_ms = draft.draw_one((50, 300, 1_500, 4_000))
        kind = draft.draw_one(_WILD_FAULTS)
        if kind in (FaultKind.CUT, FaultKind.STUCK, FaultKind.JAM):
            draft.add_fault(kind, member, other=broker, at_ms=at_ms, for_ms=for_ms)
        elif kind is FaultKind.CLOCK_JUMP:
            draft.add_fault(kind, draft.draw_one((member, broker)), at_ms=at_ms, amount=draft.draw_one((-5_000, 5_000)))
        else:
            draft.add_fault(kind, draft.draw_one((member, member, broker)), at_ms=at_ms, for_ms=for_ms)


_HANDOVER_FAULTS = (FaultKind.CUT, FaultKind.CUT, FaultKind.CUT, FaultKind.STUCK, FaultKind.ONE_WAY, FaultKind.PAUSE)


# Queues move at bad times: moves are reversed under slow handlers, nothing is committed yet, or locks are renewed.


def _flips(draft: _ScenarioDraft) -> None:
    """Draw members that join and leave so fast that moves are reversed midway, under slow handlers."""
    draft.add_brokers()
    topics = [draft.add_topic() for _ in range(draft.draw_between(1, 2))]
    group = draft.add_group(*topics, drain_ms=draft.draw_one((30_000, 30_000, 300, 1_000)))
    draft.lost_notifications_percent = draft.draw_one((0, 0, 50, 100))
    handler = _slow_handler(draft)
    members = draft.add_members(group, 1, 3, by_ms=500, handler=handler)
    changes_ms: list[int] = []
    for _ in range(draft.draw_between(1, 3)):
        at_ms = draft.draw_between(1_500, 3_000)
        while at_ms < 8_000:
            leaves_ms = at_ms + draft.draw_one((20, 100, 400, 1_500))
            draft.add_member(group, joins_ms=at_ms, leaves_ms=leaves_ms, handler=handler)
            changes_ms += (at_ms, leaves_ms)
            at_ms = leaves_ms + draft.draw_one((10, 100, 400, 2_000))
    for topic in topics:
        draft.add_traffic(topic, ends_ms=9_000, messages=80)
    if draft.chance(60):
        for _ in range(draft.draw_between(1, 4)):
            _add_fault(draft, members, draft.draw_one(changes_ms) + draft.draw_between(0, 1_000))


def _slow_handler(draft: _ScenarioDraft) -> ScenarioHandler:
    handler = draft.draw_handler(failing_percent=draft.draw_one((0, 20)))
    slow_ms = draft.draw_one((200, 800, 2_000))
    # One member with one handler has to keep up, in case it is left alone.
    return replace(handler, slow_percent=min(40, 15_000 // slow_ms), slow_ms=slow_ms)


def _add_fault(draft: _ScenarioDraft, members: list[str], at_ms: int) -> None:
    member, broker = draft.draw_one(members), draft.draw_one(draft.broker_names)
    for_ms = draft.draw_one((0, 50, 500, 2_000, 5_000))
    kind = draft.draw_one(_HANDOVER_FAULTS)
    if kind is FaultKind.PAUSE:
        draft.add_fault(kind, member, at_ms=at_ms, for_ms=draft.draw_one((300, 2_000, 4_000, 8_000)))
    else:
        draft.add_fault(kind, member, other=broker, at_ms=at_ms, for_ms=for_ms)


def _late(draft: _ScenarioDraft) -> None:
    """Draw groups that start at the end, in topics that grow; members may die before that.

    A new member starts at the end of a queue it has not seen. So no member joins while a topic grows.
    """
    draft.add_brokers()
    topic = draft.add_topic(queues=draft.draw_between(1, 3))
    group = draft.add_group(topic, from_first=False)
    members = draft.add_members(group, 1, 3, by_ms=500)
    draft.add_producer(topic, messages=draft.draw_between(30, 80), starts_ms=6_000, ends_ms=13_000)
    draft.lost_notifications_percent = draft.draw_one((0, 100))
    queues = 3
    for _ in range(draft.draw_between(1, 2)):
        queues += draft.draw_between(1, 3)
        at_ms = draft.draw_between(9_500, 11_500)
        # A producer that starts now sees the new queues before the members do.
        draft.add_producer(topic, messages=draft.draw_between(10, 20), starts_ms=at_ms + 800, ends_ms=at_ms + 3_000)
        for broker in draft.broker_names:
            draft.add_fault(
                FaultKind.QUEUES, topic, other=broker, at_ms=at_ms + draft.draw_between(0, 500), amount=queues
            )
    for member in members:
        if draft.chance(40):
            draft.add_fault(
                FaultKind.KILL, member, at_ms=draft.draw_between(6_000, 7_500), for_ms=draft.draw_one((50, 1_000))
            )


def _patience(draft: _ScenarioDraft) -> None:
    """Draw orderly groups that run for minutes, so that locks are renewed, with a change now and then."""
    draft.add_brokers()
    topic = draft.add_topic()
    group = draft.add_group(topic, mode="orderly")
    draft.lost_notifications_percent = draft.draw_one((0, 50, 100))
    members = draft.add_members(group, 1, 2, by_ms=500)
    for _ in range(draft.draw_between(3, 8)):
        joins_ms = draft.draw_between(15_000, 70_000)
        draft.add_member(group, joins_ms=joins_ms, leaves_ms=joins_ms + draft.draw_between(50, 25_000))
    if draft.chance(40):
        broker = draft.draw_one(draft.broker_names)
        at_ms, for_ms = draft.draw_between(18_000, 60_000), draft.draw_one((0, 250, 4_000))
        draft.add_fault(FaultKind.CUT, draft.draw_one(members), other=broker, at_ms=at_ms, for_ms=for_ms)
    draft.add_producer(topic, messages=draft.draw_between(40, 120), ends_ms=80_000, style="keyed")


SCENARIO_KINDS: dict[str, Callable[[_ScenarioDraft], None]] = {
    "churn": _churn,
    "crash": _crash,
    "hung": _hung,
    "mixed": _mixed,
    "disk": _disk,
    "power": _power,
    "restart": _restart,
    "network": _network,
    "clock": _clock,
    "order": _order,
    "broadcast": _broadcast,
    "retry": _retry,
    "transaction": _transaction,
    "storm": _storm,
    "routes": _routes,
    "wild": _wild,
    "flips": _flips,
    "late": _late,
    "patience": _patience,
}
"""By kind: the function that draws it. Seeds take turns in this order."""

_KIND_ORDER = tuple(SCENARIO_KINDS)


def kind_of_seed(seed: int) -> str:
    """Return the kind of history that a seed alone gives.

    >>> kind_of_seed(0), kind_of_seed(1)
    ('churn', 'crash')
    """
    return _KIND_ORDER[seed % len(_KIND_ORDER)]


def draw_scenario(seed: int, only: str | None = None) -> Scenario:
    """Draw the scenario of a history; ``only`` makes it of that kind, whatever the seed."""
    kind = kind_of_seed(seed) if only is None else only
    generate = SCENARIO_KINDS.get(kind)
    if generate is None:
        raise ConfigurationError(
            f"no kind of history is called {kind!r}", next_step=f"the kinds are {', '.join(SCENARIO_KINDS)}"
        )
    draft = _ScenarioDraft(kind, seed)
    generate(draft)
    return draft.build()
