"""How fast a load gets on: a count is watched from outside until it has passed a range.

The count is a broker's own answer, or what a handler of messages has counted; the same way for whoever is measured.
What comes before the range is not timed, for it warms, and what comes after neither: threads end one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, sleep

from bench.brokers import stored
from bench.load import Load
from tests.interop.servers import WireConnection
from tests.interop.wire_client import committed

_LOOK_S = 0.2
_STALLED_S = 60


@dataclass(frozen=True, slots=True)
class Measurement:
    """One run: messages a second, microseconds of a processor a message, and what went wrong."""

    rate: float
    cpu_us: float
    fault: str = ""


class Stalled(Exception):
    """Nothing moves any more, or the load has ended before its time."""


class BrokerCounts:
    """Asks the broker how far things are."""

    def __init__(self, connection: WireConnection, topic: str, queues: int, *, group: str = "", start: int = 0) -> None:
        self._connection, self._topic, self._queues = connection, topic, queues
        self._group, self._start = group, start

    def stored(self) -> int:
        """Return how many messages the topic has, from the start on."""
        return sum(stored(self._connection, self._topic, self._queues)) - self._start

    def handled(self) -> int:
        """Return how many messages the group has handled, from the start on: it tells with each pull."""
        offsets = (committed(self._connection, self._group, self._topic, queue) for queue in range(self._queues))
        return sum(offsets) - self._start


def measure_throughput(
    count: Callable[[], int], used_s: Callable[[], float], load: Load, timed: range
) -> tuple[float, float]:
    """Wait until a count has passed a range; return messages a second and processor microseconds a message in it."""
    first: tuple[int, float, float] | None = None
    seen, moved_at = -1, monotonic()
    while True:
        is_running = load.is_running
        done, now, cpu_s = count(), monotonic(), used_s()
        if done >= timed.start and first is None:
            first = done, now, cpu_s
        if done >= timed.stop and first is not None:
            break
        if done > seen:
            seen, moved_at = done, now
        if not is_running or now > moved_at + _STALLED_S:
            raise Stalled(f"{done:,} of {timed.stop:,}; the load says: {load.output()[-300:]}")
        sleep(_LOOK_S)
    messages, seconds, taken_s = done - first[0], now - first[1], cpu_s - first[2]
    return messages / max(seconds, _LOOK_S), taken_s / max(messages, 1) * 1e6
