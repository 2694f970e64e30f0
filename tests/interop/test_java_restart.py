"""Java's members and a broker that comes back: they read on before their next heartbeat."""

from pathlib import Path

import pytest

from steelyard.broker.broker import HANDLERS
from steelyard.broker.request_errors import system_error
from steelyard.broker.state import BrokerCoreState
from steelyard.serve.embedded import Cluster as Steelyard
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command, Peer
from tests.interop.backends import BROKER_NAME, CLUSTER_NAME, OURS, Cluster
from tests.interop.clients import JavaProcess, until
from tests.interop.jars import RELEASES
from tests.interop.java_clients import JavaClients, every
from tests.interop.wire_client import create_topic

NEVER_MS = 600_000


def _refuse(_state: BrokerCoreState, _request: Command, _peer: Peer, _now_ms: int) -> Command:
    raise system_error("heartbeats are refused here")


@pytest.mark.parametrize("release", RELEASES)
def test_members_read_on_after_a_restart_although_they_send_no_heartbeat(
    client_processes: dict[str, JavaProcess], release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Steelyard(data=tmp_path, cluster=CLUSTER_NAME, broker_name=BROKER_NAME) as running:
        cluster = Cluster(OURS, running.namesrv, running.brokers[BROKER_NAME])
        with cluster.connection() as connection:
            create_topic(connection, "restarted", 4)
        hands = JavaClients(client_processes[release], cluster)
        consumer = hands.push("restarted-readers", every("restarted"), heartbeatBrokerInterval=NEVER_MS)
        producer = hands.producer("senders", instanceName="restarted-sender", sendMsgTimeout=20_000)
        producer.send("restarted", "before")
        consumer.wait(1)
        until(lambda: consumer.owned("restarted"), lambda owned: owned == [0, 1, 2, 3])
        running.stop_broker(BROKER_NAME)
        # Java 5.5 sends a heartbeat on a new connection, 4.9 with its next rebalance, whenever that is.
        monkeypatch.setattr("steelyard.broker.broker.HANDLERS", {**HANDLERS, RequestCode.HEART_BEAT: _refuse})
        running.start_broker(BROKER_NAME)
        for number in range(8):
            producer.send("restarted", str(number))
        found = {each.body for each in consumer.wait(9)}
        assert found == {"before", *map(str, range(8))}
        registered = running.call(lambda servers: servers.running_broker(BROKER_NAME).broker.state.consumers)
        assert registered.group_names() == []
        hands.stop()
