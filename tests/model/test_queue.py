"""The order of queues is a contract between all members of a group."""

from functools import cmp_to_key
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model import Queue, sort_names, sort_queues

_NAMES = st.text(st.sampled_from("abAB-_%@\xe9\ud7ff\ue000\uffff\U00010000\U0001f600"), max_size=4)
_QUEUES = st.lists(st.builds(Queue, _NAMES, _NAMES, st.integers(0, 20)), max_size=30)


def _java_compares(left: str, right: str) -> int:
    """Compare as ``String.compareTo`` does: the first differing UTF-16 unit decides, then the length."""
    a, b = left.encode("utf-16-be", "surrogatepass"), right.encode("utf-16-be", "surrogatepass")
    return (a > b) - (a < b)


def _java_compares_queues(left: Queue, right: Queue) -> int:
    return (
        _java_compares(left.topic, right.topic)
        or _java_compares(left.broker, right.broker)
        or left.queue_id - right.queue_id
    )


def test_the_order_is_topic_then_broker_then_number() -> None:
    queues = [
        Queue("a", "broker-a", 2),
        Queue("a", "broker-a", 10),
        Queue("a", "broker-b", 0),
        Queue("b", "broker-a", 0),
    ]
    assert sort_queues(reversed(queues)) == queues


def test_names_are_compared_as_java_compares_them() -> None:
    emoji, private = Queue("t", "\U0001f600", 0), Queue("t", "\ue000", 0)
    assert sort_queues([private, emoji]) == [emoji, private]
    assert emoji < private
    assert sort_names(["b", "a", "B", "", "ab", "\ue000", "\U0001f600"]) == [
        *("", "B", "a", "ab", "b"),
        *("\U0001f600", "\ue000"),
    ]


@given(_QUEUES)
def test_in_order_sorts_as_java_sorts(queues: list[Queue]) -> None:
    assert sort_queues(queues) == sorted(queues, key=cmp_to_key(_java_compares_queues))


@given(_QUEUES)
def test_in_order_is_what_sorted_gives(queues: list[Queue]) -> None:
    assert sort_queues(queues) == sorted(queues)


@given(_QUEUES, st.randoms())
def test_whatever_order_they_come_in_the_list_is_the_same(queues: list[Queue], random: Random) -> None:
    mixed = list(queues)
    random.shuffle(mixed)
    assert sort_queues(iter(mixed)) == sort_queues(queues)


@given(_QUEUES)
def test_sorting_loses_nothing_and_repeats_nothing(queues: list[Queue]) -> None:
    listed = sort_queues(queues)
    assert len(listed) == len(queues)
    assert set(listed) == set(queues)
    assert sort_queues(listed) == listed


@given(st.lists(_NAMES))
def test_client_ids_are_sorted_as_java_sorts_them(names: list[str]) -> None:
    assert sort_names(names) == sorted(names, key=cmp_to_key(_java_compares))


@given(_QUEUES.filter(bool), st.data())
def test_the_four_comparisons_agree(queues: list[Queue], data: st.DataObject) -> None:
    left, right = data.draw(st.sampled_from(queues)), data.draw(st.sampled_from(queues))
    order = _java_compares_queues(left, right)
    assert (left < right, left <= right, left > right, left >= right) == (
        order < 0,
        order <= 0,
        order > 0,
        order >= 0,
    )
    assert (left == right) == (order == 0)
    assert left != right or hash(left) == hash(right)


def test_a_queue_reads_as_topic_at_broker_and_number() -> None:
    assert f"{Queue('orders', 'broker-a', 3)}" == "orders@broker-a:3"
