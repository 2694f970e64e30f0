"""Topics: 17, 18, 21, 215, 300, 305, 306, 316, 329, 351.

17 UPDATE_AND_CREATE_TOPIC           makes a topic or changes all its settings; 29 for a name that is not allowed.
                                     Groups that read it begin in new queues at the first message, running or not
18 UPDATE_AND_CREATE_TOPIC_LIST      the same for many; all names are looked at before the first topic is made
21 GET_ALL_TOPIC_CONFIG              all topics; with a sequence number (5.3) a page of them, by name. A page begins
                                     anew when the table is not the one that the asker began with
215 DELETE_TOPIC_IN_BROKER           settings, offsets and messages go; a topic that is not there is no error
300 QUERY_TOPIC_CONSUME_BY_WHO       groups that subscribe to a topic or have offsets in it
305 GET_SYSTEM_TOPIC_LIST…BROKER     the topics that tools do not show as the user's
306 CLEAN_EXPIRED_CONSUMEQUEUE       nothing to do: an index forgets what the log forgot at once
316 CLEAN_UNUSED_TOPIC               messages go whose topic is not there any more
329 DELETE_EXPIRED_COMMITLOG         log files that are too old go now
351 GET_TOPIC_CONFIG                 one topic, or 17

The broker's own topics can be neither changed nor deleted (29). Left out: static topics, order in a name server's table
(tools write that there themselves).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from steelyard.broker.attributes import TOPIC_ATTRIBUTES, altered, read_changes
from steelyard.broker.flushing import flush
from steelyard.broker.handlers import Handler
from steelyard.broker.names import check_topic
from steelyard.broker.refusals import refusal
from steelyard.broker.requests.pages import page_of
from steelyard.broker.state import State
from steelyard.broker.topics import Topic
from steelyard.model.names import is_system_topic
from steelyard.wire.bodies import decode_request, encode_body
from steelyard.wire.bodies.shared import GroupNames, TopicNames
from steelyard.wire.bodies.topics import TopicSettings, TopicSettingsList
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command, answer_to
from steelyard.wire.headers.admin import CreateTopic, TopicList, TopicListAnswer
from steelyard.wire.headers.common import TopicName
from steelyard.wire.limits import LIST_BYTES
from steelyard.wire.peers import Peer

__all__ = ["HANDLERS"]

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_PERMISSIONS = range(16)


def _put(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    asked = request.header(CreateTopic)
    wanted = TopicSettings(
        name=asked.topic,
        read_queues=asked.read_queue_nums,
        write_queues=asked.write_queue_nums,
        permission=asked.perm,
        filter_type=asked.topic_filter_type,
        order=asked.order,
        sys_flag=asked.topic_sys_flag or 0,
        attributes=read_changes(asked.attributes),
    )
    _make(state, _checked(state, wanted), now_ms)
    return answer_to(request)


def _put_all(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    wanted = [
        _checked(state, each) for each in decode_request(TopicSettingsList, request.body, most_bytes=LIST_BYTES).topics
    ]
    for settings in wanted:
        _make(state, settings, now_ms)
    return answer_to(request)


def _make(state: State, settings: TopicSettings, now_ms: int) -> None:
    known = state.topics.get(settings.name)
    topic = state.topics.put(settings, now_ms)
    if known is not None:
        _begin_new_queues(state, topic, known.queues)


def _begin_new_queues(state: State, topic: Topic, first: int) -> None:
    """Let each group that reads a topic begin at the first message of the queues that the topic gets now.

    Else a group that is not running would begin where they end when it comes back, and miss what was sent meanwhile.
    """
    for group in state.offsets.groups_of(topic.name):
        for queue_id in range(first, topic.queues):
            if state.offsets.get(group, topic.name, queue_id) is None and state.offsets.has_room(group, topic.name):
                state.offsets.put(group, topic.name, queue_id, state.store.bounds(topic.key, queue_id)[0])


def _checked(state: State, wanted: TopicSettings) -> TopicSettings:
    """Return the settings that a topic gets, or refuse them; attributes come as changes of those it has."""
    check_topic(wanted.name)
    _refuse_own(state, wanted.name)
    if wanted.filter_type not in _FILTER_TYPES or wanted.permission not in _PERMISSIONS:
        raise refusal(
            ResponseCode.INVALID_PARAMETER,
            f"topic[{wanted.name}] cannot have the filter type {wanted.filter_type[:80]} and the permission "
            f"{wanted.permission}: give SINGLE_TAG or MULTI_TAG, and 2 to write, 4 to read, 6 for both",
        )
    known = state.topics.get(wanted.name)
    before = None if known is None else known.settings.attributes
    return replace(wanted, attributes=altered(TOPIC_ATTRIBUTES, before, wanted.attributes or {}), mapping=None)


def _own_topics(state: State) -> set[str]:
    cluster, broker = state.options.cluster, state.options.name
    return {cluster, broker, f"{cluster}_REPLY_TOPIC"}


def _refuse_own(state: State, name: str) -> None:
    if is_system_topic(name) or name in _own_topics(state):
        raise refusal(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")


def _delete(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    name = request.header(TopicName).topic
    check_topic(name)
    _refuse_own(state, name)
    # The messages first: if the disk refuses, the topic is still there and can be deleted again.
    flush(state, now_ms)
    state.store.forget_topic(name.encode())
    state.topics.remove(name, now_ms)
    state.offsets.forget_topic(name)
    state.rates.forget_topic(name)
    return answer_to(request)


def _list(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    asked, table = request.header(TopicList), state.topics.table()
    page = page_of(table.topics, table.version, asked.topic_seq, asked.data_version, asked.max_topic_num)
    return answer_to(request, fields=TopicListAnswer(len(table.topics)), body=encode_body(replace(table, topics=page)))


def _get(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    name = request.header(TopicName).topic
    topic = state.topics.get(name)
    if topic is None:
        raise refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return answer_to(request, body=encode_body(topic.settings))


def _consumers(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    topic = request.header(TopicName).topic
    groups = set(state.offsets.groups_of(topic))
    for name in state.members.groups():
        group = state.members.group(name)
        if group is not None and topic in group.subscriptions:
            groups.add(name)
    return answer_to(request, body=encode_body(GroupNames(groups=tuple(sorted(groups)))))


def _system_topics(state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    found = {topic.name for topic in state.topics if is_system_topic(topic.name)} | _own_topics(state)
    return answer_to(request, body=encode_body(TopicNames(topics=tuple(sorted(found)))))


def _nothing_to_do(_state: State, request: Command, _peer: Peer, _now_ms: int) -> Command:
    return answer_to(request)


def _clean_unused(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    store = state.store
    flush(state, now_ms)
    left = {key for key, queue_id in store.queues() if store.bounds(key, queue_id)[0] < store.bounds(key, queue_id)[1]}
    for key in left:
        if state.topics.get(key.decode(errors="replace")) is None:
            store.forget_topic(key)
    return answer_to(request)


def _delete_expired(state: State, request: Command, _peer: Peer, now_ms: int) -> Command:
    state.store.tick(now_ms)
    return answer_to(request)


HANDLERS: Mapping[int, Handler] = {
    Code.UPDATE_AND_CREATE_TOPIC: _put,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: _put_all,
    Code.GET_ALL_TOPIC_CONFIG: _list,
    Code.DELETE_TOPIC_IN_BROKER: _delete,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: _consumers,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _system_topics,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _nothing_to_do,
    Code.CLEAN_UNUSED_TOPIC: _clean_unused,
    Code.DELETE_EXPIRED_COMMITLOG: _delete_expired,
    Code.GET_TOPIC_CONFIG: _get,
}
