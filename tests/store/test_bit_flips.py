"""Flipped bits: only messages whose own bytes were hit are gone, reported, and never served."""

from functools import cache

import pytest

from simulator.disk import SimulatedDisk
from steelyard.store.store import Store
from steelyard.store.tags_code import compute_tags_code
from steelyard.wire.record import decode_record
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, Book, Message, MessageWriter, append, everything, files, opened, rounds

pytestmark = pytest.mark.thorough

_MESSAGES = 40
_FLIPS = rounds(1_000, 20_000)
_TURNS = 8


@cache
def directory(*, is_closed: bool) -> tuple[SimulatedDisk, Book, dict[str, bytes]]:
    """Return a directory with messages in several log files, and what is in each file."""
    disk = SimulatedDisk(Dice(3), page=PAGE)
    store = opened(disk)
    book: Book = {}
    MessageWriter(Dice(4)).fill(store, _MESSAGES, book)
    store.lookup.build_key_index()
    store.save_consume_queues()
    MessageWriter(Dice(5), now_ms=5_000).fill(store, _MESSAGES // 2, book)
    store.lookup.build_key_index()
    if is_closed:
        store.close(now_ms=9_000)
    else:
        store.lookup.save_key_index()
    disk = disk.crash()
    content = files(disk)
    assert len([path for path in content if path.startswith("commitlog/")]) > 3
    assert {path.split("/")[1] for path in content if path.startswith("steelyard/")} >= {"sums", "keys", "format.json"}
    return disk, book, content


def flipped(disk: SimulatedDisk, path: str, bit: int) -> SimulatedDisk:
    """Return a copy of a disk with one bit changed."""
    twin = disk.crash()
    file = twin.open(path)
    byte = (twin.read(path) or b"")[bit // 8]
    file.write(bit // 8, bytes((byte ^ 1 << bit % 8,)))
    file.close()
    return twin


def hit(book: Book, path: str, byte: int) -> set[tuple[tuple[bytes, int], int]]:
    """Return the messages to which a byte of a file belongs."""
    if not path.startswith("commitlog/"):
        return set()
    at = int(path.rpartition("/")[2]) + byte
    return {
        (queue, offset)
        for queue, records in book.items()
        for offset, record in records.items()
        if 0 <= at - decode_record(record).position < len(record)
    }


def served_by_tags_codes(store: Store, book: Book) -> Book:
    """Read all messages again, by the marks that they should have."""
    found: Book = {}
    for queue, records in book.items():
        for offset, record in records.items():
            read = decode_record(record)
            codes = frozenset({compute_tags_code(read.topic, read.properties, read.stored_ms)})
            if store.read(*queue, offset, max_messages=1, tags_codes=codes).joined() == record:
                found.setdefault(queue, {})[offset] = record
    return found


@pytest.mark.fuzz
@pytest.mark.parametrize("turn", range(_TURNS))
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
def test_a_flipped_bit_costs_the_message_it_hit_and_no_other(is_closed: bool, turn: int) -> None:
    disk, book, content = directory(is_closed=is_closed)
    random = Dice(turn)
    paths = sorted(path for path, data in content.items() if data)
    for number in range(_FLIPS // _TURNS // 2):
        path = random.choice([each for each in paths if each.startswith("commitlog/") or number % 2])
        bit = random.randrange(8 * len(content[path]))
        check(disk, book, path, bit, is_closed=is_closed)


def check(disk: SimulatedDisk, book: Book, path: str, bit: int, *, is_closed: bool) -> None:
    """Flip a bit and expect that all is there but what it hit; and that nothing else is lost by the next start."""
    broken = flipped(disk, path, bit)
    lost = hit(book, path, bit // 8)
    expected = {
        queue: {offset: record for offset, record in records.items() if (queue, offset) not in lost}
        for queue, records in book.items()
    }
    where = f"{path}, bit {bit}"
    store = opened(broken)
    assert everything(store) == expected, where
    reported = [damage for damage in store.damages if damage.records]
    if lost:
        ((queue, offset),) = lost
        gone = decode_record(book[queue][offset])
        (damage,) = reported
        assert (damage.path, damage.position, damage.records) == (path, gone.position, 1), where
        assert 0 < damage.size <= gone.size, where
    else:
        assert not reported, where
    for queue, records in book.items():
        is_forgotten = not is_closed and (queue, max(records)) in lost  # and no index had it yet
        assert max(records) + (not is_forgotten) <= store.bounds(*queue)[1] <= max(records) + 1, where
        for offset, record in records.items():
            served = store.lookup.record_at(decode_record(record).position)
            assert (served is None) == ((queue, offset) in lost), where
            assert served is None or bytes(served) == record
    if bit % 4:
        return
    before = len(store.damages)
    assert served_by_tags_codes(store, book) == expected, where
    assert len(store.damages) == before, "a loss is told once"
    for key in (b"k3", b"k9"):
        assert found_by_key(store, key) == scanned(expected, key), where
    store.close(now_ms=10_000)
    assert everything(opened(broken.crash())) == expected, where


def found_by_key(store: Store, key: bytes) -> set[bytes]:
    """Return the records of a topic that are found by a key."""
    found = store.lookup.find_by_key(b"orders", key, max_messages=1_000, start_ms=0, end_ms=1 << 40)
    return {bytes(record) for record in found}


def scanned(book: Book, key: bytes) -> set[bytes]:
    """Return the same by looking at everything."""
    return {
        record
        for (topic, _), records in book.items()
        for record in records.values()
        if topic == b"orders" and key in decode_record(record).properties.partition(b"\x02")[0][5:].split(b" ")
    }


def test_the_number_of_a_message_whose_body_was_hit_is_not_given_again() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    for number in range(3):
        done, record = append(store, Message((b"orders", number // 2), b"body"))
    assert store.flush().error is None
    # Nothing but the record itself knows that the second queue had a message.
    heir = opened(flipped(disk, "commitlog/00000000000000000000", 8 * (done.position + record.index(b"body"))))
    assert heir.bounds(b"orders", 1) == (1, 1)
    assert append(heir, Message((b"orders", 1), b"next"))[0].offset == 1


def test_what_is_written_after_a_clean_start_is_held_against_its_checksums_too() -> None:
    disk = SimulatedDisk(page=PAGE)
    opened(disk).close(now_ms=1)
    store = opened(disk)
    done, record = append(store, Message((b"orders", 0), b"body", b"TAGS\x01red\x02", stored_ms=5_000))
    assert store.flush().error is None
    heir = opened(flipped(disk, "commitlog/00000000000000000000", 8 * (done.position + record.index(b"red"))))
    assert everything(heir) == {}
    assert [damage.records for damage in heir.damages] == [1]
