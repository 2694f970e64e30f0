"""Who takes part in a history, and what has gone wrong for whom so far: what excuses are made of.

A trouble is felt for a while after it began: a line that is deaf one way is noticed only by silence, and the facts do
not say when a line is well again. So whoever had a trouble within `LASTING_MS` counts as troubled, and much longer on
Apache's broker. A rule that must hold even then says so, and looks at single troubles.

The process of a member is named by its id, that of a broker by the broker's name.
"""

from collections.abc import Iterable

from steelyard.model import Queue
from steelyard.sim.checkers.checker import Terms
from steelyard.sim.facts import Fact, Gone, Joined, LineLost, Paused, Reported, Resumed, Situation

__all__ = ["LASTING_MS", "NEVER_MS", "SCENE", "Scene"]

LASTING_MS = 15_000
"""Our broker counts a silent member out after 12 s."""
_APACHE_LASTING_MS = 150_000
"""Apache's after 120 to 130 s, and a round may be 20 s away."""
NEVER_MS = -1_000_000_000
"""A time before every history."""

SCENE: tuple[type[Fact], ...] = (Joined, Gone, Paused, Resumed, LineLost, Reported, Situation)
"""What a scene has to be told."""

_SERVERS = ("broker", "nameserver")
_SELF_INFLICTED = frozenset({"drain-bound", "stranger"})
"""What a member reports when it lets go of a queue whose handlers still run."""

_FAULTS = frozenset({"a clock jumped forward", "a clock jumped back", "a disk fails", "a disk is full"})
"""Situations that are troubles of the process they are about."""


class Scene:
    """What is known of everybody up to now."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.members: dict[str, Joined] = {}
        self.gone_ms: dict[str, int] = {}
        """When members died or left, by id."""
        self.left: set[str] = set()
        """Members that are gone as they wished."""
        self.with_java: set[str] = set()
        """Groups that have or had a Java member."""
        self.started_ms: dict[str, int] = {}
        """When each broker was started the last time, if it was."""
        self.power_ms: dict[str, int] = {}
        """When each broker lost power the last time."""
        self.last_ms = NEVER_MS
        """When anything went wrong the last time, whatever it was."""
        self._troubled: dict[str, int] = {}
        self._lines: dict[tuple[str, str], int] = {}
        self._paused: set[str] = set()
        self._bounds: dict[tuple[str, Queue | None], int] = {}

    def note(self, fact: Fact) -> None:
        """Take in a fact; those that are not of the scene change nothing."""
        if isinstance(fact, Joined):
            self._joined(fact)
        elif isinstance(fact, Gone):
            self._gone(fact)
        elif isinstance(fact, Paused):
            self._paused.add(fact.name)
            self._trouble(fact.name, fact.at_ms)
        elif isinstance(fact, Resumed):
            self._paused.discard(fact.name)
            self._trouble(fact.name, fact.at_ms)
        elif isinstance(fact, LineLost):
            one, other = fact.one, fact.other
            self._lines[one, other] = self._lines[other, one] = self.last_ms = fact.at_ms
        elif isinstance(fact, Reported):
            if fact.kind in _SELF_INFLICTED:
                for queue in fact.queues or (None,):
                    self._bounds[fact.member, queue] = fact.at_ms
        elif isinstance(fact, Situation) and fact.name in _FAULTS:
            self._trouble(fact.about.get("process", ""), fact.at_ms)

    def _joined(self, fact: Joined) -> None:
        if fact.kind in _SERVERS:
            if fact.member in self._troubled:
                self._trouble(fact.member, fact.at_ms)
            self.started_ms[fact.member] = fact.at_ms
            self.gone_ms.pop(fact.member, None)
            return
        self.members[fact.member] = fact
        self.gone_ms.pop(fact.member, None)
        self.left.discard(fact.member)
        if fact.kind == "java":
            self.with_java.add(fact.group)

    def _gone(self, fact: Gone) -> None:
        name = fact.name
        self.gone_ms[name] = fact.at_ms
        self._paused.discard(name)
        if fact.how == "left":
            self.left.add(name)
        if fact.how != "left" or name not in self.members:
            self._trouble(fact.name, fact.at_ms)
        if fact.how == "power":
            self.power_ms[name] = fact.at_ms

    def _trouble(self, name: str, at_ms: int) -> None:
        self._troubled[name] = self.last_ms = at_ms

    # -- who ----------------------------------------------------------------------------------------------------------

    def is_well(self, member: str) -> bool:
        """Whether a member lives and is not paused."""
        return member not in self.gone_ms and member not in self._paused

    def is_all_ours(self, group: str) -> bool:
        """Whether a group never had a Java member."""
        return group not in self.with_java

    def mode(self, group: str) -> str:
        """Return how the members of a group share messages."""
        if group in self.terms.groups:
            return self.terms.groups[group].mode
        return next((joined.mode for joined in self.members.values() if joined.group == group), "concurrent")

    def alive(self, group: str) -> list[str]:
        """Return the members of a group that live, in the order in which they came."""
        return [id_ for id_, joined in self.members.items() if joined.group == group and id_ not in self.gone_ms]

    # -- what went wrong ----------------------------------------------------------------------------------------------

    def troubled_ms(self, member: str, broker: str, now_ms: int) -> int:
        """Return when a member, a broker or the line between them last was in trouble: now, if one is paused."""
        if member in self._paused or broker in self._paused:
            return now_ms
        if broker in self.gone_ms:
            return now_ms
        return max(
            self._troubled.get(member, NEVER_MS),
            self._troubled.get(broker, NEVER_MS),
            self._lines.get((member, broker), NEVER_MS),
        )

    def broker_troubled_ms(self, broker: str) -> int:
        """Return when a broker itself last was in trouble."""
        return self._troubled.get(broker, NEVER_MS)

    def member_troubled_ms(self, member: str) -> int:
        """Return when a member itself last was in trouble."""
        return self._troubled.get(member, NEVER_MS)

    def line_lost_ms(self, member: str, broker: str) -> int:
        """Return when the line between a member and a broker was last lost."""
        return self._lines.get((member, broker), NEVER_MS)

    def group_troubled_ms(self, group: str, broker: str, now_ms: int) -> int:
        """Return when any member of a group, or its line to a broker, or the broker itself was in trouble."""
        times = (self.troubled_ms(id_, broker, now_ms) for id_, joined in self.members.items() if joined.group == group)
        return max(times, default=self.troubled_ms("", broker, now_ms))

    def lasting_ms(self, broker: str) -> int:
        """Return for how long a trouble may be felt at a broker."""
        return LASTING_MS if self.terms.is_ours(broker) else _APACHE_LASTING_MS

    def let_go_ms(self, member: str, queue: Queue) -> int:
        """Return when a member last let go of a queue whose handlers still ran."""
        return max(self._bounds.get((member, queue), NEVER_MS), self._bounds.get((member, None), NEVER_MS))

    def is_excused(self, group: str, members: Iterable[str], queue: Queue, since_ms: int, now_ms: int) -> bool:
        """Say whether members of a group have an excuse for what happened to a queue since a time.

        It is a trouble of one of them, or of the broker. Apache's broker fences nobody, and what one member left behind
        may catch another: there the trouble of any member of the group will do. Nobody is held to anything in a group
        with a Java member.
        """
        broker = queue.broker
        from_ms = since_ms - self.lasting_ms(broker)
        if group in self.with_java:
            return True
        if not self.terms.is_ours(broker) and self.group_troubled_ms(group, broker, now_ms) >= from_ms:
            return True
        return any(
            self.let_go_ms(member, queue) >= from_ms or self.troubled_ms(member, broker, now_ms) >= from_ms
            for member in members
        )
