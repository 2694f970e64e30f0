"""A cluster as a process: it starts, says that it is ready, and stops when it is told to."""

import asyncio
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

from steelyard.net.loops import new_loop
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.plan import ClusterPlan

__all__ = ["run_cluster"]


def run_cluster(plan: ClusterPlan, ready: Callable[[RunningCluster], None]) -> None:
    """Run servers until SIGTERM or SIGINT; ``ready`` is called once all of them can be used."""
    _take_handles()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run(plan, ready))


async def _run(plan: ClusterPlan, ready: Callable[[RunningCluster], None]) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    cluster = RunningCluster(plan)
    starting = loop.create_task(cluster.start())
    stopping = loop.create_task(told.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        await starting
    starting.result()
    if not told.is_set():
        ready(cluster)
    await stopping
    await cluster.stop()


def _take_handles() -> None:
    """Allow ourselves as many lines as the system lets us: most shells start us with few."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
