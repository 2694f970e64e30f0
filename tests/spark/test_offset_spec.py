"""Places in queues: what options may say, and what it means."""

import pytest

from steelyard.errors import ConfigurationError
from steelyard.model import Queue
from steelyard.spark.offset_spec import (
    EARLIEST_EDGE,
    LATEST_EDGE,
    AtTimestamp,
    AtTimestamps,
    CommittedOffsets,
    ExplicitOffsets,
    OffsetSpec,
    RelativeTime,
    parse_ending,
    parse_starting,
)
from steelyard.spark.option_table import OptionMode, OptionValues


def start(streaming: bool = True, **options: str) -> OffsetSpec:
    """Read where to begin."""
    mode = OptionMode.STREAM if streaming else OptionMode.BATCH
    return parse_starting(
        OptionValues({name.lower(): value for name, value in options.items()}, mode), streaming=streaming
    )


def end(**options: str) -> OffsetSpec:
    """Read where a batch ends."""
    return parse_ending(OptionValues({name.lower(): value for name, value in options.items()}, OptionMode.BATCH))


def test_a_stream_begins_at_the_end_and_a_batch_reads_all_unless_told() -> None:
    assert (start(), start(streaming=False), end()) == (LATEST_EDGE, EARLIEST_EDGE, LATEST_EDGE)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("earliest", EARLIEST_EDGE),
        ("Latest", LATEST_EDGE),
        ("group", CommittedOffsets()),
        ("-2h", RelativeTime(7_200_000)),
        ("-10m", RelativeTime(600_000)),
        ("- 3 d", RelativeTime(259_200_000)),
        ("-500ms", RelativeTime(500)),
        ('{"t":{"a":{"0":5,"1":-1}}}', ExplicitOffsets({Queue("t", "a", 0): 5, Queue("t", "a", 1): -1})),
    ],
)
def test_starting_offsets_are_words_times_ago_or_offsets(written: str, place: OffsetSpec) -> None:
    assert start(startingOffsets=written) == place


@pytest.mark.parametrize(
    ("written", "time_ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20.500+01:00", 1_700_000_000_500),
    ],
)
def test_a_time_is_milliseconds_or_has_its_zone(written: str, time_ms: int) -> None:
    assert start(startingTimestamp=written) == AtTimestamp(time_ms)
    assert end(endingTimestamp=written) == AtTimestamp(time_ms)


@pytest.mark.parametrize("written", ["2023-11-14T22:13:20", "yesterday", "-5", "", "1" * 19, "-2y", f"-{10**15}d"])
def test_a_time_without_a_zone_or_sense_is_refused(written: str) -> None:
    with pytest.raises(ConfigurationError, match="the option startingTimestamp is"):
        start(startingTimestamp=written)


@pytest.mark.parametrize(
    "written",
    [
        "first",
        "5",
        "{",
        '{"t": 5}',
        '{"t":{"a":{"x":5}}}',
        '{"t":{"a":{"0":-3}}}',
        '{"t":{"a":{"0":1.5}}}',
        '{"t":{"a":{"0":true}}}',
    ],
)
def test_other_offsets_are_refused(written: str) -> None:
    with pytest.raises(ConfigurationError, match="the option startingOffsets is"):
        start(startingOffsets=written)


def test_so_long_ago_counts_from_the_clock_that_is_given() -> None:
    assert RelativeTime(7_200_000).resolve(10_000_000) == AtTimestamp(2_800_000)
    assert RelativeTime(7_200_000, must_exist=True).resolve(5) == AtTimestamp(0, must_exist=True)


def test_a_time_for_each_queue_and_what_to_do_without_messages() -> None:
    times = '{"t":{"a":{"0":1700000000000}}}'
    place = start(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="error")
    assert place == AtTimestamps({Queue("t", "a", 0): 1_700_000_000_000}, must_exist=True)
    assert end(endingOffsetsByTimestamp=times) == AtTimestamps({Queue("t", "a", 0): 1_700_000_000_000})
    assert start(startingTimestamp="5", startingOffsetsByTimestampStrategy="error") == AtTimestamp(5, must_exist=True)


def test_a_batch_that_would_read_nothing_is_refused() -> None:
    for wrong in ("latest", '{"t":{"a":{"0":-1}}}'):
        with pytest.raises(ConfigurationError, match="a batch that starts at the end reads nothing"):
            start(streaming=False, startingOffsets=wrong)
    for wrong in ("earliest", '{"t":{"a":{"0":-2}}}'):
        with pytest.raises(ConfigurationError, match="a batch that ends at the first message reads nothing"):
            end(endingOffsets=wrong)
