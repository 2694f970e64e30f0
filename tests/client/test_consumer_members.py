"""Members share the queues of a group, hand them over with nothing handled twice, and take over from one that died."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from steelyard.client.consumer.notifications import Rebalanced
from steelyard.client.consumer.options import ConsumerSettings
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.consumer import Consumer
from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen, fill, make_topic, put
from tests.waiting import until

_BROKERS = ("broker-0", "broker-1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster of two brokers for all."""
    with Cluster(brokers=2) as running:
        yield running


def _own(consumer: Consumer, topic: str) -> set[Queue]:
    return {queue for queue in consumer.assignment if queue.topic == topic}


def _are_shared(topic: str, queues: int, *consumers: Consumer) -> bool:
    """Say whether each queue has one owner, and everybody an equal share."""
    owned = [_own(consumer, topic) for consumer in consumers]
    sizes = [len(mine) for mine in owned]
    return sum(sizes) == len(set().union(*owned)) == queues and max(sizes) - min(sizes) <= 1


def _known_of(consumer: Consumer, other: Consumer) -> set[Queue]:
    others = consumer.explain().others or {}
    return {queue for queue in others.get(other.id, ()) if not queue.topic.startswith("%RETRY%")}


def _wait_until_shared(topic: str, *consumers: Consumer) -> None:
    until(lambda: _are_shared(topic, 8, *consumers), "sharing")


def _wait_for_length(things: list[int], count: int) -> None:
    until(lambda: len(things) == count, "handling")


def _member(cluster: Cluster, topic: str, seen: Seen) -> Consumer:
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from="first")
    consumer.handles(topic)(seen.record_message)
    return consumer


def test_two_members_share_and_each_message_is_handled_once(cluster: Cluster) -> None:
    make_topic(cluster, "shared", queues=4)
    seen = Seen()
    with _member(cluster, "shared", seen) as one, _member(cluster, "shared", seen) as two:
        until(lambda: _are_shared("shared", 8, one, two), "sharing")
        bodies = fill(cluster, "shared", 200, brokers=_BROKERS)
        seen.wait(bodies)
        assert one.id != two.id
        assert "2 members, strategy STICKY" in str(one.explain())
        until(lambda: _known_of(one, two) == _own(two, "shared"), "knowing what the other has")
        assert f"{two.id} has " in str(one.explain())
    assert seen.counts() == dict.fromkeys(bodies, 1)


def test_a_member_has_the_weight_that_its_name_was_given(cluster: Cluster) -> None:
    make_topic(cluster, "weighed", queues=4)
    weights = ConsumerSettings(strategy_options={"weights": {"large": 3}})
    one = Consumer(cluster.namesrv, group="weighed-group", name="large", **weights)
    two = Consumer(cluster.namesrv, group="weighed-group", **weights)
    for consumer in (one, two):
        consumer.handles("weighed")(lambda _: None)
    with one, two:
        until(lambda: [len(_own(each, "weighed")) for each in (one, two)] == [6, 2], "sharing by weight")


def test_a_member_that_a_table_of_machine_rooms_does_not_have_does_not_start(cluster: Cluster) -> None:
    make_topic(cluster, "roomed", queues=4)
    consumer = Consumer(
        cluster.namesrv,
        group="roomed-group",
        strategy="machine-room-nearby",
        strategy_options={"member_rooms": {"till-1": "east"}},
    )
    consumer.handles("roomed")(lambda _: None)
    with pytest.raises(
        ConfigurationError, match="no entry for this member, which has no name; give name=, one of till-1"
    ):
        consumer.start()


def test_who_joins_moves_only_its_share_and_callbacks_tell(cluster: Cluster) -> None:
    make_topic(cluster, "joined", queues=4)
    seen, moves = Seen(), list[Rebalanced]()
    one = _member(cluster, "joined", seen)
    one.on_rebalance(moves.append)
    with one:
        until(lambda: len(_own(one, "joined")) == 8, "owning all")
        before = _own(one, "joined")
        with _member(cluster, "joined", seen) as two:
            until(lambda: _are_shared("joined", 8, one, two), "sharing")
            assert _own(one, "joined") | _own(two, "joined") == before
            until(lambda: sum(len(_of(move.released, "joined")) for move in moves) == 4, "hearing of it")
        until(lambda: _own(one, "joined") == before, "taking back what the leaver had")
    assert not [queue for move in moves for queue in move.lost]
    assert all(move.id == one.id for move in moves)


def _of(queues: tuple[Queue, ...], topic: str) -> list[Queue]:
    return [queue for queue in queues if queue.topic == topic]


def test_planned_changes_handle_nothing_twice_and_lose_nothing(cluster: Cluster) -> None:
    make_topic(cluster, "churned", queues=4)
    seen, stop, sent = Seen(), threading.Event(), list[bytes]()

    def produce() -> None:
        number = 0
        while not stop.is_set():
            bodies = [b"churned-%d" % (number + step) for step in range(20)]
            broker = _BROKERS[number // 20 % 2]
            put(cluster, "churned", number // 40 % 4, bodies, broker=broker)
            sent.extend(bodies)
            number += 20

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        with _member(cluster, "churned", seen) as stays:
            for _ in range(4):
                joins = [_member(cluster, "churned", seen) for _ in range(2)]
                for consumer in joins:
                    consumer.start()
                _wait_until_shared("churned", stays, *joins)
                for consumer in joins:
                    consumer.stop()
            stop.set()
            producer.join()
            seen.wait(sent)
    finally:
        stop.set()
        producer.join()
    assert seen.counts() == dict.fromkeys(sent, 1)


def test_a_member_that_dies_is_replaced_and_nothing_is_lost(cluster: Cluster) -> None:
    make_topic(cluster, "orphaned", queues=4)
    seen = Seen()
    survivor, victim = _member(cluster, "orphaned", seen), _member(cluster, "orphaned", seen)
    with survivor:
        victim.start()
        until(lambda: _are_shared("orphaned", 8, survivor, victim), "sharing")
        bodies = fill(cluster, "orphaned", 100, brokers=_BROKERS)
        seen.wait(bodies)
        # As a crash does: no goodbye, and its connections are gone.
        victim._ensure_open().call(victim._client._session.abort)
        until(lambda: len(_own(survivor, "orphaned")) == 8, "taking over")
        bodies += (more := [b"after-%d" % number for number in range(40)])
        put(cluster, "orphaned", 1, more)
        seen.wait(bodies)
        for _ in range(2):
            victim.interrupt()
        victim.close()


def test_an_orderly_group_keeps_the_order_of_each_queue_one_at_a_time(cluster: Cluster) -> None:
    make_topic(cluster, "ordered", queues=2)
    lock, running, overlaps = threading.Lock(), set[Queue](), list[Queue]()
    seen, members = Seen(), list[Consumer]()

    def handle(message: ReceivedMessage) -> None:
        with lock:
            if message.queue in running:
                overlaps.append(message.queue)
            running.add(message.queue)
        seen.record_message(message)
        with lock:
            running.discard(message.queue)

    for _ in range(3):
        consumer = Consumer(cluster.namesrv, group="ordered-group", start_from="first")
        consumer.handles("ordered", orderly=True)(handle)
        members.append(consumer)
    bodies: list[bytes] = []
    try:
        for turn, consumer in enumerate(members):
            consumer.start()
            bodies += _fill_more(cluster, "ordered", turn)
        seen.wait(bodies)
        until(lambda: _are_shared("ordered", 4, *members), "sharing")
        members[0].stop()
        bodies += _fill_more(cluster, "ordered", 3)
        seen.wait(bodies)
    finally:
        for consumer in members:
            consumer.stop()
    assert not overlaps
    assert seen.counts() == dict.fromkeys(bodies, 1)
    by_queue: dict[Queue, list[int]] = {}
    for message in seen.messages:
        by_queue.setdefault(message.queue, []).append(message.offset)
    assert all(first < second for offsets in by_queue.values() for first, second in pairwise(offsets))


def _fill_more(cluster: Cluster, topic: str, turn: int) -> list[bytes]:
    """Store some messages in each queue of two."""
    stored = []
    for broker in _BROKERS:
        for queue_id in range(2):
            bodies = [f"{turn}-{broker}-{queue_id}-{number}".encode() for number in range(50)]
            put(cluster, topic, queue_id, bodies, broker=broker)
            stored += bodies
    return stored


def test_a_failed_message_of_an_orderly_queue_is_tried_again_before_those_behind_it(cluster: Cluster) -> None:
    make_topic(cluster, "halting", queues=1)
    bodies = [b"%d" % number for number in range(6)]
    put(cluster, "halting", 0, bodies)
    tried, attempts = Seen(), list[int]()
    consumer = Consumer(cluster.namesrv, group="halting-group", start_from="first")

    @consumer.handles("halting", orderly=True)
    def handle(message: ReceivedMessage) -> None:
        tried.record_message(message)
        if message.body == b"2":
            attempts.append(message.attempt)
            if message.attempt < 3:
                raise ValueError("not yet")

    with consumer:
        tried.wait(bodies)
    assert tried.bodies == [b"0", b"1", b"2", b"2", b"2", b"3", b"4", b"5"]
    assert attempts == [1, 2, 3]


def test_a_fence_grows_with_each_owner(cluster: Cluster) -> None:
    make_topic(cluster, "fenced", queues=1)
    fences: list[int] = []
    for turn in range(2):
        put(cluster, "fenced", 0, [b"%d" % turn])
        consumer = Consumer(cluster.namesrv, group="fenced-group", start_from="first")

        @consumer.handles("fenced", orderly=True)
        def handle(message: ReceivedMessage) -> None:
            assert message.fence is not None
            fences.append(message.fence)

        with consumer:
            _wait_for_length(fences, turn + 1)
    assert fences[0] < fences[1]
