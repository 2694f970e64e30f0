"""A cluster of a test's own: real brokers and a name server on free ports of this machine, in memory.

    with cluster(brokers=2) as mq:
        mq.send("orders", b"{}")
        run_billing_once(mq.address)
        assert mq.handled("orders", group="billing") == 1

It works without pytest; with it there are fixtures (testing/plugin.py). Each is fresh and empty and at an address of
its own, so tests share nothing, not even with a client that an earlier test forgot.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from steelyard.client.connect import Connect
from steelyard.serve.attendant import Attendant
from steelyard.testing.clock import ClusterClock
from steelyard.testing.expecting import Expecting
from steelyard.testing.faults import Faults
from steelyard.testing.leaks import refuse_leaks, stop_consumers
from steelyard.testing.sight import InsideSight
from steelyard.testing.telling import tell_circumstances, tell_story

__all__ = ["Mq", "cluster"]

_MOST_TOPICS = 20
"""So many a person reads about when a test failed."""


class Mq(Expecting):
    """A cluster under test, with a clock to advance and faults to survive. Make one with `cluster`.

    >>> with cluster() as mq:
    ...     sent = mq.send("orders", b"{}", tags="paid", delay_s=1800)
    ...     before = len(mq.sent("orders"))
    ...     mq.clock.advance(minutes=30)
    ...     before, [message.body for message in mq.assert_sent("orders", tags="paid", count=1)]
    (0, [b'{}'])
    """

    clock: ClusterClock
    """The cluster's clock."""
    faults: Faults
    """What goes wrong on purpose."""

    def __init__(self, brokers: int = 1, name_servers: int = 1) -> None:
        """Start a cluster; `stop` ends it."""
        self._attendant = attendant = Attendant()
        self._cluster = attendant.cluster(brokers, name_servers).start()
        super().__init__(Connect(self._cluster.namesrv, name="mq"), InsideSight(self._cluster, attendant))
        self.clock, self.faults = ClusterClock(self._cluster, attendant.clock), Faults(self._cluster, attendant)

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return self._cluster.brokers

    def summary(self) -> str:
        """Say what every topic has, and what became of it in every group that was there: for a test that failed."""
        if not self._cluster.is_running:
            return "it was stopped, and cannot be looked into any more"
        first = self._sight.look("")
        lines: list[str] = []
        for topic in first.topics[:_MOST_TOPICS]:
            looks = [self._sight.look(topic, group) for group in first.groups]
            looks = [look for look in looks if look.group is not None and look.group.takes_part]
            for look in looks or [self._sight.look(topic)]:
                lines += tell_story(look)
        if len(first.topics) > _MOST_TOPICS:
            lines.append(f"and {len(first.topics) - _MOST_TOPICS} more topics")
        return "\n".join([*lines, *tell_circumstances(first)]) or "nothing was sent, and nobody came"

    def refuse_leaks(self) -> None:
        """Close its own lines, and raise NotAsExpected if anybody else still has one."""
        if self._cluster.is_running:
            self._close()
            refuse_leaks(self._cluster, self._attendant)

    def stop(self) -> None:
        """End everything; no error if it has ended. Consumers of this process that were left open are stopped, too."""
        if self._cluster.is_running:
            try:
                self._close()
                stop_consumers(self._cluster, self._attendant)
            finally:
                self._cluster.stop()

    def _close(self) -> None:
        # With no fault in the way: a goodbye to a slow broker would take as long as the broker does.
        self._cluster.call(lambda running: self._attendant.calm(running.running_brokers))
        self.close_clients()


@contextmanager
def cluster(brokers: int = 1, name_servers: int = 1, *, leaks: bool = True) -> Iterator[Mq]:
    """Start a cluster, and stop it at the end.

    If clients are still connected then, NotAsExpected says which, unless ``leaks`` is False or the block has failed.
    """
    mq = Mq(brokers, name_servers)
    try:
        yield mq
        if leaks:
            mq.refuse_leaks()
    finally:
        mq.stop()
