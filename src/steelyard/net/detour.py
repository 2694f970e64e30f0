"""A way round on which everything takes longer: how a server is made slow on purpose, for tests and demonstrations.

What comes in goes out so many milliseconds later, in the order in which it came, and nothing else waits meanwhile.
Who turns it off, or asks for less, overtakes nobody: what is under way goes out first.
"""

from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from collections.abc import Callable

__all__ = ["Detour"]


class Detour:
    """Actions that wait for their time. ``after`` is called each time some were done."""

    def __init__(self, loop: AbstractEventLoop, after: Callable[[], None]) -> None:
        self._loop, self._after = loop, after
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._timer: TimerHandle | None = None
        self.delay_ms = 0

    def __len__(self) -> int:
        """Count what is under way."""
        return len(self._waiting)

    def send(self, action: Callable[[], None]) -> None:
        """Do something later, after all that came before."""
        due_s = self._loop.time() + self.delay_ms / 1000
        if self._waiting:
            due_s = max(due_s, self._waiting[-1][0])
        self._waiting.append((due_s, action))
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._arrive)

    def hurry(self) -> None:
        """Do all that waits now."""
        self._arrive(all_of_it=True)

    def drop(self) -> None:
        """Forget all that waits."""
        self._waiting.clear()
        self._stop_timer()

    def _arrive(self, *, all_of_it: bool = False) -> None:
        self._stop_timer()
        # Loops fire a timer up to their own fineness too early.
        now_s, waiting = self._loop.time() + 0.001, self._waiting
        if not waiting:
            return
        while waiting and (all_of_it or waiting[0][0] <= now_s):
            waiting.popleft()[1]()
        self._after()
        if waiting and self._timer is None:
            self._timer = self._loop.call_at(waiting[0][0], self._arrive)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
