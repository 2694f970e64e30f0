"""What clients do is counted under the names of RocketMQ 5's own clients, and any Prometheus scraper can read it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from steelyard import Consumer, Message, Producer, PullConsumer, Queue, ReceivedMessage
from steelyard.client.observers import client_metrics
from steelyard.client.observers.observer import Observed, OutgoingMessages, SendOutcome
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import MessageRefused
from steelyard.metrics import CLIENT_METRICS, ClientMetrics
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import Seen
from tests.waiting import until

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "client-metrics.md"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one broker for all."""
    with Cluster() as running:
        yield running


def test_sends_are_counted_and_timed(cluster: Cluster, topic: str) -> None:
    metrics = ClientMetrics()
    with Producer(cluster.namesrv, observers=[metrics]) as producer:
        producer.send(Message(topic, b"1"))
        producer.send_many([Message(topic, b"2"), Message(topic, b"3")])
        with pytest.raises(MessageRefused):
            producer.send(Message(topic, b""))
        with producer.transaction(Message(topic, b"4")):
            pass
    assert metrics.total("steelyard_client_sent_total", topic=topic) == 4
    assert metrics.total("steelyard_client_send_failures_total", topic=topic, error="MessageRefused") == 1
    assert metrics.total("rocketmq_send_cost_time", topic=topic, invocation_status="success") == 4
    assert metrics.total("rocketmq_send_cost_time", topic=topic, invocation_status="failure") == 1
    assert metrics.total("steelyard_client_transactions_total", topic=topic, how="commit") == 1


def test_attempts_that_failed_are_counted_by_broker() -> None:
    metrics, client = ClientMetrics(), Observed("producer", "shop", "c-1")
    ended = metrics.sending(client, OutgoingMessages((Message("orders", b"1"),)))
    assert ended is not None
    attempts = (("broker-a", 12, "it is busy"), ("broker-a", 9, "it is busy"))
    sent = SendResult(Queue("orders", "broker-b", 0), 0, "ID", late=True, attempts=attempts)
    ended(SendOutcome((sent,), None, 25_000_000))
    assert metrics.total("steelyard_client_send_retries_total", broker="broker-a") == 2
    assert metrics.total("steelyard_client_sent_late_total") == 1


def test_what_is_handled_is_counted_and_timed(cluster: Cluster, topic: str) -> None:
    metrics, group = ClientMetrics(), f"of-{topic}"
    consumer = Consumer(cluster.namesrv, group, start_from="first", observers=[metrics])

    @consumer.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        if message.body == b"bad":
            raise ZeroDivisionError

    with Producer(cluster.namesrv) as producer:
        producer.send_many([Message(topic, body) for body in (b"1", b"2", b"bad")])
    with consumer:
        until(lambda: metrics.total("steelyard_client_handled_total") >= 3, "all are handled")
        until(lambda: metrics.total("rocketmq_process_time", invocation_status="failure"), "the failure is told")
        until(
            lambda: any(family.name == "rocketmq_consumer_cached_messages" for family in metrics.families()), "a look"
        )
        assert metrics.total("steelyard_client_queues", consumer_group=group) == 2
    assert metrics.total("steelyard_client_handled_total", topic=topic, became="done") == 2
    assert metrics.total("steelyard_client_handled_total", topic=topic, became="failed") == 1
    assert metrics.total("rocketmq_process_time", consumer_group=group, invocation_status="success") == 2
    assert metrics.total("rocketmq_await_time", topic=topic) == 3
    assert metrics.total("rocketmq_delivery_latency", topic=topic) == 3
    assert metrics.total("steelyard_client_received_total", topic=topic) == 3
    assert metrics.total("steelyard_client_moves_total", how="taken") == 2
    assert metrics.total("steelyard_client_rebalances_total") >= 1
    # What only counts while it is there is gone with it.
    assert metrics.total("steelyard_client_queues") == 0


def test_what_is_polled_is_counted(cluster: Cluster, topic: str) -> None:
    metrics = ClientMetrics()
    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with PullConsumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[metrics]) as pull_consumer:
        pull_consumer.subscribe(topic)
        assert pull_consumer.poll_one() is not None
    assert metrics.total("steelyard_client_received_total", topic=topic) == 1


def test_a_message_that_was_in_hand_when_its_queue_went_is_an_avoided_duplicate(cluster: Cluster, topic: str) -> None:
    group, metrics, seen, other = f"of-{topic}", ClientMetrics(), Seen(), Seen()
    may_end = threading.Event()
    first = Consumer(cluster.namesrv, group, name="first", start_from="first", observers=[metrics])
    second = Consumer(cluster.namesrv, group, name="second", start_from="first", observers=[metrics])

    @first.handles(topic)
    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        assert may_end.wait(30)

    second.handles(topic)(other.record_message)
    with Producer(cluster.namesrv) as producer:
        for number in range(2):
            producer.send(Message(topic, b"%d" % number), queue=Queue(topic, "broker-0", number))
    with first:
        seen.wait([b"0", b"1"])
        with second:
            until(lambda: "draining" in {each.state for each in first.explain().queues}, "one of its queues is to go")
            may_end.set()
            until(lambda: len(second.assignment) == 1, "the other one has it")
            until(lambda: metrics.total("steelyard_client_duplicates_avoided_total") == 1, "it is counted")
    assert other.bodies == []


def test_clients_that_ended_are_counted_together(cluster: Cluster, topic: str) -> None:
    metrics = ClientMetrics()
    seen = []
    for _ in range(3):
        with Producer(cluster.namesrv, observers=[metrics]) as producer:
            producer.send(Message(topic, b"1"))
            seen.append(metrics.total("steelyard_client_sent_total", client_id=producer.client_id))
    assert seen == [1, 1, 1]
    assert metrics.total("steelyard_client_sent_total", client_id="") == 3
    assert metrics.total("rocketmq_send_cost_time", client_id="", topic=topic, invocation_status="success") == 3
    (sent,) = [family for family in metrics.families() if family.name == "steelyard_client_sent_total"]
    assert len(sent.samples) == 1


def test_topics_without_end_are_counted_together_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "_MAX_SAMPLES", 3)
    metrics, client = ClientMetrics(), Observed("producer", "shop", "c-1")
    for number in range(10):
        message = Message(f"reply-{number}", b"1")
        ended = metrics.sending(client, OutgoingMessages((message,)))
        assert ended is not None
        ended(SendOutcome((SendResult(Queue(message.topic, "broker-a", 0), 0, "ID"),), None, 1_000))
    assert metrics.total("steelyard_client_sent_total") == metrics.total("rocketmq_send_cost_time") == 10
    assert metrics.total("steelyard_client_sent_total", topic="other") == 7
    assert all(len(family.samples) <= 4 for family in metrics.families())


def _samples(text: str) -> set[tuple[object, ...]]:
    return {
        (sample.name, *sorted(sample.labels.items()), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_registry_of_prometheus_collects_what_the_text_says(cluster: Cluster, topic: str) -> None:
    metrics, registry = ClientMetrics(), CollectorRegistry(auto_describe=True)
    registry.register(metrics)
    with Producer(cluster.namesrv, observers=[metrics]) as producer:
        producer.send(Message(topic, b"1"))
        producer.send_many([Message(topic, b"2"), Message(topic, b"3")])
    text = generate_latest(registry).decode()
    assert _samples(text) == _samples(metrics.text()) != set()
    labels = {"topic": topic, "client_id": ""}
    assert registry.get_sample_value("steelyard_client_sent_total", labels) == 3
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(ClientMetrics())


def test_a_parser_of_prometheus_reads_it(cluster: Cluster, topic: str) -> None:
    metrics = ClientMetrics()
    with Producer(cluster.namesrv, observers=[metrics]) as producer:
        producer.send(Message(topic, b"1"))
    families = {family.name: family for family in text_string_to_metric_families(metrics.text())}
    assert families["steelyard_client_sent"].samples[0].value == 1
    assert families["rocketmq_send_cost_time"].type == "histogram"


def test_every_name_is_on_its_page() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    assert [measure.name for measure in CLIENT_METRICS if f"`{measure.name}`" not in page] == []
