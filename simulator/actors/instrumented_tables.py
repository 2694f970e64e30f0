"""A broker's tables that record facts: consumer registry, queue locks, consumer offsets.

They are the broker's own tables, and change nothing about them. The caller knows the cause of a change: so each public
method notes it, and the one place where the table changes records the fact.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from simulator.facts import (
    Fact,
    LockFreed,
    LockGranted,
    MemberRegistered,
    MemberUnregistered,
    OffsetCommitted,
    Situation,
)
from steelyard.broker.consumer_registry import ConsumerRegistry, GroupMember, HeartbeatResult, MemberHeartbeat
from steelyard.broker.offsets import ConsumerOffsets
from steelyard.broker.queue_locks import LEASE, LockObserver, QueueKey, QueueLock, QueueLockTable, ReleaseReason
from steelyard.broker.validation import BROKER_GROUPS
from steelyard.model import Queue

if TYPE_CHECKING:
    from steelyard.wire.command import Peer


class BrokerFactReporter:
    """Records the facts of one broker's tables, with what is known of the current request."""

    def __init__(self, broker: str, record: Callable[[Fact], None], now_ms: Callable[[], int]) -> None:
        self.broker, self.record, self.now_ms = broker, record, now_ms
        self.peer: Peer | None = None
        """The client of the current request."""
        self.epoch: int | None = None
        """The lock epoch that it names."""
        self.lock_names: dict[tuple[str, QueueKey], str] = {}
        """The lock group of each queue's last lock: a reclaim after a restart does not name it."""


class InstrumentedConsumerRegistry(ConsumerRegistry):
    """A consumer registry that records who joins and leaves."""

    def __init__(self, reporter: BrokerFactReporter, most: int, started_ms: int) -> None:
        super().__init__(most, started_ms)
        self._reporter = reporter
        self._how: str | None = None

    def register(self, heartbeat: MemberHeartbeat, now_ms: int) -> HeartbeatResult:
        """Register a heartbeat; another id on the same connection is replaced."""
        group = self.group(heartbeat.group)
        is_known = group is not None and heartbeat.id in group.members
        self._how = "replaced"
        try:
            result = super().register(heartbeat, now_ms)
        finally:
            self._how = None
        if not is_known:
            reporter = self._reporter
            reporter.record(
                MemberRegistered(
                    at_ms=reporter.now_ms(), broker=reporter.broker, group=heartbeat.group, member=heartbeat.id
                )
            )
        return result

    def remove_connection(self, member: GroupMember, peer: "Peer") -> bool:
        """Remove a connection of a member that unregisters on it."""
        self._how = self._how or "goodbye"
        try:
            return super().remove_connection(member, peer)
        finally:
            self._how = None

    def remove(self, member: GroupMember) -> None:
        """Remove a member from its group."""
        how = self._how or ("silent" if member.disconnected_ms is None else "closed")
        super().remove(member)
        self._report_unregistered(member, how)

    def report_restart(self) -> None:
        """Record that all members are gone, because the broker died."""
        for member in self:
            self._report_unregistered(member, "restart")

    def _report_unregistered(self, member: GroupMember, how: str) -> None:
        reporter = self._reporter
        reporter.record(
            MemberUnregistered(
                at_ms=reporter.now_ms(), broker=reporter.broker, group=member.group, member=member.id, how=how
            )
        )


class InstrumentedQueueLocks(QueueLockTable):
    """A lock table that records grants and releases."""

    def __init__(
        self,
        reporter: BrokerFactReporter,
        started_ms: int,
        settle_ms: int,
        known_groups: Iterable[str],
        observer: LockObserver | None = None,
    ) -> None:
        super().__init__(started_ms, settle_ms, known_groups, observer)
        self._reporter = reporter
        self._how = "expired"
        self._is_new = False
        self._name: str | None = None
        """The lock group of the current request, if it names one."""

    @contextmanager
    def _freeing_because(self, how: str) -> Iterator[None]:
        before, self._how = self._how, how
        try:
            yield
        finally:
            self._how = before

    def acquire(
        self, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
    ) -> QueueLock | None:
        """Lock a queue, or confirm the lock to its holder."""
        self._is_new, self._name = False, group + LEASE if is_lease else group
        lock = super().acquire(group, key, owner, now_ms, until_ms=until_ms, is_lease=is_lease)
        self._report_kept(group, key, lock)
        return lock

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
        """Renew a lock."""
        self._is_new, self._name = False, group + LEASE if is_lease else group
        lock = super().renew(group, key, owner, epoch, now_ms, until_ms=until_ms, is_lease=is_lease)
        self._report_kept(group, key, lock)
        return lock

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
        """Free a queue."""
        with self._freeing_because("unlocked"):
            return super().release(group, key, owner, epoch, now_ms, how=how)

    def reclaim(self, group: str, key: QueueKey, owner: str, epoch: int, now_ms: int) -> bool:
        """Give a queue back to the member that held it before the broker started; a later holder loses it."""
        self._name = None
        with self._freeing_because("claimed"):
            return super().reclaim(group, key, owner, epoch, now_ms)

    def release_all(self, group: str, owner: str, now_ms: int) -> None:
        """Free all queues of a member that unregistered."""
        with self._freeing_because("gone"):
            super().release_all(group, owner, now_ms)

    def release_lost(self, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
        """Free the queues of a member that was lost, now or after the grace of orderly queues."""
        with self._freeing_because("gone"):
            super().release_lost(group, owner, now_ms, order_grace_ms=order_grace_ms)

    def _grant(self, group: str, key: QueueKey, lock: QueueLock, *, is_kept: bool = False) -> QueueLock:
        self._is_new = True
        granted = super()._grant(group, key, lock, is_kept=is_kept)  # before the name changes: it may free the old lock
        self._remember_lock_name(group, key)
        self._report_granted(group, key, lock, again=False)
        return granted

    def _drop(self, group: str, key: QueueKey, how: ReleaseReason, at_ms: int) -> None:
        lock = self._groups[group][key]
        super()._drop(group, key, how, at_ms)
        self._report_freed(group, key, lock, self._how)

    def _remember_lock_name(self, group: str, key: QueueKey) -> None:
        if self._name is not None:
            self._reporter.lock_names[group, key] = self._name

    def _report_kept(self, group: str, key: QueueKey, lock: QueueLock | None) -> None:
        if lock is not None and not self._is_new:
            self._remember_lock_name(group, key)
            self._report_granted(group, key, lock, again=True)

    def _report_granted(self, group: str, key: QueueKey, lock: QueueLock, *, again: bool) -> None:
        reporter = self._reporter
        reporter.record(
            LockGranted(
                at_ms=reporter.now_ms(),
                broker=reporter.broker,
                lock_group=reporter.lock_names.get((group, key), group),
                queue=Queue(key[0], reporter.broker, key[1]),
                member=lock.owner,
                epoch=lock.epoch,
                again=again,
            )
        )

    def _report_freed(self, group: str, key: QueueKey, lock: QueueLock, how: str) -> None:
        reporter = self._reporter
        reporter.record(
            LockFreed(
                at_ms=reporter.now_ms(),
                broker=reporter.broker,
                lock_group=reporter.lock_names.get((group, key), group),
                queue=Queue(key[0], reporter.broker, key[1]),
                member=lock.owner,
                how=how,
            )
        )

    def report_restart(self) -> None:
        """Record that all locks are free, because the broker died."""
        for group, locks in self._groups.items():
            for key, lock in locks.items():
                self._report_freed(group, key, lock, "restart")

    def held_locks(self, now_ms: int) -> list[tuple[str, QueueKey, str]]:
        """Return the held locks: lock group, queue, owner."""
        return [
            (self._reporter.lock_names.get((group, key), group), key, lock.owner)
            for group in list(self._groups)
            for key, lock in self.held_queues(group, now_ms)
        ]


class InstrumentedOffsets(ConsumerOffsets):
    """An offset table that records commits and resets."""

    def __init__(self, reporter: BrokerFactReporter, known: ConsumerOffsets, members: ConsumerRegistry) -> None:
        super().__init__(known.table())
        self.changes = known.changes
        self._reporter, self._members = reporter, members

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Reset the offset of a group."""
        about = {"group": group, "queue": str(Queue(topic, self._reporter.broker, queue_id)), "offset": str(offset)}
        self._reporter.record(Situation(at_ms=self._reporter.now_ms(), name="an offset was reset", about=about))
        super().reset(group, topic, queue_id, offset)

    def put(self, group: str, topic: str, queue_id: int, offset: int, now_ms: int = 0) -> None:
        """Store a commit."""
        before = self.get(group, topic, queue_id)
        super().put(group, topic, queue_id, offset, now_ms)
        if group in BROKER_GROUPS:
            return
        reporter = self._reporter
        member = None if reporter.peer is None else self._members.on_connection(reporter.peer, group)
        reporter.record(
            OffsetCommitted(
                at_ms=reporter.now_ms(),
                group=group,
                queue=Queue(topic, reporter.broker, queue_id),
                offset=offset,
                member=None if member is None else member.id,
                before=before,
                epoch=reporter.epoch,
            )
        )
