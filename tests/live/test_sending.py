"""What is sent is stored as it was sent, where it should be, however it is sent."""

import os
import secrets
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import wait

import pytest

from steelyard import Admin, Message, Producer, PullConsumer, Queue
from steelyard.errors import MessageRefused
from tests.compressions import EACH_NAME
from tests.live.clusters import Live, until
from tests.live.handled import send_all, stored

MIB = 1 << 20


def java_hash(text: str) -> int:
    """Return what Java's String.hashCode gives."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def test_a_message_is_stored_as_it_was_sent(producer: Producer, admin: Admin, topic: str) -> None:
    properties = {"region": "eu", "Straße": "naïve — 日本語 🎈", "amount": "12.5"}
    message = Message(topic, "größer 🎈".encode(), tags="pàid", keys=["order-1", "客户"], properties=properties, flag=7)
    sent = producer.send(message)
    found = stored(admin, sent)
    assert (found.body, found.tags, found.keys, found.flag) == (message.body, "pàid", ("order-1", "客户"), 7)
    assert {name: found.properties[name] for name in properties} == properties
    assert (found.message_id, found.topic, sent.late, sent.attempts) == (sent.message_id, topic, False, ())


def test_an_empty_body_is_refused_before_it_leaves(producer: Producer, topic: str) -> None:
    with pytest.raises(MessageRefused, match="its body is empty; give it a body"):
        producer.send(Message(topic, b"", tags="empty"))


def test_messages_without_a_key_are_spread_evenly(producer: Producer, topic: str) -> None:
    queues = Counter(producer.send(Message(topic, b"x")).queue for _ in range(24))
    assert sorted(queues.values()) == [3] * 8


def test_one_key_has_one_queue_and_it_is_the_one_that_java_takes(producer: Producer, cluster: Live, topic: str) -> None:
    every = [Queue(topic, broker, number) for broker in sorted(cluster.brokers) for number in range(4)]
    for key in ("order-1", "order-2", "客户", ""):
        sent = [producer.send(Message(topic, b"x"), key=key) for _ in range(3)]
        assert {each.queue for each in sent} == {every[abs(java_hash(key)) % len(every)]}
        assert [each.offset for each in sent] == sorted(each.offset for each in sent)


def test_a_rule_of_ones_own_chooses_the_queue(producer: Producer, topic: str) -> None:
    def last(queues: Sequence[Queue], message: Message) -> Queue:
        assert message.topic == topic
        return queues[-1]

    first = producer.send(Message(topic, b"x"), select=last)
    again = producer.send(Message(topic, b"x"), queue=first.queue)
    assert again.queue == first.queue
    assert again.offset == first.offset + 1


def test_many_are_packed_and_each_has_its_own_result(producer: Producer, admin: Admin, topic: str) -> None:
    messages = [Message(topic, f"body {number}".encode(), keys=f"k-{number}") for number in range(100)]
    sent = producer.send_many(messages)
    assert len({each.message_id for each in sent}) == len(messages)
    assert len({(each.queue, each.offset) for each in sent}) == len(messages)
    for number in (0, 1, 57, 99):
        found = stored(admin, sent[number])
        assert (found.body, found.keys) == (messages[number].body, messages[number].keys)
        assert found.message_id == sent[number].message_id


def test_many_with_a_key_stay_in_order_in_one_queue(producer: Producer, topic: str) -> None:
    sent = producer.send_many([Message(topic, str(number).encode()) for number in range(50)], key="order-1")
    assert len({each.queue for each in sent}) == 1
    assert [each.offset for each in sent] == list(range(sent[0].offset, sent[0].offset + 50))


def test_many_may_be_on_their_way_at_once(producer: Producer, topic: str) -> None:
    futures = [producer.submit(Message(topic, str(number).encode())) for number in range(300)]
    assert not wait(futures, timeout=30).not_done
    assert len({(future.result().queue, future.result().offset) for future in futures}) == 300


def test_messages_that_linger_share_batches(cluster: Live, admin: Admin, topic: str, group: str) -> None:
    with Producer(cluster.namesrv, group=group, linger_ms=20) as producer:
        futures = [producer.submit(Message(topic, str(number).encode())) for number in range(200)]
        futures.append(producer.submit(Message(topic, b"x" * 5000, tags="large")))
        sent = [future.result(30) for future in futures]
        alone = producer.send(Message(topic, b"alone"))
    assert len({(each.queue, each.offset) for each in sent}) == 201
    assert stored(admin, alone).body == b"alone"


def test_what_is_posted_arrives_though_nobody_answers(producer: Producer, admin: Admin, topic: str) -> None:
    for number in range(10):
        producer.post(Message(topic, str(number).encode()))
    until(lambda: len(admin.messages.list(topic)) == 10, "all that was posted is there")


@pytest.mark.parametrize("compression", EACH_NAME)
def test_a_large_body_is_compressed_and_read_as_it_was(
    cluster: Live, admin: Admin, topic: str, group: str, compression: str
) -> None:
    body = b"once upon a time " * 20_000
    with Producer(cluster.namesrv, group=group, compression=compression) as producer:
        sent = producer.send(Message(topic, body))
    found = stored(admin, sent)
    assert found.body == body
    assert found.size < len(body) / 10


def test_bodies_of_megabytes_go_both_ways(cluster: Live, producer: Producer, topic: str, group: str) -> None:
    bodies = [os.urandom(size) for size in (MIB, 2 * MIB, 4 * MIB - 1)]
    sent = [producer.send(Message(topic, body), timeout_s=20) for body in bodies]
    with PullConsumer(cluster.namesrv, group=group, start_from="first") as consumer:
        consumer.assign({each.queue for each in sent})
        found: dict[int, bytes] = {}
        until(
            lambda: found.update((len(each.body), each.body) for each in consumer.poll(timeout_s=5)) or len(found) == 3,
            "all bodies came",
        )
    assert [found[len(body)] == body for body in bodies] == [True] * 3


def test_a_body_that_is_too_large_is_refused_before_it_leaves(producer: Producer, topic: str) -> None:
    with pytest.raises(MessageRefused, match=r"4194305.*4194304"):
        producer.send(Message(topic, b"x" * (4 * MIB + 1)))


def test_the_first_message_makes_its_topic(producer: Producer, admin: Admin) -> None:
    name = f"new-{secrets.token_hex(6)}"
    sent = producer.send(Message(name, b"first"))
    assert (sent.queue.topic, sent.offset) == (name, 0)
    until(lambda: name in {each.name for each in admin.topics.list()}, "the topic is listed")
    assert stored(admin, sent).body == b"first"


def test_the_latency_report_knows_every_broker_that_was_sent_to(cluster: Live, topic: str, group: str) -> None:
    with Producer(cluster.namesrv, group=group, avoid_slow_brokers=True) as producer:
        send_all(producer, topic, ["x"] * 16)
        assert {each.broker for each in producer.brokers()} == set(cluster.brokers)
    with Producer(cluster.namesrv, group=group) as producer:
        send_all(producer, topic, ["x"])
        assert producer.brokers() == []
