"""Times as users write them: ``2026-11-01T08:00:00Z``, ``2026-11-01``, ``2 hours ago``, ``90s``, ``now``.

A time without a zone is in this machine's zone. The command line and the dashboard parse the same.
"""

import re
from datetime import datetime, timedelta

from steelyard.errors import ConfigurationError

TIME_HINT = "write a time such as 2026-11-01T08:00:00Z, or '2 hours ago'"

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}

_UNIT_NAMES = {"sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_MAX_DURATION_S = 100 * 365 * 86_400.0


def parse_duration_s(text: str) -> float:
    """Parse a duration; a number alone is seconds.

    >>> parse_duration_s("90"), parse_duration_s("1.5h"), parse_duration_s("2 days")
    (90.0, 5400.0, 172800.0)
    """
    found = _DURATION.fullmatch(text.strip().lower())
    number, unit = found.groups() if found is not None else (text.strip(), "s")
    unit = _UNIT_NAMES.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
    try:
        span = float(number) * _UNIT_SECONDS[unit]
    except (KeyError, ValueError):
        span = -1.0
    if not 0 <= span <= _MAX_DURATION_S:
        raise ConfigurationError(f"{text!r} is no span of time", next_step="write one such as 90s, 1.5h or '2 days'")
    return span


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time, past or future.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    >>> parse_time("2 hours ago", noon).isoformat(), parse_time("2026-11-01T08:00:00Z", noon).isoformat()
    ('2026-11-01T10:00:00+00:00', '2026-11-01T08:00:00+00:00')
    """
    words = text.strip()
    if words == "now":
        return now
    span, ago = words.removesuffix("ago").rstrip(), words.endswith("ago")
    if ago or _DURATION.fullmatch(words.lower()):
        return now - timedelta(seconds=parse_duration_s(span))
    try:
        return datetime.fromisoformat(words).astimezone()
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError(f"{text!r} is no time", next_step=TIME_HINT) from None
