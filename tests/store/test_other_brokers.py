"""Another broker works in the directory between two of ours: what it wrote is served, whatever our checksums say."""

import pytest

from simulator.disk import SimulatedDisk
from steelyard.wire.record import decode_record, encode_record, pack_record
from tests.fuzzing import Dice
from tests.store.sample_messages import IPV4, PAGE, Book, Message, MessageWriter, append, everything, files, opened

_LOG = "commitlog/00000000000000000000"
_QUEUE = (b"orders", 0)


def fill(disk: SimulatedDisk, count: int, *, is_closed: bool) -> list[bytes]:
    """Let us write some messages of one size, and close or crash; return their records."""
    store = opened(disk)
    records = [append(store, Message(_QUEUE, b"ours %3d" % number))[1] for number in range(count)]
    assert store.flush().error is None
    if is_closed:
        store.close(now_ms=2_000)
    return records


def work_elsewhere(disk: SimulatedDisk, keep: list[bytes], count: int) -> list[bytes]:
    """Let another broker cut the log behind some records, write its own, and close; it knows nothing of our sums."""
    position = sum(map(len, keep))
    file = disk.open(_LOG)
    file.write(position, bytes(file.size - position))
    records: list[bytes] = []
    for number in range(count):
        at = position + sum(map(len, records))
        offset = len(keep) + number
        record = pack_record(
            b"orders",
            0,
            offset,
            at,
            b"else %3d" % number,
            b"",
            born_ms=7,
            born_host=IPV4,
            stored_ms=3_000,
            store_host=IPV4,
        )
        records.append(record)
    file.write(position, b"".join(records))
    file.close()
    disk.remove("abort")
    for path in [path for path in files(disk) if path.startswith("consumequeue/")]:
        disk.remove(path)
    return records


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
@pytest.mark.parametrize("cut", [0, 1, 5])
@pytest.mark.parametrize("has_died", [True, False], ids=["it died", "it closed"])
def test_what_another_broker_wrote_is_not_held_against_our_checksums(is_closed: bool, cut: int, has_died: bool) -> None:
    disk = SimulatedDisk(Dice(1), page=PAGE)
    ours = fill(disk, 12, is_closed=is_closed)
    keep = ours[: len(ours) - cut]
    expected = dict(enumerate(keep + work_elsewhere(disk, keep, 8)))
    if has_died:
        disk.open("abort", create=True).close()
    disk = disk.crash()
    for _ in range(2):
        store = opened(disk)
        assert everything(store) == {_QUEUE: expected}
        assert not [damage for damage in store.damages if damage.records]
        disk = disk.crash()
    book: Book = {_QUEUE: dict(expected)}
    store = opened(disk)
    MessageWriter(Dice(2), now_ms=5_000).fill(store, 10, book)
    assert everything(opened(disk.crash())) == book
    store.close(now_ms=9_000)
    store = opened(disk)
    assert everything(store) == book
    assert not store.damages


def test_our_checksums_still_hold_for_what_we_wrote_before() -> None:
    disk = SimulatedDisk(Dice(1), page=PAGE)
    ours = fill(disk, 12, is_closed=True)
    theirs = work_elsewhere(disk, ours, 8)
    record = decode_record(ours[3])
    file = disk.open(_LOG)
    broken = encode_record(record)[:16] + b"\x00\x00\x00\x01" + encode_record(record)[20:]  # another flag
    file.write(record.position, broken)
    file.close()
    store = opened(disk)
    expected = dict(enumerate(ours + theirs))
    del expected[3]
    assert everything(store) == {_QUEUE: expected}
    assert [damage.records for damage in store.damages] == [1]


def test_a_topic_that_was_removed_and_made_again_begins_again() -> None:
    disk = SimulatedDisk(Dice(1), page=PAGE)
    ours = fill(disk, 6, is_closed=True)
    position = sum(map(len, ours))
    again: list[bytes] = []
    for offset in range(4):
        at = position + sum(map(len, again))
        again.append(
            pack_record(
                b"orders", 0, offset, at, b"again", b"", born_ms=7, born_host=IPV4, stored_ms=3_000, store_host=IPV4
            )
        )
    file = disk.open(_LOG)
    file.write(position, b"".join(again))
    file.close()
    for path in [path for path in files(disk) if path.startswith("consumequeue/")]:
        disk.remove(path)
    store = opened(disk)
    assert everything(store) == {_QUEUE: dict(enumerate(again))}


def test_a_record_with_an_offset_that_cannot_be_costs_itself_alone() -> None:
    for place, offset in ((0, 1 << 62), (2, 1 << 40), (5, (1 << 63) - 1)):
        disk = SimulatedDisk(Dice(1), page=PAGE)
        ours = fill(disk, 6, is_closed=False)
        file = disk.open(_LOG)
        file.write(decode_record(ours[place]).position + 20, offset.to_bytes(8, "big"))
        file.close()
        disk.remove("steelyard/sums/00000000000000000000")
        for path in [path for path in files(disk) if path.startswith("consumequeue/")]:
            disk.remove(path)
        store = opened(disk.crash())
        found = everything(store)[_QUEUE]
        assert found == {number: record for number, record in enumerate(ours) if number != place}
        assert [damage.records for damage in store.damages] == [1]


def test_a_record_within_a_damaged_body_is_not_taken_for_one() -> None:
    disk = SimulatedDisk(Dice(1), page=PAGE)
    store = opened(disk)
    done, _ = append(store, Message(_QUEUE, b"first"))
    forged_at = done.end + 91 - 3 + 40
    forged = pack_record(
        b"orders", 0, 1, forged_at, b"forged", b"", born_ms=7, born_host=IPV4, stored_ms=3_000, store_host=IPV4
    )
    bad, carrier = append(store, Message(_QUEUE, b"x" * 40 + forged + b"y" * 40))
    assert carrier.index(forged) + bad.position == forged_at
    _, last = append(store, Message(_QUEUE, b"last"))
    assert store.flush().error is None
    file = disk.open(_LOG)
    file.write(bad.position + 88 + 3, b"z")
    file.close()
    heir = opened(disk.crash())
    assert sorted(everything(heir)[_QUEUE]) == [0, 2]
    assert everything(heir)[_QUEUE][2] == last
