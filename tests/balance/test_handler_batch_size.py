"""Quick handlers get several messages at once, slow ones get one."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group.dispatch import HandlerBatchSizer


def test_a_slow_handler_gets_one_message_at_a_time() -> None:
    chunking = HandlerBatchSizer()
    assert [chunking.record_durations([5_000_000]) for _ in range(3)] == [1, 1, 1]


def test_a_quick_handler_gets_as_many_as_there_may_be() -> None:
    assert HandlerBatchSizer(max_size=64).record_durations([1_000]) == 64


def test_one_that_waited_among_many_does_not_count() -> None:
    chunking = HandlerBatchSizer()
    chunking.record_durations([2_000])
    assert chunking.record_durations([2_000] * 31 + [80_000_000]) == 32


def test_one_that_turns_slow_is_believed_at_once_and_one_that_turns_quick_by_and_by() -> None:
    chunking = HandlerBatchSizer()
    chunking.record_durations([2_000])
    assert chunking.record_durations([10_000_000] * 3) == 1
    sizes = [chunking.record_durations([2_000]) for _ in range(20)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1, 32)


@given(st.lists(st.lists(st.integers(0, 10**12), max_size=40), max_size=20), st.integers(1, 1_000))
def test_a_size_is_always_between_one_and_the_most(chunks: list[list[int]], most: int) -> None:
    chunking = HandlerBatchSizer(most)
    assert all(1 <= chunking.record_durations(chunk) <= most for chunk in chunks)
