"""Producers: known by group for check-backs, in turn, and by id for replies."""

from tests.broker.client import Client
from tests.broker.desk import Desk

from steelyard.broker.producers import Producer, Producers
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ProducerConnections, ProducerTable
from steelyard.wire.codes import RequestCode as Code
from steelyard.wire.headers.admin import ProducerGroup
from steelyard.wire.peers import Peer

LINES = [Peer.at("10.0.0.1", 1_000 + number, number=number) for number in range(4)]


def table(*numbers: int, group: str = "pg") -> Producers:
    """Register producers on these lines."""
    producers = Producers()
    for number in numbers:
        producers.heard(group, producer(number))
    return producers


def producer(number: int, seen_ms: int = 0) -> Producer:
    return Producer(f"p{number}", LINES[number], "JAVA", 513, seen_ms)


def test_lines_of_a_group_take_turns() -> None:
    producers = table(2, 0, 1)
    assert [producers.next_of("pg") for _ in range(5)] == [LINES[0], LINES[1], LINES[2], LINES[0], LINES[1]]
    producers.closed(LINES[2])
    assert [producers.next_of("pg") for _ in range(2)] == [LINES[0], LINES[1]]
    assert producers.next_of("nobody") is None


def test_a_closed_line_and_a_goodbye_leave_nothing_behind() -> None:
    producers = table(0, 1)
    producers.speaks("p0", LINES[0])
    producers.closed(LINES[0])
    producers.leave("pg", LINES[1])
    producers.leave("pg", LINES[1])
    assert (list(producers.groups()), producers.by_id("p0"), producers.next_of("pg")) == ([], None, None)


def test_a_client_is_found_by_its_newest_line() -> None:
    producers = Producers()
    for line in (LINES[0], LINES[2], LINES[1]):
        producers.speaks("c1", line)
    assert producers.by_id("c1") == LINES[2]
    producers.closed(LINES[2])
    assert producers.by_id("c1") == LINES[1]
    producers.speaks("c2", LINES[1])
    assert (producers.by_id("c1"), producers.by_id("c2")) == (LINES[0], LINES[1])


def test_a_group_that_is_no_longer_spoken_of_grows_old_by_itself() -> None:
    producers = Producers()
    producers.heard("old", producer(0, seen_ms=0))
    producers.heard("new", producer(0, seen_ms=100))
    producers.expire(50)
    assert list(producers.groups()) == ["new"]


def test_producers_are_listed_and_the_inner_ones_too() -> None:
    desk = Desk()
    client = Client(desk, "c1", ours=False)
    client.producers = ("pg", "CLIENT_INNER_PRODUCER")
    client.beat()
    answer = desk.ask(Code.GET_PRODUCER_CONNECTION_LIST, ProducerGroup(producer_group="pg"))
    (line,) = decode_body(ProducerConnections, answer.body).connections
    assert (line.client_id, line.client_address, line.language) == ("c1", client.line.address, "JAVA")
    everybody = decode_body(ProducerTable, desk.ask(Code.GET_ALL_PRODUCER_INFO).body).groups
    assert set(everybody) == {"pg", "CLIENT_INNER_PRODUCER"}
    assert everybody["pg"][0].seen_ms == desk.now_ms
    assert desk.state.producers.by_id("c1") == client.line


def test_a_producer_leaves_by_goodbye_by_its_line_and_by_silence() -> None:
    desk = Desk()
    clients = [Client(desk, f"c{number}", ours=False) for number in range(3)]
    for client in clients:
        client.producers = ("pg",)
        client.beat()
    clients[0].ask(Code.UNREGISTER_CLIENT, {"clientID": "c0", "producerGroup": "pg"})
    clients[1].close()
    assert [each.id for each in desk.state.producers.of("pg")] == ["c2"]
    desk.advance(121_000, step_ms=500)
    answer = desk.ask(Code.GET_PRODUCER_CONNECTION_LIST, ProducerGroup(producer_group="pg"))
    assert (answer.code, answer.remark) == (1, "the producer group[pg] not exist")
