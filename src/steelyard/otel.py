"""OpenTelemetry spans for sent and handled messages, by its messaging conventions.

    telemetry = OpenTelemetry()
    Producer("localhost:9876", observers=[telemetry])
    Consumer("localhost:9876", group="billing", observers=[telemetry])

Only the API is used (the extra ``otel``): an SDK decides where spans go. Without one this is off, and costs next to
nothing; one that is set up later is noticed at once. The context travels in properties of messages (``traceparent``),
by the global propagator, so traces continue to and from Java's instrumentation.

A send has a span, and so has a batch, whose messages all carry its context. A handler of single messages runs in a
child span of its message, one of batches has links to all of them. A poll of a pull consumer is one span with links;
`processing` makes one for what is done with a message then. Attributes are those of the conventions for RocketMQ, as of
the schema below; ours begin with ``steelyard.``. Left out: a span per message of a batch, and metrics.

`SteelyardInstrumentor` is for programs that instrument their libraries by name (``opentelemetry-instrument``).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import ClassVar

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.observers.observer import (
    HandleEnded,
    HandlerCall,
    HandlerOutcome,
    Observed,
    Observer,
    OutgoingMessages,
    SendEnded,
    SendOutcome,
    TransactionEnd,
)
from steelyard.client.observers.observers import OBSERVERS_OF_ALL
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import MissingExtra, SendFailed
from steelyard.model import Message, StoredMessage
from steelyard.version import __version__

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context, attach, detach, get_current
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue
except ModuleNotFoundError:
    raise MissingExtra("spans of OpenTelemetry", extra="otel") from None

__all__ = ["OpenTelemetry", "SteelyardInstrumentor"]

_SCHEMA_URL = "https://opentelemetry.io/schemas/1.40.0"
_MESSAGE_TYPES = {"normal": "normal", "oneway": "normal", "delayed": "delay", "half": "transaction"}
_PROVIDERS_WITHOUT_SDK = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)

_Attributes = dict[str, AttributeValue]


class OpenTelemetry(Observer):
    """Makes spans of what clients do. One may observe any number of clients.

    >>> OpenTelemetry().is_on  # there is no SDK here
    False
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """Use a tracer provider; without one, the global one."""
        self._provider = tracer_provider
        self._tracer: Tracer | None = None
        self._is_disabled = False

    @property
    def is_on(self) -> bool:
        """Whether an SDK records spans."""
        if self._is_disabled:
            return False
        if self._tracer is not None:
            return True
        provider = self._provider or trace.get_tracer_provider()
        if isinstance(provider, _PROVIDERS_WITHOUT_SDK):
            return False
        self._tracer = provider.get_tracer("steelyard", __version__, _SCHEMA_URL)
        return True

    def disable(self) -> None:
        """Make no more spans; open clients notice it within a tenth of a second."""
        self._is_disabled = True

    def sending(self, client: Observed, outgoing: OutgoingMessages) -> SendEnded | None:
        """Start a span, and inject its context into the messages."""
        span = self._start_span(
            "send",
            outgoing.topic,
            SpanKind.PRODUCER,
            {**_client_attributes(client, "send"), **_send_attributes(outgoing)},
            _links_to(message for message in outgoing.messages if message.properties),
        )
        propagate.inject(outgoing.properties, trace.set_span_in_context(span))

        def ended(outcome: SendOutcome) -> None:
            if span.is_recording():
                _record_results(client, span, outcome)
            _end_span(span, outcome.error)

        return ended

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Make a span for the end of a transaction."""
        attributes = _client_attributes(client, "settle", end.broker) | {"messaging.message.id": end.message_id}
        self._start_span("commit" if end.commits else "rollback", end.topic, SpanKind.CLIENT, attributes).end()

    def received(self, client: Observed, messages: Sequence[ReceivedMessage]) -> None:
        """Make a span for a poll of a pull consumer; messages for a handler have one when they are handled."""
        if client.kind != "pull_consumer":
            return
        by_topic: dict[str, list[ReceivedMessage]] = {}
        for message in messages:
            by_topic.setdefault(message.topic, []).append(message)
        for topic, theirs in by_topic.items():
            brokers = {message.queue.broker for message in theirs}
            attributes = _client_attributes(client, "receive", *brokers)
            attributes["messaging.batch.message_count"] = len(theirs)
            self._start_span("poll", topic, SpanKind.CLIENT, attributes, _links_to(theirs)).end()

    def handling(self, client: Observed, incoming: HandlerCall) -> HandleEnded | None:
        """Start the span that a handler runs in."""
        # An empty context: the trace of a message is not that of the thread that handles it.
        span, inside = self._start_process_span(client, incoming.messages, Context(), is_batch=incoming.is_batch)
        token = attach(inside)

        def ended(outcome: HandlerOutcome) -> None:
            detach(token)
            if outcome.became != "done":
                span.set_attribute("steelyard.outcome", outcome.became)
            _end_span(span, outcome.error)

        return ended

    @contextmanager
    def processing(self, message: ReceivedMessage, group: str | None = None) -> Iterator[Span]:
        """Make a span for the processing of a polled message within this context."""
        if not self.is_on:
            yield trace.INVALID_SPAN
            return
        span, inside = self._start_process_span(
            Observed("pull_consumer", group or "", namespace=message.namespace.name),
            [message],
            get_current(),
            is_batch=False,
        )
        token = attach(inside)
        try:
            yield span
        except BaseException as error:
            _end_span(span, error)
            raise
        else:
            span.end()
        finally:
            detach(token)

    def _start_process_span(
        self, client: Observed, messages: Sequence[ReceivedMessage], around: Context, *, is_batch: bool
    ) -> tuple[Span, Context]:
        """Start a span, and return it with its context."""
        first = messages[0]
        attributes = _client_attributes(client, "process", first.queue.broker)
        attributes |= _receive_attributes(messages, is_batch=is_batch)
        parent = around if is_batch else propagate.extract(first.properties, around)
        links = _links_to(messages) if is_batch else ()
        span = self._start_span("process", first.topic, SpanKind.CONSUMER, attributes, links, parent)
        return span, trace.set_span_in_context(span, parent)

    def _start_span(
        self,
        operation: str,
        topic: str | None,
        kind: SpanKind,
        attributes: _Attributes,
        links: Sequence[Link] = (),
        parent: Context | None = None,
    ) -> Span:
        assert self._tracer is not None  # observers are not called while they are off
        attributes["messaging.operation.name"] = operation
        if topic is not None:
            attributes["messaging.destination.name"] = topic
        name = operation if topic is None else f"{operation} {topic}"
        return self._tracer.start_span(name, parent, kind, attributes, links)


class SteelyardInstrumentor:
    """Observes all clients that are made from now on: what ``opentelemetry-instrument`` finds by an entry point.

    It has the methods of OpenTelemetry's `BaseInstrumentor`, and counts as one where that is installed. A client that
    has an `OpenTelemetry` of its own keeps that one alone.

    >>> instrumentor = SteelyardInstrumentor()
    >>> instrumentor.instrument()
    >>> instrumentor.is_instrumented_by_opentelemetry
    True
    >>> SteelyardInstrumentor().uninstrument()
    """

    _telemetry: ClassVar[OpenTelemetry | None] = None

    def __init__(self) -> None:
        with suppress(ModuleNotFoundError):
            import_module("opentelemetry.instrumentation.instrumentor").BaseInstrumentor.register(type(self))

    @property
    def is_instrumented_by_opentelemetry(self) -> bool:
        """Whether clients are observed."""
        return self._telemetry is not None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what has to be installed."""
        return ("steelyard",)

    def instrument(self, *, tracer_provider: TracerProvider | None = None, **_: object) -> None:
        """Begin to observe clients; arguments that only other instrumentors know are ignored."""
        if self._telemetry is None:
            SteelyardInstrumentor._telemetry = OpenTelemetry(tracer_provider)
            OBSERVERS_OF_ALL.append(SteelyardInstrumentor._telemetry)

    def uninstrument(self, **_: object) -> None:
        """Make no more spans, of open clients neither."""
        if self._telemetry is not None:
            self._telemetry.disable()
            OBSERVERS_OF_ALL.remove(self._telemetry)
            SteelyardInstrumentor._telemetry = None


def _client_attributes(client: Observed, operation_type: str, *brokers: str) -> _Attributes:
    attributes: _Attributes = {
        "messaging.system": "rocketmq",
        "messaging.operation.type": operation_type,
        "messaging.rocketmq.namespace": client.namespace,
    }
    if client.id:
        attributes["messaging.client.id"] = client.id
    if client.group:
        # The conventions have no attribute for a producer's group.
        name = "steelyard.producer.group" if client.kind == "producer" else "messaging.consumer.group.name"
        attributes[name] = client.group
    if client.kind == "consumer":
        attributes["messaging.rocketmq.consumption_model"] = "broadcasting" if client.is_broadcast else "clustering"
    return attributes | _server_attributes(client, brokers)


def _server_attributes(client: Observed, brokers: Collection[str]) -> _Attributes:
    """Return the address of the broker; nothing if there are several."""
    address = client.address_of(next(iter(brokers))) if len(brokers) == 1 else None
    if address is None:
        return {}
    host, _, port = address.rpartition(":")
    return {"server.address": host.strip("[]"), "server.port": int(port)}


def _send_attributes(outgoing: OutgoingMessages) -> _Attributes:
    messages = outgoing.messages
    attributes: _Attributes = {"messaging.rocketmq.message.type": _MESSAGE_TYPES[outgoing.kind]}
    if outgoing.deliver_at_ms is not None:
        attributes["messaging.rocketmq.message.delivery_timestamp"] = outgoing.deliver_at_ms
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
        return attributes
    (message,) = messages
    attributes["messaging.message.body.size"] = len(message.body)
    return attributes | _tag_and_key_attributes(message.tags, tuple(message.keys))


def _receive_attributes(messages: Sequence[ReceivedMessage], *, is_batch: bool) -> _Attributes:
    queue = messages[0].queue
    attributes: _Attributes = {"messaging.destination.partition.id": str(queue.queue_id)}
    if is_batch:
        attributes["messaging.batch.message_count"] = len(messages)
        return attributes
    (message,) = messages
    attributes["messaging.message.id"] = message.message_id
    attributes["messaging.message.body.size"] = len(message.body)
    attributes["steelyard.attempt"] = 1 + message.reconsume_times
    return attributes | _tag_and_key_attributes(message.tags, message.keys)


def _tag_and_key_attributes(tag: str | None, keys: tuple[str, ...]) -> _Attributes:
    attributes: _Attributes = {}
    if tag:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = keys
    return attributes


def _record_results(client: Observed, span: Span, outcome: SendOutcome) -> None:
    """Record the queue of a message, the broker, and the failed attempts."""
    brokers = set()
    for result in {id(each): each for each in outcome.results}.values():  # the messages of a batch fail by one error
        if isinstance(result, SendResult):
            brokers.add(result.queue.broker)
            if len(outcome.results) == 1:
                span.set_attribute("messaging.message.id", result.message_id)
                span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
        elif isinstance(result, SendFailed):
            brokers.update(broker for broker, _, _ in result.attempts[-1:])
        for broker, took_ms, why in result.attempts if isinstance(result, SendResult | SendFailed) else ():
            event: _Attributes = {"steelyard.broker": broker, "steelyard.took_ms": took_ms, "steelyard.reason": why}
            span.add_event("attempt failed", event)
    span.set_attributes(_server_attributes(client, brokers))


def _links_to(messages: Iterable[Message | StoredMessage]) -> list[Link]:
    """Return links to the spans whose context messages carry."""
    carried = (propagate.extract(message.properties, Context()) for message in messages)
    found = (trace.get_current_span(context).get_span_context() for context in carried)
    return [Link(each) for each in found if each.is_valid]


def _end_span(span: Span, error: BaseException | None) -> None:
    if error is not None and span.is_recording():
        span.set_attribute("error.type", type(error).__qualname__)
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
