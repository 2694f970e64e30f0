"""A consumer for asyncio: handlers by topic, and a member of a group that shares its queues with the others.

    consumer = Consumer("localhost:9876", group="billing")

    @consumer.handles("orders", tags="paid")
    async def bill(message): ...

    await consumer.run()        # until Ctrl-C or SIGTERM: stop pulling, finish what runs, commit, hand over, leave

Here is what a user touches: handlers, callbacks, beginning and end. What happens between is in client/consuming.py.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Self, TypeVar, Unpack

from steelyard.balance.hazards import Hazard
from steelyard.client.callbacks import call_all
from steelyard.client.connect import Connect, Where
from steelyard.client.consuming.consumer_options import ConsumerOptions, ConsumerSettings
from steelyard.client.consuming.consuming import Consuming
from steelyard.client.consuming.explained import Explained
from steelyard.client.consuming.handlers import Handler, HandlerFunction, Handlers
from steelyard.client.consuming.news import Moved
from steelyard.client.consuming.signals import ended_by_signals
from steelyard.client.context import Context
from steelyard.client.keywords import with_options
from steelyard.client.observing.message_trace import MessageTrace
from steelyard.client.observing.observing import Observing
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Queue

__all__ = ["Consumer"]

E = TypeVar("E")
F = TypeVar("F", bound=HandlerFunction)
M = TypeVar("M", bound=Callable[[Moved], object])
H = TypeVar("H", bound=Callable[[Hazard], object])


class Consumer(Context):
    """A member of a group. Register handlers with `handles`, then `run` it, or `start` and `stop` it.

    Its options are those of `ConsumerOptions`; ``name`` is a part of its id, for people to recognise it by.
    """

    def __init__(
        self, where: Where = None, group: str = "", *, name: str | None = None, **settings: Unpack[ConsumerSettings]
    ) -> None:
        super().__init__()
        connect = Connect.of(where)
        self.options = ConsumerOptions(group, **settings)
        self._connect = connect if name is None else replace(connect, name=name)
        self._session = Session(self._connect)
        self._handlers = Handlers()
        self._on_move: list[Callable[[Moved], object]] = []
        self._on_hazard: list[Callable[[Hazard], object]] = []
        self._consuming: Consuming | None = None
        self._starting = asyncio.Lock()
        self._over = asyncio.Event()
        self._when_over: list[Callable[[], object]] = []
        self._stopping: asyncio.Task[None] | None = None
        self._interrupts = 0

    __signature__ = with_options(__init__, ConsumerOptions)

    # -- what it does with messages -----------------------------------------------------------------------------------

    def handles(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, orderly: bool = False, batch: int = 1
    ) -> Callable[[F], F]:
        """Register the function below it as the handler of a topic.

        It gets a message (with ``batch`` a list of up to so many). Returning acknowledges; raising asks for it again
        later, and after many times it rests in the dead letters. A plain function runs in a thread, an ``async def``
        one on the loop.
        """

        def register(function: F) -> F:
            self.add_handler(Handler(topic, function, tags, sql, orderly, batch))
            return function

        return register

    def add_handler(self, handler: Handler) -> None:
        """Register a handler."""
        self.check_process()
        if self._consuming is not None:
            raise ConfigurationError(
                f"the handler of {handler.topic!r} comes after the start", next_step="register handlers before it"
            )
        self._handlers.add(handler)

    def on_move(self, function: M) -> M:
        """Have a function told when queues come and go; it gets a `Moved`."""
        self._on_move.append(function)
        return function

    def on_hazard(self, function: H) -> H:
        """Have a function told when something looks wrong; it gets a `Hazard`."""
        self._on_hazard.append(function)
        return function

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Its client id."""
        return self._session.client_id

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that it owns now."""
        return () if self._consuming is None else self._consuming.assignment

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    @property
    def failures(self) -> dict[str, int]:
        """How often each handler raised each kind of error. From any thread."""
        return {} if self._consuming is None else self._consuming.failures

    @property
    def refused(self) -> dict[Queue, SteelyardError]:
        """The queues that it owns and cannot read, since a broker refuses each pull, and will. From any thread."""
        return {} if self._consuming is None else self._consuming.refused

    def explain(self) -> Explained:
        """Say what it does and why, in plain words: print it."""
        return self._started().explain()

    # -- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Reach the cluster and join the group; raises if that cannot be done."""
        self.check_process()
        if self._consuming is not None:
            if self._stopping is not None:
                raise ConfigurationError("a consumer that was stopped cannot be started", next_step="make another one")
            return self
        if not len(self._handlers):
            raise ConfigurationError(
                f"the consumer of group {self.options.group} has no handler",
                next_step="register one first: @consumer.handles('orders')",
            )
        async with self._starting:
            if self._consuming is None:
                await self._start()
        return self

    async def _start(self) -> None:
        options = self.options
        trace = None
        if options.message_trace:
            trace = MessageTrace(self._connect, "consumer", options.group, options.trace_topic)
        observing = Observing.of("consumer", options.group, options.observers, trace)
        consuming = Consuming(self._session, options, self._handlers, self._moved, self._hazard, observing)
        try:
            await consuming.start()
        except BaseException:
            # A session is used once; the next attempt has another one.
            self._session = Session(self._connect)
            raise
        self._consuming = consuming

    async def stop(self, drain_s: float | None = None) -> None:
        """Stop pulling, finish what runs, commit, hand over, leave. Handlers get ``drain_s``, else as the options say.

        In a handler, which would wait for itself, it only begins to.
        """
        if self.is_elsewhere or self._session.is_stranded:
            return
        self._session.check_loop()
        if self._starting.locked():
            async with self._starting:
                pass
        stopping = self.begin_stop(drain_s)
        if stopping is not None and not self.is_in_handler:
            await asyncio.shield(stopping)

    def begin_stop(self, drain_s: float | None = None) -> "asyncio.Task[None] | None":
        """Begin to stop, and return what ends when it has; None if it was not started."""
        consuming = self._consuming
        if consuming is None:
            return None
        drain_ms = self.options.drain_ms if drain_s is None else int(drain_s * 1000)
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(consuming, drain_ms))
        elif drain_s is not None and not self.is_over:
            consuming.leave_sooner(int(drain_s * 1000))
        return self._stopping

    @property
    def is_in_handler(self) -> bool:
        """Whether this is called in one of its handlers."""
        return self._consuming is not None and self._consuming.is_in_handler

    async def _stop(self, consuming: Consuming, drain_ms: int | None) -> None:
        try:
            await consuming.leave(drain_ms)
        finally:
            try:
                await consuming.end()
            finally:
                self._over.set()
                for function in self._when_over:
                    function()

    def when_over(self, function: Callable[[], object]) -> None:
        """Have a function called when it has ended: at once, if it has."""
        if self.is_over:
            function()
        else:
            self._when_over.append(function)

    def interrupt(self) -> None:
        """Begin to stop, as a signal does; called again, end at once and drop what runs."""
        consuming = self._consuming
        self._interrupts += 1
        if consuming is None or self.is_over:
            return
        if self._stopping is None:
            self.begin_stop()
        elif self._interrupts > 1:
            consuming.give_up()

    async def run(self) -> None:
        """Start, and work until SIGINT or SIGTERM, or until somebody stops it.

        A second signal abandons handlers that still run: their messages are not committed, and come again elsewhere.
        Outside the main thread there are no signals, and `stop` or `interrupt` ends it.
        """
        with ended_by_signals(self.interrupt):
            await self.start()
            if self._interrupts:
                await self.stop()
            try:
                await self._over.wait()
            finally:
                await self.stop()

    async def open(self) -> Self:
        """Do as `start` does."""
        return await self.start()

    async def close(self) -> None:
        """Do as `stop` does."""
        await self.stop()

    # -- telling ------------------------------------------------------------------------------------------------------

    def _started(self) -> Consuming:
        self.check_process()
        if self._consuming is None:
            raise ConfigurationError("the consumer is not started", next_step="start it first")
        return self._consuming

    def _moved(self, moved: Moved) -> None:
        self._tell(self._on_move, moved)

    def _hazard(self, hazard: Hazard) -> None:
        self._tell(self._on_hazard, hazard)

    def _tell(self, functions: list[Callable[[E], object]], event: E) -> None:
        call_all(functions, event, f"the consumer of group {self.options.group}", self._session.spawn)
