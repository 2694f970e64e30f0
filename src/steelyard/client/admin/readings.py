"""What a broker measures of itself, read from the texts that it tells it in."""

from dataclasses import dataclass

__all__ = ["Rates", "position", "rates", "share", "told_bytes", "whole"]

_UNITS = {"B": 1, **{f"{letter}iB": 1 << 10 * power for power, letter in enumerate("KMGTPE", 1)}}


@dataclass(frozen=True, slots=True)
class Rates:
    """Something in a second, over the last ten seconds, minute and ten minutes; a young broker does not know all."""

    ten_seconds: float
    minute: float | None = None
    ten_minutes: float | None = None


def rates(text: str | None) -> Rates | None:
    """Read up to three numbers with blanks between them.

    >>> rates("12.5 11.9 10.0"), rates("soon")
    (Rates(ten_seconds=12.5, minute=11.9, ten_minutes=10.0), None)
    """
    try:
        numbers = [float(each) for each in (text or "").split()]
    except ValueError:
        return None
    return Rates(*numbers[:3]) if numbers else None


def share(text: str | None) -> float | None:
    """Read a share of a disk, from 0 to 1; Apache writes -1 where it cannot tell.

    >>> share("0.25"), share("-1.0"), share("")
    (0.25, None, None)
    """
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def position(text: str | None) -> int | None:
    """Read a position in the log; Apache writes -1 for the beginning of one that has nothing in it.

    >>> position("4096"), position("-1"), position(None)
    (4096, 0, None)
    """
    number = whole(text)
    return None if number is None else max(0, number)


def whole(text: str | None) -> int | None:
    """Read a whole number, if it is one."""
    try:
        return int(text or "")
    except ValueError:
        return None


def told_bytes(text: str) -> int | None:
    """Read a number of bytes as Apache prints it, if it is one.

    >>> told_bytes("940 B"), told_bytes("1.2 KiB"), told_bytes("plenty")
    (940, 1229, None)
    """
    number, _, unit = text.partition(" ")
    try:
        count = float(number) * _UNITS[unit]
    except (KeyError, ValueError):
        return None
    return round(count) if 0 <= count < 1 << 63 else None
