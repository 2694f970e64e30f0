"""The only clock of the house: milliseconds since 1970, which never go backwards while a process lives.

The day is read once, when this module is loaded; from then on a clock counts that nobody can set. Left out: a machine
that is set right, or woken up, while we run. Our time is off then until the next start, and nothing fires twice.
"""

import time

__all__ = ["now_ms"]

_START_NS = time.time_ns() - time.monotonic_ns()


def now_ms() -> int:
    """Return the time.

    >>> now_ms() <= now_ms()
    True
    """
    return (time.monotonic_ns() + _START_NS) // 1_000_000
