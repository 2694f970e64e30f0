"""What a crash leaves at the end of the log: exactly the whole records survive, and nothing stale ever comes back."""

from collections.abc import Callable

import pytest

from simulator.disk import DiskFault, SimulatedDisk
from steelyard.store.commit_log import CommitLog, Segment
from steelyard.store.store import Store
from steelyard.wire.record import decode_record
from tests.fuzzing import Dice
from tests.store.sample_messages import (
    OPTIONS,
    PAGE,
    QUEUES,
    Book,
    Message,
    MessageWriter,
    append,
    everything,
    files,
    opened,
    sync,
)

_LOG = "commitlog/00000000000000000000"


def reported(count: int, seed: int = 1) -> tuple[SimulatedDisk, list[tuple[int, int]], Book]:
    """Return a disk left by a crash, where its records begin and end, and its messages."""
    disk = SimulatedDisk(Dice(seed), page=PAGE)
    store, random = opened(disk), Dice(seed)
    book: Book = {}
    places: list[tuple[int, int]] = []
    for _ in range(count):
        message = Message.drawn(random, most_bytes=30)
        message.queue = random.choice(QUEUES[:3])
        done, record = append(store, message)
        book.setdefault(message.queue, {})[done.offset] = record
        places.append((done.position, done.end))
    assert store.flush().error is None
    return disk, places, book


def survivors_in(disk: SimulatedDisk, book: Book) -> tuple[Book, int]:
    """Return the messages whose bytes are as they were, and where the last of them ends."""
    content = disk.read(_LOG) or b""
    left, end = Book(), 0
    for queue, records in book.items():
        for offset, record in records.items():
            position = decode_record(record).position
            if content[position : position + len(record)] == record:
                left.setdefault(queue, {})[offset] = record
                end = max(end, position + len(record))
    return left, end


def recovered(disk: SimulatedDisk, expected: Book, end: int) -> Store:
    """Recover, and expect these messages and zeros behind them."""
    store = opened(disk)
    assert everything(store) == expected
    content = disk.read(_LOG) or b""
    assert len(content) == OPTIONS.segment_bytes
    assert not any(content[end:])
    return store


def settle(disk: SimulatedDisk, expected: Book, end: int) -> None:
    """Recover, and expect the same bytes from a second recovery, and appends that go on where the messages end."""
    store = recovered(disk, expected, end)
    again = disk.crash()
    recovered(again, expected, end)
    assert files(again) == files(disk)
    teller, book = MessageWriter(Dice(9), most_bytes=60), {queue: dict(records) for queue, records in expected.items()}
    teller.fill(store, 4, book)
    for queue, records in book.items():
        assert sorted(records) == list(range(len(records))), queue
    assert everything(store) == book
    assert everything(opened(disk.crash())) == book
    assert sync(store)
    for choose in (lambda _: 0, lambda outcomes: outcomes - 1):
        assert everything(opened(disk.lose_power(choose))) == book


def overwritten(disk: SimulatedDisk, at: int, tail: bytes) -> SimulatedDisk:
    """Return a copy of a disk with other bytes in its log."""
    twin = disk.crash()
    file = twin.open(_LOG)
    file.write(at, tail[: file.size - at])
    file.sync()
    file.close()
    return twin


_TAILS: dict[str, Callable[[bytes, int], bytes]] = {
    "zeros": lambda content, at: bytes(len(content) - at),
    "garbage": lambda content, at: Dice(at).randbytes(len(content) - at),
    "older records": lambda content, at: (content[:at] * 40)[: len(content) - at],
    "older records, elsewhere": lambda content, at: bytes(3) + (content[:at] * 40)[: len(content) - at - 3],
    "ones": lambda content, at: b"\xff" * (len(content) - at),
}


@pytest.mark.parametrize("kind", _TAILS)
def test_exactly_the_whole_records_survive_a_torn_tail(kind: str) -> None:
    disk, places, book = reported(8)
    content = disk.read(_LOG) or b""
    for cut in range(places[-3][0], places[-1][1]):
        torn = overwritten(disk, cut, _TAILS[kind](content, cut))
        survivors, end = survivors_in(torn, book)
        assert end <= max(places[-3][0], cut) + 8  # some bytes of the tail may be those that were there
        if cut % 9 and (cut, cut) not in places:
            recovered(torn, survivors, end)
        else:
            settle(torn, survivors, end)


@pytest.mark.parametrize("cut_to", ["shorter file", "no file"])
def test_a_log_file_that_was_cut_short_is_as_long_as_before(cut_to: str) -> None:
    disk, places, book = reported(6)
    if cut_to == "no file":
        disk.remove(_LOG)
        disk.sync_folder("commitlog")
        survivors, end = Book(), 0
    else:
        cut = places[-2][0] + 5
        twin = disk.crash()
        twin.open(_LOG).truncate(cut)
        disk, end = twin, places[-2][0]
        survivors, _ = survivors_in(disk, book)
    store = opened(disk.crash())
    assert everything(store) == survivors
    assert store.damages
    assert store.durable == end


def test_a_record_left_by_a_failed_write_is_not_there_in_this_process_nor_after_it() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    first, second = (Message((b"orders", 0), body) for body in (b"first", b"second"))
    _, record = append(store, first)
    assert store.flush().error is None
    for body in (b"gone", b"gone too"):
        append(store, Message((b"orders", 0), body))
    calls = disk.calls["write"]
    disk.faults += [DiskFault("write", calls + 1, "short_write"), DiskFault("write", calls + 2, "error")]
    flushed = store.flush()
    assert flushed.error is not None
    assert everything(store) == {(b"orders", 0): {0: record}}
    for end in (disk.crash(), disk.lose_power()):
        left = everything(opened(end)).get((b"orders", 0), {})
        assert list(left.values()) in ([], [record])
    _, other = append(store, second)
    assert store.flush().error is None
    assert sync(store)
    for end in (disk.crash(), disk.lose_power(), disk.lose_power(lambda outcomes: outcomes - 1)):
        assert everything(opened(end)) == {(b"orders", 0): {0: record, 1: other}}


def test_until_a_failed_write_is_undone_nothing_is_written() -> None:
    disk = SimulatedDisk(page=PAGE)
    file = disk.open("commitlog", create=True)
    file.truncate(4096)
    log = CommitLog(disk, 4096, [Segment(0, 4096, file, file.view())], 0)
    log.append((b"x" * 100,), 100, log.next_position(100))
    disk.faults += [DiskFault("write", 1, "short_write"), *(DiskFault("write", nth, "error") for nth in (2, 3, 4, 5))]
    assert log.flush() is not None
    assert (log.end, log.is_tail_clean) == (0, False)
    log.append((b"y" * 100,), 100, log.next_position(100))
    assert log.flush() is not None
    assert disk.read("commitlog") == b"x" * 50 + bytes(4096 - 50)
    log.append((b"y" * 10,), 10, log.next_position(10))
    assert log.flush() is None
    assert disk.read("commitlog") == b"y" * 10 + bytes(4086)
    disk.sync_folder("")
    assert disk.lose_power().read("commitlog") == bytes(4096)


def test_what_a_sum_has_condemned_does_not_come_back_without_it() -> None:
    disk = SimulatedDisk(page=PAGE)
    store = opened(disk)
    _, first = append(store, Message(QUEUES[0], b"x" * 3_500))
    done, _ = append(store, Message(QUEUES[0], b"y" * 3_500, b"TAGS\x01red\x02"))
    assert done.position == OPTIONS.segment_bytes
    assert store.flush().error is None
    assert sync(store)
    disk = disk.crash()
    file = disk.open(f"commitlog/{OPTIONS.segment_bytes:020d}")
    file.write(done.size - 2, b"q")
    file.sync()
    file.close()
    opened(disk)  # cuts the file away, and its sums with it
    for choose in (lambda _: 0, lambda outcomes: outcomes - 1):
        assert everything(opened(disk.lose_power(choose))) == {QUEUES[0]: {0: first}}
