"""The rules of registration: 103, 104, 322, 904, silence and closed connections."""

import pytest

from steelyard.nameserver import NameServerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import BrokerRegistration, QueueMapping
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.headers.nameserver import (
    BrokerHeartbeat,
    BrokerIdentity,
    QueryVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
)
from steelyard.wire.json_body import ById
from tests.nameserver.nameserver_harness import NameServerHarness, connection, crc, registration, topic
from tests.wire.registration_encoder import compress_registration

SILENCE_MS = NameServerOptions().broker_silence_ms


def test_a_broker_that_registers_is_in_the_route_of_its_topics() -> None:
    harness = NameServerHarness()
    answer = harness.register("a", registration(topic("orders", 3), "TBW102"))
    assert answer is not None
    assert (answer.code, answer.remark, answer.texts()) == (0, None, {})
    route = harness.route("orders")
    assert route is not None
    assert [(queue.broker_name, queue.read_queues, queue.write_queues) for queue in route.queues] == [("a", 3, 3)]
    assert [(entry.cluster, dict(entry.addresses)) for entry in route.brokers] == [("DefaultCluster", {0: "a:0"})]


def test_a_oneway_registration_is_taken_and_not_answered() -> None:
    harness = NameServerHarness()
    assert harness.register("a", registration("orders", "TBW102"), oneway=True) is None
    assert harness.brokers_of("orders") == {"a": {0: "a:0"}}


def test_a_first_registration_may_have_one_topic() -> None:
    harness = NameServerHarness()
    answer = harness.register("a", registration("orders"))
    assert answer is not None
    assert answer.code == 0
    assert harness.topics() == {"orders"}


def test_an_addition_of_one_topic_leaves_the_others() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", "bills"))
    harness.register("a", registration(topic("bills", 9), version=2))
    assert harness.topics() == {"orders", "bills"}
    route = harness.route("bills")
    assert route is not None
    assert route.queues[0].read_queues == 9


def test_after_an_addition_to_a_name_server_that_forgot_all_the_next_whole_brings_the_rest() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("bills", version=2))
    harness.register("a", registration("orders", "bills", version=2))
    assert harness.topics() == {"orders", "bills"}


def body_of(version: int, *, compressed: bool) -> tuple[bytes, BrokerRegistration]:
    body = registration("orders", "bills", state=None, mappings={} if version >= 413 else None)
    return (compress_registration(body, version=version) if compressed else encode_body(body)), body


@pytest.mark.parametrize("version", [37, 407, 413, 513])
@pytest.mark.parametrize("compressed", [True, False])
def test_bodies_of_all_releases_are_read(version: int, compressed: bool) -> None:
    harness = NameServerHarness()
    data, _ = body_of(version, compressed=compressed)
    header = RegisterBroker("a", "a:0", "c", 0, "h:1", compressed=compressed, body_crc32=crc(data))
    assert harness.request(103, header, data, version=version).code == 0
    assert harness.topics() == {"orders", "bills"}


def test_before_3_0_11_the_body_is_the_bare_table() -> None:
    harness = NameServerHarness()
    data = encode_body(registration("orders").table)
    assert harness.request(103, RegisterBroker("a", "a:0", "c", 0, "h:1"), data, version=36).code == 0
    assert harness.topics() == {"orders"}


def test_a_registration_without_a_body_is_a_broker_without_topics() -> None:
    harness = NameServerHarness()
    assert harness.request(103, RegisterBroker("a", "a:0", "c", 0, "h:1")).code == 0
    assert list(harness.clusters().brokers) == ["a"]


def test_a_body_that_does_not_match_its_checksum_is_refused() -> None:
    harness = NameServerHarness()
    data = encode_body(registration("orders"))
    answer = harness.request(103, RegisterBroker("a", "a:0", "c", 0, "h:1", body_crc32=crc(data) ^ 1), data)
    assert answer.code == 1
    assert "crc32 not match" in (answer.remark or "")
    assert not harness.clusters().brokers


def test_a_body_that_cannot_be_read_is_refused_and_nothing_changes() -> None:
    harness = NameServerHarness()
    answer = harness.request(103, RegisterBroker("a", "a:0", "c", 0, "h:1", compressed=True), b"not zlib")
    assert answer.code == 1
    assert "body of BrokerRegistration" in (answer.remark or "")
    assert not harness.clusters().brokers


def test_an_address_under_a_new_id_leaves_the_old_one() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    harness.register("a", registration("orders"), broker_id=1, address="x:1")
    harness.register("a", registration("orders"), broker_id=2, address="x:1")
    assert harness.brokers_of("orders") == {"a": {0: "a:0", 2: "x:1"}}


def test_an_address_under_a_new_name_leaves_the_old_one_with_its_topics() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), address="x:1")
    harness.register("b", registration("bills"), address="x:1")
    assert harness.topics() == {"bills"}
    assert list(harness.clusters().brokers) == ["b"]


def test_a_newcomer_takes_an_id_over() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", state=3), address="old:1", peer=connection(1))
    harness.register("a", registration("orders", state=3), address="new:1", peer=connection(2))
    assert harness.brokers_of("orders") == {"a": {0: "new:1"}}
    harness.core.connection_closed(connection(1), harness.now_ms)
    assert harness.brokers_of("orders") == {"a": {0: "new:1"}}


def test_a_newcomer_with_the_smaller_state_version_is_left_out_and_told_so() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", state=3), address="old:1")
    answer = harness.register("a", registration("bills", state=2), address="new:1")
    assert answer is not None
    assert answer.code == 0
    assert "old:1" in (answer.remark or "")
    assert harness.brokers_of("orders") == {"a": {0: "old:1"}}
    assert harness.topics() == {"orders"}


def test_a_replica_that_claims_a_newer_master_s_id_is_no_longer_a_replica() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", state=3))
    harness.register("a", registration("orders", state=2), broker_id=1, address="x:1")
    harness.register("a", registration("orders", state=2), broker_id=0, address="x:1")
    assert harness.brokers_of("orders") == {"a": {0: "a:0"}}


def test_a_replica_is_told_where_its_master_is() -> None:
    harness = NameServerHarness()
    alone = harness.register("a", registration("orders"), broker_id=1)
    assert alone is not None
    assert alone.header(RegisterBrokerResponse) == RegisterBrokerResponse()
    harness.register("a", registration("orders"))
    follower = harness.register("a", registration("orders"), broker_id=1)
    assert follower is not None
    assert follower.header(RegisterBrokerResponse) == RegisterBrokerResponse("ha-a:0", "a:0")


@pytest.mark.parametrize(("acting", "topics"), [(None, set()), (False, {"orders"}), (True, {"orders"})])
def test_a_replica_without_master_tells_of_topics_only_if_it_is_of_5(acting: bool | None, topics: set[str]) -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), broker_id=1, acting=acting)
    assert harness.topics() == topics


def test_only_the_first_replica_tells_of_topics() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), broker_id=1, acting=True)
    harness.register("a", registration("bills"), broker_id=2, acting=True)
    assert harness.topics() == {"orders"}


def test_nobody_can_write_to_what_an_acting_master_tells_of() -> None:
    harness = NameServerHarness()
    harness.register("a", registration(topic("orders", permission=7)), broker_id=1, acting=True)
    assert harness.permission("orders") == 5


def test_when_the_master_of_an_acting_pair_goes_nobody_can_write() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), acting=True)
    harness.register("a", registration("orders"), broker_id=1, acting=True)
    harness.unregister("a")
    assert harness.permission("orders") == 4
    assert harness.brokers_of("orders") == {"a": {1: "a:1"}}


def test_a_replica_stays_with_its_own_id_and_permission_when_a_plain_master_goes() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    harness.register("a", registration("orders"), broker_id=1)
    harness.unregister("a")
    assert harness.brokers_of("orders") == {"a": {1: "a:1"}}
    assert harness.permission("orders") == 6


def test_a_stand_in_is_presented_as_the_master_if_the_name_server_does_that() -> None:
    harness = NameServerHarness(NameServerOptions(presents_acting_masters=True))
    members = "rmq_sys_SYNC_BROKER_MEMBER_a"
    for broker_id in (2, 1):
        harness.register("a", registration("orders", members), broker_id=broker_id, acting=True)
    assert harness.brokers_of("orders") == {"a": {0: "a:1", 2: "a:2"}}
    assert harness.brokers_of(members) == {"a": {1: "a:1", 2: "a:2"}}
    harness.register("a", registration("orders", members, version=2), acting=True)
    assert harness.brokers_of("orders") == {"a": {0: "a:0", 1: "a:1", 2: "a:2"}}


def test_queues_are_noted_again_only_with_a_new_version() -> None:
    harness = NameServerHarness()
    harness.register("a", registration(topic("orders", 4), "bills"))
    harness.request(205, {"brokerName": "a"})
    harness.register("a", registration(topic("orders", 8), "bills"))
    assert harness.permission("orders") == 4
    harness.register("a", registration(topic("orders", 8), "bills", version=2))
    route = harness.route("orders")
    assert route is not None
    assert (route.queues[0].permission, route.queues[0].read_queues) == (6, 8)


def test_a_version_without_and_with_a_zero_state_is_the_same() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", "bills", state=None))
    harness.request(205, {"brokerName": "a"})
    harness.register("a", registration("orders", "bills", state=0))
    assert harness.permission("orders") == 4


def test_a_topic_that_is_missing_here_is_logged_with_an_old_version_too() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", "bills"))
    harness.request(216, {"topic": "orders"})
    assert harness.topics() == {"bills"}
    harness.register("a", registration("orders", "bills"))
    assert harness.topics() == {"orders", "bills"}


@pytest.mark.parametrize("drops", [True, False])
def test_a_topic_that_is_not_listed_any_more_stays_unless_configured(drops: bool) -> None:
    harness = NameServerHarness(NameServerOptions(drops_missing_topics=drops))
    harness.register("a", registration("orders", "bills", "notes"))
    harness.register("a", registration("bills", "notes", version=2))
    assert ("orders" in harness.topics()) is not drops
    harness.register("a", registration("notes", version=3))
    assert harness.topics() >= {"bills", "notes"}


def test_a_broker_that_goes_takes_its_topics_with_it() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", "bills"))
    harness.register("b", registration("bills"))
    assert harness.unregister("a").code == 0
    assert harness.topics() == {"bills"}
    assert harness.brokers_of("bills") == {"b": {0: "b:0"}}
    assert harness.unregister("a").code == 0
    harness.unregister("b")
    assert harness.clusters().clusters == {}


def test_another_broker_s_name_unregisters_nobody() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    harness.unregister("b", address="a:0")
    assert harness.topics() == {"orders"}


def test_the_connection_of_the_last_registration_takes_the_broker_with_it() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), peer=connection(1))
    harness.register("a", registration("orders"), peer=connection(2))
    harness.core.connection_closed(connection(1), harness.now_ms)
    assert harness.topics() == {"orders"}
    harness.core.connection_closed(connection(2), harness.now_ms)
    assert harness.topics() == set()


def test_a_connection_takes_all_brokers_with_it_that_registered_over_it() -> None:
    harness = NameServerHarness()
    for name in "abc":
        harness.register(name, registration("orders"), peer=connection(1 if name != "c" else 2))
    harness.core.connection_closed(connection(1), harness.now_ms)
    assert harness.brokers_of("orders") == {"c": {0: "c:0"}}


def test_a_silent_broker_goes_after_its_time_and_its_connection_is_hung_up() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), peer=connection(5))
    assert harness.advance(SILENCE_MS) == []
    assert harness.topics() == {"orders"}
    (hangup,) = harness.advance(1)
    assert hangup.peer == connection(5)
    assert "a:0" in hangup.why
    assert harness.topics() == set()
    assert harness.core.connection_closed(connection(5), harness.now_ms) == []


def test_a_broker_may_ask_for_another_silence() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), peer=connection(1), silence_ms=3_000)
    harness.register("b", registration("bills"), peer=connection(2), silence_ms=-1)
    assert [hangup.peer for hangup in harness.advance(3_001)] == [connection(1)]
    assert harness.topics() == {"bills"}
    assert [hangup.peer for hangup in harness.advance(SILENCE_MS)] == [connection(2)]


def test_a_connection_with_a_broker_that_is_not_silent_is_not_hung_up() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"), peer=connection(1), silence_ms=3_000)
    harness.register("b", registration("bills"), peer=connection(1))
    assert harness.advance(3_001) == []
    assert harness.topics() == {"bills"}


@pytest.mark.parametrize("how", ["register", "query", "beat"])
def test_whatever_a_broker_says_shows_that_it_is_alive(how: str) -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    for _ in range(3):
        assert not harness.advance(SILENCE_MS)
        if how == "register":
            harness.register("a", registration("orders"))
        elif how == "query":
            harness.request(322, BrokerIdentity("a", "a:0", "DefaultCluster", 0), encode_body(TableVersion()))
        else:
            beat = Command(904, BrokerHeartbeat("DefaultCluster", "a:0", "a"), flag=ONEWAY_FLAG)
            assert harness.core.handle(beat, connection(9), harness.now_ms) == ()
    assert harness.topics() == {"orders"}


def test_a_heartbeat_of_an_unknown_broker_registers_nothing() -> None:
    harness = NameServerHarness()
    assert harness.request(904, BrokerHeartbeat("DefaultCluster", "a:0", "a")).code == 0
    harness.register("a", registration("orders"))
    harness.advance(SILENCE_MS)
    harness.request(904, BrokerHeartbeat("OtherCluster", "a:0", "a"))
    assert harness.advance(1)


def test_a_broker_learns_whether_its_table_is_known() -> None:
    harness = NameServerHarness()
    who = BrokerIdentity("a", "a:0", "DefaultCluster", 0)
    unknown = harness.request(322, who, encode_body(TableVersion(counter=1, timestamp=1)))
    assert (unknown.header(QueryVersionResponse).changed, unknown.body) == (True, b"")
    harness.register("a", registration("orders"))
    for version, changed in ((1, False), (2, True)):
        answer = harness.request(322, who, encode_body(TableVersion(counter=version, timestamp=1)))
        assert answer.header(QueryVersionResponse).changed is changed
        assert decode_body(TableVersion, answer.body) == TableVersion(counter=1, state_version=0, timestamp=1)
    assert harness.request(322, who).header(QueryVersionResponse).changed is True


def test_a_broker_s_name_is_in_one_cluster_as_long_as_others_of_it_live() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    answer = harness.register("a", registration("bills"), cluster="other", address="x:1")
    assert answer is not None
    assert answer.code == 29
    assert "DefaultCluster, at a:0" in (answer.remark or "")
    assert harness.clusters().clusters == {"DefaultCluster": ("a",)}
    harness.unregister("a")
    harness.register("a", registration("bills"), cluster="other", address="x:1")
    assert harness.clusters().clusters == {"other": ("a",)}


def test_a_broker_can_move_to_another_cluster() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders"))
    harness.register("a", registration("bills"), cluster="other")
    assert harness.clusters().clusters == {"other": ("a",)}
    assert harness.topics() == {"bills"}


def test_filter_servers_are_reported_with_the_route() -> None:
    harness = NameServerHarness()
    harness.register("a", registration("orders", filter_servers=("f:1", "f:2")))
    route = harness.route("orders")
    assert route is not None
    assert route.filter_servers == {"a:0": ("f:1", "f:2")}


def test_the_map_of_a_static_topic_is_reported_and_goes_with_its_broker() -> None:
    harness = NameServerHarness()
    mapping = QueueMapping(broker="a", topic="static", current=ById({0: 3}), total_queues=1)
    for name in ("a", "b"):
        harness.register(name, registration("static", "orders", mappings={"static": mapping}))
    route = harness.route("static")
    assert route is not None
    assert route.mappings is not None
    assert {name: each.current[0] for name, each in route.mappings.items()} == {"a": 3, "b": 3}
    harness.unregister("a")
    route = harness.route("static")
    assert route is not None
    assert list(route.mappings or {}) == ["b"]
    plain = harness.route("orders")
    assert plain is not None
    assert plain.mappings is None


def test_the_order_of_topics_is_told_to_brokers() -> None:
    harness = NameServerHarness()
    harness.request(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "a:2"})
    answer = harness.register("a", registration("orders"))
    assert answer is not None
    assert answer.body == b'{"table":{"orders":"a:2"}}'
    harness.request(318, body=b"returnOrderTopicConfigToBroker=false")
    answer = harness.register("a", registration("orders"))
    assert answer is not None
    assert answer.body == b""
