"""A consumer handles every message of its topics once, again where a handler failed, and no more than it was told."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from steelyard import aio
from steelyard.broker import delayed_delivery
from steelyard.client.config import ClientConfig
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.admin import Admin
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.errors import ConfigurationError
from steelyard.model import Message
from steelyard.serve.embedded import Cluster
from steelyard.store import tags_code
from tests.client.consumer_scene import Seen, clocked, fill, make_topic, put
from tests.waiting import until

if TYPE_CHECKING:
    from steelyard.client.consumer.notifications import Rebalanced


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run one cluster for all."""
    with Cluster() as running:
        yield running


@pytest.fixture
def quick_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every delay of the embedded broker be short."""
    levels = (20,) * len(tags_code.DELAY_LEVELS_MS)
    monkeypatch.setattr(tags_code, "DELAY_LEVELS_MS", levels)
    monkeypatch.setattr(delayed_delivery, "DELAY_LEVELS_MS", levels)


def test_every_message_is_handled_once(cluster: Cluster) -> None:
    make_topic(cluster, "all")
    bodies, seen = fill(cluster, "all", 500), Seen()
    consumer = Consumer(cluster.namesrv, group="all-group", start_from="first")
    consumer.handles("all")(seen.record_message)
    with consumer:
        seen.wait(bodies)
        bodies += (later := [b"later-%d" % number for number in range(50)])
        put(cluster, "all", 2, later)
        seen.wait(bodies)
        assert [queue.queue_id for queue in consumer.assignment if queue.topic == "all"] == [0, 1, 2, 3]
    assert seen.counts() == dict.fromkeys(bodies, 1)


def test_a_second_consumer_goes_on_where_the_first_one_stopped(cluster: Cluster) -> None:
    make_topic(cluster, "resumed")
    first, second = Seen(), Seen()
    bodies = fill(cluster, "resumed", 40)
    for seen in (first, second):
        consumer = Consumer(cluster.namesrv, group="resumed-group", start_from="first")
        consumer.handles("resumed")(seen.record_message)
        with consumer:
            seen.wait(bodies)
        bodies = [b"more-%d" % number for number in range(10)]
        put(cluster, "resumed", 1, bodies)
    assert len(first.messages) == 40
    assert len(second.messages) == 10


def test_only_messages_with_the_right_tags_come(cluster: Cluster) -> None:
    make_topic(cluster, "tagged")
    # The tags Aa and BB have one hash: the broker lets both pass.
    for tag in ("Aa", "BB", "C"):
        put(cluster, "tagged", 0, [tag.encode()], TAGS=tag)
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group="tagged-group", start_from="first")
    consumer.handles("tagged", tags="Aa || C")(seen.record_message)
    with consumer:
        seen.wait([b"Aa", b"C"])
        until(lambda: _committed(cluster, "tagged-group", "tagged", 0) == 3, "passing over what is not wanted")
    assert sorted(seen.bodies) == [b"Aa", b"C"]


def _committed(cluster: Cluster, group: str, topic: str, queue_id: int) -> int | None:
    with Admin(cluster.namesrv) as admin:
        found = [each for each in admin.offsets.list(group, topic) if each.queue.queue_id == queue_id]
    return found[0].committed if found else None


def test_only_messages_that_fit_a_condition_come(cluster: Cluster) -> None:
    make_topic(cluster, "priced")
    for amount in (5, 15, 25):
        put(cluster, "priced", 0, [b"%d" % amount], amount=str(amount))
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group="priced-group", start_from="first")
    consumer.handles("priced", sql="amount > 10")(seen.record_message)
    with consumer:
        seen.wait([b"15", b"25"])
    assert sorted(seen.bodies) == [b"15", b"25"]


def test_two_topics_go_to_their_own_handlers(cluster: Cluster) -> None:
    make_topic(cluster, "apples")
    make_topic(cluster, "pears")
    apples, pears = Seen(), Seen()
    some, others = fill(cluster, "apples", 20), fill(cluster, "pears", 20)
    consumer = Consumer(cluster.namesrv, group="fruit", start_from="first")
    consumer.handles("apples")(apples.record_message)
    consumer.handles("pears")(pears.record_message)
    with consumer:
        apples.wait(some)
        pears.wait(others)
    assert apples.counts() == dict.fromkeys(some, 1)
    assert pears.counts() == dict.fromkeys(others, 1)


@pytest.mark.usefixtures("quick_delays")
def test_a_message_whose_handler_raised_comes_again_and_shows_its_own_topic(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(cluster, "flaky")
    bodies = fill(cluster, "flaky", 8)
    tried, done = Seen(), Seen()
    topics: set[str] = set()
    attempts: dict[bytes, list[int]] = {}
    consumer = Consumer(cluster.namesrv, group="flaky-group", start_from="first")

    @consumer.handles("flaky")
    def handle(message: ReceivedMessage) -> None:
        topics.add(message.topic)
        attempts.setdefault(message.body, []).append(message.attempt)
        tried.record_message(message)
        if message.reconsume_times < 2:
            raise ValueError("not yet")
        done.record_message(message)

    with caplog.at_level(logging.WARNING, "steelyard"), consumer:
        done.wait(bodies)
    assert topics == {"flaky"}
    assert tried.counts() == dict.fromkeys(bodies, 3)
    assert attempts == {body: [1, 2, 3] for body in bodies}
    reported = [record for record in caplog.records if "raised ValueError for message" in record.getMessage()]
    assert len(reported) == 1
    assert reported[0].exc_info is not None
    assert any("15 more times" in record.getMessage() for record in caplog.records)


@pytest.mark.usefixtures("quick_delays")
def test_a_message_that_fails_for_ever_rests_in_the_dead_letters(cluster: Cluster) -> None:
    make_topic(cluster, "hopeless")
    seen = Seen()
    with Admin(cluster.namesrv) as admin:
        admin.groups.create("hopeless-group", retries=2)
        put(cluster, "hopeless", 0, [b"bad"])
        consumer = Consumer(cluster.namesrv, group="hopeless-group", start_from="first")

        @consumer.handles("hopeless")
        def handle(message: ReceivedMessage) -> None:
            seen.record_message(message)
            raise RuntimeError(message.message_id)

        with consumer:
            until(lambda: _dead(admin, "hopeless-group") == [b"bad"], "resting in the dead letters")
    assert len(seen.messages) == 3


def _dead(admin: Admin, group: str) -> list[bytes]:
    try:
        return [message.body for message in admin.dead_letters.list(group)]
    except ConfigurationError:
        return []


def test_a_message_can_be_asked_for_again_later_without_an_error(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    def handle(message: ReceivedMessage) -> None:
        seen.record_message(message)
        if len(seen.messages) == 1:
            message.later(delay_s=0.5)

    with clocked() as (cluster, pass_a_second):
        make_topic(cluster, "postponed")
        put(cluster, "postponed", 0, [b"one"])
        consumer = Consumer(cluster.namesrv, group="postponed-group", start_from="first")
        consumer.handles("postponed")(handle)
        with caplog.at_level(logging.WARNING, "steelyard"), consumer:
            until(lambda: len(seen.messages) == 2 or pass_a_second(), "coming again")
    again = seen.messages[1]
    assert again.reconsume_times == 1
    assert again.stored_ms - seen.messages[0].stored_ms >= 1_000
    assert not caplog.records


def test_messages_come_in_lists_where_that_is_wanted(cluster: Cluster) -> None:
    make_topic(cluster, "heaps", queues=2)
    bodies, seen, sizes = fill(cluster, "heaps", 100, queues=2), Seen(), []
    consumer = Consumer(cluster.namesrv, group="heaps-group", start_from="first")

    @consumer.handles("heaps", batch=10)
    def handle(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        for message in messages:
            seen.record_message(message)

    with consumer:
        seen.wait(bodies)
    assert max(sizes) == 10
    assert seen.counts() == dict.fromkeys(bodies, 1)


def test_async_handlers_run_side_by_side_on_the_loop(cluster: Cluster) -> None:
    make_topic(cluster, "async")
    bodies = fill(cluster, "async", 40)

    async def work() -> tuple[Seen, int]:
        seen, gate = Seen(), asyncio.Event()
        loop = asyncio.get_running_loop()
        async with aio.Producer(cluster.namesrv) as producer:
            consumer = aio.Consumer(cluster.namesrv, group="async-group", start_from="first", workers=4)

            @consumer.handles("async")
            async def handle(message: ReceivedMessage) -> None:
                assert asyncio.get_running_loop() is loop
                seen.now += 1
                seen.most = max(seen.most, seen.now)
                if seen.now == 4:
                    gate.set()
                await gate.wait()
                await asyncio.sleep(0)
                seen.now -= 1
                seen.record_message(message)

            async with consumer:
                while len(seen.messages) < len(bodies):
                    await asyncio.sleep(0.005)
                await producer.send(Message("async", b"last"))
                while len(seen.messages) <= len(bodies):
                    await asyncio.sleep(0.005)
        return seen, seen.most

    seen, most = asyncio.run(work())
    assert most == 4
    assert seen.counts() == dict.fromkeys([*bodies, b"last"], 1)


def test_plain_handlers_run_in_as_many_threads_as_there_are_workers(cluster: Cluster) -> None:
    make_topic(cluster, "parallel", queues=1)
    bodies = [b"%d" % number for number in range(12)]
    put(cluster, "parallel", 0, bodies)
    together, seen = threading.Barrier(3, timeout=30), Seen()
    consumer = Consumer(cluster.namesrv, group="parallel-group", start_from="first", workers=3)

    @consumer.handles("parallel")
    def handle(message: ReceivedMessage) -> None:
        # Nobody passes who is alone: three at a time work on one queue.
        together.wait()
        seen.record_message(message)

    with consumer:
        seen.wait(bodies)
    assert seen.counts() == dict.fromkeys(bodies, 1)


def test_a_handler_that_turns_slow_leaves_the_rest_of_its_messages_to_others(cluster: Cluster) -> None:
    make_topic(cluster, "turning", queues=1)
    quick = [b"quick-%d" % number for number in range(300)]
    put(cluster, "turning", 0, quick)
    seen, gate = Seen(), threading.Event()
    consumer = Consumer(cluster.namesrv, group="turning-group", start_from="first", workers=4)

    @consumer.handles("turning")
    def handle(message: ReceivedMessage) -> None:
        if message.body.startswith(b"slow"):
            gate.wait(0.1)
        seen.record_message(message)

    slow = [b"slow-%d" % number for number in range(32)]
    with consumer:
        seen.wait(quick)
        put(cluster, "turning", 0, slow)
        seen.wait(slow)
    assert seen.counts() == dict.fromkeys([*quick, *slow], 1)


@pytest.mark.parametrize(("start_from", "expected"), [("first", [b"old", b"new"]), ("last", [b"new"])])
def test_a_new_group_begins_where_it_was_told(cluster: Cluster, start_from: str, expected: list[bytes]) -> None:
    topic = f"begun-{start_from}"
    make_topic(cluster, topic, queues=1)
    put(cluster, topic, 0, [b"old"])
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group=f"{topic}-group", start_from=start_from)
    consumer.handles(topic)(seen.record_message)
    with consumer:
        until(lambda: any(queue.topic == topic for queue in consumer.assignment), "owning the queue")
        put(cluster, topic, 0, [b"new"])
        seen.wait([b"new"])
    assert seen.bodies == expected


def test_a_new_group_can_begin_at_a_time(cluster: Cluster) -> None:
    make_topic(cluster, "timed", queues=1)
    put(cluster, "timed", 0, [b"old"])
    with Admin(cluster.namesrv) as admin:
        stored = admin.messages.list("timed")[0].stored_ms
    until(lambda: datetime.now(UTC).timestamp() * 1000 > stored + 20, "a moment passing")
    moment = datetime.fromtimestamp((stored + 10) / 1000, UTC)
    put(cluster, "timed", 0, [b"new"])
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group="timed-group", start_from=moment)
    consumer.handles("timed")(seen.record_message)
    with consumer:
        seen.wait([b"new"])
    assert seen.bodies == [b"new"]


def test_a_request_is_answered_from_the_handler(cluster: Cluster) -> None:
    make_topic(cluster, "prices")
    consumer = Consumer(cluster.namesrv, group="prices-group", start_from="first")

    @consumer.handles("prices")
    def handle(message: ReceivedMessage) -> None:
        message.reply(b"42 for " + message.body)

    with consumer, Producer(cluster.namesrv, group="askers") as producer:
        until(lambda: len(consumer.assignment) >= 4, "owning the queues")
        reply = producer.request(Message("prices", b"sku-1"), timeout_s=10)
    assert reply.body == b"42 for sku-1"


def test_names_of_a_namespace_are_shown_without_it(cluster: Cluster) -> None:
    where = ClientConfig(cluster.namesrv, namespace="eu")
    moves: list[Rebalanced] = []
    seen = Seen()
    consumer = Consumer(where, group="shop", start_from="first")
    consumer.handles("till")(seen.record_message)
    consumer.on_rebalance(moves.append)
    with Producer(where) as producer:
        producer.send(Message("till", b"one"))
    with consumer:
        seen.wait([b"one"])
        until(lambda: consumer.assignment, "owning queues")
        shown = str(consumer.explain())
    assert seen.messages[0].topic == "till"
    assert seen.messages[0].queue.topic == "eu%till"
    assert {queue.topic for move in moves for queue in move.taken} <= {"till", "%RETRY%shop"}
    assert "group shop" in shown
    assert "eu%" not in shown


def test_wishes_that_exclude_each_other_are_refused_at_once(cluster: Cluster) -> None:
    consumer = Consumer(cluster.namesrv, group="refusals")
    consumer.handles("a")(print)
    with pytest.raises(ConfigurationError, match="has a handler already, print"):
        consumer.handles("a")(print)
    with pytest.raises(ConfigurationError, match="wants topic 'b' in order, print takes 'a' in any order"):
        consumer.handles("b", orderly=True)(print)
    with pytest.raises(ConfigurationError, match="wants tags and an SQL condition"):
        consumer.handles("c", tags="x", sql="y > 1")(print)
    with pytest.raises(ConfigurationError, match="wants batches of 0"):
        consumer.handles("d", batch=0)(print)
    with pytest.raises(ConfigurationError, match="has no handler"):
        Consumer(cluster.namesrv, group="empty").start()
    with pytest.raises(ConfigurationError, match="the group is ''"):
        Consumer(cluster.namesrv)
    broadcast = Consumer(cluster.namesrv, group="refusals", mode="broadcast")
    broadcast.handles("b", orderly=True)(print)
    with pytest.raises(ConfigurationError, match="want order, and every member gets every message"):
        broadcast.start()


def test_a_message_kept_after_its_handler_cannot_be_asked_for_again(cluster: Cluster) -> None:
    make_topic(cluster, "kept")
    put(cluster, "kept", 0, [b"one"])
    seen = Seen()
    consumer = Consumer(cluster.namesrv, group="kept-group", start_from="first")
    consumer.handles("kept")(seen.record_message)
    with consumer:
        seen.wait([b"one"])
    with pytest.raises(ConfigurationError, match="used outside its handler"):
        seen.messages[0].later()
