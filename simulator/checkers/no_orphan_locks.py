"""R7: no lock outlasts its time without an owner that knows of it.

While the history runs, on our broker: the locks of a dead member are freed within the grace of their kind, as long as
the broker itself is up and has no fault. At the end: the owner of each lock is alive and has the queue in some state.
On Apache's broker the lock of a member that died while it acquired a queue may last its 60 s, and so may one that was
requested on a connection which was lost; otherwise a living member must know of its locks there too, within seconds,
and keeps no lease once it owns the queue, unless there was a fault that may have made a member silent.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from simulator.checkers.checker import Checker, CheckerFinding, HeldLock, HistoryConditions, HistoryEnd
from simulator.checkers.trackers import LEASE_SUFFIX, NEVER_MS, TRACKED_FACTS, FaultTracker, LockHolders
from simulator.facts import Fact, LockFreed, LockGranted, ProcessGone

if TYPE_CHECKING:
    from steelyard.model import Queue

_CLOSED_MS, _ORDER_MS, _SILENT_MS = 4_000, 7_000, 16_000
"""Until our broker frees the locks of a dead member: a lease, an orderly lock, any lock if it was only silent. A closed
connection may be noticed 2 s late."""
_JAVA_MS = 65_000
_KNOWN_MS = 5_000
"""How long a request may be in flight whose sender has given up."""


class _Doomed(NamedTuple):
    """A lock whose owner is dead."""

    gone: ProcessGone
    granted: LockGranted
    until_ms: int


class NoOrphanLocks(Checker):
    """Locks of dead members are freed."""

    name = "no orphan locks"
    fact_types = (*TRACKED_FACTS, LockGranted, LockFreed)

    def __init__(self, conditions: HistoryConditions) -> None:
        super().__init__(conditions)
        self._tracker = FaultTracker(conditions)
        self._holders = LockHolders()
        self._doomed: dict[tuple[str, Queue], _Doomed] = {}
        self._last_granted_ms: dict[tuple[str, Queue, str], int] = {}

    def observe(self, fact: Fact) -> Iterable[CheckerFinding]:
        """Track locks and deaths."""
        if isinstance(fact, LockGranted):
            self._last_granted_ms[fact.lock_group, fact.queue, fact.member] = fact.at_ms
        if isinstance(fact, LockGranted | LockFreed):
            self._holders.observe(fact)
            self._doomed.pop((fact.lock_group.removesuffix(LEASE_SUFFIX), fact.queue), None)
            return self._overdue(fact.at_ms)
        overdue = self._overdue(fact.at_ms)
        if isinstance(fact, ProcessGone):
            self._gone(fact)
            self._holders.observe(fact)
        self._tracker.observe(fact)
        return overdue

    def _gone(self, fact: ProcessGone) -> None:
        for key in [key for key in self._doomed if key[1].broker == fact.name]:
            del self._doomed[key]
        member = fact.name
        started = self._tracker.members.get(member)
        if started is None:
            return
        for key, granted in self._holders.granted.items():
            if granted.member == member and self.conditions.is_steelyard(key[1].broker):
                is_lease = granted.lock_group.endswith(LEASE_SUFFIX)
                bound_ms = _CLOSED_MS if is_lease else _ORDER_MS
                if fact.how == "vanished":
                    bound_ms = _SILENT_MS + (0 if is_lease else _ORDER_MS)
                if started.kind == "java":
                    bound_ms = _JAVA_MS
                self._doomed[key] = _Doomed(fact, granted, fact.at_ms + bound_ms)

    def _overdue(self, now_ms: int) -> list[CheckerFinding]:
        if not self._doomed:
            return []
        found = []
        for key, doomed in list(self._doomed.items()):
            if now_ms <= doomed.until_ms:
                continue
            del self._doomed[key]
            broker = key[1].broker
            if self._tracker.pair_fault_ms("", broker, now_ms) >= doomed.gone.at_ms - _KNOWN_MS:
                continue
            if self._tracker.connection_fault_ms(doomed.granted.member, broker) >= doomed.gone.at_ms - _SILENT_MS:
                continue  # the broker may not have noticed that the connection closed
            sentence = (
                f"{doomed.granted.member} was {doomed.gone.how} at {doomed.gone.at_ms} ms, and {broker} still keeps "
                f"{key[1]} for it (lock of {doomed.granted.lock_group}) at {now_ms} ms"
            )
            found.append(self.finding("safety", "balance", now_ms, sentence, doomed.granted, doomed.gone))
        return found

    def check_end(self, end: HistoryEnd) -> Iterator[CheckerFinding]:
        """Ask the owner of each lock that is left."""
        yield from self._overdue(end.at_ms)
        alive = {member for members in end.alive.values() for member in members}
        for held in end.locks:
            broker, lock_group, queue, owner = held
            granted_ms = self._last_granted_ms.get((lock_group, queue, owner), 0)
            if owner not in alive:
                why = "is gone" if self._is_overdue(end, held, granted_ms) else None
            elif owner in end.states and not self._knows(broker, lock_group, end.states[owner].get(queue)):
                held_ms = end.at_ms - granted_ms
                is_late = held_ms > self._known_ms(broker, owner, granted_ms)
                why = f"does not know of it, {held_ms} ms after it got it" if is_late else None
            else:
                why = None
            if why is not None:
                sentence = f"{broker} keeps {queue} (lock of {lock_group}) for {owner}, which {why}"
                yield self.finding("safety", "balance", end.at_ms, sentence)

    def _known_ms(self, broker: str, owner: str, granted_ms: int) -> int:
        """Return how long a living owner may not know of its lock: Apache executes requests of replaced connections."""
        lost_ms = self._tracker.connection_fault_ms(owner, broker)
        return _KNOWN_MS if self.conditions.is_steelyard(broker) or lost_ms < granted_ms - _KNOWN_MS else _JAVA_MS

    def _is_overdue(self, end: HistoryEnd, held: HeldLock, granted_ms: int) -> bool:
        """Return whether the lock of a dead owner should be free by now."""
        broker, _, _, owner = held
        started = self._tracker.members.get(owner)
        is_java = started is not None and started.kind == "java"
        lasts_ms = _SILENT_MS + _ORDER_MS if self.conditions.is_steelyard(broker) and not is_java else _JAVA_MS
        return end.at_ms - max(self._tracker.gone_ms.get(owner, 0), granted_ms) > lasts_ms

    def _knows(self, broker: str, lock_group: str, state: str | None) -> bool:
        """Return whether a member with a queue in this state knows of its lock."""
        # A member that acquires a queue while another is silent keeps the lock (possible_holders.py): only after a
        # fault.
        if (
            self.conditions.is_steelyard(broker)
            or not lock_group.endswith(LEASE_SUFFIX)
            or self._tracker.last_fault_ms != NEVER_MS
        ):
            return state is not None
        return state is not None and state not in ("OWNED", "DRAINING", "COMMITTING")
