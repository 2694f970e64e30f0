"""Ranges to tasks, and a cap over queues: nothing lost, nothing twice, as even as can be."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import ConfigurationError
from steelyard.model import OffsetRange, Queue
from steelyard.spark.task_split import ReadTask, SplitOptions, cap_fairly, split_ranges

_SIZES = st.one_of(st.integers(0, 3), st.integers(0, 2_000))
_OPTIONS = st.builds(
    SplitOptions,
    max_tasks=st.integers(1, 20),
    min_tasks=st.integers(1, 20),
    max_task_records=st.integers(1, 3_000),
    min_task_records=st.integers(1, 500),
)


@st.composite
def _ranges(draw: st.DrawFn) -> list[OffsetRange]:
    names = st.tuples(st.sampled_from(["orders", "refunds"]), st.sampled_from("abc"), st.integers(0, 3))
    listed = draw(st.lists(names, max_size=12, unique=True))
    starts = [draw(st.integers(0, 10**6)) for _ in listed]
    return [OffsetRange(Queue(*name), start, start + draw(_SIZES)) for name, start in zip(listed, starts, strict=True)]


def _merged(tasks: list[ReadTask]) -> list[OffsetRange]:
    """Put the pieces together again; two that overlap, or leave a gap, stay apart."""
    pieces = sorted(piece for task in tasks for piece in task.ranges)
    merged: list[OffsetRange] = []
    for piece in pieces:
        if merged and merged[-1].queue == piece.queue and merged[-1].end == piece.start:
            merged[-1] = OffsetRange(piece.queue, merged[-1].start, piece.end)
        else:
            merged.append(piece)
    return merged


@given(_ranges(), _OPTIONS)
def test_tasks_cover_exactly_what_was_asked_for(ranges: list[OffsetRange], options: SplitOptions) -> None:
    tasks = split_ranges(ranges, options)
    assert _merged(tasks) == sorted(each for each in ranges if each)
    assert all(piece for task in tasks for piece in task.ranges), "no piece is empty"
    assert split_ranges(reversed(ranges), options) == tasks, "the order in which ranges are given does not matter"


@given(_ranges(), _OPTIONS)
def test_no_task_has_more_than_one_message_more_than_another(ranges: list[OffsetRange], options: SplitOptions) -> None:
    sizes = [len(task) for task in split_ranges(ranges, options)]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(_ranges(), _OPTIONS)
def test_there_are_as_many_tasks_as_the_options_allow(ranges: list[OffsetRange], options: SplitOptions) -> None:
    tasks, total = split_ranges(ranges, options), sum(map(len, ranges))
    most = max(options.max_tasks, options.min_tasks)
    assert len(tasks) <= most
    assert len(tasks) >= min(options.min_tasks, total)
    if len(tasks) < min(most, total):
        assert all(len(task) <= options.max_task_records for task in tasks)
    if len(tasks) > options.min_tasks and total <= options.max_task_records:
        assert all(len(task) >= options.min_task_records for task in tasks)


@given(_ranges(), _OPTIONS)
def test_brokers_stay_together(ranges: list[OffsetRange], options: SplitOptions) -> None:
    tasks = split_ranges(ranges, options)
    seen = [piece.queue.broker for task in tasks for piece in task.ranges]
    assert sum(one != two for one, two in pairwise(seen)) <= len(set(seen))
    assert sum(len(task.brokers) for task in tasks) <= len(tasks) + len(set(seen))


@given(_ranges(), st.integers(1, 20))
def test_queues_that_must_stay_whole_do_and_the_largest_decides_how_even_it_gets(
    ranges: list[OffsetRange], count: int
) -> None:
    options = SplitOptions(max_tasks=count, min_tasks=count, whole_queues=True)
    tasks, filled = split_ranges(ranges, options), [each for each in ranges if each]
    assert sorted(piece for task in tasks for piece in task.ranges) == sorted(filled)
    if filled:
        assert len(tasks) == min(count, len(filled))
        sizes = [len(task) for task in tasks]
        assert max(sizes) - min(sizes) <= max(map(len, filled))


def test_little_to_read_becomes_few_tasks() -> None:
    ranges = [OffsetRange(Queue("orders", "a", number), 0, 100) for number in range(16)]
    assert [len(task) for task in split_ranges(ranges)] == [1_600]
    assert len(split_ranges(ranges, SplitOptions(min_tasks=40))) == 40
    assert split_ranges([]) == split_ranges([OffsetRange(Queue("orders", "a", 0), 7, 7)]) == []


def test_a_large_queue_does_not_keep_one_task_busy_alone() -> None:
    sizes = [1_000_000, 10, 10, 10]
    tasks = split_ranges([OffsetRange(Queue("orders", "a", number), 0, size) for number, size in enumerate(sizes)])
    assert [len(task) for task in tasks] == [250_008, 250_007, 250_008, 250_007]


@given(_ranges(), st.integers(0, 30_000))
def test_a_cap_is_kept_and_used_up(ranges: list[OffsetRange], most: int) -> None:
    capped = cap_fairly(ranges, most)
    assert [(each.queue, each.start) for each in capped] == [(each.queue, each.start) for each in ranges]
    assert all(short.end <= whole.end for short, whole in zip(capped, ranges, strict=True))
    assert sum(map(len, capped)) == min(most, sum(map(len, ranges)))


@given(_ranges(), st.integers(0, 30_000))
def test_who_gets_less_than_it_has_gets_no_less_than_anybody_else(ranges: list[OffsetRange], most: int) -> None:
    capped = cap_fairly(ranges, most)
    largest = max(map(len, capped), default=0)
    for short, whole in zip(capped, ranges, strict=True):
        assert short == whole or len(short) >= largest - 1


def test_what_cannot_be_divided_goes_around() -> None:
    ranges = [OffsetRange(Queue("orders", "a", number), 0, 1_000) for number in range(10)]
    given_out: Counter[int] = Counter()
    for _ in range(20):
        capped = cap_fairly(ranges, 3)
        given_out.update({each.queue.queue_id: len(each) for each in capped})
        ranges = [OffsetRange(each.queue, capped[n].end, each.end) for n, each in enumerate(ranges)]
    assert given_out == dict.fromkeys(range(10), 6)


def test_sizes_that_cannot_be_are_refused() -> None:
    for sizes in ((0, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)):
        with pytest.raises(ConfigurationError, match="1 and more"):
            SplitOptions(*sizes)
    with pytest.raises(ConfigurationError, match="-1 messages"):
        cap_fairly([], -1)
