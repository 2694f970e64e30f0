"""`/metrics` of the page: what runs here tells all; a cluster elsewhere what it lets be seen, under the same names."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.dashboard.asking import ask
from tests.live.clusters import until

from steelyard import Admin, Consumer, Message, Producer, Received
from steelyard.aio import Admin as AsyncAdmin
from steelyard.client.admin.cluster import Broker
from steelyard.dashboard.desk import LocalMeasures
from steelyard.dashboard.numbers import from_outside, measures
from steelyard.dashboard.numbers.from_outside import measure_from_outside
from steelyard.dashboard.numbers.measures import exposition
from steelyard.dashboard.options import PageOptions
from steelyard.dashboard.page import Page
from steelyard.model import own_measures as own
from steelyard.model import rocketmq_measures as rocketmq
from steelyard.model.exposition import Exposition
from steelyard.model.measures import Family, Measure
from steelyard.serve.cluster import RunningCluster
from steelyard.serve.embedded import Cluster
from steelyard.serve.measuring import measured_from_elsewhere


@dataclass
class Desk:
    """What is needed of a desk."""

    admin: AsyncAdmin
    local_measures: LocalMeasures | None = None
    kept: dict[str, Any] = field(default_factory=dict)


def outside(cluster: Cluster, kind: type[AsyncAdmin] = AsyncAdmin) -> dict[str, Family]:
    """Look at a cluster from outside."""

    async def look() -> list[Family]:
        async with kind(cluster.namesrv) as admin:
            return await measure_from_outside(admin)

    return {family.name: family for family in asyncio.run(look())}


def told(families: dict[str, Family], wanted: Measure, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the numbers of a family by some of its labels, those of several brokers summed up."""
    found = Counter[tuple[str, ...]]()
    for sample in families[wanted.name].samples:
        assert tuple(sample.labels) == wanted.labels
        found[tuple(sample.labels[name] for name in labels)] += getattr(sample, "value", 0)
    return dict(found)


def test_a_cluster_elsewhere_tells_what_an_administrator_may_ask(cluster: Cluster) -> None:
    with Admin(cluster.namesrv) as admin, Producer(cluster.namesrv) as producer:
        admin.create_topic("orders", queues=2)
        admin.create_group("billing")
        for queue in [each.queue for each in admin.topic("orders").queues] * 5:
            producer.send(Message("orders", b"x"), queue=queue)
        cluster.call(_commit)
        consumer = Consumer(cluster.namesrv, group="audit", start_from="last")
        consumer.handles("orders")(_pass)
        with consumer:
            until(lambda: any(len(each.brokers) == 2 for each in admin.members("audit")), "both brokers know it")
            found = outside(cluster)
    assert told(found, rocketmq.MESSAGES_IN, "topic")["orders",] == 20
    assert told(found, rocketmq.LAG, "consumer_group", "topic")["billing", "orders"] == 4 * 3
    assert told(found, rocketmq.CONSUMERS, "consumer_group", "consume_mode") == {("audit", "push"): 1}
    assert told(found, own.REACHED, "node_id") == {("broker-0",): 1, ("broker-1",): 1}
    assert told(found, own.UNANSWERED, "cluster") == {("DefaultCluster",): 0}
    assert rocketmq.LAG_TIME.name not in found


def _commit(running: RunningCluster) -> None:
    for broker in running.running_brokers:
        for queue_id in range(2):
            broker.broker.state.offsets.put("billing", "orders", queue_id, 2)


def _pass(message: Received) -> None:
    del message


class _OneIsMissing(AsyncAdmin):
    """An administrator of a cluster with one broker more, which does not answer."""

    async def cluster(self) -> list[Broker]:
        missing = Broker("broker-2", "DefaultCluster", {0: "127.0.0.1:1"}, problem="it does not answer")
        return [*await super().cluster(), missing]


def test_a_broker_that_does_not_answer_is_told_as_not_reached(cluster: Cluster) -> None:
    found = outside(cluster, _OneIsMissing)
    assert told(found, own.REACHED, "node_id") == {("broker-0",): 1, ("broker-1",): 1, ("broker-2",): 0}
    assert told(found, own.UNANSWERED, "cluster") == {("DefaultCluster",): 0}


def test_the_page_of_a_cluster_elsewhere_answers_with_what_it_sees(page: Page) -> None:
    answer = ask(page, "/metrics", headers={"Authorization": f"Bearer {page.options.token}"})
    assert (answer.status, answer.headers["content-type"]) == (200, Exposition.PLAIN.value)
    names = {family.name for family in text_string_to_metric_families(answer.body.decode())}
    assert {own.REACHED.name, rocketmq.TOPICS.name} <= names
    assert own.LOOP_LAG.name not in names


def test_the_page_of_a_cluster_in_the_same_process_tells_all(cluster: Cluster) -> None:
    local = cluster.call(measured_from_elsewhere)
    with Page(cluster.namesrv, PageOptions(port=0), local_measures=local) as page:
        headers = {"Authorization": f"Bearer {page.options.token}", "Accept": "application/openmetrics-text"}
        answer = ask(page, "/metrics", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, Exposition.OPEN.value)
    assert answer.body.endswith(b"# EOF\n")
    assert own.LOOP_LAG.name in answer.body.decode()


def test_what_is_not_answered_in_time_is_left_out_and_counted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(admin: AsyncAdmin, name: str) -> object:
        del admin, name
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(from_outside, "_PART_S", 0.01)
    monkeypatch.setattr(AsyncAdmin, "broker_lag", never)
    found = outside(cluster)
    assert rocketmq.LAG.name not in found
    assert told(found, own.UNANSWERED, "cluster")["DefaultCluster",] >= 2


def test_many_who_scrape_at_once_cost_one_look(cluster: Cluster) -> None:
    looks = 0

    async def local() -> list[Family]:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return [own.LEFT_OUT.family([(("shop", "broker", "broker-a"), looks)])]

    async def scrape() -> list[tuple[str, str]]:
        desk = Desk(AsyncAdmin(cluster.namesrv), local)
        return await asyncio.gather(*(exposition(desk) for _ in range(20)))

    answers = asyncio.run(scrape())
    assert looks == 1
    assert len(set(answers)) == 1


def test_an_answer_grows_old(cluster: Cluster) -> None:
    looks = 0

    async def local() -> list[Family]:
        nonlocal looks
        looks += 1
        return []

    async def scrape() -> None:
        desk = Desk(AsyncAdmin(cluster.namesrv), local)
        await exposition(desk)
        desk.kept[measures._KEPT].until_ms = 0
        await exposition(desk)

    asyncio.run(scrape())
    assert looks == 2
