"""Finds clients that are still connected to a test's cluster when the test is over.

The cluster belongs to the test, so every connection to it does, be it from this process, from another one, or from
another language. A connection that is being closed gets a moment. Left out: threads and files that never connected.
"""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from steelyard.errors import NotAsExpected, SteelyardError
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.testing import broker_inspection
from steelyard.testing.fault_host import FaultHost

__all__ = ["refuse_leaks", "stop_consumers"]

_GRACE_S = 0.5  # how long a connection may take to be closed here after its client closed it
_POLL_S = 0.0005


@dataclass(frozen=True, slots=True)
class _OpenConnection:
    """An open connection."""

    server: str
    address: str
    client_id: str | None
    last_request: str


def refuse_leaks(cluster: Cluster, fault_host: FaultHost) -> None:
    """Raise NotAsExpected if a client is still connected."""
    found = _find_leaks(cluster, fault_host)
    if found:
        raise NotAsExpected(
            "\n".join(
                [
                    f"the test is over, and its cluster at {cluster.namesrv} still has clients:",
                    *(f"  {each}" for each in found),
                    "close what the test opens, or allow it: @pytest.mark.mq(leaks=False), cluster(leaks=False)",
                ]
            )
        )


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


def _find_leaks(cluster: Cluster, fault_host: FaultHost, grace_s: float = _GRACE_S) -> list[str]:
    """Describe who is still connected, a sentence for each client."""
    spent_s, pause_s = 0.0, _POLL_S
    # The pauses are counted, and no clock is read: a test may have stopped that of its process.
    while cluster.call(_count_connections) and spent_s < grace_s:
        time.sleep(pause_s)
        spent_s += pause_s
        pause_s *= 2
    return cluster.call(lambda running: _describe_leaks(running, fault_host))


def _count_connections(running: RunningCluster) -> int:
    at_brokers = sum(len(broker.server) for broker in running.running_brokers)
    return at_brokers + sum(len(server.client_peers()) for server in running.running_name_servers)


def _describe_leaks(running: RunningCluster, fault_host: FaultHost) -> list[str]:
    brokers, clients = running.running_brokers, []
    for (group, name), servers in broker_inspection.connected_members(brokers).items():
        clients.append((name, f"member {name} of group {group}, online at {', '.join(servers)}"))
    for (group, name), servers in broker_inspection.connected_producers(brokers).items():
        clients.append((name, f"producer {name} of group {group}, connected to {', '.join(servers)}"))
    named = {name for name, _ in clients}
    others = [
        f"a connection from {each.address} to {each.server}"
        + (f", last request {each.last_request}" if each.last_request else "")
        for each in _open_connections(running, fault_host)
        if each.client_id not in named
    ]
    at_name_servers = [peer.address for server in running.running_name_servers for peer in server.client_peers()]
    if at_name_servers:
        # Every client has one; one that waits for its topic to be created has nothing else.
        others.append(f"connections to the name servers, one for each client: from {', '.join(at_name_servers)}")
    return [sentence for _, sentence in clients] + others


def _open_connections(running: RunningCluster, fault_host: FaultHost) -> list[_OpenConnection]:
    found = []
    for broker in running.running_brokers:
        for peer in broker.server.peers():
            seen = fault_host.request_log.connections.get(peer.connection_id)
            found.append(
                _OpenConnection(
                    broker.name,
                    peer.address,
                    None if seen is None else seen.client_id,
                    "" if seen is None else seen.last_request,
                )
            )
    return found
