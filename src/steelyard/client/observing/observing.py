"""All who watch one client: told one after the other, and none of them can do harm.

An observer that raises is logged once and left alone from then on. Where nobody watches there is no `Observing` at all,
and the client asks only whether there is one; where nobody wants to be told anything, only `is_on`. That is a plain
attribute, looked after some times a second: to ask each observer before each message would cost more than it may.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec import structs

from steelyard.client.observing.message_trace import MessageTrace
from steelyard.client.observing.observer import (
    Cached,
    Delivered,
    Incoming,
    Observed,
    Observer,
    Outcome,
    Outgoing,
    TransactionEnd,
)
from steelyard.client.producing.sent import Sent
from steelyard.errors import ConfigurationError, PartlySent, SteelyardError
from steelyard.model import Message
from steelyard.net.clock import steady_ns

if TYPE_CHECKING:
    from concurrent.futures import Future

    from steelyard.client.consuming.news import Moved
    from steelyard.client.consuming.received import Received
    from steelyard.client.session import Session

__all__ = ["Flight", "Observing", "check_observers"]

W = TypeVar("W")
S = TypeVar("S", Sent, list[Sent])

_Watch = tuple[Observer, Callable[[W], object]]
"""An observer, and what it wants to be told at the end of something."""
_LeaveAlone = Callable[[Observer, BaseException], None]

_LOOK_S = 0.1
"""How often an observer that may be off is asked whether it is."""

_FAILURES = (Exception, asyncio.CancelledError)
"""What is an observer's own fault: it never awaits, so that it was cancelled is not what the loop wants."""

_log = logging.getLogger("steelyard")


def check_observers(observers: Sequence[Observer]) -> None:
    """Refuse what is no observer."""
    if isinstance(observers, Observer):
        raise ConfigurationError("observers is one observer", next_step="give a list: observers=[it]")
    for each in observers:
        if not isinstance(each, Observer):
            raise ConfigurationError(
                f"an observer is a {type(each).__name__}", next_step="give instances of classes derived from Observer"
            )


class _Begun(Message, frozen=True, gc=False):
    """A message whose sending was told of already, with what observers added to it."""


class Observing:
    """The observers of one client."""

    __slots__ = ("_is_told", "_observers", "_on", "_trace", "client", "is_on")

    def __init__(self, kind: str, group: str, observers: Sequence[Observer], trace: MessageTrace | None = None) -> None:
        self._observers = tuple(observers) if trace is None else (*observers, trace)
        self._on: tuple[Observer, ...] = ()
        self._trace = trace
        self.is_on = False
        """Whether anybody wants to be told anything now."""
        self.client = Observed(kind, group)
        """Who is observed."""
        self._is_told = False
        self._look()

    @classmethod
    def of(
        cls, kind: str, group: str, observers: Sequence[Observer], trace: MessageTrace | None = None
    ) -> "Observing | None":
        """Return the observers of a client, or None where there is nobody."""
        return cls(kind, group, observers, trace) if observers or trace is not None else None

    def takes(self, message: object) -> bool:
        """Say whether it is to be told that a message is sent, to those who are on: not twice of the same."""
        return isinstance(message, Message) and not isinstance(message, _Begun)

    def takes_all(self, messages: Sequence[object]) -> bool:
        """Say the same of messages that are sent by one call."""
        return bool(messages) and self.takes(messages[0]) and all(isinstance(each, Message) for each in messages)

    # -- telling ------------------------------------------------------------------------------------------------------

    def opened(self, session: "Session") -> None:
        """Tell that the client is connected, and is known by its id from now on; on the loop."""
        self.client = structs.replace(self.client, id=session.client_id)
        self._look()
        if any(type(observer).is_on is not Observer.is_on for observer in self._observers):
            session.spawn(self._look_now_and_then())
        if self._trace is not None:
            self._trace.start(session)
        self._tell(lambda observer: observer.opened(self.client))

    async def closed(self) -> None:
        """Tell that it has ended; on the loop, and before its session is closed."""
        self._tell(lambda observer: observer.closed(self.client))
        if self._trace is not None:
            await self._trace.close()

    def sending(self, *messages: Message, kind: str = "normal") -> "Flight":
        """Tell that messages are about to be sent. Their flight is a context, and within it they are sent."""
        outgoing = Outgoing(messages, kind)
        watches = self._begin(lambda observer: observer.sending(self.client, outgoing))
        return Flight(self._with(outgoing), watches, self._leave_alone)

    def ended_transaction(self, end: TransactionEnd) -> None:
        """Tell how a transaction ended."""
        self._tell(lambda observer: observer.ended_transaction(self.client, end))

    def received(self, messages: "Sequence[Received]") -> None:
        """Tell of messages that came."""
        self._tell(lambda observer: observer.received(self.client, messages))

    def handling(self, incoming: Incoming) -> Callable[[Outcome], None]:
        """Tell that a handler is about to be called; return what is to be called with what became of it."""
        watches = self._begin(lambda observer: observer.handling(self.client, incoming))

        def ended(outcome: Outcome) -> None:
            # The last to begin is the first to end: what each set for the handler, it finds as it left it.
            _end(reversed(watches), outcome, self._leave_alone)

        return ended

    def moved(self, moved: "Moved", avoided: int) -> None:
        """Tell that queues came or went."""
        self._tell(lambda observer: observer.moved(self.client, moved, avoided=avoided))

    def cached(self, by_topic: Mapping[str, Cached]) -> None:
        """Tell what a consumer has in hand."""
        self._tell(lambda observer: observer.cached(self.client, by_topic))

    def _look(self) -> None:
        """Find out who wants to be told anything."""
        on = []
        for observer in self._observers:
            try:
                if observer.is_on:
                    on.append(observer)
            except _FAILURES as error:
                self._leave_alone(observer, error)
        self._on, self.is_on = tuple(on), bool(on)

    async def _look_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._look()

    # -- whatever they do ---------------------------------------------------------------------------------------------

    def _tell(self, tell: Callable[[Observer], object]) -> None:
        for observer in self._on:
            try:
                tell(observer)
            except _FAILURES as error:
                self._leave_alone(observer, error)

    def _begin(self, begin: Callable[[Observer], Callable[[W], object] | None]) -> "list[_Watch[W]]":
        watches: list[_Watch[W]] = []
        for observer in self._on:
            try:
                ended = begin(observer)
            except _FAILURES as error:
                self._leave_alone(observer, error)
            else:
                if ended is not None:
                    watches.append((observer, ended))
        return watches

    def _leave_alone(self, observer: Observer, error: BaseException) -> None:
        if any(each is observer for each in self._observers):
            self._observers = tuple(each for each in self._observers if each is not observer)
            self._on = tuple(each for each in self._on if each is not observer)
            self.is_on = bool(self._on)
            _log.error(
                "an observer of a %s of group %s failed, and is told nothing any more: %s: %r",
                self.client.kind,
                self.client.group,
                type(observer).__name__,
                error,
                exc_info=error,
            )

    def _with(self, outgoing: Outgoing) -> list[Message]:
        """Return the messages as they are sent, with what was added to them."""
        try:
            return [_begun(message, outgoing.properties) for message in outgoing.messages]
        except SteelyardError as error:
            if not self._is_told:
                self._is_told = True
                _log.error("what an observer added to a message is left out: %s", error)
            return [_begun(message, {}) for message in outgoing.messages]


def _begun(message: Message, added: Mapping[str, str]) -> _Begun:
    properties = {**added, **message.properties} if added else message.properties
    return _Begun(message.topic, message.body, message.tags, message.keys, properties, message.flag)


def _end(watches: "Iterable[_Watch[W]]", what: W, leave_alone: _LeaveAlone) -> None:
    for observer, ended in watches:
        try:
            ended(what)
        except _FAILURES as error:
            leave_alone(observer, error)


class Flight:
    """Messages of one call while they are being sent: a context, left with their results or with an error."""

    __slots__ = ("_began_ns", "_leave_alone", "_results", "_watches", "messages")

    def __init__(
        self,
        messages: list[Message],
        watches: list[_Watch[Delivered]],
        leave_alone: _LeaveAlone,
    ) -> None:
        self.messages = messages
        """As they are to be sent."""
        self._watches, self._leave_alone = watches, leave_alone
        self._results: tuple[Sent, ...] = ()
        self._began_ns = steady_ns()

    @property
    def message(self) -> Message:
        """The first of them, or the only one."""
        return self.messages[0]

    def stored(self, sent: S) -> S:
        """Take note of what a broker said, and return it."""
        self._results = (sent,) if isinstance(sent, Sent) else tuple(sent)
        return sent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended(error)

    def landed(self, future: "Future[Sent]") -> None:
        """End with what a future has."""
        error = future.exception()
        if error is None:
            self.stored(future.result())
        self.ended(error)

    def ended(self, error: BaseException | None) -> None:
        """End with an error, or with what was stored."""
        results: tuple[Sent | BaseException, ...] = self._results
        if isinstance(error, PartlySent):
            results = tuple(each for each in error.results if isinstance(each, Sent | BaseException))
        elif error is not None:
            results = (error,) * len(self.messages)
        _end(self._watches, Delivered(results, error, steady_ns() - self._began_ns), self._leave_alone)
