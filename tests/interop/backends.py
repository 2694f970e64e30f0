"""The clusters that the Java clients are run against: ours, and Apache's as the judge of what is right.

Tests that take `cluster` run with ours. To hear the judge, name the others too: `STEELYARD_INTEROP=all make interop`,
or some of `ours,apache-4.9.7,apache-5.5.0`. Each has its turn: two brokers at once would share two cores.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard.broker.options import BrokerOptions
from steelyard.serve.embedded import Cluster as Steelyard
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.nameserver import GetRoute
from tests.interop.jars import SERVER_RELEASES
from tests.interop.servers import WireConnection, apache

OURS = "ours"
CLUSTER_NAME, BROKER_NAME = "steelyard", "broker-a"
BACKENDS = (OURS, *(f"apache-{release}" for release in SERVER_RELEASES))

_ANY_TOPIC = "TBW102"
_ROUTE_SECONDS = 60
# Transactions are asked about within seconds instead of a minute, conditions are allowed, traces are kept.
_SETTINGS: dict[str, object] = {
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 500,
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "mappedFileSizeCommitLog": 64 << 20,
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """One name server and one broker that run."""

    backend: str
    name_server: str
    broker: str
    cluster_name: str = CLUSTER_NAME
    broker_name: str = BROKER_NAME

    @property
    def is_ours(self) -> bool:
        """Whether these are our servers."""
        return self.backend == OURS

    @property
    def is_4(self) -> bool:
        """Whether these are servers of 4.9, which know less."""
        return self.backend.startswith("apache-4")

    def wait_for_route(self, topic: str) -> None:
        """Wait until the name server knows where a topic is: Apache's brokers tell it in their own time."""
        connection = WireConnection(int(self.name_server.rpartition(":")[2]))
        end = time.monotonic() + _ROUTE_SECONDS
        try:
            while connection.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic)).code:
                assert time.monotonic() < end, f"the name server has no route of {topic}"
                time.sleep(0.05)
        finally:
            connection.close()

    @contextmanager
    def connection(self) -> Iterator[WireConnection]:
        """Connect to the broker, and hang up afterwards."""
        connection = WireConnection(int(self.broker.rpartition(":")[2]))
        try:
            yield connection
        finally:
            connection.close()


def chosen() -> tuple[str, ...]:
    """Return the backends that were asked for; ours, if none was."""
    asked = tuple(os.environ.get("STEELYARD_INTEROP", OURS).replace(",", " ").split())
    if asked == ("all",):
        return BACKENDS
    unknown = set(asked) - set(BACKENDS)
    if unknown:
        raise ValueError(f"STEELYARD_INTEROP names {', '.join(sorted(unknown))}; there are {', '.join(BACKENDS)}, all")
    return asked


@contextmanager
def running_cluster(backend: str, root: Path) -> Iterator[Cluster]:
    """Start the servers of a backend, and stop them."""
    if backend == OURS:
        with _ours(root) as cluster:
            yield cluster
        return
    with apache(backend.removeprefix("apache-"), root, **_SETTINGS) as broker:
        cluster = Cluster(backend, f"127.0.0.1:{broker.name_port}", f"127.0.0.1:{broker.port}")
        cluster.wait_for_route(_ANY_TOPIC)
        yield cluster


@contextmanager
def _ours(root: Path) -> Iterator[Cluster]:
    options = BrokerOptions(transaction_check_ms=1000, transaction_timeout_ms=500)
    with Steelyard(data=root, cluster=CLUSTER_NAME, broker_name=BROKER_NAME, broker_options=options) as cluster:
        yield Cluster(OURS, cluster.namesrv, cluster.brokers[BROKER_NAME])
