"""Consumer for asyncio: a member of a group, with a handler for each topic.

Here is what a user calls; ConsumerRun does the work. The first SIGINT or SIGTERM stops all consumers of a loop. The
second abandons running handlers: nothing of them is committed, so their messages are redelivered elsewhere, also
those whose work is done by then. When the last consumer has ended, the previous signal handlers are restored.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self, TypeVar, Unpack

from steelyard.client.config import ClientConfig, NamesrvOrConfig, signature_with_options
from steelyard.client.consumer.explain import MemberExplanation
from steelyard.client.consumer.handlers import Handler, HandlerFunction, Handlers
from steelyard.client.consumer.notifications import NotifyingClient
from steelyard.client.consumer.options import ConsumerOptions, ConsumerSettings
from steelyard.client.consumer.run import ConsumerRun
from steelyard.client.observers.message_trace import MessageTraceWriter
from steelyard.client.observers.observers import Observers
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import Queue
from steelyard.wire.bodies.members import RunningHandler

SIGNALS = (signal.SIGINT, signal.SIGTERM)


_interrupts: list[Callable[[], None]] = []
"""What each signal calls. Only the main thread has signals, and it runs one loop at a time."""
_signals_before: dict[signal.Signals, Any] = {}


def _interrupt_all() -> None:
    for interrupt in _interrupts:
        interrupt()


@contextmanager
def stop_on_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call a function on the running loop for each signal; outside the main thread there are none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    if not _interrupts:
        _signals_before.update((number, signal.getsignal(number)) for number in SIGNALS)
        for number in SIGNALS:
            loop.add_signal_handler(number, _interrupt_all)
    _interrupts.append(interrupt)
    try:
        yield
    finally:
        _interrupts.remove(interrupt)
        if not _interrupts:
            for number in SIGNALS:
                loop.remove_signal_handler(number)
            restore_signals(_signals_before)


def restore_signals(before: Mapping[signal.Signals, Any]) -> None:
    """Restore signal handlers; those that were not set by Python cannot be restored."""
    for number, handler in before.items():
        if handler is not None:
            signal.signal(number, handler)


F = TypeVar("F", bound=HandlerFunction)


class Consumer(NotifyingClient):
    """A member of a group. Register handlers with `handles`, then `run` it, or `start` and `stop` it.

    Its options are those of `ConsumerOptions`; ``name`` is a part of its id, for people to recognise it by.
    """

    def __init__(
        self,
        namesrv: NamesrvOrConfig = None,
        group: str = "",
        *,
        name: str | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        super().__init__(f"the consumer of group {group}")
        config = ClientConfig.of(namesrv)
        self.options = ConsumerOptions(group, **settings)
        self._config = config if name is None else replace(config, name=name)
        self._session = Session(self._config)
        self._handlers = Handlers()
        self._current_run: ConsumerRun | None = None
        self._starting = asyncio.Lock()
        self._ended = asyncio.Event()
        self._when_over: list[Callable[[], object]] = []
        self._stopping: asyncio.Task[None] | None = None
        self._interrupts = 0

    __signature__ = signature_with_options(__init__, ConsumerOptions)

    def handles(
        self, topic: str, *, tags: str | None = None, sql: str | None = None, orderly: bool = False, batch: int = 1
    ) -> Callable[[F], F]:
        """Register the decorated function as the handler of a topic.

        It gets a message, or with ``batch`` a list of up to so many. Returning acknowledges; raising has it redelivered
        later, and after many attempts it goes to the dead letters. A plain function runs in a thread, an ``async def``
        one on the loop.
        """

        def register(function: F) -> F:
            self.add_handler(Handler(topic, function, tags, sql, orderly, batch))
            return function

        return register

    def add_handler(self, handler: Handler) -> None:
        """Register a handler."""
        self.check_process()
        if self._current_run is not None:
            raise ConfigurationError(
                f"the handler of {handler.topic!r} comes after the start", next_step="register handlers before it"
            )
        self._handlers.add(handler)

    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that it owns now."""
        return () if self._current_run is None else self._current_run.assignment

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._ended.is_set()

    @property
    def failures(self) -> dict[str, int]:
        """How often each handler raised each kind of error. From any thread."""
        return {} if self._current_run is None else self._current_run.handler_pool.failures.counts()

    @property
    def refused(self) -> dict[Queue, SteelyardError]:
        """The queues that it owns and cannot read, because a broker refuses each pull for good. From any thread."""
        return {} if self._current_run is None else self._current_run.refused

    def running_handlers(self) -> list[RunningHandler]:
        """Return the handlers that run now, those that run for longest first, each with its Python stack.

        From any thread, also while one of them blocks the loop.
        """
        return [] if self._current_run is None else self._current_run.running_handlers()

    def explain(self) -> MemberExplanation:
        """Explain what it does and why, in plain words: print it."""
        self.check_process()
        if self._current_run is None:
            raise ConfigurationError("the consumer is not started", next_step="start it first")
        return self._current_run.explain()

    async def start(self) -> Self:
        """Connect and join the group; raises if that fails."""
        self.check_process()
        if self._current_run is not None:
            if self._stopping is not None:
                raise ConfigurationError("a consumer that was stopped cannot be started", next_step="make another one")
            return self
        if not len(self._handlers):
            raise ConfigurationError(
                f"the consumer of group {self.options.group} has no handler",
                next_step="register one first: @consumer.handles('orders')",
            )
        async with self._starting:
            if self._current_run is None:
                await self._start()
        return self

    async def _start(self) -> None:
        options = self.options
        trace = None
        if options.message_trace:
            trace = MessageTraceWriter(self._config, "consumer", options.group, options.trace_topic)
        observers = Observers("consumer", options.group, options.observers, trace, is_broadcast=options.is_broadcast)
        run = ConsumerRun(self._session, options, self._handlers, self._rebalanced, self._warn, observers)
        try:
            await run.start()
        except BaseException:
            # A session is used once; the next attempt has another one.
            self._session = Session(self._config)
            raise
        self._current_run = run

    async def stop(self, drain_s: float | None = None) -> None:
        """Stop pulling, finish handlers within ``drain_s``, commit, release queues, leave. Default: as the options say.

        In a handler, which would wait for itself, it only begins to.
        """
        if self.is_forked or self._session.is_loop_closed:
            return
        self._session.check_loop()
        if self._starting.locked():
            async with self._starting:
                pass
        stopping = self.begin_stop(drain_s)
        if stopping is not None and not self.is_in_handler:
            await asyncio.shield(stopping)

    def begin_stop(self, drain_s: float | None = None) -> "asyncio.Task[None] | None":
        """Begin to stop, and return the task that ends with it; None if it was not started."""
        run = self._current_run
        if run is None:
            return None
        drain_ms = self.options.drain_ms if drain_s is None else int(drain_s * 1000)
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._stop(run, drain_ms))
        elif drain_s is not None and not self.is_over:
            run.member_runner.leave(int(drain_s * 1000))  # it shortens the drain time
        return self._stopping

    @property
    def is_in_handler(self) -> bool:
        """Whether this is called in one of its handlers."""
        return self._current_run is not None and self._current_run.handler_pool.is_current

    async def _stop(self, run: ConsumerRun, drain_ms: int | None) -> None:
        try:
            await run.leave(drain_ms)
        finally:
            try:
                await run.end()
            finally:
                self._ended.set()
                for function in self._when_over:
                    function()

    def when_over(self, function: Callable[[], object]) -> None:
        """Call a function when it has ended: at once, if it has."""
        if self.is_over:
            function()
        else:
            self._when_over.append(function)

    def interrupt(self) -> None:
        """Begin to stop, as a signal does; called again, end at once and abandon handlers."""
        run = self._current_run
        self._interrupts += 1
        if run is None or self.is_over:
            return
        if self._stopping is None:
            self.begin_stop()
        elif self._interrupts > 1:
            run.abort()

    async def run(self) -> None:
        """Start, and run until SIGINT, SIGTERM or `stop`.

        A second signal abandons running handlers: their messages are not committed, and are redelivered elsewhere.
        Outside the main thread there are no signals, and `stop` or `interrupt` ends it.
        """
        with stop_on_signals(self.interrupt):
            await self.start()
            if self._interrupts:
                await self.stop()
            try:
                await self._ended.wait()
            finally:
                await self.stop()

    async def open(self) -> Self:
        """Start; as `start` does."""
        return await self.start()

    async def close(self) -> None:
        """Stop; as `stop` does."""
        await self.stop()
