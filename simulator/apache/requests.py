"""The requests that the model of Apache's broker answers, with what Apache's broker does above each family."""

from collections.abc import Mapping

from msgspec.structs import replace

from simulator.apache.release import ApacheRelease
from simulator.apache.state import (
    ApacheBrokerState,
    ApacheForwardedRequest,
    ApacheGroup,
    ApacheHeldPull,
    ApacheRequestHandler,
)
from simulator.apache.store import HALF_PLACE, MAX_CHECKS, ApacheHalf, ApacheLogEntry, TopicQueue
from simulator.facts import MemberRegistered, MemberUnregistered, OffsetCommitted
from simulator.network import SimulatedConnection
from steelyard.model import Queue, Subscription
from steelyard.model.reserved_names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, UNRESOLVED_TRANSACTIONS_TOPIC
from steelyard.wire.batch import decode_batch
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import KVTable
from steelyard.wire.bodies.heartbeat import HeartbeatBody, MessageModel
from steelyard.wire.bodies.members import ConsumerIdList
from steelyard.wire.bodies.offsets import ConsumerOffsetTable
from steelyard.wire.bodies.queue_assignment import LockRequest, LockResponse
from steelyard.wire.codes import RequestCode, ResponseCode
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.headers.admin import CreateTopic
from steelyard.wire.headers.common import GroupRequest as GroupHeader
from steelyard.wire.headers.common import OffsetResponse, QueueRequest
from steelyard.wire.headers.group import (
    CommitOffset,
    GetConsumerRunningState,
    GetMaxOffset,
    HeartbeatResponse,
    QueryConsumerOffset,
    SearchOffset,
    UnregisterClient,
)
from steelyard.wire.headers.pull import PullMessage, PullMessageResponse
from steelyard.wire.headers.send import (
    CheckTransactionState,
    EndTransaction,
    SendMessage,
    SendMessageBack,
    SendMessageResponse,
    SendMessageV2,
)
from steelyard.wire.hosts import host_bytes
from steelyard.wire.json_body import ById
from steelyard.wire.message_ids import offset_id
from steelyard.wire.properties import append_properties, decode_properties, encode_properties, find_property
from steelyard.wire.property_names import (
    CHECK_TIMES,
    DELAY_LEVEL,
    ORIGIN_MESSAGE_ID,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from steelyard.wire.record import MessageRecord, encode_record
from steelyard.wire.sysflag import TRANSACTION_BITS, TransactionFlag, with_transaction

# 17 creates a topic, 28 says how long the broker has been running, 46 checks a subscription.


def _create_topic(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int
) -> Command:
    header = request.header(CreateTopic)
    state.topics.put(header.topic, header.read_queue_nums)
    state.host.changed()
    return state.answer(request)


def _runtime(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, now_ms: int) -> Command:
    table = {
        "bootTimestamp": str(state.started_ms),
        "brokerVersion": str(state.release.server_version),
        "runtime": _duration(now_ms - state.started_ms),
    }
    return state.answer(request, body=encode_body(KVTable(table=table)))


def _duration(passed_ms: int) -> str:
    """Return a time as Java prints it.

    >>> _duration(96_000)
    '[ 0 days, 0 hours, 1 minutes, 36 seconds ]'
    """
    minutes, seconds = divmod(passed_ms // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _check_client_config(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int
) -> Command:
    return state.answer(request)


# 34, 35, 38, and 40 to members: the consumer registry.
#
# A heartbeat creates the group and its retry topic, and counts on whatever connection it came, even a closed one. The
# response of release 4.9 has no fields. Notifications go to every connection of the group, the new member's too: when a
# connection joins or the group's topics change, when a member unregisters, when a connection closes; never when a
# silent one is removed. Release 5 sends none to broadcast groups. An empty group is error 1, not an empty list.


def _heartbeat(state: ApacheBrokerState, request: Command, connection: SimulatedConnection, now_ms: int) -> Command:
    heartbeat = decode_body(HeartbeatBody, request.body)
    for producer in heartbeat.producers:
        state.producers.setdefault(producer.group, {})[connection.number] = heartbeat.client_id
    for consumer in heartbeat.consumers:
        state.groups.add(consumer.group)
        retries = f"{RETRY_PREFIX}{consumer.group}"
        if state.topics.get(retries) is None:
            state.topics.get_or_create_own(retries)
            state.host.changed()
        known = state.registry.get(consumer.group)
        if known is not None and heartbeat.without_subscriptions and state.release is ApacheRelease.V5:
            consumer = replace(consumer, subscriptions=tuple(known.subscriptions.values()))
        is_new = known is None or known.connection_of(heartbeat.client_id) is None
        is_back = connection.number in state.connections and not (
            known and _is_reachable(state, known, heartbeat.client_id)
        )
        group, changed = state.registry.record_heartbeat(connection.number, heartbeat.client_id, consumer, now_ms)
        if is_new or is_back:
            fact = MemberRegistered(
                at_ms=state.host.at_ms(), broker=state.name, group=consumer.group, member=heartbeat.client_id
            )
            state.host.record(fact)
        if changed:
            _notify_members(state, group)
    if state.release is ApacheRelease.V4:
        return state.answer(request)
    return state.answer(request, fields=HeartbeatResponse(supports_v2=True, subscription_changed=True))


def _unregister(state: ApacheBrokerState, request: Command, connection: SimulatedConnection, _now_ms: int) -> Command:
    header = request.header(UnregisterClient)
    if header.producer_group:
        state.producers.get(header.producer_group, {}).pop(connection.number, None)
    if header.consumer_group:
        group, client = state.registry.leave(connection.number, header.consumer_group)
        if group is not None:
            record_unregistered(state, group, client, "goodbye")
            _notify_members(state, group)
    return state.answer(request)


def _consumer_list(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int
) -> Command:
    name = request.header(GroupHeader).consumer_group
    group = state.registry.get(name)
    if group is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {name}")
    return state.answer(request, body=encode_body(ConsumerIdList(ids=tuple(group.clients.values()))))


def client_disconnected(state: ApacheBrokerState, connection_id: int) -> None:
    """Remove all clients of a connection, and notify the other members."""
    for producers in state.producers.values():
        producers.pop(connection_id, None)
    for group, client in state.registry.drop_connection(connection_id):
        record_unregistered(state, group, client, "closed")
        _notify_members(state, group)


def record_unregistered(state: ApacheBrokerState, group: ApacheGroup, client: str | None, how: str) -> None:
    """Record that a member is gone, unless it has another open connection.

    A closed one does not count: a late heartbeat left it on the list, and requests cannot be forwarded there.
    """
    if client is not None and not _is_reachable(state, group, client):
        at_ms = state.host.at_ms()
        state.host.record(MemberUnregistered(at_ms=at_ms, broker=state.name, group=group.name, member=client, how=how))


def _is_reachable(state: ApacheBrokerState, group: ApacheGroup, client: str) -> bool:
    return any(name == client and number in state.connections for number, name in group.clients.items())


def _notify_members(state: ApacheBrokerState, group: ApacheGroup) -> None:
    """Notify every connection of a group."""
    if group.model is MessageModel.BROADCASTING and state.release is ApacheRelease.V5:
        return
    notification = state.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, GroupHeader(group.name), flag=ONEWAY_FLAG)
    for number in group.clients:
        connection = state.connections.get(number)
        if connection is not None:
            connection.send(notification)


# 41 and 42: locks. Group, client and queues of the body are believed.


def _lock(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, now_ms: int) -> Command:
    body, at_ms = decode_body(LockRequest, request.body), state.host.at_ms()
    locks = state.locks
    granted = tuple(each for each in body.queues if locks.lock(body.group, each.queue, body.client_id, now_ms, at_ms))
    record_lock_facts(state)
    return state.answer(request, body=encode_body(LockResponse(granted=granted)))


def _unlock(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int) -> Command:
    body, at_ms = decode_body(LockRequest, request.body), state.host.at_ms()
    for each in body.queues:
        state.locks.unlock(body.group, each.queue, body.client_id, at_ms)
    record_lock_facts(state)
    return state.answer(request)


def record_lock_facts(state: ApacheBrokerState) -> None:
    """Record the collected facts of the lock table."""
    facts, state.locks.facts = state.locks.facts, []
    for fact in facts:
        state.host.record(fact)


# 14, 15, 29, 30, 31, 43: offsets.
#
# A commit is taken from any client, higher or lower, even for a queue that does not exist; release 5 requires that the
# group (26) and the topic (17) exist. If nothing is stored, release 4.9 answers 0; release 5 answers 0 only if the
# queue has a message and the client did not set setZeroIfNotFound to false, else 22.


def _store_commit(
    state: ApacheBrokerState, connection: SimulatedConnection, group: str, queue: Queue, offset: int
) -> None:
    """Store a commit, from any client."""
    before = state.offsets.commit(group, queue, offset)
    fact = OffsetCommitted(
        at_ms=state.host.at_ms(),
        group=group,
        queue=queue,
        offset=offset,
        member=state.registry.member_on(connection.number, group),
        before=before,
    )
    state.host.record(fact)


def _update_offset(
    state: ApacheBrokerState, request: Command, connection: SimulatedConnection, _now_ms: int
) -> Command:
    header = request.header(CommitOffset)
    if state.release is ApacheRelease.V5:
        if header.consumer_group not in state.groups:
            remark = f"Group {header.consumer_group} not exist!"
            return state.answer(request, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=remark)
        if state.topics.get(header.topic) is None:
            return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, remark=f"Topic {header.topic} not exist!")
    queue = state.queue(header.topic, header.queue_id)
    _store_commit(state, connection, header.consumer_group, queue, header.commit_offset)
    return state.answer(request)


def _query_offset(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int
) -> Command:
    header = request.header(QueryConsumerOffset)
    stored = state.offsets.get(header.consumer_group, state.queue(header.topic, header.queue_id))
    if stored is None and _answers_zero(state, header):
        stored = 0
    if stored is None:
        remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
        return state.answer(request, ResponseCode.QUERY_NOT_FOUND, remark=remark)
    return state.answer(request, fields=OffsetResponse(stored))


def _answers_zero(state: ApacheBrokerState, header: QueryConsumerOffset) -> bool:
    """Whether a release answers 0 where nothing is stored."""
    if state.release is ApacheRelease.V4:
        return True
    return header.set_zero_if_not_found is not False and state.log.end(header.topic, header.queue_id) > 0


def _all_offsets(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int) -> Command:
    table: dict[str, dict[int, int]] = {}
    for (group, queue), offset in state.offsets.table().items():
        table.setdefault(f"{queue.topic}@{group}", {})[queue.queue_id] = offset
    offsets = {name: ById(by_queue) for name, by_queue in table.items()}
    return state.answer(request, body=encode_body(ConsumerOffsetTable(offsets=offsets)))


def _max_offset(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int) -> Command:
    header = request.header(GetMaxOffset)
    return state.answer(request, fields=OffsetResponse(state.log.end(header.topic, header.queue_id)))


def _min_offset(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int) -> Command:
    request.header(QueueRequest)
    return state.answer(request, fields=OffsetResponse(0))


def _search_offset(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, _now_ms: int
) -> Command:
    header = request.header(SearchOffset)
    end = state.log.end(header.topic, header.queue_id)
    entries = state.log.read(header.topic, header.queue_id, 0, end)
    found = next((each.offset for each in entries if each.record().stored_ms >= header.timestamp), end)
    if found == end and state.release is ApacheRelease.V4:
        found = max(0, end - 1)
    return state.answer(request, fields=OffsetResponse(found))


# 10, 310 and 320: sends.
#
# An unknown topic is created after the default topic. A message gets CLUSTER, from release 5 on also MSG_REGION and
# TRACE_ON. A delayed one goes to the schedule topic, a half to the half topic. An ordinary send to ``%RETRY%group``
# becomes a dead letter after too many attempts; in release 5 also at once, if the group has any live lock. Left out:
# size limits, timer messages, and the unique id that release 5 adds.

_MAX_RECONSUME_TIMES = 16
"""Of a group, unless its members say otherwise."""

_REGION = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def _send(state: ApacheBrokerState, request: Command, connection: SimulatedConnection, now_ms: int) -> Command:
    header = request.header(SendMessage) if request.code == RequestCode.SEND_MESSAGE else request.header(SendMessageV2)
    topic = state.topics.get(header.topic)
    if topic is None:
        topic = state.topics.for_send(header.topic, header.default_topic, header.default_topic_queue_nums)
        if topic is None:
            remark = f"topic[{header.topic}] not exist, apply first please!"
            return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, _REGION, remark=remark)
        state.host.changed()
    if header.queue_id >= topic.write_queues:
        return state.answer(
            request, _bad_queue_code(state), _REGION, remark=f"request queueId[{header.queue_id}] is illegal"
        )
    queue_id = header.queue_id if header.queue_id >= 0 else state.next_sequence() % topic.write_queues
    place = header.topic, queue_id
    if header.batch or request.code == RequestCode.SEND_BATCH_MESSAGE:
        stored = _store_batch(state, request, connection, now_ms, header, place)
    else:
        stored = [_store(state, request, connection, now_ms, header, place)]
    for entry in stored:
        state.message_stored(entry, now_ms)
    unique = find_property((header.properties or "").encode(), UNIQUE_KEY.encode())
    fields = SendMessageResponse(
        msg_id=",".join([offset_id(state.address, entry.position) for entry in stored]),
        queue_id=queue_id,
        queue_offset=stored[0].offset,
        transaction_id=unique.decode() if unique and state.release is ApacheRelease.V5 else None,
        msg_region="DefaultRegion",
        trace_on="true",
    )
    return state.answer(request, fields=fields)


def _bad_queue_code(state: ApacheBrokerState) -> ResponseCode:
    """Return how a release rejects an unknown queue id."""
    return ResponseCode.SYSTEM_ERROR if state.release is ApacheRelease.V4 else ResponseCode.INVALID_PARAMETER


def _store(
    state: ApacheBrokerState,
    request: Command,
    connection: SimulatedConnection,
    now_ms: int,
    header: SendMessage | SendMessageV2,
    place: TopicQueue,
) -> ApacheLogEntry:
    text, sys_flag = header.properties or "", header.sys_flag
    raw = append_properties(text.encode(), state.broker_properties)
    is_half = False
    if place[0].startswith(RETRY_PREFIX) or DELAY_LEVEL in text or TRANSACTION_PREPARED in text:
        properties = decode_properties(raw)
        if place[0].startswith(RETRY_PREFIX):
            place = _retry_or_dead(state, header, place, properties, now_ms)
        is_half = properties.get(TRANSACTION_PREPARED) == "true" and not header.reconsume_times
        if is_half:
            properties |= {REAL_TOPIC: place[0], REAL_QUEUE_ID: str(place[1])}
            properties[TRANSACTION_ID] = properties.get(UNIQUE_KEY, "0")
            place, sys_flag = HALF_PLACE, sys_flag & ~TRANSACTION_BITS
        else:
            place = state.store.delays.place_of(properties, place)
        raw = encode_properties(properties)
    entry = state.log.append(
        place,
        request.body,
        raw,
        born_ms=header.born_timestamp,
        born_host=host_bytes(connection.remote),
        stored_ms=now_ms,
        flag=header.flag,
        sys_flag=sys_flag,
        reconsume_times=header.reconsume_times or 0,
    )
    if is_half:
        state.store.half_messages.add(entry, now_ms)
    return entry


def _store_batch(
    state: ApacheBrokerState,
    request: Command,
    connection: SimulatedConnection,
    now_ms: int,
    header: SendMessage | SendMessageV2,
    place: TopicQueue,
) -> list[ApacheLogEntry]:
    return [
        state.log.append(
            place,
            item.body,
            item.properties,
            born_ms=header.born_timestamp,
            born_host=host_bytes(connection.remote),
            stored_ms=now_ms,
            flag=item.flag,
            sys_flag=header.sys_flag,
        )
        for item in decode_batch(request.body)
    ]


def _retry_or_dead(
    state: ApacheBrokerState,
    header: SendMessage | SendMessageV2,
    place: TopicQueue,
    properties: dict[str, str],
    now_ms: int,
) -> TopicQueue:
    """Return where an ordinary send to a retry topic goes."""
    group, times = place[0].removeprefix(RETRY_PREFIX), header.reconsume_times or 0
    max_times = _MAX_RECONSUME_TIMES if header.max_reconsume_times is None else header.max_reconsume_times
    if state.release is ApacheRelease.V4:
        return _dead_letters(state, group) if times >= max_times else place
    if times <= max_times and not state.locks.has_live(group, now_ms):
        return place
    properties.pop(DELAY_LEVEL, None)
    return _dead_letters(state, group)


def _dead_letters(state: ApacheBrokerState, group: str) -> TopicQueue:
    name = f"{DLQ_PREFIX}{group}"
    if state.topics.get(name) is None:
        state.topics.get_or_create_own(name)
        state.host.changed()
    return name, 0


# 36: a message that a member could not handle is sent back.
#
# It is found by its position in the log. It is delayed by the level in the request; 0 means level 3, and one more with
# each attempt. After the attempts that the member allows (16), or with a negative level, it becomes a dead letter.

_FIRST_LEVEL = 3


def _send_back(state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, now_ms: int) -> Command:
    header = request.header(SendMessageBack)
    state.groups.add(header.group)
    entry = state.log.at(header.offset)
    if entry is None:
        return state.answer(
            request, ResponseCode.SYSTEM_ERROR, remark=f"look message by offset failed, {header.offset}"
        )
    record = entry.record()
    properties = decode_properties(record.properties)
    properties.setdefault(RETRY_TOPIC, record.topic.decode())
    properties.setdefault(ORIGIN_MESSAGE_ID, offset_id(state.address, record.position))
    max_times = _MAX_RECONSUME_TIMES if header.max_reconsume_times is None else header.max_reconsume_times
    is_dead = record.reconsume_times >= max_times or header.delay_level < 0
    name = f"{DLQ_PREFIX if is_dead else RETRY_PREFIX}{header.group}"
    if state.topics.get(name) is None:
        state.topics.get_or_create_own(name)
        state.host.changed()
    place = name, 0
    if is_dead:
        properties.pop(DELAY_LEVEL, None)
    else:
        properties[DELAY_LEVEL] = str(header.delay_level or _FIRST_LEVEL + record.reconsume_times)
        place = state.store.delays.place_of(properties, place)
    text, times = encode_properties(properties), record.reconsume_times + 1
    state.message_stored(state.log.copy(record, place, text, now_ms, reconsume_times=times), now_ms)
    return state.answer(request)


# 11: pulls.
#
# The subscription is in the request (bit 4), or that of the group's last heartbeat: 24 if the broker does not know the
# group or the group did not subscribe to the topic, 25 if the member knows of a later subscription. Bit 1 commits an
# offset before anything else happens. A pull that finds nothing and allows it (bit 2) is held once.
#
# Left out: SQL92 (everything matches), slaves, limits of bytes.

_COMMITS, _MAY_WAIT, _HAS_SUBSCRIPTION = 1, 2, 4
_MAX_MESSAGES = 32
_NO_GROUP_REMARK = "the consumer's group info not exist"


def _pull(state: ApacheBrokerState, request: Command, connection: SimulatedConnection, now_ms: int) -> Command | None:
    return _serve(state, request, connection, now_ms, may_wait=True)


def pull_after_hold(
    state: ApacheBrokerState, request: Command, connection: SimulatedConnection, now_ms: int
) -> Command | None:
    """Serve a pull that was held; it is not held again."""
    return _serve(state, request, connection, now_ms, may_wait=False)


def _serve(
    state: ApacheBrokerState, request: Command, connection: SimulatedConnection, now_ms: int, *, may_wait: bool
) -> Command | None:
    header = request.header(PullMessage)
    state.groups.add(header.consumer_group)
    topic = state.topics.get(header.topic)
    if topic is None:
        return state.answer(request, ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{header.topic}] not exist")
    if not 0 <= header.queue_id < topic.read_queues:
        return state.answer(request, _bad_queue_code(state), remark=f"queueId[{header.queue_id}] is illegal")
    hashes = _wanted_tags(state, header)
    if isinstance(hashes, ResponseCode):
        return state.answer(request, hashes, remark=_NO_GROUP_REMARK)
    if header.sys_flag & _COMMITS and may_wait:
        _store_commit(
            state, connection, header.consumer_group, state.queue(header.topic, header.queue_id), header.commit_offset
        )
    code, next_offset, body = _read(state, header, hashes)
    if code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & _MAY_WAIT and may_wait:
        until_ms = now_ms + header.suspend_timeout_millis
        pull = ApacheHeldPull(connection, request, header.queue_offset, hashes, until_ms)
        state.held_pulls.add((header.topic, header.queue_id), pull)
        return None
    flags = 0 if state.release is ApacheRelease.V5 else None
    fields = PullMessageResponse(
        suggest_which_broker_id=0,
        next_begin_offset=next_offset,
        min_offset=0,
        max_offset=state.log.end(header.topic, header.queue_id),
        topic_sys_flag=flags,
        group_sys_flag=flags,
    )
    return state.answer(request, code, fields, body)


def _wanted_tags(state: ApacheBrokerState, header: PullMessage) -> tuple[int, ...] | ResponseCode:
    """Return the hashes of the wanted tags (empty: all), or why the subscription is not known."""
    if header.sys_flag & _HAS_SUBSCRIPTION:
        return Subscription(header.topic, header.subscription or "*").tag_hashes
    group = state.registry.get(header.consumer_group)
    if group is None:
        return ResponseCode.SUBSCRIPTION_NOT_EXIST
    known = group.subscriptions.get(header.topic)
    if known is None:
        return ResponseCode.SUBSCRIPTION_NOT_EXIST
    if known.version < header.sub_version:
        return ResponseCode.SUBSCRIPTION_NOT_LATEST
    return known.hashes


def _read(state: ApacheBrokerState, header: PullMessage, hashes: tuple[int, ...]) -> tuple[ResponseCode, int, bytes]:
    """Return the response code, the next offset, and the messages."""
    topic, queue_id, offset = header.topic, header.queue_id, header.queue_offset
    end = state.log.end(topic, queue_id)
    if offset == end:
        return ResponseCode.PULL_NOT_FOUND, offset, b""
    if not 0 <= offset < end:
        return ResponseCode.PULL_OFFSET_MOVED, 0 if offset < 0 else end, b""
    found = state.log.read(topic, queue_id, offset, min(end, offset + min(header.max_msg_nums, _MAX_MESSAGES)))
    matching = [entry.raw for entry in found if not hashes or entry.tag in hashes]
    next_offset = offset + len(found)
    if not matching:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset, b""
    return ResponseCode.SUCCESS, next_offset, b"".join(matching)


# 307: requests that are forwarded to a member, fields, body and response untouched.
#
# A client that is not in the group: 1, "not online". One whose connection is closed: 1, "Exception". No response in ten
# seconds, even because the connection closed meanwhile: 207. Of two connections with one client id either may be used.


def _forward(
    state: ApacheBrokerState, request: Command, connection: SimulatedConnection, _now_ms: int
) -> Command | None:
    header = request.header(GetConsumerRunningState)
    group, member = state.registry.get(header.consumer_group), f"<{header.consumer_group}> <{header.client_id}>"
    number = None if group is None else group.connection_of(header.client_id)
    if number is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"The Consumer {member} not online")
    target = state.connections.get(number)
    if target is None:
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=f"invoke consumer {member} Exception: closed")
    opaque = state.forwarded_requests.add(
        number, ApacheForwardedRequest(connection, request, header.consumer_group, header.client_id)
    )
    state.pools.block()
    target.send(replace(state.request(request.code, request.fields, request.body), opaque=opaque))
    state.host.request_forwarded(number, opaque)
    return None


def forwarded_response(state: ApacheBrokerState, connection_id: int, answer: Command) -> None:
    """Pass the response of a member to the requester."""
    forwarded = state.forwarded_requests.remove(connection_id, answer.opaque)
    if forwarded is not None:
        forwarded.connection.send(replace(answer, opaque=forwarded.request.opaque))
        state.pools.free()


def forward_timed_out(state: ApacheBrokerState, connection_id: int, opaque: int) -> None:
    """Answer the requester that the member did not respond in time."""
    forwarded = state.forwarded_requests.remove(connection_id, opaque)
    if forwarded is not None:
        remark = f"consumer <{forwarded.group}> <{forwarded.client}> Timeout"
        forwarded.connection.send(state.answer(forwarded.request, ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark))
        state.pools.free()


# 37, and 39 to producers: the end of a transaction, and checks of open ones.
#
# 37 names a half by its offset in the half topic and its position in the log. Both must be right, and so must the group
# (1). A commit stores a copy, whether or not one was stored before; 0 is not answered. Each round of checks writes
# every open half anew and asks any producer of its group; after fifteen checks the half is given up.


def _end_transaction(
    state: ApacheBrokerState, request: Command, _connection: SimulatedConnection, now_ms: int
) -> Command | None:
    header = request.header(EndTransaction)
    if header.commit_or_rollback == TransactionFlag.NONE:
        return None
    entry = state.log.at(header.commit_log_offset)
    if entry is None or entry.place != HALF_PLACE:
        remark = "Find prepared transaction message failed"
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
    record = entry.record()
    properties = decode_properties(record.properties)
    if properties.get(PRODUCER_GROUP) != header.producer_group or entry.offset != header.tran_state_table_offset:
        remark = "The producer group wrong, or the transaction state table offset"
        return state.answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
    if header.commit_or_rollback == TransactionFlag.COMMITTED:
        state.message_stored(_commit_half(state, record, properties, now_ms), now_ms)
    state.store.half_messages.end(entry.offset)
    return state.answer(request)


def _commit_half(
    state: ApacheBrokerState, record: MessageRecord, properties: dict[str, str], now_ms: int
) -> ApacheLogEntry:
    place = properties[REAL_TOPIC], int(properties[REAL_QUEUE_ID])
    if state.release is ApacheRelease.V5:
        del properties[REAL_TOPIC], properties[REAL_QUEUE_ID]
    place = state.store.delays.place_of(properties, place)
    return state.log.copy(
        record,
        place,
        encode_properties(properties),
        now_ms,
        sys_flag=with_transaction(record.sys_flag, TransactionFlag.COMMITTED),
        prepared_offset=record.position,
    )


def check_transactions(state: ApacheBrokerState, now_ms: int) -> None:
    """Check every half that has been open for long enough."""
    for half in state.store.half_messages.due(now_ms):
        entry = state.log.at(half.position)
        if entry is not None:
            _check_half(state, half, entry.record(), now_ms)


def _check_half(state: ApacheBrokerState, half: ApacheHalf, record: MessageRecord, now_ms: int) -> None:
    state.store.half_messages.end(half.offset)
    properties = decode_properties(record.properties)
    if half.checks >= MAX_CHECKS:
        state.log.copy(record, (UNRESOLVED_TRANSACTIONS_TOPIC, 0), record.properties, now_ms)
        return
    properties[CHECK_TIMES] = str(half.checks + 1)
    renewed = state.log.copy(record, HALF_PLACE, encode_properties(properties), now_ms)
    state.store.half_messages.add(renewed, now_ms, half.checks + 1)
    producers = state.producers.get(properties.get(PRODUCER_GROUP, ""), {})
    connections = [state.connections[number] for number in producers if number in state.connections]
    if not connections:
        return
    is_new = state.release is ApacheRelease.V5
    fields = CheckTransactionState(
        tran_state_table_offset=renewed.offset,
        commit_log_offset=renewed.position,
        msg_id=properties.get(UNIQUE_KEY),
        transaction_id=properties.get(UNIQUE_KEY),
        offset_msg_id=offset_id(state.address, renewed.position),
        topic=HALF_TOPIC if is_new else None,
        broker=state.name if is_new else None,
    )
    original = replace(
        renewed.record(),
        topic=properties[REAL_TOPIC].encode(),
        queue_id=int(properties[REAL_QUEUE_ID]),
        prepared_offset=0,
    )
    connections[state.next_sequence() % len(connections)].send(
        state.request(RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(original), flag=ONEWAY_FLAG)
    )


HANDLERS: Mapping[int, ApacheRequestHandler] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: _create_topic,
    RequestCode.GET_BROKER_RUNTIME_INFO: _runtime,
    RequestCode.CHECK_CLIENT_CONFIG: _check_client_config,
    RequestCode.HEART_BEAT: _heartbeat,
    RequestCode.UNREGISTER_CLIENT: _unregister,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _consumer_list,
    RequestCode.LOCK_BATCH_MQ: _lock,
    RequestCode.UNLOCK_BATCH_MQ: _unlock,
    RequestCode.UPDATE_CONSUMER_OFFSET: _update_offset,
    RequestCode.QUERY_CONSUMER_OFFSET: _query_offset,
    RequestCode.GET_ALL_CONSUMER_OFFSET: _all_offsets,
    RequestCode.GET_MAX_OFFSET: _max_offset,
    RequestCode.GET_MIN_OFFSET: _min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _search_offset,
    RequestCode.SEND_MESSAGE: _send,
    RequestCode.SEND_MESSAGE_V2: _send,
    RequestCode.SEND_BATCH_MESSAGE: _send,
    RequestCode.CONSUMER_SEND_MSG_BACK: _send_back,
    RequestCode.PULL_MESSAGE: _pull,
    RequestCode.GET_CONSUMER_RUNNING_INFO: _forward,
    RequestCode.END_TRANSACTION: _end_transaction,
}

ADMIN_POOL_CODES = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    }
)
"""Requests that share the admin pool."""
