"""A directory with timers goes to an Apache broker, or comes from one: what was delivered is not delivered again.

Apache is played by a few lines that read its files as it does: what is in its list at the read time or later waits, and
each timer behind the queue offset is looked at anew.
"""

from struct import Struct as Layout
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.store.json_documents import DELAY_OFFSETS, load_document
from steelyard.store.timer_files import TIMER_CHECKPOINT_PATH, TIMER_LOG_FOLDER, TIMER_WHEEL_PATH
from steelyard.wire.properties import decode_properties
from tests.broker.broker_harness import START_MS, BrokerHarness, message

_TIMERS = "rmq_sys_wheel_timer"
_CHECK = Layout(">qqqq")
_ENTRY = Layout(">iqiqiqiiq")


def _after(harness: BrokerHarness, delay_ms: int, body: bytes, more: str = "", *, born_ms: int = START_MS) -> None:
    properties = f"UNIQ_KEY\x01{body.decode()}\x02TIMER_DELAY_MS\x01{delay_ms}\x02{more}"
    assert harness.request(310, message(properties=properties, born_ms=born_ms), body).code == 0


def _bodies(harness: BrokerHarness, topic: str = "orders") -> list[bytes]:
    return [record.body for record in harness.topic(topic)]


def _write(disk: SimulatedDisk, path: str, content: bytes) -> None:
    disk.mkdir(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.write(0, content)
    file.sync()
    file.close()


def _apache_stops(harness: BrokerHarness, read_ms: int, offset: int) -> None:
    """Let Apache say how far it came with the timers."""
    harness.broker.close(harness.now_ms)
    _write(harness.disk, TIMER_CHECKPOINT_PATH, _CHECK.pack(read_ms, 0, offset, offset))


def _apache_delivers(disk: SimulatedDisk, harness: BrokerHarness) -> dict[bytes, list[int]]:
    """Return what Apache delivers of a directory, and when each second is over in which it does."""
    records = harness.queue(_TIMERS)
    by_position = {record.position: record for record in records}
    read_ms, _, offset, master = _CHECK.unpack_from(disk.read(TIMER_CHECKPOINT_PATH) or bytes(_CHECK.size))
    assert offset == master
    delivered: dict[bytes, list[int]] = {}
    names = disk.names(TIMER_LOG_FOLDER)
    if names:
        assert names == ["0" * 20]
        assert disk.open(f"{TIMER_LOG_FOLDER}/{names[0]}").size == 100 << 20
        content = disk.read(f"{TIMER_LOG_FOLDER}/{names[0]}") or b""
        newest: dict[int, int] = {}
        last = -1
        for at in range(0, len(content) - _ENTRY.size, _ENTRY.size):
            size, before, magic, wrote_ms, delay_ms, position, length, _, _ = _ENTRY.unpack_from(content, at)
            if not size:
                break
            assert (size, magic) == (_ENTRY.size, 1)
            out_ms = wrote_ms + delay_ms
            assert before == newest.get(out_ms // 1000, -1)
            newest[out_ms // 1000] = at
            record = by_position[position]
            assert record.size == length
            last = record.offset
            if out_ms >= read_ms:
                delivered.setdefault(record.body, []).append(out_ms // 1000 * 1000 + 1000)
        offset = min(last + 1, master)
    for record in records[offset:]:
        out_ms = int(decode_properties(record.properties)["TIMER_OUT_MS"])
        delivered.setdefault(record.body, []).append(out_ms + 1000)
    return delivered


@pytest.mark.parametrize("first", ["past", "waiting"])
def test_apache_delivers_what_waits_and_not_what_was_delivered(first: str) -> None:
    harness = BrokerHarness()
    times = [("past", 2_000), ("waiting", 60_000)]
    for name, delay_ms in times if first == "past" else times[::-1]:
        for number in range(3):
            _after(harness, delay_ms + 700 * number, b"%s-%d" % (name.encode(), number))
    harness.advance(5_000)
    assert len(_bodies(harness)) == 3
    harness.broker.close(harness.now_ms)
    harness.reopen(harness.disk)
    delivered = _apache_delivers(harness.disk, harness)
    assert sorted(delivered) == [b"waiting-0", b"waiting-1", b"waiting-2"]
    for number in range(3):
        (over_ms,) = delivered[b"waiting-%d" % number]
        assert 0 <= over_ms - (START_MS + 60_000 + 700 * number) < 1_000


def test_apache_delivers_none_where_none_waits() -> None:
    harness = BrokerHarness()
    for number in range(5):
        _after(harness, 2_000, b"%d" % number)
    harness.advance(2_000)
    harness.restart()
    assert _apache_delivers(harness.disk, harness) == {}
    assert harness.disk.names(TIMER_LOG_FOLDER) == []


def test_what_is_due_when_the_broker_stops_is_delivered_by_the_next_one() -> None:
    harness = BrokerHarness()
    _after(harness, 2_000, b"due")
    _after(harness, 9_000, b"later")
    harness.tick()
    harness.now_ms += 5_000
    harness.restart()
    assert sorted(_apache_delivers(harness.disk, harness)) == [b"due", b"later"]
    harness.advance(100)
    assert _bodies(harness) == [b"due"]


def test_a_directory_without_timers_gets_no_file_of_them() -> None:
    harness = BrokerHarness()
    harness.request(310, message(), b"plain")
    harness.advance(1_000)
    harness.restart()
    assert harness.disk.read(TIMER_CHECKPOINT_PATH) is None


@pytest.mark.parametrize("end", ["crash", "lose_power"])
def test_apache_loses_nothing_after_a_crash(end: str) -> None:
    harness = BrokerHarness()
    _after(harness, 60_000, b"waits")
    harness.advance(1_000)
    harness.restart()  # leaves a list of what waits
    _after(harness, 2_000, b"past")
    _after(harness, 60_000, b"waits too")
    harness.advance(3_000)
    harness.sync()
    harness.tick()
    harness.save(everything=True)
    assert harness.disk.names(TIMER_LOG_FOLDER) == []
    getattr(harness, end)()
    delivered = _apache_delivers(harness.disk, harness)
    assert {b"waits", b"waits too"} <= delivered.keys()
    assert all(len(times) == 1 for times in delivered.values())


def test_how_far_timers_are_is_saved_while_the_broker_runs() -> None:
    harness = BrokerHarness()
    for number in range(3):
        _after(harness, 2_000, b"%d" % number)
    _after(harness, 60_000, b"waits")
    harness.advance(3_000)
    harness.sync()
    harness.tick()
    harness.save(everything=True)
    assert _CHECK.unpack_from(harness.disk.read(TIMER_CHECKPOINT_PATH) or b"")[2:] == (3, 3)
    harness.crash()
    assert list(_apache_delivers(harness.disk, harness)) == [b"waits"]


def test_what_apache_keeps_in_its_files_is_replaced_or_left() -> None:
    harness = BrokerHarness()
    _after(harness, 60_000, b"waits")
    _write(harness.disk, TIMER_CHECKPOINT_PATH, bytes(32) + pack(">qqq", 7, 8, 9) + bytes(4096 - 56))
    _write(harness.disk, f"{TIMER_LOG_FOLDER}/{52_000:020}", bytes(100 << 20))
    file = harness.disk.open(TIMER_WHEEL_PATH, create=True)
    file.write(0, b"wheel")
    file.close()
    harness.tick()
    harness.restart()
    assert list(_apache_delivers(harness.disk, harness)) == [b"waits"]
    assert TIMER_WHEEL_PATH not in harness.disk.names("")
    assert (harness.disk.read(TIMER_CHECKPOINT_PATH) or b"")[32:56] == pack(">qqq", 7, 8, 9)


def test_what_apache_delivered_is_not_delivered_again() -> None:
    harness = BrokerHarness()
    for number, delay_ms in enumerate((2_000, 60_000, 3_000, 90_000)):
        _after(harness, delay_ms, b"%d" % number)
    harness.tick()
    _apache_stops(harness, START_MS + 10_000, 4)
    harness.now_ms += 11_000
    harness.reopen(harness.disk)
    harness.advance(1_000)
    assert _bodies(harness) == []
    harness.advance(80_000, step_ms=500)
    assert _bodies(harness) == [b"1", b"3"]


def test_what_apache_had_not_looked_at_is_delivered() -> None:
    harness = BrokerHarness()
    for number in range(4):
        _after(harness, 2_000, b"%d" % number)
    _apache_stops(harness, START_MS + 10_000, 2)
    harness.now_ms += 11_000
    harness.reopen(harness.disk)
    harness.advance(100)
    assert _bodies(harness) == [b"2", b"3"]


def test_a_copy_that_apache_made_last_is_found_in_its_queue() -> None:
    harness = BrokerHarness()
    _after(harness, 2_000, b"a")
    _after(harness, 2_000, b"b")
    harness.now_ms += 2_000
    out = f"TIMER_OUT_MS\x01{START_MS + 1_000}\x02TIMER_DEQUEUE_MS\x01{harness.now_ms}\x02"
    # A timer that has waited goes where it belongs: this is Apache's copy, of which its files do not tell yet.
    _after(harness, 2_000, b"a", out)
    _apache_stops(harness, START_MS, 2)
    harness.now_ms += 100
    harness.reopen(harness.disk)
    harness.advance(1_000)
    assert _bodies(harness) == [b"a", b"b"]


def test_what_apache_delivered_stays_delivered_after_the_next_stop() -> None:
    harness = BrokerHarness()
    _after(harness, 60_000, b"waits")
    _after(harness, 2_000, b"past")
    _apache_stops(harness, START_MS + 10_000, 2)
    harness.now_ms += 11_000
    for _ in range(3):
        harness.reopen(harness.disk)
        harness.advance(500)
        harness.broker.close(harness.now_ms)
    harness.reopen(harness.disk)
    assert list(_apache_delivers(harness.disk, harness)) == [b"waits"]
    harness.advance(60_000, step_ms=500)
    assert _bodies(harness) == [b"waits"]


def _store_timer(harness: BrokerHarness, body: bytes, properties: str) -> None:
    """Store a message among the timers, as Apache does."""
    text = f"REAL_TOPIC\x01orders\x02REAL_QID\x010\x02{properties}\x02".encode()
    times = {"born_ms": START_MS, "stored_ms": harness.now_ms}
    harness.state.store.append(_TIMERS.encode(), 0, body, text, born_host=bytes(8), **times)
    harness.flush()


def test_a_timer_that_apache_carried_on_is_delivered_once() -> None:
    harness = BrokerHarness()
    out = f"TIMER_DELAY_MS\x01{5_000}\x02TIMER_OUT_MS\x01{START_MS + 4_000}\x02UNIQ_KEY\x01U"
    _store_timer(harness, b"far", out)
    harness.now_ms += 1_000
    _store_timer(harness, b"far", f"{out}\x02TIMER_ROLL_TIMES\x011")
    _after(harness, 4_500, b"other")
    _apache_stops(harness, START_MS + 1_000, 2)
    harness.reopen(harness.disk)
    harness.advance(2_000)
    harness.restart()
    harness.advance(10_000)
    assert sorted(_bodies(harness)) == [b"far", b"other"]


def test_a_timer_that_was_recalled_at_apache_is_never_delivered() -> None:
    harness = BrokerHarness()
    for name in ("a", "b"):
        _store_timer(harness, name.encode(), f"TIMER_OUT_MS\x01{START_MS + 4_000}\x02UNIQ_KEY\x01{name}")
    _store_timer(harness, b"", f"TIMER_OUT_MS\x01{START_MS + 4_000}\x02UNIQ_KEY\x01c\x02TIMER_DEL_UNIQKEY\x01orders+a")
    _apache_stops(harness, START_MS, 3)
    harness.reopen(harness.disk)
    harness.advance(10_000)
    assert _bodies(harness) == [b"b"]


def test_a_delay_level_is_saved_as_far_as_it_was_delivered() -> None:
    harness = BrokerHarness()
    for number in range(3):
        harness.request(310, message(properties="DELAY\x011"), b"%d" % number)
    harness.advance(1_000)
    assert len(_bodies(harness)) == 3
    harness.broker.close(harness.now_ms)
    saved = load_document(harness.disk, DELAY_OFFSETS).value
    assert saved is not None
    assert dict(saved.offsets) == {1: 3}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9_000), st.integers(0, 3_000)), max_size=10))
def test_of_any_timers_apache_delivers_exactly_those_that_are_open(steps: list[tuple[int, int]]) -> None:
    harness = BrokerHarness(segment_bytes=1 << 16)
    for number, (delay_ms, passed_ms) in enumerate(steps):
        _after(harness, delay_ms, b"%d" % number)
        harness.advance(passed_ms, step_ms=250)
        if passed_ms % 3 == 0:
            harness.restart()
    harness.broker.close(harness.now_ms)
    done = {record.body for record in _reopened(harness).topic("orders")}
    delivered = _apache_delivers(harness.disk, harness)
    assert delivered.keys() == {b"%d" % number for number in range(len(steps))} - done
    assert all(len(times) == 1 for times in delivered.values())


def _reopened(harness: BrokerHarness) -> BrokerHarness:
    harness.reopen(harness.disk)
    return harness
