"""A message that cannot be read, sent to the dead letters: its bytes, where it lay, and why."""

from steelyard.model import StoredMessage
from steelyard.protocol.dead_letters import dead_letter_header, unreadable_letter_header
from steelyard.wire.headers.send import SendMessageV2
from steelyard.wire.properties import LazyProperties, decode_properties
from steelyard.wire.sysflag import INNER_BATCH
from tests.protocol.broker_dialogue import q


def _properties(message: StoredMessage, why: str = "it is cut off") -> dict[str, str]:
    letter = unreadable_letter_header("billing", message, why)
    return decode_properties((letter.properties or "").encode())


def test_it_says_where_it_lay_and_why_it_cannot_be_read() -> None:
    own = {"UNIQ_KEY": "A1", "TAGS": "paid", "KEYS": "k", "region": "eu", "DELAY": "3", "TRAN_MSG": "true"}
    message = StoredMessage(q(), 41, b"?", own, sys_flag=0x301, position=7, store_host="10.0.0.1:10911")
    found = _properties(message)
    assert found.items() >= {"UNIQ_KEY": "A1", "TAGS": "paid", "KEYS": "k", "region": "eu"}.items()
    assert (found["UNREADABLE_QUEUE"], found["UNREADABLE_OFFSET"]) == (str(q()), "41")
    assert (found["STEELYARD_ERROR"], found["UNREADABLE_SYS_FLAG"]) == ("it is cut off", "769")
    assert found["RETRY_TOPIC"] == found["DLQ_ORIGIN_TOPIC"] == q().topic
    assert (found["DLQ_ORIGIN_MESSAGE_ID"], found["ORIGIN_MESSAGE_ID"]) == ("A1", message.offset_id)
    assert "DELAY" not in found
    assert "TRAN_MSG" not in found


def test_one_that_came_back_keeps_the_topic_that_it_was_sent_to() -> None:
    assert _properties(StoredMessage(q(), 1, b"?", {"RETRY_TOPIC": "orders"}))["DLQ_ORIGIN_TOPIC"] == "orders"


def test_a_broker_takes_it_for_one_that_may_not_come_again() -> None:
    letter = unreadable_letter_header("billing", StoredMessage(q(), 1, b"?", reconsume_times=4), "why")
    assert (letter.topic, letter.reconsume_times, letter.max_reconsume_times) == ("%RETRY%billing", 5, 0)
    assert letter.sys_flag == 0


def test_properties_that_leave_no_room_are_left_out() -> None:
    full = LazyProperties(b"a\x01" + b"x" * 32_000 + b"\x02")
    found = _properties(StoredMessage(q(), 1, b"?", full), "why " * 1_000)
    assert "a" not in found
    assert found["STEELYARD_ERROR"].startswith("why why")


def test_a_reason_holds_no_separators() -> None:
    assert _properties(StoredMessage(q(), 1, b"?"), "a\x01b\x02c")["STEELYARD_ERROR"] == "a b c"


def _failed(message: StoredMessage, error: str = "ValueError: bad") -> SendMessageV2 | None:
    return dead_letter_header("billing", message, error)


def test_a_failed_message_keeps_its_compression_and_has_its_error() -> None:
    own = {"UNIQ_KEY": "A1", "region": "eu", "TRAN_MSG": "true"}
    letter = _failed(StoredMessage(q(), 41, b"?", own, sys_flag=0x301 | 8))
    assert letter is not None
    assert (letter.sys_flag, letter.max_reconsume_times) == (0x301, 0)
    assert decode_properties((letter.properties or "").encode()) == {
        "UNIQ_KEY": "A1",
        "region": "eu",
        "RETRY_TOPIC": q().topic,
        "DLQ_ORIGIN_TOPIC": q().topic,
        "DLQ_ORIGIN_MESSAGE_ID": "A1",
        "STEELYARD_ERROR": "ValueError: bad",
    }


def test_its_broker_copies_one_that_leaves_no_room_for_an_error() -> None:
    full = LazyProperties(b"a\x01" + b"x" * 32_500 + b"\x02")
    assert _failed(StoredMessage(q(), 1, b"?", full), "e" * 1_000) is None
    assert _failed(StoredMessage(q(), 1, b"?", sys_flag=INNER_BATCH)) is None
