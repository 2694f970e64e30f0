"""The blocking consumer: the asyncio one on the loop thread.

Callbacks of rebalances and warnings run one after the other in a thread of their own: a slow one delays only the next.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar, Unpack

from steelyard.client.config import NamesrvOrConfig, signature_with_options
from steelyard.client.consumer.consumer import SIGNALS, restore_signals
from steelyard.client.consumer.consumer import Consumer as AsyncConsumer
from steelyard.client.consumer.handlers import HandlerFunction
from steelyard.client.consumer.notifications import CallbackThread, NotifyingClient, Rebalanced
from steelyard.client.consumer.options import ConsumerOptions, ConsumerSettings
from steelyard.client.loop_thread import SIGNAL_CHECK_S
from steelyard.client.sync.client import SyncClient, on_loop
from steelyard.errors import SteelyardError
from steelyard.model import Queue
from steelyard.model.finding import Finding
from steelyard.wire.bodies.members import RunningHandler

F = TypeVar("F", bound=HandlerFunction)
M = TypeVar("M", bound=Callable[[Rebalanced], object])
W = TypeVar("W", bound=Callable[[Finding], object])
N_co = TypeVar("N_co", bound=NotifyingClient, covariant=True)


class NotifyingSyncClient(SyncClient[N_co]):
    """A blocking client of a group, with callbacks for rebalances and warnings in a thread of their own."""

    def __init__(self, client: N_co) -> None:
        super().__init__(client)
        self._callback_thread = CallbackThread()

    @property
    def id(self) -> str:
        """The client id that brokers and other members know it by."""
        return self._client.id

    def on_rebalance(self, function: M) -> M:
        """Call a function after each rebalance, with a `Rebalanced`."""
        self._client.on_rebalance(self._callback_thread.wrap(function))
        return function

    def on_warning(self, function: W) -> W:
        """Call a function when something looks wrong, with a `Finding`."""
        self._client.on_warning(self._callback_thread.wrap(function))
        return function

    def close(self) -> None:
        """Close the client and its callback thread."""
        super().close()
        self._callback_thread.close()


class Consumer(NotifyingSyncClient[AsyncConsumer]):
    """A member of a group. Register handlers with `handles`, then `run` it, or `start` and `stop` it.

    Its options are those of `ConsumerOptions`; ``name`` is a part of its id, for people to recognise it by.

    >>> import queue
    >>> from steelyard import Message, Producer
    >>> from steelyard.serve.embedded import Cluster
    >>> billed = queue.Queue()
    >>> with Cluster() as cluster, Producer(cluster.namesrv) as producer:
    ...     sent = producer.send(Message("orders", b"order 1", tags="paid"))
    ...     consumer = Consumer(cluster.namesrv, "billing", start_from="first")
    ...
    ...     @consumer.handles("orders", tags="paid || refunded")
    ...     def bill(message):
    ...         billed.put(message.body)
    ...
    ...     with consumer:
    ...         billed.get(timeout=20)
    b'order 1'
    """

    def __init__(
        self,
        namesrv: NamesrvOrConfig = None,
        group: str = "",
        *,
        name: str | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        super().__init__(AsyncConsumer(namesrv, group, name=name, **settings))

    __signature__ = signature_with_options(__init__, ConsumerOptions)

    @property
    def options(self) -> ConsumerOptions:
        """Its options."""
        return self._client.options

    def handles(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, orderly: bool = False, batch: int = 1
    ) -> Callable[[F], F]:
        """Register the decorated function as the handler of a topic.

        It gets a message, or with ``batch`` a list of up to so many. Returning acknowledges; raising has it redelivered
        later, and after many attempts it goes to the dead letters. A plain function runs in a thread, an ``async def``
        one on the loop.
        """
        self.check_process()
        return self._client.handles(topic, tags=tags, sql=sql, orderly=orderly, batch=batch)

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that it owns now."""
        return self._client.assignment

    @property
    def failures(self) -> dict[str, int]:
        """How often each handler raised each kind of error."""
        return self._client.failures

    @property
    def refused(self) -> dict[Queue, SteelyardError]:
        """The queues that it owns and cannot read, because a broker refuses each pull for good."""
        return self._client.refused

    def running_handlers(self) -> list[RunningHandler]:
        """Return the handlers that run now, those that run for longest first, each with its Python stack.

        From any thread, also while one of them blocks the loop.
        """
        return self._client.running_handlers()

    explain = on_loop(AsyncConsumer.explain)

    def start(self) -> "Consumer":
        """Connect and join the group; raises if that fails."""
        return self.open()

    def stop(self, drain_s: float | None = None) -> None:
        """Stop pulling, finish handlers within ``drain_s``, commit, release queues, leave. Default: as the options say.

        In a handler, which would wait for itself, it only begins to; `run` or the ``with`` block completes it.
        """
        loop_thread = None if self.is_forked else self._opened_loop_thread()
        if loop_thread is None:
            self.close()
        elif self._client.is_in_handler:
            loop_thread.call(lambda: self._client.begin_stop(drain_s))
        else:
            try:
                loop_thread.run(self._client.stop(drain_s))
            finally:
                self.close()

    def close(self) -> None:
        """Stop; as `stop` does."""
        if self.is_forked:
            return
        if self._opened_loop_thread() is not None and self._client.is_in_handler:
            self.stop()
            return
        super().close()

    def interrupt(self) -> None:
        """Begin to stop, as a signal does, from any thread; called again, end at once and abandon handlers."""
        loop_thread = self._loop_thread
        if loop_thread is not None and not self.is_forked:
            with suppress(RuntimeError):  # its loop has ended meanwhile
                loop_thread.loop.call_soon_threadsafe(self._client.interrupt)

    def run(self) -> None:
        """Start, and run until SIGINT, SIGTERM or `stop`.

        A second signal abandons running handlers: their messages are not committed, and are redelivered elsewhere.
        Outside the main thread there are no signals, and `stop` or `interrupt` ends it.
        """
        over = threading.Event()
        signals: list[bool] = []
        """For each signal whether the consumer was open."""
        self._client.when_over(over.set)
        with self._signals(signals, over), suppress(KeyboardInterrupt):
            try:
                self.start()
                for _ in range(signals.count(False)):
                    self.interrupt()
                while not over.wait(SIGNAL_CHECK_S):
                    continue
            finally:
                self.close()

    @contextmanager
    def _signals(self, signals: list[bool], over: threading.Event) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            signals.append(self._loop_thread is not None)
            self.interrupt()
            if len(signals) > 1:  # end now, whatever the loop does
                if self._loop_thread is None and not over.is_set():
                    signal.default_int_handler(number, frame)  # out of the start, which may never end
                over.set()

        before = {number: signal.signal(number, interrupt) for number in SIGNALS}
        try:
            yield
        finally:
            restore_signals(before)
