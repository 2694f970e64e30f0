"""What became of a message: the progress of groups, traces, and its redelivery to one member."""

import asyncio
from collections.abc import Iterator

import pytest

from steelyard.client.admin import Admin
from steelyard.client.admin.messages import GroupProgress
from steelyard.client.consumer.consumer import Consumer
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.errors import ConfigurationError, ConsumerOffline, NoMessage, TopicNotFound
from steelyard.model import Queue, StoredMessage
from steelyard.serve.embedded import Cluster
from tests.client.admin_scene import commit, put, with_admin


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


async def filled(admin: Admin, cluster: Cluster, topic: str) -> list[StoredMessage]:
    """Make a topic with three messages in one queue of the second broker."""
    await admin.topics.create(topic, 1)
    queue = Queue(topic, "broker-1", 0)
    for number in range(3):
        put(cluster.brokers["broker-1"], queue, b"%d" % number, TAGS="paid", UNIQ_KEY=f"{topic}-{number}")
    return await admin.messages.list(topic)


def test_groups_are_past_a_message_or_not(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        _, second, _ = await filled(admin, cluster, "read")
        assert await admin.messages.group_progress(second) == []
        for group, offset in (("slow", 1), ("quick", 2)):
            await admin.groups.create(group)
            commit(cluster.brokers["broker-1"], group, second.queue, offset)
        await admin.groups.create("elsewhere")
        commit(cluster.brokers["broker-0"], "elsewhere", Queue("read", "broker-0", 0), 0)
        found = {reader.group: reader for reader in await admin.messages.group_progress(second)}
        assert found["slow"] == GroupProgress("slow", False, 1)
        assert found["quick"] == GroupProgress("quick", True, 2)
        assert not found["elsewhere"].is_past

    with_admin(cluster.namesrv, work)


def test_a_consume_queue_has_a_row_for_each_offset(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        messages = await filled(admin, cluster, "indexed")
        part = await admin.messages.consume_queue(Queue("indexed", "broker-1", 0), 1, 10, group="nobody")
        assert (part.start, part.end) == (0, 3)
        assert [(row.offset, row.position, row.matches) for row in part.rows] == [
            (1, messages[1].position, None),
            (2, messages[2].position, None),
        ]
        assert part.remark == "nobody@indexed is not online!"
        empty = await admin.messages.consume_queue(Queue("indexed", "broker-0", 0))
        assert (empty.start, empty.end, empty.rows) == (0, 0, ())
        with pytest.raises(ConfigurationError, match="does not have topic"):
            await admin.messages.consume_queue(Queue("indexed", "broker-9", 0))

    with_admin(cluster.namesrv, work)


def test_a_redelivery_returns_the_result_of_the_member(cluster: Cluster) -> None:
    handled: list[bytes] = []

    async def handle(message: ReceivedMessage) -> None:
        handled.append(message.body)
        if message.body == b"1":
            raise ValueError("no such customer")
        if message.body == b"2":
            message.later()

    async def work(admin: Admin) -> None:
        first, second, third = await filled(admin, cluster, "handled")
        await admin.groups.create("handlers")  # which is else unknown until its first heartbeat
        consumer = Consumer(cluster.namesrv, "handlers", start_from="last")
        consumer.handles("handled")(handle)
        async with consumer:
            while "broker-1" not in {name for each in await admin.groups.members("handlers") for name in each.brokers}:
                await asyncio.sleep(0.01)
            done = await admin.messages.redeliver(first, "handlers", consumer.id)
            assert (done.outcome, done.is_done, done.remark) == ("done", True, None)
            raised = await admin.messages.redeliver(second, "handlers", consumer.id)
            assert (raised.outcome, raised.is_done) == ("raised", False)
            assert "no such customer" in (raised.remark or "")
            later = await admin.messages.redeliver(third, "handlers", consumer.id)
            assert (later.outcome, later.is_done) == ("wanted again later", False)
        assert handled == [b"0", b"1", b"2"]
        with pytest.raises(ConsumerOffline, match="not online"):
            await admin.messages.redeliver(first, "handlers", consumer.id)

    with_admin(cluster.namesrv, work)


def test_traces_are_found_by_message_id(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(TopicNotFound, match=r"keeps no traces: there is no topic 'notes'"):
            await admin.messages.traces("some-id", "notes")
        await admin.topics.create("notes", 1)
        with pytest.raises(NoMessage, match="has no trace of message"):
            await admin.messages.traces("some-id", "notes")
        record = "Recall\x015000\x01region\x01shop\x01orders\x01some-id\x01true\x02"
        other = record.replace("some-id", "another").replace("5000", "1000")
        body = (other + record + record.replace("5000", "4000")).encode() + b"\xff\x02"
        put(cluster.brokers["broker-0"], Queue("notes", "broker-0", 0), body, KEYS="some-id another")
        later, sooner = reversed(await admin.messages.traces("some-id", "notes"))
        assert (sooner.at_ms, later.at_ms, later.what, later.topic) == (4000, 5000, "recalled", "orders")
        assert (later.client_host or "").startswith("127.0.0.1:")

    with_admin(cluster.namesrv, work)
