"""Streams, driven as Spark drives them: starts, restarts, crashes, queues that come and go, ends, and groups."""

import json
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from steelyard import Admin
from steelyard.client.broker_connection import BrokerConnection
from steelyard.client.pending_requests import ResponseHandler
from steelyard.errors import ConfigurationError, NoNameServer, SteelyardError, SubscriptionUnreadable
from steelyard.model import OffsetRange
from steelyard.spark.cluster_client import QueueLayout
from steelyard.spark.partition_reader import OffsetRangePartition
from steelyard.spark.schema import COLUMNS
from steelyard.spark.stream_offset import StreamOffset
from steelyard.spark.stream_reader import StreamReader
from steelyard.wire.command import Command
from tests.live.clusters import Live
from tests.spark.stream_driver import StreamDriver, fill, queues_on, ranges_in, reader, streaming


@pytest.fixture(autouse=True)
def looks_for_queues_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new queues be seen at once, and brokers that are away be given up at once."""
    monkeypatch.setattr("steelyard.spark.queue_monitor._LAYOUT_INTERVAL_MS", 0)
    monkeypatch.setattr("steelyard.spark.queue_monitor._BACKOFF_MS", 0)
    monkeypatch.setattr("steelyard.spark.queue_monitor.RETRY_PAUSES_S", (0.0,))


# -- starts and restarts -----------------------------------------------------------------------------------------------


def test_a_stream_reads_what_is_there_and_then_what_comes(cluster: Live, topic: str) -> None:
    first, second = queues_on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 3, first)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
        driver.start(source)
        assert driver.run(source) == [[OffsetRange(first, 0, 3)]]
        fill(cluster.namesrv, topic, 2, first, second)
        assert driver.run(source) == [[OffsetRange(first, 3, 5), OffsetRange(second, 0, 2)]]


def test_a_stream_begins_at_the_end_by_default(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 3, queue)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        # Spark makes a first batch, whatever there is.
        assert driver.run(source) == [[]]
        fill(cluster.namesrv, topic, 2, queue)
        assert driver.run(source) == [[OffsetRange(queue, 3, 5)]]


def test_the_first_offset_is_the_same_however_often_it_is_asked_for(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        first = source.initialOffset()
        fill(cluster.namesrv, topic, 5, queue)
        end = source.latestOffset(first, ReadAllAvailable())
        assert source.initialOffset() == first
        assert ranges_in(source.partitions(first, end)) == [OffsetRange(queue, 0, 5)]


def test_a_crash_in_the_first_batch_replays_it_whatever_came_since(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 7, queue)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        source.initialOffset()
        fill(cluster.namesrv, topic, 2, queue)
        driver.step(source, crash=True)
    # The end of the queue is elsewhere when the first offset is asked for again.
    fill(cluster.namesrv, topic, 4, queue)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        assert driver.read == [[OffsetRange(queue, 7, 9)]]
        assert driver.run(source) == [[OffsetRange(queue, 9, 13)]]


def test_a_crash_in_an_empty_first_batch_loses_nothing_that_came_since(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        driver.step(source, crash=True)
    fill(cluster.namesrv, topic, 4, queue)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        assert driver.read == [[]]
        assert driver.run(source) == [[OffsetRange(queue, 0, 4)]]


def test_after_any_crash_the_same_batch_runs_again_and_nothing_else_does(cluster: Live, topic: str) -> None:
    driver = StreamDriver()
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"}
    for _ in range(5):
        fill(cluster.namesrv, topic, 11)
        with streaming(cluster.namesrv, **given) as source:
            driver.start(source)
            driver.step(source)
            driver.step(source, crash=True)
    with streaming(cluster.namesrv, **given) as source:
        driver.start(source)
        driver.run(source)
    # A batch that crashed did not read here, so each message is read once: by it or by its replay.
    assert driver.total() == 55
    assert max(sum(map(len, batch)) for batch in driver.read) == 7


def test_a_stream_that_restarts_goes_on_where_it_was(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    driver = StreamDriver()
    for turn in range(3):
        fill(cluster.namesrv, topic, 2, queue)
        with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
            driver.start(source)
            assert driver.run(source) == [[OffsetRange(queue, 2 * turn, 2 * turn + 2)]]


def test_a_replay_waits_for_no_name_server_and_yet_reads_nothing_by_a_condition_that_brokers_refuse(
    cluster: Live, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    start, end = StreamOffset({queue: 2}).encode(), StreamOffset({queue: 5}).encode()

    def fail(error: SteelyardError) -> QueueLayout:
        raise error

    with streaming(cluster.namesrv, subscribe=topic, sql="amount > 1") as source:
        monkeypatch.setattr(source._client, "layout", lambda: fail(NoNameServer("none answers")))
        assert source.partitions(start, end) == [OffsetRangePartition((OffsetRange(queue, 2, 5),), {})]
        monkeypatch.setattr(source._client, "layout", lambda: fail(SubscriptionUnreadable("?", code=23)))
        with pytest.raises(SubscriptionUnreadable):
            source.partitions(start, end)


def test_a_topic_that_is_not_read_any_more_is_forgotten(cluster: Live, topic: str) -> None:
    other = f"{topic}-b"
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(other, 1)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=f"{topic},{other}", startingOffsets="earliest") as source:
        driver.start(source)
        fill(cluster.namesrv, other, 2)
        driver.run(source)
    fill(cluster.namesrv, other, 2)
    fill(cluster.namesrv, topic, 3)
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
        driver.start(source)
        (batch,) = driver.run(source)
    assert {each.queue.topic for each in batch} == {topic}
    assert other not in driver.offsets[-1]


def test_a_checkpoint_of_something_else_is_refused(cluster: Live, topic: str) -> None:
    with streaming(cluster.namesrv, subscribe=topic) as source:
        for wrong in ('{"offset": 5}', '{"orders": {"0": 5}}', '{"q": {"t": 5}, "v": 1}'):
            with pytest.raises(ConfigurationError, match="the checkpoint is of something else"):
                source.latestOffset(json.loads(wrong), ReadAllAvailable())


# -- nothing to do -----------------------------------------------------------------------------------------------------


def test_a_stream_with_nothing_to_do_makes_no_batches_and_asks_nobody(
    cluster: Live, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster.namesrv, topic, 3)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", offsetPollMs="1h") as source:
        driver.start(source)
        assert driver.step(source)
        asked: list[int] = []

        def counted(_caller: BrokerConnection, _question: ResponseHandler, command: Command, _timeout_ms: int) -> None:
            asked.append(command.code)

        monkeypatch.setattr(BrokerConnection, "submit", counted)
        for _ in range(100):
            assert driver.step(source) is None
        assert not asked
        monkeypatch.undo()


def test_offsets_are_texts_that_say_the_same_in_one_way(cluster: Live, topic: str) -> None:
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
        driver.start(source)
        for _ in range(3):
            fill(cluster.namesrv, topic, 8)
            driver.run(source)
        report = source.reportLatestOffset()
    for text in driver.offsets:
        assert json.dumps(json.loads(text), sort_keys=True) == text
    assert json.loads(driver.offsets[0]).keys() == {"base", "q", "v"}
    # Later ends are short: the base is told once.
    assert json.loads(driver.offsets[-1]) == report
    assert json.loads(driver.offsets[-1]).keys() == {"q", "v"}


def test_a_reader_costs_nothing_before_it_is_asked_and_travels_to_executors() -> None:
    source = reader("127.0.0.1:1", subscribe="nowhere")
    assert b"ClusterClient" not in pickle.dumps(source)
    made, given = source.__reduce__()
    assert made is StreamReader
    assert given == (source._options, COLUMNS)
    source.stop()
    source.stop()


# -- how much ----------------------------------------------------------------------------------------------------------


def test_a_limit_is_shared_fairly_until_all_is_read(cluster: Live, topic: str) -> None:
    small, large = queues_on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 2, small)
    fill(cluster.namesrv, topic, 20, large)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source:
        assert source.getDefaultReadLimit() == ReadMaxRows(8)
        driver.start(source)
        ran = driver.run(source)
    assert [sum(map(len, batch)) for batch in ran] == [8, 8, 6]
    assert ran[0] == [OffsetRange(small, 0, 2), OffsetRange(large, 0, 6)]


def test_all_that_is_available_is_one_batch_whatever_the_limit(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 30)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source:
        driver.start(source)
        (batch,) = driver.run(source, limit=ReadAllAvailable())
    assert sum(map(len, batch)) == 30


def test_too_few_messages_wait(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    driver = StreamDriver()
    given = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1h"}
    with streaming(cluster.namesrv, **given) as source:
        driver.start(source)
        fill(cluster.namesrv, topic, 2, queue)
        driver.run(source)
        fill(cluster.namesrv, topic, 4, queue)
        assert driver.run(source) == []
        fill(cluster.namesrv, topic, 1, queue)
        assert driver.run(source) == [[OffsetRange(queue, 2, 7)]]


def test_bytes_are_limited_by_the_size_of_messages_there(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 40)
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="2k") as source:
        driver.start(source)
        ran = driver.run(source)
    assert sum(sum(map(len, batch)) for batch in ran) == 40
    # A message is stored with about 200 bytes.
    assert 4 <= max(sum(map(len, batch)) for batch in ran) <= 16


# -- available now -----------------------------------------------------------------------------------------------------


def test_available_now_is_several_batches_and_ends_though_messages_arrive(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 20)
    driver = StreamDriver()
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    with streaming(cluster.namesrv, **given, minOffsetsPerTrigger="7") as source:
        assert isinstance(source, SupportsTriggerAvailableNow)
        driver.start(source, available_now=True)
        sizes = []
        while (batch := driver.step(source)) is not None:
            sizes.append(sum(map(len, batch)))
            fill(cluster.namesrv, topic, 5)
        assert sizes == [8, 8, 4]
    with streaming(cluster.namesrv, **given) as source:
        driver.start(source, available_now=True)
        assert sum(sum(map(len, batch)) for batch in driver.run(source)) == 15


def test_available_now_ends_though_queues_are_added_and_the_topic_is_deleted(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 20)
    driver = StreamDriver()
    with (
        Admin(cluster.namesrv) as admin,
        streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source,
    ):
        driver.start(source, available_now=True)
        assert driver.step(source)
        admin.topics.add_queues(topic, 6)
        fill(cluster.namesrv, topic, 3, *queues_on(cluster, topic, 5))
        assert driver.step(source)
        admin.topics.delete(topic)
        (last,) = driver.run(source)
    assert sum(map(len, last)) == 4
    assert not {each.queue.queue_id for batch in driver.read for each in batch} & {4, 5}


def test_available_now_without_anything_new_is_no_batch(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 3)
    driver = StreamDriver()
    for expected in (1, 0):
        with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
            driver.start(source, available_now=True)
            assert len(driver.run(source)) == expected


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_stream_stops_whatever_state_it_is_in(cluster: Live, topic: str) -> None:
    for steps in range(3):
        source = reader(cluster.namesrv, subscribe=topic)
        for _ in range(steps):
            source.latestOffset(source.initialOffset(), ReadAllAvailable())
        source.stop()
        source.stop()
