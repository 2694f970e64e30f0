"""Ranges of a live cluster are read whole while its brokers are killed, cut off and silent."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.client.bulk.connection_pool import ConnectionPool
from steelyard.client.bulk.range_reader import RecordChunk, read_ranges
from steelyard.client.config import ClientConfig
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.producer import Producer
from steelyard.errors import MessagesLost
from steelyard.model import Message, OffsetRange
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import RequestCode
from tests.client.proxy import detour
from tests.client.test_range_reader import offsets

COUNT = 3_000


@pytest.fixture
def connections() -> Iterator[ConnectionPool]:
    """Have a buffer of one's own."""
    buffer = ConnectionPool()
    yield buffer
    buffer.close()


def filled(namesrv: str, where: str | ClientConfig | None = None) -> list[OffsetRange]:
    """Make a topic and put messages into it; return the ranges of its queues."""
    where = where or namesrv
    with Admin(where) as admin, Producer(where) as producer:
        admin.topics.create("orders", 4)
        for start in range(0, COUNT, 500):
            tags = ("paid", "new")
            producer.send_many(
                Message("orders", b"body %d" % number, tags=tags[number % 2]) for number in range(start, start + 500)
            )
        ranges = [OffsetRange(each.queue, each.start, each.end) for each in admin.topics.describe("orders").queues]
    assert sum(map(len, ranges)) == COUNT
    return ranges


def check(pieces: list[RecordChunk], ranges: list[OffsetRange]) -> None:
    """Check that every message of the ranges is there once, in order."""
    for each in ranges:
        assert offsets(pieces, each.queue) == list(range(each.start, each.end))


def test_a_topic_is_read_whole_by_name_alone(connections: ConnectionPool) -> None:
    with Cluster(brokers=2) as cluster:
        ranges = filled(cluster.namesrv)
        check(list(read_ranges(ranges, ClientConfig(cluster.namesrv), {}, pool=connections)), ranges)
        assert len(connections) == 2


def test_a_namespace_is_put_before_names_and_every_pull_is_signed(connections: ConnectionPool) -> None:
    with Cluster() as cluster, detour(cluster) as way:
        connect = ClientConfig(way.namesrv, namespace="eu", access_key="shop", secret_key="12345678")
        ranges = filled(way.namesrv, connect)
        assert {each.queue.topic for each in ranges} == {"orders"}
        addresses = {name: proxy.address for name, proxy in way.brokers.items()}
        check(list(read_ranges(ranges, connect, addresses, group="report", pool=connections)), ranges)
        pulls = [pull.texts() for pull in way.brokers["broker-0"].requests(RequestCode.PULL_MESSAGE)]
        assert {(pull["topic"], pull["consumerGroup"]) for pull in pulls} == {("eu%orders", "eu%report")}
        assert all(pull["AccessKey"] == "shop" and pull["Signature"] for pull in pulls)


def test_server_side_filters_leave_out_the_rest(connections: ConnectionPool) -> None:
    with Cluster() as cluster:
        ranges = filled(cluster.namesrv)
        for wanted in (("TAG", "paid"), ("SQL92", "TAGS = 'paid'")):
            pieces = list(read_ranges(ranges, ClientConfig(cluster.namesrv), {}, wanted=wanted, pool=connections))
            assert len(offsets(pieces)) == COUNT / 2
            assert b"new" not in b"".join(piece.records for piece in pieces)


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(tmp_path: Path, connections: ConnectionPool) -> None:
    with Cluster(brokers=2, data=tmp_path) as cluster:
        ranges = filled(cluster.namesrv)
        pieces: list[RecordChunk] = []
        waiting: list[threading.Timer] = []
        for piece in read_ranges(
            ranges, ClientConfig(cluster.namesrv), dict(cluster.brokers), max_messages=20, depth=4, pool=connections
        ):
            pieces.append(piece)
            if len(pieces) == 30:
                cluster.kill_broker("broker-0")
                waiting.append(threading.Timer(0.3, cluster.start_broker, ["broker-0"]))
                waiting[0].start()
        waiting[0].join()
        check(pieces, ranges)


@pytest.mark.parametrize("trouble", ["cut", "swallow"])
def test_connections_that_are_cut_or_fall_silent_are_replaced(trouble: str, connections: ConnectionPool) -> None:
    with Cluster() as cluster, detour(cluster) as way:
        ranges = filled(cluster.namesrv)
        proxy = way.brokers["broker-0"]
        addresses = {"broker-0": proxy.address}
        pieces: list[RecordChunk] = []
        reading = read_ranges(
            ranges,
            ClientConfig(way.namesrv),
            addresses,
            max_messages=20,
            depth=4,
            read_timeout_ms=200,
            idle_timeout_ms=60_000,
            pool=connections,
        )
        for piece in reading:
            pieces.append(piece)
            proxy.swallows = False
            if len(pieces) in (5, 40, 90):
                if trouble == "cut":
                    proxy.cut()
                else:
                    proxy.swallows = True
                    threading.Timer(0.25, setattr, [proxy, "swallows", False]).start()
        check(pieces, ranges)


def test_a_topic_that_was_made_anew_is_a_loss(connections: ConnectionPool) -> None:
    with Cluster() as cluster:
        ranges = filled(cluster.namesrv)
        with Admin(cluster.namesrv) as admin:
            admin.topics.delete("orders")
        reading = read_ranges(
            ranges, ClientConfig(cluster.namesrv), dict(cluster.brokers), settle_ms=0, pool=connections
        )
        with pytest.raises(MessagesLost, match="orders@broker-0"):
            list(reading)
