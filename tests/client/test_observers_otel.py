"""Spans by the messaging conventions, tied together across producer and consumer by what travels in properties."""

import asyncio
import secrets
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode

from steelyard import Admin, ClientConfig, Consumer, Message, Producer, PullConsumer, ReceivedMessage, aio
from steelyard.client.observers.observer import Observed, OutgoingMessages, SendOutcome
from steelyard.errors import ConfigurationError, MessageRefused, SendFailed
from steelyard.net.clock import now_ms
from steelyard.otel import OpenTelemetry, SteelyardInstrumentor
from steelyard.serve.embedded import Cluster
from tests.client.consumer_scene import clocked
from tests.tidy.tree import ROOT
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

    def all(self) -> tuple[ReadableSpan, ...]:
        """Return all that ended."""
        return self._exporter.get_finished_spans()

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
    host, port = cluster.brokers[sent.queue.broker].split(":")
    server = {"server.address": host, "server.port": int(port)}
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert _is_child(process, send)
    assert _is_child(nested, process)
    assert _attributes(send) == server | {
        "messaging.system": "rocketmq",
        "messaging.rocketmq.namespace": "",
        "steelyard.producer.group": "shop",
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
    assert found | {"messaging.client.id": ""} == server | {
        "messaging.system": "rocketmq",
        "messaging.rocketmq.namespace": "",
        "messaging.rocketmq.consumption_model": "clustering",
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
        "steelyard.attempt": 1,
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
    assert (found["error.type"], found["steelyard.outcome"]) == ("ZeroDivisionError", "failed")


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
    assert [_attributes(span)["steelyard.attempt"] for span in (first, second)] == [1, 2]
    assert _attributes(first)["steelyard.outcome"] == "later"
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


def test_the_namespace_and_the_model_of_consumption_are_said(cluster: Cluster, topic: str, spans: Spans) -> None:
    config = ClientConfig(cluster.namesrv, namespace="eu")
    with Producer(config, observers=[spans.telemetry]) as producer:
        producer.send(Message(topic, b"1"))
        with producer.transaction(Message(topic, b"2")):
            pass
    settled = _attributes(spans.one(f"commit {topic}"))
    assert settled["server.port"] == int(cluster.brokers["broker-0"].partition(":")[2])
    with PullConsumer(config, f"of-{topic}", start_from="first", observers=[spans.telemetry]) as pull_consumer:
        pull_consumer.subscribe(topic)
        message = pull_consumer.poll_one()
    assert message is not None
    with spans.telemetry.processing(message):
        pass
    names = [f"{what} {topic}" for what in ("send", "commit", "poll", "process")]
    assert {_attributes(spans.named(name)[0])["messaging.rocketmq.namespace"] for name in names} == {"eu"}


def test_a_broadcasting_consumer_says_so(cluster: Cluster, topic: str, spans: Spans, tmp_path: Path) -> None:
    observers = [spans.telemetry]
    consumer = Consumer(
        cluster.namesrv, "each", mode="broadcast", offsets_dir=tmp_path, start_from="first", observers=observers
    )
    consumer.handles(topic)(lambda _: None)
    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, b"1"))
    with consumer:
        until(lambda: spans.named(f"process {topic}"), "it is handled")
    assert _attributes(spans.one(f"process {topic}"))["messaging.rocketmq.consumption_model"] == "broadcasting"


def test_a_delayed_message_says_when_it_is_due(cluster: Cluster, topic: str, spans: Spans) -> None:
    due = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    began_ms = now_ms()
    with Producer(cluster.namesrv, observers=[spans.telemetry]) as producer:
        producer.send(Message(topic, b"1"), deliver_at=due)
        producer.send(Message(topic, b"2"), delay_s=30)
        with pytest.raises(ConfigurationError):
            producer.send(Message(topic, b"3"), delay_s=-1)
    name = "messaging.rocketmq.message.delivery_timestamp"
    first, second, refused = map(_attributes, spans.named(f"send {topic}"))
    assert first[name] == int(due.timestamp() * 1_000)
    due_ms = second[name]
    assert isinstance(due_ms, int)
    assert began_ms + 30_000 <= due_ms <= now_ms() + 30_000
    assert name not in refused


def test_a_send_that_failed_says_where_it_was_last_tried(spans: Spans) -> None:
    client = Observed("producer", "shop", "c-1", address_of={"broker-b": "[::1]:10911"}.get)
    assert spans.telemetry.is_on
    ended = spans.telemetry.sending(client, OutgoingMessages((Message("orders", b"1"), Message("orders", b"2"))))
    assert ended is not None
    error = SendFailed("not stored", attempts=(("broker-a", 12, "it is busy"), ("broker-b", 9, "it is busy")))
    ended(SendOutcome((error, error), error, 1_000))
    span = spans.one("send orders")
    assert (_attributes(span)["server.address"], _attributes(span)["server.port"]) == ("::1", 10911)
    tried = [dict(event.attributes or {}) for event in span.events if event.name == "attempt failed"]
    assert tried == [
        {"steelyard.broker": "broker-a", "steelyard.took_ms": 12, "steelyard.reason": "it is busy"},
        {"steelyard.broker": "broker-b", "steelyard.took_ms": 9, "steelyard.reason": "it is busy"},
    ]


def test_names_of_our_own_are_not_those_of_the_conventions(cluster: Cluster, topic: str, spans: Spans) -> None:
    consumer = Consumer(cluster.namesrv, f"of-{topic}", start_from="first", observers=[spans.telemetry])
    consumer.handles(topic)(lambda _: None)
    with Producer(cluster.namesrv, group="shop", observers=[spans.telemetry]) as producer:
        producer.send(Message(topic, b"1", tags="paid", keys="k1"))
        producer.send_many([Message(topic, b"2"), Message(topic, b"3")])
    with consumer:
        until(lambda: len(spans.named(f"process {topic}")) == 3, "they are handled")
    known = {value for name, value in vars(messaging_attributes).items() if name.startswith("MESSAGING_")}
    said = {name for span in spans.all() for name in _attributes(span)}
    assert {name for name in said - known if not name.startswith("steelyard.")} == {"server.address", "server.port"}


def test_an_instrumentor_observes_all_clients_but_those_with_spans_of_their_own(
    cluster: Cluster, topic: str, spans: Spans
) -> None:
    own, instrumentor = Spans(), SteelyardInstrumentor()

    def sends_without_a_span(producer: Producer) -> bool:
        before = len(spans.all())
        producer.send(Message(f"{topic}-late", b"2"))
        return len(spans.all()) == before

    try:
        for _ in range(2):
            instrumentor.instrument(tracer_provider=spans.provider, skip_dep_check=True)
        assert SteelyardInstrumentor().is_instrumented_by_opentelemetry
        with (
            Producer(cluster.namesrv, message_trace=True) as seen,
            Producer(cluster.namesrv, observers=[own.telemetry]) as other,
        ):
            seen.send(Message(topic, b"1"))
            other.send(Message(topic, b"1"))
            SteelyardInstrumentor().uninstrument()
            until(lambda: sends_without_a_span(seen), "the open client is left alone")
    finally:
        SteelyardInstrumentor().uninstrument()
    assert not instrumentor.is_instrumented_by_opentelemetry
    with Producer(cluster.namesrv) as late:
        assert sends_without_a_span(late)
    assert (len(spans.named(f"send {topic}")), len(own.named(f"send {topic}"))) == (1, 1)
    # The traces that RocketMQ's tools show are messages, too, and none of the program's.
    assert {span.name for span in spans.all()} <= {f"send {topic}", f"send {topic}-late"}


def test_the_entry_point_of_instrumentors_is_the_class() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    value = project["entry-points"]["opentelemetry_instrumentor"]["steelyard"]
    assert EntryPoint("steelyard", value, "opentelemetry_instrumentor").load() is SteelyardInstrumentor


@pytest.mark.process
def test_where_the_instrumentation_package_is_installed_it_is_one_of_its_instrumentors() -> None:
    script = (
        "import sys, types\n"
        "from abc import ABC\n"
        "package, module = types.ModuleType('i'), types.ModuleType('j')\n"
        "package.__path__ = []\n"
        "module.BaseInstrumentor = type('BaseInstrumentor', (ABC,), {})\n"
        "sys.modules['opentelemetry.instrumentation'] = package\n"
        "sys.modules['opentelemetry.instrumentation.instrumentor'] = module\n"
        "from steelyard.otel import SteelyardInstrumentor\n"
        "assert isinstance(SteelyardInstrumentor(), module.BaseInstrumentor)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


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
