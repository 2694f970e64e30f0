"""Numbers of brokers as people read them: sizes, shares, spans of time, releases."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from steelyard.errors import ConfigurationError

__all__ = ["ago", "release", "settings", "share", "size", "span"]

_UNITS = "KMGTPE"
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


def size(count: float) -> str:
    """Return a number of bytes.

    >>> size(940), size(1_229), size(270_582_939_648)
    ('940 B', '1.2 KiB', '252.0 GiB')
    """
    if count < 1_024:
        return f"{count:.0f} B"
    power = min(len(_UNITS), (int(count).bit_length() - 1) // 10)
    return f"{count / (1 << 10 * power):.1f} {_UNITS[power - 1]}iB"


def share(part: float) -> str:
    """Return a share of a whole.

    >>> share(0.8134), share(0)
    ('81 %', '0 %')
    """
    return f"{part * 100:.0f} %"


def span(passed: timedelta) -> str:
    """Return a span of time in its two largest units.

    >>> span(timedelta(seconds=96)), span(timedelta(days=3, hours=4, seconds=9)), span(timedelta())
    ('1m 36s', '3d 4h', '0s')
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


def ago(then: datetime) -> str:
    """Return how long ago something was.

    >>> ago(datetime.now(UTC) - timedelta(hours=3, minutes=5))
    '3h 5m ago'
    """
    return f"{span(max(timedelta(), datetime.now(UTC) - then))} ago"


def release(version: str) -> str:
    """Return a server's version as it is published.

    >>> release("V4_9_7"), release("V5_0_0_SNAPSHOT")
    ('4.9.7', '5.0.0-SNAPSHOT')
    """
    return version.removeprefix("V").replace("_SNAPSHOT", "-SNAPSHOT").replace("_", ".")


def settings(given: list[str]) -> Mapping[str, str]:
    """Read settings from a command line.

    >>> settings(["fileReservedTime=48", "note=a=b"])
    {'fileReservedTime': '48', 'note': 'a=b'}
    """
    found: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"{each!r} is no setting", next_step="write it as name=value")
        found[name.strip()] = value
    return found
