"""Sending, as Apache takes it: 10, 310 and 320.

A topic that nobody knows is made after the default topic. A message gets CLUSTER, from release 5 also MSG_REGION and
TRACE_ON. A delayed one waits in the topic of delays, a half in that of halves. An ordinary send to ``%RETRY%group``
goes to the dead letters after too many tries; and in release 5 at once, whatever it has tried, if the group has any
lock that lives. Left out: sizes, timers with a time of their own, and the id that release 5 gives a message without.
"""

from collections.abc import Mapping

from steelyard.model.names import DEAD, RETRY
from steelyard.sim.apache.halves import HALF_PLACE
from steelyard.sim.apache.log import Entry, Place
from steelyard.sim.apache.release import Release
from steelyard.sim.apache.state import Handler, State
from steelyard.sim.line import Line
from steelyard.wire.batch import read_batch
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command
from steelyard.wire.headers.send import Send, SendAnswer, SendShort
from steelyard.wire.hosts import host_bytes
from steelyard.wire.message_ids import offset_id
from steelyard.wire.properties import append_properties, encode_properties, find_property, parse_properties
from steelyard.wire.property_names import (
    DELAY_LEVEL,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from steelyard.wire.sysflag import TRANSACTION_BITS

__all__ = ["HANDLERS", "MOST_TRIES", "bad_queue"]

MOST_TRIES = 16
"""What a group has unless its members say otherwise."""

_REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def _send(state: State, request: Command, line: Line, now_ms: int) -> Command:
    header = request.header(Send) if request.code == RequestCode.SEND_MESSAGE else request.header(SendShort)
    topic = state.topics.get(header.topic)
    if topic is None:
        topic = state.topics.for_send(header.topic, header.default_topic, header.default_topic_queue_nums)
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please!"
            return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, _REGION, remark=remark)
        state.hands.changed()
    if header.queue_id >= topic.write_queues:
        return state.answer(request, bad_queue(state), _REGION, remark=f"request queueId[{header.queue_id}] is illegal")
    queue_id = header.queue_id if header.queue_id >= 0 else state.next_turn() % topic.write_queues
    place = header.topic, queue_id
    if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
        stored = _store_batch(state, request, line, now_ms, header, place)
    else:
        stored = [_store(state, request, line, now_ms, header, place)]
    for entry in stored:
        state.stored(entry, now_ms)
    unique = find_property((header.properties or "").encode(), UNIQUE_KEY.encode())
    fields = SendAnswer(
        msg_id=",".join([offset_id(state.address, entry.position) for entry in stored]),
        queue_id=queue_id,
        queue_offset=stored[0].offset,
        transaction_id=unique.decode() if unique and state.release is Release.V5 else None,
        msg_region="DefaultRegion",
        trace_on="true",
    )
    return state.answer(request, fields=fields)


def bad_queue(state: State) -> ResponseCode:
    """Return how a release refuses the number of a queue that is not there."""
    return ResponseCode.SYSTEM_ERROR if state.release is Release.V4 else ResponseCode.INVALID_PARAMETER


def _store(state: State, request: Command, line: Line, now_ms: int, header: Send | SendShort, place: Place) -> Entry:
    text, sys_flag = header.properties or "", header.sys_flag
    raw = append_properties(text.encode(), state.stamp)
    is_half = False
    if place[0].startswith(RETRY) or DELAY_LEVEL in text or TRANSACTION_PREPARED in text:
        properties = parse_properties(raw)
        if place[0].startswith(RETRY):
            place = _retry_or_dead(state, header, place, properties, now_ms)
        is_half = properties.get(TRANSACTION_PREPARED) == "true" and not header.reconsume_times
        if is_half:
            properties |= {REAL_TOPIC: place[0], REAL_QUEUE_ID: str(place[1])}
            properties[TRANSACTION_ID] = properties.get(UNIQUE_KEY, "0")
            place, sys_flag = HALF_PLACE, sys_flag & ~TRANSACTION_BITS
        else:
            place = state.kept.delays.place(properties, place)
        raw = encode_properties(properties)
    entry = state.log.append(
        place,
        request.body,
        raw,
        born_ms=header.born_timestamp,
        born_host=host_bytes(line.remote),
        stored_ms=now_ms,
        flag=header.flag,
        sys_flag=sys_flag,
        reconsume_times=header.reconsume_times or 0,
    )
    if is_half:
        state.kept.halves.add(entry, now_ms)
    return entry


def _store_batch(
    state: State, request: Command, line: Line, now_ms: int, header: Send | SendShort, place: Place
) -> list[Entry]:
    return [
        state.log.append(
            place,
            item.body,
            item.properties,
            born_ms=header.born_timestamp,
            born_host=host_bytes(line.remote),
            stored_ms=now_ms,
            flag=item.flag,
            sys_flag=header.sys_flag,
        )
        for item in read_batch(request.body)
    ]


def _retry_or_dead(
    state: State, header: Send | SendShort, place: Place, properties: dict[str, str], now_ms: int
) -> Place:
    """Return where an ordinary send of a retry goes."""
    group, times = place[0].removeprefix(RETRY), header.reconsume_times or 0
    most = MOST_TRIES if header.max_reconsume_times is None else header.max_reconsume_times
    if state.release is Release.V4:
        return _dead_letters(state, group) if times >= most else place
    if times <= most and not state.locks.has_live(group, now_ms):
        return place
    properties.pop(DELAY_LEVEL, None)
    return _dead_letters(state, group)


def _dead_letters(state: State, group: str) -> Place:
    name = f"{DEAD}{group}"
    if state.topics.get(name) is None:
        state.topics.own(name)
        state.hands.changed()
    return name, 0


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.SEND_BATCH_MESSAGE: _send,
}
