"""Benchmark runs: a topic of the run, load at a steady rate, reading, latency histogram and results.

The histogram keeps any number of latencies in a few kilobytes: buckets of a microsecond below 64 of them, and above of
1/32 of the value, so that a percentile is at most three percent too high. Minimum, maximum and mean are exact.
"""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steelyard.cli.consume_run import tools_consumer
from steelyard.cli.shared.terminal import ProgressLine, print_error, print_note
from steelyard.client.admin import Admin
from steelyard.client.producer.producer import Producer
from steelyard.client.pull_consumer.pull_consumer import PullConsumer
from steelyard.errors import ConfigurationError, PartlySent, SteelyardError
from steelyard.model import Message
from steelyard.model.formatting import pluralize

if TYPE_CHECKING:
    from steelyard.cli.shared.terminal import StopSignal
    from steelyard.client.config import ClientConfig
    from steelyard.model import Queue


@asynccontextmanager
async def _bench_topic(config: "ClientConfig", topic_name: str | None, queues: int) -> AsyncIterator[str]:
    """Yield an existing topic, or create one and delete it afterwards."""
    async with Admin(config) as admin:
        if topic_name is not None:
            await admin.topics.describe(topic_name)
            yield topic_name
            return
        own = f"steelyard-bench-{secrets.token_hex(4)}"
        await admin.topics.create(own, queues)
        try:
            yield own
        finally:
            await admin.topics.delete(own)
            print_note(f"topic {own} was created for this, and is deleted")


_BUCKET_BITS = 5
_BUCKETS = 1 << _BUCKET_BITS
_MAX_US = 1 << 40
"""Twelve days."""


class BenchLatencyHistogram:
    """Latencies in microseconds.

    >>> times = BenchLatencyHistogram()
    >>> for took_us in range(1, 1001):
    ...     times.record(took_us)
    >>> times.count, times.min_us, times.mean_us, times.percentile_us(50), times.max_us
    (1000, 1, 500.5, 503, 1000)
    """

    __slots__ = ("_counts", "_sum", "count", "max_us", "min_us")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._sum = 0
        self.count = 0
        self.min_us: int | None = None
        self.max_us: int | None = None

    def record(self, took_us: int) -> None:
        """Add a latency; a negative one, as clocks may produce, counts as zero."""
        took_us = min(max(0, took_us), _MAX_US)
        shift = max(0, took_us.bit_length() - _BUCKET_BITS - 1)
        step = (shift << _BUCKET_BITS) + (took_us >> shift)
        self._counts[step] = self._counts.get(step, 0) + 1
        self._sum += took_us
        self.count += 1
        if self.min_us is None or took_us < self.min_us:
            self.min_us = took_us
        if self.max_us is None or took_us > self.max_us:
            self.max_us = took_us

    @property
    def mean_us(self) -> float | None:
        """The average."""
        return self._sum / self.count if self.count else None

    def percentile_us(self, percent: float) -> int | None:
        """Return the latency that so many percent do not exceed."""
        if self.max_us is None:
            return None
        wanted, seen = percent / 100 * self.count, 0
        for step in sorted(self._counts):
            seen += self._counts[step]
            if seen >= wanted:
                return min(_bucket_end(step), self.max_us)
        return self.max_us


def _bucket_end(bucket: int) -> int:
    """Return the greatest latency of a bucket."""
    shift = max(0, (bucket >> _BUCKET_BITS) - 1)
    return ((bucket - (shift << _BUCKET_BITS) + 1) << shift) - 1


_LOG_EVERY_S = 5.0
_MB = 1_000_000
_PERCENTILES = (50, 99)


class BenchStats:
    """Counts messages and failures, and measures latency."""

    def __init__(self, done: str) -> None:
        self.done = done
        """``sent`` or ``received``."""
        self.messages = self.failed = self.body_bytes = 0
        self.latencies = BenchLatencyHistogram()
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self._start_s = self._last_s = time.perf_counter()
        self.start_ms = time.time_ns() // 1_000_000

    def record(self, messages: int, body_bytes: int) -> None:
        """Count messages that are done."""
        self.messages += messages
        self.body_bytes += body_bytes
        self._last_s = time.perf_counter()

    def record_failure(self, messages: int, error: "SteelyardError") -> None:
        """Count messages that failed; the first failure is printed."""
        if not self.failed:
            print_error(str(error))
        self.failed += messages

    @property
    def elapsed_s(self) -> float:
        """From the start to the last message."""
        return self._last_s - self._start_s

    def progress_text(self) -> str:
        """Return the progress as one line."""
        p99 = self.latencies.percentile_us(99)
        latency = "" if p99 is None else f", p99 {p99 / 1000:.2f} ms"
        return f"{self.messages} {self.done}, {self._rate(self.messages):.0f}/s{latency}, {self.failed} failed"

    def results(self) -> dict[str, object]:
        """Return the results of the run."""
        times = self.latencies
        return {
            self.done: self.messages,
            "failed": self.failed,
            "bytes": self.body_bytes,
            "seconds": round(self.elapsed_s, 3),
            "per_second": round(self._rate(self.messages), 1),
            "mb_per_second": round(self._rate(self.body_bytes / _MB), 3),
            "min_ms": _milliseconds(times.min_us),
            "avg_ms": _milliseconds(times.mean_us),
            **{f"p{percent}_ms": _milliseconds(times.percentile_us(percent)) for percent in _PERCENTILES},
            "max_ms": _milliseconds(times.max_us),
        }

    def _rate(self, amount: float) -> float:
        return amount / self.elapsed_s if self.elapsed_s > 0 else 0.0


def _milliseconds(us: float | None) -> float | None:
    return None if us is None else round(us / 1000, 3)


_PRODUCER_GROUP = "STEELYARD_BENCH"

_REPORT_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class BenchLoad:
    """What to send: the size of bodies, and how many or for how long."""

    size: int
    count: int | None
    duration_s: float | None
    in_flight: int
    batch: int
    rate: float | None

    def __post_init__(self) -> None:
        if self.rate is not None and self.batch > 1:
            raise ConfigurationError("--rate is for single messages", next_step="leave out --batch")


class _SendSchedule:
    """Hands out batch sizes to senders, at the wanted rate."""

    def __init__(self, load: BenchLoad) -> None:
        self._load = load
        self._scheduled = 0
        self._start_s = time.perf_counter()

    def next_batch(self) -> int:
        """Return how many messages to send next in one batch; 0 at the end."""
        load = self._load
        if load.duration_s is not None:
            # At a steady rate batches are handed out ahead of their time.
            at_s = time.perf_counter() - self._start_s if load.rate is None else self._scheduled / load.rate
            if at_s >= load.duration_s:
                return 0
        left = load.batch if load.count is None else min(load.batch, load.count - self._scheduled)
        self._scheduled += left
        return left

    async def wait_turn(self) -> None:
        """Wait until the batch that was handed out last is due."""
        if self._load.rate is not None:
            at_s = self._start_s + (self._scheduled - 1) / self._load.rate
            wait_s = at_s - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)


async def _send_load(producer: "Producer", topic: str, load: BenchLoad, stats: BenchStats, stop: "StopSignal") -> None:
    """Send until the load is done, or stopped."""
    # Random bytes cannot be compressed.
    message = Message(topic, os.urandom(load.size))
    schedule = _SendSchedule(load)
    stats.start()

    async def send_in_turn() -> None:
        while not stop and (together := schedule.next_batch()):
            await schedule.wait_turn()
            if stop:
                return
            begin_s = time.perf_counter()
            try:
                if together == 1:
                    await producer.send(message)
                else:
                    await producer.send_many([message] * together)
            except PartlySent as error:
                stats.record_failure(together - len(error.stored), error)
                stats.record(len(error.stored), len(error.stored) * load.size)
            except SteelyardError as error:
                stats.record_failure(together, error)
            else:
                stats.latencies.record(round((time.perf_counter() - begin_s) * 1e6))
                stats.record(together, together * load.size)

    await asyncio.gather(*(send_in_turn() for _ in range(load.in_flight)))


async def run_load(
    config: "ClientConfig", topic_name: str | None, queues: int, load: BenchLoad, stats: BenchStats, stop: "StopSignal"
) -> None:
    """Send to an existing topic, or to one of the run's own, and report progress."""
    async with _bench_topic(config, topic_name, queues) as topic, Producer(config, _PRODUCER_GROUP) as producer:
        sending = asyncio.ensure_future(_send_load(producer, topic, load, stats, stop))
        await asyncio.gather(sending, _report_until(stats, sending.done))


async def _report_until(stats: BenchStats, is_done: Callable[[], bool]) -> None:
    """Report progress until it is done: on a terminal a line that is redrawn, else one every five seconds."""
    progress, next_s = ProgressLine(), time.monotonic() + _LOG_EVERY_S
    try:
        while not is_done():
            await asyncio.sleep(_REPORT_EVERY_S)
            if sys.stderr.isatty():
                progress.update(stats.progress_text)
            elif time.monotonic() >= next_s:
                next_s += _LOG_EVERY_S
                print_note(stats.progress_text())
    finally:
        progress.clear()


_POLL_S = 0.2
_POLL_MAX = 1_000
_MISSING_TIMEOUT_S = 10.0
"""How long to wait for a sent message that does not arrive."""


@dataclass(frozen=True, slots=True)
class BenchReadOptions:
    """Where to begin reading, and when to stop."""

    start: str
    count: int | None
    duration_s: float | None


async def read_topic(
    config: "ClientConfig", topic: str, options: BenchReadOptions, stats: BenchStats, stop: "StopSignal"
) -> None:
    """Read an existing topic until it is enough, or stopped."""
    async with _bench_topic(config, topic, 0), tools_consumer(config) as puller:
        queues = await _assign_and_seek(puller, topic, options.start, stats)
        ends = await puller.ends(queues)
        to_end = options.start == "first" and options.duration_s is None
        unread = set(queues)

        async def is_enough() -> bool:
            nonlocal unread
            if not to_end:
                return False
            unread = {queue for queue in unread if await puller.position(queue) < ends[queue]}
            return not unread

        reading = asyncio.ensure_future(_read_messages(puller, options, stats, lambda: bool(stop), is_enough))
        await asyncio.gather(reading, _report_until(stats, reading.done))


async def read_own_topic(
    config: "ClientConfig", load: BenchLoad, queues: int, send_stats: BenchStats, stats: BenchStats, stop: "StopSignal"
) -> None:
    """Create a topic, fill it first or meanwhile, and read it to its end."""
    async with _bench_topic(config, None, queues) as topic, Producer(config, _PRODUCER_GROUP) as producer:

        def start_sending() -> asyncio.Future[None]:
            return asyncio.ensure_future(_send_load(producer, topic, load, send_stats, stop))

        if load.rate is None:
            sending = start_sending()
            await asyncio.gather(sending, _report_until(send_stats, sending.done))
            print_note(f"filled {topic} with {pluralize(send_stats.messages, 'message')}")
        async with tools_consumer(config) as puller:
            await _assign_and_seek(puller, topic, "first", stats)
            if load.rate is not None:  # not before the reader is ready: the age of every message counts
                sending = start_sending()
            idle = _IdleTimeout(stats)

            async def is_enough() -> bool:
                return sending.done() and (stats.messages >= send_stats.messages or idle.has_expired())

            everything = BenchReadOptions("first", None, None)
            reading = asyncio.ensure_future(_read_messages(puller, everything, stats, lambda: bool(stop), is_enough))
            await asyncio.gather(sending, reading, _report_until(stats, reading.done))


class _IdleTimeout:
    """Expires when no message has arrived for too long."""

    def __init__(self, stats: BenchStats) -> None:
        self._stats, self._seen, self._since_s = stats, 0, time.monotonic()

    def has_expired(self) -> bool:
        if self._stats.messages != self._seen:
            self._seen, self._since_s = self._stats.messages, time.monotonic()
        return time.monotonic() - self._since_s > _MISSING_TIMEOUT_S


async def _assign_and_seek(puller: PullConsumer, topic: str, start: str, stats: BenchStats) -> "list[Queue]":
    queues = await puller.queues(topic)
    puller.assign(queues)
    stats.start()  # messages arrive from here on
    for queue in queues:
        await puller.seek(queue, start)
    return queues


async def _read_messages(
    puller: PullConsumer,
    options: BenchReadOptions,
    stats: BenchStats,
    is_stopped: Callable[[], bool],
    is_enough: Callable[[], Awaitable[bool]],
) -> None:
    begin_s = time.monotonic()
    while not is_stopped() and not await is_enough():
        if options.duration_s is not None and time.monotonic() - begin_s >= options.duration_s:
            return
        left = _POLL_MAX if options.count is None else min(_POLL_MAX, options.count - stats.messages)
        if not left:
            return
        found = await puller.poll(timeout_s=_POLL_S, most=left)
        puller.forget()
        if found:
            stats.record(len(found), sum(len(message.body) for message in found))
        now_ms = time.time() * 1000
        for message in found:
            if message.born_ms >= stats.start_ms:
                stats.latencies.record(round((now_ms - message.born_ms) * 1000))
