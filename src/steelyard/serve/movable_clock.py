"""A clock that can be put forward, for tests in which half an hour must not take half an hour.

It goes as fast as any other, so what waits for a second waits for one. It never goes back: a broker's log is in the
order of its time.
"""

from steelyard.errors import ConfigurationError
from steelyard.net.clock import now_ms

__all__ = ["MovableClock"]

_FARTHEST_MS = 100 * 366 * 86_400_000


class MovableClock:
    """The time of day, and as much more as it was put forward.

    >>> clock = MovableClock()
    >>> before_ms = clock()
    >>> clock.put_forward(60_000)
    >>> clock() - before_ms >= 60_000, clock.ahead_ms
    (True, 60000)
    """

    def __init__(self) -> None:
        self.ahead_ms = 0
        """How much it was put forward in all."""

    def __call__(self) -> int:
        """Return the time."""
        return now_ms() + self.ahead_ms

    def put_forward(self, by_ms: int) -> None:
        """Let a time have passed."""
        if by_ms < 0:
            raise ConfigurationError(f"a clock cannot be put back by {-by_ms} ms", next_step="give a time to come")
        if self.ahead_ms + by_ms > _FARTHEST_MS:
            raise ConfigurationError(f"a clock cannot be put forward by {by_ms} ms", next_step="stay in this century")
        self.ahead_ms += by_ms
