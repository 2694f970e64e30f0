"""Async sends: performs on the loop what balance/producer/send_attempts.py decides, and limits what is in flight.

A send has no task: thousands may be in flight, and a task for each costs more than the send itself. Its caller passes a
promise, a future of asyncio or of a thread; if that is done already, no further attempt is made. When every broker has
failed, the route is looked up again before the next attempt: the brokers may have moved.

In-flight messages are bounded in number and in bytes. A send without room waits, in a thread or a coroutine, and is
admitted in order. A message larger than the whole limit goes alone. A send from a callback on the loop's own thread
does not wait, since the loop would wait for itself.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import structs

from steelyard.balance.producer.send_attempts import (
    SendAttempt,
    SendAttempts,
    SendGaveUp,
    SendOptions,
    SendStep,
    first_attempt,
)
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.net.clock import steady_ms

if TYPE_CHECKING:
    from steelyard.client.producer.prepare import SharedQueueRotation
    from steelyard.client.producer.send_request import SendRequest
    from steelyard.client.session import Session
    from steelyard.client.topic_routes import TopicRoutes
    from steelyard.model import Queue
    from steelyard.wire.command import Command

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)

_ENCODE_IN_THREAD_BYTES = 128 * 1024
"""A request of this size is encoded in another thread: compressing it would delay all others."""


def shorten_timeout(step: SendStep, by_ms: int) -> SendStep:
    """Return the next step with less time, after a look-up that changed nothing."""
    return structs.replace(step, timeout_ms=max(1, step.timeout_ms - by_ms)) if isinstance(step, SendAttempt) else step


async def route_changed(routes: "TopicRoutes", topic: str, allowed_ms: int) -> bool:
    """Look a topic up again, and say whether its route changed."""
    before = routes.cached_route(topic)
    try:
        async with asyncio.timeout(allowed_ms / 1000):
            await routes.look_up(topic)
    except (SteelyardError, TimeoutError):
        return False
    return routes.cached_route(topic) is not before


class Promise(Protocol[R_contra]):
    """Takes a result: a future of asyncio or of a thread."""

    def done(self) -> bool:
        """Say whether it has a result, or was cancelled."""

    def set_result(self, result: R_contra, /) -> None:
        """Take the result."""

    def set_exception(self, error: BaseException, /) -> None:
        """Take the error."""


class AsyncSend(Generic[R]):
    """One send in flight. It has acquired its room, and releases it at its end."""

    __slots__ = (
        "_began_ms",
        "_chosen",
        "_in_flight",
        "_late_result",
        "_options",
        "_promise",
        "_queue",
        "_request",
        "_rotation",
        "_sending",
        "_session",
        "_timeout_ms",
    )

    def __init__(
        self,
        session: "Session",
        in_flight: "InFlightLimit",
        rotation: "SharedQueueRotation",
        request: "SendRequest[R]",
        promise: Promise[R],
        options: SendOptions,
        chosen: "Queue | None" = None,
    ) -> None:
        self._session, self._in_flight, self._rotation = session, in_flight, rotation
        self._request, self._promise = request, promise
        self._options, self._chosen = options, chosen
        self._sending: SendAttempts | None = None
        """Made when the first attempt has not ended the send."""
        self._late_result: R | None = None
        """The result of the first broker that stored it late, while another broker is tried."""
        self._began_ms = steady_ms()
        self._queue, self._timeout_ms = first_attempt(rotation, options, chosen, self._began_ms)
        in_flight.sends.add(self)
        self._start_attempt()

    def abort(self, error: SteelyardError) -> None:
        """End it, whatever the current attempt does."""
        self._end(None, error)

    def _follow(self, step: SendStep) -> None:
        """Perform the next step."""
        if isinstance(step, SendAttempt):
            self._queue, self._timeout_ms = step.queue, step.timeout_ms
            if step.pause_ms:
                self._session.loop.call_later(step.pause_ms / 1000, self._start_attempt)
            else:
                self._start_attempt()
        elif isinstance(step, SendGaveUp):
            self._end(None, step.error)
        else:
            self._end(self._late_result, None)

    def _start_attempt(self) -> None:
        if self._promise.done():
            self._end(None, None)
            return
        if self._request.size >= _ENCODE_IN_THREAD_BYTES:
            written = self._session.loop.run_in_executor(None, self._request.encode, self._queue)
            written.add_done_callback(self._encoded)
            return
        try:
            command = self._request.encode(self._queue)
            self._session.broker_connection(self._queue.broker).submit(self, command, self._timeout_ms)
        except SteelyardError as error:
            self.on_error(error)

    def _encoded(self, encoded: "asyncio.Future[Command]") -> None:
        """Send a request that was encoded in another thread."""
        try:
            self._session.broker_connection(self._queue.broker).submit(self, encoded.result(), self._timeout_ms)
        except SteelyardError as error:
            self.on_error(error)
        except BaseException as error:
            self._end(None, error)

    def on_response(self, answer: "Command") -> None:
        """Handle a broker's answer."""
        rotation, sending = self._rotation, self._sending
        try:
            result = self._request.decode(answer, self._queue, () if sending is None else sending.failed_attempts)
        except SteelyardError as refused:
            self.on_error(refused)
            return
        if rotation.is_default_topic:
            self._session.routes.refresh_soon(rotation.topic)
        if answer.code == 0:
            if sending is not None or rotation.latency is not None:
                self._attempts().succeeded(steady_ms())
            self._end(result, None)
            return
        if self._late_result is None:
            self._late_result = result
        self._follow(self._attempts().succeeded(steady_ms(), is_late=True))

    def _attempts(self) -> SendAttempts:
        """Return the attempts so far, with the current one."""
        if self._sending is None:
            self._sending = SendAttempts(self._rotation, self._options, chosen=self._chosen)
            self._sending.begun(self._queue, self._began_ms)
        return self._sending

    def on_error(self, error: SteelyardError) -> None:
        """Handle a failed attempt."""
        now_ms, sending = steady_ms(), self._attempts()
        step = sending.failed(error, now_ms)
        self._session.routes.refresh_soon(self._rotation.topic)
        if self._promise.done():
            self._end(None, None)  # its caller has given up
            return
        allowed_ms = sending.route_lookup_ms(error, now_ms)
        if allowed_ms:
            self._session.spawn(self._look_up_route(step, allowed_ms))
        else:
            self._follow(step)

    async def _look_up_route(self, step: SendStep, allowed_ms: int) -> None:
        began_ms = steady_ms()
        if await route_changed(self._session.routes, self._rotation.topic, allowed_ms):
            step = self._attempts().route_renewed(steady_ms())
        else:
            step = shorten_timeout(step, steady_ms() - began_ms)
        self._follow(step)

    def _end(self, result: R | None, error: BaseException | None) -> None:
        in_flight = self._in_flight
        if self not in in_flight.sends:
            return
        in_flight.sends.discard(self)
        in_flight.release(self._request.count, self._request.size)
        promise = self._promise
        if promise.done():
            return
        if error is not None:
            promise.set_exception(error)
        elif result is not None:
            promise.set_result(result)


class _Waiter(NamedTuple):
    messages: int
    size: int
    wake: Callable[[], None]


class InFlightLimit:
    """The limit of messages in flight. Made on the loop; used from any thread."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._loop_thread = threading.get_ident()
        self._count = self._bytes = 0
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self.is_closed = False
        """Whether nothing may be sent any more."""
        self.sends: set[AsyncSend[Any]] = set()
        """The sends on the loop; used there alone."""

    @property
    def count(self) -> int:
        """The number of messages in flight."""
        return self._count

    def try_acquire(self, count: int, size: int) -> bool:
        """Acquire room if there is some and no send waits for it."""
        with self._lock:
            if self._waiting or not self._has_room(count, size):
                return False
            self._count += count
            self._bytes += size
            return True

    async def acquire(self, count: int, size: int) -> None:
        """Acquire room, on the loop; wait if need be."""
        if self.try_acquire(count, size):
            return
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(lambda: None if granted.done() else granted.set_result(None))

        waiter = _Waiter(count, size, wake)
        self._wait(waiter)
        try:
            await granted
        except asyncio.CancelledError:
            self._cancel_wait(waiter)
            raise
        self._check_open()

    def acquire_in_thread(self, count: int, size: int) -> None:
        """Acquire room, in a user's thread; wait if need be."""
        if self.try_acquire(count, size):
            return
        if threading.get_ident() == self._loop_thread:
            with self._lock:
                self._add(count, size)
            return
        granted = threading.Event()
        waiter = _Waiter(count, size, granted.set)
        self._wait(waiter)
        try:
            granted.wait()
        except BaseException:
            self._cancel_wait(waiter)
            raise
        self._check_open()

    def release(self, count: int, size: int) -> None:
        """Release room, and admit sends that wait for it."""
        with self._lock:
            self._count -= count
            self._bytes -= size
            if self._waiting:
                self._admit_waiting()

    def close(self, error: SteelyardError) -> None:
        """Wake all waiters and abort all sends; on the loop."""
        with self._lock:
            self.is_closed = True
            self._admit_waiting()
        for send in list(self.sends):
            send.abort(error)

    def _has_room(self, count: int, size: int) -> bool:
        if self.is_closed or not self._count:
            return True
        return self._count + count <= self._max_messages and self._bytes + size <= self._max_bytes

    def _add(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size

    def _admit_waiting(self) -> None:
        while self._waiting and self._has_room(*self._waiting[0][:2]):
            count, size, wake = self._waiting.popleft()
            self._add(count, size)
            wake()

    def _wait(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.append(waiter)
            self._admit_waiting()

    def _cancel_wait(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._admit_waiting()
                return
        self.release(waiter.messages, waiter.size)

    def _check_open(self) -> None:
        if self.is_closed:
            raise ConfigurationError("the producer was closed before the message was sent", next_step="send it again")
