"""How Java reads numbers out of texts, and how it orders them: the small print of comparing properties.

A property is a text. Compared with a whole number it must be one of the same width (32 bits, or 64 if the constant
needs them) and nothing but digits and a sign; compared with a fraction it may be whatever ``Double.valueOf`` reads,
hexadecimal and blanks around it included. Whatever cannot be read so is not comparable, which no condition survives.
"""

import re

from steelyard.errors import ConfigurationError

__all__ = ["fraction_of", "not_comparable", "relation", "whole_of"]

_INT_MOST = (1 << 31) - 1
_LONG_MOST = (1 << 63) - 1
_LONG_DIGITS = 19
# So few that any width holds them.
_FEW_DIGITS = 9

# Any digit of Unicode that fits one UTF-16 unit counts for whole numbers, and ASCII alone for fractions. What follows a
# run of digits is never a digit, so a text that does not match costs no more than one that does.
_WHOLE = re.compile(r"([+-]?)([^\D\U00010000-\U0010ffff]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_SPOKEN = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")}
_TRIMMED = "".join(map(chr, range(0x21)))


def not_comparable(what: str) -> ConfigurationError:
    """Make the error that ends the judging of one message: Java throws here, and the message is not delivered."""
    return ConfigurationError(what)


def whole_of(text: str, like: int) -> int:
    """Read a whole number of the width of another one.

    >>> whole_of("+0012", like=5), whole_of("3000000000", like=3_000_000_000)
    (12, 3000000000)
    """
    if len(text) <= _FEW_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    most = _INT_MOST if -_INT_MOST <= like <= _INT_MOST else _LONG_MOST
    found = _WHOLE.fullmatch(text)
    if found:
        digits = found[2].lstrip("0") or "0"
        if len(digits) <= _LONG_DIGITS:
            value = -int(digits) if found[1] == "-" else int(digits)
            if -most - 1 <= value <= most:
                return value
    raise not_comparable("a property is not a whole number, or too large for one")


def fraction_of(text: str) -> float:
    """Read a number that may have a fraction, as ``Double.valueOf`` does.

    >>> fraction_of(" 1.5e3f "), fraction_of("-Infinity"), fraction_of("0x1.8p1")
    (1500.0, -inf, 3.0)
    """
    text = text.strip(_TRIMMED)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if text in _SPOKEN:
        return _SPOKEN[text]
    if found := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -_SPOKEN["Infinity"] if text[0] == "-" else _SPOKEN["Infinity"]
    raise not_comparable("a property is not a number")


def relation(left: float, right: float) -> int:
    """Say how two numbers relate: negative, zero or positive. Once one has a fraction both are taken as fractions.

    >>> relation(2, 3), relation(2**53 + 1, 2.0**53), relation(-0.0, 0.0), relation(float("nan"), float("inf"))
    (-1, 0, -1, 1)
    """
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    one, other = _placed(float(left)), _placed(float(right))
    return (one > other) - (one < other)


def _placed(value: float) -> tuple[bool, float, bool]:
    # Java's order of doubles is total: NaN comes after all others, and -0.0 before 0.0.
    if value != value:
        return True, 0.0, False
    return False, value, str(value)[0] != "-"
