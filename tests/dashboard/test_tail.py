"""The live tail: what comes is told, what is too much is counted, and nothing of it is left in the cluster."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from steelyard import Admin, Message, Producer
from steelyard.client.config import ClientConfig
from steelyard.dashboard.api.tail import Tail, TailBatch, TailFilter, TailLimits
from steelyard.dashboard.server import Dashboard
from steelyard.serve.embedded import Cluster
from tests.dashboard.http_client import stream

_TOPIC = "orders"


def send(cluster: Cluster, count: int, *, tags: str = "paid", topic: str = _TOPIC) -> None:
    """Send some messages with keys."""
    with Producer(cluster.namesrv) as producer:
        for number in range(count):
            producer.send(Message(topic, f"number {number}".encode(), tags=tags, keys=f"k{number % 10}"))


def make(cluster: Cluster, queues: int = 4) -> None:
    """Make the topic."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(_TOPIC, queues)


def add_queues(cluster: Cluster, queues: int) -> None:
    """Have the topic grow to so many queues on each broker."""
    with Admin(cluster.namesrv) as admin:
        admin.topics.add_queues(_TOPIC, queues)


def rows_of(values: Any, count: int) -> list[Any]:
    """Read events until so many rows have come."""
    found: list[Any] = []
    while len(found) < count:
        found += next(values)["rows"]
    return found


def test_a_tail_begins_at_the_end_and_reports_what_comes(cluster: Cluster, dashboard: Dashboard) -> None:
    make(cluster)
    send(cluster, 5)
    with stream(dashboard, f"/api/tail?topic={_TOPIC}") as values:
        first = next(values)
        assert first == {"rows": [], "scanned": 0, "matched": 0, "skipped": 0, "queues": 8}
        send(cluster, 40)
        rows = rows_of(values, 40)
    assert sorted(row["preview"] for row in rows) == sorted(f"number {number}" for number in range(40))


def test_a_tail_leaves_nothing_behind(cluster: Cluster, dashboard: Dashboard) -> None:
    make(cluster)
    with stream(dashboard, f"/api/tail?topic={_TOPIC}") as values:
        next(values)
        send(cluster, 10)
        rows_of(values, 10)
    with Admin(cluster.namesrv) as admin:
        assert admin.topics.groups(_TOPIC) == []
        assert admin.groups.names() == []


def test_a_tail_is_filtered_by_tag_key_text_and_queue(cluster: Cluster, dashboard: Dashboard) -> None:
    make(cluster)
    with Admin(cluster.namesrv) as admin:
        broker = admin.topics.describe(_TOPIC).queues[0].queue.broker
    filters = ("tag=paid", "key=k3", "text=NUMBER+3", f"queue={broker}:0,{broker}:1", "tag=paid&key=k3&text=23")
    with (
        stream(dashboard, f"/api/tail?topic={_TOPIC}&{filters[0]}") as by_tag,
        stream(dashboard, f"/api/tail?topic={_TOPIC}&{filters[1]}") as by_key,
        stream(dashboard, f"/api/tail?topic={_TOPIC}&{filters[2]}") as by_text,
        stream(dashboard, f"/api/tail?topic={_TOPIC}&{filters[3]}") as by_queue,
        stream(dashboard, f"/api/tail?topic={_TOPIC}&{filters[4]}") as by_all,
    ):
        for values in (by_tag, by_key, by_text, by_queue, by_all):
            next(values)
        send(cluster, 40, tags="open")
        send(cluster, 40, tags="paid")
        assert {row["tag"] for row in rows_of(by_tag, 40)} == {"paid"}
        assert {row["keys"][0] for row in rows_of(by_key, 8)} == {"k3"}
        assert all(row["preview"].startswith("number 3") for row in rows_of(by_text, 22))
        assert {(row["broker"], row["queue"]) for row in rows_of(by_queue, 4)} <= {(broker, 0), (broker, 1)}
        assert [row["preview"] for row in rows_of(by_all, 1)] == ["number 23"]


def test_a_tail_of_what_is_not_there_is_a_trouble(dashboard: Dashboard) -> None:
    with stream(dashboard, "/api/tail?topic=nosuch") as values:
        assert "nosuch" in next(values)["failure"]["error"]
    with stream(dashboard, "/api/tail") as values:
        assert next(values)["failure"]["what"] == "topic is missing"


async def until_seen(batches: AsyncGenerator[TailBatch, None], seen: int) -> TailBatch:
    """Read until so many messages were seen or skipped; return the last batch, with all rows."""
    rows = []
    async for batch in batches:
        rows += batch.rows
        if batch.scanned + batch.skipped >= seen and len(rows) + batch.skipped >= seen:
            return TailBatch(rows, batch.scanned, batch.matched, batch.skipped, batch.queues)
    raise AssertionError


def follow(cluster: Cluster, limits: TailLimits, count: int) -> TailBatch:
    """Follow a topic into which some messages are sent while nobody takes what is gathered."""

    async def run() -> TailBatch:
        tail = Tail(ClientConfig.of(cluster.namesrv), TailFilter(_TOPIC), limits)
        async with asyncio.timeout(30), aclosing(tail.batches()) as batches:
            await anext(batches)
            await asyncio.to_thread(send, cluster, count)
            return await until_seen(batches, count)

    return asyncio.run(run())


def test_what_a_slow_browser_misses_is_counted(cluster: Cluster) -> None:
    make(cluster)
    last = follow(cluster, TailLimits(buffered=50), 400)
    assert last.skipped > 0
    assert len(last.rows) + last.skipped == 400
    assert last.rows[-1].preview == "number 399"


def test_a_tail_that_is_left_behind_goes_on_near_the_end_and_says_how_much_it_passed_over(cluster: Cluster) -> None:
    make(cluster, 1)
    last = follow(cluster, TailLimits(interval_s=0.05, scanned=2, sent=2, max_behind=20, end_poll_s=0.1), 400)
    assert last.skipped > 0
    assert last.scanned + last.skipped == 400
    assert len(last.rows) == last.scanned


def test_queues_that_are_added_are_followed_too(cluster: Cluster) -> None:
    make(cluster, 1)

    async def run() -> set[int]:
        tail = Tail(ClientConfig.of(cluster.namesrv), TailFilter(_TOPIC), TailLimits(queue_poll_s=0.1))
        async with asyncio.timeout(30), aclosing(tail.batches()) as batches:
            assert (await anext(batches)).queues == 2
            await asyncio.to_thread(add_queues, cluster, 3)
            await asyncio.to_thread(send, cluster, 60)
            return {row.queue for row in (await until_seen(batches, 60)).rows}

    assert asyncio.run(run()) == {0, 1, 2}


def test_a_tail_that_is_quiet_because_a_broker_is_gone_says_so_until_it_is_back(
    cluster: Cluster, dashboard: Dashboard
) -> None:
    make(cluster)
    with stream(dashboard, f"/api/tail?topic={_TOPIC}") as values:
        next(values)
        cluster.stop_broker("broker-0")
        assert any("cannot be reached" in each["failure"]["error"] for each in values if "failure" in each)
        cluster.start_broker("broker-0")
        quiet = 0
        while quiet < 3:  # what is wrong comes right after a batch
            quiet = 0 if "failure" in next(values) else quiet + 1


def test_queues_of_a_broker_that_was_away_are_not_read_again_from_their_beginning(tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        limits = TailLimits(interval_s=0.01, end_poll_s=0.05, queue_poll_s=0.05)
        tail = Tail(ClientConfig(cluster.namesrv), TailFilter(_TOPIC), limits)
        async with aclosing(tail.batches()) as batches:
            queues = [(await anext(batches)).queues]
            assert queues == [8]
            await asyncio.to_thread(cluster.stop_broker, "broker-0")
            while (await anext(batches)).queues != 4:
                pass
            await asyncio.to_thread(cluster.start_broker, "broker-0")
            while (await anext(batches)).queues != 8:
                pass
            await asyncio.to_thread(send, cluster, 8)
            last = await until_seen(batches, 8)
            assert last.scanned == 8

    with Cluster(brokers=2, data=tmp_path) as cluster:
        make(cluster)
        send(cluster, 40)
        asyncio.run(play(cluster))
