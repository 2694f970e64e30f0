"""What became of a message: who is past it, what clients wrote down, and what a member makes of it when told to."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.admin_scene import commit, put, with_admin

from steelyard.client.admin import Admin
from steelyard.client.admin.following import Reader
from steelyard.client.consuming.consumer import Consumer
from steelyard.client.consuming.received import Received
from steelyard.errors import ConfigurationError, ConsumerOffline, NoMessage, RequestNotSupported, TopicNotFound
from steelyard.model import Queue, StoredMessage
from steelyard.serve.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


async def filled(admin: Admin, cluster: Cluster, topic: str) -> list[StoredMessage]:
    """Make a topic with three messages in one queue of the second broker."""
    await admin.create_topic(topic, 1)
    queue = Queue(topic, "broker-1", 0)
    for number in range(3):
        put(cluster.brokers["broker-1"], queue, b"%d" % number, TAGS="paid", UNIQ_KEY=f"{topic}-{number}")
    return await admin.messages(topic)


def test_groups_are_past_a_message_or_not(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        _, second, _ = await filled(admin, cluster, "read")
        assert await admin.readers(second) == []
        for group, offset in (("slow", 1), ("quick", 2)):
            await admin.create_group(group)
            commit(cluster.brokers["broker-1"], group, second.queue, offset)
        await admin.create_group("elsewhere")
        commit(cluster.brokers["broker-0"], "elsewhere", Queue("read", "broker-0", 0), 0)
        found = {reader.group: reader for reader in await admin.readers(second)}
        assert found["slow"] == Reader("slow", False, 1)
        assert found["quick"] == Reader("quick", True, 2)
        assert not found["elsewhere"].is_past

    with_admin(cluster.namesrv, work)


def test_an_index_has_a_row_for_each_offset(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        messages = await filled(admin, cluster, "indexed")
        part = await admin.queue_index(Queue("indexed", "broker-1", 0), 1, 10, group="nobody")
        assert (part.start, part.end) == (0, 3)
        assert [(row.offset, row.position, row.matches) for row in part.rows] == [
            (1, messages[1].position, None),
            (2, messages[2].position, None),
        ]
        assert part.remark == "nobody@indexed is not online!"
        empty = await admin.queue_index(Queue("indexed", "broker-0", 0))
        assert (empty.start, empty.end, empty.rows) == (0, 0, ())
        with pytest.raises(ConfigurationError, match="does not have topic"):
            await admin.queue_index(Queue("indexed", "broker-9", 0))

    with_admin(cluster.namesrv, work)


def test_a_member_tells_what_it_makes_of_a_message(cluster: Cluster) -> None:
    handled: list[bytes] = []

    async def handle(message: Received) -> None:
        handled.append(message.body)
        if message.body == b"1":
            raise ValueError("no such customer")
        if message.body == b"2":
            message.later()

    async def work(admin: Admin) -> None:
        first, second, third = await filled(admin, cluster, "handled")
        await admin.create_group("handlers")  # which is else unknown until its first heartbeat
        consumer = Consumer(cluster.namesrv, "handlers", start_from="last")
        consumer.handles("handled")(handle)
        async with consumer:
            while "broker-1" not in {name for each in await admin.members("handlers") for name in each.brokers}:
                await asyncio.sleep(0.01)
            done = await admin.redeliver(first, "handlers", consumer.id)
            assert (done.outcome, done.is_done, done.remark) == ("done", True, None)
            raised = await admin.redeliver(second, "handlers", consumer.id)
            assert (raised.outcome, raised.is_done) == ("raised", False)
            assert "no such customer" in (raised.remark or "")
            later = await admin.redeliver(third, "handlers", consumer.id)
            assert (later.outcome, later.is_done) == ("wanted again later", False)
        assert handled == [b"0", b"1", b"2"]
        with pytest.raises(ConsumerOffline, match="not online"):
            await admin.redeliver(first, "handlers", consumer.id)

    with_admin(cluster.namesrv, work)


def test_what_clients_wrote_down_is_found_by_the_id(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(TopicNotFound, match=r"nobody keeps traces on .*: there is no topic 'notes'"):
            await admin.traces("some-id", "notes")
        await admin.create_topic("notes", 1)
        with pytest.raises(NoMessage, match="no client wrote down"):
            await admin.traces("some-id", "notes")
        record = "Recall\x015000\x01region\x01shop\x01orders\x01some-id\x01true\x02"
        other = record.replace("some-id", "another").replace("5000", "1000")
        body = (other + record + record.replace("5000", "4000")).encode() + b"\xff\x02"
        put(cluster.brokers["broker-0"], Queue("notes", "broker-0", 0), body, KEYS="some-id another")
        later, sooner = reversed(await admin.traces("some-id", "notes"))
        assert (sooner.at_ms, later.at_ms, later.what, later.topic) == (4000, 5000, "recalled", "orders")
        assert (later.client_host or "").startswith("127.0.0.1:")

    with_admin(cluster.namesrv, work)


def test_a_broker_without_pop_says_so(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(RequestNotSupported, match="does not serve POP"):
            await admin.export_pop_records()

    with_admin(cluster.namesrv, work)
