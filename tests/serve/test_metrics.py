"""The metrics of a whole cluster, while it is used."""

import asyncio
import platform
from collections import defaultdict
from pathlib import Path
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from steelyard import Consumer, Message, Producer, ReceivedMessage
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.exposition import format_exposition
from steelyard.serve.embedded import Cluster
from steelyard.serve.metrics import collect_server_metrics, metrics_collector
from steelyard.version import __version__
from tests.waiting import until

Numbers: TypeAlias = dict[str, dict[tuple[str, ...], float]]


def numbers(cluster: Cluster) -> Numbers:
    """Measure a cluster, write that down, and read it again: by the name of a sample and the values of its labels."""
    found: Numbers = defaultdict(dict)
    for family in text_string_to_metric_families(format_exposition(cluster.run(collect_server_metrics))):
        for sample in family.samples:
            found[sample.name][tuple(sample.labels.values())] = sample.value
    return found


def until_reported(cluster: Cluster, name: str, least: float, *labels: str) -> Numbers:
    """Measure until the sum of a family's samples with these labels is large enough."""
    found: Numbers = {}

    def is_told() -> bool:
        nonlocal found
        found = numbers(cluster)
        return sum(value for known, value in found[name].items() if set(labels) <= set(known)) >= least

    until(is_told, f"{name} is at least {least}")
    return found


def test_connections_bytes_and_messages_are_counted_while_clients_come_and_go() -> None:
    with Cluster(brokers=2) as cluster, Producer(cluster.namesrv) as producer:
        for number in range(10):
            producer.send(Message("orders", b"x" * 100, keys=str(number)))
        found = numbers(cluster)
        brokers = {("DefaultCluster", "broker", name) for name in cluster.brokers}
        name_servers = {("DefaultCluster", "nameserver", cluster.namesrv)}
        assert set(found[own.CONNECTIONS.name]) == brokers | name_servers
        assert all(found[own.RECEIVED_BYTES.name].values())
        assert all(found[own.SENT_BYTES.name].values())
        assert sum(found[own.CONNECTIONS_OPENED.name].values()) >= len(brokers) + len(name_servers)
        assert sum(found[own.BUGS.name].values()) == 0
        ours = {labels: value for labels, value in found[rocketmq.MESSAGES_IN.name].items() if "orders" in labels}
        assert sum(ours.values()) == 10


def test_the_lag_of_the_loop_and_the_time_of_syncs_are_measured(tmp_path: Path) -> None:
    with Cluster(data=tmp_path, flush="sync") as cluster, Producer(cluster.namesrv) as producer:
        for _ in range(5):
            producer.send(Message("orders", b"x"))
        found = until_reported(cluster, f"{own.EVENT_LOOP_LAG.name}_count", 3)
        assert sum(found[f"{own.FSYNC_DURATION.name}_count"].values()) >= 5
        assert sum(found[f"{own.FSYNC_DURATION.name}_sum"].values()) > 0
        assert set(found[own.RECOVERY_UNCLEAN.name].values()) == {0}
        cluster.kill_broker("broker-0")
        cluster.start_broker("broker-0")
        assert set(numbers(cluster)[own.RECOVERY_UNCLEAN.name].values()) == {1}


def test_rebalances_moves_and_held_queues_are_measured_by_group() -> None:
    with Cluster() as cluster, Producer(cluster.namesrv) as producer:
        for _ in range(4):
            producer.send(Message("orders", b"x"))
        one, two = (Consumer(cluster.namesrv, group="billing", name=name) for name in ("one", "two"))
        for consumer in (one, two):
            consumer.handles("orders")(_pass)
        with one:
            until_reported(cluster, own.GROUP_QUEUES.name, 4, "billing", "held")
            with two:
                until_reported(cluster, own.MOVES.name, 2, "billing", "given up")
            until_reported(cluster, own.MOVES.name, 2, "billing", "left")
            found = until_reported(cluster, own.REBALANCES.name, 1, "billing")
        assert sum(found[f"{own.HANDOVER_GAP.name}_count"].values()) == sum(found[own.MOVES.name].values())
        rebalances = sum(found[own.REBALANCES.name].values())
        assert rebalances == sum(found[f"{own.REBALANCE_DURATION.name}_count"].values())


def _pass(message: ReceivedMessage) -> None:
    del message


def test_every_server_says_its_version_and_that_of_its_python() -> None:
    with Cluster(brokers=2) as cluster:
        found = numbers(cluster)[own.BUILD_INFO.name]
    assert {labels[3:] for labels in found} == {(__version__, platform.python_version())}
    assert (len(found), set(found.values())) == (3, {1})


def test_a_broker_that_does_not_run_reports_nothing() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.stop_broker("broker-1")
        assert {labels[2] for labels in numbers(cluster)[rocketmq.TOPIC_COUNT.name]} == {"broker-0"}


def test_a_cluster_is_measured_from_another_loop() -> None:
    with Cluster() as cluster:
        measured = cluster.call(metrics_collector)

        async def elsewhere() -> set[str]:
            return {family.name for family in await measured()}

        assert rocketmq.TOPIC_COUNT.name in asyncio.run(elsewhere())
