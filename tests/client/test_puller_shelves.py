"""What waits to be polled: in order within a queue, in turn over queues, and nothing is lost or given twice."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.consuming.received import Received
from steelyard.client.pulling.shelves import Shelf, Shelves
from steelyard.model import Queue


def _message(queue: Queue, offset: int) -> Received:
    return Received(queue, offset, b"%d" % offset, {}, 0, 0, 0, 0, 0, 0, 0, 0, "", "")


def _queue(number: int) -> Queue:
    return Queue("t", "b", number)


def _put(shelves: Shelves, number: int, start: int, end: int) -> Shelf:
    queue, offsets = _queue(number), range(start, end)
    shelf = shelves.find(queue) or shelves.begin(queue, 1)
    shelves.put(shelf, list(offsets), [_message(queue, offset) for offset in offsets])
    return shelf


def _yes(_: Shelf) -> bool:
    return True


def test_queues_take_turns() -> None:
    shelves = Shelves()
    for number in range(3):
        _put(shelves, number, 0, 100)
    taken = shelves.take(96, _yes)
    assert [sum(message.queue.queue_id == number for message in taken) for number in range(3)] == [32, 32, 32]


def test_one_at_a_time_each_queue_has_its_turn() -> None:
    shelves = Shelves()
    for number in range(3):
        _put(shelves, number, 0, 2)
    taken = [shelves.take(1, _yes)[0].queue.queue_id for _ in range(6)]
    assert taken == [0, 1, 2, 0, 1, 2]


def test_a_paused_queue_gives_nothing_and_keeps_what_it_has() -> None:
    shelves = Shelves()
    shelf = _put(shelves, 0, 0, 5)
    shelves.paused.add(_queue(0))
    assert shelves.take(10, _yes) == []
    assert shelf.count == 5
    shelves.paused.clear()
    assert len(shelves.take(10, _yes)) == 5


def test_what_is_polled_counts_until_it_is_done() -> None:
    shelves = Shelves()
    shelf = _put(shelves, 0, 10, 15)
    assert (shelf.low(), shelf.first()) == (10, 10)
    shelves.take(3, _yes)
    assert (shelf.low(), shelf.first()) == (10, 13)
    assert shelf.done(12) == [10, 11]
    assert (shelf.low(), shelf.first()) == (12, 13)
    assert shelf.done() == [12]
    assert shelf.low() == 13


@given(st.integers(1, 60), st.integers(0, 40), st.integers(1, 40))
def test_what_nobody_saw_is_polled_again_first(count: int, before: int, lost: int) -> None:
    shelves = Shelves()
    shelf = _put(shelves, 0, 0, count)
    taken = shelves.take(before, _yes) if before else []
    unseen = shelves.take(lost, _yes)
    shelves.take_back(unseen)
    assert shelf.polled == [message.offset for message in taken]
    assert shelf.count == count - len(taken)
    assert shelf.body_bytes == sum(len(b"%d" % offset) for offset in range(len(taken), count))
    assert [message.offset for message in shelves.take(100, _yes)] == list(range(len(taken), count))
    shelf.done()
    shelves.take_back(unseen)
    assert not shelf.count


def test_a_shelf_that_begins_anew_is_empty() -> None:
    shelves = Shelves()
    old = _put(shelves, 0, 0, 5)
    new = shelves.begin(_queue(0), 2)
    assert shelves.take(10, _yes) == []
    assert old.clear() == [0, 1, 2, 3, 4]
    assert (new.count, new.generation) == (0, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 70)), max_size=30))
def test_everything_comes_once_and_in_order(steps: list[tuple[int, int, int]]) -> None:
    shelves, ends = Shelves(), dict.fromkeys(range(4), 0)
    seen: dict[int, list[int]] = {number: [] for number in range(4)}
    for number, more, most in steps:
        _put(shelves, number, ends[number], ends[number] + more)
        ends[number] += more
        for message in shelves.take(most, _yes):
            seen[message.queue.queue_id].append(message.offset)
    for shelf in shelves.all():
        number = shelf.queue.queue_id
        assert shelf.polled == seen[number]
        assert shelf.count == ends[number] - len(seen[number])
        assert shelf.body_bytes == sum(len(b"%d" % offset) for offset in range(len(seen[number]), ends[number]))
        assert seen[number] + shelf.clear() == list(range(ends[number]))
