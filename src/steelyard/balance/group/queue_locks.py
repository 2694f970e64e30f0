"""Queue locks of one member: lock requests to brokers, and how long a proof of ownership counts (fencing).

At each broker only one of `LockQueues`, `RenewLocks` and `UnlockQueues` is unanswered at a time, because a broker may
execute two in the other order. Unlocks go first, so that no peer waits for a queue that is not needed. Each waits for
the response before it, so no renewal can follow the unlock that was meant to end it. Nothing is requested on a
connection without an answered heartbeat. An Apache broker that has just started knows no members: until they had
time to come back, only queues are locked there that this member already had.

Left out: what a response means for a queue (queue_transitions.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple
from zlib import crc32

from steelyard.balance.group.actions import LockQueues, RenewLocks, UnlockQueues
from steelyard.balance.group.context import ApplyEvent, MemberContext
from steelyard.balance.group.events import LockFailed, LocksAnswered, Unlocked, UnlockFailed
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.process_queue import LockMode, ProcessQueue
from steelyard.balance.group.queue_states import ACTIVE_STATES, QueueEvent, QueueState
from steelyard.model import Queue


class LockGrant(NamedTuple):
    """A lock that this member holds."""

    epoch: int | None
    sent_ms: int
    """When it was requested."""
    lock_mode: LockMode
    is_real: bool = True
    """False if no lock is needed, or the broker forbids it."""


class LockDenial(NamedTuple):
    """A lock that another member holds."""

    holder: str | None


@dataclass(slots=True, eq=False)
class _PendingLockRequest:
    """The request that is unanswered at a broker."""

    kind: type[LockQueues] | type[RenewLocks] | type[UnlockQueues]
    queues: tuple[Queue, ...]
    sent_ms: int
    owner: str | None = None


@dataclass(slots=True, eq=False)
class BrokerLockRequests:
    """What is to be requested of one broker, and what is unanswered there."""

    broker: str
    pending: _PendingLockRequest | None = None
    to_lock: dict[Queue, None] = field(default_factory=dict)
    to_renew: dict[Queue, None] = field(default_factory=dict)
    to_unlock: dict[Queue, int | None] = field(default_factory=dict)
    to_unlock_for_departed: dict[str, tuple[Queue, ...]] = field(default_factory=dict)
    """In the name of members that died while they acquired a queue."""
    retries_by_ms: dict[int, list[ProcessQueue]] = field(default_factory=dict)
    is_lockless: bool = False
    """The broker forbids us to lock: the peers are probed without a lock."""
    is_proven: bool = False
    """A heartbeat was answered on this connection, and not too long ago."""
    is_fence_check_scheduled: bool = False
    is_renewal_scheduled: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unanswered and nothing waits to be sent."""
        return self.pending is None and not (
            self.to_lock or self.to_renew or self.to_unlock or self.to_unlock_for_departed
        )


def _lock_retry_delay_ms(options: MemberOptions, broker: str, attempts: int, waited_ms: int) -> int:
    """Return the delay before the next attempt: the same for all queues of a broker that failed equally often.

    >>> from steelyard.model import Subscription
    >>> options = MemberOptions("g", "m@sy1", {"t": Subscription("t")})
    >>> [_lock_retry_delay_ms(options, "b", tries, 0) for tries in (1, 2, 3, 4)]
    [59, 86, 164, 172]
    >>> 320 <= _lock_retry_delay_ms(options, "b", 20, 5_000) <= 480
    True
    """
    times = options.times
    if waited_ms >= times.lock_retry_fast_ms:
        usual = times.lock_retry_slow_ms
    else:
        usual = times.lock_retry_ms[min(max(attempts, 1), len(times.lock_retry_ms)) - 1]
    # Up to a fifth more or less, so that members that were denied together do not retry together.
    return usual * (800 + crc32(f"{options.id} {broker} {attempts}".encode()) % 401) // 1000


_MAX_QUEUES = 4_096
"""In one request: a few hundred kilobytes at most."""

_SELF_RELEASING_STATES = frozenset({QueueState.WANTED, QueueState.ASKING, QueueState.UNSURE})
"""States that are acquiring the lock, or about to, and release it by themselves."""


class QueueLocks:
    """The locks of one member at all brokers."""

    def __init__(self, context: MemberContext, apply: ApplyEvent) -> None:
        self._context = context
        self._apply = apply
        self._options = context.options
        self._times = context.times
        self._sessions = context.sessions
        self.by_broker: dict[str, BrokerLockRequests] = {}
        self.dirty: dict[str, BrokerLockRequests] = {}

    def broker_requests(self, broker: str) -> BrokerLockRequests:
        """Return the requests of a broker."""
        return self.by_broker.get(broker) or self.by_broker.setdefault(broker, BrokerLockRequests(broker))

    def lock_mode(self, broker: str) -> LockMode | None:
        """Return how queues of a broker are held; None if the kind of broker is not known yet."""
        if self._options.mode is ConsumeMode.BROADCAST:
            return LockMode.NONE
        ours = self._sessions.is_steelyard(broker)
        if ours is None:
            return None
        if ours:
            return LockMode.LEASE
        return LockMode.LOCK if self._options.mode is ConsumeMode.ORDERLY else LockMode.PROBE

    def request_lock(self, process_queue: ProcessQueue) -> None:
        """Request a queue's lock as soon as possible."""
        requests = self._mark_dirty(process_queue.broker)
        # It would be unlocked only to be locked again, and on Apache a late unlock would free what we acquire.
        requests.to_unlock.pop(process_queue.queue, None)
        requests.to_lock[process_queue.queue] = None

    def request_renewal(self, process_queue: ProcessQueue) -> None:
        """Request the renewal of a queue's lock."""
        self._mark_dirty(process_queue.broker).to_renew[process_queue.queue] = None

    def request_unlock(self, queue: Queue, epoch: int | None) -> None:
        """Release a lock as soon as nothing else is unanswered."""
        requests = self._mark_dirty(queue.broker)
        requests.to_lock.pop(queue, None)
        requests.to_renew.pop(queue, None)
        requests.to_unlock[queue] = epoch

    def request_unlock_for(self, broker: str, owner: str, queues: tuple[Queue, ...]) -> None:
        """Release locks in the name of a member that departed."""
        self._mark_dirty(broker).to_unlock_for_departed[owner] = queues

    def cancel_lock_request(self, process_queue: ProcessQueue) -> None:
        """Drop lock requests of a queue that were not sent yet."""
        requests = self.broker_requests(process_queue.broker)
        requests.to_lock.pop(process_queue.queue, None)
        requests.to_renew.pop(process_queue.queue, None)

    def retry_later(self, process_queue: ProcessQueue) -> None:
        """Retry a queue after the usual delay; those of one broker are retried together."""
        context = self._context
        process_queue.attempts += 1
        if process_queue.denied_since_ms is None:
            process_queue.denied_since_ms = context.now_ms
        waited_ms = context.now_ms - process_queue.denied_since_ms
        delay_ms = _lock_retry_delay_ms(self._options, process_queue.broker, process_queue.attempts, waited_ms)
        self.retry_at(process_queue, context.now_ms + delay_ms)

    def retry_at(self, process_queue: ProcessQueue, due_ms: int) -> None:
        """Retry a queue at a time."""
        retries = self.broker_requests(process_queue.broker).retries_by_ms
        if due_ms not in retries:
            self._context.timers.call_at(due_ms, self._retry, process_queue.broker, due_ms)
        retries.setdefault(due_ms, []).append(process_queue)

    def _retry(self, broker: str, due_ms: int) -> None:
        for process_queue in self.broker_requests(broker).retries_by_ms.pop(due_ms):
            is_settled = process_queue.state in (QueueState.OWNED, QueueState.DRAINING)
            if not is_settled and self._context.is_current(process_queue):
                self._apply(process_queue, QueueEvent.RETRY_DUE)

    def _mark_dirty(self, broker: str) -> BrokerLockRequests:
        requests = self.dirty[broker] = self.broker_requests(broker)
        return requests

    def flush(self) -> None:
        """Send every request that can be sent now."""
        while self.dirty:
            touched = list(self.dirty.values())
            self.dirty.clear()
            for requests in touched:
                if requests.pending is None and self._sessions.is_registered(requests.broker):
                    self._send_next(requests)

    def _send_next(self, requests: BrokerLockRequests) -> None:
        context, group = self._context, self._options.lock_group
        if requests.to_unlock:
            queues = first_queues(requests.to_unlock)
            epochs = tuple(requests.to_unlock.pop(queue) for queue in queues)
            self._mark_pending(requests, _PendingLockRequest(UnlockQueues, queues, context.now_ms))
            context.emit(UnlockQueues(requests.broker, queues, group, epochs))
        elif requests.to_unlock_for_departed:
            owner = next(iter(requests.to_unlock_for_departed))
            queues = requests.to_unlock_for_departed.pop(owner)
            self._mark_pending(requests, _PendingLockRequest(UnlockQueues, queues, context.now_ms, owner))
            context.emit(UnlockQueues(requests.broker, queues, group, (None,) * len(queues), owner))
        elif requests.to_renew:
            queues = first_queues(requests.to_renew)
            process_queues = self._pop_lockable(requests, requests.to_renew, queues)
            if process_queues:
                queues = tuple(each.queue for each in process_queues)
                self._mark_pending(requests, _PendingLockRequest(RenewLocks, queues, context.now_ms), process_queues)
                context.emit(RenewLocks(requests.broker, queues, group, tuple(each.epoch for each in process_queues)))
        elif requests.to_lock:
            self._send_lock_request(requests)

    def _send_lock_request(self, requests: BrokerLockRequests) -> None:
        context = self._context
        lock_mode = self.lock_mode(requests.broker)
        process_queues = self._pop_lockable(requests, requests.to_lock, first_queues(requests.to_lock))
        if lock_mode is LockMode.NONE or (lock_mode is LockMode.PROBE and requests.is_lockless):
            grant = LockGrant(None, context.now_ms, lock_mode, is_real=False)
            for process_queue in process_queues:
                self._apply(process_queue, QueueEvent.LOCK_GRANTED, grant)
            return
        if self._sessions.is_settling(requests.broker, context.now_ms, context.rebalancer.has_foreign()):
            for process_queue in process_queues:
                if process_queue.state is QueueState.WANTED:
                    self.retry_at(process_queue, context.now_ms + self._times.lock_retry_slow_ms)
            process_queues = [each for each in process_queues if each.state is not QueueState.WANTED]
        if process_queues:
            queues = tuple(each.queue for each in process_queues)
            self._mark_pending(requests, _PendingLockRequest(LockQueues, queues, context.now_ms), process_queues)
            context.emit(LockQueues(requests.broker, queues, self._options.lock_group))

    def _pop_lockable(
        self, requests: BrokerLockRequests, waiting: dict[Queue, None], queues: Iterable[Queue]
    ) -> list[ProcessQueue]:
        process_queues = []
        for queue in queues:
            del waiting[queue]
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.pending_lock_request is None:
                process_queues.append(process_queue)
        if waiting:
            self.dirty[requests.broker] = requests
        return process_queues

    def _mark_pending(
        self, requests: BrokerLockRequests, request: _PendingLockRequest, process_queues: Iterable[ProcessQueue] = ()
    ) -> None:
        requests.pending = request
        for process_queue in process_queues:
            process_queue.pending_lock_request = request

    def locks_answered(self, event: LocksAnswered) -> None:
        """Apply the response to a lock or a renewal to each of its queues."""
        request = self._pop_pending(event.broker)
        lock_mode = self.lock_mode(event.broker)
        if request is None or lock_mode is None:
            return
        for queue in request.queues:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.pending_lock_request is request:
                process_queue.pending_lock_request = None
                if queue in event.granted:
                    grant = LockGrant(event.granted[queue], request.sent_ms, lock_mode)
                    self._apply(process_queue, QueueEvent.LOCK_GRANTED, grant)
                else:
                    self._apply(process_queue, QueueEvent.LOCK_DENIED, LockDenial(event.denied.get(queue)))
            elif queue in event.granted:
                if process_queue is None:
                    self.request_unlock(queue, event.granted[queue])
                else:
                    process_queue.may_hold_lock = True

    def lock_failed(self, event: LockFailed) -> None:
        """Apply a lock or a renewal of unknown outcome to each of its queues."""
        request = self._pop_pending(event.broker)
        if request is None:
            return
        lock_mode = self.lock_mode(event.broker)
        if event.is_forbidden and lock_mode is LockMode.PROBE:
            self._go_lockless(event.broker, request)
        for queue in request.queues:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.pending_lock_request is request:
                process_queue.pending_lock_request = None
                self._apply(process_queue, QueueEvent.LOCK_FAILED, not event.is_forbidden)

    def _go_lockless(self, broker: str, request: _PendingLockRequest) -> None:
        requests = self.broker_requests(broker)
        if not requests.is_lockless:
            requests.is_lockless = True
            what = "acquired without locks, which the broker forbids: peers are only probed"
            self._context.report("degraded", what, request.queues[0])

    def unlocked(self, event: Unlocked) -> None:
        """Apply the response to an unlock to the queues that wait for it."""
        request = self._pop_pending(event.broker)
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.state is QueueState.RELEASING:
                self._apply(process_queue, QueueEvent.UNLOCKED)
            elif process_queue is not None and process_queue.pending_lock_request is None:
                process_queue.may_hold_lock = False

    def unlock_failed(self, event: UnlockFailed) -> None:
        """Retry an unlock that failed."""
        request = self._pop_pending(event.broker)
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.state is QueueState.RELEASING:
                self._apply(process_queue, QueueEvent.UNLOCK_FAILED)
            elif not self._context.is_leaving or process_queue is not None:
                due_ms = self._context.now_ms + self._times.lock_retry_slow_ms
                self._context.timers.call_at(due_ms, self._unlock_again, queue)

    def _unlock_again(self, queue: Queue) -> None:
        process_queue = self._context.process_queues.get(queue)
        if process_queue is None or process_queue.state not in _SELF_RELEASING_STATES:
            self.request_unlock(queue, None if process_queue is None else process_queue.epoch)

    def _pop_pending(self, broker: str) -> _PendingLockRequest | None:
        requests = self._mark_dirty(broker)
        request, requests.pending = requests.pending, None
        return request

    def connection_lost(self, broker: str) -> None:
        """Record a lost connection: its unanswered request may have been executed or not."""
        requests = self.broker_requests(broker)
        request, requests.pending = requests.pending, None
        requests.is_proven = False
        # Queues that still need a lock request it again.
        requests.to_lock.clear()
        requests.to_renew.clear()
        if request is None or request.owner is not None:
            return
        for queue in request.queues:
            process_queue = self._context.process_queues.get(queue)
            if process_queue is not None and process_queue.pending_lock_request is request:
                process_queue.pending_lock_request = None
                process_queue.may_hold_lock = True
            elif process_queue is None and request.kind is UnlockQueues:
                requests.to_unlock.setdefault(queue, None)

    def invalidate_proof(self, broker: str) -> None:
        """Record that a proof was too old: the next answered heartbeat is a new proof."""
        self.broker_requests(broker).is_proven = False

    def heartbeat_acknowledged(self, broker: str) -> bool:
        """Record an answered heartbeat; say whether it proves anew what was in doubt."""
        requests = self._mark_dirty(broker)
        was_trusted, requests.is_proven = requests.is_proven, self.is_proof_fresh(broker)
        return requests.is_proven and not was_trusted

    def is_proof_fresh(self, broker: str) -> bool:
        """Say whether there is a connection, and the last answered heartbeat was sent recently enough."""
        session = self._sessions.session(broker)
        if session.proven_ms is None or not session.is_registered:
            return False
        fence_ms = self._times.fence_ms if session.is_steelyard else self._times.fence_apache_ms
        return self._context.now_ms < session.proven_ms + fence_ms

    def fence_holds(self, process_queue: ProcessQueue) -> bool:
        """Say whether a handler may start: there is a connection, and the proof of ownership is fresh."""
        if process_queue.lock_mode is LockMode.NONE:
            return self._sessions.is_connected(process_queue.broker)
        if process_queue.lock_mode is LockMode.LOCK:
            age_ms = self._context.now_ms - process_queue.proven_ms
            return age_ms < self._times.fence_order_ms and self._sessions.is_connected(process_queue.broker)
        return self.is_proof_fresh(process_queue.broker)

    def schedule_checks(self, process_queue: ProcessQueue) -> None:
        """Schedule the check that the proof of a queue has not expired, and the renewal of a kept lock."""
        if process_queue.lock_mode is LockMode.NONE:
            return
        requests = self.broker_requests(process_queue.broker)
        if not requests.is_fence_check_scheduled:
            requests.is_fence_check_scheduled = True
            self._context.timers.call_at(self.fence_expires_ms(process_queue), self._check_fence, requests)
        if process_queue.lock_mode is LockMode.LOCK and not requests.is_renewal_scheduled:
            requests.is_renewal_scheduled = True
            self._context.timers.call_at(self._context.now_ms + self._times.renew_ms, self._renew_locks, requests)

    def fence_expires_ms(self, process_queue: ProcessQueue) -> int:
        """Return when the proof of a queue expires, where it needs one."""
        if process_queue.lock_mode is LockMode.LOCK:
            return process_queue.proven_ms + self._times.fence_order_ms
        session = self._sessions.session(process_queue.broker)
        fence_ms = self._times.fence_ms if session.is_steelyard else self._times.fence_apache_ms
        return (session.proven_ms or 0) + fence_ms

    def _active_queues(self, requests: BrokerLockRequests) -> list[ProcessQueue]:
        process_queues = self._context.by_broker.get(requests.broker, {})
        return [each for each in process_queues.values() if each.state in ACTIVE_STATES]

    def _check_fence(self, requests: BrokerLockRequests) -> None:
        requests.is_fence_check_scheduled = False
        process_queues = self._active_queues(requests)
        if not process_queues:
            return
        proven = [each for each in process_queues if self.fence_holds(each)]
        if proven:
            requests.is_fence_check_scheduled = True
            end_ms = min(map(self.fence_expires_ms, proven))
            self._context.timers.call_at(max(end_ms, self._context.now_ms + 1), self._check_fence, requests)
        if len(proven) < len(process_queues):
            for process_queue in process_queues:
                if not self.fence_holds(process_queue):
                    self._apply(process_queue, QueueEvent.PROOF_EXPIRED)

    def _renew_locks(self, requests: BrokerLockRequests) -> None:
        process_queues = [each for each in self._active_queues(requests) if each.lock_mode is LockMode.LOCK]
        requests.is_renewal_scheduled = bool(process_queues)
        for process_queue in process_queues:
            self.request_renewal(process_queue)
        if process_queues:
            self._context.timers.call_at(self._context.now_ms + self._times.renew_ms, self._renew_locks, requests)


def first_queues(waiting: dict[Queue, None] | dict[Queue, int | None]) -> tuple[Queue, ...]:
    """Return as many of these as fit into one request, in order."""
    return tuple(islice(waiting, _MAX_QUEUES))
