from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from steelyard.serve.files import RealDisk
from steelyard.serve.group_commit import GroupCommit
from steelyard.sim.disk import ForgettingDisk
from steelyard.store.disk import Disk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store

OPTIONS = StoreOptions(segment_bytes=64 * 1024)


class ByHand(Executor):
    """A worker that works when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Future[Any], Callable[..., Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *_args: Any, **_named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs.append((future, fn))
        return future

    def work(self) -> None:
        future, job = self.jobs.pop(0)
        job()
        future.set_result(None)


def opened(disk: Disk) -> Store:
    return Store.open(disk, OPTIONS)


def append(store: Store, body: bytes) -> int:
    host = OPTIONS.store_host
    end = store.append(b"orders", 0, body, b"", born_ms=1, born_host=host, stored_ms=1).end
    assert store.flush().error is None
    return end


def run_now(work: Callable[[], None]) -> None:
    work()


def test_all_who_wait_share_one_sync_and_those_who_come_later_share_the_next() -> None:
    disk = ForgettingDisk()
    store, worker, told = opened(disk), ByHand(), list[tuple[int, bool]]()
    commits = GroupCommit(store, worker, run_now)

    def note(number: int, safe: bool) -> None:
        told.append((number, safe))

    commits.wait(append(store, b"first"), partial(note, 0))
    for number in range(1, 4):
        commits.wait(append(store, b"later"), partial(note, number))
    assert len(worker.jobs) == 1
    worker.work()
    assert told == [(0, True)]
    assert len(worker.jobs) == 1
    worker.work()
    assert told == [(0, True), (1, True), (2, True), (3, True)]
    assert worker.jobs == []


def test_who_is_told_that_a_message_is_safe_finds_it_after_a_loss_of_power() -> None:
    disk = ForgettingDisk()
    store, worker, told = opened(disk), ByHand(), list[bool]()
    GroupCommit(store, worker, run_now).wait(append(store, b"safe"), told.append)
    worker.work()
    assert told == [True]
    assert opened(disk.lose_power()).bounds(b"orders", 0) == (0, 1)


def test_after_a_failed_sync_everybody_is_told_no_and_nobody_is_told_yes_again() -> None:
    disk = ForgettingDisk()
    store, worker, told = opened(disk), ByHand(), list[bool]()
    commits = GroupCommit(store, worker, run_now)
    end = append(store, b"lost?")
    disk.fail_next("fsync", "error")
    commits.wait(end, told.append)
    worker.work()
    commits.wait(end, told.append)
    assert told == [False, False]
    assert store.refusal is not None
    assert store.read(b"orders", 0, 0).count == 1


def test_what_is_safe_already_is_told_at_once() -> None:
    store, worker, told = opened(ForgettingDisk()), ByHand(), list[bool]()
    commits = GroupCommit(store, worker, run_now)
    end = append(store, b"x")
    commits.sync()
    worker.work()
    commits.wait(end, told.append)
    assert told == [True]
    assert worker.jobs == []


def test_a_thousand_waiters_on_a_real_disk_are_all_told(tmp_path: Path) -> None:
    store = opened(RealDisk(tmp_path))
    to_do: SimpleQueue[Callable[[], None]] = SimpleQueue()
    told: list[bool] = []
    with ThreadPoolExecutor(1) as worker:
        commits = GroupCommit(store, worker, to_do.put)
        for _ in range(1000):
            commits.wait(append(store, b"x" * 10), told.append)
        while len(told) < 1000:
            to_do.get(timeout=30)()
    assert all(told)
    store.close(now_ms=1)
