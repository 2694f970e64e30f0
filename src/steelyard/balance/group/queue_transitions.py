"""What each event does to a queue in each state: one function per transition, and the table of them at the end.

A function gets the `ProcessQueue` and the payload of the event, changes the queue, and makes requests through the parts
of the member: locks, probes, start offsets, pulls, handlers, commits. The state that it ends in must be one that its
row lists. An event that is raised while another one is applied waits until that one has been applied.

Left out: why the states are what they are (queue_states.py), and what a response means for one of the parts.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from steelyard.balance.group.context import MemberContext
from steelyard.balance.group.dispatch import Dispatcher
from steelyard.balance.group.events import OffsetReset, Pulled, PullFailed, PullOutcome, StartOffsetReceived
from steelyard.balance.group.fetch import Fetcher, is_same_log
from steelyard.balance.group.offset_commits import OffsetCommits, has_uncommitted
from steelyard.balance.group.ownership_probe import OwnershipProbe
from steelyard.balance.group.process_queue import LockMode, ProcessQueue, ProofStep
from steelyard.balance.group.queue_locks import LockDenial, LockGrant, QueueLocks
from steelyard.balance.group.queue_states import ACTIVE_STATES, QueueEvent, QueueState
from steelyard.balance.group.start_offset import StartOffsets
from steelyard.balance.group.timers import BackOff, earliest
from steelyard.errors import ImpossibleEvent
from steelyard.model import Queue

_LOCK_KEEPING_MODES = frozenset({LockMode.LEASE, LockMode.LOCK})


def is_window_valid(process_queue: ProcessQueue, received: StartOffsetReceived) -> bool:
    """Say whether no other member owned a queue while this one was unsure: the stored offset lies within its window.

    If nothing was ever confirmed, nothing stored says nothing about others. A broker that has no offset any more lost
    it. So did a broker that has a lower offset under the epoch of our lease, because no other member can have committed
    one. Then it may have lost messages too, and the window goes on only if the next pull can check the log (fetch.py).
    """
    if process_queue.reset_offset is not None:
        return False
    if not received.stored:
        return process_queue.committed_offset is None or process_queue.last_pulled is not None
    known = (
        process_queue.window.start_offset if process_queue.committed_offset is None else process_queue.committed_offset
    )
    if received.offset < known:
        return (
            process_queue.lock_mode is LockMode.LEASE
            and process_queue.epoch is not None
            and process_queue.last_pulled is not None
        )
    return received.offset <= process_queue.window.low


def _safe_start_offset(process_queue: ProcessQueue, received: StartOffsetReceived) -> int:
    """Return the offset from which no message is skipped: the stored one, or the first if the broker lost it.

    If nothing was ever confirmed, it is where the window began.
    """
    if received.stored:
        return received.offset
    return process_queue.window.start_offset if process_queue.committed_offset is None else 0


class QueueTransitions:
    """The parts of a member that work on its queues, and the functions of the table."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._times = context.times
        self.locks = QueueLocks(context, self.apply)
        self.probe = OwnershipProbe(context, self.apply, self.locks)
        self.start_offsets = StartOffsets(context, self.apply)
        self.fetcher = Fetcher(context, self.apply)
        self.dispatcher = Dispatcher(context, self.apply, self.locks)
        self.commits = OffsetCommits(context, self.apply)
        self.owned_count = 0
        self.has_ownership_changed = False
        """Whether the owned queues changed since the member last announced them."""
        self.ownership_changes = 0
        """How often they changed."""
        self._owned_by_topic: dict[str, int] = {}
        self._pending_events: deque[tuple[ProcessQueue, QueueEvent, object]] = deque()
        self._is_applying = False

    def apply(self, process_queue: ProcessQueue, event: QueueEvent, payload: object = None) -> None:
        """Apply an event to a queue; one that is raised while another is applied waits for its end."""
        if self._is_applying:
            self._pending_events.append((process_queue, event, payload))
            return
        self._is_applying = True
        try:
            while True:
                before = process_queue.state
                transition = TRANSITIONS.get((before, event))
                if transition is None:
                    raise ImpossibleEvent(str(process_queue.queue), state=before.name, event=event.name)
                transition.apply(self, process_queue, payload)
                after = process_queue.state
                if after not in transition.targets:
                    name = str(process_queue.queue)
                    raise ImpossibleEvent(name, state=before.name, event=event.name, after=after.name)
                if after is not before:
                    self._on_state_changed(process_queue, before)
                if not self._pending_events:
                    return
                process_queue, event, payload = self._pending_events.popleft()
        finally:
            self._is_applying = False

    def plan_in(self, queue: Queue) -> None:
        """Acquire a queue, unless it is planned already."""
        context = self._context
        process_queue = context.process_queues.get(queue)
        if process_queue is None:
            process_queue = ProcessQueue(queue, context.next_number(), context.now_ms)
        elif process_queue.is_planned:
            return
        self.apply(process_queue, QueueEvent.PLANNED_IN)

    def _on_state_changed(self, process_queue: ProcessQueue, before: QueueState) -> None:
        context, after, queue = self._context, process_queue.state, process_queue.queue
        process_queue.state_since_ms = context.now_ms
        if before is QueueState.ABSENT:
            context.process_queues[queue] = process_queue
            context.by_broker.setdefault(process_queue.broker, {})[queue] = process_queue
        if after is QueueState.ABSENT:
            del context.process_queues[queue]
            del context.by_broker[process_queue.broker][queue]
            self.dispatcher.orphan_running(process_queue)
            if process_queue.is_planned and not context.is_leaving:
                self.plan_in(queue)
        if after in ACTIVE_STATES:
            self.locks.schedule_checks(process_queue)
        if QueueState.OWNED in (before, after):
            step = 1 if after is QueueState.OWNED else -1
            self.owned_count += step
            self.has_ownership_changed = True
            self.ownership_changes += 1
            topic = queue.topic
            self._owned_by_topic[topic] = self._owned_by_topic.get(topic, 0) + step
            self.fetcher.flow_control.set_owned_queues(topic, self._owned_by_topic[topic])

    def ignore(self, _process_queue: ProcessQueue, _payload: object) -> None:
        """Do nothing: the event does not matter in this state."""

    # -- owned

    def _enter_starting(self, process_queue: ProcessQueue) -> None:
        process_queue.state = QueueState.STARTING
        process_queue.generation = self._context.next_number()
        process_queue.attempts = 0
        process_queue.reset_offset = None
        self.start_offsets.request(process_queue)

    def _enter_owned(self, process_queue: ProcessQueue, payload: StartOffsetReceived, generation: int) -> None:
        """Start the window at an offset; one that is not stored is committed at once, so that a crash skips nothing."""
        offset, stored = payload.offset, payload.stored
        if process_queue.reset_offset is not None:
            offset, stored = process_queue.reset_offset, False
        process_queue.reset(generation, offset)
        process_queue.committed_offset = offset if stored else None
        process_queue.state = QueueState.OWNED
        process_queue.is_commit_scheduled = False
        if not stored and not self.commits.is_pending(process_queue.queue):
            self.commits.commit(process_queue)
        self.commits.schedule_repeat(process_queue)
        self.fetcher.schedule_stuck_check()
        self.fetcher.pull(process_queue)

    def accept_messages(self, process_queue: ProcessQueue, event: Pulled) -> None:
        """Add pulled messages to the window, pull the next ones, and dispatch these to handlers."""
        window = process_queue.window
        restart_offset, process_queue.log_check_offset = process_queue.log_check_offset, None
        if restart_offset is not None and not is_same_log(process_queue, event):
            self._context.report(
                "rewound", "read again from the stored offset, because the log lost its end", process_queue.queue
            )
            self._reset_to(process_queue, min(restart_offset, event.next_offset))
            return
        if event.outcome is PullOutcome.OFFSET_MOVED and event.next_offset < window.next_offset:
            # The broker has less than was read: go on there, and keep what is unfinished.
            self._reset_to(process_queue, min(event.next_offset, window.low))
            return
        if process_queue.state is QueueState.DRAINING:
            # This pull was only a check, and it showed that the log is the one that was read.
            self._check_drained(process_queue)
            return
        offsets, messages = event.offsets, event.messages
        if offsets and offsets[0] < window.next_offset:
            known = window.first_new_index(offsets)
            offsets, messages = offsets[known:], messages[known:]
        if window.low >= window.next_offset:
            process_queue.progress_ms = self._context.now_ms
        window.add(offsets, event.next_offset, event.body_bytes)
        if offsets:
            process_queue.batches.append((offsets, messages))
            process_queue.last_pulled = offsets[-1], messages[-1]
        if process_queue.state is QueueState.OWNED:
            if process_queue.quick_empty_pulls:
                self.fetcher.pull_next(process_queue)
            else:
                self.fetcher.pull(process_queue)
            self.dispatcher.enqueue(process_queue)
            if not offsets or restart_offset is not None:
                self.commits.commit_if_due(process_queue)

    def retry_pull_later(self, process_queue: ProcessQueue, payload: PullFailed) -> None:
        """Pull again after a pause."""
        self.fetcher.retry_later(process_queue, payload.is_busy)

    def restart(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Start again, because a pull was never answered."""
        self.dispatcher.orphan_running(process_queue)
        process_queue.discard_unstarted()
        process_queue.pull_sent_ms = None
        self._enter_starting(process_queue)

    def advance(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Go on after handlers finished messages."""
        if process_queue.state is QueueState.OWNED:
            if process_queue.is_flow_controlled:
                self.fetcher.pull(process_queue)
            self.commits.commit_if_due(process_queue)
            if process_queue.batches or process_queue.local_retries:
                self.dispatcher.enqueue(process_queue)
        elif process_queue.state is QueueState.DRAINING:
            self._check_drained(process_queue)

    def record_commit(self, process_queue: ProcessQueue, committed_offset: int | None) -> None:
        """Go on after a commit was confirmed or failed."""
        if committed_offset is not None:
            process_queue.committed_offset = committed_offset
        if process_queue.state is QueueState.OWNED:
            self.commits.commit_if_due(process_queue)
        elif process_queue.state is QueueState.DRAINING:
            self._check_drained(process_queue)

    def reset_offset(self, process_queue: ProcessQueue, payload: OffsetReset) -> None:
        """Go on at the offset that an administrator chose; a queue that is given up is given up there."""
        self._reset_to(process_queue, payload.offset)

    def _reset_to(self, process_queue: ProcessQueue, offset: int) -> None:
        state = process_queue.state
        self.dispatcher.orphan_running(process_queue)
        process_queue.reset(self._context.next_number(), offset)
        process_queue.is_commit_scheduled = False
        if state is QueueState.DRAINING:
            self._check_drained(process_queue)
        elif state is QueueState.OWNED:
            self.commits.commit_if_due(process_queue)
            self.commits.schedule_repeat(process_queue)
            self.fetcher.schedule_stuck_check()
            self.fetcher.pull(process_queue)

    def _check_drained(self, process_queue: ProcessQueue) -> None:
        """Finish the drain if no handler runs, no commit is unanswered and no check of the log is under way."""
        is_busy = process_queue.running or process_queue.sending_back or process_queue.log_check_offset is not None
        if not is_busy and not self.commits.is_pending(process_queue.queue):
            self.apply(process_queue, QueueEvent.DRAINED)

    # -- planned or not

    def forget(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Drop a queue that is not held."""
        self.locks.cancel_lock_request(process_queue)
        process_queue.is_planned = False
        process_queue.state = QueueState.ABSENT

    def mark_planned(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Plan the queue; what is happening to it goes on first."""
        process_queue.is_planned = True

    def mark_unplanned(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Plan the queue no longer; what is happening to it goes on first."""
        process_queue.is_planned = False
        if process_queue.state is QueueState.DRAINING and self._context.is_leaving:
            self._set_drain_deadline(process_queue)

    # -- wanted

    def acquire(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Start to acquire a queue."""
        process_queue.state, process_queue.is_planned = QueueState.WANTED, True
        self.locks.request_lock(process_queue)

    def request_lock(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Request the lock, unless a request is unanswered."""
        if process_queue.pending_lock_request is None:
            self.locks.request_lock(process_queue)

    def cancel_acquire(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Give up a queue that is not held; if its lock is requested, the response decides."""
        process_queue.is_planned = False
        if process_queue.pending_lock_request is None:
            self.locks.cancel_lock_request(process_queue)
            self._release_unstarted(process_queue)

    def start_or_probe(self, process_queue: ProcessQueue, payload: LockGrant) -> None:
        """Start a queue whose lock was granted; on an Apache broker, probe the peers first."""
        self.record_proof(process_queue, payload)
        process_queue.lock_mode, process_queue.may_hold_lock = payload.lock_mode, payload.is_real
        process_queue.attempts = 0
        process_queue.denied_since_ms = process_queue.handover_requested_ms = process_queue.peers_to_probe = None
        if not process_queue.is_planned:
            self._release_unstarted(process_queue)
        elif payload.lock_mode is LockMode.PROBE:
            process_queue.state = QueueState.ASKING
            self.probe.probe_queue(process_queue, None)
        else:
            self._enter_starting(process_queue)

    def retry_lock_later(self, process_queue: ProcessQueue, payload: LockDenial) -> None:
        """Request a lock again later that another member holds, or stop if the queue is no longer planned."""
        process_queue.may_hold_lock = False
        if not process_queue.is_planned:
            process_queue.state = QueueState.ABSENT
            return
        self.locks.retry_later(process_queue)
        self.probe.request_handover(process_queue, payload.holder)

    def record_unknown_lock(self, process_queue: ProcessQueue, may_hold_lock: bool) -> None:
        """Record that the lock may be held although no response said so."""
        process_queue.may_hold_lock = process_queue.may_hold_lock or may_hold_lock
        if process_queue.is_planned:
            self.locks.retry_later(process_queue)
        else:
            self._release_unstarted(process_queue)

    def restart_acquire(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Start again after a lost connection: no window survives, and the lock may be held."""
        process_queue.peers_to_probe, process_queue.attempts, process_queue.denied_since_ms = None, 0, None
        if process_queue.is_planned:
            process_queue.state = QueueState.WANTED
            self.locks.request_lock(process_queue)
        else:
            self._release_unstarted(process_queue)

    def unlock_unknown_lock(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Release a lock that we do not know of: a late request of a lost connection may have been granted."""
        if (
            self._context.sessions.is_registered(process_queue.broker)
            and self.locks.lock_mode(process_queue.broker) is not LockMode.NONE
        ):
            self.locks.request_unlock(process_queue.queue, None)

    # -- asking

    def retry_probe_later(self, process_queue: ProcessQueue, holders: frozenset[str] | None) -> None:
        """Wait for the peers that hold the queue, and probe those again."""
        process_queue.peers_to_probe = holders
        self.locks.retry_later(process_queue)

    def repeat_probe(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Probe the peers again that held the queue, and renew the lock before it expires."""
        if process_queue.may_hold_lock and self._context.now_ms - process_queue.proven_ms >= self._times.renew_ms:
            self.request_lock(process_queue, None)
        self.probe.probe_queue(process_queue, process_queue.peers_to_probe)

    def start_after_probe(self, process_queue: ProcessQueue, keeps_lock: bool) -> None:
        """Start a queue that no peer holds, and release the lock; a lock that may have expired proves nothing.

        The lock is kept if a silent member was excluded as a holder: see `PossibleHolders`.
        """
        if process_queue.may_hold_lock and self._context.now_ms - process_queue.proven_ms >= self._times.fence_order_ms:
            self.restart_acquire(process_queue, None)
            return
        if keeps_lock:
            process_queue.lock_mode = LockMode.LOCK
            self.locks.request_renewal(process_queue)
        elif process_queue.may_hold_lock:
            self.locks.request_unlock(process_queue.queue, None)
        self._enter_starting(process_queue)

    def cancel_probe(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Release the lock instead of probing on."""
        process_queue.is_planned = False
        self._release_unstarted(process_queue)

    def lose_probe_lock(self, process_queue: ProcessQueue, payload: LockDenial) -> None:
        """Start again: the lock expired during the probe, and another member has it."""
        process_queue.state = QueueState.WANTED
        process_queue.denied_since_ms, process_queue.attempts = None, 0
        self.retry_lock_later(process_queue, payload)

    def record_proof(self, process_queue: ProcessQueue, payload: LockGrant) -> None:
        """Record when the lock was requested that we hold."""
        process_queue.proven_ms = payload.sent_ms
        if payload.epoch is not None:
            process_queue.epoch = payload.epoch

    # -- starting -----------------------------------------------------------------------------------------------------

    def request_start_offset(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Request the start offset again."""
        self.start_offsets.request(process_queue)

    def cancel_start(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Give up a queue before anything was pulled, once its start offset was answered."""
        process_queue.is_planned = False
        if not self.start_offsets.is_pending(process_queue):
            self._release_unstarted(process_queue)

    def retry_start_later(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Request the start offset again after a pause, unless the queue is no longer planned."""
        if not process_queue.is_planned:
            self._release_unstarted(process_queue)
            return
        pause = BackOff(self._times.unlisted_retry_ms, self._times.query_retry_max_ms, process_queue.attempts)
        process_queue.attempts += 1
        self.locks.retry_at(process_queue, pause.after(self._context.now_ms))

    def record_reset(self, process_queue: ProcessQueue, payload: OffsetReset) -> None:
        """Remember the offset that an administrator chose."""
        process_queue.reset_offset = payload.offset

    def become_owner(self, process_queue: ProcessQueue, payload: StartOffsetReceived) -> None:
        """Own the queue: empty window, first pull."""
        if not process_queue.is_planned:
            self._release_unstarted(process_queue)
            return
        if not self.locks.fence_holds(process_queue):
            # The response took so long that another member may own the queue by now.
            process_queue.state, process_queue.peers_to_probe = QueueState.WANTED, None
            self.locks.retry_later(process_queue)
            return
        self._enter_owned(process_queue, payload, process_queue.generation)
        self._context.report("taken", "taken", process_queue.queue)

    # -- unsure

    def become_unsure(self, process_queue: ProcessQueue, is_disconnected: bool | None) -> None:
        """Start no handler until ownership has been proven again."""
        process_queue.was_draining = process_queue.state is not QueueState.OWNED
        process_queue.state = QueueState.UNSURE
        process_queue.attempts, process_queue.denied_since_ms = 0, None
        self.locks.invalidate_proof(process_queue.broker)
        self.restart_proof(process_queue, is_disconnected)
        if not is_disconnected:
            self.apply(process_queue, QueueEvent.RETRY_DUE)

    def restart_proof(self, process_queue: ProcessQueue, is_disconnected: bool | None) -> None:
        """Start the proof of ownership from the beginning."""
        process_queue.proof_step = ProofStep.NOT_STARTED
        if is_disconnected:
            process_queue.pull_sent_ms = None
            if process_queue.last_pulled is not None:
                process_queue.log_check_offset = process_queue.window.start_offset
            self.dispatcher.connection_lost(process_queue)

    def prove_ownership(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Prove ownership, by the lock first; it waits for an answered heartbeat, which raises this again."""
        if process_queue.proof_step is not ProofStep.NOT_STARTED or not self._context.sessions.is_registered(
            process_queue.broker
        ):
            return
        lock_mode = self.locks.lock_mode(process_queue.broker) or process_queue.lock_mode
        if lock_mode is not LockMode.LOCK and not self.locks.is_proof_fresh(process_queue.broker):
            self.locks.invalidate_proof(process_queue.broker)
            return
        process_queue.lock_mode = lock_mode
        if lock_mode is LockMode.NONE:
            # Only a broadcasting member itself knows its offset.
            self._resume_ownership(process_queue, process_queue.window.start_offset)
            return
        process_queue.proof_step = ProofStep.LOCK
        if lock_mode is LockMode.LOCK or (lock_mode is LockMode.LEASE and process_queue.epoch is not None):
            self.locks.request_renewal(process_queue)
        else:
            self.locks.request_lock(process_queue)

    def retry_proof_later(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Prove ownership again after a pause, because a request failed."""
        process_queue.proof_step = ProofStep.NOT_STARTED
        self.locks.retry_later(process_queue)

    def continue_proof(self, process_queue: ProcessQueue, payload: LockGrant) -> None:
        """Go on after the lock was renewed: probe the peers where that is needed, else compare the offset."""
        self.record_proof(process_queue, payload)
        process_queue.lock_mode, process_queue.may_hold_lock = payload.lock_mode, payload.is_real
        if payload.lock_mode is LockMode.PROBE:
            process_queue.proof_step = ProofStep.PEERS
            self.probe.probe_queue(process_queue, None)
        else:
            self.prove_by_offset(process_queue, None)

    def prove_by_offset(self, process_queue: ProcessQueue, keeps_lock: bool | None) -> None:
        """Request the stored offset; Apache's lock is released, unless a member was silent."""
        process_queue.proof_step = ProofStep.OFFSET
        if keeps_lock:
            process_queue.lock_mode = LockMode.LOCK
        elif process_queue.lock_mode is LockMode.PROBE and process_queue.may_hold_lock:
            self.locks.request_unlock(process_queue.queue, None)
        self.start_offsets.request(process_queue)

    def resolve_unsure(self, process_queue: ProcessQueue, payload: StartOffsetReceived) -> None:
        """Go on with the window if no other member owned the queue; else start again from the stored offset."""
        process_queue.proof_step = ProofStep.NOT_STARTED
        if not self.locks.fence_holds(process_queue):
            self.locks.invalidate_proof(process_queue.broker)
            self.locks.retry_later(process_queue)
        elif is_window_valid(process_queue, payload):
            start = _safe_start_offset(process_queue, payload)
            process_queue.committed_offset = payload.offset if payload.stored else None
            self._resume_ownership(process_queue, start)
        elif process_queue.was_draining:
            self.lose(process_queue, "lost, because another member owned it meanwhile")
        else:
            self.dispatcher.orphan_running(process_queue)
            self._enter_owned(
                process_queue,
                replace(payload, offset=_safe_start_offset(process_queue, payload)),
                self._context.next_number(),
            )
            self._drain_if_unplanned(process_queue)

    def _resume_ownership(self, process_queue: ProcessQueue, start: int) -> None:
        process_queue.proof_step = ProofStep.NOT_STARTED
        process_queue.state = QueueState.DRAINING if process_queue.was_draining else QueueState.OWNED
        if process_queue.log_check_offset is not None:
            process_queue.log_check_offset = start
        self.dispatcher.send_owed_retries(process_queue)
        if process_queue.was_draining:
            self._set_drain_deadline(process_queue)
            self.fetcher.pull(process_queue)
            self._check_drained(process_queue)
            return
        self.commits.commit_if_due(process_queue)
        self.fetcher.pull(process_queue)
        self.dispatcher.enqueue(process_queue)
        self._drain_if_unplanned(process_queue)

    def _drain_if_unplanned(self, process_queue: ProcessQueue) -> None:
        if not process_queue.is_planned:
            self.apply(process_queue, QueueEvent.PLANNED_OUT)

    def lose(self, process_queue: ProcessQueue, why: LockDenial | str | frozenset[str] | None) -> None:
        """Drop a queue that another member may own: no commit, nothing sent back. Rebalance now."""
        context = self._context
        if isinstance(why, LockDenial):
            why = "lost, because the lock was denied"
        elif not isinstance(why, str):
            why = "lost to a member that holds or requests it"
        self.locks.cancel_lock_request(process_queue)
        if process_queue.lock_mode is LockMode.PROBE and process_queue.may_hold_lock:
            self.locks.request_unlock(process_queue.queue, None)
        process_queue.state = QueueState.ABSENT
        if process_queue.is_planned:
            process_queue.is_planned = False
            context.timers.call_at(
                context.now_ms + self._times.rebalance_gap_ms, self._reacquire_if_planned, process_queue.queue
            )
        context.report("lost", why, process_queue.queue)
        context.rebalancer.request_rebalance(context.now_ms)

    def _reacquire_if_planned(self, queue: Queue) -> None:
        plan = self._context.rebalancer.plan()
        if not self._context.is_leaving and plan is not None and queue in plan:
            self.plan_in(queue)

    # -- giving up

    def drain(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Stop pulling and starting; let handlers finish."""
        process_queue.is_planned = False
        process_queue.state = QueueState.DRAINING
        process_queue.was_draining = True
        process_queue.discard_unstarted()
        if process_queue.log_check_offset is None:
            process_queue.pull_sent_ms = None
        process_queue.is_flow_controlled = False
        self._set_drain_deadline(process_queue)
        self._check_drained(process_queue)

    def _set_drain_deadline(self, process_queue: ProcessQueue) -> None:
        """Set the time until which handlers may go on; it can only get sooner."""
        context, times, deadline_ms = self._context, self._times, process_queue.drain_deadline_ms
        if context.is_leaving:
            deadline_ms = earliest(deadline_ms, context.leave_by_ms)
        elif times.drain_ms is not None:
            deadline_ms = earliest(deadline_ms, context.now_ms + times.drain_ms)
        if context.rebalancer.has_foreign():
            deadline_ms = earliest(deadline_ms, context.now_ms + times.foreign_drain_ms)
        process_queue.drain_deadline_ms = deadline_ms
        if deadline_ms is not None and process_queue.running:
            context.timers.call_at(deadline_ms, self._check_drain_deadline, process_queue)

    def _check_drain_deadline(self, process_queue: ProcessQueue) -> None:
        deadline_ms = process_queue.drain_deadline_ms
        is_draining = self._context.is_current(process_queue) and process_queue.state is QueueState.DRAINING
        if is_draining and deadline_ms is not None and deadline_ms <= self._context.now_ms:
            self.apply(process_queue, QueueEvent.DRAIN_TIMEOUT)

    def orphan_running(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Stop waiting for handlers: their results no longer count."""
        if self.dispatcher.orphan_running(process_queue):
            self._context.report("drain-timeout", "given up while handlers still run", process_queue.queue)
        process_queue.generation = self._context.next_number()
        # The pull of the old generation no longer counts.
        process_queue.pull_sent_ms = None
        self.fetcher.pull(process_queue)
        self._check_drained(process_queue)

    def finish_drain(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Commit for the last time: always on an Apache broker, on ours only if the offset moved."""
        if process_queue.lock_mode in (LockMode.PROBE, LockMode.LOCK) or has_uncommitted(process_queue):
            process_queue.state = QueueState.COMMITTING
            self.commit_final(process_queue, None)
        else:
            self._release_or_remove(process_queue)

    def commit_final(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Commit the low end of the window."""
        if not self.commits.is_pending(process_queue.queue):
            self.commits.commit(process_queue)

    def retry_final_commit_later(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Commit again after a pause: the outcome of the last commit is unknown."""
        self.locks.retry_at(process_queue, self._context.now_ms + self._times.commit_ms)

    def release_after_commit(self, process_queue: ProcessQueue, committed_offset: int | None) -> None:
        """Release a queue once its last offset is stored."""
        if committed_offset is None or committed_offset != process_queue.window.low:
            self.commit_final(process_queue, None)
            return
        process_queue.committed_offset = committed_offset
        self._release_or_remove(process_queue)

    def _release_or_remove(self, process_queue: ProcessQueue) -> None:
        if process_queue.lock_mode in _LOCK_KEEPING_MODES:
            self._release(process_queue)
        else:
            self.finish_release(process_queue, None)

    def _release(self, process_queue: ProcessQueue) -> None:
        process_queue.state = QueueState.RELEASING
        self.request_unlock(process_queue, None)

    def _release_unstarted(self, process_queue: ProcessQueue) -> None:
        """Give up a queue that was never pulled."""
        if process_queue.state is QueueState.STARTING and process_queue.lock_mode is LockMode.PROBE:
            # The lock is being released already.
            process_queue.state = QueueState.ABSENT
        elif process_queue.may_hold_lock:
            self._release(process_queue)
        else:
            process_queue.state = QueueState.ABSENT

    def request_unlock(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Request the unlock."""
        self.locks.request_unlock(process_queue.queue, process_queue.epoch)

    def retry_unlock_later(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Request the unlock again after a pause."""
        self.locks.retry_later(process_queue)

    def finish_release(self, process_queue: ProcessQueue, _payload: object) -> None:
        """Drop a queue that was given up properly; if it is planned, it is acquired again."""
        if process_queue.finished_while_draining and process_queue.lock_mode is not LockMode.NONE:
            # All below the low end is committed: no other member will handle it again.
            avoided = sum(offset < process_queue.window.low for offset in process_queue.finished_while_draining)
            self._context.sessions.add_duplicates_avoided(process_queue.broker, avoided)
        process_queue.state = QueueState.ABSENT
        if process_queue.generation:
            self._context.report("released", "released", process_queue.queue)


class Transition(NamedTuple):
    """What an event does in a state, and the states that it may end in."""

    apply: Callable[[QueueTransitions, ProcessQueue, Any], None]
    """The payload is Any because each event has one of its own type."""
    targets: tuple[QueueState, ...]


def _row(apply: Callable[[QueueTransitions, ProcessQueue, Any], None], *targets: QueueState) -> Transition:
    return Transition(apply, targets)


_do = QueueTransitions
_ABSENT, _WANTED, _ASKING, _STARTING = QueueState.ABSENT, QueueState.WANTED, QueueState.ASKING, QueueState.STARTING
_OWNED, _UNSURE = QueueState.OWNED, QueueState.UNSURE
_DRAINING, _COMMITTING, _RELEASING = QueueState.DRAINING, QueueState.COMMITTING, QueueState.RELEASING

TRANSITIONS: Mapping[tuple[QueueState, QueueEvent], Transition] = {
    (_ABSENT, QueueEvent.PLANNED_IN): _row(_do.acquire, _WANTED),
    (_ABSENT, QueueEvent.HANDOVER_REQUESTED): _row(_do.unlock_unknown_lock, _ABSENT),
    (_WANTED, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _WANTED),
    (_WANTED, QueueEvent.PLANNED_OUT): _row(_do.cancel_acquire, _WANTED, _ABSENT, _RELEASING),
    (_WANTED, QueueEvent.RETRY_DUE): _row(_do.request_lock, _WANTED),
    (_WANTED, QueueEvent.REGISTRATION_PROVEN): _row(_do.request_lock, _WANTED),
    (_WANTED, QueueEvent.LOCK_GRANTED): _row(_do.start_or_probe, _STARTING, _ASKING, _RELEASING, _ABSENT),
    (_WANTED, QueueEvent.LOCK_DENIED): _row(_do.retry_lock_later, _WANTED, _ABSENT),
    (_WANTED, QueueEvent.LOCK_FAILED): _row(_do.record_unknown_lock, _WANTED, _ABSENT, _RELEASING),
    (_WANTED, QueueEvent.CONNECTION_LOST): _row(_do.restart_acquire, _WANTED, _ABSENT, _RELEASING),
    (_WANTED, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _WANTED),
    (_WANTED, QueueEvent.GIVEN_UP): _row(_do.forget, _ABSENT),
    (_ASKING, QueueEvent.PLANNED_OUT): _row(_do.cancel_probe, _RELEASING, _ABSENT),
    (_ASKING, QueueEvent.PEER_HOLDS): _row(_do.retry_probe_later, _ASKING),
    (_ASKING, QueueEvent.PEER_SILENT): _row(_do.retry_probe_later, _ASKING),
    (_ASKING, QueueEvent.NO_PEER_HOLDS): _row(_do.start_after_probe, _STARTING, _WANTED),
    (_ASKING, QueueEvent.RETRY_DUE): _row(_do.repeat_probe, _ASKING),
    (_ASKING, QueueEvent.LOCK_GRANTED): _row(_do.record_proof, _ASKING),
    (_ASKING, QueueEvent.LOCK_DENIED): _row(_do.lose_probe_lock, _WANTED),
    (_ASKING, QueueEvent.LOCK_FAILED): _row(_do.ignore, _ASKING),
    (_ASKING, QueueEvent.CONNECTION_LOST): _row(_do.restart_acquire, _WANTED),
    (_ASKING, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _ASKING),
    (_ASKING, QueueEvent.GIVEN_UP): _row(_do.forget, _ABSENT),
    (_STARTING, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _STARTING),
    (_STARTING, QueueEvent.PLANNED_OUT): _row(_do.cancel_start, _STARTING, _RELEASING, _ABSENT),
    (_STARTING, QueueEvent.OFFSET_RECEIVED): _row(_do.become_owner, _OWNED, _WANTED, _RELEASING, _ABSENT),
    (_STARTING, QueueEvent.OFFSET_FAILED): _row(_do.retry_start_later, _STARTING, _RELEASING, _ABSENT),
    (_STARTING, QueueEvent.OFFSET_RESET): _row(_do.record_reset, _STARTING),
    (_STARTING, QueueEvent.RETRY_DUE): _row(_do.request_start_offset, _STARTING),
    (_STARTING, QueueEvent.LOCK_GRANTED): _row(_do.record_proof, _STARTING),
    (_STARTING, QueueEvent.LOCK_DENIED): _row(_do.ignore, _STARTING),
    (_STARTING, QueueEvent.LOCK_FAILED): _row(_do.ignore, _STARTING),
    (_STARTING, QueueEvent.CONNECTION_LOST): _row(_do.restart_acquire, _WANTED, _RELEASING, _ABSENT),
    (_STARTING, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _STARTING),
    (_STARTING, QueueEvent.GIVEN_UP): _row(_do.forget, _ABSENT),
    (_OWNED, QueueEvent.PLANNED_OUT): _row(_do.drain, _DRAINING),
    (_OWNED, QueueEvent.PULLED): _row(_do.accept_messages, _OWNED),
    (_OWNED, QueueEvent.PULL_FAILED): _row(_do.retry_pull_later, _OWNED),
    (_OWNED, QueueEvent.PULL_STUCK): _row(_do.restart, _STARTING),
    (_OWNED, QueueEvent.HANDLED): _row(_do.advance, _OWNED),
    (_OWNED, QueueEvent.COMMIT_CONFIRMED): _row(_do.record_commit, _OWNED),
    (_OWNED, QueueEvent.COMMIT_FAILED): _row(_do.record_commit, _OWNED),
    (_OWNED, QueueEvent.COMMIT_REFUSED): _row(_do.lose, _ABSENT),
    (_OWNED, QueueEvent.OFFSET_RESET): _row(_do.reset_offset, _OWNED),
    (_OWNED, QueueEvent.LOCK_GRANTED): _row(_do.record_proof, _OWNED),
    (_OWNED, QueueEvent.LOCK_DENIED): _row(_do.lose, _ABSENT),
    (_OWNED, QueueEvent.LOCK_FAILED): _row(_do.ignore, _OWNED),
    (_OWNED, QueueEvent.CONNECTION_LOST): _row(_do.become_unsure, _UNSURE),
    (_OWNED, QueueEvent.PROOF_EXPIRED): _row(_do.become_unsure, _UNSURE),
    (_OWNED, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _OWNED),
    (_UNSURE, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _UNSURE),
    (_UNSURE, QueueEvent.PLANNED_OUT): _row(_do.mark_unplanned, _UNSURE),
    (_UNSURE, QueueEvent.REGISTRATION_PROVEN): _row(_do.prove_ownership, _UNSURE, _OWNED, _DRAINING),
    (_UNSURE, QueueEvent.RETRY_DUE): _row(_do.prove_ownership, _UNSURE, _OWNED, _DRAINING),
    (_UNSURE, QueueEvent.LOCK_GRANTED): _row(_do.continue_proof, _UNSURE),
    (_UNSURE, QueueEvent.LOCK_DENIED): _row(_do.lose, _ABSENT),
    (_UNSURE, QueueEvent.LOCK_FAILED): _row(_do.retry_proof_later, _UNSURE),
    (_UNSURE, QueueEvent.NO_PEER_HOLDS): _row(_do.prove_by_offset, _UNSURE),
    (_UNSURE, QueueEvent.PEER_HOLDS): _row(_do.lose, _ABSENT),
    (_UNSURE, QueueEvent.PEER_SILENT): _row(_do.retry_proof_later, _UNSURE),
    (_UNSURE, QueueEvent.OFFSET_RECEIVED): _row(_do.resolve_unsure, _OWNED, _DRAINING, _UNSURE, _ABSENT),
    (_UNSURE, QueueEvent.OFFSET_FAILED): _row(_do.retry_proof_later, _UNSURE),
    (_UNSURE, QueueEvent.OFFSET_RESET): _row(_do.record_reset, _UNSURE),
    (_UNSURE, QueueEvent.PULLED): _row(_do.accept_messages, _UNSURE),
    (_UNSURE, QueueEvent.PULL_FAILED): _row(_do.ignore, _UNSURE),
    (_UNSURE, QueueEvent.HANDLED): _row(_do.advance, _UNSURE),
    (_UNSURE, QueueEvent.COMMIT_CONFIRMED): _row(_do.record_commit, _UNSURE),
    (_UNSURE, QueueEvent.COMMIT_FAILED): _row(_do.record_commit, _UNSURE),
    (_UNSURE, QueueEvent.COMMIT_REFUSED): _row(_do.lose, _ABSENT),
    (_UNSURE, QueueEvent.CONNECTION_LOST): _row(_do.restart_proof, _UNSURE),
    (_UNSURE, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _UNSURE),
    (_UNSURE, QueueEvent.GIVEN_UP): _row(_do.lose, _ABSENT),
    (_DRAINING, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _DRAINING),
    (_DRAINING, QueueEvent.PLANNED_OUT): _row(_do.mark_unplanned, _DRAINING),
    (_DRAINING, QueueEvent.PULLED): _row(_do.accept_messages, _DRAINING),
    (_DRAINING, QueueEvent.PULL_FAILED): _row(_do.retry_pull_later, _DRAINING),
    (_DRAINING, QueueEvent.HANDLED): _row(_do.advance, _DRAINING),
    (_DRAINING, QueueEvent.COMMIT_CONFIRMED): _row(_do.record_commit, _DRAINING),
    (_DRAINING, QueueEvent.COMMIT_FAILED): _row(_do.record_commit, _DRAINING),
    (_DRAINING, QueueEvent.COMMIT_REFUSED): _row(_do.lose, _ABSENT),
    (_DRAINING, QueueEvent.DRAINED): _row(_do.finish_drain, _COMMITTING, _RELEASING, _ABSENT),
    (_DRAINING, QueueEvent.DRAIN_TIMEOUT): _row(_do.orphan_running, _DRAINING),
    (_DRAINING, QueueEvent.OFFSET_RESET): _row(_do.reset_offset, _DRAINING),
    (_DRAINING, QueueEvent.LOCK_GRANTED): _row(_do.record_proof, _DRAINING),
    (_DRAINING, QueueEvent.LOCK_DENIED): _row(_do.lose, _ABSENT),
    (_DRAINING, QueueEvent.LOCK_FAILED): _row(_do.ignore, _DRAINING),
    (_DRAINING, QueueEvent.CONNECTION_LOST): _row(_do.become_unsure, _UNSURE),
    (_DRAINING, QueueEvent.PROOF_EXPIRED): _row(_do.become_unsure, _UNSURE),
    (_DRAINING, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _DRAINING),
    (_DRAINING, QueueEvent.GIVEN_UP): _row(_do.lose, _ABSENT),
    (_COMMITTING, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _COMMITTING),
    (_COMMITTING, QueueEvent.PLANNED_OUT): _row(_do.mark_unplanned, _COMMITTING),
    (_COMMITTING, QueueEvent.COMMIT_CONFIRMED): _row(_do.release_after_commit, _COMMITTING, _RELEASING, _ABSENT),
    (_COMMITTING, QueueEvent.COMMIT_FAILED): _row(_do.retry_final_commit_later, _COMMITTING),
    (_COMMITTING, QueueEvent.COMMIT_REFUSED): _row(_do.lose, _ABSENT),
    (_COMMITTING, QueueEvent.RETRY_DUE): _row(_do.commit_final, _COMMITTING),
    (_COMMITTING, QueueEvent.OFFSET_RESET): _row(_do.reset_offset, _COMMITTING),
    (_COMMITTING, QueueEvent.LOCK_GRANTED): _row(_do.record_proof, _COMMITTING),
    (_COMMITTING, QueueEvent.LOCK_DENIED): _row(_do.lose, _ABSENT),
    (_COMMITTING, QueueEvent.LOCK_FAILED): _row(_do.ignore, _COMMITTING),
    (_COMMITTING, QueueEvent.CONNECTION_LOST): _row(_do.become_unsure, _UNSURE),
    (_COMMITTING, QueueEvent.PROOF_EXPIRED): _row(_do.become_unsure, _UNSURE),
    (_COMMITTING, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _COMMITTING),
    (_COMMITTING, QueueEvent.GIVEN_UP): _row(_do.lose, _ABSENT),
    (_RELEASING, QueueEvent.PLANNED_IN): _row(_do.mark_planned, _RELEASING),
    (_RELEASING, QueueEvent.PLANNED_OUT): _row(_do.mark_unplanned, _RELEASING),
    (_RELEASING, QueueEvent.UNLOCKED): _row(_do.finish_release, _ABSENT),
    (_RELEASING, QueueEvent.UNLOCK_FAILED): _row(_do.retry_unlock_later, _RELEASING),
    (_RELEASING, QueueEvent.CONNECTION_LOST): _row(_do.ignore, _RELEASING),
    (_RELEASING, QueueEvent.REGISTRATION_PROVEN): _row(_do.request_unlock, _RELEASING),
    (_RELEASING, QueueEvent.RETRY_DUE): _row(_do.request_unlock, _RELEASING),
    (_RELEASING, QueueEvent.LOCK_GRANTED): _row(_do.ignore, _RELEASING),
    (_RELEASING, QueueEvent.LOCK_DENIED): _row(_do.ignore, _RELEASING),
    (_RELEASING, QueueEvent.LOCK_FAILED): _row(_do.ignore, _RELEASING),
    (_RELEASING, QueueEvent.HANDOVER_REQUESTED): _row(_do.ignore, _RELEASING),
    (_RELEASING, QueueEvent.GIVEN_UP): _row(_do.forget, _ABSENT),
}
"""Every possible pair of state and event."""
