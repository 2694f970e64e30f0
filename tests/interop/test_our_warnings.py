"""What our members say of unequal subscriptions is what happens: on our broker and on Apache's."""

import time
from collections.abc import Callable

import pytest

from steelyard import Message
from steelyard.client.sync.consumer import Consumer
from steelyard.client.sync.producer import Producer
from steelyard.model import Queue
from tests.interop.backends import Cluster
from tests.interop.wire_client import create_topic

pytestmark = pytest.mark.timeout(600)

QUEUES = 4
WAIT_S = 180.0
"""On Apache, members compare their subscriptions once the group is settled, which alone takes 35 seconds."""


def _until(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def _reported(consumer: Consumer, words: str) -> list[str]:
    return [warning.message for warning in consumer.explain().findings if words in warning.message]


def test_members_with_different_topics_say_whether_queues_stay_unread(cluster: Cluster, topic: str, group: str) -> None:
    other = f"{topic}-other"
    with cluster.connection() as connection:
        create_topic(connection, other, QUEUES)
    cluster.wait_for_route(other)
    seen: list[bytes] = []
    one = Consumer(cluster.name_server, group=group, start_from="first")
    two = Consumer(cluster.name_server, group=group, start_from="first")
    for consumer, wanted in ((one, topic), (two, other)):
        consumer.handles(wanted)(lambda message: seen.append(message.body))
    with one, two, Producer(cluster.name_server) as producer:
        _until(lambda: all(_reported(each, "other topics than most") for each in (one, two)))
        # Once they know of each other nothing moves any more, and each has its share.
        shares = 2 * QUEUES if cluster.is_ours else QUEUES
        _until(lambda: len({*one.assignment, *two.assignment}) == shares)
        sent = {
            Queue(name, cluster.broker_name, number): f"{name}-{number}".encode()
            for name in (topic, other)
            for number in range(QUEUES)
        }
        for queue, body in sent.items():
            producer.send(Message(queue.topic, body), queue=queue)
        owned = {*one.assignment, *two.assignment}
        _until(lambda: {body for queue, body in sent.items() if queue in owned} <= set(seen))
        sentences = [*_reported(one, "other topics"), *_reported(two, "other topics")]
        if cluster.is_ours:
            assert set(seen) == set(sent.values())
            assert all(
                "each topic is shared among its subscribers and all queues are read" in each for each in sentences
            )
        else:
            assert len(set(seen)) < len(sent)
            assert all("go to a member without it stay unread" in each for each in sentences)
