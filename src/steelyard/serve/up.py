"""A cluster as a process: it starts, says that it is ready, and stops when it is told to.

What runs beside it, as its page does, begins when it is ready and ends before it stops.
"""

import asyncio
import resource
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import TypeAlias, TypedDict, Unpack

from steelyard.broker.options import BrokerOptions
from steelyard.net.loops import new_loop
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.plan import ClusterPlan

__all__ = ["Beside", "BrokerSettings", "run_cluster"]

Beside: TypeAlias = Callable[[RunningCluster], AbstractContextManager[object]]
"""What is entered once all servers can be used, and left before they stop."""


class BrokerSettings(TypedDict, total=False):
    """What a broker may be told where it is started; `BrokerOptions` has the words for each, and more."""

    auto_create_topics: bool
    default_topic_queues: int | None
    refuse_duplicates: bool
    refuse_unequal: bool
    notices: bool


def run_cluster(plan: ClusterPlan, beside: Beside, **settings: Unpack[BrokerSettings]) -> None:
    """Run servers until SIGTERM or SIGINT, with something ``beside`` them; the settings are those of its brokers."""
    cluster = RunningCluster(plan, BrokerOptions(**settings))
    _take_handles()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run(cluster, beside))


async def _run(cluster: RunningCluster, beside: Beside) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    starting = loop.create_task(cluster.start())
    stopping = loop.create_task(told.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        await starting
    starting.result()
    company = ExitStack()
    try:
        if not told.is_set():
            company.enter_context(beside(cluster))
        await stopping
    finally:
        # In a thread: what is beside the cluster may ask it something before it ends.
        await asyncio.to_thread(company.close)
        await cluster.stop()


def _take_handles() -> None:
    """Allow ourselves as many lines as the system lets us: most shells start us with few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
