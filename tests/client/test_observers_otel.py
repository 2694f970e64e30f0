"""Spans by the messaging conventions, tied together across producer and consumer by what travels in properties."""

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from steelyard import Admin, Consumer, Message, Producer, PullConsumer, ReceivedMessage, aio
from steelyard.errors import MessageRefused
from steelyard.otel import OpenTelemetry
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import clocked
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one broker for all."""
    with Cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Make a topic that no other test knows."""
    name = f"topic-{secrets.token_hex(6)}"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(name, 1)
    return name


class Spans:
    """An SDK of one's own, and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = OpenTelemetry(self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return those of a name, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only one of a name."""
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans() -> Spans:
    """Give an SDK."""
    return Spans()


def _is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    return child.parent is not None and child.parent.span_id == _id(parent)


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def _attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def test_a_message_is_followed_from_its_sender_into_its_handler(cluster: Cluster, topic: str, spans: Spans) -> None:
    group = f"of-{topic}"
    consumer = Consumer(cluster.namesrv, group, start_from="first", observers=[spans.telemetry])
    with Producer(cluster.namesrv, group="shop", observers=[spans.telemetry]) as producer:

        @consumer.handles(topic)
        def handle(message: ReceivedMessage) -> None:
            assert "traceparent" in message.properties
            producer.send(Message(f"{topic}-next", message.body))

        sent = producer.send(Message(topic, b"12345", tags="paid", keys=["k1", "k2"]))
        with consumer:
            until(lambda: spans.named(f"process {topic}"), "it is handled")
        send, process, nested = (
            spans.one(f"{what}") for what in (f"send {topic}", f"process {topic}", f"send {topic}-next")
        )
        producer_id = producer.client_id
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert _is_child(process, send)
    assert _is_child(nested, process)
    assert _attributes(send) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": producer_id,
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.type": "normal",
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
    }
    found = _attributes(process)
    assert found["messaging.client.id"]
    assert found | {"messaging.client.id": ""} == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "",
        "messaging.consumer.group.name": group,
        "messaging.message.id": sent.message_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "paid",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
        "messaging.steelyard.attempt": 1,
    }


def test_what_another_make_sent_is_followed_too(cluster: Cluster, topic: str, spans: Spans) -> None:
    # As Java's instrumentation writes it.
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[spans.telemetry])

    @consumer.handles(topic)
    async def handle(_message: ReceivedMessage) -> None:
        assert trace.get_current_span().get_span_context().trace_id == 0x0AF7651916CD43DD8448EB211C80319C

    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1", properties=parent))
    with consumer:
        until(lambda: spans.named(f"process {topic}"), "it is handled")
    process = spans.one(f"process {topic}")
    assert process.parent is not None
    assert (process.parent.span_id, process.status.status_code) == (0xB7AD6B7169203331, StatusCode.UNSET)


@pytest.mark.parametrize("linger_ms", [None, 0])
def test_the_sender_s_own_span_is_the_parent(
    cluster: Cluster, topic: str, spans: Spans, linger_ms: float | None
) -> None:
    tracer = spans.provider.get_tracer("test")

    async def send() -> None:
        async with aio.Producer(cluster.namesrv, observers=[spans.telemetry], linger_ms=linger_ms) as producer:
            await producer.send(Message(topic, b"0"))

    with tracer.start_as_current_span("checkout") as checkout:
        with Producer(cluster.namesrv, observers=[spans.telemetry], linger_ms=linger_ms) as producer:
            producer.send(Message(topic, b"1"))
            producer.submit(Message(topic, b"2")).result(20)
            producer.send(Message(topic, b"3"), delay_s=1)
            producer.send_many([Message(topic, b"4"), Message(topic, b"5")])
            with producer.transaction(Message(topic, b"6")):
                pass
        asyncio.run(send())
    sent = [*spans.named(f"send {topic}"), *spans.named(f"commit {topic}")]
    assert len(sent) == 7
    assert {span.parent.span_id for span in sent if span.parent} == {checkout.get_span_context().span_id}
    kinds = [_attributes(span)["messaging.rocketmq.message.type"] for span in spans.named(f"send {topic}")]
    assert kinds == ["normal", "normal", "delay", "normal", "transaction", "normal"]


def test_a_batch_has_links_to_all_of_its_messages(cluster: Cluster, topic: str, spans: Spans) -> None:
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[spans.telemetry])

    @consumer.handles(topic, batch=8)
    def handle(messages: list[ReceivedMessage]) -> None:
        assert messages

    with Producer(cluster.namesrv, observers=[spans.telemetry]) as producer:
        producer.send_many([Message(topic, b"1"), Message(topic, b"2")])
        producer.send(Message(topic, b"3"))
    many, one = spans.named(f"send {topic}")
    with consumer:
        until(lambda: spans.named(f"process {topic}"), "they are handled")
    process = spans.one(f"process {topic}")
    assert process.parent is None
    assert [link.context.span_id for link in process.links] == [_id(many), _id(many), _id(one)]
    assert _attributes(process)["messaging.batch.message_count"] == 3
    assert _attributes(many)["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in _attributes(many)


def test_a_handler_that_fails_is_recorded(cluster: Cluster, topic: str, spans: Spans) -> None:
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[spans.telemetry])

    @consumer.handles(topic)
    def handle(_message: ReceivedMessage) -> None:
        raise ZeroDivisionError("no")

    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with consumer:
        until(lambda: spans.named(f"process {topic}"), "it is handled")
    bad = spans.one(f"process {topic}")
    assert (bad.status.status_code, bad.status.description) == (StatusCode.ERROR, "no")
    assert [event.name for event in bad.events] == ["exception"]
    found = _attributes(bad)
    assert (found["error.type"], found["messaging.steelyard.outcome"]) == ("ZeroDivisionError", "failed")


def test_each_attempt_is_a_child_of_the_one_that_sent_it(spans: Spans) -> None:
    def handle(message: ReceivedMessage) -> None:
        if message.attempt == 1:
            message.later(1)

    with clocked() as (cluster, pass_a_second):
        with Producer(cluster.namesrv, observers=[spans.telemetry]) as producer:
            producer.send(Message("orders", b"1"))
        consumer = Consumer(cluster.namesrv, "billing", start_from="first", observers=[spans.telemetry])
        consumer.handles("orders")(handle)
        with consumer:
            until(lambda: len(spans.named("process orders")) == 2 or pass_a_second(), "it is handled again")
    first, second = spans.named("process orders")
    assert all(_is_child(span, spans.one("send orders")) for span in (first, second))
    assert [_attributes(span)["messaging.steelyard.attempt"] for span in (first, second)] == [1, 2]
    assert _attributes(first)["messaging.steelyard.outcome"] == "later"
    assert first.status.status_code is StatusCode.UNSET


def test_a_send_that_fails_is_recorded(cluster: Cluster, topic: str, spans: Spans) -> None:
    with (
        Producer(cluster.namesrv, observers=[spans.telemetry]) as producer,
        pytest.raises(MessageRefused),
    ):
        producer.send(Message(topic, b""))
    span = spans.one(f"send {topic}")
    assert (span.status.status_code, _attributes(span)["error.type"]) == (StatusCode.ERROR, "MessageRefused")


def test_a_context_that_the_message_has_is_kept_and_linked_to(cluster: Cluster, topic: str, spans: Spans) -> None:
    own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with Producer(cluster.namesrv, observers=[spans.telemetry]) as producer:
        producer.send(Message(topic, b"1", properties={"traceparent": own}))
    with Admin(cluster.namesrv) as admin:
        (message,) = admin.messages.list(topic)
    assert message.properties["traceparent"] == own
    assert [link.context.span_id for link in spans.one(f"send {topic}").links] == [0xB7AD6B7169203331]


def test_a_poll_has_links_and_what_is_done_with_a_message_a_span(cluster: Cluster, topic: str, spans: Spans) -> None:
    with Producer(cluster.namesrv, observers=[spans.telemetry]) as producer:
        producer.send(Message(topic, b"1"))
    with PullConsumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[spans.telemetry]) as pull_consumer:
        pull_consumer.subscribe(topic)
        message = pull_consumer.poll_one()
        assert message is not None
        with spans.telemetry.processing(message, group=f"of-{topic}") as inside:
            assert trace.get_current_span() is inside
        with pytest.raises(ZeroDivisionError), spans.telemetry.processing(message):
            raise ZeroDivisionError
    send, poll = spans.one(f"send {topic}"), spans.one(f"poll {topic}")
    assert (poll.kind, [link.context.span_id for link in poll.links]) == (SpanKind.CLIENT, [_id(send)])
    good, bad = spans.named(f"process {topic}")
    assert _is_child(good, send)
    assert (good.status.status_code, bad.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)


def test_it_is_off_until_somebody_sets_up_an_sdk(
    cluster: Cluster, topic: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = OpenTelemetry()
    with Producer(cluster.namesrv, observers=[telemetry]) as producer:
        producer.send(Message(topic, b"1"))
        assert not telemetry.is_on
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: spans.provider)
        assert telemetry.is_on
        until(lambda: producer.send_many([Message(topic, b"2")]) and spans.named(f"send {topic}"), "the SDK is noticed")
    with Admin(cluster.namesrv) as admin:
        first, *_, last = sorted(admin.messages.list(topic), key=lambda message: message.offset)
    assert ["traceparent" in message.properties for message in (first, last)] == [False, True]


def test_a_provider_that_makes_nothing_is_off_too() -> None:
    assert not OpenTelemetry(trace.NoOpTracerProvider()).is_on


def test_without_a_message_s_span_nothing_is_done_in_one(cluster: Cluster, topic: str) -> None:
    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with PullConsumer(cluster.namesrv, f"of-{topic}", start_from="first") as pull_consumer:
        pull_consumer.subscribe(topic)
        message = pull_consumer.poll_one()
    assert message is not None
    with OpenTelemetry().processing(message) as span:
        assert not span.is_recording()


@pytest.mark.process
def test_only_the_api_is_loaded_and_by_nobody_else() -> None:
    script = (
        "import sys, steelyard, steelyard.aio, steelyard.metrics\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "import steelyard.otel\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.process
def test_without_the_api_the_extra_is_named() -> None:
    script = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "from steelyard.errors import MissingExtra\n"
        "from steelyard.errors import how_to_install\n"
        "try:\n"
        "    import steelyard.otel\n"
        "except MissingExtra as error:\n"
        "    assert how_to_install('otel') in str(error), error\n"
        "else:\n"
        "    raise SystemExit('nothing was said')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
