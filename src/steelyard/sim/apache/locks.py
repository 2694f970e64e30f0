"""Apache's locks on queues: who asked last within sixty seconds, and no more than that.

The table takes any text for a group and any text for a client and checks neither against the line it came on. A lock
lives from the last time its owner asked for it. No line that closes frees one; only its owner's name in an unlock, or
time, does. It is in memory only: a broker that starts has none.
"""

from collections.abc import Iterator

from steelyard.model import Queue
from steelyard.sim.facts import Fact, Freed, Granted

__all__ = ["LOCK_MS", "Locks"]

LOCK_MS = 60_000
"""How long a lock lives that nobody asks for again."""


class _Lock:
    __slots__ = ("owner", "since_ms")

    def __init__(self, owner: str, since_ms: int) -> None:
        self.owner, self.since_ms = owner, since_ms

    def is_old(self, now_ms: int) -> bool:
        return now_ms - self.since_ms > LOCK_MS


class Locks:
    """The table of locks. What it does is told as facts, which stay in ``facts`` until somebody takes them.

    >>> locks, queue = Locks("b1"), Queue("orders", "b1", 0)
    >>> [locks.lock("g", queue, client, now_ms, 0) for client, now_ms in (("c1", 0), ("c2", 60_000), ("c2", 60_001))]
    [True, False, True]
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._groups: dict[str, dict[Queue, _Lock]] = {}
        self.facts: list[Fact] = []

    def lock(self, group: str, queue: Queue, client: str, now_ms: int, at_ms: int) -> bool:
        """Lock a queue for a client: if it is free, its own, or held for too long."""
        locks = self._groups.setdefault(group, {})
        held = locks.get(queue)
        if held is not None and held.owner != client:
            if not held.is_old(now_ms):
                return False
            self._freed(group, queue, held.owner, "expired", at_ms)
            held = None
        # Its own lock counts as kept even where it is old: nobody else has had it meanwhile.
        again = held is not None
        locks[queue] = _Lock(client, now_ms)
        granted = Granted(at_ms=at_ms, broker=self._broker, lock_group=group, queue=queue, member=client, again=again)
        self.facts.append(granted)
        return True

    def unlock(self, group: str, queue: Queue, client: str, at_ms: int) -> None:
        """Let a queue go if it is this client's; whoever says so."""
        locks = self._groups.get(group, {})
        held = locks.get(queue)
        if held is not None and held.owner == client:
            del locks[queue]
            self._freed(group, queue, client, "unlocked", at_ms)

    def has_live(self, group: str, now_ms: int) -> bool:
        """Whether a group has any lock that is not old: release 5 takes it for an orderly one then."""
        return any(not lock.is_old(now_ms) for lock in self._groups.get(group, {}).values())

    def live(self, now_ms: int) -> Iterator[tuple[str, Queue, str]]:
        """Go through locks that are not old: group, queue, owner."""
        for group in sorted(self._groups):
            locks = self._groups[group]
            yield from (
                (group, queue, locks[queue].owner) for queue in sorted(locks) if not locks[queue].is_old(now_ms)
            )

    def lose(self, at_ms: int) -> None:
        """Forget everything, since the process is gone."""
        for group in sorted(self._groups):
            for queue in sorted(self._groups[group]):
                self._freed(group, queue, self._groups[group][queue].owner, "restart", at_ms)
        self._groups.clear()

    def _freed(self, group: str, queue: Queue, client: str, how: str, at_ms: int) -> None:
        fact = Freed(at_ms=at_ms, broker=self._broker, lock_group=group, queue=queue, member=client, how=how)
        self.facts.append(fact)
