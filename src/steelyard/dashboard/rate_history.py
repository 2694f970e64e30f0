"""Rate history: message rates of topics, and rates and lag of groups, over the last hours, sampled once a minute.

Samples are kept as lines of JSON, in memory and, where the dashboard has a folder, in a file that its next start reads.
Both are bounded, in the number of samples and in the topics and groups of each. A line holds counters; rates are
computed between two lines when a browser asks for them.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct

from steelyard.client.admin.admin import Admin
from steelyard.errors import SteelyardError
from steelyard.net.clock import now_ms

_FIRST_SAMPLE_S = 5.0
_SAMPLE_PERIOD_S = 60.0
KEPT_MS = 6 * 3_600_000
_MAX_SAMPLES = KEPT_MS // 60_000
_MAX_NAMES = 200  # topics, and groups, that are sampled: each is a request to all brokers
_MAX_LINE_BYTES = 256 * 1024
_GAP_MS = 300_000  # samples that are further apart are not connected in a chart
_FILE = "rates.jsonl"

_log = logging.getLogger("steelyard.dashboard")


class RateSample(Struct, frozen=True, array_like=True):
    """The counters of a moment."""

    at_ms: int
    topics: dict[str, int]  # the messages that were ever stored in a topic
    groups: dict[str, tuple[int | None, int]]  # the lag of a group, and the messages that it ever consumed


class HistoryPoint(Struct, frozen=True, array_like=True):
    """A moment in a chart; a gap has neither rate nor lag."""

    at_ms: int
    rate: float | None = None  # messages per second since the last sample
    lag: int | None = None


_decoder = msgspec.json.Decoder(RateSample)


class RateHistory:
    """The samples of the last hours. What was kept in the folder is there again."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = None if folder is None else folder / _FILE
        self._lines: deque[bytes] = deque(maxlen=_MAX_SAMPLES)
        self._lines_in_file = 0
        if self._file is not None:
            with suppress(OSError):
                self._load(self._file)

    def _load(self, file: Path) -> None:
        oldest_ms = now_ms() - KEPT_MS
        with file.open("rb") as kept:
            while line := kept.readline(_MAX_LINE_BYTES):
                self._lines_in_file += 1
                # A line is cut off where the last process was killed.
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    if _decoder.decode(line).at_ms >= oldest_ms:
                        self._lines.append(line.rstrip(b"\n"))

    def add(self, sample: RateSample) -> None:
        """Add a sample, also to the file."""
        line = msgspec.json.encode(sample)
        if len(line) >= _MAX_LINE_BYTES:
            return
        self._lines.append(line)
        if self._file is not None:
            try:
                self._write(self._file, line)
            except OSError as error:
                _log.warning("the history of rates is not kept any more: %s: %s", self._file, error)
                self._file = None

    def _write(self, file: Path, line: bytes) -> None:
        if self._lines_in_file < 2 * _MAX_SAMPLES:
            self._lines_in_file += 1
            file.parent.mkdir(0o700, parents=True, exist_ok=True)
            # The line break comes first: what a killed process left of its last line ends there.
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as kept:
                kept.write(b"\n" + line)
            return
        shorter = file.with_suffix(".new")
        with os.fdopen(os.open(shorter, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as kept:
            kept.write(b"\n".join(self._lines))
        shorter.replace(file)
        self._lines_in_file = len(self._lines)

    def of_topic(self, topic: str) -> tuple[HistoryPoint, ...]:
        """Return the rate at which messages were stored in a topic."""
        return _points([(each.at_ms, each.topics[topic], None) for each in self._samples() if topic in each.topics])

    def of_group(self, group: str) -> tuple[HistoryPoint, ...]:
        """Return the lag of a group, and the rate at which it consumed."""
        known = [(each.at_ms, each.groups[group]) for each in self._samples() if group in each.groups]
        return _points([(at_ms, consumed, lag) for at_ms, (lag, consumed) in known])

    def _samples(self) -> Iterator[RateSample]:
        return map(_decoder.decode, self._lines)


def _points(counts: Sequence[tuple[int, int, int | None]]) -> tuple[HistoryPoint, ...]:
    """Compute rates between counters; a counter that goes back was reset, and has no rate.

    >>> _points([(0, 100, 5), (60_000, 160, 3), (120_000, 0, 9)])[1:]
    (HistoryPoint(at_ms=60000, rate=1.0, lag=3), HistoryPoint(at_ms=120000, rate=None, lag=9))
    """
    found = [HistoryPoint(at_ms, None, lag) for at_ms, _, lag in counts[:1]]
    for (before_ms, before, _), (at_ms, count, lag) in pairwise(counts):
        span_ms = at_ms - before_ms
        if span_ms > _GAP_MS:
            found.append(HistoryPoint(before_ms + 1))
        is_known = 0 < span_ms <= _GAP_MS and count >= before
        found.append(HistoryPoint(at_ms, (count - before) * 1_000 / span_ms if is_known else None, lag))
    return tuple(found)


async def take_sample(admin: Admin) -> RateSample:
    """Ask brokers for the counters of now, one topic or group after the other; what fails is left out."""
    topics: dict[str, int] = {}
    groups: dict[str, tuple[int | None, int]] = {}
    for topic in (await admin.topics.list())[:_MAX_NAMES]:
        with suppress(SteelyardError):
            topics[topic.name] = sum(each.end for each in (await admin.topics.describe(topic.name)).queues)
    for name in (await admin.groups.names())[:_MAX_NAMES]:
        with suppress(SteelyardError):
            view = await admin.groups.summarize(name)
            groups[name] = None if view.broadcast else view.lag, sum(each.committed or 0 for each in view.queues)
    return RateSample(now_ms(), topics, groups)


async def keep_sampling(admin: Admin, history: RateHistory) -> None:
    """Add a sample each minute, from a few seconds after the start on, until this is cancelled."""
    await asyncio.sleep(_FIRST_SAMPLE_S)
    while True:
        try:
            history.add(await take_sample(admin))
        except SteelyardError:
            pass  # a cluster that does not answer leaves a gap
        except Exception:
            _log.exception("bug while sampling rates")
        await asyncio.sleep(_SAMPLE_PERIOD_S)
