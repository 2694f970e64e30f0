"""Rebalance history topic: the history is written to a topic of the broker, where it outlives the process.

Changes of a group that come together are one record; when its rebalance is over, another record says how long it took.
A record is small and complete: members, owners, moves and reasons (wire/rebalance_history.py has the format). Writing
must never disturb: a failing log is reported once, moves are then only counted, and a tick writes a limited amount.
These records do not count as traffic.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import structs

from steelyard.balance.assignors import minimum_moves
from steelyard.broker.append import encode_raw_properties
from steelyard.broker.client_expiry import owners_by_topic
from steelyard.broker.consumer_registry import ConsumerGroup
from steelyard.broker.queue_locks import QueueKey
from steelyard.broker.rebalance_history import QUIET_PERIOD_MS, GroupRebalanceHistory, OngoingRebalance
from steelyard.broker.state import BrokerCoreState
from steelyard.errors import SteelyardError
from steelyard.model.reserved_names import REBALANCE_HISTORY_TOPIC
from steelyard.wire.hosts import host_bytes
from steelyard.wire.property_names import KEYS, TAGS
from steelyard.wire.rebalance_history import RebalanceEntry, RebalanceHistoryRecord, encode_history_record

_TOPIC_KEY = REBALANCE_HISTORY_TOPIC.encode()
_RECORDS_PER_TICK, _BYTES_PER_TICK = 100, 1 << 20
_MAX_RECORD_BYTES = 1 << 20
"""A larger record is reduced to the essentials."""
_MAX_OWNERS = 100_000

_MAX_SETTLE_MS = 5_000
"""How long a group must be quiet if fewer queues moved than necessary: handlers may still run before a release."""
_GIVE_UP_MS = 30_000
"""After that the rebalance is given up, with queues without an owner."""
_CHECKS_PER_TICK = 100
_MAX_FLOW_CELLS = 2_000
"""Members times topics up to which the minimum is computed over all topics; beyond, for each topic alone."""


def tick(state: BrokerCoreState, now_ms: int) -> None:
    """Write the changes that are due, and the rebalances that are over."""
    recorder, left_bytes = state.rebalance_history, _BYTES_PER_TICK
    for history, rebalance in list(recorder.ongoing_rebalances(now_ms))[:_CHECKS_PER_TICK]:
        _finish_if_settled(state, history, rebalance, now_ms)
    for history in list(recorder.due_histories(now_ms))[:_RECORDS_PER_TICK]:
        left_bytes -= _write_record(state, history, None, now_ms)
        if left_bytes <= 0:
            break
    recorder.forget_old(now_ms)


def write_everything(state: BrokerCoreState, now_ms: int) -> None:
    """Write all changes, since the broker is about to close."""
    for history in list(state.rebalance_history.due_histories(now_ms, everything=True)):
        _write_record(state, history, None, now_ms)


def _finish_if_settled(
    state: BrokerCoreState, history: GroupRebalanceHistory, rebalance: OngoingRebalance, now_ms: int
) -> None:
    """End a rebalance if it is over."""
    quiet_ms = now_ms - history.changed_ms
    rebalance.check_ms = max(now_ms, history.changed_ms + QUIET_PERIOD_MS)
    if 0 <= quiet_ms < QUIET_PERIOD_MS:
        return
    rebalance.check_ms = now_ms + QUIET_PERIOD_MS
    group = state.consumers.group(history.group)
    if group is None or quiet_ms < 0:
        state.rebalance_history.finish_rebalance(history, None)
        return
    owners = owners_by_topic(state, group, now_ms)
    if any(-1 in row for row in owners.values()) or not owners:
        if quiet_ms >= _GIVE_UP_MS:
            state.rebalance_history.finish_rebalance(history, None)
        return
    moved, least = rebalance.moved, _minimum_moves(owners, group.ids, rebalance.before)
    if moved < least and quiet_ms < _MAX_SETTLE_MS:
        return
    summary = RebalanceEntry(
        began_ms=rebalance.began_ms, ended_ms=rebalance.ended_ms, moved=moved, least=min(moved, least)
    )
    state.rebalance_history.finish_rebalance(history, summary)
    _write_record(state, history, summary, now_ms)


def _minimum_moves(
    owners: Mapping[str, Sequence[int]], ids: Sequence[str], before: Mapping[QueueKey, str | None]
) -> int:
    """Return how many queues had to move from their previous owners for an even assignment."""
    indexes = {client_id: index for index, client_id in enumerate(ids)}
    gone = len(ids)
    flat: list[int] = []
    for topic, row in owners.items():
        for queue_id, index in enumerate(row):
            had = before.get((topic, queue_id), ids[index])
            flat.append(-1 if had is None else indexes.get(had, gone))
    cut = list(accumulate(map(len, owners.values()), initial=0))
    is_small = len(owners) * len(ids) <= _MAX_FLOW_CELLS
    subs = None if is_small else [range(len(ids))] * len(owners)
    return minimum_moves(cut, len(ids), flat, subs)


def _write_record(
    state: BrokerCoreState, history: GroupRebalanceHistory, rebalance: RebalanceEntry | None, now_ms: int
) -> int:
    """Write a record of a group; return its size."""
    recorder = state.rebalance_history
    body = b""
    if state.options.keep_rebalance_history:
        group = state.consumers.group(history.group)
        record = RebalanceHistoryRecord(
            group=history.group,
            broker=state.options.name,
            at_ms=now_ms,
            members=() if group is None else tuple(group.ids),
            changed=tuple(history.member_changes),
            owners={} if group is None else _owners(state, group, now_ms),
            moves=tuple(history.moves),
            rebalance=rebalance,
            left_out=history.omitted,
        )
        body = _encode_bounded(record)
        try:
            state.store.append(
                _TOPIC_KEY,
                0,
                body,
                encode_raw_properties({TAGS: history.group, KEYS: history.group}),
                born_ms=now_ms,
                born_host=host_bytes(state.options.address),
                stored_ms=now_ms,
            )
            state.held_pulls.notify_arrival(_TOPIC_KEY, 0)
            recorder.is_failure_reported = False
        except SteelyardError as error:
            recorder.unwritten_records += 1
            if not recorder.is_failure_reported:
                recorder.is_failure_reported = True
                state.warnings.append(f"the rebalance history cannot be written, moves are only counted: {error}")
    recorder.mark_written(history)
    return len(body)


def _owners(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> dict[str, tuple[int, ...]]:
    """Return the owners of queues; empty if the group uses no locks: then the broker does not know them."""
    if sum(group.queue_counts.values()) > _MAX_OWNERS:
        return {}
    locks = next(state.queue_locks.held_queues(group.name, now_ms), None) is not None
    if not locks and not any(member.is_steelyard and not member.is_broadcasting for member in group.members.values()):
        return {}
    return owners_by_topic(state, group, now_ms)


def _encode_bounded(record: RebalanceHistoryRecord) -> bytes:
    """Encode a record with as much as fits: owners matter more than moves."""
    moves = record.moves
    for kept in (len(moves), len(moves) // 4, 0):
        record = structs.replace(record, moves=moves[:kept], left_out=record.left_out + len(record.moves) - kept)
        body = encode_history_record(record)
        if len(body) <= _MAX_RECORD_BYTES:
            return body
    return encode_history_record(structs.replace(record, members=(), changed=(), owners={}))
