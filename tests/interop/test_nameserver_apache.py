"""Apache's brokers register with our name server, and our registrations are taken by Apache's name servers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from steelyard.broker.nameserver_registration import RegistrationIdentity, registration_command, unregistration_command
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.common import TableVersion
from steelyard.wire.bodies.topics import ClusterBody, QueueEntry, RouteBody, TopicConfig, TopicConfigTable
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.interop.jars import SERVER_RELEASES
from tests.interop.our_nameserver import our_name_server
from tests.interop.servers import WireConnection, apache
from tests.interop.wire_client import create_topic

# Apache's brokers start slowly on a busy machine; what they say then arrives within moments.
_WAIT_SECONDS = 40


@contextmanager
def connection_to(port: int) -> Iterator[WireConnection]:
    connection = WireConnection(port)
    try:
        yield connection
    finally:
        connection.close()


def route(connection: WireConnection, topic: str) -> RouteBody | None:
    answer = connection.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return decode_body(RouteBody, answer.body) if answer.code == 0 else None


def clusters(connection: WireConnection) -> ClusterBody:
    return decode_body(ClusterBody, connection.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {}).body)


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + _WAIT_SECONDS
    while not what():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("release", SERVER_RELEASES)
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_apache_s_broker_is_in_our_routes_until_it_ends(release: str, end: str, tmp_path: Path) -> None:
    with (
        our_name_server() as port,
        connection_to(port) as connection,
        apache(release, tmp_path, namesrvAddr=f"127.0.0.1:{port}") as broker,
    ):
        wait_for(lambda: route(connection, "TBW102") is not None)
        found = clusters(connection)
        assert found.clusters == {"steelyard": ("broker-a",)}
        assert dict(found.brokers["broker-a"].addresses) == {0: f"127.0.0.1:{broker.port}"}
        with broker.connection() as to_broker:
            create_topic(to_broker, "orders", 5)
            wait_for(lambda: route(connection, "orders") is not None)
            create_topic(to_broker, "orders", 7)
        wait_for(lambda: [queue.read_queues for queue in _queues(connection, "orders")] == [7])
        if end == "stop":
            broker.stop()
        else:
            broker.kill()
        wait_for(lambda: not clusters(connection).brokers)
        assert route(connection, "orders") is None


def _queues(connection: WireConnection, topic: str) -> tuple[QueueEntry, ...]:
    found = route(connection, topic)
    return found.queues if found else ()


_WHO = RegistrationIdentity("steelyard", "broker-z", 0, "127.0.0.1:19911", "127.0.0.1:19912")


def table(version: int, **queues: int) -> TopicConfigTable:
    topics = {
        name: TopicConfig(name=name, read_queues=count, write_queues=count, attributes={})
        for name, count in queues.items()
    }
    return TopicConfigTable(version=TableVersion(counter=version, state_version=0, timestamp=version), topics=topics)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("release", SERVER_RELEASES)
def test_apache_s_name_server_takes_our_registrations(release: str, tmp_path: Path) -> None:
    with apache(release, tmp_path) as broker, connection_to(broker.name_port) as connection:

        def send(command: Command) -> Command:
            return connection.ask(command.code, command.fields, command.body)

        def counts(topic: str) -> list[tuple[str, int]]:
            found = route(connection, topic)
            return [(queue.broker_name, queue.read_queues) for queue in found.queues] if found else []

        assert send(registration_command(_WHO, table(1, ours=3, others=4))).code == 0
        assert (counts("ours"), counts("others")) == ([("broker-z", 3)], [("broker-z", 4)])
        assert send(registration_command(_WHO, table(2, ours=5, others=4), topic="ours")).code == 0
        assert (counts("ours"), counts("others")) == ([("broker-z", 5)], [("broker-z", 4)])
        assert dict(clusters(connection).brokers["broker-z"].addresses) == {0: _WHO.address}
        assert send(unregistration_command(_WHO)).code == 0
        wait_for(lambda: counts("ours") == [])
        assert "broker-z" not in clusters(connection).brokers
