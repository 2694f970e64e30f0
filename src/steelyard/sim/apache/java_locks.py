"""Locks of Java's members that handle in order: one at a time when a queue is taken, all of them each 20 seconds.

The age of a lock counts from its answer, not from when it was asked for.
"""

from collections.abc import Sequence

from steelyard.model import Queue
from steelyard.sim.apache.java_calls import Ask, Script
from steelyard.sim.apache.java_state import JavaState
from steelyard.sim.apache.release import Release
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.common import Empty
from steelyard.wire.maps import QueueRef

__all__ = ["lock_all", "lock_one", "unlock", "unlock_all"]

_LOCK_MS = 1_000


def lock_one(state: JavaState, queue: Queue) -> Script[bool]:
    """Lock a queue; say whether it is locked."""
    granted = yield from _lock(state, queue.broker, [queue])
    return granted is not None and queue in granted


def lock_all(state: JavaState) -> Script[None]:
    """Lock everything again; what is not granted is not locked any more, what is not answered stays as it was."""
    for broker, mine in _by_broker(state):
        granted = yield from _lock(state, broker, mine)
        if granted is not None:
            for queue in mine:
                known = state.queues.get(queue)
                if known is not None and queue not in granted:
                    known.is_locked = False


def _lock(state: JavaState, broker: str, queues: Sequence[Queue]) -> Script[frozenset[Queue] | None]:
    address = state.addresses.get(broker)
    if address is None:
        return None
    answer = yield Ask(address, _request(state, RequestCode.LOCK_BATCH_MQ, queues), _LOCK_MS)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return None
    granted = frozenset(each.queue for each in decode_body(LockAnswer, answer.body).granted)
    for queue in queues:
        known = state.queues.get(queue)
        if known is not None and queue in granted:
            known.is_locked, known.locked_ms = True, state.now_ms()
    return granted


def unlock(state: JavaState, queue: Queue) -> None:
    """Let a queue go, without waiting for a word."""
    address = state.addresses.get(queue.broker)
    if address is not None:
        state.calls.tell(address, _request(state, RequestCode.UNLOCK_BATCH_MQ, [queue]))


def unlock_all(state: JavaState) -> Script[None]:
    """Let everything go."""
    for broker, mine in _by_broker(state):
        address = state.addresses.get(broker)
        if address is not None:
            yield Ask(address, _request(state, RequestCode.UNLOCK_BATCH_MQ, mine), _LOCK_MS)


def _by_broker(state: JavaState) -> list[tuple[str, list[Queue]]]:
    """List the queues of each broker; release 5 passes over dropped ones, 4.9 locks those again as well."""
    mine: dict[str, list[Queue]] = {}
    for queue, known in sorted(state.queues.items()):
        if state.release is Release.V4 or not known.is_dropped:
            mine.setdefault(queue.broker, []).append(queue)
    return list(mine.items())


def _request(state: JavaState, code: RequestCode, queues: Sequence[Queue]) -> Command:
    refs = tuple(map(QueueRef.of, queues))
    body = LockRequest(client_id=state.options.id, group=state.options.group, queues=refs)
    return state.request(code, Empty(), encode_body(body))
