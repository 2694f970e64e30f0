"""Clients that are told to write down what becomes of each message in RocketMQ's own trace topic, and it is found."""

import secrets
import threading

import pytest

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, ReceivedMessage
from steelyard.errors import NotFound
from steelyard.wire.message_traces import TraceEvent
from tests.live.clusters import Live, until


@pytest.fixture
def cluster(own_clock: Live) -> Live:
    """Use a cluster with a clock of its own."""
    return own_clock


@pytest.fixture
def traces(admin: Admin) -> str:
    """Make a topic for traces: Apache's brokers have none of their own unless they are told to."""
    name = f"traces-{secrets.token_hex(6)}"
    admin.topics.create(name, 1)
    return name


def _found(admin: Admin, message_id: str, topic: str) -> list[TraceEvent]:
    try:
        return admin.messages.traces(message_id, topic)
    except NotFound:
        return []


def test_a_message_is_followed_from_its_sender_to_each_handling(
    cluster: Live, admin: Admin, topic: str, group: str, traces: str
) -> None:
    handled = threading.Event()
    consumer = Consumer(cluster.namesrv, group, start_from="first", message_trace=True, trace_topic=traces)

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        if message.attempt == 1:
            message.later(1)
        else:
            handled.set()

    with Producer(cluster.namesrv, group=f"of-{group}", message_trace=True, trace_topic=traces) as producer:
        sent = producer.send(Message(topic, b"12345", tags="paid", keys=["k1", "k2"]))
    with consumer:
        until(handled.is_set, "it is handled again", cluster.pass_time)
    until(lambda: len(_found(admin, sent.message_id, traces)) == 5, "all five records are found")
    found = _found(admin, sent.message_id, traces)
    assert [trace.what for trace in found] == ["sent", "received", "handled", "received", "handled"]
    first, *handlings = found
    assert (first.group, first.topic, first.tags, first.keys) == (f"of-{group}", topic, "paid", "k1 k2")
    assert (first.body_bytes, first.kind, first.went_well) == (5, "normal", True)
    assert first.offset_id == sent.offset_id
    assert first.store_host
    assert {trace.group for trace in handlings} == {group}
    assert [trace.attempt for trace in handlings] == [1, None, 2, None]
    assert [(trace.went_well, trace.outcome) for trace in handlings if trace.what == "handled"] == [
        (False, "failed"),
        (True, "done"),
    ]
    assert handlings[0].request_id == handlings[1].request_id
    # Any of its keys leads to it, too.
    assert {key for record in admin.messages.list(traces) for key in record.keys} == {sent.message_id, "k1", "k2"}


def test_each_message_of_a_batch_and_the_end_of_a_transaction_are_written(
    cluster: Live, admin: Admin, topic: str, traces: str
) -> None:
    with Producer(cluster.namesrv, message_trace=True, trace_topic=traces) as producer:
        many = producer.send_many([Message(topic, b"1"), Message(topic, b"22")])
        producer.send(Message(topic, b"333"), delay_s=1)
        with producer.transaction(Message(topic, b"4444", keys="k")) as transaction:
            pass
    until(lambda: all(_found(admin, sent.message_id, traces) for sent in many), "both are found")
    for number, sent in enumerate(many, 1):
        (trace,) = _found(admin, sent.message_id, traces)
        assert (trace.body_bytes, trace.offset_id) == (number, sent.offset_id)
    until(lambda: len(_found(admin, transaction.message_id, traces)) == 2, "both records are found")
    half, end = _found(admin, transaction.message_id, traces)
    assert (half.what, half.kind) == ("sent", "half")
    assert (end.what, end.outcome, end.was_asked) == ("transaction ended", "COMMIT_MESSAGE", False)


def test_names_are_those_that_users_write(cluster: Live, admin: Admin, topic: str, traces: str) -> None:
    there = ClientConfig(cluster.namesrv, namespace="shop")
    with Admin(there) as inside:
        inside.topics.create(topic, 1)
    with Producer(there, group="till", message_trace=True, trace_topic=traces) as producer:
        sent = producer.send(Message(topic, b"1"))
    until(lambda: _found(admin, sent.message_id, traces), "it is found")
    (trace,) = _found(admin, sent.message_id, traces)
    assert (trace.topic, trace.group) == (topic, "till")


def test_traces_are_not_traced(cluster: Live, admin: Admin, traces: str) -> None:
    with Producer(cluster.namesrv, message_trace=True, trace_topic=traces) as producer:
        producer.send(Message(traces, b"something else", keys="own"))
    assert len(admin.messages.list(traces)) == 1
