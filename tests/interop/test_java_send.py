"""Java's producers: every way of sending arrives, and what may not be sent is refused as Apache's broker refuses it."""

import time
from zlib import crc32

import pytest

from tests.interop.clients import JavaRefused, until
from tests.interop.java_clients import Delivered, JavaClients, every
from tests.interop.wire_client import committed, pull_all

LIMIT = 4 << 20
ROOM_FOR_THE_REST = 4096
TOO_LARGE = 13
NO_SUCH_QUEUE_IN_4, NO_SUCH_QUEUE = 1, 29
COMPRESSED = 1
NEVER = 1 << 30


def test_what_is_sent_and_waited_for_arrives(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    sent = [producer.send(topic, f"body {number}", tags="T", keys=f"k{number}") for number in range(8)]
    assert {each.status for each in sent} == {"SEND_OK"}
    assert sorted(each.queue for each in sent) == [0, 0, 1, 1, 2, 2, 3, 3]
    found = hands.push(group, every(topic)).wait(8)
    assert {(each.body, each.tags, each.keys) for each in found} == {(f"body {n}", "T", f"k{n}") for n in range(8)}
    assert {(each.queue, each.offset, each.unique) for each in found} == {(s.queue, s.offset, s.id) for s in sent}
    assert {each.broker for each in found} == {hands.cluster.broker_name}


def test_sends_that_do_not_wait_arrive(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    for number in range(20):
        producer.send_async(topic, f"async {number}")
        producer.send_oneway(topic, f"one way {number}")
    answers = producer.wait_sent(20)
    assert {(each["status"], each["offset_id"] is None) for each in answers} == {("SEND_OK", False)}
    found = hands.push(group, every(topic)).wait(40)
    assert {each.body for each in found} == {f"{way} {n}" for way in ("async", "one way") for n in range(20)}


def test_a_batch_arrives_message_by_message(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    sent = producer.send_batch(topic, [f"item {number}" for number in range(10)], tags="B", keys="k")
    found = hands.push(group, every(topic)).wait(10)
    assert sorted((each.offset, each.body) for each in found) == [(number, f"item {number}") for number in range(10)]
    assert {(each.queue, each.tags, each.keys) for each in found} == {(sent.queue, "B", "k")}
    # Each has a key of its own; the answer names them all.
    assert set(sent.id.split(",")) == {each.unique for each in found}


def test_a_sender_may_choose_the_queue(hands: JavaClients, topic: str) -> None:
    producer = hands.producer("senders")
    assert {producer.send_selected(topic, "chosen", 6).queue for _ in range(3)} == {2}
    queue = (topic, hands.cluster.broker_name, 3)
    assert [producer.send_to(queue, "there").offset for _ in range(3)] == [0, 1, 2]
    with pytest.raises(JavaRefused) as refused:
        producer.send_to((*queue[:2], 99), "nowhere")
    assert refused.value.code == (NO_SUCH_QUEUE_IN_4 if hands.cluster.is_4 else NO_SUCH_QUEUE)


def test_a_topic_is_made_by_the_first_send(hands: JavaClients, group: str) -> None:
    topic = f"made-for-{group}"
    producer = hands.producer("senders")
    assert producer.send(topic, "first").status == "SEND_OK"
    hands.cluster.wait_for_route(topic)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.topic, found.body) == (topic, "first")


def test_names_and_texts_of_all_alphabets_come_back(hands: JavaClients, topic: str, group: str) -> None:
    words = {"tags": "Etikett-ß", "keys": "schlüssel ключ", "properties": {"näme": "värde 值", "empty": " "}}
    hands.producer("senders").send(topic, "grüße, 世界, 🚢", **words)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.body, found.tags, found.keys) == ("grüße, 世界, 🚢", words["tags"], words["keys"])
    assert (found.properties["näme"], found.properties["empty"]) == ("värde 值", " ")


def test_a_large_body_travels_compressed(hands: JavaClients, topic: str, group: str) -> None:
    sent = hands.producer("senders").send(topic, "z", times=100_000)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.size, found.sum) == (100_000, crc32(b"z" * 100_000))
    with hands.cluster.connection() as connection:
        (stored,) = pull_all(connection, topic, sent.queue)
    assert stored.sys_flag & COMPRESSED
    assert len(stored.body) < 10_000


def test_the_largest_body_passes_and_a_larger_one_is_refused(hands: JavaClients, topic: str, group: str) -> None:
    # The client's own limits are out of the way: it is the broker's that is asked for.
    producer = hands.producer("senders", compressMsgBodyOverHowmuch=NEVER, maxMessageSize=NEVER, sendMsgTimeout=20_000)
    size = LIMIT - ROOM_FOR_THE_REST
    producer.send(topic, "L", times=size)
    (found,) = hands.push(group, every(topic)).wait(1)
    assert (found.size, found.sum) == (size, crc32(b"L" * size))
    with pytest.raises(JavaRefused) as refused:
        producer.send(topic, "L", times=LIMIT + 1)
    assert refused.value.code == TOO_LARGE


def test_delayed_messages_arrive_after_their_delay_and_in_that_order(
    hands: JavaClients, topic: str, group: str
) -> None:
    producer = hands.producer("senders")
    consumer = hands.push(group, every(topic))
    for level in (2, 1):
        producer.send(topic, f"level {level}", level=level, tags="slow", keys=f"k{level}")
    first, second = consumer.wait(2)
    assert [(each.body, each.tags, each.keys) for each in (first, second)] == [
        ("level 1", "slow", "k1"),
        ("level 2", "slow", "k2"),
    ]
    assert _waited_ms(first) >= 1000
    assert _waited_ms(second) >= 5000
    assert first.properties["DELAY"] == "1"


def test_a_message_with_a_time_arrives_at_that_time(hands: JavaClients, topic: str, group: str) -> None:
    if hands.cluster.is_4:
        pytest.skip("4.9 has no timers")
    producer = hands.producer("senders")
    consumer = hands.push(group, every(topic))
    at_ms = time.time_ns() // 1_000_000 + 3000
    producer.send(topic, "later", properties={"TIMER_DELIVER_MS": at_ms})
    producer.send(topic, "sooner", properties={"TIMER_DELAY_SEC": 1})
    producer.send(topic, "soon", properties={"TIMER_DELAY_MS": 1500})
    producer.send(topic, "now")
    found = {each.body: each for each in consumer.wait(4)}
    assert {each.topic for each in found.values()} == {topic}
    step_ms = 0 if hands.cluster.is_ours else 1000  # Apache's clock for timers has steps of a second
    assert found["later"].at_ms >= at_ms - step_ms
    assert _waited_ms(found["soon"]) >= 1500 - step_ms
    assert _waited_ms(found["sooner"]) >= 1000 - step_ms


def test_a_question_gets_its_reply(hands: JavaClients, topic: str, group: str) -> None:
    asker, replier = hands.producer("askers"), hands.producer("repliers")
    hands.push(group, every(topic), replies_with=replier)
    assert asker.request(topic, "how much?").body == "re: how much?"


def _waited_ms(message: Delivered) -> int:
    return message.at_ms - message.born_ms


def test_a_client_with_its_vip_channel_on_sends_and_consumes(hands: JavaClients, topic: str, group: str) -> None:
    # It sends, commits and asks who else is there two ports below the broker's own, as all clients up to 4.4 do.
    producer = hands.producer("senders", vipChannelEnabled=True, instanceName=f"{group}-sends")
    assert [producer.send(topic, str(number)).status for number in range(8)] == ["SEND_OK"] * 8
    consumer = hands.push(group, every(topic), vipChannelEnabled=True, instanceName=f"{group}-reads")
    assert sorted(each.body or "" for each in consumer.wait(8)) == [str(number) for number in range(8)]
    with hands.cluster.connection() as connection:

        def offsets() -> list[int]:
            consumer.persist()
            return [committed(connection, group, topic, number) for number in range(4)]

        until(offsets, lambda found: found == [2, 2, 2, 2])
