"""What a checker is: it reads facts as they come, looks at what is left in the end, and says what may not be.

A checker names the kinds of facts it wants, so that nobody calls it for the others. It judges by facts and by the
terms of the history alone, and where a history is allowed to break a rule the checker says in its first lines when.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from steelyard.model import Queue
from steelyard.sim.facts import Fact, Logged

__all__ = ["Checker", "End", "Finding", "GroupTerms", "Half", "Held", "Kind", "Terms"]

Kind: TypeAlias = Literal["safety", "liveness"]
"""``safety``: something happened that never may. ``liveness``: something did not happen in time."""

Half: TypeAlias = Literal["log", "delivery", "commit", "balance"]
"""Who lost it: the log (stored wrongly or not at all), the delivery (stored, not handled as it should be), the commit
(what was handled and what is committed disagree), the balance (who owns what)."""


class Finding(Struct, frozen=True, kw_only=True):
    """Something that may not be, in a sentence, with the facts that show it."""

    checker: str
    kind: Kind
    half: Half
    sentence: str
    at_ms: int
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """What a group of the history wants and may do."""

    topics: tuple[str, ...] = ()
    """Without the topic of retries."""
    mode: str = "concurrent"
    """``concurrent``, ``orderly`` or ``broadcast``."""
    sticky: bool = True
    """Whether its members plan by the sticky strategy while all of them are ours."""
    from_first: bool = False
    """Whether it starts at the first message of a queue; otherwise what came before its first commit is not its own."""
    most_tries: int = 16
    """How often an orderly message is tried before it is given up."""
    drain_ms: int | None = 30_000


@dataclass(frozen=True, slots=True)
class Terms:
    """What a history is allowed to do, made from its plan. What is not said here is believed from facts."""

    groups: Mapping[str, GroupTerms] = field(default_factory=dict)
    apache_brokers: frozenset[str] = frozenset()
    """Names of the brokers that are not ours."""
    async_brokers: frozenset[str] = frozenset()
    """Names of the brokers that answer a send before it is safe from a loss of power."""
    java_members: bool = False
    planned_only: bool = False
    """Whether members only come and go as they wish: nothing is killed, paused, cut or restarted."""
    power_loss: bool = False
    clock_faults: bool = False
    """Whether clocks on walls jump: what is measured by them is not judged."""
    cuts: bool = False
    pauses: bool = False
    disk_faults: bool = False
    resets: bool = False
    """Whether administrators move offsets."""
    longest_handler_ms: int = 1_000
    """How long the user's code takes at most."""
    lost_notices: bool = False
    """Whether a notice of a broker may be lost on its way without a line being cut."""
    settle_ms: int = 3_000
    """How long a broker that started waits for those who held its queues."""
    fence_ms: int = 9_000
    fence_order_ms: int = 30_000
    """The age of a proof at which a member stops starting: on our broker, and in order on Apache's."""
    round_gap_ms: int = 200

    def is_ours(self, broker: str) -> bool:
        """Whether a broker is ours: it has epochs, leases and a memory of who held what."""
        return broker not in self.apache_brokers

    def group(self, name: str) -> GroupTerms:
        """Return the terms of a group; one that the plan does not name may do anything reasonable."""
        return self.groups.get(name, _UNNAMED)


_UNNAMED = GroupTerms()

Held: TypeAlias = tuple[str, str, Queue, str]
"""A lock: broker, lock group, queue, owner."""


@dataclass(frozen=True, slots=True)
class End:
    """What is left when the world stands still."""

    at_ms: int
    healed_ms: int = 0
    """Since when nothing goes wrong any more."""
    logged: tuple[Logged, ...] | list[Logged] = ()
    committed: Mapping[tuple[str, Queue], int] = field(default_factory=dict)
    """By group and queue."""
    states: Mapping[str, Mapping[Queue, str]] = field(default_factory=dict)
    """Of each of our members that lives: names of `State`; what is absent is not in it."""
    plans: Mapping[str, tuple[Queue, ...]] = field(default_factory=dict)
    """The last plan of each member that lives, Java's too."""
    alive: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the members that live, by group."""
    locks: tuple[Held, ...] | list[Held] = ()
    queues: Mapping[str, tuple[Queue, ...] | list[Queue]] = field(default_factory=dict)
    """The readable queues of each topic, topics of retries too."""
    drained: bool = True
    """Whether all was handled and committed within the time that the history was given."""
    settled: bool = True
    """Whether every queue came to its owner within that time."""
    added: Mapping[Queue, int] = field(default_factory=dict)
    """Queues that a topic got while the history ran, and when."""
    waiting: frozenset[str] = frozenset()
    """Uids of messages that still wait for their time at a broker whose log does not show them."""


class Checker(ABC):
    """One rule. Made anew for each history."""

    name: ClassVar[str]
    wants: ClassVar[tuple[type[Fact], ...]] = ()
    """The kinds of facts it is to be told."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    @abstractmethod
    def note(self, fact: Fact) -> Iterable[Finding]:
        """Take in a fact, and say what it shows to be wrong."""

    def finish(self, _end: End, /) -> Iterable[Finding]:
        """Look at what is left, and say what is wrong with it."""
        return ()

    def finding(self, kind: Kind, half: Half, at_ms: int, sentence: str, *facts: Fact) -> Finding:
        """Say that something is wrong."""
        return Finding(checker=self.name, kind=kind, half=half, sentence=sentence, at_ms=at_ms, facts=facts)
