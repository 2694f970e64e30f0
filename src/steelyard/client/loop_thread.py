"""LoopThread: the event loop that the blocking clients of a process share, in a daemon thread that ends with the last.

Nothing that a user's coroutine raises ends the loop, not even SystemExit: other clients depend on it. A call after its
end raises, and never waits. A forked child has no thread of its parent's, so it begins without a loop.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, ClassVar, TypeVar

from steelyard.errors import ConfigurationError
from steelyard.net.event_loop import new_event_loop

T = TypeVar("T")

SIGNAL_CHECK_S = 0.5
"""How long a signal goes unseen at most. While one is on its way to the main thread, the system gives the next one to
another thread, and a main thread that waits for a lock is not woken by that."""
_CANCEL_TIMEOUT_S = 2.0
_JOIN_TIMEOUT_S = 5.0
"""How long the end of the thread is waited for: a coroutine that never gives way must not keep a process alive."""

_log = logging.getLogger("steelyard.client")


class LoopThread:
    """A loop in a thread. `acquire` it, and `release` it."""

    # Reentrant: a user's signal handler may close a client in the middle of anything.
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _shared: ClassVar["LoopThread | None"] = None

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self._users = 0
        self._is_stopped = self._is_stuck = False
        self._submit_lock = threading.RLock()
        """Held to submit work, and to stop: nothing is submitted that would never run."""
        self._thread = threading.Thread(target=self._run, name="steelyard", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> "LoopThread":
        """Return the loop of this process, started if there is none."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = LoopThread()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """Release it; the last release stops it."""
        with LoopThread._lock:
            self._users -= 1
            if self._users:
                return
            if LoopThread._shared is self:
                LoopThread._shared = None
        with self._submit_lock:
            self._is_stopped = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_current and not self._is_stuck:
            self._thread.join(_JOIN_TIMEOUT_S)

    @property
    def is_current(self) -> bool:
        """Whether the caller is on its thread."""
        return threading.current_thread() is self._thread

    @classmethod
    def check_not_on_loop(cls) -> None:
        """Raise ConfigurationError on the thread of this process's loop, before a client waits for anything there."""
        shared = cls._shared
        if shared is not None:
            shared.check_not_current()

    def check_not_current(self) -> None:
        """Raise ConfigurationError on the loop's own thread, which would wait for itself."""
        if self.is_current:
            raise ConfigurationError(
                "a blocking client was used on its own loop, such as in an async handler",
                next_step="use the clients of steelyard.aio there, or a plain handler",
            )

    def is_responsive(self) -> bool:
        """Say whether the loop runs a callback within some seconds."""
        if self.is_current:
            return True
        ran = threading.Event()
        try:
            self.loop.call_soon_threadsafe(ran.set)
        except RuntimeError:
            return False
        self._is_stuck = not ran.wait(_JOIN_TIMEOUT_S)
        return not self._is_stuck

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it here; an interrupted wait cancels it."""
        with self._submit_lock:
            if self._is_stopped or self.is_current:
                work.close()
            self.check_not_current()
            if self._is_stopped:
                raise ConfigurationError("the client is closed", next_step="make another one")
            waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            while True:
                try:
                    return waiting.result(SIGNAL_CHECK_S)
                except TimeoutError:
                    if not waiting.done():
                        continue
                return waiting.result()
        except CancelledError:
            raise ConfigurationError("the client was closed meanwhile", next_step="make another one") from None
        except BaseException:
            waiting.cancel()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and return its result: for state that changes there."""

        async def call() -> T:
            return function()

        return self.run(call())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_stopped:
            self._run_guarded(self.loop.run_forever)
        try:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self._run_guarded(lambda: self.loop.run_until_complete(asyncio.wait(left, timeout=_CANCEL_TIMEOUT_S)))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def _run_guarded(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            # Loops let SystemExit and KeyboardInterrupt through; here a callback raised them, not the program.
            _log.error("%r was raised on the loop, which continues", error, exc_info=error)

    @classmethod
    def _reset_after_fork(cls) -> None:
        cls._lock = threading.RLock()
        cls._shared = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LoopThread._reset_after_fork)


A = TypeVar("A")
R = TypeVar("R")


async def call_in_thread(name: str, function: Callable[[A], R], given: A) -> R:
    """Call a function in a new thread, and return or raise its result; SystemExit becomes a RuntimeError.

    The interpreter joins an executor's threads at exit: there a function that never returns would keep it alive.
    """
    future: Future[R] = Future()
    future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def work() -> None:
        try:
            future.set_result(function(given))
        except BaseException as error:
            # No future takes a StopIteration, and a CancelledError would cancel the task that awaits this one.
            if not isinstance(error, Exception) or isinstance(error, StopIteration | CancelledError):
                error, error.__cause__ = RuntimeError(f"it raised {error!r}"), error
            future.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(future)
