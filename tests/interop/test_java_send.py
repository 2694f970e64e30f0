"""Java's producers: every way of sending arrives, and what may not be sent is refused as Apache's broker refuses it."""

from tests.interop.hands import Hands, every


def test_what_is_sent_and_waited_for_arrives(hands: Hands, topic: str, group: str) -> None:
    producer = hands.producer("senders")
    sent = [producer.send(topic, f"body {number}", tags="T", keys=f"k{number}") for number in range(8)]
    assert {each.status for each in sent} == {"SEND_OK"}
    assert sorted(each.queue for each in sent) == [0, 0, 1, 1, 2, 2, 3, 3]
    consumer = hands.push(group, every(topic))
    found = consumer.wait(8)
    assert {(each.body, each.tags, each.keys) for each in found} == {(f"body {n}", "T", f"k{n}") for n in range(8)}
    assert {(each.queue, each.offset, each.unique) for each in found} == {(s.queue, s.offset, s.id) for s in sent}
