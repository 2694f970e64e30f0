"""How evenly messages lie in queues is said in a sentence, whatever they hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.client.admin.topics import QueueEnds
from steelyard.client.skew import skew
from steelyard.model import Queue


def queues(**brokers: list[int]) -> list[QueueEnds]:
    """Return queues of brokers with so many messages each."""
    return [
        QueueEnds(Queue("orders", broker, number), 100, 100 + count)
        for broker, counts in brokers.items()
        for number, count in enumerate(counts)
    ]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (queues(a=[0, 0]), "it is empty"),
        (queues(a=[50, 50], b=[50, 50]), "messages lie evenly: 50 in each of 4 queues"),
        (queues(a=[50, 40], b=[50, 60]), "messages lie evenly enough: 40 to 60 in a queue"),
        (queues(a=[3, 0]), "messages are too few to say how evenly they lie: 0 to 3 in a queue"),
        (
            queues(a=[10, 700, 10, 80]),
            "queue 1 of a has 88% of all messages, 3.5 times its share",
        ),
        (
            queues(a=[100, 100], b=[0, 0]),
            (
                "queue 0 of a has 50% of all messages, 2.0 times its share; a has 100% of all messages in 2 of 4 "
                "queues; 2 of 4 queues are empty"
            ),
        ),
    ],
)
def test_what_somebody_would_do_something_about_is_told(found: list[QueueEnds], sentence: str) -> None:
    assert skew(found) == sentence


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 2**60), min_size=1), min_size=1))
def test_there_is_always_one_sentence(held: dict[str, list[int]]) -> None:
    said = skew(queues(**held))
    assert said
    assert "\n" not in said
