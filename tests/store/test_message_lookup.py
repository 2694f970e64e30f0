"""Messages by time and by key: what a full scan would find, found fast."""

from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from steelyard.wire.record import decode_record
from tests.fuzzing import Dice
from tests.store.sample_messages import (
    OPTIONS,
    PAGE,
    Book,
    Message,
    MessageWriter,
    append,
    everything,
    opened,
    rounds,
    sync,
)

_QUEUE = (b"orders", 0)


@given(
    steps=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=40),
    has_lost_first=st.booleans(),
)
def test_the_first_message_at_or_after_a_time_is_what_a_linear_search_finds(
    steps: list[tuple[int, bool]], has_lost_first: bool
) -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    now_ms, times, stored_times = 10, dict[int, int](), dict[int, int]()
    lost: list[int] = []
    for passed_ms, is_lost in steps:
        now_ms += passed_ms
        done, _ = append(store, Message(_QUEUE, b"x", stored_ms=now_ms))
        stored_times[done.offset] = now_ms
        if is_lost:
            lost.append(done.position)
        else:
            times[done.offset] = now_ms
    assert store.flush().error is None
    for position in lost:
        file = disk.open(f"commitlog/{position // OPTIONS.segment_bytes * OPTIONS.segment_bytes:020d}")
        file.write(position % OPTIONS.segment_bytes + 8, b"\xff")
        file.close()
    if has_lost_first:
        store = opened(disk.crash())
    low, high = store.bounds(*_QUEUE)
    for wanted_ms in range(9, now_ms + 2):
        linear = min(
            (offset for offset, time_ms in times.items() if time_ms >= wanted_ms and offset >= low), default=high
        )
        assert store.lookup.offset_by_time(*_QUEUE, wanted_ms) == linear
    for offset in range(low, high):
        # Only the head of a record is read for that.
        assert store.lookup.stored_ms(*_QUEUE, offset) in (times.get(offset), stored_times[offset])


def keys_of(record: bytes) -> set[bytes]:
    """Return the keys of a record, by a plain look at its properties."""
    pairs = dict(each.split(b"\x01") for each in decode_record(record).properties.split(b"\x02") if each)
    return set(pairs.get(b"KEYS", b"").split()) | {pairs.get(b"UNIQ_KEY", b"")} - {b""}


def check_keys(store: Store) -> None:
    """Expect for each topic and key what a scan finds, the newest first."""
    book = everything(store)
    for topic in {topic for topic, _ in book}:
        for key in (*(b"k%d" % number for number in range(10)), b"none"):
            scanned = [
                record
                for (name, _), records in book.items()
                for record in records.values()
                if name == topic and key in keys_of(record)
            ]
            scanned.sort(key=lambda record: decode_record(record).position, reverse=True)
            found = store.lookup.find_by_key(topic, key, max_messages=1_000, start_ms=0, end_ms=1 << 40)
            assert [bytes(record) for record in found] == scanned
            times = [decode_record(record).stored_ms for record in scanned]
            if times:
                start_ms, end_ms = min(times) + 1, max(times)
                found = store.lookup.find_by_key(topic, key, max_messages=2, start_ms=start_ms, end_ms=end_ms)
                within = [each for each in scanned if start_ms <= decode_record(each).stored_ms <= end_ms]
                assert [bytes(record) for record in found] == within[:2]


def test_by_key_is_what_a_scan_finds_whatever_happened_before() -> None:
    for seed in range(rounds(12, 500)):
        dice = Dice(seed)
        disk = SimulatedDisk(dice, page=512)
        options = StoreOptions(segment_bytes=4096, keep_ms=None, keep_bytes=dice.choice((None, 12_288)))
        teller = MessageWriter(dice)
        for _ in range(4):
            store = opened(disk, options)
            check_keys(store)
            teller.fill(store, dice.randrange(40), Book())
            if dice.random() < 0.5:
                store.lookup.build_key_index()
            if dice.random() < 0.5:
                assert sync(store)
                store.lookup.save_key_index()
            store.delete_expired_segments(teller.now_ms)
            check_keys(store)
            way = dice.randrange(3)
            if way == 0:
                store.close(teller.now_ms)
            disk = disk.lose_power() if way == 1 else disk.crash()


def test_what_is_not_there_is_not_found() -> None:
    store = opened(SimulatedDisk())
    assert store.lookup.record_at(0) is None
    assert store.lookup.record_at(-1) is None
    assert store.lookup.offset_by_time(*_QUEUE, 5) == 0
    assert store.lookup.stored_ms(*_QUEUE, 0) is None
    assert store.lookup.find_by_key(b"orders", b"k", max_messages=1, start_ms=0, end_ms=9) == []
    done, record = append(store, Message(_QUEUE, b"x"))
    assert store.lookup.record_at(done.position) is None
    assert store.flush().error is None
    assert bytes(store.lookup.record_at(done.position) or b"") == record
    assert store.lookup.record_at(done.position + 1) is None
    assert store.read(b"nobody", 0, 7).next_offset == 7


def test_records_in_the_place_of_lost_ones_are_found_by_their_keys() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    for number in range(3):
        done, _ = append(store, Message(_QUEUE, b"x" * 100, b"KEYS\x01old%d\x02" % number))
    assert store.flush().error is None
    store.lookup.build_key_index()
    store.close(now_ms=1)
    file = disk.open("commitlog/00000000000000000000")
    file.write(done.position + 4, b"hit")
    file.close()
    # Unclean, so that the damaged end is cut off.
    disk.open("abort", create=True).close()
    store = opened(disk.crash())
    records = [append(store, Message(_QUEUE, b"y" * 60, b"KEYS\x01new%d\x02" % number))[1] for number in range(4)]
    assert store.flush().error is None
    for number, record in enumerate(records):
        found = store.lookup.find_by_key(b"orders", b"new%d" % number, max_messages=9, start_ms=0, end_ms=1 << 40)
        assert [bytes(each) for each in found] == [record]
    assert store.lookup.find_by_key(b"orders", b"old2", max_messages=9, start_ms=0, end_ms=1 << 40) == []


@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=40), dice=st.data())
def test_the_first_of_some_messages_is_the_one_that_was_stored_first(
    steps: list[tuple[int, int]], dice: st.DataObject
) -> None:
    store, now_ms = opened(SimulatedDisk(page=PAGE)), 10
    for passed_ms, queue_id in steps:
        now_ms += passed_ms
        append(store, Message((b"orders", queue_id), b"x", stored_ms=now_ms))
    assert store.flush().error is None
    places = dice.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12))))
    times = [store.lookup.stored_ms(b"orders", queue_id, offset) for queue_id, offset in places]
    known = [time_ms for time_ms in times if time_ms is not None]
    assert store.lookup.first_stored_ms(b"orders", places) == min(known, default=None)


def test_what_this_process_wrote_is_found_by_its_key_whatever_its_properties_are() -> None:
    zeros = b"KEYS\x01paid\x02note\x01" + bytes(3_000) + b"\x02"
    store = opened(SimulatedDisk(page=PAGE))
    append(store, Message(_QUEUE, b"x", properties=zeros))
    assert store.flush().error is None
    (record,) = store.lookup.find_by_key(b"orders", b"paid", max_messages=9, start_ms=0, end_ms=1 << 40)
    assert store.lookup.stored_ms(*_QUEUE, 0) == 1_000
    assert decode_record(record).properties == zeros
