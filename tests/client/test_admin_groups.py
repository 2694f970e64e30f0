"""Groups: listed, made, changed, looked at as one value, and deleted."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.admin_scene import commit, put, with_admin
from tests.client.hand_member import HandMember

from steelyard.balance.explain import Why
from steelyard.client.admin import Admin
from steelyard.client.admin.group_plan import plan_change
from steelyard.errors import ConfigurationError, ConsumerOffline, GroupNotFound
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster

OLD, NEW, JAVA = "a-old@sy1", "b-new@sy1", "c-java@7"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def _queues(topic: str, each: int) -> list[Queue]:
    return [Queue(topic, f"broker-{broker}", number) for broker in range(2) for number in range(each)]


def test_groups_are_listed_with_members_and_lag(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("listed", 1)
            queue = Queue("listed", "broker-0", 0)
            put(cluster.brokers["broker-0"], queue, b"a")
            put(cluster.brokers["broker-0"], queue, b"b")
            async with HandMember(cluster.namesrv, "listed-group", ("listed",), OLD):
                commit(cluster.brokers["broker-0"], "listed-group", queue, 1)
                found = {group.name: group for group in await admin.groups()}["listed-group"]
                assert (found.members, found.kind, found.broadcast, found.lag) == (1, "push", False, 1)
            found = {group.name: group for group in await admin.groups()}["listed-group"]
            assert (found.members, found.kind, found.lag) == (0, None, 1)
            assert "TOOLS_CONSUMER" not in {group.name for group in await admin.groups()}
            assert "TOOLS_CONSUMER" in {group.name for group in await admin.groups(system=True)}

    asyncio.run(work())


def test_a_group_is_changed_only_where_something_is_said(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_group("changed", retries=3)
        await admin.create_group("changed", broadcast=False)
        tables = await admin._group_tables((await admin._places()).values())
        assert {(each.max_retries, each.broadcast_enabled) for each in tables["changed"].values()} == {(3, False)}
        assert set(tables["changed"]) == {"broker-0", "broker-1"}

    with_admin(cluster.namesrv, work)


def test_a_group_with_members_is_not_deleted_and_an_idle_one_is(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("ended", 1)
            async with HandMember(cluster.namesrv, "ended-group", ("ended",), OLD):
                with pytest.raises(ConfigurationError, match="has 1 member online"):
                    await admin.delete_group("ended-group")
            await admin.delete_group("ended-group")
            with pytest.raises(GroupNotFound):
                await admin.group("ended-group")
            assert "%RETRY%ended-group" not in {topic.name for topic in await admin.topics(system=True)}

    asyncio.run(work())


def test_a_group_that_is_not_there_is_an_error_that_says_which_was_meant(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_group("billing")
        with pytest.raises(GroupNotFound) as caught:
            await admin.group("biling")
        assert str(caught.value) == (
            f"group 'biling' does not exist on {cluster.namesrv} (asked broker-0, broker-1). Did you mean 'billing'? "
            "Its first consumer makes it, or: steelyard group create biling"
        )

    with_admin(cluster.namesrv, work)


def test_a_view_has_members_owners_and_lag(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("viewed", 2)
            queues = _queues("viewed", 2)
            async with (
                HandMember(cluster.namesrv, "viewers", ("viewed",), OLD) as old,
                HandMember(cluster.namesrv, "viewers", ("viewed",), NEW) as new,
            ):
                await old.take(queues[:2])
                await new.take(queues[2:])
                put(cluster.brokers["broker-0"], queues[0], b"a")
                commit(cluster.brokers["broker-1"], "viewers", queues[2], 0)
                commit(cluster.brokers["broker-0"], "viewers", queues[0], 0)
                view = await admin.group("viewers")
                assert [member.id for member in view.members] == [OLD, NEW]
                assert {member.strategy for member in view.members} == {"STICKY"}
                assert all(member.ours and member.topics == ("viewed",) for member in view.members)
                assert all(member.started_at is not None for member in view.members)
                assert [each.owner for each in view.queues] == [OLD, OLD, NEW, NEW]
                assert (view.lag, view.queues[0].lag, view.strategy, view.hazards) == (1, 1, "STICKY", ())
                assert str(view).splitlines()[0] == (
                    "group viewers has 2 members and 4 queues of viewed, shared by STICKY; 1 message waits"
                )

    asyncio.run(work())


def test_a_member_of_another_client_says_itself_what_it_has(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("mixed", 2)
            queues = _queues("mixed", 2)
            async with (
                HandMember(cluster.namesrv, "mixers", ("mixed",), OLD) as ours,
                HandMember(cluster.namesrv, "mixers", ("mixed",), JAVA, ours=False) as java,
            ):
                await ours.take(queues[:2])
                await java.take(queues[1:3])
                view = await admin.group("mixers")
                assert [each.owners for each in view.queues] == [(OLD,), (OLD, JAVA), (JAVA,), ()]
                assert view.strategy == "AVG"
                told = {hazard.kind for hazard in view.hazards}
                assert told == {"foreign members", "unowned queues", f"claimed twice {queues[1]}"}
                (member,) = [each for each in await admin.members("mixers") if each.id == JAVA]
                assert (member.ours, member.language, member.release) == (False, "JAVA", "5.3.3")
                assert member.brokers == ("broker-0", "broker-1")
                running = await admin.ask_member("mixers", JAVA)
                assert [str(held.queue) for held in running.queues] == ["mixed@broker-0:1", "mixed@broker-1:0"]
                assert (running.queues[0].committed, running.queues[0].waiting) == (3, 2)
                assert running.started_at is not None

    asyncio.run(work())


def test_who_is_not_online_cannot_be_asked(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("asked", 1)
            async with HandMember(cluster.namesrv, "asked-group", ("asked",), OLD):
                with pytest.raises(ConsumerOffline, match=rf"group asked-group has no member 'x'; online are: {OLD}"):
                    await admin.ask_member("asked-group", "x")
            assert await admin.members("asked-group") == []
            with pytest.raises(GroupNotFound):
                await admin.members("asked-gruop")

    asyncio.run(work())


def test_more_members_than_queues_is_told(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("narrow", 1, brokers=["broker-0"])
            queue = Queue("narrow", "broker-0", 0)
            async with (
                HandMember(cluster.namesrv, "narrows", ("narrow",), OLD) as old,
                HandMember(cluster.namesrv, "narrows", ("narrow",), NEW),
            ):
                await old.take([queue])
                view = await admin.group("narrows")
                assert [hazard.kind for hazard in view.hazards] == ["idle members"]
                assert NEW in view.hazards[0].sentence

    asyncio.run(work())


def test_unequal_members_are_told_of(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("wanted", 1)
            await admin.create_topic("unwanted", 1)
            async with (
                HandMember(cluster.namesrv, "unequals", ("wanted", "unwanted"), OLD),
                HandMember(cluster.namesrv, "unequals", ("wanted",), NEW, strategy="AVG"),
            ):
                view = await admin.group("unequals")
                assert view.topics == ("unwanted", "wanted")
                assert any("each topic is shared among its subscribers" in hazard.sentence for hazard in view.hazards)
                assert not any("stay unread" in hazard.sentence for hazard in view.hazards)
                assert "unequal strategies" in {hazard.kind for hazard in view.hazards}

    asyncio.run(work())


def test_a_change_is_tried_out_on_a_live_group(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic("tried", 3)
            queues = _queues("tried", 3)
            async with (
                HandMember(cluster.namesrv, "triers", ("tried",), OLD) as old,
                HandMember(cluster.namesrv, "triers", ("tried",), NEW) as new,
            ):
                await old.take(queues[:3])
                await new.take(queues[3:])
                view = await admin.group("triers")
                joined = plan_change(view, join=["z@sy1"])
                assert (joined.moved, joined.least, joined.most, joined.fewest) == (2, 2, 2, 2)
                left = plan_change(view, leave=[NEW])
                assert (left.moved, left.least, left.count(Why.OWNER_LEFT)) == (3, 3, 3)
                average = plan_change(view, join=["z@sy1"], strategy="average")
                assert average.moved >= joined.moved

    asyncio.run(work())
