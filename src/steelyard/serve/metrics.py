"""Metrics of running servers: those of their cores, and those of connections and event loop.

A broker with thousands of groups has many samples, and its clients must not wait for them: the loop gets its turn again
and again while they are collected. So the values of one response are not of one instant.
"""

import asyncio
import platform
from collections.abc import Awaitable, Callable, Iterator

from steelyard.broker.metrics import collect_metrics, metrics_node
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.families import MetricFamily, MetricNode, merge_families
from steelyard.net.clock import steady_ns
from steelyard.net.server import RemotingServer
from steelyard.serve.broker import RunningBroker
from steelyard.serve.cluster import RunningCluster
from steelyard.version import __version__

_MAX_TURN_NS = 5_000_000
"""How long clients wait at most while metrics are collected."""


async def collect_server_metrics(cluster: RunningCluster) -> list[MetricFamily]:
    """Return the families of all running servers; called on their loop."""
    found: list[MetricFamily] = []
    for broker in cluster.running_brokers:
        found += await _collect_broker(cluster, broker)
    for server in cluster.running_name_servers:
        found += _server_families(MetricNode(cluster.plan.cluster, "nameserver", server.address), server.server)
    return merge_families(found)


def metrics_collector(cluster: RunningCluster) -> Callable[[], Awaitable[list[MetricFamily]]]:
    """Return a function that collects from another loop; this is called on the cluster's own."""
    loop = asyncio.get_running_loop()

    async def collect() -> list[MetricFamily]:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(collect_server_metrics(cluster), loop))

    return collect


async def _collect_broker(cluster: RunningCluster, broker: RunningBroker) -> list[MetricFamily]:
    found, began_ns = [], steady_ns()
    for family in _broker_families(broker):
        found.append(family)
        if steady_ns() - began_ns > _MAX_TURN_NS:
            await asyncio.sleep(0)
            if broker not in cluster.running_brokers:
                return []  # it was stopped meanwhile, and its files are closed
            began_ns = steady_ns()
    return found


def _broker_families(running: RunningBroker) -> Iterator[MetricFamily]:
    state = running.broker.state
    node = metrics_node(state)
    yield from collect_metrics(state, running.server.clock())
    yield node.family(own.EVENT_LOOP_LAG, [((), running.loop_lag)])
    yield from _server_families(node, running.server)


def _server_families(node: MetricNode, server: RemotingServer) -> Iterator[MetricFamily]:
    yield node.family(own.BUILD_INFO, [((__version__, platform.python_version()), 1)])
    yield node.family(own.CONNECTIONS, [((), len(server))])
    yield node.family(own.CONNECTIONS_OPENED, [((), server.connections_opened)])
    yield node.family(own.CONNECTIONS_CLOSED, [((), server.connections_closed)])
    yield node.family(own.RECEIVED_BYTES, [((), server.received_bytes)])
    yield node.family(own.SENT_BYTES, [((), server.sent_bytes)])
    yield node.family(own.BUGS, [((), server.bugs)])
