"""Numbers as Java reads them, held against readers that take the texts apart by hand: no pattern has the last word.

The patterns ran wrong on one release of Python (3.11.2, which reads ``0E`` as a number where groups are possessive),
so these tests are for every interpreter. A text as long as those below would keep a reader that looks back for minutes.
"""

import unicodedata
from contextlib import suppress
from decimal import Decimal
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.broker.filters import compile_filter, parse_fraction, parse_whole, tokenize
from steelyard.errors import ConfigurationError, SubscriptionUnreadable
from tests.broker.filters.conditions import VALUES

_LONG = 300_000
_DIGITS, _HEX_DIGITS = frozenset("0123456789"), frozenset("0123456789abcdefABCDEF")
_pieces = st.sampled_from(["0", "1", "9", "00", ".", "e", "E", "+", "-", "f", "D", "0x", "0X", "p", "P", "a", " ", "l"])
_near_numbers = st.lists(_pieces, max_size=8).map("".join) | st.text("0123456789.eE+-", max_size=12)
_near_wholes = st.text("0123456789+-_\u0663\U0001d7d1\u00b2 ", max_size=24) | st.integers().map(str)


def is_run(text: str, digits: frozenset[str]) -> bool:
    return bool(text) and digits.issuperset(text)


def without_sign(text: str) -> str:
    return text[1:] if text[:1] in ("+", "-") else text


def is_significand(text: str, digits: frozenset[str]) -> bool:
    before, _, behind = text.partition(".")
    return is_run(before + behind, digits)


def is_decimal(text: str) -> bool:
    significand, mark, exponent = text.lower().partition("e")
    return is_significand(significand, _DIGITS) and (not mark or is_run(without_sign(exponent), _DIGITS))


def is_hexadecimal(text: str) -> bool:
    significand, mark, exponent = text.lower().removeprefix("0x").partition("p")
    is_marked = bool(mark) and text[:2].lower() == "0x"
    return is_marked and is_significand(significand, _HEX_DIGITS) and is_run(without_sign(exponent), _DIGITS)


def expected(text: str) -> float | None:
    """Read a decimal fraction, or say with None that there is none."""
    plain = text.strip("".join(map(chr, range(0x21))))
    short = plain[:-1] if plain[-1:] in tuple("fFdD") else plain
    return float(Decimal(short)) if is_decimal(without_sign(short)) else None


def found(text: str) -> float | None:
    try:
        return parse_fraction(text)
    except ConfigurationError:
        return None


@given(_near_numbers)
@example("0E")
@example("1.e+")
@example(".e1")
@example("1f")
@example("1e5fd")
def test_a_fraction_is_what_a_reader_by_hand_takes_for_one(text: str) -> None:
    plain = text.strip()
    short = without_sign(plain[:-1] if plain[-1:] in tuple("fFdD") and plain[-2:-1] in _DIGITS else plain)
    if is_hexadecimal(short):
        assert found(text) is not None
    else:
        assert found(text) == expected(text)


@pytest.mark.parametrize("text", VALUES)
def test_the_values_that_the_other_tests_are_made_of_are_read_so_too(text: str) -> None:
    if text.lstrip("+-") not in ("NaN", "Infinity") and "x" not in text:
        assert found(text) == expected(text)


@given(_near_wholes)
def test_a_whole_number_is_what_a_reader_by_hand_takes_for_one(text: str) -> None:
    digits = without_sign(text)
    is_whole = bool(digits) and all(unicodedata.category(each) == "Nd" and ord(each) < 0x10000 for each in digits)
    if is_whole and -(1 << 63) <= int(text) < 1 << 63:
        assert parse_whole(text, like=1 << 40) == int(text)
    else:
        with pytest.raises(ConfigurationError):
            parse_whole(text, like=1 << 40)


def is_fraction_word(text: str) -> bool:
    return ("." in text or "e" in text.lower()) and is_decimal(text)


@given(st.text("0123456789.eE+-", min_size=1, max_size=12))
@example("0E")
@example("1.5e+")
@example("1e5.5")
def test_the_first_word_of_a_condition_is_the_longest_number_it_begins_with(text: str) -> None:
    numbers = [text[:end] for end in range(len(text), 0, -1) if is_fraction_word(text[:end])]
    try:
        word = next(tokenize(text))
    except SubscriptionUnreadable:
        assert not numbers
    else:
        assert (word.kind == "fraction") is bool(numbers)
        assert not numbers or word.value == numbers[0]


@pytest.mark.parametrize(
    "text",
    [
        *("1" * _LONG, "." * _LONG, "e" * _LONG, "+" * _LONG, " " * _LONG + "x"),
        *("1" * _LONG + "x", "1." + "1" * _LONG + "x", "1e" + "1" * _LONG + "x", "1" * _LONG + "." + "1" * _LONG + "e"),
        *("0x" + "f" * _LONG, "0x" + "f" * _LONG + "." + "f" * _LONG, "0x1p" + "1" * _LONG + "x"),
        *("1." * (_LONG // 2), "1e" * (_LONG // 2), "\u0663" * _LONG + "x"),
    ],
    ids=lambda text: f"{text[:4]}…{text[-4:]}",
)
def test_no_text_keeps_a_reader_for_long(text: str) -> None:
    found(text)
    with pytest.raises(ConfigurationError):
        parse_whole(text, like=1)
    with suppress(SubscriptionUnreadable):
        assert [word.kind for word in islice(tokenize(text), _LONG + 1)][-1] == "end"


@pytest.mark.parametrize(("amount", "is_wanted"), [("0E", False), ("1E1", False), ("11", True), ("", False)])
def test_a_property_that_is_nearly_a_number_does_not_match(amount: str, is_wanted: bool) -> None:
    matches = compile_filter("SQL92", "amount > 10.5").matches
    assert matches is not None
    assert matches(f"amount\x01{amount}\x02".encode()) is is_wanted
