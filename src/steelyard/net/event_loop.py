"""The event loop of servers and clients, and timers on it.

uvloop is used if it is installed: a small read costs about half.
"""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make a loop."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


class PeriodicTimer:
    """Calls an action at an interval, from `start` until `stop`; late calls are not made up for."""

    def __init__(self, interval_ms: int, action: Callable[[], None]) -> None:
        self._interval_s, self._action = interval_ms / 1000, action
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start; the first call comes after one interval."""
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._fire)

    def stop(self) -> None:
        """Stop; there is no further call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self.start()
        self._action()
