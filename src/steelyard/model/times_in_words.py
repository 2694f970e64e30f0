"""A moment as people write it: ``2026-11-01T08:00:00Z``, ``2026-11-01``, ``2 hours ago``, ``90s``, ``now``.

A time without a zone is of this machine's zone, as on a clock on the wall. The command line and the page read the same.
"""

import re
from datetime import datetime, timedelta

from steelyard.errors import ConfigurationError

__all__ = ["HOW_TO_WRITE", "UNITS", "in_short", "moment", "seconds"]

HOW_TO_WRITE = "write a time such as 2026-11-01T08:00:00Z, or '2 hours ago'"

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
"""How many seconds each has."""

_WORDS = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_LONGEST_S = 100 * 365 * 86_400.0


def seconds(text: str) -> float:
    """Read a span of time; a number alone is seconds.

    >>> seconds("90"), seconds("1.5h"), seconds("2 days")
    (90.0, 5400.0, 172800.0)
    """
    found = _SPAN.fullmatch(text.strip().lower())
    number, unit = found.groups() if found is not None else (text.strip(), "s")
    unit = _WORDS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    try:
        span = float(number) * UNITS[unit]
    except (KeyError, ValueError):
        span = -1.0
    if not 0 <= span <= _LONGEST_S:
        raise ConfigurationError(f"{text!r} is no span of time", next_step="write one such as 90s, 1.5h or '2 days'")
    return span


def in_short(span_s: float) -> str:
    """Write a span of time as briefly as it gets, in whole units that have begun.

    >>> in_short(0.4), in_short(89), in_short(5400), in_short(172_800)
    ('0s', '1m', '1h', '2d')
    """
    unit = max((each for each in ("s", "m", "h", "d") if UNITS[each] <= span_s), key=UNITS.__getitem__, default="s")
    return f"{int(span_s // UNITS[unit])}{unit}"


def moment(text: str, now: datetime) -> datetime:
    """Read a moment, of the past or of the future.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> moment("2 hours ago", noon).isoformat(), moment("2026-11-01T08:00:00Z", noon).isoformat()
    ('2026-11-01T10:00:00+00:00', '2026-11-01T08:00:00+00:00')
    """
    words = text.strip()
    if words == "now":
        return now
    span, ago = words.removesuffix("ago").rstrip(), words.endswith("ago")
    if ago or _SPAN.fullmatch(words.lower()):
        return now - timedelta(seconds=seconds(span))
    try:
        return datetime.fromisoformat(words).astimezone()
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"{text!r} is no time", next_step=HOW_TO_WRITE) from None
