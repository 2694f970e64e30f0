"""What a checker is: it reads facts as they come, then what is left at the end, and returns findings.

A checker lists the types of facts it wants, so that it is not called for others. It judges by facts and by the
conditions of the history alone. Where a history may break its rule, its docstring says when.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from simulator.facts import Fact, MessageLogged
from steelyard.model import Queue

FindingKind: TypeAlias = Literal["safety", "liveness"]
"""``safety``: something happened that never may. ``liveness``: something did not happen in time."""

_Subsystem: TypeAlias = Literal["log", "delivery", "commit", "balance"]
"""What failed: the log (stored wrongly or not at all), the delivery (stored, not handled as it should be), the commit
(what was handled and what is committed disagree), the balance (who owns what)."""


class CheckerFinding(Struct, frozen=True, kw_only=True):
    """A broken rule, in a sentence, with the facts that show it."""

    checker: str
    kind: FindingKind
    subsystem: _Subsystem
    sentence: str
    at_ms: int
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupConditions:
    """What a group subscribes to and may do."""

    topics: tuple[str, ...] = ()
    """Without its retry topic."""
    mode: str = "concurrent"
    """``concurrent``, ``orderly`` or ``broadcast``."""
    sticky: bool = True
    """Whether its members use the sticky strategy while all of them are ours."""
    from_first: bool = False
    """Whether it starts at the first message of a queue; if not, it skips what is before its first commit."""
    max_attempts: int = 16
    """Attempts of an orderly message before it becomes a dead letter."""
    drain_ms: int | None = 30_000


@dataclass(frozen=True, slots=True)
class HistoryConditions:
    """What a history is allowed to do, derived from its scenario. Everything else is taken from facts."""

    groups: Mapping[str, GroupConditions] = field(default_factory=dict)
    apache_brokers: frozenset[str] = frozenset()
    """Brokers that are not ours."""
    async_brokers: frozenset[str] = frozenset()
    """Brokers that acknowledge a send before it survives a power loss."""
    java_members: bool = False
    planned_only: bool = False
    """Whether members only join and leave: nothing is killed, paused, cut or restarted."""
    power_loss: bool = False
    clock_faults: bool = False
    """Whether wall clocks jump: what is measured by them is not judged."""
    connection_faults: bool = False
    pauses: bool = False
    disk_faults: bool = False
    offset_resets: bool = False
    """Whether administrators move offsets."""
    longest_handler_ms: int = 1_000
    """The longest time a handler takes."""
    lost_notifications: bool = False
    """Whether a broker's notification may be lost although its connection works."""
    settle_ms: int = 3_000
    """How long a broker that started waits for the holders of its queues."""
    fence_ms: int = 9_000
    fence_order_ms: int = 30_000
    """The age of a proof of ownership at which a member starts no handlers: on our broker, and orderly on Apache's."""
    rebalance_gap_ms: int = 200

    def is_steelyard(self, broker: str) -> bool:
        """Whether a broker is ours: it has epochs and leases, and remembers who held what."""
        return broker not in self.apache_brokers

    def group(self, name: str) -> GroupConditions:
        """Return the conditions of a group; one that the scenario does not name has the defaults."""
        return self.groups.get(name, _DEFAULT_GROUP)


_DEFAULT_GROUP = GroupConditions()

HeldLock: TypeAlias = tuple[str, str, Queue, str]
"""A lock: broker, lock group, queue, owner."""


@dataclass(frozen=True, slots=True)
class HistoryEnd:
    """What is left when the world is at rest, or its time is over."""

    at_ms: int
    healed_ms: int = 0
    """Since when there are no faults."""
    logged: tuple[MessageLogged, ...] | list[MessageLogged] = ()
    committed: Mapping[tuple[str, Queue], int] = field(default_factory=dict)
    """By group and queue."""
    states: Mapping[str, Mapping[Queue, str]] = field(default_factory=dict)
    """Of each of our living members: names of `QueueState`, without absent queues."""
    plans: Mapping[str, tuple[Queue, ...]] = field(default_factory=dict)
    """The last assignment of each living member, Java's too."""
    alive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids of living members, by group."""
    locks: tuple[HeldLock, ...] | list[HeldLock] = ()
    queues: Mapping[str, tuple[Queue, ...] | list[Queue]] = field(default_factory=dict)
    """The readable queues of each topic, retry topics too."""
    drained: bool = True
    """Whether all was handled and committed in time."""
    settled: bool = True
    """Whether every queue had its owner in time."""
    added_queues: Mapping[Queue, int] = field(default_factory=dict)
    """Queues that were added while the history ran, and when."""
    waiting_uids: frozenset[str] = frozenset()
    """Delayed messages that are not due yet, at a broker whose log does not show them."""


class Checker(ABC):
    """One rule, for one history."""

    name: ClassVar[str]
    fact_types: ClassVar[tuple[type[Fact], ...]] = ()
    """The types of facts it observes."""

    def __init__(self, conditions: HistoryConditions) -> None:
        self.conditions = conditions

    @abstractmethod
    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Read a fact, and return what it shows to be wrong."""

    def check_end(self, _end: HistoryEnd, /) -> Iterable[CheckerFinding]:
        """Check what is left, and return what is wrong with it."""
        return ()

    def finding(
        self, kind: FindingKind, subsystem: _Subsystem, at_ms: int, sentence: str, *facts: Fact
    ) -> CheckerFinding:
        """Make a finding of this checker."""
        return CheckerFinding(
            checker=self.name, kind=kind, subsystem=subsystem, sentence=sentence, at_ms=at_ms, facts=facts
        )
