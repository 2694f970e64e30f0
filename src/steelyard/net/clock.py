"""The only clocks of the house: the time of day for servers, and a steady one for whoever compares times.

`now_ms` counts milliseconds since 1970 and follows the machine's time of day, through sleep and when it is set. It
never goes back, since a log is in the order of its time: after the day was set back it goes on at half the speed until
both agree. So a message that waits for a time of day comes at that time after a machine slept or was set forward, and
may come early by what is left of the difference after it was set back.

`steady_ms` goes on while a machine sleeps, where the system has such a clock, and nobody can set it: a lease must be
seen to age, and must not age because somebody set the day.
"""

import threading
import time
from collections.abc import Callable

__all__ = ["DayClock", "awake_ms", "elapsed_ns", "now_ms", "steady_ms", "steady_ns"]

elapsed_ns = time.monotonic_ns
"""Nanoseconds since some moment, for those who look at the clock after every command: the cheapest there is."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MILLISECOND_NS = 1_000_000


def steady_ns() -> int:
    """Return nanoseconds since some moment; they never go back, and count a machine's sleep.

    >>> steady_ns() // 1_000_000 <= steady_ms()
    True
    """
    return time.clock_gettime_ns(_STEADY)


def steady_ms() -> int:
    """Return the same clock in milliseconds.

    >>> steady_ms() <= steady_ms()
    True
    """
    return time.clock_gettime_ns(_STEADY) // _MILLISECOND_NS


def awake_ms() -> int:
    """Return milliseconds since some moment that a machine was awake: nobody is late who could not speak.

    >>> awake_ms() <= awake_ms()
    True
    """
    return time.monotonic_ns() // _MILLISECOND_NS


class DayClock:
    """The time of day that never goes back, of a clock that may be set and of one that may not, in nanoseconds.

    >>> day, steady = iter([100, 900, 200, 300, 1_000]), iter([0, 10, 20, 30, 400])
    >>> clock = DayClock(lambda: next(day), lambda: next(steady))
    >>> [clock.now_ns() for _ in range(4)]
    [900, 905, 910, 1095]
    """

    def __init__(self, day_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = steady_ns) -> None:
        self._day_ns, self._steady_ns = day_ns, steady_ns
        self._lock = threading.Lock()
        self._seen_ns = steady_ns()
        self._now_ns = day_ns()

    def now_ns(self) -> int:
        """Return the time."""
        with self._lock:
            steady_ns = self._steady_ns()
            passed_ns, self._seen_ns = max(0, steady_ns - self._seen_ns), steady_ns
            # What is ahead of the day goes at half the speed, and not beyond the day.
            self._now_ns = max(self._day_ns(), self._now_ns + passed_ns // 2)
            return self._now_ns


_day = DayClock()


def now_ms() -> int:
    """Return the time.

    >>> now_ms() <= now_ms()
    True
    """
    return _day.now_ns() // _MILLISECOND_NS
