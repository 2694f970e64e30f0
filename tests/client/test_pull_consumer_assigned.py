"""Reading exactly the queues that were named."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from steelyard.broker.fetch import read_messages
from steelyard.broker.held_pulls import PullSpec
from steelyard.broker.state import BrokerCoreState
from steelyard.client.config import ClientConfig
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.errors import ConfigurationError, ServerFailed, SubscriptionUnreadable, TopicNotFound
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from steelyard.wire.codes import ResponseCode
from steelyard.wire.command import Command
from tests.client.pull_scene import bodies, crash, drain, fill, make_topic, put_all
from tests.serve.refused_pulls import RefusedPulls
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def test_all_messages_of_the_named_queues_come_in_order_and_no_others(cluster: Cluster) -> None:
    queues = make_topic(cluster, "some-of-it", 2)
    fill(cluster, queues, 120)
    named = [queues[0], queues[3]]
    with PullConsumer(cluster.namesrv, "assign-order", start_from="first") as consumer:
        consumer.assign(named)
        messages = drain(consumer, 240)
        assert consumer.assignment == tuple(named)
    assert {message.queue for message in messages} == set(named)
    for queue in named:
        assert [message.offset for message in messages if message.queue == queue] == list(range(120))


def test_a_poll_is_fair_over_queues(cluster: Cluster) -> None:
    queues = make_topic(cluster, "fair", 2)
    fill(cluster, queues, 100)
    with PullConsumer(cluster.namesrv, "assign-fair", start_from="first") as consumer:
        consumer.assign(queues)
        consumer.position(queues[0])
        until(lambda: all(": done up to 0, 100 wait" in str(each) for each in consumer.explain().queues))
        messages = consumer.poll(1, most=128)
    counts = [sum(message.queue == queue for message in messages) for queue in queues]
    assert counts == [32, 32, 32, 32]


def test_a_poll_returns_as_soon_as_something_is_there(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "prompt", 1)
    with PullConsumer(cluster.namesrv, "assign-prompt") as consumer:
        consumer.assign([queue])
        assert consumer.poll(0) == []
        assert consumer.position(queue) == 0
        sender = threading.Thread(target=put_all, args=(cluster, queue, [b"there"]))
        sender.start()
        assert bodies(consumer.poll(600)) == [b"there"]
        sender.join()


def test_a_queue_whose_broker_answers_empty_pulls_at_once_pauses_between_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle, busy, *_ = make_topic(cluster, "answered-at-once", 2)
    fill(cluster, [busy], 40)
    pulls: Counter[int] = Counter()

    def read(state: BrokerCoreState, spec: PullSpec, *rest: Any) -> Command:
        pulls[spec.queue_id] += spec.topic == idle.topic
        return read_messages(state, spec, *rest)

    monkeypatch.setattr("steelyard.broker.requests.pull.read_messages", read)
    monkeypatch.setattr("steelyard.broker.requests.pull._MAX_SUSPEND_MS", 0)
    # Every answer is a quick one, and a pause lasts as long as the test.
    monkeypatch.setattr("steelyard.client.pull_consumer.assigned._EMPTY_MS", 3_600_000)
    with PullConsumer(cluster.namesrv, "assign-pause", start_from="first", pull_batch=1) as consumer:
        consumer.assign([idle, busy])
        drain(consumer, 40)
        until(lambda: pulls[idle.queue_id] == 2)
        until(lambda: pulls[busy.queue_id] == 42)
    assert pulls == {idle.queue_id: 2, busy.queue_id: 42}


def test_a_group_begins_at_the_end_unless_it_is_told_otherwise(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "beginnings", 1)
    put_all(cluster, queue, [b"old"])
    with (
        PullConsumer(cluster.namesrv, "assign-last") as last,
        PullConsumer(cluster.namesrv, "assign-first", start_from="first") as first,
        PullConsumer(cluster.namesrv, "assign-time", start_from=datetime.now(UTC) - timedelta(hours=1)) as timed,
    ):
        for consumer in (last, first, timed):
            consumer.assign([queue])
        assert [consumer.position(queue) for consumer in (last, first, timed)] == [1, 0, 0]


def test_a_poll_counts_what_the_one_before_returned_as_done(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "polled-past", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    consumer = PullConsumer(cluster.namesrv, "assign-past", start_from="first")
    consumer.assign([queue])
    drain(consumer, 4, most=4)
    drain(consumer, 4, most=4)
    until(lambda: consumer.committed(queue) == 4)
    crash(consumer)
    with PullConsumer(cluster.namesrv, "assign-past") as again:
        again.assign([queue])
        assert again.poll(5)[0].offset == 4


def test_what_is_forgotten_is_not_kept_and_not_committed(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "forgotten", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    with PullConsumer(cluster.namesrv, "assign-forget", start_from="first", auto_commit=False) as consumer:
        consumer.assign([queue])
        drain(consumer, 4, most=4)
        assert "4 are polled" in str(consumer.explain().queues)
        consumer.forget()
        assert "0 are polled" in str(consumer.explain().queues)
        assert consumer.committed(queue) is None
        assert bodies(drain(consumer, 6)) == [b"4", b"5", b"6", b"7", b"8", b"9"]
        consumer.commit()
        assert consumer.committed(queue) == 10
    with PullConsumer(cluster.namesrv, "assign-forget") as sharing:
        sharing.subscribe("forgotten")
        with pytest.raises(ConfigurationError, match="commit them, or close the consumer"):
            sharing.forget()


def test_messages_come_again_after_a_crash_before_the_commit(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "crash", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    consumer = PullConsumer(cluster.namesrv, "assign-crash", start_from="first", auto_commit=False)
    consumer.assign([queue])
    drain(consumer, 5, most=5)
    consumer.commit()
    drain(consumer, 5, most=5)
    crash(consumer)
    with PullConsumer(cluster.namesrv, "assign-crash") as again:
        again.assign([queue])
        assert bodies(drain(again, 5)) == [b"5", b"6", b"7", b"8", b"9"]
        again.commit()
        assert again.committed(queue) == 10


def test_a_close_counts_the_last_poll_and_an_exception_does_not(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "ends", 1)
    put_all(cluster, queue, [b"one", b"two"])
    with PullConsumer(cluster.namesrv, "assign-ends", start_from="first") as consumer:
        consumer.assign([queue])
        assert bodies(drain(consumer, 1, most=1)) == [b"one"]
    with suppress(KeyError), PullConsumer(cluster.namesrv, "assign-ends") as consumer:
        consumer.assign([queue])
        assert bodies(drain(consumer, 1, most=1)) == [b"two"]
        raise KeyError
    with PullConsumer(cluster.namesrv, "assign-ends") as consumer:
        assert consumer.committed(queue) == 1


def test_an_offset_that_the_user_names_is_stored_as_it_is(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "named-offset", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    with PullConsumer(cluster.namesrv, "assign-named", start_from="first", auto_commit=False) as consumer:
        assert consumer.committed(queue) is None
        consumer.assign([queue])
        drain(consumer, 10)
        consumer.commit({queue: 7})
        assert consumer.committed(queue) == 7
        with pytest.raises(ConfigurationError, match="not assigned"):
            consumer.commit({Queue("named-offset", "broker-1", 0): 3})


def test_a_seek_forgets_what_was_fetched_ahead(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "seek", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(200)])
    with PullConsumer(cluster.namesrv, "assign-seek", start_from="first", queue_messages=50) as consumer:
        consumer.assign([queue])
        drain(consumer, 3, most=3)
        consumer.seek(queue, 150)
        assert consumer.position(queue) == 150
        assert [message.offset for message in drain(consumer, 50)] == list(range(150, 200))
        consumer.seek(queue, "first")
        assert drain(consumer, 1, most=1)[0].offset == 0
        consumer.seek(queue, "last")
        put_all(cluster, queue, [b"new"])
        assert bodies(drain(consumer, 1)) == [b"new"]
        consumer.seek(queue, datetime.now(UTC) - timedelta(hours=1))
        assert drain(consumer, 1, most=1)[0].offset == 0
        with pytest.raises(ConfigurationError, match="no offset -1"):
            consumer.seek(queue, -1)


def test_a_seek_may_come_before_the_first_poll(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "seek-first", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(5)])
    with PullConsumer(cluster.namesrv, "assign-seek-first") as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 3)
        assert [message.offset for message in drain(consumer, 2)] == [3, 4]


def test_an_offset_out_of_range_is_corrected_and_said_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    (queue, *_) = make_topic(cluster, "out-of-range", 1)
    put_all(cluster, queue, [b"0", b"1"])
    with PullConsumer(cluster.namesrv, "assign-range") as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 1_000)
        until(lambda: consumer.position(queue) == 2)
        consumer.seek(queue, 2_000)
        until(lambda: consumer.position(queue) == 2)
        put_all(cluster, queue, [b"2"])
        assert bodies(drain(consumer, 1)) == [b"2"]
    assert len([each for each in caplog.messages if "has no offset" in each]) == 1


def test_a_paused_queue_keeps_its_place(cluster: Cluster) -> None:
    queues = make_topic(cluster, "pause", 1)
    fill(cluster, queues, 10)
    with PullConsumer(cluster.namesrv, "assign-pause", start_from="first") as consumer:
        consumer.assign(queues)
        consumer.pause([queues[0]])
        assert consumer.paused == {queues[0]}
        assert {message.queue for message in drain(consumer, 10)} == {queues[1]}
        assert consumer.poll(0) == []
        assert consumer.position(queues[0]) == 0
        consumer.resume([queues[0]])
        assert [message.offset for message in drain(consumer, 10)] == list(range(10))


def test_what_is_fetched_ahead_is_bounded(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "bounded", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(100)])
    with PullConsumer(
        cluster.namesrv, "assign-bounded", start_from="first", queue_messages=20, pull_batch=8
    ) as consumer:
        consumer.assign([queue])
        consumer.position(queue)
        until(lambda: ", 24 wait" in str(consumer.explain()))
        assert [message.offset for message in drain(consumer, 100)] == list(range(100))
    with PullConsumer(cluster.namesrv, "assign-bytes", start_from="first", queue_bytes=1, pull_batch=8) as consumer:
        consumer.assign([queue])
        consumer.position(queue)
        until(lambda: ", 8 wait" in str(consumer.explain()))
        assert len(drain(consumer, 100)) == 100


def test_tags_and_conditions_are_applied_without_a_heartbeat(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "filtered", 1)
    put_all(cluster, queue, [b"a"], TAGS="paid", amount="5")
    put_all(cluster, queue, [b"b"], TAGS="lost", amount="15")
    put_all(cluster, queue, [b"c"], TAGS="paid", amount="25")
    put_all(cluster, queue, [b"d"], TAGS="lost", amount="1")
    with PullConsumer(cluster.namesrv, "assign-tags", start_from="first") as consumer:
        consumer.assign([queue], tags="paid")
        assert bodies(drain(consumer, 2)) == [b"a", b"c"]
        until(lambda: consumer.position(queue) == 4)
        consumer.commit()
        assert consumer.committed(queue) == 4
    with PullConsumer(cluster.namesrv, "assign-sql", start_from="first") as consumer:
        consumer.assign([queue], sql="amount > 10")
        assert bodies(drain(consumer, 2)) == [b"b", b"c"]


def test_what_cannot_be_read_is_reported_by_the_poll(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "unreadable", 1)
    with PullConsumer(cluster.namesrv, "assign-missing") as consumer:
        consumer.assign([Queue("nowhere-at-all", "broker-0", 0)])
        with pytest.raises(TopicNotFound, match="nowhere-at-all"):
            consumer.poll(1)
    with PullConsumer(cluster.namesrv, "assign-number") as consumer:
        consumer.assign([Queue("unreadable", "broker-0", 9)])
        with pytest.raises(ConfigurationError, match=r"no queue unreadable@broker-0:9.*unreadable@broker-0:0"):
            consumer.poll(1)
    with PullConsumer(cluster.namesrv, "assign-condition") as consumer:
        consumer.assign([queue], sql="amount >")
        with pytest.raises(SubscriptionUnreadable):
            consumer.poll(1)


def test_messages_on_which_the_brokers_judging_fails_are_passed_over_with_one_line_in_its_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (queue, *_) = make_topic(cluster, "judged", 1)
    for amount in ("0E", "11", "0E", "0E", "12"):
        put_all(cluster, queue, [amount.encode()], amount=amount)
    monkeypatch.setattr("steelyard.broker.filters.parse_fraction", float)  # which raises for 0E
    with PullConsumer(cluster.namesrv, "assign-judged", start_from="first") as consumer:
        consumer.assign([queue], sql="amount > 10.5")
        assert bodies(drain(consumer, 2)) == [b"11", b"12"]
        until(lambda: consumer.position(queue) == 5)
    until(lambda: any("cannot be evaluated" in record.getMessage() for record in caplog.records))
    reported = [record for record in caplog.records if "cannot be evaluated" in record.getMessage()]
    assert [(record.name, record.levelname) for record in reported] == [("steelyard.broker", "WARNING")]


def test_a_broker_that_fails_again_and_again_is_told_to_who_polls_and_one_that_recovers_is_not(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (queue, *_) = make_topic(cluster, "failing", 1)
    put_all(cluster, queue, [b"there"])
    refusing = RefusedPulls(monkeypatch, "failing", ResponseCode.SYSTEM_ERROR, left=9)
    monkeypatch.setattr("steelyard.client.pull_consumer.assigned._RETRY_DELAYS_S", (0.001,))
    with PullConsumer(cluster.namesrv, "assign-failing", start_from="first") as consumer:
        consumer.assign([queue])
        assert bodies(consumer.poll(20)) == [b"there"]
        refusing.left = None
        consumer.seek(queue, 0)
        with pytest.raises(ServerFailed, match=f"{queue.broker} answered 1: it failed \\(no pull"):
            consumer.poll(20)
        refusing.left = 2
        until(lambda: "done up to 0, 1 wait" in str(consumer.explain().queues[0]))
        assert bodies(consumer.poll(0)) == [b"there"]
        assert consumer.poll(0) == []  # Those last two refusals are over, and nobody is told.
    reported = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(reported) == 1


def test_wishes_that_exclude_each_other_are_refused(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "wishes", 1)
    with PullConsumer(cluster.namesrv, "assign-wishes") as consumer:
        with pytest.raises(ConfigurationError, match="has nothing to read"):
            consumer.poll(0)
        with pytest.raises(ConfigurationError, match="no queue is assigned"):
            consumer.assign([])
        with pytest.raises(ConfigurationError, match="tags and by an SQL"):
            consumer.assign([queue], tags="a", sql="b = 1")
        consumer.assign([queue])
        with pytest.raises(ConfigurationError, match="queues are assigned"):
            consumer.subscribe("wishes")
        consumer.poll(0)
        with pytest.raises(ConfigurationError, match="reads already"):
            consumer.assign([queue])
        with pytest.raises(ConfigurationError, match="give 1 or more"):
            consumer.poll(1, most=0)
    with PullConsumer(cluster.namesrv, "assign-wishes") as consumer:
        consumer.subscribe("wishes")
        with pytest.raises(ConfigurationError, match="subscribed to topics"):
            consumer.assign([queue])
        with pytest.raises(ConfigurationError, match="already"):
            consumer.subscribe("wishes", tags="paid")


def test_queues_can_be_asked_about_without_reading(cluster: Cluster) -> None:
    queues = make_topic(cluster, "asked", 2)
    fill(cluster, queues[:2], 3)
    with PullConsumer(cluster.namesrv, "assign-asked") as consumer:
        assert consumer.queues("asked") == queues
        assert consumer.ends(queues) == dict(zip(queues, [3, 3, 0, 0], strict=True))
        assert consumer.begins(queues) == dict.fromkeys(queues, 0)
        assert consumer.offset_at(queues[0], datetime.now(UTC) - timedelta(hours=1)) == 0
        assert consumer.committed(queues[0]) is None
        with pytest.raises(TopicNotFound):
            consumer.queues("not-there")


def test_reading_goes_on_when_a_broker_comes_back() -> None:
    with Cluster() as cluster:
        (queue, *_) = make_topic(cluster, "restart", 1)
        put_all(cluster, queue, [b"before"])
        with PullConsumer(cluster.namesrv, "assign-restart", start_from="first") as consumer:
            consumer.assign([queue])
            assert bodies(drain(consumer, 1)) == [b"before"]
            cluster.stop_broker("broker-0")
            assert consumer.poll(0) == []
            cluster.start_broker("broker-0")
            put_all(cluster, queue, [b"after"])
            assert bodies(drain(consumer, 1)) == [b"after"]


def test_a_namespace_is_never_seen(cluster: Cluster) -> None:
    make_topic(cluster, "eu%orders", 1)
    put_all(cluster, Queue("eu%orders", "broker-0", 0), [b"here"])
    with PullConsumer(ClientConfig(cluster.namesrv, namespace="eu"), "report", start_from="first") as consumer:
        queues = consumer.queues("orders")
        assert {queue.topic for queue in queues} == {"orders"}
        consumer.assign(queues)
        (message,) = drain(consumer, 1)
        assert message.topic == "orders"
        consumer.commit({message.queue: 1})
        assert consumer.committed(queues[0]) == 1
    with PullConsumer(cluster.namesrv, "eu%report") as bare:
        assert bare.committed(Queue("eu%orders", "broker-0", 0)) == 1
