"""A plan in the making: chance from one seed, and the parts that most kinds of histories share.

Everything is drawn from ``Chance(f"{kind}-{seed}")``: the same kind and seed give the same plan in every process. What
is added gets its short name here, so that names follow the order of drawing.
"""

from collections.abc import Sequence
from typing import TypeVar

from steelyard.sim.chance import Chance
from steelyard.sim.plan import (
    BrokerPlan,
    FaultKind,
    FaultPlan,
    GroupPlan,
    MemberPlan,
    Plan,
    ProducerPlan,
    TopicPlan,
    Work,
)
from steelyard.sim.strategies import ROOM

__all__ = ["Draft"]

_T = TypeVar("_T")

_QUIET_MS = 2_000
"""Between the last thing that is planned and healing."""


class Draft:
    """Collects the parts of one plan.

    >>> draft = Draft("churn", 7)
    >>> draft.brokers(ours=True, most=1)
    >>> draft.topic(queues=4), draft.group("t1"), draft.member("g1", joins_ms=200)
    ('t1', 'g1', 'm1')
    >>> [str(part) for part in draft.done().members]
    ['m1: member of g1, joins at 0.2 s']
    """

    def __init__(self, kind: str, seed: int) -> None:
        self.kind = kind
        self.seed = seed
        self.random = Chance(f"{kind}-{seed}")
        self.name_servers = 1
        self.slow_percent = self.random.choice((0, 1, 1, 5))
        self.lost_notices_percent = 0
        self._brokers: list[BrokerPlan] = []
        self._topics: list[TopicPlan] = []
        self._groups: list[GroupPlan] = []
        self._members: list[MemberPlan] = []
        self._producers: list[ProducerPlan] = []
        self._faults: list[FaultPlan] = []
        self._last_ms = 0

    # -- chance -------------------------------------------------------------------------------------------------------

    def chance(self, percent: int) -> bool:
        """Say yes so many times of a hundred."""
        return self.random.percent(percent)

    def between(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return self.random.randint(least, most)

    def one_of(self, choices: Sequence[_T]) -> _T:
        """Return one of these."""
        return self.random.choice(choices)

    # -- who takes part -----------------------------------------------------------------------------------------------

    def brokers(self, *, ours: bool | None = None, most: int = 2, sync_flush: bool | None = None) -> None:
        """Add one or more brokers of one kind; None lets chance choose whose they are."""
        is_ours = self.chance(60) if ours is None else ours
        version = self.one_of(("4.9", "5.x"))
        is_sync = self.chance(25) if sync_flush is None else sync_flush
        # Only Apache's brokers may have a room in their name: ours have a topic of that name, as a name must be.
        room = f"{ROOM}@" if not is_ours and self.chance(20) else ""
        for number in range(1, self.between(1, most) + 1):
            self._brokers.append(BrokerPlan(f"{room}b{number}", is_ours, version, is_ours and is_sync))

    @property
    def broker_names(self) -> list[str]:
        """The brokers drawn so far."""
        return [broker.name for broker in self._brokers]

    @property
    def is_ours(self) -> bool:
        """Whether the brokers are ours."""
        return self._brokers[0].is_ours

    def topic(self, *, queues: int | None = None) -> str:
        """Add a topic that every broker has."""
        name = f"t{len(self._topics) + 1}"
        count = self.between(1, 4) * (1 if len(self._brokers) > 1 else 2) if queues is None else queues
        self._topics.append(TopicPlan(name, count, tuple(self.broker_names)))
        return name

    def group(
        self,
        *topics: str,
        mode: str = "concurrent",
        sticky: bool | None = None,
        drain_ms: int | None = 30_000,
        most_tries: int = 16,
        from_first: bool = True,
    ) -> str:
        """Add a group."""
        name = f"g{len(self._groups) + 1}"
        is_sticky = self.chance(75) if sticky is None else sticky
        self._groups.append(
            GroupPlan(
                name,
                topics,
                mode=mode,
                sticky=is_sticky,
                java_strategy=self._java_strategy(),
                drain_ms=drain_ms,
                handlers=self.one_of((1, 4, 8, 20)),
                chunk=self.one_of((1, 1, 1, 4)),
                most_tries=most_tries,
                from_first=from_first,
            )
        )
        return name

    def _java_strategy(self) -> str:
        if self._brokers[0].name.startswith(ROOM) and self.chance(50):
            return "MACHINE_ROOM"
        return self.one_of(("AVG", "AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY"))

    def work(self, *, failing_percent: int = 0, failures: int = 1) -> Work:
        """Draw what handlers do: mostly quick, now and then one that takes a while."""
        return Work(
            most_ms=self.one_of((5, 20, 60)),
            slow_percent=self.one_of((0, 0, 3, 10)),
            slow_ms=self.one_of((200, 800, 2_000)),
            failing_percent=failing_percent,
            failures=failures,
        )

    def member(
        self,
        group: str,
        *,
        joins_ms: int,
        leaves_ms: int | None = None,
        is_ours: bool = True,
        work: Work | None = None,
    ) -> str:
        """Add a member."""
        name = f"m{len(self._members) + 1}"
        self._members.append(
            MemberPlan(
                name,
                group,
                joins_ms,
                leaves_ms,
                is_ours,
                self.work() if work is None else work,
                version="5.x" if is_ours else self.one_of(("4.9", "5.x")),
            )
        )
        self._note(joins_ms if leaves_ms is None else leaves_ms)
        return name

    def members(self, group: str, least: int, most: int, *, by_ms: int = 2_000, work: Work | None = None) -> list[str]:
        """Add members that join early and stay."""
        joins = [self.between(100, by_ms) for _ in range(self.between(least, most))]
        return [self.member(group, joins_ms=at_ms, work=work) for at_ms in joins]

    def producer(
        self,
        topic: str,
        *,
        messages: int,
        begins_ms: int = 1_000,
        ends_ms: int = 10_000,
        style: str = "plain",
        rollback_percent: int = 0,
    ) -> str:
        """Add a producer that spreads its messages over a time."""
        name = f"p{len(self._producers) + 1}"
        self._producers.append(
            ProducerPlan(
                name,
                topic,
                messages,
                begins_ms,
                max(1, (ends_ms - begins_ms) // max(1, messages)),
                style,
                keys=self.between(2, 6),
                level=self.between(1, 3),
                rollback_percent=rollback_percent,
                avoids_slow=self.chance(30),
            )
        )
        self._note(ends_ms)
        return name

    def traffic(self, topic: str, *, ends_ms: int = 10_000, style: str | None = None, least: int = 40) -> None:
        """Add one or two producers with what a history usually has of messages."""
        for _ in range(self.between(1, 2)):
            styles = ("plain", "plain", "plain", "keyed", "delayed")
            self.producer(
                topic,
                messages=self.between(least // 2, 2 * least),
                ends_ms=ends_ms,
                style=self.one_of(styles) if style is None else style,
            )

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def fault(
        self, kind: FaultKind, target: str, *, at_ms: int, other: str = "", for_ms: int = 0, amount: int = 0
    ) -> None:
        """Add something that goes wrong."""
        self._faults.append(FaultPlan(f"f{len(self._faults) + 1}", at_ms, kind, target, other, for_ms, amount))
        self._note(at_ms + for_ms)

    def lasts(self, until_ms: int) -> None:
        """Let the history be healed no earlier than this, so that what goes wrong shows by itself."""
        self._note(until_ms)

    def _note(self, at_ms: int) -> None:
        self._last_ms = max(self._last_ms, at_ms)

    def done(self) -> Plan:
        """Return the plan."""
        return Plan(
            seed=self.seed,
            kind=self.kind,
            calm_ms=self._last_ms + _QUIET_MS,
            brokers=tuple(self._brokers),
            topics=tuple(self._topics),
            groups=tuple(self._groups),
            members=tuple(self._members),
            producers=tuple(self._producers),
            faults=tuple(self._faults),
            name_servers=self.name_servers,
            slow_percent=self.slow_percent,
            lost_notices_percent=self.lost_notices_percent,
        )
