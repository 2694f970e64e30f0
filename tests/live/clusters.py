"""The cluster that the live tests run against: two brokers of ours in this process, or two of Apache's.

`STEELYARD_LIVE` says which: `embedded` (if nothing is said), `apache-4.9.7` or `apache-5.5.0`. The tests are the same,
and where a server knows less than others a test says so and checks what is done about it.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steelyard import Admin
from steelyard.broker.options import BrokerOptions
from steelyard.net.clock import now_ms
from steelyard.serve.embedded import Cluster
from steelyard.testing.clock import AdvanceableClock, ClusterClock
from tests import waiting
from tests.interop.servers import apache

EMBEDDED = "embedded"
BACKENDS = (EMBEDDED, "apache-4.9.7", "apache-5.5.0")

_LONGEST_S = 60
_LONGEST_APACHE_S = 120
"""Their locks of orderly queues outlive a crash by a minute."""
_LESS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC")
# Transactions are asked about within seconds instead of a minute, and conditions are allowed. A broker of 5.5 writes
# down only every three seconds which have ended, and until then asks about those too, so that each is shown several
# times: whoever lets it ask sooner has to let it write sooner.
_SETTINGS: dict[str, object] = {
    "transactionCheckInterval": 1000,
    "transactionTimeOut": 500,
    "transactionOpBatchInterval": 50,
    "enablePropertyFilter": "true",
    "mappedFileSizeCommitLog": 64 << 20,
}


@dataclass(frozen=True, slots=True)
class Live:
    """A cluster of two brokers that runs."""

    backend: str
    namesrv: str
    brokers: tuple[str, ...]
    clock: ClusterClock | None = None
    """Where the servers are ours, and those of one test."""

    def pass_time(self) -> None:
        """Let two seconds pass at once, if the clock can be put forward: Apache's servers are waited for."""
        if self.clock is not None:
            self.clock.advance(seconds=2)

    @property
    def is_ours(self) -> bool:
        """Whether these are our servers."""
        return self.backend == EMBEDDED

    @property
    def is_4(self) -> bool:
        """Whether these are servers of 4.9: they know eighteen delays, and no times of one's own."""
        return self.backend.startswith("apache-4")


def chosen() -> str:
    """Return the backend that was asked for."""
    asked = os.environ.get("STEELYARD_LIVE", EMBEDDED)
    if asked not in BACKENDS:
        raise ValueError(f"STEELYARD_LIVE is {asked!r}; there are {', '.join(BACKENDS)}")
    return asked


@contextmanager
def running(backend: str, root: Path) -> Iterator[Live]:
    """Start the servers of a backend, and stop them."""
    with _embedded() if backend == EMBEDDED else _apache(backend, root) as live:
        yield live


@contextmanager
def with_own_clock(live: Live) -> Iterator[Live]:
    """Give a cluster whose clock a test may put forward, if the servers are ours; else the one that there is."""
    if not live.is_ours:
        yield live
        return
    with _embedded(AdvanceableClock()) as own:
        yield own


@contextmanager
def _embedded(clock: AdvanceableClock | None = None) -> Iterator[Live]:
    options = BrokerOptions(transaction_check_ms=1000, transaction_timeout_ms=500)
    with Cluster(brokers=2, broker_options=options, clock=clock or now_ms) as cluster:
        own = None if clock is None else ClusterClock(cluster, clock)
        yield Live(EMBEDDED, cluster.namesrv, tuple(cluster.brokers), own)


@contextmanager
def _apache(backend: str, root: Path) -> Iterator[Live]:
    release = backend.removeprefix("apache-")
    with (
        apache(release, root / "a", **_SETTINGS, brokerName="broker-a") as one,
        apache(release, root / "b", _LESS, one, **_SETTINGS, brokerName="broker-b"),
    ):
        live = Live(backend, f"127.0.0.1:{one.name_port}", ("broker-a", "broker-b"))
        with Admin(live.namesrv) as admin:
            until(lambda: {broker.name for broker in admin.brokers.list()} == set(live.brokers), "both are registered")
            until(lambda: len(admin.topics.describe("TBW102").counts) == len(live.brokers), "both may make topics")
        yield live


def until(condition: Callable[[], object], what: str, meanwhile: Callable[[], object] | None = None) -> None:
    """Wait until something is so, and fail with what it was if it never is; ``meanwhile`` is done after each look."""
    seconds = _LONGEST_S if chosen() == EMBEDDED else _LONGEST_APACHE_S
    waiting.until(condition, what, seconds, meanwhile=meanwhile)


@contextmanager
def closed_port() -> Iterator[int]:
    """Keep a port of this machine on which nobody listens."""
    with socket.socket() as bound:  # who is bound and does not listen refuses connections
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        yield port
