"""Java's transactional producer: what is committed arrives, what is rolled back does not, what is open is asked for."""

from tests.interop.clients import Event
from tests.interop.java_clients import JavaClients, every

COMMIT, ROLLBACK, OPEN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"


def test_committed_messages_arrive_and_others_do_not(hands: JavaClients, topic: str, group: str) -> None:
    producer = hands.producer(f"{group}-senders", transactions=True)
    consumer = hands.push(group, every(topic))
    for number in range(4):
        sent = producer.send_transaction(topic, f"yes {number}", COMMIT)
        assert (sent.status, sent.state) == ("SEND_OK", COMMIT)
        assert producer.send_transaction(topic, f"no {number}", ROLLBACK).state == ROLLBACK
    open_ones = {
        "asked, yes": producer.send_transaction(topic, "asked, yes", OPEN, COMMIT),
        "asked, no": producer.send_transaction(topic, "asked, no", OPEN, ROLLBACK),
    }

    # The broker asks for both that were left open; the producer answers as each message says.
    asked = producer.process.wait(producer.name, "asked", lambda events: _bodies(events) >= set(open_ones), 40)
    assert {each["message"]["topic"] for each in asked} == {topic}
    ids = {each["message"]["body"]: each["message"]["unique"] for each in asked}
    assert {body: ids[body] for body in open_ones} == {body: sent.id for body, sent in open_ones.items()}
    if hands.cluster.is_ours:
        assert set(ids) == set(open_ones)  # Apache's 5.x may ask for one that was rolled back a moment ago
    yes = {f"yes {number}" for number in range(4)} | {"asked, yes"}
    found = consumer.wait_until(lambda found: {each.body for each in found} >= yes, 30)
    assert sorted(each.body or "" for each in found) == sorted(yes)
    assert {each.properties["TRAN_MSG"] for each in found} == {"true"}


def test_another_member_of_the_producer_group_is_asked_when_the_first_is_gone(
    hands: JavaClients, topic: str, group: str
) -> None:
    senders = f"{group}-senders"
    first = hands.producer(senders, transactions=True)
    first.send_transaction(topic, "orphan", OPEN, COMMIT)
    first.stop()
    # The broker knows a producer by its heartbeats, which begin with the first send.
    second = hands.producer(senders, transactions=True, heartbeatBrokerInterval=1000)
    second.send(f"{topic}-other", "hello")
    consumer = hands.push(group, every(topic))
    second.process.wait(second.name, "asked", lambda events: "orphan" in _bodies(events), 30)
    assert [each.body for each in consumer.wait(1)] == ["orphan"]


def _bodies(events: list[Event]) -> set[str]:
    return {event["message"]["body"] for event in events}
