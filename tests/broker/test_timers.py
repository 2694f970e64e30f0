"""Times of one's own: a message comes when it said, never before, once, and whatever happens to the broker."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.broker import delayed_delivery
from steelyard.broker.delayed_messages import TimerMessages
from steelyard.model.reserved_names import TIMER_GROUP
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendMessageResponse
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import START_MS, BrokerHarness, message

_TIMERS = "rmq_sys_wheel_timer"


def _send(
    harness: BrokerHarness, text: str, body: bytes = b"later", topic: str = "orders", queue_id: int = 1
) -> SendMessageResponse:
    answer = harness.request(310, message(topic, f"UNIQ_KEY\x01U\x02{text}\x02", queue_id=queue_id), body)
    assert answer.code == 0, answer.remark
    return answer.header(SendMessageResponse)


def _after(
    harness: BrokerHarness, delay_ms: int, body: bytes = b"later", topic: str = "orders", queue_id: int = 1
) -> None:
    _send(harness, f"TIMER_DELAY_MS\x01{delay_ms}", body, topic, queue_id)


def _bodies(harness: BrokerHarness, topic: str = "orders") -> list[bytes]:
    return [record.body for record in harness.topic(topic)]


@pytest.mark.parametrize(
    "text",
    [
        "TIMER_DELAY_SEC\x013",
        "TIMER_DELAY_MS\x013000",
        f"TIMER_DELIVER_MS\x01{START_MS + 3_000}",
        f"TIMER_DELIVER_MS\x01{START_MS + 9}\x02TIMER_DELAY_MS\x013000",
        "TIMER_DELAY_MS\x0199\x02TIMER_DELAY_SEC\x013",
    ],
)
def test_a_message_is_delivered_when_it_said_and_not_before(text: str) -> None:
    harness = BrokerHarness()
    answer = _send(harness, text)
    assert (answer.queue_id, answer.queue_offset) == (1, 0)
    harness.advance(2_999)
    assert _bodies(harness) == []
    harness.advance(1)
    (record,) = harness.queue("orders", 1)
    assert (record.body, record.stored_ms) == (b"later", START_MS + 3_000)
    assert text.split("\x01")[0] in decode_properties(record.properties)
    harness.advance(10_000)
    assert _bodies(harness) == [b"later"]


@pytest.mark.parametrize(("delay_ms", "out_ms"), [(2_500, 2_000), (3_000, 2_000), (3_001, 3_000)])
def test_what_waits_is_written_as_apache_writes_it(delay_ms: int, out_ms: int) -> None:
    harness = BrokerHarness()
    _after(harness, delay_ms)
    (waiting,) = harness.queue(_TIMERS)
    properties = decode_properties(waiting.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "1")
    assert properties["TIMER_OUT_MS"] == str(START_MS + out_ms)


def test_nobody_is_given_a_handle_to_recall_a_message_by_since_it_would_not_work() -> None:
    harness = BrokerHarness()
    assert _send(harness, "TIMER_DELAY_MS\x013000").recall_handle is None
    assert harness.request(RequestCode.RECALL_MESSAGE, {"topic": "orders", "recallHandle": "any"}).code == 3


@pytest.mark.parametrize("text", ["TIMER_DELIVER_MS\x015", "TIMER_DELAY_SEC\x010", "TIMER_DELAY_MS\x01-7"])
def test_a_time_that_is_over_is_no_delay(text: str) -> None:
    harness = BrokerHarness()
    _send(harness, text)
    assert _bodies(harness) == [b"later"]


def test_the_longest_time_is_taken_and_one_more_is_not() -> None:
    harness = BrokerHarness()
    most_ms = harness.options.timer_max_ms
    _after(harness, most_ms)
    answer = harness.request(310, message(properties=f"TIMER_DELAY_MS\x01{most_ms + 1}"))
    assert (answer.code, "max delay" in (answer.remark or "")) == (13, True)


def test_too_many_timers_are_refused() -> None:
    harness = BrokerHarness()
    harness.state.timers = TimerMessages(2)
    for _ in range(2):
        _after(harness, 5_000)
    harness.tick()
    assert harness.request(310, message(properties="TIMER_DELAY_MS\x015000")).code == 1
    harness.advance(5_000)
    _after(harness, 5_000)


@pytest.mark.parametrize("end", ["restart", "crash", "lose_power"])
def test_what_waits_survives_the_broker(end: str) -> None:
    harness = BrokerHarness()
    _after(harness, 5_000, b"a")
    _after(harness, 1_000, b"b")
    harness.sync()
    harness.advance(2_000)
    harness.sync()
    harness.tick()
    getattr(harness, end)()
    harness.advance(2_900)
    assert _bodies(harness) == [b"b"]
    harness.advance(100)
    assert _bodies(harness) == [b"b", b"a"]


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_what_was_delivered_is_not_delivered_again(end: str) -> None:
    harness = BrokerHarness()
    for number in range(6):
        _after(harness, 1_000 + 700 * (number % 3), b"%d" % number, topic="orders" if number % 2 else "bills")
    _after(harness, 60_000, b"long")
    for _ in range(4):
        harness.advance(700)
        getattr(harness, end)()
    harness.advance(60_000, step_ms=1_000)
    assert sorted(_bodies(harness) + _bodies(harness, "bills")) == [b"0", b"1", b"2", b"3", b"4", b"5", b"long"]


def test_what_was_delivered_and_lost_with_the_power_is_delivered_again() -> None:
    harness = BrokerHarness()
    _after(harness, 1_000, b"a")
    harness.sync()
    harness.advance(1_000)
    harness.save(everything=True)
    harness.lose_power()
    harness.advance(100)
    assert _bodies(harness) == [b"a"]


def test_a_start_looks_at_what_is_open_and_not_at_what_is_long_delivered() -> None:
    harness = BrokerHarness()
    for number in range(20):
        _after(harness, 100, b"%d" % number)
        harness.advance(100)
    _after(harness, 60_000, b"open")
    _after(harness, 100, b"short")
    harness.advance(100)
    harness.sync()
    harness.tick()
    assert harness.state.offsets.committed_in(TIMER_GROUP, _TIMERS) == {0: 20, 1: START_MS + 2_100, 2: 22}
    harness.restart()
    harness.tick()
    assert harness.state.timers.next_due() == START_MS + 62_000


def test_a_delivery_that_the_disk_did_not_take_is_tried_again() -> None:
    harness = BrokerHarness()
    _after(harness, 1_000, b"a")
    _after(harness, 1_000, b"b")
    harness.advance(900)
    harness.disk.fail_next("write", "no_space")
    harness.advance(100)
    assert _bodies(harness) == []
    harness.advance(100)
    assert sorted(_bodies(harness)) == [b"a", b"b"]


def test_a_timer_that_the_disk_did_not_take_is_not_delivered() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties="UNIQ_KEY\x01U\x02"))
    harness.disk.fail_next("write", "no_space")
    assert harness.request(310, message(properties="TIMER_DELAY_MS\x01500"), b"lost").code == 14
    _after(harness, 500, b"kept")
    harness.advance(1_000)
    assert _bodies(harness) == [b"", b"kept"]


def test_a_tick_delivers_so_much_and_looks_at_so_much() -> None:
    harness = BrokerHarness()
    for number in range(10):
        _after(harness, 500, b"%d" % number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delayed_delivery, "_MESSAGES_PER_TICK", 4)
        patch.setattr(delayed_delivery, "_TIMERS_LOADED_PER_TICK", 6)
        harness.now_ms += 5_000
        counts = []
        for _ in range(5):
            harness.tick()
            counts.append(len(_bodies(harness)))
    assert counts == [0, 4, 8, 10, 10]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 9_000)),
        st.tuples(st.just("time"), st.integers(1, 5_000)),
        st.tuples(st.sampled_from(["restart", "crash", "sync", "tick"]), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_any_mix_of_times_and_restarts_is_delivered_once_and_never_early(steps: list[tuple[str, int]]) -> None:
    harness, due = BrokerHarness(segment_bytes=1 << 16), dict[bytes, int]()
    for topic in ("t0", "t1"):
        harness.state.topics.get_or_create_for_send(topic, "TBW102", 4, harness.now_ms)
    harness.save()
    for what, number in steps:
        if what == "send":
            body = b"%d" % len(due)
            due[body] = harness.now_ms + number
            _after(harness, number, body, topic=f"t{number % 2}", queue_id=number % 3)
        elif what == "time":
            harness.advance(number, step_ms=250)
        else:
            getattr(harness, what)()
    harness.advance(10_000, step_ms=250)
    records = harness.topic("t0") + harness.topic("t1")
    assert Counter(record.body for record in records) == Counter(due.keys())
    assert all(due[record.body] <= record.stored_ms < due[record.body] + 300 for record in records)
