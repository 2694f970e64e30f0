"""JSON bodies: we write, Java reads and writes again, we read; nothing is lost on the way but what is listed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from steelyard.model import Queue, Subscription
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import KVTable, TableVersion
from steelyard.wire.bodies.groups import SimpleSubscription, SubscriptionGroupConfig
from steelyard.wire.bodies.heartbeat import ConsumerHeartbeat, ConsumeType, HeartbeatBody, SubscriptionBody
from steelyard.wire.bodies.members import ConsumerRunningState, ProcessQueueState
from steelyard.wire.bodies.offsets import MemberOffsets, ResetOffsets
from steelyard.wire.bodies.stats import ConsumeOffset, ConsumeStats, TopicOffset, TopicStats
from steelyard.wire.bodies.topics import (
    BrokerEntry,
    QueueEntry,
    QueueMapping,
    QueueMappingDetail,
    RouteBody,
    TopicConfig,
    TopicConfigTable,
)
from steelyard.wire.json_body import ById, ByQueue, JsonBody
from tests.interop.jars import RELEASE_4, RELEASES
from tests.interop.java_bodies import JAVA_BODIES, LOST, LOST_IN_4, NOT_IN_4, ONLY_IN_4, ONLY_IN_5, SETS
from tests.interop.java_values import ASTRAL, for_java
from tests.interop.losses import Loss, losses, tree
from tests.interop.peer import JavaRefused, Peer
from tests.wire.body_values import values

CASES = [
    (release, kind, name)
    for release in RELEASES
    for kind, name in JAVA_BODIES
    if name not in (ONLY_IN_5 if release == RELEASE_4 else ONLY_IN_4)
]
QUEUE = Queue("orders", "broker-a", 3)
BY_QUEUE: list[tuple[str, JsonBody]] = [
    ("ResetOffsetBody", ResetOffsets(offsets=ByQueue({QUEUE: 41}))),
    ("ConsumeStats", ConsumeStats(queues=ByQueue({QUEUE: ConsumeOffset(broker_offset=9)}))),
    ("TopicStatsTable", TopicStats(queues=ByQueue({QUEUE: TopicOffset(max_offset=9)}))),
    ("GetConsumerStatusBody", MemberOffsets(queues=ByQueue({QUEUE: 41}), members={"c": ByQueue({QUEUE: 41})})),
    ("ConsumerRunningInfo", ConsumerRunningState(queues=ByQueue({QUEUE: ProcessQueueState(commit_offset=9)}))),
]
ROUTE = RouteBody(
    brokers=(
        BrokerEntry(
            broker_name="broker-a",
            cluster=ASTRAL,
            addresses=ById({0: "10.0.0.1:10911", 1: "[::1]:10911"}),
            enable_acting_master=False,
        ),
    ),
    order="broker-a:4",
    queues=(QueueEntry(broker_name="broker-a", read_queues=4, write_queues=2, permission=6, sys_flag=0),),
)


def there_and_back(java: Peer, body: JsonBody, name: str) -> bytes:
    """Let Java read a body and write it again; fail if it lost anything but what is listed, or we of what it wrote."""
    sent = encode_body(body)
    returned = java.ask_bytes("rewrite-body", sent, name)
    assert [loss for loss in losses(tree(sent), tree(returned), SETS) if not is_listed(loss, java, name)] == []
    read = encode_body(decode_body(type(body), returned))
    assert list(losses(tree(returned), tree(read), SETS)) == []
    return returned


def is_listed(loss: Loss, java: Peer, name: str) -> bool:
    lost, before, _ = loss
    if lost in LOST.get(name, ()):
        return True
    # 4.9 does not know the way to consume that 5.x added, and takes an unknown name for none.
    known_to_5 = lost in NOT_IN_4 or lost in LOST_IN_4.get(name, ()) or before == ConsumeType.POP.value
    return java.is_4 and known_to_5


def test_4_lacks_exactly_the_classes_that_are_listed(java: Peer) -> None:
    lacking = {name for _, name in JAVA_BODIES if not java.ask("has-class", name)}
    assert lacking == (ONLY_IN_5 if java.is_4 else set())


@pytest.mark.parametrize(
    ("java", "kind", "name"), CASES, indirect=["java"], ids=[f"{case[0]}-{case[2]}" for case in CASES]
)
@settings(max_examples=30)
@given(data=st.data())
def test_a_body_passes_there_and_back(java: Peer, kind: type[JsonBody], name: str, data: st.DataObject) -> None:
    there_and_back(java, for_java(data.draw(values(kind))), name)


@settings(max_examples=30)
@given(settings_drawn=values(TopicConfig), mapping=values(QueueMappingDetail))
def test_a_static_topic_passes_there_and_back(
    java_5: Peer, settings_drawn: TopicConfig, mapping: QueueMappingDetail
) -> None:
    topic = replace(for_java(settings_drawn), mapping=for_java(mapping))
    there_and_back(java_5, topic, "TopicConfigAndQueueMapping")


def test_5_fails_on_a_raw_number_as_a_key_in_what_it_would_skip(java: Peer) -> None:
    topic = TopicConfig(name="orders", mapping=QueueMappingDetail(current=ById({0: 7})))
    raw, quoted = encode_body(topic), encode_body(topic, quoted_ids=True)
    expected = replace(topic, mapping=None)
    if java.is_4:
        assert decode_body(TopicConfig, java.ask_bytes("rewrite-body", raw, "TopicConfig")) == expected
    else:
        with pytest.raises(JavaRefused, match="not support unquoted name"):
            java.ask("rewrite-body", raw, "TopicConfig")
    returned = decode_body(TopicConfig, java.ask_bytes("rewrite-body", quoted, "TopicConfig"))
    assert replace(returned, attributes=None) == expected


def test_an_admin_of_5_reads_a_topic_table_unless_a_static_topic_is_in_it(java_5: Peer) -> None:
    orders = {"orders": TopicConfig(name="orders", attributes={})}
    empty = TopicConfigTable(version=TableVersion(state_version=0), topics=orders, mapping_details={}, mappings={})
    static = replace(empty, mappings={"orders": QueueMapping(topic="orders", current=ById({0: 7}))})
    # Its brokers write the larger class, and its admins read the smaller one.
    name = "TopicConfigSerializeWrapper"
    assert decode_body(TopicConfigTable, java_5.ask_bytes("rewrite-body", encode_body(empty), name)).topics == orders
    with pytest.raises(JavaRefused, match="not support unquoted name"):
        java_5.ask("rewrite-body", encode_body(static), name)
    quoted = java_5.ask_bytes("rewrite-body", encode_body(static, quoted_ids=True), name)
    assert decode_body(TopicConfigTable, quoted).topics == orders


@pytest.mark.parametrize(("name", "body"), BY_QUEUE, ids=lambda part: part if isinstance(part, str) else "")
def test_a_queue_as_a_key_is_raw_in_both_directions(java: Peer, name: str, body: JsonBody) -> None:
    returned = there_and_back(java, body, name)
    key = b'{"brokerName":"broker-a","queueId":3,"topic":"orders"}:'
    assert key in encode_body(body)
    assert key in returned


@pytest.mark.parametrize(("name", "body"), BY_QUEUE, ids=lambda part: part if isinstance(part, str) else "")
def test_a_queue_as_a_quoted_key_is_for_4_and_us_alone(java: Peer, name: str, body: JsonBody) -> None:
    raw = b'{"brokerName":"broker-a","queueId":3,"topic":"orders"}:'
    quoted = b'"{\\"brokerName\\":\\"broker-a\\",\\"queueId\\":3,\\"topic\\":\\"orders\\"}":'
    sent = encode_body(body).replace(raw, quoted)
    assert decode_body(type(body), sent) == body
    if java.is_4:
        assert decode_body(type(body), java.ask_bytes("rewrite-body", sent, name)) == body
    else:
        with pytest.raises(JavaRefused):
            java.ask("rewrite-body", sent, name)


@pytest.mark.parametrize("quoted_ids", [False, True], ids=["raw", "quoted"])
def test_a_route_is_read_with_raw_and_with_quoted_ids(java: Peer, quoted_ids: bool) -> None:
    returned = java.ask_bytes("rewrite-body", encode_body(ROUTE, quoted_ids=quoted_ids), "TopicRouteData")
    assert b'"brokerAddrs":{0:' in returned
    assert b'"brokerAddrs":{"0":' in encode_body(ROUTE, quoted_ids=True)
    assert decode_body(RouteBody, returned).route("orders") == ROUTE.route("orders")


def test_we_read_the_route_as_name_servers_write_it_to_new_clients(java: Peer) -> None:
    features = ["BrowserCompatible", "MapSortField"]
    features += ["QuoteFieldNames", "SkipTransientField"] if java.is_4 else []
    returned = java.ask_bytes("rewrite-body", encode_body(ROUTE), "TopicRouteData", *features)
    assert b'"brokerAddrs":{"0":' in returned
    assert (b"\\uD83D\\uDC0E" in returned) == java.is_4
    assert decode_body(RouteBody, returned).route("orders") == ROUTE.route("orders")


def test_a_static_topic_in_a_route_is_for_5_alone(java: Peer) -> None:
    mapping = QueueMapping(topic="orders", broker="broker-a", current=ById({0: 7}), scope="__global__", total_queues=1)
    returned = there_and_back(java, replace(ROUTE, mappings={"broker-a": mapping}), "TopicRouteData")
    expected = None if java.is_4 else {"broker-a": mapping}
    assert decode_body(RouteBody, returned).mappings == expected


@pytest.mark.parametrize("expression", ["*", "a", "a || b", " a||b ||a", "Aa || BB", "\U0001f40e || ü"])
def test_a_tag_expression_becomes_the_same_subscription(java: Peer, expression: str) -> None:
    theirs = decode_body(SubscriptionBody, java.ask("subscription", "orders", expression).encode())
    ours = SubscriptionBody.of(Subscription("orders", expression, version=theirs.version))
    assert set(theirs.tags) == set(ours.tags)
    assert set(theirs.hashes) == set(ours.hashes)
    assert theirs.subscription().tag_hashes == ours.subscription().tag_hashes


def test_names_with_every_kind_of_character_pass(java: Peer) -> None:
    there_and_back(java, KVTable(table={ASTRAL: ASTRAL * 1000, "": "", '\x00\x1f"\\/': '\x00\x1f"\\/'}), "KVTable")
    heartbeat = HeartbeatBody(client_id=ASTRAL, consumers=(ConsumerHeartbeat(group=ASTRAL),))
    there_and_back(java, heartbeat, "HeartbeatData")


def test_5_tells_simple_subscriptions_apart_by_everything_but_their_version(java_5: Peer) -> None:
    twice = tuple(SimpleSubscription(topic="orders", version=version) for version in (1, 2))
    group = SubscriptionGroupConfig(name="g", subscriptions=twice)
    returned = java_5.ask_bytes("rewrite-body", encode_body(group), "SubscriptionGroupConfig")
    assert decode_body(SubscriptionGroupConfig, returned).subscriptions == twice[:1]
