"""What happens while a stream runs: queues, topics and brokers come and go, messages are lost, a group follows."""

import json
from collections.abc import Iterable, Iterator

import pytest

from steelyard import Admin, Message, Producer
from steelyard.client.session import Session
from steelyard.errors import ConfigurationError, GroupNotFound, MessagesLost, TopicNotFound
from steelyard.model import OffsetRange, Queue
from steelyard.serve.embedded import Cluster
from steelyard.spark.cluster_client import ClusterClient, QueueBounds
from steelyard.spark.stream_offset import StreamOffset
from steelyard.testing.fault_host import FaultyCluster
from tests.live.clusters import Live, until
from tests.spark.stream_driver import StreamDriver, fill, queues_on, spans, streaming


@pytest.fixture(autouse=True)
def looks_for_queues_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new queues be seen at once, and brokers that are away be given up at once."""
    monkeypatch.setattr("steelyard.spark.queue_monitor._LAYOUT_INTERVAL_MS", 0)
    monkeypatch.setattr("steelyard.spark.queue_monitor._BACKOFF_MS", 0)
    monkeypatch.setattr("steelyard.spark.queue_monitor.RETRY_PAUSES_S", (0.0,))


# -- queues that come and go -------------------------------------------------------------------------------------------


def test_queues_that_are_added_begin_at_their_first_message(cluster: Live, topic: str) -> None:
    driver = StreamDriver()
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribe=topic) as source:
        driver.start(source)
        driver.run(source)
        admin.topics.add_queues(topic, 5)
        (added,) = queues_on(cluster, topic, 4)
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
    driver = StreamDriver()
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribePattern=f"{topic}-.*") as source:
        driver.start(source)
        assert driver.run(source) == [[]]
        admin.topics.create(later, 1)
        fill(cluster.namesrv, later, 4, Queue(later, cluster.brokers[1], 0))
        assert driver.run(source) == [[OffsetRange(Queue(later, cluster.brokers[1], 0), 0, 4)]]


def test_a_topic_that_is_deleted_after_it_was_read_ends_nothing(cluster: Live, topic: str) -> None:
    other = f"{topic}-b"
    driver = StreamDriver()
    with Admin(cluster.namesrv) as admin:
        admin.topics.create(other, 1)
        fill(cluster.namesrv, other, 3)
        with streaming(cluster.namesrv, subscribe=f"{topic},{other}", startingOffsets="earliest") as source:
            driver.start(source)
            driver.run(source)
            admin.topics.delete(other)
            assert driver.run(source) == []
            fill(cluster.namesrv, topic, 2)
            (batch,) = driver.run(source)
    assert sum(map(len, batch)) == 2


@pytest.mark.parametrize("careful", [True, False])
def test_a_topic_that_is_deleted_before_it_was_read_is_a_loss_of_exactly_that(
    cluster: Live, topic: str, caplog: pytest.LogCaptureFixture, careful: bool
) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 8, queue)
    driver = StreamDriver()
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5", "failOnDataLoss": str(careful)}
    with Admin(cluster.namesrv) as admin, streaming(cluster.namesrv, subscribe=topic, **given) as source:
        driver.start(source)
        driver.step(source)
        admin.topics.delete(topic)
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
    driver = StreamDriver()
    for given in ({"subscribe": f"{topic},{other}"}, {"subscribePattern": f"{topic}.*"}):
        with Admin(cluster.namesrv) as admin:
            admin.topics.create(other, 1)
            with streaming(cluster.namesrv, **given, startingOffsets="earliest") as source:
                driver.start(source)
                driver.run(source)
            admin.topics.delete(other)
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
    (queue,) = queues_on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 3, queue)
    driver = StreamDriver()
    # As if the topic had been deleted and made again, which begins with 0 on Apache's brokers.
    driver.offsets, driver.done = [json.dumps(StreamOffset({queue: 10}).encode())], 1
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


def test_a_queue_that_was_made_anew_is_read_whole_even_if_it_grows_beyond_where_it_was_read(
    cluster: Live, topic: str
) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    driver = StreamDriver()
    driver.offsets, driver.done = [json.dumps(StreamOffset({queue: 4}).encode())], 1
    with streaming(cluster.namesrv, subscribe=topic, failOnDataLoss="false") as source:
        driver.start(source)
        assert driver.step(source) == []
        fill(cluster.namesrv, topic, 4, queue)
        assert driver.run(source) == [[OffsetRange(queue, 0, 4)]]


def test_messages_that_take_the_place_of_lost_ones_are_read_once(
    cluster: Live, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    fill(cluster.namesrv, topic, 8, queue)
    driver = StreamDriver()
    # As if a replica had become the master that had not heard of the last two, and older ones had been removed.
    driver.offsets, driver.done = [json.dumps(StreamOffset({queue: 10}).encode())], 1
    ask = ClusterClient.bounds

    def older(asking: ClusterClient, queues: Iterable[Queue]) -> QueueBounds:
        reported = ask(asking, queues)
        reported.known[queue] = 5, reported.known[queue][1]
        return reported

    monkeypatch.setattr(ClusterClient, "bounds", older)
    with streaming(cluster.namesrv, subscribe=topic, failOnDataLoss="false") as source:
        driver.start(source)
        assert driver.run(source) == [[]]
        fill(cluster.namesrv, topic, 1, queue)
        assert driver.run(source) == [[OffsetRange(queue, 8, 9)]]


# -- a cluster of its own ----------------------------------------------------------------------------------------------


@pytest.fixture
def own() -> Iterator[FaultyCluster]:
    """Run a cluster whose brokers may be stopped."""
    with FaultyCluster(brokers=2) as running:
        with Admin(running.namesrv) as admin:
            admin.topics.create("orders", 1)
        yield running


def test_a_broker_that_is_away_for_a_while_ends_nothing_and_is_named_once(
    own: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    here, away = (Queue("orders", broker, 0) for broker in own.brokers)
    fill(own.namesrv, "orders", 3, here, away)
    driver = StreamDriver()
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


def test_a_broker_that_takes_its_time_holds_a_query_up_once_and_is_then_left_alone(
    own: FaultyCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("steelyard.spark.queue_monitor._BACKOFF_MS", 60_000)
    for function in (Session.request, Session.request_ok):
        assert function.__kwdefaults__ is not None
        monkeypatch.setitem(function.__kwdefaults__, "timeout_ms", 3_000)
    here, slow = (Queue("orders", broker, 0) for broker in own.brokers)
    driver = StreamDriver()
    with streaming(own.namesrv, subscribe="orders", startingOffsets="earliest") as source:
        driver.start(source)
        driver.run(source)
        own.slow_broker(slow.broker, 3_600_000)
        for _ in range(3):
            fill(own.namesrv, "orders", 2, here)
            assert [spans(batch) for batch in driver.run(source)] == [[(driver.total() - 2, driver.total())]]
    own.slow_broker(slow.broker, 0)
    assert sum(f"broker {slow.broker} does not answer" in each.message for each in caplog.records) == 1


def test_a_broker_that_comes_back_is_read_on(own: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    here, away = (Queue("orders", broker, 0) for broker in own.brokers)
    driver = StreamDriver()
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


def test_a_broker_whose_queues_are_not_read_any_more_is_not_asked(
    own: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    here, away = (Queue("orders", broker, 0) for broker in own.brokers)
    fill(own.namesrv, "orders", 3, here, away)
    driver = StreamDriver()
    both = {"assign": json.dumps({"orders": {here.broker: [0], away.broker: [0]}}), "startingOffsets": "earliest"}
    with streaming(own.namesrv, **both) as source:
        driver.start(source)
        driver.run(source)
    own.stop_broker(away.broker)
    fill(own.namesrv, "orders", 2, here)
    with streaming(own.namesrv, assign=json.dumps({"orders": {here.broker: [0]}})) as source:
        driver.start(source)
        assert driver.run(source) == [[OffsetRange(here, 3, 5)]]
    assert not [each for each in caplog.records if away.broker in each.message]


def test_name_servers_that_are_away_for_a_while_end_nothing(own: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    here = Queue("orders", next(iter(own.brokers)), 0)
    driver = StreamDriver()
    with Producer(own.namesrv) as producer, streaming(own.namesrv, subscribe="orders") as source:
        producer.send(Message("orders", b"1"), queue=here)
        driver.start(source)
        driver.run(source)
        own.stop_name_server()
        producer.send(Message("orders", b"2"), queue=here)
        assert driver.step(source) == [OffsetRange(here, 1, 2)]
    assert sum("added and deleted queues are not noticed" in each.message for each in caplog.records) == 1


# -- groups ------------------------------------------------------------------------------------------------------------


def committed(cluster: Live, group: str, topic: str) -> dict[Queue, int]:
    """Return how far a group is, as brokers have it; queues at 0 are left out."""
    with Admin(cluster.namesrv) as admin:
        try:
            return {each.queue: each.committed for each in admin.offsets.list(group, topic) if each.committed}
        except GroupNotFound:
            return {}  # it comes with its first offset


def test_a_groups_progress_follows_what_is_written_and_is_never_ahead(cluster: Live, topic: str) -> None:
    (queue,) = queues_on(cluster, topic, 0)
    group = f"group-{topic}"
    fill(cluster.namesrv, topic, 12, queue)
    driver = StreamDriver()
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
    first, second = queues_on(cluster, topic, 0, 1)
    fill(cluster.namesrv, topic, 4, first)
    given = {"subscribe": topic, "group": f"group-{topic}"}
    driver = StreamDriver()
    with streaming(cluster.namesrv, **given, startingOffsets="earliest") as source:
        driver.start(source)
        driver.run(source)
    fill(cluster.namesrv, topic, 3, first, second)
    another = StreamDriver()
    with streaming(cluster.namesrv, **given, startingOffsets="group") as source:
        another.start(source)
        assert another.run(source) == [[OffsetRange(first, 4, 7), OffsetRange(second, 0, 3)]]


def test_a_broker_that_does_not_take_progress_is_named_once_and_left_alone(
    cluster: Live, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[int] = []
    driver = StreamDriver()
    with streaming(cluster.namesrv, subscribe=topic, startingOffsets="earliest", group="TOOLS_CONSUMER") as source:
        driver.start(source)

        def refuse(offsets: dict[Queue, int]) -> dict[str, Exception]:
            reported.append(len(offsets))
            return {queue.broker: ConfigurationError("no") for queue in offsets}

        monkeypatch.setattr(source._client, "commit", refuse)
        for _ in range(3):
            fill(cluster.namesrv, topic, 8)
            assert driver.run(source)
    assert len(reported) == 1
    assert sum("did not store the offsets of group" in each.message for each in caplog.records) == len(cluster.brokers)
