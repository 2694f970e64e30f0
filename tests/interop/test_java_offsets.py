"""Where a group begins, where it goes on, and how it is moved."""

import time

import pytest
from tests.interop.clients import until
from tests.interop.hands import Hands, every
from tests.interop.mqadmin import Mqadmin
from tests.interop.talk import committed

STAMP = "%Y%m%d%H%M%S"


@pytest.mark.parametrize("start", ["FIRST", "LAST", "TIMESTAMP"])
def test_a_new_group_begins_where_it_says(hands: Hands, topic: str, group: str, start: str) -> None:
    producer = hands.producer("senders")
    queue = (topic, hands.cluster.broker_name, 0)
    # A queue whose first message is still there counts as young, and its readers begin at the beginning.
    for number in range(3):
        producer.send_to(queue, f"old {number}")
    where = {
        "FIRST": {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
        "LAST": {"consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"},
        "TIMESTAMP": {"consumeFromWhere": "CONSUME_FROM_TIMESTAMP", "consumeTimestamp": "20200101000000"},
    }[start]
    consumer = hands.push(group, every(topic), **where)
    producer.send_to(queue, "new")
    found = consumer.wait_until(lambda found: "new" in {each.body for each in found})
    old = {f"old {number}" for number in range(3)}
    assert {each.body for each in found} == {"new"} | old


def test_times_are_found_in_a_queue(hands: Hands, topic: str, group: str) -> None:
    producer, puller = hands.producer("senders"), hands.puller(group)
    queue = (topic, hands.cluster.broker_name, 0)
    stored = []
    for number in range(5):
        producer.send_to(queue, str(number))
        stored.append(until(lambda n=number: puller.pull(queue, n).messages, bool)[0].stored_ms)
        time.sleep(0.02)
    assert [puller.search(queue, at_ms) for at_ms in stored] == [0, 1, 2, 3, 4]
    assert puller.search(queue, 0) == 0
    assert puller.search(queue, stored[-1] + 60_000) == (4 if hands.cluster.is_4 else 5)
    assert puller.ask("puller-earliest", queue=queue) == stored[0]


def test_a_group_goes_on_where_it_stopped(hands: Hands, topic: str, group: str) -> None:
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


def test_a_reset_reaches_a_consumer_that_runs(hands: Hands, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, str(number))
    consumer = hands.push(group, every(topic))
    consumer.wait(8)
    _settled(hands, topic, group, [2, 2, 2, 2])
    told = mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert told.out.count(hands.cluster.broker_name) == 4
    found = consumer.wait(16, seconds=30)
    assert sorted(int(each.body or "") for each in found) == sorted([*range(8), *range(8)])
    _settled(hands, topic, group, [2, 2, 2, 2])


def test_a_group_can_be_moved_to_the_end(hands: Hands, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    consumer = hands.push(group, every(topic))
    for number in range(8):
        producer.send(topic, str(number))
    consumer.wait(8)
    _settled(hands, topic, group, [2, 2, 2, 2])
    consumer.stop()
    for number in range(8):
        producer.send(topic, f"skipped {number}")
    mqadmin("skipAccumulatedMessage", "-g", group, "-t", topic)
    _settled(hands, topic, group, [4, 4, 4, 4])
    producer.send(topic, "next")
    assert [each.body for each in hands.push(group, every(topic)).wait(1)] == ["next"]


def test_offsets_are_copied_to_another_group(hands: Hands, mqadmin: Mqadmin, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(8):
        producer.send(topic, str(number))
    hands.push(group, every(topic)).wait(8)
    _settled(hands, topic, group, [2, 2, 2, 2])
    copy = f"{group}-copy"
    hands.push(copy, every(f"other-{topic}"))
    mqadmin("cloneGroupOffset", "-s", group, "-d", copy, "-t", topic)
    _settled(hands, topic, copy, [2, 2, 2, 2])


def _settled(hands: Hands, topic: str, group: str, offsets: list[int]) -> None:
    """Wait until the broker knows a group's offsets to be these."""
    with hands.cluster.line() as line:
        until(lambda: [committed(line, group, topic, number) for number in range(4)], lambda found: found == offsets)
