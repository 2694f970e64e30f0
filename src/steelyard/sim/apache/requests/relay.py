"""Questions for a member that Apache passes on: 307, with fields and body untouched, and so the answer.

Who is not in the group: 1, "not online". Whose line is closed when the question is to be written: 1, "Exception". Who
does not answer in ten seconds, also because its line closed meanwhile: 207. Of two lines with one id either counts.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.sim.apache.relays import Relay
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.group import AskRunningState

__all__ = ["HANDLERS", "answered", "given_up"]


def _ask(state: State, request: Command, line: Line, _now_ms: int) -> Command | None:
    header = request.header(AskRunningState)
    group, who = state.registry.get(header.consumer_group), f"<{header.consumer_group}> <{header.client_id}>"
    number = None if group is None else group.line_of(header.client_id)
    if number is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"The Consumer {who} not online")
    target = state.lines.get(number)
    if target is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"invoke consumer {who} Exception: closed")
    opaque = state.relays.add(number, Relay(line, request, header.consumer_group, header.client_id))
    state.pools.block()
    target.say(replace(state.request(request.code, request.fields, request.body), opaque=opaque))
    state.hands.relayed(number, opaque)
    return None


def answered(state: State, line: int, answer: Command) -> None:
    """Pass an answer on to whoever asked."""
    relay = state.relays.take(line, answer.opaque)
    if relay is not None:
        relay.line.say(replace(answer, opaque=relay.request.opaque))
        state.pools.free()


def given_up(state: State, line: int, opaque: int) -> None:
    """Tell whoever asked that no answer came in time."""
    relay = state.relays.take(line, opaque)
    if relay is not None:
        remark = f"consumer <{relay.group}> <{relay.client}> Timeout"
        relay.line.say(state.answer(relay.request, ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark))
        state.pools.free()


HANDLERS: Mapping[int, Handler] = {RequestCode.GET_CONSUMER_RUNNING_INFO: _ask}
