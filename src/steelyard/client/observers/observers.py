"""Observers: notifies everything that observes one client, and keeps the client safe from it.

A client without observers has an empty `Observers`: `is_on` is False, sends get a `_NullSend`. `is_on` is a plain
attribute that is refreshed some times a second, because asking each observer before each message costs too much.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec import Struct, structs

from steelyard.client.observers.message_trace import TRACE_GROUP, MessageTraceWriter
from steelyard.client.observers.observer import (
    CachedMessages,
    HandlerCall,
    HandlerOutcome,
    Observed,
    Observer,
    OutgoingMessages,
    SendOutcome,
    TransactionEnd,
)
from steelyard.client.producer.send_result import SendResult
from steelyard.errors import BrokerNotInRoute, ConfigurationError, PartlySent, SteelyardError
from steelyard.model import Message
from steelyard.net.clock import now_ms, steady_ns
from steelyard.protocol.send import delivery_time_ms

if TYPE_CHECKING:
    from concurrent.futures import Future

    from steelyard.client.consumer.handler_task import HandlerTask
    from steelyard.client.consumer.notifications import Rebalanced
    from steelyard.client.consumer.received_message import ReceivedMessage
    from steelyard.client.session import Session

W = TypeVar("W")
S = TypeVar("S", SendResult, list[SendResult])

_EndCallback = tuple[Observer, Callable[[W], object]]
"""An observer, and the callback that it returned for the end of something."""

OBSERVERS_OF_ALL: list[Observer] = []
"""Observers of every client that is made from now on, unless it has one of that class: added by instrumentation."""

_REFRESH_S = 0.1
"""How often `Observer.is_on` is read."""

_FAILURES = (Exception, asyncio.CancelledError)
"""What counts as an observer's own fault: it never awaits, so a CancelledError of its own is none of the loop's."""

_log = logging.getLogger("steelyard.client")


def check_observers(observers: Sequence[Observer]) -> None:
    """Raise ConfigurationError unless all are observers."""
    if isinstance(observers, Observer):
        raise ConfigurationError("observers is one observer", next_step="give a list: observers=[it]")
    for each in observers:
        if not isinstance(each, Observer):
            raise ConfigurationError(
                f"an observer is a {type(each).__name__}", next_step="give instances of classes derived from Observer"
            )


class Observers:
    """The observers of one client; there may be none."""

    __slots__ = ("_active", "_has_logged_properties", "_observers", "_trace", "client", "is_on")

    def __init__(
        self,
        kind: str,
        group: str,
        observers: Sequence[Observer] = (),
        trace: MessageTraceWriter | None = None,
        *,
        is_broadcast: bool = False,
    ) -> None:
        own = {type(each) for each in observers}
        # Traces are not traced themselves.
        all_of_them = () if group.startswith(TRACE_GROUP) else OBSERVERS_OF_ALL
        shared = (each for each in all_of_them if type(each) not in own)
        self._observers = (*observers, *shared) if trace is None else (*observers, *shared, trace)
        self._active: tuple[Observer, ...] = ()
        self._trace = trace
        self.is_on = False
        """Whether an observer wants to be notified now."""
        self.client = Observed(kind, group, is_broadcast=is_broadcast)
        self._has_logged_properties = False
        self._refresh_active()

    def opened(self, session: "Session") -> None:
        """Notify that the client is connected, and has its id from now on; on the loop."""

        def address_of(broker: str) -> str | None:
            try:
                return session.broker_address(broker)
            except BrokerNotInRoute:
                return None

        self.client = structs.replace(
            self.client, id=session.client_id, namespace=session.namespace.name, address_of=address_of
        )
        self._refresh_active()
        if any(type(observer).is_on is not Observer.is_on for observer in self._observers):
            session.spawn(self._refresh_periodically())
        if self._trace is not None:
            self._trace.start(session)
        self._notify(lambda observer: observer.opened(self.client))

    async def closed(self) -> None:
        """Notify that the client has ended; on the loop, before its session is closed."""
        self._notify(lambda observer: observer.closed(self.client))
        if self._trace is not None:
            await self._trace.close()

    def sending(
        self,
        *messages: Message,
        kind: str = "normal",
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
    ) -> "_NullSend | _ObservedSend":
        """Notify that messages are about to be sent, and return the context in which to send its ``messages``.

        What is no message is not shown to observers: the producer will refuse it.
        """
        if not self.is_on or not messages or not all(isinstance(each, Message) for each in messages):
            return _NullSend(messages)
        due_ms = None
        if delay_s is not None or deliver_at is not None:
            kind = "delayed"
            with suppress(ConfigurationError):  # the producer will refuse it
                due_ms = delivery_time_ms(delay_s, deliver_at, now_ms=now_ms())
        outgoing = OutgoingMessages(messages, kind, due_ms)
        callbacks = self._start(lambda observer: observer.sending(self.client, outgoing))
        return _ObservedSend(self._with_properties(outgoing), callbacks, self)

    def ended_transaction(self, end: TransactionEnd) -> None:
        """Notify how a transaction ended."""
        self._notify(lambda observer: observer.ended_transaction(self.client, end))

    def received(self, messages: "Sequence[ReceivedMessage]") -> None:
        """Notify that messages arrived."""
        self._notify(lambda observer: observer.received(self.client, messages))

    def handling(self, incoming: HandlerCall) -> Callable[[HandlerOutcome], None]:
        """Notify that a handler is about to be called; the returned function takes its outcome."""
        callbacks = self._start(lambda observer: observer.handling(self.client, incoming))

        def ended(outcome: HandlerOutcome) -> None:
            # The last to begin is the first to end: each finds its context variables as it left them.
            self.end(reversed(callbacks), outcome)

        return ended

    def rebalanced(self, event: "Rebalanced", avoided: int) -> None:
        """Notify that queues were taken or released."""
        self._notify(lambda observer: observer.rebalanced(self.client, event, avoided=avoided))

    def cached(self, by_topic: Mapping[str, CachedMessages]) -> None:
        """Notify what a consumer has fetched and not finished."""
        self._notify(lambda observer: observer.cached(self.client, by_topic))

    def _refresh_active(self) -> None:
        active = []
        for observer in self._observers:
            try:
                if observer.is_on:
                    active.append(observer)
            except _FAILURES as error:
                self._disable(observer, error)
        self._active, self.is_on = tuple(active), bool(active)

    async def _refresh_periodically(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_S)
            self._refresh_active()

    def _notify(self, notify: Callable[[Observer], object]) -> None:
        for observer in self._active:
            try:
                notify(observer)
            except _FAILURES as error:
                self._disable(observer, error)

    def _start(self, start: Callable[[Observer], Callable[[W], object] | None]) -> "list[_EndCallback[W]]":
        callbacks: list[_EndCallback[W]] = []
        for observer in self._active:
            try:
                ended = start(observer)
            except _FAILURES as error:
                self._disable(observer, error)
            else:
                if ended is not None:
                    callbacks.append((observer, ended))
        return callbacks

    def end(self, callbacks: "Iterable[_EndCallback[W]]", outcome: W) -> None:
        """Call what observers returned for the end of something."""
        for observer, ended in callbacks:
            try:
                ended(outcome)
            except _FAILURES as error:
                self._disable(observer, error)

    def _disable(self, observer: Observer, error: BaseException) -> None:
        if any(each is observer for each in self._observers):
            self._observers = tuple(each for each in self._observers if each is not observer)
            self._active = tuple(each for each in self._active if each is not observer)
            self.is_on = bool(self._active)
            _log.error(
                "an observer of a %s of group %s failed, and is not called any more: %s: %r",
                self.client.kind.replace("_", " "),
                self.client.group,
                type(observer).__name__,
                error,
                exc_info=error,
            )

    def _with_properties(self, outgoing: OutgoingMessages) -> Sequence[Message]:
        """Return the messages with the properties that observers added; a message's own properties win."""
        added = outgoing.properties
        if not added:
            return outgoing.messages
        try:
            return [structs.replace(each, properties={**added, **each.properties}) for each in outgoing.messages]
        except SteelyardError as error:
            if not self._has_logged_properties:
                self._has_logged_properties = True
                _log.error("properties that an observer added to a message are left out: %s", error)
            return outgoing.messages


class _NullSend(Struct, frozen=True, gc=False):
    """The context of one send that nothing observes; a Struct, because every unobserved send makes one."""

    messages: Sequence[Message]

    def set_result(self, sent: S) -> S:
        """Return what a broker answered."""
        return sent

    def defer(self, future: "Future[SendResult]") -> "Future[SendResult]":
        """Return a future that ends later than this context."""
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        pass


class _ObservedSend:
    """The context of one send: leaving it notifies observers of the results, or of the error."""

    __slots__ = ("_began_ns", "_callbacks", "_is_deferred", "_observers", "_results", "messages")

    def __init__(
        self, messages: Sequence[Message], callbacks: list[_EndCallback[SendOutcome]], observers: Observers
    ) -> None:
        self.messages = messages
        self._callbacks, self._observers = callbacks, observers
        self._results: tuple[SendResult, ...] = ()
        self._is_deferred = False
        self._began_ns = steady_ns()

    def set_result(self, sent: S) -> S:
        """Keep what a broker answered, and return it."""
        self._results = (sent,) if isinstance(sent, SendResult) else tuple(sent)
        return sent

    def defer(self, future: "Future[SendResult]") -> "Future[SendResult]":
        """Notify observers when a future ends, not when this context does; return the future."""
        self._is_deferred = True
        future.add_done_callback(self._future_done)
        return future

    def _future_done(self, future: "Future[SendResult]") -> None:
        error = future.exception()
        if error is None:
            self.set_result(future.result())
        self._complete(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._is_deferred:
            self._complete(error)

    def _complete(self, error: BaseException | None) -> None:
        results: tuple[SendResult | BaseException, ...] = self._results
        if isinstance(error, PartlySent):
            results = tuple(each for each in error.results if isinstance(each, SendResult | BaseException))
        elif error is not None:
            results = (error,) * len(self.messages)
        self._observers.end(self._callbacks, SendOutcome(results, error, steady_ns() - self._began_ns))


@contextmanager
def observe_handler(observers: "Observers", task: "HandlerTask") -> Iterator[None]:
    """Notify observers of the handler call within this context: of the message that was begun last, or of the batch."""
    messages, began, failed = task.given, task.count, len(task.failed)
    ended = observers.handling(HandlerCall(messages, task.handle.queue, task.handler.name, task.handler.batch > 1))
    began_ns = steady_ns()
    try:
        yield
    except BaseException as error:
        # The loop cancels it: no result reaches the member, so the message will be redelivered.
        ended(HandlerOutcome("left", error, steady_ns() - began_ns))
        raise
    took_ns = steady_ns() - began_ns
    if task.count < began:
        became = "left"
    elif len(task.failed) > failed:
        became = "failed"
    else:
        became = "later" if any(message.offset in task.delivery.later for message in messages) else "done"
    ended(HandlerOutcome(became, task.error if became == "failed" else None, took_ns))
