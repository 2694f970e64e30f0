"""A failed message comes again after a while, at last it is a dead letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.retry import BY_ATTEMPTS, DEAD_LETTER, HIGHEST_LEVEL, gives_up, next_level
from steelyard.errors import ConfigurationError


def test_each_time_it_waits_one_level_longer_and_after_sixteen_it_is_a_dead_letter() -> None:
    assert [next_level(tried) for tried in range(16)] == list(range(3, 19))
    assert next_level(16) == next_level(100) == DEAD_LETTER


@given(st.integers(0, 100), st.integers(0, 40), st.integers(-2, 30))
def test_a_level_is_one_that_there_is_or_the_dead_letters(tried: int, most: int, wanted: int) -> None:
    level = next_level(tried, most_tries=most, wanted=wanted)
    assert (level == DEAD_LETTER) == (tried >= most or wanted < 0)
    assert level == DEAD_LETTER or 1 <= level <= HIGHEST_LEVEL
    if wanted > 0 and level != DEAD_LETTER:
        assert level == min(wanted, HIGHEST_LEVEL)


def test_without_a_limit_it_comes_again_for_ever() -> None:
    assert next_level(10_000, most_tries=-1, wanted=BY_ATTEMPTS) == HIGHEST_LEVEL
    assert not gives_up(10_000, -1)


def test_an_orderly_member_gives_up_after_its_tries() -> None:
    assert [gives_up(tried, 3) for tried in range(5)] == [False, False, False, True, True]
    assert gives_up(0, 0)


@pytest.mark.parametrize(("tried", "most"), [(-1, 16), (0, -2)])
def test_numbers_that_cannot_be_are_refused(tried: int, most: int) -> None:
    with pytest.raises(ConfigurationError, match="of at most"):
        next_level(tried, most_tries=most)
