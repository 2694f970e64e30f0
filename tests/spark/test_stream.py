"""Streams, driven as Spark drives them: starts, restarts, crashes, queues that come and go, ends, and groups."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
from tests.live.clusters import Live, until
from tests.spark.driving import Driver, fill, ranges_in, reader

from steelyard import Admin, Message, Producer
from steelyard.client.caller import Caller
from steelyard.client.unanswered import Question
from steelyard.errors import ConfigurationError, MessagesLost, TopicNotFound
from steelyard.model import OffsetRange, Queue
from steelyard.serve.embedded import Cluster
from steelyard.spark.offsets import Json, Offsets
from steelyard.spark.schema import COLUMNS
from steelyard.spark.stream import StreamReader
from steelyard.wire.command import Command

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(autouse=True)
def looks_for_queues_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new queues be seen at once, and brokers that are away be given up at once."""
    monkeypatch.setattr("steelyard.spark.watch._LAYOUT_MS", 0)
    monkeypatch.setattr("steelyard.spark.watch._REST_MS", 0)
    monkeypatch.setattr("steelyard.spark.watch.PAUSES_S", (0.0,))


@contextmanager
def streaming(namesrv: str, **given: str) -> Iterator[StreamReader]:
    """Run the reader of a stream."""
    source = reader(namesrv, **given)
    try:
        yield source
    finally:
        source.stop()


def on(cluster: Live, topic: str, *numbers: int) -> list[Queue]:
    """Return queues of the first broker."""
    return [Queue(topic, cluster.brokers[0], number) for number in numbers]


# -- starts and restarts -----------------------------------------------------------------------------------------------


def test_a_stream_reads_what_is_there_and_then_what_comes(cluster: Live, topic: str) -> None:
    first, second = on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 3, first)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
        driver.start(source)
        assert driver.run(source) == [[OffsetRange(first, 0, 3)]]
        fill(cluster.namesrv, topic, 2, first, second)
        assert driver.run(source) == [[OffsetRange(first, 3, 5), OffsetRange(second, 0, 2)]]


def test_a_stream_begins_at_the_end_by_default(cluster: Live, topic: str) -> None:
    (queue,) = on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 3, queue)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        # Spark makes a first batch, whatever there is.
        assert driver.run(source) == [[]]
        fill(cluster.namesrv, topic, 2, queue)
        assert driver.run(source) == [[OffsetRange(queue, 3, 5)]]


def test_the_first_offset_is_the_same_however_often_it_is_asked_for(cluster: Live, topic: str) -> None:
    (queue,) = on(cluster, topic, 0)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        first = source.initialOffset()
        fill(cluster.namesrv, topic, 5, queue)
        end = source.latestOffset(first, ReadAllAvailable())
        assert source.initialOffset() == first
        assert ranges_in(source.partitions(first, end)) == [OffsetRange(queue, 0, 5)]


def test_a_crash_in_the_first_batch_replays_it_whatever_came_since(cluster: Live, topic: str) -> None:
    (queue,) = on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 7, queue)
    driver = Driver()
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
    (queue,) = on(cluster, topic, 0)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        driver.step(source, crash=True)
    fill(cluster.namesrv, topic, 4, queue)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        assert driver.read == [[]]
        assert driver.run(source) == [[OffsetRange(queue, 0, 4)]]


def test_after_any_crash_the_same_batch_runs_again_and_nothing_else_does(cluster: Live, topic: str) -> None:
    driver = Driver()
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
    (queue,) = on(cluster, topic, 0)
    driver = Driver()
    for turn in range(3):
        fill(cluster.namesrv, topic, 2, queue)
        with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
            driver.start(source)
            assert driver.run(source) == [[OffsetRange(queue, 2 * turn, 2 * turn + 2)]]


def test_a_topic_that_is_not_read_any_more_is_forgotten(cluster: Live, topic: str) -> None:
    other = f"{topic}-b"
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(other, 1)
    driver = Driver()
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
        others: list[Json] = [{"offset": 5}, {"orders": {"0": 5}}, {"q": {"t": 5}, "v": 1}]
        for wrong in others:
            with pytest.raises(ConfigurationError, match="the checkpoint is of something else"):
                source.latestOffset(wrong, ReadAllAvailable())


# -- nothing to do -----------------------------------------------------------------------------------------------------


def test_a_stream_with_nothing_to_do_makes_no_batches_and_asks_nobody(
    cluster: Live, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster.namesrv, topic, 3)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", offsetPollMs="1h") as source:
        driver.start(source)
        assert driver.step(source)
        asked: list[int] = []

        def counted(_caller: Caller, _question: Question, command: Command, _timeout_ms: int) -> None:
            asked.append(command.code)

        monkeypatch.setattr(Caller, "put", counted)
        for _ in range(100):
            assert driver.step(source) is None
        assert not asked
        monkeypatch.undo()


def test_offsets_are_texts_that_say_the_same_in_one_way(cluster: Live, topic: str) -> None:
    driver = Driver()
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
    assert b"Asking" not in pickle.dumps(source)
    made, given = source.__reduce__()
    assert made is StreamReader
    assert given == (source._options, COLUMNS)
    source.stop()
    source.stop()


# -- how much ----------------------------------------------------------------------------------------------------------


def test_a_limit_is_shared_fairly_until_all_is_read(cluster: Live, topic: str) -> None:
    small, large = on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 2, small)
    fill(cluster.namesrv, topic, 20, large)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source:
        assert source.getDefaultReadLimit() == ReadMaxRows(8)
        driver.start(source)
        ran = driver.run(source)
    assert [sum(map(len, batch)) for batch in ran] == [8, 8, 6]
    assert ran[0] == [OffsetRange(small, 0, 2), OffsetRange(large, 0, 6)]


def test_all_that_is_available_is_one_batch_whatever_the_limit(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 30)
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source:
        driver.start(source)
        (batch,) = driver.run(source, limit=ReadAllAvailable())
    assert sum(map(len, batch)) == 30


def test_too_few_messages_wait(cluster: Live, topic: str) -> None:
    (queue,) = on(cluster, topic, 0)
    driver = Driver()
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
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="2k") as source:
        driver.start(source)
        ran = driver.run(source)
    assert sum(sum(map(len, batch)) for batch in ran) == 40
    # A message is stored with about 200 bytes.
    assert 4 <= max(sum(map(len, batch)) for batch in ran) <= 16


# -- available now -----------------------------------------------------------------------------------------------------


def test_available_now_is_several_batches_and_ends_though_messages_arrive(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 20)
    driver = Driver()
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
    driver = Driver()
    with (
        Admin(cluster.namesrv) as admin,
        streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8") as source,
    ):
        driver.start(source, available_now=True)
        assert driver.step(source)
        admin.add_queues(topic, 6)
        fill(cluster.namesrv, topic, 3, *on(cluster, topic, 5))
        assert driver.step(source)
        admin.delete_topic(topic)
        (last,) = driver.run(source)
    assert sum(map(len, last)) == 4
    assert not {each.queue.queue_id for batch in driver.read for each in batch} & {4, 5}


def test_available_now_without_anything_new_is_no_batch(cluster: Live, topic: str) -> None:
    fill(cluster.namesrv, topic, 3)
    driver = Driver()
    for expected in (1, 0):
        with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest") as source:
            driver.start(source, available_now=True)
            assert len(driver.run(source)) == expected


# -- queues that come and go -------------------------------------------------------------------------------------------


def test_queues_that_are_added_begin_at_their_first_message(cluster: Live, topic: str) -> None:
    driver = Driver()
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        driver.run(source)
        admin.add_queues(topic, 5)
        (added,) = on(cluster, topic, 4)
        fill(cluster.namesrv, topic, 3, added)
        driver.step(source, crash=True)
        assert json.loads(driver.offsets[-1])["base"][topic][added.broker]["4"] == 0
        fill(cluster.namesrv, topic, 3, added)
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        assert driver.read[-1] == [OffsetRange(added, 0, 3)]
        assert driver.run(source) == [[OffsetRange(added, 3, 6)]]


def test_topics_that_a_pattern_matches_later_are_read_from_their_first_message(cluster: Live, topic: str) -> None:
    later = f"{topic}-later"
    driver = Driver()
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribePattern=f"{topic}-.*") as source:
        driver.start(source)
        assert driver.run(source) == [[]]
        admin.create_topic(later, 1)
        fill(cluster.namesrv, later, 4, Queue(later, cluster.brokers[1], 0))
        assert driver.run(source) == [[OffsetRange(Queue(later, cluster.brokers[1], 0), 0, 4)]]


def test_a_topic_that_is_deleted_after_it_was_read_ends_nothing(cluster: Live, topic: str) -> None:
    other = f"{topic}-b"
    driver = Driver()
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(other, 1)
        fill(cluster.namesrv, other, 3)
        with streaming(cluster.namesrv, subscribe=f"{topic},{other}", startingOffsets="earliest") as source:
            driver.start(source)
            driver.run(source)
            admin.delete_topic(other)
            assert driver.run(source) == []
            fill(cluster.namesrv, topic, 2)
            (batch,) = driver.run(source)
    assert sum(map(len, batch)) == 2


@pytest.mark.parametrize("careful", [True, False])
def test_a_topic_that_is_deleted_before_it_was_read_is_a_loss_of_exactly_that(
    cluster: Live, topic: str, caplog: pytest.LogCaptureFixture, careful: bool
) -> None:
    (queue,) = on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 8, queue)
    driver = Driver()
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5", "failOnDataLoss": str(careful)}
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribe=topic, **given) as source:
        driver.start(source)
        driver.step(source)
        admin.delete_topic(topic)
        if careful:
            with pytest.raises(MessagesLost) as caught:
                driver.step(source)
            assert (caught.value.queue, caught.value.start, caught.value.end) == (str(queue), 5, 8)
            return
        for _ in range(3):
            assert driver.step(source) is None
    assert sum("[5, 8)" in record.message for record in caplog.records) == 1


def test_a_topic_that_is_missing_at_a_restart_is_an_error_unless_losses_are_accepted(cluster: Live, topic: str) -> None:
    other = f"{topic}-b"
    driver = Driver()
    for given in ({"subscribe": f"{topic},{other}"}, {"subscribePattern": f"{topic}.*"}):
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(other, 1)
            with streaming(cluster.namesrv, **given, startingOffsets="earliest") as source:
                driver.start(source)
                driver.run(source)
            admin.delete_topic(other)
        with streaming(cluster.namesrv, **given) as source:
            driver.start(source)
            with pytest.raises(TopicNotFound, match=other):
                driver.step(source)
        fill(cluster.namesrv, topic, 2)
        with streaming(cluster.namesrv, **given, failOnDataLoss="false") as source:
            driver.start(source)
            (batch,) = driver.run(source)
        assert sum(map(len, batch)) == 2


def test_a_queue_that_ends_below_where_it_was_read_is_a_loss_with_its_range(
    cluster: Live, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    (queue,) = on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 3, queue)
    driver = Driver()
    # As if the topic had been deleted and made again, which begins with 0 on Apache's brokers.
    driver.offsets, driver.done = [json.dumps(Offsets({queue: 10}).json())], 1
    with streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        with pytest.raises(MessagesLost, match=rf"offsets \[3, 10\) of {queue} are lost") as caught:
            driver.step(source)
        assert (caught.value.start, caught.value.end) == (3, 10)
    with streaming(cluster.namesrv, subscribe=topic, failOnDataLoss="false") as source:
        driver.start(source)
        assert driver.run(source) == [[OffsetRange(queue, 0, 3)]]
        fill(cluster.namesrv, topic, 2, queue)
        assert driver.run(source) == [[OffsetRange(queue, 3, 5)]]
    assert sum("[3, 10)" in each.message for each in caplog.records) == 1


# -- a cluster of its own ----------------------------------------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[Cluster]:
    """Run a cluster whose brokers may be stopped."""
    with Cluster(brokers=2) as running:
        with Admin(running.namesrv) as admin:
            admin.create_topic("orders", 1)
        yield running


def test_a_broker_that_is_away_for_a_while_ends_nothing_and_is_named_once(
    own: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    here, away = (Queue("orders", broker, 0) for broker in own.brokers)
    fill(own.namesrv, "orders", 3, here, away)
    driver = Driver()
    with streaming(own.namesrv, subscribe="orders", startingOffsets="earliest") as source:
        driver.start(source)
        driver.run(source)
        own.stop_broker(away.broker)
        for _ in range(3):
            fill(own.namesrv, "orders", 2, here)
            (batch,) = driver.run(source)
            assert {each.queue for each in batch} == {here}
        assert sum(f"broker {away.broker} does not answer" in each.message for each in caplog.records) == 1
        assert str(away.queue_id) in json.loads(driver.offsets[-1])["q"]["orders"][away.broker]


def test_a_broker_that_comes_back_is_read_on(own: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    here, away = (Queue("orders", broker, 0) for broker in own.brokers)
    driver = Driver()
    with streaming(own.namesrv, subscribe="orders", startingOffsets="earliest") as source:
        driver.start(source)
        fill(own.namesrv, "orders", 3, here, away)
        driver.run(source)
        own.stop_broker(away.broker)
        assert driver.run(source) == []
        own.start_broker(away.broker)
        fill(own.namesrv, "orders", 2, away)
        until(lambda: driver.step(source), "what the broker took since it is back")
    assert driver.read[-1] == [OffsetRange(away, 3, 5)]
    assert [each.message for each in caplog.records][-1] == f"broker {away.broker} answers again"


def test_name_servers_that_are_away_for_a_while_end_nothing(own: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    here = Queue("orders", next(iter(own.brokers)), 0)
    driver = Driver()
    with Producer(own.namesrv) as producer, streaming(own.namesrv, subscribe="orders") as source:
        producer.send(Message("orders", b"1"), queue=here)
        driver.start(source)
        driver.run(source)
        own.stop_name_server()
        producer.send(Message("orders", b"2"), queue=here)
        assert driver.step(source) == [OffsetRange(here, 1, 2)]
    assert sum("queues that come or go are not seen" in each.message for each in caplog.records) == 1


# -- groups ------------------------------------------------------------------------------------------------------------


def committed(cluster: Live, group: str, topic: str) -> dict[Queue, int]:
    """Return how far a group is, as brokers have it; queues at 0 are left out."""
    with Admin(cluster.namesrv) as admin:
        return {each.queue: each.committed for each in admin.offsets(group, topic) if each.committed}


def test_a_groups_progress_follows_what_is_written_and_is_never_ahead(cluster: Live, topic: str) -> None:
    (queue,) = on(cluster, topic, 0)
    group = f"group-{topic}"
    fill(cluster.namesrv, topic, 12, queue)
    driver = Driver()
    given = {"subscribe": topic, "group": group, "maxOffsetsPerTrigger": "5"}
    with streaming(cluster.namesrv, **given, startingOffsets="earliest") as source:
        driver.start(source)
        driver.step(source)
        assert committed(cluster, group, topic) == {}
        driver.step(source, crash=True)
        assert committed(cluster, group, topic) == {queue: 5}
    with streaming(cluster.namesrv, **given) as source:
        driver.start(source, available_now=True)
        assert committed(cluster, group, topic) == {queue: 5}
        driver.run(source)
        # The last batch is not committed by Spark, but asked about once more.
        assert committed(cluster, group, topic) == {queue: 12}


def test_a_stream_begins_where_its_group_is(cluster: Live, topic: str) -> None:
    first, second = on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 4, first)
    given = {"subscribe": topic, "group": f"group-{topic}"}
    driver = Driver()
    with streaming(cluster.namesrv, **given, startingOffsets="earliest") as source:
        driver.start(source)
        driver.run(source)
    fill(cluster.namesrv, topic, 3, first, second)
    another = Driver()
    with streaming(cluster.namesrv, **given, startingOffsets="group") as source:
        another.start(source)
        assert another.run(source) == [[OffsetRange(first, 4, 7), OffsetRange(second, 0, 3)]]


def test_a_broker_that_does_not_take_progress_is_named_once_and_left_alone(
    cluster: Live, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    driver = Driver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", group="TOOLS_CONSUMER") as source:
        driver.start(source)

        def refuse(offsets: dict[Queue, int]) -> dict[str, Exception]:
            told.append(len(offsets))
            return {queue.broker: ConfigurationError("no") for queue in offsets}

        monkeypatch.setattr(source._asking, "commit", refuse)
        for _ in range(3):
            fill(cluster.namesrv, topic, 8)
            assert driver.run(source)
    assert len(told) == 1
    assert sum("does not take how far group" in each.message for each in caplog.records) == len(cluster.brokers)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_stream_stops_whatever_state_it_is_in(cluster: Live, topic: str) -> None:
    for steps in range(3):
        source = reader(cluster.namesrv, subscribe=topic)
        for _ in range(steps):
            source.latestOffset(source.initialOffset(), ReadAllAvailable())
        source.stop()
        source.stop()
