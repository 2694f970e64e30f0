"""How fast something is done: a rate as people write it, and when the next piece may begin.

A piece that took too long is not made up for: the rate is never above what was asked, over any time longer than a
piece. The clock is the caller's.
"""

import re

from steelyard.errors import ConfigurationError

__all__ = ["Pace", "read_rate"]

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([km]?)\s*(?:/\s*(s|sec|second|min|minute|m|h|hour))?")
_TIMES = {"": 1, "k": 1_000, "m": 1_000_000}
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3_600, "hour": 3_600}


def read_rate(text: str) -> float:
    """Return how many a second are meant.

    >>> read_rate("10k/s"), read_rate("1.5m"), read_rate("600/min")
    (10000.0, 1500000.0, 10.0)
    """
    found = _RATE.fullmatch(text.strip().lower())
    rate = float(found[1]) * _TIMES[found[2]] / _SECONDS[found[3] or "s"] if found else 0.0
    if not rate > 0:
        raise ConfigurationError(f"{text!r} is no rate", next_step="write one such as 500/s, 10k/s or 600/min")
    return rate


class Pace:
    """Says how long to wait before the next piece of a work.

    >>> pace = Pace(100.0)
    >>> pace.wait_s(50, now_s=10.0), pace.wait_s(50, now_s=10.1), pace.wait_s(50, now_s=99.0)
    (0.0, 0.4, 0.0)
    >>> pace.also(100)
    >>> pace.wait_s(50, now_s=99.0)
    1.5
    """

    def __init__(self, rate: float | None) -> None:
        """Allow so many a second; None allows any."""
        self._rate = rate
        self._next_s: float | None = None

    def wait_s(self, count: int, *, now_s: float) -> float:
        """Return how long to wait before so many are begun; they count as begun then."""
        if self._rate is None:
            return 0.0
        begin_s = now_s if self._next_s is None else max(now_s, self._next_s)
        self._next_s = begin_s + count / self._rate
        return round(begin_s - now_s, 6)

    def also(self, count: int) -> None:
        """Count so many more as begun with the last piece: not everybody knows beforehand how large it is."""
        if self._rate is not None and self._next_s is not None:
            self._next_s += count / self._rate
