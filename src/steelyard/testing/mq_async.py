"""The cluster under test for coroutines: blocking methods are awaited, and the loop of the test goes on meanwhile.

It needs no asyncio plug-in: each method runs in a thread, and the cluster has its own loop. The clock and the faults
act at once, so they are those of the blocking class.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from steelyard.client.config import ClientConfig
from steelyard.testing.clock import ClusterClock
from steelyard.testing.cluster_under_test import ClusterUnderTest
from steelyard.testing.faults import FaultInjector
from steelyard.testing.mq import Mq

__all__ = ["MqAsync"]

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    method: Callable[Concatenate[ClusterUnderTest, P], R],
) -> "Callable[Concatenate[MqAsync, P], Coroutine[Any, Any, R]]":
    """Make a coroutine method of a blocking one."""

    @functools.wraps(method)
    async def wait(self: "MqAsync", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return wait


class MqAsync:
    """A cluster under test, for coroutines.

    >>> from steelyard.testing.mq import cluster
    >>> async def scenario(mq):
    ...     await mq.send("orders", b"{}", delay_s=60)
    ...     mq.clock.advance(minutes=1)
    ...     return len(await mq.sent("orders"))
    >>> with cluster() as mq:
    ...     asyncio.run(scenario(MqAsync(mq)))
    1
    """

    def __init__(self, blocking: Mq) -> None:
        self.blocking = blocking
        """The same for blocking code."""

    @property
    def address(self) -> str:
        """The addresses of the name servers, for clients of any language."""
        return self.blocking.address

    @property
    def connect(self) -> ClientConfig:
        """The configuration for our own clients."""
        return self.blocking.connect

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return self.blocking.brokers

    @property
    def clock(self) -> ClusterClock:
        """The cluster's clock."""
        return self.blocking.clock

    @property
    def faults(self) -> FaultInjector:
        """Fault injection."""
        return self.blocking.faults

    def name(self, name: str) -> str:
        """Return the name of a topic or group with the namespace of this test."""
        return self.blocking.name(name)

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
