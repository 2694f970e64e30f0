"""What follows when members come and go: notices to the others, locks that get free, words about what looks wrong.

A member leaves in three ways. It says goodbye: then it is gone at once. Its line closes: then it is listed for a short
grace, and if it comes back meanwhile nothing happened and nobody is told. It falls silent: then it is gone after four
of its heartbeats, or after two minutes if it is not one of ours; Apache tells nobody of that, and here all are told.
"""

from steelyard.broker.hazards import hazards_of
from steelyard.broker.members import Beat, Heard, Member, MemberGroup
from steelyard.broker.moves import What
from steelyard.broker.state import State
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.common import Group
from steelyard.wire.peers import Hangup, Peer

__all__ = ["changed", "closed", "excuse", "heard", "left", "queue_counts", "tick"]

_STANDSTILL_MS = 5_000
"""A tick that comes so much later than the one before says that nothing else was done meanwhile either."""


def heard(state: State, beat: Beat, now_ms: int) -> Heard:
    """Register a member or refresh it, and tell the group if that changed something."""
    found = state.members.heard(beat, now_ms)
    if found.replaced is not None:
        because = f"{beat.id} speaks on its line"
        state.moves.member(beat.group, found.replaced.id, What.GONE, now_ms, because=because)
        state.locks.left(beat.group, found.replaced.id, now_ms)
    group = state.members.group(beat.group)
    assert group is not None
    if found.changed:
        _write_down(state, beat, found, now_ms)
        changed(state, group, now_ms)
    elif found.away_ms is not None and group.changed_ms >= found.away_ms:
        # It may have missed a notice while it had no line.
        _tell(state, group, group.members[beat.id])
    return found


def _write_down(state: State, beat: Beat, found: Heard, now_ms: int) -> None:
    """Let the history of moves know what a heartbeat changed."""
    if found.joined:
        is_new = state.locks.is_settled(beat.group, now_ms)
        state.moves.member(beat.group, beat.id, What.JOINED if is_new else What.BACK, now_ms)
    elif found.wants_other:
        state.moves.member(beat.group, beat.id, What.WANTS, now_ms)
    elif beat.leaving:
        state.moves.member(beat.group, beat.id, What.LEAVING, now_ms)


def left(state: State, member: Member, peer: Peer, now_ms: int) -> None:
    """Let a member go that says goodbye on this line."""
    if state.members.leave(member, peer):
        state.moves.member(member.group, member.id, What.LEFT, now_ms)
        state.locks.left(member.group, member.id, now_ms)
        _gone(state, member, now_ms)


def closed(state: State, peer: Peer, now_ms: int) -> None:
    """Take note that a line closed."""
    state.members.closed(peer, now_ms)
    state.producers.closed(peer)
    state.relays.closed(peer)


def excuse(state: State, missed_ms: int, now_ms: int) -> None:
    """Let nobody who is there grow older by a time that was only put forward: neither clients nor what they hold."""
    state.ticked_ms = now_ms
    state.members.excuse(missed_ms, now_ms)
    state.producers.excuse(missed_ms, now_ms)
    state.locks.excuse(missed_ms)


def tick(state: State, now_ms: int) -> None:
    """Remove who is gone for too long, send notices that are due, give up on answers that never came."""
    options, missed_ms = state.options, now_ms - state.ticked_ms
    state.ticked_ms = now_ms
    if missed_ms > _STANDSTILL_MS:
        # The process stood still, or its clock jumped: that nobody was heard is nobody's fault.
        state.members.excuse(missed_ms, now_ms)
        state.producers.excuse(missed_ms, now_ms)
    for member in state.members.overdue(now_ms - options.line_grace_ms):
        _lost(state, member, "its line closed", now_ms)
    if state.members.scan_is_due(now_ms):
        for member in state.members.silent(now_ms):
            lines = [line.peer for line in member.lines.values()]
            silent = f"was silent for {(now_ms - member.seen_ms) // 1000} s"
            _lost(state, member, f"it {silent}", now_ms)
            why = f"{member.id} of group {member.group} {silent}"
            # What else speaks on the line keeps it.
            state.outbox.extend(Hangup(peer, why) for peer in lines if not state.members.ids_on(peer))
        state.producers.expire(now_ms - options.client_silence_ms)
        state.locks.expire(now_ms)
        _look_around(state, now_ms)
    for name in state.notices.due(now_ms):
        group = state.members.group(name)
        if group is not None:
            _tell_all(state, group)
    state.relays.expire(now_ms)


def _lost(state: State, member: Member, because: str, now_ms: int) -> None:
    state.members.remove(member)
    state.moves.member(member.group, member.id, What.GONE, now_ms, because=because)
    state.locks.lost(member.group, member.id, now_ms, order_grace_ms=state.options.order_grace_ms)
    _gone(state, member, now_ms)


def _gone(state: State, member: Member, now_ms: int) -> None:
    group = state.members.group(member.group)
    if group is None:
        state.notices.forget(member.group)
    else:
        changed(state, group, now_ms)


def changed(state: State, group: MemberGroup, now_ms: int) -> None:
    """Take note that a group changed, and tell its members, now or soon."""
    state.members.touch(group, now_ms)
    group.queues = queue_counts(state, group)
    if state.notices.changed(group.name, now_ms):
        _tell_all(state, group)


def queue_counts(state: State, group: MemberGroup) -> dict[str, int]:
    """Return how many readable queues this broker has of each topic that the group wants."""
    counts = {}
    for name in group.subscriptions:
        topic = state.topics.get(name)
        counts[name] = topic.read_queues if topic is not None and topic.is_readable else 0
    return counts


def _tell_all(state: State, group: MemberGroup) -> None:
    for member in group.members.values():
        _tell(state, group, member)


def _tell(state: State, group: MemberGroup, member: Member) -> None:
    settings = state.groups.get(group.name)
    if member.is_broadcasting or not state.options.notices or (settings and not settings.notices_enabled):
        return
    for line in member.lines.values():
        state.tell(line.peer, RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, Group(consumer_group=group.name))


def _look_around(state: State, now_ms: int) -> None:
    """Find what changes without a heartbeat: topics that got other queues, ids that two lines share for a while."""
    topics_changed = state.notices.topics_seen != state.topics.changes
    state.notices.topics_seen = state.topics.changes
    for name in state.members.groups():
        group = state.members.group(name)
        assert group is not None
        if topics_changed and (counts := queue_counts(state, group)) != group.queues:
            state.moves.queues_changed(name, _other_queues(group.queues, counts), now_ms)
            changed(state, group, now_ms)
        _speak_up(state, group)


def _other_queues(before: dict[str, int], now: dict[str, int]) -> str:
    """Say which topic has other queues than before; of several the first."""
    topic = min(name for name in before.keys() | now if before.get(name, 0) != now.get(name, 0))
    had, has = before.get(topic, 0), now.get(topic, 0)
    added = "1 queue was" if has == had + 1 else f"{has - had} queues were"
    return f"{added} added to {topic}" if 0 < had < has else f"{topic} has {has} queues here, and had {had}"


def _speak_up(state: State, group: MemberGroup) -> None:
    """Say once what looks wrong in a group; again only after it was well in between."""
    found = hazards_of(group)
    state.notes.extend(hazard.sentence for hazard in found if hazard.kind not in group.said)
    group.said = {hazard.kind for hazard in found}
