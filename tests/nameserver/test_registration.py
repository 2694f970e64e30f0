"""The rules by which brokers come and go: 103, 104, 322, 904, silence and closed lines."""

import pytest
from tests.nameserver.desk import Desk, crc, line, registration, topic

from steelyard.nameserver import NameServerOptions
from steelyard.wire.bodies import decode_body, encode_body
from steelyard.wire.bodies.registration import Registration, compress_registration
from steelyard.wire.bodies.routes import QueueMapping
from steelyard.wire.bodies.shared import TableVersion
from steelyard.wire.command import ONEWAY, Command
from steelyard.wire.headers.nameserver import BrokerBeat, BrokerIdentity, ChangedAnswer, RegisterAnswer, RegisterBroker
from steelyard.wire.maps import ById

SILENCE_MS = NameServerOptions().broker_silence_ms


def test_a_broker_that_registers_is_in_the_route_of_its_topics() -> None:
    desk = Desk()
    answer = desk.register("a", registration(topic("orders", 3), "TBW102"))
    assert answer is not None
    assert (answer.code, answer.remark, answer.texts()) == (0, None, {})
    route = desk.route("orders")
    assert route is not None
    assert [(queue.broker_name, queue.read_queues, queue.write_queues) for queue in route.queues] == [("a", 3, 3)]
    assert [(entry.cluster, dict(entry.addresses)) for entry in route.brokers] == [("DefaultCluster", {0: "a:0"})]


def test_a_oneway_registration_is_taken_and_not_answered() -> None:
    desk = Desk()
    assert desk.register("a", registration("orders", "TBW102"), oneway=True) is None
    assert desk.brokers_of("orders") == {"a": {0: "a:0"}}


def test_a_first_registration_may_have_one_topic() -> None:
    desk = Desk()
    answer = desk.register("a", registration("orders"))
    assert answer is not None
    assert answer.code == 0
    assert desk.topics() == {"orders"}


def test_an_addition_of_one_topic_leaves_the_others() -> None:
    desk = Desk()
    desk.register("a", registration("orders", "bills"))
    desk.register("a", registration(topic("bills", 9), version=2))
    assert desk.topics() == {"orders", "bills"}
    route = desk.route("bills")
    assert route is not None
    assert route.queues[0].read_queues == 9


def test_after_an_addition_to_a_name_server_that_forgot_all_the_next_whole_brings_the_rest() -> None:
    desk = Desk()
    desk.register("a", registration("bills", version=2))
    desk.register("a", registration("orders", "bills", version=2))
    assert desk.topics() == {"orders", "bills"}


def body_of(version: int, *, compressed: bool) -> tuple[bytes, Registration]:
    body = registration("orders", "bills", state=None, mappings={} if version >= 413 else None)
    return (compress_registration(body, version=version) if compressed else encode_body(body)), body


@pytest.mark.parametrize("version", [37, 407, 413, 513])
@pytest.mark.parametrize("compressed", [True, False])
def test_bodies_of_all_releases_are_read(version: int, compressed: bool) -> None:
    desk = Desk()
    data, _ = body_of(version, compressed=compressed)
    header = RegisterBroker("a", "a:0", "c", 0, "h:1", compressed=compressed, body_crc32=crc(data))
    assert desk.ask(103, header, data, version=version).code == 0
    assert desk.topics() == {"orders", "bills"}


def test_before_3_0_11_the_body_is_the_bare_table() -> None:
    desk = Desk()
    data = encode_body(registration("orders").table)
    assert desk.ask(103, RegisterBroker("a", "a:0", "c", 0, "h:1"), data, version=36).code == 0
    assert desk.topics() == {"orders"}


def test_a_registration_without_a_body_is_a_broker_without_topics() -> None:
    desk = Desk()
    assert desk.ask(103, RegisterBroker("a", "a:0", "c", 0, "h:1")).code == 0
    assert list(desk.clusters().brokers) == ["a"]


def test_a_body_that_does_not_match_its_checksum_is_refused() -> None:
    desk = Desk()
    data = encode_body(registration("orders"))
    answer = desk.ask(103, RegisterBroker("a", "a:0", "c", 0, "h:1", body_crc32=crc(data) ^ 1), data)
    assert answer.code == 1
    assert "crc32 not match" in (answer.remark or "")
    assert not desk.clusters().brokers


def test_a_body_that_cannot_be_read_is_refused_and_nothing_changes() -> None:
    desk = Desk()
    answer = desk.ask(103, RegisterBroker("a", "a:0", "c", 0, "h:1", compressed=True), b"not zlib")
    assert answer.code == 1
    assert "body of Registration" in (answer.remark or "")
    assert not desk.clusters().brokers


def test_an_address_under_a_new_id_leaves_the_old_one() -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    desk.register("a", registration("orders"), broker_id=1, address="x:1")
    desk.register("a", registration("orders"), broker_id=2, address="x:1")
    assert desk.brokers_of("orders") == {"a": {0: "a:0", 2: "x:1"}}


def test_an_address_under_a_new_name_leaves_the_old_one_with_its_topics() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), address="x:1")
    desk.register("b", registration("bills"), address="x:1")
    assert desk.topics() == {"bills"}
    assert list(desk.clusters().brokers) == ["b"]


def test_a_newcomer_takes_an_id_over() -> None:
    desk = Desk()
    desk.register("a", registration("orders", state=3), address="old:1", peer=line(1))
    desk.register("a", registration("orders", state=3), address="new:1", peer=line(2))
    assert desk.brokers_of("orders") == {"a": {0: "new:1"}}
    desk.core.closed(line(1), desk.now_ms)
    assert desk.brokers_of("orders") == {"a": {0: "new:1"}}


def test_a_newcomer_with_the_smaller_state_version_is_left_out_and_told_so() -> None:
    desk = Desk()
    desk.register("a", registration("orders", state=3), address="old:1")
    answer = desk.register("a", registration("bills", state=2), address="new:1")
    assert answer is not None
    assert answer.code == 0
    assert "old:1" in (answer.remark or "")
    assert desk.brokers_of("orders") == {"a": {0: "old:1"}}
    assert desk.topics() == {"orders"}


def test_a_replica_that_claims_a_newer_master_s_id_is_no_longer_a_replica() -> None:
    desk = Desk()
    desk.register("a", registration("orders", state=3))
    desk.register("a", registration("orders", state=2), broker_id=1, address="x:1")
    desk.register("a", registration("orders", state=2), broker_id=0, address="x:1")
    assert desk.brokers_of("orders") == {"a": {0: "a:0"}}


def test_a_replica_is_told_where_its_master_is() -> None:
    desk = Desk()
    alone = desk.register("a", registration("orders"), broker_id=1)
    assert alone is not None
    assert alone.header(RegisterAnswer) == RegisterAnswer()
    desk.register("a", registration("orders"))
    follower = desk.register("a", registration("orders"), broker_id=1)
    assert follower is not None
    assert follower.header(RegisterAnswer) == RegisterAnswer("ha-a:0", "a:0")


@pytest.mark.parametrize(("acting", "topics"), [(None, set()), (False, {"orders"}), (True, {"orders"})])
def test_a_replica_without_master_tells_of_topics_only_if_it_is_of_5(acting: bool | None, topics: set[str]) -> None:
    desk = Desk()
    desk.register("a", registration("orders"), broker_id=1, acting=acting)
    assert desk.topics() == topics


def test_only_the_first_replica_tells_of_topics() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), broker_id=1, acting=True)
    desk.register("a", registration("bills"), broker_id=2, acting=True)
    assert desk.topics() == {"orders"}


def test_nobody_can_write_to_what_an_acting_master_tells_of() -> None:
    desk = Desk()
    desk.register("a", registration(topic("orders", permission=7)), broker_id=1, acting=True)
    assert desk.permission("orders") == 5


def test_when_the_master_of_an_acting_pair_goes_nobody_can_write() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), acting=True)
    desk.register("a", registration("orders"), broker_id=1, acting=True)
    desk.unregister("a")
    assert desk.permission("orders") == 4
    assert desk.brokers_of("orders") == {"a": {1: "a:1"}}


def test_a_replica_stays_with_its_own_id_and_permission_when_a_plain_master_goes() -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    desk.register("a", registration("orders"), broker_id=1)
    desk.unregister("a")
    assert desk.brokers_of("orders") == {"a": {1: "a:1"}}
    assert desk.permission("orders") == 6


def test_a_stand_in_is_presented_as_the_master_if_the_name_server_does_that() -> None:
    desk = Desk(NameServerOptions(presents_acting_masters=True))
    members = "rmq_sys_SYNC_BROKER_MEMBER_a"
    for broker_id in (2, 1):
        desk.register("a", registration("orders", members), broker_id=broker_id, acting=True)
    assert desk.brokers_of("orders") == {"a": {0: "a:1", 2: "a:2"}}
    assert desk.brokers_of(members) == {"a": {1: "a:1", 2: "a:2"}}
    desk.register("a", registration("orders", members, version=2), acting=True)
    assert desk.brokers_of("orders") == {"a": {0: "a:0", 1: "a:1", 2: "a:2"}}


def test_queues_are_noted_again_only_with_a_new_version() -> None:
    desk = Desk()
    desk.register("a", registration(topic("orders", 4), "bills"))
    desk.ask(205, {"brokerName": "a"})
    desk.register("a", registration(topic("orders", 8), "bills"))
    assert desk.permission("orders") == 4
    desk.register("a", registration(topic("orders", 8), "bills", version=2))
    route = desk.route("orders")
    assert route is not None
    assert (route.queues[0].permission, route.queues[0].read_queues) == (6, 8)


def test_a_version_without_and_with_a_zero_state_is_the_same() -> None:
    desk = Desk()
    desk.register("a", registration("orders", "bills", state=None))
    desk.ask(205, {"brokerName": "a"})
    desk.register("a", registration("orders", "bills", state=0))
    assert desk.permission("orders") == 4


def test_a_topic_that_is_missing_here_is_noted_with_an_old_version_too() -> None:
    desk = Desk()
    desk.register("a", registration("orders", "bills"))
    desk.ask(216, {"topic": "orders"})
    assert desk.topics() == {"bills"}
    desk.register("a", registration("orders", "bills"))
    assert desk.topics() == {"orders", "bills"}


@pytest.mark.parametrize("drops", [True, False])
def test_a_topic_that_is_not_listed_any_more_stays_unless_configured(drops: bool) -> None:
    desk = Desk(NameServerOptions(drops_missing_topics=drops))
    desk.register("a", registration("orders", "bills", "notes"))
    desk.register("a", registration("bills", "notes", version=2))
    assert ("orders" in desk.topics()) is not drops
    desk.register("a", registration("notes", version=3))
    assert desk.topics() >= {"bills", "notes"}


def test_a_broker_that_goes_takes_its_topics_with_it() -> None:
    desk = Desk()
    desk.register("a", registration("orders", "bills"))
    desk.register("b", registration("bills"))
    assert desk.unregister("a").code == 0
    assert desk.topics() == {"bills"}
    assert desk.brokers_of("bills") == {"b": {0: "b:0"}}
    assert desk.unregister("a").code == 0
    desk.unregister("b")
    assert desk.clusters().clusters == {}


def test_another_broker_s_name_unregisters_nobody() -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    desk.unregister("b", address="a:0")
    assert desk.topics() == {"orders"}


def test_the_line_of_the_last_registration_takes_the_broker_with_it() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), peer=line(1))
    desk.register("a", registration("orders"), peer=line(2))
    desk.core.closed(line(1), desk.now_ms)
    assert desk.topics() == {"orders"}
    desk.core.closed(line(2), desk.now_ms)
    assert desk.topics() == set()


def test_a_line_takes_all_brokers_with_it_that_registered_over_it() -> None:
    desk = Desk()
    for name in "abc":
        desk.register(name, registration("orders"), peer=line(1 if name != "c" else 2))
    desk.core.closed(line(1), desk.now_ms)
    assert desk.brokers_of("orders") == {"c": {0: "c:0"}}


def test_a_silent_broker_goes_after_its_time_and_its_line_is_hung_up() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), peer=line(5))
    assert desk.later(SILENCE_MS) == []
    assert desk.topics() == {"orders"}
    (hangup,) = desk.later(1)
    assert hangup.peer == line(5)
    assert "a:0" in hangup.why
    assert desk.topics() == set()
    assert desk.core.closed(line(5), desk.now_ms) == []


def test_a_broker_may_ask_for_another_silence() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), peer=line(1), silence_ms=3_000)
    desk.register("b", registration("bills"), peer=line(2), silence_ms=-1)
    assert [hangup.peer for hangup in desk.later(3_001)] == [line(1)]
    assert desk.topics() == {"bills"}
    assert [hangup.peer for hangup in desk.later(SILENCE_MS)] == [line(2)]


def test_a_line_with_a_broker_that_is_not_silent_is_not_hung_up() -> None:
    desk = Desk()
    desk.register("a", registration("orders"), peer=line(1), silence_ms=3_000)
    desk.register("b", registration("bills"), peer=line(1))
    assert desk.later(3_001) == []
    assert desk.topics() == {"bills"}


@pytest.mark.parametrize("how", ["register", "query", "beat"])
def test_whatever_a_broker_says_shows_that_it_is_alive(how: str) -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    for _ in range(3):
        assert not desk.later(SILENCE_MS)
        if how == "register":
            desk.register("a", registration("orders"))
        elif how == "query":
            desk.ask(322, BrokerIdentity("a", "a:0", "DefaultCluster", 0), encode_body(TableVersion()))
        else:
            beat = Command(904, BrokerBeat("DefaultCluster", "a:0", "a"), flag=ONEWAY)
            assert desk.core.handle(beat, line(9), desk.now_ms) == ()
    assert desk.topics() == {"orders"}


def test_a_beat_of_a_stranger_makes_nobody() -> None:
    desk = Desk()
    assert desk.ask(904, BrokerBeat("DefaultCluster", "a:0", "a")).code == 0
    desk.register("a", registration("orders"))
    desk.later(SILENCE_MS)
    desk.ask(904, BrokerBeat("OtherCluster", "a:0", "a"))
    assert desk.later(1)


def test_a_broker_learns_whether_its_table_is_known() -> None:
    desk = Desk()
    who = BrokerIdentity("a", "a:0", "DefaultCluster", 0)
    stranger = desk.ask(322, who, encode_body(TableVersion(counter=1, timestamp=1)))
    assert (stranger.header(ChangedAnswer).changed, stranger.body) == (True, b"")
    desk.register("a", registration("orders"))
    for version, changed in ((1, False), (2, True)):
        answer = desk.ask(322, who, encode_body(TableVersion(counter=version, timestamp=1)))
        assert answer.header(ChangedAnswer).changed is changed
        assert decode_body(TableVersion, answer.body) == TableVersion(counter=1, state_version=0, timestamp=1)
    assert desk.ask(322, who).header(ChangedAnswer).changed is True


def test_a_broker_s_name_is_in_one_cluster_as_long_as_others_of_it_live() -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    answer = desk.register("a", registration("bills"), cluster="other", address="x:1")
    assert answer is not None
    assert answer.code == 29
    assert "DefaultCluster, at a:0" in (answer.remark or "")
    assert desk.clusters().clusters == {"DefaultCluster": ("a",)}
    desk.unregister("a")
    desk.register("a", registration("bills"), cluster="other", address="x:1")
    assert desk.clusters().clusters == {"other": ("a",)}


def test_a_broker_can_move_to_another_cluster() -> None:
    desk = Desk()
    desk.register("a", registration("orders"))
    desk.register("a", registration("bills"), cluster="other")
    assert desk.clusters().clusters == {"other": ("a",)}
    assert desk.topics() == {"bills"}


def test_filter_servers_are_told_with_the_route() -> None:
    desk = Desk()
    desk.register("a", registration("orders", filter_servers=("f:1", "f:2")))
    route = desk.route("orders")
    assert route is not None
    assert route.filter_servers == {"a:0": ("f:1", "f:2")}


def test_the_map_of_a_static_topic_is_told_and_goes_with_its_broker() -> None:
    desk = Desk()
    mapping = QueueMapping(broker="a", topic="static", current=ById({0: 3}), total_queues=1)
    for name in ("a", "b"):
        desk.register(name, registration("static", "orders", mappings={"static": mapping}))
    route = desk.route("static")
    assert route is not None
    assert route.mappings is not None
    assert {name: each.current[0] for name, each in route.mappings.items()} == {"a": 3, "b": 3}
    desk.unregister("a")
    route = desk.route("static")
    assert route is not None
    assert list(route.mappings or {}) == ["b"]
    plain = desk.route("orders")
    assert plain is not None
    assert plain.mappings is None


def test_the_order_of_topics_is_told_to_brokers() -> None:
    desk = Desk()
    desk.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders", "value": "a:2"})
    answer = desk.register("a", registration("orders"))
    assert answer is not None
    assert answer.body == b'{"table":{"orders":"a:2"}}'
    desk.ask(318, body=b"returnOrderTopicConfigToBroker=false")
    answer = desk.register("a", registration("orders"))
    assert answer is not None
    assert answer.body == b""
