"""Messages are found by either id, by key, by place and by time; dead letters go to their group again."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.client.admin import Admin
from steelyard.errors import ConfigurationError, MalformedRecord, NoMessage
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.message_ids import parse_offset_id
from tests.client.admin_scene import give_up, put, with_admin


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def _unique(number: int) -> str:
    return f"7F0000010000AAAABBBB00000000{number:04X}"


async def _filled(admin: Admin, cluster: Cluster, topic: str, first: int) -> list[str]:
    """Make a topic with three messages on each broker; return the ids of their places."""
    await admin.topics.create(topic, 1)
    return [
        put(
            cluster.brokers[broker],
            Queue(topic, broker, 0),
            f"{broker} {number}".encode(),
            KEYS=f"key-{number} shared",
            UNIQ_KEY=_unique(first + number + 10 * int(broker[-1])),
        ).msg_id
        for number in range(3)
        for broker in ("broker-0", "broker-1")
    ]


def test_a_message_is_found_by_its_offset_id(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        ids = await _filled(admin, cluster, "placed", 0x100)
        found = await admin.messages.find(ids[3])
        assert (found.body, found.queue, found.offset) == (b"broker-1 1", Queue("placed", "broker-1", 0), 1)
        assert found.offset_id == ids[3]

    with_admin(cluster.namesrv, work)


def test_a_message_is_found_by_the_id_of_its_producer(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "named", 0x200)
        found = await admin.messages.find(_unique(0x200 + 12), "named")
        assert (found.body, found.message_id) == (b"broker-1 2", _unique(0x200 + 12))
        with pytest.raises(NoMessage, match="'named' has no message with the id"):
            await admin.messages.find(_unique(0xFFFF), "named")
        assert (await admin.messages.find(_unique(0x200))).body == b"broker-0 0", "it is looked for in all topics"
        with pytest.raises(NoMessage, match="has no message with the id"):
            await admin.messages.find(_unique(0xFFFF))
        with pytest.raises(NoMessage, match="has no message with the id"):
            await admin.messages.find("0156F7E71C361B21BC024CCDBE00000007", "named")
        with pytest.raises(MalformedRecord, match="32 or 56 hexadecimal digits"):
            await admin.messages.find("order-1")

    with_admin(cluster.namesrv, work)


def test_messages_are_found_by_any_word_of_their_keys(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "keyed", 0x300)
        assert {found.body for found in await admin.messages.find_by_key("keyed", "key-1")} == {
            b"broker-0 1",
            b"broker-1 1",
        }
        assert len(await admin.messages.find_by_key("keyed", "shared")) == 6
        assert len(await admin.messages.find_by_key("keyed", "shared", most=2)) == 2
        assert await admin.messages.find_by_key("keyed", "key") == []
        assert await admin.messages.find_by_key("keyed", "shared", end=datetime(2020, 1, 1, tzinfo=UTC)) == []

    with_admin(cluster.namesrv, work)


def test_a_message_is_read_at_its_offset(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "offset", 0x400)
        queue = Queue("offset", "broker-0", 0)
        found = await admin.messages.at(queue, 2)
        assert found is not None
        assert found.body == b"broker-0 2"
        assert await admin.messages.at(queue, 3) is None
        with pytest.raises(ConfigurationError, match="'broker-9' does not have topic 'offset'"):
            await admin.messages.at(Queue("offset", "broker-9", 0), 0)

    with_admin(cluster.namesrv, work)


def test_a_topic_is_read_by_time_over_all_its_queues(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await _filled(admin, cluster, "timed", 0x500)
        everything = await admin.messages.list("timed")
        assert len(everything) == 6
        assert [found.stored_ms for found in everything] == sorted(found.stored_ms for found in everything)
        assert await admin.messages.list("timed", most=2) == everything[:2]
        assert await admin.messages.list("timed", start=timedelta(days=1)) == everything
        assert await admin.messages.list("timed", start=datetime.now(UTC) + timedelta(days=1)) == []
        assert await admin.messages.list("timed", end=timedelta(days=1)) == []
        middle = everything[3].stored_at
        later = await admin.messages.list("timed", start=middle)
        assert later == [found for found in everything if found.stored_at >= middle]
        assert await admin.messages.list("timed", end=middle) == [
            found for found in everything if found.stored_at < middle
        ]

    with_admin(cluster.namesrv, work)


def test_many_messages_are_read_in_several_pulls(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("many", 1, brokers=["broker-0"])
        for number in range(100):
            put(cluster.brokers["broker-0"], Queue("many", "broker-0", 0), b"%d" % number)
        assert [int(found.body) for found in await admin.messages.list("many", most=90)] == list(range(90))

    with_admin(cluster.namesrv, work)


def test_some_of_a_topic_are_read_by_place_queue_and_tag(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        await admin.topics.create("placed-by", 2, brokers=["broker-0"])
        for number in range(10):
            queue = Queue("placed-by", "broker-0", number % 2)
            put(cluster.brokers["broker-0"], queue, b"%d" % number, TAGS="even" if number % 4 == 0 else "odd")

        async def read(**wanted: Any) -> list[int]:
            return sorted(int(found.body) for found in await admin.messages.list("placed-by", **wanted))

        assert await read(start=3) == [6, 7, 8, 9]
        assert await read(start=-1) == [8, 9]
        assert await read(newest=True, most=3) == [7, 8, 9]
        assert await read(queue=Queue("placed-by", "broker-0", 1)) == [1, 3, 5, 7, 9]
        assert await read(tags="even") == [0, 4, 8]
        assert await read(tags="even || none", start=2) == [4, 8]
        with pytest.raises(ConfigurationError, match="'placed-by' has broker-0:0, broker-0:1"):
            await read(queue=Queue("placed-by", "broker-0", 2))

    with_admin(cluster.namesrv, work)


def test_a_dead_letter_is_resent_to_its_group(cluster: Cluster) -> None:
    async def work(admin: Admin) -> None:
        ids = await _filled(admin, cluster, "deadly", 0x600)
        await admin.groups.create("mourners")
        assert await admin.dead_letters.list("mourners") == []
        give_up(cluster.brokers["broker-1"], "mourners", parse_offset_id(ids[1])[1], "deadly")
        (dead,) = await admin.dead_letters.list("mourners")
        assert (dead.topic, dead.body) == ("%DLQ%mourners", b"broker-1 0")
        sent = await admin.dead_letters.resend(dead)
        assert (sent.queue.topic, sent.queue.broker) == ("%RETRY%mourners", "broker-1")
        again = await admin.messages.at(sent.queue, sent.offset)
        assert again is not None
        assert (again.body, again.reconsume_times, again.message_id) == (b"broker-1 0", 0, dead.message_id)
        assert again.properties["RETRY_TOPIC"] == "deadly"
        assert "DELAY" not in again.properties
        with pytest.raises(ConfigurationError, match="is no dead letter"):
            await admin.dead_letters.resend(again)

    with_admin(cluster.namesrv, work)
