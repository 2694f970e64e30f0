"""Buckets count each value once, in the first bucket that is large enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.metrics.families import Histogram

numbers = st.floats(min_value=-1e6, max_value=1e6)


@given(st.sets(numbers).map(sorted), st.lists(numbers))
def test_each_value_counts_once_where_it_fits_first(bounds: list[float], values: list[float]) -> None:
    buckets = Histogram(tuple(bounds))
    for value in values:
        buckets.add(value)
    assert buckets.total == sum(buckets.counts) == len(values)
    assert buckets.sum == pytest.approx(sum(values))
    assert buckets.cumulative()[:-1] == [sum(value <= bound for value in values) for bound in bounds]
    assert buckets.cumulative()[-1] == len(values)


@pytest.mark.parametrize("bounds", [(2, 1), (1, 1)])
def test_bounds_that_do_not_grow_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ConfigurationError, match="do not grow"):
        Histogram(bounds)
