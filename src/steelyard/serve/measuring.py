"""What the servers of a cluster can tell in numbers: their cores' families, and those of lines, loop and disk.

A broker with thousands of groups has much to tell, and its lines must not wait for it: the loop gets its turn again and
again while the families are gathered. So the numbers of one answer are not of one instant.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from steelyard.broker.measuring import measure, node_of
from steelyard.model import own_measures as own
from steelyard.model.measures import Family, Node, joined
from steelyard.net.clock import steady_ns
from steelyard.net.switchboard import Switchboard
from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import RunningCluster

__all__ = ["measure_cluster", "measured_from_elsewhere"]

_TURN_NS = 5_000_000
"""How long others wait at most while numbers are gathered."""


async def measure_cluster(cluster: RunningCluster) -> list[Family]:
    """Return the families of all servers that run; called on their loop."""
    found: list[Family] = []
    for broker in cluster.running_brokers:
        found += await _gathered(cluster, broker)
    for server in cluster.running_name_servers:
        found += _of_lines(Node(cluster.plan.cluster, "nameserver", server.address), server.board)
    return joined(found)


def measured_from_elsewhere(cluster: RunningCluster) -> Callable[[], Awaitable[list[Family]]]:
    """Return what measures a cluster from another loop; this is called on the cluster's own."""
    loop = asyncio.get_running_loop()

    async def measured() -> list[Family]:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(measure_cluster(cluster), loop))

    return measured


async def _gathered(cluster: RunningCluster, broker: RunningBroker) -> list[Family]:
    found, began_ns = [], steady_ns()
    for family in _of_broker(broker):
        found.append(family)
        if steady_ns() - began_ns > _TURN_NS:
            await asyncio.sleep(0)
            if broker not in cluster.running_brokers:
                return []  # it was stopped meanwhile, and its files are closed
            began_ns = steady_ns()
    return found


def _of_broker(running: RunningBroker) -> Iterator[Family]:
    state = running.broker.state
    node = node_of(state)
    yield from measure(state, running.board.clock())
    yield node.tell(own.LOOP_LAG, [((), running.loop_lag)])
    yield from _of_lines(node, running.board)


def _of_lines(node: Node, board: Switchboard) -> Iterator[Family]:
    yield node.tell(own.LINES, [((), len(board))])
    yield node.tell(own.LINES_OPENED, [((), board.lines_opened)])
    yield node.tell(own.LINES_CLOSED, [((), board.lines_closed)])
    yield node.tell(own.RECEIVED, [((), board.received_bytes)])
    yield node.tell(own.SENT, [((), board.sent_bytes)])
    yield node.tell(own.BUGS, [((), board.bugs)])
