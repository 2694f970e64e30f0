"""Delay levels: a message comes when its level's time is over, not before, once, whatever happens to the broker."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.broker import delayed_delivery, long_polling
from steelyard.store.tags_code import DELAY_LEVELS_MS
from steelyard.wire.headers.send import SendMessageResponse
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import START_MS, BrokerHarness, message

_SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def _send(
    harness: BrokerHarness, level: int, body: bytes = b"later", topic: str = "orders", queue_id: int = 1
) -> SendMessageResponse:
    text = f"UNIQ_KEY\x01U\x02DELAY\x01{level}\x02TAGS\x01T\x02"
    answer = harness.request(310, message(topic, text, queue_id=queue_id, flag=5, born_ms=harness.now_ms - 3), body)
    assert answer.code == 0, answer.remark
    return answer.header(SendMessageResponse)


def _bodies(harness: BrokerHarness, topic: str = "orders") -> list[bytes]:
    return [record.body for record in harness.topic(topic)]


@pytest.mark.parametrize("level", [1, 2, 18, 19, 99])
def test_a_message_waits_in_the_queue_of_its_level(level: int) -> None:
    harness = BrokerHarness()
    answer = _send(harness, level)
    assert (answer.queue_id, answer.queue_offset) == (1, 0)
    (waiting,) = harness.queue(_SCHEDULE, min(level, 18) - 1)
    properties = decode_properties(waiting.properties)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "1")
    assert properties["DELAY"] == str(min(level, 18))
    assert harness.state.topics["orders"].queues == 4


@pytest.mark.parametrize("level", range(1, 19))
def test_a_message_is_delivered_when_its_time_is_over_and_not_before(level: int) -> None:
    harness = BrokerHarness()
    _send(harness, level)
    delay_ms = DELAY_LEVELS_MS[level - 1]
    harness.advance(delay_ms - 1, step_ms=delay_ms - 1)
    assert _bodies(harness) == []
    harness.advance(1)
    (record,) = harness.queue("orders", 1)
    assert (record.body, record.flag, record.born_ms) == (b"later", 5, START_MS - 3)
    assert record.stored_ms == START_MS + delay_ms
    properties = decode_properties(record.properties)
    assert [properties[name] for name in ("DELAY", "REAL_TOPIC", "REAL_QID", "TAGS")] == [
        str(level),
        "orders",
        "1",
        "T",
    ]
    harness.advance(delay_ms * 2, step_ms=delay_ms)
    assert _bodies(harness) == [b"later"]


@pytest.mark.parametrize("level", [0, -1])
def test_no_level_is_no_delay(level: int) -> None:
    harness = BrokerHarness()
    _send(harness, level)
    assert _bodies(harness) == [b"later"]


def test_a_level_counts_more_than_a_time() -> None:
    harness = BrokerHarness()
    harness.request(310, message(properties="DELAY\x011\x02TIMER_DELAY_SEC\x01100\x02"), b"later")
    harness.advance(1_000)
    assert _bodies(harness) == [b"later"]


def test_a_delivery_wakes_who_waits_for_it() -> None:
    harness = BrokerHarness()
    _send(harness, 1)
    harness.advance(900)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            long_polling, "answer_ready_pulls", lambda state, _now_ms: seen.append(state.store.bounds(b"orders", 1)[1])
        )
        harness.advance(100)
    assert seen[0] == 1


@pytest.mark.parametrize("end", ["restart", "crash", "lose_power"])
def test_what_waits_survives_the_broker(end: str) -> None:
    harness = BrokerHarness()
    _send(harness, 2, b"a")
    harness.sync()
    harness.advance(2_000)
    getattr(harness, end)()
    harness.advance(2_900)
    assert _bodies(harness) == []
    harness.advance(100)
    assert _bodies(harness) == [b"a"]


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_what_was_delivered_is_not_delivered_again(end: str) -> None:
    harness = BrokerHarness()
    for number in range(5):
        _send(harness, 1, b"%d" % number, topic="orders" if number % 2 else "bills")
    harness.advance(1_000)
    for _ in range(3):
        getattr(harness, end)()
        harness.advance(1_000)
        assert sorted(_bodies(harness) + _bodies(harness, "bills")) == [b"0", b"1", b"2", b"3", b"4"]


def test_what_was_delivered_and_lost_with_the_power_is_delivered_again() -> None:
    harness = BrokerHarness()
    _send(harness, 1, b"a")
    harness.sync()
    harness.advance(1_000)
    assert _bodies(harness) == [b"a"]
    harness.save(everything=True)
    harness.lose_power()
    harness.advance(100)
    assert _bodies(harness) == [b"a"]


def test_progress_is_saved_once_the_copies_are_safe() -> None:
    harness = BrokerHarness()
    _send(harness, 1, b"a")
    harness.advance(1_000)
    assert harness.state.delay_offsets.table().offsets == {}
    harness.sync()
    harness.tick()
    assert harness.state.delay_offsets.table().offsets == {1: 1}
    harness.restart()
    assert harness.state.delay_offsets.next_offsets[0] == 1


def test_a_delivery_that_the_disk_did_not_take_is_tried_again() -> None:
    harness = BrokerHarness()
    _send(harness, 1, b"a")
    _send(harness, 1, b"b")
    harness.advance(900)
    harness.disk.fail_next("write", "no_space")
    harness.advance(100)
    assert _bodies(harness) == []
    harness.advance(100)
    assert _bodies(harness) == [b"a", b"b"]


def test_a_tick_delivers_so_much_and_the_next_one_the_rest() -> None:
    harness = BrokerHarness()
    for number in range(10):
        _send(harness, 1 + number % 2, b"%d" % number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delayed_delivery, "_MESSAGES_PER_TICK", 4)
        harness.now_ms += 5_000
        counts = []
        for _ in range(4):
            harness.tick()
            counts.append(len(_bodies(harness)))
    assert counts == [4, 8, 10, 10]


def test_a_clock_that_is_set_back_does_not_stop_deliveries() -> None:
    harness = BrokerHarness()
    _send(harness, 1, b"a")
    harness.now_ms -= 3_600_000
    _send(harness, 1, b"b")
    harness.advance(1_100)
    assert _bodies(harness) == [b"a", b"b"]


def test_a_topic_that_was_deleted_meanwhile_is_made_again() -> None:
    harness = BrokerHarness()
    for queue_id, topic in enumerate(("orders", "bills", "%RETRY%billing")):
        _send(harness, 1, b"a", topic, queue_id)
        harness.state.topics.remove(topic, harness.now_ms)
    harness.advance(1_000)
    for topic, queues in (("orders", 4), ("bills", 4), ("%RETRY%billing", 3)):
        assert _bodies(harness, topic) == [b"a"]
        assert harness.state.topics[topic].queues == queues


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 4)),
        st.tuples(st.just("time"), st.integers(1, 12_000)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("sync"), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_any_mix_of_delays_and_restarts_is_delivered_once_and_never_early(steps: list[tuple[str, int]]) -> None:
    harness, due = BrokerHarness(segment_bytes=1 << 16), dict[bytes, int]()
    for topic in ("t0", "t1"):
        harness.state.topics.get_or_create_for_send(topic, "TBW102", 4, harness.now_ms)
    harness.save()
    for what, number in steps:
        if what == "send":
            body = b"%d" % len(due)
            due[body] = harness.now_ms + DELAY_LEVELS_MS[number - 1]
            _send(harness, number, body, topic=f"t{number % 2}", queue_id=len(due) % 2)
        elif what == "time":
            harness.advance(number, step_ms=500)
        else:
            getattr(harness, what)()
    harness.advance(31_000, step_ms=500)
    records = harness.topic("t0") + harness.topic("t1")
    assert Counter(record.body for record in records) == Counter(due.keys())
    assert all(due[record.body] <= record.stored_ms < due[record.body] + 60_000 for record in records)
