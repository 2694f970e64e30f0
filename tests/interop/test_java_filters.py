"""What a group wants of a topic: tags, compared twice, and conditions in SQL92, which the broker judges."""

import pytest

from tests.interop.clients import JavaRefused, until
from tests.interop.java_clients import JavaClients, sql, tagged

NOT_A_CONDITION = 23


def test_only_the_tags_asked_for_arrive(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    # Aa and BB have the same hash, which is all that a broker's index keeps.
    for tag in ("Aa", "BB", "C", "D", None):
        producer.send(topic, f"of {tag}", tags=tag)
    producer.send(topic, "the end", tags="D")
    found = hands.push(group, tagged(topic, "Aa || D")).wait(3)
    assert sorted(each.body or "" for each in found) == ["of Aa", "of D", "the end"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("price > 5 AND colour = 'red'", {"6 red"}),
        ("price BETWEEN 2 AND 4 OR colour IS NULL", {"2 red", "4 blue", "nothing"}),
        ("colour IN ('blue', 'green') AND NOT (price = 4)", {"8 blue"}),
        ("TAGS = 'T' AND price <> 4 AND price < 8.5", {"2 red", "6 red", "8 blue"}),
    ],
)
def test_only_what_meets_a_condition_arrives(
    hands: JavaClients, topic: str, group: str, condition: str, expected: set[str]
) -> None:
    producer = hands.producer("senders")
    queue = (topic, hands.cluster.broker_name, 0)
    for price, colour in ((2, "red"), (4, "blue"), (6, "red"), (8, "blue")):
        producer.send_to(queue, f"{price} {colour}", tags="T", properties={"price": price, "colour": colour})
    producer.send_to(queue, "nothing", tags="T")
    # In order, in one queue: when the last asked for has come, no other will.
    consumer = hands.push(group, sql(topic, f"({condition}) OR last = 'yes'"), orderly=True)
    producer.send_to(queue, "last", properties={"last": "yes", "colour": "none"})
    found = consumer.wait_until(lambda found: "last" in {each.body for each in found})
    assert {each.body for each in found} == expected | {"last"}


def test_a_pull_may_carry_a_condition(hands: JavaClients, topic: str, group: str) -> None:
    producer, pull_consumer = hands.producer("senders"), hands.pull_consumer(group, heartbeatBrokerInterval=1000)
    queue = pull_consumer.queues(topic)[0]
    for number in range(6):
        producer.send_to(queue, str(number), properties={"n": number})

    def pulled() -> list[str | None]:
        # The older client refuses by itself until a heartbeat told it the broker's version.
        try:
            return [each.body for each in pull_consumer.pull(queue, 0, sql="n >= 4").messages]
        except JavaRefused as refused:
            return [str(refused)]

    assert until(pulled, lambda bodies: len(bodies) == 2) == ["4", "5"]


def test_a_broken_condition_is_refused_when_the_consumer_starts(hands: JavaClients, topic: str, group: str) -> None:
    with pytest.raises(JavaRefused) as refused:
        hands.push(group, sql(topic, "price > > 5"))
    assert refused.value.code == NOT_A_CONDITION
