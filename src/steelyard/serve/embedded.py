"""A whole cluster inside a program: for tests and demonstrations.

    with Cluster(brokers=2) as cluster:
        print(cluster.namesrv, cluster.brokers)

Its event loop runs in a thread, so it serves blocking clients as well as those of another loop. By default it uses free
ports of the loopback interface, and keeps everything in memory.
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
from steelyard.net.event_loop import new_event_loop
from steelyard.net.limits import ConnectionLimits
from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import ClusterPlan, RunningCluster
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
        limits: ConnectionLimits | None = None,
        clock: Callable[[], int] = read_clock,
        on_broker_start: Callable[[RunningBroker], None] | None = None,
    ) -> None:
        """Describe a cluster. ``clock`` is that of the brokers; ``on_broker_start`` is called before one accepts."""
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
        self._cluster = RunningCluster(
            plan, broker_options or BrokerOptions(), store_options, limits, clock, on_broker_start
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    @property
    def namesrv(self) -> str:
        """The addresses of the name servers as clients take them, with ``;`` between them."""
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
            self._loop = loop = new_event_loop()
            self._thread = threading.Thread(target=self._run_loop, args=(loop,), name="steelyard-cluster", daemon=True)
            self._thread.start()
            try:
                self._run_on_loop(self._cluster.start())
            except BaseException:
                self._stop_loop()
                raise
        return self

    def stop(self) -> None:
        """Stop everything, each directory closed in order."""
        if self.is_running:
            try:
                self._run_on_loop(self._cluster.stop())
            finally:
                self._stop_loop()

    def start_broker(self, name: str) -> None:
        """Start a broker that was stopped or killed, at the same address."""
        self._run_on_loop(self._cluster.start_broker(name))

    def stop_broker(self, name: str) -> None:
        """Stop a broker in order."""
        self._run_on_loop(self._cluster.stop_broker(name))

    def kill_broker(self, name: str) -> None:
        """Stop a broker as a crash does: nothing is sent, nothing is saved."""
        self._run_on_loop(self._cluster.kill_broker(name))

    def start_name_server(self, number: int = 0) -> None:
        """Start a name server that was stopped, at the same address."""
        self._run_on_loop(self._cluster.start_name_server(number))

    def stop_name_server(self, number: int = 0) -> None:
        """Stop a name server."""
        self._run_on_loop(self._cluster.stop_name_server(number))

    def call(self, function: Callable[[RunningCluster], T]) -> T:
        """Call a function with the running servers, on their loop, and return its result: to inspect them."""

        async def calling(running: RunningCluster) -> T:
            return function(running)

        return self.run(calling)

    def run(self, work: Callable[[RunningCluster], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine with the running servers, on their loop, and return its result."""
        return self._run_on_loop(work(self._cluster))

    def __enter__(self) -> Self:
        """Start everything."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()

    async def __aenter__(self) -> Self:
        """Start everything without blocking the caller's loop."""
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything without blocking the caller's loop."""
        await asyncio.to_thread(self.stop)

    def _run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise ConfigurationError("the cluster does not run", next_step="start it first")
        if self._pid != os.getpid():
            # After a fork its thread does not exist here, and no answer would ever come.
            work.close()
            raise ConfigurationError("the cluster runs in another process", next_step="reach it by its address")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def _stop_loop(self) -> None:
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
