"""Batches: where they begin and end is settled once, when they are planned, and they are cut into even tasks."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine

import pytest
from pyspark.sql.datasource import InputPartition

from steelyard import Admin, Message, Producer
from steelyard.client.broker_connection import BrokerConnection
from steelyard.client.pending_requests import ResponseHandler
from steelyard.errors import (
    CannotConnect,
    ConfigurationError,
    NoRoute,
    SubscriptionUnreadable,
    TimedOut,
    TopicNotFound,
)
from steelyard.model import OffsetRange, Queue
from steelyard.serve.embedded import Cluster
from steelyard.spark.batch_reader import BatchReader
from steelyard.spark.cluster_client import ClusterClient, QueueBounds
from steelyard.spark.partition_reader import OffsetRangePartition
from steelyard.spark.schema import COLUMNS
from steelyard.wire.codes import RequestCode
from steelyard.wire.command import Command
from tests.live.clusters import Live
from tests.spark.stream_driver import batch_options, fill, ranges_in, spans


def plan(namesrv: str, **given: str) -> list[OffsetRangePartition]:
    """Plan a batch, and return its tasks."""
    tasks = BatchReader(batch_options(namesrv, **given), COLUMNS).partitions()
    assert isinstance(tasks, list)
    assert all(isinstance(task, OffsetRangePartition) for task in tasks)
    return [task for task in tasks if isinstance(task, OffsetRangePartition)]


def batch(namesrv: str, **given: str) -> list[OffsetRange]:
    """Plan a batch, and return what it reads."""
    return ranges_in(plan(namesrv, **given))


@pytest.fixture
def queues(cluster: Live, topic: str) -> list[Queue]:
    """Fill the topic with five messages in each of its eight queues."""
    found = [Queue(topic, broker, number) for broker in cluster.brokers for number in range(4)]
    fill(cluster.namesrv, topic, 5, *found)
    return found


def test_all_that_is_there_is_read_by_default(cluster: Live, topic: str, queues: list[Queue]) -> None:
    assert batch(cluster.namesrv, subscribe=topic) == [OffsetRange(queue, 0, 5) for queue in sorted(queues)]


def test_a_topic_without_messages_has_no_tasks_and_sparks_own_one_reads_nothing(cluster: Live, topic: str) -> None:
    assert plan(cluster.namesrv, subscribe=topic) == []
    source = BatchReader(batch_options(cluster.namesrv, subscribe=topic), COLUMNS)
    assert list(source.read(InputPartition(None))) == []


def test_tasks_are_even_and_as_many_as_wanted(cluster: Live, topic: str, queues: list[Queue]) -> None:
    del queues
    for given, count in (
        ({"minPartitions": "4"}, 4),
        ({"minPartitions": "40"}, 40),
        ({"maxRecordsPerPartition": "10"}, 4),
        ({"maxRecordsPerPartition": "10", "maxPartitions": "2"}, 2),
        ({}, 1),
    ):
        tasks = plan(cluster.namesrv, subscribe=topic, **given)
        sizes = [sum(map(len, task.ranges)) for task in tasks]
        assert len(tasks) == count
        assert sum(sizes) == 40
        assert max(sizes) - min(sizes) <= 1


def test_only_assigned_queues_are_read(cluster: Live, topic: str, queues: list[Queue]) -> None:
    one = queues[5]
    assigned = json.dumps({topic: {one.broker: [one.queue_id]}})
    assert batch(cluster.namesrv, assign=assigned) == [OffsetRange(one, 0, 5)]


def test_a_queue_that_is_not_there_cannot_be_assigned(cluster: Live, topic: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{topic}@{cluster.brokers[0]}:9, and there is no such queue"):
        plan(cluster.namesrv, assign=json.dumps({topic: {cluster.brokers[0]: [9]}}))
    with pytest.raises(ConfigurationError, match=f"did you mean {cluster.brokers[0]}"):
        plan(cluster.namesrv, assign=json.dumps({topic: {f"{cluster.brokers[0]}x": [0]}}))


def test_a_pattern_reads_every_topic_that_it_matches(cluster: Live, topic: str, queues: list[Queue]) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(f"{topic}-b", 1)
        admin.topics.create(f"x-{topic}", 1)
    fill(cluster.namesrv, f"{topic}-b", 3)
    found = batch(cluster.namesrv, subscribePattern=f"{topic}.*")
    assert {each.queue.topic for each in found} == {topic, f"{topic}-b"}
    assert sum(map(len, found)) == 5 * len(queues) + 3


def test_a_pattern_never_reads_what_is_the_servers_own(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 1)
    topics = {each.queue.topic for each in batch(cluster.namesrv, subscribePattern=".*")}
    assert topic in topics
    own = ("TBW102", "DefaultCluster", *cluster.brokers)
    assert not {name for name in topics if name.startswith("%") or name in own}


def test_a_topic_that_does_not_exist_names_the_one_that_was_meant(cluster: Live, topic: str) -> None:
    with pytest.raises(TopicNotFound, match=f"Did you mean '{topic}'"):
        plan(cluster.namesrv, subscribe=f"{topic[:-1]}")


def test_offsets_for_some_queues_leave_the_others_whole(cluster: Live, topic: str, queues: list[Queue]) -> None:
    first, second = queues[0], queues[1]
    starts = {topic: {first.broker: {"0": 2, "1": -2}}}
    ends = {topic: {first.broker: {"0": 4, "1": -1}}}
    found = batch(cluster.namesrv, subscribe=topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))
    by_queue = {each.queue: (each.start, each.end) for each in found}
    assert by_queue.pop(first) == (2, 4)
    assert by_queue.pop(second) == (0, 5)
    assert set(by_queue.values()) == {(0, 5)}


@pytest.mark.parametrize(
    ("name", "offsets", "says"),
    [
        ("startingOffsets", {"TOPIC": {"BROKER": {"0": 6}}}, r"startingOffsets says 6 for .*:0, which ends at 5"),
        ("endingOffsets", {"TOPIC": {"BROKER": {"0": 6}}}, r"endingOffsets says 6 for .*:0, which ends at 5"),
        ("startingOffsets", {"TOPIC": {"BROKER": {"8": 1}}}, r"did you mean TOPIC@BROKER:"),
        ("startingOffsets", {"other": {"BROKER": {"0": 1}}}, "named in offsets, and is not read"),
        ("startingOffsetsByTimestamp", {"TOPIC": {"BROKER": {"77": 1}}}, "named in offsets, and is not read"),
    ],
)
def test_offsets_that_are_not_there_are_refused(
    cluster: Live, topic: str, queues: list[Queue], name: str, offsets: object, says: str
) -> None:
    written = json.dumps(offsets).replace("TOPIC", topic).replace("BROKER", queues[0].broker)
    with pytest.raises(ConfigurationError, match=says.replace("TOPIC", topic).replace("BROKER", queues[0].broker)):
        plan(cluster.namesrv, subscribe=topic, **{name: written})


def test_a_range_that_goes_back_is_refused(cluster: Live, topic: str, queues: list[Queue]) -> None:
    starts, ends = ({topic: {queues[0].broker: {"0": offset}}} for offset in (4, 2))
    with pytest.raises(ConfigurationError, match="is to be read from 4 to 2"):
        plan(cluster.namesrv, subscribe=topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))


@pytest.fixture
def moments(cluster: Live, topic: str) -> list[int]:
    """Store three messages in one queue at different times, and return the time before each and after all."""

    def between() -> int:
        time.sleep(0.01)
        now_ms = time.time_ns() // 1_000_000
        time.sleep(0.01)
        return now_ms

    found = [between()]
    with Producer(cluster.namesrv) as producer:
        for number in range(3):
            producer.send(Message(topic, b"%d" % number), queue=Queue(topic, cluster.brokers[0], 0))
            found.append(between())
    return found


def test_a_time_is_where_the_first_message_was_stored_from_then_on(
    cluster: Live, topic: str, moments: list[int]
) -> None:
    for number, moment in enumerate(moments):
        after = batch(cluster.namesrv, subscribe=topic, startingTimestamp=str(moment))
        before = batch(cluster.namesrv, subscribe=topic, endingTimestamp=str(moment))
        assert spans(after) == ([(number, 3)] if number < 3 else [])
        assert spans(before) == ([(0, number)] if number else [])
    each = json.dumps({topic: {cluster.brokers[0]: {"0": moments[2]}}})
    assert spans(batch(cluster.namesrv, subscribe=topic, startingOffsetsByTimestamp=each)) == [(2, 3)]
    assert spans(batch(cluster.namesrv, subscribe=topic, endingOffsetsByTimestamp=each)) == [(0, 2)]


def test_a_time_is_found_where_brokers_only_give_what_is_near(
    cluster: Live, topic: str, moments: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.spark.cluster_client._searches_exactly", lambda _session, _broker: False)
    for number, moment in enumerate(moments):
        after = batch(cluster.namesrv, subscribe=topic, startingTimestamp=str(moment))
        assert spans(after) == ([(number, 3)] if number < 3 else [])


def test_a_time_is_not_guessed_where_a_broker_that_only_gives_what_is_near_falls_silent(
    cluster: Live, topic: str, moments: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.spark.cluster_client._searches_exactly", lambda _session, _broker: False)

    def silent(caller: BrokerConnection, command: Command, timeout_ms: int) -> "asyncio.Future[Command]":
        if command.code != RequestCode.PULL_MESSAGE:
            return ask(caller, command, timeout_ms)
        failed: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        failed.set_exception(TimedOut("it said nothing"))
        return failed

    ask = BrokerConnection.request
    monkeypatch.setattr(BrokerConnection, "request", silent)
    with pytest.raises(TimedOut):
        plan(cluster.namesrv, subscribe=topic, endingTimestamp=str(moments[2]))


def test_so_long_ago_is_as_of_now(cluster: Live, topic: str, moments: list[int]) -> None:
    del moments
    assert spans(batch(cluster.namesrv, subscribe=topic, startingTimestamp="-1h")) == [(0, 3)]
    assert spans(batch(cluster.namesrv, subscribe=topic, startingOffsets="-1d", endingOffsets="-1h")) == []


def test_a_time_without_messages_after_it_is_an_error_if_wanted(cluster: Live, topic: str, moments: list[int]) -> None:
    wanted = {"subscribe": topic, "startingOffsetsByTimestampStrategy": "error"}
    with pytest.raises(ConfigurationError, match=r"has no message from .* and 6 more"):
        plan(cluster.namesrv, **wanted, startingTimestamp=str(moments[0]))
    each = json.dumps({topic: {cluster.brokers[0]: {"0": moments[2]}}})
    assert spans(batch(cluster.namesrv, **wanted, startingOffsetsByTimestamp=each)) == [(2, 3)]


def test_a_group_begins_where_it_is_and_at_the_first_message_where_it_is_nowhere(
    cluster: Live, topic: str, queues: list[Queue]
) -> None:
    wanted = batch_options(cluster.namesrv, subscribe=topic, group=f"group-{topic}", startingOffsets="group")
    asking = ClusterClient(wanted)
    try:
        asking.layout()
        assert asking.commit({queues[0]: 3, queues[1]: 5}) == {}
    finally:
        asking.close()
    found = {each.queue: each.start for each in ranges_in(BatchReader(wanted, COLUMNS).partitions())}
    # The second queue is read to its end.
    assert found == {queue: 3 if queue == queues[0] else 0 for queue in queues if queue != queues[1]}


def test_a_namespace_is_on_the_wire_and_nowhere_else(cluster: Live, topic: str) -> None:
    full = Queue(f"eu%{topic}", cluster.brokers[0], 0)
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(full.topic, 1)
    fill(cluster.namesrv, full.topic, 3, full)
    for given in ({"subscribe": topic}, {"subscribePattern": topic}):
        found = batch(cluster.namesrv, namespace="eu", **given)
        assert found == [OffsetRange(Queue(topic, cluster.brokers[0], 0), 0, 3)]


def test_a_condition_that_brokers_cannot_read_is_reported_before_anything_is_read(cluster: Live, topic: str) -> None:
    with pytest.raises(SubscriptionUnreadable, match="cannot read the condition 'amount >'"):
        plan(cluster.namesrv, subscribe=topic, sql="amount >")
    assert plan(cluster.namesrv, subscribe=topic, sql="amount > 3") == []


def test_a_broker_that_is_away_is_waited_for_and_then_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.spark.planning.RETRY_PAUSES_S", (0.0, 0.0))
    with Cluster(brokers=2) as running:
        with Admin(running.namesrv) as admin:
            admin.topics.create("orders", 2)
        fill(running.namesrv, "orders", 8)
        asked: list[str] = []

        def away(_session: object, topic: str, broker: str, _queues: object, spans: QueueBounds) -> None:
            asked.append(broker)
            spans.unreachable[broker] = CannotConnect(f"{topic} is on a broker that is away")

        monkeypatch.setattr("steelyard.spark.cluster_client._fetch_from_broker", coroutine(away))
        with pytest.raises(NoRoute, match=r"broker broker-\d does not report the offsets of its queues"):
            plan(running.namesrv, subscribe="orders")
        assert asked == ["broker-0", "broker-1"] * 3


def test_ten_thousand_queues_take_one_question_to_each_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    put = BrokerConnection.submit

    def counted(self: BrokerConnection, question: ResponseHandler, command: Command, timeout_ms: int) -> None:
        codes.append(command.code)
        put(self, question, command, timeout_ms)

    with Cluster(brokers=2) as running:
        with Admin(running.namesrv) as admin:
            admin.topics.create("wide", 5_000)
        fill(running.namesrv, "wide", 100)
        monkeypatch.setattr(BrokerConnection, "submit", counted)
        found = batch(running.namesrv, subscribe="wide")
    assert sum(map(len, found)) == 100
    # A route is looked up again where planning takes its time.
    assert set(codes) == {RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_TOPIC_STATS_INFO}
    assert codes.count(RequestCode.GET_TOPIC_STATS_INFO) == 2


def test_where_brokers_do_not_tell_of_all_queues_each_is_asked_about(
    cluster: Live, topic: str, queues: list[Queue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.spark.cluster_client.decode_body", lambda kind, _body: kind())
    assert batch(cluster.namesrv, subscribe=topic) == [OffsetRange(queue, 0, 5) for queue in sorted(queues)]


def coroutine(function: Callable[..., None]) -> Callable[..., Coroutine[None, None, None]]:
    """Make a function one that is awaited."""

    async def awaited(*given: object) -> None:
        function(*given)

    return awaited
