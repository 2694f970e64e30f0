"""Spans of OpenTelemetry for what clients send and handle, by its messaging conventions.

    telemetry = OpenTelemetry()
    Producer("localhost:9876", observers=[telemetry])
    Consumer("localhost:9876", group="billing", observers=[telemetry])

The API alone is used (the extra ``otel``): where spans go is decided by whoever sets up an SDK. As long as nobody has,
it is off, and costs next to nothing; an SDK that is set up later is noticed within a moment. What ties spans together
travels in properties of messages, ``traceparent`` and the like, written and read by the global propagator: so a message
that Java's instrumentation sent is followed, and the other way round.

A message is sent within a span of its own, and so is a batch, whose messages all carry the context of the one span. A
handler of single messages runs in a span that is the child of its message's; one of batches has links to all of them.
What a puller polls is one span with links; `processing` makes one for what is done with a message then.

Left out: a span for each of the messages of a batch, and metrics (`steelyard.metrics`).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from steelyard.client.consuming.received import Received
from steelyard.client.observing.observer import (
    Delivered,
    HandleEnded,
    Incoming,
    Observed,
    Observer,
    Outcome,
    Outgoing,
    SendEnded,
    TransactionEnd,
)
from steelyard.client.producing.sent import Sent
from steelyard.errors import MissingExtra
from steelyard.model import Message, StoredMessage
from steelyard.version import __version__

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context, attach, detach, get_current
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue
except ModuleNotFoundError:
    raise MissingExtra("spans of OpenTelemetry", extra="otel") from None

__all__ = ["OpenTelemetry"]

_SCHEMA = "https://opentelemetry.io/schemas/1.28.0"
_KINDS = {"normal": "normal", "oneway": "normal", "delayed": "delay", "half": "transaction"}
_NO_SDK = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)

_Attributes = dict[str, AttributeValue]


class OpenTelemetry(Observer):
    """Makes spans of what clients do. One may watch any number of clients.

    >>> OpenTelemetry().is_on  # nobody set up an SDK here
    False
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """Take a provider of tracers; without one it is the global one, whenever there is one."""
        self._provider = tracer_provider
        self._tracer: Tracer | None = None

    @property
    def is_on(self) -> bool:
        """Whether spans go anywhere."""
        if self._tracer is not None:
            return True
        provider = self._provider or trace.get_tracer_provider()
        if isinstance(provider, _NO_SDK):
            return False
        self._tracer = provider.get_tracer("steelyard", __version__, _SCHEMA)
        return True

    # -- sending ------------------------------------------------------------------------------------------------------

    def sending(self, client: Observed, outgoing: Outgoing) -> SendEnded | None:
        """Begin a span, and let its context go along."""
        span = self._start(
            "send",
            outgoing.topic,
            SpanKind.PRODUCER,
            {**_about(client, "send"), **_of_sent(outgoing)},
            _links(message for message in outgoing.messages if message.properties),
        )
        propagate.inject(outgoing.properties, trace.set_span_in_context(span))

        def ended(delivered: Delivered) -> None:
            if span.is_recording():
                _note_results(span, delivered)
            _end(span, delivered.error)

        return ended

    def ended_transaction(self, client: Observed, end: TransactionEnd) -> None:
        """Make a span of the end of a transaction."""
        attributes = _about(client, "settle") | {"messaging.message.id": end.message_id}
        self._start("commit" if end.commits else "rollback", end.topic, SpanKind.CLIENT, attributes).end()

    # -- receiving ----------------------------------------------------------------------------------------------------

    def received(self, client: Observed, messages: Sequence[Received]) -> None:
        """Make a span of what a puller polled; what is fetched ahead for a handler is told of when it is handled."""
        if client.kind != "puller":
            return
        by_topic: dict[str, list[Received]] = {}
        for message in messages:
            by_topic.setdefault(message.topic, []).append(message)
        for topic, theirs in by_topic.items():
            attributes = _about(client, "receive") | {"messaging.batch.message_count": len(theirs)}
            self._start("poll", topic, SpanKind.CLIENT, attributes, _links(theirs)).end()

    def handling(self, client: Observed, incoming: Incoming) -> HandleEnded | None:
        """Begin the span that a handler runs in."""
        # Nothing of where its worker was started from: a message has its own past.
        span, inside = self._start_processing(client, incoming.messages, Context(), is_batch=incoming.is_batch)
        token = attach(inside)

        def ended(outcome: Outcome) -> None:
            detach(token)
            if outcome.became != "done":
                span.set_attribute("messaging.steelyard.outcome", outcome.became)
            _end(span, outcome.error)

        return ended

    @contextmanager
    def processing(self, message: Received, group: str | None = None) -> Iterator[Span]:
        """Make a span of what is done within this context with a message that a puller polled."""
        if not self.is_on:
            yield trace.INVALID_SPAN
            return
        span, inside = self._start_processing(Observed("puller", group or ""), [message], get_current(), is_batch=False)
        token = attach(inside)
        try:
            yield span
        except BaseException as error:
            _end(span, error)
            raise
        else:
            span.end()
        finally:
            detach(token)

    def _start_processing(
        self, client: Observed, messages: Sequence[Received], around: Context, *, is_batch: bool
    ) -> tuple[Span, Context]:
        """Begin a span, and return it with the context that its work belongs in."""
        first = messages[0]
        attributes = _about(client, "process") | _of_received(messages, is_batch=is_batch)
        parent = around if is_batch else propagate.extract(first.properties, around)
        links = _links(messages) if is_batch else ()
        span = self._start("process", first.topic, SpanKind.CONSUMER, attributes, links, parent)
        return span, trace.set_span_in_context(span, parent)

    def _start(
        self,
        operation: str,
        topic: str | None,
        kind: SpanKind,
        attributes: _Attributes,
        links: Sequence[Link] = (),
        parent: Context | None = None,
    ) -> Span:
        assert self._tracer is not None  # nobody is told anything while it is off
        attributes["messaging.operation.name"] = operation
        if topic is not None:
            attributes["messaging.destination.name"] = topic
        name = operation if topic is None else f"{operation} {topic}"
        return self._tracer.start_span(name, parent, kind, attributes, links)


# -- attributes -------------------------------------------------------------------------------------------------------


def _about(client: Observed, operation_type: str) -> _Attributes:
    attributes: _Attributes = {"messaging.system": "rocketmq", "messaging.operation.type": operation_type}
    if client.id:
        attributes["messaging.client.id"] = client.id
    if client.kind != "producer" and client.group:
        attributes["messaging.consumer.group.name"] = client.group
    return attributes


def _of_sent(outgoing: Outgoing) -> _Attributes:
    messages = outgoing.messages
    attributes: _Attributes = {"messaging.rocketmq.message.type": _KINDS[outgoing.kind]}
    if len(messages) > 1:
        attributes["messaging.batch.message_count"] = len(messages)
        return attributes
    (message,) = messages
    attributes["messaging.message.body.size"] = len(message.body)
    return attributes | _tag_and_keys(message.tags, tuple(message.keys))


def _of_received(messages: Sequence[Received], *, is_batch: bool) -> _Attributes:
    queue = messages[0].queue
    attributes: _Attributes = {"messaging.destination.partition.id": str(queue.queue_id)}
    if is_batch:
        attributes["messaging.batch.message_count"] = len(messages)
        return attributes
    (message,) = messages
    attributes["messaging.message.id"] = message.message_id
    attributes["messaging.message.body.size"] = len(message.body)
    attributes["messaging.steelyard.attempt"] = 1 + message.reconsume_times
    return attributes | _tag_and_keys(message.tags, message.keys)


def _tag_and_keys(tag: str | None, keys: tuple[str, ...]) -> _Attributes:
    attributes: _Attributes = {}
    if tag:
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys:
        attributes["messaging.rocketmq.message.keys"] = keys
    return attributes


def _note_results(span: Span, delivered: Delivered) -> None:
    """Say where a message went, and what was tried before that."""
    for result in delivered.results:
        if isinstance(result, Sent):
            if len(delivered.results) == 1:
                span.set_attribute("messaging.message.id", result.message_id)
                span.set_attribute("messaging.destination.partition.id", str(result.queue.queue_id))
            for broker, took_ms, why in result.attempts:
                span.add_event("attempt failed", {"broker": broker, "took_ms": took_ms, "why": why})


def _links(messages: Iterable[Message | StoredMessage]) -> list[Link]:
    """Return links to the spans that messages carry the context of."""
    carried = (propagate.extract(message.properties, Context()) for message in messages)
    found = (trace.get_current_span(context).get_span_context() for context in carried)
    return [Link(each) for each in found if each.is_valid]


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None and span.is_recording():
        span.set_attribute("error.type", type(error).__qualname__)
        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
