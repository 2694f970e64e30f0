"""Numbers, times and foreign names as people read them: the same words on the page, in its tables and on a terminal.

A name that comes from a message may hold anything. What cannot be seen, or would turn what stands around it, is written
as an escape, and what is very long is cut: so a sentence stays one line, wherever it is shown.
"""

from datetime import UTC, datetime

__all__ = ["LAST_MS", "clock", "count", "duration", "named", "number", "share", "size", "stamp", "times"]

LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: no moment lies behind it."""

_LONGEST = 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHORT_MS, _SECONDS_MS, _MINUTES_MS, _HOURS_MS, _DAYS_MS = 1_000, 120_000, 7_200_000, 172_800_000, 86_400_000


def named(text: str, longest: int = _LONGEST) -> str:
    r"""Return a name as it can be shown anywhere.

    >>> named("customer-7"), named("red\x1b[31m"), named("")
    ('customer-7', 'red\\x1b[31m', '(empty)')
    >>> named("x" * 100, 9)
    'xxxxxxxx…'
    """
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut) or "(empty)"


def number(value: float) -> str:
    """Return a number with as many digits as say something.

    >>> number(48_000), number(4.123), number(41.26), number(0)
    ('48,000', '4.1', '41', '0')
    """
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 10 else f"{value:.1f}"


def times(ratio: float) -> str:
    """Return how many times as much something is.

    >>> times(4.12).startswith("4.1 ")
    True
    """
    return f"{number(ratio)} \N{MULTIPLICATION SIGN}"


def count(value: int, noun: str) -> str:
    """Return how many there are of something.

    >>> count(1, "queue"), count(2_000, "queue")
    ('1 queue', '2,000 queues')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def share(part: float, whole: float) -> str:
    """Return a part in per cent.

    >>> share(31, 100), share(1, 80), share(1, 3_000), share(1, 10**6), share(0, 0)
    ('31 %', '1.2 %', '0.03 %', 'less than 0.01 %', '0 %')
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.01:
        return "less than 0.01 %"
    return f"{percent:.0f} %" if percent >= 10 or not percent else f"{percent:.{2 if percent >= 1 else 1}g} %"


def size(octets: float) -> str:
    """Return a number of bytes.

    >>> size(999), size(1_200_000)
    ('999 B', '1.2 MB')
    """
    for unit in _UNITS[:-1]:
        if octets < 999.5:
            return f"{number(octets)} {unit}"
        octets /= 1_000
    return f"{number(octets)} {_UNITS[-1]}"


def duration(span_ms: float) -> str:
    """Return a span of time.

    >>> duration(12), duration(1_840), duration(90_000), duration(600_000), duration(9_000_000)
    ('12 ms', '1.8 s', '90 s', '10 min', '2.5 h')
    """
    if span_ms < _SHORT_MS:
        return f"{span_ms:.0f} ms"
    if span_ms < _SECONDS_MS:
        return f"{number(span_ms / 1_000)} s"
    if span_ms < _MINUTES_MS:
        return f"{number(span_ms / 60_000)} min"
    return f"{number(span_ms / 3_600_000)} h" if span_ms < _HOURS_MS else f"{number(span_ms / _DAYS_MS)} days"


def stamp(at_ms: int) -> str:
    """Return a moment, in UTC.

    >>> stamp(1_793_520_000_123)
    '2026-11-01 08:00:00.123'
    """
    return f"{_moment(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1_000:03d}"


def clock(at_ms: int, span_ms: int) -> str:
    """Return a moment as the axis of a plot shows it: only what changes over its span.

    >>> clock(1_793_520_000_123, 60_000), clock(1_793_520_000_123, 10_000_000), clock(1_793_520_000_123, 10**9)
    ('08:00:00', '08:00', '11-01 08:00')
    """
    moment = _moment(at_ms)
    if span_ms < _MINUTES_MS:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M}" if span_ms < _DAYS_MS else f"{moment:%m-%d %H:%M}"


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(at_ms, 0), LAST_MS) // 1_000, UTC)
