"""Trackers that checkers share: faults so far (the excuses), queue states at our members, and lock holders.

A fault has effects for a while: a connection that is dead one way is noticed only by silence, and facts do not say when
it works again. So a process with a fault within `FAULT_EFFECT_MS`, and much longer on Apache's broker, has an excuse. A
rule that must hold even then says so, and checks single faults.

The process of a member is named by its client id, that of a broker by the broker's name.
"""

from collections.abc import Iterable, Iterator, Mapping

from simulator.checkers.checker import HistoryConditions
from simulator.facts import (
    ConnectionDisturbed,
    Fact,
    LockFreed,
    LockGranted,
    MemberReported,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ProcessStarted,
    QueueStateChanged,
    Situation,
)
from steelyard.model import Queue

FAULT_EFFECT_MS = 15_000
"""Our broker expires a silent member after 12 s."""
_APACHE_FAULT_EFFECT_MS = 150_000
"""Apache's after 120 to 130 s, and the next rebalance may be 20 s away."""
NEVER_MS = -1_000_000_000
"""A time before every history."""

TRACKED_FACTS: tuple[type[Fact], ...] = (
    ProcessStarted,
    ProcessGone,
    ProcessPaused,
    ProcessResumed,
    ConnectionDisturbed,
    MemberReported,
    Situation,
)
"""The facts that `FaultTracker` observes."""

_SERVERS = ("broker", "nameserver")
_ABANDONING_REPORTS = frozenset({"drain-timeout", "late-result"})
"""Reports of a member that gives up a queue whose handlers still run."""

_FAULT_SITUATIONS = frozenset({"a clock jumped forward", "a clock jumped back", "a disk fails", "a disk is full"})
"""Situations that are faults of the process they are about."""


class FaultTracker:
    """What is known of all processes, and of their faults, up to now."""

    def __init__(self, conditions: HistoryConditions) -> None:
        self.conditions = conditions
        self.members: dict[str, ProcessStarted] = {}
        self.gone_ms: dict[str, int] = {}
        """When processes died or left."""
        self.left_members: set[str] = set()
        """Members that left cleanly."""
        self.groups_with_java: set[str] = set()
        """Groups that have or had a Java member."""
        self.broker_started_ms: dict[str, int] = {}
        """When each server last started."""
        self.power_loss_ms: dict[str, int] = {}
        """When each broker last lost power."""
        self.last_fault_ms = NEVER_MS
        """When the last fault of any kind was."""
        self._process_fault_ms: dict[str, int] = {}
        self._connection_fault_ms: dict[tuple[str, str], int] = {}
        self._paused: set[str] = set()
        self._abandoned_ms: dict[tuple[str, Queue | None], int] = {}

    def observe(self, fact: Fact) -> None:
        """Read a fact; other types than `TRACKED_FACTS` change nothing."""
        if isinstance(fact, ProcessStarted):
            self._process_started(fact)
        elif isinstance(fact, ProcessGone):
            self._process_gone(fact)
        elif isinstance(fact, ProcessPaused):
            self._paused.add(fact.name)
            self._record_fault(fact.name, fact.at_ms)
        elif isinstance(fact, ProcessResumed):
            self._paused.discard(fact.name)
            self._record_fault(fact.name, fact.at_ms)
        elif isinstance(fact, ConnectionDisturbed):
            one, other = fact.one, fact.other
            self._connection_fault_ms[one, other] = self._connection_fault_ms[other, one] = self.last_fault_ms = (
                fact.at_ms
            )
        elif isinstance(fact, MemberReported):
            if fact.kind in _ABANDONING_REPORTS:
                for queue in fact.queues or (None,):
                    self._abandoned_ms[fact.member, queue] = fact.at_ms
        elif isinstance(fact, Situation) and fact.name in _FAULT_SITUATIONS:
            self._record_fault(fact.about.get("process", ""), fact.at_ms)

    def _process_started(self, fact: ProcessStarted) -> None:
        if fact.kind in _SERVERS:
            if fact.member in self._process_fault_ms:
                self._record_fault(fact.member, fact.at_ms)
            self.broker_started_ms[fact.member] = fact.at_ms
            self.gone_ms.pop(fact.member, None)
            return
        self.members[fact.member] = fact
        self.gone_ms.pop(fact.member, None)
        self.left_members.discard(fact.member)
        if fact.kind == "java":
            self.groups_with_java.add(fact.group)

    def _process_gone(self, fact: ProcessGone) -> None:
        name = fact.name
        self.gone_ms[name] = fact.at_ms
        self._paused.discard(name)
        if fact.how == "left":
            self.left_members.add(name)
        if fact.how != "left" or name not in self.members:
            self._record_fault(fact.name, fact.at_ms)
        if fact.how == "power":
            self.power_loss_ms[name] = fact.at_ms

    def _record_fault(self, name: str, at_ms: int) -> None:
        self._process_fault_ms[name] = self.last_fault_ms = at_ms

    def is_healthy(self, member: str) -> bool:
        """Whether a member lives and is not paused."""
        return member not in self.gone_ms and member not in self._paused

    def is_steelyard_only(self, group: str) -> bool:
        """Whether a group never had a Java member."""
        return group not in self.groups_with_java

    def mode(self, group: str) -> str:
        """Return the consume mode of a group."""
        if group in self.conditions.groups:
            return self.conditions.groups[group].mode
        return next((started.mode for started in self.members.values() if started.group == group), "concurrent")

    def alive_members(self, group: str) -> list[str]:
        """Return the living members of a group, in the order in which they joined."""
        return [id_ for id_, started in self.members.items() if started.group == group and id_ not in self.gone_ms]

    def pair_fault_ms(self, member: str, broker: str, now_ms: int) -> int:
        """Return when a member, a broker or their connection last had a fault: now, if one is paused or down."""
        if member in self._paused or broker in self._paused:
            return now_ms
        if broker in self.gone_ms:
            return now_ms
        return max(
            self._process_fault_ms.get(member, NEVER_MS),
            self._process_fault_ms.get(broker, NEVER_MS),
            self._connection_fault_ms.get((member, broker), NEVER_MS),
        )

    def broker_fault_ms(self, broker: str) -> int:
        """Return when a broker itself last had a fault."""
        return self._process_fault_ms.get(broker, NEVER_MS)

    def member_fault_ms(self, member: str) -> int:
        """Return when a member itself last had a fault."""
        return self._process_fault_ms.get(member, NEVER_MS)

    def connection_fault_ms(self, member: str, broker: str) -> int:
        """Return when the connection of a member and a broker last had a fault."""
        return self._connection_fault_ms.get((member, broker), NEVER_MS)

    def group_fault_ms(self, group: str, broker: str, now_ms: int) -> int:
        """Return when a broker, any member of a group, or their connection last had a fault."""
        times = (
            self.pair_fault_ms(id_, broker, now_ms) for id_, started in self.members.items() if started.group == group
        )
        return max(times, default=self.pair_fault_ms("", broker, now_ms))

    def fault_effect_ms(self, broker: str) -> int:
        """Return how long a fault may have effects at a broker."""
        return FAULT_EFFECT_MS if self.conditions.is_steelyard(broker) else _APACHE_FAULT_EFFECT_MS

    def abandoned_ms(self, member: str, queue: Queue) -> int:
        """Return when a member last gave up a queue whose handlers still ran."""
        return max(self._abandoned_ms.get((member, queue), NEVER_MS), self._abandoned_ms.get((member, None), NEVER_MS))

    def is_excused(self, group: str, members: Iterable[str], queue: Queue, since_ms: int, now_ms: int) -> bool:
        """Return whether members of a group have an excuse for what happened to a queue since a time.

        An excuse is a fault of one of them, or of the broker. Apache's broker does not fence, and what one member left
        behind may affect another: there a fault of any member of the group is an excuse. A group with a Java member is
        always excused.
        """
        broker = queue.broker
        from_ms = since_ms - self.fault_effect_ms(broker)
        if group in self.groups_with_java:
            return True
        if not self.conditions.is_steelyard(broker) and self.group_fault_ms(group, broker, now_ms) >= from_ms:
            return True
        return any(
            self.abandoned_ms(member, queue) >= from_ms or self.pair_fault_ms(member, broker, now_ms) >= from_ms
            for member in members
        )


HOLDING_STATES = frozenset({"STARTING", "OWNED", "UNSURE", "DRAINING", "COMMITTING"})
"""States in which a member may handle messages of a queue, or is about to."""

LEASE_SUFFIX = "%LEASE"
_ABSENT = "absent"
_NO_STATES: Mapping[str, str] = {}


class ObservedQueueStates:
    """The state of each queue at each member. Wants `QueueStateChanged`, `ProcessGone` and `ProcessStarted`."""

    def __init__(self, tracker: FaultTracker) -> None:
        self._tracker = tracker
        self._states: dict[tuple[str, Queue], dict[str, str]] = {}

    def observe(self, fact: Fact) -> None:
        """Read a fact."""
        if isinstance(fact, QueueStateChanged):
            states = self._states.setdefault((fact.group, fact.queue), {})
            if fact.after == _ABSENT:
                states.pop(fact.member, None)
            else:
                states[fact.member] = fact.after
        elif isinstance(fact, ProcessGone | ProcessStarted):
            name = fact.name if isinstance(fact, ProcessGone) else fact.member
            for states in self._states.values():
                states.pop(name, None)

    def states_of(self, group: str, queue: Queue) -> Mapping[str, str]:
        """Return the state of a queue at each member of a group that has one."""
        return self._states.get((group, queue), _NO_STATES)

    def state(self, group: str, queue: Queue, member: str) -> str:
        """Return the state of a queue at a member."""
        return self.states_of(group, queue).get(member, _ABSENT)

    def holders(self, group: str, queue: Queue) -> list[str]:
        """Return the members that believe they hold a queue."""
        return [member for member, state in self.states_of(group, queue).items() if state in HOLDING_STATES]

    def states_of_member(self, member: str) -> Iterator[tuple[str, Queue, str]]:
        """Yield group, queue and state of the queues of a member."""
        for (group, queue), states in self._states.items():
            if member in states:
                yield group, queue, states[member]

    def states_of_group(self, group: str) -> Iterator[tuple[Queue, Mapping[str, str]]]:
        """Yield the queues that any member of a group ever had, with their states."""
        for (name, queue), states in self._states.items():
            if name == group:
                yield queue, states


class LockHolders:
    """The lock of each queue, as its broker reports it. Wants `LockGranted`, `LockFreed` and `ProcessGone`.

    Locks and leases of a group exclude each other on our broker; on Apache's only those of the bare name are kept.
    """

    def __init__(self) -> None:
        self.granted: dict[tuple[str, Queue], LockGranted] = {}
        """By group and queue: the first grant to the current holder."""

    def observe(self, fact: Fact) -> None:
        """Read a fact."""
        if isinstance(fact, LockGranted):
            key = fact.lock_group.removesuffix(LEASE_SUFFIX), fact.queue
            known = self.granted.get(key)
            if known is None or known.member != fact.member or known.epoch != fact.epoch:
                self.granted[key] = fact
        elif isinstance(fact, LockFreed):
            key = fact.lock_group.removesuffix(LEASE_SUFFIX), fact.queue
            known = self.granted.get(key)
            if known is not None and known.member == fact.member:
                del self.granted[key]
        elif isinstance(fact, ProcessGone):
            for key in [key for key in self.granted if key[1].broker == fact.name]:
                del self.granted[key]

    def grant_of(self, group: str, queue: Queue) -> LockGranted | None:
        """Return the first grant to the current holder."""
        return self.granted.get((group, queue))
