"""The consumer of plain programs: the asyncio one, on the loop thread of the process.

Plain handlers run in threads of their own, ``async def`` ones on the loop. Callbacks for moves and hazards are called
one after the other in a thread of theirs, so that a slow one holds up nothing but the next.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar, Unpack

from steelyard.balance.hazards import Hazard
from steelyard.client.blocking.face import Face, looks
from steelyard.client.blocking.teller import Teller
from steelyard.client.connect import Where
from steelyard.client.consuming.consumer import Consumer as AsyncConsumer
from steelyard.client.consuming.consumer_options import ConsumerOptions, ConsumerSettings
from steelyard.client.consuming.handlers import HandlerFunction
from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.signals import SIGNALS, put_back
from steelyard.client.hub import SIGNAL_S
from steelyard.client.keywords import with_options
from steelyard.errors import SteelyardError
from steelyard.model import Queue

__all__ = ["Consumer"]

F = TypeVar("F", bound=HandlerFunction)
M = TypeVar("M", bound=Callable[[Moved], object])
H = TypeVar("H", bound=Callable[[Hazard], object])


class Consumer(Face[AsyncConsumer]):
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
        self, where: Where = None, group: str = "", *, name: str | None = None, **settings: Unpack[ConsumerSettings]
    ) -> None:
        super().__init__(AsyncConsumer(where, group, name=name, **settings))
        self._teller = Teller()

    __signature__ = with_options(__init__, ConsumerOptions)

    @property
    def options(self) -> ConsumerOptions:
        """How it is set up."""
        return self._client.options

    def handles(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, orderly: bool = False, batch: int = 1
    ) -> Callable[[F], F]:
        """Register the function below it as the handler of a topic.

        It gets a message (with ``batch`` a list of up to so many). Returning acknowledges; raising asks for it again
        later, and after many times it rests in the dead letters. A plain function runs in a thread, an ``async def``
        one on the loop.
        """
        self.check_process()
        return self._client.handles(topic, tags=tags, sql=sql, orderly=orderly, batch=batch)

    def on_move(self, function: M) -> M:
        """Have a function told when queues come and go; it gets a `Moved`."""
        self._client.on_move(self._teller.telling(function))
        return function

    def on_hazard(self, function: H) -> H:
        """Have a function told when something looks wrong; it gets a `Hazard`."""
        self._client.on_hazard(self._teller.telling(function))
        return function

    @property
    def id(self) -> str:
        """Its client id."""
        return self._client.id

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
        """The queues that it owns and cannot read, since a broker refuses each pull, and will."""
        return self._client.refused

    explain = looks(AsyncConsumer.explain)

    def start(self) -> "Consumer":
        """Reach the cluster and join the group; raises if that cannot be done."""
        return self.open()

    def stop(self, drain_s: float | None = None) -> None:
        """Stop pulling, finish what runs, commit, hand over, leave. Handlers get ``drain_s``, else as the options say.

        In a handler, which would wait for itself, it only begins to; whoever `run` it or has it as a context ends it.
        """
        hub = self._hub
        if hub is None or self.is_elsewhere:
            self.close()
        elif self._client.is_in_handler:
            hub.call(lambda: self._client.begin_stop(drain_s))
        else:
            try:
                hub.run(self._client.stop(drain_s))
            finally:
                self.close()

    def close(self) -> None:
        """Do as `stop` does."""
        if self.is_elsewhere:
            return
        if self._hub is not None and self._client.is_in_handler:
            self.stop()
            return
        super().close()
        self._teller.close()

    def interrupt(self) -> None:
        """Begin to stop, as a signal does, from any thread; called again, end at once and drop what runs."""
        hub = self._hub
        if hub is not None and not self.is_elsewhere:
            with suppress(RuntimeError):  # its loop has ended meanwhile, and so has everything
                hub.loop.call_soon_threadsafe(self._client.interrupt)

    def run(self) -> None:
        """Start, and work until SIGINT or SIGTERM, or until somebody stops it.

        A second signal abandons handlers that still run: their messages are not committed, and come again elsewhere.
        Outside the main thread there are no signals, and `stop` or `interrupt` ends it.
        """
        over = threading.Event()
        signals: list[bool] = []
        """For each one whether there was something to end."""
        self._client.when_over(over.set)
        with self._signals(signals, over), suppress(KeyboardInterrupt):
            try:
                self.start()
                for _ in range(signals.count(False)):
                    self.interrupt()
                while not over.wait(SIGNAL_S):
                    continue
            finally:
                self.close()

    @contextmanager
    def _signals(self, signals: list[bool], over: threading.Event) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            signals.append(self._hub is not None)
            self.interrupt()
            if len(signals) > 1:  # then it ends, whatever its loop does
                if self._hub is None and not over.is_set():
                    signal.default_int_handler(number, frame)  # out of the start, which may never end
                over.set()

        before = {number: signal.signal(number, interrupt) for number in SIGNALS}
        try:
            yield
        finally:
            put_back(before)
