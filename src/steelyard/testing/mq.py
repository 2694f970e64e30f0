"""A cluster for one test: real brokers and a name server on free ports of this machine, in memory.

It works without pytest; with it there are fixtures (testing/plugin.py). Each cluster is new and empty and has its own
address, so tests share nothing, not even with a client that an earlier test forgot.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from steelyard.client.config import ClientConfig
from steelyard.testing.clock import ClusterClock
from steelyard.testing.cluster_under_test import ClusterUnderTest
from steelyard.testing.fault_host import FaultHost, FaultyCluster
from steelyard.testing.faults import FaultInjector
from steelyard.testing.inspector import EmbeddedInspector
from steelyard.testing.leaks import refuse_leaks, stop_consumers
from steelyard.testing.snapshots import describe_cluster, describe_messages

P = ParamSpec("P")
R = TypeVar("R")

_MAX_TOPICS = 20  # topics in the summary of a failed test


class Mq(ClusterUnderTest):
    """A cluster under test, with a clock and fault injection. Make one with `cluster`.

    >>> with cluster() as mq:
    ...     sent = mq.send("orders", b"{}", tags="paid", delay_s=1800)
    ...     before = len(mq.sent("orders"))
    ...     mq.clock.advance(minutes=30)
    ...     before, [message.body for message in mq.assert_sent("orders", tags="paid", count=1)]
    (0, [b'{}'])
    """

    clock: ClusterClock
    """The cluster's clock."""
    faults: FaultInjector
    """Fault injection."""

    def __init__(self, brokers: int = 1, name_servers: int = 1) -> None:
        """Start a cluster; `stop` ends it."""
        self._fault_host = fault_host = FaultHost()
        self._cluster = FaultyCluster(brokers, name_servers, fault_host=fault_host).start()
        super().__init__(ClientConfig(self._cluster.namesrv, name="mq"), EmbeddedInspector(self._cluster, fault_host))
        self.clock = ClusterClock(self._cluster, fault_host.clock)
        self.faults = FaultInjector(self._cluster, fault_host)

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return self._cluster.brokers

    def summary(self) -> str:
        """Describe every topic, and the state of its messages in every group: for a failed test."""
        if not self._cluster.is_running:
            return "it was stopped, and cannot be inspected any more"
        first = self._inspector.inspect("")
        lines: list[str] = []
        for topic in first.topics[:_MAX_TOPICS]:
            snapshots = [self._inspector.inspect(topic, group) for group in first.groups]
            involved = [each for each in snapshots if each.group is not None and each.group.is_involved]
            for snapshot in involved or [self._inspector.inspect(topic)]:
                lines += describe_messages(snapshot)
        if len(first.topics) > _MAX_TOPICS:
            lines.append(f"and {len(first.topics) - _MAX_TOPICS} more topics")
        return "\n".join([*lines, *describe_cluster(first)]) or "nothing was sent, and no client connected"

    def refuse_leaks(self) -> None:
        """Close its own connections, and raise NotAsExpected if another client still has one."""
        if self._cluster.is_running:
            self._stop_clients()
            refuse_leaks(self._cluster, self._fault_host)

    def stop(self) -> None:
        """Stop the cluster, and consumers of this process that were left open; idempotent."""
        if self._cluster.is_running:
            try:
                self._stop_clients()
                stop_consumers(self._cluster, self._fault_host)
            finally:
                self._cluster.stop()

    def _stop_clients(self) -> None:
        # Without faults: unregistering at a slow broker would take as long as the broker does.
        self._cluster.call(lambda running: self._fault_host.clear(running.running_brokers))
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


def _awaited(
    method: Callable[Concatenate[ClusterUnderTest, P], R],
) -> "Callable[Concatenate[MqAsync, P], Coroutine[Any, Any, R]]":
    """Make a coroutine method of a blocking one."""

    @functools.wraps(method)
    async def wait(self: "MqAsync", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return wait


class MqAsync:
    """A cluster under test, for coroutines: methods that block run in a thread, so it needs no asyncio plug-in.

    >>> async def scenario(mq):
    ...     await mq.send("orders", b"{}", delay_s=60)
    ...     mq.clock.advance(minutes=1)
    ...     return len(await mq.sent("orders"))
    >>> with cluster() as mq:
    ...     asyncio.run(scenario(MqAsync(mq)))
    1
    """

    def __init__(self, blocking: Mq) -> None:
        self.blocking = blocking  # the same for blocking code
        self.address, self.connect, self.name = blocking.address, blocking.connect, blocking.name
        self.clock, self.faults = blocking.clock, blocking.faults

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return self.blocking.brokers

    send = _awaited(ClusterUnderTest.send)
    create_topic = _awaited(ClusterUnderTest.create_topic)
    sent = _awaited(ClusterUnderTest.sent)
    waiting = _awaited(ClusterUnderTest.waiting)
    handled = _awaited(ClusterUnderTest.handled)
    dead_letters = _awaited(ClusterUnderTest.dead_letters)
    explain = _awaited(ClusterUnderTest.explain)
    wait_until_handled = _awaited(ClusterUnderTest.wait_until_handled)
    wait_until_sent = _awaited(ClusterUnderTest.wait_until_sent)
    assert_sent = _awaited(ClusterUnderTest.assert_sent)
    assert_nothing_sent = _awaited(ClusterUnderTest.assert_nothing_sent)
    assert_handled = _awaited(ClusterUnderTest.assert_handled)
