"""Topics are made everywhere and told of everywhere, listed without the servers' own, widened, and deleted."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.admin_scene import put, with_admin

from steelyard.client.admin import Admin
from steelyard.client.admin.topics import TopicKind
from steelyard.client.connect import Connect
from steelyard.errors import BrokerNotFound, ConfigurationError, InvalidParameter, TopicExists, TopicNotFound
from steelyard.model import Permission, Queue
from steelyard.serve.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, name_servers=2) as running:
        yield running


def test_a_topic_that_was_made_is_told_of_by_every_name_server(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.create_topic("made", 3)
        assert made.brokers == ("broker-0", "broker-1")
        assert [str(each.queue) for each in made.queues] == [
            f"made@broker-{broker}:{number}" for broker in range(2) for number in range(3)
        ]

    with_admin(cluster.namesrv, work)
    for address in cluster.namesrv.split(";"):
        assert with_admin(address, lambda admin: admin.topic("made")).messages == 0


def test_a_topic_may_be_on_some_brokers_only(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        assert (await admin.create_topic("one", 2, brokers=["broker-1"])).brokers == ("broker-1",)
        assert (await admin.create_topic("all", 2, cluster="DefaultCluster")).brokers == ("broker-0", "broker-1")
        with pytest.raises(BrokerNotFound, match=r"no broker 'broker-9'; .*broker-1"):
            await admin.create_topic("none", 2, brokers=["broker-9"])
        with pytest.raises(BrokerNotFound, match="no cluster 'nowhere'; known are: DefaultCluster"):
            await admin.create_topic("none", 2, cluster="nowhere")

    with_admin(cluster.namesrv, work)


def test_making_a_topic_again_fills_in_what_is_missing_and_changes_nothing_else(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic("again", 2, brokers=["broker-0"])
        assert (await admin.create_topic("again", 2)).brokers == ("broker-0", "broker-1")
        assert (await admin.create_topic("again", 2)).brokers == ("broker-0", "broker-1")
        with pytest.raises(TopicExists, match="'again' exists already: broker-0 has 2 queues"):
            await admin.create_topic("again", 1)

    with_admin(cluster.namesrv, work)


def test_what_may_be_done_with_a_topic_is_said_when_it_is_made(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.create_topic("archive", 1, write=False)
        assert {each.permission for each in made.counts} == {Permission.READ}

    with_admin(cluster.namesrv, work)


def test_an_ordered_topic_has_its_list_of_queues_at_the_name_servers(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.create_topic("ordered", 2, order=True)
        assert made.order == "broker-0:2;broker-1:2"
        assert (await admin.add_queues("ordered", 3)).order == "broker-0:3;broker-1:3"
        await admin.delete_topic("ordered")
        assert (await admin.create_topic("ordered", 2)).order is None

    with_admin(cluster.namesrv, work)


def test_queues_are_added_and_never_taken_away(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic("wide", 2, write=False)
        wider = await admin.add_queues("wide", 5)
        assert [(each.read, each.write, each.permission) for each in wider.counts] == [(5, 5, Permission.READ)] * 2
        with pytest.raises(ConfigurationError, match="'wide' has 5 queues on a broker, and 4 would be fewer"):
            await admin.add_queues("wide", 4)

    with_admin(cluster.namesrv, work)


def test_topics_of_the_servers_and_of_groups_are_listed_only_when_asked_for(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic("users", 2)
        await admin.create_topic("%RETRY%somebody", 1)
        await admin.create_topic("%DLQ%somebody", 1)
        mine = {topic.name: topic for topic in await admin.topics()}
        assert {topic.kind for topic in mine.values()} == {TopicKind.USERS}
        assert (mine["users"].queues, mine["users"].brokers) == (4, ("broker-0", "broker-1"))
        kinds = {topic.name: topic.kind for topic in await admin.topics(system=True)}
        assert kinds["TBW102"] is kinds["broker-0"] is kinds["DefaultCluster"] is TopicKind.SYSTEM
        assert (kinds["%RETRY%somebody"], kinds["%DLQ%somebody"]) == (TopicKind.RETRY, TopicKind.DEAD)

    with_admin(cluster.namesrv, work)


def test_a_topic_tells_how_far_its_queues_are_and_when_they_were_written(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic("written", 2)
        for body in (b"a", b"b"):
            put(cluster.brokers["broker-1"], Queue("written", "broker-1", 1), body)
        seen = await admin.topic("written")
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
        await admin.create_topic("short-lived", 2)
        await admin.delete_topic("short-lived")
        assert "short-lived" not in {topic.name for topic in await admin.topics()}
        with pytest.raises(TopicNotFound):
            await admin.delete_topic("short-lived")

    with_admin(cluster.namesrv, work)
    for address in cluster.namesrv.split(";"):
        with pytest.raises(TopicNotFound):
            with_admin(address, lambda admin: admin.topic("short-lived"))


def test_a_topic_that_is_not_there_is_an_error_that_says_which_was_meant(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topic("orders", 1)
        with pytest.raises(TopicNotFound) as caught:
            await admin.topic("ordres")
        assert str(caught.value) == (
            f"topic 'ordres' does not exist on {cluster.namesrv} (asked broker-0, broker-1). Did you mean 'orders'? "
            "Create it with: steelyard topic create ordres"
        )

    with_admin(cluster.namesrv, work)


@pytest.mark.parametrize(("name", "queues"), [("too many", 65_537), ("none", 0), ("a/b", 1)])
def test_what_cannot_be_a_topic_is_refused(cluster: Cluster, name: str, queues: int) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises((ConfigurationError, InvalidParameter)):
            await admin.create_topic(name, queues)

    with_admin(cluster.namesrv, work)


def test_a_namespace_hides_the_topics_of_others_and_itself(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(Connect(cluster.namesrv, namespace="eu")) as eu, Admin(cluster.namesrv) as everybody:
            made = await eu.create_topic("tenants", 1)
            assert made.queues[0].queue.topic == "tenants"
            assert [topic.name for topic in await eu.topics()] == ["tenants"]
            assert "eu%tenants" in {topic.name for topic in await everybody.topics()}
            with pytest.raises(TopicNotFound, match="Did you mean 'tenants'"):
                await eu.topic("tenant")
            await eu.delete_topic("tenants")

    asyncio.run(work())
