"""Sending: 10, 310 and 320 (batch), sends back of failed messages (36), and replies (324, 325).

The response has the offset message id, queue and offset, the sender's unique key as ``transactionId``, and always
``MSG_REGION`` and ``TRACE_ON``, also in errors. Codes: 13 too large or an impossible time, 16 a topic of the broker's
own, 17 an unknown topic without a template, 26 an unknown group (retries), 29 an invalid name or queue. A negative
queue means any. A message gets MSG_REGION, TRACE_ON, CLUSTER and, if it has none, UNIQ_KEY; items of a batch do not. A
send to ``%RETRY%group`` beyond the group's retries becomes a dead letter, and so does the last one of a group that
holds a lock: 4.9's orderly members count no further when they give up, and would send it for ever. After a broker
became read-only (permission 4), sends of clients with old routes are accepted until routes are refreshed, except to
ordered topics; Apache accepts them for ever. Unlike Apache, a refused send creates no topic, and an empty body is
stored. No response has a recall handle.

36 names the message by its position, and it goes to ``%RETRY%group`` after a delay: the requested level, or for 0 the
third and one more with each attempt. Below 0, or after as many attempts as the member or else the group allows (16), it
becomes a dead letter. RETRY_TOPIC keeps the original topic, ORIGIN_MESSAGE_ID the original id, DLQ_ORIGIN_TOPIC and
DLQ_ORIGIN_MESSAGE_ID the same for dead letters, as with Apache's proxy; our members say why it failed, which becomes
STEELYARD_ERROR if there is room. A group without retry queues keeps nothing.

324 and 325 push a reply (326) to the client that REPLY_TO_CLIENT names; 1 if it is not connected or not named. Replies
are not stored: the response has the id ``0``, as Apache's with ``storeReplyMessageEnable=false``. Unlike Apache, the
broker does not wait for the client to confirm the push before it answers.
"""

from collections.abc import Mapping

from msgspec import structs

from steelyard.broker.append import (
    BROKER_ONLY_TOPICS,
    QueuePlace,
    append_copy,
    append_message,
    encode_raw_properties,
    parse_whole_number,
    place_delayed,
    place_half,
)
from steelyard.broker.request_errors import error_response, invalid_parameter, request_error, system_error
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.topics import BrokerTopic
from steelyard.errors import LimitExceeded, SteelyardError
from steelyard.model.reserved_names import DLQ_PREFIX, RETRY_PREFIX
from steelyard.store.store import AppendResult
from steelyard.wire.batch import decode_batch
from steelyard.wire.codes import SERVER_VERSION, RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, RESPONSE_FLAG, Command, Peer, response_to
from steelyard.wire.headers.send import (
    PushReplyMessage,
    SendMessage,
    SendMessageBack,
    SendMessageResponse,
    SendMessageV2,
)
from steelyard.wire.limits import BROKER_BATCH_ITEMS, ERROR_BYTES, PROPERTIES_BYTES, TOPIC_BYTES_V1
from steelyard.wire.properties import decode_properties, find_property, property_text
from steelyard.wire.property_names import (
    DELAY_LEVEL,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    ERROR,
    ORIGIN_MESSAGE_ID,
    POP_RECEIPT,
    PUSH_REPLY_TIME,
    REGION,
    REPLY_TO_CLIENT,
    RETRY_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from steelyard.wire.record import MessageRecord, decode_record
from steelyard.wire.sysflag import TRANSACTION_BITS, TransactionFlag

_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_FIRST_RETRY_LEVEL = 3
_ROUTE_REFRESH_MS = 40_000
"""Clients refresh routes every 30 s: before that they cannot know that they may no longer write here."""
_UNIQUE_KEY_PREFIX = f"{UNIQUE_KEY}\x01"


def _send_v2(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    try:
        header = request.header(SendMessageV2)
        if state.write_disabled_ms is not None:
            _check_writable(state, header.topic, state.write_disabled_ms, now_ms)
        if header.batch or request.code == _BATCH:
            _send_batch(state, request, peer, now_ms, header)
        else:
            _send_one(state, request, peer, now_ms, header)
    except SteelyardError as error:
        return _send_error(state, request, error)
    return None


def _send(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    try:
        header = request.header(SendMessage)
        if state.write_disabled_ms is not None:
            _check_writable(state, header.topic, state.write_disabled_ms, now_ms)
        (_send_batch if header.batch else _send_one)(state, request, peer, now_ms, header)
    except SteelyardError as error:
        return _send_error(state, request, error)
    return None


def _send_error(state: BrokerCoreState, request: Command, error: SteelyardError) -> Command:
    return structs.replace(error_response(request, error), fields=state.broker_properties.error_fields)


def _check_writable(state: BrokerCoreState, name: str, disabled_ms: int, now_ms: int) -> None:
    """Refuse a send to a read-only broker once its sender can know that from the route."""
    topic = state.topics.get(name)
    if now_ms - disabled_ms >= _ROUTE_REFRESH_MS or (topic is not None and topic.settings.order):
        host, permission = state.options.host, state.options.permission
        remark = f"the broker[{host}] sending message is forbidden: its brokerPermission is {permission}"
        raise request_error(ResponseCode.NO_PERMISSION, remark)


def _send_one(
    state: BrokerCoreState, request: Command, peer: Peer, now_ms: int, header: SendMessage | SendMessageV2
) -> None:
    """Append one message; one that needs nothing special is recognised by its properties, and takes the short way."""
    name, text, queue_id, body = header.topic, header.properties or "", header.queue_id, request.body
    topic = state.topics.get(name)
    before, found, after = text.rpartition(_UNIQUE_KEY_PREFIX)
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
        or name in BROKER_ONLY_TOPICS
    ):
        _send_special(state, request, peer, now_ms, header)
        return
    if queue_id < 0:
        queue_id = _any_queue(state, topic.write_queues)
    added, raw = state.broker_properties, text.encode()
    appended = append_message(
        state,
        name,
        topic.name_bytes,
        queue_id,
        body,
        raw + added.encoded if raw[-1] == 2 else raw + b"\x02" + added.encoded,
        header.born_timestamp,
        peer.born_host,
        now_ms,
        header.flag,
        header.sys_flag,
        header.reconsume_times or 0,
    )
    if not request.flag & ONEWAY_FLAG:
        fields = SendMessageResponse(
            added.offset_message_id(appended.position),
            queue_id,
            appended.offset,
            unique,
            None,
            None,
            added.region,
            added.trace_on,
        )
        answer = Command(
            0, fields, b"", request.opaque, RESPONSE_FLAG, None, SERVER_VERSION, header_type=request.header_type
        )
        waits = state.options.is_sync and find_property(raw, b"WAIT") != b"false"
        state.acknowledge(peer, answer, appended.position + appended.size, wait_for_sync=waits)


def _send_special(
    state: BrokerCoreState, request: Command, peer: Peer, now_ms: int, header: SendMessage | SendMessageV2
) -> None:
    """Append a message that needs something special, or refuse it before anything changes."""
    place = _resolve_queue(state, header)
    if len(request.body) > state.options.max_message_bytes:
        raise LimitExceeded("the body", where="message", limit=state.options.max_message_bytes, found=len(request.body))
    properties = decode_properties((header.properties or "").encode())
    properties.pop(POP_RECEIPT, None)
    properties.update(state.broker_properties.properties)
    unique = properties.setdefault(UNIQUE_KEY, "") or state.broker_properties.unique_key(now_ms)
    properties[UNIQUE_KEY] = unique
    sys_flag, reconsume_times = header.sys_flag, header.reconsume_times or 0
    final = place
    if place.topic.startswith(RETRY_PREFIX):
        final = _retry_or_dead(state, header, place, properties, now_ms)
    if _is_half(properties, reconsume_times):
        state.half_messages.check_capacity()
        # A delay counts from the commit, which must not fail because of it.
        place_delayed(dict(properties), final, now_ms, max_delay_ms=state.options.timer_max_ms)
        final, sys_flag = place_half(properties, final), sys_flag & ~TRANSACTION_BITS
    elif sys_flag & TRANSACTION_BITS in (TransactionFlag.PREPARED, TransactionFlag.ROLLED_BACK):
        raise request_error(
            ResponseCode.MESSAGE_ILLEGAL, f"the message is part of a transaction and has no {TRANSACTION_PREPARED}"
        )
    else:
        final = place_delayed(properties, final, now_ms, max_delay_ms=state.options.timer_max_ms)
        state.timers.check_capacity(final.topic)
    raw = encode_raw_properties(properties)
    state.topics.get_or_create_for_send(place.topic, header.default_topic, header.default_topic_queue_nums, now_ms)
    appended = append_message(
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
    _acknowledge(state, request, peer, [appended], place.queue_id, raw, unique)


def _resolve_queue(state: BrokerCoreState, header: SendMessage | SendMessageV2) -> QueuePlace:
    """Return the queue of a send, or refuse it; the topic may still have to be created."""
    name, queue_id = header.topic, header.queue_id
    if name in BROKER_ONLY_TOPICS:
        raise request_error(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
    topic = state.topics.get(name) or BrokerTopic.from_settings(
        state.topics.plan_auto_created(name, header.default_topic, header.default_topic_queue_nums)
    )
    if queue_id >= topic.queues:
        raise invalid_parameter(f"request queueId[{queue_id}] is illegal, {name} has {topic.queues} queues")
    return QueuePlace(name, _any_queue(state, topic.write_queues) if queue_id < 0 else queue_id)


def _any_queue(state: BrokerCoreState, queues: int) -> int:
    return state.next_round_robin() % max(1, queues)


def _retry_or_dead(
    state: BrokerCoreState,
    header: SendMessage | SendMessageV2,
    place: QueuePlace,
    properties: dict[str, str],
    now_ms: int,
) -> QueuePlace:
    """Return the queue of a member's retry: a retry queue, or the dead letter queue after too many attempts."""
    group = state.groups.get_or_create(place.topic.removeprefix(RETRY_PREFIX), now_ms)
    max_attempts = group.max_retries if header.max_reconsume_times is None else header.max_reconsume_times
    times = header.reconsume_times or 0
    # An orderly member of 4.9 gives up with exactly the last attempt; put back, it would come again for ever.
    is_orderly = times == max_attempts and next(state.queue_locks.held_queues(group.name, now_ms), None) is not None
    if times <= max_attempts and not is_orderly:
        return place
    properties.pop(DELAY_LEVEL, None)
    origin_topic = properties.get(RETRY_TOPIC) or place.topic
    properties.setdefault(DLQ_ORIGIN_TOPIC, origin_topic)
    properties.setdefault(DLQ_ORIGIN_MESSAGE_ID, properties[UNIQUE_KEY])
    state.event_counters.dead_letters.add(group.name, origin_topic)
    return QueuePlace(state.topics.get_or_create_dead_letters(group.name, now_ms).name, 0)


def _is_half(properties: dict[str, str], reconsume_times: int) -> bool:
    """Return whether a message is a half message; old members send retries of such messages with the property."""
    is_retry = reconsume_times > 0 and (parse_whole_number(properties.get(DELAY_LEVEL, "0")) or 0) > 0
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true" and not is_retry


def _send_batch(
    state: BrokerCoreState, request: Command, peer: Peer, now_ms: int, header: SendMessage | SendMessageV2
) -> None:
    """Append the messages of a batch, all of them or none."""
    place = _resolve_queue(state, header)
    batch, max_bytes = request.body, state.options.max_message_bytes
    if len(batch) > max_bytes:
        raise LimitExceeded("the batch", where="message", limit=max_bytes, found=len(batch))
    if not batch or place.topic.startswith(RETRY_PREFIX) or len(place.topic) > TOPIC_BYTES_V1:
        why = "it is empty" if not batch else f"no batch can be sent to {place.topic}"
        raise request_error(ResponseCode.MESSAGE_ILLEGAL, f"the batch is refused: {why}")
    if state.topics.get(place.topic) is None:
        # A damaged or too long batch is refused before it creates a topic.
        for count, _ in enumerate(decode_batch(batch)):
            if count == BROKER_BATCH_ITEMS:
                raise LimitExceeded("number of messages", where="batch", limit=BROKER_BATCH_ITEMS)
    topic = state.topics.get_or_create_for_send(
        place.topic, header.default_topic, header.default_topic_queue_nums, now_ms
    )
    stored = state.store.append_batch(
        topic.name_bytes,
        place.queue_id,
        batch,
        born_ms=header.born_timestamp,
        born_host=peer.born_host,
        stored_ms=now_ms,
        sys_flag=header.sys_flag & ~TRANSACTION_BITS,
    )
    state.held_pulls.notify_arrival(topic.name_bytes, place.queue_id)
    state.traffic.record_stored(topic.name, len(stored), stored[-1].end - stored[0].position)
    raw = (header.properties or "").encode()
    unique = find_property(raw, UNIQUE_KEY.encode())
    _acknowledge(state, request, peer, stored, place.queue_id, raw, unique.decode() if unique else None)


def _acknowledge(
    state: BrokerCoreState,
    request: Command,
    peer: Peer,
    stored: list[AppendResult],
    queue_id: int,
    properties: bytes,
    unique: str | None,
) -> None:
    """Respond once the log is written."""
    if request.is_oneway:
        return
    added = state.broker_properties
    fields = SendMessageResponse(
        msg_id=",".join([added.offset_message_id(appended.position) for appended in stored]),
        queue_id=queue_id,
        queue_offset=stored[0].offset,
        transaction_id=unique,
        msg_region=added.region,
        trace_on=added.trace_on,
    )
    answer = Command(
        0, fields, b"", request.opaque, RESPONSE_FLAG, None, SERVER_VERSION, header_type=request.header_type
    )
    waits = state.options.is_sync and find_property(properties, b"WAIT") != b"false"
    state.acknowledge(peer, answer, stored[-1].end, wait_for_sync=waits)


def _send_back(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command | None:
    header = request.header(SendMessageBack)
    group = state.groups.get_or_create(header.group, now_ms)
    if group.retry_queues <= 0:
        return response_to(request)
    record = _consumed_record_at(state, header.offset)
    topic = record.topic.decode()
    properties = decode_properties(record.properties)
    origin_topic = properties.setdefault(RETRY_TOPIC, topic)
    origin_id = properties.setdefault(ORIGIN_MESSAGE_ID, state.broker_properties.offset_message_id(record.position))
    for name in (TIMER_DELIVER_MS, TIMER_DELAY_SECONDS, TIMER_DELAY_MS, DELAY_LEVEL, ERROR):
        properties.pop(name, None)  # the first delay is over, and so is an earlier attempt
    max_attempts = group.max_retries if header.max_reconsume_times is None else header.max_reconsume_times
    if record.reconsume_times >= max_attempts or header.delay_level < 0:
        properties.setdefault(DLQ_ORIGIN_TOPIC, origin_topic)
        properties.setdefault(DLQ_ORIGIN_MESSAGE_ID, properties.get(UNIQUE_KEY) or origin_id)
        place = QueuePlace(state.topics.get_or_create_dead_letters(group.name, now_ms).name, 0)
    else:
        properties[DELAY_LEVEL] = str(header.delay_level or _FIRST_RETRY_LEVEL + record.reconsume_times)
        retries = state.topics.get_or_create_retry(group.name, group.retry_queues, now_ms)
        place = QueuePlace(
            retries.name, state.next_round_robin() % min(group.retry_queues, max(1, retries.write_queues))
        )
        place = place_delayed(properties, place, now_ms, max_delay_ms=state.options.timer_max_ms)
    text, times = encode_raw_properties(properties), record.reconsume_times + 1
    if header.steelyard_error:
        error = f"{ERROR}\x01{property_text(header.steelyard_error, ERROR_BYTES)}\x02".encode()
        text += error if len(text) + len(error) <= PROPERTIES_BYTES else b""
    appended = append_copy(state, record, place, text, now_ms, reconsume_times=times)
    if place.topic.startswith(DLQ_PREFIX):
        state.event_counters.dead_letters.add(group.name, origin_topic)
    if not request.is_oneway:
        state.acknowledge(peer, response_to(request), appended.end, wait_for_sync=state.options.is_sync)
    return None


def _consumed_record_at(state: BrokerCoreState, position: int) -> MessageRecord:
    """Return the message that is sent back; not one that consumers never see."""
    found = state.store.lookup.record_at(position)
    record = None if found is None else decode_record(found)
    if record is None or record.topic.decode(errors="replace") in BROKER_ONLY_TOPICS:
        raise system_error(f"look message by offset failed, {position}")
    return record


def _reply(state: BrokerCoreState, request: Command, peer: Peer, now_ms: int) -> Command:
    try:
        is_first = request.code == RequestCode.SEND_REPLY_MESSAGE
        kind: type[SendMessage | SendMessageV2] = SendMessage if is_first else SendMessageV2
        return _push_reply(state, request, peer, now_ms, request.header(kind))
    except SteelyardError as error:
        return _send_error(state, request, error)


def _push_reply(
    state: BrokerCoreState, request: Command, peer: Peer, now_ms: int, header: SendMessage | SendMessageV2
) -> Command:
    """Push a reply to the client that waits for it."""
    queue_id = _resolve_queue(state, header).queue_id
    if len(request.body) > state.options.max_message_bytes:
        raise LimitExceeded("the body", where="reply", limit=state.options.max_message_bytes, found=len(request.body))
    properties = decode_properties((header.properties or "").encode())
    client_id = properties.get(REPLY_TO_CLIENT)
    if client_id is None:
        raise system_error(f"reply message properties[{REPLY_TO_CLIENT}] is null")
    requester = state.producers.connection_of(client_id)
    if requester is None:
        raise system_error(f"push reply message fail, channel of <{client_id[:255]}> not found.")
    added = state.broker_properties
    properties |= {REGION: added.region, TRACE_ON: added.trace_on, PUSH_REPLY_TIME: str(now_ms)}
    fields = PushReplyMessage(
        header.producer_group,
        header.topic,
        header.default_topic,
        header.default_topic_queue_nums,
        header.queue_id,
        header.sys_flag,
        header.born_timestamp,
        header.flag,
        encode_raw_properties(properties).decode(),
        header.reconsume_times,
        header.unit_mode or False,
        born_host=peer.address,
        store_host=state.options.address,
        store_timestamp=now_ms,
    )
    code, opaque = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, state.next_opaque()
    state.send(requester, Command(code, fields, request.body, opaque=opaque, version=SERVER_VERSION))
    answer = SendMessageResponse("0", queue_id, 0, msg_region=added.region, trace_on=added.trace_on)
    return response_to(request, fields=answer)


HANDLERS: Mapping[int, RequestHandler] = {
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send_v2,
    RequestCode.SEND_BATCH_MESSAGE: _send_v2,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.SEND_REPLY_MESSAGE: _reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: _reply,
}
