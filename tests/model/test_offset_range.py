"""Half-open ranges of offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange, Queue

_QUEUE = Queue("orders", "broker-a", 0)
_OTHER = Queue("orders", "broker-a", 1)
_SMALL = st.integers(0, 30)


def _ranges(offsets: st.SearchStrategy[int]) -> st.SearchStrategy[OffsetRange]:
    return st.builds(lambda a, b: OffsetRange(_QUEUE, min(a, b), max(a, b)), offsets, offsets)


def test_the_start_is_in_it_and_the_end_is_not() -> None:
    part = OffsetRange(_QUEUE, 3, 5)
    assert [offset in part for offset in (2, 3, 4, 5)] == [False, True, True, False]
    assert str(part) == "orders@broker-a:0[3, 5)"


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (2, 1), (-2, -1)])
def test_what_is_no_range_is_refused_with_a_next_step(start: int, end: int) -> None:
    with pytest.raises(ConfigurationError, match="not a range") as caught:
        OffsetRange(_QUEUE, start, end)
    assert caught.value.next_step == "give 0 <= start <= end"


@given(_ranges(_SMALL))
def test_its_length_is_the_number_of_offsets_in_it(part: OffsetRange) -> None:
    inside = [offset for offset in range(32) if offset in part]
    assert len(part) == len(inside)
    assert bool(part) == bool(inside)


def test_ranges_are_sorted_by_queue_then_start_then_end() -> None:
    ranges = [
        OffsetRange(_QUEUE, 0, 1),
        OffsetRange(_QUEUE, 0, 2),
        OffsetRange(_QUEUE, 1, 1),
        OffsetRange(_OTHER, 0, 0),
    ]
    mixed = [ranges[2], ranges[0], ranges[3], ranges[1]]
    assert sorted(mixed) == ranges
    emoji, private = Queue("t", "\U0001f600", 0), Queue("t", "\ue000", 0)
    assert OffsetRange(emoji, 0, 0) < OffsetRange(private, 0, 0)
