"""The clocks of servers and clients: the time of day for servers, and a monotonic one for durations.

`now_ms` follows the machine's time of day, through sleep and when it is set, and never goes back, since a log is
ordered by time: after the clock was set back it runs at half speed until both agree. `steady_ms` counts a machine's
sleep, where the system has such a clock, and cannot be set: a lease must age with real time only.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

elapsed_ns = time.monotonic_ns
"""Monotonic nanoseconds by the cheapest clock there is: it is read after every command."""

_STEADY_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MILLISECOND_NS = 1_000_000

steady_ns = partial(time.clock_gettime_ns, _STEADY_CLOCK)
"""Monotonic nanoseconds, which include a machine's sleep."""


def steady_ms() -> int:
    """Return the same clock in milliseconds."""
    return time.clock_gettime_ns(_STEADY_CLOCK) // _MILLISECOND_NS


def awake_ms() -> int:
    """Return monotonic milliseconds without a machine's sleep: a peer that slept is not late."""
    return time.monotonic_ns() // _MILLISECOND_NS


class DayClock:
    """A time of day that never goes back, made of a clock that may be set and a monotonic one, in nanoseconds."""

    def __init__(self, day_ns: Callable[[], int] = time.time_ns, steady_ns: Callable[[], int] = steady_ns) -> None:
        self._day_ns, self._steady_ns = day_ns, steady_ns
        self._lock = threading.Lock()
        self._last_steady_ns = steady_ns()
        self._now_ns = day_ns()

    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        with self._lock:
            steady_ns = self._steady_ns()
            passed_ns, self._last_steady_ns = max(0, steady_ns - self._last_steady_ns), steady_ns
            # While ahead of the day it runs at half speed, until the day has caught up.
            self._now_ns = max(self._day_ns(), self._now_ns + passed_ns // 2)
            return self._now_ns // _MILLISECOND_NS


now_ms = DayClock().now_ms
"""Returns the time of day of this process."""
