"""The clocks that a process reads: neither of them is the world's.

The steady clock never jumps and counts pauses, as CLOCK_BOOTTIME does, and may run a little fast or slow. The clock on
the wall runs at the same rate and may jump, either way.
"""

from collections.abc import Callable

__all__ = ["START_MS", "ProcessClock"]

START_MS = 1_700_000_000_000
"""What the clock on the wall says when a history begins."""

_MILLION = 1_000_000


class ProcessClock:
    """What a process takes for the time.

    >>> clock = ProcessClock(lambda: 5_000_000)
    >>> clock.jump(-60_000)
    >>> clock.steady_ms(), clock.wall_ms() - START_MS
    (5000, -55000)
    """

    def __init__(self, now_us: Callable[[], int], ppm: int = 0) -> None:
        self._now_us = now_us
        self.ppm = ppm
        """How many microseconds it gains in a second of the world."""
        self._since_us = self._told_us = now_us()
        self._ahead_ms = 0

    def steady_ms(self) -> int:
        """Return the milliseconds since the history began, by this clock."""
        return self._steady_us() // 1000

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, as this process believes."""
        return START_MS + self._ahead_ms + self._steady_us() // 1000

    def _steady_us(self) -> int:
        now_us = self._now_us()
        if not self.ppm:
            return self._told_us + now_us - self._since_us
        return self._told_us + (now_us - self._since_us) * (_MILLION + self.ppm) // _MILLION

    def world_us(self, delay_ms: int) -> int:
        """Return how long the world takes until this clock has gone on for a time."""
        if not self.ppm:
            return delay_ms * 1000
        return -(-delay_ms * 1000 * _MILLION // (_MILLION + self.ppm))

    def skew(self, ppm: int) -> None:
        """Let it run faster or slower from now on."""
        self._told_us, self._since_us = self._steady_us(), self._now_us()
        self.ppm = ppm

    def jump(self, by_ms: int) -> None:
        """Set the clock on the wall forward, or back."""
        self._ahead_ms += by_ms

    @property
    def ahead_ms(self) -> int:
        """How far all its jumps have brought the clock on the wall."""
        return self._ahead_ms
