"""A message that a member could not handle comes back, as Apache takes it: 36.

It is found by its position in the log, and waits for the level that the member asks for, or for 0 for the third and one
more with each try. After as many tries as the member allows (16), or below 0, it goes to the dead letters.
"""

from collections.abc import Mapping

from steelyard.model.names import DEAD, RETRY
from steelyard.sim.apache.requests.send import MOST_TRIES
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.send import SendBack
from steelyard.wire.message_ids import offset_id
from steelyard.wire.properties import encode_properties, parse_properties
from steelyard.wire.property_names import DELAY_LEVEL, ORIGIN_MESSAGE_ID, RETRY_TOPIC

__all__ = ["HANDLERS"]

_FIRST_LEVEL = 3


def _take_back(state: State, request: Command, _line: Line, now_ms: int) -> Command:
    header = request.header(SendBack)
    state.groups.add(header.group)
    entry = state.log.at(header.offset)
    if entry is None:
        return state.answer(
            request, ResponseCode.SYSTEM_ERROR, remark=f"look message by offset failed, {header.offset}"
        )
    record = entry.record()
    properties = parse_properties(record.properties)
    properties.setdefault(RETRY_TOPIC, record.topic.decode())
    properties.setdefault(ORIGIN_MESSAGE_ID, offset_id(state.address, record.position))
    most = MOST_TRIES if header.max_reconsume_times is None else header.max_reconsume_times
    is_dead = record.reconsume_times >= most or header.delay_level < 0
    name = f"{DEAD if is_dead else RETRY}{header.group}"
    if state.topics.get(name) is None:
        state.topics.own(name)
        state.hands.changed()
    place = name, 0
    if is_dead:
        properties.pop(DELAY_LEVEL, None)
    else:
        properties[DELAY_LEVEL] = str(header.delay_level or _FIRST_LEVEL + record.reconsume_times)
        place = state.kept.delays.place(properties, place)
    text, times = encode_properties(properties), record.reconsume_times + 1
    state.stored(state.log.copy(record, place, text, now_ms, reconsume_times=times), now_ms)
    return state.answer(request)


HANDLERS: Mapping[int, Handler] = {RequestCode.CONSUMER_SEND_MSG_BACK: _take_back}
