"""Where a group begins, where it goes on, and how it is moved."""

import time

import pytest

from tests.interop.clients import until
from tests.interop.java_clients import JavaClients, JavaPushConsumer, every
from tests.interop.mqadmin import Mqadmin
from tests.interop.wire_client import committed, create_group, create_topic

ROUNDS, IMMEDIATE = 20, 200
STAMP = "%Y%m%d%H%M%S"


@pytest.mark.parametrize("start", ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_TIMESTAMP"])
def test_a_new_group_begins_where_it_says(hands: JavaClients, topic: str, group: str, start: str) -> None:
    producer = hands.producer("senders")
    queue = (topic, hands.cluster.broker_name, 0)
    # A queue whose first message is still there counts as young, and its readers begin at the beginning.
    for number in range(3):
        producer.send_to(queue, f"old {number}")
    consumer = hands.push(group, every(topic), orderly=True, consumeFromWhere=start, consumeTimestamp="20200101000000")
    producer.send_to(queue, "new")
    assert [each.body for each in consumer.wait(4)] == ["old 0", "old 1", "old 2", "new"]


@pytest.mark.timeout(300)
def test_a_new_group_at_the_end_of_an_empty_topic_misses_nothing(hands: JavaClients, topic: str, group: str) -> None:
    if not hands.cluster.is_ours and not hands.cluster.is_4:
        pytest.skip("5.5 says of an empty queue that it knows no offset, and the client asks for its end soon after")
    producer, missed = hands.producer("senders"), []
    for number in range(ROUNDS):
        name = f"{topic}-{number}"
        with hands.cluster.connection() as connection:
            create_topic(connection, name, 4)
        hands.cluster.wait_for_route(name)
        # Now and then pulls of a 5.5 member are refused after its start (25, by Apache's broker too) until it sends its
        # next heartbeat, so that comes soon.
        consumer = hands.push(
            f"{group}-{number}",
            every(name),
            consumeFromWhere="CONSUME_FROM_LAST_OFFSET",
            heartbeatBrokerInterval=1000,
        )
        # The consumer asks for its offsets while these are sent.
        for each in range(IMMEDIATE):
            producer.send(name, str(each))
        try:
            consumer.wait_until(lambda found: len({each.body for each in found}) == IMMEDIATE)
        except AssertionError:
            missed.append(IMMEDIATE - len({each.body for each in consumer.received()}))
        consumer.stop(later=True)
    assert missed == []


def test_times_are_found_in_a_queue(hands: JavaClients, topic: str, group: str) -> None:
    producer, pull_consumer = hands.producer("senders"), hands.pull_consumer(group)
    queue = (topic, hands.cluster.broker_name, 0)
    for number in range(5):
        producer.send_to(queue, str(number))
        time.sleep(0.02)  # so that no two have the same time
    found = until(lambda: pull_consumer.pull(queue, 0).messages, lambda found: len(found) == 5)
    stored = [each.stored_ms for each in found]
    assert [pull_consumer.search(queue, at_ms) for at_ms in stored] == [0, 1, 2, 3, 4]
    assert pull_consumer.search(queue, 0) == 0
    assert pull_consumer.search(queue, stored[-1] + 60_000) == (4 if hands.cluster.is_4 else 5)
    assert pull_consumer.ask("puller-earliest", queue=queue) == stored[0]


def test_a_group_goes_on_where_it_stopped(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, f"before {number}")
    first = hands.push(group, every(topic))
    first.wait(8)
    first.stop()
    for number in range(4):
        producer.send(topic, f"after {number}")
    found = hands.push(group, every(topic)).wait(4)
    assert sorted(each.body or "" for each in found) == [f"after {number}" for number in range(4)]


def test_a_reset_reaches_a_consumer_that_runs(hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, str(number))
    consumer = hands.push(group, every(topic))
    consumer.wait(8)
    _reported(hands, consumer, topic, group)
    reported = mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert reported.out.count(hands.cluster.broker_name) == 4
    found = consumer.wait(16)
    assert sorted(int(each.body or "") for each in found) == sorted([*range(8), *range(8)])
    _reported(hands, consumer, topic, group)


def test_a_group_can_be_moved_to_the_end(hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    consumer = hands.push(group, every(topic))
    for number in range(8):
        producer.send(topic, str(number))
    consumer.wait(8)
    _reported(hands, consumer, topic, group)
    consumer.stop()
    for number in range(8):
        producer.send(topic, f"skipped {number}")
    mqadmin("skipAccumulatedMessage", "-g", group, "-t", topic)
    assert _offsets(hands, topic, group) == [4, 4, 4, 4]
    producer.send(topic, "next")
    assert [each.body for each in hands.push(group, every(topic)).wait(1)] == ["next"]


def test_offsets_are_copied_to_another_group(hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, str(number))
    consumer = hands.push(group, every(topic))
    consumer.wait(8)
    _reported(hands, consumer, topic, group)
    copy = f"{group}-copy"
    with hands.cluster.connection() as connection:
        create_group(connection, copy)
    mqadmin("cloneGroupOffset", "-s", group, "-d", copy, "-t", topic)
    assert _offsets(hands, topic, copy) == [2, 2, 2, 2]


def _reported(hands: JavaClients, consumer: JavaPushConsumer, topic: str, group: str) -> None:
    """Wait until the broker was told that the first two of each queue are done."""

    def offsets() -> list[int]:
        consumer.persist()
        return _offsets(hands, topic, group)

    until(offsets, lambda found: found == [2, 2, 2, 2])


def _offsets(hands: JavaClients, topic: str, group: str) -> list[int]:
    with hands.cluster.connection() as connection:
        return [committed(connection, group, topic, number) for number in range(4)]
