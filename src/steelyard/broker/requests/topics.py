"""Topics: 17, 18, 21, 215, 300, 305, 306, 316, 329, 351.

17 UPDATE_AND_CREATE_TOPIC           creates a topic or changes all its settings; 29 for an invalid name. Groups that
                                     read it begin in new queues at the first message, whether they run or not
                                     (at most `_MAX_STARTS` offsets are set for that)
18 UPDATE_AND_CREATE_TOPIC_LIST      the same for many; all are checked before the first topic is created
21 GET_ALL_TOPIC_CONFIG              all topics; with a sequence number (5.3) a page of them, by name. It is the first
                                     page again if the table changed since
215 DELETE_TOPIC_IN_BROKER           deletes settings, offsets and messages; an unknown topic is no error
300 QUERY_TOPIC_CONSUME_BY_WHO       groups that subscribe to a topic or have offsets in it
305 GET_SYSTEM_TOPIC_LIST…BROKER     the topics that tools do not show as the user's
306 CLEAN_EXPIRED_CONSUMEQUEUE       nothing to do: a consume queue is trimmed together with the log
316 CLEAN_UNUSED_TOPIC               deletes messages of topics that no longer exist
329 DELETE_EXPIRED_COMMITLOG         deletes expired log files now
351 GET_TOPIC_CONFIG                 one topic, or 17

The broker's own topics can be neither changed nor deleted (29). Left out: static topics, order in a name server's table
(tools write that there themselves).
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from steelyard.broker.append import flush
from steelyard.broker.options import MAX_QUEUES
from steelyard.broker.request_errors import invalid_parameter, request_error, system_error
from steelyard.broker.requests.paging import page_of
from steelyard.broker.state import BrokerCoreState, RequestHandler
from steelyard.broker.topics import BrokerTopic
from steelyard.broker.validation import TOPIC_ATTRIBUTES, apply_attribute_changes, check_topic, parse_attribute_changes
from steelyard.model.reserved_names import is_system_topic
from steelyard.wire.bodies import decode_request_body, encode_body
from steelyard.wire.bodies.common import GroupNames, TopicNames
from steelyard.wire.bodies.topics import TopicConfig, TopicConfigList
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, Peer, response_to
from steelyard.wire.headers.admin import CreateTopic, GetAllTopicConfigs, GetAllTopicConfigsResponse
from steelyard.wire.headers.common import TopicNameRequest
from steelyard.wire.limits import LIST_BYTES

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_PERMISSIONS = range(16)
_MAX_STARTS = 80_000
"""Offsets that one request sets for groups in new queues: one group and all queues, or a thousand groups and eighty."""


def _update_topic(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    header = request.header(CreateTopic)
    settings = TopicConfig(
        name=header.topic,
        read_queues=header.read_queue_nums,
        write_queues=header.write_queue_nums,
        permission=header.perm,
        filter_type=header.topic_filter_type,
        order=header.order,
        sys_flag=header.topic_sys_flag or 0,
        attributes=parse_attribute_changes(header.attributes),
    )
    _create_or_update(state, [_checked_settings(state, settings)], now_ms)
    return response_to(request)


def _update_topics(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    topics = decode_request_body(TopicConfigList, request.body, max_bytes=LIST_BYTES).topics
    _create_or_update(state, [_checked_settings(state, each) for each in topics], now_ms)
    return response_to(request)


def _create_or_update(state: BrokerCoreState, settings: Sequence[TopicConfig], now_ms: int) -> None:
    """Create or change topics; refuse it if too many groups would begin in too many new queues."""
    new_queues: dict[str, range] = {}
    for each in settings:
        known, wanted = state.topics.get(each.name), min(max(each.read_queues, each.write_queues), MAX_QUEUES)
        if known is not None and wanted > max(known.queues, new_queues.get(each.name, range(0)).stop):
            new_queues[each.name] = range(known.queues, wanted)
    readers = state.offsets.readers_of(new_queues) if new_queues else {}
    starts = sum(len(groups) * len(new_queues[topic]) for topic, groups in readers.items())
    most = min(_MAX_STARTS, state.offsets.room // 2)  # what is left is for offsets that groups commit
    if starts > most:
        raise system_error(
            f"groups that read these topics would need {starts} offsets in their new queues, and {most} can be set at "
            "a time: add fewer queues at a time, or delete groups that are no longer used"
        )
    for each in settings:
        topic = state.topics.put(each, now_ms)
        if groups := readers.pop(topic.name, None):
            _begin_new_queues(state, topic, groups, new_queues[topic.name])


def _begin_new_queues(state: BrokerCoreState, topic: BrokerTopic, groups: Iterable[str], new_queues: range) -> None:
    """Make groups begin at the first message of new queues.

    Otherwise a group that is not running would begin at their end when it comes back, and miss what was sent meanwhile.
    """
    for group in groups:
        for queue_id in new_queues:
            if state.offsets.get(group, topic.name, queue_id) is None:
                state.offsets.put(group, topic.name, queue_id, state.store.bounds(topic.name_bytes, queue_id)[0])


def _checked_settings(state: BrokerCoreState, settings: TopicConfig) -> TopicConfig:
    """Return the new settings of a topic, or refuse them; attributes come as changes."""
    check_topic(settings.name)
    _check_not_system(state, settings.name)
    if settings.filter_type not in _FILTER_TYPES or settings.permission not in _PERMISSIONS:
        raise invalid_parameter(
            f"topic[{settings.name}] cannot have the filter type {settings.filter_type[:80]} and the permission "
            f"{settings.permission}: give SINGLE_TAG or MULTI_TAG, and 2 to write, 4 to read, 6 for both"
        )
    known = state.topics.get(settings.name)
    before = None if known is None else known.settings.attributes
    return replace(
        settings, attributes=apply_attribute_changes(TOPIC_ATTRIBUTES, before, settings.attributes or {}), mapping=None
    )


def _broker_topics(state: BrokerCoreState) -> set[str]:
    cluster, broker = state.options.cluster, state.options.name
    return {cluster, broker, f"{cluster}_REPLY_TOPIC"}


def _check_not_system(state: BrokerCoreState, name: str) -> None:
    if is_system_topic(name) or name in _broker_topics(state):
        raise invalid_parameter(f"The topic[{name}] is conflict with system topic.")


def _delete_topic(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(TopicNameRequest).topic
    check_topic(name)
    _check_not_system(state, name)
    # The messages first: if the disk fails, the topic still exists and can be deleted again.
    flush(state, now_ms)
    state.store.delete_topic(name.encode())
    state.topics.remove(name, now_ms)
    state.offsets.forget_topic(name)
    state.traffic.forget_topic(name)
    return response_to(request)


def _list_topics(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    header, table = request.header(GetAllTopicConfigs), state.topics.table()
    page = page_of(table.topics, table.version, header.topic_seq, header.data_version, header.max_topic_num)
    return response_to(
        request, fields=GetAllTopicConfigsResponse(len(table.topics)), body=encode_body(replace(table, topics=page))
    )


def _get_topic(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    name = request.header(TopicNameRequest).topic
    topic = state.topics.get(name)
    if topic is None:
        raise request_error(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return response_to(request, body=encode_body(topic.settings))


def _groups_of_topic(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    topic = request.header(TopicNameRequest).topic
    subscribed = {group.name for group in state.consumers.all_groups() if topic in group.subscriptions}
    groups = subscribed.union(state.offsets.groups_of(topic))
    return response_to(request, body=encode_body(GroupNames(groups=tuple(sorted(groups)))))


def _system_topics(state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    found = {topic.name for topic in state.topics if is_system_topic(topic.name)} | _broker_topics(state)
    return response_to(request, body=encode_body(TopicNames(topics=tuple(sorted(found)))))


def _nothing_to_do(_state: BrokerCoreState, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return response_to(request)


def _clean_unused_topics(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    store = state.store
    flush(state, now_ms)
    left = {key for key, queue_id in store.queues() if store.bounds(key, queue_id)[0] < store.bounds(key, queue_id)[1]}
    for key in left:
        if state.topics.get(key.decode(errors="replace")) is None:
            store.delete_topic(key)
    return response_to(request)


def _delete_expired_segments(state: BrokerCoreState, request: Command, _peer: Peer, now_ms: int) -> Command:
    state.store.delete_expired_segments(now_ms)
    return response_to(request)


HANDLERS: Mapping[int, RequestHandler] = {
    Code.UPDATE_AND_CREATE_TOPIC: _update_topic,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _update_topics,
    Code.GET_ALL_TOPIC_CONFIG: _list_topics,
    Code.DELETE_TOPIC_IN_BROKER: _delete_topic,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _groups_of_topic,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _system_topics,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _nothing_to_do,
    Code.CLEAN_UNUSED_TOPIC: _clean_unused_topics,
    Code.DELETE_EXPIRED_COMMITLOG: _delete_expired_segments,
    Code.GET_TOPIC_CONFIG: _get_topic,
}
