"""One member of a consumer group as a pure state machine: events go in, actions come out.

`MemberStateMachine.step` takes an event and the time, and returns actions. An event goes to the broker sessions
first, then to the rebalancer; if the plan changed, queues are planned in and out; then timers that are due run; at last
the event reaches the queues it is about. So a process that was stopped for a while loses what it no longer holds before
it does anything with it.

To leave, a member announces it (so that others plan without it while it drains), gives up every queue, and unregisters
when nothing is left and nothing is unanswered. The unregister comes last because it frees whatever is still held, and
because an Apache broker may execute a heartbeat after it, even after the connection closed: it would list the member
for two more minutes, with a share of queues that are read by none. When the time is over, what is left is dropped.
"""

from collections.abc import Callable, Mapping, Sequence

from steelyard.balance.group import events
from steelyard.balance.group.actions import Action, MemberLeft, UnregisterMember, finding_report
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.context import MemberContext
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.options import ConsumeMode, MemberOptions
from steelyard.balance.group.process_queue import LockMode, ProcessQueue, QueueStatus
from steelyard.balance.group.queue_states import HELD_STATES, QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions
from steelyard.balance.group.rebalance import Rebalancer
from steelyard.balance.group.timers import NEVER_MS, earliest
from steelyard.diagnostics import thresholds
from steelyard.diagnostics.group import ActiveFindings, WaitingQueue, stuck_queues
from steelyard.model import Queue, sort_queues
from steelyard.model.finding import Finding


class StallMonitor:
    """Finds owned queues with waiting messages that make no progress; it looks now and then."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context
        self._active = ActiveFindings()
        self._is_scheduled = False

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was stuck at the last check."""
        return self._active.active

    def schedule(self) -> None:
        """Check from now on, as long as there are queues."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._context.timers.call_at(self._context.now_ms + thresholds.STUCK_CHECK_MS, self._check)

    def _check(self) -> None:
        self._is_scheduled = False
        if self._context.process_queues:
            self.schedule()
        waiting = [
            WaitingQueue(queue, since_ms, each.window.low, each.window.unfinished)
            for queue, each in self._context.process_queues.items()
            if each.state is QueueState.OWNED and (since_ms := each.waiting_since_ms()) is not None
        ]
        group, owner = self._context.options.group, self._context.options.id
        owners = {each.queue: owner for each in waiting}
        for finding in self._active.update(stuck_queues(group, waiting, owners, self._context.now_ms)):
            self._context.emit(finding_report(finding))


class LeaveSequence:
    """The steps by which one member leaves its group."""

    def __init__(self, context: MemberContext, transitions: QueueTransitions) -> None:
        self._context = context
        self._transitions = transitions
        self._is_timed_out = False
        self.has_left = False

    def start(self, event: events.LeaveRequested) -> None:
        """Start to leave; a second request can only make it sooner."""
        context = self._context
        if event.drain_ms is not None:
            by_ms = context.now_ms + event.drain_ms
            context.leave_by_ms = earliest(context.leave_by_ms, by_ms)
            context.timers.call_at(by_ms + context.times.leave_grace_ms, self._abandon_all)
        if not context.is_leaving:
            context.is_leaving = context.sessions.is_leaving = True
            for broker in context.sessions.connected_brokers():
                if context.sessions.is_steelyard(broker):
                    context.actions += context.sessions.send_heartbeat(broker, context.now_ms)
        for process_queue in list(context.process_queues.values()):
            self._transitions.apply(process_queue, QueueEvent.PLANNED_OUT)

    def _abandon_all(self) -> None:
        self._is_timed_out = True
        for process_queue in list(self._context.process_queues.values()):
            self._transitions.apply(process_queue, QueueEvent.GIVEN_UP, "dropped, because there is no time left")

    def finish_if_done(self) -> None:
        """Unregister if nothing is held and nothing is unanswered, or if the time is over."""
        context = self._context
        if not context.is_leaving or self.has_left or context.process_queues:
            return
        if self._is_timed_out or self._is_idle():
            for broker in context.sessions.connected_brokers():
                context.emit(UnregisterMember(broker, context.sessions.duplicates_avoided_at(broker)))
            context.flush_reports()
            context.emit(MemberLeft())
            self.has_left = True

    def _is_idle(self) -> bool:
        transitions, sessions = self._transitions, self._context.sessions
        if not (transitions.start_offsets.is_idle and transitions.commits.is_idle and transitions.probe.is_idle):
            return False
        if any(self._may_be_listed_again(broker) for broker in sessions.connected_brokers()):
            return False
        # Requests that cannot be sent, because there is no connection, are not waited for.
        return all(
            each.is_idle or not sessions.is_registered(each.broker) for each in transitions.locks.by_broker.values()
        )

    def _may_be_listed_again(self, broker: str) -> bool:
        sessions = self._context.sessions
        return sessions.is_heartbeat_pending(broker) and not sessions.is_steelyard(broker)


_QUEUE_EVENTS = frozenset(events.AssignedQueueEvent.__subclasses__())
"""Most events. Neither the sessions nor the rebalancer need them."""

_PROVABLE_STATES = frozenset({QueueState.WANTED, QueueState.UNSURE, QueueState.RELEASING})


class MemberStateMachine:
    """One member. ``now_ms`` is always a monotonic clock."""

    _handlers: Mapping[type, Callable[..., None]]
    """By type of event."""

    def __init__(self, options: MemberOptions, now_ms: int) -> None:
        self.options = options
        self.sessions = BrokerSessions(options)
        """What is known of each broker."""
        self.rebalancer = Rebalancer(options, self.sessions)
        """The members of the group, and the plan."""
        self._context = MemberContext(options, self.sessions, self.rebalancer, now_ms)
        self.transitions = QueueTransitions(self._context)
        self._leave_sequence = LeaveSequence(self._context, self.transitions)
        self._stall_monitor = StallMonitor(self._context)
        self._plan: tuple[Queue, ...] | None = None
        self._abandoned: dict[Queue, None] = {}
        """Given up with their broker, although they are planned."""
        self._change_announced_ms = -NEVER_MS
        self._is_announcement_scheduled = False
        self.sessions.held_leases = self._held_leases
        self.sessions.stopped_queues = self._stopped_queues
        self.rebalancer.assignment.held_queues = self._held_queues
        transitions = self.transitions
        self._handlers = {
            events.HeartbeatAcknowledged: self._heartbeat_acknowledged,
            events.MemberListReceived: transitions.probe.member_list_answered,
            events.MemberListFailed: transitions.probe.member_list_answered,
            events.OwnershipReported: transitions.probe.ownership_answered,
            events.OwnershipProbeFailed: transitions.probe.ownership_answered,
            events.LocksAnswered: transitions.locks.locks_answered,
            events.LockFailed: transitions.locks.lock_failed,
            events.Unlocked: transitions.locks.unlocked,
            events.UnlockFailed: transitions.locks.unlock_failed,
            events.StartOffsetReceived: transitions.start_offsets.answered,
            events.StartOffsetFailed: transitions.start_offsets.answered,
            events.OffsetReset: self._offset_reset,
            events.Pulled: transitions.fetcher.pull_answered,
            events.PullFailed: transitions.fetcher.pull_answered,
            events.Handled: transitions.dispatcher.handled,
            events.MessagesPolled: transitions.fetcher.messages_polled,
            events.SentBack: transitions.dispatcher.sent_back,
            events.SendBackFailed: transitions.dispatcher.sent_back,
            events.CommitRequested: transitions.commits.commit_requested,
            events.CommitConfirmed: transitions.commits.commit_answered,
            events.CommitRefused: transitions.commits.commit_answered,
            events.CommitFailed: transitions.commits.commit_answered,
            events.HandoverRequested: self._handover_requested,
            events.LeaveRequested: self._leave_sequence.start,
        }

    def step(self, event: events.Event, now_ms: int) -> list[Action]:
        """Process an event; return what to do, in order."""
        leave_sequence, context, transitions = self._leave_sequence, self._context, self.transitions
        if leave_sequence.has_left:
            return []
        context.now_ms = now_ms
        if type(event) not in _QUEUE_EVENTS:
            context.actions += self.sessions.step(event, now_ms)
            context.actions += self.rebalancer.step(event, now_ms)
            if isinstance(event, events.ConnectionLost):
                # Before anything that is planned or due: no request can be sent there any more.
                self._connection_lost(event)
            self._apply_plan()
        if context.timers.due_ms <= now_ms:
            context.timers.run_due(now_ms)
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        # A queue whose proof turns out too old requests a new one, so dispatching comes before flushing.
        if transitions.dispatcher.ready:
            transitions.dispatcher.dispatch()
        if transitions.locks.dirty or transitions.probe.dirty:
            transitions.locks.flush()
            transitions.probe.flush()
            transitions.locks.flush()
        if transitions.has_ownership_changed:
            self._announce_change()
        if context.is_leaving:
            leave_sequence.finish_if_done()
        is_unsettled = transitions.owned_count < len(context.process_queues) or context.is_leaving
        if is_unsettled != self.rebalancer.is_unsettled:
            self.rebalancer.set_unsettled(is_unsettled)
        if context.reports:
            context.flush_reports()
        actions, context.actions = context.actions, []
        return actions

    def due_ms(self) -> int:
        """Return when a `Tick` is due; far in the future if nothing is."""
        if self._leave_sequence.has_left:
            return NEVER_MS
        return min(self._context.timers.due_ms, self.sessions.due_ms(), self.rebalancer.due_ms())

    @property
    def has_left(self) -> bool:
        """Whether it has left: every further event is ignored."""
        return self._leave_sequence.has_left

    @property
    def plan(self) -> tuple[Queue, ...] | None:
        """The queues of this member by its last plan; None before the first plan."""
        return self.rebalancer.plan()

    def states(self) -> dict[Queue, QueueState]:
        """Return the state of each queue that is not absent."""
        return {queue: process_queue.state for queue, process_queue in self._context.process_queues.items()}

    def assignment(self) -> tuple[Queue, ...]:
        """Return the queues that are owned, in order."""
        return tuple(self._queues_in(frozenset({QueueState.OWNED})))

    def queue_status(self, queue: Queue) -> QueueStatus | None:
        """Return the status of one queue; None if it is absent."""
        process_queue = self._context.process_queues.get(queue)
        return None if process_queue is None else process_queue.status()

    def queue_statuses(self) -> list[QueueStatus]:
        """Return the status of each queue that is not absent, in order."""
        process_queues = self._context.process_queues
        return [process_queues[queue].status() for queue in sort_queues(process_queues)]

    def findings(self) -> tuple[Finding, ...]:
        """Return what looks wrong now, in the group and with this member's own queues."""
        stopped = tuple(Finding("unreadable", message) for message in self._all_stopped_queues())
        return self.rebalancer.assignment.monitor.findings + self._stall_monitor.findings + stopped

    def set_handler_batch(self, topic: str, messages: int) -> None:
        """Give handlers up to this many messages of a topic at once from now on."""
        self.transitions.dispatcher.batch_sizes[topic] = messages

    def claimed_queues(self, now_ms: int, queues: Sequence[Queue] = ()) -> ClaimedQueues:
        """Return what this member claims, for a peer that probes it and names the queues that it is acquiring."""
        self._context.now_ms = max(self._context.now_ms, now_ms)
        return ClaimedQueues(
            held=tuple(self._queues_in(HELD_STATES)),
            draining=tuple(self._queues_in(frozenset({QueueState.DRAINING, QueueState.COMMITTING}))),
            # A queue that only waits for its lock is not claimed: no peer has to give way to it.
            acquiring=tuple(self._queues_in(frozenset({QueueState.ASKING}))),
            departed=self.transitions.probe.departed_members(),
            unresponsive=self.rebalancer.peer_claims.unresponsive_owners(),
            may_hold=self.transitions.probe.possible_holders(queues),
            stopped_queues=self._all_stopped_queues(),
        )

    def may_start(self, queue: Queue, generation: int, now_ms: int) -> bool:
        """Say whether a handler may start one more message of its batch; if not, it reports the message as skipped.

        A concurrent member that drains a queue finishes the batches that it began: messages behind a skipped one are
        done, and the next owner would handle them again. A member that polls takes messages in order, and gives back
        those that it did not reach.

        This changes nothing, and may be called from any thread.
        """
        process_queue = self._context.process_queues.get(queue)
        if process_queue is None or process_queue.generation != generation:
            return False
        if process_queue.is_suspended or process_queue.stopped_at:
            return False
        is_concurrent = self.options.mode is not ConsumeMode.ORDERLY and self.options.has_retries
        is_finishing = process_queue.state is QueueState.DRAINING and is_concurrent
        if process_queue.state is not QueueState.OWNED and not is_finishing:
            return False
        locks = self.transitions.locks
        if not locks.fence_holds(process_queue):
            return False
        return process_queue.lock_mode is LockMode.NONE or now_ms < locks.fence_expires_ms(process_queue)

    def _queues_in(self, states: frozenset[QueueState]) -> list[Queue]:
        return sort_queues(queue for queue, state in self.states().items() if state in states)

    def _held_queues(self) -> list[Queue]:
        return [queue for queue, state in self.states().items() if state in HELD_STATES]

    def _held_leases(self, broker: str) -> dict[Queue, int]:
        """Return the leases at a broker with their epochs: it accepts them back after a restart."""
        return {
            queue: each.epoch
            for queue, each in self._context.by_broker.get(broker, {}).items()
            if each.epoch is not None and each.state in HELD_STATES and each.lock_mode is LockMode.LEASE
        }

    def _all_stopped_queues(self) -> tuple[str, ...]:
        return tuple(message for broker in self._context.by_broker for message in self._stopped_queues(broker))

    def _stopped_queues(self, broker: str) -> tuple[str, ...]:
        """Say which queues of a broker stopped at a message that cannot be read; heartbeats carry these sentences."""
        return tuple(
            f"{queue} stands still at offset {each.stopped_at[0]}, which cannot be read: {each.stopped_at[1]}"
            for queue, each in self._context.by_broker.get(broker, {}).items()
            if each.stopped_at is not None
        )

    def _apply_plan(self) -> None:
        plan = self.rebalancer.plan()
        if plan is None or self._context.is_leaving:
            return
        if self._abandoned:
            self._plan_abandoned(plan)
        has_changed = plan is not self._plan and plan != self._plan
        self._plan = plan
        if not has_changed:
            return
        planned = frozenset(plan)
        for queue, process_queue in list(self._context.process_queues.items()):
            if process_queue.is_planned and queue not in planned:
                self.transitions.apply(process_queue, QueueEvent.PLANNED_OUT)
        for queue in plan:
            self.transitions.plan_in(queue)

    def _plan_abandoned(self, plan: tuple[Queue, ...]) -> None:
        """Acquire queues again whose broker came back before any plan was made without it."""
        readable = self.rebalancer.readable_queues()
        back = [queue for queue in self._abandoned if queue in readable]
        for queue in back:
            del self._abandoned[queue]
            if queue in plan:
                self.transitions.plan_in(queue)

    def _connection_lost(self, event: events.ConnectionLost) -> None:
        broker, transitions = event.broker, self.transitions
        transitions.start_offsets.connection_lost(broker)
        transitions.commits.connection_lost(broker)
        transitions.probe.connection_lost(broker)
        transitions.locks.connection_lost(broker)
        for process_queue in list(self._context.by_broker.get(broker, {}).values()):
            self.transitions.apply(process_queue, QueueEvent.CONNECTION_LOST, True)
        self._schedule_broker_gone_check(broker)

    def _schedule_broker_gone_check(self, broker: str) -> None:
        due_ms = self._context.now_ms + self.options.times.broker_gone_ms
        self._context.timers.call_at(due_ms, self._check_broker_gone, broker, self._context.now_ms)

    def _check_broker_gone(self, broker: str, disconnected_ms: int) -> None:
        """Give up the queues of a broker that has been unreachable and in no route for long."""
        process_queues = self._context.by_broker.get(broker)
        if not process_queues or self.sessions.is_connected(broker):
            return
        if self._context.now_ms - disconnected_ms < self.options.times.broker_gone_ms:
            return
        readable = self.rebalancer.readable_queues()
        for process_queue in list(process_queues.values()):
            if process_queue.queue not in readable:
                process_queue.is_planned = False
                self._abandoned[process_queue.queue] = None
                self.transitions.apply(process_queue, QueueEvent.GIVEN_UP, "given up, because their broker is gone")
        self._schedule_broker_gone_check(broker)

    def _heartbeat_acknowledged(self, event: events.HeartbeatAcknowledged) -> None:
        if not self.transitions.locks.heartbeat_acknowledged(event.broker):
            return
        for process_queue in list(self._context.by_broker.get(event.broker, {}).values()):
            if process_queue.state in _PROVABLE_STATES:
                self.transitions.apply(process_queue, QueueEvent.REGISTRATION_PROVEN)

    def _offset_reset(self, event: events.OffsetReset) -> None:
        process_queue = self._context.process_queues.get(event.queue)
        if process_queue is not None and process_queue.state in HELD_STATES:
            self.transitions.apply(process_queue, QueueEvent.OFFSET_RESET, event)

    def _handover_requested(self, event: events.HandoverRequested) -> None:
        self.transitions.probe.handover_requested(event)
        for queue in event.waiting_for:
            process_queue = self._context.process_queues.get(queue) or ProcessQueue(queue, 0, self._context.now_ms)
            self.transitions.apply(process_queue, QueueEvent.HANDOVER_REQUESTED)

    def _announce_change(self) -> None:
        """Send heartbeats because the owned queues changed; many changes in a row share a few heartbeats."""
        self.transitions.has_ownership_changed = False
        self._stall_monitor.schedule()
        if self.options.topic_messages is not None or self.options.topic_bytes is not None:
            self.transitions.fetcher.pull_flow_controlled(self._context.process_queues.values())
        if self._is_announcement_scheduled:
            return
        due_ms = self._change_announced_ms + self.options.times.rebalance_gap_ms
        if due_ms <= self._context.now_ms:
            self._send_heartbeats()
        else:
            self._is_announcement_scheduled = True
            self._context.timers.call_at(due_ms, self._send_heartbeats)

    def _send_heartbeats(self) -> None:
        self._is_announcement_scheduled = False
        self._change_announced_ms = self._context.now_ms
        self._context.actions += self.sessions.send_heartbeat(None, self._context.now_ms)
