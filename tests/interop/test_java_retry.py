"""Messages that fail come again, later, and end as dead letters when they have failed too often."""

import pytest

from tests.interop.clients import until
from tests.interop.java_clients import JavaClients, every, tagged
from tests.interop.wire_client import pull_all

AT_LEVEL_1 = {"again_level": 1}


def test_a_message_that_fails_comes_again_until_it_does_not(hands: JavaClients, topic: str, group: str) -> None:
    sent = hands.producer("senders").send(
        topic, "bad at first", tags="T", keys="k", properties={"fails": 2, **AT_LEVEL_1}
    )
    consumer = hands.push(group, every(topic))
    found = consumer.wait(3)
    assert [(each.times, each.failed) for each in found] == [(0, True), (1, True), (2, False)]
    # It comes back under its own topic, with the id it was sent with.
    assert {(each.topic, each.unique, each.tags, each.keys) for each in found} == {(topic, sent.id, "T", "k")}
    assert found[1].at_ms - found[0].at_ms >= 1000
    assert found[2].properties["ORIGIN_MESSAGE_ID"] == sent.offset_id


def test_a_message_that_always_fails_becomes_a_dead_letter(hands: JavaClients, topic: str, group: str) -> None:
    hands.producer("senders").send(topic, "hopeless", properties={"fails": 99, **AT_LEVEL_1})
    consumer = hands.push(group, every(topic), maxReconsumeTimes=1)
    found = consumer.wait(2)
    assert [each.times for each in found] == [0, 1]
    # A dead letter's topic may be read by nobody until its permission is changed; its queue is read by offset.
    dead = _dead_letter(hands, group)
    assert dead == "hopeless"


def test_an_orderly_consumer_gives_up_in_the_end(hands: JavaClients, topic: str, group: str) -> None:
    if hands.cluster.is_4:
        pytest.skip("4.9 lets a dead letter of an orderly consumer wait for a minute")
    producer = hands.producer("senders")
    producer.send_selected(topic, "hopeless", 0, properties={"fails": 99})
    producer.send_selected(topic, "fine", 0)
    consumer = hands.push(group, every(topic), orderly=True, maxReconsumeTimes=2)
    found = consumer.wait_until(lambda found: found[-1:] != [] and found[-1].body == "fine")
    assert [(each.body, each.times) for each in found] == [
        ("hopeless", 0),
        ("hopeless", 1),
        ("hopeless", 2),
        ("fine", 0),
    ]
    assert _dead_letter(hands, group) == "hopeless"


def test_a_pull_consumer_gives_a_message_back(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    queue = (topic, hands.cluster.broker_name, 0)
    producer.send_to(queue, "not now")
    pull_consumer = hands.pull_consumer(group)
    pull_consumer.give_back(queue, 0, level=1)
    pull_consumer.stop()  # or it would share the group's retry queue
    other = f"{topic}-other"
    producer.send(other, "so that the topic is there")
    (found,) = hands.push(group, tagged(other, "none")).wait(1)
    assert (found.topic, found.body, found.times) == (topic, "not now", 1)


def _dead_letter(hands: JavaClients, group: str) -> str:
    topic = f"%DLQ%{group}"
    hands.cluster.wait_for_route(topic)
    with hands.cluster.connection() as connection:
        (record,) = until(lambda: list(pull_all(connection, topic, 0)), lambda found: len(found) == 1)
    return record.body.decode()
