"""Conditions and their trees."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.broker.filters import (
    MAX_DEPTH,
    And,
    Comparison,
    Node,
    Not,
    NumberLiteral,
    Or,
    PropertyRef,
    TextLiteral,
    parse_condition,
)
from steelyard.errors import SubscriptionUnreadable
from tests.broker.filters.conditions import conditions, written


def tree_or_none(text: str) -> Node | None:
    try:
        return parse_condition(text)
    except SubscriptionUnreadable:
        return None


def reason(text: str) -> str:
    with pytest.raises(SubscriptionUnreadable) as refusal:
        parse_condition(text)
    return refusal.value.remark


@given(tree=conditions)
def test_what_is_written_is_read_back(tree: Node) -> None:
    read = tree_or_none(written(tree))
    # Some trees compare what cannot be compared; those are refused and not bent.
    assert read is None or repr(read) == repr(tree)


@given(tree=conditions)
def test_case_blanks_and_comments_mean_nothing(tree: Node) -> None:
    text = written(tree)
    spaced = text.replace(" AND ", "\tand/* AND */\n").replace(" OR ", " -- OR\r Or ").replace(" NOT ", " nOT\f")
    if "'" not in text:
        assert tree_or_none(spaced) == tree_or_none(text)


def test_and_binds_tighter_than_or_and_not_binds_tightest() -> None:
    a, b, c = PropertyRef("a"), PropertyRef("b"), PropertyRef("c")
    assert parse_condition("a OR b AND c") == Or((a, And((b, c))))
    assert parse_condition("(a OR b) AND c") == And((Or((a, b)), c))
    assert parse_condition("a AND b AND c") == And((a, b, c))
    assert parse_condition("(a AND b) AND c") == And((And((a, b)), c))
    assert parse_condition("NOT a = 1") == Comparison("=", Not(a), NumberLiteral(1))
    assert parse_condition("a = b > 1") == Comparison("=", a, Comparison(">", b, NumberLiteral(1)))


def test_a_quote_is_doubled_inside_a_text() -> None:
    assert parse_condition("a = 'it''s ''''fine'''") == Comparison("=", PropertyRef("a"), TextLiteral("it's ''fine'"))


def test_the_last_line_may_be_a_comment() -> None:
    assert parse_condition("a = 1 -- it's \U0001f600") == parse_condition("a = 1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "character 5: a property, a constant or a parenthesis is expected, not the end"),
        ("a = 'x", "character 5: what opens here is never closed by '"),
        ("a = 1 /* b", "character 7: what opens here is never closed by */"),
        ("a = 1; b = 2", "character 6: ';' means nothing here"),
        ("a = 1 AN b = 2", "character 7: AN comes after the end of the condition"),
        ("a = 1 - - no comment", "character 7: - comes after the end of the condition"),
        ("(a = 1", "character 7: ) is expected, not the end"),
        ("a IN (1)", "character 7: a text in single quotes is expected, not 1"),
        ("a IS 5", "character 6: NULL is expected, not 5"),
        ("a NOT 5", "character 7: 5 cannot follow NOT here"),
        ("'a' IN ('a')", "character 1: only a property can be IN a list"),
        ("a > 'x'", "character 5: only numbers and properties have an order"),
        ("a > 1 > 2", "character 1: only numbers and properties have an order"),
        ("a = NULL", "character 5: NULL is never equal: write IS NULL"),
        ("TRUE = 1", "character 1: a truth and a constant that is none are never equal"),
        ("a BETWEEN 3 AND 1", "character 11: nothing is between 3 and 1: write the lower one first"),
        ("a AND 5", "character 7: a condition is expected, and here is a value"),
        ("NOT -a", "character 5: a condition is expected, and here is a value"),
        ("a = 012", "character 5: a whole number of several digits does not begin with 0"),
        ("a = 9223372036854775808", "is more than 9223372036854775807, the largest whole number"),
        ("a > 0.0", "character 5: 0.0 is too small for a fraction: write 0 if you mean zero"),
        ("a > 1e999", "character 5: 1e999 is too large for a number"),
    ],
)
def test_a_refusal_says_where_and_why(text: str, message: str) -> None:
    assert message in reason(text)


def test_a_refusal_quotes_no_more_than_a_few_words() -> None:
    assert len(reason("a = 1 " + "b" * 30_000)) < 200
    assert len(reason("a = " + "9" * 30_000)) < 200
    assert len(reason("a = 1e" + "9" * 30_000)) < 200


@pytest.mark.parametrize(
    "deep",
    ["(" * 5000 + "a" + ")" * 5000, "NOT " * 5000 + "a", "a = " + "-" * 5000 + "1", "a" + " IS NULL" * 5000, "+" * 5000]
    + [f"a{link * 5000}" for link in (" = a", " <> a", " CONTAINS 'x'", " = (a")],
)
def test_depth_is_refused(deep: str) -> None:
    assert f"deeper than {MAX_DEPTH}" in reason(deep)


@pytest.mark.parametrize("link", ["AND", "OR"])
def test_a_long_chain_is_not_deep(link: str) -> None:
    assert tree_or_none(f" {link} ".join(["a = 1"] * 3000)) is not None


def test_depth_up_to_the_limit_is_read() -> None:
    assert tree_or_none("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == PropertyRef("a")
    assert tree_or_none("NOT " * (MAX_DEPTH - 1) + "a") is not None


@given(text=st.text(st.sampled_from("aA10.eE'()<>=+-*/,; \n$_lLIinN\x00é")) | st.text())
@example("--")
@example("/*/")
@example("''''")
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    assert tree_or_none(text) is not None or reason(text).startswith("SQL92 condition, character ")
