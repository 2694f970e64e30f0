"""What a message's own fields say of its way."""

from typing import Any

from msgspec import to_builtins

from steelyard.client.stories import properties_of, story_of
from steelyard.model import Queue, StoredMessage


def test_the_fields_of_a_message_tell_its_way() -> None:
    where = Queue("%RETRY%billing", "broker-0", 0)

    def told(sys_flag: int = 0, came_back: int = 0, **properties: str) -> dict[str, Any]:
        message = StoredMessage(where, 0, b"", properties, sys_flag=sys_flag, reconsume_times=came_back)
        said: dict[str, Any] = to_builtins(story_of(message))
        return said

    assert told() == {}
    assert told(came_back=2, RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="AB") == {
        "came_back": 2,
        "sent_to": "orders",
        "origin_id": "AB",
    }
    assert told(DLQ_ORIGIN_TOPIC="orders", DLQ_ORIGIN_MESSAGE_ID="CD") == {"dead_of": "orders", "origin_id": "CD"}
    assert told(DELAY="3") == {"delay_level": 3, "delay_ms": 10_000}
    assert told(TIMER_DELAY_SEC="7", TIMER_OUT_MS="1700000000000") == {"delay_ms": 7_000, "deliver_ms": 1700000000000}
    assert told(sys_flag=0x4 | 0x1, PGROUP="shop") == {
        "transaction": "half",
        "producer_group": "shop",
        "is_compressed": True,
    }
    assert told(DELAY="many", TIMER_DELAY_MS="-1", TIMER_OUT_MS="9" * 400) == {}


def test_properties_of_the_sender_come_first() -> None:
    found = {"region": "eu", "KEYS": "k", "__BORNHOST": "10.0.0.1", "amount": "7"}
    listed = properties_of(StoredMessage(Queue("orders", "broker-0", 0), 0, b"", found))
    assert [(each.name, each.is_own) for each in listed] == [
        ("amount", True),
        ("region", True),
        ("KEYS", False),
        ("__BORNHOST", False),
    ]
