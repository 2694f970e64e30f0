"""A whole cluster inside a program: for tests, demonstrations, and whoever needs no other process.

    with Cluster(brokers=2) as cluster:
        print(cluster.namesrv, cluster.brokers)

Its loop runs in a thread of its own, so it serves blocking clients as well as those of another loop. Ports are free
ones of the loopback unless others are asked for, and everything is in memory unless there is a directory.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from steelyard.broker.options import BrokerOptions
from steelyard.errors import ConfigurationError
from steelyard.net.clock import now_ms as read_clock
from steelyard.net.limits import LineLimits
from steelyard.net.loops import new_loop
from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.plan import ClusterPlan
from steelyard.store.options import StoreOptions

__all__ = ["Cluster"]

T = TypeVar("T")


class Cluster:
    """Brokers and name servers in a thread. Use it as a context, or call `start` and `stop`.

    >>> with Cluster() as cluster:
    ...     list(cluster.brokers)
    ['broker-0']
    """

    def __init__(
        self,
        brokers: int = 1,
        name_servers: int = 1,
        *,
        data: str | Path | None = None,
        flush: str = "async",
        port: int = 0,
        join: tuple[str, ...] = (),
        cluster: str = "DefaultCluster",
        broker_name: str | None = None,
        broker_options: BrokerOptions | None = None,
        store_options: StoreOptions | None = None,
        limits: LineLimits | None = None,
        clock: Callable[[], int] = read_clock,
        attend: Callable[[RunningBroker], None] | None = None,
    ) -> None:
        """Describe a cluster. ``clock`` is the brokers' time, and ``attend`` is shown each broker that starts."""
        plan = ClusterPlan(
            brokers,
            name_servers,
            join,
            port=port,
            data=None if data is None else Path(data),
            flush=flush,
            cluster=cluster,
            broker_name=broker_name,
        )
        self._cluster = RunningCluster(plan, broker_options or BrokerOptions(), store_options, limits, clock, attend)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def namesrv(self) -> str:
        """The addresses of the name servers as clients are given them, with ``;`` between them."""
        return ";".join(self._cluster.name_server_addresses)

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the brokers, by name."""
        return self._cluster.broker_addresses

    @property
    def is_running(self) -> bool:
        """Whether it was started by this process, and not stopped since."""
        return self._loop is not None and self._pid == os.getpid()

    def start(self) -> Self:
        """Start everything; when this returns, the brokers are registered."""
        if self._loop is None:
            self._pid = os.getpid()
            self._loop = loop = new_loop()
            self._thread = threading.Thread(target=self._run, args=(loop,), name="steelyard-cluster", daemon=True)
            self._thread.start()
            try:
                self._do(self._cluster.start())
            except BaseException:
                self._end()
                raise
        return self

    def stop(self) -> None:
        """Stop everything, each directory closed in order."""
        if self.is_running:
            try:
                self._do(self._cluster.stop())
            finally:
                self._end()

    def start_broker(self, name: str) -> None:
        """Start a broker that was stopped or killed, at the address that it had."""
        self._do(self._cluster.start_broker(name))

    def stop_broker(self, name: str) -> None:
        """Stop a broker as a person does."""
        self._do(self._cluster.stop_broker(name))

    def kill_broker(self, name: str) -> None:
        """Stop a broker as a crash does: no goodbye, nothing saved."""
        self._do(self._cluster.kill_broker(name))

    def slow_broker(self, name: str, ms: int) -> None:
        """Make a broker slow: each command is handled only so long after it arrived, in order. 0 ends that.

        It is quick again after a restart, too.
        """
        self._do(self._cluster.slow_broker(name, ms))

    def start_name_server(self, number: int = 0) -> None:
        """Start a name server that was stopped, at the address that it had."""
        self._do(self._cluster.start_name_server(number))

    def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server."""
        self._do(self._cluster.stop_name_server(number))

    def call(self, look: Callable[[RunningCluster], T]) -> T:
        """Call something with the running servers, on their loop, and return what it returns: for a look inside."""

        async def calling(running: RunningCluster) -> T:
            return look(running)

        return self.run(calling)

    def run(self, work: Callable[[RunningCluster], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with the running servers, on their loop, and return what it returns."""
        return self._do(work(self._cluster))

    def __enter__(self) -> Self:
        """Start everything."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Start everything without holding up the caller's loop."""
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything without holding up the caller's loop."""
        await asyncio.to_thread(self.stop)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise ConfigurationError("the cluster does not run", next_step="start it first")
        if self._pid != os.getpid():
            # After a fork its thread is not here, and nobody would ever answer.
            work.close()
            raise ConfigurationError("the cluster runs in another process", next_step="reach it by its address")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _end(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
