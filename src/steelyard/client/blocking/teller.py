"""Calls what users registered, one after the other, in a thread that is there once there is something to tell."""

import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["Teller"]

E = TypeVar("E")

_WAIT_S = 1.0
_log = logging.getLogger("steelyard")


class Teller:
    """One thread for callbacks."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def telling(self, function: Callable[[E], object]) -> Callable[[E], object]:
        """Return what has a function called here; one that is ``async def`` is for the loop, and stays as it is."""
        return function if inspect.iscoroutinefunction(function) else partial(self.tell, function)

    def tell(self, function: Callable[[E], object], event: E) -> None:
        """Have a function called; nothing, once it is closed."""
        if self._is_closed:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="steelyard-teller", daemon=True)
            self._thread.start()
        self._calls.put(lambda: function(event))

    def close(self) -> None:
        """Tell what is still to be told, for a moment, and end."""
        self._is_closed = True
        thread, self._thread = self._thread, None
        if thread is not None:
            self._calls.put(None)
            if thread is not threading.current_thread():
                thread.join(_WAIT_S)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except BaseException:
                # Also SystemExit, which would end this thread and nothing else.
                _log.exception("a callback failed")
