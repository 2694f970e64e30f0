"""Topics are created on every broker, in all routes, listed without the servers' own, widened, and deleted."""

import asyncio
from collections.abc import Iterator

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.topics import TopicKind
from steelyard.client.config import ClientConfig
from steelyard.errors import BrokerNotFound, ConfigurationError, InvalidParameter, TopicExists, TopicNotFound
from steelyard.model import Permission, Queue
from steelyard.serve.embedded import Cluster
from tests.client.admin_scene import put, with_admin


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, name_servers=2) as running:
        yield running


def test_a_created_topic_is_in_the_routes_of_every_name_server(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.topics.create("made", 3)
        assert made.brokers == ("broker-0", "broker-1")
        assert [str(each.queue) for each in made.queues] == [
            f"made@broker-{broker}:{number}" for broker in range(2) for number in range(3)
        ]

    with_admin(cluster.namesrv, work)
    for address in cluster.namesrv.split(";"):
        assert with_admin(address, lambda admin: admin.topics.describe("made")).messages == 0


def test_a_topic_may_be_on_some_brokers_only(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        assert (await admin.topics.create("one", 2, brokers=["broker-1"])).brokers == ("broker-1",)
        assert (await admin.topics.create("all", 2, cluster="DefaultCluster")).brokers == ("broker-0", "broker-1")
        with pytest.raises(BrokerNotFound, match=r"no broker 'broker-9'; .*broker-1"):
            await admin.topics.create("none", 2, brokers=["broker-9"])
        with pytest.raises(BrokerNotFound, match="no cluster 'nowhere'; known are: DefaultCluster"):
            await admin.topics.create("none", 2, cluster="nowhere")

    with_admin(cluster.namesrv, work)


def test_creating_a_topic_again_adds_what_is_missing_and_changes_nothing_else(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("again", 2, brokers=["broker-0"])
        assert (await admin.topics.create("again", 2)).brokers == ("broker-0", "broker-1")
        assert (await admin.topics.create("again", 2)).brokers == ("broker-0", "broker-1")
        with pytest.raises(TopicExists, match="'again' exists already: broker-0 has 2 queues"):
            await admin.topics.create("again", 1)

    with_admin(cluster.namesrv, work)


def test_permissions_of_a_topic_are_set_when_it_is_created(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.topics.create("archive", 1, write=False)
        assert {each.permission for each in made.counts} == {Permission.READ}

    with_admin(cluster.namesrv, work)


def test_an_ordered_topic_has_its_list_of_queues_at_the_name_servers(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.topics.create("ordered", 2, order=True)
        assert made.order == "broker-0:2;broker-1:2"
        assert (await admin.topics.add_queues("ordered", 3)).order == "broker-0:3;broker-1:3"
        await admin.topics.delete("ordered")
        assert (await admin.topics.create("ordered", 2)).order is None

    with_admin(cluster.namesrv, work)


def test_queues_are_added_and_never_taken_away(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("wide", 2, write=False)
        wider = await admin.topics.add_queues("wide", 5)
        assert [(each.read, each.write, each.permission) for each in wider.counts] == [(5, 5, Permission.READ)] * 2
        with pytest.raises(ConfigurationError, match="'wide' has 5 queues on a broker, and 4 would be fewer"):
            await admin.topics.add_queues("wide", 4)

    with_admin(cluster.namesrv, work)


def test_topics_of_the_servers_and_of_groups_are_listed_only_when_asked_for(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("users", 2)
        await admin.topics.create("%RETRY%somebody", 1)
        await admin.topics.create("%DLQ%somebody", 1)
        mine = {topic.name: topic for topic in await admin.topics.list()}
        assert {topic.kind for topic in mine.values()} == {TopicKind.USERS}
        assert (mine["users"].queues, mine["users"].brokers) == (4, ("broker-0", "broker-1"))
        kinds = {topic.name: topic.kind for topic in await admin.topics.list(system=True)}
        assert kinds["TBW102"] is kinds["broker-0"] is kinds["DefaultCluster"] is TopicKind.SYSTEM
        assert (kinds["%RETRY%somebody"], kinds["%DLQ%somebody"]) == (TopicKind.RETRY, TopicKind.DEAD)

    with_admin(cluster.namesrv, work)


def test_a_topic_has_offsets_and_times_of_its_queues(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("written", 2)
        for body in (b"a", b"b"):
            put(cluster.brokers["broker-1"], Queue("written", "broker-1", 1), body)
        seen = await admin.topics.describe("written")
        ends = {str(each.queue): (each.start, each.end) for each in seen.queues}
        assert ends == {
            "written@broker-0:0": (0, 0),
            "written@broker-0:1": (0, 0),
            "written@broker-1:0": (0, 0),
            "written@broker-1:1": (0, 2),
        }
        assert (seen.messages, seen.stored_at) == (2, seen.queues[3].stored_at)
        assert seen.stored_at is not None
        assert seen.queues[0].stored_at is None

    with_admin(cluster.namesrv, work)


def test_a_deleted_topic_is_gone_everywhere(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("short-lived", 2)
        await admin.topics.delete("short-lived")
        assert "short-lived" not in {topic.name for topic in await admin.topics.list()}
        with pytest.raises(TopicNotFound):
            await admin.topics.delete("short-lived")

    with_admin(cluster.namesrv, work)
    for address in cluster.namesrv.split(";"):
        with pytest.raises(TopicNotFound):
            with_admin(address, lambda admin: admin.topics.describe("short-lived"))


def test_the_error_for_an_unknown_topic_suggests_a_name(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("orders", 1)
        with pytest.raises(TopicNotFound) as caught:
            await admin.topics.describe("ordres")
        assert str(caught.value) == (
            f"topic 'ordres' does not exist on {cluster.namesrv} (asked broker-0, broker-1). Did you mean 'orders'? "
            "Create it with: steelyard topic create ordres"
        )

    with_admin(cluster.namesrv, work)


@pytest.mark.parametrize(("name", "queues"), [("too many", 65_537), ("none", 0), ("a/b", 1)])
def test_what_cannot_be_a_topic_is_refused(cluster: Cluster, name: str, queues: int) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises((ConfigurationError, InvalidParameter)):
            await admin.topics.create(name, queues)

    with_admin(cluster.namesrv, work)


def test_a_namespace_hides_the_topics_of_others_and_itself(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(ClientConfig(cluster.namesrv, namespace="eu")) as eu, Admin(cluster.namesrv) as everybody:
            made = await eu.topics.create("tenants", 1)
            assert made.queues[0].queue.topic == "tenants"
            assert [topic.name for topic in await eu.topics.list()] == ["tenants"]
            assert "eu%tenants" in {topic.name for topic in await everybody.topics.list()}
            with pytest.raises(TopicNotFound, match="Did you mean 'tenants'"):
                await eu.topics.describe("tenant")
            await eu.topics.delete("tenants")

    asyncio.run(work())
