"""Queue locks: which member holds which queue for its group, as a lock of Java's or a lease of ours, with an epoch.

A Java member's lock lasts a minute from its last call, as on Apache's broker. One of ours lasts as long as its member
is registered, which its heartbeats prove. A group name may end in ``%LEASE``: the queue may change hands at once when
its holder is gone. Without it the queue is handled in order, and the holder's handlers get a grace to finish. Both lock
the same queue and exclude each other.

Epochs grow for ever, also over restarts: the start time of the broker comes first in them. After a restart nothing is
held, and the first request would get queues that others still work on. So for a short while only members that held a
queue before can get it; of two that claim it, the higher epoch was the later.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Protocol, TypeAlias

from msgspec import Struct

from steelyard.broker.request_errors import system_error
from steelyard.broker.timing import first_epoch

LEASE = "%LEASE"
"""The suffix of the group name in a lock that may change hands at once."""

QueueKey: TypeAlias = tuple[str, int]
"""A queue of this broker: topic and queue id."""

_MAX_LOCKS = 200_000
_DAY_MS = 86_400_000
_JAVA_LOCK_TRUST_MS = 30_000
"""How long a Java member trusts its lock after its last lock call."""


class ReleaseReason(Enum):
    """Why a lock was released."""

    GIVEN_UP = "given up"
    """By its holder, which stays."""
    LEFT = "left"
    """Its holder unregistered."""
    LOST = "lost"
    """Its holder was lost."""
    EXPIRED = "expired"
    """Its holder did not renew it in time."""
    SUPERSEDED = "outdone"
    """Another member held it later, before the broker started."""
    TOPIC_GONE = "topic gone"
    """Its topic was deleted."""


class LockObserver(Protocol):
    """Receives changes of holders."""

    def lock_acquired(self, group: str, key: QueueKey, owner: str, now_ms: int, *, is_kept: bool) -> None:
        """Handle a newly held queue; ``is_kept``: its holder had it before the broker started."""

    def lock_released(self, group: str, key: QueueKey, owner: str, how: ReleaseReason, at_ms: int) -> None:
        """Handle a released queue."""


class QueueLock(Struct, gc=False):
    """A held queue."""

    owner: str
    epoch: int
    renewed_ms: int
    """When its owner last renewed it."""
    until_ms: int | None
    """When it expires; None: when its owner is gone."""
    is_lease: bool
    is_owner_lost: bool = False
    """Whether its owner is gone, and only its handlers may still run."""

    def is_live(self, now_ms: int) -> bool:
        """Return whether it has not expired."""
        return self.until_ms is None or now_ms < self.until_ms


def parse_lock_group(name: str) -> tuple[str, bool]:
    """Return the group of a lock request, and whether it requests a lease.

    >>> parse_lock_group("billing%LEASE"), parse_lock_group("billing")
    (('billing', True), ('billing', False))
    """
    return name.removesuffix(LEASE), name.endswith(LEASE)


class QueueLockTable:
    """All queue locks of a broker."""

    def __init__(
        self, started_ms: int, settle_ms: int, known_groups: Iterable[str], observer: LockObserver | None = None
    ) -> None:
        self._observer = observer
        self._epoch = first_epoch(started_ms)
        self._settled_ms = started_ms + settle_ms
        self._groups_before_start = frozenset(known_groups)
        self._groups: dict[str, dict[QueueKey, QueueLock]] = {}
        self._owned: dict[tuple[str, str], set[QueueKey]] = {}
        self._count = 0

    def is_settled(self, group: str, now_ms: int) -> bool:
        """Return whether free queues can be acquired; a group that is new since the start has no former holders."""
        return now_ms >= self._settled_ms or group not in self._groups_before_start

    def holder(self, group: str, topic: str, queue_id: int, now_ms: int) -> QueueLock | None:
        """Return the live lock or lease of a queue, or None."""
        lock = self._groups.get(group, {}).get((topic, queue_id))
        return lock if lock is not None and lock.is_live(now_ms) else None

    def held_queues(self, group: str, now_ms: int) -> Iterator[tuple[QueueKey, QueueLock]]:
        """Iterate over the held queues of a group."""
        return ((key, lock) for key, lock in self._groups.get(group, {}).items() if lock.is_live(now_ms))

    def acquire(
        self, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
    ) -> QueueLock | None:
        """Lock a queue that is free, expired or the owner's already; None if another member has it, or may have."""
        lock = self.holder(group, *key, now_ms)
        if lock is None:
            if not self.is_settled(group, now_ms):
                return None
            return self._grant(group, key, QueueLock(owner, self._next_epoch(), now_ms, until_ms, is_lease))
        return _renewed(lock, now_ms, until_ms, is_lease) if lock.owner == owner else None

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
    ) -> QueueLock | None:
        """Renew a lock; None if it was lost meanwhile, even if it is free: another member may have held it since."""
        lock = self.holder(group, *key, now_ms)
        if lock is None or lock.owner != owner or (epoch is not None and epoch != lock.epoch):
            return None
        return _renewed(lock, now_ms, until_ms, is_lease)

    def release(
        self,
        group: str,
        key: QueueKey,
        owner: str,
        epoch: int | None,
        now_ms: int,
        *,
        how: ReleaseReason = ReleaseReason.GIVEN_UP,
    ) -> bool:
        """Release a queue if this owner holds it, under this epoch if one is given; return whether it did."""
        lock = self._groups.get(group, {}).get(key)
        if lock is None or lock.owner != owner or (epoch is not None and epoch != lock.epoch):
            return False
        self._drop(group, key, how, now_ms)
        return True

    def reclaim(self, group: str, key: QueueKey, owner: str, epoch: int, now_ms: int) -> bool:
        """Give a member a queue that it held before the broker started; return whether it has it."""
        if self.is_settled(group, now_ms) or not 0 < epoch < first_epoch(now_ms + _DAY_MS):
            return False
        lock = self.holder(group, *key, now_ms)
        if lock is not None and lock.epoch >= epoch:
            return lock.owner == owner and lock.epoch == epoch
        # A clock that was set back must not lead to an epoch that is already in use.
        self._epoch = max(self._epoch, epoch)
        # The first renewal tells whether it is a lease.
        self._grant(group, key, QueueLock(owner, epoch, now_ms, None, is_lease=False), is_kept=True)
        return True

    def advance_epoch(self, group: str, topic: str, queue_id: int) -> None:
        """Give a held queue a new epoch, so that its owner asks for its offset again."""
        lock = self._groups.get(group, {}).get((topic, queue_id))
        if lock is not None:
            lock.epoch = self._next_epoch()

    def release_all(self, group: str, owner: str, now_ms: int) -> None:
        """Release all queues of a member that unregistered."""
        for key in sorted(self._owned.get((group, owner), ())):
            self._drop(group, key, ReleaseReason.LEFT, now_ms)

    def release_lost(self, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
        """Release the queues of a lost member: leases at once, others when its handlers must have finished."""
        for key in sorted(self._owned.get((group, owner), ())):
            lock = self._groups[group][key]
            lock.is_owner_lost = True
            if lock.until_ms is not None:
                lock.until_ms = min(lock.until_ms, lock.renewed_ms + _JAVA_LOCK_TRUST_MS)
            elif not lock.is_lease:
                lock.until_ms = now_ms + order_grace_ms
            else:
                self._drop(group, key, ReleaseReason.LOST, now_ms)

    def shift_deadlines(self, shift_ms: int) -> None:
        """Postpone all expiries, since the clock was set forward."""
        for locks in self._groups.values():
            for lock in locks.values():
                lock.renewed_ms += shift_ms
                if lock.until_ms is not None:
                    lock.until_ms += shift_ms

    def expire(self, now_ms: int) -> None:
        """Drop expired locks."""
        for group in list(self._groups):
            for key in [key for key, lock in self._groups[group].items() if not lock.is_live(now_ms)]:
                self._drop_expired(group, key, now_ms)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _grant(self, group: str, key: QueueKey, lock: QueueLock, *, is_kept: bool = False) -> QueueLock:
        if key in self._groups.get(group, {}):
            self._drop_expired(group, key, lock.renewed_ms)
        if self._count >= _MAX_LOCKS:
            raise system_error(f"this broker holds {self._count} locks and accepts no more")
        self._groups.setdefault(group, {})[key] = lock
        self._owned.setdefault((group, lock.owner), set()).add(key)
        self._count += 1
        if self._observer is not None:
            self._observer.lock_acquired(group, key, lock.owner, lock.renewed_ms, is_kept=is_kept)
        return lock

    def _drop_expired(self, group: str, key: QueueKey, now_ms: int) -> None:
        """Drop a lock that has expired, or that a later one from before the start supersedes."""
        lock = self._groups[group][key]
        if lock.until_ms is None or lock.is_live(now_ms):
            self._drop(group, key, ReleaseReason.SUPERSEDED, now_ms)
        else:
            self._drop(group, key, ReleaseReason.LOST if lock.is_owner_lost else ReleaseReason.EXPIRED, lock.until_ms)

    def _drop(self, group: str, key: QueueKey, how: ReleaseReason, at_ms: int) -> None:
        locks = self._groups[group]
        lock = locks.pop(key)
        self._count -= 1
        if not locks:
            del self._groups[group]
        owned = self._owned[group, lock.owner]
        owned.discard(key)
        if not owned:
            del self._owned[group, lock.owner]
        if self._observer is not None:
            self._observer.lock_released(group, key, lock.owner, how, at_ms)


def _renewed(lock: QueueLock, now_ms: int, until_ms: int | None, is_lease: bool) -> QueueLock:
    lock.renewed_ms, lock.until_ms, lock.is_lease, lock.is_owner_lost = now_ms, until_ms, is_lease, False
    return lock
