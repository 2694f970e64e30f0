"""How much comes and goes: counters that cost next to nothing where messages pass, and are looked at now and then.

On the hot paths numbers only grow. `tick` takes samples: of the whole broker every second, for its speed over ten
seconds, a minute and ten minutes; of each topic and each pair of group and topic every ten seconds, into a few buckets
of ten seconds, ten minutes and an hour, for what Apache calls its statistics. Who asks gets what happened since the
last sample as well. Days begin at midnight in UTC. All of it begins anew with the process, as with Apache.
"""

from array import array
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["DAY", "HOUR", "MINUTE", "Counter", "Flow", "Mornings", "Rates", "Speeds", "Window"]

_SECOND_MS = 1_000
_FOLD_MS = 10 * _SECOND_MS
_DAY_MS = 86_400 * _SECOND_MS
_SAMPLES = 601
_SPANS_MS = (10_000, 60_000, 600_000)

_MOST_COUNTERS = 50_000
"""A counter takes 1.5 KB, and clients choose the names; what comes beyond is counted for the whole broker alone."""

_CELL = 4
"""Of a bucket: its number since 1970, messages, bytes and calls."""


class Window(NamedTuple):
    """A span of time as buckets, the last of which is not over yet."""

    place: int
    bucket_ms: int
    buckets: int


MINUTE = Window(0, _FOLD_MS, 7)
HOUR = Window(7, 600 * _SECOND_MS, 7)
DAY = Window(14, 3_600 * _SECOND_MS, 25)
_WINDOWS = (MINUTE, HOUR, DAY)
_NEVER = array("q", [-1, 0, 0, 0] * sum(window.buckets for window in _WINDOWS))


class Flow(NamedTuple):
    """What passed within a window, and how long that window is so far."""

    messages: int
    size: int
    calls: int
    covered_ms: int

    @property
    def tps(self) -> float:
        """Messages a second."""
        return self.messages * _SECOND_MS / self.covered_ms


class Counter:
    """What passed one place: messages, bytes and calls, in all and lately."""

    __slots__ = ("_born_ms", "_cells", "_folded", "calls", "messages", "size")

    def __init__(self, born_ms: int) -> None:
        self.messages = self.size = self.calls = 0
        self._born_ms = born_ms
        self._folded = (0, 0, 0)
        self._cells = _NEVER[:]

    def fold(self, at_ms: int) -> None:
        """Put what was counted since the last time into the buckets of a time."""
        now = self.messages, self.size, self.calls
        if now == self._folded:
            return
        more = [new - old for new, old in zip(now, self._folded, strict=True)]
        self._folded = now
        for place, bucket_ms, buckets in _WINDOWS:
            number = at_ms // bucket_ms
            cell = (place + number % buckets) * _CELL
            if self._cells[cell] != number:
                self._cells[cell : cell + _CELL] = array("q", [number, 0, 0, 0])
            for at, grown in enumerate(more, cell + 1):
                self._cells[at] += grown

    def within(self, window: Window, now_ms: int) -> Flow:
        """Return what passed within a window that ends now; what was not folded yet is missing."""
        last = now_ms // window.bucket_ms
        first = last - window.buckets + 1
        cells = [
            self._cells[cell : cell + _CELL]
            for cell in range(window.place * _CELL, (window.place + window.buckets) * _CELL, _CELL)
        ]
        _, messages, size, calls = map(
            sum, zip(*(each for each in cells if first <= each[0] <= last), _NOTHING, strict=True)
        )
        # Never less than one bucket: the first message of a topic is no speed.
        covered_ms = max(now_ms - max(first * window.bucket_ms, self._born_ms), _FOLD_MS)
        return Flow(messages, size, calls, covered_ms)


_NOTHING = (0, 0, 0, 0)


class Speeds(NamedTuple):
    """How often a second, on average over the last ten seconds, the last minute, the last ten minutes."""

    stored: tuple[float, ...]
    """Messages stored."""
    found: tuple[float, ...]
    """Pulls that found something."""
    missed: tuple[float, ...]
    """Pulls that found nothing."""
    delivered: tuple[float, ...]
    """Messages delivered."""


class Mornings(NamedTuple):
    """How much there had been in all when yesterday began, when today began, and now."""

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


class Rates:
    """Counters of a broker, its topics and its groups.

    >>> rates = Rates(0)
    >>> rates.sent("orders", 3, 600)
    >>> rates.tick(10_000)
    >>> rates.stored.messages, rates.speeds(10_000).stored[0]
    (3, 0.3)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.stored, self.delivered = Counter(now_ms), Counter(now_ms)
        """All messages that came in, and all that went out."""
        self.missed_pulls = 0
        self._topics: dict[str, Counter] = {}
        self._pairs: dict[tuple[str, str], Counter] = {}
        self._others = Counter(now_ms)
        self._folded_ms = self._ticked_ms = now_ms
        self._samples = deque([self._sample(now_ms)], _SAMPLES)
        self._day = now_ms // _DAY_MS
        self._mornings = ((0, 0), (0, 0))

    # -- counting -----------------------------------------------------------------------------------------------------

    def sent(self, topic: str, messages: int, size: int) -> None:
        """Count messages that came in, with one call for those that came together."""
        counter = self._topics.get(topic) or self._new_topic(topic)
        counter.messages += messages
        counter.size += size
        counter.calls += 1
        counter = self.stored
        counter.messages += messages
        counter.size += size
        counter.calls += 1

    def pulled(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count messages that went out with one pull."""
        counter = self._pairs.get((group, topic)) or self._new_pair(group, topic)
        counter.messages += messages
        counter.size += size
        counter.calls += 1
        counter = self.delivered
        counter.messages += messages
        counter.size += size
        counter.calls += 1

    def missed(self) -> None:
        """Count a pull that found nothing."""
        self.missed_pulls += 1

    def _new_topic(self, topic: str) -> Counter:
        if self._is_full():
            return self._others
        return self._topics.setdefault(topic, Counter(self._ticked_ms))

    def _new_pair(self, group: str, topic: str) -> Counter:
        if self._is_full():
            return self._others
        return self._pairs.setdefault((group, topic), Counter(self._ticked_ms))

    def _is_full(self) -> bool:
        return len(self._topics) + len(self._pairs) >= _MOST_COUNTERS

    def forget_topic(self, topic: str) -> None:
        """Forget what was counted of a topic; what was counted in all stays."""
        self._topics.pop(topic, None)
        for pair in [pair for pair in self._pairs if pair[1] == topic]:
            del self._pairs[pair]

    def forget_group(self, group: str) -> None:
        """Forget what was counted of a group; what was counted in all stays."""
        for pair in [pair for pair in self._pairs if pair[0] == group]:
            del self._pairs[pair]

    # -- time passes --------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Take the samples that are due."""
        self._ticked_ms = now_ms
        if now_ms - self._samples[-1].at_ms >= _SECOND_MS:
            self._samples.append(self._sample(now_ms))
        if now_ms // _FOLD_MS != self._folded_ms // _FOLD_MS:
            self._fold(self._counters())
            self._folded_ms = now_ms
        if now_ms // _DAY_MS != self._day:
            self._day = now_ms // _DAY_MS
            self._mornings = (self._mornings[1], (self.stored.messages, self.delivered.messages))

    def _counters(self) -> Iterable[Counter]:
        return (self.stored, self.delivered, *self._topics.values(), *self._pairs.values())

    def _fold(self, counters: Iterable[Counter]) -> None:
        for counter in counters:
            counter.fold(self._folded_ms)

    def _sample(self, now_ms: int) -> _Sample:
        delivered = self.delivered
        return _Sample(now_ms, self.stored.messages, delivered.calls, self.missed_pulls, delivered.messages)

    # -- asking -------------------------------------------------------------------------------------------------------

    def of_topic(self, topic: str) -> Counter | None:
        """Return the counter of what came into a topic; None if nothing did."""
        return self._up_to_date(self._topics.get(topic))

    def of_group(self, group: str, topic: str) -> Counter | None:
        """Return the counter of what a group got of a topic; None if nothing."""
        return self._up_to_date(self._pairs.get((group, topic)))

    def topics(self) -> list[tuple[str, Counter]]:
        """List the topics that something came into, with their counters."""
        return list(self._topics.items())

    def pairs(self) -> list[tuple[tuple[str, str], Counter]]:
        """List the pairs of group and topic of which the group got something, with their counters."""
        return list(self._pairs.items())

    def of_broker(self) -> tuple[Counter, Counter]:
        """Return the counters of all that came in and all that went out."""
        self._fold((self.stored, self.delivered))
        return self.stored, self.delivered

    def _up_to_date(self, counter: Counter | None) -> Counter | None:
        if counter is not None:
            counter.fold(self._folded_ms)
        return counter

    def speeds(self, now_ms: int) -> Speeds:
        """Return how fast the broker was lately."""
        now = self._sample(now_ms)
        spans = [_speeds(now, self._sample_before(now_ms - span_ms)) for span_ms in _SPANS_MS]
        return Speeds(*zip(*spans, strict=True))

    def _sample_before(self, at_ms: int) -> _Sample:
        """Return the last sample that is not younger than a time, or the oldest there is."""
        return next((sample for sample in reversed(self._samples) if sample.at_ms <= at_ms), self._samples[0])

    def mornings(self) -> tuple[Mornings, Mornings]:
        """Return the sums of what came in and of what went out, day by day."""
        (stored_before, delivered_before), (stored_today, delivered_today) = self._mornings
        return (
            Mornings(stored_before, stored_today, self.stored.messages),
            Mornings(delivered_before, delivered_today, self.delivered.messages),
        )


def _speeds(now: _Sample, before: _Sample) -> list[float]:
    # A broker that just started has no speed yet: a second is the least that is divided by.
    passed_ms = max(now.at_ms - before.at_ms, _SECOND_MS)
    return [(new - old) * _SECOND_MS / passed_ms for new, old in zip(now[1:], before[1:], strict=True)]
