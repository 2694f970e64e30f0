"""The loop that the blocking clients of a process share: one thread, there while anybody needs it.

A forked child has no thread of its parent's: it begins without a loop, and clients made before the fork refuse to work
there (client/blocking/face.py).
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

from steelyard.errors import ConfigurationError
from steelyard.net.loops import new_loop

__all__ = ["Hub"]

T = TypeVar("T")


class Hub:
    """A loop in a thread. `take` it, and `give_back` what was taken."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _now: ClassVar["Hub | None"] = None

    def __init__(self) -> None:
        self.loop = new_loop()
        self._users = 0
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
            Hub._now = None
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the loop and wait for it here; whatever interrupts the wait cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise ConfigurationError(
                "a blocking client was used on its own loop, such as in an async handler",
                next_step="use the clients of steelyard.aio there, or a plain handler",
            )
        waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return waiting.result()
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
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    @classmethod
    def _in_child(cls) -> None:
        cls._lock = threading.Lock()
        cls._now = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Hub._in_child)
