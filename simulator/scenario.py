"""A scenario: everything that one history does, as one frozen value. Who takes part, what they do, what fails when.

A scenario is drawn from a kind and a seed (generators.py) and never changes; a history follows it. Its parts have short
names, so that a failing history can be made smaller and still be replayed by one command: ``f3`` is a fault, ``m2`` a
member, ``p1`` a producer, and ``n50`` limits each producer to 50 messages. `without_parts` removes parts.
`conditions_of` derives what checkers may expect of the history.

Times are milliseconds since the history began. Left out: who wins a race. That is drawn by the world while the history
runs, from the same seed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from simulator.checkers.checker import GroupConditions, HistoryConditions
from steelyard.balance.assignors.machine_room import MachineRoom
from steelyard.balance.assignors.nearby import MachineRoomNearby
from steelyard.balance.assignors.registry import find_strategy
from steelyard.balance.assignors.strategy import Strategy
from steelyard.errors import ConfigurationError
from steelyard.model import StoredMessage

UserHandler: TypeAlias = Callable[[StoredMessage, int], tuple[int, bool]]
"""A user's handler: takes a message and the attempts before; returns its milliseconds, and whether it succeeds."""


@dataclass(frozen=True, slots=True)
class ScenarioBroker:
    """One broker: ours, or the model of Apache's."""

    name: str
    is_steelyard: bool = True
    version: str = "5.x"
    """Of Apache's: ``4.9`` or ``5.x``."""
    sync_flush: bool = False

    def __str__(self) -> str:
        """Describe it."""
        kind = (
            f"ours, {'sync' if self.sync_flush else 'async'} flush" if self.is_steelyard else f"Apache {self.version}"
        )
        return f"broker {self.name}: {kind}"


@dataclass(frozen=True, slots=True)
class ScenarioTopic:
    """A topic, and its number of queues on each of its brokers."""

    name: str
    queues: int
    brokers: tuple[str, ...]

    def __str__(self) -> str:
        """Describe it."""
        return f"topic {self.name}: {self.queues} queues on each of {', '.join(self.brokers)}"


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """A group of members that share topics."""

    name: str
    topics: tuple[str, ...]
    mode: str = "concurrent"
    """The value of a `ConsumeMode`."""
    sticky: bool = True
    """Whether our members use the sticky strategy, or one of Java's."""
    java_strategy: str = "AVG"
    drain_ms: int | None = 30_000
    handlers: int = 8
    chunk: int = 1
    max_attempts: int = 16
    from_first: bool = True
    """Whether it starts at the first message of a queue, or at its end."""

    def __str__(self) -> str:
        """Describe it."""
        how = "sticky" if self.sticky else self.java_strategy
        return f"group {self.name}: {self.mode}, {how}, topics {', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class ScenarioHandler:
    """What a handler does with a message: how long it takes, and how often it fails before it succeeds."""

    min_ms: int = 1
    max_ms: int = 20
    slow_percent: int = 0
    """Percentage of messages that take `slow_ms` instead."""
    slow_ms: int = 0
    failing_percent: int = 0
    """Percentage of messages that fail at first."""
    failures: int = 1
    """How often those fail."""


@dataclass(frozen=True, slots=True)
class ScenarioMember:
    """A member of a group: when it joins and leaves, and how its handler behaves."""

    name: str
    group: str
    joins_ms: int
    leaves_ms: int | None = None
    is_steelyard: bool = True
    """Or the model of Java's push consumer."""
    handler: ScenarioHandler = ScenarioHandler()
    leave_drain_ms: int | None = 30_000
    version: str = "5.x"
    """Of Java's: ``4.9`` or ``5.x``."""

    def __str__(self) -> str:
        """Describe it."""
        whose = "member" if self.is_steelyard else f"Java {self.version} member"
        until = "" if self.leaves_ms is None else f", leaves at {_format_seconds(self.leaves_ms)}"
        return f"{self.name}: {whose} of {self.group}, joins at {_format_seconds(self.joins_ms)}{until}"


@dataclass(frozen=True, slots=True)
class ScenarioProducer:
    """A producer: what it sends, when and how fast."""

    name: str
    topic: str
    messages: int
    starts_ms: int
    interval_ms: int
    """Between two messages, on average."""
    style: str = "plain"
    """``plain``, ``keyed`` (in order per key), ``delayed`` or ``transactional``."""
    keys: int = 4
    delay_level: int = 1
    """Of delayed messages."""
    rollback_percent: int = 0
    """Percentage of transactions that are rolled back."""
    avoids_slow_brokers: bool = False
    """Whether it tracks broker latency and avoids slow brokers."""

    def __str__(self) -> str:
        """Describe it."""
        rate = f"one in {self.interval_ms} ms from {_format_seconds(self.starts_ms)} on"
        return f"{self.name}: sends {self.messages} {self.style} messages to {self.topic}, {rate}"


class FaultKind(Enum):
    """Faults that a scenario can inject."""

    KILL = "kill"
    """A process ends; its connections close. ``for_ms``: until it starts again, 0 for a member that stays away."""
    VANISH = "vanish"
    """A process ends, but its connections stay open at the other end."""
    PAUSE = "pause"
    """A process is suspended for a while; the world goes on."""
    POWER = "power"
    """A broker's machine loses power: what was not synced may be lost."""
    CUT = "cut"
    """The connections of two processes are cut; new ones fail for a while."""
    ONE_WAY = "one-way"
    """What one process sends to another does not arrive for a while."""
    HALF_OPEN = "half-open"
    """One end closes the connections, and the other does not notice."""
    STUCK = "stuck"
    """What one process sends to another is held back until it has closed its connections and opened new ones."""
    JAM = "jam"
    """Everything between two processes is held back, then arrives at once."""
    SLOW = "slow"
    """Everything between two processes takes ``amount`` milliseconds longer."""
    DISK_ERROR = "disk-error"
    """Writes and syncs of a broker's disk fail for a while."""
    DISK_FULL = "disk-full"
    """A broker's disk is full for a while."""
    CLOCK_JUMP = "clock-jump"
    """The wall clock of a process jumps by ``amount`` milliseconds."""
    CLOCK_SKEW = "clock-skew"
    """The clocks of a process run fast or slow by ``amount`` ppm."""
    QUEUES = "queues"
    """A topic gets ``amount`` queues on a broker (``target`` is the topic, ``other`` the broker)."""


@dataclass(frozen=True, slots=True)
class ScenarioFault:
    """One fault: what, to which process, when, for how long."""

    name: str
    at_ms: int
    kind: FaultKind
    target: str
    other: str = ""
    for_ms: int = 0
    amount: int = 0

    def __str__(self) -> str:
        """Describe it."""
        towards = f" and {self.other}" if self.other else ""
        long = f" for {_format_seconds(self.for_ms)}" if self.for_ms else ""
        much = f" ({self.amount})" if self.amount else ""
        return f"{self.name}: {self.kind.value} {self.target}{towards} at {_format_seconds(self.at_ms)}{long}{much}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """All of one history."""

    seed: int
    kind: str
    heals_ms: int
    """When all faults are over: from then on the world has to come to rest."""
    brokers: tuple[ScenarioBroker, ...]
    topics: tuple[ScenarioTopic, ...]
    groups: tuple[ScenarioGroup, ...]
    members: tuple[ScenarioMember, ...]
    producers: tuple[ScenarioProducer, ...]
    faults: tuple[ScenarioFault, ...] = ()
    name_servers: int = 1
    late_deliveries_percent: int = 1
    """Percentage of deliveries that are tens of milliseconds late."""
    lost_notifications_percent: int = 0
    """Percentage of notifications to members that are lost."""


def part_names(scenario: Scenario) -> Iterator[str]:
    """Yield the names of removable parts: faults first, because most findings do not need most of them."""
    yield from (fault.name for fault in scenario.faults)
    yield from (member.name for member in scenario.members)
    yield from (producer.name for producer in scenario.producers)


def without_parts(scenario: Scenario, dropped: Iterable[str]) -> Scenario:
    """Return a scenario without some of its parts; faults of a removed part go with it.

    >>> without_parts(Scenario(1, "churn", 0, (), (), (), (), ()), ["f1"])
    Traceback (most recent call last):
        ...
    steelyard.errors.ConfigurationError: history 1 of kind churn has no part f1; its parts are f…, m…, p… and n…
    """
    names = list(dict.fromkeys(dropped))
    known = set(part_names(scenario))
    max_messages = None
    for name in names:
        if name[:1] == "n" and name[1:].isdecimal():
            max_messages = int(name[1:]) if max_messages is None else min(max_messages, int(name[1:]))
        elif name not in known:
            raise ConfigurationError(
                f"history {scenario.seed} of kind {scenario.kind} has no part {name}",
                next_step="its parts are f…, m…, p… and n…",
            )
    removed = frozenset(names)
    producers = tuple(producer for producer in scenario.producers if producer.name not in removed)
    if max_messages is not None:
        producers = tuple(replace(producer, messages=min(producer.messages, max_messages)) for producer in producers)
    return replace(
        scenario,
        members=tuple(member for member in scenario.members if member.name not in removed),
        producers=producers,
        faults=tuple(fault for fault in scenario.faults if removed.isdisjoint((fault.name, fault.target, fault.other))),
    )


def describe(scenario: Scenario) -> list[str]:
    """Return what a history does, one line for each part."""
    late = f"{scenario.late_deliveries_percent} % of deliveries late"
    lost = (
        f", {scenario.lost_notifications_percent} % of notifications lost"
        if scenario.lost_notifications_percent
        else ""
    )
    servers = f"name servers: {scenario.name_servers}; {late}{lost}; healed at {_format_seconds(scenario.heals_ms)}"
    parts = (*scenario.brokers, *scenario.topics, *scenario.groups, *scenario.members, *scenario.producers)
    return [servers, *map(str, parts), *map(str, sorted(scenario.faults, key=lambda fault: fault.at_ms))]


def _format_seconds(time_ms: int) -> str:
    return f"{time_ms / 1000:g} s"


MACHINE_ROOM = "east"
"""The machine room of brokers with one in their name, ``east@b1``."""

_NEARBY = "MACHINE_ROOM_NEARBY"


def find_simulated_strategy(name: str) -> Strategy:
    """Return the strategy of a name, with the rooms that two of them need.

    A broker whose name begins with a room is in it. Otherwise the last digit of its name gives one of two rooms, and so
    does the number of a member. Left out: CONFIG, whose list is by client id, and a restarted member has a new one.

    >>> find_simulated_strategy("MACHINE_ROOM_NEARBY").name, find_simulated_strategy("AVG").name
    ('MACHINE_ROOM_NEARBY-AVG', 'AVG')
    """
    if name == MachineRoom.name:
        return MachineRoom(frozenset({MACHINE_ROOM}))
    if name == _NEARBY:
        return MachineRoomNearby(_machine_room_of_member, _machine_room_of_broker)
    return find_strategy(name)


def _machine_room_of_broker(name: str) -> str:
    return f"room {int(name[-1]) % 2}"


def _machine_room_of_member(client_id: str) -> str:
    """Return the room of ``10.0.60.3@m2#0``, by its number."""
    _, _, named = client_id.partition("@m")
    return f"room {int(named.partition('#')[0]) % 2}"


_CONNECTION_FAULTS = frozenset(
    {
        FaultKind.CUT,
        FaultKind.ONE_WAY,
        FaultKind.HALF_OPEN,
        FaultKind.STUCK,
        FaultKind.JAM,
        FaultKind.SLOW,
        FaultKind.VANISH,
    }
)

_REST_MS = 60_000
"""How long a healed world may take to come to rest: rebalances are at most 20 s apart, a silent member expires after
12 s, and our broker settles for 3 s after a restart."""
_RETRIES_MS = 60_000
"""What a message needs that fails twice: it is redelivered after 10 s, then after 30 s."""
_APACHE_REST_MS = 210_000
"""On Apache's broker a silent member is listed for 130 s, then comes a rebalance; an orphaned lock lasts 60 s."""


def conditions_of(scenario: Scenario) -> HistoryConditions:
    """Return what the checkers may expect of a history."""
    kinds = {fault.kind for fault in scenario.faults}
    handlers = [member.handler for member in scenario.members]
    return HistoryConditions(
        groups={
            group.name: GroupConditions(
                topics=group.topics,
                mode=group.mode,
                sticky=group.sticky,
                from_first=group.from_first,
                max_attempts=group.max_attempts,
                drain_ms=group.drain_ms,
            )
            for group in scenario.groups
        },
        apache_brokers=frozenset(broker.name for broker in scenario.brokers if not broker.is_steelyard),
        async_brokers=frozenset(broker.name for broker in scenario.brokers if not broker.sync_flush),
        java_members=any(not member.is_steelyard for member in scenario.members),
        planned_only=kinds <= {FaultKind.QUEUES},
        power_loss=FaultKind.POWER in kinds,
        clock_faults=FaultKind.CLOCK_JUMP in kinds,
        connection_faults=bool(kinds & _CONNECTION_FAULTS),
        pauses=FaultKind.PAUSE in kinds,
        disk_faults=bool(kinds & {FaultKind.DISK_ERROR, FaultKind.DISK_FULL}),
        # A chunk is handled one message after the other.
        longest_handler_ms=max(
            (max(handler.max_ms, handler.min_ms + handler.slow_ms) for handler in handlers), default=0
        )
        * max((group.chunk for group in scenario.groups), default=1),
        lost_notifications=scenario.lost_notifications_percent > 0,
    )


def time_to_rest_ms(scenario: Scenario) -> int:
    """Return how long a healed world may take until all is handled, committed and owned."""
    rest_ms = _REST_MS if all(broker.is_steelyard for broker in scenario.brokers) else _APACHE_REST_MS
    if any(not member.is_steelyard for member in scenario.members):
        rest_ms = max(rest_ms, _APACHE_REST_MS)
    return rest_ms + (_RETRIES_MS if any(member.handler.failing_percent for member in scenario.members) else 0)
