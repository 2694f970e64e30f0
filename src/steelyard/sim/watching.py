"""A broker's tables that tell what happens to them: who is counted in, who holds what, what is committed.

They are the broker's own tables and change nothing about them; they only say it aloud. What caused a change is known to
whoever called, so each public method names it, and the one place where the table changes tells.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.broker.locks import LEASE, HowFreed, Lock, Locks, QueueKey, Watch
from steelyard.broker.members import Beat, Heard, Member, Members
from steelyard.broker.names import OWN_GROUPS
from steelyard.broker.offsets import Offsets
from steelyard.model import Queue
from steelyard.sim.facts import Committed, Fact, Freed, Granted, Registered, Situation, Unregistered

if TYPE_CHECKING:
    from steelyard.wire.peers import Peer

__all__ = ["Ear", "WatchedLocks", "WatchedMembers", "WatchedOffsets"]


class Ear:
    """Where the tables of one broker tell their facts, and what they know of the request at hand."""

    def __init__(self, broker: str, tell: Callable[[Fact], None], now_ms: Callable[[], int]) -> None:
        self.broker, self.tell, self.now_ms = broker, tell, now_ms
        self.peer: Peer | None = None
        """On which line the request at hand came."""
        self.epoch: int | None = None
        """Which epoch of a lock it names."""
        self.lock_names: dict[tuple[str, QueueKey], str] = {}
        """Under which name each queue was locked last; a claim after a restart does not say it."""


class WatchedMembers(Members):
    """The registry of consumers."""

    def __init__(self, ear: Ear, most: int, started_ms: int) -> None:
        super().__init__(most, started_ms)
        self._ear = ear
        self._how: str | None = None

    def heard(self, beat: Beat, now_ms: int) -> Heard:
        """Take in a heartbeat; whoever spoke on its line under another id is replaced."""
        group = self.group(beat.group)
        is_known = group is not None and beat.id in group.members
        self._how = "replaced"
        try:
            found = super().heard(beat, now_ms)
        finally:
            self._how = None
        if not is_known:
            ear = self._ear
            ear.tell(Registered(at_ms=ear.now_ms(), broker=ear.broker, group=beat.group, member=beat.id))
        return found

    def leave(self, member: Member, peer: "Peer") -> bool:
        """Take a line from a member that says goodbye on it."""
        self._how = self._how or "goodbye"
        try:
            return super().leave(member, peer)
        finally:
            self._how = None

    def remove(self, member: Member) -> None:
        """Take a member out of its group."""
        how = self._how or ("silent" if member.closed_ms is None else "closed")
        super().remove(member)
        self._tell_gone(member, how)

    def tell_restart(self) -> None:
        """Tell that nobody is counted in any more, since the broker died."""
        for member in self:
            self._tell_gone(member, "restart")

    def _tell_gone(self, member: Member, how: str) -> None:
        ear = self._ear
        ear.tell(Unregistered(at_ms=ear.now_ms(), broker=ear.broker, group=member.group, member=member.id, how=how))


class WatchedLocks(Locks):
    """The table of locks."""

    def __init__(
        self, ear: Ear, started_ms: int, settle_ms: int, known_groups: Iterable[str], watch: Watch | None = None
    ) -> None:
        super().__init__(started_ms, settle_ms, known_groups, watch)
        self._ear = ear
        self._how = "expired"
        self._is_new = False
        self._name: str | None = None
        """Under which name the lock at hand is asked for, if it is said."""

    @contextmanager
    def _because(self, how: str) -> Iterator[None]:
        before, self._how = self._how, how
        try:
            yield
        finally:
            self._how = before

    def take(
        self, group: str, key: QueueKey, owner: str, now_ms: int, *, until_ms: int | None, is_lease: bool
    ) -> Lock | None:
        """Lock a queue, or prove a lock again."""
        self._is_new, self._name = False, group + LEASE if is_lease else group
        lock = super().take(group, key, owner, now_ms, until_ms=until_ms, is_lease=is_lease)
        self._tell_again(group, key, lock)
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
    ) -> Lock | None:
        """Prove a lock again."""
        self._is_new, self._name = False, group + LEASE if is_lease else group
        lock = super().renew(group, key, owner, epoch, now_ms, until_ms=until_ms, is_lease=is_lease)
        self._tell_again(group, key, lock)
        return lock

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
        """Free a queue."""
        with self._because("unlocked"):
            return super().release(group, key, owner, epoch, now_ms, how=how)

    def claim(self, group: str, key: QueueKey, owner: str, epoch: int, now_ms: int) -> bool:
        """Let a member go on with what it held before the broker started; one that was there before it is outdone."""
        self._name = None
        with self._because("claimed"):
            return super().claim(group, key, owner, epoch, now_ms)

    def left(self, group: str, owner: str, now_ms: int) -> None:
        """Free all that a member held who said goodbye."""
        with self._because("gone"):
            super().left(group, owner, now_ms)

    def lost(self, group: str, owner: str, now_ms: int, *, order_grace_ms: int) -> None:
        """Free what a member held who is gone without a word, now or later."""
        with self._because("gone"):
            super().lost(group, owner, now_ms, order_grace_ms=order_grace_ms)

    def _put(self, group: str, key: QueueKey, lock: Lock, *, is_kept: bool = False) -> Lock:
        self._is_new = True
        put = super()._put(group, key, lock, is_kept=is_kept)  # a lock that goes, goes under its own name
        self._rename(group, key)
        self._tell_granted(group, key, lock, again=False)
        return put

    def _drop(self, group: str, key: QueueKey, how: HowFreed, at_ms: int) -> None:
        lock = self._groups[group][key]
        super()._drop(group, key, how, at_ms)
        self._tell_freed(group, key, lock, self._how)

    def _rename(self, group: str, key: QueueKey) -> None:
        if self._name is not None:
            self._ear.lock_names[group, key] = self._name

    def _tell_again(self, group: str, key: QueueKey, lock: Lock | None) -> None:
        if lock is not None and not self._is_new:
            self._rename(group, key)
            self._tell_granted(group, key, lock, again=True)

    def _tell_granted(self, group: str, key: QueueKey, lock: Lock, *, again: bool) -> None:
        ear = self._ear
        ear.tell(
            Granted(
                at_ms=ear.now_ms(),
                broker=ear.broker,
                lock_group=ear.lock_names.get((group, key), group),
                queue=Queue(key[0], ear.broker, key[1]),
                member=lock.owner,
                epoch=lock.epoch,
                again=again,
            )
        )

    def _tell_freed(self, group: str, key: QueueKey, lock: Lock, how: str) -> None:
        ear = self._ear
        ear.tell(
            Freed(
                at_ms=ear.now_ms(),
                broker=ear.broker,
                lock_group=ear.lock_names.get((group, key), group),
                queue=Queue(key[0], ear.broker, key[1]),
                member=lock.owner,
                how=how,
            )
        )

    def tell_restart(self) -> None:
        """Tell that nobody holds anything any more, since the broker died."""
        for group, locks in self._groups.items():
            for key, lock in locks.items():
                self._tell_freed(group, key, lock, "restart")

    def held(self, now_ms: int) -> list[tuple[str, QueueKey, str]]:
        """List what is held: the name of the lock, the queue, the owner."""
        return [
            (self._ear.lock_names.get((group, key), group), key, lock.owner)
            for group in list(self._groups)
            for key, lock in self.of(group, now_ms)
        ]


class WatchedOffsets(Offsets):
    """The table of offsets."""

    def __init__(self, ear: Ear, known: Offsets, members: Members) -> None:
        super().__init__(known.table())
        self.changes = known.changes
        self._ear, self._members = ear, members

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let the group go on from an offset."""
        about = {"group": group, "queue": str(Queue(topic, self._ear.broker, queue_id)), "offset": str(offset)}
        self._ear.tell(Situation(at_ms=self._ear.now_ms(), name="an offset was reset", about=about))
        super().reset(group, topic, queue_id, offset)

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take a commit."""
        before = self.get(group, topic, queue_id)
        super().put(group, topic, queue_id, offset)
        if group in OWN_GROUPS:
            return
        ear = self._ear
        member = None if ear.peer is None else self._members.on_line(ear.peer, group)
        ear.tell(
            Committed(
                at_ms=ear.now_ms(),
                group=group,
                queue=Queue(topic, ear.broker, queue_id),
                offset=offset,
                member=None if member is None else member.id,
                before=before,
                epoch=ear.epoch,
            )
        )
