"""Parked pulls are tried again: when a message came, when their time is over, when what they wait for is gone.

After each flush those queues are looked at to which messages came, and there only the pulls whose filter may match: the
marks of what came are read once for all of them. A pull that still finds nothing goes on waiting, and remembers how far
it was compared, so that no message is looked at twice for it; when its time is over it is told to go on from there. If
its group subscribes to something else meanwhile, all it waited through is compared again.
"""

from steelyard.broker.parking import Parked
from steelyard.broker.pulling import choose, look, reach
from steelyard.broker.refusals import refused
from steelyard.broker.state import State
from steelyard.errors import SteelyardError
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.pull import PullAnswer

__all__ = ["dismiss", "expire", "forget", "wake", "wake_group"]

_NOTHING_YET = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)

_TRIES = 10_000
"""Pulls that are tried again at a time, of some microseconds each; everybody else waits meanwhile."""
_WEIGHT_OF_A_TRY = 16
"""Values of a condition that are looked at in the time that trying takes without one."""
_LOOKS = 4
"""How often one pull looks at what came. If it is still not through, its asker is told to ask on from there."""


def wake(state: State, now_ms: int) -> None:
    """Answer the parked pulls for which a message came, as many as can be at a time; the rest with the next call."""
    left = _TRIES
    for key, queue_id in state.parking.take_arrived():
        waiting = state.parking.in_queue(key, queue_id)
        if not waiting:
            continue
        _, high = state.store.bounds(key, queue_id)
        start = min(parked.scanned for parked in waiting)
        marks = {mark for _, _, mark in state.store.entries(key, queue_id, start, high)}
        for parked in waiting:
            wanted = parked.filter.marks
            if wanted is not None and wanted.isdisjoint(marks) and parked.ask.wanted is not None:
                parked.scanned = high
            elif parked.scanned < high:
                if left <= 0:
                    state.parking.arrived(key, queue_id)
                    break
                left -= 1 + parked.filter.weight // _WEIGHT_OF_A_TRY
                _try(state, parked, high, now_ms)


def wake_group(state: State, group: str, topic: bytes, queue_id: int, now_ms: int) -> None:
    """Answer a group's parked pulls in a queue, because it was reset: the last of each line.

    Those before it may be of a member that let the queue go and took it again, and does not listen for them any more.
    """
    last = {
        parked.peer.number: parked for parked in state.parking.in_queue(topic, queue_id) if parked.ask.group == group
    }
    for parked in last.values():
        _finish(state, parked, now_ms)


def expire(state: State, now_ms: int) -> None:
    """Answer the parked pulls whose time is over, and those whose queue or group is not there for them any more."""
    wake(state, now_ms)
    for parked in state.parking.take_due(now_ms):
        state.post(parked.peer, _answer(state, parked, now_ms))
    changes = (state.topics.changes, state.groups.changes)
    if changes != state.parking.seen_changes:
        state.parking.seen_changes = changes
        _recheck(state, now_ms)


def dismiss(state: State) -> None:
    """Tell members of other makes whose pulls wait that the broker stops.

    Java's up to 4.9 do not look whether a line closed while they wait for an answer, and would wait on until their own
    time is over, half a minute after they asked. Told so, they ask again every three seconds. Ours look.
    """
    for queue in state.parking.queues():
        for parked in state.parking.in_queue(*queue):
            member = state.members.on_line(parked.peer, parked.ask.group)
            if member is not None and not member.ours and state.parking.leave(parked):
                stops = answer_to(parked.request(), ResponseCode.SERVICE_NOT_AVAILABLE, remark="the broker stops")
                state.post(parked.peer, stops)


def forget(state: State, peer_number: int) -> None:
    """Drop the parked pulls of a line that closed, and tell others what it may not have heard any more."""
    state.parking.forget_line(peer_number)
    state.offsets.forget_line(peer_number)


def _recheck(state: State, now_ms: int) -> None:
    """Answer pulls that nobody would let wait any more: their queue is gone, or their group may not read."""
    for key, queue_id in state.parking.queues():
        topic = state.topics.get(key.decode())
        is_gone = topic is None or not topic.is_readable or queue_id >= topic.read_queues
        for parked in state.parking.in_queue(key, queue_id):
            group = state.groups.get(parked.ask.group)
            if is_gone or (group is not None and not group.consume_enabled):
                _finish(state, parked, now_ms)


def _try(state: State, parked: Parked, high: int, now_ms: int) -> None:
    """Answer a pull if there is something for it now, or very much to look through; else it waits on."""
    answer = _answer(state, parked, now_ms)
    for _ in range(_LOOKS):
        if answer.code not in _NOTHING_YET or not isinstance(answer.fields, PullAnswer):
            break
        parked.scanned = answer.fields.next_begin_offset
        if parked.scanned >= high:
            return
        answer = _answer(state, parked, now_ms)
    if state.parking.leave(parked):
        state.post(parked.peer, answer)


def _finish(state: State, parked: Parked, now_ms: int) -> None:
    if state.parking.leave(parked):
        state.post(parked.peer, _answer(state, parked, now_ms))


def _answer(state: State, parked: Parked, now_ms: int) -> Command:
    """Look again, as if the pull came now and might not wait."""
    request, ask = parked.request(), parked.ask
    try:
        reached = reach(state, ask.group, ask.topic, ask.queue_id, request, now_ms)
        if isinstance(reached, Command):
            return reached
        wanted = choose(state, ask, reached.group, request, parked.peer)
        if isinstance(wanted, Command):
            return wanted
        if wanted != parked.filter:
            parked.filter, parked.scanned = wanted, ask.offset
        return look(state, ask, reached, wanted, request, parked.peer, parked.scanned)
    except SteelyardError as error:
        return refused(request, error)
