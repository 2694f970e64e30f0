"""Offsets of a group, and resets: planned first, shown, then applied, whether its members run or not."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from steelyard.broker.requests.paging import check_rows
from steelyard.client.admin import Admin
from steelyard.client.admin.offsets import QueueReset, ResetTarget
from steelyard.errors import BrokerNotInRoute, ConfigurationError, GroupNotFound, TopicNotFound
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.client.admin_scene import commit, put, with_admin
from tests.client.manual_member import ManualMember


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


async def _filled(admin: Admin, cluster: Cluster, name: str) -> tuple[Queue, Queue]:
    """Make a topic with a queue of four messages on each broker, and a group that is at 1 in the first."""
    await admin.topics.create(name, 1)
    await admin.groups.create(f"{name}-group")
    first, second = Queue(name, "broker-0", 0), Queue(name, "broker-1", 0)
    for queue in (first, second):
        for _ in range(4):
            put(cluster.brokers[queue.broker], queue, b"x")
    commit(cluster.brokers["broker-0"], f"{name}-group", first, 1)
    return first, second


def test_offsets_are_listed_for_every_queue_of_a_topic(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        first, second = await _filled(admin, cluster, "told")
        rows = await admin.offsets.list("told-group", "told")
        assert [(row.queue, row.committed, row.end, row.lag) for row in rows] == [(first, 1, 4, 3), (second, 0, 4, 4)]
        assert rows[0].consumed_at is not None
        assert await admin.offsets.list("told-group") == rows[:1]

    with_admin(cluster.namesrv, work)


def test_queues_that_a_broker_does_not_tell_of_at_once_are_asked_for_one_by_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(admin: Admin) -> None:
        first, second = await _filled(admin, cluster, "wide")
        monkeypatch.setattr("steelyard.broker.requests.stats.check_rows", partial(check_rows, max_rows=0))
        assert [(row.queue, row.end) for row in (await admin.topics.describe("wide")).queues] == [
            (first, 4),
            (second, 4),
        ]
        rows = await admin.offsets.list("wide-group", "wide")
        assert [(row.queue, row.committed, row.end) for row in rows] == [(first, 1, 4), (second, 0, 4)]

    with_admin(cluster.namesrv, work)


def test_a_plan_shows_what_is_skipped_and_repeated_and_changes_nothing(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        first, second = await _filled(admin, cluster, "planned")
        plan = await admin.offsets.plan_reset("planned-group", "planned", "last")
        assert plan.moves == (QueueReset(first, 1, 4, 0, 4), QueueReset(second, 0, 4, 0, 4))
        assert (plan.skipped, plan.repeated, plan.members) == (7, 0, 0)
        assert str(plan) == "group planned-group in planned: 2 queues, skips 7, repeats 0, no member online"
        assert str(plan.moves[0]) == "planned@broker-0:0 from 1 to 4, skips 3"
        assert [row.committed for row in await admin.offsets.list("planned-group", "planned")] == [1, 0]
        back = await admin.offsets.plan_reset("planned-group", "planned", "first")
        assert (back.skipped, back.repeated) == (0, 1)

    with_admin(cluster.namesrv, work)


_NOW = datetime.now(UTC)


@pytest.mark.parametrize(
    ("name", "to", "after"),
    [
        ("first", "first", [0, 0]),
        ("last", "last", [4, 4]),
        ("long-ago", timedelta(days=1), [0, 0]),
        ("before", datetime(2020, 1, 1, tzinfo=UTC), [0, 0]),
        ("to-come", _NOW + timedelta(days=1), [4, 4]),
        ("number", 2, [2, 2]),
        ("too-large", 1_000, [4, 4]),
    ],
)
def test_a_group_is_reset_to_every_kind_of_target(
    cluster: Cluster, name: str, to: ResetTarget, after: list[int]
) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, name)
        done = await admin.offsets.reset(f"{name}-group", name, to)
        assert [move.to for move in done.moves] == after
        assert [row.committed for row in await admin.offsets.list(f"{name}-group", name)] == after

    with_admin(cluster.namesrv, work)


def test_queues_are_moved_one_by_one(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        _, second = await _filled(admin, cluster, "single")
        await admin.offsets.reset("single-group", "single", {second: 3})
        assert [row.committed for row in await admin.offsets.list("single-group", "single")] == [1, 3]

    with_admin(cluster.namesrv, work)


def test_a_reset_counts_for_a_member_that_is_online_and_leaves_it_its_lock(cluster: Cluster) -> None:
    async def work() -> None:
        async with Admin(cluster.namesrv) as admin:
            first, _ = await _filled(admin, cluster, "online")
            async with ManualMember(cluster.namesrv, "online-group", ("online",), "m1@sy1") as member:
                await member.acquire([first])
                before = await member.lock(first)
                plan = await admin.offsets.plan_reset("online-group", "online", {first: 0})
                assert plan.members == 1
                await admin.offsets.apply(plan)
                assert await member.lock(first) == before
                assert [row.committed for row in await admin.offsets.list("online-group", "online")] == [0, 0]

    asyncio.run(work())


@pytest.mark.parametrize("to", ["frist", True, None, 3.5])
def test_an_unknown_target_is_refused(cluster: Cluster, to: ResetTarget) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("odd", 1)
        await admin.groups.create("odd-group")
        with pytest.raises(ConfigurationError, match="cannot be moved to"):
            await admin.offsets.plan_reset("odd-group", "odd", to)

    with_admin(cluster.namesrv, work)


def test_what_does_not_exist_cannot_be_moved(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "there")
        with pytest.raises(GroupNotFound, match=r"Did you mean 'there-group'\?"):
            await admin.offsets.plan_reset("there-gruop", "there", "last")
        with pytest.raises(TopicNotFound, match=r"Did you mean 'there'\?"):
            await admin.offsets.plan_reset("there-group", "thre", "last")
        with pytest.raises(ConfigurationError, match="broker-0:7 is no queue that can be read"):
            await admin.offsets.plan_reset("there-group", "there", {Queue("there", "broker-0", 7): 0})

    with_admin(cluster.namesrv, work)


def test_a_plan_is_not_half_done_when_a_broker_has_gone_since() -> None:
    with Cluster(brokers=2) as two:

        async def work(admin: Admin) -> None:
            first, _ = await _filled(admin, two, "halved")
            plan = await admin.offsets.plan_reset("halved-group", "halved", "last")
            await asyncio.to_thread(two.stop_broker, "broker-1")
            with pytest.raises(BrokerNotInRoute, match="broker-1 had queues of halved when the reset was planned"):
                await admin.offsets.apply(plan)
            assert [(row.queue, row.committed) for row in await admin.offsets.list("halved-group", "halved")] == [
                (first, 1)
            ]

        with_admin(two.namesrv, work)


def test_a_group_that_one_of_the_brokers_never_saw_is_moved_there_too(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "seldom")
        await admin.groups.create("seldom-seen", brokers=["broker-0"])
        await admin.offsets.reset("seldom-seen", "seldom", "last")
        assert [row.lag for row in await admin.offsets.list("seldom-seen", "seldom")] == [0, 0]

    with_admin(cluster.namesrv, work)
