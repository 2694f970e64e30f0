"""The loop that the blocking clients of a process share: one thread, there while anybody needs it.

Nothing that a user's coroutine raises ends it, not even SystemExit: other clients wait for it. Whoever asks for
something after its end is told so, and never waits. A forked child has no thread of its parent's: it begins without a
loop, and clients made before the fork refuse to work there (client/blocking/face.py).
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, ClassVar, TypeVar

from steelyard.errors import ConfigurationError
from steelyard.net.loops import new_loop

__all__ = ["SIGNAL_S", "Hub"]

T = TypeVar("T")

SIGNAL_S = 0.5
"""How long a signal goes unseen at most. While one is on its way to the main thread, the system gives the next one to
another thread, and a main thread that waits for a lock is not woken by that."""
_LAST_TASKS_S = 2.0
"""How long tasks that were cancelled may take to end."""
_LAST_WAIT_S = 5.0
"""How long the end of the thread is waited for: a coroutine that never gives way must not keep a process alive."""

_log = logging.getLogger("steelyard")


class Hub:
    """A loop in a thread. `take` it, and `give_back` what was taken."""

    # Locks can be taken again by who has them: a user's signal handler may close a client in the middle of anything.
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _now: ClassVar["Hub | None"] = None

    def __init__(self) -> None:
        self.loop = new_loop()
        self._users = 0
        self._is_over = self._is_stuck = False
        self._handing = threading.RLock()
        """Held to hand something over, and to end it: so nothing is handed over that nobody would come to."""
        self._thread = threading.Thread(target=self._run, name="steelyard", daemon=True)
        self._thread.start()

    @classmethod
    def take(cls) -> "Hub":
        """Return the loop of this process, started if there is none."""
        with cls._lock:
            if cls._now is None:
                cls._now = Hub()
            cls._now._users += 1
            return cls._now

    def give_back(self) -> None:
        """Need it no more; the last one to say so ends it."""
        with Hub._lock:
            self._users -= 1
            if self._users:
                return
            if Hub._now is self:
                Hub._now = None
        with self._handing:
            self._is_over = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.is_here and not self._is_stuck:
            self._thread.join(_LAST_WAIT_S)

    @property
    def is_here(self) -> bool:
        """Whether the caller is on its thread."""
        return threading.current_thread() is self._thread

    def check_elsewhere(self) -> None:
        """Refuse to wait for the loop on the loop."""
        if self.is_here:
            raise ConfigurationError(
                "a blocking client was used on its own loop, such as in an async handler",
                next_step="use the clients of steelyard.aio there, or a plain handler",
            )

    def answers(self) -> bool:
        """Say whether the loop comes to what it is asked to do, within some seconds."""
        if self.is_here:
            return True
        heard = threading.Event()
        try:
            self.loop.call_soon_threadsafe(heard.set)
        except RuntimeError:
            return False
        self._is_stuck = not heard.wait(_LAST_WAIT_S)
        return not self._is_stuck

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop and wait for it here; whatever interrupts the wait cancels it."""
        with self._handing:
            if self._is_over or self.is_here:
                work.close()
            self.check_elsewhere()
            if self._is_over:
                raise ConfigurationError("the client is closed", next_step="make another one")
            waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            while True:
                try:
                    return waiting.result(SIGNAL_S)
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
        """Call something on the loop and return what it returns: a look at what changes there."""

        async def look() -> T:
            return function()

        return self.run(look())

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_over:
            self._survive(self.loop.run_forever)
        try:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            if left:
                self._survive(lambda: self.loop.run_until_complete(asyncio.wait(left, timeout=_LAST_TASKS_S)))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()

    def _survive(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            # Loops let SystemExit and KeyboardInterrupt through; here they are some callback's, and not the program's.
            _log.error("%r was raised on the loop; it goes on", error, exc_info=error)

    @classmethod
    def _in_child(cls) -> None:
        cls._lock = threading.RLock()
        cls._now = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Hub._in_child)
