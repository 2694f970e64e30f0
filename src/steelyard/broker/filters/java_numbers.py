"""Java's numbers: how Java parses numbers from strings, and how it orders them.

A property is a string. Compared with a whole number it must be one of the same width (32 bits, or 64 if the constant
needs them) and nothing but digits and a sign; compared with a fraction it may be whatever ``Double.valueOf`` accepts,
including hexadecimal and surrounding blanks. Anything else is not comparable, and the message does not match.
"""

import re

from steelyard.errors import ConfigurationError

__all__ = ["compare_numbers", "not_comparable", "parse_fraction", "parse_whole"]

_MAX_INT = (1 << 31) - 1
_MAX_LONG = (1 << 63) - 1
_MAX_LONG_DIGITS = 19
# Few enough for any width.
_SHORT_DIGITS = 9

# For whole numbers any Unicode digit of one UTF-16 unit counts, for fractions only ASCII. What follows a run of digits
# is never a digit, so a string that does not match costs no more than one that does.
_WHOLE = re.compile(r"([+-]?)([^\D\U00010000-\U0010ffff]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAMED_VALUES = {sign + name: float(sign + name) for sign in ("", "+", "-") for name in ("NaN", "Infinity")}
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def not_comparable(what: str) -> ConfigurationError:
    """Make the error that ends the evaluation of one message: Java throws here, and the message does not match."""
    return ConfigurationError(what)


def parse_whole(text: str, like: int) -> int:
    """Parse a whole number of the width of another one.

    >>> parse_whole("+0012", like=5), parse_whole("3000000000", like=3_000_000_000)
    (12, 3000000000)
    """
    if len(text) <= _SHORT_DIGITS and text.isascii() and text.isdigit():
        return int(text)
    maximum = _MAX_INT if -_MAX_INT <= like <= _MAX_INT else _MAX_LONG
    found = _WHOLE.fullmatch(text)
    if found:
        digits = found[2].lstrip("0") or "0"
        if len(digits) <= _MAX_LONG_DIGITS:
            value = -int(digits) if found[1] == "-" else int(digits)
            if -maximum - 1 <= value <= maximum:
                return value
    raise not_comparable("a property is not a whole number, or too large for one")


def parse_fraction(text: str) -> float:
    """Parse a number that may have a fraction, as ``Double.valueOf`` does.

    >>> parse_fraction(" 1.5e3f "), parse_fraction("-Infinity"), parse_fraction("0x1.8p1")
    (1500.0, -inf, 3.0)
    """
    text = text.strip(_JAVA_BLANKS)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if text in _NAMED_VALUES:
        return _NAMED_VALUES[text]
    if found := _HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -_NAMED_VALUES["Infinity"] if text[0] == "-" else _NAMED_VALUES["Infinity"]
    raise not_comparable("a property is not a number")


def compare_numbers(left: float, right: float) -> int:
    """Compare two numbers: negative, zero or positive. If one is a fraction, both are compared as fractions.

    >>> compare_numbers(2, 3), compare_numbers(2**53 + 1, 2.0**53), compare_numbers(-0.0, 0.0)
    (-1, 0, -1)
    >>> compare_numbers(float("nan"), float("inf"))
    1
    """
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    one, other = _sort_key(float(left)), _sort_key(float(right))
    return (one > other) - (one < other)


def _sort_key(value: float) -> tuple[bool, float, bool]:
    # Java's order of doubles is total: NaN comes after all others, and -0.0 before 0.0.
    if value != value:
        return True, 0.0, False
    return False, value, str(value)[0] != "-"
