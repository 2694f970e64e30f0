"""Sending: 10 and 310 (the same with short names), 320 (many messages for one queue), with or without an answer.

Spec facts. The answer has the id made of the place, queue, offset, the sender's own id as ``transactionId``, and always
``MSG_REGION`` and ``TRACE_ON``, also when it says no. Codes: 13 too large or a time that cannot be, 16 a topic of the
broker's own, 17 no such topic and none to make it after, 26 no such group (retries), 29 a bad name or queue. A negative
queue means any. A message gets MSG_REGION, TRACE_ON, CLUSTER and, if it has none, UNIQ_KEY; items of a batch get
nothing. A send to ``%RETRY%group`` beyond the group's retries goes to its dead letters, and so does the last one of a
group that holds a lock: 4.9's orderly members count no further when they give up, and would send it for ever.

A broker whose permission is 4 is left by those who send: its name servers tell them. What is sent by those who do not
know yet is taken, but for topics in strict order, whose senders do not go by the permission; it is refused later (16).
Apache's takes it for ever.

Unlike Apache, a send that is refused makes no topic, and an empty body is stored. No answer has a handle to recall the
message by, since this broker does not recall.

Most messages want nothing special. They are recognised by what their properties do not say, and take the short way.
"""

from collections.abc import Mapping

from msgspec import structs

from steelyard.broker.handlers import Handler
from steelyard.broker.refusals import refusal, refused
from steelyard.broker.state import State
from steelyard.broker.storing import (
    CLOSED_TOPICS,
    Place,
    as_text,
    delayed_place,
    half_place,
    put,
    whole_number,
)
from steelyard.broker.topics import Topic
from steelyard.errors import LimitExceeded, SteelyardError
from steelyard.model.names import RETRY
from steelyard.store.store import Appended
from steelyard.wire.batch import read_batch
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY, RESPONSE, Command
from steelyard.wire.headers.send import Send, SendAnswer, SendShort
from steelyard.wire.limits import TAKEN_ITEMS, TOPIC_BYTES_V1
from steelyard.wire.peers import Peer
from steelyard.wire.properties import find_property, parse_properties
from steelyard.wire.property_names import (
    DEAD_ORIGIN_ID,
    DEAD_ORIGIN_TOPIC,
    DELAY_LEVEL,
    POP_RECEIPT,
    RETRY_TOPIC,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from steelyard.wire.sysflag import TRANSACTION_BITS, Transaction

__all__ = ["HANDLERS", "check_place"]

_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_ROUTES_MS = 40_000
"""Clients ask for routes every 30 s: until then they cannot know that they may not write here any more."""
_UNIQUE = f"{UNIQUE_KEY}\x01"


def _take_short(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    try:
        header = request.header(SendShort)
        if state.closed_ms is not None:
            _check_open(state, header.topic, state.closed_ms, now_ms)
        if header.batch or request.code == _BATCH:
            _take_batch(state, request, peer, now_ms, header)
        else:
            _take(state, request, peer, now_ms, header)
    except SteelyardError as error:
        return _no(state, request, error)
    return None


def _take_long(state: State, request: Command, peer: Peer, now_ms: int) -> Command | None:
    try:
        header = request.header(Send)
        if state.closed_ms is not None:
            _check_open(state, header.topic, state.closed_ms, now_ms)
        (_take_batch if header.batch else _take)(state, request, peer, now_ms, header)
    except SteelyardError as error:
        return _no(state, request, error)
    return None


def _no(state: State, request: Command, error: SteelyardError) -> Command:
    return structs.replace(refused(request, error), fields=state.stamps.on_refusals)


def _check_open(state: State, name: str, closed_ms: int, now_ms: int) -> None:
    """Refuse a send to a broker that is only read from, once its sender can know that from the route."""
    topic = state.topics.get(name)
    if now_ms - closed_ms >= _ROUTES_MS or (topic is not None and topic.settings.order):
        options = state.options
        remark = (
            f"the broker[{options.host}] sending message is forbidden: its brokerPermission is {options.permission}"
        )
        raise refusal(ResponseCode.NO_PERMISSION, remark)


def _take(state: State, request: Command, peer: Peer, now_ms: int, header: Send | SendShort) -> None:
    """Take one message."""
    name, text, queue_id, body = header.topic, header.properties or "", header.queue_id, request.body
    topic = state.topics.get(name)
    before, found, after = text.rpartition(_UNIQUE)
    unique = after.partition("\x02")[0]
    if (
        topic is None
        or queue_id >= topic.queues
        or len(body) > state.options.max_message_bytes
        or header.sys_flag & TRANSACTION_BITS
        or name[0] == "%"
        or not found
        or not unique
        or (before and before[-1] != "\x02")
        or "DELAY" in text
        or "TRAN_MSG" in text
        or "TIMER_DELIVER" in text
        or "POP_CK" in text
        or "MSG_REGION" in text
        or name in CLOSED_TOPICS
    ):
        _take_with_care(state, request, peer, now_ms, header)
        return
    if queue_id < 0:
        queue_id = _any_queue(state, topic.write_queues)
    stamps, raw = state.stamps, text.encode()
    done = put(
        state,
        name,
        topic.key,
        queue_id,
        body,
        raw + stamps.added if raw[-1] == 2 else raw + b"\x02" + stamps.added,
        header.born_timestamp,
        peer.born_host,
        now_ms,
        header.flag,
        header.sys_flag,
        header.reconsume_times or 0,
    )
    if not request.flag & ONEWAY:
        fields = SendAnswer(
            stamps.place_id(done.position), queue_id, done.offset, unique, None, None, stamps.region, stamps.trace
        )
        answer = Command(
            0, fields, b"", request.opaque, RESPONSE, None, SERVER_VERSION, header_type=request.header_type
        )
        waits = state.options.is_sync and find_property(raw, b"WAIT") != b"false"
        state.acknowledge(peer, answer, done.position + done.size, waits=waits)


def _take_with_care(state: State, request: Command, peer: Peer, now_ms: int, header: Send | SendShort) -> None:
    """Take a message that wants something special, or refuse it before anything was changed."""
    place = check_place(state, header)
    if len(request.body) > state.options.max_message_bytes:
        raise LimitExceeded("the body", where="message", limit=state.options.max_message_bytes, found=len(request.body))
    properties = parse_properties((header.properties or "").encode())
    properties.pop(POP_RECEIPT, None)
    properties.update(state.stamps.properties)
    unique = properties.setdefault(UNIQUE_KEY, "") or state.stamps.unique_key(now_ms)
    properties[UNIQUE_KEY] = unique
    sys_flag, reconsume_times = header.sys_flag, header.reconsume_times or 0
    final = place
    if place.topic.startswith(RETRY):
        final = _retry_or_dead(state, header, place, properties, now_ms)
    if _is_half(properties, reconsume_times):
        state.halves.check_room()
        # A delay counts from its commit, which must not fail for it.
        delayed_place(dict(properties), final, now_ms, most_ms=state.options.timer_max_ms)
        final, sys_flag = half_place(properties, final), sys_flag & ~TRANSACTION_BITS
    elif sys_flag & TRANSACTION_BITS in (Transaction.PREPARED, Transaction.ROLLED_BACK):
        raise refusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the message is part of a transaction and has no {TRANSACTION_PREPARED}"
        )
    else:
        final = delayed_place(properties, final, now_ms, most_ms=state.options.timer_max_ms)
        state.timers.check_room(final.topic)
    raw = as_text(properties)
    state.topics.for_send(place.topic, header.default_topic, header.default_topic_queue_nums, now_ms)
    done = put(
        state,
        final.topic,
        final.topic.encode(),
        final.queue_id,
        request.body,
        raw,
        header.born_timestamp,
        peer.born_host,
        now_ms,
        header.flag,
        sys_flag,
        reconsume_times,
    )
    _acknowledge(state, request, peer, [done], place.queue_id, raw, unique)


def check_place(state: State, header: Send | SendShort) -> Place:
    """Return the queue that a send goes to, or refuse it; the topic may still have to be made."""
    name, queue_id = header.topic, header.queue_id
    if name in CLOSED_TOPICS:
        raise refusal(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
    topic = state.topics.get(name) or Topic.of(
        state.topics.planned(name, header.default_topic, header.default_topic_queue_nums)
    )
    if queue_id >= topic.queues:
        raise refusal(
            ResponseCode.INVALID_PARAMETER, f"request queueId[{queue_id}] is illegal, {name} has {topic.queues} queues"
        )
    return Place(name, _any_queue(state, topic.write_queues) if queue_id < 0 else queue_id)


def _any_queue(state: State, queues: int) -> int:
    return state.next_turn() % max(1, queues)


def _retry_or_dead(
    state: State, header: Send | SendShort, place: Place, properties: dict[str, str], now_ms: int
) -> Place:
    """Return where a member's retry goes: to the retries, or to the dead letters if there were enough of them."""
    group = state.groups.known(place.topic.removeprefix(RETRY), now_ms)
    most = group.max_retries if header.max_reconsume_times is None else header.max_reconsume_times
    times = header.reconsume_times or 0
    # A member of 4.9 that handles in order gives up with exactly the last one; put back, it would come again for ever.
    is_orderly = times == most and next(state.locks.of(group.name, now_ms), None) is not None
    if times <= most and not is_orderly:
        return place
    properties.pop(DELAY_LEVEL, None)
    origin_topic = properties.get(RETRY_TOPIC) or place.topic
    properties.setdefault(DEAD_ORIGIN_TOPIC, origin_topic)
    properties.setdefault(DEAD_ORIGIN_ID, properties[UNIQUE_KEY])
    state.tallies.dead.add(group.name, origin_topic)
    return Place(state.topics.dead_letters(group.name, now_ms).name, 0)


def _is_half(properties: dict[str, str], reconsume_times: int) -> bool:
    """Whether a message waits for its transaction; old members send retries of such messages with the mark still on."""
    is_retry = reconsume_times > 0 and (whole_number(properties.get(DELAY_LEVEL, "0")) or 0) > 0
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true" and not is_retry


def _take_batch(state: State, request: Command, peer: Peer, now_ms: int, header: Send | SendShort) -> None:
    """Take the messages of a batch, all of them or none."""
    place = check_place(state, header)
    batch, most = request.body, state.options.max_message_bytes
    if len(batch) > most:
        raise LimitExceeded("the batch", where="message", limit=most, found=len(batch))
    if not batch or place.topic.startswith(RETRY) or len(place.topic) > TOPIC_BYTES_V1:
        why = "it is empty" if not batch else f"no batch can be sent to {place.topic}"
        raise refusal(ResponseCode.MESSAGE_ILLEGAL, f"the batch is refused: {why}")
    if state.topics.get(place.topic) is None:
        # One that is damaged or too long is refused before it makes a topic.
        for count, _ in enumerate(read_batch(batch)):
            if count == TAKEN_ITEMS:
                raise LimitExceeded("number of messages", where="batch", limit=TAKEN_ITEMS)
    topic = state.topics.for_send(place.topic, header.default_topic, header.default_topic_queue_nums, now_ms)
    stored = state.store.append_batch(
        topic.key,
        place.queue_id,
        batch,
        born_ms=header.born_timestamp,
        born_host=peer.born_host,
        stored_ms=now_ms,
        sys_flag=header.sys_flag & ~TRANSACTION_BITS,
    )
    state.parking.arrived(topic.key, place.queue_id)
    state.rates.sent(topic.name, len(stored), stored[-1].end - stored[0].position)
    raw = (header.properties or "").encode()
    unique = find_property(raw, UNIQUE_KEY.encode())
    _acknowledge(state, request, peer, stored, place.queue_id, raw, unique.decode() if unique else None)


def _acknowledge(
    state: State,
    request: Command,
    peer: Peer,
    stored: list[Appended],
    queue_id: int,
    properties: bytes,
    unique: str | None,
) -> None:
    """Answer once the log has it."""
    if request.is_oneway:
        return
    stamps = state.stamps
    fields = SendAnswer(
        msg_id=",".join([stamps.place_id(done.position) for done in stored]),
        queue_id=queue_id,
        queue_offset=stored[0].offset,
        transaction_id=unique,
        msg_region=stamps.region,
        trace_on=stamps.trace,
    )
    answer = Command(0, fields, b"", request.opaque, RESPONSE, None, SERVER_VERSION, header_type=request.header_type)
    waits = state.options.is_sync and find_property(properties, b"WAIT") != b"false"
    state.acknowledge(peer, answer, stored[-1].end, waits=waits)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_MESSAGE: _take_long,
    RequestCode.SEND_MESSAGE_V2: _take_short,
    RequestCode.SEND_BATCH_MESSAGE: _take_short,
}
