"""Handlers get every message of their topics: in threads or on the loop, one by one or in batches, filtered or not."""

import threading
import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import Literal

import pytest

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from tests.live.clusters import Live, until
from tests.live.handled import Handled, owned, send_all

NUMBERS = [str(number) for number in range(60)]


def test_a_group_handles_each_message_once(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled)
    send_all(producer, topic, NUMBERS[:30])
    with consumer:
        handled.wait(30)
        send_all(producer, topic, NUMBERS[30:])
        handled.wait(60)
    assert sorted(handled.bodies, key=int) == NUMBERS
    assert {message.topic for message in handled.messages} == {topic}


def test_what_was_handled_is_committed_at_the_end(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    first, second = Handled(), Handled()
    send_all(producer, topic, NUMBERS)
    for handled in (first, second):
        consumer = Consumer(cluster.namesrv, group=group, start_from="first")
        consumer.handles(topic)(handled)
        with consumer:
            if handled is second:
                producer.send(Message(topic, b"last"))
            handled.wait(60 if handled is first else 1)
    assert second.bodies == ["last"]
    assert sum(row.lag for row in admin.offsets.list(group, topic)) == 0


def test_a_handler_on_the_loop(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(handled.later)
    send_all(producer, topic, NUMBERS)
    with consumer:
        handled.wait(60)
    assert sorted(handled.bodies, key=int) == NUMBERS


def test_a_handler_of_batches_gets_lists(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    handled, sizes = Handled(), []
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic, batch=8)
    def handle(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        for message in messages:
            handled(message)

    producer.send_many([Message(topic, body.encode()) for body in NUMBERS], key="one")
    with consumer:
        handled.wait(60)
    assert sorted(handled.bodies, key=int) == NUMBERS
    assert max(sizes) == 8


def test_an_orderly_handler_keeps_the_order_of_each_queue(
    cluster: Live, producer: Producer, topic: str, group: str
) -> None:
    handled, overlaps = Handled(), []
    busy: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")

    @consumer.handles(topic, orderly=True)
    def handle(message: ReceivedMessage) -> None:
        lock = busy[message.queue]
        if not lock.acquire(blocking=False):
            overlaps.append(message)
            return
        time.sleep(0.001)
        handled(message)
        lock.release()

    for number in range(20):
        for key in "abc":
            producer.send(Message(topic, f"{key}{number}".encode()), key=key)
    with consumer:
        handled.wait(60)
    for key in "abc":
        assert [body for body in handled.bodies if body[0] == key] == [f"{key}{number}" for number in range(20)]
    assert not overlaps


def test_tags_choose(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic, tags="paid || refunded")(handled)
    send_all(producer, topic, ["a", "b"], tags="paid")
    send_all(producer, topic, ["c"], tags="open")
    send_all(producer, topic, ["d"])
    send_all(producer, topic, ["e"], tags="refunded")
    with consumer:
        handled.wait(3)
        send_all(producer, topic, ["f"], tags="open")
        send_all(producer, topic, ["g"], tags="paid")
        handled.wait(4)
    assert sorted(handled.bodies) == ["a", "b", "e", "g"]


def test_conditions_choose(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    handled = Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic, sql="amount > 10 AND region IN ('eu', 'us')")(handled)
    for amount in (5, 11, 20):
        for region in ("eu", "cn"):
            body = f"{region}{amount}".encode()
            producer.send(Message(topic, body, properties={"amount": str(amount), "region": region}))
    with consumer:
        handled.wait(2)
        producer.send(Message(topic, b"no", properties={"region": "us"}))
        producer.send(Message(topic, b"us30", properties={"amount": "30", "region": "us"}))
        handled.wait(3)
    assert sorted(handled.bodies) == ["eu11", "eu20", "us30"]


def test_two_topics_of_one_consumer_have_a_handler_each(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    other = f"{topic}-other"
    admin.topics.create(other, 2)
    orders, bills = Handled(), Handled()
    consumer = Consumer(cluster.namesrv, group=group, start_from="first")
    consumer.handles(topic)(orders)
    consumer.handles(other, tags="x")(bills)
    send_all(producer, topic, ["a"])
    send_all(producer, other, ["b"], tags="x")
    with consumer:
        orders.wait(1)
        bills.wait(1)
    assert (orders.bodies, bills.bodies) == (["a"], ["b"])


@pytest.mark.parametrize("on_loop", [False, True], ids=["in a thread", "on the loop"])
def test_every_member_gets_everything_that_is_broadcast(
    cluster: Live,
    producer: Producer,
    topic: str,
    group: str,
    tmp_path_factory: pytest.TempPathFactory,
    *,
    on_loop: bool,
) -> None:
    places = [tmp_path_factory.mktemp("offsets") for _ in range(2)]
    before, after = Handled(), Handled()
    others = Handled()

    def member(handled: Handled, place: int) -> Consumer:
        consumer = Consumer(
            cluster.namesrv, group=group, mode="broadcast", start_from="first", offsets_dir=places[place]
        )
        consumer.handles(topic)(handled.later if on_loop else handled)
        return consumer

    send_all(producer, topic, NUMBERS)
    with member(before, 0), member(others, 1):
        before.wait(60)
        others.wait(60)
    send_all(producer, topic, ["new"])
    with member(after, 0):
        after.wait(1)
    assert sorted(before.bodies, key=int) == sorted(others.bodies, key=int) == NUMBERS
    assert after.bodies == ["new"], "where a member stopped is in its file"


def test_a_new_group_starts_where_it_is_told(
    cluster: Live, producer: Producer, admin: Admin, topic: str, group: str
) -> None:
    send_all(producer, topic, ["old"] * 8)
    until(
        lambda: datetime.now(UTC) > max(each.stored_at for each in admin.messages.list(topic)), "a millisecond passes"
    )
    between = datetime.now(UTC)
    send_all(producer, topic, ["new"] * 8)

    def read_from(name: str, start_from: Literal["first", "last"] | datetime) -> Handled:
        handled = Handled()
        consumer = Consumer(cluster.namesrv, group=f"{group}-{name}", start_from=start_from)
        consumer.handles(topic)(handled)
        with consumer:
            until(lambda: len(owned(consumer, topic)) == 8, "it has all queues")
            # A queue is its own from here on; what comes now is after the end that it looked for.
            send_all(producer, topic, [name] * 8)
            handled.wait(lambda so_far: so_far.bodies.count(name) == 8)
        return handled

    first, last, timed = read_from("first", "first"), read_from("last", "last"), read_from("timed", between)
    assert {body: first.bodies.count(body) for body in set(first.bodies)} == {"old": 8, "new": 8, "first": 8}
    if cluster.is_4:
        # It says of a young queue that the group is at 0, whether it is there or has never been.
        assert last.bodies.count("old") == timed.bodies.count("old") == 8
        return
    assert last.bodies == ["last"] * 8
    assert "old" not in timed.bodies
    assert timed.bodies.count("new") == 8
