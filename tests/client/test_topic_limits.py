"""A limit for a whole topic is shared by the queues that one has of it, and shared again when those change."""

import re
import threading
from collections.abc import Iterator

import pytest

from steelyard.client.consumer.explain import MemberExplanation
from steelyard.client.consumer.received_message import ReceivedMessage
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.pull_consumer import PullConsumer
from steelyard.serve.embedded import Cluster
from tests.client.pull_scene import bodies, drain, fill, make_topic
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def _held(explained: MemberExplanation) -> list[int]:
    """Return how many messages of each queue are here, once none of them is pulled from."""
    found = [re.search(r"(\d+) wait and (\d+) are handled; flow control", each.why) for each in explained.queues]
    return sorted(sum(map(int, each.groups())) for each in found if each is not None)


def test_a_pull_consumer_holds_no_more_of_a_topic_than_its_limit_whatever_the_number_of_its_queues(
    cluster: Cluster,
) -> None:
    queues = make_topic(cluster, "limited", 2)
    sent = fill(cluster, queues, 60)
    first = PullConsumer(cluster.namesrv, "limits", start_from="first", topic_messages=16, pull_batch=8)
    second = PullConsumer(cluster.namesrv, "limits", start_from="first", topic_messages=16, pull_batch=8)
    with first, second:
        for each in (first, second):
            each.subscribe("limited")
            each.pause(queues)
        assert first.poll(0) == []
        # A queue is pulled from while 8 of it wait, half of 16, and a pull brings 8.
        until(lambda: _held(first.explain()) == [16, 16])
        assert second.poll(0) == []
        # After the rebalance each has one queue, which the whole limit is for.
        until(lambda: _held(first.explain()) == _held(second.explain()) == [24])
        first.resume(queues)
        second.resume(queues)
        got = bodies(drain(first, 60)) + bodies(drain(second, 60))
    assert sorted(got) == sorted(sent)


def test_a_consumer_holds_no_more_bytes_of_a_topic_than_its_limit(cluster: Cluster) -> None:
    sent = fill(cluster, make_topic(cluster, "weighed", 2), 60)
    # A body has 12 bytes or more, so that one of 8 is more than the 10 bytes which are each queue's share.
    consumer = Consumer(cluster.namesrv, group="weighers", start_from="first", topic_bytes=20, pull_batch=8, workers=1)
    may_go_on, got = threading.Event(), list[bytes]()

    @consumer.handles("weighed")
    def weigh(message: ReceivedMessage) -> None:
        may_go_on.wait()
        got.append(message.body)

    with consumer:
        until(lambda: _held(consumer.explain()) == [8, 8])
        may_go_on.set()
        until(lambda: len(got) == len(sent))
    assert set(got) == sent


def test_the_queues_that_were_assigned_share_the_limit_of_their_topic(cluster: Cluster) -> None:
    queues = make_topic(cluster, "named", 2)
    (other,) = make_topic(cluster, "named-too", 1)
    fill(cluster, [*queues, other], 60)
    with PullConsumer(cluster.namesrv, "named", start_from="first", topic_messages=16, pull_batch=8) as polling:
        polling.assign([*queues, other])
        polling.position(other)
        until(lambda: re.findall(r"(\d+) wait", str(polling.explain())) == ["8", "8", "16"])
        assert len(drain(polling, 180)) == 180
