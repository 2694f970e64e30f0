"""Brokers and name servers that are as full as their limits allow, and the request of each code that costs most there.

A state that a request only reads is made once and kept until `forget_states`; what it changes is made for each run.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import structs

from steelyard.broker.requests.paging import MAX_ROWS
from steelyard.broker.requests.stats import _MAX_TIME_SPANS
from steelyard.model import BrokerAddresses, QueueCounts, TopicRoute
from steelyard.model.message import KEYS
from steelyard.nameserver import NameServerCore, NameServerOptions
from steelyard.nameserver.validation import MAX_BROKER_ADDRESSES, MAX_KEY_VALUES
from steelyard.wire import limits
from steelyard.wire.bodies import encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.heartbeat import (
    ConsumerHeartbeat,
    HeartbeatBody,
    HeartbeatExtension,
    HeartbeatGroupExtension,
    MessageModel,
    ProducerHeartbeat,
    SubscriptionBody,
)
from steelyard.wire.bodies.queue_assignment import AssignmentRequest
from steelyard.wire.codes import CLIENT_LANGUAGE
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Command, CommandFields, Peer, Reply
from steelyard.wire.frames import encode_frame_parts
from steelyard.wire.headers.send import EndTransaction, SendMessage
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.broker.pull_requests import WAITS, make_topic, pull_header, store_messages
from tests.broker.worst_requests import listed, registration

_NOTHING: CommandFields = {}
_GROUP, _TOPIC = "billing", "orders"


class WorstCase(NamedTuple):
    """A request, the broker that it costs most on, and the code of the answer; None: it comes later or never."""

    code: int
    harness: Callable[[], BrokerHarness]
    fields: CommandFields = _NOTHING
    body: bytes = b""
    answers: int | None = 0

    def work(self) -> Callable[[], int | None]:
        """Prepare the broker; return what handles the request and writes what is sent, for the code of the answer."""
        harness = self.harness()
        return lambda: handle(harness, Command(self.code, self.fields, self.body, opaque=9, language=CLIENT_LANGUAGE))


def handle(harness: BrokerHarness, request: Command) -> int | None:
    """Handle a request to its end and write all that is sent; return the code of its answer, if it came."""
    code = None
    for reply in (*harness.broker.handle(request, harness.peer, harness.now_ms), *harness.broker.flush(harness.now_ms)):
        if isinstance(reply, Reply):
            encode_frame_parts(reply.command)
            if reply.command.is_response and reply.command.opaque == request.opaque and reply.peer == harness.peer:
                code = reply.command.code
    return code


def _harness() -> BrokerHarness:
    harness = BrokerHarness(segment_bytes=1 << 26)
    harness.send(Code.HEART_BEAT, _NOTHING, b"{}")  # readers are made when they are first needed
    harness.tick()  # what follows is not created by this connection
    return harness


def _wide(queues: int, committed: bool = True) -> BrokerHarness:
    """Make a broker with a topic of many queues, a message in each, and a group that has committed in all."""
    harness = _harness()
    make_topic(harness, queues=queues)
    harness.state.groups.get_or_create(_GROUP, harness.now_ms)
    for queue_id in range(queues):
        store_messages(harness, [b"x"], queue_id=queue_id, flush=False)
        if committed:
            harness.state.offsets.put(_GROUP, _TOPIC, queue_id, 1)
    harness.flush()
    return harness


@cache
def wide() -> BrokerHarness:
    return _wide(MAX_ROWS)


@cache
def narrower() -> BrokerHarness:
    return _wide(_MAX_TIME_SPANS)


@cache
def deep() -> BrokerHarness:
    """Make a broker with as many messages in as many queues as a search by time may read."""
    harness = _harness()
    make_topic(harness, queues=2_000)
    harness.state.groups.get_or_create(_GROUP, harness.now_ms)
    for _ in range(120):
        for queue_id in range(2_000):
            store_messages(harness, [b"x"], queue_id=queue_id, flush=False)
        harness.flush()
        harness.now_ms += 1
    return harness


@cache
def many() -> BrokerHarness:
    """Make a broker with as many topics and groups as it takes."""
    harness = _harness()
    for number in range(harness.options.max_topics - 100):
        harness.state.topics.get_or_create(f"topic-{number}", 4, harness.now_ms)
    for number in range(harness.options.max_groups - 100):
        harness.state.groups.get_or_create(f"group-{number}", harness.now_ms)
        for queue_id in range(4):
            harness.state.offsets.put(f"group-{number}", f"topic-{number}", queue_id, 1)
    return harness


def _full_of_offsets() -> BrokerHarness:
    """Make a broker whose table of offsets is full, most of it of one group."""
    harness = _harness()
    topics = [f"topic-{number}" for number in range(12)]
    for topic in topics:
        make_topic(harness, topic, queues=65_536)
    harness.state.groups.get_or_create(_GROUP, harness.now_ms)
    for topic in topics:
        for queue_id in range(min(65_536, harness.state.offsets.room - 100)):
            harness.state.offsets.put(_GROUP, topic, queue_id, 1_000_000 + queue_id)
    return harness


@cache
def full_of_offsets() -> BrokerHarness:
    return _full_of_offsets()


def _half_full_of_offsets() -> BrokerHarness:
    harness = _harness()
    make_topic(harness, queues=65_536)
    harness.state.groups.get_or_create(_GROUP, harness.now_ms)
    for queue_id in range(65_536):
        harness.state.offsets.put(_GROUP, _TOPIC, queue_id, queue_id)
    return harness


def crowded(members: int = 5_000, queues: int = 4) -> BrokerHarness:
    """Make a broker with a group of many members, who all produce, too."""
    harness = _harness()
    make_topic(harness, queues=queues)
    consumer = ConsumerHeartbeat(group=_GROUP, subscriptions=(SubscriptionBody(topic=_TOPIC, expression="*"),))
    for number in range(members):
        body = HeartbeatBody(
            client_id=f"10.0.0.1@{number}#1#ab@sy1",
            consumers=(consumer,),
            producers=(ProducerHeartbeat(group="shop"),),
            steelyard=HeartbeatExtension(
                groups={_GROUP: HeartbeatGroupExtension(strategy="sticky")}, instance=f"i{number}"
            ),
        )
        request = Command(Code.HEART_BEAT, {}, encode_body(body), opaque=number + 1, language=CLIENT_LANGUAGE)
        harness.broker.handle(request, harness.connect(), harness.now_ms)
    harness.state.outbox.clear()
    return harness


@cache
def crowd() -> BrokerHarness:
    """Make the same, where a route of all queues is known."""
    harness = crowded()
    here = BrokerAddresses(harness.options.name, harness.options.cluster, {0: harness.options.address})
    counts = QueueCounts(here.name, read=65_536, write=65_536)
    harness.state.routes[_TOPIC] = TopicRoute(_TOPIC, (here,), (counts,))
    return harness


def _with_held_pulls() -> BrokerHarness:
    harness = _harness()
    make_topic(harness)
    for number in range(10_000):
        header = structs.replace(pull_header(group=f"group-{number % 100}"), sys_flag=WAITS)
        harness.broker.handle(Command(Code.PULL_MESSAGE, header, opaque=number + 10), harness.peer, harness.now_ms)
    return harness


def _with_held_pulls_of_a_group() -> BrokerHarness:
    harness = _harness()
    make_topic(harness)
    store_messages(harness, [b"x"])
    for _ in range(8_000):
        header = structs.replace(pull_header(1), sys_flag=WAITS)
        harness.broker.handle(Command(Code.PULL_MESSAGE, header, opaque=1), harness.connect(), harness.now_ms)
    return harness


def _keyed(keys: int, records: int, body: bytes = b"x") -> BrokerHarness:
    harness = _harness()
    make_topic(harness)
    words = b" ".join(b"k%d" % number for number in range(keys))
    store_messages(harness, [body] * records, properties=b"%b\x01%b\x02" % (KEYS.encode(), words))
    return harness


def _crowd_with_a_large_message() -> BrokerHarness:
    harness = crowded(members=10)
    store_messages(harness, [b"x" * (4 << 20)])
    return harness


def _with_a_half_message() -> BrokerHarness:
    harness = _harness()
    text = "TRAN_MSG\x01true\x02PGROUP\x01shop\x02"
    harness.send(Code.SEND_MESSAGE_V2, message(properties=text, sys_flag=4), b"x" * (4 << 20))
    return harness


@cache
def popular_key() -> BrokerHarness:
    """Make a broker with very many messages of one key, all indexed."""
    harness = _keyed(1, 100_000)
    harness.state.store.lookup.build_key_index()
    return harness


@cache
def large_messages() -> BrokerHarness:
    harness = _harness()
    make_topic(harness)
    store_messages(harness, [b"x" * (4 << 20)] * 2 + [b"x"] * 2_000)
    harness.state.groups.get_or_create(_GROUP, harness.now_ms)
    return harness


@cache
def filtered() -> BrokerHarness:
    harness = _harness()
    make_topic(harness)
    store_messages(harness, [b"x"] * 500, properties=b"a\x01" + b"v" * 20_000 + b"\x02")
    return harness


def _read_by_many_groups() -> BrokerHarness:
    """Make a broker with a topic that a thousand groups read."""
    harness = _harness()
    make_topic(harness, queues=4)
    for number in range(1_000):
        harness.state.offsets.put(f"group-{number}", _TOPIC, 0, 1)
    return harness


def _read_by_one_group() -> BrokerHarness:
    harness = _harness()
    make_topic(harness, queues=4)
    harness.state.offsets.put(_GROUP, _TOPIC, 0, 1)
    return harness


def _many_small_topics() -> BrokerHarness:
    harness = _harness()
    for number in range(3_500):
        make_topic(harness, f"t{number}", queues=4)
        harness.state.offsets.put(f"group-{number}", f"t{number}", 0, 1)
    for number in range(5_000):
        harness.state.offsets.put(f"another-{number}", "elsewhere", 0, 1)
    return harness


def _topic(queues: int) -> CommandFields:
    return {
        "topic": _TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }


def _larger_topics() -> bytes:
    text = b'{"topicName":"t%d","perm":6,"readQueueNums":24,"writeQueueNums":24}'
    return listed(b'{"topicConfigList":[', lambda number: text % number, b"]}", 3_500 * 70)


_TOPIC_ONLY = {"topic": _TOPIC}
_QUEUE = {"topic": _TOPIC, "queueId": "1"}
_GROUP_AND_TOPIC = {"group": _GROUP, "topic": _TOPIC}
_CONSUMER_GROUP = {"consumerGroup": _GROUP}
_RESET = {"topic": _TOPIC, "group": _GROUP, "isForce": "true"}
_SQL = " OR ".join(f"a CONTAINS 'z{number}'" for number in range(1_500))
_ID = "7F00000100002A9F" + "0" * 16


_MEMBER = "10.0.0.1@7#1#ab@sy1"


def _assignment() -> bytes:
    return encode_body(
        AssignmentRequest(client_id=_MEMBER, group=_GROUP, model=MessageModel.CLUSTERING, strategy="AVG", topic=_TOPIC)
    )


_REPLY = f"REPLY_TO_CLIENT\x01{_MEMBER}\x02CORRELATION_ID\x01c\x02"


def _old_message(properties: str = "") -> SendMessage:
    return SendMessage("shop", _TOPIC, "TBW102", 4, 0, 0, START_MS, 0, properties)


def _end_of_half() -> CommandFields:
    return EndTransaction("shop", 0, 0, 8, "half", False)


def _of_key(key: str) -> CommandFields:
    return {"topic": _TOPIC, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(2**62)}


def forget_states() -> None:
    """Free the states that are kept."""
    for state in (wide, narrower, deep, many, full_of_offsets, crowd, popular_key, large_messages, filtered):
        state.cache_clear()
    large_name_server.cache_clear()
    name_server_of_many_brokers.cache_clear()


def worst_of_broker() -> Mapping[str, WorstCase]:
    """Make the worst requests of each code that need a broker with a past."""
    return {
        "an assignment of many queues": WorstCase(Code.QUERY_ASSIGNMENT, crowd, body=_assignment()),
        "a mode": WorstCase(
            Code.SET_MESSAGE_REQUEST_MODE, wide, body=b'{"topic":"orders","consumerGroup":"billing","mode":"PULL"}'
        ),
        "the settings of a broker": WorstCase(Code.GET_BROKER_CONFIG, many),
        "the ids of a crowd": WorstCase(Code.GET_CONSUMER_LIST_BY_GROUP, crowd, _CONSUMER_GROUP),
        "the connections of a crowd": WorstCase(Code.GET_CONSUMER_CONNECTION_LIST, crowd, _CONSUMER_GROUP),
        "the connections of producers": WorstCase(Code.GET_PRODUCER_CONNECTION_LIST, crowd, {"producerGroup": "shop"}),
        "all producers": WorstCase(Code.GET_ALL_PRODUCER_INFO, crowd),
        "topics of a group": WorstCase(Code.QUERY_TOPICS_BY_CONSUMER, many, {"group": "group-1"}),
        "a group's subscription": WorstCase(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, crowd, _GROUP_AND_TOPIC),
        "a member's state": WorstCase(
            Code.GET_CONSUMER_RUNNING_INFO, crowd, {**_CONSUMER_GROUP, "clientId": _MEMBER}, answers=None
        ),
        "a large message for a member": WorstCase(
            Code.CONSUME_MESSAGE_DIRECTLY,
            _crowd_with_a_large_message,
            {**_CONSUMER_GROUP, "clientId": _MEMBER, "msgId": _ID},
            answers=None,
        ),
        "the offsets of a crowd": WorstCase(
            Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, crowded, _GROUP_AND_TOPIC, answers=2
        ),
        "a group's settings, of many": WorstCase(
            Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, many, body=b'{"groupName":"group-3"}'
        ),
        "all groups": WorstCase(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, many),
        "one group of many": WorstCase(Code.GET_SUBSCRIPTIONGROUP_CONFIG, many, {"group": "group-3"}),
        "a group with all offsets is deleted": WorstCase(
            Code.DELETE_SUBSCRIPTIONGROUP, _full_of_offsets, {"groupName": _GROUP, "cleanOffset": "true"}
        ),
        "one of a crowd leaves": WorstCase(Code.UNREGISTER_CLIENT, crowd, {"clientID": _MEMBER, **_CONSUMER_GROUP}),
        "a committed offset": WorstCase(
            Code.QUERY_CONSUMER_OFFSET, wide, {**_CONSUMER_GROUP, "topic": _TOPIC, "queueId": "3"}
        ),
        "a commit": WorstCase(
            Code.UPDATE_CONSUMER_OFFSET,
            wide,
            {**_CONSUMER_GROUP, "topic": _TOPIC, "queueId": "3", "commitOffset": "1"},
        ),
        "an offset by time": WorstCase(
            Code.SEARCH_OFFSET_BY_TIMESTAMP, popular_key, {"topic": _TOPIC, "queueId": "0", "timestamp": "1"}
        ),
        "the end of a queue": WorstCase(Code.GET_MAX_OFFSET, wide, _QUEUE),
        "the start of a queue": WorstCase(Code.GET_MIN_OFFSET, wide, _QUEUE),
        "the time of a first message": WorstCase(Code.GET_EARLIEST_MSG_STORETIME, large_messages, _QUEUE),
        "offsets are copied": WorstCase(
            Code.CLONE_GROUP_OFFSET,
            _half_full_of_offsets,
            {"srcGroup": _GROUP, "destGroup": "another", "topic": _TOPIC, "offline": "true"},
        ),
        "all offsets": WorstCase(Code.GET_ALL_CONSUMER_OFFSET, full_of_offsets),
        "all offsets of many groups": WorstCase(Code.GET_ALL_CONSUMER_OFFSET, many),
        "the offsets of delay levels": WorstCase(Code.GET_ALL_DELAY_OFFSET, many),
        "a reset of many queues": WorstCase(Code.INVOKE_BROKER_TO_RESET_OFFSET, wide, {**_RESET, "timestamp": "-1"}),
        "a reset by time": WorstCase(
            Code.INVOKE_BROKER_TO_RESET_OFFSET, deep, {**_RESET, "timestamp": str(START_MS + 60)}
        ),
        "a reset of many who wait": WorstCase(
            Code.INVOKE_BROKER_TO_RESET_OFFSET, _with_held_pulls_of_a_group, {**_RESET, "timestamp": "0"}
        ),
        "a long SQL": WorstCase(Code.PULL_MESSAGE, filtered, pull_header(wanted=_SQL, kind="SQL92"), answers=20),
        "a long SQL, lite": WorstCase(
            Code.LITE_PULL_MESSAGE, filtered, pull_header(wanted=_SQL, kind="SQL92"), answers=20
        ),
        "a pull of many": WorstCase(Code.PULL_MESSAGE, large_messages, pull_header(2, most=1_024)),
        "a pull of a large message": WorstCase(Code.PULL_MESSAGE, large_messages, pull_header(0, most=1_024)),
        "many keys to index": WorstCase(Code.QUERY_MESSAGE, lambda: _keyed(150, 4_000), _of_key("k1"), answers=None),
        "a message with very many keys to index": WorstCase(
            Code.QUERY_MESSAGE, lambda: _keyed(5_000, 50), _of_key("k1"), answers=None
        ),
        "large messages to index": WorstCase(Code.QUERY_MESSAGE, lambda: _keyed(1, 400, b"x" * 100_000), _of_key("k0")),
        "a popular key": WorstCase(Code.QUERY_MESSAGE, popular_key, _of_key("k0")),
        "an unknown key": WorstCase(Code.QUERY_MESSAGE, popular_key, _of_key("none"), answers=22),
        "a large message by its place": WorstCase(Code.VIEW_MESSAGE_BY_ID, large_messages, {"offset": "0"}),
        "a part of a consume queue": WorstCase(
            Code.QUERY_CONSUME_QUEUE, large_messages, {"topic": _TOPIC, "queueId": "0", "index": "0", "count": "1024"}
        ),
        "a large message of old": WorstCase(Code.SEND_MESSAGE, wide, _old_message(), b"x" * (4 << 20)),
        "a send that wakes many": WorstCase(Code.SEND_MESSAGE_V2, _with_held_pulls, message(), b"x"),
        "a large send that wakes many": WorstCase(Code.SEND_MESSAGE_V2, _with_held_pulls, message(), b"x" * (1 << 20)),
        "a large message is sent back": WorstCase(
            Code.CONSUMER_SEND_MSG_BACK, large_messages, {"offset": "0", "group": _GROUP, "delayLevel": "3"}
        ),
        "a large reply": WorstCase(Code.SEND_REPLY_MESSAGE_V2, crowd, message(properties=_REPLY), b"x" * (4 << 20)),
        "a large reply of old": WorstCase(Code.SEND_REPLY_MESSAGE, crowd, _old_message(_REPLY), b"x" * (4 << 20)),
        "the ends of many queues": WorstCase(Code.GET_TOPIC_STATS_INFO, wide, _TOPIC_ONLY),
        "a group's offsets in many queues": WorstCase(
            Code.GET_CONSUME_STATS, wide, {**_CONSUMER_GROUP, "topic": _TOPIC}
        ),
        "the times of many queues": WorstCase(Code.QUERY_CONSUME_TIME_SPAN, narrower, _GROUP_AND_TOPIC),
        "one counter": WorstCase(
            Code.VIEW_BROKER_STATS_DATA, wide, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "none"}, answers=1
        ),
        "the offsets of all groups": WorstCase(Code.GET_BROKER_CONSUME_STATS, wide, {"isOrder": "false"}),
        "the offsets of too many groups": WorstCase(
            Code.GET_BROKER_CONSUME_STATS, many, {"isOrder": "false"}, answers=1
        ),
        "the state of a full broker": WorstCase(Code.GET_BROKER_RUNTIME_INFO, many),
        "replicas": WorstCase(Code.GET_BROKER_HA_STATUS, many),
        "a topic of a thousand groups grows": WorstCase(
            Code.UPDATE_AND_CREATE_TOPIC, _read_by_many_groups, _topic(4 + 80)
        ),
        "a topic grows as far as possible": WorstCase(Code.UPDATE_AND_CREATE_TOPIC, _read_by_one_group, _topic(65_536)),
        "a topic of a thousand groups grows too far": WorstCase(
            Code.UPDATE_AND_CREATE_TOPIC, _read_by_many_groups, _topic(65_536), answers=1
        ),
        "many topics grow": WorstCase(Code.UPDATE_AND_CREATE_TOPIC_LIST, _many_small_topics, body=_larger_topics()),
        "all topics": WorstCase(Code.GET_ALL_TOPIC_CONFIG, many),
        "a wide topic is deleted": WorstCase(Code.DELETE_TOPIC_IN_BROKER, lambda: _wide(MAX_ROWS), _TOPIC_ONLY),
        "groups of a topic": WorstCase(Code.QUERY_TOPIC_CONSUME_BY_WHO, _read_by_many_groups, _TOPIC_ONLY),
        "system topics of many": WorstCase(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, many),
        "consume queues are cleaned": WorstCase(Code.CLEAN_EXPIRED_CONSUMEQUEUE, wide),
        "topics are cleaned": WorstCase(Code.CLEAN_UNUSED_TOPIC, wide),
        "log files are cleaned": WorstCase(Code.DELETE_EXPIRED_COMMITLOG, wide),
        "one topic of many": WorstCase(Code.GET_TOPIC_CONFIG, many, {"topic": "topic-3"}),
        "a large message is committed": WorstCase(Code.END_TRANSACTION, _with_a_half_message, _end_of_half()),
        "a check is resumed": WorstCase(Code.RESUME_CHECK_HALF_MESSAGE, large_messages, {"msgId": _ID}, answers=1),
    }


def _name_server(brokers: int, topics: int) -> NameServerCore:
    """Make a name server with many brokers that have the same topics, and with many settings."""
    server = NameServerCore(NameServerOptions())
    for number in range(brokers):
        server.handle(registration(topics, f"broker-{number}", number), _peer(number), 0)
    for number in range(MAX_KEY_VALUES - 100):
        server.kv_config.put(_NAMESPACE, f"key-{number}", "value" * 30)
    return server


@cache
def large_name_server() -> NameServerCore:
    return _name_server(25, 20_000)


@cache
def name_server_of_many_brokers() -> NameServerCore:
    return _name_server(MAX_BROKER_ADDRESSES - 1, 100)


_NAMESPACE = "ORDER_TOPIC_CONFIG"
_BROKER = {
    "brokerName": "broker-3",
    "brokerAddr": "10.0.0.3:10911",
    "clusterName": "DefaultCluster",
    "brokerId": "0",
}
_SETTING = {"namespace": _NAMESPACE, "key": "key-3"}


def _peer(number: int) -> Peer:
    return Peer.at("127.0.0.1", 50_000 + number % 10_000, connection_id=number)


class WorstOfNameServer(NamedTuple):
    """A request to a name server, and the one that it costs most on."""

    code: int
    server: Callable[[], NameServerCore]
    fields: CommandFields = _NOTHING
    body: bytes = b""

    def work(self) -> Callable[[], int | None]:
        """Prepare the server; return what handles the request and writes the answer, for its code."""
        server, request = self.server(), Command(self.code, self.fields, self.body, opaque=9)

        def handle() -> int:
            (reply,) = server.handle(request, _peer(3), 0)
            encode_frame_parts(reply.command)
            return reply.command.code

        return handle


def worst_of_name_server() -> Mapping[str, WorstOfNameServer]:
    """Make the worst request of each code that a name server knows, but for registrations."""
    large, wide_cluster = large_name_server, name_server_of_many_brokers
    return {
        "a setting is put": WorstOfNameServer(Code.PUT_KV_CONFIG, large, {**_SETTING, "value": "x" * 30_000}),
        "a setting": WorstOfNameServer(Code.GET_KV_CONFIG, large, _SETTING),
        "a setting is deleted": WorstOfNameServer(Code.DELETE_KV_CONFIG, large, _SETTING),
        "all settings": WorstOfNameServer(Code.GET_KVLIST_BY_NAMESPACE, large, {"namespace": _NAMESPACE}),
        "settings of the server": WorstOfNameServer(
            Code.UPDATE_NAMESRV_CONFIG, large, body=b"orderMessageEnable=true\n" * 10_000
        ),
        "its settings": WorstOfNameServer(Code.GET_NAMESRV_CONFIG, large),
        "a broker leaves": WorstOfNameServer(Code.UNREGISTER_BROKER, lambda: _name_server(2, 20_000), _LEAVING),
        "a version": WorstOfNameServer(
            Code.QUERY_DATA_VERSION, wide_cluster, _BROKER, encode_body(TableVersion(counter=1))
        ),
        "a broker's heartbeat": WorstOfNameServer(Code.BROKER_HEARTBEAT, wide_cluster, _BROKER),
        "a route": WorstOfNameServer(Code.GET_ROUTEINFO_BY_TOPIC, wide_cluster, {"topic": "topic-3"}),
        "the cluster": WorstOfNameServer(Code.GET_BROKER_CLUSTER_INFO, wide_cluster),
        "a broker's replicas": WorstOfNameServer(Code.GET_BROKER_MEMBER_GROUP, wide_cluster, _BROKER),
        "a broker may not be written": WorstOfNameServer(Code.WIPE_WRITE_PERM_OF_BROKER, large, _BROKER),
        "a broker may be written": WorstOfNameServer(Code.ADD_WRITE_PERM_OF_BROKER, large, _BROKER),
        "a topic is deleted": WorstOfNameServer(Code.DELETE_TOPIC_IN_NAMESRV, wide_cluster, {"topic": "topic-5"}),
        "a topic of a cluster is deleted": WorstOfNameServer(
            Code.DELETE_TOPIC_IN_NAMESRV, wide_cluster, {"topic": "topic-6", "clusterName": "DefaultCluster"}
        ),
        "a topic is registered": WorstOfNameServer(
            Code.REGISTER_TOPIC_IN_NAMESRV,
            wide_cluster,
            {"topic": "new"},
            listed(b'{"queueDatas":[', lambda number: _QUEUES_OF_BROKER % number, b"]}", limits.REQUEST_BYTES),
        ),
        "the topics": WorstOfNameServer(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, large),
        "the topics of a cluster": WorstOfNameServer(Code.GET_TOPICS_BY_CLUSTER, large, {"cluster": "DefaultCluster"}),
        "the names of brokers": WorstOfNameServer(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, wide_cluster),
        "topics of units": WorstOfNameServer(Code.GET_UNIT_TOPIC_LIST, large),
        "topics that units subscribe to": WorstOfNameServer(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, large),
        "topics that only units subscribe to": WorstOfNameServer(Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, large),
    }


_QUEUES_OF_BROKER = b'{"brokerName":"broker-%d","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}'
_LEAVING = {**_BROKER, "brokerName": "broker-1", "brokerAddr": "10.0.0.1:10911"}
