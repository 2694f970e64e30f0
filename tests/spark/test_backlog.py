"""The backlog of a stream: from where it is to where queues end, and what an offset has to tell of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from steelyard.errors import MessagesLost
from steelyard.model import OffsetRange, Queue
from steelyard.spark.options import TopicSelection
from steelyard.spark.queue_monitor import QueueSnapshot
from steelyard.spark.stream_offset import StreamOffset, ranges_between
from steelyard.spark.stream_reader import find_backlog

_ALL = TopicSelection(("t",))
_QUEUES = [Queue("t", broker, number) for broker in "ab" for number in range(3)]
_Q0, _Q1 = _QUEUES[:2]

_offset = some.integers(0, 50)
_places = some.dictionaries(some.sampled_from(_QUEUES), _offset)
_spans = some.dictionaries(
    some.sampled_from(_QUEUES), some.tuples(_offset, _offset).map(lambda pair: (min(pair), max(pair)))
)


def careful(queue: Queue, start: int, end: int | None, why: str) -> None:
    """Take no loss."""
    raise MessagesLost(str(queue), start, -1 if end is None else end, why=why)


def careless(_queue: Queue, _start: int, _end: int | None, _why: str) -> None:
    """Take every loss."""


@given(_places, _spans, some.sets(some.sampled_from(_QUEUES)), some.booleans())
def test_what_a_batch_reads_follows_from_its_end(
    places: dict[Queue, int], spans: dict[Queue, tuple[int, int]], gone: set[Queue], is_initial: bool
) -> None:
    began = StreamOffset(places, is_initial=is_initial)
    backlog = find_backlog(began, QueueSnapshot(spans, frozenset(gone)), _ALL, careless)
    end = backlog.offset_after(backlog.ranges)
    assert ranges_between(began, end) == [each for each in backlog.ranges if each]
    # Nothing goes back, but for queues that begin anew, and the offset says so.
    assert all(end.positions[queue] >= start for queue, start in places.items() if queue not in end.start_offsets)
    assert end.positions.keys() >= places.keys()


@given(_places, _spans)
def test_nothing_is_lost_silently(places: dict[Queue, int], spans: dict[Queue, tuple[int, int]]) -> None:
    is_lost = any(queue in spans and spans[queue][1] < start for queue, start in places.items())
    try:
        find_backlog(StreamOffset(places), QueueSnapshot(spans), _ALL, careful)
    except MessagesLost:
        assert is_lost
    else:
        assert not is_lost


def test_a_queue_that_nobody_told_of_before_begins_at_its_first_message() -> None:
    backlog = find_backlog(StreamOffset({_Q0: 3}), QueueSnapshot({_Q0: (0, 5), _Q1: (2, 9)}), _ALL, careful)
    assert backlog.ranges == [OffsetRange(_Q0, 3, 5), OffsetRange(_Q1, 2, 9)]
    assert backlog.start_offsets == {_Q1: 2}


def test_a_queue_whose_broker_says_nothing_stays_where_it_is() -> None:
    backlog = find_backlog(StreamOffset({_Q0: 3, _Q1: 4}), QueueSnapshot({_Q0: (0, 5)}), _ALL, careful)
    assert backlog.ranges == [OffsetRange(_Q0, 3, 5), OffsetRange(_Q1, 4, 4)]


def test_a_queue_that_is_gone_is_lost_unless_it_was_read_to_its_end() -> None:
    gone = frozenset({_Q0})
    assert not any(find_backlog(StreamOffset({_Q0: 5}), QueueSnapshot({_Q0: (0, 5)}, gone), _ALL, careful).ranges)
    with pytest.raises(MessagesLost, match=r"offsets \[3, 5\) of t@a:0"):
        find_backlog(StreamOffset({_Q0: 3}), QueueSnapshot({_Q0: (0, 5)}, gone), _ALL, careful)
    with pytest.raises(MessagesLost, match="the queue is gone"):
        find_backlog(StreamOffset({_Q0: 3}), QueueSnapshot({}, gone), _ALL, careful)


def test_a_queue_that_lost_its_newest_messages_is_not_read_twice_and_one_that_was_made_anew_is_read() -> None:
    backlog = find_backlog(StreamOffset({_Q0: 10, _Q1: 10}), QueueSnapshot({_Q0: (5, 8), _Q1: (0, 8)}), _ALL, careless)
    assert backlog.ranges == [OffsetRange(_Q0, 8, 8), OffsetRange(_Q1, 0, 8)]
    assert backlog.start_offsets == {_Q0: 8, _Q1: 0}
    assert backlog.rewinds


def test_a_replica_that_is_late_is_no_loss_and_nothing_is_read_twice() -> None:
    late = QueueSnapshot({_Q0: (0, 8), _Q1: (0, 8)}, stale_brokers=frozenset({"a"}))
    backlog = find_backlog(StreamOffset({_Q0: 10, _Q1: 5}), late, _ALL, careful)
    assert backlog.ranges == [OffsetRange(_Q0, 10, 10), OffsetRange(_Q1, 5, 8)]
    assert not backlog.start_offsets


def test_queues_that_are_not_wanted_any_more_are_forgotten() -> None:
    seen = QueueSnapshot({_Q0: (0, 5), _Q1: (0, 5)})
    assigned = TopicSelection(("t",), assigned={"t": {"a": (1,)}})
    began = StreamOffset({_Q0: 3, _Q1: 4, Queue("old", "a", 0): 7})
    assert find_backlog(began, QueueSnapshot({_Q1: (0, 5)}), assigned, careful).ranges == [OffsetRange(_Q1, 4, 5)]
    assert {each.queue for each in find_backlog(began, seen, _ALL, careful).ranges} == {_Q0, _Q1}
