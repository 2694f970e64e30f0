"""A topic that was deleted stays deleted, whatever happens next; and no offset of its queues is used twice."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.store.store import Store
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, Message, append, everything, opened, sync

_GONE, _OTHER = (b"gone", 0), (b"orders", 1)


def _filled(disk: SimulatedDisk, *, safe: bool = True) -> Store:
    store = opened(disk)
    for number in range(5):
        append(store, Message(_GONE, b"old %d" % number))
        append(store, Message(_OTHER, b"other %d" % number))
    store.flush()
    if safe:
        sync(store)
    return store


def test_a_forgotten_topic_has_no_messages_and_others_keep_theirs() -> None:
    store = _filled(SimulatedDisk(page=PAGE))
    store.delete_topic(b"gone")
    assert store.bounds(*_GONE) == (5, 5)
    assert list(everything(store)) == [_OTHER]


def test_it_stays_forgotten_over_every_kind_of_restart() -> None:
    disk = SimulatedDisk(Dice(1), page=PAGE)
    store = _filled(disk)
    store.delete_topic(b"gone")
    append(store, Message(_GONE, b"new"))
    store.flush()
    sync(store)
    heirs = [opened(disk.crash()), opened(disk.lose_power())]
    store.close(9_000)
    heirs.append(opened(disk.crash()))
    for heir in heirs:
        assert heir.bounds(*_GONE) == (5, 6)
        assert list(everything(heir)[_GONE]) == [5]
        assert len(everything(heir)[_OTHER]) == 5


def test_no_number_is_given_twice_even_if_the_log_lost_the_old_messages() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = _filled(disk, safe=False)
    store.delete_topic(b"gone")
    later = disk.lose_power()
    heir = opened(later)
    done, _ = append(heir, Message(_GONE, b"new"))
    heir.flush()
    assert done.offset == 5
    assert list(everything(opened(later.crash()))[_GONE]) == [5]


def test_a_topic_that_has_nothing_is_forgotten_without_a_trace() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = _filled(disk)
    store.delete_topic(b"never")
    assert disk.read("steelyard/forgotten.json") is None


@given(st.lists(st.sampled_from(["send", "forget", "crash", "close"]), max_size=25))
def test_any_history_shows_exactly_what_came_after_the_last_forgetting(history: list[str]) -> None:
    disk = SimulatedDisk(page=PAGE)
    store, alive, number = opened(disk), dict[int, bytes](), 0
    for step in history:
        if step == "send":
            done, record = append(store, Message(_GONE, b"%d" % number))
            store.flush()
            assert done.offset == number
            alive[number] = record
            number += 1
        elif step == "forget":
            store.delete_topic(b"gone")
            alive.clear()
        elif step == "crash":
            disk = disk.crash()
            store = opened(disk)
        else:
            store.close(9_000)
            store = opened(disk)
        assert everything(store).get(_GONE, {}) == alive
        assert store.bounds(*_GONE) == (number - len(alive), number)
