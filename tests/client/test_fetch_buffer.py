"""What waits to be polled: in order within a queue, in turn over queues, and nothing is lost or given twice."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.pull_consumer.fetch_buffer import FetchBuffer, QueueBuffer
from steelyard.model import Queue


def _message(queue: Queue, offset: int) -> ReceivedMessage:
    return ReceivedMessage(queue, offset, b"%d" % offset, {}, 0, 0, 0, 0, 0, 0, 0, 0, "", "")


def _queue(number: int) -> Queue:
    return Queue("t", "b", number)


def _put(buffers: FetchBuffer, number: int, start: int, end: int) -> QueueBuffer:
    queue, offsets = _queue(number), range(start, end)
    buffer = buffers.find(queue) or buffers.create(queue, 1)
    buffers.add(buffer, list(offsets), [_message(queue, offset) for offset in offsets])
    return buffer


def _yes(_: QueueBuffer) -> bool:
    return True


def test_queues_take_turns() -> None:
    buffers = FetchBuffer()
    for number in range(3):
        _put(buffers, number, 0, 100)
    taken = buffers.poll(96, _yes)
    assert [sum(message.queue.queue_id == number for message in taken) for number in range(3)] == [32, 32, 32]


def test_one_at_a_time_each_queue_has_its_turn() -> None:
    buffers = FetchBuffer()
    for number in range(3):
        _put(buffers, number, 0, 2)
    taken = [buffers.poll(1, _yes)[0].queue.queue_id for _ in range(6)]
    assert taken == [0, 1, 2, 0, 1, 2]


def test_a_paused_queue_gives_nothing_and_keeps_what_it_has() -> None:
    buffers = FetchBuffer()
    buffer = _put(buffers, 0, 0, 5)
    buffers.paused.add(_queue(0))
    assert buffers.poll(10, _yes) == []
    assert buffer.count == 5
    buffers.paused.clear()
    assert len(buffers.poll(10, _yes)) == 5


def test_what_is_polled_counts_until_it_is_done() -> None:
    buffers = FetchBuffer()
    buffer = _put(buffers, 0, 10, 15)
    assert (buffer.low(), buffer.first()) == (10, 10)
    buffers.poll(3, _yes)
    assert (buffer.low(), buffer.first()) == (10, 13)
    assert buffer.mark_done(12) == [10, 11]
    assert (buffer.low(), buffer.first()) == (12, 13)
    assert buffer.mark_done() == [12]
    assert buffer.low() == 13


@given(st.integers(1, 60), st.integers(0, 40), st.integers(1, 40))
def test_what_nobody_saw_is_polled_again_first(count: int, before: int, lost: int) -> None:
    buffers = FetchBuffer()
    buffer = _put(buffers, 0, 0, count)
    taken = buffers.poll(before, _yes) if before else []
    unseen = buffers.poll(lost, _yes)
    buffers.put_back(unseen)
    assert buffer.polled == [message.offset for message in taken]
    assert buffer.count == count - len(taken)
    assert buffer.body_bytes == sum(len(b"%d" % offset) for offset in range(len(taken), count))
    assert [message.offset for message in buffers.poll(100, _yes)] == list(range(len(taken), count))
    buffer.mark_done()
    buffers.put_back(unseen)
    assert not buffer.count


def test_a_buffer_that_begins_anew_is_empty() -> None:
    buffers = FetchBuffer()
    old = _put(buffers, 0, 0, 5)
    new = buffers.create(_queue(0), 2)
    assert buffers.poll(10, _yes) == []
    assert old.clear() == [0, 1, 2, 3, 4]
    assert (new.count, new.generation) == (0, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 70)), max_size=30))
def test_everything_comes_once_and_in_order(steps: list[tuple[int, int, int]]) -> None:
    buffers, ends = FetchBuffer(), dict.fromkeys(range(4), 0)
    seen: dict[int, list[int]] = {number: [] for number in range(4)}
    for number, more, most in steps:
        _put(buffers, number, ends[number], ends[number] + more)
        ends[number] += more
        for message in buffers.poll(most, _yes):
            seen[message.queue.queue_id].append(message.offset)
    for buffer in buffers.all():
        number = buffer.queue.queue_id
        assert buffer.polled == seen[number]
        assert buffer.count == ends[number] - len(seen[number])
        assert buffer.body_bytes == sum(len(b"%d" % offset) for offset in range(len(seen[number]), ends[number]))
        assert seen[number] + buffer.clear() == list(range(ends[number]))
