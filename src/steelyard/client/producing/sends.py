"""One send on the loop: what balance/attempts.py decides is done here, and the answer wakes it again.

There is no task for a send: many thousands may be on their way, and a task for each costs more than the send itself.
Whoever waits hands in a promise, a future of asyncio or of a thread; if nobody waits any more, no further attempt is
made.

Whenever every broker has failed, the route is looked up again before the next attempt: the brokers may have moved.
"""

import asyncio
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import structs

from steelyard.balance.attempts import Attempt, GaveUp, Sending, SendOptions, Step
from steelyard.errors import SteelyardError, TransportError
from steelyard.net.clock import steady_ms

if TYPE_CHECKING:
    from steelyard.client.producing.flights import Flights
    from steelyard.client.producing.parcels import Parcel
    from steelyard.client.producing.pickers import SharedPicker
    from steelyard.client.routes import Routes
    from steelyard.client.session import Session
    from steelyard.model import Queue
    from steelyard.wire.command import Command

__all__ = ["Dispatch", "Promise", "has_new_route", "look_up_ms", "shortened"]

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_LOOK_UP_PART = 3
"""Looking up a route may take one part in so many of the time left: the brokers may come back, too."""

_HEAVY_BYTES = 128 * 1024
"""A parcel of so many bytes is written in another thread: compressing it would hold up all others."""


def look_up_ms(sending: Sending, error: SteelyardError, deadline_ms: int, now_ms: int) -> int:
    """Return how long to look for another route after a failed attempt; 0 where that would not help."""
    if not isinstance(error, TransportError) or not sending.is_shut_out:
        return 0
    return max(0, deadline_ms - now_ms) // _LOOK_UP_PART


def shortened(step: Step, by_ms: int) -> Step:
    """Return what comes next after a look at the route that changed nothing: its time is the send's own."""
    return structs.replace(step, timeout_ms=max(1, step.timeout_ms - by_ms)) if isinstance(step, Attempt) else step


async def has_new_route(routes: "Routes", topic: str, allowed_ms: int) -> bool:
    """Look a topic up again, and say whether its route is another one now."""
    before = routes.known_route(topic)
    try:
        async with asyncio.timeout(allowed_ms / 1000):
            await routes.look_up(topic)
    except (SteelyardError, TimeoutError):
        return False
    return routes.known_route(topic) is not before


class Promise(Protocol[R_contra]):
    """What a result is put into: a future, of either kind."""

    def done(self) -> bool:
        """Say whether it has a result, or nobody waits for one any more."""

    def set_result(self, result: R_contra, /) -> None:
        """Take the result."""

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error."""


class Dispatch(Generic[R]):
    """One parcel on its way. It has room already, and gives it back at its end."""

    __slots__ = (
        "_attempt",
        "_count",
        "_deadline_ms",
        "_flights",
        "_late",
        "_parcel",
        "_picker",
        "_promise",
        "_sending",
        "_session",
        "_size",
    )

    def __init__(
        self,
        session: "Session",
        flights: "Flights",
        picker: "SharedPicker",
        parcel: "Parcel[R]",
        promise: Promise[R],
        options: SendOptions,
        chosen: "Queue | None" = None,
    ) -> None:
        self._session, self._flights, self._picker = session, flights, picker
        self._parcel, self._promise = parcel, promise
        self._count, self._size = parcel.count, parcel.size
        self._sending = Sending(picker, options, chosen=chosen)
        self._late: R | None = None
        """The result of the first broker that stored it late, while another one is tried."""
        now_ms = steady_ms()
        self._deadline_ms = now_ms + options.left_ms
        self._attempt = self._sending.begin(now_ms)
        flights.flying.add(self)
        self._try()

    def give_up(self, error: SteelyardError) -> None:
        """End it, whatever becomes of the attempt that is under way."""
        self._end(None, error)

    def _take(self, step: Step) -> None:
        """Do what the rules say comes next."""
        if isinstance(step, Attempt):
            self._attempt = step
            if step.pause_ms:
                self._session.loop.call_later(step.pause_ms / 1000, self._try)
            else:
                self._try()
        elif isinstance(step, GaveUp):
            self._end(None, step.error)
        else:
            self._end(self._late, None)

    def _try(self) -> None:
        if self._promise.done():
            self._end(None, None)
            return
        queue = self._attempt.queue
        if self._size >= _HEAVY_BYTES:
            written = self._session.loop.run_in_executor(None, self._parcel.request, queue)
            written.add_done_callback(self._written)
            return
        try:
            self._ask(self._parcel.request(queue))
        except SteelyardError as error:
            self.failed(error)

    def _written(self, written: "asyncio.Future[Command]") -> None:
        """Go on with a request that was written, and compressed, in another thread."""
        try:
            self._ask(written.result())
        except SteelyardError as error:
            self.failed(error)
        except BaseException as error:
            self._end(None, error)

    def _ask(self, request: "Command") -> None:
        attempt = self._attempt
        caller = self._session.broker(attempt.queue.broker)
        caller.put(self, request, attempt.timeout_ms)

    def answered(self, answer: "Command") -> None:
        """Hear what a broker says to it."""
        try:
            result = self._parcel.read(answer, self._attempt.queue, self._sending.tried)
        except SteelyardError as refused:
            self.failed(refused)
            return
        is_late = answer.code != 0
        step = self._sending.succeeded(steady_ms(), late=is_late)
        if self._picker.is_borrowed:
            self._session.routes.refresh_soon(self._picker.topic)
        if not is_late:
            self._end(result, None)
            return
        if self._late is None:
            self._late = result
        self._take(step)

    def failed(self, error: SteelyardError) -> None:
        """Hear that an attempt failed, and go on as the rules say."""
        now_ms = steady_ms()
        step = self._sending.failed(error, now_ms)
        self._session.routes.refresh_soon(self._picker.topic)
        if self._promise.done():
            self._end(None, None)  # nobody waits for it any more
            return
        allowed_ms = look_up_ms(self._sending, error, self._deadline_ms, now_ms)
        if allowed_ms:
            self._session.spawn(self._look_up(step, allowed_ms))
        else:
            self._take(step)

    async def _look_up(self, step: Step, allowed_ms: int) -> None:
        began_ms = steady_ms()
        if await has_new_route(self._session.routes, self._picker.topic, allowed_ms):
            step = self._sending.renewed(steady_ms())
        else:
            step = shortened(step, steady_ms() - began_ms)
        self._take(step)

    def _end(self, result: R | None, error: BaseException | None) -> None:
        flights = self._flights
        if self not in flights.flying:
            return
        flights.flying.discard(self)
        flights.leave(self._count, self._size)
        promise = self._promise
        if promise.done():
            return
        if error is not None:
            promise.set_exception(error)
        elif result is not None:
            promise.set_result(result)
