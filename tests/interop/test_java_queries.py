"""Messages looked up by key and by id, and the traces that producers and consumers leave."""

from tests.interop.clients import JavaRefused, until
from tests.interop.java_clients import Delivered, JavaClients, JavaProducer, every
from tests.interop.mqadmin import Mqadmin

NO_MESSAGE = 208


def test_a_message_is_found_by_any_of_its_keys_and_by_both_ids(hands: JavaClients, topic: str) -> None:
    producer = hands.producer("senders")
    sent = [producer.send(topic, f"body {n}", keys=f"one-{n} every", tags="T") for n in range(6)]
    assert [each.body for each in _found(producer, topic, "one-3", 1)] == ["body 3"]
    assert {each.body for each in _found(producer, topic, "every", 6)} == {f"body {n}" for n in range(6)}
    assert _query(producer, topic, "nobody") == []
    for number, each in enumerate(sent):
        for found in (producer.view(topic, each.id), producer.view(topic, each.offset_id or "")):
            assert (found.body, found.queue, found.offset) == (f"body {number}", each.queue, each.offset)
            assert (found.unique, found.tags, found.keys) == (each.id, "T", f"one-{number} every")


def test_a_query_keeps_to_its_times_and_its_number(hands: JavaClients, topic: str) -> None:
    producer = hands.producer("senders")
    for number in range(5):
        producer.send(topic, str(number), keys="k")
    found = _found(producer, topic, "k", 5)
    assert len(producer.query(topic, "k", most=2)) == 2
    last_ms = max(each.stored_ms for each in found)
    assert _query(producer, topic, "k", from_ms=last_ms + 60_000) == []


def test_traces_of_sending_and_handling_are_kept_and_shown(
    hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    producer = hands.producer(f"{group}-senders", trace=True)
    sent = producer.send(topic, "traced", keys="k", tags="T")
    hands.push(group, every(topic), trace=True).wait(1)

    def shown() -> str:
        return mqadmin.run("queryMsgTraceById", "-i", sent.id).out

    text = until(shown, lambda text: "Pub" in text and "Sub" in text)
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("Pub", f"{group}-senders", "success"),
        ("Sub", group, "success"),
    ]


def _query(producer: JavaProducer, topic: str, key: str, **times: int) -> list[Delivered]:
    """Look up; Java makes an error of nothing found."""
    try:
        return producer.query(topic, key, **times)
    except JavaRefused as refused:
        if refused.code != NO_MESSAGE:
            raise
        return []


def _found(producer: JavaProducer, topic: str, key: str, count: int) -> list[Delivered]:
    """Look up until there are so many: Apache's broker indexes in its own time."""
    return until(lambda: _query(producer, topic, key), lambda found: len(found) >= count)
