"""The clock of a cluster: a test advances it instead of waiting.

It moves delayed and scheduled messages, retries, checks of half messages, and the age of messages. It does not move
connections, sessions, locks and the clocks of clients: ``deliver_at`` is compared with the cluster's clock.
"""

from datetime import UTC, datetime, timedelta

from steelyard.errors import ConfigurationError
from steelyard.net.clock import now_ms
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster

_MAX_AHEAD_MS = 100 * 366 * 86_400_000


class AdvanceableClock:
    """The wall clock plus an offset. It never goes back.

    >>> clock = AdvanceableClock()
    >>> before_ms = clock()
    >>> clock.advance(60_000)
    >>> clock() - before_ms >= 60_000, clock.ahead_ms
    (True, 60000)
    """

    def __init__(self) -> None:
        self.ahead_ms = 0  # the offset

    def __call__(self) -> int:
        """Return the time in milliseconds."""
        return now_ms() + self.ahead_ms

    def advance(self, by_ms: int) -> None:
        """Move the clock forward."""
        if by_ms < 0:
            raise ConfigurationError(f"a clock cannot be set back by {-by_ms} ms", next_step="give a positive time")
        if self.ahead_ms + by_ms > _MAX_AHEAD_MS:
            raise ConfigurationError(f"a clock cannot be advanced by {by_ms} ms", next_step="stay in this century")
        self.ahead_ms += by_ms


class ClusterClock:
    """The clock of a cluster's brokers."""

    def __init__(self, cluster: Cluster, clock: AdvanceableClock) -> None:
        self._cluster, self._clock = cluster, clock

    def now(self) -> datetime:
        """Return the cluster's time."""
        return datetime.fromtimestamp(self._clock() / 1000, UTC)

    def advance(
        self,
        by: timedelta | float = 0.0,
        *,
        milliseconds: float = 0.0,
        seconds: float = 0.0,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
    ) -> None:
        """Advance the clock, by seconds or by the keyword arguments.

        When this returns, all messages that are due are visible to consumers.
        """
        try:
            step = by if isinstance(by, timedelta) else timedelta(seconds=by)
            step += timedelta(milliseconds=milliseconds, seconds=seconds, minutes=minutes, hours=hours, days=days)
        except (OverflowError, ValueError) as error:
            raise ConfigurationError(f"a clock cannot be advanced ({error})", next_step="give a time") from None
        by_ms = round(step / timedelta(milliseconds=1))

        def apply(running: RunningCluster) -> None:
            for broker in running.running_brokers:
                broker.server.tick()  # one that was just started does not know yet what is due
            self._clock.advance(by_ms)
            for broker in running.running_brokers:
                broker.clock_advanced(by_ms)

        self._cluster.call(apply)
