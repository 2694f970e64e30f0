"""Our members with real brokers in a simulated world: they rebalance, survive faults, and are deterministic."""

from collections import Counter

import pytest

from simulator.facts import (
    AssignmentPlanned,
    HandlerEnded,
    HandlerStarted,
    ProcessGone,
    ProcessStarted,
    QueueStateChanged,
    RebalanceBegan,
)
from steelyard.balance.group.options import ConsumeMode
from steelyard.model import Queue, StoredMessage
from tests.simulator.cluster import GROUP, TOPIC, Cluster


def test_three_members_share_the_queues_and_handle_each_message_once() -> None:
    cluster = Cluster(queues=6)
    members = [cluster.member(number) for number in range(1, 4)]
    cluster.run(3_000)
    sent = cluster.put(60)
    cluster.run(3_000)
    owners = cluster.owners(*members)
    assert all(len(each) == 1 for each in owners.values()), owners
    assert sorted(Counter(name for each in owners.values() for name in each).values()) == [2, 2, 2]
    assert sorted(cluster.started()) == sorted(sent)
    assert sorted(cluster.ended()) == sorted(sent)


def test_a_member_records_its_rebalances_and_queue_states() -> None:
    cluster = Cluster(queues=2)
    member = cluster.member(1)
    cluster.run(3_000)
    (joined,) = (
        fact for fact in cluster.world.journal.facts if isinstance(fact, ProcessStarted) and fact.kind == "ours"
    )
    assert (joined.member, joined.group, joined.mode, joined.topics) == (member.name, GROUP, "concurrent", (TOPIC,))
    assert cluster.facts(RebalanceBegan)
    assert cluster.facts(AssignmentPlanned)
    moves = cluster.states_of(member, Queue(TOPIC, "broker-0", 0))
    assert moves == ["WANTED", "STARTING", "OWNED"]
    for fact in cluster.facts(QueueStateChanged):
        assert isinstance(fact, QueueStateChanged)
        assert fact.before != fact.after


def test_what_a_leaver_had_goes_on_without_a_message_twice() -> None:
    cluster = Cluster(queues=4)
    first, second = cluster.member(1), cluster.member(2)
    cluster.run(3_000)
    sent = cluster.put(80)
    cluster.run(50)
    first.leave()
    cluster.run(4_000)
    sent += cluster.put(20)
    cluster.run(3_000)
    assert not first.is_alive
    assert [fact.how for fact in cluster.facts(ProcessGone) if isinstance(fact, ProcessGone)] == ["left"]
    assert all(each == [second.name] for each in cluster.owners(first, second).values())
    assert sorted(cluster.started()) == sorted(sent)


def test_a_leaving_member_unregisters() -> None:
    cluster = Cluster()
    member = cluster.member(1)
    cluster.run(3_000)
    member.leave()
    cluster.run(2_000)
    core = cluster.brokers[0].broker
    assert core is not None
    assert core.state.consumers.group(GROUP) is None


def test_queues_of_a_killed_member_move_soon_and_nothing_is_lost() -> None:
    cluster = Cluster(queues=4)
    first, second = cluster.member(1), cluster.member(2)
    cluster.run(3_000)
    sent = cluster.put(40)
    cluster.run(20)
    first.kill()
    cluster.run(1_500)
    assert all(each == [second.name] for each in cluster.owners(first, second).values())
    cluster.run(3_000)
    assert set(cluster.ended()) == set(sent)
    assert not any(
        isinstance(fact, HandlerEnded) and fact.member == first.name and fact.at_ms > 4_100
        for fact in cluster.facts(HandlerEnded)
    )


def test_a_connection_that_is_back_at_once_moves_nothing() -> None:
    cluster = Cluster(queues=4)
    first, second = cluster.member(1), cluster.member(2)
    cluster.run(3_000)
    before = cluster.owners(first, second)
    sent = cluster.put(40)
    cluster.run(30)
    (connection,) = (each for each in first.connections.values() if each.peer_name == "broker-0")
    connection.notify_closed()
    cluster.run(4_000)
    assert cluster.owners(first, second) == before
    assert sorted(cluster.started()) == sorted(sent)


def test_a_dead_name_server_is_passed_by() -> None:
    cluster = Cluster(name_servers=2)
    cluster.names[0].kill()
    member = cluster.member(1)
    cluster.run(3_000)
    assert all(each == [member.name] for each in cluster.owners(member).values())


def test_a_name_server_that_says_nothing_is_passed_by() -> None:
    cluster = Cluster(name_servers=2)
    cluster.names[0].pause()
    member = cluster.member(1)
    cluster.run(10_000)
    assert all(each == [member.name] for each in cluster.owners(member).values())


def test_without_any_name_server_a_member_waits_until_there_is_one() -> None:
    cluster = Cluster()
    cluster.names[0].kill()
    member = cluster.member(1)
    cluster.run(10_000)
    assert not member.member.assignment()
    cluster.names[0].restart()
    cluster.run(45_000)
    assert all(each == [member.name] for each in cluster.owners(member).values())


def test_a_broker_that_starts_again_is_found_again_and_nothing_moves() -> None:
    cluster = Cluster(queues=4)
    first, second = cluster.member(1), cluster.member(2)
    cluster.run(3_000)
    before = cluster.owners(first, second)
    sent = cluster.put(20)
    cluster.run(2_500)
    cluster.brokers[0].crash()
    cluster.run(300)
    cluster.brokers[0].restart()
    cluster.run(6_000)
    sent += cluster.put(20)
    cluster.run(3_000)
    assert cluster.owners(first, second) == before
    assert set(cluster.ended()) == set(sent)


def test_handlers_that_were_paused_end_late_and_those_of_the_dead_never() -> None:
    cluster = Cluster(queues=1)
    member = cluster.member(1, work=lambda _message, _attempt: (500, True))
    cluster.run(3_000)
    cluster.put(1)
    cluster.run(200)
    assert len(cluster.started()) == 1
    member.pause()
    cluster.run(2_000)
    assert not cluster.ended()
    member.resume()
    assert len(cluster.ended()) == 1
    cluster.put(1)
    cluster.run(200)
    assert len(cluster.started()) == 2
    member.kill()
    cluster.run(2_000)
    assert len(cluster.ended()) == 1


def test_a_failed_message_comes_again() -> None:
    cluster = Cluster(queues=1)
    tries: list[tuple[str, int]] = []

    def fails_once(message: StoredMessage, _attempt: int) -> tuple[int, bool]:
        tries.append((message.topic, message.reconsume_times))
        return 5, message.reconsume_times > 0

    cluster.member(1, work=fails_once)
    cluster.run(3_000)
    cluster.put(1)
    cluster.run(15_000)
    assert tries == [(TOPIC, 0), (f"%RETRY%{GROUP}", 1)]


def test_an_orderly_group_handles_each_queue_in_order_while_members_come_and_go() -> None:
    cluster = Cluster(queues=3)
    first = cluster.member(1, mode=ConsumeMode.ORDERLY)
    cluster.run(3_000)
    sent = cluster.put(60)
    second = cluster.member(2, mode=ConsumeMode.ORDERLY)
    cluster.run(5_000)
    sent += cluster.put(30)
    cluster.run(1_000)
    first.leave()
    cluster.run(5_000)
    offsets: dict[Queue, list[int]] = {}
    for fact in cluster.facts(HandlerStarted):
        assert isinstance(fact, HandlerStarted)
        offsets.setdefault(fact.queue, []).append(fact.offset)
    assert sorted(cluster.started()) == sorted(sent)
    assert all(each == sorted(each) for each in offsets.values())
    assert all(each == [second.name] for each in cluster.owners(first, second).values())


def test_everybody_in_a_broadcasting_group_gets_everything_and_goes_on_where_it_was() -> None:
    cluster = Cluster(queues=2)
    kept: dict[Queue, int] = {}
    first, second = (
        cluster.member(1, mode=ConsumeMode.BROADCAST, offsets=kept),
        cluster.member(2, mode=ConsumeMode.BROADCAST),
    )
    cluster.run(2_000)
    cluster.put(10)
    cluster.run(3_000)
    assert Counter(cluster.started()) == Counter({f"p1-{number}": 2 for number in range(10)})
    assert kept == dict.fromkeys(cluster.queues, 5)
    first.leave()
    second.kill()
    cluster.run(1_000)
    cluster.put(4)
    cluster.member(3, mode=ConsumeMode.BROADCAST, offsets=kept)
    cluster.run(3_000)
    assert sorted(cluster.started()[20:]) == ["p1-10", "p1-11", "p1-12", "p1-13"]


def test_a_chunk_is_handled_one_after_the_other_by_one_handler() -> None:
    cluster = Cluster(queues=1)
    cluster.member(1, handlers=1, chunk=4)
    cluster.run(3_000)
    sent = cluster.put(12)
    cluster.run(2_000)
    assert cluster.ended() == sent
    running = 0
    for fact in cluster.world.journal.facts:
        running += isinstance(fact, HandlerStarted) - isinstance(fact, HandlerEnded)
        assert running <= 1


def test_a_half_dead_connection_is_closed_and_replaced() -> None:
    cluster = Cluster(queues=2)
    member = cluster.member(1)
    cluster.run(3_000)
    (connection,) = (each for each in member.connections.values() if each.peer_name == "broker-0")
    assert connection.outgoing is not None
    connection.outgoing.jam()
    cluster.run(15_000)
    assert connection.is_closed
    sent = cluster.put(4)
    cluster.run(3_000)
    assert sorted(cluster.started()) == sorted(sent)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_is_the_same_history(seed: int) -> None:
    def digest() -> str:
        cluster = Cluster(seed, brokers=2, queues=3)
        first = cluster.member(1)
        cluster.member(2)
        cluster.run(2_000)
        cluster.put(50)
        cluster.run(500)
        first.kill()
        cluster.member(3)
        cluster.run(3_000)
        return cluster.world.journal.digest()

    assert digest() == digest()
