"""What a test left open: clients that are still connected to its cluster when it is over.

The cluster is the test's alone, so whatever has a line to it is of the test, be it in this process, in another one, or
in another language. A line that is just being closed gets a moment. Left out: threads and files that never met the
cluster.
"""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from steelyard.errors import NotAsExpected, SteelyardError
from steelyard.serve import looking
from steelyard.serve.attendant import Attendant
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster

__all__ = ["find_leaks", "refuse_leaks", "stop_consumers"]

_GRACE_S = 0.5
"""How long a line that was closed at the other end may take to be seen as closed here."""
_LOOK_S = 0.0005


@dataclass(frozen=True, slots=True)
class _Open:
    """A line that is open."""

    server: str
    address: str
    client_id: str | None
    last: str


def refuse_leaks(cluster: Cluster, attendant: Attendant) -> None:
    """Raise NotAsExpected if somebody is still connected."""
    found = find_leaks(cluster, attendant)
    if found:
        raise NotAsExpected(
            "\n".join(
                [
                    f"the test is over, and its cluster at {cluster.namesrv} still has clients:",
                    *(f"  {line}" for line in found),
                    "close what the test opens, or allow it: @pytest.mark.mq(leaks=False), cluster(leaks=False)",
                ]
            )
        )


def stop_consumers(cluster: Cluster, attendant: Attendant) -> None:
    """Stop the consumers that a test left in this process, while they can still leave.

    One whose cluster is gone tries for half a minute to commit before it ends, and so would the process at its exit.
    """
    if "steelyard.client.blocking.consumer" not in sys.modules:
        return
    from steelyard.client.blocking.consumer import Consumer
    from steelyard.client.blocking.face import still_open

    left = [each for each in still_open() if isinstance(each, Consumer)]
    if left:
        groups = attendant.witness.groups
        here = cluster.call(lambda _: {member for group in groups.values() for member in group.members})
        for consumer in left:
            if consumer.id in here:
                with suppress(SteelyardError):
                    consumer.stop(drain_s=0)


def find_leaks(cluster: Cluster, attendant: Attendant, grace_s: float = _GRACE_S) -> list[str]:
    """Say who is still connected, a line for each client; lines that are being closed get a moment."""
    spent_s, pause_s = 0.0, _LOOK_S
    # What was slept is counted, and no clock is read: a test may have stopped that of its process.
    while cluster.call(_count) and spent_s < grace_s:
        time.sleep(pause_s)
        spent_s += pause_s
        pause_s *= 2
    return cluster.call(lambda running: _found(running, attendant))


def _count(running: RunningCluster) -> int:
    at_brokers = sum(len(broker.board) for broker in running.running_brokers)
    return at_brokers + sum(len(server.clients()) for server in running.running_name_servers)


def _found(running: RunningCluster, attendant: Attendant) -> list[str]:
    brokers, said = running.running_brokers, []
    for (group, name), servers in looking.members(brokers).items():
        said.append((name, f"member {name} of group {group}, online at {', '.join(servers)}"))
    for (group, name), servers in looking.producers(brokers).items():
        said.append((name, f"producer {name} of group {group}, connected to {', '.join(servers)}"))
    named = {name for name, _ in said}
    lines = [line for line in _lines(running, attendant) if line.client_id not in named]
    others = [
        f"a line from {line.address} to {line.server}{f', which asked {line.last} last' if line.last else ''}"
        for line in lines
    ]
    at_name_servers = [peer.address for server in running.running_name_servers for peer in server.clients()]
    if at_name_servers:
        # Every client has one; of a client that waits for its topic to be made there is nothing else.
        others.append(f"lines to the name servers, one for each client: from {', '.join(at_name_servers)}")
    return [sentence for _, sentence in said] + others


def _lines(running: RunningCluster, attendant: Attendant) -> list[_Open]:
    found = []
    for broker in running.running_brokers:
        for peer in broker.board.peers():
            seen = attendant.witness.lines.get(peer.number)
            found.append(
                _Open(
                    broker.name,
                    peer.address,
                    None if seen is None else seen.client_id,
                    "" if seen is None else seen.last,
                )
            )
    return found
