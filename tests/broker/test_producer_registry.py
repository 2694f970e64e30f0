"""Producers: known by group for check-backs, in turn, and by id for replies."""

from steelyard.broker.producer_registry import ProducerRegistry, RegisteredProducer
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.command import Peer
from steelyard.wire.headers.admin import GetProducerConnections
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_consumer import FakeConsumer

LINES = [Peer.at("10.0.0.1", 1_000 + number, connection_id=number) for number in range(4)]


def table(*numbers: int, group: str = "pg") -> ProducerRegistry:
    """Register producers on these connections."""
    producers = ProducerRegistry()
    for number in numbers:
        producers.register(group, producer(number))
    return producers


def producer(number: int, seen_ms: int = 0) -> RegisteredProducer:
    return RegisteredProducer(f"p{number}", LINES[number], "JAVA", 513, seen_ms)


def test_connections_of_a_group_take_turns() -> None:
    producers = table(2, 0, 1)
    assert [producers.next_connection("pg") for _ in range(5)] == [LINES[0], LINES[1], LINES[2], LINES[0], LINES[1]]
    producers.connection_closed(LINES[2])
    assert [producers.next_connection("pg") for _ in range(2)] == [LINES[0], LINES[1]]
    assert producers.next_connection("nobody") is None


def test_a_closed_connection_and_an_unregistration_leave_nothing_behind() -> None:
    producers = table(0, 1)
    producers.record_client("p0", LINES[0])
    producers.connection_closed(LINES[0])
    producers.unregister("pg", LINES[1])
    producers.unregister("pg", LINES[1])
    assert (list(producers.group_names()), producers.connection_of("p0"), producers.next_connection("pg")) == (
        [],
        None,
        None,
    )


def test_a_client_is_found_by_its_newest_connection() -> None:
    producers = ProducerRegistry()
    for peer in (LINES[0], LINES[2], LINES[1]):
        producers.record_client("c1", peer)
    assert producers.connection_of("c1") == LINES[2]
    producers.connection_closed(LINES[2])
    assert producers.connection_of("c1") == LINES[1]
    producers.record_client("c2", LINES[1])
    assert (producers.connection_of("c1"), producers.connection_of("c2")) == (LINES[0], LINES[1])


def test_a_group_that_is_no_longer_spoken_of_grows_old_by_itself() -> None:
    producers = ProducerRegistry()
    producers.register("old", producer(0, seen_ms=0))
    producers.register("new", producer(0, seen_ms=100))
    producers.expire(50)
    assert list(producers.group_names()) == ["new"]


def test_producers_are_listed_and_the_inner_ones_too() -> None:
    harness = BrokerHarness()
    client = FakeConsumer(harness, "c1", ours=False)
    client.producers = ("pg", "CLIENT_INNER_PRODUCER")
    client.heartbeat()
    answer = harness.request(Code.GET_PRODUCER_CONNECTION_LIST, GetProducerConnections(producer_group="pg"))
    (peer,) = decode_body(ProducerConnections, answer.body).connections
    assert (peer.client_id, peer.client_address, peer.language) == ("c1", client.connection.address, "JAVA")
    everybody = decode_body(ProducerTable, harness.request(Code.GET_ALL_PRODUCER_INFO).body).groups
    assert set(everybody) == {"pg", "CLIENT_INNER_PRODUCER"}
    assert everybody["pg"][0].seen_ms == harness.now_ms
    assert harness.state.producers.connection_of("c1") == client.connection


def test_a_producer_leaves_by_unregistration_by_its_connection_and_by_silence() -> None:
    harness = BrokerHarness()
    clients = [FakeConsumer(harness, f"c{number}", ours=False) for number in range(3)]
    for client in clients:
        client.producers = ("pg",)
        client.heartbeat()
    clients[0].request(Code.UNREGISTER_CLIENT, {"clientID": "c0", "producerGroup": "pg"})
    clients[1].close()
    assert [each.id for each in harness.state.producers.in_group("pg")] == ["c2"]
    harness.advance(121_000, step_ms=500)
    answer = harness.request(Code.GET_PRODUCER_CONNECTION_LIST, GetProducerConnections(producer_group="pg"))
    assert (answer.code, answer.remark) == (1, "the producer group[pg] not exist")
