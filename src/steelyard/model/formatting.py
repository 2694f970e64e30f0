"""Numbers, sizes, durations, times and foreign names as text: the same on a terminal, in the dashboard and in reports.

`dashboard/static/js/app/format.js` does the same in the browser; `tests/model/formatting.json` has examples for both.
What Apache's tools parse is formatted in `broker/requests/stats.py`. `time_text` parses what users write.

A name that comes from a message may have any characters. Invisible ones, and those that change the direction of text,
are escaped, and long ones are shortened: so a sentence stays one line.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, tzinfo

from steelyard.errors import ConsumerOffline

_MAX_NAME_LENGTH = 64
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SMALLEST_PERCENT = 0.01


def format_number(value: float) -> str:
    """Return a number with significant digits, and thousands separated.

    >>> format_number(48_000), format_number(4.123), format_number(41.26), format_number(0)
    ('48,000', '4.1', '41', '0')
    """
    return _round(value, 0 if abs(value) >= 10 else 1)


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> pluralize(1, "row"), pluralize(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_ratio(ratio: float) -> str:
    """Return a ratio.

    >>> format_ratio(4.12).startswith("4.1 ")
    True
    """
    return f"{format_number(ratio)} \N{MULTIPLICATION SIGN}"


def format_percent(part: float, whole: float = 1) -> str:
    """Return a share in percent.

    >>> [format_percent(*each) for each in ((0.8134,), (1, 80), (1, 3_000), (1, 10**6), (0, 0))]
    ['81 %', '1.3 %', '0.03 %', '< 0.01 %', '0 %']
    """
    percent = 100 * part / whole if whole else 0.0
    if 0 < percent < _SMALLEST_PERCENT:
        return f"< {_SMALLEST_PERCENT} %"
    return f"{_round(percent, 0 if percent >= 10 else 1 if percent >= 1 else 2)} %"


def format_bytes(count: float) -> str:
    """Return a number of bytes with its unit.

    >>> format_bytes(940), format_bytes(1_229), format_bytes(270_582_939_648)
    ('940 B', '1.2 KiB', '252 GiB')
    """
    power = 0
    # 1023.96 KiB would be rounded to 1024 KiB.
    while count >= (1_023.95 if power else 1_024) and power < len(_SIZES) - 1:
        count /= 1_024
        power += 1
    return f"{_round(count, 1 if power else 0)} {_SIZES[power]}"


def format_duration(duration: float | timedelta) -> str:
    """Return a duration, seconds if it is a number, in its two largest units, cut off: ``59.9`` s are not a minute yet.

    >>> [format_duration(each) for each in (0.0004, 0.35, 2.41, 42.8, 200, 3_600, timedelta(days=3, hours=4))]
    ['0.4 ms', '350 ms', '2.4 s', '42 s', '3 min 20 s', '1 h', '3 d 4 h']
    """
    duration_s = duration.total_seconds() if isinstance(duration, timedelta) else duration
    # Whole tenths of a millisecond: every cut below is one of integers, so JavaScript cuts at the same places.
    tenths = math.floor(max(0.0, duration_s) * 10_000 + 0.5)
    if 0 < tenths < 10_000:
        return f"{_round(tenths / 10, 1) if tenths < 100 else tenths // 10} ms"
    if tenths < 100_000:
        return f"{_round(tenths // 1_000 / 10, 1)} s"
    rest, parts = tenths // 10_000, list[str]()
    for size, unit in _SPANS:
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
        if parts and (number == 0 or len(parts) == 2):
            break
    return " ".join(parts)


def format_time(when: datetime, zone: tzinfo | None = None, precision: str = "seconds") -> str:
    """Return a time in ISO 8601 with its zone, by default the local one.

    >>> from datetime import UTC
    >>> format_time(datetime(2026, 11, 1, 8, tzinfo=UTC), UTC)
    '2026-11-01T08:00:00Z'
    """
    text = when.astimezone(zone).isoformat(timespec=precision)
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def format_release(version: str) -> str:
    """Return a server's version as releases are published.

    >>> format_release("V4_9_7"), format_release("V5_0_0_SNAPSHOT")
    ('4.9.7', '5.0.0-SNAPSHOT')
    """
    return version.removeprefix("V").replace("_SNAPSHOT", "-SNAPSHOT").replace("_", ".")


def shorten(text: str, max_length: int = _MAX_NAME_LENGTH) -> str:
    r"""Return a name that is safe to show, and not too long.

    >>> shorten("customer-7"), shorten("red\x1b[31m"), shorten("")
    ('customer-7', 'red\\x1b[31m', '(empty)')
    >>> shorten("x" * 100, 9)
    'xxxxxxxx…'
    """
    return printable(text if len(text) <= max_length else f"{text[: max_length - 1]}…") or "(empty)"


def printable(text: str) -> str:
    r"""Return a text as one line, with control characters escaped.

    >>> printable("a\tb\x1b[2J\n")
    'a\\tb\\x1b[2J\\n'
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a short name for each id: the first that is unique of its name, its address and name, and all of it.

    >>> short_names(["10.0.0.7@till-1#47#11@sy1", "10.0.0.7@till-2#48#12@sy1", "10.0.0.8@49#13@sy1"])
    {'10.0.0.7@till-1#47#11@sy1': 'till-1', '10.0.0.7@till-2#48#12@sy1': 'till-2', '10.0.0.8@49#13@sy1': '10.0.0.8@49'}
    """
    listed = list(dict.fromkeys(ids))
    forms = {each: (*_name_forms(each), each) for each in listed}
    taken = Counter(form for several in forms.values() for form in dict.fromkeys(several))
    return {each: next((form for form in forms[each] if taken[form] == 1), each) for each in listed}


def shorten_ids(text: str, names: Mapping[str, str]) -> str:
    """Replace ids by their short names.

    >>> shorten_ids("10.0.0.7@till-1#47#11@sy1 left", short_names(["10.0.0.7@till-1#47#11@sy1"]))
    'till-1 left'
    """
    # The longest first: one id may be the beginning of another.
    for each in sorted(names, key=len, reverse=True):
        text = text.replace(each, names[each])
    return text


def resolve_member(wanted: str, ids: Iterable[str]) -> str:
    """Return the member id that a person means: the id itself, or its short name.

    >>> resolve_member("till-1", ["10.0.0.7@till-1#47#11@sy1", "10.0.0.7@till-2#48#12@sy1"])
    '10.0.0.7@till-1#47#11@sy1'
    """
    short = short_names(ids)
    found = [each for each, name in short.items() if wanted in (each, name)]
    if len(found) != 1:
        raise ConsumerOffline(
            server="",
            what=f"no member is called {wanted!r}",
            next_step=f"there are: {', '.join(short.values()) or 'none'}",
        )
    return found[0]


def _name_forms(name: str) -> tuple[str, ...]:
    head, _, _ = name.partition("#")
    _, _, own = head.partition("@")
    # A number alone is a process id, which says little without the host.
    return (own, head) if own and not own.isdigit() else (head,)


def _round(value: float, digits: int) -> str:
    """Round half up, as JavaScript does, and write no zeros after the point."""
    rounded = math.floor(value * 10**digits + 0.5) / 10**digits
    return f"{rounded:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{rounded:,.0f}"
