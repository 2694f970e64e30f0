"""Traces that our clients write are shown by Apache's own tool, which reads them with the class that writes Java's."""

import threading

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from tests.interop.backends import Cluster
from tests.interop.clients import until
from tests.interop.java_clients import JavaClients, every
from tests.interop.mqadmin import Mqadmin


def _shown(mqadmin: Mqadmin, message_id: str) -> list[list[str]]:
    """Return the rows that the tool prints, the newest attempt last."""
    text = mqadmin.run("queryMsgTraceById", "-i", message_id).out
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _rows(mqadmin: Mqadmin, message_id: str, count: int) -> list[tuple[str, str, str]]:
    rows = until(lambda: _shown(mqadmin, message_id), lambda rows: len(rows) >= count)
    return [(row[0], row[1], row[-1]) for row in rows]


def test_what_ours_sent_and_handled_is_shown(cluster: Cluster, mqadmin: Mqadmin, topic: str, group: str) -> None:
    handled = threading.Event()
    consumer = Consumer(cluster.name_server, group, start_from="first", message_trace=True)

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        if message.attempt == 1:
            message.later(1)
        else:
            handled.set()

    with Producer(cluster.name_server, group=f"{group}-senders", message_trace=True) as producer:
        sent = producer.send(Message(topic, b"traced", tags="T", keys=["k1", "k2"]))
    with consumer:
        assert handled.wait(60)
    assert sorted(_rows(mqadmin, sent.message_id, 3)) == [
        ("Pub", f"{group}-senders", "success"),
        ("Sub", group, "failed"),
        ("Sub", group, "success"),
    ]
    with Admin(cluster.name_server) as admin:
        found = [trace.what for trace in admin.messages.traces(sent.message_id)]
    assert found == ["sent", "received", "handled", "received", "handled"]


def test_a_message_without_tag_and_keys_and_each_of_a_batch_are_shown(
    cluster: Cluster, mqadmin: Mqadmin, topic: str
) -> None:
    with Producer(cluster.name_server, group="bare-senders", message_trace=True) as producer:
        sent = [producer.send(Message(topic, b"1")), *producer.send_many([Message(topic, b"2"), Message(topic, b"3")])]
    for each in sent:
        assert _rows(mqadmin, each.message_id, 1) == [("Pub", "bare-senders", "success")]


def test_a_transaction_is_shown(cluster: Cluster, mqadmin: Mqadmin, topic: str) -> None:
    with (
        Producer(cluster.name_server, group="halves", message_trace=True) as producer,
        producer.transaction(Message(topic, b"paid", keys="k")) as transaction,
    ):
        pass
    rows = _rows(mqadmin, transaction.message_id, 1)
    assert ("Pub", "halves", "success") in rows


def test_what_java_sent_and_ours_handled_is_one_trace(
    hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    handled = threading.Event()
    sent = hands.producer(f"{group}-senders", trace=True).send(topic, "traced", keys="k")
    consumer = Consumer(hands.cluster.name_server, group, start_from="first", message_trace=True)
    consumer.handles(topic)(lambda _: handled.set())
    with consumer:
        assert handled.wait(60)
    assert sorted(_rows(mqadmin, sent.id, 2)) == [
        ("Pub", f"{group}-senders", "success"),
        ("Sub", group, "success"),
    ]


def test_what_ours_sent_and_java_handled_is_one_trace(
    hands: JavaClients, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    with Producer(hands.cluster.name_server, group=f"{group}-senders", message_trace=True) as producer:
        sent = producer.send(Message(topic, b"traced", keys="k"))
    hands.push(group, every(topic), trace=True).wait(1)
    assert sorted(_rows(mqadmin, sent.message_id, 2)) == [
        ("Pub", f"{group}-senders", "success"),
        ("Sub", group, "success"),
    ]
