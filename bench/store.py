"""The store on a real disk: appending, reading, group commit, opening a gibibyte, and what it takes of memory.

Beside it stands the log of bench/plain_log.py, in the same run and in turns. CPU time where the processor is the
question, the best of a few runs; wall time where the disk is. Files are small enough to stay in the page cache, and
are removed at the end. Takes a minute or two, and up to 3 GiB of the folder for temporary files.
"""

import shutil
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import perf_counter, process_time

from bench.plain_log import PlainLog, index_of
from bench.table import Row
from steelyard.serve.disks import RealDisk
from steelyard.store.options import StoreOptions
from steelyard.store.store import Store

_TOPIC, _QUEUES, _PER_FLUSH, _SLICE = b"BenchmarkTest", 8, 64, 32
_HOST = bytes.fromhex("7f00000100002a9f")
_BORN_MS = 1_794_774_517_634
_BODIES = [bytes([n]) * 1024 for n in range(64)]
_PROPERTIES = [
    b"UNIQ_KEY\x017F000001788F4E0E2F2A4C7DDF81%04X\x02WAIT\x01true\x02TAGS\x01TagA\x02" % n for n in range(1000)
]
_GIB = 1 << 30
_ROOM_BYTES = 3 * _GIB
_APPENDED, _APPEND_RUNS = 64_000, 7
_READ, _READ_RUNS = 16_000, 7
_COMMIT_S, _COMMIT_RUNS = 0.5, 4
_OPENS = 2
_IDLE_QUEUES, _INDEXED = 10_000, 100_000


def run() -> Iterator[Row]:
    """Measure everything; without room on the disk there is nothing to measure."""
    free = shutil.disk_usage(gettempdir()).free
    if free < _ROOM_BYTES:
        sentence = f"{gettempdir()} has {free >> 20} MiB free, {_ROOM_BYTES >> 20} are needed"
        yield Row("store", "not measured", sentence, "", "TMPDIR names another folder", met=False)
        return
    yield _append()
    yield from _reads()
    yield from _group_commits()
    yield from _opens()
    yield _idle_queue()
    yield _indexed_message()


# -- appending --------------------------------------------------------------------------------------------------------


def _append() -> Row:
    ours_s = beside_s = float("inf")
    for _ in range(_APPEND_RUNS):
        with _store() as store:
            ours_s = min(ours_s, _cpu_s(partial(_fill, store, _APPENDED)))
        with _plain_log() as log:
            beside_s = min(beside_s, _cpu_s(partial(_fill_plain, log, _APPENDED)))
    return _rate_row("append 1 KiB, flush of 64", _APPENDED, ours_s, "a write a message", beside_s, 300_000, times=5)


def _fill(store: Store, messages: int, queues: int = _QUEUES) -> None:
    append = store.append
    for n in range(messages):
        append(
            _TOPIC,
            n % queues,
            _BODIES[n % 64],
            _PROPERTIES[n % 1000],
            born_ms=_BORN_MS + n,
            born_host=_HOST,
            stored_ms=_BORN_MS + n,
        )
        if n % _PER_FLUSH == _PER_FLUSH - 1:
            store.flush()
    store.flush()


def _fill_plain(log: PlainLog, messages: int, queues: int = _QUEUES) -> None:
    append = log.append
    for n in range(messages):
        append(
            _TOPIC,
            n % queues,
            _BODIES[n % 64],
            _PROPERTIES[n % 1000],
            born_ms=_BORN_MS + n,
            host=_HOST,
            stored_ms=_BORN_MS + n,
        )


# -- reading ----------------------------------------------------------------------------------------------------------


def _reads() -> Iterator[Row]:
    for what, queues in (("contiguous", 1), ("scattered", _QUEUES)):
        with _store() as store, _plain_log() as log:
            _fill(store, _READ, queues)
            _fill_plain(log, _READ, queues)
            assert store.read(_TOPIC, 0, _SLICE).joined() == log.read(_TOPIC, 0, _SLICE)
            ours_us = beside_us = float("inf")
            for _ in range(_READ_RUNS):
                ours_us = min(ours_us, _slice_us(lambda at: store.read(_TOPIC, 0, at).joined(), _READ // queues))
                beside_us = min(beside_us, _slice_us(lambda at: log.read(_TOPIC, 0, at), _READ // queues))
        yield Row(
            f"read a slice of {_SLICE}, {what}, as one text",
            f"{ours_us:.1f} µs",
            f"a read a message: {beside_us:.1f} µs",
            f"{beside_us / ours_us:.1f}x",
            "≥ 1x",
            ours_us <= beside_us,
        )


def _slice_us(read: Callable[[int], bytes], end: int) -> float:
    offsets = range(0, end - _SLICE, _SLICE)
    started = process_time()
    for offset in offsets:
        read(offset)
    return (process_time() - started) / len(offsets) * 1e6


# -- group commit -----------------------------------------------------------------------------------------------------


def _group_commits() -> Iterator[Row]:
    for waiters, times in ((1, 0.5), (64, 10), (1_000, 50)):
        ours = beside = 0.0
        with _store() as store, _plain_log() as log:
            for _ in range(_COMMIT_RUNS):
                ours, beside = max(ours, _acked_together(store, waiters)), max(beside, _synced_one_by_one(log))
        yield Row(
            f"group commit, {waiters:,} waiting",
            f"{ours:,.0f}/s",
            f"an fsync a message: {beside:,.0f}/s",
            f"{ours / beside:.1f}x",
            f"≥ {times:g}x",
            ours >= times * beside,
        )


def _acked_together(store: Store, waiters: int) -> float:
    """Let so many senders send one message after the other, each once the one before is safe; return acks a second.

    It goes as in a broker: while a sync runs in its thread messages come in, and the next one is for all of them.
    """
    waiting: deque[int] = deque()
    sent = 0
    with ThreadPoolExecutor(max_workers=1) as worker:
        started = perf_counter()
        while (lasted := perf_counter() - started) < _COMMIT_S:
            job = store.begin_sync()
            running = worker.submit(job.run)
            ends = [_send(store, n) for n in range(sent, sent + waiters - len(waiting))]
            sent += len(ends)
            store.flush()
            waiting.extend(ends)
            running.result()
            store.end_sync(job)
            while waiting and waiting[0] <= store.durable:
                waiting.popleft()
    return (sent - len(waiting)) / lasted


def _send(store: Store, n: int) -> int:
    place = n % _QUEUES, _BODIES[n % 64], _PROPERTIES[n % 1000]
    return store.append(_TOPIC, *place, born_ms=_BORN_MS, born_host=_HOST, stored_ms=_BORN_MS).end


def _synced_one_by_one(log: PlainLog) -> float:
    started = perf_counter()
    for n in count(1):
        log.append(_TOPIC, 0, _BODIES[n % 64], _PROPERTIES[n % 1000], born_ms=0, host=_HOST, stored_ms=0)
        log.sync()
        if (lasted := perf_counter() - started) >= _COMMIT_S:
            return n / lasted
    raise AssertionError("count never ends")


# -- opening ----------------------------------------------------------------------------------------------------------


def _opens() -> Iterator[Row]:
    with TemporaryDirectory(prefix="steelyard-bench-") as folder:
        store = Store.open(RealDisk(folder), StoreOptions())
        _fill(store, 1)
        record_bytes = store.read(_TOPIC, 0, 0).size
        messages = _GIB // record_bytes - 1
        _fill(store, messages)
        store.close(_BORN_MS)
        clean_s = min(_open_s(folder)[0] for _ in range(_OPENS))
        opened = [_open_s(folder, unclean=True) for _ in range(_OPENS)]
        unclean_s, unclean_cpu_s = (min(each) for each in zip(*opened, strict=True))
        beside_s = _plain_rebuild_s(folder, record_bytes)
    plain_s = beside_s * messages
    yield Row(
        "open 1 GiB after a clean close",
        f"{clean_s:.2f} s",
        f"a plain walk over it: {plain_s:.1f} s",
        f"{plain_s / clean_s:,.0f}x",
        "≤ 1 s",
        clean_s <= 1,
    )
    yield Row(
        "open 1 GiB after a crash",
        f"{unclean_s:.1f} s",
        f"a plain walk over it: {plain_s:.1f} s",
        f"{plain_s / unclean_s:.1f}x",
        "≤ 6 s",
        unclean_s <= 6,
    )
    yield _rate_row("rebuild from 1 KiB records", messages, unclean_cpu_s, "a plain walk", plain_s, 400_000)


def _open_s(folder: str, *, unclean: bool = False) -> tuple[float, float]:
    """Open a store and close it again; return how long the opening took, by the clock and by the processor."""
    if unclean:
        (Path(folder) / "abort").touch()  # what a process that died leaves behind
    started, cpu = perf_counter(), process_time()
    store = Store.open(RealDisk(folder), StoreOptions())
    took = perf_counter() - started, process_time() - cpu
    assert not store.damages
    store.close(_BORN_MS)
    return took


def _plain_rebuild_s(folder: str, record_bytes: int) -> float:
    """Return the seconds a message that the plain way takes, by a part of the log."""
    messages = 50_000
    with next((Path(folder) / "commitlog").iterdir()).open("rb") as file:
        log = file.read(messages * record_bytes)
    return min(_cpu_s(lambda: index_of(log)) for _ in range(3)) / messages


# -- memory -----------------------------------------------------------------------------------------------------------


def _idle_queue() -> Row:
    with _store() as store:
        ours = _traced(lambda: _send_small(store, _IDLE_QUEUES, _IDLE_QUEUES)) / _IDLE_QUEUES
    with _plain_log() as log:
        beside = _traced(lambda: _send_small_plain(log, _IDLE_QUEUES, _IDLE_QUEUES)) / _IDLE_QUEUES
    return _bytes_row("memory of an idle queue", ours, beside, goal=2048, is_met=ours < 2048)


def _indexed_message() -> Row:
    with _store() as store:
        ours = _traced(lambda: _send_small(store, _INDEXED, 1)) / _INDEXED
    with _plain_log() as log:
        beside = _traced(lambda: _send_small_plain(log, _INDEXED, 1)) / _INDEXED
    return _bytes_row("memory of a message in the index", ours, beside, goal=24, is_met=ours <= 24)


def _send_small(store: Store, messages: int, queues: int) -> None:
    for n in range(messages):
        store.append(_TOPIC, n % queues, b"", b"", born_ms=_BORN_MS, born_host=_HOST, stored_ms=_BORN_MS)
        if n % _PER_FLUSH == 0:
            store.flush()
    store.flush()


def _send_small_plain(log: PlainLog, messages: int, queues: int) -> None:
    for n in range(messages):
        log.append(_TOPIC, n % queues, b"", b"", born_ms=_BORN_MS, host=_HOST, stored_ms=_BORN_MS)


def _traced(work: Callable[[], object]) -> int:
    """Return how many bytes more are in use after some work."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    work()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before


def _bytes_row(what: str, ours: float, beside: float, *, goal: int, is_met: bool) -> Row:
    ratio = f"{beside / ours:.1f}x"
    return Row(what, f"{ours:,.0f} B", f"lists of tuples: {beside:,.0f} B", ratio, f"≤ {goal:,} B", is_met)


# -- common to all ----------------------------------------------------------------------------------------------------


@contextmanager
def _store() -> Iterator[Store]:
    with TemporaryDirectory(prefix="steelyard-bench-") as folder:
        store = Store.open(RealDisk(folder), StoreOptions())
        yield store
        store.close(_BORN_MS)


@contextmanager
def _plain_log() -> Iterator[PlainLog]:
    with TemporaryDirectory(prefix="steelyard-bench-") as folder:
        log = PlainLog(Path(folder) / "log")
        yield log
        log.close()


def _cpu_s(work: Callable[[], object]) -> float:
    started = process_time()
    work()
    return process_time() - started


def _rate_row(
    what: str, messages: int, ours_s: float, other: str, beside_s: float, goal: int, *, times: float = 1
) -> Row:
    ours, beside = messages / ours_s, messages / beside_s
    return Row(
        what,
        f"{ours / 1000:,.0f} k/s",
        f"{other}: {beside / 1000:,.0f} k/s",
        f"{ours / beside:.1f}x",
        f"≥ {goal // 1000} k/s" + (f", ≥ {times:g}x" if times > 1 else ""),
        ours >= goal and ours >= times * beside,
    )
