"""Client expiry: when members join, leave or are removed, and what follows: notifications, released locks, warnings.

A member leaves in three ways. It unregisters: then it is removed at once. Its connection closes: then it stays listed
for a short grace, and if it reconnects meanwhile nothing happened and nobody is notified. It is silent: then it is
removed after four of its heartbeat intervals, or after two minutes if it is not one of ours; Apache notifies nobody of
that, here all members are.
"""

from steelyard.broker.consumer_registry import ConsumerGroup, GroupMember, HeartbeatResult, MemberHeartbeat
from steelyard.broker.group_warnings import find_warnings
from steelyard.broker.rebalance_history import MembershipEvent
from steelyard.broker.state import BrokerCoreState
from steelyard.model.formatting import pluralize
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import CloseConnection, Peer
from steelyard.wire.headers.common import GroupRequest

_STALL_MS = 5_000
"""A gap between two ticks in which nothing else was done either."""


def register_heartbeat(state: BrokerCoreState, heartbeat: MemberHeartbeat, now_ms: int) -> HeartbeatResult:
    """Register or refresh a member, and notify the group if that changed something."""
    found = state.consumers.register(heartbeat, now_ms)
    if found.replaced is not None:
        because = f"{heartbeat.id} uses its connection"
        state.rebalance_history.record_member_event(
            heartbeat.group, found.replaced.id, MembershipEvent.GONE, now_ms, because=because
        )
        state.queue_locks.release_all(heartbeat.group, found.replaced.id, now_ms)
    group = state.consumers.group(heartbeat.group)
    assert group is not None
    if found.changed:
        event = MembershipEvent.LEAVING if heartbeat.leaving else None
        if found.joined:
            is_new = state.queue_locks.is_settled(heartbeat.group, now_ms)
            event = MembershipEvent.JOINED if is_new else MembershipEvent.RETURNED
        elif found.subscriptions_changed:
            event = MembershipEvent.RESUBSCRIBED
        if event is not None:
            state.rebalance_history.record_member_event(heartbeat.group, heartbeat.id, event, now_ms)
        _group_changed(state, group, now_ms)
    elif found.disconnected_ms is not None and group.changed_ms >= found.disconnected_ms:
        # It may have missed a notification while it was disconnected.
        _notify(state, group, group.members[heartbeat.id])
    return found


def unregister(state: BrokerCoreState, member: GroupMember, peer: Peer, now_ms: int) -> None:
    """Remove a member that unregisters on this connection."""
    if state.consumers.remove_connection(member, peer):
        state.rebalance_history.record_member_event(member.group, member.id, MembershipEvent.LEFT, now_ms)
        state.queue_locks.release_all(member.group, member.id, now_ms)
        _member_removed(state, member, now_ms)


def connection_closed(state: BrokerCoreState, peer: Peer, now_ms: int) -> None:
    """Handle a closed connection."""
    state.consumers.connection_closed(peer, now_ms)
    state.producers.connection_closed(peer)
    state.forwarded_requests.connection_closed(peer)


def shift_deadlines(state: BrokerCoreState, shift_ms: int, now_ms: int) -> None:
    """Postpone all deadlines after the clock was set forward: those of clients and of their locks."""
    state.last_tick_ms = now_ms
    state.consumers.shift_deadlines(shift_ms, now_ms)
    state.producers.shift_deadlines(shift_ms, now_ms)
    state.queue_locks.shift_deadlines(shift_ms)


def tick(state: BrokerCoreState, now_ms: int) -> None:
    """Remove lost and silent clients, send notifications that are due, give up unanswered requests."""
    options, missed_ms = state.options, now_ms - state.last_tick_ms
    state.last_tick_ms = now_ms
    if missed_ms > _STALL_MS:
        # The process was suspended, or its clock jumped: no client is to blame for missing heartbeats.
        state.consumers.shift_deadlines(missed_ms, now_ms)
        state.producers.shift_deadlines(missed_ms, now_ms)
    for member in state.consumers.disconnected_before(now_ms - options.connection_grace_ms):
        _remove_lost(state, member, "connection closed", now_ms)
    if state.consumers.is_scan_due(now_ms):
        for member in state.consumers.find_silent(now_ms):
            peers = [connection.peer for connection in member.connections.values()]
            silent = f"no heartbeat for {(now_ms - member.last_seen_ms) // 1000} s"
            _remove_lost(state, member, silent, now_ms)
            why = f"{member.id} of group {member.group}: {silent}"
            # A connection that other members use stays open.
            state.outbox.extend(
                CloseConnection(peer, why) for peer in peers if not state.consumers.ids_on_connection(peer)
            )
        state.producers.expire(now_ms - options.client_silence_ms)
        state.queue_locks.expire(now_ms)
        _detect_changes(state, now_ms)
    for name in state.member_notifications.due_groups(now_ms):
        group = state.consumers.group(name)
        if group is not None:
            _notify_all(state, group)
    state.forwarded_requests.expire(now_ms)


def _remove_lost(state: BrokerCoreState, member: GroupMember, because: str, now_ms: int) -> None:
    state.consumers.remove(member)
    state.rebalance_history.record_member_event(member.group, member.id, MembershipEvent.GONE, now_ms, because=because)
    state.queue_locks.release_lost(member.group, member.id, now_ms, order_grace_ms=state.options.order_grace_ms)
    _member_removed(state, member, now_ms)


def _member_removed(state: BrokerCoreState, member: GroupMember, now_ms: int) -> None:
    group = state.consumers.group(member.group)
    if group is None:
        state.member_notifications.forget_group(member.group)
    else:
        _group_changed(state, group, now_ms)


def _group_changed(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> None:
    """Record that a group changed, and notify its members, now or soon."""
    state.consumers.advance_epoch(group, now_ms)
    group.queue_counts = queue_counts(state, group)
    if state.member_notifications.record_change(group.name, now_ms):
        _notify_all(state, group)


def queue_counts(state: BrokerCoreState, group: ConsumerGroup) -> dict[str, int]:
    """Return the number of readable queues of each subscribed topic on this broker."""
    counts = {}
    for name in group.subscriptions:
        topic = state.topics.get(name)
        counts[name] = topic.read_queues if topic is not None and topic.is_readable else 0
    return counts


def owners_by_topic(state: BrokerCoreState, group: ConsumerGroup, now_ms: int) -> dict[str, tuple[int, ...]]:
    """Return, for each subscribed topic and queue, the index of its owner among the ids; -1 if no member owns it."""
    indexes = {client_id: index for index, client_id in enumerate(group.ids)}
    owners = {topic: [-1] * count for topic, count in queue_counts(state, group).items()}
    for (topic, queue_id), lock in state.queue_locks.held_queues(group.name, now_ms):
        row = owners.get(topic, ())
        if queue_id < len(row):
            owners[topic][queue_id] = indexes.get(lock.owner, -1)
    return {topic: tuple(row) for topic, row in owners.items()}


def _notify_all(state: BrokerCoreState, group: ConsumerGroup) -> None:
    for member in group.members.values():
        _notify(state, group, member)


def _notify(state: BrokerCoreState, group: ConsumerGroup, member: GroupMember) -> None:
    settings = state.groups.get(group.name)
    if member.is_broadcasting or not state.options.notices or (settings and not settings.notices_enabled):
        return
    fields = GroupRequest(consumer_group=group.name)
    for connection in member.connections.values():
        state.send_oneway(connection.peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)


def _detect_changes(state: BrokerCoreState, now_ms: int) -> None:
    """Find what changes without a heartbeat: numbers of queues, and warnings."""
    topics_changed = state.member_notifications.topic_changes_seen != state.topics.changes
    state.member_notifications.topic_changes_seen = state.topics.changes
    for name in state.consumers.group_names():
        group = state.consumers.group(name)
        assert group is not None
        if topics_changed and (counts := queue_counts(state, group)) != group.queue_counts:
            state.rebalance_history.record_queue_change(
                name, _describe_queue_change(group.queue_counts, counts), now_ms
            )
            _group_changed(state, group, now_ms)
        _report_warnings(state, group)


def _describe_queue_change(before: dict[str, int], now: dict[str, int]) -> str:
    """Describe the first topic whose number of queues changed."""
    topic = min(name for name in before.keys() | now if before.get(name, 0) != now.get(name, 0))
    had, has = before.get(topic, 0), now.get(topic, 0)
    added = "1 queue was" if has == had + 1 else f"{has - had} queues were"
    return (
        f"{added} added to {topic}" if 0 < had < has else f"{topic} has {pluralize(has, 'queue')} here, and had {had}"
    )


def _report_warnings(state: BrokerCoreState, group: ConsumerGroup) -> None:
    """Log each warning about a group once; again only after it was resolved."""
    found = find_warnings(group)
    state.warnings.extend(str(warning) for warning in found if warning.kind not in group.reported_warnings)
    group.reported_warnings = {warning.kind for warning in found}
