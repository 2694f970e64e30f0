"""What is done again and again on an event loop."""

import asyncio
from collections.abc import Callable

__all__ = ["Round"]


class Round:
    """Calls an action every so often, from `start` until `stop`; a late call hurries none that follow."""

    def __init__(self, every_ms: int, action: Callable[[], None]) -> None:
        self._seconds, self._action = every_ms / 1000, action
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; the first call comes after one interval."""
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._go)

    def stop(self) -> None:
        """End; there is no further call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go(self) -> None:
        self.start()
        self._action()
