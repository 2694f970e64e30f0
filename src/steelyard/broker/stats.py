"""Stats: message counters that cost next to nothing on the hot paths, and counters of rare events.

On the hot paths numbers only grow. `tick` takes samples: of the whole broker every second, for its rates over ten
seconds, a minute and ten minutes; of each topic and each pair of group and topic every ten seconds, into a few buckets
of ten seconds, ten minutes and an hour, for what Apache calls its statistics. A query includes what happened since the
last sample. Days begin at midnight UTC. Everything restarts with the process, as with Apache.

Clients choose the names that label event counters, so the number of labels is limited: events beyond it are counted
under empty labels, and sums stay right.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

K = TypeVar("K")

_SECOND_MS = 1_000
_FOLD_MS = 10 * _SECOND_MS
_DAY_MS = 86_400 * _SECOND_MS
_MAX_SAMPLES = 601
_SPANS_MS = (10_000, 60_000, 600_000)

_MAX_COUNTERS = 50_000
"""A counter takes 1.5 KB, and clients choose the names; beyond this, only the whole broker is counted."""

_CELL_FIELDS = 4
"""A bucket: its number since 1970, messages, bytes and calls."""


class StatsWindow(NamedTuple):
    """A span of time in buckets, the last of which is not over yet."""

    place: int
    bucket_ms: int
    buckets: int


MINUTE = StatsWindow(0, _FOLD_MS, 7)
HOUR = StatsWindow(7, 600 * _SECOND_MS, 7)
DAY = StatsWindow(14, 3_600 * _SECOND_MS, 25)
_WINDOWS = (MINUTE, HOUR, DAY)
_EMPTY_CELLS = array("q", [-1, 0, 0, 0] * sum(window.buckets for window in _WINDOWS))


class WindowTotals(NamedTuple):
    """Traffic within a window, and how long that window is so far."""

    messages: int
    size: int
    calls: int
    covered_ms: int

    @property
    def tps(self) -> float:
        """Messages per second."""
        return self.messages * _SECOND_MS / self.covered_ms


class TrafficCounter:
    """Messages, bytes and calls, in total and by window."""

    __slots__ = ("_born_ms", "_cells", "_folded", "calls", "messages", "size")

    def __init__(self, born_ms: int) -> None:
        self.messages = self.size = self.calls = 0
        self._born_ms = born_ms
        self._folded = (0, 0, 0)
        self._cells = _EMPTY_CELLS[:]

    def fold(self, at_ms: int) -> None:
        """Add what was counted since the last call to the buckets of a time."""
        now = self.messages, self.size, self.calls
        if now == self._folded:
            return
        more = [new - old for new, old in zip(now, self._folded, strict=True)]
        self._folded = now
        for place, bucket_ms, buckets in _WINDOWS:
            number = at_ms // bucket_ms
            cell = (place + number % buckets) * _CELL_FIELDS
            if self._cells[cell] != number:
                self._cells[cell : cell + _CELL_FIELDS] = array("q", [number, 0, 0, 0])
            for at, grown in enumerate(more, cell + 1):
                self._cells[at] += grown

    def totals_within(self, window: StatsWindow, now_ms: int) -> WindowTotals:
        """Return the traffic of a window that ends now, without what was not folded yet."""
        last = now_ms // window.bucket_ms
        first = last - window.buckets + 1
        cells = [
            self._cells[cell : cell + _CELL_FIELDS]
            for cell in range(window.place * _CELL_FIELDS, (window.place + window.buckets) * _CELL_FIELDS, _CELL_FIELDS)
        ]
        _, messages, size, calls = map(
            sum, zip(*(each for each in cells if first <= each[0] <= last), _NOTHING, strict=True)
        )
        # Never less than one bucket: the first message of a topic is no rate.
        covered_ms = max(now_ms - max(first * window.bucket_ms, self._born_ms), _FOLD_MS)
        return WindowTotals(messages, size, calls, covered_ms)


_NOTHING = (0, 0, 0, 0)


class TrafficRates(NamedTuple):
    """Events per second over the last ten seconds, the last minute, the last ten minutes."""

    stored: tuple[float, ...]
    """Messages stored."""
    found: tuple[float, ...]
    """Pulls that found something."""
    missed: tuple[float, ...]
    """Pulls that found nothing."""
    delivered: tuple[float, ...]
    """Messages delivered."""


class DailyTotals(NamedTuple):
    """The total when yesterday began, when today began, and now."""

    yesterday: int
    today: int
    now: int


class _Sample(NamedTuple):
    """The whole broker at one moment."""

    at_ms: int
    stored: int
    found: int
    missed: int
    delivered: int


class TrafficStats:
    """Counters of a broker, its topics and its groups.

    >>> rates = TrafficStats(0)
    >>> rates.record_stored("orders", 3, 600)
    >>> rates.tick(10_000)
    >>> rates.stored.messages, rates.rates(10_000).stored[0]
    (3, 0.3)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.stored, self.delivered = TrafficCounter(now_ms), TrafficCounter(now_ms)
        """All messages stored, and all delivered."""
        self.empty_pulls = 0
        self._topics: dict[str, TrafficCounter] = {}
        self._pairs: dict[tuple[str, str], TrafficCounter] = {}
        self._others = TrafficCounter(now_ms)
        self._folded_ms = self._ticked_ms = now_ms
        self._samples = deque([self._sample(now_ms)], _MAX_SAMPLES)
        self._day = now_ms // _DAY_MS
        self._daily_totals = ((0, 0), (0, 0))

    def record_stored(self, topic: str, messages: int, size: int) -> None:
        """Count stored messages; a batch is one call."""
        for counter in (self._topics.get(topic) or self._new_counter(self._topics, topic), self.stored):
            counter.messages += messages
            counter.size += size
            counter.calls += 1

    def record_pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count the messages of one pull."""
        pair = group, topic
        for counter in (self._pairs.get(pair) or self._new_counter(self._pairs, pair), self.delivered):
            counter.messages += messages
            counter.size += size
            counter.calls += 1

    def record_empty_pull(self) -> None:
        """Count a pull that found nothing."""
        self.empty_pulls += 1

    def _new_counter(self, counters: dict[K, TrafficCounter], key: K) -> TrafficCounter:
        if len(self._topics) + len(self._pairs) >= _MAX_COUNTERS:
            return self._others
        return counters.setdefault(key, TrafficCounter(self._ticked_ms))

    def forget_topic(self, topic: str) -> None:
        """Drop the counters of a topic; totals stay."""
        self._topics.pop(topic, None)
        for pair in [pair for pair in self._pairs if pair[1] == topic]:
            del self._pairs[pair]

    def forget_group(self, group: str) -> None:
        """Drop the counters of a group; totals stay."""
        for pair in [pair for pair in self._pairs if pair[0] == group]:
            del self._pairs[pair]

    def tick(self, now_ms: int) -> None:
        """Take the samples that are due."""
        self._ticked_ms = now_ms
        if now_ms - self._samples[-1].at_ms >= _SECOND_MS:
            self._samples.append(self._sample(now_ms))
        if now_ms // _FOLD_MS != self._folded_ms // _FOLD_MS:
            self._fold((self.stored, self.delivered, *self._topics.values(), *self._pairs.values()))
            self._folded_ms = now_ms
        if now_ms // _DAY_MS != self._day:
            self._day = now_ms // _DAY_MS
            self._daily_totals = (self._daily_totals[1], (self.stored.messages, self.delivered.messages))

    def _fold(self, counters: Iterable[TrafficCounter]) -> None:
        for counter in counters:
            counter.fold(self._folded_ms)

    def _sample(self, now_ms: int) -> _Sample:
        delivered = self.delivered
        return _Sample(now_ms, self.stored.messages, delivered.calls, self.empty_pulls, delivered.messages)

    def topic_counter(self, topic: str) -> TrafficCounter | None:
        """Return the counter of messages stored in a topic, or None."""
        return self._folded_counter(self._topics.get(topic))

    def group_counter(self, group: str, topic: str) -> TrafficCounter | None:
        """Return the counter of a topic's messages delivered to a group, or None."""
        return self._folded_counter(self._pairs.get((group, topic)))

    def topic_counters(self) -> list[tuple[str, TrafficCounter]]:
        """List the topics with stored messages, and their counters."""
        return list(self._topics.items())

    def group_topic_counters(self) -> list[tuple[tuple[str, str], TrafficCounter]]:
        """List the pairs of group and topic with delivered messages, and their counters."""
        return list(self._pairs.items())

    def broker_counters(self) -> tuple[TrafficCounter, TrafficCounter]:
        """Return the counters of all stored and all delivered messages."""
        self._fold((self.stored, self.delivered))
        return self.stored, self.delivered

    def _folded_counter(self, counter: TrafficCounter | None) -> TrafficCounter | None:
        if counter is not None:
            counter.fold(self._folded_ms)
        return counter

    def rates(self, now_ms: int) -> TrafficRates:
        """Return the recent rates of the broker."""
        now, spans = self._sample(now_ms), []
        for start_ms in (now_ms - span_ms for span_ms in _SPANS_MS):
            before = next((each for each in reversed(self._samples) if each.at_ms <= start_ms), self._samples[0])
            # A broker that just started has no rate yet: the divisor is at least a second.
            passed_ms = max(now.at_ms - before.at_ms, _SECOND_MS)
            spans.append([(new - old) * _SECOND_MS / passed_ms for new, old in zip(now[1:], before[1:], strict=True)])
        return TrafficRates(*zip(*spans, strict=True))

    def daily_totals(self) -> tuple[DailyTotals, DailyTotals]:
        """Return the daily totals of stored and of delivered messages."""
        (stored_before, delivered_before), (stored_today, delivered_today) = self._daily_totals
        return (
            DailyTotals(stored_before, stored_today, self.stored.messages),
            DailyTotals(delivered_before, delivered_today, self.delivered.messages),
        )


_MAX_LABEL_SETS = 10_000


class LabeledCounter:
    """A counter by labels.

    >>> dead = LabeledCounter(2)
    >>> dead.add("billing", "orders")
    >>> dead.add("billing", "orders", count=2)
    >>> list(dead)
    [(('billing', 'orders'), 3)]
    """

    def __init__(self, label_count: int, max_label_sets: int = _MAX_LABEL_SETS) -> None:
        self._overflow_labels, self._max_label_sets = ("",) * label_count, max_label_sets
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        """Count events with these labels."""
        if labels not in self._counts and len(self._counts) >= self._max_label_sets:
            labels = self._overflow_labels
        self._counts[labels] = self._counts.get(labels, 0) + count

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """Iterate over a copy of labels and counts."""
        return iter(list(self._counts.items()))


class EventCounters:
    """Rare events of a broker since its start."""

    def __init__(self) -> None:
        self.dead_letters = LabeledCounter(2)
        """Dead letters, by group and by original topic."""
        self.committed, self.rolled_back = LabeledCounter(1), LabeledCounter(1)
        """Ended transactions, by the topic of their message."""
        self.fenced_commits = LabeledCounter(1)
        """Commits refused because another member holds the queue, by group."""
        self.avoided_duplicates = LabeledCounter(1)
        """Messages finished and committed before their queue was handed over, by group."""
