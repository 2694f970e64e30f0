"""Clusters of two brokers on one name server, ours or Apache's: where queues of one topic lie in two places.

Their names tell the room that each stands in, so that strategies which look at rooms have something to see.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.balance.group.options import MemberTimings
from steelyard.model import Queue, sort_queues
from steelyard.serve.embedded import Cluster as Steelyard
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.members import ConsumerIdList
from steelyard.wire.bodies.topics import RouteBody
from steelyard.wire.codes import RequestCode
from steelyard.wire.headers.common import GroupRequest
from steelyard.wire.headers.nameserver import GetRoute
from tests.interop.backends import OURS
from tests.interop.jars import NotReady
from tests.interop.servers import WireConnection, apache
from tests.interop.wire_client import create_topic

BROKERS = ("east@a", "west@b")

_ROUTE_SECONDS = 60
_GROWN_UP_S = MemberTimings().settle_foreign_ms / 1000
_ANY_TOPIC = "TBW102"
_SETTINGS: dict[str, object] = {"mappedFileSizeCommitLog": 64 << 20}


@dataclass(frozen=True, slots=True)
class BrokerPair:
    """One name server and two brokers that run."""

    backend: str
    name_server: str
    brokers: dict[str, str]
    started_s: float = field(default_factory=time.monotonic)

    @property
    def is_ours(self) -> bool:
        """Whether these are our servers."""
        return self.backend == OURS

    def grow_up(self) -> None:
        """Wait until the brokers have run for so long that nobody takes them for restarted ones.

        While Apache's may have forgotten members that are still there, ours take nothing beside foreign members.
        """
        if not self.is_ours:
            time.sleep(max(0.0, self.started_s + _GROWN_UP_S - time.monotonic()))

    @contextmanager
    def connection(self, broker: str = BROKERS[0]) -> Iterator[WireConnection]:
        """Connect to a broker, and hang up afterwards."""
        connection = WireConnection(int(self.brokers[broker].rpartition(":")[2]))
        try:
            yield connection
        finally:
            connection.close()

    def make_topic(self, topic: str, queues: int) -> list[Queue]:
        """Make a topic, or make it larger: the first broker has half of the queues, and the odd one."""
        counts = dict(zip(BROKERS, ((queues + 1) // 2, queues // 2), strict=True))
        for broker, count in counts.items():
            with self.connection(broker) as connection:
                create_topic(connection, topic, count)
        wanted = [Queue(topic, broker, number) for broker, count in counts.items() for number in range(count)]
        self.wait_for_route(topic, wanted)
        return wanted

    def wait_for_route(self, topic: str, wanted: Sequence[Queue] = ()) -> None:
        """Wait until the name server knows these queues: Apache's brokers tell it in their own time."""
        connection = WireConnection(int(self.name_server.rpartition(":")[2]))
        end = time.monotonic() + _ROUTE_SECONDS
        try:
            while True:
                answer = connection.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRoute(topic))
                if answer.code == 0:
                    known = decode_body(RouteBody, answer.body).route(topic).readable_queues()
                    if (
                        sort_queues(known) == sort_queues(wanted)
                        if wanted
                        else len({each.broker for each in known}) == 2
                    ):
                        return
                assert time.monotonic() < end, f"the name server does not know all queues of {topic}"
                time.sleep(0.02)
        finally:
            connection.close()

    def listed(self, group: str) -> dict[str, list[str]]:
        """Return whom each broker believes to be in a group."""
        found: dict[str, list[str]] = {}
        for broker in self.brokers:
            with self.connection(broker) as connection:
                answer = connection.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupRequest(group))
            found[broker] = list(decode_body(ConsumerIdList, answer.body).ids) if answer.code == 0 else []
        return found


@contextmanager
def running_pair(backend: str, root: Path) -> Iterator[BrokerPair]:
    """Start the servers of a backend, and stop them; skip who wants Apache's where they were not prepared."""
    with ExitStack() as stack:
        try:
            pair = stack.enter_context(_ours() if backend == OURS else _apache(backend, root))
        except NotReady as problem:
            pytest.skip(str(problem))
        pair.wait_for_route(_ANY_TOPIC)
        yield pair


@contextmanager
def _ours() -> Iterator[BrokerPair]:
    first, second = BROKERS
    with (
        Steelyard(broker_name=first) as one,
        Steelyard(name_servers=0, join=(one.namesrv,), broker_name=second) as other,
    ):
        yield BrokerPair(OURS, one.namesrv, one.brokers | other.brokers)


@contextmanager
def _apache(backend: str, root: Path) -> Iterator[BrokerPair]:
    release = backend.removeprefix("apache-")
    first, second = BROKERS
    with (
        apache(release, root / "a", **_SETTINGS, brokerName=first) as one,
        apache(
            release, root / "b", ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"), one, **_SETTINGS, brokerName=second
        ) as other,
    ):
        addresses = {first: f"127.0.0.1:{one.port}", second: f"127.0.0.1:{other.port}"}
        yield BrokerPair(backend, f"127.0.0.1:{one.name_port}", addresses)
