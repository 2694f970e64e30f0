"""Which messages match: missing properties, numbers in texts, and what Java throws on."""

import pytest
from hypothesis import given

from steelyard.broker.filters import And, Node, Not, Or, compile_condition, parse_condition, property_names
from tests.broker.filters.conditions import conditions, messages


def matches(condition: str, **properties: str) -> bool:
    return compile_condition(parse_condition(condition))(properties)


def test_a_missing_property_matches_nothing_but_is_null() -> None:
    for condition in ("a = 1", "a <> 1", "a > 1", "a IN ('x')", "a NOT IN ('x')", "NOT (a = 1)", "a", "NOT a"):
        assert not matches(condition), condition
    for condition in ("a CONTAINS 'x'", "a NOT CONTAINS 'x'", "a BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2"):
        assert not matches(condition), condition
    assert matches("a IS NULL")
    assert matches("a = 1 OR a IS NULL")
    assert matches("a = b")


def test_properties_are_read_as_the_number_they_meet() -> None:
    assert matches("a = 3", a="+03")
    assert not matches("a = 3", a="3.0")
    assert matches("a = 3.0", a=" 3f ")
    assert matches("a > b", a="10", b="9")
    assert matches("a = 3000000000", a="3000000000")
    # As wide as the constant, and no wider.
    assert not matches("a > 3", a="3000000000")
    assert matches("a > 3.5", a="3000000000")
    assert matches("-1 > a", a="-2")


def test_nan_is_larger_than_all_and_minus_zero_is_smaller_than_zero() -> None:
    assert matches("a > 1.5", a="NaN")
    assert matches("a >= b AND b >= a", a="NaN", b="NaN")
    assert matches("a < b", a="-0.0", b="0")


def test_a_text_that_is_no_number_ends_the_evaluation() -> None:
    assert not matches("a > 1 OR TRUE", a="many")
    assert not matches("NOT (a > 1)", a="many")
    assert matches("TRUE OR a > 1", a="many")
    assert not matches("a > b OR TRUE", a="x", b="y")


def test_truths_are_texts_in_any_case() -> None:
    assert matches("a = TRUE", a="True")
    assert matches("a = FALSE", a="anything")
    assert not matches("TRUE = a OR TRUE", a="true")
    assert not matches("a", a="true")
    assert matches("NOT a", a="true")


def test_parts_of_texts_are_found() -> None:
    assert matches("a CONTAINS 'b' AND a STARTSWITH 'a' AND a ENDSWITH 'c'", a="abc")
    assert matches("a NOT CONTAINS 'x' AND a NOT STARTSWITH 'b' AND a NOT ENDSWITH 'b'", a="abc")
    assert not matches("a CONTAINS '' OR a NOT CONTAINS ''", a="abc")


@pytest.mark.parametrize("text", ["1" * 32_000, "-" + "9" * 32_000, "1" * 32_000 + "x", "0x" + "f" * 32_000 + "p1"])
def test_a_long_property_is_evaluated(text: str) -> None:
    assert not matches("a = 3", a=text)
    assert not matches("a = 3.5", a=text)


def test_a_long_property_of_zeros_is_a_number() -> None:
    assert matches("a = 3", a="0" * 32_000 + "3")


@given(tree=conditions, properties=messages)
def test_a_condition_and_its_opposite_never_both_match(tree: Node, properties: dict[str, str]) -> None:
    assert not (compile_condition(tree)(properties) and compile_condition(Not(tree))(properties))


@given(one=conditions, other=conditions, properties=messages)
def test_de_morgan_holds_with_nulls(one: Node, other: Node, properties: dict[str, str]) -> None:
    together, apart = Not(And((one, other))), Or((Not(one), Not(other)))
    assert compile_condition(together)(properties) is compile_condition(apart)(properties)


@given(tree=conditions, properties=messages)
def test_only_the_named_properties_count(tree: Node, properties: dict[str, str]) -> None:
    named = {name: properties[name] for name in property_names(tree) if name in properties}
    assert compile_condition(tree)(named) is compile_condition(tree)(properties)
