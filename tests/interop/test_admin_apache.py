"""The administrator's client looks after Apache's brokers as after ours; what 4.9 lacks is said in a sentence."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.group_description import dry_run_rebalance
from steelyard.client.admin.offsets import ResetTarget
from steelyard.errors import GroupNotFound, RequestNotSupported, TopicExists, TopicNotFound
from steelyard.model import Permission, Queue, StoredMessage
from steelyard.wire.bodies import decode_body
from steelyard.wire.bodies.offsets import ResetOffsets
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from steelyard.wire.message_ids import parse_offset_id
from tests.client.admin_scene import commit, give_up, put, with_admin
from tests.client.manual_member import ManualMember
from tests.interop.backends import Cluster, running_cluster
from tests.interop.jars import SERVER_RELEASES, NotReady

pytestmark = pytest.mark.timeout(240)

T = TypeVar("T")
_numbers = itertools.count(1)
# An index, and what a broker remembers of a queue, follow the log within moments; a busy machine needs more of them.
_WAIT_S = 30.0


@pytest.fixture(scope="module", params=SERVER_RELEASES)
def apache_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with running_cluster(f"apache-{request.param}", tmp_path_factory.mktemp("cluster") / "store") as running:
            yield running
    except NotReady as problem:
        pytest.skip(str(problem))


@pytest.fixture
def name() -> str:
    return f"admin-{next(_numbers)}"


async def _until(collect: Callable[[], Awaitable[T]], is_good: Callable[[T], bool]) -> T:
    end_s = asyncio.get_running_loop().time() + _WAIT_S
    while not is_good(found := await collect()):
        assert asyncio.get_running_loop().time() < end_s, f"it stays {found}"
        await asyncio.sleep(0.05)
    return found


def _queue(cluster: Cluster, topic: str, number: int = 0) -> Queue:
    return Queue(topic, cluster.broker_name, number)


async def _filled(admin: Admin, cluster: Cluster, name: str, queues: int = 2) -> list[Queue]:
    """Make a topic with four messages in each queue, and a group."""
    await admin.topics.create(name, queues)
    await admin.groups.create(f"{name}-group")
    made = [_queue(cluster, name, number) for number in range(queues)]
    for queue in made:
        for number in range(4):
            put(cluster.broker, queue, b"%d" % number)
    await _until(lambda: admin.topics.describe(name), lambda seen: seen.messages == 4 * queues)
    return made


def test_topics_are_made_widened_listed_and_deleted(apache_cluster: Cluster, name: str) -> None:
    async def work(admin: Admin) -> None:
        made = await admin.topics.create(name, 3)
        assert [str(each.queue) for each in made.queues] == [f"{name}@broker-a:{number}" for number in range(3)]
        assert made.counts[0].permission == Permission.READ | Permission.WRITE
        assert (await admin.topics.create(name, 3)).counts == made.counts
        with pytest.raises(TopicExists):
            await admin.topics.create(name, 2)
        assert len((await admin.topics.add_queues(name, 5)).queues) == 5
        listed = {topic.name: topic.queues for topic in await admin.topics.list()}
        assert listed[name] == 5
        assert {"TBW102", "broker-a", "steelyard", "SCHEDULE_TOPIC_XXXX"}.isdisjoint(listed)
        assert "TBW102" in {topic.name for topic in await admin.topics.list(system=True)}
        with pytest.raises(TopicNotFound, match="Did you mean"):
            await admin.topics.describe(f"{name}x")
        await admin.topics.delete(name)
        assert name not in {topic.name for topic in await admin.topics.list()}

    with_admin(apache_cluster.name_server, work)


def test_an_ordered_topic_has_its_list(apache_cluster: Cluster, name: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create(name, 2, order=True)
        assert (await admin.topics.add_queues(name, 3)).counts[0].read == 3
        await admin.topics.delete(name)

    with_admin(apache_cluster.name_server, work)


def test_brokers_tell_how_they_are(apache_cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        (broker,) = await admin.brokers.list()
        assert broker.version == ("V4_9_7" if apache_cluster.is_4 else "V5_5_0")
        assert (broker.problem, dict(broker.addresses)) == (None, {0: apache_cluster.broker})
        # How much passes is not told before it was measured for ten seconds.
        assert None not in (broker.started_at, broker.up, broker.disk_used)
        assert (await admin.name_servers.list())[0].brokers == 1
        await admin.brokers.set_config("broker-a", {"maxTransferCountOnMessageInMemory": "33"})
        assert (await admin.brokers.config("broker-a"))["maxTransferCountOnMessageInMemory"] == "33"

    with_admin(apache_cluster.name_server, work)


def test_messages_are_found(apache_cluster: Cluster, name: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create(name, 2)
        unique = f"7F0000010000AAAABBBB0000{next(_numbers):08X}"
        placed = [
            put(apache_cluster.broker, _queue(apache_cluster, name, number % 2), b"%d" % number, KEYS=f"k{number} all")
            for number in range(5)
        ]
        put(apache_cluster.broker, _queue(apache_cluster, name, 1), b"named", UNIQ_KEY=unique)

        assert (await _until(lambda: admin.messages.list(name), lambda found: len(found) == 6))[0].body == b"0"
        assert (await admin.messages.find(placed[3].msg_id)).body == b"3"
        (by_key,) = await _until(lambda: admin.messages.find_by_key(name, "k2"), bool)
        assert by_key.body == b"2"
        assert len(await _until(lambda: admin.messages.find_by_key(name, "all"), lambda found: len(found) == 5)) == 5
        assert (await admin.messages.find(unique, name)).body == b"named"
        at = await admin.messages.at(_queue(apache_cluster, name), 1)
        assert at is not None
        assert at.body == b"2"
        assert await admin.messages.at(_queue(apache_cluster, name), 9) is None
        assert len(await admin.messages.list(name, start=timedelta(hours=1))) == 6
        assert await admin.messages.list(name, end=timedelta(hours=1)) == []

    with_admin(apache_cluster.name_server, work)


def test_a_dead_letter_is_given_to_its_group_again(apache_cluster: Cluster, name: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create(name, 1)
        await admin.groups.create(name)
        stored = put(apache_cluster.broker, _queue(apache_cluster, name), b"sad", KEYS="k")
        give_up(apache_cluster.broker, name, parse_offset_id(stored.msg_id)[1], name)

        async def collect() -> list[StoredMessage]:
            return await admin.dead_letters.list(name)

        (dead,) = await _until(collect, bool)
        sent = await admin.dead_letters.resend(dead)
        again = await _until(lambda: admin.messages.at(sent.queue, sent.offset), lambda found: found is not None)
        assert again is not None
        assert (again.body, again.reconsume_times, again.keys) == (b"sad", 0, ("k",))
        assert again.properties["RETRY_TOPIC"] == name
        await admin.groups.delete(name, dead_letters=True)
        assert await admin.dead_letters.list(name) == []
        with pytest.raises(GroupNotFound):
            await admin.groups.describe(name)

    with_admin(apache_cluster.name_server, work)


@pytest.mark.parametrize(
    ("to", "after"),
    [
        ("first", 0),
        ("last", 4),
        (datetime.now(UTC) + timedelta(days=1), 4),
        (timedelta(days=1), 0),
        (2, 2),
        (1_000, 4),
    ],
    ids=["first", "last", "to come", "long ago", "number", "too large"],
)
def test_a_group_that_is_offline_is_moved(apache_cluster: Cluster, name: str, to: ResetTarget, after: int) -> None:
    async def work(admin: Admin) -> None:
        queues = await _filled(admin, apache_cluster, name)
        commit(apache_cluster.broker, f"{name}-group", queues[0], 1)
        plan = await admin.offsets.plan_reset(f"{name}-group", name, to)
        assert [(move.before, move.to) for move in plan.moves] == [(1, after), (0, after)]
        await admin.offsets.apply(plan)
        assert [row.committed for row in await admin.offsets.list(f"{name}-group", name)] == [after, after]

    with_admin(apache_cluster.name_server, work)


def test_a_group_that_is_online_is_moved_or_it_is_said_why_not(apache_cluster: Cluster, name: str) -> None:
    async def work() -> None:
        async with Admin(apache_cluster.name_server) as admin:
            queues = await _filled(admin, apache_cluster, name)
            group = f"{name}-group"
            pushed: asyncio.Queue[dict[Queue, int]] = asyncio.Queue()

            def received(_: str, request: Command) -> None:
                pushed.put_nowait(dict(decode_body(ResetOffsets, request.body).offsets))

            async with ManualMember(apache_cluster.name_server, group, (name,), "m@sy1") as member:
                member.session.request_handlers[RequestCode.RESET_CONSUMER_CLIENT_OFFSET] = received
                plan = await admin.offsets.plan_reset(group, name, "last")
                assert plan.members == 1
                await admin.offsets.apply(plan)
                if apache_cluster.is_4:
                    # It tells the member, who moves and commits by itself.
                    async with asyncio.timeout(_WAIT_S):
                        assert await pushed.get() == dict.fromkeys(queues, 4)
                    with pytest.raises(
                        RequestNotSupported, match="release 4, which moves members that are online only"
                    ):
                        await admin.offsets.reset(group, name, 2)
                else:
                    assert [row.lag for row in await admin.offsets.list(group, name)] == [0, 0]
                    await admin.offsets.reset(group, name, 2)
                    assert [row.lag for row in await admin.offsets.list(group, name)] == [2, 2]

    asyncio.run(work())


def test_a_group_is_seen_through_its_members(apache_cluster: Cluster, name: str) -> None:
    async def work() -> None:
        async with Admin(apache_cluster.name_server) as admin:
            queues = await _filled(admin, apache_cluster, name, queues=4)
            group, where = f"{name}-group", apache_cluster.name_server
            async with (
                ManualMember(where, group, (name,), "a@sy1") as first,
                ManualMember(where, group, (name,), "b@sy1") as second,
            ):
                first.held += queues[:2]
                second.held += queues[2:]
                commit(apache_cluster.broker, group, queues[0], 3)
                view = await admin.groups.describe(group)
                assert [(member.id, member.ours) for member in view.members] == [("a@sy1", True), ("b@sy1", True)]
                owners = {each.queue: each.owner for each in view.queues if each.queue.topic == name}
                assert owners == {
                    queues[0]: "a@sy1",
                    queues[1]: "a@sy1",
                    queues[2]: "b@sy1",
                    queues[3]: "b@sy1",
                }
                assert (view.strategy, view.queues[0].committed) == ("STICKY", 3)
                assert {member.topics for member in view.members} == {(name,)}
                assert all(member.started_at is not None for member in view.members)
                reported = dry_run_rebalance(view, leave=["b@sy1"])
                assert (reported.moved, reported.least) == (2, 2)
                (listed,) = [each for each in await admin.groups.list() if each.name == group]
                assert (listed.members, listed.kind, listed.lag) == (2, "push", 13)
                running = await admin.groups.member_status(group, "a@sy1")
                assert [held.queue for held in running.queues] == queues[:2]
                async with ManualMember(where, group, (name,), "c@7", ours=False) as java:
                    java.held += queues[1:2]
                    mixed = await admin.groups.describe(group)
                    assert mixed.strategy == "AVG"
                    assert {f"claimed twice: {queues[1]}", "foreign members"} <= {each.kind for each in mixed.findings}
            assert await admin.groups.members(group) == []

    asyncio.run(work())
