"""A message that a member could not handle comes back: 36.

Spec facts. The message is named by its position in the log, and goes to ``%RETRY%group`` after a delay: the level that
the member asks for, or for 0 the third and one more with each attempt. Below 0, or after as many attempts as the member
or else the group allows (16), it goes to the group's dead letters. RETRY_TOPIC remembers the first topic,
ORIGIN_MESSAGE_ID the id of its place there. Codes: 1 no such message, 26 no such group. A group without retry queues
wants nothing back.

Dead letters say where they came from (DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID), as those of Apache's proxy do.
"""

from collections.abc import Mapping

from steelyard.broker.handlers import Handler
from steelyard.broker.refusals import refusal
from steelyard.broker.state import State
from steelyard.broker.storing import CLOSED_TOPICS, Place, as_text, delayed_place, put_copy
from steelyard.model.names import DEAD
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.send import SendBack
from steelyard.wire.peers import Peer
from steelyard.wire.properties import parse_properties
from steelyard.wire.property_names import (
    DEAD_ORIGIN_ID,
    DEAD_ORIGIN_TOPIC,
    DELAY_LEVEL,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
)
from steelyard.wire.record import Record, decode_record

__all__ = ["HANDLERS"]

_FIRST_LEVEL = 3


def _take_back(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(SendBack)
    group = state.groups.known(header.group, now_ms)
    if group.retry_queues <= 0:
        return answer_to(request)
    record = _record_at(state, header.offset)
    topic = record.topic.decode()
    properties = parse_properties(record.properties)
    origin_topic = properties.setdefault(RETRY_TOPIC, topic)
    origin_id = properties.setdefault(ORIGIN_MESSAGE_ID, state.stamps.place_id(record.position))
    for name in (TIMER_DELIVER_MS, TIMER_DELAY_SECONDS, TIMER_DELAY_MS, DELAY_LEVEL):
        properties.pop(name, None)  # what delayed it the first time is over
    most = group.max_retries if header.max_reconsume_times is None else header.max_reconsume_times
    if record.reconsume_times >= most or header.delay_level < 0:
        properties.setdefault(DEAD_ORIGIN_TOPIC, origin_topic)
        properties.setdefault(DEAD_ORIGIN_ID, properties.get(UNIQUE_KEY) or origin_id)
        place = Place(state.topics.dead_letters(group.name, now_ms).name, 0)
    else:
        properties[DELAY_LEVEL] = str(header.delay_level or _FIRST_LEVEL + record.reconsume_times)
        retries = state.topics.retry_topic(group.name, group.retry_queues, now_ms)
        place = Place(retries.name, state.next_turn() % min(group.retry_queues, max(1, retries.write_queues)))
        place = delayed_place(properties, place, now_ms, most_ms=state.options.timer_max_ms)
    text, times = as_text(properties), record.reconsume_times + 1
    done = put_copy(state, record, place, text, now_ms, reconsume_times=times)
    if place.topic.startswith(DEAD):
        state.tallies.dead.add(group.name, origin_topic)
    if not request.is_oneway:
        state.acknowledge(peer, answer_to(request), done.end, waits=state.options.is_sync)
    return None


def _record_at(state: State, position: int) -> Record:
    """Return the message that is sent back; what consumers never see cannot come from one."""
    found = state.store.lookup.at(position)
    record = None if found is None else decode_record(found)
    if record is None or record.topic.decode(errors="replace") in CLOSED_TOPICS:
        raise refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {position}")
    return record


HANDLERS: Mapping[int, Handler] = {RequestCode.CONSUMER_SEND_MSG_BACK: _take_back}
