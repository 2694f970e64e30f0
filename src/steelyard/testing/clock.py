"""The cluster's clock: a test puts it forward and need not wait.

What moves with it: delayed messages and messages with a time of their own fall due, retries of messages that failed
too; half messages of transactions are asked about; messages grow old, so three days on the oldest are gone.

What does not: nobody who is connected grows older by it. Members and producers stay, their lines stay open, and locks
live as long as before. The clocks of clients, ours or others, are not touched: a time of day that a client sends, such
as ``deliver_at``, is compared with the cluster's clock, and a pause that a client makes by itself takes its time.
"""

from datetime import UTC, datetime, timedelta

from steelyard.errors import ConfigurationError
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.serve.movable_clock import MovableClock

__all__ = ["ClusterClock"]


class ClusterClock:
    """The clock of a cluster's brokers."""

    def __init__(self, cluster: Cluster, clock: MovableClock) -> None:
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
        """Put the clock forward, by seconds or as the words say.

        When this returns, all that has fallen due is where consumers find it. Clients that are connected are not late
        by it: see this module.
        """
        try:
            step = by if isinstance(by, timedelta) else timedelta(seconds=by)
            step += timedelta(milliseconds=milliseconds, seconds=seconds, minutes=minutes, hours=hours, days=days)
        except (OverflowError, ValueError) as error:
            raise ConfigurationError(f"a clock cannot be put forward so ({error})", next_step="give a time") from None
        by_ms = round(step / timedelta(milliseconds=1))

        def leap(running: RunningCluster) -> None:
            for broker in running.running_brokers:
                broker.board.tick()  # one that was started just now has not looked at what waits, and when it is due
            self._clock.put_forward(by_ms)
            for broker in running.running_brokers:
                broker.put_forward(by_ms)

        self._cluster.call(leap)
