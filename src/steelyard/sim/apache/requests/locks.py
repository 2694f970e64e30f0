"""Locks, as Apache gives them: 41 and 42. The body is believed: group, client and queues."""

from collections.abc import Mapping

from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.locks import LockAnswer, LockRequest
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command

__all__ = ["HANDLERS", "tell_locks"]


def _lock(state: State, request: Command, _line: Line, now_ms: int) -> Command:
    asked, at_ms = decode_body(LockRequest, request.body), state.hands.at_ms()
    locks = state.locks
    granted = tuple(
        each for each in asked.queues if locks.lock(asked.group, each.queue, asked.client_id, now_ms, at_ms)
    )
    tell_locks(state)
    return state.answer(request, body=encode_body(LockAnswer(granted=granted)))


def _unlock(state: State, request: Command, _line: Line, _now_ms: int) -> Command:
    asked, at_ms = decode_body(LockRequest, request.body), state.hands.at_ms()
    for each in asked.queues:
        state.locks.unlock(asked.group, each.queue, asked.client_id, at_ms)
    tell_locks(state)
    return state.answer(request)


def tell_locks(state: State) -> None:
    """Tell what happened to locks."""
    facts, state.locks.facts = state.locks.facts, []
    for fact in facts:
        state.hands.tell(fact)


HANDLERS: Mapping[int, Handler] = {RequestCode.LOCK_BATCH_MQ: _lock, RequestCode.UNLOCK_BATCH_MQ: _unlock}
