"""Sending one message: what is stored, what is answered, what is refused and leaves nothing behind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from steelyard.broker.options import BrokerOptions
from steelyard.model.reserved_names import NOT_WRITABLE_TOPICS
from steelyard.wire.codes import HeaderType
from steelyard.wire.command import Command
from steelyard.wire.frames import FrameDecoder
from steelyard.wire.headers.send import SendMessage, SendMessageResponse, SendMessageV2
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import START_MS, BrokerHarness, message
from tests.broker.send_headers import with_long_names
from tests.golden_frames import GoldenFrame, golden_frames

_UNIQUE = "7F00000178A94E0E2F2A4C7DF57C0001"
_TEXT = f"color\x01red\x02UNIQ_KEY\x01{_UNIQUE}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
_EXTRA = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def _answer(command: Command) -> SendMessageResponse:
    assert (command.code, command.remark) == (0, None)
    return command.header(SendMessageResponse)


def _long(header: SendMessageV2) -> SendMessage:
    return with_long_names(header)


@pytest.mark.parametrize("kind", HeaderType)
@pytest.mark.parametrize("is_long", [False, True])
def test_a_message_is_stored_as_it_came_and_answered_with_its_place(kind: HeaderType, is_long: bool) -> None:
    harness = BrokerHarness()
    header = message(properties=_TEXT, queue_id=2, flag=7, born_ms=START_MS - 5)
    code, fields = (10, with_long_names(header)) if is_long else (310, header)
    answer = _answer(harness.request(code, fields, b"hello", header_type=kind))
    assert answer == SendMessageResponse(
        "7F00000100002A9F0000000000000000", 2, 0, _UNIQUE, None, None, "DefaultRegion", "true"
    )
    (record,) = harness.queue("orders", 2)
    assert (record.body, record.flag, record.born_ms, record.stored_ms) == (b"hello", 7, START_MS - 5, START_MS)
    assert record.born_host == harness.peer.born_host
    assert decode_properties(record.properties) == decode_properties(_TEXT.encode()) | _EXTRA


@pytest.mark.parametrize("ending", ["", "\x02"])
def test_a_text_of_4_9_and_one_of_5_x_are_stored_alike(ending: str) -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT.removesuffix("\x02") + ending))
    (record,) = harness.queue("orders")
    assert decode_properties(record.properties) == decode_properties(_TEXT.encode()) | _EXTRA


def test_a_message_without_an_id_gets_one_of_its_own() -> None:
    harness = BrokerHarness()
    answers = [
        _answer(harness.request(310, message(properties=text))) for text in (None, "", "MYUNIQ_KEY\x01x\x02", "a\x01b")
    ]
    given_ids = [decode_properties(record.properties)["UNIQ_KEY"] for record in harness.queue("orders")]
    assert [answer.transaction_id for answer in answers] == given_ids
    assert len(set(given_ids)) == 4
    assert all(len(each) == 32 for each in given_ids)


def test_the_last_id_of_two_counts() -> None:
    harness = BrokerHarness()
    answer = _answer(harness.request(310, message(properties="UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02")))
    assert answer.transaction_id == "b"


def test_what_a_consumer_added_is_not_stored_twice_and_its_receipt_not_at_all() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT + "POP_CK\x01secret\x02CLUSTER\x01other\x02MSG_REGION\x01far\x02"))
    (record,) = harness.queue("orders")
    assert decode_properties(record.properties) == decode_properties(_TEXT.encode()) | _EXTRA
    assert record.properties.count(b"CLUSTER") == 1


def test_an_empty_body_is_stored() -> None:
    harness = BrokerHarness()
    _answer(harness.request(310, message(properties=_TEXT), b""))
    assert [record.body for record in harness.queue("orders")] == [b""]


def test_a_negative_queue_means_each_in_its_turn() -> None:
    harness = BrokerHarness()
    queues = [_answer(harness.request(310, message(properties=_TEXT, queue_id=-1))).queue_id for _ in range(8)]
    assert sorted(queues) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_send_without_an_answer_is_stored_and_not_answered_even_if_refused() -> None:
    harness = BrokerHarness()
    harness.send(310, message(properties=_TEXT), b"one", oneway=True)
    harness.send(310, message("TRANS_CHECK_MAX_TIME_TOPIC", _TEXT), b"two", oneway=True)
    assert harness.sent_to() == []
    assert [record.body for record in harness.queue("orders")] == [b"one"]


def test_the_first_send_makes_the_topic_after_the_pattern() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT, default_queues=6))
    harness.request(310, message("many", _TEXT, default_queues=99))
    assert [
        (harness.state.topics[name].queues, harness.state.topics[name].settings.permission)
        for name in ("orders", "many")
    ] == [
        (6, 6),
        (8, 6),
    ]


def test_a_topic_that_cannot_be_written_by_its_permission_is_written_all_the_same() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT))
    read_only = structs.replace(harness.state.topics["orders"].settings, permission=4)
    harness.state.topics.put(read_only, START_MS)
    _answer(harness.request(310, message(properties=_TEXT)))


_BIG = BrokerOptions(max_message_bytes=100)
_REFUSALS: list[tuple[str, SendMessageV2, bytes, int]] = [
    *((f"a topic of the broker's own, {name}", message(name, _TEXT), b"", 16) for name in sorted(NOT_WRITABLE_TOPICS)),
    ("the topic of timers", message("rmq_sys_wheel_timer", _TEXT), b"", 16),
    ("a bad name", message("../etc", _TEXT), b"", 29),
    ("a name that is too long", message("x" * 128, _TEXT), b"", 29),
    ("a queue that the new topic would not have", message("new", _TEXT, queue_id=4), b"", 29),
    ("nothing to make it after", message("new", _TEXT, default_topic="none"), b"", 17),
    ("a large body", message("new", _TEXT), bytes(101), 13),
    ("large properties", message("new", f"{_TEXT}a\x01{'x' * 32_650}\x02"), b"", 13),
    ("large properties, read", message("new", f"a\x01{'x' * 32_700}\x02"), b"", 13),
    ("a level that is none", message("new", f"{_TEXT}DELAY\x01soon\x02"), b"", 13),
    ("a time that is none", message("new", f"{_TEXT}TIMER_DELAY_MS\x01soon\x02"), b"", 13),
    ("a time too far away", message("new", f"{_TEXT}TIMER_DELAY_SEC\x01259201\x02"), b"", 13),
    ("a half that is none", message("new", _TEXT, sys_flag=4), b"", 13),
]


@pytest.mark.parametrize(
    ("header", "body", "code"), [case[1:] for case in _REFUSALS], ids=[case[0] for case in _REFUSALS]
)
def test_a_refused_send_reports_it_and_leaves_nothing_behind(header: SendMessageV2, body: bytes, code: int) -> None:
    harness = BrokerHarness(_BIG)
    topics = harness.state.topics.changes
    answer = harness.request(310, header, body)
    assert (answer.code, bool(answer.remark)) == (code, True)
    assert answer.texts() == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
    assert harness.state.topics.changes == topics
    assert harness.state.store.queues() == []


def test_a_queue_beyond_those_of_a_topic_is_refused() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT))
    assert harness.request(310, message(properties=_TEXT, queue_id=4)).code == 29


def test_the_largest_body_is_taken() -> None:
    harness = BrokerHarness(_BIG)
    _answer(harness.request(310, message(properties=_TEXT), bytes(100)))


def test_a_header_that_cannot_be_read_is_refused_with_the_fields_that_clients_look_for() -> None:
    answer = BrokerHarness().request(310, {"a": "g"})
    assert (answer.code, answer.texts()) == (1, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})


def test_the_answer_waits_for_the_log_and_on_a_careful_broker_for_the_disk() -> None:
    harness = BrokerHarness(BrokerOptions(flush="sync"))
    first = harness.send(310, message(properties=_TEXT), b"1", flush=False)
    assert harness.sent_to() == []
    harness.flush()
    assert harness.pop_response(first) is None
    unhurried = harness.send(310, message(properties=_TEXT.replace("true", "false")), b"2")
    assert harness.pop_response(unhurried) is not None
    harness.sync()
    assert harness.pop_response(first) is not None


def test_a_message_that_the_disk_did_not_take_is_not_acknowledged() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties=_TEXT), b"1")
    harness.disk.fail_next("write", "no_space")
    answer = harness.request(310, message(properties=_TEXT), b"2")
    assert (answer.code, bool(answer.remark)) == (14, True)
    assert _answer(harness.request(310, message(properties=_TEXT), b"3")).queue_offset == 1
    assert [record.body for record in harness.queue("orders")] == [b"1", b"3"]


_SENDS = [frame for frame in golden_frames() if frame.request_code == 310 and not frame.is_answer]


@pytest.mark.parametrize("golden", _SENDS, ids=str)
def test_what_real_clients_send_is_answered_as_real_brokers_do(golden: GoldenFrame) -> None:
    harness = BrokerHarness()
    (request,) = FrameDecoder().feed(golden.frame)
    expected = next(
        (
            frame
            for frame in golden_frames()
            if frame.is_answer and (frame.release, frame.case, frame.request_code) == ("5.5.0", golden.case, 310)
        ),
        None,
    )
    if request.is_oneway or expected is None:
        harness.send(310, request.texts(), request.body, oneway=True)
        assert harness.sent_to() == []
        return
    (recorded,) = FrameDecoder().feed(expected.frame)
    answer = harness.request(310, request.texts(), request.body)
    assert answer.code == recorded.code
    assert answer.texts().keys() == recorded.texts().keys()
    assert answer.texts()["queueId"] == request.texts()["e"]


_WORDS = st.sampled_from(
    ["UNIQ_KEY", "TAGS", "KEYS", "DELAY", "TIMER_OUT_MS", "POP_CK", "WAIT", "MSG_REGION", "x", "\x01", "\x02", "1", "é"]
)


@given(st.lists(_WORDS, max_size=12).map("".join), st.binary(max_size=40))
def test_any_properties_are_stored_or_refused_and_mean_the_same_after(text: str, body: bytes) -> None:
    harness = BrokerHarness()
    answer = harness.request(310, message(properties=text), body)
    assert answer.code in (0, 13)
    for record in [*harness.topic("orders"), *harness.topic("SCHEDULE_TOPIC_XXXX")]:
        sent, stored = decode_properties(text.encode()), decode_properties(record.properties)
        for name in ("TAGS", "KEYS", "WAIT", "x", "é"):
            assert stored.get(name) == sent.get(name)
        assert stored["UNIQ_KEY"] == sent.get("UNIQ_KEY", stored["UNIQ_KEY"])
        assert "POP_CK" not in stored
        assert record.body == body
