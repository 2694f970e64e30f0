"""Ranges of queues are read in bulk from whatever servers there are: whole, filtered, and told where they are lost."""

from collections.abc import Iterator

import pytest

from steelyard import Admin, Message, Producer
from steelyard.client.bulk.connection_pool import ConnectionPool
from steelyard.client.bulk.range_reader import RecordChunk, read_ranges
from steelyard.client.config import ClientConfig
from steelyard.errors import MessagesLost
from steelyard.model import OffsetRange
from tests.client.test_range_reader import offsets
from tests.live.clusters import Live, until

COUNT = 4_000


@pytest.fixture
def connections() -> Iterator[ConnectionPool]:
    """Have a buffer of one's own."""
    buffer = ConnectionPool()
    yield buffer
    buffer.close()


@pytest.fixture
def ranges(admin: Admin, topic: str, producer: Producer) -> list[OffsetRange]:
    """Fill a topic, and return all of its queues."""
    for start in range(0, COUNT, 500):
        producer.send_many(
            Message(topic, b"%d" % number, tags=("paid", "new")[number % 2], properties={"number": str(number % 10)})
            for number in range(start, start + 500)
        )
    # Servers of Apache show messages a moment after they have taken them.
    until(lambda: admin.topics.describe(topic).messages == COUNT, "all messages are there")
    return [OffsetRange(each.queue, each.start, each.end) for each in admin.topics.describe(topic).queues]


def read(
    cluster: Live, ranges: list[OffsetRange], connections: ConnectionPool, wanted: tuple[str, str] | None = None
) -> list[RecordChunk]:
    """Read ranges to their ends."""
    return list(read_ranges(ranges, ClientConfig(cluster.namesrv), {}, wanted=wanted, settle_ms=500, pool=connections))


def test_all_messages_come_once_and_in_order(
    cluster: Live, ranges: list[OffsetRange], connections: ConnectionPool
) -> None:
    for _ in range(3):
        pieces = read(cluster, ranges, connections)
        for each in ranges:
            assert offsets(pieces, each.queue) == list(range(each.start, each.end))
    assert len(connections) == 2, "one line to each broker"


def test_brokers_filter_by_tags_and_by_conditions(
    cluster: Live, ranges: list[OffsetRange], connections: ConnectionPool
) -> None:
    assert len(offsets(read(cluster, ranges, connections, ("TAG", "paid")))) == COUNT / 2
    assert len(offsets(read(cluster, ranges, connections, ("TAG", "paid || new")))) == COUNT
    assert len(offsets(read(cluster, ranges, connections, ("TAG", "none")))) == 0
    assert len(offsets(read(cluster, ranges, connections, ("SQL92", "number = '3'")))) == COUNT / 10


def test_offsets_that_a_queue_does_not_have_are_lost(
    cluster: Live, ranges: list[OffsetRange], connections: ConnectionPool
) -> None:
    queue, start, end = ranges[0].queue, ranges[0].start, ranges[0].end
    with pytest.raises(MessagesLost) as caught:
        read(cluster, [OffsetRange(queue, start, end + 10)], connections)
    assert (caught.value.queue, caught.value.start, caught.value.end) == (str(queue), end, end + 10)


def test_a_topic_that_was_deleted_is_lost(
    cluster: Live, admin: Admin, topic: str, ranges: list[OffsetRange], connections: ConnectionPool
) -> None:
    admin.topics.delete(topic)
    reading = read_ranges(
        ranges[:1],
        ClientConfig(cluster.namesrv),
        {each.name: each.addresses[0] for each in admin.brokers.list()},
        settle_ms=500,
        pool=connections,
    )
    with pytest.raises(MessagesLost) as caught:
        list(reading)
    assert (caught.value.start, caught.value.end) == (ranges[0].start, ranges[0].end)
