"""Reading one's share of a group's queues: members come and go, and nothing that was committed comes twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.errors import ConfigurationError, QueuesLost, SubscriptionUnreadable
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster
from tests.client.pull_scene import bodies, crash, drain, fill, make_topic, poll_until, put_all
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def _settle(*consumers: PullConsumer, queues: int) -> None:
    """Poll with all until they share the queues evenly."""

    def even() -> bool:
        for consumer in consumers:
            consumer.poll(0)
        sizes = [len(consumer.assignment) for consumer in consumers]
        return sum(sizes) == queues and max(sizes) - min(sizes) <= 1

    until(even)


def _restart(cluster: Cluster) -> None:
    cluster.stop_broker("broker-0")
    cluster.start_broker("broker-0")


def _fail_after_one(consumer: PullConsumer, topic: str) -> bytes:
    """Poll one message and fail, in the pull consumer's own block; return what it said."""
    body = b""
    with suppress(KeyError), consumer:
        consumer.subscribe(topic)
        (body,) = bodies(drain(consumer, 1, most=1))
        raise KeyError
    return body


def test_everything_comes_once_and_in_order_within_a_queue(cluster: Cluster) -> None:
    queues = make_topic(cluster, "alone", 4)
    sent = fill(cluster, queues, 150)
    with PullConsumer(cluster.namesrv, "share-alone", start_from="first") as consumer:
        consumer.subscribe("alone")
        messages = drain(consumer, len(sent))
        assert set(consumer.assignment) == set(queues)
    assert set(bodies(messages)) == sent
    for queue in queues:
        assert [message.offset for message in messages if message.queue == queue] == list(range(150))


def test_several_topics_are_read_together(cluster: Cluster) -> None:
    first, second = make_topic(cluster, "several-1", 1), make_topic(cluster, "several-2", 1)
    put_all(cluster, first[0], [b"one"], TAGS="paid")
    put_all(cluster, first[1], [b"no"], TAGS="lost")
    put_all(cluster, second[0], [b"two"], amount="20")
    put_all(cluster, second[1], [b"no"], amount="2")
    with PullConsumer(cluster.namesrv, "share-several", start_from="first") as consumer:
        consumer.subscribe("several-1", tags="paid || refunded")
        consumer.subscribe("several-2", sql="amount > 10")
        assert set(bodies(drain(consumer, 2))) == {b"one", b"two"}
        with pytest.raises(ConfigurationError, match="reads already"):
            consumer.subscribe("alone")


def test_what_is_not_committed_comes_again_after_a_crash(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-crash", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    consumer = PullConsumer(cluster.namesrv, "share-crash", start_from="first", auto_commit=False)
    consumer.subscribe("share-crash")
    drain(consumer, 5, most=5)
    consumer.commit()
    assert consumer.committed(queue) == 5
    drain(consumer, 5, most=5)
    crash(consumer)
    with PullConsumer(cluster.namesrv, "share-crash") as again:
        again.subscribe("share-crash")
        assert bodies(drain(again, 5)) == [b"5", b"6", b"7", b"8", b"9"]


def test_what_was_polled_past_does_not_come_again_after_a_crash(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-past", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    consumer = PullConsumer(cluster.namesrv, "share-past", start_from="first")
    consumer.subscribe("share-past")
    drain(consumer, 4, most=4)
    drain(consumer, 3, most=3)
    until(lambda: consumer.committed(queue) == 4)
    crash(consumer)
    with PullConsumer(cluster.namesrv, "share-past") as again:
        again.subscribe("share-past")
        assert [message.offset for message in drain(again, 6)] == list(range(4, 10))


def test_a_clean_end_counts_the_last_poll_and_an_exception_does_not(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-ends", 1)
    put_all(cluster, queue, [b"one", b"two", b"three"])
    with PullConsumer(cluster.namesrv, "share-ends", start_from="first") as consumer:
        consumer.subscribe("share-ends")
        assert bodies(drain(consumer, 1, most=1)) == [b"one"]
    assert _fail_after_one(PullConsumer(cluster.namesrv, "share-ends"), "share-ends") == b"two"
    with PullConsumer(cluster.namesrv, "share-ends", auto_commit=False) as consumer:
        consumer.subscribe("share-ends")
        assert bodies(drain(consumer, 1, most=1)) == [b"two"]
    with PullConsumer(cluster.namesrv, "share-ends") as consumer:
        assert consumer.committed(queue) == 1


def test_two_share_and_hand_over_with_nothing_twice(cluster: Cluster) -> None:
    queues = make_topic(cluster, "hand-over", 4)
    sent = fill(cluster, queues, 200)
    got: Counter[bytes] = Counter()
    lost: list[Queue] = []

    def go_on(*consumers: PullConsumer) -> int:
        for consumer in consumers:
            got.update(bodies(consumer.poll(0.02, most=20)))
            consumer.commit()
        return sum(got.values())

    with PullConsumer(cluster.namesrv, "share-two", start_from="first", auto_commit=False) as one:
        one.subscribe("hand-over")
        one.on_rebalance(lambda moved: lost.extend(moved.lost))
        until(lambda: go_on(one) >= 400 and len(one.assignment) == 8)
        with PullConsumer(cluster.namesrv, "share-two", auto_commit=False) as other:
            other.subscribe("hand-over")
            until(lambda: go_on(one, other) >= 1_000 and len(other.assignment) == 4)
            assert set(one.assignment) | set(other.assignment) == set(queues)
        until(lambda: len(one.assignment) == 8)
        until(lambda: go_on(one) >= len(sent))
        assert one.poll(0) == []
    assert set(got) == sent
    assert max(got.values()) == 1
    assert not lost


def test_a_queue_that_goes_gives_back_what_nobody_polled_and_waits_for_the_rest(cluster: Cluster) -> None:
    queues = make_topic(cluster, "waits", 1)
    fill(cluster, queues, 50)
    with PullConsumer(cluster.namesrv, "share-waits", start_from="first", auto_commit=False) as one:
        one.subscribe("waits")
        first = poll_until(one, lambda polled: {each.queue for each in polled} == set(queues), most=1)
        with PullConsumer(cluster.namesrv, "share-waits", auto_commit=False) as other:
            other.subscribe("waits")
            until(lambda: other.poll(0) == [] and len(one.assignment) == 1)
            # It went by plan, and nobody has it: one message of it is polled and not committed.
            assert other.poll(0.5) == []
            assert other.assignment == ()
            one.commit()
            (gone,) = set(queues) - set(one.assignment)
            polled = [each.offset for each in first if each.queue == gone]
            rest = poll_until(other, lambda found: len(found) >= 50 - len(polled))
            assert sorted([*polled, *(each.offset for each in rest)]) == list(range(50))
            assert {each.queue for each in rest} == {gone}


def test_a_commit_of_a_queue_that_was_lost_reports_it(cluster: Cluster) -> None:
    queues = make_topic(cluster, "lost", 1)
    fill(cluster, queues, 10)
    with PullConsumer(cluster.namesrv, "share-lost", start_from="first", auto_commit=False, drain_s=0.2) as one:
        one.subscribe("lost")
        poll_until(one, lambda polled: {each.queue for each in polled} == set(queues), most=1)
        with PullConsumer(cluster.namesrv, "share-lost", auto_commit=False) as other:
            other.subscribe("lost")
            polled = poll_until(other, bool)
            (gone,) = {each.queue for each in polled}
            assert min(each.offset for each in polled) == 0
            with pytest.raises(QueuesLost, match=str(gone)) as raised:
                one.commit()
            assert raised.value.queues == (str(gone),)
            one.commit()
            (kept,) = one.assignment
            assert (one.committed(kept) or 0) >= 1


def test_a_member_that_ends_hands_over_at_once(cluster: Cluster) -> None:
    queues = make_topic(cluster, "ends-at-once", 2)
    sent = fill(cluster, queues, 150)
    got: list[bytes] = []
    one = PullConsumer(cluster.namesrv, "share-leave", start_from="first")
    one.subscribe("ends-at-once")
    with PullConsumer(cluster.namesrv, "share-leave", start_from="first") as other:
        other.subscribe("ends-at-once")
        for _ in range(1_000):
            got += bodies(one.poll(0.02, most=5)) + bodies(other.poll(0.02, most=5))
            if len(other.assignment) == 2:
                break
        one.close()
        until(lambda: set(other.assignment) == set(queues))
        got += bodies(drain(other, len(sent) - len(got)))
    assert sorted(got) == sorted(sent)


def test_a_seek_is_the_groups_new_offset(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-seek", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(200)])
    with PullConsumer(cluster.namesrv, "share-seek", start_from="first", queue_messages=40) as consumer:
        consumer.subscribe("share-seek")
        drain(consumer, 3, most=3)
        consumer.seek(queue, 150)
        assert consumer.position(queue) == 150
        assert [message.offset for message in drain(consumer, 50)] == list(range(150, 200))
        consumer.seek(queue, "first")
        until(lambda: consumer.committed(queue) == 0)
        assert drain(consumer, 1, most=1)[0].offset == 0
        consumer.seek(queue, datetime.now(UTC) + timedelta(hours=1))
        put_all(cluster, queue, [b"new"])
        assert bodies(drain(consumer, 1)) == [b"new"]
        with pytest.raises(ConfigurationError, match="not one of this consumer's queues"):
            consumer.seek(Queue("share-seek", "broker-0", 7), 1)


def test_only_what_was_polled_can_be_committed(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-named", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(20)])
    with PullConsumer(cluster.namesrv, "share-named", start_from="first", auto_commit=False) as consumer:
        consumer.subscribe("share-named")
        drain(consumer, 10, most=10)
        consumer.commit({queue: 4})
        assert consumer.committed(queue) == 4
        for wrong in (3, 11):
            with pytest.raises(ConfigurationError, match="done up to 4 and polled up to 10"):
                consumer.commit({queue: wrong})
        consumer.commit()
        assert consumer.committed(queue) == 10


def test_what_is_polled_and_not_committed_does_not_hold_up_the_rest(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-deep", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(300)])
    with PullConsumer(
        cluster.namesrv, "share-deep", start_from="first", auto_commit=False, queue_messages=20
    ) as consumer:
        consumer.subscribe("share-deep")
        drain(consumer, 300)
        assert consumer.committed(queue) == 0
        consumer.commit()
        assert consumer.committed(queue) == 300


def test_a_paused_queue_keeps_its_place(cluster: Cluster) -> None:
    queues = make_topic(cluster, "share-pause", 1)
    fill(cluster, queues, 10)
    with PullConsumer(cluster.namesrv, "share-pause", start_from="first") as consumer:
        consumer.subscribe("share-pause")
        consumer.pause([queues[0]])
        assert {message.queue for message in drain(consumer, 10)} == {queues[1]}
        until(lambda: len(consumer.assignment) == 2)
        assert consumer.poll(0) == []
        assert consumer.position(queues[0]) == 0
        consumer.resume([queues[0]])
        assert [message.offset for message in drain(consumer, 10)] == list(range(10))


def test_a_topic_may_be_empty_or_come_later(cluster: Cluster) -> None:
    make_topic(cluster, "empty", 1)
    with PullConsumer(cluster.namesrv, "share-later", start_from="first") as consumer:
        consumer.subscribe("empty")
        consumer.subscribe("comes-later")
        assert consumer.poll(0.1) == []
        (queue, *_) = make_topic(cluster, "comes-later", 1)
        put_all(cluster, queue, [b"first words"])
        assert bodies(drain(consumer, 1)) == [b"first words"]


def test_a_condition_that_cannot_be_read_is_refused_by_the_first_poll(cluster: Cluster) -> None:
    make_topic(cluster, "share-condition", 1)
    with PullConsumer(cluster.namesrv, "share-condition") as consumer:
        consumer.subscribe("share-condition", sql="amount >")
        with pytest.raises(SubscriptionUnreadable):
            consumer.poll(1)


def test_polling_goes_on_when_a_broker_comes_back() -> None:
    with Cluster() as cluster:
        (queue, *_) = make_topic(cluster, "restart", 1)
        put_all(cluster, queue, [b"before"])
        with PullConsumer(cluster.namesrv, "share-restart", start_from="first") as consumer:
            consumer.subscribe("restart")
            assert bodies(drain(consumer, 1)) == [b"before"]
            consumer.commit()
            restart = threading.Thread(target=_restart, args=(cluster,))
            restart.start()
            assert consumer.poll(0.1) == []
            restart.join()
            put_all(cluster, queue, [b"after"])
            assert bodies(drain(consumer, 1)) == [b"after"]
            consumer.commit()
            assert consumer.committed(queue) == 2


def test_it_says_what_it_reads_and_why(cluster: Cluster) -> None:
    make_topic(cluster, "explained", 1)
    with PullConsumer(cluster.namesrv, "share-explained", name="reader") as consumer:
        assert "no members yet" in str(consumer.explain())
        consumer.subscribe("explained")
        _settle(consumer, queues=2)
        description = str(consumer.explain())
        assert "group share-explained: 1 member" in description
        assert "explained@broker-0:0 owned" in description
        assert "reader" in consumer.id
