"""40: members are told of every change of their group, soon, and not more often than needed."""

from msgspec import structs
from tests.broker.client import GROUP, Client, ids, wants
from tests.broker.desk import Desk

from steelyard.broker.options import BrokerOptions
from steelyard.wire.bodies.heartbeat import MessageModel

GAP_MS = BrokerOptions().notice_gap_ms


def crowd(desk: Desk, count: int, *, ours: bool = True) -> list[Client]:
    """Let some members join, and time pass until they have heard of it."""
    clients = [Client(desk, f"c{number}", ours=ours) for number in range(count)]
    for client in clients:
        client.beat()
    desk.advance(1_000)
    for client in clients:
        client.notices()
    return clients


def test_a_join_is_told_at_once_to_all_and_to_the_one_that_joined() -> None:
    desk = Desk()
    (first,) = crowd(desk, 1)
    second = Client(desk, "second")
    second.beat()
    assert (first.notices(), second.notices()) == (1, 1)


def test_a_heartbeat_that_changes_nothing_tells_nobody() -> None:
    desk = Desk()
    first, second = crowd(desk, 2)
    for _ in range(5):
        first.beat()
        second.beat(wants(version=9))  # a newer version, the same topics
        desk.advance(1_000)
    assert (first.notices(), second.notices()) == (0, 0)


def test_a_goodbye_is_told_at_once_to_those_who_stay() -> None:
    desk = Desk()
    first, second = crowd(desk, 2)
    first.leave()
    assert (first.notices(), second.notices()) == (0, 1)


def test_a_closed_line_is_told_after_the_grace() -> None:
    desk = Desk()
    first, second = crowd(desk, 2)
    first.close()
    desk.advance(200)
    assert second.notices() == 0
    desk.advance(100)
    assert second.notices() == 1


def test_a_member_that_wants_another_topic_or_begins_to_leave_is_a_change() -> None:
    desk = Desk()
    first, second = crowd(desk, 2)
    first.beat(wants(), wants("refunds"))
    assert second.notices() == 1
    desk.advance(GAP_MS)
    first.beat(wants())
    assert second.notices() == 1
    desk.advance(GAP_MS)
    first.beat(leaving=True)
    assert second.notices() == 1
    desk.advance(GAP_MS)
    first.beat(leaving=True)
    desk.advance(1_000)
    assert second.notices() == 0


def test_other_queues_of_a_topic_that_is_wanted_are_a_change() -> None:
    desk = Desk()
    (client,) = crowd(desk, 1)
    seed = desk.state.topics.own("unrelated", desk.now_ms).settings
    told = []
    for queues in (4, 6, 6):
        desk.state.topics.put(structs.replace(seed, name="orders", read_queues=queues), desk.now_ms)
        desk.advance(600)
        told.append(client.notices())
    assert told == [1, 1, 0]
    desk.state.topics.own("also-unrelated", desk.now_ms)
    desk.advance(600)
    assert client.notices() == 0


def test_a_storm_costs_few_notices_and_the_last_change_is_never_lost() -> None:
    desk = Desk()
    (first,) = crowd(desk, 1)
    for number in range(50):
        Client(desk, f"new-{number}").beat()
        desk.advance(10, step_ms=10)
    desk.advance(GAP_MS)
    assert 5 <= first.notices() <= 7
    assert len(ids(desk)) == 51
    desk.advance(10_000)
    assert first.notices() == 0
    Client(desk, "late-1").beat()
    Client(desk, "late-2").beat()
    assert first.notices() == 1
    desk.advance(GAP_MS)
    assert first.notices() == 1


def test_nobody_is_told_in_a_broadcasting_group() -> None:
    desk = Desk()
    clients = [Client(desk, f"c{n}", ours=False, model=MessageModel.BROADCASTING) for n in range(2)]
    for client in clients:
        client.beat()
    clients[0].close()
    desk.advance(1_000)
    assert [client.notices() for client in clients] == [0, 0]


def test_the_switches_of_group_and_broker_are_obeyed() -> None:
    for options, group_tells in ((BrokerOptions(notices=False), True), (BrokerOptions(), False)):
        desk = Desk(options)
        settings = desk.state.groups.known(GROUP, desk.now_ms)
        desk.state.groups.put(structs.replace(settings, notices_enabled=group_tells), desk.now_ms)
        clients = [Client(desk, f"c{number}", ours=False) for number in range(3)]
        for client in clients:
            client.beat()
        clients[1].leave()
        clients[2].close()
        desk.advance(1_000)
        assert clients[0].notices() == 0


def test_both_lines_of_one_java_id_are_told() -> None:
    desk = Desk()
    first, second = Client(desk, "c1", ours=False), Client(desk, "c1", ours=False)
    first.beat()
    second.beat()
    desk.advance(1_000)
    assert first.notices() == 1
    Client(desk, "c2").beat()
    assert (first.notices(), second.notices()) == (1, 1)
