"""What a message's own fields say of its way.

How evenly messages lie in queues is said in a sentence, whatever they hold.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from steelyard.client.admin.offsets import QueueOffsets
from steelyard.client.describe import describe_skew, message_history, message_properties
from steelyard.model import Queue, StoredMessage


def test_the_fields_of_a_message_tell_its_way() -> None:
    where = Queue("%RETRY%billing", "broker-0", 0)

    def reported(sys_flag: int = 0, came_back: int = 0, **properties: str) -> dict[str, Any]:
        message = StoredMessage(where, 0, b"", properties, sys_flag=sys_flag, reconsume_times=came_back)
        description: dict[str, Any] = to_builtins(message_history(message))
        return description

    assert reported() == {}
    assert reported(came_back=2, RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="AB") == {
        "came_back": 2,
        "sent_to": "orders",
        "origin_id": "AB",
    }
    assert reported(DLQ_ORIGIN_TOPIC="orders", DLQ_ORIGIN_MESSAGE_ID="CD") == {"dead_of": "orders", "origin_id": "CD"}
    assert reported(DELAY="3") == {"delay_level": 3, "delay_ms": 10_000}
    assert reported(TIMER_DELAY_SEC="7", TIMER_OUT_MS="1700000000000") == {
        "delay_ms": 7_000,
        "deliver_ms": 1700000000000,
    }
    assert reported(sys_flag=0x4 | 0x1, PGROUP="shop") == {
        "transaction": "half",
        "producer_group": "shop",
        "is_compressed": True,
    }
    assert reported(DELAY="many", TIMER_DELAY_MS="-1", TIMER_OUT_MS="9" * 400) == {}


def test_properties_of_the_sender_come_first() -> None:
    found = {"region": "eu", "KEYS": "k", "__BORNHOST": "10.0.0.1", "amount": "7"}
    listed = message_properties(StoredMessage(Queue("orders", "broker-0", 0), 0, b"", found))
    assert [(each.name, each.is_own) for each in listed] == [
        ("amount", True),
        ("region", True),
        ("KEYS", False),
        ("__BORNHOST", False),
    ]


def queues(**brokers: list[int]) -> list[QueueOffsets]:
    """Return queues of brokers with so many messages each."""
    return [
        QueueOffsets(Queue("orders", broker, number), 100, 100 + count)
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
            "queue 1 of a has 88 % of all messages, 3.5 times its share",
        ),
        (
            queues(a=[100, 100], b=[0, 0]),
            (
                "queue 0 of a has 50 % of all messages, 2.0 times its share; a has 100 % of all messages in 2 of 4 "
                "queues; 2 of 4 queues are empty"
            ),
        ),
    ],
)
def test_what_somebody_would_do_something_about_is_reported(found: list[QueueOffsets], sentence: str) -> None:
    assert describe_skew(found) == sentence


@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 2**60), min_size=1), min_size=1))
def test_there_is_always_one_sentence(held: dict[str, list[int]]) -> None:
    description = describe_skew(queues(**held))
    assert description
    assert "\n" not in description
