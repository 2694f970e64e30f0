"""Blocking sends: in the caller's thread, by the same rules as on the loop, on connections that belong to the thread.

Handing a message to the loop and its answer back costs several times the send itself. So a thread that waits for its
message anyway has a connection to each broker it sends to, until it ends or the producer is closed. The loop is asked
for routes: when a topic is new, and when every broker has failed.

`LoopHandoff` carries what threads submit to the loop. Waking the loop costs more than sending, so what is submitted
while a wake-up is pending goes with it. It needs no lock: the loop clears the flag before it drains, so a submission
after the drain wakes it again.
"""

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from steelyard.balance.producer.send_attempts import (
    SendAttempts,
    SendGaveUp,
    SendOptions,
    SendStep,
    SendStored,
    first_attempt,
)
from steelyard.client.process_guard import closed_error
from steelyard.client.producer.send_async import shorten_timeout
from steelyard.errors import ConnectionClosed, SteelyardError
from steelyard.net.blocking_connection import BlockingConnection
from steelyard.net.clock import steady_ms
from steelyard.wire.command import ONEWAY_FLAG, Command
from steelyard.wire.signing import sign_command

if TYPE_CHECKING:
    from steelyard.client.producer.prepare import SharedQueueRotation
    from steelyard.client.producer.send_request import SendRequest
    from steelyard.client.session import Session
    from steelyard.model import Queue

R = TypeVar("R")

_CHECK_IDLE_MS = 1_000
"""A connection that was idle this long is checked before use: servers close idle connections."""
_POLL_S = 0.002


class _ThreadConnections:
    """The connections of one thread, by address."""

    __slots__ = ("__weakref__", "by_address", "is_busy")

    def __init__(self) -> None:
        self.by_address: dict[str, BlockingConnection] = {}
        self.is_busy = False
        """Whether its thread is sending."""

    def drop(self, address: str) -> None:
        connection = self.by_address.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for address in list(self.by_address):
            self.drop(address)

    def __del__(self) -> None:
        self.close()  # its thread has ended


class BlockingSender:
    """The connections of all threads that send through one producer."""

    def __init__(self, session: "Session", route_changed: Callable[[str, int], bool]) -> None:
        self._session = session
        self._route_changed = route_changed
        """Looks a topic up again within so many milliseconds; returns whether its route changed."""
        self._tls = session.config.tls_context()
        self._credentials = session.config.credentials
        self._local = threading.local()
        self._all_connections: weakref.WeakSet[_ThreadConnections] = weakref.WeakSet()
        self._register_lock = threading.Lock()
        self.is_closing = False
        self._closed = threading.Event()

    def send(
        self,
        rotation: "SharedQueueRotation",
        request: "SendRequest[R]",
        options: SendOptions,
        chosen: "Queue | None" = None,
    ) -> R:
        """Send a request, and return what it reads from the broker's answer; raises SendFailed."""
        connections = self._busy_connections()
        try:
            attempt_ms = began_ms = steady_ms()
            queue, timeout_ms = first_attempt(rotation, options, chosen, began_ms)
            sending: SendAttempts | None = None  # made when the first attempt has not ended the send
            late: R | None = None
            while True:
                error: SteelyardError | None = None
                try:
                    answer = self._exchange(connections, queue.broker, request.encode(queue), timeout_ms, attempt_ms)
                    result = request.decode(answer, queue, () if sending is None else sending.failed_attempts)
                    if rotation.is_default_topic:
                        self._session.routes.refresh_soon(rotation.topic)
                    if answer.code == 0 and sending is None and rotation.latency is None:
                        return result
                except SteelyardError as failure:
                    error = failure
                if sending is None:
                    sending = SendAttempts(rotation, options, chosen=chosen)
                    sending.begun(queue, began_ms)
                if error is not None:
                    step = self._attempt_failed(sending, rotation.topic, error)
                else:
                    step = sending.succeeded(steady_ms(), is_late=answer.code != 0)
                    if answer.code == 0:
                        return result
                    late = result if late is None else late
                if isinstance(step, SendGaveUp):
                    raise step.error
                if isinstance(step, SendStored):
                    assert late is not None
                    return late
                queue, timeout_ms = step.queue, step.timeout_ms
                if step.pause_ms:
                    self._closed.wait(step.pause_ms / 1000)
                attempt_ms = steady_ms()
        finally:
            connections.is_busy = False

    def send_oneway(self, rotation: "SharedQueueRotation", request: "SendRequest[R]", options: SendOptions) -> None:
        """Send a request one way; raises SendFailed if it could not even be written."""
        sending = SendAttempts(rotation, options)
        connections = self._busy_connections()
        try:
            attempt = sending.begin(steady_ms())
            queue = attempt.queue
            self._exchange(connections, queue.broker, request.encode(queue), attempt.timeout_ms, steady_ms())
        except SteelyardError as error:
            end = sending.failed(error, steady_ms())
            if isinstance(end, SendGaveUp):
                raise end.error from None
        finally:
            connections.is_busy = False

    def close(self, timeout_s: float) -> None:
        """Wait for running sends, within the timeout, then close all connections."""
        end_s = time.monotonic() + timeout_s
        with self._register_lock:
            self.is_closing = True
            all_connections = list(self._all_connections)
        while any(connections.is_busy for connections in all_connections) and time.monotonic() < end_s:
            time.sleep(_POLL_S)
        self._closed.set()
        for connections in all_connections:
            connections.close()

    def _busy_connections(self) -> _ThreadConnections:
        """Return the connections of this thread, which are busy from now on."""
        connections: _ThreadConnections | None = getattr(self._local, "connections", None)
        if connections is None:
            connections = self._local.connections = _ThreadConnections()
            with self._register_lock:
                self._all_connections.add(connections)
        connections.is_busy = True  # before the check: `close` works the other way round
        if self.is_closing:
            connections.is_busy = False
            raise closed_error("Producer")
        return connections

    def _attempt_failed(self, sending: SendAttempts, topic: str, error: SteelyardError) -> SendStep:
        now_ms = steady_ms()
        step = sending.failed(error, now_ms)
        self._session.routes.refresh_soon(topic)
        allowed_ms = sending.route_lookup_ms(error, now_ms)
        if allowed_ms and not self._closed.is_set():
            if self._route_changed(topic, allowed_ms):
                return sending.route_renewed(steady_ms())
            return shorten_timeout(step, steady_ms() - now_ms)
        return step

    def _exchange(
        self, connections: _ThreadConnections, broker: str, request: Command, left_ms: int, began_ms: int
    ) -> Command:
        """Send a request and return the answer; a oneway request is returned itself."""
        if self._credentials is not None:
            request = sign_command(request, self._credentials)
        address = self._session.broker_address(broker)
        connection = connections.by_address.get(address)
        try:
            if connection is None or began_ms - connection.last_used_ms > _CHECK_IDLE_MS:
                connection = self._connect(connections, address, left_ms)
                connected_ms = steady_ms()
                left_ms, began_ms = max(1, left_ms - (connected_ms - began_ms)), connected_ms
            if request.flag & ONEWAY_FLAG:
                connection.send_oneway(request, left_ms)
                return request
            return connection.request(request, left_ms, began_ms)
        except BaseException:
            # A late answer would be taken for that of the next request.
            connections.drop(address)
            raise

    def _connect(self, connections: _ThreadConnections, address: str, timeout_ms: int) -> BlockingConnection:
        """Return the idle connection if it is still good, or a new one."""
        known = connections.by_address.get(address)
        if known is not None:
            if known.is_idle():
                return known
            connections.drop(address)
        if self._closed.is_set():
            raise closed_error("Producer")
        made = connections.by_address[address] = BlockingConnection(address, tls=self._tls, timeout_ms=timeout_ms)
        return made


T = TypeVar("T")


class LoopHandoff(Generic[T]):
    """Carries items to the loop, in their order."""

    __slots__ = ("_is_due", "_loop", "_process", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, process: Callable[[T], None]) -> None:
        self._loop, self._process = loop, process
        self._waiting: deque[T] = deque()
        self._is_due = False

    def submit(self, item: T) -> None:
        """Submit an item; from any thread. Raises ConnectionClosed if the loop has ended."""
        self._waiting.append(item)
        if not self._is_due:
            self._is_due = True
            try:
                self._loop.call_soon_threadsafe(self.drain)
            except RuntimeError:
                raise ConnectionClosed("the client was closed meanwhile") from None

    def drain(self) -> None:
        """Process everything that was submitted; on the loop."""
        self._is_due = False
        waiting, take = self._waiting, self._process
        while waiting:
            take(waiting.popleft())
