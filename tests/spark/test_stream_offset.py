"""Offsets in a checkpoint: canonical, the same after a round trip, and enough to replay a batch by themselves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from steelyard.errors import ConfigurationError, SteelyardError
from steelyard.model import OffsetRange, Queue
from steelyard.spark.stream_offset import StreamOffset, ranges_between

_names = some.text(some.characters(codec="utf-8"), min_size=1, max_size=5)
_queues = some.builds(Queue, _names, _names, some.integers(0, 70_000))
_places = some.dictionaries(_queues, some.integers(0, (1 << 63) - 1), max_size=12)
_offsets = some.builds(StreamOffset, _places, _places, some.booleans())

_keys = some.sampled_from(["q", "v", "base", "init", "t", "0"])
_anything = some.recursive(
    some.none() | some.booleans() | some.floats(allow_nan=False) | some.text(max_size=5) | some.integers(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)

_Q0, _Q1 = Queue("t", "a", 0), Queue("t", "a", 1)


@given(_offsets)
def test_an_offset_is_the_same_after_a_round_trip(offsets: StreamOffset) -> None:
    assert StreamOffset.decode(json.loads(json.dumps(offsets.encode()))) == offsets


@given(_places, _places)
def test_equal_offsets_are_equal_texts_in_whatever_order_they_were_made(
    places: dict[Queue, int], base: dict[Queue, int]
) -> None:
    text = json.dumps(StreamOffset(places, base).encode())
    assert json.dumps(StreamOffset(dict(reversed(places.items())), dict(reversed(base.items()))).encode()) == text
    assert json.dumps(json.loads(text), sort_keys=True) == text


@given(_anything)
def test_whatever_a_checkpoint_holds_it_is_read_or_refused(written: object) -> None:
    try:
        StreamOffset.decode(written)
    except SteelyardError:
        return


def test_an_offset_of_a_newer_release_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="version 2"):
        StreamOffset.decode({"q": {}, "v": 2})


def test_a_range_goes_from_start_to_end_of_each_queue() -> None:
    ranges = ranges_between(StreamOffset({_Q0: 3, _Q1: 5}), StreamOffset({_Q0: 9, _Q1: 5}))
    assert ranges == [OffsetRange(_Q0, 3, 9)]


def test_the_base_of_an_end_counts_more_than_an_initial_start() -> None:
    # After a crash in the first batch Spark asks for the start again, and queues end elsewhere by then.
    end = StreamOffset({_Q0: 9, _Q1: 5}, {_Q0: 4, _Q1: 5})
    for start in (StreamOffset({_Q0: 4, _Q1: 5}, is_initial=True), StreamOffset({_Q0: 6_000, _Q1: 0}, is_initial=True)):
        assert ranges_between(start, end) == [OffsetRange(_Q0, 4, 9)]


def test_a_first_batch_without_messages_stays_without_in_a_replay() -> None:
    end = StreamOffset({_Q0: 9}, is_initial=True)
    for later in (9, 6_000):
        assert not ranges_between(StreamOffset({_Q0: later}, is_initial=True), end)


def test_nothing_is_between_an_offset_and_itself_whatever_base_it_tells() -> None:
    here = StreamOffset({_Q0: 9, _Q1: 4}, start_offsets={_Q0: 2})
    assert ranges_between(here, StreamOffset.decode(here.encode())) == []


def test_a_queue_that_came_begins_where_the_end_says() -> None:
    assert ranges_between(StreamOffset({_Q0: 3}), StreamOffset({_Q0: 3, _Q1: 7}, {_Q1: 2})) == [OffsetRange(_Q1, 2, 7)]


def test_an_offset_that_goes_back_or_does_not_say_where_to_begin_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="goes from 9 back to 3 in t@a:0"):
        ranges_between(StreamOffset({_Q0: 9}), StreamOffset({_Q0: 3}))
    with pytest.raises(ConfigurationError, match="does not say where t@a:1 begins"):
        ranges_between(StreamOffset({_Q0: 9}), StreamOffset({_Q1: 3}))
