"""Routes and brokers, and what administrators change about them: 105, 106, 205, 216, 217, 327, 901."""

import pytest

from steelyard.nameserver import NameServerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.topics import BrokerMemberGroupResponse, QueueEntry, RouteBody
from steelyard.wire.headers.nameserver import WritePermissionResponse
from tests.nameserver.nameserver_harness import NameServerHarness, registration, topic

BROKER_A = b'"brokerName":"a","cluster":"DefaultCluster","enableActingMaster":false}'
QUEUES = b'"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'


def pair() -> NameServerHarness:
    harness = NameServerHarness()
    harness.register("b", registration(topic("TBW102", 8, permission=7), "orders"))
    harness.register("a", registration(topic("TBW102", 8, permission=7), "orders", "bills"))
    return harness


@pytest.mark.parametrize(
    ("version", "fields", "key"),
    [
        (0, {}, b"0"),
        (317, {}, b"0"),
        (400, {}, b"0"),
        (401, {}, b'"0"'),
        (513, {}, b'"0"'),
        (317, {"acceptStandardJsonOnly": "true"}, b'"0"'),
        (317, {"acceptStandardJsonOnly": "false"}, b"0"),
    ],
)
def test_ids_are_quoted_for_those_who_can_read_that(version: int, fields: dict[str, str], key: bytes) -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    answer = harness.request(105, {"topic": "orders"} | fields, version=version)
    brokers = b'{"brokerDatas":[{"brokerAddrs":{%b:"a:0"},%b],"filterServerTable":{},' % (key, BROKER_A)
    assert answer.body == brokers + QUEUES


def test_a_topic_that_nobody_has_is_a_17_that_names_it() -> None:
    answer = pair().request(105, {"topic": "no-such"})
    assert answer.code == 17
    assert (answer.remark or "").startswith("No topic route info in name server for the topic: no-such")
    assert answer.body == b""


def test_brokers_and_queues_are_reported_in_the_order_of_names() -> None:
    route = pair().route("orders")
    assert route is not None
    assert [entry.broker_name for entry in route.brokers] == ["a", "b"]
    assert [entry.broker_name for entry in route.queues] == ["a", "b"]


def test_a_zone_changes_nothing_about_a_route() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), zone="north")
    harness.register("b", registration("orders"))
    fields = {"topic": "orders", "__ZONE_NAME": "south", "__ZONE_MODE": "true"}
    route = decode_body(RouteBody, harness.request(105, fields).body)
    assert [(entry.broker_name, entry.zone_name) for entry in route.brokers] == [("a", "north"), ("b", None)]


def test_the_order_of_a_topic_is_reported_once_it_is_set() -> None:
    harness = pair()
    harness.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "a:2;b:2"})
    route = harness.route("orders")
    assert route is not None
    assert route.order == "a:2;b:2"
    other = harness.route("bills")
    assert other is not None
    assert other.order is None


def test_the_order_of_a_topic_can_be_kept_back() -> None:
    harness = NameServerHarness(NameServerOptions(tells_clients_order=False))
    harness.register("a", registration("orders"))
    harness.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "a:2"})
    route = harness.route("orders")
    assert route is not None
    assert route.order is None


def test_the_list_of_brokers_has_raw_ids_who_asks() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    harness.register("a", registration("orders"), broker_id=1)
    want = b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"a:0",1:"a:1"},%b},' % BROKER_A
    want += b'"clusterAddrTable":{"DefaultCluster":["a"]}}'
    assert harness.request(106, version=513).body == harness.request(106, version=317).body == want


def test_an_empty_name_server_lists_nobody() -> None:
    assert NameServerHarness().request(106).body == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'


def test_the_replicas_of_a_broker_are_reported() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), broker_id=3)
    answer = harness.request(901, {"clusterName": "DefaultCluster", "brokerName": "a"})
    assert answer.body == (
        b'{"brokerMemberGroup":{"brokerAddrs":{3:"a:3"},"brokerName":"a","cluster":"DefaultCluster"}}'
    )
    nobody = harness.read(BrokerMemberGroupResponse, 901, {"clusterName": "DefaultCluster", "brokerName": "z"})
    assert nobody.group is not None
    assert dict(nobody.group.addresses) == {}


def test_writing_to_a_broker_is_stopped_and_allowed_again() -> None:
    harness = pair()
    assert harness.request(205, {"brokerName": "a"}).header(WritePermissionResponse) == WritePermissionResponse(
        wipe_topic_count=3
    )
    pattern = harness.route("TBW102")
    assert pattern is not None
    assert [(queue.broker_name, queue.permission) for queue in pattern.queues] == [("a", 5), ("b", 7)]
    assert harness.permission("bills") == 4
    assert harness.request(327, {"brokerName": "a"}).header(WritePermissionResponse) == WritePermissionResponse(
        add_topic_count=3
    )
    assert harness.permission("bills") == 6
    pattern = harness.route("TBW102")
    assert pattern is not None
    assert [queue.permission for queue in pattern.queues] == [7, 7]


def test_a_broker_that_is_not_there_has_no_topics_to_change() -> None:
    answer = NameServerHarness().request(205, {"brokerName": "z"})
    assert (answer.code, answer.texts()) == (0, {"wipeTopicCount": "0"})
    assert NameServerHarness().request(327, {"brokerName": "z"}).texts() == {"addTopicCount": "0"}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    harness = pair()
    harness.register("c", registration("orders", "bills"), cluster="other")
    assert harness.request(216, {"topic": "orders", "clusterName": "DefaultCluster"}).code == 0
    assert list(harness.brokers_of("orders")) == ["c"]
    assert harness.request(216, {"topic": "bills"}).code == 0
    assert harness.route("bills") is None
    assert harness.request(216, {"topic": "bills"}).code == 0
    assert harness.request(216, {"topic": "orders", "clusterName": "nobody"}).code == 0
    assert list(harness.brokers_of("orders")) == ["c"]


def queue(broker: str) -> QueueEntry:
    return QueueEntry(broker_name=broker, read_queues=2, write_queues=1, sys_flag=0)


def test_queues_are_added_on_brokers_that_are_known() -> None:
    harness = pair()
    body = encode_body(RouteBody(queues=(queue("a"), queue("b"))))
    assert harness.request(217, {"topic": "new"}, body).code == 0
    assert list(harness.brokers_of("new")) == ["a", "b"]


def test_queues_on_an_unknown_broker_are_refused_all_of_them() -> None:
    harness = pair()
    answer = harness.request(217, {"topic": "new"}, encode_body(RouteBody(queues=(queue("a"), queue("z")))))
    assert answer.code == 211
    assert "'z'" in (answer.remark or "")
    assert harness.route("new") is None


def test_no_queues_are_nothing_to_add() -> None:
    harness = pair()
    assert harness.request(217, {"topic": "new"}).code == 0
    assert harness.route("new") is None
