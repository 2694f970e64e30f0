"""Who holds which queue for which group: locks of Java's members and leases of ours, each with an epoch.

A lock of a Java member lives for a minute from its last call, as on Apache's broker. One of ours lives as long as its
member is registered, whose heartbeats prove it. The name of the group may end in ``%LEASE``, which says that the queue
may change hands at once when its holder is gone; without it the queue is handled in order, and the holder's handlers
get a grace to end. Both are locks on the same queue and exclude each other.

Epochs grow for ever, also over restarts: the time at which the broker started comes first in them. After a restart
nobody holds anything, and whoever asked first would get what others still work on. So for a short while only those
get a queue who say that they held it before; where two say so, the higher epoch was the later.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias

from msgspec import Struct

from steelyard.broker.refusals import refusal
from steelyard.broker.timing import first_epoch
from steelyard.wire.codes import ResponseCode

__all__ = ["LEASE", "HowFreed", "Lock", "Locks", "QueueKey", "Watch", "group_and_lease"]

LEASE = "%LEASE"
"""How the name of a group ends in a lock that may change hands at once."""

QueueKey: TypeAlias = tuple[str, int]
"""A queue of this broker: its topic and its number."""

_MOST_LOCKS = 200_000
_DAY_MS = 86_400_000
_JAVA_TRUSTS_MS = 30_000
"""How long a Java member goes on by itself after its last lock call."""


class HowFreed(Enum):
    """How a queue got free."""

    GIVEN_UP = "given up"
    """By its holder, who stays."""
    LEFT = "left"
    """Its holder said goodbye."""
    LOST = "lost"
    """Its holder is gone without a word."""
    EXPIRED = "expired"
    """Its holder did not renew it in time."""
    OUTDONE = "outdone"
    """Another one held it later, before the broker started."""
    TOPIC_GONE = "topic gone"
    """There is nothing to hold any more."""


class Watch(Protocol):
    """Who is told when a queue gets another holder."""

    def taken(self, group: str, key: QueueKey, owner: str, now_ms: int, *, is_kept: bool) -> None:
        """Take note that somebody holds a queue that was free; ``is_kept``: it held it before the broker started."""

    def freed(self, group: str, key: QueueKey, owner: str, how: HowFreed, at_ms: int) -> None:
        """Take note that a queue is free."""


class Lock(Struct, gc=False):
    """A held queue."""

    owner: str
    epoch: int
    proven_ms: int
    """When its owner last called for it."""
    until_ms: int | None
    """When it is over; None: when its owner is gone."""
    is_lease: bool
    is_lost: bool = False
    """Whether its owner is gone, and only its handlers may still be at work."""

    def is_live(self, now_ms: int) -> bool:
        """Whether it still counts."""
        return self.until_ms is None or now_ms < self.until_ms


def group_and_lease(name: str) -> tuple[str, bool]:
    """Return the group that a lock's name stands for, and whether it is a lease.

    >>> group_and_lease("billing%LEASE"), group_and_lease("billing")
    (('billing', True), ('billing', False))
    """
    return name.removesuffix(LEASE), name.endswith(LEASE)


class Locks:
    """The table of locks."""

    def __init__(
        self, started_ms: int, settle_ms: int, known_groups: Iterable[str], watch: Watch | None = None
    ) -> None:
        self._watch = watch
        self._epoch = first_epoch(started_ms)
        self._settled_ms = started_ms + settle_ms
        self._known_before = frozenset(known_groups)
        self._groups: dict[str, dict[QueueKey, Lock]] = {}
        self._owned: dict[tuple[str, str], set[QueueKey]] = {}
        self._count = 0

    def is_settled(self, group: str, now_ms: int) -> bool:
        """Whether whoever asks first gets a free queue; a group that is new since the start has nobody to wait for."""
        return now_ms >= self._settled_ms or group not in self._known_before

    def holder(self, group: str, topic: str, queue_id: int, now_ms: int) -> Lock | None:
        """Return the live lock or lease of a queue, or None."""
        lock = self._groups.get(group, {}).get((topic, queue_id))
        return lock if lock is not None and lock.is_live(now_ms) else None

    def of(self, group: str, now_ms: int) -> Iterator[tuple[QueueKey, Lock]]:
        """Go through the queues of a group that are held."""
        return ((key, lock) for key, lock in self._groups.get(group, {}).items() if lock.is_live(now_ms))

    def take(
        self, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
    ) -> Lock | None:
        """Lock a queue that is free, expired or the owner's own already; None if somebody else has it, or may have."""
        lock = self.holder(group, *key, now_ms)
        if lock is None:
            if not self.is_settled(group, now_ms):
                return None
            return self._put(group, key, Lock(owner, self._next_epoch(), now_ms, until_ms, is_lease))
        return _proven(lock, now_ms, until_ms, is_lease) if lock.owner == owner else None

    def renew(
        self,
        group: str,
        key: QueueKey,
        owner: str,
        epoch: int | None,
        now_ms: int,
        *,
        until_ms: int | None,
        is_lease: bool,
    ) -> Lock | None:
        """Prove a lock again; one that was lost meanwhile is not taken, since somebody may have worked there since."""
        lock = self.holder(group, *key, now_ms)
        if lock is None or lock.owner != owner or (epoch is not None and epoch != lock.epoch):
            return None
        return _proven(lock, now_ms, until_ms, is_lease)

    def release(
        self,
        group: str,
        key: QueueKey,
        owner: str,
        epoch: int | None,
        now_ms: int,
        *,
        how: HowFreed = HowFreed.GIVEN_UP,
    ) -> bool:
        """Free a queue, if this owner holds it, under this epoch if one is given; say whether it did."""
        lock = self._groups.get(group, {}).get(key)
        if lock is None or lock.owner != owner or (epoch is not None and epoch != lock.epoch):
            return False
        self._drop(group, key, how, now_ms)
        return True

    def claim(self, group: str, key: QueueKey, owner: str, epoch: int, now_ms: int) -> bool:
        """Let a member of ours go on with a queue that it held before the broker started; say whether it may."""
        if self.is_settled(group, now_ms) or not 0 < epoch < first_epoch(now_ms + _DAY_MS):
            return False
        lock = self.holder(group, *key, now_ms)
        if lock is not None and lock.epoch >= epoch:
            return lock.owner == owner and lock.epoch == epoch
        # A clock that was set back must not give out an epoch that somebody has already.
        self._epoch = max(self._epoch, epoch)
        # Whether it is a lease, the first renewal tells.
        self._put(group, key, Lock(owner, epoch, now_ms, None, is_lease=False), is_kept=True)
        return True

    def bump(self, group: str, topic: str, queue_id: int) -> None:
        """Give a held queue a new epoch, so that its owner asks again where it is."""
        lock = self._groups.get(group, {}).get((topic, queue_id))
        if lock is not None:
            lock.epoch = self._next_epoch()

    def left(self, group: str, owner: str, now_ms: int) -> None:
        """Free all that a member held who said goodbye."""
        for key in sorted(self._owned.get((group, owner), ())):
            self._drop(group, key, HowFreed.LEFT, now_ms)

    def lost(self, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
        """Free what a member held who is gone without a word: leases at once, others when its handlers must be done."""
        for key in sorted(self._owned.get((group, owner), ())):
            lock = self._groups[group][key]
            lock.is_lost = True
            if lock.until_ms is not None:
                lock.until_ms = min(lock.until_ms, lock.proven_ms + _JAVA_TRUSTS_MS)
            elif not lock.is_lease:
                lock.until_ms = now_ms + order_grace_ms
            else:
                self._drop(group, key, HowFreed.LOST, now_ms)

    def excuse(self, missed_ms: int) -> None:
        """Count a time as not passed for all locks, since the clock was put forward."""
        for locks in self._groups.values():
            for lock in locks.values():
                lock.proven_ms += missed_ms
                if lock.until_ms is not None:
                    lock.until_ms += missed_ms

    def expire(self, now_ms: int) -> None:
        """Forget locks that are over."""
        for group in list(self._groups):
            for key in [key for key, lock in self._groups[group].items() if not lock.is_live(now_ms)]:
                self._drop_over(group, key, now_ms)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _put(self, group: str, key: QueueKey, lock: Lock, *, is_kept: bool = False) -> Lock:
        if key in self._groups.get(group, {}):
            self._drop_over(group, key, lock.proven_ms)
        if self._count >= _MOST_LOCKS:
            raise refusal(ResponseCode.SYSTEM_ERROR, f"this broker holds {self._count} locks and takes no more")
        self._groups.setdefault(group, {})[key] = lock
        self._owned.setdefault((group, lock.owner), set()).add(key)
        self._count += 1
        if self._watch is not None:
            self._watch.taken(group, key, lock.owner, lock.proven_ms, is_kept=is_kept)
        return lock

    def _drop_over(self, group: str, key: QueueKey, now_ms: int) -> None:
        """Forget a lock whose time is over, or that a later one from before the broker's start outdoes."""
        lock = self._groups[group][key]
        if lock.until_ms is None or lock.is_live(now_ms):
            self._drop(group, key, HowFreed.OUTDONE, now_ms)
        else:
            self._drop(group, key, HowFreed.LOST if lock.is_lost else HowFreed.EXPIRED, lock.until_ms)

    def _drop(self, group: str, key: QueueKey, how: HowFreed, at_ms: int) -> None:
        locks = self._groups[group]
        lock = locks.pop(key)
        self._count -= 1
        if not locks:
            del self._groups[group]
        owned = self._owned[group, lock.owner]
        owned.discard(key)
        if not owned:
            del self._owned[group, lock.owner]
        if self._watch is not None:
            self._watch.freed(group, key, lock.owner, how, at_ms)


def _proven(lock: Lock, now_ms: int, until_ms: int | None, is_lease: bool) -> Lock:
    lock.proven_ms, lock.until_ms, lock.is_lease, lock.is_lost = now_ms, until_ms, is_lease, False
    return lock
