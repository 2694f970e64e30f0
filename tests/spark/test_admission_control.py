"""Admission: how much of what is there becomes a batch."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from steelyard.model import OffsetRange, Queue
from steelyard.spark.options import ReadOptions
from steelyard.spark.stream_reader import AdmissionControl, default_read_limit


def options(**given: str) -> ReadOptions:
    """Return options of a stream."""
    here = {"namesrv": "mq:9876", "subscribe": "t"}
    return ReadOptions.of(here | {name.lower(): value for name, value in given.items()}, streaming=True)


def ranges(*sizes: int) -> list[OffsetRange]:
    """Return a range of each size."""
    return [OffsetRange(Queue("t", "a", number), 100, 100 + size) for number, size in enumerate(sizes)]


class FixedSampler:
    """Says that each message weighs so much, and remembers where it was asked to look."""

    def __init__(self, weight: int = 100) -> None:
        self.weight = weight
        self.samples: list[Mapping[Queue, int]] = []

    def __call__(self, places: Mapping[Queue, int]) -> tuple[int, int]:
        self.samples.append(places)
        return 10, 10 * self.weight


def sizes(admitted: list[OffsetRange]) -> list[int]:
    """Return how many messages each range has."""
    return [len(each) for each in admitted]


def test_without_limits_everything_is_let_in() -> None:
    assert default_read_limit(options()) == ReadAllAvailable()
    assert sizes(AdmissionControl(options(), FixedSampler()).admit(ranges(3, 50), ReadAllAvailable(), 0)) == [3, 50]


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5"}, ReadMaxRows(10)),
        ({"maxBytesPerTrigger": "1k"}, ReadMaxBytes(1024)),
        ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5)),
    ],
)
def test_spark_asks_with_a_limit_if_there_is_one(given: dict[str, str], limit: object) -> None:
    assert default_read_limit(options(**given)) == limit


def test_at_most_so_many_messages_are_shared_fairly() -> None:
    admission = AdmissionControl(options(maxOffsetsPerTrigger="40"), FixedSampler())
    assert sizes(admission.admit(ranges(3, 100, 50), ReadMaxRows(40), 0)) == [3, 19, 18]


def test_all_that_is_available_is_all_whatever_the_options_say() -> None:
    admission = AdmissionControl(
        options(maxOffsetsPerTrigger="4", minOffsetsPerTrigger="2", maxBytesPerTrigger="1"), FixedSampler()
    )
    assert sizes(admission.admit(ranges(3, 100), ReadAllAvailable(), 0)) == [3, 100]


def test_too_few_messages_wait_until_there_are_more_or_it_was_long_enough() -> None:
    wanted = options(minOffsetsPerTrigger="10", maxTriggerDelay="1000")
    admission, limit = AdmissionControl(wanted, FixedSampler()), default_read_limit(wanted)
    # Nobody knows when a query that starts had its last batch: its first is not held back.
    assert sizes(admission.admit(ranges(3), limit, 5_000)) == [3]
    assert sizes(admission.admit(ranges(3), limit, 5_900)) == [0]
    assert sizes(admission.admit(ranges(0), limit, 9_000)) == [0]
    assert sizes(admission.admit(ranges(10), limit, 5_950)) == [10]
    assert sizes(admission.admit(ranges(3), limit, 6_949)) == [0]
    assert sizes(admission.admit(ranges(3), limit, 6_950)) == [3]


def test_a_query_that_is_to_end_never_waits_for_more() -> None:
    wanted = options(minOffsetsPerTrigger="10")
    admission = AdmissionControl(wanted, FixedSampler())
    for now_ms in (0, 1, 2):
        assert sizes(admission.admit(ranges(3), default_read_limit(wanted), now_ms, may_wait=False)) == [3]


def test_at_most_so_many_bytes_by_the_size_of_a_few_messages() -> None:
    scales = FixedSampler(weight=100)
    wanted = options(maxBytesPerTrigger="2000")
    admission, limit = AdmissionControl(wanted, scales), default_read_limit(wanted)
    assert sizes(admission.admit(ranges(3, 100), limit, 0)) == [3, 17]
    assert scales.samples == [{Queue("t", "a", 0): 100, Queue("t", "a", 1): 100}]
    # Messages got larger: the average goes half of the way.
    scales.weight = 300
    assert sizes(admission.admit(ranges(0, 83), limit, 1)) == [0, 10]


def test_nobody_looks_at_messages_when_there_are_few() -> None:
    scales = FixedSampler(weight=10)
    wanted = options(maxBytesPerTrigger="100000")
    admission = AdmissionControl(wanted, scales)
    for now_ms in range(3):
        assert sizes(admission.admit(ranges(5, 6), default_read_limit(wanted), now_ms)) == [5, 6]
    assert len(scales.samples) == 1


def test_a_message_larger_than_the_limit_goes_alone() -> None:
    wanted = options(maxBytesPerTrigger="1")
    assert sizes(AdmissionControl(wanted, FixedSampler()).admit(ranges(5, 6), default_read_limit(wanted), 0)) in (
        [1, 0],
        [0, 1],
    )


def test_without_a_sample_there_is_no_limit_of_bytes() -> None:
    wanted = options(maxBytesPerTrigger="1")
    admission = AdmissionControl(wanted, lambda _places: (0, 0))
    assert sizes(admission.admit(ranges(5), default_read_limit(wanted), 0)) == [5]


@given(
    some.lists(some.integers(0, 10_000), min_size=1, max_size=20),
    some.integers(1, 20_000),
    some.integers(1, 1_000_000),
    some.integers(1, 5_000),
)
def test_a_batch_keeps_all_limits_and_a_stream_goes_on(
    given: list[int], most: int, most_bytes: int, weight: int
) -> None:
    wanted = options(maxOffsetsPerTrigger=str(most), maxBytesPerTrigger=str(most_bytes))
    backlog = ranges(*given)
    admitted = AdmissionControl(wanted, FixedSampler(weight)).admit(backlog, default_read_limit(wanted), 0)
    total = sum(map(len, admitted))
    assert all(
        a.queue == b.queue and a.start == b.start and a.end <= b.end for a, b in zip(admitted, backlog, strict=True)
    )
    assert total <= most
    assert total * weight <= max(most_bytes, weight)
    assert bool(total) == any(given)
