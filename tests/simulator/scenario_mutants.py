"""Mutants that several scenarios use."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from simulator.mutants.mutant import AttributePatch, patch_attribute, patch_rows, patch_transition
from steelyard.balance.group.member_lists import GroupSnapshot, MemberLists
from steelyard.balance.group.process_queue import ProcessQueue
from steelyard.balance.group.queue_locks import LockGrant, QueueLocks
from steelyard.balance.group.queue_states import QueueEvent, QueueState
from steelyard.balance.group.queue_transitions import QueueTransitions, Transition
from steelyard.broker import state as broker_state
from steelyard.broker.consumer_registry import GroupMember
from steelyard.broker.requests import locks as lock_requests
from steelyard.wire.bodies.queue_assignment import LockRequest
from steelyard.wire.command import Peer
from tests.simulator.scripted_cluster import scenario_mutant

_start_or_probe, _cut, _snapshot = QueueTransitions.start_or_probe, QueueLocks.connection_lost, MemberLists.snapshot


def other_transition(
    state: QueueState,
    event: QueueEvent,
    apply: Callable[[QueueTransitions, ProcessQueue, Any], None],
    *targets: QueueState,
) -> AttributePatch:
    """Replace a row of the transition table; without targets it may lead to any state."""
    return patch_rows({(state, event): Transition(apply, targets or tuple(QueueState))})


def _start_at_once(transitions: QueueTransitions, record: ProcessQueue, about: LockGrant) -> None:
    """Take a granted lock for a free queue."""
    _start_or_probe(transitions, record, about)
    if record.state is QueueState.ASKING:
        transitions.start_after_probe(record, keeps_lock=False)


NOBODY_ASKED = scenario_mutant(
    "a granted lock counts as a free queue, on a broker where owners keep no lock",
    *patch_transition(QueueTransitions.start_or_probe, _start_at_once),
    other_transition(QueueState.WANTED, QueueEvent.LOCK_GRANTED, _start_at_once),
)


def _believe(state: broker_state.BrokerCoreState, _body: LockRequest, group: str, peer: Peer) -> GroupMember | None:
    return state.consumers.on_connection(peer, group)


REPLACED_LINE_LOCKS = scenario_mutant(
    "a lock that was asked for on a line that was replaced since is given",
    patch_attribute(lock_requests, "_requesting_member", _believe),
)


def _forget_unknown_lock(locks: QueueLocks, broker: str) -> None:
    """Assume that a lock requested on a lost connection was not granted."""
    records = list(locks._context.by_broker.get(broker, {}).values())
    before = [record.may_hold_lock for record in records]
    _cut(locks, broker)
    for record, maybe_held in zip(records, before, strict=True):
        record.may_hold_lock = maybe_held


def _stay_locked(_transitions: QueueTransitions, _process_queue: ProcessQueue, _about: object) -> None:
    """Ignore a handover request for a queue that the member does not have."""


UNKNOWN_LOCK_FORGOTTEN = scenario_mutant(
    "a lock that was asked for on a line that broke counts as not given",
    patch_attribute(QueueLocks, "connection_lost", _forget_unknown_lock),
    *patch_transition(QueueTransitions.unlock_unknown_lock, _stay_locked),
)


def _see_only_the_listed(known: MemberLists, brokers: Sequence[str], now_ms: int) -> GroupSnapshot:
    """Leave out the member itself if a broker does not list it."""
    snapshot = _snapshot(known, brokers, now_ms)
    if not snapshot.unlisted_at:
        return snapshot
    return replace(snapshot, members=tuple(member for member in snapshot.members if member != known._id))


UNLISTED_DROPS = scenario_mutant(
    "a member that a broker does not list gives all its queues up",
    patch_attribute(MemberLists, "snapshot", _see_only_the_listed),
)
