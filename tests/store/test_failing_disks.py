"""A disk that fails, at every call and in every way: nothing acknowledged is lost, and nothing else is acknowledged."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from simulator.disk import DiskFault, DiskFaultKind, DiskOperation, ProcessDied, SimulatedDisk
from steelyard.errors import DiskFailed, DiskFull, StoreReadOnly
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, Book, MessageWriter, Queue, everything, opened, rounds, sync

pytestmark = pytest.mark.thorough

_OPTIONS = StoreOptions(segment_bytes=4096, keep_ms=None, keep_bytes=20_000)
_STEPS = rounds(150, 500)
_CHANGES: tuple[DiskOperation, ...] = ("write", "fsync", "open", "rename", "truncate", "mkdir", "remove", "sync_folder")
_KINDS: tuple[DiskFaultKind, ...] = ("error", "no_space", "short_write", "crash_before", "crash_midway", "crash_after")


@dataclass
class Run:
    """A script of operations on a disk, and what was promised on the way."""

    disk: SimulatedDisk
    seed: int
    store: Store | None = None
    pending: list[tuple[Queue, int, bytes, int]] = field(default_factory=list)
    flushed: dict[tuple[Queue, int], tuple[bytes, int]] = field(default_factory=dict)
    """Acked as in memory: safe from a crash of the process."""
    failed: list[bytes] = field(default_factory=list)
    """Their flush failed in this process."""
    durable: dict[tuple[Queue, int], bytes] = field(default_factory=dict)
    """Acked as safe from a loss of power."""
    failures: int = 0

    def run(self, steps: int) -> None:
        """Go through the script; `ProcessDied` ends it."""
        random = Dice(self.seed)
        teller = MessageWriter(random, most_bytes=250)
        self.reopen()
        for _ in range(steps):
            step = random.random()
            if self.store is None:
                self.reopen()
            store = self.store
            if store is None:
                continue
            try:
                if step < 0.5:
                    self.append(teller, store)
                elif step < 0.75:
                    self.flush(store)
                elif step < 0.86:
                    self.sync(store)
                elif step < 0.92:
                    self.check(store)
                elif step < 0.95:
                    store.save_consume_queues()
                elif step < 0.98:
                    store.delete_expired_segments(teller.now_ms)
                else:
                    self.close(store, teller.now_ms)
            except DiskFailed:
                self.failures += 1

    def reopen(self) -> None:
        """Open the directory; a disk that fails meanwhile is tried again later."""
        try:
            self.store = opened(self.disk, _OPTIONS)
        except DiskFailed:
            self.failures += 1
        else:
            self.check(self.store)

    def append(self, teller: MessageWriter, store: Store) -> None:
        try:
            queue, done, record = teller.append(store)
        except StoreReadOnly:
            assert self.failures
            return
        self.pending.append((queue, done.offset, record, done.end))

    def flush(self, store: Store) -> None:
        flushed = store.flush()
        self.failures += flushed.error is not None
        assert all(end <= flushed.end for *_, end in self.pending) or flushed.error is not None
        for queue, offset, record, end in self.pending:
            if end <= flushed.end:
                assert (queue, offset) not in self.flushed, "an offset was given twice"
                self.flushed[queue, offset] = record, end
            else:
                self.failed.append(record)
        self.pending.clear()

    def sync(self, store: Store) -> None:
        before, is_refused = store.durable, store.read_only_reason is not None
        went_well = sync(store)
        if is_refused or not went_well:
            assert store.read_only_reason is not None
            assert store.durable == before
            self.failures += 1
        else:
            self.record_durable(store)

    def record_durable(self, store: Store) -> None:
        self.durable |= {place: record for place, (record, end) in self.flushed.items() if end <= store.durable}

    def close(self, store: Store, now_ms: int) -> None:
        self.store = None
        pending, self.pending = self.pending, []
        try:
            store.close(now_ms)
        except DiskFailed:
            self.failures += 1
        self.failed.clear()
        # What was flushed by closing may be there or not: nobody was told.
        assert self.flushed.keys().isdisjoint((queue, offset) for queue, offset, *_ in pending)

    def check(self, store: Store) -> None:
        """Expect that everything promised is there, as it was, and nothing that failed."""
        found = {
            (queue, offset): record for queue, book in everything(store).items() for offset, record in book.items()
        }
        for place, (record, _) in self.flushed.items():
            queue, offset = place
            if offset >= store.bounds(*queue)[0]:
                assert found.get(place) == record, ("lost", place)
        assert not set(found.values()) & set(self.failed), "what failed came back"
        # Messages of a close that failed halfway, or of an earlier life, are there although nobody was told.
        for place, record in found.items():
            self.flushed.setdefault(place, (record, 0))


def runs(kind: DiskFaultKind, operation: DiskOperation) -> Iterator[Run]:
    """Run the script with a fault at one call after the other, some of them or all."""
    calm = Run(SimulatedDisk(Dice(0), page=PAGE), seed=11)
    calm.run(_STEPS)
    calls = calm.disk.calls[operation]
    assert calls
    step = max(1, calls // rounds(12, 100_000))
    for nth in range(1 + calls % step, calls + 1, step):
        yield Run(SimulatedDisk(Dice(nth), page=PAGE, faults=[DiskFault(operation, nth, kind)]), seed=11)


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("operation", _CHANGES)
def test_nothing_acked_is_lost_whatever_fails(operation: DiskOperation, kind: DiskFaultKind) -> None:
    for lifetime in runs(kind, operation):
        died = False
        try:
            lifetime.run(_STEPS)
        except ProcessDied:
            died = True
        if lifetime.store is not None and not died:
            lifetime.check(lifetime.store)
            if lifetime.store.read_only_reason is None and kind != "no_space":
                lifetime.append(MessageWriter(Dice(1)), lifetime.store)
                lifetime.flush(lifetime.store)
                lifetime.check(lifetime.store)
        lifetime.failed.clear()
        heir = opened(lifetime.disk.crash(), _OPTIONS)
        lifetime.check(heir)
        go_on(heir, lifetime)
        for choose in (lambda _: 0, lambda outcomes: outcomes - 1, Dice(5).randrange):
            heir = opened(lifetime.disk.lose_power(choose), _OPTIONS)
            after = Run(lifetime.disk, 0, flushed={place: (record, 0) for place, record in lifetime.durable.items()})
            after.check(heir)
            go_on(heir, after)


def go_on(store: Store, lifetime: Run) -> None:
    """Expect that a store takes messages, under offsets that nobody has."""
    lifetime.pending.clear()
    teller = MessageWriter(Dice(77))
    for _ in range(5):
        lifetime.append(teller, store)
    lifetime.flush(store)
    assert not lifetime.failed
    lifetime.check(store)


def test_after_a_failed_sync_nothing_is_acked_and_reads_go_on() -> None:
    disk = SimulatedDisk(page=PAGE)
    store, teller = opened(disk), MessageWriter(Dice(3))
    teller.append(store)
    assert store.flush().error is None
    assert sync(store)
    durable = store.durable
    queue, done, record = teller.append(store)
    assert store.flush().error is None
    disk.fail_next("fsync", "error")
    assert not sync(store)
    assert store.read_only_reason is not None
    assert "fsync" in store.read_only_reason
    assert sync(store)
    assert store.durable == durable
    with pytest.raises(StoreReadOnly, match="fsync"):
        teller.append(store)
    assert store.read(*queue, done.offset).joined() == record
    store.close(now_ms=9)
    assert "abort" in disk.names("")


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "crashed"])
def test_what_a_failed_sync_left_unsafe_is_written_again_by_the_next_process(is_closed: bool) -> None:
    disk = SimulatedDisk(page=PAGE)
    store, book = opened(disk), Book()
    MessageWriter(Dice(3)).fill(store, 60, book)
    disk.fail_next("fsync", "error")
    assert not sync(store)
    if is_closed:
        store.close(now_ms=9)
    disk = disk.crash()
    store = opened(disk)
    assert everything(store) == book
    assert store.durable == store.flush().end > 4096
    assert everything(opened(disk.lose_power())) == book


def test_a_full_disk_takes_messages_again_once_there_is_room() -> None:
    disk = SimulatedDisk(Dice(2), capacity=20_000, page=PAGE)
    store, teller = opened(disk), MessageWriter(Dice(4))
    kept: dict[tuple[Queue, int], bytes] = {}
    full = 0
    for _ in range(300):
        queue, done, record = teller.append(store)
        flushed = store.flush()
        if done.end <= flushed.end:
            kept[queue, done.offset] = record
        else:
            assert isinstance(flushed.error, DiskFull)
            full += 1
            if full == 3:
                break
    assert full == 3
    found = everything(store)
    assert {(queue, offset): record for queue, book in found.items() for offset, record in book.items()} == kept
    disk._capacity = None
    queue, done, record = teller.append(store)
    assert store.flush().error is None
    kept[queue, done.offset] = record
    assert sync(store)
    found = everything(opened(disk.lose_power()))
    assert {(queue, offset): record for queue, book in found.items() for offset, record in book.items()} == kept


def test_a_disk_that_does_not_take_checksums_costs_nothing_but_them() -> None:
    disk = SimulatedDisk(page=PAGE)
    store, teller = opened(disk), MessageWriter(Dice(3), most_bytes=20)
    book: dict[Queue, dict[int, bytes]] = {}
    for fault in ("error", "short_write", "no_space", None):
        queue, done, record = teller.append(store)
        if fault is not None:
            disk.faults.append(DiskFault("write", disk.calls["write"] + 2, fault))
            disk.faults.append(DiskFault("write", disk.calls["write"] + 3, "error"))
        assert store.flush().error is None
        disk.faults.clear()
        book.setdefault(queue, {})[done.offset] = record
    assert everything(store) == book
    checksums = disk.read("steelyard/sums/00000000000000000000") or b""
    assert len(checksums) % 16 == 0
    heir = opened(disk.crash())
    assert everything(heir) == book
    assert not [damage for damage in heir.damages if damage.records]
