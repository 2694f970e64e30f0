"""Filters as a pull meets them: by kind and expression, over the properties text of a record."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.broker.filters import MAX_EXPRESSION_LENGTH, compile_filter
from steelyard.errors import SubscriptionUnreadable
from steelyard.model import java_hash


def matches(condition: str, properties: bytes) -> bool:
    judge = compile_filter("SQL92", condition).matches
    assert judge is not None
    return judge(properties)


@pytest.mark.parametrize("kind", [None, "", "TAG"])
@pytest.mark.parametrize("expression", [None, "", "*"])
def test_nothing_named_is_everything_wanted(kind: str | None, expression: str | None) -> None:
    everything = compile_filter(kind, expression)
    assert everything.tags_codes is None
    assert everything.matches is None


@pytest.mark.parametrize("expression", ["TagA||TagB", " TagA || TagB ", "||TagA|| ||TagB||TagA||"])
def test_tags_are_wanted_by_their_hashes(expression: str) -> None:
    assert compile_filter("TAG", expression).tags_codes == frozenset(map(java_hash, ("TagA", "TagB")))
    assert compile_filter("TAG", expression).matches is None


def test_blanks_alone_want_nothing_as_in_java() -> None:
    assert compile_filter("TAG", "  ").tags_codes == frozenset()
    assert compile_filter("TAG", " * ").tags_codes == frozenset([java_hash("*")])


def test_bars_alone_are_refused() -> None:
    with pytest.raises(SubscriptionUnreadable, match="names no tag"):
        compile_filter("TAG", "||||")


@pytest.mark.parametrize("kind", ["tag", "sql92", "SQL", "JMS", "x" * 100_000])
def test_other_kinds_are_refused(kind: str) -> None:
    with pytest.raises(SubscriptionUnreadable, match="TAG and SQL92 are known") as refusal:
        compile_filter(kind, "a = 1")
    assert refusal.value.code == 23
    assert len(refusal.value.remark) < 1_000


@pytest.mark.parametrize("expression", [None, "", " ", "\n-- all\n"])
def test_a_condition_that_says_nothing_is_refused(expression: str | None) -> None:
    with pytest.raises(SubscriptionUnreadable, match="not the end"):
        compile_filter("SQL92", expression)


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_an_expression_has_a_largest_length(kind: str) -> None:
    tag = "a" * (MAX_EXPRESSION_LENGTH - 9) + " IS  NULL"
    compile_filter(kind, tag)
    with pytest.raises(SubscriptionUnreadable, match="the limit is 32768"):
        compile_filter(kind, tag + " ")


def test_what_was_compiled_is_remembered() -> None:
    for expression in ("remembered = 1", "remembered = 1" + " " * 2000):
        assert compile_filter("SQL92", expression) is compile_filter("SQL92", expression)


def test_a_tag_and_a_condition_with_one_text_are_not_mixed_up() -> None:
    assert compile_filter("TAG", "TRUE").tags_codes is not None
    assert compile_filter("SQL92", "TRUE").matches is not None


def test_properties_are_found_in_their_text() -> None:
    text = b"KEYS\x01region=eu\x02region\x01eu\x02amount\x0112\x02region\x01us\x02empty\x01\x02"
    assert matches("region = 'us'", text)
    assert matches("amount BETWEEN 12 AND 12 AND empty IS NULL", text)
    assert not matches("eu = 'x'", text)
    # Many names are looked up in another way.
    assert matches("region = 'us' AND amount = 12 AND empty IS NULL AND a IS NULL AND b IS NULL", text)


@given(text=st.binary(max_size=60))
def test_any_properties_text_is_evaluated(text: bytes) -> None:
    few = "a > 1 OR b CONTAINS 'x' OR c IS NULL"
    many = few + " OR d = 1 OR e = 1 OR f = 1"
    assert matches(few, text) is matches(many, text) is True or b"c\x01" in text


@given(kind=st.sampled_from((None, "", "TAG", "SQL92")) | st.text(), expression=st.none() | st.text())
def test_whatever_was_sent_is_compiled_or_refused(kind: str | None, expression: str | None) -> None:
    with suppress(SubscriptionUnreadable):
        compile_filter(kind, expression)
