"""The fast paths of the store give what the careful ones give: only the time may differ."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from simulator.disk import SimulatedDisk
from steelyard.model import tag_hash
from steelyard.store import log_scan as walking
from steelyard.store import queue_reader
from steelyard.store.checksums import RecordChecksums, pack_checksum, pack_checksums, record_checksum
from steelyard.store.commit_log import Segment
from steelyard.store.consume_queue import ENTRY_WORDS, ConsumeQueue
from steelyard.store.log_scan import LogScan
from steelyard.store.options import StoreOptions
from steelyard.store.queue_reader import QueueReader
from steelyard.store.store import Store
from steelyard.store.tags_code import compute_tags_code
from steelyard.wire.properties import find_property
from steelyard.wire.record import head_layout_for, pack_record

_IPV4, _IPV6 = bytes(8), bytes(20)
_BASE = 1 << 20

_MESSAGES = st.lists(
    st.tuples(
        st.sampled_from([b"t", b"orders", b"o" * 127, b"o" * 130]),
        st.integers(0, 900),
        st.sampled_from([b"", b"TAGS\x01a\x02", b"k\x01" + bytes(600)]),
        st.sampled_from([_IPV4, _IPV4, _IPV6]),
    ),
    max_size=12,
)


def _segment_and_checksums(messages: list[tuple[bytes, int, bytes, bytes]], size: int) -> tuple[bytearray, list[bytes]]:
    log, checksums_so_far = bytearray(), []
    for number, (topic, body_bytes, properties, host) in enumerate(messages):
        position, body = _BASE + len(log), bytes([number]) * body_bytes
        record = pack_record(
            topic, 0, number, position, body, properties, born_ms=1, born_host=host, stored_ms=2, store_host=_IPV4
        )
        body_at = head_layout_for(host, _IPV4).size
        checksums_so_far.append(
            pack_checksum(position, record_checksum(record[:body_at], record[body_at + body_bytes :]))
        )
        log += record
    return log + bytes(max(0, size - len(log))), checksums_so_far


@given(
    messages=_MESSAGES,
    chunk=st.sampled_from([512, 1024, 4096, 1 << 20]),
    dropped=st.sets(st.integers(0, 11)),
    flips=st.lists(st.tuples(st.booleans(), st.integers(0, 1 << 16), st.integers(0, 7)), max_size=3),
    room=st.sampled_from([0, 7, 2000]),
)
def test_a_quick_scan_finds_what_a_careful_one_finds(
    messages: list[tuple[bytes, int, bytes, bytes]],
    chunk: int,
    dropped: set[int],
    flips: list[tuple[bool, int, int]],
    room: int,
) -> None:
    log, checksums_so_far = _segment_and_checksums(messages, 0)
    log += bytes(room)
    summed = bytearray(b"".join(each for number, each in enumerate(checksums_so_far) if number not in dropped))
    for in_log, at, bit in flips:
        target = log if in_log else summed
        if target:
            target[at % len(target)] ^= 1 << bit
    segment = Segment(_BASE, len(log), SimulatedDisk().open("log", create=True), memoryview(bytes(log)))

    def scanned() -> tuple[object, ...]:
        known = RecordChecksums(bytes(summed))
        walk = LogScan([segment], {_BASE: known})
        return list(walk), walk.damages, walk.body_damaged, walk.end, known.damaged, known.stale

    with patch.object(walking, "_CHUNK", chunk):
        quick = scanned()
    with patch.object(walking, "_scan_checksummed", lambda *_: iter(())):
        assert quick == scanned()


@given(
    queues=st.lists(st.integers(0, 2), min_size=1, max_size=30),
    offset=st.integers(0, 12),
    most=st.integers(1, 12),
    most_bytes=st.sampled_from([1, 300, 500, 1000, 1 << 18]),
)
def test_a_slice_read_at_once_is_the_one_read_message_by_message(
    queues: list[int], offset: int, most: int, most_bytes: int
) -> None:
    store = Store.open(SimulatedDisk(), StoreOptions(segment_bytes=1024))
    for number, queue_id in enumerate(queues):
        body = bytes([number]) * (number % 7)
        store.append(b"orders", queue_id, body, b"", born_ms=1, born_host=_IPV4, stored_ms=2)
    store.flush()

    def read() -> tuple[object, ...]:
        found = store.read(b"orders", 0, offset, max_messages=most, max_bytes=most_bytes)
        return found.joined(), found.count, found.size, found.next_offset, found.min_offset, found.max_offset

    at_once = read()
    with patch.object(QueueReader, "_read_all", lambda *_: None):
        assert at_once == read()


@given(
    gaps=st.lists(st.tuples(st.sampled_from([0, 0, 5, 40]), st.integers(1, 30)), min_size=1, max_size=12),
    before=st.integers(0, 400),
)
def test_runs_of_records_are_found_on_both_sides_of_four_gibibytes(gaps: list[tuple[int, int]], before: int) -> None:
    base = at = (1 << 32) - before
    log = bytes(range(256)) * 4
    index, expected = ConsumeQueue(), b""
    for gap, size in gaps:
        at += gap
        index.append(at, size, 0)
        expected += log[at - base : at - base + size]
        at += size
    words = index.entry_words(0, len(gaps))
    runs = queue_reader._runs(memoryview(log), base, words, words[2::ENTRY_WORDS])
    assert b"".join(runs) == expected
    assert len(runs) == 1 + sum(gap > 0 for gap, _ in gaps[1:])


@given(st.lists(st.tuples(st.integers(0, 1 << 62), st.binary(max_size=100), st.binary(max_size=100)), min_size=1))
def test_checksums_packed_together_are_those_packed_one_by_one(records: list[tuple[int, bytes, bytes]]) -> None:
    one_by_one = [pack_checksum(position, record_checksum(head, tail)) for position, head, tail in records]
    assert pack_checksums(records) == b"".join(one_by_one)


@given(
    st.lists(st.sampled_from([b"TAGS", b"\x01", b"\x02", b"a", b"TAGS\x01a\x02", b"K\x01v\x02", b"x" * 70, b"\xff"]))
)
def test_the_tags_code_is_the_hash_of_the_tag_that_other_readers_see(pieces: list[bytes]) -> None:
    properties = b"".join(pieces)
    tag = find_property(properties, b"TAGS")
    assert compute_tags_code(b"orders", properties, 0) == tag_hash(tag.decode(errors="replace") if tag else None)
