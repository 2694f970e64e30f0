"""The same for tests that are coroutines: what waits is awaited, and the loop of the test goes on meanwhile.

It needs no plug-in for asyncio and disturbs none: each method runs in a thread, and the cluster has a loop of its own.
The clock and the faults act at once, so they are those of the blocking face.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from steelyard.client.connect import Connect
from steelyard.testing.clock import ClusterClock
from steelyard.testing.expecting import Expecting
from steelyard.testing.faults import Faults
from steelyard.testing.mq import Mq

__all__ = ["MqAsync"]

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    method: Callable[Concatenate[Expecting, P], R],
) -> "Callable[Concatenate[MqAsync, P], Coroutine[Any, Any, R]]":
    """Make a method to be awaited of one that waits."""

    @functools.wraps(method)
    async def wait(self: "MqAsync", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return wait


class MqAsync:
    """A cluster under test, for coroutines.

    >>> from steelyard.testing.mq import cluster
    >>> async def story(mq):
    ...     await mq.send("orders", b"{}", delay_s=60)
    ...     mq.clock.advance(minutes=1)
    ...     return len(await mq.sent("orders"))
    >>> with cluster() as mq:
    ...     asyncio.run(story(MqAsync(mq)))
    1
    """

    def __init__(self, blocking: Mq) -> None:
        self.blocking = blocking
        """The same for plain functions."""

    @property
    def address(self) -> str:
        """Where the name servers are, as clients of any language take it."""
        return self.blocking.address

    @property
    def connect(self) -> Connect:
        """The same for our own clients."""
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
    def faults(self) -> Faults:
        """What goes wrong on purpose."""
        return self.blocking.faults

    def name(self, name: str) -> str:
        """Return the name that the servers know a topic or group of this test by."""
        return self.blocking.name(name)

    send = _awaited(Expecting.send)
    create_topic = _awaited(Expecting.create_topic)
    sent = _awaited(Expecting.sent)
    waiting = _awaited(Expecting.waiting)
    handled = _awaited(Expecting.handled)
    dead_letters = _awaited(Expecting.dead_letters)
    explain = _awaited(Expecting.explain)
    wait_until_handled = _awaited(Expecting.wait_until_handled)
    wait_until_sent = _awaited(Expecting.wait_until_sent)
    assert_sent = _awaited(Expecting.assert_sent)
    assert_nothing_sent = _awaited(Expecting.assert_nothing_sent)
    assert_handled = _awaited(Expecting.assert_handled)
