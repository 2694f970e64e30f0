"""`/metrics` of the page: what runs here tells all; a cluster elsewhere what it lets be seen, under the same names."""

import asyncio
import builtins
from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from steelyard import Admin, Consumer, Message, Producer, ReceivedMessage
from steelyard.aio import Admin as AsyncAdmin
from steelyard.client.admin.brokers import BrokerAdmin, BrokerStatus
from steelyard.client.config import ClientConfig
from steelyard.dashboard import metrics
from steelyard.dashboard.context import DashboardContext, LocalMetrics
from steelyard.dashboard.metrics import collect_cluster_metrics, metrics_response
from steelyard.dashboard.options import DashboardOptions
from steelyard.dashboard.server import Dashboard
from steelyard.metrics import rocketmq_metrics as rocketmq
from steelyard.metrics import steelyard_metrics as own
from steelyard.metrics.exposition import Exposition
from steelyard.metrics.families import MetricFamily, MetricSpec
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.serve.metrics import metrics_collector
from tests.dashboard.http_client import http_request
from tests.live.clusters import until


def _context(cluster: Cluster, local: LocalMetrics) -> DashboardContext:
    config = ClientConfig(cluster.namesrv)
    return DashboardContext(AsyncAdmin(config), config, DashboardOptions(), local)


def outside(cluster: Cluster, kind: type[AsyncAdmin] = AsyncAdmin) -> dict[str, MetricFamily]:
    """Look at a cluster from outside."""

    async def collect() -> list[MetricFamily]:
        async with kind(cluster.namesrv) as admin:
            return await collect_cluster_metrics(admin)

    return {family.name: family for family in asyncio.run(collect())}


def reported(families: dict[str, MetricFamily], wanted: MetricSpec, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the numbers of a family by some of its labels, those of several brokers summed up."""
    found = Counter[tuple[str, ...]]()
    for sample in families[wanted.name].samples:
        assert tuple(sample.labels) == wanted.labels
        found[tuple(sample.labels[name] for name in labels)] += getattr(sample, "value", 0)
    return dict(found)


def test_a_cluster_elsewhere_tells_what_an_administrator_may_ask(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.topics.create("orders", queues=2)
        admin.groups.create("billing")
        for queue in [each.queue for each in admin.topics.describe("orders").queues] * 5:
            producer.send(Message("orders", b"x"), queue=queue)
        cluster.call(_commit)
        consumer = Consumer(cluster.namesrv, group="audit", start_from="last")
        consumer.handles("orders")(_pass)
        with consumer:
            until(lambda: any(len(each.brokers) == 2 for each in admin.groups.members("audit")), "both brokers know it")
            found = outside(cluster)
    assert reported(found, rocketmq.MESSAGES_IN, "topic")["orders",] == 20
    assert reported(found, rocketmq.CONSUMER_LAG, "consumer_group", "topic")["billing", "orders"] == 4 * 3
    assert reported(found, rocketmq.CONSUMER_CONNECTIONS, "consumer_group", "consume_mode") == {("audit", "push"): 1}
    assert reported(found, own.BROKER_REACHED, "node_id") == {("broker-0",): 1, ("broker-1",): 1}
    assert reported(found, own.QUESTIONS_UNANSWERED, "cluster") == {("DefaultCluster",): 0}
    assert rocketmq.CONSUMER_LAG_LATENCY.name not in found


def _commit(running: RunningCluster) -> None:
    for broker in running.running_brokers:
        for queue_id in range(2):
            broker.broker.state.offsets.put("billing", "orders", queue_id, 2)


def _pass(message: ReceivedMessage) -> None:
    del message


class _OneMissing(BrokerAdmin):
    """Brokers of a cluster with one more, which does not answer."""

    async def list(self) -> builtins.list[BrokerStatus]:
        missing = BrokerStatus("broker-2", "DefaultCluster", {0: "127.0.0.1:1"}, problem="it does not answer")
        return [*await super().list(), missing]


class _OneIsMissing(AsyncAdmin):
    def __init__(self, namesrv: str) -> None:
        super().__init__(namesrv)
        self.brokers = _OneMissing(self._session)


def test_a_broker_that_does_not_answer_is_reported_as_not_reached(cluster: Cluster) -> None:
    found = outside(cluster, _OneIsMissing)
    assert reported(found, own.BROKER_REACHED, "node_id") == {("broker-0",): 1, ("broker-1",): 1, ("broker-2",): 0}
    assert reported(found, own.QUESTIONS_UNANSWERED, "cluster") == {("DefaultCluster",): 0}


def test_the_dashboard_of_a_cluster_elsewhere_answers_with_what_it_sees(dashboard: Dashboard) -> None:
    answer = http_request(dashboard, "/metrics", headers={"Authorization": f"Bearer {dashboard.options.token}"})
    assert (answer.status, answer.headers["content-type"]) == (200, Exposition.PLAIN.value)
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {own.BROKER_REACHED.name, rocketmq.TOPIC_COUNT.name} <= names
    assert own.EVENT_LOOP_LAG.name not in names


def test_the_dashboard_of_a_cluster_in_the_same_process_reports_all(cluster: Cluster) -> None:
    local = cluster.call(metrics_collector)
    with Dashboard(cluster.namesrv, DashboardOptions(port=0), local_metrics=local) as dashboard:
        headers = {"Authorization": f"Bearer {dashboard.options.token}", "Accept": "application/openmetrics-text"}
        answer = http_request(dashboard, "/metrics", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, Exposition.OPEN.value)
    assert answer.body.endswith(b"# EOF\n")
    assert own.EVENT_LOOP_LAG.name in answer.body.decode()


def test_what_is_not_answered_in_time_is_left_out_and_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(brokers: BrokerAdmin, name: str) -> object:
        del brokers, name
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(metrics, "_PART_TIMEOUT_S", 0.01)
    monkeypatch.setattr(BrokerAdmin, "lag", never)
    found = outside(cluster)
    assert rocketmq.CONSUMER_LAG.name not in found
    assert reported(found, own.QUESTIONS_UNANSWERED, "cluster")["DefaultCluster",] >= 2


def test_many_scrapes_at_once_cost_one_poll(cluster: Cluster) -> None:
    polls = 0

    async def local() -> list[MetricFamily]:
        nonlocal polls
        polls += 1
        await asyncio.sleep(0)
        return [own.SAMPLES_LEFT_OUT.family([(("shop", "broker", "broker-a"), polls)])]

    async def scrape() -> list[tuple[str, str]]:
        dashboard_context = _context(cluster, local)
        return await asyncio.gather(*(metrics_response(dashboard_context) for _ in range(20)))

    answers = asyncio.run(scrape())
    assert polls == 1
    assert len(set(answers)) == 1


def test_an_answer_grows_old(cluster: Cluster) -> None:
    polls = 0

    async def local() -> list[MetricFamily]:
        nonlocal polls
        polls += 1
        return []

    async def scrape() -> None:
        dashboard_context = _context(cluster, local)
        await metrics_response(dashboard_context)
        dashboard_context.cache[metrics._CACHE_KEY].until_ms = 0
        await metrics_response(dashboard_context)

    asyncio.run(scrape())
    assert polls == 2
