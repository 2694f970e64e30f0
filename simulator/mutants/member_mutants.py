"""Bugs in a member: in-flight windows, commits, handlers, leaving, and how it acquires and gives up queues."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from simulator.mutants.mutant import Mutant, patch_attribute, patch_rows, patch_transition
from steelyard.balance.group import queue_transitions
from steelyard.balance.group.actions import (
    LockQueues,
    MemberLeft,
    PullMessages,
    RenewLocks,
    UnlockQueues,
    UnregisterMember,
)
from steelyard.balance.group.claimed_queues import ClaimedQueues
from steelyard.balance.group.dispatch import Dispatcher
from steelyard.balance.group.events import (
    Handled,
    OwnershipProbeFailed,
    OwnershipReported,
    Pulled,
    PullFailed,
    StartOffsetReceived,
    Unlocked,
    UnlockFailed,
)
from steelyard.balance.group.fetch import Fetcher
from steelyard.balance.group.heartbeats import BrokerSessions
from steelyard.balance.group.inflight_window import InflightWindow
from steelyard.balance.group.member import LeaveSequence, MemberStateMachine
from steelyard.balance.group.offset_commits import OffsetCommits, has_uncommitted
from steelyard.balance.group.ownership_probe import OwnershipProbe
from steelyard.balance.group.process_queue import HandlerBatch, LockMode, ProcessQueue
from steelyard.balance.group.queue_locks import BrokerLockRequests, LockDenial, LockGrant, QueueLocks, first_queues
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions, Transition
from steelyard.balance.producer.queue_selection import QueueRotation
from steelyard.model import Queue
from steelyard.protocol import member_requests
from steelyard.wire.bodies.queue_assignment import LockExtension
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers import pull as pull_headers

# The correct functions, for the wrong ones that call them.
_advance, _finish, _send_back = InflightWindow._advance, InflightWindow.finish, Dispatcher._send_back
_orphan_handled, _pull_request, _fence_holds = (
    Dispatcher._orphan_handled,
    member_requests.MemberRequests.pull,
    QueueLocks.fence_holds,
)
_enter_owned, _finish_leaving, _orphan_running = (
    QueueTransitions._enter_owned,
    LeaveSequence.finish_if_done,
    QueueTransitions.orphan_running,
)


# -- windows ----------------------------------------------------------------------------------------------------------


def _settle_at_pulled(window: InflightWindow) -> None:
    _advance(window)
    window.low = window.next_offset


def _finish_up_to_highest(window: InflightWindow, offsets: Iterable[int]) -> None:
    highest = max(offsets, default=-1)
    unfinished = [offset for offset in window._offsets[window._head :] if offset not in window._ahead]
    _finish(window, [offset for offset in unfinished if offset <= highest])


def _nothing_is_stale(_window: InflightWindow, _offsets: Sequence[int]) -> int:
    return 0


def _accept_any_pull(fetcher: Fetcher, event: Pulled | PullFailed) -> None:
    process_queue = fetcher._context.process_queues.get(event.queue)
    if process_queue is None or process_queue.pull_sent_ms is None:
        return
    process_queue.pull_sent_ms = None
    fetcher._apply(process_queue, QueueEvent.PULLED if isinstance(event, Pulled) else QueueEvent.PULL_FAILED, event)


def _pull_and_commit(requests: member_requests.MemberRequests, action: PullMessages) -> member_requests.EncodedRequest:
    """Pull, and let the broker commit the offset of the pull."""
    request = _pull_request(requests, action)
    header = request.fields
    if not isinstance(header, pull_headers.PullMessage):
        return request
    return request._replace(fields=replace(header, sys_flag=header.sys_flag | 1, commit_offset=action.offset))


# -- commits ----------------------------------------------------------------------------------------------------------


def _commit_at_once(commits: OffsetCommits, process_queue: ProcessQueue) -> None:
    """Commit after every message, even before the last commit is answered."""
    if has_uncommitted(process_queue):
        commits.commit(process_queue)


def _assume_stored(
    transitions: QueueTransitions, process_queue: ProcessQueue, payload: StartOffsetReceived, generation: int
) -> None:
    """Start a queue, and assume that the broker has its offset."""
    _enter_owned(transitions, process_queue, replace(payload, stored=True), generation)


def _release_without_commit(transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
    transitions._release_or_remove(process_queue)


def _release_with_commit(transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
    """Release together with the last commit, without waiting for its response."""
    transitions.commits.commit(process_queue)
    transitions._release_or_remove(process_queue)


# -- handlers ---------------------------------------------------------------------------------------------------------


def _count_failure_as_handled(
    _dispatcher: Dispatcher, process_queue: ProcessQueue, offset: int, _batch: HandlerBatch, _event: Handled
) -> None:
    process_queue.window.finish((offset,))


def _send_back_and_go_on(
    dispatcher: Dispatcher,
    process_queue: ProcessQueue,
    offset: int,
    batch: HandlerBatch,
    delay_level: int,
    error: str,
    *,
    is_unreadable: bool = False,
) -> None:
    """Count a message as done as soon as it is being sent back."""
    _send_back(dispatcher, process_queue, offset, batch, delay_level, error, is_unreadable=is_unreadable)
    process_queue.window.finish((offset,))
    process_queue.sending_back.pop(offset, None)


def _send_back_after_loss(dispatcher: Dispatcher, event: Handled) -> None:
    """Send back what failed in a handler whose queue was lost."""
    running = dispatcher._orphans.get((event.queue, event.generation), {})
    for offset in event.failed:
        if offset in running:
            chunk = running[offset]
            _send_back(dispatcher, chunk.process_queue, offset, chunk, event.delay_level, "")
    _orphan_handled(dispatcher, event)


def _skip_in_order(
    _dispatcher: Dispatcher, process_queue: ProcessQueue, offset: int, _batch: HandlerBatch, _event: Handled
) -> list[tuple[int, object, int]]:
    process_queue.window.finish((offset,))
    return []


def _try_later_in_order(
    dispatcher: Dispatcher, process_queue: ProcessQueue, offset: int, batch: HandlerBatch, _event: Handled
) -> list[tuple[int, object, int]]:
    """Try a message again after a while, and go on with the next ones."""
    dispatcher._retry_locally(process_queue, offset, batch.message(offset), batch.attempt + 1)
    return []


def _can_always_start(_dispatcher: Dispatcher, process_queue: ProcessQueue) -> bool:
    return process_queue.state is QueueState.OWNED and process_queue.has_messages and not process_queue.is_suspended


def _can_start_while_unsure(dispatcher: Dispatcher, process_queue: ProcessQueue) -> bool:
    if process_queue.state not in (QueueState.OWNED, QueueState.UNSURE) or not process_queue.has_messages:
        return False
    return not dispatcher._is_orderly or not (process_queue.running or process_queue.is_suspended)


def _fence_holds_while_unsure(locks: QueueLocks, process_queue: ProcessQueue) -> bool:
    return process_queue.state is QueueState.UNSURE or _fence_holds(locks, process_queue)


def _fence_always_holds(_locks: QueueLocks, _process_queue: ProcessQueue) -> bool:
    return True


def _commit_what_runs(transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
    """End a drain that takes too long: count what still runs as done."""
    process_queue.window.finish(list(process_queue.running))
    _orphan_running(transitions, process_queue, None)


# -- leaving ----------------------------------------------------------------------------------------------------------


def _leave_while_releasing(sequence: LeaveSequence) -> None:
    """Unregister as soon as only unanswered unlocks are left."""
    context = sequence._context
    if not context.is_leaving or sequence.has_left:
        return
    if all(process_queue.state is QueueState.RELEASING for process_queue in context.process_queues.values()):
        for broker in context.sessions.connected_brokers():
            context.emit(UnregisterMember(broker))
        context.emit(MemberLeft())
        sequence.has_left = True


def _leave_while_draining(sequence: LeaveSequence) -> None:
    """Unregister first and drain then."""
    context = sequence._context
    if context.is_leaving and not sequence._is_timed_out:
        for broker in context.sessions.connected_brokers():
            context.emit(UnregisterMember(broker))
        sequence._is_timed_out = True
    _finish_leaving(sequence)


# -- sending ----------------------------------------------------------------------------------------------------------


def _pick_any(rotation: QueueRotation, _now_ms: int = 0, failed: Iterable[str] = ()) -> Queue:
    """Choose the broker that has just failed."""
    again = [queue for queue in rotation.queues if queue.broker in failed]
    return again[0] if again else rotation._next_in_turn()


MEMBER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "commit-before-handle",
        "A member commits what it has pulled, not what it has handled.",
        ("churn", "crash"),
        (patch_attribute(InflightWindow, "_advance", _settle_at_pulled),),
    ),
    Mutant(
        "window-without-holes",
        "A member commits up to the highest handled message, over unhandled ones below it.",
        ("churn", "crash"),
        (patch_attribute(InflightWindow, "finish", _finish_up_to_highest),),
    ),
    Mutant(
        "pull-carries-commit",
        "Each pull commits the offset from which it pulls.",
        ("churn", "crash"),
        (patch_attribute(member_requests.MemberRequests, "pull", _pull_and_commit),),
    ),
    Mutant(
        "pull-of-an-earlier-generation",
        "The response to a pull of an earlier generation of a queue counts in this one.",
        ("churn", "storm"),
        (
            patch_attribute(Fetcher, "pull_answered", _accept_any_pull),
            patch_attribute(InflightWindow, "first_new_index", _nothing_is_stale),
        ),
    ),
    Mutant(
        "two-commits-under-way",
        "A member commits again before its last commit is answered, and the broker may store them in the other order.",
        ("churn",),
        (patch_attribute(OffsetCommits, "commit_if_due", _commit_at_once),),
    ),
    Mutant(
        "start-uncommitted",
        "The start offset of a group is not committed until something was handled.",
        ("late",),
        (patch_attribute(QueueTransitions, "_enter_owned", _assume_stored),),
    ),
    Mutant(
        "released-uncommitted",
        "A queue is released without a last commit.",
        ("churn",),
        patch_transition(QueueTransitions.finish_drain, _release_without_commit),
    ),
    Mutant(
        "released-before-the-response",
        "A queue is released while its last commit is unanswered.",
        ("flips", "storm"),
        patch_transition(QueueTransitions.finish_drain, _release_with_commit),
    ),
    Mutant(
        "failure-counts-as-done",
        "A failed message is neither sent back nor tried again.",
        ("retry",),
        (patch_attribute(Dispatcher, "_message_failed", _count_failure_as_handled),),
    ),
    Mutant(
        "sent-back-unconfirmed",
        "A message counts as sent back before the broker confirms it.",
        ("retry",),
        (patch_attribute(Dispatcher, "_send_back", _send_back_and_go_on),),
    ),
    Mutant(
        "sent-back-after-loss",
        "A failed message is sent back by a member that has lost its queue.",
        ("flips",),
        (patch_attribute(Dispatcher, "_orphan_handled", _send_back_after_loss),),
    ),
    Mutant(
        "order-skips-failures",
        "In an orderly group a failed message is skipped.",
        ("order",),
        (patch_attribute(Dispatcher, "_orderly_message_failed", _skip_in_order),),
    ),
    Mutant(
        "order-goes-on-past-failures",
        "In an orderly group the messages after a failed one do not wait for it.",
        ("order",),
        (patch_attribute(Dispatcher, "_orderly_message_failed", _try_later_in_order),),
    ),
    Mutant(
        "order-by-two-handlers",
        "In an orderly group a queue has several handlers at a time.",
        ("order",),
        (patch_attribute(Dispatcher, "_can_start", _can_always_start),),
    ),
    Mutant(
        "unsure-starts-handlers",
        "Handlers start while the member is unsure of the queue.",
        ("flips", "wild"),
        (
            patch_attribute(Dispatcher, "_can_start", _can_start_while_unsure),
            patch_attribute(QueueLocks, "fence_holds", _fence_holds_while_unsure),
        ),
    ),
    Mutant(
        "fence-ignored",
        "A member that resumes goes on with its messages before it has proven that it still owns the queue.",
        ("hung",),
        (patch_attribute(QueueLocks, "fence_holds", _fence_always_holds),),
    ),
    Mutant(
        "drain-bound-commits-all",
        "When a drain takes too long, what is still being handled is committed.",
        ("flips",),
        patch_transition(QueueTransitions.orphan_running, _commit_what_runs),
    ),
    Mutant(
        "unregistered-before-unlock",
        "A member unregisters while its last unlocks are unanswered.",
        ("order",),
        (patch_attribute(LeaveSequence, "finish_if_done", _leave_while_releasing),),
    ),
    Mutant(
        "unregistered-first",
        "A member that leaves unregisters before it has released its queues.",
        ("churn",),
        (patch_attribute(LeaveSequence, "finish_if_done", _leave_while_draining),),
    ),
    Mutant(
        "failed-broker-again",
        "A message that a broker rejected is sent to the same broker again.",
        ("restart",),
        (patch_attribute(QueueRotation, "next_queue", _pick_any),),
    ),
)
"""Bugs in how a member handles messages."""


# The correct functions, for the wrong ones that call them.
_send_lock_request, _ownership_answered, _start_or_probe = (
    QueueLocks._send_lock_request,
    OwnershipProbe.ownership_answered,
    QueueTransitions.start_or_probe,
)
_claimed_queues, _become_unsure, _enter_starting = (
    MemberStateMachine.claimed_queues,
    QueueTransitions.become_unsure,
    QueueTransitions._enter_starting,
)


# -- locks ------------------------------------------------------------------------------------------------------------


def _lock_nothing(locks: QueueLocks, broker_requests: BrokerLockRequests) -> None:
    """Assume that the lock is free, and only ask the other members."""
    if locks.lock_mode(broker_requests.broker) is not LockMode.PROBE:
        _send_lock_request(locks, broker_requests)
        return
    for process_queue in locks._pop_lockable(
        broker_requests, broker_requests.to_lock, first_queues(broker_requests.to_lock)
    ):
        grant = LockGrant(None, locks._context.now_ms, LockMode.PROBE, is_real=False)
        locks._apply(process_queue, QueueEvent.LOCK_GRANTED, grant)


def _never_settles(_sessions: BrokerSessions, _broker: str, _now_ms: int, _foreign: bool) -> bool:
    return False


def _drop_unwanted_grant(transitions: QueueTransitions, process_queue: ProcessQueue, payload: LockGrant) -> None:
    if process_queue.is_planned:
        _start_or_probe(transitions, process_queue, payload)
    else:
        process_queue.state = QueueState.ABSENT


def _ignore_handover_request(_transitions: QueueTransitions, _process_queue: ProcessQueue, _payload: object) -> None:
    """Ignore a handover request for a queue that the member does not have."""


def _request_lock_for_ever(transitions: QueueTransitions, process_queue: ProcessQueue, payload: LockDenial) -> None:
    transitions.locks.retry_later(process_queue)
    transitions.probe.request_handover(process_queue, payload.holder)


def _unlock_blindly(locks: QueueLocks, queue: Queue, epoch: int | None) -> None:
    """Unlock whatever is pending, and do not wait for the response."""
    broker_requests, found = locks.broker_requests(queue.broker), locks._context.process_queues.get(queue)
    broker_requests.to_lock.pop(queue, None)
    broker_requests.to_renew.pop(queue, None)
    locks._context.emit(UnlockQueues(queue.broker, (queue,), locks._options.lock_group, (epoch,)))
    if found is not None and found.state is QueueState.RELEASING:
        locks._apply(found, QueueEvent.UNLOCKED)


def _ignore_unlock_response(_locks: QueueLocks, _event: Unlocked | UnlockFailed) -> None:
    """Ignore a response."""


def _renew_as_lock(
    requests: member_requests.MemberRequests, action: LockQueues | RenewLocks
) -> member_requests.EncodedRequest:
    body = requests._lock_body(action, requests._options.id, LockExtension(renew=False))
    return member_requests.EncodedRequest(action.broker, RequestCode.LOCK_BATCH_MQ, body=body)


def _keep_short_lock(transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
    _enter_starting(transitions, process_queue)


# -- ownership probes -------------------------------------------------------------------------------------------------


def _treat_silence_as_not_held(probe: OwnershipProbe, event: OwnershipReported | OwnershipProbeFailed) -> None:
    if isinstance(event, OwnershipProbeFailed):
        event = OwnershipReported(event.broker, event.member, frozenset(), request_id=event.request_id)
    _ownership_answered(probe, event)


def _report_owned_only(member: MemberStateMachine, now_ms: int, payload: Sequence[Queue]) -> ClaimedQueues:
    return replace(_claimed_queues(member, now_ms, payload), held=member.assignment(), draining=())


# -- unsure queues ----------------------------------------------------------------------------------------------------


def _window_always_survives(process_queue: ProcessQueue, _start_offset: StartOffsetReceived) -> bool:
    return process_queue.reset_offset is None


def _forget_drain_when_unsure(
    transitions: QueueTransitions, process_queue: ProcessQueue, is_disconnected: bool | None
) -> None:
    """Forget that a queue was draining."""
    _become_unsure(transitions, process_queue, is_disconnected)
    process_queue.was_draining = False


_UNSURE_NEVER_YIELDS = {
    (QueueState.UNSURE, QueueEvent.LOCK_DENIED): Transition(QueueTransitions.retry_proof_later, (QueueState.UNSURE,)),
    (QueueState.UNSURE, QueueEvent.PEER_HOLDS): Transition(QueueTransitions.retry_proof_later, (QueueState.UNSURE,)),
}


# -- giving up --------------------------------------------------------------------------------------------------------


def _undo_drain(_transitions: QueueTransitions, process_queue: ProcessQueue, _payload: object) -> None:
    process_queue.is_planned = True
    if process_queue.state is QueueState.DRAINING:
        process_queue.state = QueueState.OWNED
        process_queue.was_draining = False


_DRAIN_UNDONE = {
    (QueueState.DRAINING, QueueEvent.PLANNED_IN): Transition(_undo_drain, (QueueState.OWNED,)),
}


def _never_recommit(_commits: OffsetCommits, _process_queue: ProcessQueue) -> None:
    """Never repeat a commit."""


QUEUE_LOCK_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "taken-without-lock",
        "On Apache's broker a member asks the others without the lock, so that two can acquire a queue at once.",
        ("churn", "storm"),
        (patch_attribute(QueueLocks, "_send_lock_request", _lock_nothing),),
    ),
    Mutant(
        "silence-means-no",
        "A member that does not respond counts as not holding the queue.",
        ("flips", "hung"),
        (patch_attribute(OwnershipProbe, "ownership_answered", _treat_silence_as_not_held),),
    ),
    Mutant(
        "held-means-owned",
        "A member does not report queues that it is starting or giving up.",
        ("flips", "storm"),
        (patch_attribute(MemberStateMachine, "claimed_queues", _report_owned_only),),
    ),
    Mutant(
        "restarted-broker-trusted",
        "Free locks of an Apache broker that has just started are taken for free queues.",
        ("restart", "wild"),
        (patch_attribute(BrokerSessions, "is_settling", _never_settles),),
    ),
    Mutant(
        "short-lock-kept",
        "On Apache's broker a member keeps the lock when it has the queue.",
        ("churn", "storm"),
        patch_transition(QueueTransitions.start_after_probe, _keep_short_lock),
    ),
    Mutant(
        "unwanted-grant-kept",
        "A lock that is granted when it is not needed any more is forgotten.",
        ("churn", "storm"),
        (
            *patch_transition(QueueTransitions.start_or_probe, _drop_unwanted_grant),
            *patch_transition(QueueTransitions.unlock_unknown_lock, _ignore_handover_request),
        ),
    ),
    Mutant(
        "unlock-not-awaited",
        "A member unlocks all that is pending, and goes on as if that were done.",
        ("order", "patience"),
        (
            patch_attribute(QueueLocks, "request_unlock", _unlock_blindly),
            patch_attribute(QueueLocks, "unlocked", _ignore_unlock_response),
            patch_attribute(QueueLocks, "unlock_failed", _ignore_unlock_response),
        ),
    ),
    Mutant(
        "renewal-takes",
        "A member renews its lease as a new one, and gets it though it had lost it.",
        ("flips", "network"),
        (patch_attribute(member_requests.MemberRequests, "lock", _renew_as_lock),),
    ),
    Mutant(
        "denied-leaver-stays",
        "A member that leaves while a lock is denied goes on requesting it.",
        ("storm", "flips"),
        patch_transition(QueueTransitions.retry_lock_later, _request_lock_for_ever),
    ),
    Mutant(
        "unsure-never-yields",
        "An unsure owner and a member that asks for the queue wait for each other.",
        ("network", "wild"),
        (patch_rows(_UNSURE_NEVER_YIELDS),),
    ),
    Mutant(
        "overtaken-window-kept",
        "After a cut a member goes on where it was, though another member was ahead meanwhile.",
        ("flips", "network"),
        (patch_attribute(queue_transitions, "is_window_valid", _window_always_survives),),
    ),
    Mutant(
        "unsure-undoes-drain",
        "A queue that was draining when its connection broke is owned again afterwards.",
        ("flips",),
        patch_transition(QueueTransitions.become_unsure, _forget_drain_when_unsure),
    ),
    Mutant(
        "drain-undone",
        "A queue that is assigned again while it drains is kept, without the messages that were dropped.",
        ("flips", "storm"),
        (
            *patch_transition(QueueTransitions.mark_planned, _undo_drain),
            patch_rows(_DRAIN_UNDONE),
        ),
    ),
    Mutant(
        "late-commit-stays",
        "On Apache's broker an offset is not committed again that a late commit of a dead connection moved back.",
        ("network", "flips"),
        (patch_attribute(OffsetCommits, "schedule_repeat", _never_recommit),),
    ),
)
"""Bugs in how a member acquires, keeps and gives up queues."""
