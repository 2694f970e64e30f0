"""R7: no lock outlives its lease without an owner that knows of it.

While the history runs, on our broker: what a member held who died is freed within the grace of its kind, as long as the
broker itself is up and well. In the end: the owner of each lock lives and has the queue in some state. On Apache's
broker a lock of a member that died while it took a queue may last its 60 s, and so may one that was asked for on a line
which was lost; otherwise a living one must know of its locks there too, within seconds, and keeps no lease once it owns
the queue, unless something went wrong that may have made a member silent.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from steelyard.sim.checkers.checker import Checker, End, Finding, Held, Terms
from steelyard.sim.checkers.lives import LEASE, Holders
from steelyard.sim.checkers.scene import NEVER_MS, SCENE, Scene
from steelyard.sim.facts import Fact, Freed, Gone, Granted

if TYPE_CHECKING:
    from steelyard.model import Queue

__all__ = ["NoOrphanLocks"]

_CLOSED_MS, _ORDER_MS, _SILENT_MS = 4_000, 7_000, 16_000
"""Until our broker frees what a dead member held: a lease, a lock of the order, anything if it was only silent. That a
line closed may be noticed 2 s late."""
_JAVA_MS = 65_000
_KNOWN_MS = 5_000
"""How long a request may be under way whose sender has already changed its mind."""


class _Doomed(NamedTuple):
    """A lock whose owner is dead."""

    gone: Gone
    granted: Granted
    until_ms: int


class NoOrphanLocks(Checker):
    """Nobody waits for a lock that nobody has."""

    name = "no orphan locks"
    wants = (*SCENE, Granted, Freed)

    def __init__(self, terms: Terms) -> None:
        super().__init__(terms)
        self._scene = Scene(terms)
        self._holders = Holders()
        self._doomed: dict[tuple[str, Queue], _Doomed] = {}
        self._last_granted_ms: dict[tuple[str, Queue, str], int] = {}

    def note(self, fact: Fact) -> Iterable[Finding]:
        """Follow locks and deaths."""
        if isinstance(fact, Granted):
            self._last_granted_ms[fact.lock_group, fact.queue, fact.member] = fact.at_ms
        if isinstance(fact, Granted | Freed):
            self._holders.note(fact)
            self._doomed.pop((fact.lock_group.removesuffix(LEASE), fact.queue), None)
            return self._overdue(fact.at_ms)
        overdue = self._overdue(fact.at_ms)
        if isinstance(fact, Gone):
            self._gone(fact)
            self._holders.note(fact)
        self._scene.note(fact)
        return overdue

    def _gone(self, fact: Gone) -> None:
        for key in [key for key in self._doomed if key[1].broker == fact.name]:
            del self._doomed[key]
        member = fact.name
        joined = self._scene.members.get(member)
        if joined is None:
            return
        for key, granted in self._holders.granted.items():
            if granted.member == member and self.terms.is_ours(key[1].broker):
                is_lease = granted.lock_group.endswith(LEASE)
                bound_ms = _CLOSED_MS if is_lease else _ORDER_MS
                if fact.how == "vanished":
                    bound_ms = _SILENT_MS + (0 if is_lease else _ORDER_MS)
                if joined.kind == "java":
                    bound_ms = _JAVA_MS
                self._doomed[key] = _Doomed(fact, granted, fact.at_ms + bound_ms)

    def _overdue(self, now_ms: int) -> list[Finding]:
        if not self._doomed:
            return []
        found = []
        for key, doomed in list(self._doomed.items()):
            if now_ms <= doomed.until_ms:
                continue
            del self._doomed[key]
            broker = key[1].broker
            if self._scene.troubled_ms("", broker, now_ms) >= doomed.gone.at_ms - _KNOWN_MS:
                continue
            if self._scene.line_lost_ms(doomed.granted.member, broker) >= doomed.gone.at_ms - _SILENT_MS:
                continue  # it may not have heard the line close
            sentence = (
                f"{doomed.granted.member} was {doomed.gone.how} at {doomed.gone.at_ms} ms, and {broker} still keeps "
                f"{key[1]} for it (lock of {doomed.granted.lock_group}) at {now_ms} ms"
            )
            found.append(self.finding("safety", "balance", now_ms, sentence, doomed.granted, doomed.gone))
        return found

    def finish(self, end: End) -> Iterator[Finding]:
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
        """Return how long a living owner may not know of its lock: Apache's takes words of a line that was replaced."""
        lost_ms = self._scene.line_lost_ms(owner, broker)
        return _KNOWN_MS if self.terms.is_ours(broker) or lost_ms < granted_ms - _KNOWN_MS else _JAVA_MS

    def _is_overdue(self, end: End, held: Held, granted_ms: int) -> bool:
        """Say whether a lock of a dead owner should be gone by now."""
        broker, _, _, owner = held
        joined = self._scene.members.get(owner)
        is_java = joined is not None and joined.kind == "java"
        lasts_ms = _SILENT_MS + _ORDER_MS if self.terms.is_ours(broker) and not is_java else _JAVA_MS
        return end.at_ms - max(self._scene.gone_ms.get(owner, 0), granted_ms) > lasts_ms

    def _knows(self, broker: str, lock_group: str, state: str | None) -> bool:
        """Say whether a member with a queue in this state reckons with a lock of it."""
        # Who takes a queue while a member is silent keeps the lock (possible_holders.py): only in trouble can one be.
        if self.terms.is_ours(broker) or not lock_group.endswith(LEASE) or self._scene.last_ms != NEVER_MS:
            return state is not None
        return state is not None and state not in ("OWNED", "DRAINING", "COMMITTING")
