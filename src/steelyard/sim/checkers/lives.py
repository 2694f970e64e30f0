"""The states of queues at our members, and who holds what at our brokers, as facts tell them."""

from collections.abc import Iterator, Mapping

from steelyard.model import Queue
from steelyard.sim.checkers.scene import Scene
from steelyard.sim.facts import Fact, Freed, Gone, Granted, Joined, Moved

__all__ = ["HOLDING", "LEASE", "Holders", "Lives"]

HOLDING = frozenset({"STARTING", "OWNED", "UNSURE", "DRAINING", "COMMITTING"})
"""States in which a member may have messages of a queue in hand, or is about to."""

LEASE = "%LEASE"
_ABSENT = "absent"
_NOBODY: Mapping[str, str] = {}


class Lives:
    """In which state each queue is at each member. Wants `Moved`, `Gone` and `Joined`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._states: dict[tuple[str, Queue], dict[str, str]] = {}

    def note(self, fact: Fact) -> None:
        """Take in a fact."""
        if isinstance(fact, Moved):
            states = self._states.setdefault((fact.group, fact.queue), {})
            if fact.after == _ABSENT:
                states.pop(fact.member, None)
            else:
                states[fact.member] = fact.after
        elif isinstance(fact, Gone | Joined):
            name = fact.name if isinstance(fact, Gone) else fact.member
            for states in self._states.values():
                states.pop(name, None)

    def of(self, group: str, queue: Queue) -> Mapping[str, str]:
        """Return the state of a queue at each member of a group that has it in one."""
        return self._states.get((group, queue), _NOBODY)

    def state(self, group: str, queue: Queue, member: str) -> str:
        """Return the state of a queue at a member."""
        return self.of(group, queue).get(member, _ABSENT)

    def holding(self, group: str, queue: Queue) -> list[str]:
        """Return the members that hold a queue, by their own belief."""
        return [member for member, state in self.of(group, queue).items() if state in HOLDING]

    def of_member(self, member: str) -> Iterator[tuple[str, Queue, str]]:
        """Go through the queues of a member: group, queue, state."""
        for (group, queue), states in self._states.items():
            if member in states:
                yield group, queue, states[member]

    def of_group(self, group: str) -> Iterator[tuple[Queue, Mapping[str, str]]]:
        """Go through the queues of a group that any member ever had, with their states."""
        for (name, queue), states in self._states.items():
            if name == group:
                yield queue, states


class Holders:
    """The lock of each queue, as its broker tells it. Wants `Granted`, `Freed` and `Gone`.

    Locks and leases of a group exclude each other on our broker; on Apache's only those of the bare name are kept.
    """

    def __init__(self) -> None:
        self.granted: dict[tuple[str, Queue], Granted] = {}
        """By group and queue: when it was first given to the one who has it."""

    def note(self, fact: Fact) -> None:
        """Take in a fact."""
        if isinstance(fact, Granted):
            key = fact.lock_group.removesuffix(LEASE), fact.queue
            known = self.granted.get(key)
            if known is None or known.member != fact.member or known.epoch != fact.epoch:
                self.granted[key] = fact
        elif isinstance(fact, Freed):
            key = fact.lock_group.removesuffix(LEASE), fact.queue
            known = self.granted.get(key)
            if known is not None and known.member == fact.member:
                del self.granted[key]
        elif isinstance(fact, Gone):
            for key in [key for key in self.granted if key[1].broker == fact.name]:
                del self.granted[key]

    def of(self, group: str, queue: Queue) -> Granted | None:
        """Return how the queue was given to the one who has it now."""
        return self.granted.get((group, queue))
