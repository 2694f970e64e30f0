"""Groups: listed, created, changed, described as one value, and deleted."""

import asyncio
from collections.abc import Iterator

import pytest

from steelyard.balance.assignors.explain import ChangeReason
from steelyard.client.admin import Admin
from steelyard.client.admin.group_description import dry_run_rebalance
from steelyard.errors import ConfigurationError, ConsumerOffline, GroupNotFound
from steelyard.model import Queue
from steelyard.net.clock import now_ms
from steelyard.serve.embedded import Cluster
from tests.client.admin_scene import commit, put, with_admin
from tests.client.manual_member import ManualMember

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
            await admin.topics.create("listed", 1)
            queue = Queue("listed", "broker-0", 0)
            put(cluster.brokers["broker-0"], queue, b"a")
            put(cluster.brokers["broker-0"], queue, b"b")
            async with ManualMember(cluster.namesrv, "listed-group", ("listed",), OLD):
                commit(cluster.brokers["broker-0"], "listed-group", queue, 1)
                found = {group.name: group for group in await admin.groups.list()}["listed-group"]
                assert (found.members, found.kind, found.broadcast, found.lag) == (1, "push", False, 1)
            found = {group.name: group for group in await admin.groups.list()}["listed-group"]
            assert (found.members, found.kind, found.lag) == (0, None, 1)
            assert "TOOLS_CONSUMER" not in {group.name for group in await admin.groups.list()}
            assert "TOOLS_CONSUMER" in {group.name for group in await admin.groups.list(system=True)}

    asyncio.run(work())


def test_only_given_settings_of_a_group_are_changed(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.groups.create("changed", retries=3)
        await admin.groups.create("changed", broadcast=False)
        tables = await admin._session.group_tables((await admin._session.broker_places()).values())
        assert {(each.max_retries, each.broadcast_enabled) for each in tables["changed"].values()} == {(3, False)}
        assert set(tables["changed"]) == {"broker-0", "broker-1"}

    with_admin(cluster.namesrv, work)


def test_a_group_with_members_is_not_deleted_and_an_idle_one_is(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("ended", 1)
            async with ManualMember(cluster.namesrv, "ended-group", ("ended",), OLD):
                with pytest.raises(ConfigurationError, match="has 1 member online"):
                    await admin.groups.delete("ended-group")
            await admin.groups.delete("ended-group")
            with pytest.raises(GroupNotFound):
                await admin.groups.describe("ended-group")
            assert "%RETRY%ended-group" not in {topic.name for topic in await admin.topics.list(system=True)}

    asyncio.run(work())


def test_the_error_for_an_unknown_group_suggests_a_name(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.groups.create("billing")
        with pytest.raises(GroupNotFound) as caught:
            await admin.groups.describe("biling")
        assert str(caught.value) == (
            f"group 'biling' does not exist on {cluster.namesrv} (asked broker-0, broker-1). Did you mean 'billing'? "
            "Its first consumer makes it, or: steelyard group create biling"
        )

    with_admin(cluster.namesrv, work)


def test_a_description_has_members_owners_and_lag(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("viewed", 2)
            queues = _queues("viewed", 2)
            async with (
                ManualMember(cluster.namesrv, "viewers", ("viewed",), OLD) as old,
                ManualMember(cluster.namesrv, "viewers", ("viewed",), NEW) as new,
            ):
                await old.acquire(queues[:2])
                await new.acquire(queues[2:])
                put(cluster.brokers["broker-0"], queues[0], b"a")
                commit(cluster.brokers["broker-1"], "viewers", queues[2], 0)
                commit(cluster.brokers["broker-0"], "viewers", queues[0], 0)
                view = await admin.groups.describe("viewers")
                assert [member.id for member in view.members] == [OLD, NEW]
                assert {member.strategy for member in view.members} == {"STICKY"}
                assert all(member.ours and member.topics == ("viewed",) for member in view.members)
                assert all(member.started_at is not None for member in view.members)
                assert [each.owner for each in view.queues] == [OLD, OLD, NEW, NEW]
                assert (view.lag, view.queues[0].lag, view.strategy, view.findings) == (1, 1, "STICKY", ())
                assert str(view).splitlines()[0] == (
                    "group viewers has 2 members and 4 queues of viewed, strategy STICKY; lag 1"
                )

    asyncio.run(work())


def test_a_member_of_another_client_reports_its_queues_itself(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("mixed", 2)
            queues = _queues("mixed", 2)
            async with (
                ManualMember(cluster.namesrv, "mixers", ("mixed",), OLD) as ours,
                ManualMember(cluster.namesrv, "mixers", ("mixed",), JAVA, ours=False) as java,
            ):
                await ours.acquire(queues[:2])
                await java.acquire(queues[1:3])
                view = await admin.groups.describe("mixers")
                assert [each.owners for each in view.queues] == [(OLD,), (OLD, JAVA), (JAVA,), ()]
                assert view.strategy == "AVG"
                kinds = {finding.kind for finding in view.findings}
                assert kinds == {"foreign members", "unowned queues", f"claimed twice: {queues[1]}"}
                (member,) = [each for each in await admin.groups.members("mixers") if each.id == JAVA]
                assert (member.ours, member.language, member.release) == (False, "JAVA", "5.3.3")
                assert member.brokers == ("broker-0", "broker-1")
                running = await admin.groups.member_status("mixers", JAVA)
                assert [str(held.queue) for held in running.queues] == ["mixed@broker-0:1", "mixed@broker-1:0"]
                assert (running.queues[0].committed, running.queues[0].waiting) == (3, 2)
                assert running.started_at is not None

    asyncio.run(work())


def test_a_java_member_that_finished_nothing_for_a_minute_is_stuck(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("still", 1, brokers=["broker-0"])
            queue = Queue("still", "broker-0", 0)
            async with ManualMember(cluster.namesrv, "stills", ("still",), JAVA, ours=False) as java:
                await java.acquire([queue])
                java.consumed_ms = now_ms() - 90_000
                (finding,) = (await admin.groups.describe("stills")).findings
                assert finding.kind == f"stuck: {JAVA}"
                assert f"{JAVA} of group stills has made no progress for 1 min 3" in finding.message
                java.consumed_ms = now_ms() - 10_000
                view = await admin.groups.describe("stills")
                assert (view.findings, view.queues[0].stuck_since) == ((), None)

    asyncio.run(work())


def test_a_member_that_is_offline_is_an_error(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("asked", 1)
            async with ManualMember(cluster.namesrv, "asked-group", ("asked",), OLD):
                with pytest.raises(ConsumerOffline, match=rf"group asked-group has no member 'x'; online are: {OLD}"):
                    await admin.groups.member_status("asked-group", "x")
            assert await admin.groups.members("asked-group") == []
            with pytest.raises(GroupNotFound):
                await admin.groups.members("asked-gruop")

    asyncio.run(work())


def test_more_members_than_queues_is_a_finding(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("narrow", 1, brokers=["broker-0"])
            queue = Queue("narrow", "broker-0", 0)
            async with (
                ManualMember(cluster.namesrv, "narrows", ("narrow",), OLD) as old,
                ManualMember(cluster.namesrv, "narrows", ("narrow",), NEW),
            ):
                await old.acquire([queue])
                view = await admin.groups.describe("narrows")
                assert [finding.kind for finding in view.findings] == ["idle members"]
                assert NEW in view.findings[0].message

    asyncio.run(work())


def test_unequal_members_are_findings(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("wanted", 1)
            await admin.topics.create("unwanted", 1)
            async with (
                ManualMember(cluster.namesrv, "unequals", ("wanted", "unwanted"), OLD),
                ManualMember(cluster.namesrv, "unequals", ("wanted",), NEW, strategy="AVG"),
            ):
                view = await admin.groups.describe("unequals")
                assert view.topics == ("unwanted", "wanted")
                assert any("each topic is shared among its subscribers" in finding.message for finding in view.findings)
                assert not any("stay unread" in finding.message for finding in view.findings)
                assert "unequal strategies" in {finding.kind for finding in view.findings}

    asyncio.run(work())


def test_a_rebalance_of_a_live_group_is_computed_in_a_dry_run(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            await admin.topics.create("tried", 3)
            queues = _queues("tried", 3)
            async with (
                ManualMember(cluster.namesrv, "triers", ("tried",), OLD) as old,
                ManualMember(cluster.namesrv, "triers", ("tried",), NEW) as new,
            ):
                await old.acquire(queues[:3])
                await new.acquire(queues[3:])
                view = await admin.groups.describe("triers")
                joined = dry_run_rebalance(view, join=["z@sy1"])
                assert (joined.moved, joined.least, joined.most, joined.fewest) == (2, 2, 2, 2)
                left = dry_run_rebalance(view, leave=[NEW])
                assert (left.moved, left.least, left.count(ChangeReason.OWNER_LEFT)) == (3, 3, 3)
                average = dry_run_rebalance(view, join=["z@sy1"], strategy="average")
                assert average.moved >= joined.moved

    asyncio.run(work())
