"""Numbers, times and foreign names as text: the same in HTML, its tables and on a terminal.

A name that comes from a message may have any characters. Invisible ones, and those that change the direction of text,
are escaped, and long ones are shortened: so a sentence stays one line.
"""

from datetime import UTC, datetime

from steelyard.model import Queue

MAX_TIMESTAMP_MS = 253_402_300_799_999  # the last millisecond of the year 9999, the end of `datetime`

_MAX_NAME_LENGTH = 64
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_SHORT_MS, _SECONDS_MS, _MINUTES_MS, _HOURS_MS, _DAYS_MS = 1_000, 120_000, 7_200_000, 172_800_000, 86_400_000


def printable(text: str, max_length: int = _MAX_NAME_LENGTH) -> str:
    r"""Return a name that is safe to show.

    >>> printable("customer-7"), printable("red\x1b[31m"), printable("")
    ('customer-7', 'red\\x1b[31m', '(empty)')
    >>> printable("x" * 100, 9)
    'xxxxxxxx…'
    """
    cut = text if len(text) <= max_length else text[: max_length - 1] + "…"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in cut) or "(empty)"


def format_number(value: float) -> str:
    """Return a number with significant digits.

    >>> format_number(48_000), format_number(4.123), format_number(41.26), format_number(0)
    ('48,000', '4.1', '41', '0')
    """
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 10 else f"{value:.1f}"


def format_ratio(ratio: float) -> str:
    """Return a ratio.

    >>> format_ratio(4.12).startswith("4.1 ")
    True
    """
    return f"{format_number(ratio)} \N{MULTIPLICATION SIGN}"


def format_count(value: int, noun: str) -> str:
    """Return a count with its noun.

    >>> format_count(1, "queue"), format_count(2_000, "queue")
    ('1 queue', '2,000 queues')
    """
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def format_queue(queue: Queue) -> str:
    """Return a queue's name within its topic.

    >>> format_queue(Queue("orders", "broker-a", 3))
    'broker-a:3'
    """
    return printable(f"{queue.broker}:{queue.queue_id}")


def format_percent(part: float, whole: float) -> str:
    """Return a share in percent.

    >>> [format_percent(*each) for each in ((31, 100), (1, 80), (1, 3_000), (1, 10**6), (0, 0))]
    ['31 %', '1.2 %', '0.03 %', 'less than 0.01 %', '0 %']
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < 0.01:
        return "less than 0.01 %"
    return f"{percent:.0f} %" if percent >= 10 or not percent else f"{percent:.{2 if percent >= 1 else 1}g} %"


def format_bytes(octets: float) -> str:
    """Return a number of bytes.

    >>> format_bytes(999), format_bytes(1_200_000)
    ('999 B', '1.2 MB')
    """
    for unit in _UNITS[:-1]:
        if octets < 999.5:
            return f"{format_number(octets)} {unit}"
        octets /= 1_000
    return f"{format_number(octets)} {_UNITS[-1]}"


def format_duration(span_ms: float) -> str:
    """Return a duration.

    >>> [format_duration(each) for each in (12, 1_840, 90_000, 600_000, 9_000_000)]
    ['12 ms', '1.8 s', '90 s', '10 min', '2.5 h']
    """
    if span_ms < _SHORT_MS:
        return f"{span_ms:.0f} ms"
    if span_ms < _SECONDS_MS:
        return f"{format_number(span_ms / 1_000)} s"
    if span_ms < _MINUTES_MS:
        return f"{format_number(span_ms / 60_000)} min"
    return (
        f"{format_number(span_ms / 3_600_000)} h"
        if span_ms < _HOURS_MS
        else f"{format_number(span_ms / _DAYS_MS)} days"
    )


def to_datetime(at_ms: int) -> datetime:
    """Return a time, at most the end of `datetime`."""
    at_ms = min(max(at_ms, 0), MAX_TIMESTAMP_MS)
    return datetime.fromtimestamp(at_ms // 1_000, UTC).replace(microsecond=at_ms % 1_000 * 1_000)


def format_timestamp(at_ms: int) -> str:
    """Return a timestamp, in UTC.

    >>> format_timestamp(1_793_520_000_123)
    '2026-11-01 08:00:00.123'
    """
    return f"{to_datetime(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1_000:03d}"
