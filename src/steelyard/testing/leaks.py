"""Finds clients that are still connected to a test's cluster when the test is over.

The cluster belongs to the test, so every connection to it does, of any process and any language.
"""

import sys
import time
from contextlib import suppress

from steelyard.errors import NotAsExpected, SteelyardError
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing import broker_inspection
from steelyard.testing.fault_host import FaultHost

_GRACE_S = 0.5  # how long a connection may take to be closed here after its client closed it
_POLL_S = 0.0005


def refuse_leaks(cluster: Cluster, fault_host: FaultHost) -> None:
    """Raise NotAsExpected if a client is still connected."""
    spent_s, pause_s = 0.0, _POLL_S
    # The pauses are counted, and no clock is read: a test may have stopped that of its process.
    while cluster.call(_count_connections) and spent_s < _GRACE_S:
        time.sleep(pause_s)
        spent_s += pause_s
        pause_s *= 2
    found = cluster.call(lambda running: _describe_leaks(running, fault_host))
    if found:
        lines = [
            f"the test is over, and its cluster at {cluster.namesrv} still has clients:",
            *(f"  {each}" for each in found),
            "close what the test opens, or allow it: @pytest.mark.mq(leaks=False), cluster(leaks=False)",
        ]
        raise NotAsExpected("\n".join(lines))


def stop_consumers(cluster: Cluster, fault_host: FaultHost) -> None:
    """Stop the consumers that a test left open in this process, while they can still leave the group.

    One whose cluster is gone tries to commit for half a minute, and so would the process at its exit.
    """
    if "steelyard.client.sync.consumer" not in sys.modules:
        return
    from steelyard.client.sync.client import open_clients
    from steelyard.client.sync.consumer import Consumer

    left = [each for each in open_clients() if isinstance(each, Consumer)]
    if left:
        groups = fault_host.request_log.groups
        here = cluster.call(lambda _: {member for group in groups.values() for member in group.members})
        for consumer in left:
            if consumer.id in here:
                with suppress(SteelyardError):
                    consumer.stop(drain_s=0)


def _count_connections(running: RunningCluster) -> int:
    at_brokers = sum(len(broker.server) for broker in running.running_brokers)
    return at_brokers + sum(len(server.client_peers()) for server in running.running_name_servers)


def _describe_leaks(running: RunningCluster, fault_host: FaultHost) -> list[str]:
    """Describe who is still connected, a sentence for each client."""
    brokers, clients = running.running_brokers, []
    for (group, name), servers in broker_inspection.connected_members(brokers).items():
        clients.append((name, f"member {name} of group {group}, online at {', '.join(servers)}"))
    for (group, name), servers in broker_inspection.connected_producers(brokers).items():
        clients.append((name, f"producer {name} of group {group}, connected to {', '.join(servers)}"))
    named, others = {name for name, _ in clients}, []
    for broker in brokers:
        for peer in broker.server.peers():
            seen = fault_host.request_log.connections.get(peer.connection_id)
            if seen is None or seen.client_id not in named:
                last_request = f", last request {seen.last_request}" if seen and seen.last_request else ""
                others.append(f"a connection from {peer.address} to {broker.name}{last_request}")
    at_name_servers = [peer.address for server in running.running_name_servers for peer in server.client_peers()]
    if at_name_servers:
        # Every client has one; one that waits for its topic to be created has nothing else.
        others.append(f"connections to the name servers, one for each client: from {', '.join(at_name_servers)}")
    return [sentence for _, sentence in clients] + others
