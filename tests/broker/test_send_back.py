"""What a member could not handle comes again later, and goes to the dead letters when it came often enough."""

import pytest

from steelyard.broker.options import BrokerOptions
from steelyard.wire.command import Command
from steelyard.wire.headers.send import SendMessageBack
from steelyard.wire.limits import ERROR_BYTES
from steelyard.wire.properties import decode_properties
from steelyard.wire.record import MessageRecord
from tests.broker.broker_harness import START_MS, BrokerHarness, message

_TEXT = "UNIQ_KEY\x01U1\x02TAGS\x01T\x02"
_RETRY, _DEAD = "%RETRY%billing", "%DLQ%billing"


def _stored(harness: BrokerHarness) -> MessageRecord:
    harness.request(310, message(properties=_TEXT, queue_id=1), b"again")
    return harness.queue("orders", 1)[-1]


def _back(harness: BrokerHarness, position: int, level: int = 0, most: int | None = 16) -> Command:
    return harness.request(36, SendMessageBack(position, "billing", level, max_reconsume_times=most))


def test_a_message_comes_back_to_the_group_after_its_delay() -> None:
    harness = BrokerHarness()
    record = _stored(harness)
    answer = _back(harness, record.position, 1)
    assert (answer.code, answer.texts()) == (0, {})
    harness.advance(999)
    assert harness.topic(_RETRY) == []
    harness.advance(1)
    (back,) = harness.topic(_RETRY)
    assert (back.body, back.reconsume_times, back.born_ms, back.stored_ms) == (
        b"again",
        1,
        record.born_ms,
        START_MS + 1_000,
    )
    properties = decode_properties(back.properties)
    assert properties["RETRY_TOPIC"] == "orders"
    assert properties["ORIGIN_MESSAGE_ID"] == harness.state.broker_properties.offset_message_id(record.position)
    assert (properties["UNIQ_KEY"], properties["TAGS"], properties["DELAY"]) == ("U1", "T", "1")
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (_RETRY, "0")


def test_a_level_of_none_grows_with_each_attempt_and_the_first_place_is_remembered() -> None:
    harness = BrokerHarness()
    record = first = _stored(harness)
    for attempt in range(4):
        _back(harness, record.position)
        waiting = harness.topic("SCHEDULE_TOPIC_XXXX")[-1]
        assert (waiting.queue_id, waiting.reconsume_times) == (3 + attempt - 1, attempt + 1)
        harness.advance(200_000, step_ms=50_000)
        record = harness.topic(_RETRY)[-1]
    properties = decode_properties(record.properties)
    assert properties["RETRY_TOPIC"] == "orders"
    assert properties["ORIGIN_MESSAGE_ID"] == harness.state.broker_properties.offset_message_id(first.position)


@pytest.mark.parametrize(("level", "most"), [(-1, 16), (3, 0), (3, -1)])
def test_a_message_nobody_wants_again_goes_to_the_dead_letters_at_once(level: int, most: int) -> None:
    harness = BrokerHarness()
    _back(harness, _stored(harness).position, level, most)
    (dead,) = harness.queue(_DEAD)
    properties = decode_properties(dead.properties)
    assert dead.reconsume_times == 1
    assert (properties["DLQ_ORIGIN_TOPIC"], properties["DLQ_ORIGIN_MESSAGE_ID"]) == ("orders", "U1")
    assert "DELAY" not in properties
    assert harness.state.topics[_DEAD].queues == 1


def _fail(harness: BrokerHarness, position: int, error: str | None, level: int = 1) -> dict[str, str]:
    """Send a message back, and return the properties of what was stored."""
    answer = harness.request(36, SendMessageBack(position, "billing", level, steelyard_error=error))
    assert answer.code == 0
    harness.advance(1_000)
    return decode_properties(harness.topic(_RETRY if level > 0 else _DEAD)[-1].properties)


def test_a_retry_and_a_dead_letter_say_why_the_last_attempt_failed() -> None:
    harness = BrokerHarness()
    assert _fail(harness, _stored(harness).position, "ValueError: first")["STEELYARD_ERROR"] == "ValueError: first"
    again = harness.topic(_RETRY)[-1]
    dead = _fail(harness, again.position, "KeyError: second", level=-1)
    assert (dead["STEELYARD_ERROR"], dead["TAGS"], dead["UNIQ_KEY"]) == ("KeyError: second", "T", "U1")


def test_the_error_of_an_earlier_attempt_is_gone_when_the_next_member_says_nothing() -> None:
    harness = BrokerHarness()
    _fail(harness, _stored(harness).position, "ValueError: first")
    assert "STEELYARD_ERROR" not in _fail(harness, harness.topic(_RETRY)[-1].position, None, level=-1)


def test_an_error_adds_no_property_of_its_own_and_is_bounded() -> None:
    harness = BrokerHarness()
    found = _fail(harness, _stored(harness).position, "bad\x02DELAY\x0118\x02\n" + "é" * 4_000)
    assert found["STEELYARD_ERROR"].startswith("bad DELAY 18 éé")
    assert len(found["STEELYARD_ERROR"].encode()) <= ERROR_BYTES
    assert found["DELAY"] == "1"


def test_a_message_whose_properties_leave_no_room_is_kept_without_the_error() -> None:
    harness = BrokerHarness()
    text = f"{_TEXT}a\x01{'x' * 32_000}\x02"
    harness.request(310, message(properties=text, queue_id=1), b"again")
    found = _fail(harness, harness.queue("orders", 1)[-1].position, "e" * 1_000)
    assert "STEELYARD_ERROR" not in found
    assert len(found["a"]) == 32_000


def test_a_message_dies_after_as_many_attempts_as_its_group_allows() -> None:
    harness = BrokerHarness()
    record = _stored(harness)
    for _ in range(16):
        _back(harness, record.position, 1, most=None)
        harness.advance(1_000, step_ms=1_000)
        record = harness.topic(_RETRY)[-1]
    assert (record.reconsume_times, harness.topic(_DEAD)) == (16, [])
    _back(harness, record.position, 1, most=None)
    (dead,) = harness.topic(_DEAD)
    assert dead.reconsume_times == 17
    assert len(harness.topic(_RETRY)) == 16


def test_what_delayed_a_message_at_first_does_not_delay_its_death() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT + "TIMER_DELAY_SEC\x011\x02"))
    harness.advance(2_000)
    _back(harness, harness.queue("orders")[0].position, -1)
    assert len(harness.topic(_DEAD)) == 1


def test_the_retry_topic_has_as_many_queues_as_the_group_wants() -> None:
    harness = BrokerHarness()
    _back(harness, _stored(harness).position, 1)
    assert harness.state.topics[_RETRY].queues == 1


def test_a_position_without_a_message_is_refused() -> None:
    harness = BrokerHarness()
    record = _stored(harness)
    for position in (-1, record.position + 1, 1 << 40):
        answer = _back(harness, position)
        assert (answer.code, str(position) in (answer.remark or "")) == (1, True)


def test_a_message_that_consumers_do_not_see_cannot_be_sent_back() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT + "TRAN_MSG\x01true\x02PGROUP\x01shop\x02", sys_flag=4), b"half")
    harness.request(310, message(properties=_TEXT + "DELAY\x019\x02"), b"later")
    positions = [
        record.position for record in harness.topic("RMQ_SYS_TRANS_HALF_TOPIC") + harness.topic("SCHEDULE_TOPIC_XXXX")
    ]
    assert [_back(harness, position, -1).code for position in positions] == [1, 1]
    assert harness.topic(_DEAD) == []


def test_a_group_that_nobody_made_is_refused_where_groups_are_made_by_hand() -> None:
    harness = BrokerHarness(BrokerOptions(auto_create_groups=False))
    assert _back(harness, _stored(harness).position).code == 26


def test_the_answer_waits_for_the_disk_on_a_careful_broker() -> None:
    harness = BrokerHarness(BrokerOptions(flush="sync"))
    harness.send(310, message(properties=_TEXT), b"again")
    opaque = harness.send(36, SendMessageBack(0, "billing", 1))
    assert harness.pop_response(opaque) is None
    harness.sync()
    assert harness.pop_response(opaque) is not None
