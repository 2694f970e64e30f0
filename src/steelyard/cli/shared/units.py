"""Numbers, sizes, durations, times and NAME=VALUE pairs as the command line prints and parses them."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from steelyard.errors import ConfigurationError
from steelyard.model.number_text import pluralize as pluralize

_UNITS = "KMGTPE"
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


def format_bytes(count: float) -> str:
    """Return a number of bytes with its unit.

    >>> format_bytes(940), format_bytes(1_229), format_bytes(270_582_939_648)
    ('940 B', '1.2 KiB', '252.0 GiB')
    """
    if count < 1_024:
        return f"{count:.0f} B"
    power = min(len(_UNITS), (int(count).bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.1f} {_UNITS[power - 1]}iB"


def format_percent(part: float) -> str:
    """Return a fraction in percent.

    >>> format_percent(0.8134), format_percent(0)
    ('81 %', '0 %')
    """
    return f"{part * 100:.0f} %"


def format_uptime(passed: timedelta) -> str:
    """Return a duration in its two largest units.

    >>> [format_uptime(each) for each in (timedelta(seconds=96), timedelta(days=3, hours=4, seconds=9), timedelta())]
    ['1m 36s', '3d 4h', '0s']
    """
    seconds = int(passed.total_seconds())
    units = (
        (seconds // _DAY_S, "d"),
        (seconds % _DAY_S // _HOUR_S, "h"),
        (seconds % _HOUR_S // _MINUTE_S, "m"),
        (seconds % _MINUTE_S, "s"),
    )
    first = next((at for at, (number, _) in enumerate(units) if number), len(units) - 1)
    return " ".join(f"{number}{unit}" for number, unit in units[first : first + 2] if number) or "0s"


def format_age(then: datetime) -> str:
    """Return how long ago a time was.

    >>> format_age(datetime.now(UTC) - timedelta(hours=3, minutes=5))
    '3h 5m ago'
    """
    return f"{format_uptime(max(timedelta(), datetime.now(UTC) - then))} ago"


def format_time(when: datetime) -> str:
    """Return a time for a table, in the local time zone; JSON and CSV have it in ISO 8601 and UTC.

    >>> len(format_time(datetime.now()))
    14
    """
    return f"{when.astimezone():%m-%d %H:%M:%S}"


def count_text(number: int, noun: str) -> str:
    """Return a number, with thousands separated, and its noun."""
    return pluralize(number, noun, thousands=",")


def parse_pairs(pairs: Iterable[str] | None, what: str, *, empty: bool = True) -> dict[str, str]:
    """Parse NAME=VALUE pairs; ``what`` names one in errors, and ``empty`` allows a value that is empty.

    >>> parse_pairs(["fileReservedTime=48", "note=a=b"], "setting")
    {'fileReservedTime': '48', 'note': 'a=b'}
    """
    found: dict[str, str] = {}
    for each in pairs or ():
        name, sign, value = each.partition("=")
        if not name.strip() or not sign or not (value or empty):
            raise ConfigurationError(f"{each!r} is no {what}", next_step="write it as name=value")
        found[name.strip()] = value
    return found


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the value that so many percent of all values do not exceed; the values are sorted.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 99), percentile([7.0], 1)
    (2.0, 4.0, 7.0)
    """
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
