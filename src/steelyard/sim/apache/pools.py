"""Apache's pools of threads: why two requests of one line may be executed in the other order.

Each request waits for its own time until a thread takes it, whatever came before it on its line, and is executed even
if its line is closed by then. The pool of administration has sixteen threads, and each question that is passed on to a
member takes one until it is answered: while sixteen members are silent, locks and offsets wait as well.
"""

from collections import deque
from collections.abc import Callable
from random import Random

__all__ = ["ADMIN_THREADS", "Pools"]

ADMIN_THREADS = 16

_USUAL_US, _LATE_US, _LATEST_US = 400, 4_000, 60_000
_LATE, _LATEST = 0.05, 0.005
"""How many requests of all wait for a thread that is busy, and how many for one that stands still."""


class Pools:
    """Executes requests some time after they came."""

    def __init__(self, random: Random, after_us: Callable[[int, Callable[[], None]], object]) -> None:
        self._random, self._after_us = random, after_us
        self._blocked = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, act: Callable[[], None], *, is_admin: bool = False) -> None:
        """Execute something soon."""
        self._after_us(self.delay_us(), (lambda: self._admin(act)) if is_admin else act)

    def delay_us(self) -> int:
        """Draw how long a request waits for its thread."""
        drawn = self._random.random()
        if drawn >= _LATE:
            return int(_USUAL_US * drawn)
        bound_us = _LATEST_US if drawn < _LATEST else _LATE_US
        return int(bound_us * self._random.random())

    def block(self) -> None:
        """Take a thread of the pool of administration for a question that is under way."""
        self._blocked += 1

    def free(self) -> None:
        """Give it back; who waited for one goes on."""
        self._blocked -= 1
        while self._waiting and self._blocked < ADMIN_THREADS:
            self._waiting.popleft()()

    def _admin(self, act: Callable[[], None]) -> None:
        if self._blocked < ADMIN_THREADS:
            act()
        else:
            self._waiting.append(act)
