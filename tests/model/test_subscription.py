"""Subscriptions, parsed as Java does."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import ExpressionType, Subscription, java_hash

_TAGS = st.text(st.characters(codec="utf-8", exclude_characters="|*"), min_size=1).filter(
    lambda tag: tag[0] > " " and tag[-1] > " "
)
_BLANKS = st.text(" \t", max_size=2)


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("paid", ("paid",)),
        ("paid || refunded", ("paid", "refunded")),
        ("paid||refunded", ("paid", "refunded")),
        ("  paid  ||  refunded  ", ("paid", "refunded")),
        ("paid || paid || refunded || paid", ("paid", "refunded")),
        ("paid || || refunded", ("paid", "refunded")),
        ("|| paid ||", ("paid",)),
        ("paid | refunded", ("paid | refunded",)),
        ("two words || one", ("two words", "one")),
        ("\u00a0paid || \x01refunded\x1f", ("\u00a0paid", "refunded")),
    ],
)
def test_tags_are_parted_by_two_bars(expression: str, tags: tuple[str, ...]) -> None:
    wanted = Subscription("orders", expression)
    assert wanted.tags == tags
    assert wanted.expression == expression


@pytest.mark.parametrize("expression", ["*", "", "   ", " * ", "\t"])
def test_a_star_or_nothing_means_everything(expression: str) -> None:
    wanted = Subscription("orders", expression)
    assert (wanted.expression, wanted.tags, wanted.tag_hashes) == ("*", (), ())
    assert wanted.matches_tag(None)
    assert wanted.matches_tag("anything")
    assert wanted == Subscription("orders")


@pytest.mark.parametrize("expression", ["||", " || ", "|| || ||"])
def test_an_expression_of_bars_alone_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError, match="names no tag") as caught:
        Subscription("orders", expression)
    assert "paid || refunded" in caught.value.next_step


@given(st.lists(st.tuples(_BLANKS, _TAGS, _BLANKS), min_size=1, max_size=8))
def test_blanks_and_repeats_do_not_matter(parts: list[tuple[str, str, str]]) -> None:
    wanted = Subscription("orders", "||".join(before + tag + after for before, tag, after in parts))
    plain = list(dict.fromkeys(tag for _, tag, _ in parts))
    assert list(wanted.tags) == plain
    assert list(wanted.tag_hashes) == [java_hash(tag) for tag in plain]
    assert all(map(wanted.matches_tag, plain))
    assert not wanted.matches_tag(None)


def test_hashes_are_the_values_a_broker_compares() -> None:
    assert Subscription("orders", "TagA || TagB").tag_hashes == (2598919, 2598920)


def test_two_tags_with_one_hash_are_told_apart_by_name() -> None:
    wanted = Subscription("orders", "Aa")
    assert wanted.tag_hashes == Subscription("orders", "BB").tag_hashes
    assert wanted.matches_tag("Aa")
    assert not wanted.matches_tag("BB")


def test_a_condition_is_the_brokers_to_decide() -> None:
    wanted = Subscription("orders", "amount > 10 || region = 'eu'", ExpressionType.SQL92)
    assert (wanted.tags, wanted.tag_hashes) == ((), ())
    assert wanted.expression == "amount > 10 || region = 'eu'"
    assert wanted.matches_tag("anything")
    assert wanted.matches_tag(None)


@pytest.mark.parametrize("expression", ["", "   "])
def test_an_empty_condition_is_refused(expression: str) -> None:
    with pytest.raises(ConfigurationError, match="'orders' is empty") as caught:
        Subscription("orders", expression, ExpressionType.SQL92)
    assert "amount > 10" in caught.value.next_step


@pytest.mark.parametrize("wrong", [{"topic": ""}, {"topic": 5}, {"expression": None}, {"expression_type": "SQL92"}])
def test_what_is_no_subscription_is_refused_with_a_next_step(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Subscription(**{"topic": "orders", **wrong})
    assert caught.value.next_step


def test_equal_subscriptions_are_equal_values() -> None:
    assert Subscription("orders", "a || b") == Subscription("orders", "a || b")
    assert Subscription("orders", "a", version=1) != Subscription("orders", "a", version=2)
    assert len({Subscription("orders", "a"), Subscription("orders", "a")}) == 1
