"""SIGINT and SIGTERM while consumers run: the first one ends them in order, a second one at once.

The second one, of either kind, abandons handlers that still run: nothing waits for them and nothing of them is
committed, so their messages come again elsewhere, also those whose work is done by then.

A loop has one handler for each signal and may run several consumers: all of them are told, and whoever ends last puts
back what was there before the first.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["SIGNALS", "ended_by_signals", "put_back"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Watch:
    """The signals of one loop, and who is told of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.told: list[Callable[[], None]] = []
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        for number in SIGNALS:
            loop.add_signal_handler(number, self._tell)

    def _tell(self) -> None:
        for interrupt in list(self.told):
            interrupt()

    def end(self) -> None:
        for number in SIGNALS:
            self._loop.remove_signal_handler(number)
        put_back(self._before)


_watch: _Watch | None = None
"""There is one at a time: only the main thread has signals, and it runs one loop."""


@contextmanager
def ended_by_signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Have a function called on the running loop with each signal; outside the main thread there are none."""
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watch = _watch = _watch or _Watch(asyncio.get_running_loop())
    watch.told.append(interrupt)
    try:
        yield
    finally:
        watch.told.remove(interrupt)
        if not watch.told:
            _watch = None
            watch.end()


def put_back(before: Mapping[signal.Signals, Any]) -> None:
    """Handle signals as before; what was not set by Python cannot be set by it."""
    for number, handler in before.items():
        if handler is not None:
            signal.signal(number, handler)
