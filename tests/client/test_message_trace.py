"""RocketMQ's own traces are written beside everything else: what cannot be written is dropped, nobody waits for it."""

import asyncio
import logging
import secrets
from collections.abc import Iterator

import pytest

from steelyard import Admin, ClientConfig, Message, Producer, Queue, StoredMessage
from steelyard.broker.options import BrokerOptions
from steelyard.client.observers import message_trace
from steelyard.client.observers.message_trace import MessageTraceWriter
from steelyard.client.observers.observer import Observed, OutgoingMessages, SendOutcome
from steelyard.client.producer.send_result import SendResult
from steelyard.model.reserved_names import TRACE_TOPIC
from steelyard.serve.embedded import Cluster
from steelyard.wire.message_traces import decode_traces
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one broker for all."""
    with Cluster() as running:
        yield running


def _records(messages: list[StoredMessage]) -> list[str]:
    return [trace.message_id for message in messages for trace in decode_traces(message.body.decode())]


def test_many_records_go_into_few_messages_that_are_found_by_each_id(cluster: Cluster) -> None:
    topic = f"topic-{secrets.token_hex(6)}"
    with Producer(cluster.namesrv, message_trace=True, trace_topic=f"{topic}-traces") as producer:
        futures = [producer.submit(Message(topic, b"1", keys=f"key-{number}")) for number in range(1_000)]
        ids = [future.result(30).message_id for future in futures]
    with Admin(cluster.namesrv) as admin:
        stored = admin.messages.list(f"{topic}-traces", most=1_000)
        assert sorted(_records(stored)) == sorted(ids)
        assert len(stored) < 100
        assert {key for message in stored for key in message.keys} >= {*ids, "key-0", "key-999"}
        until(lambda: admin.messages.traces(ids[500], f"{topic}-traces"), "it is found")


def test_our_brokers_have_the_topic(cluster: Cluster) -> None:
    with Producer(cluster.namesrv, message_trace=True) as producer:
        sent = producer.send(Message("orders", b"1"))
    with Admin(cluster.namesrv) as admin:
        (trace,) = admin.messages.traces(sent.message_id)
    assert (trace.topic, trace.what) == ("orders", "sent")


def test_where_nothing_can_be_written_sends_go_on_and_it_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    options = BrokerOptions(auto_create_topics=False, trace_topic=False)
    with Cluster(broker_options=options) as cluster, Admin(cluster.namesrv) as admin:
        admin.topics.create("orders", 1)
        with (
            caplog.at_level(logging.WARNING, "steelyard"),
            Producer(cluster.namesrv, message_trace=True) as producer,
        ):
            for _ in range(3):
                producer.send(Message("orders", b"1"))
        assert len(admin.messages.list("orders")) == 3
    warnings = [each for each in caplog.messages if "traces of messages are dropped" in each]
    assert len(warnings) == 1, warnings
    assert TRACE_TOPIC in warnings[0]


def test_what_does_not_fit_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_trace, "_MAX_RECORDS", 5)
    trace = MessageTraceWriter(ClientConfig("127.0.0.1:1"), "producer", "shop", TRACE_TOPIC)
    client = Observed("producer", "shop", "c-1")
    with caplog.at_level(logging.WARNING, "steelyard"):
        for number in range(8):
            ended = trace.sending(client, OutgoingMessages((Message("orders", b"1"),)))
            assert ended is not None
            ended(SendOutcome((SendResult(Queue("orders", "broker-a", 0), number, f"ID{number}"),), None, 1))
    assert trace.dropped == 3
    assert len(caplog.messages) == 1


def test_a_message_with_keys_without_end_is_found_by_its_id_alone(cluster: Cluster) -> None:
    topic, keys = f"topic-{secrets.token_hex(6)}", [f"key-{number:06d}" for number in range(2_000)]
    with Producer(cluster.namesrv, message_trace=True, trace_topic=f"{topic}-traces") as producer:
        sent = producer.send(Message(topic, b"1", keys=keys))
    with Admin(cluster.namesrv) as admin:
        (stored,) = admin.messages.list(f"{topic}-traces")
    assert stored.keys == (sent.message_id,)


def test_what_somebody_called_his_message_keeps_no_records_of_others_from_being_stored(cluster: Cluster) -> None:
    topic = f"topic-{secrets.token_hex(6)}"

    async def play() -> int:
        trace = MessageTraceWriter(ClientConfig(cluster.namesrv), "producer", "shop", topic)
        client = Observed("producer", "shop", "c-1")
        for name in ("ID1", "two words", "half \ud800 a letter", "\x01\x02", "ID2"):
            ended = trace.sending(client, OutgoingMessages((Message("orders", b"1"),)))
            assert ended is not None
            ended(SendOutcome((SendResult(Queue("orders", "broker-0", 0), 1, name),), None, 1))
        await trace.close()
        return trace.dropped

    assert asyncio.run(play()) == 0
    with Admin(cluster.namesrv) as admin:
        (stored,) = admin.messages.list(topic)
    assert {"ID1", "two", "words", "half", "ID2"} <= set(stored.keys)
    assert [each for each in _records([stored]) if each.startswith("ID")] == ["ID1", "ID2"]
