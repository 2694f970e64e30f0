"""The only clocks of the house: the time of day for servers, and a steady one for whoever compares times.

`now_ms` counts milliseconds since 1970. The day is read once, when this module is loaded; from then on a clock counts
that nobody can set. Left out: a machine that is set right, or woken up, while we run. Our time is off then until the
next start, and nothing fires twice.

`steady_ms` goes on while a machine sleeps, where the system has such a clock: a lease must be seen to age.
"""

import time

__all__ = ["now_ms", "steady_ms", "steady_ns"]

_START_NS = time.time_ns() - time.monotonic_ns()
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ms() -> int:
    """Return the time.

    >>> now_ms() <= now_ms()
    True
    """
    return (time.monotonic_ns() + _START_NS) // 1_000_000


def steady_ms() -> int:
    """Return milliseconds since some moment; they never go back, and count a machine's sleep.

    >>> steady_ms() <= steady_ms()
    True
    """
    return time.clock_gettime_ns(_STEADY) // 1_000_000


def steady_ns() -> int:
    """Return the same clock in nanoseconds.

    >>> steady_ns() // 1_000_000 <= steady_ms()
    True
    """
    return time.clock_gettime_ns(_STEADY)
