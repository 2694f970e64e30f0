"""Syncs in another thread: in order, beside appends, and never for more than they did."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from simulator.disk import SimulatedDisk
from steelyard.serve.disks import RealDisk
from steelyard.store.options import StoreOptions
from tests.fuzzing import Dice
from tests.store.sample_messages import PAGE, MessageWriter, everything, opened, sync


def test_a_later_sync_does_not_vouch_for_an_earlier_one() -> None:
    disk = SimulatedDisk(page=PAGE)
    store, teller = opened(disk), MessageWriter(Dice(3))
    jobs = []
    for _ in range(2):
        for _ in range(40):
            teller.append(store)
        assert store.flush().error is None
        jobs.append(store.begin_sync())
    first, second = jobs
    second.run()
    store.end_sync(second)
    assert store.durable == 0
    first.run()
    store.end_sync(first)
    assert store.durable == second.end
    teller.append(store)
    assert store.flush().error is None
    never_run = store.begin_sync()
    store.end_sync(never_run)
    assert store.durable == second.end
    assert sync(store)
    assert store.durable == never_run.end


def test_a_sync_in_a_thread_runs_beside_appends_reads_and_retention(tmp_path: Path) -> None:
    options = StoreOptions(segment_bytes=4_096, keep_ms=None, keep_bytes=12_000)
    disk = RealDisk(tmp_path)
    store, teller = opened(disk, options), MessageWriter(Dice(3))
    with ThreadPoolExecutor(1) as worker:
        job = store.begin_sync()
        running = worker.submit(job.run)
        for number in range(300):
            teller.append(store)
            assert store.flush().error is None
            if running.done():
                assert job.error is None
                store.end_sync(job)
                assert store.durable >= job.end
                job = store.begin_sync()
                running = worker.submit(job.run)
            if number % 20 == 0:
                store.delete_expired_segments(teller.now_ms)
                everything(store)
    store.end_sync(job)
    assert sync(store)
    assert store.durable == store.flush().end
    store.delete_expired_segments(teller.now_ms)
    assert len(disk.names("commitlog")) <= 4
    book = everything(store)
    store.close(teller.now_ms)
    store = opened(RealDisk(tmp_path), options)
    assert everything(store) == book
    store.close(teller.now_ms)
