"""How a consumer gets on with each topic: messages a second, milliseconds each, failures. What tools ask for (307)."""

from collections import deque
from collections.abc import Callable, Sequence

from steelyard.net.clock import now_ms
from steelyard.wire.bodies.running import TopicState

__all__ = ["Tallies"]

_SPAN_MS = 60_000
"""Rates are those of the last minute, as far as it was counted."""
_FAILURES_MS = 3_600_000


class _Tally:
    __slots__ = ("done", "failed", "samples", "took_ns")

    def __init__(self, began_ms: int) -> None:
        self.done = self.failed = self.took_ns = 0
        self.samples: deque[tuple[int, int, int, int]] = deque([(began_ms, 0, 0, 0)])

    def sample(self, now_ms: int) -> None:
        self.samples.append((now_ms, self.done, self.failed, self.took_ns))
        # The oldest is kept for the failures of the last hour.
        while len(self.samples) > 2 and now_ms - self.samples[1][0] >= _FAILURES_MS:
            self.samples.popleft()

    def state(self, now_ms: int) -> TopicState:
        hour_ms = now_ms - _FAILURES_MS
        failed_before = next((failed for at_ms, _, failed, _ in self.samples if at_ms >= hour_ms), 0)
        since = next((each for each in self.samples if each[0] >= now_ms - _SPAN_MS), (now_ms, 0, 0, 0))
        span_s = max(1.0, (now_ms - since[0]) / 1000)
        done, failed, took_ns = self.done - since[1], self.failed - since[2], self.took_ns - since[3]
        return TopicState(
            failed_messages=self.failed - failed_before,
            failed_tps=round(failed / span_s, 2),
            handled_tps=round(done / span_s, 2),
            handle_ms=round(took_ns / 1e6 / max(1, done + failed), 3),
            pull_tps=round((done + failed) / span_s, 2),
        )


class Tallies:
    """The tallies of one consumer, by topic, each since its first message.

    >>> tallies = Tallies(clock=lambda: 1_000)
    >>> tallies.note("orders", 6, 1, [1_000_000] * 6)
    >>> tallies.sample(6_000)
    >>> tallies.states(6_000)["orders"].handled_tps, tallies.states(6_000)["orders"].failed_messages
    (1.0, 1)
    """

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self._clock = clock
        self._by_topic: dict[str, _Tally] = {}

    def note(self, topic: str, count: int, failed: int, took_ns: Sequence[int]) -> None:
        """Count messages that were handled, well or not."""
        tally = self._by_topic.get(topic)
        if tally is None:
            tally = self._by_topic[topic] = _Tally(self._clock())
        tally.done += count - failed
        tally.failed += failed
        tally.took_ns += sum(took_ns)

    def sample(self, now_ms: int) -> None:
        """Take note of how far everything is: called every few seconds."""
        for tally in self._by_topic.values():
            tally.sample(now_ms)

    def states(self, now_ms: int) -> dict[str, TopicState]:
        """Return how it goes with each topic."""
        return {topic: tally.state(now_ms) for topic, tally in sorted(self._by_topic.items())}

    def handled(self) -> dict[str, int]:
        """Return how many messages of each topic went well."""
        return {topic: tally.done for topic, tally in sorted(self._by_topic.items())}

    def failed(self) -> dict[str, int]:
        """Return how many messages of each topic did not."""
        return {topic: tally.failed for topic, tally in sorted(self._by_topic.items())}
