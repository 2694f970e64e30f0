"""Times of one's own: a message comes when it said, never before, once, and whatever happens to the broker."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.desk import START_MS, Desk, message

from steelyard.broker import deliveries
from steelyard.broker.timers import Timers
from steelyard.model.names import TIMER_GROUP
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.send import SendAnswer
from steelyard.wire.properties import parse_properties

_TIMERS = "rmq_sys_wheel_timer"


def _send(desk: Desk, text: str, body: bytes = b"later", topic: str = "orders", queue_id: int = 1) -> SendAnswer:
    answer = desk.ask(310, message(topic, f"UNIQ_KEY\x01U\x02{text}\x02", queue_id=queue_id), body)
    assert answer.code == 0, answer.remark
    return answer.header(SendAnswer)


def _after(desk: Desk, delay_ms: int, body: bytes = b"later", topic: str = "orders", queue_id: int = 1) -> None:
    _send(desk, f"TIMER_DELAY_MS\x01{delay_ms}", body, topic, queue_id)


def _bodies(desk: Desk, topic: str = "orders") -> list[bytes]:
    return [record.body for record in desk.topic(topic)]


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
    desk = Desk()
    answer = _send(desk, text)
    assert (answer.queue_id, answer.queue_offset) == (1, 0)
    desk.advance(2_999)
    assert _bodies(desk) == []
    desk.advance(1)
    (record,) = desk.queue("orders", 1)
    assert (record.body, record.stored_ms) == (b"later", START_MS + 3_000)
    assert text.split("\x01")[0] in parse_properties(record.properties)
    desk.advance(10_000)
    assert _bodies(desk) == [b"later"]


@pytest.mark.parametrize(("delay_ms", "out_ms"), [(2_500, 2_000), (3_000, 2_000), (3_001, 3_000)])
def test_what_waits_is_written_as_apache_writes_it(delay_ms: int, out_ms: int) -> None:
    desk = Desk()
    _after(desk, delay_ms)
    (waiting,) = desk.queue(_TIMERS)
    properties = parse_properties(waiting.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "1")
    assert properties["TIMER_OUT_MS"] == str(START_MS + out_ms)


def test_nobody_is_given_a_handle_to_recall_a_message_by_since_it_would_not_work() -> None:
    desk = Desk()
    assert _send(desk, "TIMER_DELAY_MS\x013000").recall_handle is None
    assert desk.ask(RequestCode.RECALL_MESSAGE, {"topic": "orders", "recallHandle": "any"}).code == 3


@pytest.mark.parametrize("text", ["TIMER_DELIVER_MS\x015", "TIMER_DELAY_SEC\x010", "TIMER_DELAY_MS\x01-7"])
def test_a_time_that_is_over_is_no_delay(text: str) -> None:
    desk = Desk()
    _send(desk, text)
    assert _bodies(desk) == [b"later"]


def test_the_longest_time_is_taken_and_one_more_is_not() -> None:
    desk = Desk()
    most_ms = desk.options.timer_max_ms
    _after(desk, most_ms)
    answer = desk.ask(310, message(properties=f"TIMER_DELAY_MS\x01{most_ms + 1}"))
    assert (answer.code, "max delay" in (answer.remark or "")) == (13, True)


def test_too_many_timers_are_refused() -> None:
    desk = Desk()
    desk.state.timers = Timers(2)
    for _ in range(2):
        _after(desk, 5_000)
    desk.tick()
    assert desk.ask(310, message(properties="TIMER_DELAY_MS\x015000")).code == 1
    desk.advance(5_000)
    _after(desk, 5_000)


@pytest.mark.parametrize("end", ["restart", "crash", "lose_power"])
def test_what_waits_survives_the_broker(end: str) -> None:
    desk = Desk()
    _after(desk, 5_000, b"a")
    _after(desk, 1_000, b"b")
    desk.sync()
    desk.advance(2_000)
    desk.sync()
    desk.tick()
    getattr(desk, end)()
    desk.advance(2_900)
    assert _bodies(desk) == [b"b"]
    desk.advance(100)
    assert _bodies(desk) == [b"b", b"a"]


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_what_was_delivered_is_not_delivered_again(end: str) -> None:
    desk = Desk()
    for number in range(6):
        _after(desk, 1_000 + 700 * (number % 3), b"%d" % number, topic="orders" if number % 2 else "bills")
    _after(desk, 60_000, b"long")
    for _ in range(4):
        desk.advance(700)
        getattr(desk, end)()
    desk.advance(60_000, step_ms=1_000)
    assert sorted(_bodies(desk) + _bodies(desk, "bills")) == [b"0", b"1", b"2", b"3", b"4", b"5", b"long"]


def test_what_was_delivered_and_lost_with_the_power_is_delivered_again() -> None:
    desk = Desk()
    _after(desk, 1_000, b"a")
    desk.sync()
    desk.advance(1_000)
    desk.save(everything=True)
    desk.lose_power()
    desk.advance(100)
    assert _bodies(desk) == [b"a"]


def test_a_start_looks_at_what_is_open_and_not_at_what_is_long_delivered() -> None:
    desk = Desk()
    for number in range(20):
        _after(desk, 100, b"%d" % number)
        desk.advance(100)
    _after(desk, 60_000, b"open")
    _after(desk, 100, b"short")
    desk.advance(100)
    desk.sync()
    desk.tick()
    assert desk.state.offsets.of(TIMER_GROUP, _TIMERS) == {0: 20, 1: START_MS + 2_100, 2: 22}
    desk.restart()
    desk.tick()
    assert desk.state.timers.next_due() == START_MS + 62_000


def test_a_delivery_that_the_disk_did_not_take_is_tried_again() -> None:
    desk = Desk()
    _after(desk, 1_000, b"a")
    _after(desk, 1_000, b"b")
    desk.advance(900)
    desk.disk.fail_next("write", "no_space")
    desk.advance(100)
    assert _bodies(desk) == []
    desk.advance(100)
    assert sorted(_bodies(desk)) == [b"a", b"b"]


def test_a_timer_that_the_disk_did_not_take_is_not_delivered() -> None:
    desk = Desk()
    desk.ask(310, message(properties="UNIQ_KEY\x01U\x02"))
    desk.disk.fail_next("write", "no_space")
    assert desk.ask(310, message(properties="TIMER_DELAY_MS\x01500"), b"lost").code == 14
    _after(desk, 500, b"kept")
    desk.advance(1_000)
    assert _bodies(desk) == [b"", b"kept"]


def test_a_tick_delivers_so_much_and_looks_at_so_much() -> None:
    desk = Desk()
    for number in range(10):
        _after(desk, 500, b"%d" % number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deliveries, "_MESSAGES_A_TICK", 4)
        patch.setattr(deliveries, "_FED_A_TICK", 6)
        desk.now_ms += 5_000
        counts = []
        for _ in range(5):
            desk.tick()
            counts.append(len(_bodies(desk)))
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
    desk, due = Desk(segment_bytes=1 << 16), dict[bytes, int]()
    for topic in ("t0", "t1"):
        desk.state.topics.for_send(topic, "TBW102", 4, desk.now_ms)
    desk.save()
    for what, number in steps:
        if what == "send":
            body = b"%d" % len(due)
            due[body] = desk.now_ms + number
            _after(desk, number, body, topic=f"t{number % 2}", queue_id=number % 3)
        elif what == "time":
            desk.advance(number, step_ms=250)
        else:
            getattr(desk, what)()
    desk.advance(10_000, step_ms=250)
    records = desk.topic("t0") + desk.topic("t1")
    assert Counter(record.body for record in records) == Counter(due.keys())
    assert all(due[record.body] <= record.stored_ms < due[record.body] + 300 for record in records)
