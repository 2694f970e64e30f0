"""What may be committed: everything below the first message that is not finished."""

from hypothesis import given
from hypothesis import strategies as st

from steelyard.balance.group.inflight_window import InflightWindow


@st.composite
def _batches(draw: st.DrawFn) -> list[list[int]]:
    """Draw batches of offsets, each in order and behind the last one, with gaps."""
    batches, at = [], draw(st.integers(0, 50))
    for size in draw(st.lists(st.integers(0, 6), max_size=6)):
        batch = []
        for gap in draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)):
            at += gap
            batch.append(at)
        batches.append(batch)
    return batches


@given(batches=_batches(), data=st.data())
def test_the_low_end_is_the_first_unfinished_message_or_the_next_pull(
    batches: list[list[int]], data: st.DataObject
) -> None:
    window, finished, known = InflightWindow(0), set[int](), list[int]()
    for batch in batches:
        after = (batch[-1] if batch else window.next_offset) + data.draw(st.integers(0, 4))
        window.add(batch, after, 10 * len(batch))
        known += batch
        unfinished = [offset for offset in known if offset not in finished]
        some = data.draw(st.lists(st.sampled_from(unfinished), unique=True)) if unfinished else []
        before = window.low
        window.finish(some)
        finished.update(some)
        unfinished = [offset for offset in known if offset not in finished]
        assert window.low == (unfinished[0] if unfinished else window.next_offset)
        assert window.low >= before
        assert window.next_offset >= max(known, default=-1) + 1 or not known
        assert window.unfinished == len(unfinished)
        assert window.usage()[2] == (known[-1] - unfinished[0] if unfinished else 0)
        assert 0 <= window.body_bytes <= 10 * len(known)
        assert bool(window.body_bytes) == bool(unfinished)


def test_bytes_are_let_go_as_messages_are_finished() -> None:
    window = InflightWindow(0)
    window.add([0, 1], 2, 100)
    window.add([2, 3], 4, 300)
    assert window.body_bytes == 400
    window.finish([0, 1])
    assert window.body_bytes == 300
    window.finish([2, 3])
    assert window.body_bytes == 0


def test_what_came_before_is_not_taken_twice() -> None:
    window = InflightWindow(5)
    assert window.first_new_index([5, 6]) == 0
    window.add([5, 6], 7, 0)
    assert window.first_new_index([5, 6, 7]) == 2
    assert window.first_new_index([6]) == 1
    assert window.first_new_index([]) == 0


def test_an_empty_pull_moves_the_low_end_only_if_nothing_is_unfinished() -> None:
    window = InflightWindow(0)
    window.add([], 7, 0)
    assert (window.low, window.next_offset) == (7, 7)
    window.add([7], 8, 0)
    window.add([], 20, 0)
    assert (window.low, window.next_offset) == (7, 20)
    window.finish([7])
    assert window.low == 20


def test_many_messages_leave_nothing_behind() -> None:
    window = InflightWindow(0)
    for start in range(0, 50_000, 50):
        offsets = range(start, start + 50)
        window.add(offsets, start + 50, 500)
        window.finish(offsets[::-1])
    assert (window.low, window.usage()) == (50_000, (0, 0, 0))
