"""Reading one's share of a group's queues: members come and go, and nothing that was committed comes twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from tests.client.puller_scene import bodies, crash, drain, fill, make_topic, poll_until, put_all
from tests.waiting import until

from steelyard.client.blocking.puller import Puller
from steelyard.errors import ConfigurationError, QueuesLost, SubscriptionUnreadable
from steelyard.model import Queue
from steelyard.serve.embedded import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def _settle(*pullers: Puller, queues: int) -> None:
    """Poll with all until they share the queues evenly."""

    def even() -> bool:
        for puller in pullers:
            puller.poll(0)
        sizes = [len(puller.assignment) for puller in pullers]
        return sum(sizes) == queues and max(sizes) - min(sizes) <= 1

    until(even)


def _restart(cluster: Cluster) -> None:
    cluster.stop_broker("broker-0")
    cluster.start_broker("broker-0")


def _fail_after_one(puller: Puller, topic: str) -> bytes:
    """Poll one message and fail, in the puller's own block; return what it said."""
    body = b""
    with suppress(KeyError), puller:
        puller.subscribe(topic)
        (body,) = bodies(drain(puller, 1, most=1))
        raise KeyError
    return body


def test_everything_comes_once_and_in_order_within_a_queue(cluster: Cluster) -> None:
    queues = make_topic(cluster, "alone", 4)
    sent = fill(cluster, queues, 150)
    with Puller(cluster.namesrv, "share-alone", start_from="first") as puller:
        puller.subscribe("alone")
        messages = drain(puller, len(sent))
        assert set(puller.assignment) == set(queues)
    assert set(bodies(messages)) == sent
    for queue in queues:
        assert [message.offset for message in messages if message.queue == queue] == list(range(150))


def test_several_topics_are_read_together(cluster: Cluster) -> None:
    first, second = make_topic(cluster, "several-1", 1), make_topic(cluster, "several-2", 1)
    put_all(cluster, first[0], [b"one"], TAGS="paid")
    put_all(cluster, first[1], [b"no"], TAGS="lost")
    put_all(cluster, second[0], [b"two"], amount="20")
    put_all(cluster, second[1], [b"no"], amount="2")
    with Puller(cluster.namesrv, "share-several", start_from="first") as puller:
        puller.subscribe("several-1", tags="paid || refunded")
        puller.subscribe("several-2", sql="amount > 10")
        assert set(bodies(drain(puller, 2))) == {b"one", b"two"}
        with pytest.raises(ConfigurationError, match="reads already"):
            puller.subscribe("alone")


def test_what_is_not_committed_comes_again_after_a_crash(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-crash", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    puller = Puller(cluster.namesrv, "share-crash", start_from="first", auto_commit=False)
    puller.subscribe("share-crash")
    drain(puller, 5, most=5)
    puller.commit()
    assert puller.committed(queue) == 5
    drain(puller, 5, most=5)
    crash(puller)
    with Puller(cluster.namesrv, "share-crash") as again:
        again.subscribe("share-crash")
        assert bodies(drain(again, 5)) == [b"5", b"6", b"7", b"8", b"9"]


def test_what_was_polled_past_does_not_come_again_after_a_crash(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-past", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(10)])
    puller = Puller(cluster.namesrv, "share-past", start_from="first")
    puller.subscribe("share-past")
    drain(puller, 4, most=4)
    drain(puller, 3, most=3)
    until(lambda: puller.committed(queue) == 4)
    crash(puller)
    with Puller(cluster.namesrv, "share-past") as again:
        again.subscribe("share-past")
        assert [message.offset for message in drain(again, 6)] == list(range(4, 10))


def test_a_clean_end_counts_the_last_poll_and_an_exception_does_not(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-ends", 1)
    put_all(cluster, queue, [b"one", b"two", b"three"])
    with Puller(cluster.namesrv, "share-ends", start_from="first") as puller:
        puller.subscribe("share-ends")
        assert bodies(drain(puller, 1, most=1)) == [b"one"]
    assert _fail_after_one(Puller(cluster.namesrv, "share-ends"), "share-ends") == b"two"
    with Puller(cluster.namesrv, "share-ends", auto_commit=False) as puller:
        puller.subscribe("share-ends")
        assert bodies(drain(puller, 1, most=1)) == [b"two"]
    with Puller(cluster.namesrv, "share-ends") as puller:
        assert puller.committed(queue) == 1


def test_two_share_and_hand_over_with_nothing_twice(cluster: Cluster) -> None:
    queues = make_topic(cluster, "hand-over", 4)
    sent = fill(cluster, queues, 200)
    got: Counter[bytes] = Counter()
    lost: list[Queue] = []

    def go_on(*pullers: Puller) -> int:
        for puller in pullers:
            got.update(bodies(puller.poll(0.02, most=20)))
            puller.commit()
        return sum(got.values())

    with Puller(cluster.namesrv, "share-two", start_from="first", auto_commit=False) as one:
        one.subscribe("hand-over")
        one.on_move(lambda moved: lost.extend(moved.lost))
        until(lambda: go_on(one) >= 400 and len(one.assignment) == 8)
        with Puller(cluster.namesrv, "share-two", auto_commit=False) as other:
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
    with Puller(cluster.namesrv, "share-waits", start_from="first", auto_commit=False) as one:
        one.subscribe("waits")
        first = poll_until(one, lambda polled: {each.queue for each in polled} == set(queues), most=1)
        with Puller(cluster.namesrv, "share-waits", auto_commit=False) as other:
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


def test_a_commit_of_a_queue_that_was_lost_says_so(cluster: Cluster) -> None:
    queues = make_topic(cluster, "lost", 1)
    fill(cluster, queues, 10)
    with Puller(cluster.namesrv, "share-lost", start_from="first", auto_commit=False, drain_s=0.2) as one:
        one.subscribe("lost")
        poll_until(one, lambda polled: {each.queue for each in polled} == set(queues), most=1)
        with Puller(cluster.namesrv, "share-lost", auto_commit=False) as other:
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
    one = Puller(cluster.namesrv, "share-leave", start_from="first")
    one.subscribe("ends-at-once")
    with Puller(cluster.namesrv, "share-leave", start_from="first") as other:
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
    with Puller(cluster.namesrv, "share-seek", start_from="first", queue_messages=40) as puller:
        puller.subscribe("share-seek")
        drain(puller, 3, most=3)
        puller.seek(queue, 150)
        assert puller.position(queue) == 150
        assert [message.offset for message in drain(puller, 50)] == list(range(150, 200))
        puller.seek(queue, "first")
        until(lambda: puller.committed(queue) == 0)
        assert drain(puller, 1, most=1)[0].offset == 0
        puller.seek(queue, datetime.now(UTC) + timedelta(hours=1))
        put_all(cluster, queue, [b"new"])
        assert bodies(drain(puller, 1)) == [b"new"]
        with pytest.raises(ConfigurationError, match="not one of this puller's queues"):
            puller.seek(Queue("share-seek", "broker-0", 7), 1)


def test_only_what_was_polled_can_be_committed(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-named", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(20)])
    with Puller(cluster.namesrv, "share-named", start_from="first", auto_commit=False) as puller:
        puller.subscribe("share-named")
        drain(puller, 10, most=10)
        puller.commit({queue: 4})
        assert puller.committed(queue) == 4
        for wrong in (3, 11):
            with pytest.raises(ConfigurationError, match="done up to 4 and polled up to 10"):
                puller.commit({queue: wrong})
        puller.commit()
        assert puller.committed(queue) == 10


def test_what_is_polled_and_not_committed_does_not_hold_up_the_rest(cluster: Cluster) -> None:
    (queue, *_) = make_topic(cluster, "share-deep", 1)
    put_all(cluster, queue, [b"%d" % number for number in range(300)])
    with Puller(cluster.namesrv, "share-deep", start_from="first", auto_commit=False, queue_messages=20) as puller:
        puller.subscribe("share-deep")
        drain(puller, 300)
        assert puller.committed(queue) == 0
        puller.commit()
        assert puller.committed(queue) == 300


def test_a_paused_queue_keeps_its_place(cluster: Cluster) -> None:
    queues = make_topic(cluster, "share-pause", 1)
    fill(cluster, queues, 10)
    with Puller(cluster.namesrv, "share-pause", start_from="first") as puller:
        puller.subscribe("share-pause")
        puller.pause([queues[0]])
        assert {message.queue for message in drain(puller, 10)} == {queues[1]}
        until(lambda: len(puller.assignment) == 2)
        assert puller.poll(0) == []
        assert puller.position(queues[0]) == 0
        puller.resume([queues[0]])
        assert [message.offset for message in drain(puller, 10)] == list(range(10))


def test_a_topic_may_be_empty_or_come_later(cluster: Cluster) -> None:
    make_topic(cluster, "empty", 1)
    with Puller(cluster.namesrv, "share-later", start_from="first") as puller:
        puller.subscribe("empty")
        puller.subscribe("comes-later")
        assert puller.poll(0.1) == []
        (queue, *_) = make_topic(cluster, "comes-later", 1)
        put_all(cluster, queue, [b"first words"])
        assert bodies(drain(puller, 1)) == [b"first words"]


def test_a_condition_that_cannot_be_read_is_refused_by_the_first_poll(cluster: Cluster) -> None:
    make_topic(cluster, "share-condition", 1)
    with Puller(cluster.namesrv, "share-condition") as puller:
        puller.subscribe("share-condition", sql="amount >")
        with pytest.raises(SubscriptionUnreadable):
            puller.poll(1)


def test_polling_goes_on_when_a_broker_comes_back() -> None:
    with Cluster() as cluster:
        (queue, *_) = make_topic(cluster, "restart", 1)
        put_all(cluster, queue, [b"before"])
        with Puller(cluster.namesrv, "share-restart", start_from="first") as puller:
            puller.subscribe("restart")
            assert bodies(drain(puller, 1)) == [b"before"]
            puller.commit()
            restart = threading.Thread(target=_restart, args=(cluster,))
            restart.start()
            assert puller.poll(0.1) == []
            restart.join()
            put_all(cluster, queue, [b"after"])
            assert bodies(drain(puller, 1)) == [b"after"]
            puller.commit()
            assert puller.committed(queue) == 2


def test_it_says_what_it_reads_and_why(cluster: Cluster) -> None:
    make_topic(cluster, "explained", 1)
    with Puller(cluster.namesrv, "share-explained", name="reader") as puller:
        assert "nobody yet" in str(puller.explain())
        puller.subscribe("explained")
        _settle(puller, queues=2)
        said = str(puller.explain())
        assert "group share-explained: 1 member" in said
        assert "explained@broker-0:0 owned" in said
        assert "reader" in puller.id
