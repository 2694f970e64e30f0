"""Everything that one history does, as one frozen value: who takes part, what they do, and what goes wrong when.

A plan is drawn from a kind and a seed (see `kinds`) and never changes; a history obeys it. Its parts have short names,
so that a history which fails can be made smaller and still be told in one line: ``f3`` is a fault, ``m2`` a member,
``p1`` a producer, and ``n50`` means that no producer sends more than 50 messages. `without` takes parts away.

Times are milliseconds since the history began. Left out: who wins a race. That is the world's chance, drawn from the
same seed while the history runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from steelyard.errors import ConfigurationError

__all__ = [
    "BrokerPlan",
    "FaultKind",
    "FaultPlan",
    "GroupPlan",
    "MemberPlan",
    "Plan",
    "ProducerPlan",
    "TopicPlan",
    "Work",
    "parts",
    "tell",
    "without",
]


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """One broker: ours, or the model of Apache's."""

    name: str
    is_ours: bool = True
    version: str = "5.x"
    """Of Apache's: ``4.9`` or ``5.x``."""
    sync_flush: bool = False

    def __str__(self) -> str:
        """Say what it is."""
        kind = f"ours, {'sync' if self.sync_flush else 'async'} flush" if self.is_ours else f"Apache {self.version}"
        return f"broker {self.name}: {kind}"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic, with so many queues on each of these brokers."""

    name: str
    queues: int
    brokers: tuple[str, ...]

    def __str__(self) -> str:
        """Say what it is."""
        return f"topic {self.name}: {self.queues} queues on each of {', '.join(self.brokers)}"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group of members that share topics."""

    name: str
    topics: tuple[str, ...]
    mode: str = "concurrent"
    """The value of a `Mode`."""
    sticky: bool = True
    """Whether our members plan by the sticky strategy, or as Java's do."""
    java_strategy: str = "AVG"
    drain_ms: int | None = 30_000
    handlers: int = 8
    chunk: int = 1
    most_tries: int = 16
    from_first: bool = True
    """Whether it reads a queue from its first message on, or from what is stored after it came."""

    def __str__(self) -> str:
        """Say what it is."""
        how = "sticky" if self.sticky else self.java_strategy
        return f"group {self.name}: {self.mode}, {how}, topics {', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class Work:
    """What the user's code does with a message: how long it takes, and how often it fails before it succeeds."""

    least_ms: int = 1
    most_ms: int = 20
    slow_percent: int = 0
    """How many of a hundred messages take `slow_ms` instead."""
    slow_ms: int = 0
    failing_percent: int = 0
    """How many of a hundred messages fail at first."""
    failures: int = 1
    """And how often they do."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A member of a group: when it comes, when it goes, how it works."""

    name: str
    group: str
    joins_ms: int
    leaves_ms: int | None = None
    is_ours: bool = True
    """Or the model of Java's push consumer."""
    work: Work = Work()
    leave_drain_ms: int | None = 30_000
    version: str = "5.x"
    """Of Java's: ``4.9`` or ``5.x``."""

    def __str__(self) -> str:
        """Say what it does."""
        whose = "member" if self.is_ours else f"Java {self.version} member"
        until = "" if self.leaves_ms is None else f", leaves at {_seconds(self.leaves_ms)}"
        return f"{self.name}: {whose} of {self.group}, joins at {_seconds(self.joins_ms)}{until}"


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """A producer: what it sends, from when on and how fast."""

    name: str
    topic: str
    messages: int
    begins_ms: int
    gap_ms: int
    """Between two messages, on average."""
    style: str = "plain"
    """``plain``, ``keyed`` (in order per key), ``delayed`` or ``transactional``."""
    keys: int = 4
    level: int = 1
    """Of delayed messages."""
    rollback_percent: int = 0
    """Of transactional ones: how many of a hundred are taken back."""
    avoids_slow: bool = False
    """Whether the ledger of slow and failing brokers is used."""

    def __str__(self) -> str:
        """Say what it does."""
        rate = f"one in {self.gap_ms} ms from {_seconds(self.begins_ms)} on"
        return f"{self.name}: sends {self.messages} {self.style} messages to {self.topic}, {rate}"


class FaultKind(Enum):
    """What can go wrong on purpose."""

    KILL = "kill"
    """A process ends; its lines close. ``for_ms``: when it is started again, 0 for a member that does not return."""
    VANISH = "vanish"
    """A process ends, and nobody is told: its lines stay open."""
    PAUSE = "pause"
    """A process stands still for a while; the world goes on."""
    POWER = "power"
    """A broker's machine loses power: what was not safe on its disk may be lost."""
    CUT = "cut"
    """Lines between two processes are cut; new ones fail for a while."""
    ONE_WAY = "one-way"
    """What one process says to another is lost for a while."""
    HALF_OPEN = "half-open"
    """One end of the lines forgets them and the other is not told."""
    STUCK = "stuck"
    """What one process says to another is stuck until it has given its lines up and has new ones; then it arrives."""
    JAM = "jam"
    """What travels between two processes waits, and comes all at once."""
    SLOW = "slow"
    """What travels between two processes takes ``amount`` milliseconds more."""
    DISK_ERROR = "disk-error"
    """A broker's disk fails to write or sync for a while."""
    DISK_FULL = "disk-full"
    """A broker's disk has no room for a while."""
    CLOCK_JUMP = "clock-jump"
    """The wall clock of a process jumps by ``amount`` milliseconds."""
    CLOCK_SKEW = "clock-skew"
    """The clocks of a process run fast or slow by ``amount`` parts in a million."""
    QUEUES = "queues"
    """A topic gets ``amount`` queues on a broker (``target`` is the topic, ``other`` the broker)."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One thing that goes wrong: what, to whom, when, for how long."""

    name: str
    at_ms: int
    kind: FaultKind
    target: str
    other: str = ""
    for_ms: int = 0
    amount: int = 0

    def __str__(self) -> str:
        """Say what goes wrong."""
        towards = f" and {self.other}" if self.other else ""
        long = f" for {_seconds(self.for_ms)}" if self.for_ms else ""
        much = f" ({self.amount})" if self.amount else ""
        return f"{self.name}: {self.kind.value} {self.target}{towards} at {_seconds(self.at_ms)}{long}{much}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All of one history."""

    seed: int
    kind: str
    calm_ms: int
    """Nothing planned happens after this: the world is healed, and has to come to rest."""
    brokers: tuple[BrokerPlan, ...]
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupPlan, ...]
    members: tuple[MemberPlan, ...]
    producers: tuple[ProducerPlan, ...]
    faults: tuple[FaultPlan, ...] = ()
    name_servers: int = 1
    slow_percent: int = 1
    """How many of a hundred deliveries are late by tens of milliseconds."""
    lost_notices_percent: int = 0
    """How many of a hundred notices to members are lost."""


def parts(plan: Plan) -> Iterator[str]:
    """Name the parts that can be taken away: faults first, since most of them do nothing to most findings."""
    yield from (fault.name for fault in plan.faults)
    yield from (member.name for member in plan.members)
    yield from (producer.name for producer in plan.producers)


def without(plan: Plan, dropped: Iterable[str]) -> Plan:
    """Return the plan without some of its parts; faults of what is gone go with it.

    >>> without(Plan(1, "churn", 0, (), (), (), (), ()), ["f1"])
    Traceback (most recent call last):
        ...
    steelyard.errors.ConfigurationError: history 1 of kind churn has no part f1; its parts are f…, m…, p… and n…
    """
    names = list(dict.fromkeys(dropped))
    known = set(parts(plan))
    most = None
    for name in names:
        if name[:1] == "n" and name[1:].isdecimal():
            most = int(name[1:]) if most is None else min(most, int(name[1:]))
        elif name not in known:
            raise ConfigurationError(
                f"history {plan.seed} of kind {plan.kind} has no part {name}",
                next_step="its parts are f…, m…, p… and n…",
            )
    gone = frozenset(names)
    producers = tuple(producer for producer in plan.producers if producer.name not in gone)
    if most is not None:
        producers = tuple(replace(producer, messages=min(producer.messages, most)) for producer in producers)
    return replace(
        plan,
        members=tuple(member for member in plan.members if member.name not in gone),
        producers=producers,
        faults=tuple(fault for fault in plan.faults if gone.isdisjoint((fault.name, fault.target, fault.other))),
    )


def tell(plan: Plan) -> list[str]:
    """Say in words what a history does, line by line."""
    late = f"{plan.slow_percent} % of deliveries late"
    lost = f", {plan.lost_notices_percent} % of notices lost" if plan.lost_notices_percent else ""
    servers = f"name servers: {plan.name_servers}; {late}{lost}; healed at {_seconds(plan.calm_ms)}"
    who = (*plan.brokers, *plan.topics, *plan.groups, *plan.members, *plan.producers)
    return [servers, *map(str, who), *map(str, sorted(plan.faults, key=lambda fault: fault.at_ms))]


def _seconds(time_ms: int) -> str:
    return f"{time_ms / 1000:g} s"
